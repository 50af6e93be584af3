/* What there is to wait at: each makes `a`, where the waiter waits, and `b`, the other end. */
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { AT_ONCE = 64, TEXT = 160 };

static int patience;
static int family;
/* The waiter's end, the other end, and what else an object has. */
static int a = -1, b = -1, c = -1;
static struct sockaddr_storage place;
/* The cell's number; and whether it has an address of its own, which can go. */
static unsigned number;
static int own_address;

/* What the waiter says: in shared memory, as it may be another process. */
static struct said { volatile int tid, done; char text[TEXT]; } *said;

static void say(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(said->text, TEXT, format, words);
    va_end(words);
}
static void came(long result)
{
    if (result < 0) say("%s", strerrorname_np(errno));
    else say("%ld", result);
}
static void ms(int n)
{
    struct timespec span = {n / 1000, n % 1000 * 1000000L};
    while (nanosleep(&span, &span) && errno == EINTR) {}
}
static void must(int holds, const char *what)
{
    if (holds) return;
    printf("set-up failed: %s: %s\n", what, strerrorname_np(errno));
    fflush(stdout);
    _exit(3);
}

static socklen_t size_of(void) { return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6); }
static void any_port(void)
{
    memset(&place, 0, sizeof place);
    place.ss_family = family;
    if (family == AF_INET) {
        ((struct sockaddr_in *)&place)->sin_addr.s_addr = htonl(own_address ? 0x0a630000 + number : INADDR_LOOPBACK);
    } else {
        struct in6_addr *six = &((struct sockaddr_in6 *)&place)->sin6_addr;
        *six = in6addr_loopback;
        if (own_address) six->s6_addr[0] = 0xfd, six->s6_addr[13] = number >> 16, six->s6_addr[14] = number >> 8, six->s6_addr[15] = number;
    }
}
/* Gives `lo` the cell's address, or takes it away. */
static void change_address(int type)
{
    struct sockaddr_storage before = place;
    any_port();
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int bytes = family == AF_INET ? 4 : 16;
    struct { struct nlmsghdr head; struct ifaddrmsg message; struct rtattr attribute; unsigned char address[16]; } request = {
        {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | (type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_EXCL : 0)},
        {.ifa_family = family, .ifa_prefixlen = 8 * bytes, .ifa_flags = family == AF_INET ? 0 : IFA_F_NODAD, .ifa_index = 1},
        {.rta_len = RTA_LENGTH(bytes), .rta_type = IFA_LOCAL}, {0}};
    memcpy(request.address, family == AF_INET ? (void *)&((struct sockaddr_in *)&place)->sin_addr : (void *)&((struct sockaddr_in6 *)&place)->sin6_addr, bytes);
    request.head.nlmsg_len = NLMSG_LENGTH(sizeof request.message) + RTA_LENGTH(bytes);
    struct { struct nlmsghdr head; struct nlmsgerr error; char more[256]; } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    must(fd >= 0 && sendto(fd, &request, request.head.nlmsg_len, 0, (void *)&kernel, sizeof kernel) > 0 && recv(fd, &answer, sizeof answer, 0) > 0, "netlink");
    errno = -answer.error.error;
    must(!errno, type == RTM_NEWADDR ? "new address" : "address gone");
    close(fd);
    if (type == RTM_NEWADDR) {
        // The kernel makes the way to it later, when it comes to that.
        ms(30);
        fd = socket(family, SOCK_DGRAM, 0);
        while (connect(fd, (void *)&place, size_of())) ms(1);
        close(fd);
    }
    place = before;
}
/* `lo` up or down. */
static void change_interface(int up)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    must(!ioctl(fd, SIOCGIFFLAGS, &request), "flags of lo");
    request.ifr_flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
    must(!ioctl(fd, SIOCSIFFLAGS, &request), "flags of lo");
    close(fd);
}
static int bound(int type)
{
    any_port();
    int fd = socket(family, type, 0);
    socklen_t length = size_of();
    must(fd >= 0 && !bind(fd, (void *)&place, length) && !getsockname(fd, (void *)&place, &length), "bind");
    return fd;
}
static int connected(void)
{
    int fd = socket(family, SOCK_STREAM, 0);
    must(fd >= 0 && !connect(fd, (void *)&place, size_of()), "connect");
    return fd;
}
static void nonblocking(int fd, int on) { fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0); }

