// Both ends of the benchmarks that iperf3 has no measure for. A client or sender runs for SECONDS and prints one line.
//
//   answer PORT                          TCP: sends back every byte of one connection after the other
//   ping ADDRESS PORT SECONDS            TCP: one byte there and back; prints "trips N median_us M"
//   greet PORT                           TCP: accepts, sends a byte, closes
//   connect ADDRESS PORT SECONDS         TCP: connects, reads to the end, closes; prints "connections N seconds S"
//   sink PORT SECONDS                    UDP: counts from the first datagram on; prints "datagrams N seconds S"
//   flood ADDRESS PORT BYTES SECONDS     UDP: sends as fast as it can, on a connected socket; prints "datagrams N seconds S"
//   frames INTERFACE MAC SECONDS         sends frames of 64 bytes (60 without the checksum) with sendmmsg; prints "frames N seconds S cpu C"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TRIPS_MAX = 4000000, BATCH = 64, FRAME_BYTES = 60 };

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void check(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in address_of(const char *ip, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) exit(2);
    return address;
}

static int bound(int kind, const char *port) {
    struct sockaddr_in address = address_of("0.0.0.0", port);
    int fd = socket(AF_INET, kind, 0), one = 1;
    check(fd, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    check(bind(fd, (struct sockaddr *)&address, sizeof address), "bind");
    if (kind == SOCK_STREAM) check(listen(fd, 1024), "listen");
    return fd;
}

static int connected(int kind, const char *ip, const char *port) {
    struct sockaddr_in address = address_of(ip, port);
    int fd = socket(AF_INET, kind, 0), one = 1;
    check(fd, "socket");
    check(connect(fd, (struct sockaddr *)&address, sizeof address), "connect");
    if (kind == SOCK_STREAM) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void answer(const char *port) {
    int listener = bound(SOCK_STREAM, port), one = 1;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        check(fd, "accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        char byte;
        while (recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1) {}
        close(fd);
    }
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void ping(const char *ip, const char *port, double seconds) {
    static float trips[TRIPS_MAX];
    int fd = connected(SOCK_STREAM, ip, port), count = 0;
    char byte = 'x';
    for (double start = now_s(), last = start; last - start < seconds && count < TRIPS_MAX;) {
        if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1) exit(1);
        double now = now_s();
        trips[count++] = (float)((now - last) * 1e6);
        last = now;
    }
    qsort(trips, (size_t)count, sizeof *trips, by_value);
    printf("trips %d median_us %.2f\n", count, (double)trips[count / 2]);
}

static void greet(const char *port) {
    int listener = bound(SOCK_STREAM, port);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        if (send(fd, "x", 1, MSG_NOSIGNAL) != 1) perror("send");
        close(fd);
    }
}

static void connect_often(const char *ip, const char *port, double seconds) {
    long count = 0;
    double start = now_s();
    while (now_s() - start < seconds) {
        int fd = connected(SOCK_STREAM, ip, port);
        char byte;
        if (recv(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 0) exit(1);
        close(fd);
        count++;
    }
    printf("connections %ld seconds %.3f\n", count, now_s() - start);
}

static void sink(const char *port, double seconds) {
    int fd = bound(SOCK_DGRAM, port);
    char bytes[2048];
    long count = 0;
    if (recv(fd, bytes, sizeof bytes, 0) < 0) exit(1);
    double start = now_s(), last = start;
    struct timeval wait = {.tv_usec = 100000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    while (last - start < seconds) {
        if (recv(fd, bytes, sizeof bytes, 0) >= 0) count++;
        // The clock is not asked for every datagram.
        if (count % 64 == 0) last = now_s();
    }
    printf("datagrams %ld seconds %.3f\n", count, last - start);
}

static void flood(const char *ip, const char *port, size_t each, double seconds) {
    int fd = connected(SOCK_DGRAM, ip, port);
    char bytes[2048] = {0};
    long count = 0;
    double start = now_s(), last = start;
    for (long tries = 0; last - start < seconds; tries++) {
        if (send(fd, bytes, each, 0) == (ssize_t)each) count++;
        if (tries % 64 == 0) last = now_s();
    }
    printf("datagrams %ld seconds %.3f\n", count, last - start);
}

static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// An IPv4 packet to nobody, of the smallest size that Ethernet has.
static void frames(const char *interface, const char *mac, double seconds) {
    unsigned char frame[FRAME_BYTES] = {0};
    if (sscanf(mac, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", frame, frame + 1, frame + 2, frame + 3, frame + 4, frame + 5) != 6) exit(2);
    memcpy(frame + 6, "\x02\0\0\0\0\x09\x08\0\x45\0\0\x2e", 12);
    frame[22] = 64;
    frame[23] = 17;
    int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1;
    check(fd, "packet socket");
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    check(bind(fd, (struct sockaddr *)&address, sizeof address), "bind");
    // Straight to the driver, as the generator of the kernel does.
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    struct iovec part = {frame, sizeof frame};
    struct mmsghdr messages[BATCH] = {0};
    for (int i = 0; i < BATCH; i++) messages[i].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    long count = 0;
    double start = now_s(), last = start;
    for (; last - start < seconds; last = now_s()) {
        int sent = sendmmsg(fd, messages, BATCH, 0);
        if (sent > 0) count += sent;
    }
    printf("frames %ld seconds %.3f cpu %.3f\n", count, last - start, cpu_s());
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "answer") == 0 && count == 3) answer(words[2]);
    else if (strcmp(what, "ping") == 0 && count == 5) ping(words[2], words[3], atof(words[4]));
    else if (strcmp(what, "greet") == 0 && count == 3) greet(words[2]);
    else if (strcmp(what, "connect") == 0 && count == 5) connect_often(words[2], words[3], atof(words[4]));
    else if (strcmp(what, "sink") == 0 && count == 4) sink(words[2], atof(words[3]));
    else if (strcmp(what, "flood") == 0 && count == 6) flood(words[2], words[3], (size_t)atoi(words[4]), atof(words[5]));
    else if (strcmp(what, "frames") == 0 && count == 5) frames(words[2], words[3], atof(words[4]));
    else return 2;
    return 0;
}
