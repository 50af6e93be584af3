/* What a program gets that does not use libweft as it must: errnos and messages, each checked. Exit status 0: all as said. */
#include "weft.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(what, wanted)                                                                      \
    do {                                                                                          \
        long long got_ = (long long)(what);                                                       \
        if (got_ != (wanted)) {                                                                   \
            fprintf(stderr, "line %d: %s gave %lld, not %lld\n", __LINE__, #what, got_, (long long)(wanted)); \
            exit(1);                                                                              \
        }                                                                                         \
        checks++;                                                                                 \
    } while (0)

static int checks;

static void refused(const char *stack, const char *word) {
    char error[512] = "";
    EXPECT(weft_node_new(stack, 1, error, sizeof error) == NULL, 1);
    if (strstr(error, word) == NULL) {
        fprintf(stderr, "no '%s' in: %s\n", word, error);
        exit(1);
    }
    checks++;
}

int main(void) {
    refused(NULL, "NULL");
    refused("[node\n", "stack:1");
    refused("[[interface]]\nname = \"eth0\"\nbackend = \"tap:weft0\"\n", "stack:3: backend \"tap:weft0\" is a device");
    refused("[[interface]]\nname = \"eth0\"\nbackend = \"memory:x\"\nlink = \"wireless\"\n", "stack:4");
    EXPECT(weft_node_new("[", 1, NULL, 0) == NULL, 1);
    EXPECT(weft_node_open("/nowhere/at/all", 1, NULL, 0) == NULL, 1);

    const char *raw = "[[interface]]\nname = \"tun\"\nbackend = \"memory:x\"\nlink = \"raw\"\n"
                      "[[address]]\ninterface = \"tun\"\naddress = \"10.9.0.1/24\"\n";
    char error[512], small[4], buffer[2048];
    weft_node *node = weft_node_new(raw, 1, error, sizeof error);
    if (node == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    EXPECT(weft_interface(node, "eth9"), -ENODEV);
    EXPECT(weft_interface(node, NULL), -EFAULT);
    EXPECT(weft_interface(NULL, "tun"), -EFAULT);
    int tun = weft_interface(node, "tun");
    EXPECT(weft_interface_is_ethernet(node, (uint32_t)tun), 0);
    EXPECT(weft_input(node, 99, buffer, 20), -ENODEV);
    EXPECT(weft_input(node, (uint32_t)tun, NULL, 20), -EFAULT);
    memset(buffer, 0xff, sizeof buffer);
    EXPECT(weft_input(node, (uint32_t)tun, buffer, sizeof buffer), 0);
    EXPECT(weft_input(node, (uint32_t)tun, buffer, 0), 0);
    EXPECT(weft_output(node, NULL, buffer, sizeof buffer), 0);
    EXPECT(weft_advance(node, 5), 0);
    EXPECT(weft_advance(node, 4), -EINVAL);
    EXPECT(weft_advance(node, -1), -EINVAL);
    EXPECT(weft_now(node), 5);

    EXPECT(weft_socket(node, AF_UNIX, SOCK_STREAM, 0), -EAFNOSUPPORT);
    EXPECT(weft_close(node, 0), -EBADF);
    int fd = weft_socket(node, AF_INET, SOCK_DGRAM, 0);
    EXPECT(fd, 0);
    struct sockaddr_in name;
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    EXPECT(weft_bind(node, fd, NULL, sizeof name), -EFAULT);
    EXPECT(weft_bind(node, fd, (struct sockaddr *)&name, 1 << 20), -EINVAL);
    EXPECT(weft_recv(node, fd, buffer, sizeof buffer, 0), WEFT_PENDING);
    EXPECT(weft_recv(node, fd, buffer, sizeof buffer, MSG_DONTWAIT), -EAGAIN);
    EXPECT(weft_recv(node, fd, NULL, 1, 0), -EFAULT);
    EXPECT(weft_send(node, fd, buffer, 1, 0), -EDESTADDRREQ);
    EXPECT(weft_fcntl(node, fd, 4 /* F_SETFL */, 04000 /* O_NONBLOCK */), 0);
    EXPECT(weft_recv(node, fd, buffer, sizeof buffer, 0), -EAGAIN);

    /* A packet to somebody on the link leaves at once: there is no neighbour to ask on a raw interface. */
    name.sin_addr.s_addr = htonl(0x0a090002);
    name.sin_port = htons(9);
    EXPECT(weft_sendto(node, fd, "hello", 5, 0, (struct sockaddr *)&name, sizeof name), 5);
    EXPECT(weft_output(node, NULL, small, sizeof small), -EMSGSIZE);
    EXPECT(weft_output(node, NULL, buffer, sizeof buffer), 33);
    EXPECT(buffer[0], 0x45);

    /* SO_RCVTIMEO: the pending call is over when its time is. */
    int waiting = weft_socket(node, AF_INET, SOCK_DGRAM, 0);
    struct {
        int64_t seconds, microseconds;
    } limit = {1, 0};
    EXPECT(weft_setsockopt(node, waiting, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    EXPECT(weft_recv(node, waiting, buffer, sizeof buffer, 0), WEFT_PENDING);
    EXPECT(weft_next(node) <= 1000000005, 1);
    EXPECT(weft_advance(node, 1000000005), 0);
    int changed = weft_changed(node);
    EXPECT(changed, waiting);
    EXPECT(weft_recv(node, waiting, buffer, sizeof buffer, 0), -EAGAIN);

    struct pollfd polled[3] = {{fd, POLLOUT, 0}, {42, POLLIN, 0}, {-1, POLLIN, 0}};
    EXPECT(weft_poll(node, polled, 3), 2);
    EXPECT(polled[0].revents, POLLOUT);
    EXPECT(polled[1].revents, POLLNVAL);
    EXPECT(polled[2].revents, 0);
    EXPECT(weft_poll(node, NULL, 1), -EFAULT);
    EXPECT(weft_control(node, "{", buffer, sizeof buffer), -EINVAL);
    EXPECT(weft_control(node, "{\"show\":\"blocks\"}", small, sizeof small), -EMSGSIZE);
    EXPECT(weft_control(node, "{\"show\":\"blocks\"}", buffer, 0), -EMSGSIZE);
    weft_node_free(NULL);
    weft_node_free(node);
    printf("%d mistakes answered as they should be\n", checks);
    return 0;
}
