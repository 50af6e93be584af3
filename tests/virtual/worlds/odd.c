/* A program of random worlds (worlds.py): what few programs do with descriptors, processes and signals, drawn from a number; each result is told with the time.
 *
 *     odd HOST PORT COUNT SEED      COUNT things; the server is talks.c's
 */
#define _GNU_SOURCE
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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

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

static void tell(const char *what, long long result)
{
    int error = result < 0 ? errno : 0;
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    char line[128];
    int length = snprintf(line, sizeof line, "%s %lld %d %lld.%09ld\n", what, result, error, (long long)at.tv_sec, at.tv_nsec);
    if (write(1, line, length) != length)
        _exit(9);
}

static void rest(uint32_t micros)
{
    struct timespec span = {micros / 1000000, micros % 1000000 * 1000L};
    nanosleep(&span, NULL);
}

/* A connection to the server, which was told what to do with it; what waits on it gives up after a while. */
static int reach(char what, int kib)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error) {
        tell("getaddrinfo", error);
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM, 0), result;
    struct timeval limit = {1, 500000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    result = connect(fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    tell("connect", result);
    unsigned char word[4] = {what, 0, kib >> 8, kib};
    if (result < 0 || send(fd, word, 4, MSG_NOSIGNAL) != 4) {
        close(fd);
        return -1;
    }
    return fd;
}

static void take_all(int fd)
{
    char block[9000];
    long got, all = 0;
    while ((got = recv(fd, block, 1 + draw(sizeof block - 1), 0)) > 0)
        all += got;
    tell("last", got);
    tell("all", all);
}

static void gather(int several)
{
    for (int n = 0; n < several; n++) {
        int status = 0;
        struct rusage used;
        tell("child", wait4(-1, &status, 0, &used));
        tell("status", status);
        tell("used", used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    }
}

/* Several processes read one connection. */
static void readers(void)
{
    int fd = reach('g', 20 + draw(200)), several = 1 + draw(3);
    if (fd < 0)
        return;
    for (int n = 0; n < several; n++)
        if (fork() == 0) {
            state += n;
            take_all(fd);
            _exit(n);
        }
    if (draw(2))
        take_all(fd);
    close(fd);
    gather(several);
}

/* A server before a fork, whose children accept in turn; one of them may be killed. */
static void servers(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), several = 1 + draw(3);
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t length = sizeof to;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd, (struct sockaddr *)&to, length);
    listen(fd, 3);
    getsockname(fd, (struct sockaddr *)&to, &length);
    pid_t made[4];
    int looped = draw(2);
    for (int n = 0; n < several; n++)
        if ((made[n] = fork()) == 0) {
            int loop = epoll_create1(0);
            struct epoll_event in = {.events = EPOLLIN | (n & 1 ? EPOLLEXCLUSIVE : 0)}, out;
            epoll_ctl(loop, EPOLL_CTL_ADD, fd, &in);
            fcntl(fd, F_SETFL, looped ? O_NONBLOCK : 0);
            while (1) {
                if (looped)
                    tell("woken", epoll_wait(loop, &out, 1, 1000));
                int one = accept(fd, NULL, NULL);
                tell("accepted", one < 0 ? -1 : n);
                if (one < 0)
                    continue;
                rest(draw(2000));
                send(one, "hello", 5, MSG_NOSIGNAL);
                close(one);
            }
        }
    for (int n = 0, clients = 1 + draw(8); n < clients; n++) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        struct timeval limit = {0, 100000};
        setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        tell("connect", connect(one, (struct sockaddr *)&to, length));
        if (draw(3) == 0)
            rest(draw(4000));
        take_all(one);
        close(one);
        if (draw(4) == 0)
            kill(made[draw(several)], SIGKILL);
    }
    for (int n = 0; n < several; n++)
        kill(made[n], draw(2) ? SIGTERM : SIGKILL);
    gather(several);
    close(fd);
}