/* Bytes that the other end takes unread; 0: as always. */
static int received_max;
/* A connection that has nothing to read. */
static void stream(void)
{
    int listener = bound(SOCK_STREAM);
    if (received_max) setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &received_max, sizeof received_max);
    must(!listen(listener, 4), "listen");
    a = connected();
    b = accept(listener, 0, 0);
    must(b >= 0, "accept");
    close(listener);
}
static char bulk[65536];
static void fill(int fd)
{
    nonblocking(fd, 1);
    // What is on its way makes room when it arrives.
    for (int quiet = 0; quiet < 16; quiet++, ms(10)) {
        while (write(fd, bulk, sizeof bulk) > 0) quiet = 0;
        while (write(fd, bulk, 1) > 0) quiet = 0;
    }
    nonblocking(fd, 0);
}
/* A connection that takes nothing more. */
static void full(void)
{
    received_max = 20000;
    stream();
    int small = 20000;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    fill(a);
}
static void listening(void)
{
    a = bound(SOCK_STREAM);
    must(!listen(a, 4), "listen");
}
/* A connection to a listener that has no room for it. */
static void connecting(void)
{
    c = bound(SOCK_STREAM);
    must(!listen(c, 0), "listen");
    b = connected();
    a = socket(family, SOCK_STREAM, 0);
}
static void datagrams(void)
{
    a = bound(SOCK_DGRAM);
    struct sockaddr_storage mine = place;
    b = bound(SOCK_DGRAM);
    must(!connect(a, (void *)&place, size_of()) && !connect(b, (void *)&mine, size_of()), "connect");
}
static void unconnected(void)
{
    a = bound(SOCK_DGRAM);
    struct sockaddr_storage mine = place;
    b = socket(family, SOCK_DGRAM, 0);
    must(!connect(b, (void *)&mine, size_of()), "connect");
}
/* At addresses of its own, and of a protocol that others seldom have: until it is bound it hears all. */
static void raw(void)
{
    struct sockaddr_storage mine;
    for (int i = 0; i < 2; i++) {
        mine = place;
        any_port();
        if (family == AF_INET) ((struct sockaddr_in *)&place)->sin_addr.s_addr = htonl(0x7f000002 + 2 * number + i);
        int fd = socket(family, SOCK_RAW, 143 + number % 112);
        must(fd >= 0 && !bind(fd, (void *)&place, size_of()), "raw");
        if (i) b = fd;
        else a = fd;
    }
    must(!connect(a, (void *)&place, size_of()) && !connect(b, (void *)&mine, size_of()), "connect");
}
static void netlink(void)
{
    struct sockaddr_nl mine = {.nl_family = AF_NETLINK};
    socklen_t length = sizeof mine;
    a = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), b = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    must(a >= 0 && b >= 0 && !bind(a, (void *)&mine, length) && !getsockname(a, (void *)&mine, &length) && !connect(b, (void *)&mine, length), "netlink");
}
static void unix_stream(void)
{
    int ends[2];
    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    a = ends[0], b = ends[1];
}
static void unix_full(void) { unix_stream(), fill(a); }
static void empty_pipe(void)
{
    int ends[2];
    must(!pipe(ends), "pipe");
    a = ends[0], b = ends[1];
}
static void full_pipe(void)
{
    int ends[2];
    must(!pipe(ends), "pipe");
    a = ends[1], b = ends[0];
    fill(a);
}
static void event(void)
{
    a = eventfd(0, 0), b = dup(a);
    must(a >= 0, "eventfd");
}

/* What threads and processes wait for without a descriptor: words, a lock that this thread has, a semaphore, a condition. */
static struct words {
    volatile int first, second, lock;
    sem_t semaphore;
    pthread_mutex_t mutex, held;
    pthread_cond_t condition;
} *words;
static long futex(volatile int *word, int operation, long value, const struct timespec *limit, volatile int *other, int bits)
{
    return syscall(SYS_futex, word, operation, value, limit, other, bits);
}
static void futexes(void)
{
    words = mmap(0, sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared_mutex;
    pthread_condattr_t shared_condition;
    pthread_mutexattr_init(&shared_mutex), pthread_mutexattr_setpshared(&shared_mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&shared_condition), pthread_condattr_setpshared(&shared_condition, PTHREAD_PROCESS_SHARED);
    must(!sem_init(&words->semaphore, 1, 0), "semaphore");
    pthread_mutex_init(&words->mutex, &shared_mutex), pthread_mutex_init(&words->held, &shared_mutex);
    pthread_cond_init(&words->condition, &shared_condition);
    pthread_mutex_lock(&words->held);
    must(!futex(&words->lock, FUTEX_LOCK_PI, 0, 0, 0, 0), "lock");
}
