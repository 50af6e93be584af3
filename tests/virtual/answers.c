/* Calls whose answers the host's kernel decides: one case each, "CASE: WHAT CAME OF IT". Natively and in a node the lines must be the same. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *name;
static char big[1 << 20];
static int pair[2];

static void say(const char *what, long result)
{
    printf("%s: %s %ld errno %d\n", name, what, result, result < 0 ? errno : 0);
    fflush(stdout);
}
static void pause_ms(int ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, 0); }

static void *reads_all(void *total)
{
    static char piece[70000];
    ssize_t bytes;
    pause_ms(30);
    while ((bytes = read(pair[1], piece, sizeof piece)) > 0) *(long *)total += bytes;
    return 0;
}

/* A blocking send on a stream sends everything, whatever the buffer holds. */
static void whole(void)
{
    for (int way = 0; way < 3; way++) {
        pthread_t thread;
        long total = 0;
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        pthread_create(&thread, 0, reads_all, &total);
        struct iovec vectors[] = {{big, 500000}, {big, 400000}};
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
        say("sent", way == 0 ? send(pair[0], big, sizeof big, 0) : way == 1 ? sendmsg(pair[0], &message, 0) : sendto(pair[0], big, sizeof big, MSG_NOSIGNAL, 0, 0));
        close(pair[0]);
        pthread_join(thread, 0);
        say("arrived", total);
        close(pair[1]);
    }
}

static void *writes_twice(void *unused)
{
    pause_ms(30);
    if (write(pair[0], "0123456789", 10) != 10) say("write", -1);
    pause_ms(30);
    if (write(pair[0], "0123456789", 10) != 10) say("write", -1);
    return unused;
}

static void all_of_it(void)
{
    char data[30];
    for (int way = 0; way < 2; way++) {
        pthread_t thread;
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        pthread_create(&thread, 0, writes_twice, 0);
        struct iovec vectors[] = {{data, 3}, {data + 3, 17}};
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
        say("received", way ? recvmsg(pair[1], &message, MSG_WAITALL) : recv(pair[1], data, 20, MSG_WAITALL));
        pthread_join(thread, 0);
    }
}

static void limits(void)
{
    struct timeval limit = {0, 60000};
    char data[10];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("recv", recv(pair[1], data, 10, 0));
    say("read", read(pair[1], data, 10));
    setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    say("some was sent", send(pair[0], big, sizeof big, 0) > 0);
    say("send", send(pair[0], big, sizeof big, 0));
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bind(listener, (void *)&address, 2);
    listen(listener, 1);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("accept", accept(listener, 0, 0));
}

static void writes_later(int count)
{
    if (fork()) return;
    for (int n = 0; n < count; n++) {
        pause_ms(30);
        if (write(pair[0], "x", 1) != 1) say("write", -1);
    }
    _exit(0);
}

static void several(void)
{
    char data[10];
    struct iovec vector = {data, 10};
    struct mmsghdr messages[3];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    for (int way = 0; way < 4; way++) {
        memset(messages, 0, sizeof messages);
        for (int n = 0; n < 3; n++) messages[n].msg_hdr.msg_iov = &vector, messages[n].msg_hdr.msg_iovlen = 1;
        writes_later(way == 0 || way == 3 ? 3 : 1);
        struct timespec limit = {0, 1}, wrong = {0, -1};
        say("recvmmsg", way == 0 ? recvmmsg(pair[1], messages, 3, 0, 0) : way == 1 ? recvmmsg(pair[1], messages, 3, MSG_WAITFORONE, 0)
                      : way == 2 ? recvmmsg(pair[1], messages, 3, 0, &wrong) : recvmmsg(pair[1], messages, 3, 0, &limit));
        wait(0);
        while (recv(pair[1], data, 10, MSG_DONTWAIT) > 0) say("was left", 1);
    }
}

