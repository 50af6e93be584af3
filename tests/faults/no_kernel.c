// A process in a kernel's place that says what no kernel says: over its clock's socket, in the page of its calendar, as a device, in a device's queue.
// WAY chooses what (tests/faults/kernels.py has what weft is to answer).
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ACK, START, REQUEST, WAIT, GET, UPDATE, RUN, FREE_UNTIL };
enum { CURRENT = 16, CAPABILITIES = 4096 + 128, FLAGS = CAPABILITIES + 4, WANTED = CAPABILITIES + 8, PAGE_BYTES = 4096 + 2 * 128 };
enum { MEMORY_BYTES = 1 << 20, DESCRIPTORS = 0x1000, AVAILABLE = 0x3000, USED = 0x4000, DATA = 0x10000 };

struct message {
    uint32_t op, sequence;
    uint64_t time;
};

static int clock_socket, page_file, device;
static uint8_t *page, *memory;

static void must(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        exit(9);
    }
}

static int connected(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path, path);
    must(connect(made, (void *)&address, sizeof address) == 0, path);
    return made;
}

static void say(uint32_t op, uint64_t time)
{
    static uint32_t sequence;
    struct message message = {op, ++sequence, time};
    must(write(clock_socket, &message, sizeof message) == sizeof message, "write");
}

static struct message hear(void)
{
    struct message message;
    must(recv(clock_socket, &message, sizeof message, MSG_WAITALL) == sizeof message, "recv");
    return message;
}

static void begin(int shares)
{
    char space[256];
    struct message message;
    struct iovec whole = {&message, sizeof message};
    struct msghdr with_files = {.msg_iov = &whole, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    clock_socket = connected("clock");
    say(START, 0);
    must(recvmsg(clock_socket, &with_files, 0) == sizeof message, "recvmsg");
    page_file = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&with_files));
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page_file, 0);
    must(page != MAP_FAILED, "mmap");
    *(uint32_t *)(page + CAPABILITIES) = shares;
}

static uint64_t now(void)
{
    return *(volatile uint64_t *)(page + CURRENT);
}

static void want(uint64_t time)
{
    *(volatile uint64_t *)(page + WANTED) = time;
    *(volatile uint32_t *)(page + FLAGS) |= 1;
}

// A message to the device that is answered.
static void ask(uint32_t request, const void *payload, uint32_t bytes, int file)
{
    uint8_t message[1024] = {0}, answer[1024];
    uint32_t header[3] = {request, 1 | 8, bytes};
    memcpy(message, header, sizeof header);
    if (bytes > 0)
        memcpy(message + sizeof header, payload, bytes);
    char space[CMSG_SPACE(sizeof file)] = {0};
    struct iovec whole = {message, sizeof header + bytes};
    struct msghdr with_file = {.msg_iov = &whole, .msg_iovlen = 1};
    if (file >= 0) {
        with_file.msg_control = space;
        with_file.msg_controllen = sizeof space;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&with_file);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(rights), &file, sizeof file);
    }
    must(sendmsg(device, &with_file, 0) == (ssize_t)whole.iov_len, "sendmsg");
    must(read(device, answer, sizeof answer) > 0, "read");
}

// A device with a queue to send from, whose first descriptor is a frame of so many bytes.
static void drive(uint64_t features, uint32_t bytes)
{
    device = connected("net0");
    ask(16, &features, sizeof features, -1);
    int file = memfd_create("memory", 0);
    must(ftruncate(file, MEMORY_BYTES) == 0, "ftruncate");
    memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(memory != MAP_FAILED, "mmap");
    uint64_t table[] = {1, 0, MEMORY_BYTES, 0, 0}, places[] = {1, DESCRIPTORS, USED, AVAILABLE, 0}, address = DATA;
    uint32_t size[] = {1, 256}, base[] = {1, 0}, enable[] = {1, 1}, length = bytes + 12;
    ask(5, table, sizeof table, file);
    ask(8, size, sizeof size, -1);
    ask(10, base, sizeof base, -1);
    ask(9, places, sizeof places, -1);
    ask(18, enable, sizeof enable, -1);
    memcpy(memory + DESCRIPTORS, &address, sizeof address);
    memcpy(memory + DESCRIPTORS + sizeof address, &length, sizeof length);
}

