/* A thread or a process waits, another does something: for every call that can wait, and every cause that can end it.
 *
 *     waits PATIENCE_MS [OBJECT [CALL [CAUSE]]]
 *
 * A cell is `OBJECT/FAMILY/WHO CALL, CAUSE: WHAT CAME OF IT`. Each is a process of its own, which sets up the object, lets a thread (or a child) wait in the
 * call, makes the cause, and says what the call came to: at once; or `waits`, then what it came to when the object has something for it (`then …`).
 */
#include "causes.h"

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
static const struct call FUTEXES[] = {{"futex", call_futex}, {"futex-limit", call_futex_limit}, {"futex-short", call_futex_short}, {"futex-bits", call_futex_bits},
    {"futex-several", call_futex_several}, {"futex-lock", call_futex_lock}, {"semaphore", call_semaphore}, {"mutex", call_mutex},
    {"condition", call_condition}, {0}};
static const struct call CONNECTS[] = {{"connect", call_connect}, {0}};
static const struct call CONNECTING[] = {{"poll", call_poll_out}, {"select", call_select_out}, {"epoll", call_epoll_out}, {"write", call_write_one},
    {"read", call_read}, {"recvmsg", call_recvmsg}, {"sendmsg", call_sendmsg}, {"connect", call_connect}, {0}};

#define CAUSE(name) {#name, cause_##name}
#define COMMON CAUSE(nothing), CAUSE(own_close), CAUSE(duplicate_closed), CAUSE(replaced), CAUSE(fork), CAUSE(signal), CAUSE(signal_restart), CAUSE(nonblocking)
static const struct cause OF_STREAMS[] = {COMMON, CAUSE(data), CAUSE(one_byte), CAUSE(urgent), CAUSE(close), CAUSE(half), CAUSE(reset),
    CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(fork_closes), CAUSE(another_takes), CAUSE(time_limit),
    CAUSE(low_water), CAUSE(disconnect), CAUSE(address_gone), CAUSE(interface_down), {0}};
static const struct cause OF_FULL[] = {COMMON, CAUSE(room), CAUSE(a_little_room), CAUSE(close), CAUSE(half), CAUSE(peer_reads_no_more), CAUSE(reset),
    CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit), CAUSE(larger_buffer), CAUSE(disconnect),
    CAUSE(address_gone), CAUSE(interface_down), {0}};
static const struct cause OF_LISTENERS[] = {COMMON, CAUSE(connection), CAUSE(connection_reset), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit),
    CAUSE(address_gone), CAUSE(interface_down), {0}};
static const struct cause OF_CONNECTS[] = {COMMON, CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(time_limit), CAUSE(listener_closes),
    CAUSE(listener_accepts), CAUSE(disconnect), CAUSE(address_gone), CAUSE(interface_down), {0}};
static const struct cause OF_DATAGRAMS[] = {COMMON, CAUSE(data), CAUSE(empty), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(another_takes),
    CAUSE(time_limit), CAUSE(refused), CAUSE(disconnect), CAUSE(address_gone), CAUSE(interface_down), {0}};
static const struct cause OF_UNCONNECTED[] = {COMMON, CAUSE(data), CAUSE(empty), CAUSE(shut_read), CAUSE(another_takes), CAUSE(time_limit), {0}};
static const struct cause OF_RAW[] = {COMMON, CAUSE(data), CAUSE(empty), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), CAUSE(another_takes),
    CAUSE(time_limit), CAUSE(disconnect), {0}};
static const struct cause OF_NETLINK[] = {COMMON, CAUSE(data), CAUSE(answer), CAUSE(shut_read), CAUSE(another_takes), CAUSE(time_limit), {0}};
static const struct cause OF_FUTEXES[] = {CAUSE(nothing), CAUSE(fork), CAUSE(signal), CAUSE(signal_restart), CAUSE(wake), CAUSE(wake_second), CAUSE(wake_lock),
    CAUSE(other_bits), CAUSE(same_bits), CAUSE(value), CAUSE(requeue), CAUSE(requeue_and_wake), CAUSE(unlock), CAUSE(post), CAUSE(unmapped_twin),
    CAUSE(through_twin), {0}};
