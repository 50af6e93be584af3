/* Calls at sites that are used so often that they become gates. Each line of output says what was seen; the test knows what it must be. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OFTEN = 100 };

/* Fills every register that a call keeps, and the red zone, and looks at them afterwards: 0, or the number of what was lost. */
extern long registers_kept(void);
extern char kept_site[];
__asm__(".text\n.globl registers_kept, kept_site\nregisters_kept:\n"
        "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov $11,%rbx\nmov $12,%rbp\nmov $13,%r12\nmov $14,%r13\nmov $15,%r14\nmov $16,%r15\n"
        "mov $21,%rdi\nmov $22,%rsi\nmov $23,%rdx\nmov $24,%r10\nmov $25,%r8\nmov $26,%r9\n"
        "movq $31,-8(%rsp)\nmovq $32,-128(%rsp)\n"
        "movq %rbx,%xmm0\nmovq %rbp,%xmm1\nmovq %rdi,%xmm7\nmovq %rsi,%xmm8\nmovq %r9,%xmm15\nmovlhps %xmm15,%xmm15\n"
        "mov %rsp,%rax\nmov %rax,-16(%rsp)\n"
        "stc\nmov $110,%eax\nkept_site: syscall\n"
        "jnc 9f\n"
        "cmp %rsp,-16(%rsp)\njne 9f\n"
        "cmp $11,%rbx\njne 9f\ncmp $12,%rbp\njne 9f\ncmp $13,%r12\njne 9f\ncmp $14,%r13\njne 9f\ncmp $15,%r14\njne 9f\ncmp $16,%r15\njne 9f\n"
        "cmp $21,%rdi\njne 9f\ncmp $22,%rsi\njne 9f\ncmp $23,%rdx\njne 9f\ncmp $24,%r10\njne 9f\ncmp $25,%r8\njne 9f\ncmp $26,%r9\njne 9f\n"
        "cmpq $31,-8(%rsp)\njne 9f\ncmpq $32,-128(%rsp)\njne 9f\n"
        "movq %xmm0,%rcx\ncmp $11,%rcx\njne 9f\nmovq %xmm1,%rcx\ncmp $12,%rcx\njne 9f\n"
        "movq %xmm7,%rcx\ncmp $21,%rcx\njne 9f\nmovq %xmm8,%rcx\ncmp $22,%rcx\njne 9f\n"
        "movhlps %xmm15,%xmm15\nmovq %xmm15,%rcx\ncmp $26,%rcx\njne 9f\n"
        "xor %eax,%eax\njmp 8f\n9: mov $1,%eax\n"
        "8: pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");

/* Calls through sites of their own; at_site jumps to the instruction itself. */
#define SITE(name, number)                                                                              \
    extern long name(long, ...);                                                                        \
    __asm__(".text\n.globl " #name "\n" #name ": mov %rcx,%r10\nmov $" #number ",%eax\n" #name "_site: syscall\nret\n")
SITE(call_read, 0);
SITE(call_nanosleep, 35);
SITE(call_getpid, 39);
SITE(call_kill, 62);
SITE(call_mask, 14);
SITE(call_ppoll, 271);
SITE(call_write, 1);
extern char call_getpid_site[];
extern long at_site(long number);
__asm__(".text\n.globl at_site\nat_site: mov %rdi,%rax\njmp call_getpid_site\n");

/* read(2) as C libraries have it, where it alone is short; with padding behind. A number that another way leads to the instruction. */
extern long short_read(int file, void *bytes, unsigned long count);
extern char short_site[];
extern long at_short_site(long number);
__asm__(".text\n.globl short_read, short_site, at_short_site\nshort_read: xor %eax,%eax\nshort_site: syscall\ncmp $0xfffffffffffff000,%rax\nja 1f\nret\n"
        ".byte 0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0\n1: sub $1000,%rax\nret\nat_short_site: mov %rdi,%rax\njmp short_site\n");

static volatile int count, flag, quiet;
static int pipes[2][2];

static void counts(int signal) { (void)signal; count++; }

static void handled(int signal, int flags) {
    struct sigaction action = {.sa_handler = counts, .sa_flags = flags};
    sigaction(signal, &action, 0);
}

static void plain(void) {
    long bad = 0, wrong = 0;
    for (int n = 0; n < OFTEN; n++) bad += registers_kept();
    for (int n = 0; n < OFTEN; n++) wrong += call_getpid(0) != getpid();
    printf("registers lost: %ld, wrong results: %ld\n", bad, wrong);
    if (!quiet) fprintf(stderr, "gates: %d %d\n", memcmp(kept_site - 5, "\xff\x24\x25", 3) == 0, memcmp(call_getpid_site - 5, "\xff\x24\x25", 3) == 0);
    printf("by another way: %d %d\n", at_site(SYS_getpid) == getpid(), at_site(SYS_gettid) == getpid());
    for (int n = 0; n < OFTEN; n++) bad += call_write(1, (char *)8, 4) != -EFAULT;
    printf("bad pointers: %ld\n", bad);
}

static void short_ones(void) {
    long sum = 0, bad = 0;
    char byte = 0;
    int ends[2];
    pipe(ends);
    for (int n = 0; n < OFTEN; n++) {
        byte = (char)n;
        write(ends[1], &byte, 1);
        byte = -1;
        bad += short_read(ends[0], &byte, 1) != 1;
        sum += byte;
    }
    for (int n = 0; n < OFTEN; n++) bad += short_read(-1, &byte, 1) != -EBADF - 1000;
    if (!quiet) fprintf(stderr, "short gate: %d\n", short_site[-2] == (char)0xeb);
    handled(SIGALRM, 0);
    struct itimerval soon = {{0, 0}, {0, 200000}};
    setitimer(ITIMER_REAL, &soon, 0);
    long interrupted = short_read(ends[0], &byte, 1);
    handled(SIGALRM, SA_RESTART);
    setitimer(ITIMER_REAL, &soon, 0);
    if (fork() == 0) {
        struct timespec later = {0, 400000000};
        nanosleep(&later, 0);
        write(ends[1], "x", 1);
        _exit(0);
    }
    long restarted = short_read(ends[0], &byte, 1);
    wait(0);
    printf("short: %ld, %ld wrong, interrupted: %ld, restarted: %ld %c, %d signals, by another way: %d\n", sum, bad, interrupted, restarted, byte, count,
           at_short_site(SYS_getpid) == getpid());
    count = 0;
}

static void signals(void) {
    sigset_t set, none;
    struct timespec moment = {0, 1000000}, second = {1, 0};
    struct pollfd nothing = {.fd = -1};
    handled(SIGUSR1, 0);
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int n = 0; n < OFTEN; n++) call_kill(getpid(), (long)SIGUSR1);
    printf("signals: %d\n", count);
    for (int n = 0; n < OFTEN; n++) call_mask((long)SIG_SETMASK, &none, 0L, 8L);
    call_mask((long)SIG_SETMASK, &set, 0L, 8L);
    call_kill(getpid(), (long)SIGUSR1);
    printf("blocked: %d\n", count);
    call_mask((long)SIG_SETMASK, &none, 0L, 8L);
    printf("unblocked: %d\n", count);
    for (int n = 0; n < OFTEN; n++) call_ppoll((long)&nothing, 1L, &moment, &none, 8L);
    call_mask((long)SIG_SETMASK, &set, 0L, 8L);
    call_kill(getpid(), (long)SIGUSR1);
    long result = call_ppoll((long)&nothing, 1L, &second, &none, 8L);
    printf("with a mask: %ld %d\n", result, count);
    call_kill(getpid(), (long)SIGUSR1);
    printf("blocked again: %d\n", count);
    call_mask((long)SIG_SETMASK, &none, 0L, 8L);
    for (int n = 0; n < OFTEN; n++) call_nanosleep((long)&moment, 0L);
    handled(SIGALRM, 0);
    struct itimerval soon = {{0, 0}, {0, 200000}};
    setitimer(ITIMER_REAL, &soon, 0);
    result = call_nanosleep((long)&second, &moment);
    printf("interrupted: %ld, %ld ms left, %d\n", result, moment.tv_nsec / 1000000, count);
    unsigned long times;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec quick = {{0, 1000000}, {0, 1000000}}, slow = {{0, 0}, {1, 0}};
    timerfd_settime(timer, 0, &quick, 0);
    for (int n = 0; n < OFTEN; n++) call_read(timer, &times, 8L);
    timerfd_settime(timer, 0, &slow, 0);
    handled(SIGALRM, SA_RESTART);
    setitimer(ITIMER_REAL, &soon, 0);
    result = call_read(timer, &times, 8L);
    printf("restarted: %ld %lu %d\n", result, times, count);
}

