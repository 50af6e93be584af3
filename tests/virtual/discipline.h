/* Clocks that are set and disciplined: what discipline.c and clock_waits.c share. Neither may ever run natively: they set the machine's clock. They run on a node
 * of weft and on one that is a Linux kernel, and both must print the same lines.
 *
 * COMMAND PART… : the parts by their names. Times are printed in hundredths of a second, rates in ppm, as a Linux kernel of any clock source has them. With EXACT
 * set in the environment whoever comes later than 20 us after his time, by his own clock, says so: weft's nodes do not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef long long ns;
#define SECOND 1000000000LL
#define MS 1000000LL
static int exact;

static inline struct timespec spec(ns value) { return (struct timespec){value / SECOND, value % SECOND}; }
static inline ns show(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) ? -1 : t.tv_sec * SECOND + t.tv_nsec;
}
static inline ns mono(void) { return show(CLOCK_MONOTONIC); }
static inline ns real(void) { return show(CLOCK_REALTIME); }
static inline const char *came(long result) { return result < 0 ? strerrorname_np(errno) : "ok"; }
/* Hundredths of a second, rounded. */
static inline long hundredths(ns time) { return (time + 5 * MS) / (10 * MS); }
static inline int set(ns date)
{
    struct timespec t = spec(date);
    return clock_settime(CLOCK_REALTIME, &t);
}
static inline int step(ns by) { return set(real() + by); }
static inline void rest(ns time)
{
    struct timespec t = spec(time);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
        ;
}
/* Half a second is the furthest from where seconds begin. */
static inline void middle(void)
{
    ns now = real();
    rest((now / SECOND + 1) * SECOND + SECOND / 2 - now);
}
static inline int adjust(struct timex *t, int modes)
{
    t->modes = modes;
    return adjtimex(t);
}
/* By how many ppm a clock runs faster than the crystal. */
static inline long ppm(ns time)
{
    ns raw = show(CLOCK_MONOTONIC_RAW), own = mono();
    rest(time);
    double gone = show(CLOCK_MONOTONIC_RAW) - raw, by = mono() - own;
    /* Linux changes the rate at the next tick of its own: of what comes to a tenth that is some parts of a million, in the time of this. */
    double rate = (by / gone - 1) * 1e6 / 20;
    return 20 * (rate < 0 ? (long)(rate - 0.5) : (long)(rate + 0.5));
}
/* A Linux kernel that has nothing to do accumulates its clock late, and sets its alarm in time of the crystal: it is kept awake. */
static pid_t waker;
static inline void stay_awake(void)
{
    waker = fork();
    while (waker == 0)
        rest(4 * MS);
}
static inline void may_sleep(void)
{
    kill(waker, SIGKILL);
    waitpid(waker, 0, 0);
}
static inline void fresh(void)
{
    struct timex t = {.offset = 0, .freq = 0, .tick = 10000, .status = STA_UNSYNC, .constant = 2};
    adjust(&t, ADJ_STATUS | ADJ_FREQUENCY | ADJ_TICK | ADJ_MICRO);
    t.status = STA_PLL, t.offset = 0;
    adjust(&t, ADJ_STATUS);
    t.status = STA_UNSYNC;
    adjust(&t, ADJ_STATUS | ADJ_TIMECONST);
    t.offset = 0;
    adjust(&t, ADJ_OFFSET_SINGLESHOT);
    struct timex tai = {.constant = 0};
    adjust(&tai, ADJ_TAI);
    step(0);
}

static int failing;
static inline void late(const char *what, ns by)
{
    if (exact && (by < 0 || by > 20000))
        printf("%s: %lld ns late\n", what, by), failing = 1;
}
static inline int timerfd(clockid_t clock, int flags, ns until, ns interval)
{
    struct itimerspec times = {spec(interval), spec(until)};
    int fd = timerfd_create(clock, 0);
    return timerfd_settime(fd, flags, &times, 0) ? -1 : fd;
}

struct part { const char *name; void (*run)(void); };
static inline int run_parts(const struct part *parts, int count, int argc, char **argv)
{
    exact = getenv("EXACT") != 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int at = 1; at < argc; at++)
        for (int part = 0; part < count; part++)
            if (!strcmp(argv[at], parts[part].name)) {
                printf("== %s\n", argv[at]);
                parts[part].run();
            }
    return failing;
}
