/* Everything that waits by a clock, while that is stepped and slewed. See discipline.h. */
#include "discipline.h"

struct stepper { ns after, by; };
static void *steps(void *given)
{
    struct stepper *one = given;
    rest(one->after);
    step(one->by);
    return 0;
}
static volatile sig_atomic_t caught;
static void catch(int number) { caught = number; }
static timer_t made;
static int arm(clockid_t clock, int flags, ns until, ns interval)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec times = {spec(interval), spec(until)};
    if (timer_create(clock, &event, &made))
        return -1;
    return timer_settime(made, flags, &times, 0);
}
static int until_signal(void)
{
    sigset_t none;
    sigemptyset(&none);
    while (!caught)
        sigsuspend(&none);
    caught = 0;
    return 0;
}
static int word;
static int futex(int operation, const struct timespec *t) { return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, 0, t, 0, FUTEX_BITSET_MATCH_ANY); }
static int expires(int fd)
{
    uint64_t times = 0;
    int got = read(fd, &times, sizeof times);
    close(fd);
    if (got < 0)
        return -1;
    if (times != 1)
        printf("(%llu times) ", (unsigned long long)times);
    return 0;
}

/* Waits so long by a clock: of relative ones `until` is how long. */
enum { NANOSLEEP, MONO_REL, REAL_REL, BOOT_REL, MONO_ABS, REAL_ABS, BOOT_ABS, TAI_ABS, FD_MONO_REL, FD_MONO_ABS, FD_REAL_REL, FD_REAL_ABS, FD_BOOT_ABS, TIMER_MONO_REL,
       TIMER_MONO_ABS, TIMER_REAL_REL, TIMER_REAL_ABS, ITIMER, ALARM, FUTEX_REL, FUTEX_MONO, FUTEX_REAL, POLL, PPOLL, SELECT, PSELECT, EPOLL, EPOLL2, SIGTIMED,
       UDP_LIMIT, UNIX_LIMIT, SEMAPHORE, QUEUE, COND_REAL, COND_MONO, WAYS };
