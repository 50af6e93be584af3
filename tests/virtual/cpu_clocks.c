/* CPU clocks, and who waits for them: interval timers, POSIX timers, sleeps. The kernel looks at them at its ticks, so nothing is said of how late; what a
 * part prints must be the same natively and in virtual time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "alike.h"

#define OWN CLOCK_PROCESS_CPUTIME_ID
#define THREAD CLOCK_THREAD_CPUTIME_ID
#define MS 1000000LL
#define LATE (200 * MS)

static long long cpu(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) ? -1 : t.tv_sec * 1000 * MS + t.tv_nsec;
}
/* Time of the user's, not the kernel's. */
static void burn(void)
{
    struct timespec t;
    for (int n = 0; n < 100; n++) clock_gettime(CLOCK_MONOTONIC, &t);
}
static void burn_until(clockid_t clock, long long until) { while (cpu(clock) < until) burn(); }
static struct timeval tv(int n) { return (struct timeval){n / 1000, n % 1000 * 1000}; }
static struct timespec span(long long n) { return (struct timespec){n / (1000 * MS), n % (1000 * MS)}; }
static long interval(int which, int first, int again)
{
    struct itimerval i = {tv(again), tv(first)};
    return came(setitimer(which, &i, 0));
}
static const char *in_time(long long began, long long least)
{
    long long used = cpu(OWN) - began;
    return used < least ? "early" : used > least + LATE ? "late" : "in time";
}
/* What interval timers count is who runs when a tick comes: on a busy machine less or more than the clock says. */
static const char *about_in_time(long long began, long long least) { return in_time(began, least / 4); }
static const char *left(int which)
{
    struct itimerval i;
    getitimer(which, &i);
    return i.it_value.tv_sec || i.it_value.tv_usec ? "some left" : "none left";
}

static void once(int which, int number)
{
    handle(number);
    long long began = cpu(OWN);
    long set = interval(which, 20, 0);
    const char *before = left(which);
    while (!seen[number] && cpu(OWN) < began + 2 * LATE) burn();
    const char *when = about_in_time(began, 20 * MS);
    burn_until(OWN, cpu(OWN) + 30 * MS);
    printf("%ld, %s, %d, %s, %s", set, before, seen[number], when, left(which));
}
static void virtual_once(void) { once(ITIMER_VIRTUAL, SIGVTALRM); }
static void prof_once(void) { once(ITIMER_PROF, SIGPROF); }

static void again(void)
{
    handle(SIGPROF);
    long long began = cpu(OWN);
    interval(ITIMER_PROF, 10, 20);
    while (seen[SIGPROF] < 4 && cpu(OWN) < began + 1000 * MS) burn();
    const char *when = about_in_time(began, 70 * MS);
    struct itimerval none = {{0}}, old;
    setitimer(ITIMER_PROF, &none, &old);
    int before = seen[SIGPROF];
    burn_until(OWN, cpu(OWN) + 50 * MS);
    printf("%s, every %ld us, at most that left %d, then %d more", when, (long)old.it_interval.tv_usec, old.it_value.tv_usec <= 20000, seen[SIGPROF] - before);
}
/* An interval shorter than a call: the program goes on all the same. */
static void shortest(void)
{
    handle(SIGPROF);
    struct itimerval i = {{0, 1}, {0, 1}}, none = {{0}};
    setitimer(ITIMER_PROF, &i, 0);
    burn_until(OWN, cpu(OWN) + 50 * MS);
    setitimer(ITIMER_PROF, &none, 0);
    printf("%s", seen[SIGPROF] > 1 ? "again and again" : "once or never");
}
static void all_three(void)
{
    handle(SIGVTALRM); handle(SIGPROF); handle(SIGALRM);
    interval(ITIMER_VIRTUAL, 30, 0); interval(ITIMER_PROF, 20, 0); interval(ITIMER_REAL, 1000, 0);
    printf("%s, %s, %s; ", left(ITIMER_VIRTUAL), left(ITIMER_PROF), left(ITIMER_REAL));
    long long began = cpu(OWN);
    while (!(seen[SIGVTALRM] && seen[SIGPROF]) && cpu(OWN) < began + 2 * LATE) burn();
    printf("%d %d %d, ", seen[SIGVTALRM], seen[SIGPROF], seen[SIGALRM]);
    pause();
    printf("%d %d %d", seen[SIGVTALRM], seen[SIGPROF], seen[SIGALRM]);
}
static void asleep(void)
{
    handle(SIGPROF);
    interval(ITIMER_PROF, 50, 0);
    ms(150);
    printf("%d, %s", seen[SIGPROF], left(ITIMER_PROF));
}
static void kills(void)
{
    int status;
    for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
        if (!fork()) {
            interval(which, 10, 0);
            for (;;) burn();
        }
        wait(&status);
        printf("%d ", WTERMSIG(status));
    }
}
static void forked(void)
{
    int status;
    handle(SIGPROF);
    interval(ITIMER_PROF, 1000, 1000);
    if (!fork()) {
        struct itimerval i;
        getitimer(ITIMER_PROF, &i);
        _exit(i.it_value.tv_sec || i.it_value.tv_usec || i.it_interval.tv_sec ? 1 : cpu(OWN) < 100 * MS ? 2 : 3);
    }
    wait(&status);
    printf("%d, %s", WEXITSTATUS(status), left(ITIMER_PROF));
}
static void executed(void)
{
    int status;
    if (!fork()) {
        interval(ITIMER_VIRTUAL, 30, 0);
        execl("/bin/sh", "sh", "-c", "while :; do :; kill -0 $$; done", (char *)0);
    }
    wait(&status);
    printf("died of %d", WTERMSIG(status));
}

