/*
 * Pages that come late, below the arguments of calls.
 *
 *   pages slow KIND TO FROM   makes every call that reads or writes memory, with its arguments in pages that are not there. When the first
 *                             page of a call is asked for (then the second, the third …), a byte goes to the pipe TO; the page comes when a byte has come from FROM. What
 *                             each call came to is a line on standard output, the same natively and under weft.
 *   pages other FROM TO       for each byte: a whole transfer, TCP and UDP, then a byte back.
 *   pages transfer            one such transfer.
 *   pages stuck TICKS         one call whose page never comes, interrupted by so many ticks of a timer (0: never); then
 *                             a line with this process's number.
 *   pages many THREADS REFUSED  as many threads, each with a call whose page comes when all have been asked for that are; then how many went well.
 *                             REFUSED is not 0: no page comes, and when so many calls were refused, with what.
 *
 * KIND: missing (userfaultfd), protected (userfaultfd, write-protected: calls that write), race (userfaultfd, and another thread takes the
 * page away while the call is made), fuse (a file whose server is a child of this program).
 *
 * FAMILY=6 in the environment: over IPv6.
 *
 * Nothing is timed: who waits for ever is ended by the test.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4, BYTES = PAGE * PAGES, ATTEMPTS = 8 };

static enum { MISSING, PROTECTED, RACE, FUSE, STUCK } kind;
static int to = -1, from = -1;
static int family = AF_INET;
union name {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};
/* So many bytes of a name are its family's. */
static socklen_t name_bytes(void) { return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in); }
/* The pages, as the program sees them. */
static char *slow;
/* What whoever answers for them has to know, be it a thread or another process. */
static struct {
    /* What is in them when they come. */
    char shadow[BYTES];
    /* Which page from now on comes late (0: none); one has. */
    atomic_int late, came_late;
} *shared;
static int uffd = -1, fuse = -1;
/* How often a call that is stuck has been interrupted. */
static atomic_int ticks;
static int ticks_wanted;

