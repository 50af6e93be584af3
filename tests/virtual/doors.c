/* Tries every way that is known to tell the real clock, chance or the host, and says what came of it: one line each, "NAME: WHAT IT SAW".
 * Two runs must say the same. Lines "NAME: time N" tell a time in nanoseconds since the node's boot, which must be the virtual one. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

typedef unsigned long long u64;
/* 2030-01-01, and CLOCK_MONOTONIC at boot. */
#define EPOCH 1893456000ULL
#define BOOT 1000000000ULL

static void say(const char *name, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("%s: ", name);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
    fflush(stdout);
}
static void real(const char *name, u64 seconds, u64 nanos) { say(name, "time %lld", (long long)((seconds - EPOCH) * 1000000000ULL + nanos)); }
static u64 now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ULL + t.tv_nsec;
}
static void pause_ms(int ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, 0); }

static void clocks(void)
{
    char name[40];
    struct timespec t;
    for (int id = -7; id < 12; id++) {
        for (int way = 0; way < 2; way++) {
            sprintf(name, "%s %d", way ? "clock by vDSO" : "clock by call", id);
            long result = way ? clock_gettime(id, &t) : syscall(SYS_clock_gettime, id, &t);
            if (result) say(name, "errno %d", errno);
            else if (t.tv_sec >= 1000000000) real(name, t.tv_sec, t.tv_nsec);
            else if (id == 2 || id == 3 || id < 0) say(name, "time %llu", t.tv_sec * 1000000000ULL + t.tv_nsec);
            else say(name, "time %llu", t.tv_sec * 1000000000ULL + t.tv_nsec - BOOT);
        }
    }
    struct timeval v;
    gettimeofday(&v, 0);
    real("gettimeofday", v.tv_sec, v.tv_usec * 1000);
    syscall(SYS_gettimeofday, &v, 0);
    real("gettimeofday by call", v.tv_sec, v.tv_usec * 1000);
    real("time", time(0), 0);
    real("time by call", syscall(SYS_time, 0), 0);
    if (((int (*)(struct timeval *, void *))0xffffffffff600000)(&v, 0) == 0) real("vsyscall gettimeofday", v.tv_sec, v.tv_usec * 1000);
    real("vsyscall time", ((long (*)(long *))0xffffffffff600400)(0), 0);
    unsigned cpu = 77, node = 77;
    ((int (*)(unsigned *, unsigned *, void *))0xffffffffff600800)(&cpu, &node, 0);
    say("vsyscall getcpu", "%u %u", cpu, node);
    struct timex x = {0};
    say("adjtimex", "%d errno %d %ld %ld", adjtimex(&x), errno, x.time.tv_sec, x.freq);
    memset(&x, 0, sizeof x);
    say("clock_adjtime", "%ld errno %d %ld", syscall(SYS_clock_adjtime, 0, &x), errno, x.time.tv_sec);
}

static void processor(void)
{
    unsigned aux, a, b, c, d;
    u64 first = __rdtsc();
    pause_ms(10);
    u64 second = __rdtsc(), third = __rdtscp(&aux);
    say("rdtsc", "time %llu", first);
    say("rdtsc over 10 ms", "%llu", (second - first) / 1000000);
    say("rdtscp", "time %llu", third);
    say("rdtscp's processor", "%u", aux);
    unsigned cpu = 77, node = 77;
    getcpu(&cpu, &node);
    say("getcpu by vDSO", "%u %u %d", cpu, node, sched_getcpu());
    syscall(SYS_getcpu, &cpu, &node, 0);
    say("getcpu", "%u %u", cpu, node);
    static struct { unsigned words[8]; } __attribute__((aligned(32))) area;
    say("rseq", "%ld errno %d, processor %u", syscall(SYS_rseq, &area, 32, 0, 0x53053053), errno, area.words[0]);
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    say("affinity", "%d %ld %ld", CPU_COUNT(&set), sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
    __cpuid(1, a, b, c, d);
    int draws = c >> 30 & 1;
    __cpuid_count(7, 0, a, b, c, d);
    /* Where CPUID cannot be made to fault both are to be seen. */
    say("rdrand and rdseed in cpuid", "%d %d", draws, b >> 18 & 1);
    struct perf_event_attr attribute = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attribute, .config = PERF_COUNT_SW_CPU_CLOCK};
    say("perf_event_open", "%ld errno %d", syscall(SYS_perf_event_open, &attribute, 0, -1, -1, 0), errno);
    say("membarrier", "%ld", syscall(SYS_membarrier, 0, 0, 0) >= 0 ? 0L : 1L);
}