static const struct cause OF_UNIX[] = {COMMON, CAUSE(data), CAUSE(close), CAUSE(half), CAUSE(shut_read), CAUSE(shut_write), CAUSE(shut_both), {0}};
static const struct cause OF_UNIX_FULL[] = {COMMON, CAUSE(room), CAUSE(close), CAUSE(shut_write), CAUSE(shut_both), {0}};
static const struct cause OF_PIPES[] = {COMMON, CAUSE(data), CAUSE(close), CAUSE(fork_closes), {0}};
static const struct cause OF_FULL_PIPES[] = {COMMON, CAUSE(room), CAUSE(close), {0}};
static const struct cause OF_EVENTS[] = {COMMON, CAUSE(write_event), {0}};

/* What the object has for its waiter when the cause was not enough; none: nothing. */
static void more_data(void) { if (b >= 0 && write(b, "moremore", 8) < 0) errno = 0; }
static void more_datagrams(void) { more_data(), ms(20), more_data(); }
static void more_room(void) { if (b >= 0) for (int i = 0; i < 20; i++) cause_room(); }

static void more_answers(void) { ask(), ms(20), ask(); }
static void more_connections(void)
{
    int fd = socket(family, SOCK_STREAM, 0);
    must(fd >= 0, "socket");
    connect(fd, (void *)&place, size_of());
}
static void more_words(void) { cause_value(), cause_wake(), ms(20), cause_wake_second(), cause_unlock(), cause_post(); }

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
    {"listener", listening, ACCEPTS, OF_LISTENERS, more_connections, 2},
    {"connect", connecting, CONNECTS, OF_CONNECTS, 0, 2},
    {"connecting", connecting, CONNECTING, OF_CONNECTS, 0, 2},
    {"datagrams", datagrams, READS, OF_DATAGRAMS, more_datagrams, 2},
    {"unconnected", unconnected, READS, OF_UNCONNECTED, more_datagrams, 2},
    {"raw", raw, READS, OF_RAW, more_datagrams, 2},
    {"netlink", netlink, READS, OF_NETLINK, more_answers, 1},
    {"futexes", futexes, FUTEXES, OF_FUTEXES, more_words, 1},
    {"unix", unix_stream, READS, OF_UNIX, more_data, 1},
    {"unix-full", unix_full, PLAIN_WRITES, OF_UNIX_FULL, more_room, 1},
    {"pipe", empty_pipe, PLAIN_READS, OF_PIPES, more_data, 1},
    {"pipe-full", full_pipe, PLAIN_WRITES, OF_FULL_PIPES, more_room, 1},
    {"eventfd", event, PLAIN_READS, OF_EVENTS, cause_write_event, 1},
};

static void *wait_in(void *call)
{
    said->tid = gettid();
    futex(&said->tid, FUTEX_WAKE, 1, 0, 0, 0);
    ((const struct call *)call)->run();
    said->done = 1;
    futex(&said->done, FUTEX_WAKE, 1, 0, 0, 0);
    return 0;
}
/* Whether a word is no longer 0 within so many milliseconds; in parts: beside other work each of them is longer, and with it the patience. */
static int is_set_within(volatile int *word, int limit)
{
    struct timespec part = {.tv_sec = limit / 10000, .tv_nsec = limit % 10000 * 100000L};
    for (int parts = 0; parts < 10 && !*word;) parts += futex(word, FUTEX_WAIT, 0, &part, 0, 0) && errno == ETIMEDOUT;
    return *word;
}
static int ends_within(int limit) { return is_set_within(&said->done, limit); }

