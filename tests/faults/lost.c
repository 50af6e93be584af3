/* Sockets whose stack is lost, as many as there are ways to wait, in one run: what each of them says of it.

     lost serve PORT                   the other end; SIGUSR1: resets all connections
     lost hold ADDRESS4 ADDRESS6 PORT  prints "ready" when everybody waits, and a line for each that was told: NAME SAYS

   PORT: sends a half and stays silent. PORT+1: sends a half, then FIN. PORT+2: its queue is full, so who connects goes on connecting. PORT+3: UDP. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HALF 1000
#define CLIENTS_MAX 256
#define SAID_BYTES 128

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerrorname_np(errno));
    exit(2);
}

static int checked(int result, const char *what) {
    if (result < 0) fail(what);
    return result;
}

/* ---- the other end */

static volatile sig_atomic_t told_to_reset;
static void on_signal(int number) { (void)number; told_to_reset = 1; }

static int listens(int port, int backlog) {
    int fd = checked(socket(AF_INET6, SOCK_STREAM, 0), "socket"), one = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    checked(bind(fd, (void *)&at, sizeof at), "bind");
    return checked(listen(fd, backlog), "listen"), fd;
}

/* Until a connection is not taken into the queue any more. */
static void fill(int port) {
    for (int i = 0; i < 16; i++) {
        int fd = checked(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
        struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        if (connect(fd, (void *)&at, sizeof at) && errno != EINPROGRESS) {
            /* A namespace without IPv6. */
            struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
            close(fd);
            fd = checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
            if (connect(fd, (void *)&at4, sizeof at4) && errno != EINPROGRESS) fail("connect");
        }
    }
}

static _Noreturn void serve(int port) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    int listeners[2] = {listens(port, 128), listens(port + 1, 128)};
    listens(port + 2, 0);
    fill(port + 2);
    int datagrams = checked(socket(AF_INET6, SOCK_DGRAM, 0), "socket");
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(port + 3)};
    checked(bind(datagrams, (void *)&at, sizeof at), "bind");
    static int clients[CLIENTS_MAX];
    int count = 0;
    char half[HALF];
    memset(half, 'h', sizeof half);
    puts("serving");
    fflush(stdout);
    for (;;) {
        struct pollfd set[2] = {{listeners[0], POLLIN, 0}, {listeners[1], POLLIN, 0}};
        sigset_t open;
        sigemptyset(&open);
        ppoll(set, 2, NULL, &open);
        if (told_to_reset) {
            struct linger now = {1, 0};
            while (count) {
                setsockopt(clients[--count], SOL_SOCKET, SO_LINGER, &now, sizeof now);
                close(clients[count]);
            }
            told_to_reset = 0;
        }
        for (int i = 0; i < 2; i++) {
            if (!(set[i].revents & POLLIN) || count == CLIENTS_MAX) continue;
            int fd = accept(listeners[i], NULL, NULL);
            if (fd < 0) continue;
            if (write(fd, half, HALF) != HALF) fail("write");
            if (i == 1) shutdown(fd, SHUT_WR);
            clients[count++] = fd;
        }
    }
}

/* ---- those that hold */

static struct sockaddr_storage host[2];
static socklen_t host_bytes[2];
static int first_port;

struct waiter {
    char name[24];
    const struct way *way;
    int family, fd;
    pid_t pid;
    _Atomic int tid, waits, done;
    char said[SAID_BYTES];
    bool told;
};

struct way {
    const char *name;
    void (*prepare)(struct waiter *);
    void (*wait)(struct waiter *);
    /* It goes on looking and never sleeps for long. */
    bool busy;
    /* 1: in a child; 2: in a child that is sent the descriptor; 3: in a child in other namespaces. */
    int elsewhere;
};

static void say(struct waiter *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t at = strlen(w->said);
    if (at && at + 2 < SAID_BYTES) {
        strcat(w->said, " ");
        at++;
    }
    vsnprintf(w->said + at, SAID_BYTES - at, format, arguments);
    va_end(arguments);
}

static void say_result(struct waiter *w, long result) {
    if (result < 0) say(w, "%s", strerrorname_np(errno));
    else if (result == 0) say(w, "end");
    else say(w, "%ld", result);
}

static int family_of(struct waiter *w) { return w->family ? AF_INET6 : AF_INET; }

static struct sockaddr *address(struct waiter *w, int port, struct sockaddr_storage *into) {
    *into = host[w->family];
    if (w->family) ((struct sockaddr_in6 *)into)->sin6_port = htons(port);
    else ((struct sockaddr_in *)into)->sin_port = htons(port);
    return (struct sockaddr *)into;
}