static void *nothing(void *word) { return word; }

static void waiting(void)
{
    unsigned word = 1;
    struct timespec t = {0, 10000000};
    u64 begin = now();
    syscall(SYS_futex, &word, FUTEX_WAIT, 1, &t, 0, 0);
    say("futex with a timeout", "%llu", now() - begin);
    struct timeval v = {0, 10000};
    begin = now();
    select(0, 0, 0, 0, &v);
    say("select with a timeout", "%llu left %ld", now() - begin, v.tv_usec);
    begin = now();
    poll(0, 0, 10);
    say("poll with a timeout", "%llu", now() - begin);
    int fd = timerfd_create(CLOCK_BOOTTIME, 0);
    struct itimerspec i = {{0, 1000000}, {0, 1000000}};
    u64 count = 0;
    timerfd_settime(fd, 0, &i, 0);
    pause_ms(20);
    if (read(fd, &count, 8) != 8) count = 0;
    say("timerfd", "%llu expirations", count);
    close(fd);
    alarm(5);
    pause_ms(3);
    say("alarm", "%u s left", alarm(0));
    clock_t ticks = times(&(struct tms){0});
    say("times", "time %llu", ticks * 10000000ULL - BOOT);
    struct rusage usage[3];
    for (int n = 0; n < 3; n++) getrusage((int[]){RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD}[n], usage + n);
    for (int n = 0; n < 3; n++)
        say("getrusage", "%ld.%06ld %ld.%06ld rss %ld faults %ld %ld switches %ld %ld", usage[n].ru_utime.tv_sec, usage[n].ru_utime.tv_usec, usage[n].ru_stime.tv_sec, usage[n].ru_stime.tv_usec,
            usage[n].ru_maxrss, usage[n].ru_minflt, usage[n].ru_majflt, usage[n].ru_nvcsw, usage[n].ru_nivcsw);
    int status;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, 0, nothing, 0);
        pthread_join(thread, 0);
        _exit(0);
    }
    wait4(child, &status, 0, usage);
    say("wait4", "%d: %ld.%06ld %ld faults %ld", child, usage->ru_utime.tv_sec, usage->ru_utime.tv_usec, usage->ru_maxrss, usage->ru_minflt);
    struct sysinfo info;
    sysinfo(&info);
    say("sysinfo", "time %lld", (long long)(info.uptime * 1000000000ULL - BOOT));
    say("sysinfo's memory", "%lu %lu %lu %d", info.totalram, info.freeram, info.loads[0], info.procs);
}

/* What a folder's descriptor or a symbolic link leads to is the same file. */
static int open_by(int way, const char *path)
{
    if (way == 0) return open(path, O_RDONLY);
    if (way == 1) {
        int folder = open("/proc", O_RDONLY | O_DIRECTORY), fd = openat(folder, path + 6, O_RDONLY), kept = errno;
        close(folder);
        errno = kept;
        return fd;
    }
    unlink("/tmp/link");
    if (symlink(path, "/tmp/link")) return -1;
    return open("/tmp/link", O_RDONLY);
}