static timer_t made(clockid_t clock, int notify, int number, int value)
{
    timer_t timer = 0;
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = number, .sigev_value.sival_int = value};
    if (timer_create(clock, &event, &timer)) printf("timer_create: %d; ", errno);
    return timer;
}
static long set(timer_t timer, int flags, long long first, long long again)
{
    struct itimerspec i = {span(again), span(first)};
    return came(timer_settime(timer, flags, &i, 0));
}
static siginfo_t told;
static volatile pid_t by;
static void tells(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    told = *info;
    by = syscall(SYS_gettid);
    seen[number]++;
}
static void listen_to(int number)
{
    struct sigaction action = {.sa_sigaction = tells, .sa_flags = SA_SIGINFO};
    sigaction(number, &action, 0);
}
static void of_process(void)
{
    listen_to(SIGRTMIN);
    timer_t timer = made(OWN, SIGEV_SIGNAL, SIGRTMIN, 77);
    struct itimerspec is = {span(0), span(20 * MS)}, old;
    long long began = cpu(OWN);
    printf("%d ", timer_settime(timer, 0, &is, 0));
    timer_gettime(timer, &is);
    printf("%d ", is.it_value.tv_nsec > 0 && is.it_value.tv_nsec <= 20 * MS);
    while (!seen[SIGRTMIN] && cpu(OWN) < began + 2 * LATE) burn();
    printf("%s, code %d, value %d, overrun %d %d, ", in_time(began, 20 * MS), told.si_code, told.si_value.sival_int, told.si_overrun, timer_getoverrun(timer));
    is = (struct itimerspec){span(10 * MS), span(1000 * MS)};
    timer_settime(timer, 0, &is, &old);
    printf("was %ld, ", old.it_value.tv_nsec);
    timer_settime(timer, 0, &(struct itimerspec){{0}}, &old);
    printf("every %ld, ", old.it_interval.tv_nsec);
    timer_gettime(timer, &is);
    printf("now %ld, deleted %d %d", is.it_value.tv_nsec, timer_delete(timer), timer_delete(timer));
}
static void overruns(void)
{
    sigset_t set_of, is;
    siginfo_t info;
    struct timespec none = {0};
    sigemptyset(&set_of); sigaddset(&set_of, SIGRTMIN); sigprocmask(SIG_BLOCK, &set_of, 0);
    timer_t timer = made(THREAD, SIGEV_SIGNAL, SIGRTMIN, 1);
    long long began = cpu(THREAD);
    set(timer, TIMER_ABSTIME, began + 20 * MS, 20 * MS);
    burn_until(THREAD, began + 110 * MS);
    // On a busy machine ticks come when others run.
    while (!sigpending(&is) && !sigismember(&is, SIGRTMIN) && cpu(THREAD) < began + 2000 * MS) burn();
    long long least = (cpu(THREAD) - began) / (20 * MS) - 1;
    int number = sigtimedwait(&set_of, &info, &none) == SIGRTMIN, overrun = info.si_overrun;
    long long most = (cpu(THREAD) - began) / (20 * MS) - 1;
    int same = timer_getoverrun(timer) == overrun;
    set(timer, 0, 0, 0);
    printf("%d: as it should %d, the same %d, then %d", number, overrun >= least && overrun <= most && overrun >= 4, same, sigtimedwait(&set_of, &info, &none));
}
static void past(void)
{
    listen_to(SIGRTMIN);
    timer_t timer = made(OWN, SIGEV_SIGNAL, SIGRTMIN, 5);
    burn_until(OWN, 5 * MS);
    long done = set(timer, TIMER_ABSTIME, MS, 0);
    printf("%ld, %d at once, ", done, seen[SIGRTMIN]);
    done = set(timer, TIMER_ABSTIME, 0, 0);
    printf("%ld, %d", done, seen[SIGRTMIN]);
}
static void silent(void)
{
    timer_t timer = made(OWN, SIGEV_NONE, 0, 0);
    struct itimerspec is;
    long long began = cpu(OWN);
    set(timer, TIMER_ABSTIME, began + 20 * MS, 0);
    timer_gettime(timer, &is);
    printf("%d ", is.it_value.tv_nsec > 0);
    burn_until(OWN, began + 30 * MS);
    timer_gettime(timer, &is);
    printf("%ld ", is.it_value.tv_nsec);
    set(timer, TIMER_ABSTIME, began + 20 * MS, 1000 * MS);
    timer_gettime(timer, &is);
    printf("%d", is.it_value.tv_sec == 0 && is.it_value.tv_nsec > 800 * MS);
}