static int is_together(const struct cause *cause) { return cause->run == cause_interface_down; }
static int is_of_few(const struct call *call)
{
    static void (*const FEW[])(void) = {call_read, call_recvmsg, call_poll_in, call_epoll_in, call_write, call_sendmsg, call_poll_out, call_epoll_out, call_accept,
                                        call_connect};
    for (unsigned i = 0; i < sizeof FEW / sizeof *FEW; i++)
        if (FEW[i] == call->run) return 1;
    return 0;
}

static void cell(const struct object *object, const struct call *call, const struct cause *cause, int by_process)
{
    said = mmap(0, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = handled, .sa_flags = cause->run == cause_signal_restart ? SA_RESTART : 0};
    sigaction(SIGUSR1, &action, 0);
    own_address = cause->run == cause_address_gone || (object->make == raw && family == AF_INET6);
    if (own_address) change_address(RTM_NEWADDR);
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
    is_set_within(&said->tid, 10 * patience);
    ends_within(patience / 4);
    char what[3 * TEXT];
    if (said->done) {
        snprintf(what, sizeof what, "%s, before that", said->text);
    } else {
        cause->run();
        if (ends_within(patience)) {
            snprintf(what, sizeof what, "%s", said->text);
        } else {
            if (cause->run == cause_address_gone) change_address(RTM_NEWADDR);
            if (is_together(cause)) interface_up_again();
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

/* Waits until all who are left have come so far. */
static void until(volatile int *come, int running)
{
    static int gone;
    while (*come + gone < running) {
        while (waitpid(-1, 0, WNOHANG) > 0) gone++;
        ms(1);
    }
}
/* All cells that are wanted: so many at a time, or those whose cause is everybody's. */
static void each(int at_once, int with_others, int count, char **words)
{
    int running = 0;
    for (unsigned i = 0; i < sizeof OBJECTS / sizeof *OBJECTS; i++)
        for (int six = 0; six < OBJECTS[i].families; six++)
            for (const struct call *call = OBJECTS[i].calls; call->name; call++)
                for (const struct cause *cause = OBJECTS[i].causes; cause->name; cause++)
                    for (int by_process = 0; by_process < 2; by_process++) {
                        family = six ? AF_INET6 : AF_INET;
                        if (is_together(cause) != with_others || !wanted(count, words, 2, OBJECTS[i].name) || !wanted(count, words, 3, call->name)
                            || !wanted(count, words, 4, cause->name) || !wanted(count, words, 5, six ? "6" : "4")
                            || !wanted(count, words, 6, by_process ? "process" : "thread"))
                            continue;
                        // It wants two.
                        if (call->run == call_recvmmsg && cause->run == cause_another_takes) continue;
                        if (with_others && !is_of_few(call)) continue;
                        if (!with_others && running == at_once) wait(0), running--;
                        running++, number++;
                        if (!fork()) alarm(60 + patience / 20), cell(&OBJECTS[i], call, cause, by_process);
                    }
    if (with_others && running) {
        until(&together->come, running);
        change_interface(0), together->down = 1;
        until(&together->seen, running);
        change_interface(1), together->up = 1;
    }
    while (wait(0) > 0) {}
}

int main(int count, char **words)
{
    if (count < 2) return fprintf(stderr, "usage: waits PATIENCE_MS [OBJECT|- [CALL|- [CAUSE|- [4|6 [thread|process]]]]]\n"), 2;
    patience = atoi(words[1]);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, 0, _IOLBF, 1 << 16);
    together = mmap(0, sizeof *together, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    // Addresses of cells stay: who runs threads and then processes has others for these.
    number = count > 6 && !strcmp(words[6], "process") ? 1 << 14 : 0;
    // They sleep: with more patience there are more of them.
    int at_once = AT_ONCE * (patience < 100 ? 100 : patience > 200 ? 200 : patience) / 100;
    each(at_once, 0, count, words), each(at_once, 1, count, words);
    return 0;
}
