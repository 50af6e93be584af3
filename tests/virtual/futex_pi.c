/* Locks that are handed over: FUTEX_LOCK_PI and what belongs to it, and who is led from a word to such a lock (FUTEX_WAIT_REQUEUE_PI). What a part prints must
 * be the same natively and in virtual time; threads are told apart by the order in which they began. */
#define _GNU_SOURCE
#include <limits.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "alike.h"

#define PRIVATE FUTEX_PRIVATE_FLAG
typedef uint32_t word;

static long futex(word *at, int operation, word value, const void *time, word *second, word third)
{
    return came(syscall(SYS_futex, at, operation, value, time, second, third));
}
static long requeue(word *from, int wakes, long moves, word *to, word value) { return futex(from, FUTEX_CMP_REQUEUE_PI | PRIVATE, wakes, (void *)moves, to, value); }
static pid_t tid(void) { return syscall(SYS_gettid); }
static struct timespec in(clockid_t clock, int n)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += n * 1000000L;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

#define MANY 6
static struct thread { pthread_t id; pid_t tid; int operation; word *at, *lock; const struct timespec *until; volatile int calls; long result; int keeps; } threads[MANY];
static int begun;
static volatile int order[MANY], came_back;
static word at, lock, other;

#define UNTIL(what) for (int tries = 0; tries < 3000 && !(what); tries++) ms(1)
/* Of a thread, too: its folder is there, though no listing shows it. */
static char state(pid_t who)
{
    char name[40], text[400];
    snprintf(name, sizeof name, "/proc/%d/stat", who);
    int fd = open(name, O_RDONLY);
    long bytes = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *found = strrchr(text, ')');
    return found ? found[2] : '?';
}
/* Who is about to make a call that waits, waits: however busy the machine is. */
static void settle(pid_t who)
{
    UNTIL(state(who) != 'R');
    ms(10);
}