/* A second thread that has nothing to do but what it is told. */
static pthread_t other;
static volatile int work, over;
static volatile pid_t other_tid;
static void *works(void *unused)
{
    other_tid = syscall(SYS_gettid);
    while (!over) {
        if (work) { burn(); work--; }
        else ms(1);
    }
    return unused;
}
static void begin_other(void)
{
    pthread_create(&other, 0, works, 0);
    while (!other_tid) ms(1);
}
/* Its number is gone too: Linux wakes who joins before the thread has left the lists (kernel/exit.c, do_exit: exit_mm, then release_task). */
static void end_other(void)
{
    over = 1;
    pthread_join(other, 0);
    while (!syscall(SYS_tgkill, getpid(), other_tid, 0)) sched_yield();
}
static void let_work(clockid_t clock, long long until)
{
    while (cpu(clock) < until) { work = 20; ms(2); }
    while (work) ms(1);
}
static void of_thread(void)
{
    clockid_t clock;
    begin_other();
    int found = pthread_getcpuclockid(other, &clock);
    listen_to(SIGRTMIN);
    timer_t timer = made(clock, SIGEV_SIGNAL, SIGRTMIN, 9);
    set(timer, TIMER_ABSTIME, 60 * MS, 0);
    burn_until(THREAD, cpu(THREAD) + 120 * MS);
    printf("%d, mine %d, ", found, seen[SIGRTMIN]);
    let_work(clock, 150 * MS);
    printf("its %d by %s, value %d, ", seen[SIGRTMIN], by == other_tid ? "it" : "me", told.si_value.sival_int);
    end_other();
    struct timespec t;
    struct itimerspec is;
    printf("then %ld", came(clock_gettime(clock, &t)));
    printf(" %ld", set(timer, 0, MS, 0));
    printf(" %d", timer_gettime(timer, &is));
    printf(" %ld", is.it_value.tv_nsec);
}
static void to_thread(void)
{
    begin_other();
    listen_to(SIGRTMIN);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    event._sigev_un._tid = other_tid;
    timer_t timer;
    printf("%d ", timer_create(OWN, &event, &timer));
    long long began = cpu(OWN);
    set(timer, 0, 20 * MS, 0);
    while (!seen[SIGRTMIN] && cpu(OWN) < began + 3 * LATE) burn();
    for (int n = 0; n < 100 && !seen[SIGRTMIN]; n++) ms(1);
    printf("%d by %s, ", seen[SIGRTMIN], by == other_tid ? "it" : "me");
    event._sigev_un._tid = 1;
    printf("%ld ", came(timer_create(OWN, &event, &timer)));
    event.sigev_notify = 3;
    printf("%ld ", came(timer_create(OWN, &event, &timer)));
    event.sigev_notify = SIGEV_SIGNAL; event.sigev_signo = 99;
    printf("%ld", came(timer_create(OWN, &event, &timer)));
    end_other();
}
/* Whoever waits is not disturbed by what one who computes is told. */
static volatile long slept = 1;
static void *sleeps(void *unused)
{
    struct timespec t = {0, 500 * MS};
    slept = came(nanosleep(&t, 0));
    return unused;
}
static void to_who_computes(void)
{
    pthread_t sleeper;
    listen_to(SIGPROF);
    pthread_create(&sleeper, 0, sleeps, 0);
    begin_other();
    interval(ITIMER_PROF, 30, 0);
    work = 1000000;
    pthread_join(sleeper, 0);
    work = 0;
    printf("by %s, slept %ld", by == other_tid ? "it" : "another", slept);
    end_other();
}

