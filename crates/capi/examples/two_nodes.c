/* Two nodes in one process, joined by a wire of 1 ms: one sends a stream to the other, with blocking calls, and the receiver polls.
 *
 *     two_nodes [MEGABYTES]
 *
 * Prints what crossed, in how much virtual time, and what TCP_INFO says. Exit status 0: every byte came, in order. */
#include "weft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 2, FRAME_BYTES_MAX = 1518, CHUNK_BYTES = 1 << 16, PORT = 7000, IN_FLIGHT_MAX = 1 << 16 };
static const int64_t WIRE_DELAY_NS = 1000000, END_NS = 3600LL * 1000000000;

static const char *const STACKS[NODES] = {
    "[node]\nname = \"left\"\n"
    "[[interface]]\nname = \"eth0\"\nbackend = \"memory:wire\"\n"
    "[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n",
    "[node]\nname = \"right\"\n"
    "[[interface]]\nname = \"eth0\"\nbackend = \"memory:wire\"\n"
    "[[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.2/24\"\n",
};

/* What is on the wire: a ring of frames, in the order in which they were sent. */
struct in_flight {
    int64_t arrives;
    int to;
    size_t length;
    unsigned char bytes[FRAME_BYTES_MAX];
};
static struct in_flight *wire;
static size_t wire_first, wire_count;
static weft_node *nodes[NODES];
static uint32_t interfaces[NODES];
static int64_t now;

static void fail(const char *what, int64_t result) {
    fprintf(stderr, "two_nodes: %s: %s\n", what, result < 0 && result > -4096 ? strerror((int)-result) : "it came out wrong");
    exit(1);
}

/* Puts what the nodes give out on the wire. */
static void collect(void) {
    for (int from = 0; from < NODES; from++) {
        for (;;) {
            if (wire_count == IN_FLIGHT_MAX)
                fail("the wire is full", 0);
            struct in_flight *next = &wire[(wire_first + wire_count) % IN_FLIGHT_MAX];
            int64_t length = weft_output(nodes[from], NULL, next->bytes, sizeof next->bytes);
            if (length < 0)
                fail("weft_output", length);
            if (length == 0)
                break;
            next->length = (size_t)length;
            next->to = 1 - from;
            next->arrives = now + WIRE_DELAY_NS;
            wire_count++;
        }
    }
}

/* Moves time to the next thing that happens: a frame arrives, or something is due in a node. 0: nothing will ever happen. */
static int step(void) {
    int64_t next = INT64_MAX;
    collect();
    if (wire_count > 0)
        next = wire[wire_first].arrives;
    for (int of = 0; of < NODES; of++) {
        int64_t due = weft_next(nodes[of]);
        if (due != WEFT_NEVER && due < next)
            next = due;
    }
    if (next == INT64_MAX)
        return 0;
    now = next;
    for (int of = 0; of < NODES; of++) {
        int result = weft_advance(nodes[of], now);
        if (result < 0)
            fail("weft_advance", result);
    }
    while (wire_count > 0 && wire[wire_first].arrives <= now) {
        struct in_flight *frame = &wire[wire_first];
        wire_first = (wire_first + 1) % IN_FLIGHT_MAX;
        wire_count--;
        int result = weft_input(nodes[frame->to], interfaces[frame->to], frame->bytes, frame->length);
        if (result < 0)
            fail("weft_input", result);
        collect();
    }
    return 1;
}

/* Lets time pass until a socket of this node has changed: how one waits for a pending call. */
static void wait_for(weft_node *node) {
    while (weft_changed(node) < 0)
        if (now > END_NS || !step())
            fail("a call is pending for ever", 0);
}

static struct sockaddr_in address(const char *host) {
    struct sockaddr_in name;
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    name.sin_port = htons(PORT);
    inet_pton(AF_INET, host, &name.sin_addr);
    return name;
}

/* The byte at a position of the stream: never the same pattern twice within 2^40 bytes. */
static unsigned char pattern(uint64_t at) {
    uint64_t word = (at >> 3) * 0x9e3779b97f4a7c15u;
    return (unsigned char)(word >> (8 * (at & 7)));
}

