/* Descriptors of all kinds that many processes make, pass on, duplicate, inherit, take through execve and close, all at once.
 *
 *     descriptors WORKERS ROUNDS SEED [KIND,KIND…]      those kinds are left out
 *
 * Each worker has a keeper, a process that holds the other ends. A worker makes a pair of ends, gives one to a keeper (its own or another's) over a unix
 * socket, closes its copy, and later asks the keeper what comes through: always the number that the pair has, and never anybody else's. When the keeper
 * closes, the worker must see that end and no other. What comes of it is a line a worker: the same on every host, whatever the order.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS_MAX = 32, HELD_MAX = 64, LIVE_MAX = 6, PATIENCE_MS = 20000 };

enum kind { TCP4, TCP6, UDP4, UDP6, LISTENER, UNIX_STREAM, UNIX_PACKETS, PIPE, EVENT, TIMER, FILE_, EPOLL, EPOLL_SOCKET, KINDS };
static const char *KIND_NAMES[KINDS] = {"tcp", "tcp6", "udp", "udp6", "listener", "unix", "seqpacket", "pipe", "eventfd", "timerfd", "file", "epoll", "epoll-socket"};

/* What a worker asks a keeper. */
enum asked { HOLD, LOOK, WRITE, DROP };
struct request { uint64_t number; int what, kind, from; };
/* What it answers: the number that came, or -errno. */
struct reply { uint64_t number; int64_t came; };

static int keepers[WORKERS_MAX][2], replies[WORKERS_MAX][2];
static int workers, me;
static uint64_t state;
static int checks, wrong;
static const char *left_out = "";

static unsigned draw(unsigned below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 20) % below;
}

static void complain(const char *what, int kind, uint64_t number, long came)
{
    wrong++;
    printf("worker %d: %s of %s %llu: %ld\n", me, what, KIND_NAMES[kind], (unsigned long long)number, came);
    fflush(stdout);
}
static void check(int holds, const char *what, int kind, uint64_t number, long came)
{
    checks++;
    if (!holds) complain(what, kind, number, came);
}

/* Reads one number; 0 at the end, -errno, -ETIMEDOUT when nothing comes. */
static int64_t number_of(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, PATIENCE_MS) != 1) return -ETIMEDOUT;
    uint64_t number = 0;
    size_t had = 0;
    while (had < sizeof number) {
        ssize_t came = read(fd, (char *)&number + had, sizeof number - had);
        if (came < 0 && errno == EAGAIN && poll(&one, 1, PATIENCE_MS) == 1) continue;
        if (came < 0) return -errno;
        if (came == 0) return had ? -EIO : 0;
        had += came;
    }
    return number;
}

/* Has the other end been closed? */
static int has_ended(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, 0) != 1) return 0;
    char byte;
    return read(fd, &byte, 1) <= 0;
}

/* The keeper's end of its pair, as it is used. */
static int64_t through(int kind, int fd)
{
    switch (kind) {
    case LISTENER: {
        int one = accept4(fd, 0, 0, SOCK_CLOEXEC);
        if (one < 0) return -errno;
        int64_t came = number_of(one);
        close(one);
        return came;
    }
    case TIMER: {
        int64_t came = number_of(fd);
        return came == 1 ? 1 : came;
    }
    case FILE_: {
        uint64_t number = 0;
        return pread(fd, &number, sizeof number, 0) == sizeof number ? (int64_t)number : -errno;
    }
    case EPOLL: case EPOLL_SOCKET: {
        struct epoll_event event;
        int came = epoll_wait(fd, &event, 1, PATIENCE_MS);
        return came == 1 ? (int64_t)event.data.u64 : came ? -errno : -ETIMEDOUT;
    }
    default: return number_of(fd);
    }
}

static int send_with(int to, const struct request *request, int fd)
{
    struct iovec vector = {(void *)request, sizeof *request};
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control, message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET, control.header.cmsg_type = SCM_RIGHTS, control.header.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(to, &message, 0) == sizeof *request ? 0 : -errno;
}