static void sleep_on_process(void)
{
    struct timespec t = span(20 * MS);
    begin_other();
    work = 100000;
    long long began = cpu(OWN);
    int done = clock_nanosleep(OWN, 0, &t, 0);
    const char *when = in_time(began, 20 * MS);
    t = span(cpu(OWN) + 20 * MS);
    began = cpu(OWN);
    printf("%d %s, ", done, when);
    done = clock_nanosleep(OWN, TIMER_ABSTIME, &t, 0);
    printf("until %d %s, ", done, in_time(began, 20 * MS));
    t = span(MS);
    printf("past %d, none %d", clock_nanosleep(OWN, TIMER_ABSTIME, &t, 0), clock_nanosleep(OWN, 0, &(struct timespec){0}, 0));
    work = 0;
    end_other();
}
static void sleep_on_thread(void)
{
    clockid_t clock;
    begin_other();
    pthread_getcpuclockid(other, &clock);
    work = 100000;
    long long began = cpu(clock);
    struct timespec t = span(20 * MS);
    int done = clock_nanosleep(clock, 0, &t, 0);
    long long used = cpu(clock) - began;
    printf("%d %s", done, used >= 20 * MS && used < 20 * MS + LATE ? "in time" : "not in time");
    work = 0;
    end_other();
}
static void sleep_interrupted(void)
{
    handle(SIGALRM);
    struct timespec t = span(5000 * MS), rest = {0};
    interval(ITIMER_REAL, 50, 0);
    int done = clock_nanosleep(OWN, 0, &t, &rest);
    printf("%d, rest %d, ", done, rest.tv_sec == 4 || rest.tv_sec == 5);
    interval(ITIMER_REAL, 50, 0);
    rest = (struct timespec){7, 7};
    done = clock_nanosleep(OWN, TIMER_ABSTIME, &t, &rest);
    printf("until %d, rest %ld", done, (long)rest.tv_sec);
}
static void of_child(void)
{
    int go[2];
    char c;
    pipe(go);
    pid_t child = fork();
    if (!child) {
        read(go[0], &c, 1);
        burn_until(OWN, 60 * MS);
        _exit(0);
    }
    clockid_t clock;
    printf("%d ", clock_getcpuclockid(child, &clock));
    int little = cpu(clock) < 40 * MS;
    write(go[1], "x", 1);
    struct timespec t = span(45 * MS);
    int slept_on_it = clock_nanosleep(clock, TIMER_ABSTIME, &t, 0);
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    int much = cpu(clock) >= 60 * MS;
    waitpid(child, 0, 0);
    long gone = cpu(clock);
    printf("little %d, slept %d, much %d, then %ld %d", little, slept_on_it, much, gone, clock_getcpuclockid(child, &clock));
}
static void wrong(void)
{
    struct timespec t = span(MS);
    struct itimerval bad = {{0, 0}, {0, 1000000}}, good = {{0, 0}, {0, 1000}};
    timer_t timer;
#define RAW(call) came(syscall call)
    printf("setitimer %ld %ld %ld %ld, getitimer %ld, ", came(setitimer(3, &good, 0)), came(setitimer(ITIMER_PROF, &bad, 0)), RAW((SYS_setitimer, 2, 1L, 0)), RAW((SYS_setitimer, 2, &(struct itimerval){{0}}, 1L)), came(syscall(SYS_getitimer, 3, &good)));
    printf("sleep %ld %ld %ld %ld %ld %ld, ", RAW((SYS_clock_nanosleep, 3, 0, &t, 0)), RAW((SYS_clock_nanosleep, -2, 0, &t, 0)), RAW((SYS_clock_nanosleep, 4, 0, &t, 0)), RAW((SYS_clock_nanosleep, 5, 0, &t, 0)),
           RAW((SYS_clock_nanosleep, ~9999999 << 3 | 2, 0, &t, 0)), RAW((SYS_clock_nanosleep, -6, 0, 1L, 0)));
    printf("create %ld %ld %ld %ld %ld, ", RAW((SYS_timer_create, 4, 0, &timer)), RAW((SYS_timer_create, 5, 0, &timer)), RAW((SYS_timer_create, ~9999999 << 3 | 2, 0, &timer)), RAW((SYS_timer_create, ~1 << 3 | 6, 0, &timer)), RAW((SYS_timer_create, -1, 0, &timer)));
    printf("gettime %ld %ld %ld %ld, ", RAW((SYS_clock_gettime, ~9999999 << 3 | 2, &t)), RAW((SYS_clock_gettime, ~1 << 3 | 6, &t)), RAW((SYS_clock_gettime, -1, &t)), RAW((SYS_clock_gettime, -6, 1L)));
    printf("getres");
    for (int id = -8; id < 0; id++) {
        t = (struct timespec){9, 9};
        printf(" %ld", RAW((SYS_clock_getres, id, &t)));
        printf("/%ld", t.tv_nsec);
    }
    printf(", set %ld", RAW((SYS_clock_settime, -2, &(struct timespec){1, 0})));
}
/* All of a process's ways to ask agree. */
static void agree(void)
{
    clockid_t clock, own;
    struct rusage usage;
    burn_until(OWN, 20 * MS);
    clock_getcpuclockid(0, &clock);
    clock_getcpuclockid(getpid(), &own);
    long long a = cpu(OWN), b = cpu(clock), c = cpu(own), d = cpu(~getpid() << 3 | 6);
    getrusage(RUSAGE_SELF, &usage);
    long long e = cpu(OWN), f = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 * MS + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
    printf("%d %d %d %d", a < b && b < c && c < e, d > c && d < e, f >= c - 2000 && f <= e, cpu(OWN) - cpu(THREAD) < 5 * MS);
}