static const struct { const char *name; clockid_t clock; int absolute; } ways[WAYS] = {
    {"nanosleep", 1, 0}, {"clock_nanosleep monotonic", 1, 0}, {"clock_nanosleep realtime", 1, 0}, {"clock_nanosleep boottime", 7, 0},
    {"clock_nanosleep monotonic until", 1, 1}, {"clock_nanosleep realtime until", 0, 1}, {"clock_nanosleep boottime until", 7, 1},
    {"clock_nanosleep tai until", 11, 1}, {"timerfd monotonic", 1, 0}, {"timerfd monotonic until", 1, 1}, {"timerfd realtime", 1, 0},
    {"timerfd realtime until", 0, 1}, {"timerfd boottime until", 7, 1}, {"timer monotonic", 1, 0}, {"timer monotonic until", 1, 1}, {"timer realtime", 1, 0},
    {"timer realtime until", 0, 1}, {"setitimer", 1, 0}, {"alarm", 1, 0}, {"futex", 1, 0}, {"futex monotonic until", 1, 1}, {"futex realtime until", 0, 1},
    {"poll", 1, 0}, {"ppoll", 1, 0}, {"select", 1, 0}, {"pselect", 1, 0}, {"epoll_wait", 1, 0}, {"epoll_pwait2", 1, 0}, {"sigtimedwait", 1, 0},
    {"SO_RCVTIMEO of udp", 1, 0}, {"SO_RCVTIMEO of unix", 1, 0}, {"semtimedop", 1, 0}, {"mq_timedreceive until", 0, 1}, {"pthread_cond_timedwait until", 0, 1},
    {"pthread_cond_timedwait monotonic until", 1, 1},
};
static int receive(int domain, ns time)
{
    char byte;
    int fd = socket(domain, SOCK_DGRAM, 0);
    struct timeval limit = {time / SECOND, time % SECOND / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    int got = recv(fd, &byte, 1, 0);
    close(fd);
    return got < 0 && errno == EAGAIN ? 0 : -1;
}
static int cond(clockid_t clock, const struct timespec *t)
{
    pthread_condattr_t attributes;
    pthread_cond_t cond;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&cond, &attributes);
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (!result)
        result = pthread_cond_timedwait(&cond, &mutex, t);
    pthread_mutex_unlock(&mutex);
    return result == ETIMEDOUT ? 0 : -1;
}
static int waits(int way, ns until)
{
    struct timespec t = spec(until);
    struct timeval v = {until / SECOND, until % SECOND / 1000};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    switch (way) {
    case NANOSLEEP: return syscall(SYS_nanosleep, &t, 0);
    case MONO_REL: return -clock_nanosleep(1, 0, &t, 0);
    case REAL_REL: return -clock_nanosleep(0, 0, &t, 0);
    case BOOT_REL: return -clock_nanosleep(7, 0, &t, 0);
    case MONO_ABS: case REAL_ABS: case BOOT_ABS: case TAI_ABS: return -clock_nanosleep(ways[way].clock, TIMER_ABSTIME, &t, 0);
    case FD_MONO_REL: return expires(timerfd(1, 0, until, 0));
    case FD_REAL_REL: return expires(timerfd(0, 0, until, 0));
    case FD_MONO_ABS: case FD_REAL_ABS: case FD_BOOT_ABS: return expires(timerfd(ways[way].clock, TFD_TIMER_ABSTIME, until, 0));
    case TIMER_MONO_REL: case TIMER_REAL_REL: {
        int result = arm(way == TIMER_MONO_REL ? 1 : 0, 0, until, 0) || until_signal();
        timer_delete(made);
        return result;
    }
    case TIMER_MONO_ABS: case TIMER_REAL_ABS: {
        int result = arm(ways[way].clock, TIMER_ABSTIME, until, 0) || until_signal();
        timer_delete(made);
        return result;
    }
    case ITIMER: return setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, v}, 0) || until_signal();
    case ALARM: return alarm(until / SECOND) || until_signal();
    case FUTEX_REL: return futex(FUTEX_WAIT, &t) < 0 && errno == ETIMEDOUT ? 0 : -1;
    case FUTEX_MONO: return futex(FUTEX_WAIT_BITSET, &t) < 0 && errno == ETIMEDOUT ? 0 : -1;
    case FUTEX_REAL: return futex(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, &t) < 0 && errno == ETIMEDOUT ? 0 : -1;
    case POLL: return poll(0, 0, until / MS);
    case PPOLL: return ppoll(0, 0, &t, 0);
    case SELECT: return select(0, 0, 0, 0, &v);
    case PSELECT: return pselect(0, 0, 0, 0, &t, 0);
    case EPOLL: case EPOLL2: {
        struct epoll_event event;
        int fd = epoll_create1(0), got = way == EPOLL ? epoll_wait(fd, &event, 1, until / MS) : syscall(SYS_epoll_pwait2, fd, &event, 1, &t, 0, 0);
        close(fd);
        return got;
    }
    case SIGTIMED: return sigtimedwait(&one, 0, &t) < 0 && errno == EAGAIN ? 0 : -1;
    case UDP_LIMIT: return receive(AF_INET, until);
    case UNIX_LIMIT: return receive(AF_UNIX, until);
    case SEMAPHORE: {
        struct sembuf down = {0, -1, 0};
        int set = semget(IPC_PRIVATE, 1, 0600), got = semtimedop(set, &down, 1, &t);
        int error = errno;
        semctl(set, 0, IPC_RMID);
        errno = error;
        return got < 0 && errno == EAGAIN ? 0 : -1;
    }
    case QUEUE: {
        char bytes[8];
        struct mq_attr shape = {.mq_maxmsg = 1, .mq_msgsize = 8};
        mqd_t queue = mq_open("/discipline", O_RDWR | O_CREAT, 0600, &shape);
        if (queue < 0)
            return -1;
        int got = mq_timedreceive(queue, bytes, sizeof bytes, 0, &t);
        int error = errno;
        mq_close(queue);
        mq_unlink("/discipline");
        errno = error;
        return got < 0 && errno == ETIMEDOUT ? 0 : -1;
    }
    case COND_REAL: case COND_MONO: return cond(ways[way].clock, &t);
    }
    return -1;
}
/* Time limits of sockets are the timer wheel's, which may be an eighth late. */
static long waited(int way, ns time) { return way == UDP_LIMIT || way == UNIX_LIMIT ? (hundredths(time) + 10) / 50 * 50 : hundredths(time); }