static void keep(int number)
{
    struct { uint64_t number; int fd; } held[HELD_MAX] = {0};
    for (;;) {
        struct request request;
        struct iovec vector = {&request, sizeof request};
        union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
        ssize_t came = recvmsg(keepers[number][1], &message, MSG_CMSG_CLOEXEC);
        if (came <= 0) _exit(0);
        struct reply reply = {request.number, 0};
        int at = 0;
        while (at < HELD_MAX && held[at].number != (request.what == HOLD ? 0 : request.number)) at++;
        if (at == HELD_MAX) {
            reply.came = -ENOENT;
        } else if (request.what == HOLD) {
            int fd = -1;
            if (CMSG_FIRSTHDR(&message)) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
            reply.came = fd < 0 ? -EBADF : 0;
            if (fd >= 0) held[at].number = request.number, held[at].fd = fd;
        } else if (request.what == LOOK) {
            reply.came = through(request.kind, held[at].fd);
        } else if (request.what == WRITE) {
            reply.came = write(held[at].fd, &request.number, sizeof request.number) < 0 ? -errno : 0;
        } else {
            reply.came = close(held[at].fd) ? -errno : 0;
            held[at].number = 0;
        }
        if (write(replies[request.from][1], &reply, sizeof reply) != sizeof reply) _exit(1);
    }
}

static int begin_to_ask(int keeper, int what, int kind, uint64_t number, int fd)
{
    struct request request = {number, what, kind, me};
    return send_with(keepers[keeper][0], &request, fd);
}
static int64_t answer_of(uint64_t number)
{
    struct reply reply;
    struct pollfd one = {.fd = replies[me][0], .events = POLLIN};
    if (poll(&one, 1, 2 * PATIENCE_MS) != 1 || read(replies[me][0], &reply, sizeof reply) != sizeof reply) return -ETIMEDOUT;
    return reply.number == number ? reply.came : -EILSEQ;
}
static int64_t ask(int keeper, int what, int kind, uint64_t number, int fd)
{
    int sent = begin_to_ask(keeper, what, kind, number, fd);
    return sent ? sent : answer_of(number);
}

/* ---- pairs: `mine` is written to, or asked for an end; `theirs` goes to a keeper */

/* `member`: what an epoll that is given away watches. `port`: where a listener that is given away listens. */
struct pair { int kind, keeper, mine, theirs, member; uint64_t number; struct sockaddr_storage port; };

