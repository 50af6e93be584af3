// A flood of SYNs from addresses that nobody has: whole frames through a packet socket.
//
//   flood INTERFACE DESTINATION_MAC DESTINATION_ADDRESS PORT COUNT SEED
//
// Each SYN has another source: 2^16 addresses of 198.18.0.0/16 (RFC 2544, for measurements), any port, any sequence number, drawn from SEED.
// It goes as fast as the other side of the interface (a TAP) takes frames, and until that has taken COUNT: what a full queue drops shows
// nothing about who reads it. Prints "taken COUNT".

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 64, UNTAKEN_MAX = 256, WAIT_MICROSECONDS = 100 };

struct frame {
    struct ethhdr link;
    struct iphdr ip;
    struct tcphdr tcp;
    uint8_t options[4];
} __attribute__((packed));

static uint64_t state;

// SplitMix64.
static uint64_t draw(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint32_t add(const void *data, size_t length, uint32_t sum)
{
    const uint8_t *bytes = data;
    for (size_t at = 0; at < length; at += 2)
        sum += bytes[at] << 8 | bytes[at + 1];
    return sum;
}

static uint16_t folded(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons(~sum);
}

static void write_syn(struct frame *frame, struct in_addr to, uint16_t port)
{
    static const uint8_t mss[4] = {2, 4, 1460 >> 8, 1460 & 0xff};
    uint64_t random = draw();
    frame->ip = (struct iphdr){.version = 4, .ihl = 5, .tot_len = htons(sizeof *frame - sizeof frame->link), .ttl = 64, .protocol = IPPROTO_TCP};
    frame->ip.saddr = htonl(198u << 24 | 18u << 16 | (random & 0xffff));
    frame->ip.daddr = to.s_addr;
    frame->ip.check = folded(add(&frame->ip, sizeof frame->ip, 0));
    frame->tcp = (struct tcphdr){.doff = 6, .syn = 1, .window = htons(64240)};
    frame->tcp.source = htons(1024 + (random >> 16) % 64000);
    frame->tcp.dest = htons(port);
    frame->tcp.seq = htonl(random >> 32);
    memcpy(frame->options, mss, sizeof mss);
    uint32_t pseudo = add(&frame->ip.saddr, 8, IPPROTO_TCP + sizeof frame->tcp + sizeof mss);
    frame->tcp.check = folded(add(&frame->tcp, sizeof frame->tcp + sizeof mss, pseudo));
}

// What the other side of the interface has taken, and what was dropped before that: columns 10 and 12 of its row.
static void read_counts(const char *interface, unsigned long *taken, unsigned long *dropped)
{
    char line[512];
    FILE *table = fopen("/proc/net/dev", "r");
    while (table && fgets(line, sizeof line, table)) {
        char *name = line + strspn(line, " ");
        size_t length = strlen(interface);
        if (!strncmp(name, interface, length) && name[length] == ':' &&
            sscanf(name + length + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %*u %lu %*u %lu", taken, dropped) == 2) {
            fclose(table);
            return;
        }
    }
    fprintf(stderr, "flood: no interface %s\n", interface);
    exit(1);
}

int main(int argc, char **argv)
{
    struct in_addr to;
    unsigned mac[6];
    if (argc != 7 || !inet_aton(argv[3], &to) ||
        sscanf(argv[2], "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) != 6) {
        fputs("flood INTERFACE DESTINATION_MAC DESTINATION_ADDRESS PORT COUNT SEED\n", stderr);
        return 2;
    }
    struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = if_nametoindex(argv[1])};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&link, sizeof link)) {
        perror("flood: packet socket");
        return 1;
    }
    static struct frame frames[BATCH];
    static struct mmsghdr messages[BATCH];
    static struct iovec pieces[BATCH];
    unsigned long count = strtoul(argv[5], NULL, 10), sent = 0;
    state = strtoull(argv[6], NULL, 10);
    for (int n = 0; n < BATCH; n++) {
        for (int at = 0; at < 6; at++)
            frames[n].link.h_dest[at] = mac[at];
        memcpy(frames[n].link.h_source, "\x02\x00\x00\x00\x00\x01", 6);
        frames[n].link.h_proto = htons(ETH_P_IP);
        pieces[n] = (struct iovec){&frames[n], sizeof frames[n]};
        messages[n].msg_hdr = (struct msghdr){.msg_iov = &pieces[n], .msg_iovlen = 1};
    }
    unsigned long taken_before, dropped_before, taken, dropped;
    read_counts(argv[1], &taken_before, &dropped_before);
    for (;;) {
        read_counts(argv[1], &taken, &dropped);
        taken -= taken_before;
        dropped -= dropped_before;
        if (taken >= count)
            break;
        if (sent > taken + dropped + UNTAKEN_MAX) {
            usleep(WAIT_MICROSECONDS);
            continue;
        }
        int batch = BATCH;
        for (int n = 0; n < batch; n++)
            write_syn(&frames[n], to, atoi(argv[4]));
        for (int done = 0; done < batch;) {
            int now = sendmmsg(fd, messages + done, batch - done, 0);
            if (now > 0) {
                done += now;
            } else if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) {
                usleep(WAIT_MICROSECONDS);
            } else {
                perror("flood: sendmmsg");
                return 1;
            }
        }
        sent += batch;
    }
    printf("taken %lu\n", taken);
    return 0;
}