static void *bounces(void *unused) {
    char byte;
    while (call_read(pipes[0][0], &byte, 1L) == 1) call_write(pipes[1][1], &byte, 1L);
    return unused;
}

static void threads_and_children(void) {
    pthread_t thread;
    long trips = 0;
    char byte = 1;
    if (pipe(pipes[0]) || pipe(pipes[1])) exit(1);
    pthread_create(&thread, 0, bounces, 0);
    for (int n = 0; n < OFTEN; n++) trips += call_write(pipes[0][1], &byte, 1L) == 1 && call_read(pipes[1][0], &byte, 1L) == 1;
    close(pipes[0][1]);
    pthread_join(thread, 0);
    printf("between threads: %ld\n", trips);
    fflush(stdout);
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(call_getpid(0) == getpid() && registers_kept() == 0 ? 7 : 1);
    waitpid(pid, &status, 0);
    printf("child: %d\n", WEXITSTATUS(status));
    fflush(stdout);
    pid = vfork();
    if (pid == 0) _exit(call_getpid(0) == call_getpid(1) ? 8 : 1);
    waitpid(pid, &status, 0);
    printf("vfork's: %d, parent: %d\n", WEXITSTATUS(status), call_getpid(0) == getpid());
}

static void own_code(void) {
    /* Code that a program makes itself stays as it is. */
    unsigned char code[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    long wrong = 0;
    for (int n = 0; n < OFTEN; n++) wrong += ((long (*)(void))page)() != getpid();
    printf("own code: %ld wrong, %s\n", wrong, memcmp(page, code, sizeof code) ? "changed" : "as it was");
    /* The pages of gates are not to be had. */
    if (!quiet) printf("in the way: %d\n", mmap((void *)0x60000, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
}

static void *spins(void *unused) {
    while (!flag) {}
    return unused;
}

int main(int words, char **word) {
    setvbuf(stdout, 0, _IOLBF, 0);
    if (words > 1 && strcmp(word[1], "spin") == 0) {
        /* The first thread sleeps at a gate while another makes no call. */
        struct timespec moment = {0, 1000000}, longer = {0, 30000000};
        pthread_t thread;
        for (int n = 0; n < OFTEN; n++) call_nanosleep((long)&moment, 0L);
        pthread_create(&thread, 0, spins, 0);
        call_nanosleep((long)&longer, 0L);
        flag = 1;
        pthread_join(thread, 0);
        printf("over\n");
        return 0;
    }
    /* Says nothing of what shows whether there are gates. */
    quiet = words > 1;
    plain();
    short_ones();
    signals();
    threads_and_children();
    own_code();
    return 0;
}