static socklen_t loopback(int family, struct sockaddr_storage *into)
{
    memset(into, 0, sizeof *into);
    into->ss_family = family;
    if (family == AF_INET) ((struct sockaddr_in *)into)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else ((struct sockaddr_in6 *)into)->sin6_addr = in6addr_loopback;
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}
static int at_loopback(int family, int type, struct sockaddr_storage *name)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    socklen_t length = loopback(family, name);
    if (fd < 0 || bind(fd, (void *)name, length) || getsockname(fd, (void *)name, &length)) return -1;
    return fd;
}
/* In a thread: what is drawn is drawn before, or two threads would draw at once. */
struct accepting { int listener, flags, accepted; };
static void *accepts(void *given)
{
    struct accepting *accepting = given;
    accepting->accepted = accept4(accepting->listener, 0, 0, accepting->flags);
    return 0;
}
/* Connects, and makes another socket at once: somebody's accept is answered between both. */
static int connect_to(int fd, const struct sockaddr_storage *name)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    int began = connect(fd, (void *)name, name->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    int other = socket(draw(2) ? AF_INET : AF_INET6, draw(2) ? SOCK_STREAM : SOCK_DGRAM, 0), error = errno;
    if (other < 0 || close(other)) return -1;
    if (began && error != EINPROGRESS && errno != EINPROGRESS) return -1;
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    socklen_t length = sizeof error;
    if (poll(&one, 1, PATIENCE_MS) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length)) return -1;
    fcntl(fd, F_SETFL, 0);
    errno = error;
    return error ? -1 : 0;
}
static int make_stream(int family, struct pair *pair)
{
    struct sockaddr_storage name;
    int listener = at_loopback(family, SOCK_STREAM, &name);
    if (listener < 0 || listen(listener, 4)) return -1;
    struct accepting accepting = {listener, draw(2) ? SOCK_CLOEXEC : 0, -1};
    pthread_t thread;
    pthread_create(&thread, 0, accepts, &accepting);
    pair->mine = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = connect_to(pair->mine, &name);
    pthread_join(thread, 0);
    pair->theirs = accepting.accepted;
    close(listener);
    return connected < 0 || pair->theirs < 0 ? -1 : 0;
}
static int make_datagrams(int family, struct pair *pair)
{
    struct sockaddr_storage mine, theirs;
    pair->mine = at_loopback(family, SOCK_DGRAM, &mine), pair->theirs = at_loopback(family, SOCK_DGRAM, &theirs);
    return connect(pair->mine, (void *)&theirs, sizeof theirs) | connect(pair->theirs, (void *)&mine, sizeof mine);
}
static int make(struct pair *pair)
{
    int ends[2] = {-1, -1};
    switch (pair->kind) {
    case TCP4: return make_stream(AF_INET, pair);
    case TCP6: return make_stream(AF_INET6, pair);
    case UDP4: return make_datagrams(AF_INET, pair);
    case UDP6: return make_datagrams(AF_INET6, pair);
    case LISTENER: {
        struct sockaddr_storage name;
        pair->theirs = at_loopback(draw(2) ? AF_INET : AF_INET6, SOCK_STREAM, &name);
        if (pair->theirs < 0 || listen(pair->theirs, 4)) return -1;
        pair->mine = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        pair->port = name;
        return pair->mine < 0;
    }
    case UNIX_STREAM: if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return -1; break;
    case UNIX_PACKETS: if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return -1; break;
    case PIPE: if (pipe2(ends, O_CLOEXEC)) return -1; else { pair->mine = ends[1], pair->theirs = ends[0]; return 0; }
    case EVENT: ends[0] = eventfd(0, EFD_CLOEXEC), ends[1] = dup(ends[0]); break;
    case TIMER: ends[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), ends[1] = dup(ends[0]); break;
    case FILE_: ends[0] = memfd_create("descriptors", MFD_CLOEXEC), ends[1] = dup(ends[0]); break;
    case EPOLL_SOCKET: {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = pair->number};
        if (make_datagrams(draw(2) ? AF_INET : AF_INET6, pair)) return -1;
        pair->member = pair->theirs, pair->theirs = epoll_create1(EPOLL_CLOEXEC);
        return epoll_ctl(pair->theirs, EPOLL_CTL_ADD, pair->member, &event);
    }
    case EPOLL: {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = pair->number};
        ends[0] = eventfd(0, EFD_CLOEXEC), ends[1] = epoll_create1(EPOLL_CLOEXEC);
        if (epoll_ctl(ends[1], EPOLL_CTL_ADD, ends[0], &event)) return -1;
        break;
    }
    }
    pair->mine = ends[0], pair->theirs = ends[1], pair->member = ends[0];
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

/* The same object under another number, and the old one closed. */
static int moved(int fd)
{
    int other;
    switch (draw(4)) {
    case 0: other = dup(fd); break;
    case 1: other = fcntl(fd, F_DUPFD_CLOEXEC, 60 + draw(60)); break;
    case 2: other = fcntl(fd, F_DUPFD, 300 + draw(60)); break;
    default: return fd;
    }
    if (other < 0) return fd;
    close(fd);
    return other;
}

/* Says this pair's number on our end. 0, or -errno. */
static int say(const struct pair *pair)
{
    struct itimerspec soon = {.it_value.tv_nsec = 1};
    switch (pair->kind) {
    case TIMER: return timerfd_settime(pair->mine, 0, &soon, 0) ? -errno : 0;
    case FILE_: return pwrite(pair->mine, &pair->number, sizeof pair->number, 0) < 0 ? -errno : 0;
    default: return write(pair->mine, &pair->number, sizeof pair->number) < 0 ? -errno : 0;
    }
}
static int ends_with_it(int kind) { return kind <= TCP6 || kind == UNIX_STREAM || kind == UNIX_PACKETS; }
static int answers(int kind) { return kind <= UDP6 || kind == UNIX_STREAM || kind == UNIX_PACKETS; }

