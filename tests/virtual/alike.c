/* What programs do with terminals, waiting calls of the kernel, signals that the kernel raises and descriptors that are none. Each part prints a line, "PART:
 * WHAT CAME OF IT", which must be the same natively and in virtual time. `alike PART`, or all of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "alike.h"

static char buffer[1 << 20];
/* A pipe whose writer would wait; somebody empties it after a while. */
static int full[2], pair[2];
static void *empty(void *from)
{
    ms(50);
    while (read(*(int *)from, buffer, 65536) > 0) ms(1);
    return 0;
}
static void fill(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, buffer, 4096) > 0) {}
    fcntl(fd, F_SETFL, 0);
}
static int file(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (write(fd, buffer, sizeof buffer) != sizeof buffer || lseek(fd, 0, SEEK_SET)) perror("file");
    return fd;
}
static void emptied(int *from)
{
    pthread_t thread;
    pthread_create(&thread, 0, empty, from);
}

static void splice_file(void) { pipe(full); fill(full[1]); emptied(&full[0]); printf("%d", splice(file(), 0, full[1], 0, 65536, 0) > 0); }
static void splice_socket(void)
{
    pipe(full);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    fill(pair[0]);
    write(full[1], buffer, 4096);
    emptied(&pair[1]);
    printf("%ld", came(splice(full[0], 0, pair[0], 0, 4096, 0)));
}
static void send_file(void) { pipe(full); fill(full[1]); emptied(&full[0]); printf("%ld", came(sendfile(full[1], file(), 0, 300000))); }
static void vm_splice(void)
{
    struct iovec piece = {buffer, 4096};
    pipe(full);
    fill(full[1]);
    emptied(&full[0]);
    printf("%ld", came(vmsplice(full[1], &piece, 1, 0)));
}
static void tee_full(void)
{
    int other[2];
    pipe(full);
    pipe(other);
    write(other[1], "hello", 5);
    fill(full[1]);
    emptied(&full[0]);
    printf("%ld", came(tee(other[0], full[1], 5, 0)));
}
static void impatient(void)
{
    pipe(full);
    fill(full[1]);
    printf("%ld %ld", came(splice(file(), 0, full[1], 0, 4096, SPLICE_F_NONBLOCK)), came(tee(full[0], full[1], 5, SPLICE_F_NONBLOCK)));
}
static void vectors(void)
{
    struct iovec piece = {buffer, 5};
    pipe(full);
    if (!fork()) {
        ms(20);
        pwritev2(full[1], &piece, 1, -1, 0);
        _exit(0);
    }
    long one = came(preadv2(full[0], &piece, 1, -1, 0));
    printf("%ld %ld", one, came(preadv2(full[0], &piece, 1, 7, 0)));
}
static void make_fifo(void)
{
    char name[] = "/tmp/alikeXXXXXX";
    close(mkstemp(name));
    unlink(name);
    mkfifo(name, 0600);
    if (!fork()) {
        ms(30);
        int fd = open(name, O_RDONLY);
        read(fd, buffer, 5);
        _exit(0);
    }
    int fd = creat(name, 0600);
    printf("%ld", came(write(fd, "hello", 5)));
    wait(0);
    unlink(name);
}