static void offer(uint16_t count)
{
    *(volatile uint16_t *)(memory + AVAILABLE + 2) += count;
}

#define MESSAGES ((uint64_t)(1 << 3 | 1 << 5 | 1 << 9 | 1 << 14))
#define LOOKS (MESSAGES | 1ull << 62)

int main(void)
{
    printf("Linux version of no kernel\n");
    fflush(stdout);
    if (WAY == 1) { // runs, waits, and wants to run at once
        for (begin(1);; hear()) {
            want(now());
            say(WAIT, 0);
        }
    } else if (WAY == 2) { // half a message
        clock_socket = connected("clock");
        must(write(clock_socket, "x", 1) == 1, "write");
    } else if (WAY == 3) { // lets go of its clock and lives on
        begin(1);
        close(clock_socket);
    } else if (WAY == 4) { // asks, and does not read the answers
        for (begin(1);;)
            say(GET, 0);
    } else if (WAY == 5) { // cuts its calendar off, and if that cannot be done it wants nothing more
        begin(1);
        must(ftruncate(page_file, 0) != 0, "ftruncate of the calendar");
        say(WAIT, 0);
    } else if (WAY == 6) { // makes more available than its queue holds
        begin(1);
        drive(LOOKS, 1500);
        offer(257);
        say(WAIT, 0);
    } else if (WAY == 7) { // half a message to a device
        begin(1);
        device = connected("net0");
        uint32_t header[] = {1, 1 | 8, 600};
        must(write(device, header, sizeof header) == sizeof header, "write");
    } else if (WAY == 8) { // answers that nobody has asked for
        for (begin(1);;)
            say(ACK, 0);
    } else if (WAY == 9) { // frames of nothing
        begin(1);
        drive(LOOKS, 0);
        offer(1);
        say(WAIT, 0);
    } else if (WAY == 10) { // does not read what its device says
        begin(1);
        device = connected("net0");
        for (uint32_t header[] = {1, 1, 0};;)
            must(write(device, header, sizeof header) == sizeof header, "write");
    } else if (WAY == 11) { // wants to be told through a socket that is full
        int pair[2];
        char much[4096] = {0};
        begin(1);
        drive(MESSAGES, 1500);
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0, "socketpair");
        for (size_t bytes = sizeof much; bytes > 0; bytes /= 2)
            while (write(pair[1], much, bytes) > 0)
                ;
        fcntl(pair[1], F_SETFL, 0);
        ask(21, NULL, 0, pair[1]);
        offer(1);
        uint32_t queue[] = {1, 0};
        ask(35, queue, sizeof queue, -1);
        want(1000000000);
        say(WAIT, 0);
    } else if (WAY == 12) { // is told through what is no socket
        begin(1);
        drive(MESSAGES, 1500);
        ask(21, NULL, 0, memfd_create("none", 0));
        offer(1);
        uint32_t queue[] = {1, 0};
        ask(35, queue, sizeof queue, -1);
        want(1000000000);
        say(WAIT, 0);
    } else if (WAY == 13) { // without the page and without a device, and slow to answer: nothing is wrong with that
        begin(0);
        FILE *status = fopen("node/status", "a");
        must(status && fprintf(status, "ready\n") == 6 && fclose(status) == 0, "status");
        for (uint64_t at = 0, turn = 0;; turn++) {
            say(REQUEST, at + 1000000);
            hear();
            say(WAIT, 0);
            hear();
            for (struct message told = {0}; told.op != RUN;) {
                told = hear();
                if (turn == 3)
                    usleep(100000);
                struct message answer = {ACK, told.sequence, 0};
                must(write(clock_socket, &answer, sizeof answer) == sizeof answer, "write");
                at = told.op == RUN ? told.time : at;
            }
        }
    } else if (WAY == 14) { // wants something else after it has said that it waits
        for (begin(1);;) {
            want(now() + 1000000);
            say(WAIT, 0);
            want(0);
            *(volatile uint32_t *)(page + CAPABILITIES) = 0;
            hear();
        }
    }
    for (;;)
        pause();
}
