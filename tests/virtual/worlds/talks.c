/* A program of random worlds (worlds.py): what it does is drawn from a number that it is given, and it tells each result with the time.
 *
 *     talks serve PORT STYLE SEED       a TCP and UDP server: threads, epoll, forks, poll or one connection after the other
 *     talks ask HOST PORT COUNT SEED    COUNT things: connections, datagrams, threads, children, signals, timers
 *
 * Nothing that the network does is an error here: it is told, with its errno, and the next thing follows.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define BLOCK 65536

static uint64_t state;
static const char *host, *port;

/* SplitMix64: the same everywhere. */
static uint32_t draw(uint32_t below)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

static long long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void tell(const char *what, long long result)
{
    int error = result < 0 ? errno : 0;
    char line[128];
    int length = snprintf(line, sizeof line, "%s %lld %d %lld\n", what, result, error, now());
    if (write(1, line, length) != length)
        _exit(9);
}

static void rest(uint32_t micros)
{
    struct timespec span = {micros / 1000000, micros % 1000000 * 1000L};
    nanosleep(&span, NULL);
}

static struct timeval micros(uint32_t span)
{
    return (struct timeval){span / 1000000, span % 1000000};
}

/* Sockets. */

static void limit(int fd, uint32_t span)
{
    struct timeval limit = micros(span);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static int address(struct sockaddr_storage *to, socklen_t *length, int type, const char *service)
{
    struct addrinfo hints = {.ai_socktype = type, .ai_family = draw(3) ? AF_INET : AF_UNSPEC}, *found;
    int error = getaddrinfo(host, service, &hints, &found);
    if (error) {
        tell("getaddrinfo", error);
        return -1;
    }
    memcpy(to, found->ai_addr, found->ai_addrlen);
    *length = found->ai_addrlen;
    freeaddrinfo(found);
    return to->ss_family;
}

/* A connected socket that gives up after a while; sometimes connected without waiting. */
static int reach(void)
{
    struct sockaddr_storage to;
    socklen_t length;
    int family = address(&to, &length, SOCK_STREAM, port);
    if (family < 0)
        return -1;
    int patient = draw(2);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | (patient ? 0 : SOCK_NONBLOCK), 0);
    limit(fd, 200000 + draw(1500000));
    if (draw(4) == 0) {
        int bytes = 4096 << draw(5);
        setsockopt(fd, SOL_SOCKET, draw(2) ? SO_RCVBUF : SO_SNDBUF, &bytes, sizeof bytes);
    }
    int on = draw(2);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int result = connect(fd, (struct sockaddr *)&to, length);
    if (!patient) {
        tell("connect at once", result);
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        result = poll(&wait, 1, 50 + draw(1500));
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        tell("polled", wait.revents * 1000 + error);
        fcntl(fd, F_SETFL, 0);
        result = result == 1 && !error ? 0 : -1;
    } else
        tell("connect", result);
    if (result < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Sends `count` bytes in pieces; how many it were. */
static long give(int fd, long count)
{
    static __thread char block[BLOCK];
    long sent = 0;
    while (sent < count) {
        long piece = 1 + draw(draw(3) ? 3000 : BLOCK - 1);
        if (piece > count - sent)
            piece = count - sent;
        long result;
        switch (draw(4)) {
        case 0: {
            struct iovec parts[2] = {{block, piece / 2}, {block + piece / 2, piece - piece / 2}};
            result = writev(fd, parts, 2);
            break;
        }
        case 1:
            result = send(fd, block, piece, MSG_NOSIGNAL | (draw(2) ? MSG_MORE : 0));
            break;
        case 2:
            result = send(fd, block, piece, MSG_NOSIGNAL | (draw(4) ? 0 : MSG_DONTWAIT));
            if (result < 0 && errno == EAGAIN) {
                struct pollfd wait = {.fd = fd, .events = POLLOUT};
                if (poll(&wait, 1, 300) == 1)
                    continue;
                errno = EAGAIN;
            }
            break;
        default:
            result = write(fd, block, piece);
        }
        if (result < 0) {
            tell("sent", -1);
            break;
        }
        sent += result;
        if (draw(12) == 0)
            rest(draw(20000));
    }
    return sent;
}

/* Takes bytes until there are `count` of them, the end or an error, always in the same way or each time in another; how many it were. */
static long take(int fd, long count)
{
    static __thread char block[BLOCK];
    long got = 0, size = 1 + draw(draw(2) ? 2000 : BLOCK - 1);
    uint32_t way = draw(8);
    while (got < count) {
        long room = way < 4 ? size : 1 + draw(draw(2) ? 2000 : BLOCK - 1), result;
        if (room > count - got)
            room = count - got;
        switch (way < 4 ? way : draw(4)) {
        case 0:
            result = recv(fd, block, room, draw(3) ? 0 : MSG_WAITALL);
            break;
        case 1: {
            struct pollfd wait = {.fd = fd, .events = POLLIN | POLLRDHUP};
            if (poll(&wait, 1, draw(400)) <= 0 && draw(8) == 0)
                return tell("impatient", got), got;
            result = recv(fd, block, room, draw(3) ? 0 : MSG_DONTWAIT);
            if (result < 0 && errno == EAGAIN)
                continue;
            break;
        }
        case 2:
            if (draw(3) == 0) {
                recv(fd, block, room, MSG_PEEK);
            }
            /* fall through */
        default:
            result = read(fd, block, room);
        }
        if (result <= 0) {
            tell("got", result);
            break;
        }
        got += result;
        if (way >= 4 && draw(16) == 0)
            rest(draw(30000));
    }
    return got;
}

/* What is asked of a server, in its first four bytes: 'e' echo, 's' sink, 'g' generate; and how many KiB. */
static void order(int fd, char what, long kib)
{
    unsigned char word[4] = {what, kib >> 16, kib >> 8, kib};
    tell("order", send(fd, word, 4, MSG_NOSIGNAL));
}

static void echo(void)
{
    int fd = reach();
    if (fd < 0)
        return;
    order(fd, 'e', 0);
    for (uint32_t turn = 0, turns = 1 + draw(12); turn < turns; turn++) {
        long bytes = 1 + draw(draw(4) ? 1000 : 20000), sent = give(fd, bytes), got = take(fd, sent);
        tell("echoed", got);
        if (got < bytes)
            break;
        if (draw(3) == 0)
            rest(draw(50000));
    }
    if (draw(2))
        tell("shutdown", shutdown(fd, draw(3)));
    close(fd);
}

static void fetch(void)
{
    int fd = reach();
    if (fd < 0)
        return;
    long kib = 1 + draw(draw(3) ? 100 : 600);
    order(fd, 'g', kib);
    if (draw(2))
        tell("half", shutdown(fd, SHUT_WR));
    tell("fetched", take(fd, draw(5) ? kib * 1024 + 1 : kib * 300));
    close(fd);
}

static void store(void)
{
    int fd = reach();
    if (fd < 0)
        return;
    long kib = 1 + draw(draw(3) ? 100 : 400);
    order(fd, 's', kib);
    tell("stored", give(fd, kib * 1024));
    tell("half", shutdown(fd, SHUT_WR));
    if (draw(3))
        tell("answered", take(fd, 9));
    if (draw(4) == 0) {
        struct linger now = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(fd);
}

static void refused(void)
{
    const char *right = port;
    port = "1";
    int fd = reach();
    port = right;
    if (fd >= 0)
        close(fd);
}

static void datagrams(void)
{
    struct sockaddr_storage to;
    socklen_t length;
    char text[3000];
    int family = address(&to, &length, SOCK_DGRAM, draw(5) ? port : "2");
    if (family < 0)
        return;
    int fd = socket(family, SOCK_DGRAM, 0), joined = draw(2);
    limit(fd, 1000 + draw(200000));
    if (joined)
        tell("joined", connect(fd, (struct sockaddr *)&to, length));
    memset(text, 'd', sizeof text);
    for (uint32_t turn = 0, turns = 1 + draw(15); turn < turns; turn++) {
        uint32_t size = draw(draw(3) ? 1200 : sizeof text);
        for (uint32_t n = 0, several = 1 + draw(3); n < several; n++)
            tell("datagram", joined ? send(fd, text, size, 0) : sendto(fd, text, size, 0, (struct sockaddr *)&to, length));
        if (draw(3) == 0) {
            fd_set set;
            FD_ZERO(&set);
            FD_SET(fd, &set);
            struct timeval wait = micros(draw(100000));
            tell("selected", select(fd + 1, &set, NULL, NULL, &wait));
            tell("left", wait.tv_sec * 1000000LL + wait.tv_usec);
        }
        tell("answer", recv(fd, text, sizeof text, draw(4) ? 0 : MSG_DONTWAIT));
    }
    close(fd);
}

/* Threads, some of which use the network. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turns_left;

static void *waits(void *number)
{
    pthread_mutex_lock(&lock);
    while (turns_left > 0) {
        turns_left--;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += draw(20000000);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        int result = draw(2) ? pthread_cond_timedwait(&changed, &lock, &until) : 0;
        tell("thread", (long)number * 1000 + result);
        if (draw(2))
            draw(2) ? pthread_cond_signal(&changed) : pthread_cond_broadcast(&changed);
        if (draw(3) == 0) {
            pthread_mutex_unlock(&lock);
            draw(2) ? sched_yield() : (rest(draw(5000)), 0);
            pthread_mutex_lock(&lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return number;
}

static void *talks(void *number)
{
    tell("thread talks", (long)number);
    draw(2) ? echo() : datagrams();
    return number;
}

static void threads(void)
{
    pthread_t made[5];
    uint32_t several = 2 + draw(4);
    turns_left = 10 + draw(30);
    for (uint32_t n = 0; n < several; n++)
        pthread_create(&made[n], NULL, draw(4) ? waits : talks, (void *)(long)n);
    for (uint32_t n = 0; n < several; n++)
        pthread_join(made[n], NULL);
    tell("joined threads", several);
}

/* Children, pipes, shared memory. */

static void children(void)
{
    int up[2], down[2];
    if (pipe2(up, O_CLOEXEC | (draw(2) ? O_NONBLOCK : 0)) || socketpair(AF_UNIX, SOCK_STREAM, 0, down))
        return tell("pipe", -1);
    volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        char text[4000];
        close(up[0]);
        for (int n = 0, several = 1 + draw(8); n < several; n++) {
            rest(draw(10000));
            memset(text, 'c', sizeof text);
            tell("child writes", write(up[1], text, 1 + draw(sizeof text - 1)));
            __atomic_add_fetch(shared, 1, __ATOMIC_SEQ_CST);
        }
        if (draw(2))
            tell("child reads", read(down[1], text, sizeof text));
        if (draw(3) == 0)
            draw(2) ? echo() : datagrams();
        _exit(draw(5));
    }
    tell("forked", child);
    close(up[1]);
    close(down[1]);
    char text[3000] = "";
    struct pollfd wait = {.fd = up[0], .events = POLLIN};
    tell("parent writes", write(down[0], text, 1 + draw(100)));
    while (1) {
        int ready = poll(&wait, 1, draw(30));
        long got = draw(3) || ready ? read(up[0], text, 1 + draw(sizeof text - 1)) : -2;
        tell("parent reads", got);
        if (got == 0 || (draw(20) == 0 && kill(child, draw(2) ? SIGTERM : SIGKILL) == 0))
            break;
        if (got < 0)
            rest(3000);
    }
    int status = 0;
    tell("waited", draw(2) ? waitpid(child, &status, 0) : wait4(-1, &status, 0, NULL));
    tell("status", status);
    tell("shared", *shared);
    munmap((void *)shared, 4096);
    close(up[0]);
    close(down[0]);
}

static void executes(void)
{
    int out[2];
    if (pipe(out))
        return tell("pipe", -1);
    pid_t child = draw(2) ? fork() : vfork();
    if (child == 0) {
        dup2(out[1], 1);
        execlp("sh", "sh", "-c", "echo $$; sleep 0.003; head -c 20000 /dev/urandom | cksum", NULL);
        _exit(9);
    }
    close(out[1]);
    char text[200];
    long got;
    while ((got = read(out[0], text, sizeof text)) > 0)
        tell("output", got);
    int status;
    tell("executed", waitpid(child, &status, 0));
    close(out[0]);
}

/* Signals and timers. */

static volatile int caught;

static void catch(int signal)
{
    caught += signal;
}

static void *signals_process(void *to)
{
    for (uint32_t n = 0; n < 4; n++) {
        rest(500 + draw(9000));
        tell("kill", draw(2) ? pthread_kill(*(pthread_t *)to, SIGUSR1) : kill(getpid(), SIGUSR2));
    }
    return NULL;
}

static void signals(void)
{
    struct sigaction act = {.sa_handler = catch, .sa_flags = draw(2) ? SA_RESTART : 0};
    sigaction(SIGALRM, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
    sigaction(SIGUSR2, &act, NULL);
    struct itimerval timer = {micros(500 + draw(20000)), micros(1 + draw(30000))};
    setitimer(ITIMER_REAL, &timer, NULL);
    pthread_t self = pthread_self(), other;
    int has_other = draw(2) && pthread_create(&other, NULL, signals_process, &self) == 0;
    for (uint32_t n = 0, several = 1 + draw(4); n < several; n++) {
        switch (draw(4)) {
        case 0:
            echo();
            break;
        case 1: {
            struct timespec span = {0, draw(60000000)}, left = {0, 0};
            tell("slept", nanosleep(&span, &left));
            tell("left", left.tv_nsec);
            break;
        }
        case 2:
            fetch();
            break;
        default: {
            sigset_t none;
            sigemptyset(&none);
            struct timespec span = {0, draw(40000000)};
            tell("ppoll", ppoll(NULL, 0, &span, &none));
        }
        }
        tell("caught", caught);
    }
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    if (has_other)
        pthread_join(other, NULL);
    tell("caught", caught);
}

static void timers(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, draw(2) ? TFD_NONBLOCK : 0), event = eventfd(draw(3), draw(2) ? EFD_NONBLOCK : 0), loop = epoll_create1(0);
    struct itimerspec set = {{0, draw(2) ? draw(9000000) + 1 : 0}, {0, draw(30000000) + 1}};
    timerfd_settime(fd, 0, &set, NULL);
    struct epoll_event in = {.events = EPOLLIN | (draw(2) ? EPOLLET : 0), .data.u32 = 1}, out;
    epoll_ctl(loop, EPOLL_CTL_ADD, fd, &in);
    in.data.u32 = 2;
    epoll_ctl(loop, EPOLL_CTL_ADD, event, &in);
    for (uint32_t n = 0, several = 1 + draw(8); n < several; n++) {
        int ready = epoll_wait(loop, &out, 1, draw(25));
        tell("epoll", ready);
        uint64_t count = 1;
        if (ready == 1)
            tell("read", read(out.data.u32 == 1 ? fd : event, &count, 8));
        tell("count", count);
        if (draw(3) == 0) {
            count = 1 + draw(4);
            tell("wrote", write(event, &count, 8));
        }
    }
    close(fd);
    close(event);
    close(loop);
}

static void chance(void)
{
    uint32_t number = 0;
    tell("random", getrandom(&number, sizeof number, 0));
    tell("number", number);
    tell("pid", getpid());
    clock_t before = clock();
    for (volatile int n = 0; n < 100000; n++)
        ;
    tell("clock", clock() - before);
}

/* Several connections at once, in one loop. */
static void loop_of_many(void)
{
    int fds[6], several = 2 + draw(5), open = 0, loop = epoll_create1(EPOLL_CLOEXEC);
    for (int n = 0; n < several; n++) {
        struct epoll_event in = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | (draw(2) ? EPOLLET : EPOLLONESHOT), .data.u32 = n};
        if ((fds[n] = reach()) < 0)
            continue;
        fcntl(fds[n], F_SETFL, O_NONBLOCK);
        order(fds[n], 'e', 0);
        epoll_ctl(loop, EPOLL_CTL_ADD, fds[n], &in);
        open++;
    }
    char block[4000];
    memset(block, 'x', sizeof block);
    for (int turn = 0; turn < 60 && open; turn++) {
        struct epoll_event out[3];
        int ready = epoll_wait(loop, out, 3, draw(80));
        tell("loop", ready);
        for (int n = 0; n < ready; n++) {
            int fd = fds[out[n].data.u32];
            tell("events", out[n].events * 10 + out[n].data.u32);
            if (out[n].events & EPOLLOUT && draw(2))
                tell("out", send(fd, block, 1 + draw(sizeof block - 1), MSG_NOSIGNAL));
            if (out[n].events & EPOLLIN) {
                long got = recv(fd, block, 1 + draw(sizeof block - 1), 0);
                tell("in", got);
                if (got == 0 || (got < 0 && errno != EAGAIN)) {
                    epoll_ctl(loop, EPOLL_CTL_DEL, fd, NULL);
                    open--;
                    continue;
                }
            }
            struct epoll_event in = {.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (draw(2) ? EPOLLOUT : 0), .data.u32 = out[n].data.u32};
            epoll_ctl(loop, EPOLL_CTL_MOD, fd, &in);
        }
    }
    for (int n = 0; n < several; n++)
        if (fds[n] >= 0)
            close(fds[n]);
    close(loop);
}

static int ask(int count)
{
    static const struct {
        const char *name;
        void (*does)(void);
    } THINGS[] = {{"echo", echo}, {"fetch", fetch}, {"store", store}, {"refused", refused}, {"datagrams", datagrams}, {"threads", threads}, {"children", children},
                  {"executes", executes}, {"signals", signals}, {"timers", timers}, {"chance", chance}, {"loop of many", loop_of_many}};
    for (int n = 0; n < count; n++) {
        uint32_t thing = draw(COUNT(THINGS));
        tell(THINGS[thing].name, n);
        THINGS[thing].does();
        if (draw(2))
            rest(draw(100000));
    }
    tell("done", count);
    return 0;
}

/* Servers. */

static int listens(int type)
{
    struct addrinfo hints = {.ai_socktype = type, .ai_flags = AI_PASSIVE, .ai_family = AF_INET6}, *found;
    if (getaddrinfo(NULL, port, &hints, &found))
        exit(3);
    int fd = socket(found->ai_family, type | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, found->ai_addr, found->ai_addrlen) || (type == SOCK_STREAM && listen(fd, 1 + draw(20))))
        exit(4);
    freeaddrinfo(found);
    return fd;
}