/* A terminal with a job in its foreground; `keys` are typed. What became of the job. */
static int master;
static int terminal(void)
{
    master = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(master);
    unlockpt(master);
    return open(ptsname(master), O_RDWR | O_NOCTTY);
}
/* The child is a shell whose terminal this is. */
static pid_t shell_of(int slave)
{
    pid_t shell = fork();
    if (!shell) {
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        signal(SIGTTOU, SIG_IGN);
    }
    return shell;
}
static void job(const char *keys, int handled, int computes)
{
    int status, slave = terminal();
    pid_t shell = shell_of(slave);
    if (!shell) {
        pid_t child = fork();
        if (!child) {
            setpgid(0, 0);
            if (handled) handle(handled);
            if (computes) while (!handled || !seen[handled]) getppid();
            else if (handled) pause();
            else ms(3000);
            _exit(seen[handled] ? 40 + seen[handled] : 5);
        }
        setpgid(child, child);
        tcsetpgrp(slave, child);
        waitpid(child, &status, WUNTRACED);
        int first = status;
        if (WIFSTOPPED(status)) {
            kill(-child, SIGCONT);
            if (computes) kill(-child, SIGTERM);
            waitpid(child, &status, 0);
        }
        printf("%x then %x", first, status);
        fflush(stdout);
        _exit(0);
    }
    close(slave);
    ms(200);
    write(master, keys, strlen(keys));
    waitpid(shell, &status, 0);
}
static void interrupt_handled(void) { job("\003", SIGINT, 0); }
static void interrupt_computing(void) { job("\003", SIGINT, 1); }
static void interrupt(void) { job("ab\003", 0, 0); }
static void quit(void) { job("\034", 0, 0); }
static void stop(void) { job("\032", 0, 0); }
static void stop_computing(void) { job("\032", 0, 1); }
static void background(void)
{
    int status, slave = terminal();
    pid_t shell = shell_of(slave);
    if (!shell) {
        pid_t child = fork();
        if (!child) {
            setpgid(0, 0);
            _exit(read(slave, buffer, 10));
        }
        setpgid(child, child);
        waitpid(child, &status, WUNTRACED);
        int first = status;
        tcsetpgrp(slave, child);
        kill(-child, SIGCONT);
        waitpid(child, &status, 0);
        printf("%x then %x", first, status);
        fflush(stdout);
        _exit(0);
    }
    ms(200);
    write(master, "word\n", 5);
    waitpid(shell, &status, 0);
}
static void window(void)
{
    int slave = terminal();
    struct winsize size = {30, 90, 0, 0};
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    handle(SIGWINCH);
    ioctl(master, TIOCSWINSZ, &size);
    ioctl(master, TIOCSWINSZ, &size);
    printf("%d", seen[SIGWINCH]);
}
static void echo(void)
{
    int slave = terminal(), lost = 0, more = 0;
    for (int i = 0; i < 120; i++) {
        char letter = i % 40 == 39 ? '\n' : 'a' + i % 26;
        if (i % 40 == 0 && i) tcflush(slave, TCIFLUSH);
        write(master, &letter, 1);
        struct pollfd set = {master, POLLIN, 0};
        if (poll(&set, 1, 200) == 0) lost++;
        else more += read(master, buffer, 100);
    }
    printf("%d lost, %d bytes", lost, more);
}
static void flow(void)
{
    int slave = terminal(), status;
    write(master, "\023", 1);
    // The terminal has taken it when nothing may be written there (pty_write_room): a busy machine takes its time.
    struct pollfd room = {slave, POLLOUT, 0};
    for (int tries = 0; poll(&room, 1, 0) && tries < 1000; tries++) ms(10);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(write(slave, "hello", 5));
    }
    ms(50);
    struct pollfd set = {master, POLLIN, 0};
    int before = poll(&set, 1, 0);
    write(master, "\021", 1);
    waitpid(child, &status, 0);
    printf("%d before, status %x, %ld", before, status, came(read(master, buffer, 100)));
}

static void file_size(void)
{
    struct rlimit limit = {10, RLIM_INFINITY};
    int fd = file();
    setrlimit(RLIMIT_FSIZE, &limit);
    handle(SIGXFSZ);
    long one = came(pwrite(fd, "12345", 5, 8)), two = came(pwrite(fd, "12345", 5, 10)), three = came(ftruncate(fd, 1 << 21));
    int status;
    if (!fork()) {
        signal(SIGXFSZ, SIG_DFL);
        _exit(pwrite(fd, "12345", 5, 10));
    }
    wait(&status);
    // What is printed goes into a file, perhaps.
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    printf("%ld %ld %ld, %d signals, died of %d", one, two, three, seen[SIGXFSZ], WTERMSIG(status));
}
static void cpu_time(void)
{
    struct rlimit limit = {1, 2};
    int status, said[2];
    pipe(said);
    if (!fork()) {
        setrlimit(RLIMIT_CPU, &limit);
        handle(SIGXCPU);
        while (!seen[SIGXCPU]) getppid();
        write(said[1], "handled", 7);
        for (;;) getppid();
    }
    wait(&status);
    printf("%.*s, killed by %d", (int)read(said[0], buffer, 100), buffer, WTERMSIG(status));
}

static void small_stack(void)
{
    struct rlimit limit = {16384, 16384};
    int status;
    if (!fork()) {
        setrlimit(RLIMIT_STACK, &limit);
        execl("/bin/true", "true", (char *)0);
        _exit(99);
    }
    wait(&status);
    printf("%x", status);
}

