// The ends of what `make bench-sim` measures. All time in here is virtual.
//
//   pairs udp-echo PORT                    sends every datagram back
//   pairs udp-ping HOST PORT COUNT         sends a datagram, waits for it, COUNT times
//   pairs tcp-echo PORT                    likewise over one connection
//   pairs tcp-ping HOST PORT COUNT
//   pairs flow-sink PORT COUNT             one poll and two receives for each datagram
//   pairs flow HOST PORT COUNT             one sleep and one send for each, 1470 bytes at 100 Mbit/s
//   pairs bulk-sink PORT                   reads to the end of one connection
//   pairs bulk HOST PORT SECONDS           writes for so long
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FLOW_BYTES = 1470, FLOW_GAP_NS = 117600, PING_BYTES = 64, PIECE_BYTES = 64 * 1024 };

static char buffer[PIECE_BYTES];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int bound(int type, const char *port) {
    int fd = socket(AF_INET, type, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0) fail("bind");
    return fd;
}

static int accepted(const char *port) {
    int one = 1, listener = bound(SOCK_STREAM, port);
    if (listen(listener, 5) != 0) fail("listen");
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) fail("accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int connected(int type, const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = type}, *found;
    int one = 1;
    if (getaddrinfo(host, port, &hints, &found) != 0) fail("getaddrinfo");
    int fd = socket(AF_INET, type, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) fail("connect");
    if (type == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    freeaddrinfo(found);
    return fd;
}

static void echo_datagrams(int fd) {
    struct sockaddr_in who;
    for (;;) {
        socklen_t length = sizeof who;
        ssize_t got = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&who, &length);
        if (got < 0 || sendto(fd, buffer, (size_t)got, 0, (struct sockaddr *)&who, length) != got) fail("echo");
    }
}

static void echo_stream(int fd) {
    ssize_t got;
    while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0)
        if (send(fd, buffer, (size_t)got, 0) != got) fail("echo");
}

static void ping(int fd, long count) {
    for (long n = 0; n < count; n++) {
        memcpy(buffer, &n, sizeof n);
        if (send(fd, buffer, PING_BYTES, 0) != PING_BYTES || recv(fd, buffer, sizeof buffer, 0) != PING_BYTES) fail("ping");
        if (memcmp(buffer, &n, sizeof n) != 0) fail("another answer");
    }
    printf("trips %ld\n", count);
}

static void take_flow(int fd, long count) {
    struct pollfd set = {.fd = fd, .events = POLLIN};
    long received = 0;
    while (received < count) {
        if (poll(&set, 1, -1) != 1) fail("poll");
        while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) == FLOW_BYTES) received++;
        if (errno != EAGAIN) fail("recv");
    }
    printf("received %ld\n", received);
}

static void give_flow(int fd, long count) {
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long n = 0; n < count; n++) {
        next.tv_nsec += FLOW_GAP_NS;
        if (next.tv_nsec >= 1000000000) next.tv_nsec -= 1000000000, next.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        if (send(fd, buffer, FLOW_BYTES, 0) != FLOW_BYTES) fail("send");
    }
    printf("sent %ld\n", count);
}

static void take_bulk(int fd) {
    long long received = 0;
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) received += got;
    printf("received %lld\n", received);
}

static void give_bulk(int fd, double seconds) {
    struct timespec start, now;
    long long sent = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        ssize_t wrote = write(fd, buffer, sizeof buffer);
        if (wrote < 0) fail("write");
        sent += wrote;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    printf("sent %lld\n", sent);
}

int main(int count, char **words) {
    const char *mode = count > 2 ? words[1] : "";
    if (strcmp(mode, "udp-echo") == 0) echo_datagrams(bound(SOCK_DGRAM, words[2]));
    else if (strcmp(mode, "tcp-echo") == 0) echo_stream(accepted(words[2]));
    else if (strcmp(mode, "bulk-sink") == 0) take_bulk(accepted(words[2]));
    else if (strcmp(mode, "flow-sink") == 0 && count == 4) take_flow(bound(SOCK_DGRAM, words[2]), atol(words[3]));
    else if (strcmp(mode, "udp-ping") == 0 && count == 5) ping(connected(SOCK_DGRAM, words[2], words[3]), atol(words[4]));
    else if (strcmp(mode, "tcp-ping") == 0 && count == 5) ping(connected(SOCK_STREAM, words[2], words[3]), atol(words[4]));
    else if (strcmp(mode, "flow") == 0 && count == 5) give_flow(connected(SOCK_DGRAM, words[2], words[3]), atol(words[4]));
    else if (strcmp(mode, "bulk") == 0 && count == 5) give_bulk(connected(SOCK_STREAM, words[2], words[3]), atof(words[4]));
    else return 2;
    return 0;
}
