/* When CPU timers expire, to the nanosecond: every call costs what a call costs, and nothing else does. `cpu_clocks spin`: without a call. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long at[64];
static volatile int count;

static long long cpu(clockid_t clock)
{
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void saw(int number)
{
    if (count < 64) at[count++] = cpu(CLOCK_PROCESS_CPUTIME_ID);
}
static void *computes(void *until)
{
    while (cpu(CLOCK_THREAD_CPUTIME_ID) < *(long long *)until) {}
    return 0;
}

int main(int words, char **word)
{
    struct itimerval one = {{0, 0}, {0, 10000}}, more = {{0, 2000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
    signal(SIGPROF, saw);
    signal(SIGVTALRM, saw);
    if (words > 1) {
        setitimer(ITIMER_PROF, &one, 0);
        while (!count) {}
        printf("interrupted\n");
        return 0;
    }
    long long began = cpu(CLOCK_PROCESS_CPUTIME_ID);
    setitimer(ITIMER_PROF, &one, 0);
    while (!count) getppid();
    printf("once: %lld\n", at[0] - began);
    count = 0;
    began = cpu(CLOCK_PROCESS_CPUTIME_ID);
    setitimer(ITIMER_VIRTUAL, &more, 0);
    while (count < 4) getppid();
    setitimer(ITIMER_VIRTUAL, &none, 0);
    printf("again: %lld %lld %lld %lld\n", at[0] - began, at[1] - began, at[2] - began, at[3] - began);
    count = 0;
    long long until = 6000000;
    pthread_t threads[3];
    setitimer(ITIMER_PROF, &one, 0);
    began = cpu(CLOCK_PROCESS_CPUTIME_ID);
    for (int n = 0; n < 3; n++) pthread_create(&threads[n], 0, computes, &until);
    for (int n = 0; n < 3; n++) pthread_join(threads[n], 0);
    printf("three threads: %lld\n", at[0] - began);
    struct timespec nap = {1, 0};
    nanosleep(&nap, 0);
    long long after = cpu(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&nap, 0);
    printf("asleep: %lld\n", cpu(CLOCK_PROCESS_CPUTIME_ID) - after);
    return 0;
}