static int made(struct waiter *w, int type, int port) {
    struct sockaddr_storage to;
    w->fd = checked(socket(family_of(w), type, 0), "socket");
    struct sockaddr *at = address(w, port, &to);
    if (connect(w->fd, at, host_bytes[w->family]) && errno != EINPROGRESS) fail("connect");
    return w->fd;
}

static void connected(struct waiter *w) { made(w, SOCK_STREAM, first_port); }

/* Has read all that will ever come. */
static void half(struct waiter *w) {
    char buffer[HALF];
    connected(w);
    if (recv(w->fd, buffer, HALF, MSG_WAITALL) != HALF) fail("the first half");
}
static void half_and_shut(struct waiter *w) { half(w), checked(shutdown(w->fd, SHUT_WR), "shutdown"); }
static void half_without_waiting(struct waiter *w) { half(w), fcntl(w->fd, F_SETFL, O_NONBLOCK); }
static void queued(struct waiter *w) {
    connected(w);
    struct pollfd one = {w->fd, POLLIN, 0};
    poll(&one, 1, -1);
}
static void whole(struct waiter *w) {
    made(w, SOCK_STREAM, first_port + 1);
    struct pollfd one = {w->fd, POLLRDHUP, 0};
    poll(&one, 1, -1);
}
static void whole_in_use(struct waiter *w) {
    /* What nobody has read of what it wrote makes no end of the data a reset. */
    whole(w);
    char data[4096] = {0};
    fcntl(w->fd, F_SETFL, O_NONBLOCK);
    while (write(w->fd, data, sizeof data) > 0) {}
    fcntl(w->fd, F_SETFL, 0);
}

static void reads(struct waiter *w) { char buffer[HALF]; say_result(w, read(w->fd, buffer, HALF)); }
static void receives(struct waiter *w) { char buffer[HALF]; say_result(w, recv(w->fd, buffer, HALF, 0)); }
static void receives_all(struct waiter *w) { char buffer[HALF]; say_result(w, recv(w->fd, buffer, HALF, MSG_WAITALL)); }
static void reads_message(struct waiter *w) {
    char buffer[HALF];
    struct iovec vector = {buffer, HALF};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    say_result(w, recvmsg(w->fd, &message, 0));
}
static void reads_from(struct waiter *w) {
    char buffer[HALF];
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    say_result(w, recvfrom(w->fd, buffer, HALF, 0, (void *)&from, &bytes));
}
static void reads_to_the_end(struct waiter *w) {
    for (;;) {
        char buffer[HALF];
        long got = read(w->fd, buffer, HALF);
        say_result(w, got);
        if (got <= 0) return;
    }
}
static void tries(struct waiter *w) {
    char buffer[HALF];
    long got;
    while ((got = read(w->fd, buffer, HALF)) < 0 && errno == EAGAIN) usleep(1000);
    say_result(w, got);
}
static void say_events(struct waiter *w, int events) {
    say(w, "%s%s%s%s", events & POLLIN ? "IN" : "", events & POLLOUT ? "OUT" : "", events & POLLERR ? "ERR" : "", events & POLLHUP ? "HUP" : "");
}
static bool polled(struct waiter *w, int wanted) {
    struct pollfd one = {w->fd, wanted, 0};
    int found = poll(&one, 1, -1);
    if (found < 0) return say_result(w, found), false;
    say_events(w, one.revents);
    return true;
}
static void polls(struct waiter *w) {
    if (polled(w, POLLIN)) reads(w);
}
static void selects(struct waiter *w) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(w->fd, &set);
    int found = select(w->fd + 1, &set, NULL, NULL, NULL);
    if (found < 0) say_result(w, found);
    else reads(w);
}
static void epolls_for(struct waiter *w, int events) {
    int epoll = checked(epoll_create1(0), "epoll");
    struct epoll_event event = {.events = events};
    checked(epoll_ctl(epoll, EPOLL_CTL_ADD, w->fd, &event), "epoll_ctl");
    w->waits = 1;
    int found = epoll_wait(epoll, &event, 1, -1);
    if (found < 0) return say_result(w, found);
    say_events(w, event.events & (EPOLLIN | EPOLLERR | EPOLLHUP));
    reads(w);
}
static void epolls(struct waiter *w) { epolls_for(w, EPOLLIN); }
static void epolls_edges(struct waiter *w) { epolls_for(w, EPOLLIN | EPOLLET); }
static void writes(struct waiter *w) {
    static char data[1 << 16];
    long sent;
    while ((sent = write(w->fd, data, sizeof data)) > 0) {}
    say_result(w, sent);
}
static void writes_message(struct waiter *w) {
    static char data[1 << 16];
    struct iovec vector = {data, sizeof data};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    long sent;
    while ((sent = sendmsg(w->fd, &message, 0)) > 0) {}
    say_result(w, sent);
}