/* A connection, from its order to its end. */
static void serve_one(int fd)
{
    unsigned char word[4];
    limit(fd, 2000000);
    if (recv(fd, word, 4, MSG_WAITALL) == 4) {
        long bytes = (word[1] << 16 | word[2] << 8 | word[3]) * 1024L, done = 0;
        char block[8192];
        long got;
        switch (word[0]) {
        case 'e':
            while ((got = read(fd, block, 1 + draw(sizeof block - 1))) > 0 && send(fd, block, got, MSG_NOSIGNAL) == got)
                done += got;
            break;
        case 's':
            done = take(fd, bytes);
            send(fd, "thank you", 9, MSG_NOSIGNAL);
            break;
        case 'g':
            if (draw(2)) {
                int file = memfd_create("served", 0);
                if (ftruncate(file, bytes))
                    exit(5);
                while (done < bytes && (got = sendfile(fd, file, NULL, 1 + draw(100000))) > 0)
                    done += got;
                close(file);
            } else
                done = give(fd, bytes);
        }
        tell("served", done);
    }
    if (draw(8) == 0)
        shutdown(fd, SHUT_WR);
    close(fd);
}

static void *serve_thread(void *fd)
{
    serve_one((int)(long)fd);
    pthread_mutex_lock(&lock);
    tell("connections", ++turns_left);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void answer_datagram(int fd)
{
    char text[4000];
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    long got = recvfrom(fd, text, sizeof text, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
    if (got >= 0 && draw(10))
        tell("datagram", sendto(fd, text, got, 0, (struct sockaddr *)&from, length));
}

/* Echoes, sinks and gives without ever waiting for one connection. */
static void serve_loop(int tcp, int udp)
{
    struct connection {
        int fd, what;
        long left;
    } *all = calloc(256, sizeof *all);
    int loop = epoll_create1(0), tick = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec every = {{0, 300000000}, {0, 100000000}};
    timerfd_settime(tick, 0, &every, NULL);
    struct epoll_event in = {.events = EPOLLIN}, out[8];
    fcntl(tcp, F_SETFL, O_NONBLOCK);
    int own[3] = {tcp, udp, tick};
    for (int n = 0; n < 3; n++) {
        in.data.u32 = 1000 + n;
        epoll_ctl(loop, EPOLL_CTL_ADD, own[n], &in);
    }
    static char block[BLOCK];
    while (1) {
        int ready = epoll_wait(loop, out, 8, draw(3) ? -1 : 50);
        for (int n = 0; n < ready; n++) {
            if (out[n].data.u32 == 1001)
                answer_datagram(udp);
            else if (out[n].data.u32 == 1002) {
                uint64_t ticks = 0;
                if (read(tick, &ticks, 8) == 8 && draw(5) == 0)
                    tell("ticks", ticks);
            } else if (out[n].data.u32 == 1000) {
                int fd;
                while ((fd = accept4(tcp, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    int free = 0;
                    while (free < 255 && all[free].what)
                        free++;
                    all[free] = (struct connection){fd, -1, 0};
                    in = (struct epoll_event){.events = EPOLLIN, .data.u32 = free};
                    epoll_ctl(loop, EPOLL_CTL_ADD, fd, &in);
                    tell("accepted", free);
                }
            } else {
                struct connection *one = &all[out[n].data.u32];
                long got = -1;
                if (one->what == 'g') {
                    got = send(one->fd, block, one->left < BLOCK ? one->left : BLOCK, MSG_NOSIGNAL);
                    one->left -= got > 0 ? got : 0;
                    if (one->left == 0)
                        got = 0;
                } else if (one->what == -1) {
                    unsigned char word[4];
                    if ((got = recv(one->fd, word, 4, 0)) == 4) {
                        one->what = word[0];
                        one->left = (word[1] << 16 | word[2] << 8 | word[3]) * 1024L;
                        in = (struct epoll_event){.events = word[0] == 'g' ? EPOLLOUT : EPOLLIN, .data.u32 = out[n].data.u32};
                        epoll_ctl(loop, EPOLL_CTL_MOD, one->fd, &in);
                    } else
                        got = got < 0 && errno == EAGAIN ? -1 : 0;
                } else {
                    got = recv(one->fd, block, 1 + draw(BLOCK - 1), 0);
                    if (got > 0 && one->what == 'e')
                        send(one->fd, block, got, MSG_NOSIGNAL);
                }
                if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                    tell("closed", out[n].data.u32);
                    close(one->fd);
                    one->what = 0;
                }
            }
        }
    }
}

static int serve(const char *style)
{
    int tcp = listens(SOCK_STREAM), udp = listens(SOCK_DGRAM);
    signal(SIGCHLD, SIG_IGN);
    if (!strcmp(style, "loop"))
        serve_loop(tcp, udp);
    while (1) {
        struct pollfd wait[2] = {{.fd = tcp, .events = POLLIN}, {.fd = udp, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0)
            continue;
        if (wait[1].revents)
            answer_datagram(udp);
        if (!wait[0].revents)
            continue;
        int fd = accept(tcp, NULL, NULL);
        if (fd < 0) {
            tell("accept", fd);
            continue;
        }
        if (!strcmp(style, "threads")) {
            pthread_t made;
            if (pthread_create(&made, NULL, serve_thread, (void *)(long)fd) == 0)
                pthread_detach(made);
        } else if (!strcmp(style, "forks")) {
            if (fork() == 0) {
                close(tcp);
                serve_one(fd);
                _exit(0);
            }
            close(fd);
        } else
            serve_one(fd);
    }
}

int main(int count, char **words)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (count == 5 && !strcmp(words[1], "serve")) {
        port = words[2];
        state = strtoull(words[4], NULL, 10);
        return serve(words[3]);
    }
    if (count == 6 && !strcmp(words[1], "ask")) {
        host = words[2];
        port = words[3];
        state = strtoull(words[5], NULL, 10);
        return ask(atoi(words[4]));
    }
    return 2;
}
