/* What a program sees of time, signals and faults in virtual time. Each line of output says what was seen; the test knows what it must be. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int flag;

static void jump(int signal) { (void)signal; siglongjmp(back, 1); }
static void nothing(int signal) { (void)signal; }
static void *spin(void *unused) { while (!flag) sched_yield(); return unused; }

static void back_doors(void) {
    unsigned low, high, number = 20;
    struct timespec up;
    clock_gettime(CLOCK_MONOTONIC_RAW, &up);
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    long after = ((long)high << 32 | low) - (up.tv_sec * 1000000000l + up.tv_nsec);
    printf("time stamp counter goes by the clock: %d\n", after >= 0 && after < 100000);
    long (*vsyscall_time)(long *) = (long (*)(long *))0xffffffffff600400ul;
    printf("vsyscall page: %ld\n", vsyscall_time(0));
    __asm__ volatile("int $0x80" : "=a"(number) : "a"(number));
    printf("i386 call: %d\n", (int)number);
}

static void faults(void) {
    signal(SIGSEGV, jump);
    if (!sigsetjmp(back, 1)) *(volatile int *)8 = 1;
    printf("fault caught\n");
    errno = 0;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (void *)8);
    printf("bad pointer, answered in the process: %d\n", errno == EFAULT);
    errno = 0;
    if (read(open("/dev/urandom", O_RDONLY), (void *)8, 4) < 0) printf("bad pointer, random: %d\n", errno == EFAULT);
    errno = 0;
    nanosleep((void *)8, 0);
    printf("bad pointer, at the controller: %d\n", errno == EFAULT);
}

static void timers(void) {
    unsigned long count = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec repeated = {{0, 50000000}, {0, 100000000}};
    timerfd_settime(timer, 0, &repeated, 0);
    if (read(timer, &count, 8) == 8) printf("timerfd: %lu\n", count);
    usleep(210000);
    if (read(timer, &count, 8) == 8) printf("timerfd: %lu\n", count);
    close(timer);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    int signals = signalfd(-1, &set, 0);
    kill(getpid(), SIGUSR1);
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) == sizeof info) printf("signalfd: %u %d\n", info.ssi_signo, info.ssi_pid == (unsigned)getpid());
    timer_t posix;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec once = {{0, 0}, {2, 0}};
    int got = 0;
    timer_create(CLOCK_REALTIME, &event, &posix);
    timer_settime(posix, 0, &once, 0);
    sigwait(&set, &got);
    printf("POSIX timer: %d\n", got);
}

static void interruptions(void) {
    signal(SIGALRM, nothing);
    siginterrupt(SIGALRM, 1);
    alarm(1);
    errno = 0;
    pause();
    printf("pause: %d\n", errno == EINTR);
    int ends[2];
    char byte;
    if (pipe(ends)) return;
    alarm(1);
    errno = 0;
    if (read(ends[0], &byte, 1) < 0) printf("read: %d\n", errno == EINTR);
    struct timespec wanted = {5, 0}, left = {0, 0};
    alarm(2);
    int result = nanosleep(&wanted, &left);
    printf("nanosleep: %d, %ld s left\n", result, (long)left.tv_sec + (left.tv_nsec > 500000000));
}

static void locks(void) {
    pthread_t thread;
    pthread_create(&thread, 0, spin, 0);
    usleep(1000);
    flag = 1;
    pthread_join(thread, 0);
    pthread_mutex_t mutex;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &kind);
    int locked = pthread_mutex_lock(&mutex), unlocked = pthread_mutex_unlock(&mutex);
    printf("PI mutex: %d %d\n", locked, unlocked);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3;
    pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&plain);
    printf("condition: %d\n", pthread_cond_timedwait(&condition, &plain, &until) == ETIMEDOUT);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    back_doors();
    faults();
    timers();
    interruptions();
    locks();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("end: %ld s\n", (long)now.tv_sec);
    return 0;
}