static void listening(struct waiter *w) {
    w->fd = checked(socket(family_of(w), SOCK_STREAM, 0), "socket");
    checked(listen(w->fd, 8), "listen");
}
static void accepts(struct waiter *w) { say_result(w, accept(w->fd, NULL, NULL)); }
static void polls_and_accepts(struct waiter *w) {
    /* What poll says of a lost listener is not Linux' affair; that it wakes is. */
    struct pollfd one = {w->fd, POLLIN, 0};
    int found = poll(&one, 1, -1);
    if (found < 0) say_result(w, found);
    else accepts(w);
}
static void fresh(struct waiter *w) { w->fd = checked(socket(family_of(w), SOCK_STREAM, 0), "socket"); }
static void connects(struct waiter *w) {
    struct sockaddr_storage to;
    struct sockaddr *at = address(w, first_port + 2, &to);
    say_result(w, connect(w->fd, at, host_bytes[w->family]));
}
static void connecting(struct waiter *w) { made(w, SOCK_STREAM | SOCK_NONBLOCK, first_port + 2); }
static void polls_connecting(struct waiter *w) {
    struct pollfd one = {w->fd, POLLOUT, 0};
    int found = poll(&one, 1, -1);
    if (found < 0) return say_result(w, found);
    say(w, one.revents & (POLLERR | POLLHUP) ? "woken" : "connected");
    reads(w);
}

static void datagrams(struct waiter *w) { made(w, SOCK_DGRAM, first_port + 3); }
static void datagrams_with_errors(struct waiter *w) {
    int one = 1;
    datagrams(w);
    setsockopt(w->fd, w->family ? IPPROTO_IPV6 : IPPROTO_IP, w->family ? IPV6_RECVERR : IP_RECVERR, &one, sizeof one);
}
static void reads_twice(struct waiter *w) { reads(w), reads(w); }
static void raw(struct waiter *w) {
    w->fd = checked(socket(family_of(w), SOCK_RAW, w->family ? IPPROTO_ICMPV6 : IPPROTO_ICMP), "raw socket");
}
static void netlink(struct waiter *w) { w->fd = checked(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), "netlink socket"); }

static const struct way WAYS[] = {
    {"read", half, reads, 0, 0},
    {"recv", half, receives, 0, 0},
    {"recv-all", half, receives_all, 0, 0},
    {"recvmsg", half, reads_message, 0, 0},
    {"recvfrom", half, reads_from, 0, 0},
    {"nonblocking", half_without_waiting, tries, 1, 0},
    {"poll", half, polls, 0, 0},
    {"select", half, selects, 0, 0},
    {"epoll", half, epolls, 0, 0},
    {"epoll-edge", half, epolls_edges, 0, 0},
    {"queued", queued, reads_to_the_end, 1, 0},
    {"shut", half_and_shut, reads, 0, 0},
    {"whole", whole, reads_to_the_end, 1, 0},
    {"whole-written", whole_in_use, reads_to_the_end, 1, 0},
    {"write", half, writes, 0, 0},
    {"sendmsg", half, writes_message, 0, 0},
    {"child", half, reads, 0, 1},
    {"passed", half, reads, 0, 2},
    {"namespaces", half, reads, 0, 3},
    {"accept", listening, accepts, 0, 0},
    {"accept-poll", listening, polls_and_accepts, 0, 0},
    {"connect", fresh, connects, 0, 0},
    {"connect-poll", connecting, polls_connecting, 0, 0},
    {"udp-read", datagrams, reads, 0, 0},
    {"udp-recvfrom", datagrams, reads_from, 0, 0},
    {"udp-poll", datagrams, polls, 0, 0},
    {"udp-errors", datagrams_with_errors, reads_twice, 0, 0},
    {"raw", raw, reads, 0, 0},
    {"netlink", netlink, reads, 0, 0},
};
#define WAYS_COUNT (sizeof WAYS / sizeof *WAYS)

static _Atomic int *go;

static void waits(struct waiter *w) {
    w->tid = gettid();
    /* Below --strict the first call that is about a socket waits for its place: that is not the wait which is meant. */
    int first = socket(AF_INET, SOCK_DGRAM, 0);
    if (first >= 0) close(first);
    /* Those that would learn the end by looking at once look when it has come. */
    if (w->way->busy && w->way->wait == reads_to_the_end) {
        w->waits = 1;
        while (!*go) usleep(1000);
    }
    if (w->way->wait != epolls && w->way->wait != epolls_edges) w->waits = 1;
    w->way->wait(w);
    w->done = 1;
}