/* Every way to wait for a second, while the date is stepped after half of it, or not. */
static void wait_ways(ns by)
{
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1), sigaddset(&some, SIGUSR2), sigaddset(&some, SIGALRM);
    sigprocmask(SIG_BLOCK, &some, 0);
    signal(SIGUSR1, catch), signal(SIGALRM, catch);
    for (int way = 0; way < WAYS; way++) {
        pthread_t thread;
        struct stepper stepper = {SECOND / 2, by};
        if (by)
            pthread_create(&thread, 0, steps, &stepper);
        ns from = show(ways[way].clock), own = mono();
        int result = waits(way, ways[way].absolute ? from + SECOND : SECOND);
        ns at = show(ways[way].clock), gone = mono() - own;
        printf("%s: %s %s after %ld\n", ways[way].name, result < 0 ? "failed" : "ok", result < 0 ? came(result) : "", waited(way, gone));
        if (!by || ways[way].clock == 1)
            late(ways[way].name, at - from - SECOND);
        if (by) {
            pthread_join(thread, 0);
            step(-by);
        }
    }
}
static void part_waits(void) { wait_ways(0); }
static void part_forward(void) { wait_ways(1000 * SECOND); }
static void part_back(void) { wait_ways(-SECOND); }

/* Timers that repeat, and the date is stepped. */
static void part_repeat(void)
{
    uint64_t times;
    int fd = timerfd(CLOCK_REALTIME, TFD_TIMER_ABSTIME, real() + SECOND / 10, SECOND / 10);
    rest(250 * MS);
    read(fd, &times, sizeof times);
    printf("as often %llu\n", (unsigned long long)times);
    step(10 * SECOND);
    rest(MS);
    read(fd, &times, sizeof times);
    printf("forward %llu\n", (unsigned long long)times);
    step(-10 * SECOND);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    rest(5 * SECOND);
    printf("back %s\n", came(read(fd, &times, sizeof times)));
    rest(5100 * MS);
    printf("there %s\n", came(read(fd, &times, sizeof times)));
    struct itimerspec left;
    timerfd_gettime(fd, &left);
    printf("interval %ld\n", hundredths(left.it_interval.tv_sec * SECOND + left.it_interval.tv_nsec));
    close(fd);
    fd = timerfd(CLOCK_REALTIME, TFD_TIMER_ABSTIME, real() + 5 * SECOND, 0);
    step(2 * SECOND);
    timerfd_gettime(fd, &left);
    printf("left %ld\n", hundredths(left.it_value.tv_sec * SECOND + left.it_value.tv_nsec));
    close(fd);
    signal(SIGUSR1, catch);
    sigset_t some;
    sigemptyset(&some), sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, 0);
    arm(CLOCK_REALTIME, TIMER_ABSTIME, real() + SECOND, SECOND);
    step(10 * SECOND + SECOND / 2);
    rest(MS);
    siginfo_t info;
    int got = sigtimedwait(&some, &info, &(struct timespec){0, 0});
    printf("timer %s overrun %d, %d\n", got == SIGUSR1 ? "signal" : came(got), info.si_overrun, timer_getoverrun(made));
    struct itimerspec rest_of;
    timer_gettime(made, &rest_of);
    printf("next in %ld\n", hundredths(rest_of.it_value.tv_sec * SECOND + rest_of.it_value.tv_nsec));
    timer_delete(made);
    step(-12 * SECOND - SECOND / 2);
}

