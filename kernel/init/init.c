// Process 1 of a Linux kernel that is a node of a virtual world.
//
// It lies in the kernel's own initramfs, makes the node's files and interfaces, starts programs when the plan says so, and writes down how they ended. What it
// is to do stands in the file `plan` of the node's folder on the host: everything is known before the kernel boots, for nothing may come in from outside that
// is not an event of the world.
//
// A record of the plan is a number of fields and the fields, each ending in NUL: "2\0hostname\0client\0". Times are nanoseconds of CLOCK_MONOTONIC.
//
//   hostname NAME                              sysctl PATH VALUE
//   mount FOLDER PLACE                         up NAME
//   interface MAC NAME MTU                     address NAME ADDRESS BITS
//   route DESTINATION BITS GATEWAY NAME        (either of the last two may be "-")
//   second-route DESTINATION BITS GATEWAY NAME METRIC
//   program ID DIRECTORY INPUT ENV_COUNT ENV… ARGUMENT…      (INPUT: 1 where there is a file input.ID)
//   start NS ID                                signal NS ID NUMBER
//   sample FIRST PERIOD                        (what TCP connections are like, at these times, goes to the file `samples`)
//
// What it says goes to the file `status`, a line each: "ready", "start ID", "end ID exit|kill CODE USER_US SYSTEM_US MAXRSS_KB", "lost ID WHY".

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/inet_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEVER (~0ULL)

struct record {
    int count;
    char **field;
};

struct program {
    const char *id;
    struct record *what;
    pid_t pid;
};

struct action {
    unsigned long long at;
    struct program *program;
    int signal;  // 0: it starts
    int done;
};

static int node = -1;    // the node's folder
static int status = -1;  // its file `status`
static struct record *records;
static int record_count;
static struct program *programs;
static int program_count;
static struct action *actions;
static int action_count;
static unsigned long long sample_next = NEVER, sample_period;
static FILE *samples;

static void say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    if (write(status, line, length) != length) dprintf(2, "weft-init: cannot write the status: %m\n");
}

// A kernel whose process 1 ends panics, and its console says what was wrong.
static void give_up(const char *what) {
    int error = errno;
    int log = open("/dev/kmsg", O_WRONLY);
    dprintf(log < 0 ? 2 : log, "<3>weft-init: %s: %s\n", what, strerror(error));
    if (status >= 0) say("failed %s: %s", what, strerror(error));
    _exit(1);
}

static void *room(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) give_up("memory");
    return memory;
}

static void attach(const char *from, const char *to, const char *type, unsigned long flags, const char *options) {
    mkdir(to, 0755);
    if (mount(from, to, type, flags, options)) give_up(to);
}

// --- the plan ---

static char *next_field(char **at, char *end) {
    char *field = *at, *nul = field < end ? memchr(field, 0, end - field) : NULL;
    if (!nul) {
        errno = EPROTO;
        give_up("the plan ends within a record");
    }
    *at = nul + 1;
    return field;
}

static void read_plan(void) {
    int file = openat(node, "plan", O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (file < 0 || fstat(file, &about)) give_up("plan");
    char *text = room(about.st_size + 1), *at = text;
    for (ssize_t some, length = 0; length < about.st_size; length += some)
        if ((some = read(file, text + length, about.st_size - length)) <= 0) give_up("plan");
    close(file);
    char *end = text + about.st_size;
    while (at < end) {
        records = realloc(records, (record_count + 1) * sizeof *records);
        if (!records) give_up("memory");
        struct record *record = &records[record_count++];
        record->count = atoi(next_field(&at, end));
        record->field = room((record->count + 1) * sizeof(char *));
        for (int i = 0; i < record->count; i++) record->field[i] = next_field(&at, end);
    }
}

// --- files ---

// A folder of the node's own, in memory, over what the scenario has put there.
static void cover(const char *name, unsigned long flags, const char *options, mode_t mode) {
    char own[64], place[64], layer[64], upper[80], work[80], layers[256];
    snprintf(own, sizeof own, "/own/%s", name);
    snprintf(place, sizeof place, "/new/%s", name);
    if (access(own, F_OK)) {
        attach("none", place, "tmpfs", flags, options);
        return;
    }
    snprintf(layer, sizeof layer, "/layer/%s", name);
    snprintf(upper, sizeof upper, "%s/upper", layer);
    snprintf(work, sizeof work, "%s/work", layer);
    snprintf(layers, sizeof layers, "lowerdir=%s,upperdir=%s,workdir=%s", own, upper, work);
    if (mkdir(layer, 0755) || mkdir(upper, 0755) || chmod(upper, mode) || mkdir(work, 0755)) give_up(layer);
    attach("none", place, "overlay", flags, layers);
}

static void write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) < 0) say("refused %s = \"%s\": %s", path, text, strerror(errno));
    if (file >= 0) close(file);
}