/* Whoever is stopped while it waits goes on waiting: for as long as it would have, but not beyond, and for what comes meanwhile. */
static long sleeps(void) { struct timespec t = {0, 300000000}; return came(nanosleep(&t, 0)); }
static long polls(void) { return came(poll(0, 0, 300)); }
static long waits_at_word(void) { int word = 0; struct timespec t = {0, 300000000}; return came(syscall(SYS_futex, &word, 0, 0, &t, 0, 0)); }
static long reads(void) { return came(read(full[0], buffer, 1)); }
static long waits_at_epoll(void) { struct epoll_event e; return came(epoll_wait(epoll_create1(0), &e, 1, 300)); }
static long takes_signal(void)
{
    sigset_t set;
    struct timespec t = {0, 300000000};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    return came(sigtimedwait(&set, 0, &t));
}
static void stopped_in(long (*call)(void), int on, int least)
{
    pid_t child = fork();
    if (!child) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        long result = call();
        clock_gettime(CLOCK_MONOTONIC, &b);
        long took = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
        printf("%ld %s; ", result, took < least - 40 ? "early" : took > least + 150 ? "late" : "in time");
        fflush(stdout);
        _exit(0);
    }
    int status;
    ms(50);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    ms(50);
    if (call == reads) write(full[1], "x", 1);
    ms(on - 100);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
}
static void stopped_waiting(void)
{
    pipe(full);
    stopped_in(sleeps, 150, 300); stopped_in(sleeps, 600, 600);
    stopped_in(polls, 150, 300); stopped_in(polls, 600, 600);
    stopped_in(waits_at_word, 150, 300); stopped_in(waits_at_word, 600, 600);
    stopped_in(reads, 200, 200);
    stopped_in(waits_at_epoll, 200, 200); stopped_in(takes_signal, 200, 200);
}

/* The numbers that weft has for itself are open for nobody. */
static void none(void)
{
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    struct iovec piece = {buffer, 8};
    int there = file(), wrong = 0, tried = 0;
    pipe(full);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int fd = 1021; fd <= 1023; fd++) {
#define IS(call) (tried++, (call) == -1 && errno == EBADF ? 0 : (wrong++, printf("%s of %d; ", #call, fd)))
        IS(pread(fd, buffer, 8, 0)); IS(pwrite(fd, buffer, 8, 0)); IS(preadv(fd, &piece, 1, 0)); IS(pwritev(fd, &piece, 1, 0));
        IS(preadv2(fd, &piece, 1, 0, 0)); IS(pwritev2(fd, &piece, 1, 0, 0)); IS(preadv2(fd, &piece, 1, -1, 0)); IS(pwritev2(fd, &piece, 1, -1, 0));
        IS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)); IS(ftruncate(fd, 0)); IS(fchmod(fd, 0)); IS(fchown(fd, 0, 0));
        IS(fsync(fd)); IS(fdatasync(fd)); IS(lseek(fd, 0, SEEK_END)); IS(readahead(fd, 0, 4096)); IS(flock(fd, LOCK_EX)); IS(fcntl(fd, F_GETFL));
        IS(fcntl(fd, F_DUPFD, 0)); IS(dup(fd)); IS(dup2(fd, 50)); IS(close(fd)); IS(sendfile(pair[0], fd, 0, 8)); IS(sendfile(fd, there, 0, 8));
        IS(splice(fd, 0, full[1], 0, 8, 0)); IS(splice(full[0], 0, fd, 0, 8, 0)); IS(tee(fd, full[1], 8, 0)); IS(vmsplice(fd, &piece, 1, 0));
        IS(copy_file_range(fd, 0, there, 0, 8, 0)); IS(copy_file_range(there, 0, fd, 0, 8, 0)); IS(ioctl(fd, FIONREAD, buffer)); IS(syncfs(fd));
        IS((long)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)); IS(recv(fd, buffer, 8, MSG_DONTWAIT)); IS(send(fd, buffer, 8, MSG_DONTWAIT));
        IS(shutdown(fd, SHUT_RDWR)); IS(openat(fd, "x", O_RDONLY)); IS(fchdir(fd)); IS(sync_file_range(fd, 0, 8, 0)); IS(posix_fadvise(fd, 0, 8, 0) ? (errno = EBADF, -1) : 0);
        char control[CMSG_SPACE(sizeof fd)] = {0};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
        IS(sendmsg(pair[0], &message, MSG_DONTWAIT));
    }
    printf("%d calls, %d wrong", tried, wrong);
}