/* TFD_TIMER_CANCEL_ON_SET */
static void part_cancel(void)
{
    uint64_t times;
    int cancel = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    struct { const char *name; clockid_t clock; int flags; } rows[] = {
        {"cancels", 0, cancel}, {"not asked", 0, TFD_TIMER_ABSTIME}, {"relative", 0, TFD_TIMER_CANCEL_ON_SET}, {"monotonic", 1, cancel}, {"boottime", 7, cancel}};
    for (unsigned row = 0; row < sizeof rows / sizeof *rows; row++) {
        int fd = timerfd_create(rows[row].clock, TFD_NONBLOCK);
        struct itimerspec times_of = {{0, 0}, spec(rows[row].flags & TFD_TIMER_ABSTIME ? show(rows[row].clock) + 3600 * SECOND : 3600 * SECOND)}, left;
        int result = timerfd_settime(fd, rows[row].flags, &times_of, 0);
        printf("%s: %s", rows[row].name, came(result));
        for (int round = 0; round < 2; round++) {
            struct pollfd one = {fd, POLLIN, 0};
            step(round ? -7 * SECOND : 5 * SECOND);
            int ready = poll(&one, 1, 0);
            result = read(fd, &times, sizeof times);
            printf(", %d %s", ready, came(result));
            result = read(fd, &times, sizeof times);
            printf(" %s", came(result));
        }
        timerfd_gettime(fd, &left);
        printf(", left %ld", hundredths(left.it_value.tv_sec * SECOND + left.it_value.tv_nsec) / 100);
        step(2 * SECOND);
        result = timerfd_settime(fd, rows[row].flags, &times_of, 0);
        printf(", again %s", came(result));
        result = timerfd_settime(fd, rows[row].flags, &times_of, 0);
        printf(" %s", came(result));
        step(0);
        result = read(fd, &times, sizeof times);
        printf(", set to what it was %s\n", came(result));
        close(fd);
    }
    /* Who waits is woken. */
    int fd = timerfd(CLOCK_REALTIME, cancel, real() + 3600 * SECOND, 0);
    pthread_t thread;
    struct stepper stepper = {SECOND, -SECOND};
    pthread_create(&thread, 0, steps, &stepper);
    ns own = mono();
    int result = read(fd, &times, sizeof times);
    printf("waiting: %s after %ld\n", came(result), hundredths(mono() - own));
    pthread_join(thread, 0);
    step(SECOND);
    close(fd);
}

/* Waiting while the clock is slewed: what waits is due at another time. */
static void part_slewed(void)
{
    struct timex t = {0};
    stay_awake();
    fresh();
    long ticks[] = {11000, 9000};
    for (int at = 0; at < 2; at++) {
        t.tick = ticks[at];
        adjust(&t, ADJ_TICK);
        ns raw = show(CLOCK_MONOTONIC_RAW), own = mono(), date = real();
        rest(5 * SECOND);
        printf("tick %ld: monotonic %ld realtime %ld raw %ld\n", ticks[at], hundredths(mono() - own), hundredths(real() - date),
               hundredths(show(CLOCK_MONOTONIC_RAW) - raw));
        wait_ways(0);
    }
    /* The rate changes while somebody waits. */
    t.tick = 10000;
    adjust(&t, ADJ_TICK);
    for (int way = 0; way < WAYS; way++) {
        ns raw = show(CLOCK_MONOTONIC_RAW), from = show(ways[way].clock), own = mono();
        pid_t child = fork();
        if (child == 0) {
            rest(SECOND);
            t.tick = 11000;
            adjust(&t, ADJ_TICK);
            _exit(0);
        }
        ns time = 4 * SECOND;
        int result = waits(way, ways[way].absolute ? from + time : time);
        ns at = show(ways[way].clock);
        printf("%s: %s after %ld by its clock, %ld by the crystal's\n", ways[way].name, came(result), waited(way, mono() - own),
               waited(way, show(CLOCK_MONOTONIC_RAW) - raw));
        late(ways[way].name, at - from - time);
        waitpid(child, 0, 0);
        t.tick = 10000;
        adjust(&t, ADJ_TICK);
    }
    fresh();
    may_sleep();
}

static const struct part parts[] = {
    {"waits", part_waits}, {"forward", part_forward}, {"back", part_back}, {"repeat", part_repeat}, {"cancel", part_cancel}, {"slewed", part_slewed},
};

int main(int argc, char **argv)
{
    return run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
}