static _Noreturn void die(const char *what) {
    printf("failed: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(2);
}
static int ok(int result, const char *what) {
    if (result < 0) die(what);
    return result;
}

/* ---- late pages */

/* A page is asked for: where it is the one that comes late, the other program has a whole transfer before it comes. */
static void wait_for_other(void) {
    char byte = 1;
    if (atomic_load(&shared->late) == 0 || atomic_fetch_sub(&shared->late, 1) != 1) return;
    if (kind == STUCK) {
        while (atomic_load(&ticks) < ticks_wanted) sched_yield();
        printf("interrupted %d\n", getpid());
        fflush(stdout);
        for (;;) pause();
    }
    ok(write(to, &byte, 1), "write to the other");
    if (read(from, &byte, 1) != 1) die("read from the other");
    atomic_store(&shared->came_late, 1);
}

static void *answer_faults(void *unused) {
    (void)unused;
    struct uffd_msg message;
    while (read(uffd, &message, sizeof message) == sizeof message) {
        if (message.event != UFFD_EVENT_PAGEFAULT) continue;
        uint64_t page = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        wait_for_other();
        if (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
            struct uffdio_writeprotect open = {.range = {page, PAGE}, .mode = 0};
            ok(ioctl(uffd, UFFDIO_WRITEPROTECT, &open), "UFFDIO_WRITEPROTECT");
        } else {
            struct uffdio_copy copy = {.dst = page, .src = (uint64_t)shared->shadow + (page - (uint64_t)slow), .len = PAGE};
            /* Somebody may have brought it, and taken it away again. */
            if (ioctl(uffd, UFFDIO_COPY, &copy) < 0 && errno == EEXIST) {
                struct uffdio_range range = {page, PAGE};
                ok(ioctl(uffd, UFFDIO_WAKE, &range), "UFFDIO_WAKE");
            }
        }
    }
    return NULL;
}

static void begin_userfaultfd(void) {
    uffd = ok(syscall(SYS_userfaultfd, O_CLOEXEC), "userfaultfd");
    struct uffdio_api api = {.api = UFFD_API, .features = kind == PROTECTED ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0};
    ok(ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API");
    struct uffdio_register range = {.range = {(uint64_t)slow, BYTES},
                                    .mode = kind == PROTECTED ? UFFDIO_REGISTER_MODE_WP : UFFDIO_REGISTER_MODE_MISSING};
    ok(ioctl(uffd, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
}

/* A FUSE server, in the kernel's own words: a folder of files "0", "1" …, each with the shadow's content when it is read. */
static void reply(uint64_t unique, int error, const void *data, size_t bytes) {
    struct fuse_out_header header = {.len = sizeof header + bytes, .error = error, .unique = unique};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)data, bytes}};
    (void)!writev(fuse, parts, 2);
}
static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644, .size = node == 1 ? 0 : BYTES, .blksize = PAGE};
    return attr;
}
static _Noreturn void serve_files(void) {
    static char buffer[256 * 1024];
    for (;;) {
        ssize_t got = read(fuse, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < (ssize_t)sizeof(struct fuse_in_header)) exit(0);
        struct fuse_in_header *in = (void *)buffer;
        void *body = in + 1;
        switch (in->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_readahead = 0, .max_write = PAGE, .max_background = 16};
            reply(in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = {.nodeid = 2 + strtoul(body, NULL, 10), .attr_valid = 1000, .entry_valid = 1000};
            out.attr = attributes(out.nodeid);
            reply(in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = {.attr_valid = 1000, .attr = attributes(in->nodeid)};
            reply(in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.fh = in->nodeid};
            reply(in->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ: {
            struct fuse_read_in *read = body;
            uint64_t left = read->offset < BYTES ? BYTES - read->offset : 0;
            wait_for_other();
            reply(in->unique, 0, shared->shadow + (read->offset < BYTES ? read->offset : 0), read->size < left ? read->size : left);
            break;
        }
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break;
        case FUSE_FLUSH:
        case FUSE_RELEASE: reply(in->unique, 0, NULL, 0); break;
        default: reply(in->unique, -ENOSYS, NULL, 0);
        }
    }
}
static char folder[] = "/tmp/weft-pages-XXXXXX";
static void begin_fuse(void) {
    char options[100];
    ok(unshare(CLONE_NEWNS), "unshare");
    ok(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount private");
    /* Nothing of it is seen outside. */
    ok(mount("pages", "/tmp", "tmpfs", 0, NULL), "mount tmpfs");
    if (!mkdtemp(folder)) die("mkdtemp");
    fuse = ok(open("/dev/fuse", O_RDWR | O_CLOEXEC), "/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    ok(mount("pages", folder, "fuse", 0, options), "mount fuse");
    /* A process of its own, with the only descriptor of the connection: whoever is killed, nobody waits for ever. */
    if (ok(fork(), "fork") == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve_files();
    }
    close(fuse);
}
static void next_file(void) {
    static int number;
    char path[100];
    snprintf(path, sizeof path, "%s/%d", folder, number++);
    int file = ok(open(path, O_RDONLY | O_CLOEXEC), "open a file of the server");
    if (mmap(slow, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) die("mmap");
    close(file);
}

/* Takes pages away while the main thread is in its call. */
static atomic_int take_away;
static void *take_pages_away(void *unused) {
    (void)unused;
    for (;;) {
        int delay = atomic_load(&take_away);
        if (delay == 0) {
            sched_yield();
            continue;
        }
        for (volatile int spun = 0; spun < delay * 7; spun++) {}
        madvise(slow, BYTES, MADV_DONTNEED);
        atomic_store(&take_away, 0);
    }
    return NULL;
}

/* From here to the call nothing touches the pages. What is in the shadow is in them when they come, the one of this turn late; in a race, the turn is
 * how long it is before they are taken away. */
static void leave_pages(int turn) {
    atomic_store(&shared->came_late, 0);
    if (kind == PROTECTED) {
        memcpy(slow, shared->shadow, BYTES);
        struct uffdio_writeprotect close = {.range = {(uint64_t)slow, BYTES}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
        ok(ioctl(uffd, UFFDIO_WRITEPROTECT, &close), "UFFDIO_WRITEPROTECT");
    } else if (kind == FUSE) {
        next_file();
    } else {
        madvise(slow, BYTES, MADV_DONTNEED);
    }
    if (kind == RACE) {
        struct uffdio_copy copy = {.dst = (uint64_t)slow, .src = (uint64_t)shared->shadow, .len = BYTES};
        ok(ioctl(uffd, UFFDIO_COPY, &copy), "UFFDIO_COPY");
        atomic_store(&shared->late, 1);
        atomic_store(&take_away, turn);
        return;
    }
    atomic_store(&shared->late, turn);
}

/* ---- the calls */

/* What lies in the shadow, as a call is given it and as it is there afterwards. */
#define IN(pointer) ((__typeof__(&(pointer)[0]))(slow + ((char *)(pointer) - shared->shadow)))

/* One thing to a page, so that each is asked for. */
static struct arguments {
    union {
        union name address;
        struct sockaddr_nl netlink;
        int option;
        struct ifreq interface;
        struct msghdr header;
        struct mmsghdr several[2];
        char page[PAGE];
    } a;
    union {
        socklen_t length;
        struct iovec vectors[4];
        char page[PAGE];
    } b;
    union {
        char text[2][32];
        char page[PAGE];
    } c;
    union {
        union name address[2];
        struct sockaddr_nl netlink;
        struct {
            struct nlmsghdr header;
            struct rtgenmsg request;
        } links;
        char page[PAGE];
    } d;
} *in;

/* A call whose pages come late; when it has returned, the program's own accesses are nobody's. */
#define CALL(made) ({ \
    leave_pages(turn); \
    long value_ = (made); \
    int errno_ = errno; \
    atomic_store(&shared->late, 0); \
    while (atomic_load(&take_away)) sched_yield(); \
    errno = errno_; \
    value_; })

static union name home(void) {
    if (family == AF_INET6) return (union name){.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    return (union name){.v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};
}
static union name name_of(int fd) {
    union name name;
    socklen_t length = sizeof name;
    ok(getsockname(fd, (void *)&name, &length), "getsockname");
    return name;
}
static int made(int type) { return ok(socket(family, type | SOCK_CLOEXEC, 0), "socket"); }
static int bound(int type) {
    int fd = made(type);
    union name any = home();
    ok(bind(fd, (void *)&any, name_bytes()), "bind");
    return fd;
}
static int listening(void) {
    int fd = bound(SOCK_STREAM);
    ok(listen(fd, 8), "listen");
    return fd;
}
static int connected_to(int server) {
    int fd = made(SOCK_STREAM);
    union name there = name_of(server);
    ok(connect(fd, (void *)&there, name_bytes()), "connect");
    return fd;
}
static void wait_for(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    ok(poll(&one, 1, -1), "poll");
}
/* Datagrams lie at `fd`. */
static void fill(int fd, const char *first, const char *second) {
    int sender = bound(SOCK_DGRAM);
    union name there = name_of(fd);
    ok(sendto(sender, first, strlen(first), 0, (void *)&there, name_bytes()), "sendto");
    if (second) ok(sendto(sender, second, strlen(second), 0, (void *)&there, name_bytes()), "sendto");
    /* Until the last is there. */
    char text[64];
    struct iovec vectors[2] = {{text, sizeof text}, {text, sizeof text}};
    struct mmsghdr both[2] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    if (!second) {
        wait_for(fd);
    } else {
        int bytes = 0;
        while (wait_for(fd), ok(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &(int){0}, sizeof(int)), "SO_PEEK_OFF"), bytes < 2) {
            bytes = recvmmsg(fd, both, 2, MSG_PEEK | MSG_DONTWAIT, NULL);
        }
        ok(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &(int){-1}, sizeof(int)), "SO_PEEK_OFF");
    }
    close(sender);
}
/* What comes to `fd` next. */
static const char *got(int fd) {
    static char text[100];
    memset(text, 0, sizeof text);
    if (recv(fd, text, sizeof text - 1, 0) < 0) snprintf(text, sizeof text, "%s", strerror(errno));
    return text;
}

static char said[500];
static void say(const char *format, ...) {
    size_t at = strlen(said);
    va_list list;
    va_start(list, format);
    vsnprintf(said + at, sizeof said - at, format, list);
    va_end(list);
}
static void result(long value) {
    if (value < 0) say("%ld %s", value, strerror(errno));
    else say("%ld", value);
}
static const char *host(const union name *name) {
    static char text[INET6_ADDRSTRLEN];
    const void *address = family == AF_INET6 ? (const void *)&name->v6.sin6_addr : &name->v4.sin_addr;
    return inet_ntop(family, address, text, sizeof text);
}

static void do_bind(int turn) {
    int fd = made(SOCK_DGRAM);
    in->a.address = home();
    result(CALL(bind(fd, (void *)IN(&in->a.address), name_bytes())));
    union name name = name_of(fd);
    say(" at %s", host(&name));
    close(fd);
}
static void do_connect(int turn) {
    int server = listening(), fd = made(SOCK_STREAM);
    in->a.address = name_of(server);
    result(CALL(connect(fd, (void *)IN(&in->a.address), name_bytes())));
    close(ok(accept(server, NULL, NULL), "accept"));
    close(fd);
    close(server);
}
static void do_accept(int turn) {
    int server = listening(), fd = connected_to(server);
    in->b.length = name_bytes();
    long child = CALL(accept4(server, (void *)IN(&in->a.address), IN(&in->b.length), SOCK_CLOEXEC));
    union name peer = name_of(fd);
    say("%s %u bytes, %s", child < 0 ? strerror(errno) : "a connection", *IN(&in->b.length), memcmp(&peer, IN(&in->a.address), name_bytes()) ? "another's" : "the client's");
    if (child >= 0) {
        ok(send(fd, "x", 1, 0), "send");
        say(", through which comes %s", got(child));
        close(child);
    }
    close(fd);
    close(server);
}
static void do_getsockname(int turn) {
    int fd = bound(SOCK_DGRAM);
    in->b.length = name_bytes();
    result(CALL(getsockname(fd, (void *)IN(&in->a.address), IN(&in->b.length))));
    say(" %u bytes, %s", *IN(&in->b.length), host(IN(&in->a.address)));
    close(fd);
}
static void do_getpeername(int turn) {
    int server = listening(), fd = connected_to(server);
    in->b.length = name_bytes();
    result(CALL(getpeername(fd, (void *)IN(&in->a.address), IN(&in->b.length))));
    say(" %u bytes, %s", *IN(&in->b.length), host(IN(&in->a.address)));
    close(fd);
    close(server);
}
static void do_sendto(int turn) {
    int there = bound(SOCK_DGRAM), fd = made(SOCK_DGRAM);
    in->a.address = name_of(there);
    strcpy(in->c.text[0], "sendto");
    result(CALL(sendto(fd, IN(in->c.text[0]), 6, 0, (void *)IN(&in->a.address), name_bytes())));
    say(" and there came %s", got(there));
    close(fd);
    close(there);
}
/* A message of the shadow, in two pieces. */
static struct msghdr message(int number, const char *text, const union name *name) {
    strcpy(in->c.text[number], text);
    struct iovec *vectors = &in->b.vectors[2 * number];
    vectors[0] = (struct iovec){IN(in->c.text[number]), 3};
    vectors[1] = (struct iovec){IN(in->c.text[number] + 3), text[0] ? strlen(text) - 3 : 20};
    if (name) in->d.address[number] = *name;
    return (struct msghdr){.msg_name = IN(&in->d.address[number]), .msg_namelen = name_bytes(), .msg_iov = IN(vectors), .msg_iovlen = 2};
}
static void do_sendmsg(int turn) {
    int there = bound(SOCK_DGRAM), fd = made(SOCK_DGRAM);
    union name name = name_of(there);
    in->a.header = message(0, "sendmsg", &name);
    result(CALL(sendmsg(fd, IN(&in->a.header), 0)));
    say(" and there came %s", got(there));
    close(fd);
    close(there);
}
static void do_sendmmsg(int turn) {
    int there = bound(SOCK_DGRAM), fd = made(SOCK_DGRAM);
    union name name = name_of(there);
    in->a.several[0].msg_hdr = message(0, "one of two", &name);
    in->a.several[1].msg_hdr = message(1, "another", &name);
    result(CALL(sendmmsg(fd, IN(in->a.several), 2, 0)));
    say(" of %u and %u bytes", IN(in->a.several)[0].msg_len, IN(in->a.several)[1].msg_len);
    say(" and there came %s,", got(there));
    say(" %s", got(there));
    close(fd);
    close(there);
}
static void do_recvfrom(int turn) {
    int fd = bound(SOCK_DGRAM);
    fill(fd, "recvfrom", NULL);
    in->b.length = name_bytes();
    result(CALL(recvfrom(fd, IN(in->c.text[0]), sizeof in->c.text[0], 0, (void *)IN(&in->a.address), IN(&in->b.length))));
    say(" %.8s from %s, %u bytes", IN(in->c.text[0]), host(IN(&in->a.address)), *IN(&in->b.length));
    close(fd);
}
static void do_recvmsg(int turn) {
    int fd = bound(SOCK_DGRAM);
    fill(fd, "recvmsg", NULL);
    in->a.header = message(0, "", NULL);
    in->a.header.msg_flags = -1;
    result(CALL(recvmsg(fd, IN(&in->a.header), 0)));
    say(" %.7s from %s, flags %d", IN(in->c.text[0]), host(IN(&in->d.address[0])), IN(&in->a.header)->msg_flags);
    close(fd);
}
static void do_recvmmsg(int turn) {
    int fd = bound(SOCK_DGRAM);
    fill(fd, "one", "two!");
    in->a.several[0].msg_hdr = message(0, "", NULL);
    in->a.several[1].msg_hdr = message(1, "", NULL);
    result(CALL(recvmmsg(fd, IN(in->a.several), 2, MSG_WAITFORONE, NULL)));
    say(" of %u and %u bytes", IN(in->a.several)[0].msg_len, IN(in->a.several)[1].msg_len);
    say(": %.3s, %.4s from %s", IN(in->c.text[0]), IN(in->c.text[1]), host(IN(&in->d.address[1])));
    close(fd);
}
static void do_getsockopt(int turn) {
    int fd = made(SOCK_DGRAM);
    in->b.length = sizeof in->a.option;
    result(CALL(getsockopt(fd, SOL_SOCKET, SO_TYPE, IN(&in->a.option), IN(&in->b.length))));
    say(" type %d, %u bytes", *IN(&in->a.option), *IN(&in->b.length));
    close(fd);
}
static void do_setsockopt(int turn) {
    int fd = made(SOCK_DGRAM), value = 0;
    int level = family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP, option = family == AF_INET6 ? IPV6_UNICAST_HOPS : IP_TTL;
    socklen_t length = sizeof value;
    in->a.option = 77;
    result(CALL(setsockopt(fd, level, option, IN(&in->a.option), sizeof in->a.option)));
    ok(getsockopt(fd, level, option, &value, &length), "getsockopt");
    say(" and then it is %d", value);
    close(fd);
}
static void do_ioctl(int turn) {
    int fd = made(SOCK_DGRAM);
    strcpy(in->a.interface.ifr_name, "lo");
    result(CALL(ioctl(fd, SIOCGIFFLAGS, IN(&in->a.interface))));
    say(" loopback %d", !!(IN(&in->a.interface)->ifr_flags & IFF_LOOPBACK));
    close(fd);
}
static void do_fionread(int turn) {
    int fd = bound(SOCK_DGRAM);
    fill(fd, "fionread", NULL);
    result(CALL(ioctl(fd, FIONREAD, IN(&in->a.option))));
    say(" %d bytes", *IN(&in->a.option));
    close(fd);
}
static int netlink(void) { return ok(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "socket(AF_NETLINK)"); }
static size_t ask_for_links(void) {
    in->d.links.header = (struct nlmsghdr){.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtgenmsg)), .nlmsg_type = RTM_GETLINK,
                                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 5};
    in->d.links.request = (struct rtgenmsg){.rtgen_family = AF_UNSPEC};
    return in->d.links.header.nlmsg_len;
}
static void do_netlink_send(int turn) {
    int fd = netlink();
    in->a.netlink = (struct sockaddr_nl){.nl_family = AF_NETLINK};
    size_t bytes = ask_for_links();
    result(CALL(sendto(fd, IN(&in->d.links), bytes, 0, (void *)IN(&in->a.netlink), sizeof in->a.netlink)));
    char answer[8192] __attribute__((aligned(8)));
    ok(recv(fd, answer, sizeof answer, 0), "recv");
    struct nlmsghdr *first = (void *)answer;
    say(" and the answer begins with %u, sequence %u", first->nlmsg_type, first->nlmsg_seq);
    close(fd);
}
static void do_netlink_receive(int turn) {
    int fd = netlink();
    ok(send(fd, &in->d.links, ask_for_links(), 0), "send");
    in->a.header = (struct msghdr){.msg_name = IN(&in->d.netlink), .msg_namelen = sizeof in->d.netlink, .msg_iov = IN(in->b.vectors), .msg_iovlen = 1};
    in->b.vectors[0] = (struct iovec){IN(in->c.page), PAGE};
    long value = CALL(recvmsg(fd, IN(&in->a.header), 0));
    struct nlmsghdr *first = (void *)IN(in->c.page);
    say("%s, type %u, sequence %u, from %u", value > 0 ? "a message" : strerror(errno), first->nlmsg_type, first->nlmsg_seq, IN(&in->d.netlink)->nl_pid);
    close(fd);
}

static const struct {
    const char *name;
    void (*call)(int turn);
    /* It writes, so a page that is write-protected stops it. */
    int writes;
} cases[] = {
    {"bind", do_bind, 0}, {"connect", do_connect, 0}, {"accept4", do_accept, 1}, {"getsockname", do_getsockname, 1},
    {"getpeername", do_getpeername, 1}, {"sendto", do_sendto, 0}, {"sendmsg", do_sendmsg, 0}, {"sendmmsg", do_sendmmsg, 1},
    {"recvfrom", do_recvfrom, 1}, {"recvmsg", do_recvmsg, 1}, {"recvmmsg", do_recvmmsg, 1}, {"getsockopt", do_getsockopt, 1},
    {"setsockopt", do_setsockopt, 0}, {"ioctl", do_ioctl, 1}, {"FIONREAD", do_fionread, 1}, {"netlink, sendto", do_netlink_send, 0},
    {"netlink, recvmsg", do_netlink_receive, 1},
};

static void begin(const char *name) {
    kind = !strcmp(name, "missing") ? MISSING : !strcmp(name, "protected") ? PROTECTED : !strcmp(name, "race") ? RACE : !strcmp(name, "fuse") ? FUSE : STUCK;
    slow = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kind == FUSE) begin_fuse();
    else begin_userfaultfd();
    pthread_t thread;
    if (kind != FUSE && pthread_create(&thread, NULL, answer_faults, NULL)) die("pthread_create");
    if (kind == RACE && pthread_create(&thread, NULL, take_pages_away, NULL)) die("pthread_create");
}

