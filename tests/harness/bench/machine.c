// Two speeds of this machine, in nanoseconds: a getppid system call, and a futex round trip between two threads on one
// core; and how many times as much as one thread two get done that have nothing to do with each other. Prints
// "getppid NS futex NS threads TIMES", each the median of several rounds.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, CALLS = 200000, TRIPS = 20000, WORK = 400000, STEPS = 100 };

static _Atomic unsigned turn; // 0: the main thread's, 1: the partner's, 2: the end

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void wait_while(unsigned value) {
    while (atomic_load(&turn) == value) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void pass_to(unsigned value) {
    atomic_store(&turn, value);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *partner(void *unused) {
    (void)unused;
    for (;;) {
        wait_while(0);
        if (atomic_load(&turn) == 2) return NULL;
        pass_to(0);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

// Half calls, half computing.
static void *work(void *unused) {
    volatile unsigned seed = 1;
    for (int i = 0; i < WORK; i++) {
        syscall(SYS_getppid);
        for (int step = 0; step < STEPS; step++) seed = seed * 1664525 + 1013904223;
    }
    return unused;
}

static double work_ns(int threads) {
    pthread_t thread;
    double start = now_ns();
    if (threads > 1 && pthread_create(&thread, NULL, work, NULL) != 0) exit(1);
    work(NULL);
    if (threads > 1) pthread_join(thread, NULL);
    return now_ns() - start;
}

int main(void) {
    // One core for both threads: the partner inherits it.
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;

    double getppid_ns[ROUNDS], futex_ns[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < CALLS; i++) syscall(SYS_getppid);
        getppid_ns[round] = (now_ns() - start) / CALLS;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, partner, NULL) != 0) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < TRIPS; i++) {
            pass_to(1);
            wait_while(1);
        }
        futex_ns[round] = (now_ns() - start) / TRIPS;
    }
    pass_to(2);
    pthread_join(thread, NULL);
    // In turns: what else the machine does meanwhile is then the same for both.
    if (sched_setaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double one = work_ns(1);
        times[round] = 2 * one / work_ns(2);
    }
    printf("getppid %.1f futex %.1f threads %.2f\n", median(getppid_ns), median(futex_ns), median(times));
    return 0;
}