static void *waits_in_thread(void *w) { return waits(w), NULL; }

static void send_descriptor(int to, int fd) {
    char byte = 0;
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof fd)]; } control = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    checked(sendmsg(to, &message, 0), "sendmsg");
}

static int receive_descriptor(int from) {
    char byte;
    int fd;
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof fd)]; } control = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    checked(recvmsg(from, &message, 0), "recvmsg");
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

/* In a process of its own, which has the only descriptor. */
static void wait_elsewhere(struct waiter *w) {
    int pair[2];
    checked(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
    pid_t child = checked(fork(), "fork");
    if (child == 0) {
        if (w->way->elsewhere == 2) {
            close(w->fd);
            w->fd = receive_descriptor(pair[1]);
        }
        if (w->way->elsewhere == 3) {
            checked(unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID), "unshare");
            pid_t inner = checked(fork(), "fork");
            if (inner) {
                close(w->fd);
                waitpid(inner, NULL, 0);
                _exit(0);
            }
        }
        waits(w);
        _exit(0);
    }
    w->pid = child;
    if (w->way->elsewhere == 2) send_descriptor(pair[0], w->fd);
    close(w->fd);
}

static bool sleeps(struct waiter *w) {
    /* In a namespace of processes its own number means nothing here: its own word must do. */
    if (w->way->busy || w->way->elsewhere == 3 || !w->waits) return w->waits;
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", w->pid ? w->pid : getpid(), w->tid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    char *state = got ? strrchr(text, ')') : NULL;
    return state && state[2] == 'S';
}

static int hold(char **words) {
    first_port = atoi(words[2]);
    *(struct sockaddr_in *)&host[0] = (struct sockaddr_in){.sin_family = AF_INET};
    *(struct sockaddr_in6 *)&host[1] = (struct sockaddr_in6){.sin6_family = AF_INET6};
    host_bytes[0] = sizeof(struct sockaddr_in), host_bytes[1] = sizeof(struct sockaddr_in6);
    if (inet_pton(AF_INET, words[0], &((struct sockaddr_in *)&host[0])->sin_addr) != 1) return 2;
    if (inet_pton(AF_INET6, words[1], &((struct sockaddr_in6 *)&host[1])->sin6_addr) != 1) return 2;
    signal(SIGPIPE, SIG_IGN);
    size_t bytes = 2 * WAYS_COUNT * sizeof(struct waiter);
    struct waiter *all = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    go = (void *)((char *)all + bytes / sizeof(long) * sizeof(long));
    int count = 0;
    const char *only = getenv("WAYS");
    for (size_t i = 0; i < 2 * WAYS_COUNT; i++) {
        struct waiter *w = &all[count];
        w->way = &WAYS[i / 2], w->family = i % 2;
        if (only && !strstr(only, w->way->name)) continue;
        snprintf(w->name, sizeof w->name, "%s/%d", w->way->name, w->family ? 6 : 4);
        w->way->prepare(w);
        count++;
        /* Children first: they must not inherit what others wait for, or a thread would keep it open. */
        if (w->way->elsewhere) wait_elsewhere(w);
    }
    pthread_t thread;
    for (int i = 0; i < count; i++)
        if (!all[i].way->elsewhere) pthread_create(&thread, NULL, waits_in_thread, &all[i]);
    for (int i = 0; i < count; i++)
        while (!sleeps(&all[i]) && !all[i].done) usleep(1000);
    puts("ready");
    fflush(stdout);
    for (int left = count, early = 0; left; usleep(1000)) {
        early = 0;
        for (int i = 0; i < count; i++) {
            early += !all[i].done && all[i].way->wait != reads_to_the_end;
            if (!all[i].done || all[i].told) continue;
            printf("%s %s\n", all[i].name, all[i].said);
            all[i].told = true;
            left--;
        }
        /* Who looks when it is over looks now. */
        if (!early) *go = 1;
    }
    int later = socket(AF_INET, SOCK_STREAM, 0);
    printf("socket %s\n", later < 0 ? strerrorname_np(errno) : "made");
    puts("done");
    return 0;
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 3 && !strcmp(words[1], "serve")) serve(atoi(words[2]));
    if (count == 5 && !strcmp(words[1], "hold")) return hold(words + 2);
    fputs("lost serve PORT | lost hold ADDRESS4 ADDRESS6 PORT\n", stderr);
    return 2;
}