static void all_calls(void) {
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        if (kind == PROTECTED && !cases[index].writes) continue;
        for (int turn = 1; turn <= (kind == RACE ? ATTEMPTS : PAGES); turn++) {
            memset(shared->shadow, 0, BYTES);
            said[0] = 0;
            cases[index].call(turn);
            if (kind != RACE && !atomic_load(&shared->came_late)) break;
            /* What was written may have been taken away again. */
            if (kind == RACE) said[strcspn(said, " ")] = 0;
            if (kind != RACE || turn == ATTEMPTS) printf("%s, page %d: %s\n", cases[index].name, turn, said);
        }
        fflush(stdout);
    }
}

/* ---- the other program */

static void transfer(void) {
    static char out[32 * 1024], back[32 * 1024];
    int server = listening(), fd = connected_to(server), child = ok(accept(server, NULL, NULL), "accept");
    memset(out, 7, sizeof out);
    ok(send(fd, out, sizeof out, 0), "send");
    ok(shutdown(fd, SHUT_WR), "shutdown");
    size_t all = 0;
    for (ssize_t some; (some = recv(child, back + all, sizeof back - all, 0)) > 0;) all += some;
    if (all != sizeof out || memcmp(out, back, all)) die("other bytes came");
    close(child), close(fd), close(server);
    int there = bound(SOCK_DGRAM);
    fill(there, "a datagram", NULL);
    if (strcmp(got(there), "a datagram")) die("another datagram came");
    close(there);
}

