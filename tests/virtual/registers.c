// Floating-point registers are a program's own, whatever happens between two looks at them: calls, another thread on the processor, a signal's handler that
// uses them, a page that comes at its first touch, a child that was made of them, another's registers that are written. Writes how many looks found another's.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 3
#define ROUNDS 300
#define REGISTERS 16
#define PAGE 4096

static volatile sig_atomic_t handled;
static pthread_barrier_t barrier;

// All sixteen get a number of their own, a call is made, and they are looked at: in one piece, since a compiler uses them for what it likes.
static int look(uint64_t seed, long call, long a, long b, long *result, long last)
{
    register long fourth __asm__("r10") = last;
    uint64_t put[2 * REGISTERS], found[2 * REGISTERS];
    for (int i = 0; i < 2 * REGISTERS; i++)
        put[i] = seed * 0x9e3779b97f4a7c15u + i;
#define LOAD(n) "movdqu " #n "*16(%[put]), %%xmm" #n "\n"
#define STORE(n) "movdqu %%xmm" #n ", " #n "*16(%[found])\n"
#define ALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
    asm volatile(ALL(LOAD) "syscall\n" ALL(STORE)
                 : "=a"(*result)
                 : "a"(call), "D"(a), "S"(b), "d"(0), "r"(fourth), [put] "r"(put), [found] "r"(found)
                 : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                   "xmm13", "xmm14", "xmm15");
    return memcmp(put, found, sizeof put) != 0;
}

// The same with a page that is touched for the first time.
static int touch(uint64_t seed, volatile char *page)
{
    uint64_t put[2] = {seed, ~seed}, found[2];
    asm volatile("movdqu (%[put]), %%xmm9\n movb $1, (%[page])\n movdqu %%xmm9, (%[found])\n"
                 :
                 : [put] "r"(put), [found] "r"(found), [page] "r"(page)
                 : "memory", "xmm9");
    return memcmp(put, found, sizeof put) != 0;
}

// A tracer that writes its child's registers keeps its own. (Where nobody may trace, too.)
static int trace(void)
{
    int status, differs;
    long result = fork();
    if (result == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    waitpid(result, &status, WUNTRACED);
    struct user_fpregs_struct theirs = {.cwd = 0x37f, .mxcsr = 0x1d80};
    memset(theirs.xmm_space, 0xee, sizeof theirs.xmm_space);
    long child = result;
    uint32_t before, after;
    asm volatile("stmxcsr %0" : "=m"(before));
    differs = look(0xbeef, SYS_ptrace, PTRACE_SETFPREGS, child, &result, (long)&theirs);
    asm volatile("stmxcsr %0" : "=m"(after));
    differs += before != after;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return differs;
}

static void handle(int signal)
{
    (void)signal;
    long result;
    look(0xdead + handled, SYS_getppid, 0, 0, &result, 0);
    handled++;
}

static void *thread(void *number)
{
    uint64_t seed = (uintptr_t)number * ROUNDS;
    long wrong = 0, result;
    char *pages = mmap(NULL, ROUNDS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec little = {0, 1000};
        wrong += look(seed + round, SYS_sched_yield, 0, 0, &result, 0);
        wrong += look(seed + round, SYS_getppid, 0, 0, &result, 0);
        // Its handler runs at once.
        wrong += look(seed + round, SYS_tkill, gettid(), SIGUSR1, &result, 0);
        wrong += touch(seed + round, pages + (long)round * PAGE);
        wrong += look(seed + round, SYS_nanosleep, (long)&little, 0, &result, 0);
        if (round % 50 == 0) {
            int differs = look(seed + round, SYS_fork, 0, 0, &result, 0), status = 0;
            if (result == 0)
                _exit(differs);
            waitpid(result, &status, 0);
            wrong += differs + (status != 0);
        }
    }
    return (void *)wrong;
}

int main(void)
{
    pthread_t threads[THREADS];
    struct itimerval often = {{0, 700}, {0, 700}};
    signal(SIGUSR1, handle);
    signal(SIGALRM, handle);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, thread, (void *)(n + 1));
    long wrong = 0;
    for (int n = 0; n < THREADS; n++) {
        void *some;
        pthread_join(threads[n], &some);
        wrong += (long)some;
    }
    wrong += trace();
    printf("wrong %ld, handled %s\n", wrong, handled >= THREADS * ROUNDS ? "all" : "too few");
    return wrong != 0;
}