int main(int argc, char **argv) {
    uint64_t total = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) * 1000000, sent = 0, received = 0;
    static unsigned char out[CHUNK_BYTES], in[CHUNK_BYTES];
    char error[1024];

    wire = calloc(IN_FLIGHT_MAX, sizeof *wire);
    if (wire == NULL)
        fail("no memory for the wire", 0);
    for (int of = 0; of < NODES; of++) {
        nodes[of] = weft_node_new(STACKS[of], (uint64_t)of, error, sizeof error);
        if (nodes[of] == NULL) {
            fprintf(stderr, "two_nodes: %s\n", error);
            return 1;
        }
        int interface = weft_interface(nodes[of], "eth0");
        if (interface < 0 || weft_interface_is_ethernet(nodes[of], (uint32_t)interface) != 1)
            fail("weft_interface", interface);
        interfaces[of] = (uint32_t)interface;
    }

    struct sockaddr_in server = address("10.0.0.2");
    int listener = weft_socket(nodes[1], AF_INET, SOCK_STREAM, 0);
    int result = weft_bind(nodes[1], listener, (struct sockaddr *)&server, sizeof server);
    if (listener < 0 || result < 0 || weft_listen(nodes[1], listener, 8) < 0)
        fail("the server", result);
    if (weft_accept(nodes[1], listener, NULL, NULL, 0) != WEFT_PENDING)
        fail("accept does not wait", 0);

    int client = weft_socket(nodes[0], AF_INET, SOCK_STREAM, 0);
    while ((result = weft_connect(nodes[0], client, (struct sockaddr *)&server, sizeof server)) == WEFT_PENDING)
        wait_for(nodes[0]);
    if (result < 0)
        fail("connect", result);
    int connection;
    struct sockaddr_in peer;
    socklen_t peer_length = sizeof peer;
    while ((connection = weft_accept(nodes[1], listener, (struct sockaddr *)&peer, &peer_length, SOCK_NONBLOCK)) == WEFT_PENDING)
        wait_for(nodes[1]);
    if (connection < 0 || peer_length != sizeof peer || peer.sin_family != AF_INET)
        fail("accept", connection);

    struct pollfd readable = {connection, POLLIN, 0};
    int64_t length;
    while (received < total) {
        /* The sender's socket blocks: when its buffer is full the call is pending, and time has to pass. */
        while (sent < total) {
            size_t want = total - sent < CHUNK_BYTES ? (size_t)(total - sent) : CHUNK_BYTES;
            for (size_t at = 0; at < want; at++)
                out[at] = pattern(sent + at);
            length = weft_send(nodes[0], client, out, want, MSG_NOSIGNAL);
            if (length == WEFT_PENDING)
                break;
            if (length < 0)
                fail("send", length);
            sent += (uint64_t)length;
        }
        if (sent == total && weft_shutdown(nodes[0], client, SHUT_WR) < 0 && received == 0)
            fail("shutdown", 0);
        /* The receiver's does not: it polls. */
        while (weft_poll(nodes[1], &readable, 1) == 1 && (readable.revents & POLLIN)) {
            length = weft_recv(nodes[1], connection, in, sizeof in, 0);
            if (length == -EAGAIN)
                break;
            if (length < 0)
                fail("recv", length);
            if (length == 0)
                break;
            for (size_t at = 0; at < (size_t)length; at++)
                if (in[at] != pattern(received + at))
                    fail("a byte is not what was sent", 0);
            received += (uint64_t)length;
        }
        if (received < total && !step())
            fail("nothing happens any more", 0);
    }

    int64_t finished = now;
    struct tcp_info info;
    socklen_t info_length = sizeof info;
    memset(&info, 0, sizeof info);
    result = weft_getsockopt(nodes[0], client, IPPROTO_TCP, TCP_INFO, &info, &info_length);
    if (result < 0 || info_length < 160)
        fail("TCP_INFO", result);
    if (info.tcpi_rtt < 2 * WIRE_DELAY_NS / 1000 || info.tcpi_snd_mss == 0 || info.tcpi_snd_cwnd == 0)
        fail("TCP_INFO tells no round trip, segment size or window", 0);
    while ((length = weft_recv(nodes[0], client, in, sizeof in, MSG_DONTWAIT)) == -EAGAIN && weft_close(nodes[1], connection) == 0)
        for (int64_t until = now + 10 * WIRE_DELAY_NS; now < until && step();)
            ;
    if (length != 0)
        fail("the other side's end", length);
    char answer[4096];
    if (weft_control(nodes[0], "{\"get\":{\"target\":{\"name\":\"tcp\"},\"name\":\"mss\"}}", answer, sizeof answer) < 0)
        fail(answer, 0);
    printf("%" PRIu64 " bytes equal in %.3f s of virtual time; rtt %u us, mss %u, cwnd %u segments, retransmitted %u\n", received,
           (double)finished / 1e9, info.tcpi_rtt, info.tcpi_snd_mss, info.tcpi_snd_cwnd, info.tcpi_total_retrans);
    if (weft_close(nodes[0], client) < 0 || weft_close(nodes[0], client) != -EBADF)
        fail("close", 0);
    for (int of = 0; of < NODES; of++)
        weft_node_free(nodes[of]);
    free(wire);
    return 0;
}