static void proc(void)
{
    static const char *files[] = {"uptime", "stat", "loadavg", "meminfo", "version", "cpuinfo", "vmstat", "interrupts", "softirqs", "diskstats", "zoneinfo", "buddyinfo", "pagetypeinfo", "slabinfo",
        "schedstat", "timer_list", "sched_debug", "locks", "keys", "key-users", "swaps", "partitions", "cmdline", "driver/rtc", "pressure/cpu", "pressure/io", "pressure/memory", "net/unix",
        "net/snmp", "net/netstat", "net/dev", "net/softnet_stat", "net/ptype", "net/protocols", "net/packet", "net/netlink", "sys/kernel/hostname", "sys/kernel/osrelease", "sys/kernel/version",
        "sys/kernel/random/boot_id", "sys/kernel/random/entropy_avail", "sys/kernel/ns_last_pid", "sys/kernel/pty/nr", "sys/kernel/threads-max", "sys/fs/file-nr", "sys/fs/inode-nr",
        "sys/fs/inode-state", "sys/fs/dentry-state", "sys/fs/aio-nr", "sys/fs/file-max", "sys/net/ipv4/tcp_mem", "sys/net/ipv4/udp_mem", "sys/vm/max_map_count", "1/stat", "1/status", "1/comm",
        "1/cmdline", "1/environ", "1/maps", "1/limits", "1/io", "1/sched", "1/mountinfo", "1/mounts", "1/cgroup", "1/oom_score_adj", "1/loginuid", "1/sessionid", "1/fdinfo/0", "1/fdinfo/1",
        "1/fdinfo/2", "1/uid_map", "1/gid_map", "1/setgroups", "1/timerslack_ns", "1/coredump_filter", "1/personality", "1/autogroup", "1/wchan", "1/auxv", "1/task/1/status", "1/net/dev",
        "sysvipc/shm", "sysvipc/sem", "sysvipc/msg", "self/projid_map",
        "self/stat", "self/statm", "self/status", "self/sched", "self/schedstat", "self/io", "self/wchan", "self/syscall", "self/stack", "self/limits", "self/cgroup", "self/mounts",
        "self/mountinfo", "self/maps", "self/smaps", "self/smaps_rollup", "self/numa_maps", "self/auxv", "self/environ", "self/cmdline", "self/comm", "self/oom_score", "self/oom_score_adj",
        "self/oom_adj", "self/loginuid", "self/sessionid", "self/timerslack_ns", "self/timens_offsets", "self/autogroup", "self/personality", "self/coredump_filter", "self/cpuset", "self/latency",
        "self/patch_state", "self/fdinfo/0", "self/fdinfo/1", "self/task/2/stat", "self/task/2/sched", "self/task/2/status", "self/uid_map", "self/gid_map", "self/setgroups", "self/attr/current",
        "self/arch_status", "self/ksm_stat", "thread-self/stat", "thread-self/sched", "thread-self/schedstat"};
    static char text[1 << 20], path[200], name[300];
    for (int way = 0; way < 3; way++)
        for (unsigned n = 0; n < sizeof files / sizeof *files; n++) {
            sprintf(path, "/proc/%s", files[n]);
            sprintf(name, "%s %s", path, (char *[]){"", "from its folder", "through a link"}[way]);
            int fd = open_by(way, path);
            if (fd < 0) {
                say(name, "errno %d", errno);
                continue;
            }
            ssize_t total = 0, bytes;
            while (total < (ssize_t)sizeof text - 1 && (bytes = read(fd, text + total, sizeof text - 1 - total)) > 0) total += bytes;
            text[total] = 0;
            u64 sum = 14695981039346656037ULL;
            for (ssize_t at = 0; at < total; at++) sum = (sum ^ (unsigned char)text[at]) * 1099511628211ULL;
            close(fd);
            for (char *c = text; *c; c++) if (*c == '\n' || *c == '\t') *c = ' ';
            say(name, "%zd bytes %016llx %.150s", total, sum, text);
        }
    double up;
    FILE *file = fopen("/proc/uptime", "r");
    if (!file || fscanf(file, "%lf", &up) != 1) up = -1;
    if (file) fclose(file);
    static const char *links[] = {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/exe", "/proc/self/cwd", "/proc/self/root", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/1/cwd", "/proc/1/exe", "/proc/1/root", "/proc/1/ns/net"};
    for (unsigned n = 0; n < sizeof links / sizeof *links; n++) {
        ssize_t bytes = readlink(links[n], text, 100);
        text[bytes < 0 ? 0 : bytes] = 0;
        say(links[n], "%s", text);
    }
    static const char *devices[] = {"/dev/rtc", "/dev/rtc0", "/dev/hwrng", "/dev/mem", "/dev/kmsg", "/dev/cpu/0/msr", "/dev/ptp0", "/dev/hpet", "/sys/class/rtc/rtc0/since_epoch", "/sys/class/rtc",
        "/sys/devices/system/clocksource", "/sys/kernel/debug", "/sys/fs/cgroup", "/dev/shm", "/dev/pts"};
    for (unsigned n = 0; n < sizeof devices / sizeof *devices; n++) {
        int fd = open(devices[n], O_RDONLY);
        say(devices[n], fd < 0 ? "errno %d" : "there", errno);
        close(fd);
    }
    unsigned char bytes[8] = {0};
    int fd = open("/dev/random", O_RDONLY);
    if (read(fd, bytes, 8) < 0) bytes[0] = errno;
    say("/dev/random", "%02x%02x%02x%02x%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]);
}

/* Randomness by every call that reads a file. */
static void draws(void)
{
    int fd = open("/dev/urandom", O_RDONLY), ends[2], file = open("/tmp/drawn", O_RDWR | O_CREAT, 0666);
    if (pipe(ends)) say("pipe", "errno %d", errno);
    for (int way = 0; way < 7; way++) {
        static const char *ways[] = {"readv", "pread", "preadv", "preadv2", "sendfile to a pipe", "splice", "sendfile to a file"};
        unsigned char bytes[16] = {0};
        struct iovec vector = {bytes, 16};
        char name[60], text[40];
        ssize_t got = way == 0 ? readv(fd, &vector, 1) : way == 1 ? pread(fd, bytes, 16, 0) : way == 2 ? preadv(fd, &vector, 1, 0) : way == 3 ? preadv2(fd, &vector, 1, -1, 0)
                    : way == 4 ? sendfile(ends[1], fd, 0, 16) : way == 5 ? splice(fd, 0, ends[1], 0, 16, 0) : sendfile(file, fd, 0, 16);
        if ((way == 4 || way == 5) && got > 0 && read(ends[0], bytes, got) < 0) got = -1;
        if (way == 6 && got > 0 && pread(file, bytes, got, 0) < 0) got = -1;
        for (int n = 0; n < 16; n++) sprintf(text + 2 * n, "%02x", bytes[n]);
        sprintf(name, "/dev/random by %s", ways[way]);
        say(name, "%zd %s", got, text);
    }
}

/* Links of descriptors and namespaces by paths that do not begin with /proc/. */
static void links(void)
{
    char path[64], text[100], at[100];
    int ends[2], folder = open("/proc/self/fd", O_RDONLY);
    if (pipe(ends) || !getcwd(at, sizeof at)) return;
    for (int way = 0; way < 6; way++) {
        static const char *ways[] = {"%d", "/dev/fd/%d", "//proc/self/fd/%d", "../fd/%d", "net", "proc/self/ns/ipc"};
        sprintf(path, ways[way], ends[0]);
        if (chdir(way == 4 ? "/proc/self/ns" : way == 5 ? "/" : "/proc/self/fd")) continue;
        ssize_t bytes = readlink(path, text, 99);
        text[bytes < 0 ? 0 : bytes] = 0;
        say("link by another path", "%s %s", ways[way], text);
    }
    sprintf(path, "%d", ends[1]);
    ssize_t bytes = readlinkat(folder, path, text, 99);
    text[bytes < 0 ? 0 : bytes] = 0;
    say("link by another path", "readlinkat %s", text);
    int link = openat(folder, path, O_PATH | O_NOFOLLOW);
    bytes = readlinkat(link, "", text, 99);
    text[bytes < 0 ? 0 : bytes] = 0;
    say("link by another path", "readlinkat without a name %s", text);
    bytes = readlinkat(folder, path, text, 8);
    text[bytes < 0 ? 0 : bytes] = 0;
    say("link by another path", "cut off %s", text);
    if (chdir(at)) say("folder", "errno %d", errno);
}

/* Pages of the kernel's that tell the time are not mapped, and cannot be. */
static void pages(void)
{
    char line[300];
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[vdso]") || strstr(line, "[vvar")) say("clock in pages of the kernel's", "at %.12s, number %d", line, ++found);
    if (maps) fclose(maps);
    say("clock in pages of the kernel's", "%d mapped", found);
    long mapped = syscall(SYS_arch_prctl, 0x2003, 0x700000000000ul);
    say("clock in pages of the kernel's", "mapping them again: %ld errno %d", mapped < 0 ? -1L : 0L, mapped < 0 ? errno : 0);
}

static void times_of(const char *name, const char *path)
{
    struct stat s;
    struct statx x;
    char label[100];
    if (stat(path, &s) || statx(AT_FDCWD, path, 0, STATX_ALL | 0x1000, &x)) {
        say(name, "errno %d", errno);
        return;
    }
    say(name, "device %lx inode %lu %o %lu mount %llu", s.st_dev, s.st_ino, s.st_mode, s.st_nlink, (u64)x.stx_mnt_id);
    struct timespec all[] = {s.st_atim, s.st_mtim, s.st_ctim};
    for (int n = 0; n < 3; n++) {
        sprintf(label, "%s %s", name, (char *[]){"atime", "mtime", "ctime"}[n]);
        real(label, all[n].tv_sec, all[n].tv_nsec);
    }
    struct statx_timestamp more[] = {x.stx_atime, x.stx_mtime, x.stx_ctime, x.stx_btime};
    for (int n = 0; n < 4; n++) {
        sprintf(label, "%s statx %d", name, n);
        if (more[n].tv_sec) real(label, more[n].tv_sec, more[n].tv_nsec);
    }
}

static void files(void)
{
    int fd = open("/tmp/new", O_RDWR | O_CREAT, 0666);
    if (write(fd, "x", 1) != 1) say("write", "errno %d", errno);
    times_of("new file", "/tmp/new");
    futimens(fd, 0);
    times_of("touched file", "/tmp/new");
    times_of("node's folder", "/tmp");
    times_of("process's folder", "/proc/self");
    char path[64];
    int memory = memfd_create("x", 0), ends[2], pair[2];
    sprintf(path, "/proc/self/fd/%d", memory);
    times_of("memory file", path);
    if (pipe(ends)) say("pipe", "errno %d", errno);
    sprintf(path, "/proc/self/fd/%d", ends[0]);
    times_of("pipe", path);
    int generation = 0;
    say("generation of an inode", "%d errno %d %d", ioctl(fd, FS_IOC_GETVERSION, &generation), errno, generation);
    union { struct file_handle handle; char bytes[200]; } handle = {.handle.handle_bytes = 128};
    int mount = 0, got = name_to_handle_at(AT_FDCWD, "/tmp/new", &handle.handle, &mount, 0);
    say("name_to_handle_at", "%d errno %d mount %d %08x", got, errno, mount, got ? 0 : *(unsigned *)handle.handle.f_handle);
    struct statfs s;
    statfs("/tmp", &s);
    say("statfs", "%ld %ld %ld %x %x", s.f_blocks, s.f_bfree, s.f_ffree, s.f_fsid.__val[0], s.f_fsid.__val[1]);
    int watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, "/tmp", IN_ALL_EVENTS);
    rename("/tmp/new", "/tmp/newer");
    char events[500];
    ssize_t bytes = read(watch, events, sizeof events);
    for (char *at = events; at < events + bytes; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len)
        say("inotify", "%x cookie %u %s", ((struct inotify_event *)at)->mask, ((struct inotify_event *)at)->cookie, ((struct inotify_event *)at)->name);
    for (int n = 0; n < 20; n++) {
        sprintf(path, "/tmp/order/%d", n * 7919 % 20);
        mkdir("/tmp/order", 0777);
        close(open(path, O_CREAT | O_WRONLY, 0666));
    }
    DIR *folder = opendir("/tmp/order");
    printf("order in a folder: ");
    for (struct dirent *entry; folder && (entry = readdir(folder));) printf("%s %lu %ld, ", entry->d_name, entry->d_ino, entry->d_off);
    puts("");
    int same = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, fd, fd), other = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, fd, memory);
    say("kcmp", "%d %d errno %d", same, other, errno);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    u64 cookie = 0;
    socklen_t length = sizeof cookie;
    say("cookie of a unix socket", "%d %llu", getsockopt(pair[0], SOL_SOCKET, SO_COOKIE, &cookie, &length), cookie);
    setsockopt(pair[0], SOL_SOCKET, SO_TIMESTAMPNS, &(int){1}, 4);
    if (send(pair[1], "x", 1, 0) != 1) say("send", "errno %d", errno);
    char control[200], data[9];
    struct iovec vector = {data, 9};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    recvmsg(pair[0], &message, 0);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == SCM_TIMESTAMPNS) real("SO_TIMESTAMPNS of a unix socket", ((struct timespec *)CMSG_DATA(c))->tv_sec, ((struct timespec *)CMSG_DATA(c))->tv_nsec);
    int shared = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    struct shmid_ds d;
    shmdt(shmat(shared, 0, 0));
    shmctl(shared, IPC_STAT, &d);
    say("shared memory", "id %d key %x by %d %d owner %u", shared, d.shm_perm.__key, d.shm_cpid, d.shm_lpid, d.shm_perm.uid);
    real("shared memory attached", d.shm_atime, 0);
    real("shared memory changed", d.shm_ctime, 0);
}