/* Credentials behind as many descriptors as a message can have. */
static void most_rights(pid_t parent)
{
    static char control[CMSG_SPACE(253 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    int own[2];
    char data[1] = {'x'};
    socketpair(AF_UNIX, SOCK_DGRAM, 0, own);
    for (int way = 0; way < 3; way++) {
        struct iovec vector = {data, 1};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){CMSG_LEN(253 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        for (int n = 0; n < 253; n++) ((int *)CMSG_DATA(c))[n] = 0;
        c = CMSG_NXTHDR(&message, c);
        struct ucred who = {way == 2 ? parent : getpid(), way == 1 ? 0 : 1000, way == 1 ? 0 : 1000};
        *c = (struct cmsghdr){CMSG_LEN(sizeof who), SOL_SOCKET, SCM_CREDENTIALS};
        memcpy(CMSG_DATA(c), &who, sizeof who);
        say("sent with credentials and 253 descriptors", sendmsg(own[0], &message, 0));
    }
    close(own[0]);
    close(own[1]);
}

static void limits_of_others(pid_t roots)
{
    struct rlimit limit = {0};
    pid_t own = getpid();
    say("limits of root's process", prlimit(roots, RLIMIT_CORE, 0, &limit));
    say("set for root's process", prlimit(roots, RLIMIT_CORE, &limit, 0));
    say("no limit of root's process", prlimit(roots, 99, 0, &limit));
    say("limits of nobody", prlimit(99999, RLIMIT_CORE, 0, &limit));
    say("own limits", prlimit(own, RLIMIT_CORE, 0, &limit));
    say("no limit of its own", prlimit(0, 99, 0, &limit));
    if (fork() == 0) {
        say("limits of a process of the same user", prlimit(own, RLIMIT_CORE, 0, &limit));
        _exit(0);
    }
    wait(0);
}

/* Run as root: what another user may. */
static void users(void)
{
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){1}, 4);
    pid_t maker = getpid();
    if (fork() == 0) {
        if (setgid(1000) || setuid(1000)) say("setuid", -1);
        int own[2];
        struct ucred who = {0};
        socklen_t length = sizeof who;
        socketpair(AF_UNIX, SOCK_STREAM, 0, own);
        getsockopt(own[0], SOL_SOCKET, SO_PEERCRED, &who, &length);
        say("peer's user", who.uid);
        say("peer's group", who.gid);
        char data[2], control[CMSG_SPACE(sizeof who)] = {0};
        for (int way = 0; way < 3; way++) {
            struct iovec vector = {data, 1};
            struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
            struct cmsghdr *c = CMSG_FIRSTHDR(&message);
            *c = (struct cmsghdr){CMSG_LEN(sizeof who), SOL_SOCKET, SCM_CREDENTIALS};
            who = (struct ucred){way == 2 ? maker : getpid(), way == 1 ? 0 : 1000, 1000};
            memcpy(CMSG_DATA(c), &who, sizeof who);
            say("sent with credentials", sendmsg(pair[0], &message, 0));
        }
        most_rights(maker);
        limits_of_others(maker);
        say("signal to root's process", kill(getppid(), 0));
        say("signal to itself", kill(getpid(), 0));
        _exit(0);
    }
    /* What it has sent says who it was. */
    wait(0);
    struct ucred who = {0};
    char data[2], control[100];
    struct iovec vector = {data, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    recvmsg(pair[1], &message, 0);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) memcpy(&who, CMSG_DATA(c), sizeof who);
    say("received from user", who.uid);
}

static void locks(void)
{
    int fd = open("/tmp/locked", O_CREAT | O_RDWR, 0666);
    unlink("/tmp/locked");
    struct flock first = {.l_type = F_WRLCK, .l_len = 1}, second = {.l_type = F_WRLCK, .l_start = 1, .l_len = 1};
    fcntl(fd, F_SETLKW, &first);
    if (fork() == 0) {
        fcntl(fd, F_SETLKW, &second);
        pause_ms(20);
        say("child waits, and then has it", fcntl(fd, F_SETLKW, &first));
        _exit(0);
    }
    /* By then the child waits. */
    pause_ms(600);
    say("a circle", fcntl(fd, F_SETLKW, &second));
    first.l_type = F_UNLCK;
    fcntl(fd, F_SETLK, &first);
    wait(0);
}

static void epolls(void)
{
    int one = epoll_create1(0), two = epoll_create1(0), last = one;
    struct epoll_event event = {.events = EPOLLIN};
    say("nested", epoll_ctl(one, EPOLL_CTL_ADD, two, &event));
    say("a circle", epoll_ctl(two, EPOLL_CTL_ADD, one, &event));
    say("itself", epoll_ctl(one, EPOLL_CTL_ADD, one, &event));
    for (int n = 0; n < 10; n++) {
        int next = epoll_create1(0);
        int result = epoll_ctl(next, EPOLL_CTL_ADD, last, &event);
        say("deeper", result);
        if (result) break;
        last = next;
    }
}

/* Calls with a place on what has none; reads of nothing. */
static void places(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), ends[2];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bind(listener, (void *)&address, sizeof address);
    listen(listener, 1);
    getsockname(listener, (void *)&address, &length);
    connect(client, (void *)&address, sizeof address);
    int server = accept(listener, 0, 0);
    char data[20] = "abcdefgh";
    struct iovec vectors[] = {{data, 4}, {data + 4, 4}}, none = {data, 0};
    say("pwritev2 at -1", pwritev2(client, vectors, 2, -1, 0));
    memset(data, 0, sizeof data);
    pause_ms(20);
    say("preadv2 at -1", preadv2(server, vectors, 2, -1, 0));
    say(data, 0);
    say("preadv2 that does not wait", preadv2(server, vectors, 2, -1, RWF_NOWAIT));
    say("preadv2 with an unknown flag", preadv2(server, vectors, 2, -1, 1 << 20));
    say("preadv2 at 5", preadv2(server, vectors, 2, 5, 0));
    say("preadv2 at -2", preadv2(server, vectors, 2, -2, 0));
    say("pread", pread(server, data, 4, 0));
    say("pwrite", pwrite(server, data, 4, 0));
    say("pread at -1", pread(server, data, 4, -1));
    say("read of nothing", read(server, data, 0));
    say("readv of nothing", readv(server, &none, 1));
    say("readv of no buffer", readv(server, &none, 0));
    say("datagram: read of nothing", read(udp, data, 0));
    say("datagram: readv of nothing", readv(udp, &none, 1));
    if (pipe(ends)) say("pipe", -1);
    say("pipe: pwritev2 at -1", pwritev2(ends[1], vectors, 2, -1, 0));
    say("pipe: preadv2 at -1", preadv2(ends[0], vectors, 2, -1, 0));
    say("pipe: preadv2 that does not wait", preadv2(ends[0], vectors, 2, -1, RWF_NOWAIT));
    say("pipe: pread", pread(ends[0], data, 4, 0));
}

