// Many TCP connections from one process: the two ends of `make test-load`, and the load under which `make test-faults` breaks things.
//
//   crowd serve FIRST_PORT PORTS                            echoes on PORTS ports, for ever
//   crowd hold ADDRESS FIRST_PORT PORTS COUNT UNTIL         opens COUNT, prints "open COUNT", keeps them idle until the file UNTIL exists,
//                                                           then sends a byte over each and wants it back
//   crowd talk ADDRESS FIRST_PORT PORTS COUNT BYTES         BYTES echoed over each of COUNT at once, every byte checked; BYTES 0: for ever
//   crowd short ADDRESS FIRST_PORT PORTS COUNT [UNTIL]      COUNT one after the other, each with a request and its answer;
//                                                           COUNT 0: until the file UNTIL exists
//
// Each prints one line when it is done, and "error: WHAT: ERRNO" with exit status 1 when something went wrong. The client closes first.

#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 65536, BACKLOG = 4096, EVENTS = 512, AHEAD = 65536, REQUEST = 64, PIECE = 16384 };

static _Noreturn void fail(const char *what)
{
    const char *name = strerrorname_np(errno);
    printf("error: %s: %s\n", what, name ? name : "?");
    fflush(stdout);
    exit(1);
}

static void say(const char *what, unsigned long count)
{
    printf("%s %lu\n", what, count);
    fflush(stdout);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static struct addrinfo *target(const char *address, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    if (getaddrinfo(address, port, &hints, &found)) {
        printf("error: %s is no address\n", address);
        exit(2);
    }
    return found;
}

static void set_port(struct sockaddr *address, unsigned port)
{
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

// The n-th connection goes to the n-th port, round and round: more tuples than one port has.
static int open_one(struct addrinfo *to, unsigned first_port, unsigned ports, unsigned long n)
{
    set_port(to->ai_addr, first_port + n % ports);
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    while (connect(fd, to->ai_addr, to->ai_addrlen))
        if (errno != EINTR)
            fail("connect");
    return fd;
}

static uint8_t pattern(unsigned long connection, uint64_t at)
{
    return at * 31 + (at >> 8) * 13 + connection * 7;
}

static void watch(int epoll, int operation, int fd, uint32_t events, void *data)
{
    struct epoll_event event = {.events = events, .data.ptr = data};
    if (epoll_ctl(epoll, operation, fd, &event))
        fail("epoll_ctl");
}

// ---- serve

struct peer {
    int fd;
    bool listens;
    // What was read and does not fit yet: nothing more is read before it does.
    uint8_t *rest;
    size_t rest_at, rest_end;
};

static void part(struct peer *peer)
{
    close(peer->fd);
    free(peer->rest);
    free(peer);
}

static void welcome(int epoll, int listener)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN)
                return;
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            fail("accept4");
        }
        struct peer *peer = calloc(1, sizeof *peer);
        if (!peer)
            fail("calloc");
        peer->fd = fd;
        watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, peer);
    }
}

// False: the connection is over.
static bool echo(int epoll, struct peer *peer)
{
    static uint8_t buffer[PIECE];
    if (peer->rest) {
        ssize_t sent = send(peer->fd, peer->rest + peer->rest_at, peer->rest_end - peer->rest_at, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        peer->rest_at += sent;
        if (peer->rest_at < peer->rest_end)
            return true;
        free(peer->rest);
        peer->rest = NULL;
        watch(epoll, EPOLL_CTL_MOD, peer->fd, EPOLLIN, peer);
        return true;
    }
    ssize_t got = recv(peer->fd, buffer, sizeof buffer, 0);
    if (got <= 0)
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    ssize_t sent = send(peer->fd, buffer, got, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    sent = sent < 0 ? 0 : sent;
    if (sent == got)
        return true;
    peer->rest = malloc(got - sent);
    if (!peer->rest)
        fail("malloc");
    memcpy(peer->rest, buffer + sent, got - sent);
    peer->rest_at = 0;
    peer->rest_end = got - sent;
    watch(epoll, EPOLL_CTL_MOD, peer->fd, EPOLLOUT, peer);
    return true;
}

static _Noreturn void serve(unsigned first_port, unsigned ports)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned n = 0; n < ports; n++) {
        struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(first_port + n)};
        int on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct peer *peer = calloc(1, sizeof *peer);
        if (fd < 0 || !peer)
            fail("socket");
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, BACKLOG))
            fail("bind or listen");
        *peer = (struct peer){.fd = fd, .listens = true};
        watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, peer);
    }
    say("serving", ports);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int n = 0; n < count; n++) {
            struct peer *peer = events[n].data.ptr;
            if (peer->listens)
                welcome(epoll, peer->fd);
            else if (!echo(epoll, peer))
                part(peer);
        }
    }
}

// ---- clients

static void send_all(int fd, const uint8_t *data, size_t length)
{
    while (length) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            fail("send");
        if (sent > 0)
            data += sent, length -= sent;
    }
}