/* openat2(2): what it refuses, how it follows paths, and that a named pipe waits for its other side. */
static long open2(const char *path, unsigned long long flags, unsigned long long mode, unsigned long long resolve, size_t bytes)
{
    struct { unsigned long long flags, mode, resolve, more[2]; } how = {flags, mode, resolve, {0, bytes == 40}};
    long fd = came(syscall(SYS_openat2, AT_FDCWD, path, &how, bytes));
    if (fd >= 0) close(fd);
    return fd < 0 ? fd : 0;
}
static void *reads_pipe(void *path)
{
    ms(30);
    int fd = open(path, O_RDONLY);
    ms(30);
    close(fd);
    return 0;
}
static void open_how(void)
{
    char folder[] = "/tmp/alike-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder)) return;
    printf("made %ld, again %ld, ", open2("x", O_RDWR | O_CREAT | O_EXCL, 0600, 0, 24), open2("x", O_RDWR | O_CREAT | O_EXCL, 0600, 0, 24));
    printf("small %ld, long %ld, more %ld, huge %ld, ", open2("x", 0, 0, 0, 23), open2("x", 0, 0, 0, 32), open2("x", 0, 0, 0, 40), open2("x", 0, 0, 0, 5000));
    printf("mode %ld, flags %ld, resolve %ld, ", open2("x", 0, 0600, 0, 24), open2("x", 1ULL << 40, 0, 0, 24), open2("x", 0, 0, 1 << 20, 24));
    printf("links %d %d, ", symlink("x", "to"), symlink("/etc/passwd", "out"));
    for (unsigned resolve = 2; resolve <= 0x10; resolve *= 2)
        printf("%x: %ld %ld %ld %ld %ld, ", resolve, open2("to", 0, 0, resolve, 24), open2("out", 0, 0, resolve, 24), open2("../..", O_DIRECTORY, 0, resolve, 24),
               open2("/proc/self/exe", 0, 0, resolve, 24), open2("/proc/uptime", 0, 0, resolve, 24));
    printf("executable %ld, nothing %ld, ", open2("/proc/self/exe", 0, 0, 0, 24), open2("none", 0, 0, 0, 24));
    struct stat stat;
    struct { unsigned long long flags, mode, resolve; } write = {O_WRONLY, 0, 0};
    mkfifo("pipe", 0600);
    long none = open2("pipe", O_WRONLY | O_NONBLOCK, 0, 0, 24);
    pthread_t other;
    pthread_create(&other, 0, reads_pipe, "pipe");
    int fd = syscall(SYS_openat2, AT_FDCWD, "pipe", &write, sizeof write);
    printf("pipe %ld, then %d, ", none, fd >= 0);
    pthread_join(other, 0);
    printf("is a pipe %d", !fstat(fd, &stat) && S_ISFIFO(stat.st_mode));
}

/* futex_waitv(2): which word it was, what it refuses, when its time is up. */
struct word { unsigned long long value, address; unsigned flags, reserved; };
static volatile int words[4];
static long waitv(struct word *list, unsigned count, unsigned flags, struct timespec *until, int clock)
{
    return came(syscall(449, list, count, flags, until, clock));
}
static long wake(volatile int *word, int count) { return syscall(SYS_futex, word, 1 | 128, count, 0, 0, 0); }
static struct word at(int word, unsigned value, unsigned flags) { return (struct word){value, (unsigned long)&words[word], flags, 0}; }
static volatile long woken[2];
static void *waits_for_three(void *which)
{
    struct word list[] = {at(0, 0, 2 | 128), at(1, 0, 2 | 128), at(2, 0, 2 | 128)};
    woken[(long)which] = waitv(list, 3, 0, 0, 0);
    return 0;
}
static void *waits_twice(void *which)
{
    struct word list[] = {at(3, 0, 2 | 128), at(3, 0, 2 | 128)};
    woken[(long)which] = waitv(list, 2, 0, 0, 0);
    return 0;
}
static void wait_for_several(void)
{
    struct word one = at(0, 0, 2 | 128), other = at(0, 1, 2 | 128), eight = at(0, 0, 0 | 128), crooked = one, unknown = at(0, 0, 2 | 64), large = at(0, 0, 2), kept = one;
    struct word two[] = {one, other}, bad[] = {one, crooked};
    crooked.address += 1, large.value = 1ULL << 32, kept.reserved = 1, bad[1] = crooked;
    struct timespec past = {0, 1}, soon, wrong = {0, 2000000000};
    printf("refused %ld %ld %ld %ld %ld %ld %ld, ", waitv(&one, 0, 0, 0, 0), waitv(&one, 129, 0, 0, 0), waitv(0, 1, 0, 0, 0), waitv(&one, 1, 1, 0, 0), waitv(&eight, 1, 0, 0, 0),
           waitv(&unknown, 1, 0, 0, 0), waitv(&kept, 1, 0, 0, 0));
    printf("%ld %ld %ld %ld %ld, ", waitv(&large, 1, 0, 0, 0), waitv(bad, 2, 0, 0, 0), waitv((void *)8, 1, 0, 0, 0), waitv(&one, 1, 0, &wrong, 1), waitv(&one, 1, 0, &past, 2));
    printf("other value %ld, past %ld, ", waitv(two, 2, 0, 0, 0), waitv(&one, 1, 0, &past, CLOCK_MONOTONIC));
    for (int clock = 0; clock < 2; clock++) {
        clock_gettime(clock, &soon);
        soon.tv_nsec += 20000000;
        if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
        printf("in time %ld, ", waitv(&one, 1, 0, &soon, clock));
    }
    pthread_t threads[2];
    pthread_create(&threads[0], 0, waits_for_three, (void *)0);
    ms(30);
    pthread_create(&threads[1], 0, waits_for_three, (void *)1);
    ms(30);
    printf("woken %ld", wake(&words[1], 1));
    ms(30);
    printf(" %ld", wake(&words[2], 5));
    ms(30);
    printf(" %ld, ", wake(&words[0], 5));
    for (int thread = 0; thread < 2; thread++) pthread_join(threads[thread], 0);
    printf("at %ld %ld, ", woken[0], woken[1]);
    pthread_create(&threads[0], 0, waits_twice, (void *)0);
    ms(30);
    printf("twice %ld", wake(&words[3], 5));
    pthread_join(threads[0], 0);
    printf(" at %ld, ", woken[0]);
    pthread_create(&threads[0], 0, waits_for_three, (void *)0);
    ms(30);
    /* FUTEX_REQUEUE */
    printf("led on %ld", syscall(SYS_futex, &words[1], 3 | 128, 0, 1, &words[3], 0));
    printf(" %ld %ld", wake(&words[1], 1), wake(&words[3], 1));
    pthread_join(threads[0], 0);
    printf(" at %ld, ", woken[0]);
    handle(SIGALRM);
    ualarm(20000, 0);
    printf("a signal %ld", waitv(&one, 1, 0, 0, 0));
}