static void make_files(void) {
    attach("none", "/node", "hostfs", 0, "node");
    if ((node = open("/node", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) give_up("/node");
    if ((status = openat(node, "status", O_WRONLY | O_CREAT | O_APPEND | O_SYNC | O_CLOEXEC, 0644)) < 0) give_up("status");
    attach("none", "/host", "hostfs", MS_RDONLY, "root");
    attach("none", "/own", "hostfs", MS_RDONLY, "own");
    attach("none", "/layer", "tmpfs", 0, "mode=755");
    if (mkdir("/layer/upper", 0755) || mkdir("/layer/work", 0755)) give_up("/layer");
    attach("none", "/new", "overlay", 0, "lowerdir=/own:/host,upperdir=/layer/upper,workdir=/layer/work");
    attach("none", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    attach("none", "/new/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    attach("none", "/new/dev", "devtmpfs", MS_NOSUID, "mode=755");
    attach("none", "/new/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=620,ptmxmode=666");
    attach("none", "/new/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    cover("tmp", MS_NOSUID | MS_NODEV, "mode=1777", 01777);
    cover("run", MS_NOSUID | MS_NODEV, "mode=755", 0755);
    // The host's would be its user's, or nobody's.
    cover("root", MS_NOSUID | MS_NODEV, "mode=700", 0700);
    if (chdir("/new") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/")) give_up("/new");
    static const char *const links[][2] = {
        {"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}};
    for (unsigned i = 0; i < sizeof links / sizeof *links; i++)
        if (symlink(links[i][0], links[i][1]) && errno != EEXIST) give_up(links[i][1]);
    mkdir("/run/lock", 01777);
}

// --- interfaces, by rtnetlink(7) ---

static int netlink = -1;

struct request {
    struct nlmsghdr header;
    char body[512];
};

static void *grow(struct request *request, size_t bytes) {
    void *at = (char *)request + NLMSG_ALIGN(request->header.nlmsg_len);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + bytes;
    return at;
}

static struct request begin(int type, int flags) {
    struct request request = {.header = {.nlmsg_len = sizeof(struct nlmsghdr), .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags}};
    return request;
}

static void add(struct request *request, int type, const void *data, int length) {
    struct rtattr *attribute = grow(request, RTA_LENGTH(length));
    attribute->rta_type = type;
    attribute->rta_len = RTA_LENGTH(length);
    memcpy(RTA_DATA(attribute), data, length);
}

static void ask(struct request *request, const char *what) {
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char quoted[1024];
    } reply;
    if (send(netlink, request, request->header.nlmsg_len, 0) < 0 || recv(netlink, &reply, sizeof reply, 0) < 0) give_up("rtnetlink");
    if (reply.header.nlmsg_type == NLMSG_ERROR && reply.error.error) say("refused %s: %s", what, strerror(-reply.error.error));
}

// The address, its family and its length.
static int address_of(const char *text, unsigned char *bytes, int *length) {
    int family = strchr(text, ':') ? AF_INET6 : AF_INET;
    *length = family == AF_INET6 ? 16 : 4;
    if (inet_pton(family, text, bytes) != 1) {
        errno = EINVAL;
        give_up(text);
    }
    return family;
}

static void set_link(int index, const char *name, const char *mtu, int up) {
    struct request request = begin(RTM_NEWLINK, 0);
    struct ifinfomsg *message = grow(&request, sizeof *message);
    *message = (struct ifinfomsg){.ifi_index = index, .ifi_flags = up ? IFF_UP : 0, .ifi_change = up ? IFF_UP : 0};
    if (name) add(&request, IFLA_IFNAME, name, strlen(name) + 1);
    unsigned value = mtu ? strtoul(mtu, NULL, 10) : 0;
    if (mtu) add(&request, IFLA_MTU, &value, sizeof value);
    ask(&request, name ? name : "interface");
}

static void make_interface(char **field) {
    struct if_nameindex *all = if_nameindex();
    int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), found = 0;
    for (struct if_nameindex *one = all; one && one->if_index && !found; one++) {
        struct ifreq about = {0};
        strncpy(about.ifr_name, one->if_name, IFNAMSIZ - 1);
        if (ioctl(socket_, SIOCGIFHWADDR, &about)) continue;
        unsigned char *mac = (unsigned char *)about.ifr_hwaddr.sa_data;
        char text[18];
        snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
        if (strcasecmp(text, field[1])) continue;
        found = one->if_index;
        // The name may be one that the kernel has given to another of the node's, whose turn comes.
        int other = if_nametoindex(field[2]);
        if (other && other != found) {
            char away[IFNAMSIZ];
            snprintf(away, sizeof away, "weft-%d", other);
            set_link(other, away, NULL, 0);
        }
        set_link(found, field[2], field[3], 0);
    }
    close(socket_);
    if_freenameindex(all);
    if (!found) {
        errno = ENODEV;
        give_up(field[2]);
    }
}

static void add_address(char **field) {
    unsigned char bytes[16];
    int length, family = address_of(field[2], bytes, &length);
    struct request request = begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
    struct ifaddrmsg *message = grow(&request, sizeof *message);
    *message = (struct ifaddrmsg){.ifa_family = family, .ifa_prefixlen = atoi(field[3]), .ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0,
                                  .ifa_index = if_nametoindex(field[1])};
    add(&request, IFA_LOCAL, bytes, length);
    add(&request, IFA_ADDRESS, bytes, length);
    if (family == AF_INET && message->ifa_prefixlen < 31) {
        unsigned host = htonl(0xffffffffU >> message->ifa_prefixlen), broadcast;
        memcpy(&broadcast, bytes, 4);
        broadcast |= host;
        add(&request, IFA_BROADCAST, &broadcast, 4);
    }
    char what[120];
    snprintf(what, sizeof what, "address %s/%s of %s", field[2], field[3], field[1]);
    ask(&request, what);
}

static void add_route(char **field, unsigned metric) {
    unsigned char bytes[16];
    int length, family = address_of(field[1], bytes, &length), bits = atoi(field[2]);
    int gateway = strcmp(field[3], "-"), direct = strcmp(field[4], "-");
    struct request request = begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
    struct rtmsg *message = grow(&request, sizeof *message);
    *message = (struct rtmsg){.rtm_family = family, .rtm_dst_len = bits, .rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_STATIC,
                              .rtm_scope = gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK, .rtm_type = RTN_UNICAST};
    if (bits) add(&request, RTA_DST, bytes, length);
    if (gateway) {
        address_of(field[3], bytes, &length);
        add(&request, RTA_GATEWAY, bytes, length);
    }
    unsigned index = direct ? if_nametoindex(field[4]) : 0;
    if (direct) add(&request, RTA_OIF, &index, sizeof index);
    if (metric) add(&request, RTA_PRIORITY, &metric, sizeof metric);
    char what[160];
    snprintf(what, sizeof what, "route %s/%s%s%s%s%s", field[1], field[2], gateway ? " via " : "", gateway ? field[3] : "", direct ? " dev " : "", direct ? field[4] : "");
    ask(&request, what);
}

// --- programs ---

static struct program *find(const char *id) {
    for (int i = 0; i < program_count; i++)
        if (!strcmp(programs[i].id, id)) return &programs[i];
    errno = ENOENT;
    give_up("a program of the plan");
    return NULL;
}

static int open_stream(const char *stream, const char *id, int flags) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", stream, id);
    return openat(node, name, flags | O_CLOEXEC, 0644);
}

static void become(struct program *program) {
    char **field = program->what->field;
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int in = *field[3] == '1' ? open_stream("input", program->id, O_RDONLY) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open_stream("output", program->id, O_WRONLY | O_CREAT | O_APPEND | O_SYNC);
    int err = open_stream("error", program->id, O_WRONLY | O_CREAT | O_APPEND | O_SYNC);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
    int count = atoi(field[4]);
    char **environment = room((count + 1) * sizeof(char *));
    memcpy(environment, field + 5, count * sizeof(char *));
    char **arguments = field + 5 + count;
    if (chdir(field[2])) {
        dprintf(2, "weft: %s: %s\n", field[2], strerror(errno));
        _exit(126);
    }
    clearenv();
    environ = environment;
    execvp(arguments[0], arguments);
    int missing = errno == ENOENT;
    dprintf(2, "weft: %s: %s\n", arguments[0], strerror(errno));
    _exit(missing ? 127 : 126);
}

static void act(struct action *action) {
    struct program *program = action->program;
    action->done = 1;
    if (action->signal) {
        // Its process group: it is the leader of one.
        if (program->pid) kill(-program->pid, action->signal);
        return;
    }
    // It runs already: as for other nodes, that is no fault.
    if (program->pid) return;
    say("start %s", program->id);
    program->pid = fork();
    if (program->pid == 0) become(program);
    if (program->pid < 0) {
        say("lost %s %s", program->id, strerror(errno));
        program->pid = 0;
    }
}

static void reap(void) {
    int how;
    struct rusage use;
    pid_t pid;
    while ((pid = wait4(-1, &how, WNOHANG, &use)) > 0)
        for (int i = 0; i < program_count; i++)
            if (programs[i].pid == pid) {
                programs[i].pid = 0;
                say("end %s %s %d %lld %lld %ld", programs[i].id, WIFSIGNALED(how) ? "kill" : "exit",
                    WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), use.ru_utime.tv_sec * 1000000LL + use.ru_utime.tv_usec,
                    use.ru_stime.tv_sec * 1000000LL + use.ru_stime.tv_usec, use.ru_maxrss);
            }
}

// --- TCP connections, by sock_diag(7) ---

#define STATES_MAX 16

static void write_connection(unsigned long long at, struct nlmsghdr *header) {
    static const char *const states[STATES_MAX] = {"UNKNOWN",    "ESTAB",    "SYN-SENT", "SYN-RECV", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT",
                                                   "CLOSE",      "CLOSE-WAIT", "LAST-ACK", "LISTEN",   "CLOSING"};
    struct inet_diag_msg *message = NLMSG_DATA(header);
    int left = header->nlmsg_len - NLMSG_LENGTH(sizeof *message);
    struct tcp_info info;
    int found = 0;
    for (struct rtattr *one = (struct rtattr *)(message + 1); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
        if (one->rta_type != INET_DIAG_INFO) continue;
        memset(&info, 0, sizeof info);
        memcpy(&info, RTA_DATA(one), RTA_PAYLOAD(one) < sizeof info ? RTA_PAYLOAD(one) : sizeof info);
        found = 1;
    }
    if (!found) return;
    char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
    inet_ntop(message->idiag_family, message->id.idiag_src, local, sizeof local);
    inet_ntop(message->idiag_family, message->id.idiag_dst, remote, sizeof remote);
    const char *state = message->idiag_state < STATES_MAX ? states[message->idiag_state] : NULL;
    fprintf(samples, "%llu %s %d %s %d %s %u %u %u %u %u %u %llu %llu %llu\n", at, local, ntohs(message->id.idiag_sport), remote,
            ntohs(message->id.idiag_dport), state ? state : states[0], info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh, info.tcpi_rtt, info.tcpi_rttvar,
            info.tcpi_unacked, info.tcpi_total_retrans, (unsigned long long)info.tcpi_bytes_acked, (unsigned long long)info.tcpi_bytes_received,
            (unsigned long long)info.tcpi_delivery_rate);
}

static void sample(unsigned long long at) {
    static int diag = -1;
    if (!samples) {
        int file = openat(node, "samples", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        samples = file < 0 ? NULL : fdopen(file, "a");
        diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (!samples || diag < 0) give_up("samples");
    }
    static const int families[] = {AF_INET, AF_INET6};
    static char answer[1 << 16];
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++) {
        struct {
            struct nlmsghdr header;
            struct inet_diag_req_v2 what;
        } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                     .what = {.sdiag_family = families[i], .sdiag_protocol = IPPROTO_TCP, .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                              // All but TIME-WAIT, CLOSE and LISTEN.
                              .idiag_states = 0xfff & ~(1 << 6 | 1 << 7 | 1 << 10)}};
        if (send(diag, &request, sizeof request, 0) < 0) give_up("sock_diag");
        for (int done = 0; !done;) {
            int bytes = recv(diag, answer, sizeof answer, 0);
            if (bytes < 0) give_up("sock_diag");
            for (struct nlmsghdr *one = (struct nlmsghdr *)answer; NLMSG_OK(one, bytes); one = NLMSG_NEXT(one, bytes)) {
                if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR) done = 1;
                else write_connection(at, one);
            }
        }
    }
    fflush(samples);
}

static unsigned long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void prepare(void) {
    programs = room(record_count * sizeof *programs);
    actions = room(record_count * sizeof *actions);
    for (int i = 0; i < record_count; i++) {
        char **field = records[i].field;
        const char *kind = records[i].count ? field[0] : "";
        if (!strcmp(kind, "hostname")) sethostname(field[1], strlen(field[1]));
        else if (!strcmp(kind, "mount")) attach("none", field[2], "hostfs", MS_RDONLY, field[1]);
        else if (!strcmp(kind, "sysctl")) write_to(field[1], field[2]);
        else if (!strcmp(kind, "interface")) make_interface(field);
        else if (!strcmp(kind, "up")) set_link(if_nametoindex(field[1]), NULL, NULL, 1);
        else if (!strcmp(kind, "address")) add_address(field);
        else if (!strcmp(kind, "route")) add_route(field, 0);
        else if (!strcmp(kind, "second-route")) add_route(field, strtoul(field[5], NULL, 10));
        else if (!strcmp(kind, "program")) programs[program_count++] = (struct program){.id = field[1], .what = &records[i]};
        else if (!strcmp(kind, "start")) actions[action_count++] = (struct action){.at = strtoull(field[1], NULL, 10), .program = find(field[2])};
        else if (!strcmp(kind, "sample")) {
            sample_next = strtoull(field[1], NULL, 10);
            sample_period = strtoull(field[2], NULL, 10);
        } else if (!strcmp(kind, "signal"))
            actions[action_count++] = (struct action){.at = strtoull(field[1], NULL, 10), .program = find(field[2]), .signal = atoi(field[3])};
        else say("refused %s: no such record", kind);
    }
}

int main(void) {
    make_files();
    read_plan();
    netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (netlink < 0) give_up("rtnetlink");
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    set_link(if_nametoindex("lo"), NULL, NULL, 1);
    // Nobody has the same address by accident; interfaces are ready at once, as those of other nodes.
    write_to("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
    prepare();
    say("ready");
    // Actions of one instant happen in the order of the plan.
    for (;;) {
        unsigned long long next = NEVER, present = now();
        for (int i = 0; i < action_count; i++) {
            if (actions[i].done) continue;
            if (actions[i].at <= present) act(&actions[i]);
            else if (actions[i].at < next) next = actions[i].at;
        }
        reap();
        if (sample_next <= present) {
            sample(sample_next);
            sample_next += sample_period * ((present - sample_next) / sample_period + 1);
        }
        if (sample_next < next) next = sample_next;
        if (next == NEVER) {
            sigwaitinfo(&children, NULL);
            continue;
        }
        present = now();
        unsigned long long left = next > present ? next - present : 0;
        struct timespec wait = {.tv_sec = left / 1000000000ULL, .tv_nsec = left % 1000000000ULL};
        sigtimedwait(&children, NULL, &wait);
    }
}
