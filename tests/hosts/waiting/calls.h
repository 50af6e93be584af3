/* The calls; each says what it comes to. */
#pragma once
#include "objects.h"

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

static const struct timespec LONG = {600, 0};
static void call_futex(void) { came(futex(&words->first, FUTEX_WAIT, 0, 0, 0, 0)); }
static void call_futex_limit(void) { came(futex(&words->first, FUTEX_WAIT, 0, &LONG, 0, 0)); }
static void call_futex_short(void)
{
    struct timespec limit = {0, 500000L * patience};
    came(futex(&words->first, FUTEX_WAIT, 0, &limit, 0, 0));
}
static void call_futex_bits(void) { came(futex(&words->first, FUTEX_WAIT_BITSET, 0, 0, 0, 2)); }
static void call_futex_several(void)
{
    struct futex_waitv several[2] = {{.uaddr = (uintptr_t)&words->first, .flags = FUTEX_32}, {.uaddr = (uintptr_t)&words->second, .flags = FUTEX_32}};
    came(syscall(SYS_futex_waitv, several, 2, 0, 0, 0));
}
static void call_futex_lock(void) { came(futex(&words->lock, FUTEX_LOCK_PI, 0, 0, 0, 0)); }
static void call_semaphore(void) { came(sem_wait(&words->semaphore)); }
static void call_mutex(void) { came(pthread_mutex_lock(&words->held)); }
static void call_condition(void)
{
    pthread_mutex_lock(&words->mutex);
    int result = pthread_cond_wait(&words->condition, &words->mutex);
    pthread_mutex_unlock(&words->mutex);
    came(result);
}