/* Numbers between those of the table, behind it, and of the x32 table that no kernel here has. */
static void no_calls(void)
{
    long numbers[] = {400, 423, 511, 512, 600, 4096, 1 << 20, -1, 0x40000000 + 600};
    for (unsigned each = 0; each < sizeof numbers / sizeof *numbers; each++)
        printf("%ld ", came(syscall(numbers[each], -1, -1, -1, -1, -1, -1)));
}

/* SO_GET_FILTER: room and length count instructions, and 0 asks how many there are (net/core/filter.c, sk_get_filter). */
static void filter_read_back(void)
{
    struct sock_filter pass[] = {{6, 0, 0, 65535}, {6, 0, 0, 65535}};
    struct sock_fprog program = {2, pass};
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    for (int attached = 0; attached < 2; attached++) {
        for (int room = -1; room < 4; room++) {
            unsigned char into[64] = {0};
            socklen_t length = room;
            long result = came(getsockopt(s, SOL_SOCKET, SO_GET_FILTER, into, &length));
            printf("%d: %ld %d %d%d, ", room, result, (int)length, into[0], into[8]);
        }
        printf("set %ld, ", came(setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)));
    }
    close(s);
}

static const struct part PARTS[] = {
    {"splice from a file to a full pipe", splice_file}, {"splice from a pipe to a full socket", splice_socket}, {"sendfile to a full pipe", send_file},
    {"vmsplice to a full pipe", vm_splice}, {"tee to a full pipe", tee_full}, {"splice and tee without waiting", impatient}, {"preadv2 and pwritev2 of a pipe", vectors},
    {"creat of a named pipe", make_fifo}, {"ctrl-C with a handler", interrupt_handled}, {"ctrl-C to who computes", interrupt_computing}, {"ctrl-C", interrupt},
    {"ctrl-backslash", quit}, {"ctrl-Z", stop}, {"ctrl-Z to who computes", stop_computing}, {"reading in the background", background}, {"size of a terminal", window}, {"echo", echo},
    {"ctrl-S and ctrl-Q", flow}, {"RLIMIT_FSIZE", file_size}, {"RLIMIT_CPU", cpu_time}, {"RLIMIT_STACK", small_stack}, {"descriptors that are none", none},
    {"openat2", open_how},
    {"futex_waitv", wait_for_several},
    {"calls that Linux does not have", no_calls},
    {"a filter read back", filter_read_back},
    {"stopped while it waits", stopped_waiting},
};

int main(int count, char **words)
{
    return parts(count, words, PARTS, sizeof PARTS / sizeof *PARTS);
}
