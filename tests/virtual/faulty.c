// A server of two threads that counts datagrams, right or with a fault that a sanitizer finds when the network brings what it needs:
//   faulty serve right|overflow|shift|race, faulty send HOST
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DATAGRAMS = 20, BYTES = 100, ROOM = 64, THREADS = 2 };
static const char *fault;
static int server;
static int count, sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int has(const char *what) { return !strcmp(fault, what); }

// A datagram of one byte is the end of a thread.
static void *receive(void *unused)
{
    char datagram[2048];
    ssize_t bytes;
    while ((bytes = recv(server, datagram, sizeof datagram, 0)) > 1) {
        char *copy = malloc(ROOM);
        memcpy(copy, datagram, has("overflow") || bytes < ROOM ? (size_t)bytes : ROOM);
        int amount = has("shift") ? 1 << bytes : copy[ROOM - 1];
        free(copy);
        if (!has("race"))
            pthread_mutex_lock(&lock);
        count++;
        sum += amount;
        if (!has("race"))
            pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void serve(void)
{
    struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(7000) };
    pthread_t threads[THREADS];
    server = socket(AF_INET6, SOCK_DGRAM, 0);
    if (bind(server, (struct sockaddr *)&any, sizeof any) != 0) {
        perror("bind");
        exit(2);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, receive, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d datagrams, %d\n", count, sum);
}

static void send_all(const char *host)
{
    struct addrinfo hints = { .ai_socktype = SOCK_DGRAM }, *to;
    char datagram[BYTES];
    if (getaddrinfo(host, "7000", &hints, &to) != 0)
        exit(2);
    int client = socket(to->ai_family, SOCK_DGRAM, 0);
    memset(datagram, 3, sizeof datagram);
    for (int i = 0; i < DATAGRAMS + THREADS; i++) {
        sendto(client, datagram, i < DATAGRAMS ? sizeof datagram : 1, 0, to->ai_addr, to->ai_addrlen);
        usleep(1000);
    }
    freeaddrinfo(to);
}

int main(int words, char **word)
{
    if (words != 3)
        return 2;
    fault = word[2];
    if (!strcmp(word[1], "serve"))
        serve();
    else
        send_all(word[2]);
    return 0;
}
