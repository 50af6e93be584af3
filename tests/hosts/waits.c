/* A thread or a process waits, another does something: for every call that can wait, and every cause that can end it.
 *
 *     waits PATIENCE_MS [OBJECT [CALL [CAUSE]]]
 *
 * A cell is `OBJECT/FAMILY/WHO CALL, CAUSE: WHAT CAME OF IT`. Each is a process of its own, which sets up the object, lets a thread (or a child) wait in the
 * call, makes the cause, and says what the call came to: at once; or `waits`, then what it came to when the object has something for it (`then …`).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
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

/* ---- objects */

static socklen_t size_of(void) { return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6); }
static void any_port(void)
{
    memset(&place, 0, sizeof place);
    place.ss_family = family;
    if (family == AF_INET) ((struct sockaddr_in *)&place)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else ((struct sockaddr_in6 *)&place)->sin6_addr = in6addr_loopback;
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

/* ---- calls; each says what it comes to */

static char space[1 << 20];

static void call_read(void) { came(read(a, space, 100)); }
static void call_readv(void) { struct iovec v[2] = {{space, 2}, {space + 2, 98}}; came(readv(a, v, 2)); }
static void call_recv(void) { came(recv(a, space, 100, 0)); }
static void call_recv_all(void) { came(recv(a, space, 8, MSG_WAITALL)); }
static void call_recv_peek(void) { came(recv(a, space, 100, MSG_PEEK)); }
static void call_recvfrom(void) { struct sockaddr_storage from; socklen_t length = sizeof from; came(recvfrom(a, space, 100, 0, (void *)&from, &length)); }
static void call_recvmsg(void)
{
    struct iovec v = {space, 100};
    struct msghdr message = {.msg_iov = &v, .msg_iovlen = 1};
    came(recvmsg(a, &message, 0));
}
static void several(int flags, struct timespec *limit)
{
    struct iovec v[2] = {{space, 100}, {space + 100, 100}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 1}}};
    came(recvmmsg(a, messages, 2, flags, limit));
}
static void call_recvmmsg(void) { several(0, 0); }
static void call_recvmmsg_one(void) { several(MSG_WAITFORONE, 0); }
static void call_recvmmsg_limit(void) { struct timespec limit = {0, 1000000}; several(0, &limit); }
static void call_splice_in(void)
{
    int ends[2];
    must(!pipe(ends), "pipe");
    came(splice(a, 0, ends[1], 0, 100, 0));
}
/* More than there can be room for: it waits whatever the buffers are. How much of it was sent before something came between is chance. */
static void sent(long result)
{
    if (result > 0 && result < (long)sizeof space) say("a part");
    else came(result);
}
static void call_write(void) { sent(write(a, space, sizeof space)); }
static void call_write_one(void) { came(write(a, space, 1)); }
static void call_writev(void) { struct iovec v[2] = {{space, sizeof space / 2}, {space, sizeof space / 2}}; sent(writev(a, v, 2)); }
static void call_send(void) { sent(send(a, space, sizeof space, MSG_NOSIGNAL)); }
static void call_sendto(void) { sent(sendto(a, space, sizeof space, MSG_NOSIGNAL, (void *)&place, size_of())); }
static void call_sendmsg(void)
{
    struct iovec v = {space, sizeof space};
    struct msghdr message = {.msg_iov = &v, .msg_iovlen = 1};
    sent(sendmsg(a, &message, MSG_NOSIGNAL));
}
static void call_sendmmsg(void)
{
    struct iovec v[2] = {{space, sizeof space}, {space, 1}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 1}}};
    came(sendmmsg(a, messages, 2, MSG_NOSIGNAL));
}
static void call_sendfile(void)
{
    int file = memfd_create("waits", 0);
    must(file >= 0 && !ftruncate(file, sizeof space), "memfd");
    sent(sendfile(a, file, 0, sizeof space));
}
static void call_splice_out(void)
{
    int ends[2];
    must(!pipe(ends) && write(ends[1], space, 1000) == 1000, "pipe");
    came(splice(ends[0], 0, a, 0, 1000, 0));
}
static void call_accept(void) { came(accept(a, 0, 0) < 0 ? -1 : 0); }
static void call_accept4(void) { struct sockaddr_storage from; socklen_t length = sizeof from; came(accept4(a, (void *)&from, &length, SOCK_NONBLOCK) < 0 ? -1 : 0); }
static void call_connect(void) { came(connect(a, (void *)&place, size_of())); }
/* A connect that goes on meanwhile. */
static void begin_connect(void)
{
    nonblocking(a, 1);
    must(connect(a, (void *)&place, size_of()) && errno == EINPROGRESS, "connect");
    nonblocking(a, 0);
}