/* A connection is given to a child through a socket, and the parent's is closed. */
static void passed(void)
{
    int pair[2], fd = reach('g', 1 + draw(60));
    if (fd < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        return;
    pid_t child = fork();
    char byte = 0, room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (child == 0) {
        close(fd);
        tell("received", recvmsg(pair[1], &message, 0));
        int given = -1;
        if (CMSG_FIRSTHDR(&message))
            memcpy(&given, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof given);
        take_all(given);
        _exit(0);
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    rest(draw(3000));
    tell("passed", sendmsg(pair[0], &message, 0));
    close(fd);
    if (draw(4) == 0)
        kill(child, SIGKILL);
    gather(1);
    close(pair[0]);
    close(pair[1]);
}

/* A child holds a lock that all processes share, and is killed; another gets it. */
static void robust(void)
{
    pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    if (draw(2))
        pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(lock, &how);
    int several = 2 + draw(3);
    pid_t made[5];
    for (int n = 0; n < several; n++)
        if ((made[n] = fork()) == 0) {
            state += n;
            for (int turn = 0; turn < 5; turn++) {
                int result = pthread_mutex_lock(lock);
                if (result == EOWNERDEAD)
                    pthread_mutex_consistent(lock);
                tell("locked", n * 1000 + result);
                rest(draw(4000));
                pthread_mutex_unlock(lock);
            }
            _exit(0);
        }
    rest(draw(15000));
    kill(made[draw(several)], SIGKILL);
    gather(several);
    munmap(lock, 4096);
}

static void *burns(void *nothing)
{
    while (1)
        rest(1 + draw(3000));
    return nothing;
}

static void *executes(void *nothing)
{
    rest(draw(5000));
    execlp("sh", "sh", "-c", "echo $$; ls /proc/self/task | wc -l", NULL);
    return nothing;
}

/* Processes that end, or become others, while their threads run. */
static void many_threads(void)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t made;
        for (int n = 0, several = 1 + draw(4); n < several; n++)
            pthread_create(&made, NULL, burns, NULL);
        uint32_t how = draw(4);
        if (how == 0)
            pthread_create(&made, NULL, executes, NULL);
        rest(draw(9000));
        if (how == 1)
            abort();
        if (how == 2)
            pthread_exit(NULL);
        if (how == 3)
            _exit(4);
        pause();
    }
    if (draw(2)) {
        int status;
        rest(20000);
        tell("early", waitpid(-1, &status, WNOHANG));
    }
    siginfo_t info = {0};
    struct timespec limit = {0, 100000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    tell("child ends", sigtimedwait(&set, &info, &limit));
    /* Those that pthread_exit left alone run on. */
    kill(child, SIGKILL);
    int status;
    while (waitpid(-1, &status, 0) > 0)
        tell("status", status);
}

/* Signals as something to read, and queued ones with values. */
static void queued(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_NONBLOCK);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
    timer_create(draw(2) ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
    struct itimerspec every = {{0, 1 + draw(3000000)}, {0, 1 + draw(3000000)}};
    timer_settime(timer, 0, &every, NULL);
    if (fork() == 0) {
        for (int n = 0; n < 5; n++) {
            union sigval value = {.sival_int = n};
            tell("queued", sigqueue(getppid(), draw(2) ? SIGRTMIN : SIGUSR1, value));
            rest(draw(3000));
        }
        _exit(0);
    }
    for (int n = 0; n < 10; n++) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        struct signalfd_siginfo info;
        tell("poll", poll(&wait, 1, draw(6)));
        if (read(fd, &info, sizeof info) == sizeof info)
            tell("signal", info.ssi_signo * 100 + info.ssi_int);
    }
    tell("overrun", timer_getoverrun(timer));
    timer_delete(timer);
    siginfo_t info;
    struct timespec none = {0, 0};
    gather(1);
    while (sigtimedwait(&set, &info, &none) > 0)
        tell("late", info.si_signo);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    close(fd);
}