/* AF_UNIX: what the kernel draws, and who is at the other end. */
static void unix_sockets(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    for (int n = 0; n < 3; n++) {
        int s = socket(AF_UNIX, SOCK_DGRAM, 0), r;
        socklen_t length = sizeof name;
        if (n < 2) r = bind(s, (void *)&name, 2);
        else {
            /* One that has no name gets it when it sends. */
            int pair[2];
            r = setsockopt(s, SOL_SOCKET, SO_PASSCRED, &(int){1}, 4);
            if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) r = -1;
            struct sockaddr_un other = {.sun_family = AF_UNIX, .sun_path = "/tmp/nobody"};
            sendto(s, "x", 1, 0, (void *)&other, sizeof other);
        }
        getsockname(s, (void *)&name, &length);
        say("unix name", "%d %d %.5s", r, length, name.sun_path + 1);
        memset(&name, 0, sizeof name);
        name.sun_family = AF_UNIX;
    }
    int pair[2], groups[64];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    u64 cookie = 0;
    socklen_t length = 8;
    int r = getsockopt(pair[0], SOL_SOCKET, 71, &cookie, &length);
    say("unix network's cookie", "%d %llx", r, cookie);
    length = sizeof groups;
    r = getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, groups, &length);
    say("unix peer's groups", "%d %d", r, r ? 0 : (int)(length / 4));
    struct ucred who = {0};
    length = sizeof who;
    getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &who, &length);
    say("unix peer", "%u %u", who.uid, who.gid);
}