static void use(const struct pair *pair)
{
    // The keeper waits by then, except for a file, which nobody waits for.
    int waits = pair->kind != FILE_, asked = waits ? begin_to_ask(pair->keeper, LOOK, pair->kind, pair->number, -1) : 0;
    if (pair->kind == LISTENER) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, 0);
        check(connect_to(pair->mine, &pair->port) == 0, "connect", pair->kind, pair->number, errno);
    }
    int said = say(pair);
    check(!said, "say", pair->kind, pair->number, said);
    if (!waits) asked = begin_to_ask(pair->keeper, LOOK, pair->kind, pair->number, -1);
    int64_t came = asked ? asked : answer_of(pair->number);
    uint64_t wanted = pair->kind == TIMER ? 1 : pair->number;
    check(came == (int64_t)wanted, "look", pair->kind, pair->number, came);
    if (pair->kind == EPOLL || pair->kind == EPOLL_SOCKET) {
        // Level-triggered: taken back, so that the next look waits for the next word.
        uint64_t taken = 0;
        check(read(pair->member, &taken, sizeof taken) == sizeof taken, "take back", pair->kind, pair->number, errno);
    }
    if (answers(pair->kind)) {
        came = ask(pair->keeper, WRITE, pair->kind, pair->number, -1);
        check(came == 0, "answer", pair->kind, pair->number, came);
        came = number_of(pair->mine);
        check(came == (int64_t)pair->number, "answer comes", pair->kind, pair->number, came);
    }
}

/* A child uses a pair that it inherited, while this process makes and closes others. */
static void inherit(const struct pair *pair, char *self, int executes)
{
    fflush(stdout);
    int was = fcntl(pair->mine, F_GETFD);
    int both = pair->member > 0 && pair->member != pair->mine;
    if (executes) fcntl(pair->mine, F_SETFD, 0);
    if (executes && both) fcntl(pair->member, F_SETFD, 0);
    pid_t child = fork();
    if (!child) {
        if (executes) {
            char words[7][24];
            const long numbers[7] = {workers, me, pair->kind, pair->keeper, pair->mine, pair->member, (long)pair->number};
            for (int i = 0; i < 7; i++) snprintf(words[i], sizeof words[i], "%ld", numbers[i]);
            execl("/proc/self/exe", self, "child", words[0], words[1], words[2], words[3], words[4], words[5], words[6], (char *)0);
            _exit(99);
        }
        checks = wrong = 0;
        use(pair);
        fflush(stdout);
        _exit(wrong);
    }
    for (int i = 0; i < 3; i++) {
        struct pair other = {.kind = draw(UDP6 + 1), .number = 7};
        check(make(&other) == 0, "make", other.kind, 7, errno);
        check(write(other.mine, &other.number, 8) == 8 && number_of(other.theirs) == 7, "own", other.kind, 7, errno);
        close(other.theirs);
        close(other.mine);
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(status == 0, executes ? "after execve" : "in a child", pair->kind, pair->number, status);
    fcntl(pair->mine, F_SETFD, was);
    if (both) fcntl(pair->member, F_SETFD, FD_CLOEXEC);
}

static void finish(struct pair *pair)
{
    int64_t came = ask(pair->keeper, DROP, pair->kind, pair->number, -1);
    check(came == 0, "drop", pair->kind, pair->number, came);
    if (ends_with_it(pair->kind)) {
        came = number_of(pair->mine);
        check(came == 0, "end", pair->kind, pair->number, came);
    }
    close(pair->mine);
    if (pair->kind == EPOLL_SOCKET) close(pair->member);
    pair->number = 0;
}

static int is_left_out(int kind)
{
    size_t length = strlen(KIND_NAMES[kind]);
    for (const char *at = left_out; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !memcmp(at, KIND_NAMES[kind], length)) return 1;
    return 0;
}
static int drawn_kind(void)
{
    for (;;) {
        int kind = draw(KINDS);
        if (!is_left_out(kind)) return kind;
    }
}

static int work(int rounds, char *self)
{
    struct pair live[LIVE_MAX] = {0};
    int made[KINDS] = {0}, passed = 0, inherited = 0, executed = 0;
    uint64_t next = (uint64_t)(me + 1) << 32;
    for (int round = 0; round < rounds; round++) {
        struct pair *pair = &live[draw(LIVE_MAX)];
        if (!pair->number) {
            *pair = (struct pair){.kind = drawn_kind(), .keeper = draw(workers), .number = ++next};
            if (make(pair)) {
                check(0, "make", pair->kind, pair->number, errno);
                pair->number = 0;
                continue;
            }
            made[pair->kind]++;
            if (pair->kind != EPOLL) pair->mine = moved(pair->mine);
            pair->theirs = moved(pair->theirs);
            int64_t came = ask(pair->keeper, HOLD, pair->kind, pair->number, pair->theirs);
            check(came == 0, "pass", pair->kind, pair->number, came);
            passed++;
            close(pair->theirs);
        } else {
            // A listener is used once, and by this process.
            int again = pair->kind != LISTENER;
            switch (again ? draw(4) : 0) {
            case 0: use(pair); break;
            case 1: inherit(pair, self, 0), inherited++; break;
            case 2: inherit(pair, self, 1), executed++; break;
            default: use(pair), again = 0;
            }
            if (!again) finish(pair);
        }
        // Nobody but who was told to has closed anything.
        for (int i = 0; i < LIVE_MAX; i++)
            if (live[i].number && ends_with_it(live[i].kind)) check(!has_ended(live[i].mine), "still open", live[i].kind, live[i].number, errno);
    }
    for (int i = 0; i < LIVE_MAX; i++)
        if (live[i].number) finish(&live[i]);
    printf("worker %d:", me);
    for (int kind = 0; kind < KINDS; kind++) printf(" %s %d", KIND_NAMES[kind], made[kind]);
    printf("; passed %d, inherited %d, executed %d; %d checks, %d wrong\n", passed, inherited, executed, checks, wrong);
    fflush(stdout);
    return wrong;
}

/* The numbers that all processes know, through execve too. */
enum { SOCKETS = 400 };

static void make_known(int pair[2], int at)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) perror("socketpair"), exit(2);
    pair[0] = dup2(ends[0], at), pair[1] = dup2(ends[1], at + 1);
    close(ends[0]), close(ends[1]);
}