/* ---- a call that is stuck for good */

static void tick(int number) { atomic_fetch_add(&ticks, number == SIGALRM); }
static void stuck(void) {
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    int fd = bound(SOCK_DGRAM);
    fill(fd, "stuck", NULL);
    /* The timer is for the call, not for who answers for the pages. */
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    begin("stuck");
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    ok(sigaction(SIGALRM, &action, NULL), "sigaction");
    if (ticks_wanted) ok(setitimer(ITIMER_REAL, &timer, NULL), "setitimer");
    leave_pages(1);
    recvfrom(fd, IN(in->c.text[0]), 5, 0, (void *)IN(&in->a.address), IN(&in->b.length));
    die("the page came");
}

/* ---- more calls at a time than are looked after at a time */

static char *pages_of_many;
static atomic_int went_well, refused;
static int refused_wanted;

static void *answer_many(void *unused) {
    (void)unused;
    enum { MOST = 4096 };
    static uint64_t asked[MOST];
    int count = 0;
    for (;;) {
        struct pollfd one = {.fd = uffd, .events = POLLIN};
        struct uffd_msg message;
        if (count < MOST && poll(&one, 1, 100) == 1) {
            if (read(uffd, &message, sizeof message) == sizeof message && message.event == UFFD_EVENT_PAGEFAULT)
                asked[count++] = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
            continue;
        }
        while (count > 0 && !refused_wanted) {
            struct uffdio_copy copy = {.dst = asked[--count], .src = (uint64_t)shared->shadow, .len = PAGE};
            ioctl(uffd, UFFDIO_COPY, &copy);
        }
    }
    return NULL;
}