/* Numbers that file systems and namespaces have. */
static void identities(void)
{
    static const char *paths[] = {"/tmp", "/etc", "/dev/shm", "/"};
    for (unsigned n = 0; n < sizeof paths / sizeof *paths; n++) {
        unsigned char id[17] = {0};
        int fd = open(paths[n], O_RDONLY), r = ioctl(fd, _IOR(0x15, 0, unsigned char[17]), id);
        say("identity of a file system", "%s %d errno %d %02x%02x%02x", paths[n], r, r ? errno : 0, id[1], id[2], id[3]);
        close(fd);
    }
    u64 number = 0;
    int fd = open("/proc/self/ns/mnt", O_RDONLY), r = ioctl(fd, _IOR(0xb7, 5, u64), &number);
    say("identity of a namespace", "%d errno %d %llx", r, r ? errno : 0, number);
    number = 0;
    r = ioctl(fd, _IOR(0xb7, 13, u64), &number);
    say("identity of a namespace", "%d errno %d %llx", r, r ? errno : 0, number);
    char path[64], text[500];
    sprintf(path, "/proc/self/fdinfo/%ld", syscall(SYS_pidfd_open, getpid(), 0));
    fd = open(path, O_RDONLY);
    ssize_t bytes = read(fd, text, 499);
    text[bytes < 0 ? 0 : bytes] = 0;
    char *line = strstr(text, "\nPid:");
    say("identity of a process", "%d", line ? atoi(line + 5) - getpid() : -1);
}