int main(int count, char **words)
{
    if (count == 9 && !strcmp(words[1], "child")) {
        workers = atoi(words[2]), me = atoi(words[3]);
        struct pair pair = {.kind = atoi(words[4]), .keeper = atoi(words[5]), .mine = atoi(words[6]),
                            .member = atoi(words[7]), .number = strtoull(words[8], 0, 10)};
        for (int i = 0; i < workers; i++) {
            keepers[i][0] = SOCKETS + 4 * i, keepers[i][1] = SOCKETS + 4 * i + 1;
            replies[i][0] = SOCKETS + 4 * i + 2, replies[i][1] = SOCKETS + 4 * i + 3;
        }
        use(&pair);
        return wrong;
    }
    if (count < 4) return fprintf(stderr, "usage: descriptors WORKERS ROUNDS SEED [KIND,KIND…]\n"), 2;
    if (count > 4) left_out = words[4];
    workers = atoi(words[1]);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < workers; i++) make_known(keepers[i], SOCKETS + 4 * i), make_known(replies[i], SOCKETS + 4 * i + 2);
    pid_t keeping[WORKERS_MAX], working[WORKERS_MAX];
    for (int i = 0; i < workers; i++)
        if (!(keeping[i] = fork())) keep(i);
    for (int i = 0; i < workers; i++)
        if (!(working[i] = fork())) {
            me = i;
            state = 0x9E3779B97F4A7C15u * (strtoull(words[3], 0, 10) + 1) + i * 0xBF58476D1CE4E5B9u;
            alarm(300);
            _exit(work(atoi(words[2]), words[0]) != 0);
        }
    int bad = 0, status;
    for (int i = 0; i < workers; i++) {
        waitpid(working[i], &status, 0);
        if (status) printf("worker %d ended with %x\n", i, status);
        bad |= status;
    }
    for (int i = 0; i < workers; i++) kill(keeping[i], SIGKILL), waitpid(keeping[i], &status, 0);
    return bad != 0;
}