static void say_events(int count, unsigned events)
{
    static const struct { unsigned bit; const char *name; } NAMES[] = {{POLLIN, "IN"}, {POLLPRI, "PRI"}, {POLLOUT, "OUT"}, {POLLERR, "ERR"}, {POLLHUP, "HUP"},
                                                                        {POLLNVAL, "NVAL"}, {POLLRDHUP, "RDHUP"}};
    if (count < 0) return came(count);
    char text[TEXT] = "";
    for (unsigned i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (events & NAMES[i].bit) strcat(strcat(text, *text ? "|" : ""), NAMES[i].name);
    say("%s", count ? text : "nothing");
}
static void polled(int events)
{
    struct pollfd one = {.fd = a, .events = events | POLLRDHUP};
    int count = poll(&one, 1, -1);
    say_events(count, one.revents);
}
static void call_poll_in(void) { polled(POLLIN | POLLPRI); }
static void call_poll_out(void) { polled(POLLOUT); }
static void call_poll_end(void) { polled(0); }
static void call_ppoll_in(void)
{
    struct pollfd one = {.fd = a, .events = POLLIN | POLLRDHUP};
    sigset_t none;
    sigemptyset(&none);
    int count = ppoll(&one, 1, 0, &none);
    say_events(count, one.revents);
}
static void call_poll_both(void)
{
    int ends[2];
    must(!pipe(ends), "pipe");
    struct pollfd two[2] = {{.fd = ends[0], .events = POLLIN}, {.fd = a, .events = POLLIN | POLLRDHUP}};
    int count = poll(two, 2, -1);
    say_events(count, two[1].revents);
}
static void call_select_in(void)
{
    fd_set in, except;
    FD_ZERO(&in);
    FD_ZERO(&except);
    FD_SET(a, &in);
    FD_SET(a, &except);
    int count = select(a + 1, &in, 0, &except, 0);
    if (count < 0) came(count);
    else say("%d:%s%s", count, FD_ISSET(a, &in) ? " in" : "", FD_ISSET(a, &except) ? " except" : "");
}
static void call_select_out(void)
{
    fd_set out;
    FD_ZERO(&out);
    FD_SET(a, &out);
    came(select(a + 1, 0, &out, 0, 0));
}
static void call_pselect_in(void)
{
    fd_set in;
    sigset_t none;
    sigemptyset(&none);
    FD_ZERO(&in);
    FD_SET(a, &in);
    came(pselect(a + 1, &in, 0, 0, 0, &none));
}
static int an_epoll(int fd, unsigned events)
{
    int epoll = epoll_create1(0);
    struct epoll_event one = {.events = events};
    must(epoll >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &one), "epoll");
    return epoll;
}
static void epolled(unsigned events)
{
    int epoll = an_epoll(a, events | EPOLLRDHUP);
    struct epoll_event one = {0};
    int count = epoll_wait(epoll, &one, 1, -1);
    say_events(count, one.events);
}
static void call_epoll_in(void) { epolled(EPOLLIN | EPOLLPRI); }
static void call_epoll_edge(void) { epolled(EPOLLIN | EPOLLET); }
static void call_epoll_out(void) { epolled(EPOLLOUT); }
static void call_epoll_nested(void)
{
    int outer = an_epoll(an_epoll(a, EPOLLIN | EPOLLRDHUP), EPOLLIN);
    struct epoll_event one = {0};
    int count = epoll_wait(outer, &one, 1, -1);
    say_events(count, one.events);
}
static void call_poll_epoll(void)
{
    struct pollfd one = {.fd = an_epoll(a, EPOLLIN | EPOLLRDHUP), .events = POLLIN};
    int count = poll(&one, 1, -1);
    say_events(count, one.revents);
}
/* Waits until what was sent has arrived. */
static void call_close_linger(void)
{
    struct linger linger = {1, 10};
    setsockopt(a, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    came(close(a));
}

/* ---- causes */

static pthread_t waiting_thread;
static pid_t waiting_process;

static void cause_nothing(void) {}
static void cause_data(void) { must(write(b, "datadata", 8) == 8, "write"); }
static void cause_one_byte(void) { must(write(b, "d", 1) == 1, "write"); }
static void cause_urgent(void) { must(send(b, "u", 1, MSG_OOB) == 1, "send"); }
static void cause_empty(void) { must(send(b, "", 0, 0) == 0, "send"); }
static void cause_close(void) { close(b), b = -1; }
static void cause_half(void) { must(!shutdown(b, SHUT_WR), "shutdown"); }
static void cause_peer_reads_no_more(void) { must(!shutdown(b, SHUT_RD), "shutdown"); }
static void cause_reset(void)
{
    struct linger linger = {1, 0};
    setsockopt(b, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    cause_close();
}
static void cause_shut_read(void) { shutdown(a, SHUT_RD); }
static void cause_shut_write(void) { shutdown(a, SHUT_WR); }
static void cause_shut_both(void) { shutdown(a, SHUT_RDWR); }
static void cause_own_close(void) { close(a); }
static void cause_duplicate_closed(void) { close(dup(a)); }
static void cause_replaced(void) { int null = open("/dev/null", O_RDWR); dup2(null, a), close(null); }
static void cause_fork(void)
{
    pid_t child = fork();
    if (!child) _exit(0);
    waitpid(child, 0, 0);
}
static void cause_fork_closes(void)
{
    pid_t child = fork();
    if (!child) ms(5 * patience), _exit(0);
    close(b), b = -1;
    kill(child, SIGKILL), waitpid(child, 0, 0);
}
static void handled(int number) { (void)number; }
/* Its handler is there already. */
static void cause_signal(void)
{
    if (waiting_process) kill(waiting_process, SIGUSR1);
    else pthread_kill(waiting_thread, SIGUSR1);
}
static void cause_signal_restart(void) { cause_signal(); }
static void cause_another_takes(void)
{
    // Chance decides whether the waiter has it before. What must not be is that it waits on when there is more.
    cause_data();
    recv(a, space + 1000, 100, MSG_DONTWAIT);
}
static void cause_nonblocking(void) { nonblocking(a, 1); }
static void cause_time_limit(void)
{
    struct timeval limit = {0, 500L * patience};
    setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}
static void cause_low_water(void) { int mark = 4; setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark), cause_one_byte(); }
static void cause_larger_buffer(void) { int large = 4 << 20; setsockopt(a, SOL_SOCKET, SO_SNDBUF, &large, sizeof large); }
static void cause_room(void)
{
    nonblocking(b, 1);
    for (int quiet = 0; quiet < 4; quiet++, ms(5))
        while (read(b, bulk, sizeof bulk) > 0) quiet = 0;
    nonblocking(b, 0);
}
static void cause_a_little_room(void) { must(read(b, bulk, 1000) == 1000, "read"); }
static void cause_connection(void) { b = connected(); }
static void cause_connection_reset(void)
{
    int fd = connected();
    struct linger linger = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}
static void cause_disconnect(void) { struct sockaddr none = {.sa_family = AF_UNSPEC}; connect(a, &none, sizeof none); }
static void cause_refused(void)
{
    // What a sends goes to a port that nobody has any more: an ICMP error comes back.
    cause_close();
    send(a, "x", 1, MSG_DONTWAIT);
}
static void cause_listener_closes(void) { close(c), c = -1; }
static void cause_listener_accepts(void) { must(accept(c, 0, 0) >= 0, "accept"); }
static void cause_write_event(void) { uint64_t one = 1; must(write(b, &one, 8) == 8, "write"); }

/* ---- the matrix */

struct call { const char *name; void (*run)(void); };
struct cause { const char *name; void (*run)(void); };

static const struct call READS[] = {{"read", call_read}, {"readv", call_readv}, {"recv", call_recv}, {"recv-all", call_recv_all}, {"recv-peek", call_recv_peek},
    {"recvfrom", call_recvfrom}, {"recvmsg", call_recvmsg}, {"recvmmsg", call_recvmmsg}, {"recvmmsg-one", call_recvmmsg_one},
    {"recvmmsg-limit", call_recvmmsg_limit}, {"splice", call_splice_in}, {"poll", call_poll_in}, {"poll-end", call_poll_end}, {"ppoll", call_ppoll_in},
    {"poll-both", call_poll_both}, {"select", call_select_in}, {"pselect", call_pselect_in}, {"epoll", call_epoll_in}, {"epoll-edge", call_epoll_edge},
    {"epoll-nested", call_epoll_nested}, {"poll-epoll", call_poll_epoll}, {0}};
static const struct call PLAIN_READS[] = {{"read", call_read}, {"readv", call_readv}, {"poll", call_poll_in}, {"poll-both", call_poll_both},
    {"select", call_select_in}, {"epoll", call_epoll_in}, {"epoll-edge", call_epoll_edge}, {"epoll-nested", call_epoll_nested},
    {"poll-epoll", call_poll_epoll}, {0}};
static const struct call WRITES[] = {{"write", call_write}, {"write-one", call_write_one}, {"writev", call_writev}, {"send", call_send}, {"sendto", call_sendto},
    {"sendmsg", call_sendmsg}, {"sendmmsg", call_sendmmsg}, {"sendfile", call_sendfile}, {"splice", call_splice_out}, {"poll", call_poll_out},
    {"select", call_select_out}, {"epoll", call_epoll_out}, {"close-linger", call_close_linger}, {0}};
static const struct call PLAIN_WRITES[] = {{"write", call_write}, {"write-one", call_write_one}, {"writev", call_writev}, {"poll", call_poll_out},
    {"select", call_select_out}, {"epoll", call_epoll_out}, {0}};
static const struct call ACCEPTS[] = {{"accept", call_accept}, {"accept4", call_accept4}, {"poll", call_poll_in}, {"ppoll", call_ppoll_in}, {"select", call_select_in},
    {"epoll", call_epoll_in}, {"epoll-edge", call_epoll_edge}, {"epoll-nested", call_epoll_nested}, {"poll-epoll", call_poll_epoll}, {0}};
static const struct call CONNECTS[] = {{"connect", call_connect}, {0}};
static const struct call CONNECTING[] = {{"poll", call_poll_out}, {"select", call_select_out}, {"epoll", call_epoll_out}, {"write", call_write_one},
    {"read", call_read}, {"recvmsg", call_recvmsg}, {"sendmsg", call_sendmsg}, {"connect", call_connect}, {0}};

#define CAUSE(name) {#name, cause_##name}
#define COMMON CAUSE(nothing), CAUSE(own_close), CAUSE(duplicate_closed), CAUSE(replaced), CAUSE(fork), CAUSE(signal), CAUSE(signal_restart), CAUSE(nonblocking)
static const struct cause OF_STREAMS[] = {COMMON, CAUSE(data), CAUSE(one_byte), CAUSE(urgent), CAUSE(close), CAUSE(half), CAUSE(reset),
    CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(fork_closes), CAUSE(another_takes), CAUSE(time_limit),
    CAUSE(low_water), CAUSE(disconnect), {0}};
static const struct cause OF_FULL[] = {COMMON, CAUSE(room), CAUSE(a_little_room), CAUSE(close), CAUSE(half), CAUSE(peer_reads_no_more), CAUSE(reset),
    CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit), CAUSE(larger_buffer), CAUSE(disconnect), {0}};