static void *waits(void *which)
{
    struct thread *t = which;
    t->tid = tid();
    t->calls = 1;
    t->result = futex(t->at, t->operation | PRIVATE, 0, t->until, t->lock, 0);
    order[__atomic_fetch_add(&came_back, 1, __ATOMIC_RELAXED)] = t - threads;
    if (!t->keeps && !t->result) {
        ms(30);
        futex(t->lock ? t->lock : t->at, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    }
    return 0;
}
static struct thread *begin(int operation, word *from, word *to, const struct timespec *until)
{
    struct thread *t = &threads[begun++];
    *t = (struct thread){.operation = operation, .at = from, .lock = to, .until = until};
    pthread_create(&t->id, 0, waits, t);
    UNTIL(t->calls);
    settle(t->tid);
    return t;
}
static void end(void)
{
    for (int n = 0; n < begun; n++) pthread_join(threads[n].id, 0);
    printf("order");
    for (int n = 0; n < came_back; n++) printf(" %d", order[n]);
    printf(", results");
    for (int n = 0; n < begun; n++) printf(" %ld", threads[n].result);
}
/* Who has a lock: -1 nobody, -2 this thread, -3 somebody else. */
static int owner(word is)
{
    pid_t number = is & FUTEX_TID_MASK;
    for (int n = 0; n < begun; n++) if (number && number == threads[n].tid) return n;
    return !number ? -1 : number == tid() ? -2 : -3;
}
static void show(word is) { printf("[%d%s%s] ", owner(is), is & FUTEX_WAITERS ? " waiters" : "", is & FUTEX_OWNER_DIED ? " died" : ""); }

static void *tries(void *unused)
{
    (void)unused;
    printf("%ld ", futex(&lock, FUTEX_TRYLOCK_PI | PRIVATE, 0, 0, 0, 0));
    printf("%ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    return 0;
}
static void one_owner(void)
{
    pthread_t id;
    printf("%ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
    printf("%ld %ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0), futex(&lock, FUTEX_TRYLOCK_PI | PRIVATE, 0, 0, 0, 0));
    pthread_create(&id, 0, tries, 0);
    pthread_join(id, 0);
    show(lock);
    printf("%ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
    printf("%ld %ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0), futex(&lock, FUTEX_TRYLOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
}
static void handed_over(void)
{
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    for (int n = 0; n < 4; n++) begin(n == 2 ? FUTEX_LOCK_PI2 : FUTEX_LOCK_PI, &lock, 0, 0);
    show(lock);
    long wake = futex(&lock, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0), move = futex(&lock, FUTEX_REQUEUE | PRIVATE, 1, (void *)1, &other, 0);
    printf("%ld %ld %ld ", wake, move, futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
    printf("%ld ", futex(&lock, FUTEX_TRYLOCK_PI | PRIVATE, 0, 0, 0, 0));
    printf("%ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    printf("after %d ", came_back);
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    show(lock);
    end();
}
static void late(void)
{
    struct timespec soon = in(CLOCK_REALTIME, 900), same = in(CLOCK_MONOTONIC, 800), third = in(CLOCK_REALTIME, 700), past = {1, 0}, wrong = {0, 1000000000};
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    begin(FUTEX_LOCK_PI, &lock, 0, &soon);
    begin(FUTEX_LOCK_PI2, &lock, 0, &same);
    begin(FUTEX_LOCK_PI2 | FUTEX_CLOCK_REALTIME, &lock, 0, &third);
    begin(FUTEX_LOCK_PI, &lock, 0, &past);
    begin(FUTEX_LOCK_PI, &lock, 0, &wrong);
    begin(FUTEX_LOCK_PI, &lock, 0, (void *)1);
    end();
    printf(" ");
    show(lock);
    printf("%ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
}
static void disturbed(void)
{
    handle(SIGUSR1);
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct timespec soon = in(CLOCK_REALTIME, 5000);
    struct thread *first = begin(FUTEX_LOCK_PI, &lock, 0, 0), *second = begin(FUTEX_LOCK_PI, &lock, 0, &soon);
    pthread_kill(first->id, SIGUSR1);
    UNTIL(seen[SIGUSR1] == 1);
    pthread_kill(second->id, SIGUSR1);
    UNTIL(seen[SIGUSR1] == 2);
    ms(20);
    printf("%d handled, %d back, ", seen[SIGUSR1], came_back);
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    pthread_join(first->id, 0);
    pthread_join(second->id, 0);
    printf("results %ld %ld", first->result, second->result);
}
static void nobodys(void)
{
    struct thread *gone = begin(FUTEX_LOCK_PI, &other, 0, 0);
    pthread_join(gone->id, 0);
    lock = gone->tid;
    printf("%ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    printf("%s ", lock == (gone->tid | FUTEX_WAITERS) ? "with waiters" : "as it was");
    printf("%ld ", futex(&lock, FUTEX_TRYLOCK_PI | PRIVATE, 0, 0, 0, 0));
    lock = FUTEX_OWNER_DIED;
    printf("%ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
    lock = FUTEX_WAITERS;
    printf("%ld ", futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
    printf("%ld %ld", futex((word *)1, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0), futex((word *)8, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
}
static void owner_ends(void)
{
    lock = 0;
    struct thread *dies = &threads[begun++];
    *dies = (struct thread){.operation = FUTEX_LOCK_PI, .at = &lock, .keeps = 1};
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    pthread_create(&dies->id, 0, waits, dies);
    UNTIL(dies->calls);
    settle(dies->tid);
    begin(FUTEX_LOCK_PI, &lock, 0, 0)->keeps = 1;
    struct thread *last = begin(FUTEX_LOCK_PI, &lock, 0, 0);
    last->keeps = 1;
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    pthread_join(last->id, 0);
    show(lock);
    end();
}
static void owner_killed(void)
{
    word *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        futex(shared, FUTEX_LOCK_PI, 0, 0, 0, 0);
        ms(20000);
    }
    UNTIL(*(volatile word *)shared);
    pid_t parent = getpid();
    if (!fork()) {
        UNTIL(*(volatile word *)shared & FUTEX_WAITERS);
        settle(parent);
        kill(child, SIGKILL);
        _exit(0);
    }
    printf("%ld ", futex(shared, FUTEX_LOCK_PI, 0, 0, 0, 0));
    show(*shared);
    printf("%ld ", futex(shared, FUTEX_UNLOCK_PI, 0, 0, 0, 0));
    show(*shared);
}
/* Has `other`, and wants `lock`. */
static void *wants_both(void *which)
{
    struct thread *t = which;
    t->tid = tid();
    futex(&other, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    t->calls = 1;
    t->result = futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    futex(&other, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    return 0;
}
static void in_a_circle(void)
{
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct thread *t = &threads[begun++];
    pthread_create(&t->id, 0, wants_both, t);
    UNTIL(t->calls);
    settle(t->tid);
    printf("%ld ", futex(&other, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    pthread_join(t->id, 0);
    printf("%ld", t->result);
}

static void led(void)
{
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    for (int n = 0; n < 4; n++) begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0);
    printf("%ld ", requeue(&at, 1, 0, &lock, 0));
    show(lock);
    printf("%ld %ld ", requeue(&at, 1, INT_MAX, &lock, 0), requeue(&at, 1, INT_MAX, &lock, 0));
    ms(20);
    printf("%d back, ", came_back);
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    show(lock);
    end();
    printf(" ");
    show(lock);
}
static void led_to_free(void)
{
    begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0)->keeps = 1;
    printf("%ld ", requeue(&at, 1, 0, &lock, 0));
    show(lock);
    pthread_join(threads[0].id, 0);
    lock = 0;
    for (int n = 0; n < 4; n++) begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0);
    printf("%ld ", requeue(&at, 1, 1, &lock, 0));
    show(lock);
    UNTIL(came_back == 3);
    ms(20);
    printf("%d back, ", came_back);
    printf("%ld ", requeue(&at, 1, INT_MAX, &lock, 0));
    end();
    printf(" ");
    show(lock);
}
static void refused(void)
{
    printf("%ld %ld %ld %ld %ld %ld, ", requeue(&at, 0, 1, &lock, 0), requeue(&at, 2, 1, &lock, 0), requeue(&at, 1, -1, &lock, 0), requeue(&at, 1, 1, &at, 0), requeue(&at, 1, 1, &lock, 5), requeue(&at, 1, 1, &lock, 0));
    printf("%ld %ld, ", requeue(&at, 1, 1, (word *)9, 0), requeue((word *)8, 1, 1, &lock, 0));
    struct timespec wrong = {-1, 0}, past = {1, 0};
    printf("%ld %ld %ld ", futex(&at, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 1, 0, &lock, 0), futex(&at, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, 0, &at, 0), futex(&at, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, &wrong, &lock, 0));
    printf("%ld %ld %ld, ", futex(&at, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, &past, &lock, 0), futex(&at, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, 0, (word *)9, 0), futex((word *)8, FUTEX_WAIT_REQUEUE_PI | PRIVATE, 0, 0, &lock, 0));
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct thread *t = begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0);
    printf("%ld ", requeue(&at, 1, 1, &other, 0));
    printf("%ld %ld %ld ", futex(&at, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0), futex(&at, FUTEX_REQUEUE | PRIVATE, 0, (void *)1, &other, 0), futex(&at, FUTEX_CMP_REQUEUE | PRIVATE, 1, (void *)1, &other, 0));
    printf("%ld, ", futex(&at, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0));
    futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0);
    at = 0;
    printf("%ld ", requeue(&at, 1, 1, &lock, 0));
    pthread_join(t->id, 0);
    printf("%ld, ", t->result);
    word plain = 0;
    t = begin(FUTEX_WAIT, &plain, 0, 0);
    t->keeps = 1;
    printf("%ld ", requeue(&plain, 1, 1, &lock, 0));
    printf("%ld", futex(&plain, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0));
    pthread_join(t->id, 0);
}
static void led_late(void)
{
    struct timespec soon = in(CLOCK_MONOTONIC, 500), later = in(CLOCK_REALTIME, 900);
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct thread *first = begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, &soon), *second = begin(FUTEX_WAIT_REQUEUE_PI | FUTEX_CLOCK_REALTIME, &at, &lock, &later);
    pthread_join(first->id, 0);
    printf("%d back, moved %ld, ", came_back, requeue(&at, 1, 5, &lock, 0));
    pthread_join(second->id, 0);
    end();
    printf(" %ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    show(lock);
}
static void disturb(struct thread *t)
{
    int before = seen[SIGUSR1];
    pthread_kill(t->id, SIGUSR1);
    UNTIL(seen[SIGUSR1] > before);
    ms(20);
    printf("%d handled, %d back, ", seen[SIGUSR1], came_back);
}
static void led_disturbed(void)
{
    handle(SIGUSR1);
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct thread *t = begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0);
    disturb(t);
    printf("moved %ld, ", requeue(&at, 1, 5, &lock, 0));
    disturb(t);
    t = begin(FUTEX_WAIT_REQUEUE_PI, &at, &lock, 0);
    at = 1;
    disturb(t);
    end();
    printf(" %ld ", futex(&lock, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
}
/* Who waits has the lock already. */
static void *has_it(void *which)
{
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    return waits(which);
}
static void led_to_own(void)
{
    struct timespec soon = in(CLOCK_MONOTONIC, 500);
    struct thread *t = &threads[begun++];
    *t = (struct thread){.operation = FUTEX_WAIT_REQUEUE_PI, .at = &at, .lock = &lock, .until = &soon};
    pthread_create(&t->id, 0, has_it, t);
    UNTIL(t->calls);
    settle(t->tid);
    printf("%ld ", requeue(&at, 1, 5, &lock, 0));
    end();
}
static void led_among_processes(void)
{
    word *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int said[2], status = 0;
    char text[8] = "";
    pipe(said);
    futex(&shared[1], FUTEX_LOCK_PI, 0, 0, 0, 0);
    for (int n = 0; n < 3; n++) {
        pid_t child = fork();
        if (!child) {
            shared[2]++;
            long result = futex(&shared[0], FUTEX_WAIT_REQUEUE_PI, 0, 0, &shared[1], 0);
            write(said[1], &"abc"[n], 1);
            _exit(result | futex(&shared[1], FUTEX_UNLOCK_PI, 0, 0, 0, 0));
        }
        UNTIL(((volatile word *)shared)[2] > (word)n);
        settle(child);
    }
    printf("%ld ", futex(&shared[0], FUTEX_CMP_REQUEUE_PI, 1, (void *)9, &shared[1], 0));
    futex(&shared[1], FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    for (int n = 0, s; n < 3; n++) { wait(&s); status |= s; }
    read(said[0], text, 3);
    printf("%s %x %x", text, status, shared[1] & FUTEX_TID_MASK);
}
/* A condition as C libraries made it of these calls, under a mutex that is handed over. */
static word sequence, mutex;
static volatile int items, eaten, finished;
static void take(void) { word none = 0; if (!__atomic_compare_exchange_n(&mutex, &none, tid(), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) futex(&mutex, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0); }
static void give(void) { word own = tid(); if (!__atomic_compare_exchange_n(&mutex, &own, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) futex(&mutex, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0); }
static void *eats(void *unused)
{
    take();
    while (!finished || items) {
        while (!items && !finished) {
            word is = sequence;
            give();
            if (futex(&sequence, FUTEX_WAIT_REQUEUE_PI | PRIVATE, is, 0, &mutex, 0)) take();
        }
        if (items) { items--; eaten++; }
    }
    give();
    return unused;
}
static void condition(void)
{
    pthread_t eaters[4];
    for (int n = 0; n < 4; n++) pthread_create(&eaters[n], 0, eats, 0);
    for (int n = 0; n < 200; n++) {
        take();
        items++;
        sequence++;
        requeue(&sequence, 1, n % 3 ? 0 : INT_MAX, &mutex, sequence);
        give();
        if (n % 10 == 0) ms(1);
    }
    take();
    finished = 1;
    sequence++;
    requeue(&sequence, 1, INT_MAX, &mutex, sequence);
    give();
    for (int n = 0; n < 4; n++) pthread_join(eaters[n], 0);
    printf("%d eaten, %x", eaten, mutex);
}
static pthread_mutex_t robust;
static volatile int locked;
static void *leaves(void *unused) { pthread_mutex_lock(&robust); locked = 1; ms(40); return unused; }
static void robust_lock(void)
{
    pthread_mutexattr_t kind;
    pthread_t id;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &kind);
    pthread_create(&id, 0, leaves, 0);
    UNTIL(locked);
    int found = pthread_mutex_lock(&robust);
    printf("%d ", found);
    printf("%d ", pthread_mutex_consistent(&robust));
    printf("%d ", pthread_mutex_unlock(&robust));
    pthread_join(id, 0);
    pthread_create(&id, 0, leaves, 0);
    pthread_join(id, 0);
    found = pthread_mutex_trylock(&robust);
    int unlocked = pthread_mutex_unlock(&robust);
    printf("%d %d %d", found, unlocked, pthread_mutex_lock(&robust));
}
static void moved(void)
{
    word plain = 0, target = 0;
    printf("%ld %ld ", futex(&plain, FUTEX_REQUEUE | PRIVATE, -1, (void *)1, &target, 0), futex(&plain, FUTEX_CMP_REQUEUE | PRIVATE, 1, (void *)-1, &target, 0));
    printf("%ld %ld, ", futex(&plain, FUTEX_WAKE_BITSET | PRIVATE, 1, 0, 0, 0), futex(&plain, FUTEX_WAIT_BITSET | PRIVATE, 7, 0, 0, 0));
    for (int n = 0; n < 5; n++) begin(FUTEX_WAIT, &plain, 0, 0)->keeps = 1;
    printf("%ld %ld ", futex(&plain, FUTEX_REQUEUE | PRIVATE, -1, (void *)1, &target, 0), futex(&plain, FUTEX_CMP_REQUEUE | PRIVATE, 1, (void *)-1, &target, 0));
    long none = futex(&plain, FUTEX_REQUEUE | PRIVATE, 0, (void *)1, &target, 0);
    ms(20);
    printf("%ld, %d back, ", none, came_back);
    printf("%ld ", futex(&plain, FUTEX_REQUEUE | PRIVATE, 1, (void *)1, &target, 0));
    printf("%ld ", futex(&plain, FUTEX_CMP_REQUEUE | PRIVATE, 1, (void *)9, &target, 0));
    printf("%ld ", futex(&target, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0));
    printf("%ld ", futex(&target, FUTEX_WAKE | PRIVATE, 9, 0, 0, 0));
    for (int n = 0; n < begun; n++) pthread_join(threads[n].id, 0);
    printf("%d back", came_back);
}
static void clock_flag(void)
{
    struct timespec past = {0, 1};
    word is = 0;
    for (int n = 0; n < 14; n++) printf("%ld ", n == 6 || n == 13 || n == 8 ? 0 : futex(&is, n | PRIVATE | FUTEX_CLOCK_REALTIME, 7, &past, &other, ~0));
    printf("; ");
    printf("%ld %ld", futex(&is, 99, 0, 0, 0, 0), futex(&is, FUTEX_FD, 0, 0, 0, 0));
}

static void not_aligned(void)
{
    static word words[4];
    word *odd = (word *)((char *)words + 2);
    struct timespec past = {0, 1};
    /* Second words that are odd, then first ones, for a lock that is free, one's own, and somebody else's. */
    for (int n = 0; n < 14; n++) { words[2] = 0; printf("%ld ", n == 6 || n == 8 || n == 13 ? 0 : futex(&words[2], n | PRIVATE, 1, n == 0 || n == 9 ? &past : 0, odd, 0)); }
    word values[] = {0, tid(), tid() | FUTEX_WAITERS, 1};
    for (int v = 0; v < 4; v++) {
        printf("| ");
        for (int n = 0; n < 14; n++) { __builtin_memcpy(odd, &values[v], 4); printf("%ld ", futex(odd, n | PRIVATE, 1, 0, &words[3], values[v])); }
    }
    printf("| %ld %ld", futex(odd, 99, 0, 0, 0, 0), futex((word *)9, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    /* While somebody waits somewhere, too. */
    struct thread *t = begin(FUTEX_WAIT, &lock, 0, 0);
    t->keeps = 1;
    __builtin_memcpy(odd, &values[1], 4);
    printf(" | %ld", futex(odd, FUTEX_UNLOCK_PI | PRIVATE, 0, 0, 0, 0));
    for (int n = 3; n < 6; n++) printf(" %ld", futex(&words[3], n | PRIVATE, 1, 0, odd, 0));
    futex(&lock, FUTEX_WAKE | PRIVATE, 1, 0, 0, 0);
    pthread_join(t->id, 0);
}

/* An owner that executes another program, and what became of each of its locks. It goes on with its old number, and waits for its input to end. */
struct held { pthread_mutex_t robust_pi, robust_plain; word raw; volatile int locked, executes; };
static struct held *held;
static int kind, input[2];
static word *held_word(void) { return kind == 0 ? (word *)&held->robust_pi : kind == 1 ? (word *)&held->robust_plain : &held->raw; }
static int hold(void) { return kind == 2 ? -futex(&held->raw, FUTEX_LOCK_PI, 0, 0, 0, 0) : pthread_mutex_lock(kind ? &held->robust_plain : &held->robust_pi); }
static void shared_robust(pthread_mutex_t *lock, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &a);
}
static void execute(void)
{
    while (!held->executes) ms(1);
    dup2(input[0], 0);
    execl("/bin/cat", "cat", (char *)0);
}
static void *holds(void *executes_too)
{
    hold();
    held->locked = tid();
    if (executes_too) execute();
    ms(30000);
    return 0;
}
/* `by`: 0 the leader holds and executes, 1 another thread does, 2 another thread holds and the leader executes. */
static pid_t executing(int which, int by)
{
    kind = which;
    held = mmap(0, sizeof *held, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_robust(&held->robust_pi, PTHREAD_PRIO_INHERIT);
    shared_robust(&held->robust_plain, PTHREAD_PRIO_NONE);
    pipe2(input, O_CLOEXEC);
    pid_t child = fork(), parent = getppid();
    (void)parent;
    if (!child) {
        pthread_t id;
        if (by) pthread_create(&id, 0, holds, (void *)(long)(by == 1));
        else holds((void *)1);
        if (by == 2) execute();
        ms(30000);
        _exit(1);
    }
    UNTIL(held->locked);
    return child;
}
static void executed(pid_t child, long found)
{
    word is = *held_word(), old = held->locked;
    printf("%ld [%s%s%s] %s, ", found, (is & FUTEX_TID_MASK) == (word)tid() ? "mine" : (is & FUTEX_TID_MASK) == old ? "its" : is & FUTEX_TID_MASK ? "another's" : "nobody's",
           is & FUTEX_WAITERS ? " waiters" : "", is & FUTEX_OWNER_DIED ? " died" : "", waitpid(child, 0, WNOHANG) ? "it ended" : "it goes on");
    close(input[1]);
    waitpid(child, 0, 0);
}
static void owner_executes(int by)
{
    for (int which = 0; which < 3; which++) {
        pid_t child = executing(which, by), parent = getpid(), helper;
        /* Who executes another program with another number, and a list of locks with the old one, lets nobody know: who waits there waits for ever. */
        if (!(which == 1 && by == 1)) {
            if (!(helper = fork())) {
                UNTIL(*(volatile word *)held_word() & FUTEX_WAITERS);
                settle(parent);
                held->executes = 1;
                _exit(0);
            }
            executed(child, hold());
            waitpid(helper, 0, 0);
        }
        /* And a lock for which nobody waits when it happens. */
        child = executing(which, by);
        held->executes = 1;
        char name[40], text[8] = "";
        snprintf(name, sizeof name, "/proc/%d/comm", child);
        for (int tries = 0; tries < 3000 && strcmp(text, "cat\n"); tries++) {
            ms(1);
            int fd = open(name, O_RDONLY);
            long bytes = read(fd, text, sizeof text - 1);
            text[bytes > 0 ? bytes : 0] = 0;
            close(fd);
        }
        executed(child, which == 2 ? futex(&held->raw, FUTEX_TRYLOCK_PI, 0, 0, 0, 0) : pthread_mutex_trylock(which ? &held->robust_plain : &held->robust_pi));
    }
}
/* Who shares the memory learns that another has left it. */
static int leaves_memory(void *said)
{
    (void)said;
    dup2(input[0], 0);
    execl("/bin/cat", "cat", (char *)0);
    return 1;
}
static void memory_is_left(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    static volatile pid_t number = 1;
    pipe2(input, O_CLOEXEC);
    pid_t child = clone(leaves_memory, stack + sizeof stack, CLONE_VM | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD, 0, 0, 0, &number);
    UNTIL(!number);
    printf("%d, %s", number, waitpid(child, 0, WNOHANG) ? "it ended" : "it goes on");
    close(input[1]);
    waitpid(child, 0, 0);
}
static void leader_executes(void) { owner_executes(0); }
static void another_executes(void) { owner_executes(1); }
static void leader_executes_anothers(void) { owner_executes(2); }

static void states(void)
{
    futex(&lock, FUTEX_LOCK_PI | PRIVATE, 0, 0, 0, 0);
    struct thread *t = begin(FUTEX_LOCK_PI, &lock, 0, 0);
    printf("%c %c %c", state(getpid()), state(t->tid), state(INT_MAX));
}

static const struct part PARTS[] = {
    {"a lock has one owner", one_owner}, {"a lock is handed over", handed_over}, {"a lock comes too late", late}, {"a signal while waiting for a lock", disturbed},
    {"a lock of nobody", nobodys}, {"an owner that ends", owner_ends}, {"an owner that is killed", owner_killed}, {"locks in a circle", in_a_circle},
    {"led to a lock", led}, {"led to a free lock", led_to_free}, {"not led", refused}, {"led too late", led_late}, {"a signal while being led", led_disturbed},
    {"led to one's own lock", led_to_own}, {"led among processes", led_among_processes}, {"a condition", condition}, {"a robust lock", robust_lock}, {"moved to another word", moved},
    {"times of the wall", clock_flag}, {"who waits and who runs", states}, {"words that are not aligned", not_aligned},
    {"an owner that executes another program", leader_executes}, {"an owner that is not the leader executes", another_executes}, {"memory that is left", memory_is_left}, {"an owner whose leader executes", leader_executes_anothers},
};

int main(int count, char **words)
{
    return parts(count, words, PARTS, sizeof PARTS / sizeof *PARTS);
}
