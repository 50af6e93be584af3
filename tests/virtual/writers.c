/* When a stream takes more: who waits to write is let go on, and told that it may, when a third of the buffer is free, not with every acknowledgment. What a
 * part prints must be the same natively and in virtual time; how many bytes fit is the stack's own affair. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "alike.h"

#ifndef TCP_NOTSENT_LOWAT
#define TCP_NOTSENT_LOWAT 25
#endif

static int writer, reader;
static char piece[65536];

static void option(int s, int level, int name, int value) { setsockopt(s, level, name, &value, sizeof value); }
/* A connection of small segments; 0: the buffers are the system's. */
static void connected(int send_buffer, int receive_buffer)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    option(listener, IPPROTO_TCP, TCP_MAXSEG, 1000);
    if (receive_buffer) option(listener, SOL_SOCKET, SO_RCVBUF, receive_buffer);
    bind(listener, (struct sockaddr *)&at, sizeof at);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&at, &bytes);
    writer = socket(AF_INET, SOCK_STREAM, 0);
    option(writer, IPPROTO_TCP, TCP_MAXSEG, 1000);
    if (send_buffer) option(writer, SOL_SOCKET, SO_SNDBUF, send_buffer);
    connect(writer, (struct sockaddr *)&at, sizeof at);
    reader = accept(listener, 0, 0);
    close(listener);
}
static int queued(void) { int bytes = 0; ioctl(writer, SIOCOUTQ, &bytes); return bytes; }
static int unsent(void) { int bytes = 0; ioctl(writer, SIOCOUTQNSD, &bytes); return bytes; }
static int may_write(void)
{
    struct pollfd p = {.fd = writer, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}
static long fill(void)
{
    long all = 0, n;
    for (int quiet = 0; quiet < 10; quiet++) {
        while ((n = send(writer, piece, sizeof piece, MSG_DONTWAIT)) > 0) { all += n; quiet = 0; }
        ms(20);
    }
    return all;
}

static void at_a_third(void)
{
    connected(100000, 20000);
    printf("%d ", may_write());
    fill();
    int full = queued(), before = full;
    printf("%d, ", may_write());
    for (int n = 0; n < 2000 && !may_write(); n++) {
        before = queued();
        recv(reader, piece, 2000, MSG_DONTWAIT);
        ms(1);
    }
    int now = queued();
    printf("full %d, when it may %d, not yet %d, something is left %d, ", full > 50000, now <= 200000 / 3 * 2, before > full / 2, now > full / 4);
    printf("takes %d", send(writer, piece, 1000, MSG_DONTWAIT) == 1000);
}

static long wants, sent;
static volatile int finished;
static void *writes(void *unused)
{
    (void)unused;
    while (sent < wants) {
        long n = send(writer, piece, wants - sent < (long)sizeof piece ? wants - sent : (long)sizeof piece, 0);
        if (n <= 0) break;
        sent += n;
    }
    finished = 1;
    return 0;
}
static pthread_t begin(long bytes)
{
    pthread_t id;
    wants = bytes;
    sent = finished = 0;
    pthread_create(&id, 0, writes, 0);
    return id;
}
static long drain(long least)
{
    long got = 0, n;
    while (got < least && (n = recv(reader, piece, sizeof piece, 0)) > 0) got += n;
    return got;
}
/* It waits until a third is free, and then fills it. */
static void waiting(void)
{
    connected(100000, 20000);
    pthread_t id = begin(2000000);
    ms(200);
    /* How often the queue falls by much, and is filled again. */
    int most = queued(), high = most, low = most, falls = 0;
    long got = 0;
    while (!finished) { /* many falls: a reader that the host lets run alone empties the queue each time */
        long n = recv(reader, piece, 500, MSG_DONTWAIT);
        if (n > 0) got += n; else ms(1);
        int is = queued();
        if (is < low) low = is;
        if (low > high - most / 8) {
            if (is > high) high = is;
        } else if (is > low + most / 8) {
            falls++;
            high = low = is;
        }
    }
    printf("full %d, falls and is filled %d, ", most > 50000, falls >= 3);
    got += drain(2000000 - got);
    pthread_join(id, 0);
    printf("%ld of %ld", got, sent);
}
static void smallest(void)
{
    connected(1, 0);
    pthread_t id = begin(300000);
    long got = drain(300000);
    pthread_join(id, 0);
    printf("%ld of %ld, may write %d", got, sent, may_write());
}
static void shrunk(void)
{
    connected(100000, 20000);
    pthread_t id = begin(400000);
    ms(200);
    int before = queued();
    option(writer, SOL_SOCKET, SO_SNDBUF, 1);
    ms(20);
    printf("%d %d, ", queued() <= before, may_write());
    long got = drain(400000);
    pthread_join(id, 0);
    printf("%ld of %ld, may write %d", got, sent, may_write());
}
static void grown(void)
{
    connected(20000, 20000);
    fill();
    int before = may_write();
    option(writer, SOL_SOCKET, SO_SNDBUF, 150000);
    printf("%d %d", before, may_write());
}
/* What is unsent is bounded; whoever waits goes on when half of that is. */
static void unsent_bound(int first, int bytes)
{
    connected(100000, 20000);
    if (first) option(writer, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes);
    pthread_t id = begin(200000);
    if (!first) { ms(100); option(writer, IPPROTO_TCP, TCP_NOTSENT_LOWAT, bytes); }
    long got = drain(200000);
    pthread_join(id, 0);
    printf("%ld of %ld, may write %d; ", got, sent, may_write());
}
static void low_water(void)
{
    int bounds[] = {1, 3000, 16384, 1000000};
    for (int n = 0; n < 8; n++) unsent_bound(n & 1, bounds[n / 2]);
}
static void low_water_poll(void)
{
    connected(200000, 20000);
    option(writer, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 8000);
    fill();
    ms(20);
    int most = unsent();
    printf("%d, ", may_write());
    /* Until it may: half is unsent at most. Then it is filled again, until all has come. */
    long got = 0, wrong = 0;
    while (got < 1000000) {
        long n = recv(reader, piece, 3000, MSG_DONTWAIT);
        if (n > 0) got += n; else ms(1);
        if (may_write()) {
            if (unsent() * 2 >= 8000) wrong++;
            send(writer, piece, 30000, MSG_DONTWAIT);
        }
    }
    printf("some %d, too many when it may %ld", most > 0, wrong);
}

static const struct part PARTS[] = {
    {"writable when a third is free", at_a_third}, {"a writer that waits", waiting}, {"the smallest send buffer", smallest}, {"a send buffer made smaller", shrunk},
    {"a send buffer made larger", grown}, {"TCP_NOTSENT_LOWAT and a writer that waits", low_water}, {"TCP_NOTSENT_LOWAT and poll", low_water_poll},
};

int main(int count, char **words)
{
    return parts(count, words, PARTS, sizeof PARTS / sizeof *PARTS);
}