static void processor(void)
{
    cpu_set_t none;
    CPU_ZERO(&none);
    say("no processor at all", sched_setaffinity(0, sizeof none, &none));
    /* EFLAGS.AC: the program's own affair. */
    unsigned long flags;
    long file;
    static const char path[] = "x/not there";
    __asm__ volatile("pushfq; orq $0x40000, (%%rsp); popfq; syscall; pushfq; popq %1; pushfq; andq $~0x40000, (%%rsp); popfq"
                     : "=a"(file), "=&r"(flags) : "a"(SYS_open), "D"(path + 1), "S"(O_RDONLY), "d"(0) : "rcx", "r11", "memory");
    say("with alignment checks", file == -ENOENT && (flags >> 18 & 1));
}

/* A path below /proc that leads out of it again. */
static void paths(void)
{
    static const char *const paths[] = {
        "/proc/self/fdinfo/../../../etc/passwd", "/proc/self/fdinfo/../../../dev/zero", "/proc/self/fdinfo/../fdinfo/0",
        "/proc/self/fdinfo/x", "/proc/self/fdinfo/4294967296", "/proc/self/fdinfo/999", "/proc/self/fdinfo/", "/proc/self/net/../../../etc/passwd",
    };
    for (unsigned n = 0; n < sizeof paths / sizeof *paths; n++) {
        char data[8] = "";
        int fd = open(paths[n], O_RDONLY);
        say(paths[n], fd < 0 ? -1 : read(fd, data, sizeof data));
        printf("%.8s\n", data);
        close(fd);
    }
}