/* From one descriptor to another, past the program. */
static void spliced(void)
{
    int ends[2], from = reach('g', 30 + draw(100)), to = reach('s', 300);
    if (from < 0 || to < 0 || pipe(ends))
        return;
    long moved, all = 0;
    while ((moved = splice(from, NULL, ends[1], NULL, 1 + draw(70000), 0)) > 0) {
        while (moved > 0) {
            long gone = splice(ends[0], NULL, to, NULL, moved, draw(2) ? SPLICE_F_MORE : 0);
            if (gone <= 0) {
                tell("splice", gone);
                goto end;
            }
            moved -= gone;
            all += gone;
        }
    }
end:
    tell("spliced", all);
    int waiting = 0;
    tell("ioctl", ioctl(from, FIONREAD, &waiting));
    close(from);
    close(to);
    close(ends[0]);
    close(ends[1]);
}

/* Many datagrams in a call, to itself and others. */
static void datagrams(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t length = sizeof own;
    bind(fd, (struct sockaddr *)&own, length);
    getsockname(fd, (struct sockaddr *)&own, &length);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char text[4][700];
    struct iovec parts[4];
    struct mmsghdr several[4];
    for (int turn = 0; turn < 6; turn++) {
        for (int n = 0; n < 4; n++) {
            parts[n] = (struct iovec){text[n], 1 + draw(699)};
            several[n] = (struct mmsghdr){.msg_hdr = {.msg_name = &own, .msg_namelen = length, .msg_iov = &parts[n], .msg_iovlen = 1}};
        }
        tell("sent", sendmmsg(fd, several, 1 + draw(4), 0));
        for (int n = 0; n < 4; n++)
            several[n].msg_hdr.msg_name = NULL;
        struct timespec limit = {0, draw(9000000)};
        tell("received", recvmmsg(fd, several, 1 + draw(4), draw(2) ? MSG_WAITFORONE : MSG_DONTWAIT, &limit));
    }
    close(fd);
}

/* A signal for what comes. */
static volatile int told;

static void comes(int signal)
{
    told += signal;
}

static void asynchronous(void)
{
    signal(SIGIO, comes);
    int fd = reach('g', 1 + draw(40));
    if (fd < 0)
        return;
    fcntl(fd, F_SETOWN, getpid());
    fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    char block[3000];
    for (int turn = 0; turn < 30; turn++) {
        long got = recv(fd, block, 1 + draw(sizeof block - 1), 0);
        tell("got", got);
        if (got == 0)
            break;
        if (got < 0)
            rest(draw(20000));
        tell("told", told);
    }
    close(fd);
}

/* Nobody reads any more. */
static void broken(void)
{
    int ends[2];
    pipe(ends);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        signal(SIGPIPE, SIG_DFL);
        while (write(ends[1], "many words ", 11) > 0)
            if (draw(5) == 0)
                rest(draw(1000));
        _exit(1);
    }
    close(ends[1]);
    char text[100];
    for (int n = 0, turns = draw(30); n < turns; n++)
        tell("read", read(ends[0], text, 1 + draw(99)));
    close(ends[0]);
    if (draw(4) == 0)
        tell("stop", kill(child, SIGSTOP) | kill(child, SIGCONT));
    gather(1);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*does)(void);
    } THINGS[] = {{"readers", readers}, {"servers", servers}, {"passed", passed}, {"robust", robust}, {"many threads", many_threads}, {"queued", queued},
                  {"spliced", spliced}, {"datagrams", datagrams}, {"asynchronous", asynchronous}, {"broken", broken}};
    if (count != 5)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    host = words[1];
    port = words[2];
    state = strtoull(words[4], NULL, 10);
    for (int n = 0, turns = atoi(words[3]); n < turns; n++) {
        uint32_t thing = draw(COUNT(THINGS));
        tell(THINGS[thing].name, n);
        THINGS[thing].does();
        if (draw(2))
            rest(draw(100000));
    }
    tell("done", 0);
    return 0;
}