static const struct cause OF_LISTENERS[] = {COMMON, CAUSE(connection), CAUSE(connection_reset), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit), {0}};
static const struct cause OF_CONNECTS[] = {COMMON, CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit), CAUSE(listener_closes),
    CAUSE(listener_accepts), CAUSE(disconnect), {0}};
static const struct cause OF_DATAGRAMS[] = {COMMON, CAUSE(data), CAUSE(empty), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(another_takes),
    CAUSE(time_limit), CAUSE(refused), CAUSE(disconnect), {0}};
static const struct cause OF_UNCONNECTED[] = {COMMON, CAUSE(data), CAUSE(empty), CAUSE(shut_read), CAUSE(another_takes), CAUSE(time_limit), {0}};
static const struct cause OF_UNIX[] = {COMMON, CAUSE(data), CAUSE(close), CAUSE(half), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), {0}};
static const struct cause OF_UNIX_FULL[] = {COMMON, CAUSE(room), CAUSE(close), CAUSE(shut_write), CAUSE(shut_both), {0}};
static const struct cause OF_PIPES[] = {COMMON, CAUSE(data), CAUSE(close), CAUSE(fork_closes), {0}};
static const struct cause OF_FULL_PIPES[] = {COMMON, CAUSE(room), CAUSE(close), {0}};
static const struct cause OF_EVENTS[] = {COMMON, CAUSE(write_event), {0}};

