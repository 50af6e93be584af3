/* What somebody else does meanwhile. */
#pragma once
#include "calls.h"

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
static void cause_address_gone(void) { change_address(RTM_DELADDR); }
/* Such a cause is everybody's: the cells with it come to it together, and to its end. */
static struct together { volatile int come, seen, down, up; } *together;
static void cause_interface_down(void)
{
    __atomic_add_fetch(&together->come, 1, __ATOMIC_SEQ_CST);
    while (!together->down) ms(1);
}
static void interface_up_again(void)
{
    __atomic_add_fetch(&together->seen, 1, __ATOMIC_SEQ_CST);
    while (!together->up) ms(1);
}
/* The waiter's own socket asks; the answer is for who reads. */
static int ask(void)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct { struct nlmsghdr head; struct ifinfomsg message; } request = {
        {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK}, {.ifi_index = 4000}};
    return sendto(a, &request, sizeof request, 0, (void *)&kernel, sizeof kernel) == sizeof request;
}
static void cause_answer(void) { must(ask(), "request"); }
static void cause_wake(void) { futex(&words->first, FUTEX_WAKE, 1, 0, 0, 0); }
static void cause_wake_second(void) { futex(&words->second, FUTEX_WAKE, 1, 0, 0, 0); }
static void cause_wake_lock(void) { futex(&words->lock, FUTEX_WAKE, 1, 0, 0, 0); }
static void cause_other_bits(void) { futex(&words->first, FUTEX_WAKE_BITSET, 1, 0, 0, 1); }
static void cause_same_bits(void) { futex(&words->first, FUTEX_WAKE_BITSET, 1, 0, 0, 6); }
static void cause_value(void) { words->first = words->second = 7; }
static void cause_requeue(void) { futex(&words->first, FUTEX_REQUEUE, 0, (void *)1, &words->second, 0); }
static void cause_requeue_and_wake(void) { cause_requeue(), cause_wake_second(); }
static void cause_unlock(void) { futex(&words->lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0), pthread_mutex_unlock(&words->held); }
static void cause_post(void) { sem_post(&words->semaphore), pthread_cond_signal(&words->condition); }
static void cause_unmapped_twin(void)
{
    // Another mapping of the same words goes: who waits at them does not.
    void *twin = mremap(words, 0, sizeof *words, MREMAP_MAYMOVE);
    must(twin != MAP_FAILED && !munmap(twin, sizeof *words), "mremap");
}
static void cause_through_twin(void)
{
    struct words *twin = mremap(words, 0, sizeof *words, MREMAP_MAYMOVE);
    must(twin != MAP_FAILED, "mremap");
    futex(&twin->first, FUTEX_WAKE, 1, 0, 0, 0);
}
static void cause_write_event(void) { uint64_t one = 1; must(write(b, &one, 8) == 8, "write"); }