static void opens(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    say(path, fd < 0 ? -1 : 0);
    close(fd);
}

/* Natively in a network namespace of its own: files below /proc/sys/net, as root and as another user. */
static void show_setting(const char *what, const char *name)
{
    char data[100] = "";
    int fd = open(name, O_RDONLY);
    say(what, read(fd, data, sizeof data));
    printf("%.2s", data);
    close(fd);
}
/* What stands behind the values, and where one may stand. */
static void lines(void)
{
    static const char *const several[][2] = {
        {"ipv4/tcp_fin_timeout", "30 40"}, {"ipv4/tcp_fin_timeout", "31 x"}, {"ipv4/tcp_fin_timeout", " 32\n33"}, {"ipv4/tcp_fin_timeout", "33x"},
        {"ipv4/tcp_fin_timeout", "0x22"}, {"ipv4/tcp_fin_timeout", "34   35  "}, {"ipv4/tcp_retries1", "3 300"}, {"ipv4/tcp_sack", "1 0"},
        {"ipv4/tcp_rmem", "5000 60000 700000 9"}, {"ipv4/tcp_rmem", "6000 x 9"}, {"ipv4/tcp_rmem", "7000"}, {"ipv4/ip_local_port_range", "20000 30000 4"},
        {"ipv4/ip_local_port_range", "21000 x"}, {"ipv4/tcp_congestion_control", "reno\ncubic"}, {"ipv4/tcp_congestion_control", "reno cubic"},
        {"ipv4/tcp_congestion_control", "there is none"},
    };
    char name[100], data[100] = "";
    for (unsigned n = 0; n < sizeof several / sizeof *several; n++) {
        snprintf(name, sizeof name, "/proc/sys/net/%s", several[n][0]);
        int fd = open(name, O_RDWR);
        say(several[n][1], write(fd, several[n][1], strlen(several[n][1])));
        memset(data, 0, sizeof data);
        say("at its beginning", pread(fd, data, sizeof data - 1, 0));
        printf("%s", data);
        close(fd);
    }
    int fd = open("/proc/sys/net/ipv4/tcp_fin_timeout", O_RDWR), udp = socket(AF_INET, SOCK_DGRAM, 0);
    say("a byte", read(fd, data, 1));
    for (int whence = SEEK_SET; whence <= SEEK_HOLE + 1; whence++) {
        say("lseek", lseek(fd, 1, whence));
        say("lseek back", lseek(fd, -1, whence));
        say("lseek of a socket", lseek(udp, 0, whence));
    }
    say("lseek far", lseek(fd, INT64_MAX, SEEK_SET) == INT64_MAX);
    say("read there", read(fd, data, 2));
    say("lseek to 1", lseek(fd, 1, SEEK_SET));
    say("written there", write(fd, "50", 2));
    say("written at a place", pwrite(fd, "51", 2, 0));
    say("written at another", pwrite(fd, "52", 2, 1));
    say("it stands", lseek(fd, 0, SEEK_CUR));
    say("read at a place", pread(fd, data, 100, 0));
    say("read at another", pread(fd, data, 100, 1));
    say("lseek to 0", lseek(fd, 0, SEEK_SET));
    memset(data, 0, sizeof data);
    say("read again", read(fd, data, 100));
    printf("%s", data);
    say("pread of a socket", pread(udp, data, 1, 0));
    close(udp);
    close(fd);
}
/* What distributions and guides set, of what a network namespace has of its own. */
static void guides(void)
{
    static const char *const set[][2] = {
        {"ipv4/tcp_tw_reuse", "1"}, {"ipv4/tcp_tw_reuse", "3"}, {"ipv4/tcp_rto_min_us", "100000"}, {"ipv4/tcp_frto", "0"}, {"ipv4/tcp_frto", "2"},
        {"ipv4/tcp_early_retrans", "0"}, {"ipv4/tcp_early_retrans", "3"}, {"ipv4/tcp_limit_output_bytes", "1048576"},
        {"ipv4/tcp_comp_sack_delay_ns", "500000"}, {"ipv4/tcp_autocorking", "0"}, {"ipv4/tcp_no_metrics_save", "1"},
        {"ipv4/tcp_early_demux", "0"}, {"ipv4/udp_rmem_min", "8192"}, {"ipv4/udp_wmem_min", "8192"},
        {"ipv4/ipfrag_high_thresh", "8388608"}, {"ipv4/ipfrag_time", "20"}, {"ipv4/ipfrag_max_dist", "0"}, {"ipv4/route/min_pmtu", "1000"},
        {"ipv4/route/mtu_expires", "300"}, {"ipv4/icmp_ratelimit", "100"}, {"ipv4/icmp_echo_ignore_broadcasts", "1"},
        {"ipv4/icmp_ignore_bogus_error_responses", "1"}, {"ipv4/igmp_qrv", "3"},
        {"ipv4/conf/all/rp_filter", "1"}, {"ipv4/conf/default/rp_filter", "1"}, {"ipv4/conf/all/accept_redirects", "0"},
        {"ipv4/conf/all/send_redirects", "0"}, {"ipv4/conf/all/accept_source_route", "0"}, {"ipv4/conf/all/log_martians", "1"},
        {"ipv4/conf/default/log_martians", "1"}, {"ipv6/conf/all/accept_ra", "0"}, {"ipv6/conf/all/accept_ra", "1"}, {"ipv6/conf/all/autoconf", "0"}, {"ipv6/conf/all/accept_redirects", "0"},
        {"ipv6/conf/all/accept_source_route", "0"}, {"ipv6/conf/all/dad_transmits", "0"}, {"ipv6/icmp/ratelimit", "100"},
        {"ipv6/icmp/echo_ignore_all", "1"}, {"ipv6/ip6frag_time", "30"},
    };
    for (unsigned n = 0; n < sizeof set / sizeof *set; n++) {
        char name[100], data[100] = "";
        snprintf(name, sizeof name, "/proc/sys/net/%s", set[n][0]);
        int fd = open(name, O_RDWR);
        say(set[n][0], write(fd, set[n][1], strlen(set[n][1])));
        say("it reads", pread(fd, data, sizeof data - 1, 0));
        printf("%s", data);
        close(fd);
    }
}
/* IPv6 is switched off and on again: addresses of lo, and what a program comes to without them. */
static void without_ipv6(void)
{
    static const char *const steps[][2] = {{"lo", "1"}, {"default", "1"}, {"lo", "0"}, {"all", "1"}, {"lo", "0"}, {"all", "0"}, {"lo", "0"}, {"nothing", "1"}};
    static const char *const hosts[] = {"::1", "2001:db8::1", "::", "ff02::1", "::ffff:127.0.0.1"};
    struct ifreq lo = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(any, SIOCGIFFLAGS, &lo);
    lo.ifr_flags |= IFF_UP;
    say("lo is up", ioctl(any, SIOCSIFFLAGS, &lo));
    close(any);
    for (unsigned n = 0; n < sizeof steps / sizeof *steps; n++) {
        static const char *const shown[] = {"all", "default", "lo"};
        char name[100], data[20] = "";
        snprintf(name, sizeof name, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", steps[n][0]);
        int fd = open(name, O_WRONLY);
        say(name, write(fd, steps[n][1], 1));
        close(fd);
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", shown[i]);
            fd = open(name, O_RDONLY);
            say(shown[i], read(fd, data, sizeof data));
            printf("%.2s", data);
            close(fd);
        }
        for (unsigned i = 0; i < sizeof hosts / sizeof *hosts; i++) {
            struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
            inet_pton(AF_INET6, hosts[i], &to.sin6_addr);
            for (int stream = 0; stream < 2; stream++) {
                int s = socket(AF_INET6, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
                say(hosts[i], connect(s, (void *)&to, sizeof to));
                close(s);
            }
            int s = socket(AF_INET6, SOCK_DGRAM, 0);
            to.sin6_port = 0;
            say("bind", bind(s, (void *)&to, sizeof to));
            close(s);
        }
    }
}
static void settings(void)
{
    static const char number[] = "/proc/sys/net/ipv4/ip_forward", word[] = "/proc/sys/net/ipv4/tcp_congestion_control";
    char data[100] = "";
    int fd = open(number, O_RDWR);
    say("written: more than there is", syscall(SYS_write, fd, "1\n", -1L));
    say("written: too much", syscall(SYS_write, fd, big, 5L << 20));
    say("written: nothing", write(fd, "1\n", 0));
    say("written: neither", write(fd, " \n", 2));
    say("a first byte", read(fd, data, 1));
    say("a second", read(fd, data, 1));
    say("written behind it", write(fd, "1\n", 2));
    close(fd);
    show_setting("as before", number);
    fd = open(number, O_RDWR);
    say("written", write(fd, "1\n", 2));
    say("read behind it", read(fd, data, sizeof data));
    say("written again", write(fd, "0\n", 2));
    close(fd);
    show_setting("the first one", number);
    lines();
    guides();
    without_ipv6();
    fd = open(word, O_RDWR);
    say("a word of nothing", write(fd, "reno\n", 0));
    say("a word", write(fd, "reno\n", 5));
    close(fd);
    fd = open(word, O_RDWR);
    for (int n = 0; n < 6; n++) {
        *data = 0;
        say("a letter", read(fd, data, 1));
        printf("%.1s\n", data);
    }
    close(fd);
    for (int way = 0; way < 2; way++) {
        opens(number, O_WRONLY);
        opens("/proc/sys/net/there is no such thing", O_WRONLY);
        opens("/proc/sys/net/there is no such thing", O_WRONLY | O_CREAT);
        opens("/proc/sys/net/ipv4", O_WRONLY);
        opens("/proc/sys/net/ipv4/../ipv4/ip_forward", O_WRONLY);
        opens("/proc/sys/net/ipv4/tcp_available_congestion_control", O_WRONLY);
        opens("/proc/sys/net/ipv4/tcp_available_congestion_control", O_RDONLY);
        opens("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY);
        opens("/proc/sys/net/ipv4/route/flush", O_WRONLY);
        if (chdir("/proc/sys/net/ipv4")) say("chdir", -1);
        opens("tcp_sack", O_WRONLY);
        opens("tcp_sack", O_RDONLY);
        if (way == 0 && (setgid(1000) || setuid(1000))) say("setuid", -1);
    }
}

/* A length, or a number of buffers, that is the number of an open socket as well. */
static void splices(void)
{
    enum { NUMBER = 9 };
    int from[2], to[2], udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct iovec pieces[NUMBER];
    for (int n = 0; n < NUMBER; n++) pieces[n] = (struct iovec){"x", 1};
    if (pipe(from) || pipe(to) || write(from[1], "0123456789", 10) != 10) say("pipe", -1);
    if (dup2(udp, NUMBER) != NUMBER) say("dup2", -1);
    say("tee", tee(from[0], to[1], NUMBER, 0));
    say("vmsplice", vmsplice(to[1], pieces, NUMBER, 0));
    say("splice", splice(from[0], 0, to[1], 0, NUMBER, 0));
}

/* What is in a folder, by getdents64(2) or getdents(2): an entry's name stands at 19 or 18. */
static char folder[] = "/var/tmp/weft-listing-XXXXXX";
static char seen[4096];

static int number_of(const char *entry) { return entry[0] == 'f' ? atoi(entry + 1) : -1; }

/* Marks the names of one call's entries; how many there were. */
static int mark(char *buffer, long bytes, int name_at)
{
    int count = 0;
    for (long at = 0; at < bytes; at += *(unsigned short *)(buffer + at + 16), count++) {
        int number = number_of(buffer + at + name_at);
        if (number >= 0) seen[number]++;
    }
    return count;
}

/* How many names there were never, once and more often. */
static void say_seen(const char *what, int names)
{
    int times[3] = {0};
    for (int n = 0; n < names; n++) times[seen[n] > 2 ? 2 : (int)seen[n]]++;
    printf("%s: %s never %d once %d twice %d\n", name, what, times[0], times[1], times[2]);
    memset(seen, 0, sizeof seen);
}

static void reads_folder(const char *what, int names, int call, int room, const char *does)
{
    static char buffer[1 << 17];
    int fd = open(folder, O_RDONLY | O_DIRECTORY), calls = 0, own = 0, made = names;
    char file[64];
    long bytes;
    while ((bytes = syscall(call, fd, buffer, room)) > 0 && calls++ < 20000) {
        int name_at = call == SYS_getdents64 ? 19 : 18;
        own += mark(buffer, bytes, name_at);
        for (long at = 0; at < bytes && does; at += *(unsigned short *)(buffer + at + 16))
            if (number_of(buffer + at + name_at) >= 0 && number_of(buffer + at + name_at) < names) {
                if (strcmp(does, "removes") == 0) {
                    if (unlinkat(fd, buffer + at + name_at, 0)) say("unlinkat", -1);
                } else if (made < 2 * names) {
                    snprintf(file, sizeof file, "f%d", made++);
                    close(openat(fd, file, O_CREAT | O_WRONLY, 0600));
                }
            }
    }
    say(what, bytes);
    say("at the end", syscall(call, fd, buffer, room));
    say_seen(what, names);
    if (!does) printf("%s: %s entries %d\n", name, what, own);
    close(fd);
}

static void fill(int from, int to)
{
    char file[64];
    for (int n = from; n < to; n++) {
        snprintf(file, sizeof file, "%s/f%d", folder, n);
        close(open(file, O_CREAT | O_WRONLY, 0600));
    }
}

static void empty(int names)
{
    char file[64];
    for (int n = 0; n < names; n++) {
        snprintf(file, sizeof file, "%s/f%d", folder, n);
        unlink(file);
    }
}

static void listings(void)
{
    static const int counts[] = {0, 1, 5, 100, 1500};
    char buffer[400];
    if (!mkdtemp(folder)) say("mkdtemp", -1);
    for (unsigned n = 0; n < sizeof counts / sizeof *counts; n++) {
        int names = counts[n];
        fill(0, names);
        for (int way = 0; way < 2; way++) {
            int call = way ? SYS_getdents : SYS_getdents64;
            reads_folder("at once", names, call, 1 << 17, 0);
            reads_folder("in pieces", names, call, 100, 0);
            reads_folder("one by one", names, call, 32, 0);
            reads_folder("no room", names, call, 20, 0);
            reads_folder("makes", names, call, 200, "makes");
            empty(2 * names);
            fill(0, names);
            reads_folder("removes", names, call, 200, "removes");
            fill(0, names);
        }
        /* A descriptor that two processes share: what one has read the other does not. */
        int fd = open(folder, O_RDONLY), both[2];
        if (pipe(both)) say("pipe", -1);
        memset(seen, 0, sizeof seen);
        for (long turn = 0, bytes = 1; bytes > 0; turn++) {
            if (turn % 2 == 0) {
                if ((bytes = syscall(SYS_getdents64, fd, buffer, 200)) > 0) mark(buffer, bytes, 19);
                continue;
            }
            if (fork() == 0) {
                bytes = syscall(SYS_getdents64, fd, buffer, 200);
                if (write(both[1], &bytes, sizeof bytes) != sizeof bytes || (bytes > 0 && write(both[1], buffer, bytes) != bytes)) say("write", -1);
                _exit(0);
            }
            if (read(both[0], &bytes, sizeof bytes) != sizeof bytes || (bytes > 0 && read(both[0], buffer, bytes) != bytes)) say("read", -1);
            if (bytes > 0) mark(buffer, bytes, 19);
            wait(0);
        }
        say_seen("two processes", names);
        /* From the beginning again, with what is new; and from where somebody was. */
        char file[64];
        snprintf(file, sizeof file, "%s/f%d", folder, names);
        close(open(file, O_CREAT | O_WRONLY, 0600));
        say("to the beginning", lseek(fd, 0, SEEK_SET));
        for (long bytes; (bytes = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;) mark(buffer, bytes, 19);
        say_seen("again", names + 1);
        unlink(file);
        DIR *stream = opendir(folder);
        struct dirent *entry;
        int rests[2] = {0};
        for (int k = 0; k < (names + 2) / 2; k++) readdir(stream);
        long position = telldir(stream);
        for (int turn = 0; turn < 2; turn++) {
            seekdir(stream, position);
            while ((entry = readdir(stream))) if (number_of(entry->d_name) >= 0) rests[turn]++, seen[number_of(entry->d_name)]++;
        }
        printf("%s: the rest, twice %d\n", name, rests[0] == rests[1]);
        memset(seen, 0, sizeof seen);
        closedir(stream);
        close(fd), close(both[0]), close(both[1]);
        empty(names);
    }
    int fd = open(folder, O_RDONLY), file = open("/dev/null", O_RDONLY), path = open(folder, O_PATH), both[2];
    say("nowhere", syscall(SYS_getdents64, fd, 16L, 1000));
    say("a device", syscall(SYS_getdents64, file, buffer, sizeof buffer));
    say("a path", syscall(SYS_getdents64, path, buffer, sizeof buffer));
    if (pipe(both)) say("pipe", -1);
    say("a pipe", syscall(SYS_getdents64, both[0], buffer, sizeof buffer));
    say("a socket", syscall(SYS_getdents64, socket(AF_INET, SOCK_DGRAM, 0), buffer, sizeof buffer));
    say("nobody", syscall(SYS_getdents64, 999, buffer, sizeof buffer));
    if (rmdir(folder)) say("rmdir", -1);
    say("gone", syscall(SYS_getdents64, fd, buffer, sizeof buffer));
    /* Processes have an order, which ps(1) relies on. */
    int last = 0, falls = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(processes));)
        if (atoi(entry->d_name)) falls += atoi(entry->d_name) < last, last = atoi(entry->d_name);
    printf("%s: processes out of order %d\n", name, falls);
    closedir(processes);
}

int main(int count, char **words)
{
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"whole", whole}, {"all of it", all_of_it}, {"limits", limits}, {"several", several}, {"users", users},
        {"locks", locks}, {"epolls", epolls}, {"places", places}, {"processor", processor}, {"paths", paths}, {"settings", settings},
        {"splices", splices}, {"listings", listings},
    };
    signal(SIGPIPE, SIG_IGN);
    for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++)
        if (count < 2 || strcmp(words[1], cases[n].name) == 0) {
            name = cases[n].name;
            cases[n].run();
        }
    return 0;
}