/* What the object has for its waiter when the cause was not enough; none: nothing. */
static void more_data(void) { if (b >= 0 && write(b, "moremore", 8) < 0) errno = 0; }
static void more_datagrams(void) { more_data(), ms(20), more_data(); }
static void more_room(void) { if (b >= 0) for (int i = 0; i < 20; i++) cause_room(); }

static const struct object {
    const char *name;
    void (*make)(void);
    const struct call *calls;
    const struct cause *causes;
    void (*more)(void);
    int families;
} OBJECTS[] = {
    {"stream", stream, READS, OF_STREAMS, more_data, 2},
    {"full", full, WRITES, OF_FULL, more_room, 2},
    {"listener", listening, ACCEPTS, OF_LISTENERS, cause_connection, 2},
    {"connect", connecting, CONNECTS, OF_CONNECTS, 0, 2},
    {"connecting", connecting, CONNECTING, OF_CONNECTS, 0, 2},
    {"datagrams", datagrams, READS, OF_DATAGRAMS, more_datagrams, 2},
    {"unconnected", unconnected, READS, OF_UNCONNECTED, more_datagrams, 2},
    {"unix", unix_stream, READS, OF_UNIX, more_data, 1},
    {"unix-full", unix_full, PLAIN_WRITES, OF_UNIX_FULL, more_room, 1},
    {"pipe", empty_pipe, PLAIN_READS, OF_PIPES, more_data, 1},
    {"pipe-full", full_pipe, PLAIN_WRITES, OF_FULL_PIPES, more_room, 1},
    {"eventfd", event, PLAIN_READS, OF_EVENTS, cause_write_event, 1},
};