/* Times that a program sets stay what it has set, whatever the host's date is. */
static void dates(void)
{
    time_t host = time(0);
    struct timespec all[] = {{1796083200, 5}, {1700000000, 6}, {2524608000, 7}, {-5, 8}, {host, 9}};
    int fd = open("/tmp/dated", O_CREAT | O_RDWR, 0666);
    for (unsigned n = 0; n < sizeof all / sizeof *all; n++) {
        struct timespec both[2] = {all[n], all[n]};
        struct stat s;
        both[0].tv_sec += 3;
        int r = futimens(fd, both) || fstat(fd, &s);
        say("date", "%d %s", r, !r && s.st_mtim.tv_sec == all[n].tv_sec && s.st_mtim.tv_nsec == all[n].tv_nsec && s.st_atim.tv_sec == all[n].tv_sec + 3 ? "as set" : "another");
    }
}

static void network(void)
{
    int s = socket(AF_INET, SOCK_DGRAM, 0), t = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4321), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(s, (void *)&address, sizeof address);
    setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &(int){1}, 4);
    sendto(t, "x", 1, 0, (void *)&address, sizeof address);
    char control[200], data[9];
    struct iovec vector = {data, 9};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    recvmsg(s, &message, 0);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == SCM_TIMESTAMPNS) real("SO_TIMESTAMPNS", ((struct timespec *)CMSG_DATA(c))->tv_sec, ((struct timespec *)CMSG_DATA(c))->tv_nsec);
    u64 cookie = 0;
    socklen_t length = sizeof cookie;
    say("cookie of a socket", "%d %llu", getsockopt(s, SOL_SOCKET, SO_COOKIE, &cookie, &length), cookie);
    getsockname(t, (void *)&address, &(socklen_t){sizeof address});
    say("port of a socket", "%d", ntohs(address.sin_port));
}