/* A timer of no time at all that its handler sets anew: the program goes on nevertheless. */
static timer_t anew;
static void sets_interval(int number)
{
    seen[number]++;
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 1}}, 0);
}
static void sets_timer(int number)
{
    seen[number]++;
    timer_settime(anew, 0, &(struct itimerspec){{0, 0}, {0, 1}}, 0);
}
static void works_on(int number)
{
    long long began = cpu(OWN);
    for (int n = 0; n < 500; n++) burn();
    /* Natively a burst of work may come between two ticks. */
    while (!seen[number] && cpu(OWN) < began + 1000 * MS) burn();
    long long used = (cpu(OWN) - began) / MS;
    printf("done, %s", !seen[number] ? "never" : seen[number] <= used + 2 ? "no more often than every millisecond" : "more often");
}
static void set_by_handler(void)
{
    struct sigaction action = {.sa_handler = sets_interval};
    sigaction(SIGPROF, &action, 0);
    sets_interval(0);
    works_on(SIGPROF);
}
static void timer_set_by_handler(void)
{
    struct sigaction action = {.sa_handler = sets_timer};
    sigaction(SIGRTMIN, &action, 0);
    anew = made(OWN, SIGEV_SIGNAL, SIGRTMIN, 0);
    sets_timer(0);
    works_on(SIGRTMIN);
}
/* One that is set anew again and again before a tick comes: an interval timer is given a tick more each time, another comes with the tick. */
static void set_before_tick(void)
{
    handle(SIGPROF);
    handle(SIGRTMIN);
    anew = made(OWN, SIGEV_SIGNAL, SIGRTMIN, 0);
    long long began = cpu(OWN);
    while (!seen[SIGRTMIN] && cpu(OWN) < began + 1000 * MS) {
        setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 1}}, 0);
        set(anew, 0, 1, 0);
        burn();
    }
    struct itimerval is;
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 1}}, 0);
    getitimer(ITIMER_PROF, &is);
    printf("%s and %s, left more than set %d", seen[SIGPROF] ? "one comes" : "never", seen[SIGRTMIN] ? "one comes" : "never", is.it_value.tv_usec > 1000);
}
/* The clock of a process that has ended, before and after its parent has waited for it. */
static void shows(timer_t timer, struct itimerspec *is)
{
    int found = timer_gettime(timer, is);
    printf("%d every %ld left %d, ", found, is->it_interval.tv_nsec, is->it_value.tv_sec || is->it_value.tv_nsec);
}
static void of_ended(void)
{
    int go[2];
    char c;
    clockid_t clock;
    struct itimerspec is;
    siginfo_t info;
    pipe(go);
    pid_t child = fork();
    if (!child) {
        read(go[0], &c, 1);
        _exit(0);
    }
    listen_to(SIGRTMIN);
    clock_getcpuclockid(child, &clock);
    timer_t timer = made(clock, SIGEV_SIGNAL, SIGRTMIN, 1), silent_one = made(clock, SIGEV_NONE, 0, 0), unset = made(clock, SIGEV_SIGNAL, SIGRTMIN, 1);
    printf("%ld %ld; ", set(timer, 0, 10000 * MS, 7), set(silent_one, 0, 10000 * MS, 0));
    shows(timer, &is); shows(silent_one, &is); shows(unset, &is);
    write(go[1], "x", 1);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    printf("ended: ");
    shows(timer, &is); shows(silent_one, &is); shows(unset, &is);
    printf("%ld; ", set(unset, 0, 10000 * MS, 0));
    waitpid(child, 0, 0);
    printf("waited for: ");
    shows(timer, &is); shows(silent_one, &is); shows(unset, &is);
    printf("%ld %ld %ld, ", set(timer, 0, MS, 0), set(silent_one, 0, 0, 0), set(unset, TIMER_ABSTIME, 1, 0));
    printf("seen %d, deleted %d %d", seen[SIGRTMIN], timer_delete(timer), timer_delete(silent_one));
}
/* Numbers of POSIX timers, and how many there may be. */
static int create(clockid_t clock, struct sigevent *event)
{
    int id = -1;
    long result = came(syscall(SYS_timer_create, clock, event, &id));
    return result ? result : id;
}
static void numbers(void)
{
    struct sigevent bad = {.sigev_notify = 77, .sigev_signo = SIGALRM}, quiet = {.sigev_notify = SIGEV_NONE};
    printf("%d ", create(CLOCK_MONOTONIC, 0));
    printf("%d, ", create(CLOCK_MONOTONIC, &quiet));
    printf("%d %d %d %ld, ", create(CLOCK_MONOTONIC, &bad), create(4, 0), create(~9999999 << 3 | 2, 0), came(syscall(SYS_timer_create, CLOCK_MONOTONIC, 0, 1L)));
    printf("%d, ", create(OWN, 0));
    syscall(SYS_timer_delete, 1L);
    printf("%d, ", create(CLOCK_MONOTONIC, 0));
    fflush(stdout);
    int status;
    if (!fork()) {
        printf("child %d, ", create(CLOCK_MONOTONIC, 0));
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    struct rlimit few = {200, 200};
    setrlimit(RLIMIT_SIGPENDING, &few);
    int many = 0, last;
    while (many < 2000 && (last = create(CLOCK_MONOTONIC, &quiet)) >= 0) many++;
    printf("then %d, %s, ", last, many <= 200 ? many > 0 ? "some" : "none" : "too many");
    syscall(SYS_timer_delete, 0L);
    last = create(CLOCK_MONOTONIC, 0);
    printf("again %d, ", last >= 0);
    char id[12];
    snprintf(id, sizeof id, "%d", last);
    fflush(stdout);
    execl("/proc/self/exe", "cpu_clocks", "next number", id, (char *)0);
}

static const struct part PARTS[] = {
    {"ITIMER_VIRTUAL", virtual_once}, {"ITIMER_PROF", prof_once}, {"ITIMER_PROF again and again", again}, {"ITIMER_PROF every microsecond", shortest}, {"three interval timers", all_three},
    {"no CPU time in a sleep", asleep}, {"SIGVTALRM and SIGPROF without a handler", kills}, {"CPU timers and fork", forked}, {"CPU timers and exec", executed},
    {"timer of a process", of_process}, {"overruns of a CPU timer", overruns}, {"CPU timer in the past", past}, {"CPU timer that says nothing", silent},
    {"timer of a thread", of_thread}, {"CPU timer to a thread", to_thread}, {"CPU timer to who computes", to_who_computes}, {"sleep by the process's clock", sleep_on_process},
    {"sleep by a thread's clock", sleep_on_thread}, {"sleep by a CPU clock, interrupted", sleep_interrupted}, {"clock of a child", of_child}, {"CPU clocks that are none", wrong},
    {"CPU clocks agree", agree}, {"ITIMER_PROF set by its handler", set_by_handler}, {"CPU timer set by its handler", timer_set_by_handler},
    {"ITIMER_PROF set before a tick", set_before_tick}, {"timer of a process that has ended", of_ended}, {"numbers of timers", numbers},
};

int main(int count, char **words)
{
    if (count > 2) {
        printf("executed %d", create(CLOCK_MONOTONIC, 0) - atoi(words[2]));
        return 0;
    }
    return parts(count, words, PARTS, sizeof PARTS / sizeof *PARTS);
}