static void *sends(void *which) {
    int fd = ok(socket(family, SOCK_DGRAM, 0), "socket");
    if (connect(fd, (void *)(pages_of_many + (intptr_t)which * PAGE), name_bytes()) == 0) went_well++;
    else if (errno == ENOBUFS) refused++;
    else printf("connect: %s\n", strerrorname_np(errno));
    close(fd);
    return NULL;
}

static void many(int threads) {
    size_t bytes = (size_t)threads * PAGE;
    pages_of_many = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_of_many == MAP_FAILED) die("mmap");
    socklen_t length = sizeof(union name);
    ok(getsockname(bound(SOCK_DGRAM), (void *)shared->shadow, &length), "getsockname");
    uffd = ok(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), "userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    ok(ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API");
    struct uffdio_register range = {.range = {(uint64_t)pages_of_many, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    ok(ioctl(uffd, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
    pthread_t answers, *all = calloc(threads, sizeof *all);
    ok(-pthread_create(&answers, NULL, answer_many, NULL), "pthread_create");
    for (intptr_t i = 0; i < threads; i++) ok(-pthread_create(&all[i], NULL, sends, (void *)i), "pthread_create");
    while (refused_wanted && refused < refused_wanted) usleep(10000);
    for (int i = 0; i < threads && !refused_wanted; i++) pthread_join(all[i], NULL);
    printf("%d of %d, %d refused\n", went_well, threads, refused);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **words) {
    char byte;
    const char *wanted = getenv("FAMILY");
    if (wanted && !strcmp(wanted, "6")) family = AF_INET6;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) die("mmap");
    in = (struct arguments *)shared->shadow;
    if (count == 5 && !strcmp(words[1], "slow")) {
        to = ok(open(words[3], O_WRONLY | O_CLOEXEC), words[3]);
        from = ok(open(words[4], O_RDONLY | O_CLOEXEC), words[4]);
        begin(words[2]);
        all_calls();
        return 0;
    }
    if (count == 4 && !strcmp(words[1], "other")) {
        from = ok(open(words[2], O_RDONLY | O_CLOEXEC), words[2]);
        to = ok(open(words[3], O_WRONLY | O_CLOEXEC), words[3]);
        int transfers = 0;
        while (read(from, &byte, 1) == 1) {
            transfer();
            transfers++;
            ok(write(to, &byte, 1), "write");
        }
        printf("%d transfers\n", transfers);
        return 0;
    }
    if (count == 2 && !strcmp(words[1], "transfer")) return transfer(), 0;
    if (count == 4 && !strcmp(words[1], "many")) {
        refused_wanted = atoi(words[3]);
        many(atoi(words[2]));
    }
    if (count == 3 && !strcmp(words[1], "stuck")) {
        ticks_wanted = atoi(words[2]);
        stuck();
    }
    fprintf(stderr, "usage: see the source\n");
    return 2;
}