static void want_back(int fd, const uint8_t *data, size_t length)
{
    uint8_t got[REQUEST];
    for (size_t at = 0; at < length;) {
        ssize_t count = recv(fd, got + at, length - at, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail("recv");
        if (count == 0) {
            puts("error: recv: end of stream");
            exit(1);
        }
        at += count;
    }
    if (memcmp(got, data, length)) {
        puts("error: other data came back");
        exit(1);
    }
}

static int hold(struct addrinfo *to, unsigned first_port, unsigned ports, unsigned long count, const char *until)
{
    int *fds = calloc(count, sizeof *fds);
    if (!fds)
        fail("calloc");
    for (unsigned long n = 0; n < count; n++)
        fds[n] = open_one(to, first_port, ports, n);
    say("open", count);
    while (access(until, F_OK))
        usleep(20000);
    for (unsigned long n = 0; n < count; n++) {
        uint8_t byte = pattern(n, 0);
        send_all(fds[n], &byte, 1);
    }
    for (unsigned long n = 0; n < count; n++) {
        uint8_t byte = pattern(n, 0);
        want_back(fds[n], &byte, 1);
        close(fds[n]);
    }
    say("held", count);
    return 0;
}

static int brief(struct addrinfo *to, unsigned first_port, unsigned ports, unsigned long count, const char *until)
{
    unsigned long n = 0;
    for (; count ? n < count : access(until, F_OK); n++) {
        int fd = open_one(to, first_port, ports, n);
        uint8_t request[REQUEST];
        for (unsigned at = 0; at < REQUEST; at++)
            request[at] = pattern(n, at);
        send_all(fd, request, sizeof request);
        want_back(fd, request, sizeof request);
        close(fd);
    }
    say("short", n);
    return 0;
}

struct talker {
    int fd;
    unsigned long number;
    uint64_t sent, received;
    bool wants_room;
};

// Writes ahead of what came back, checks what comes. True: all of it has come back.
static bool step(int epoll, struct talker *talker, uint64_t bytes)
{
    uint8_t piece[PIECE];
    for (;;) {
        ssize_t got = recv(talker->fd, piece, sizeof piece, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (got < 0)
            fail("recv");
        if (got == 0) {
            puts("error: recv: end of stream");
            exit(1);
        }
        for (ssize_t at = 0; at < got; at++)
            if (piece[at] != pattern(talker->number, talker->received + at)) {
                puts("error: other data came back");
                exit(1);
            }
        talker->received += got;
    }
    bool full = false;
    while (!full && talker->sent < bytes && talker->sent - talker->received < AHEAD) {
        size_t length = bytes - talker->sent < PIECE ? bytes - talker->sent : PIECE;
        for (size_t at = 0; at < length; at++)
            piece[at] = pattern(talker->number, talker->sent + at);
        ssize_t sent = send(talker->fd, piece, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            fail("send");
        full = sent < 0;
        talker->sent += sent < 0 ? 0 : sent;
    }
    if (full != talker->wants_room) {
        talker->wants_room = full;
        watch(epoll, EPOLL_CTL_MOD, talker->fd, full ? EPOLLIN | EPOLLOUT : EPOLLIN, talker);
    }
    return talker->received == bytes;
}

static int talk(struct addrinfo *to, unsigned first_port, unsigned ports, unsigned long count, uint64_t bytes)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct talker *talkers = calloc(count, sizeof *talkers);
    if (!talkers)
        fail("calloc");
    bytes = bytes ? bytes : UINT64_MAX;
    for (unsigned long n = 0; n < count; n++) {
        talkers[n] = (struct talker){.fd = open_one(to, first_port, ports, n), .number = n};
        watch(epoll, EPOLL_CTL_ADD, talkers[n].fd, EPOLLIN, &talkers[n]);
    }
    say("open", count);
    for (unsigned long n = 0; n < count; n++)
        step(epoll, &talkers[n], bytes);
    for (unsigned long left = count; left;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int n = 0; n < ready; n++) {
            struct talker *talker = events[n].data.ptr;
            if (step(epoll, talker, bytes)) {
                close(talker->fd);
                left--;
            }
        }
    }
    say("talked", count);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    const char *verb = argc > 1 ? argv[1] : "";
    if (!strcmp(verb, "serve") && argc == 4)
        serve(atoi(argv[2]), atoi(argv[3]));
    if (argc >= 6) {
        struct addrinfo *to = target(argv[2], argv[3]);
        unsigned first_port = atoi(argv[3]), ports = atoi(argv[4]);
        unsigned long count = strtoul(argv[5], NULL, 10);
        if (!strcmp(verb, "hold") && argc == 7)
            return hold(to, first_port, ports, count, argv[6]);
        if (!strcmp(verb, "talk") && argc == 7)
            return talk(to, first_port, ports, count, strtoull(argv[6], NULL, 10));
        if (!strcmp(verb, "short") && (count || argc == 7))
            return brief(to, first_port, ports, count, argv[6]);
    }
    fputs("crowd serve | hold | talk | short: see the head of crowd.c\n", stderr);
    return 2;
}