static void *wait_in(void *call)
{
    said->tid = gettid();
    ((const struct call *)call)->run();
    said->done = 1;
    return 0;
}
static int ends_within(int limit)
{
    for (int at = 0; at < limit && !said->done; at += 2) ms(2);
    return said->done;
}

static void cell(const struct object *object, const struct call *call, const struct cause *cause, int by_process)
{
    said = mmap(0, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = handled, .sa_flags = cause->run == cause_signal_restart ? SA_RESTART : 0};
    sigaction(SIGUSR1, &action, 0);
    object->make();
    if (object->make == connecting && call->run != call_connect) begin_connect();
    if (by_process) {
        fflush(stdout);
        waiting_process = fork();
        if (!waiting_process) {
            // Only the other process has the other end.
            if (b >= 0) close(b);
            if (c >= 0) close(c);
            wait_in((void *)call);
            _exit(0);
        }
    } else {
        must(!pthread_create(&waiting_thread, 0, wait_in, (void *)call), "thread");
    }
    ends_within(patience / 4);
    char what[3 * TEXT];
    if (said->done) {
        snprintf(what, sizeof what, "%s, before that", said->text);
    } else {
        cause->run();
        if (ends_within(patience)) {
            snprintf(what, sizeof what, "%s", said->text);
        } else {
            if (object->more) object->more();
            if (object->more && ends_within(patience)) snprintf(what, sizeof what, "waits, then %s", said->text);
            else snprintf(what, sizeof what, "waits%s", object->more ? " on" : "");
        }
    }
    if (cause->run == cause_another_takes && strcmp(what, "waits on")) snprintf(what, sizeof what, "goes on");
    printf("%s/%s/%s %s, %s: %s\n", object->name, object->families == 1 ? "-" : family == AF_INET ? "4" : "6", by_process ? "process" : "thread", call->name,
           cause->name, what);
    fflush(stdout);
    if (waiting_process) kill(waiting_process, SIGKILL);
    _exit(0);
}

static int wanted(int count, char **words, int at, const char *name) { return count <= at || !strcmp(words[at], "-") || !strcmp(words[at], name); }

int main(int count, char **words)
{
    if (count < 2) return fprintf(stderr, "usage: waits PATIENCE_MS [OBJECT|- [CALL|- [CAUSE|- [4|6 [thread|process]]]]]\n"), 2;
    patience = atoi(words[1]);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, 0, _IOLBF, 1 << 16);
    int running = 0;
    for (unsigned i = 0; i < sizeof OBJECTS / sizeof *OBJECTS; i++)
        for (int six = 0; six < OBJECTS[i].families; six++)
            for (const struct call *call = OBJECTS[i].calls; call->name; call++)
                for (const struct cause *cause = OBJECTS[i].causes; cause->name; cause++)
                    for (int by_process = 0; by_process < 2; by_process++) {
                        family = six ? AF_INET6 : AF_INET;
                        if (!wanted(count, words, 2, OBJECTS[i].name) || !wanted(count, words, 3, call->name) || !wanted(count, words, 4, cause->name)
                            || !wanted(count, words, 5, six ? "6" : "4") || !wanted(count, words, 6, by_process ? "process" : "thread"))
                            continue;
                        // It wants two.
                        if (call->run == call_recvmmsg && cause->run == cause_another_takes) continue;
                        if (running == AT_ONCE) wait(0), running--;
                        running++;
                        if (!fork()) alarm(60 + patience / 20), cell(&OBJECTS[i], call, cause, by_process);
                    }
    while (wait(0) > 0) {}
    return 0;
}