static int global;

static void place(void)
{
    unsigned char *random = (void *)getauxval(AT_RANDOM);
    say("AT_RANDOM", "%02x%02x%02x%02x", random[0], random[5], random[10], random[15]);
    say("addresses", "stack %p heap %p program %p mapped %p vdso %lx break %p", (void *)&random, malloc(10), (void *)&global, mmap(0, 4096, 3, 34, -1, 0), getauxval(AT_SYSINFO_EHDR), sbrk(0));
    say("auxiliary", "%lx %lx %s %lu %lu %s", getauxval(AT_HWCAP2), getauxval(AT_CLKTCK), (char *)getauxval(AT_PLATFORM), getauxval(AT_UID), getauxval(AT_SECURE), (char *)getauxval(AT_EXECFN));
    struct utsname u;
    uname(&u);
    say("uname", "%s %s %s %s %s", u.sysname, u.nodename, u.release, u.version, u.domainname);
    say("numbers", "%d %d %d %d %ld", getpid(), getppid(), getpgrp(), getsid(0), syscall(SYS_gettid));
    mode_t mask = umask(0);
    say("umask", "%03o", mask);
    umask(mask);
    say("nice", "%d %ld", getpriority(PRIO_PROCESS, 0), syscall(SYS_ioprio_get, 1, 0));
    struct sched_param parameter;
    say("scheduler", "%d %d %d", sched_getscheduler(0), sched_getparam(0, &parameter), parameter.sched_priority);
    for (int n = 0; n < RLIM_NLIMITS; n++) {
        struct rlimit limit;
        getrlimit(n, &limit);
        say("limit", "%d: %lu %lu", n, limit.rlim_cur, limit.rlim_max);
    }
    char name[40] = {0};
    prctl(PR_GET_NAME, name);
    say("prctl", "%s %d %d %d %d", name, prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_TIMING));
    sigset_t set;
    sigprocmask(SIG_BLOCK, 0, &set);
    printf("signals: ");
    for (int n = 1; n < 65; n++) {
        struct sigaction action;
        if (sigaction(n, 0, &action) == 0) printf("%d%s", action.sa_handler == SIG_IGN, sigismember(&set, n) ? "b" : "");
    }
    puts("");
    char cwd[100];
    say("folder", "%s", getcwd(cwd, 100));
    say("io_uring", "%ld errno %d", syscall(SYS_io_uring_setup, 8, 0), errno);
    say("keyctl", "%ld errno %d", syscall(SYS_keyctl, 0, -3, 1), errno);
    extern char **environ;
    for (char **e = environ; *e; e++) say("environment", "%s", *e);
}

int main(void)
{
    clocks();
    processor();
    waiting();
    proc();
    draws();
    links();
    pages();
    files();
    dates();
    unix_sockets();
    identities();
    network();
    place();
    real("time at the end", time(0), 0);
    return 0;
}
