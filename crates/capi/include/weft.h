/* libweft: a weft node as a C library. Made from crates/capi/src by its tests (WEFT_SNAPSHOT=write renews it).
 *
 * The library has no thread, clock, device or descriptor of its own: feed it frames, take frames, move its clock, make calls. Every call answers
 * at once: with a result, with a negative errno of Linux, or with WEFT_PENDING where a native call on a blocking socket would wait. A node is
 * used by one thread at a time; different nodes may be used by different threads. NULL where a pointer is needed gives -EFAULT.
 * crates/capi/examples/two_nodes.c shows its use. */

#ifndef WEFT_H
#define WEFT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// A call on a blocking socket has to wait: make it again, with the same arguments, when `weft_changed` names the descriptor. No errno has
// this value.
#define WEFT_PENDING -4096

// `weft_next`: nothing is due, whatever the time.
#define WEFT_NEVER -1

// A node: a machine with its own stack. Opaque.
typedef struct weft_node weft_node;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a node from the text of a stack file. Its interfaces must have the backend `memory:NAME` (`link = "raw"` for IP packets without
// Ethernet header). `seed` makes its randomness: the same file, seed, frames, calls and times give the same bytes. NULL: it failed, and
// `error` (`error_bytes` large, or NULL) says what is wrong, in which line, and what to do.
weft_node *weft_node_new(const char *stack,
                         uint64_t seed,
                         char *error,
                         size_t error_bytes);

// As weft_node_new, from the file at `path`.
weft_node *weft_node_open(const char *path, uint64_t seed, char *error, size_t error_bytes);

// Ends a node with everything in it. NULL is allowed.
void weft_node_free(weft_node *node);

// The node's time, nanoseconds. It begins at 0.
int64_t weft_now(weft_node *node);

// When weft_advance should be called next, if nothing else happens; WEFT_NEVER: nothing is due.
int64_t weft_next(weft_node *node);

// Moves the clock to `nanoseconds` and does what is due on the way, each at its own time. -EINVAL: that is in the past.
int weft_advance(weft_node *node,
                 int64_t nanoseconds);

// The number of an interface of the stack file, for the frame calls; -ENODEV: there is none of that name.
int weft_interface(weft_node *node,
                   const char *name);

// 1: frames of this interface begin with an Ethernet header; 0: with an IP header; -ENODEV.
int weft_interface_is_ethernet(weft_node *node, uint32_t interface);

// A frame arrives at an interface. What it causes happens before this returns. 0, or -ENODEV.
int weft_input(weft_node *node, uint32_t interface, const void *frame, size_t length);

// Takes the next frame that is to leave: its length, with its interface in `*interface` (unless NULL); 0: there is none. -EMSGSIZE: it is longer
// than `length`, and stays; no frame is longer than the interface's MTU and 18 bytes.
int64_t weft_output(weft_node *node,
                    uint32_t *interface,
                    void *buffer,
                    size_t length);

// Frames that were lost because nobody took them with weft_output (65,536 wait at most).
uint64_t weft_output_lost(weft_node *node);

// Sends a control message, JSON as on the control socket of `weft up` (for example {"list":"Sockets"}), and writes the answer, JSON too, to
// `answer`. Returns its length, -EINVAL with a message in `answer` when it was refused, -EMSGSIZE when `answer` is too small.
int64_t weft_control(weft_node *node,
                     const char *request,
                     char *answer,
                     size_t length);

// A descriptor of whose socket something changed since it was last named here, or whose pending call ran out of time: make pending calls again,
// poll it. Lowest first; -1: none.
int weft_changed(weft_node *node);

// socket(2). The descriptor belongs to the node; numbers begin at 0.
int weft_socket(weft_node *node, int domain, int kind, int protocol);

// close(2).
int weft_close(weft_node *node, int fd);

// bind(2).
int weft_bind(weft_node *node, int fd, const struct sockaddr *address, socklen_t length);

// connect(2). On a blocking socket WEFT_PENDING until the outcome is known.
int weft_connect(weft_node *node, int fd, const struct sockaddr *address, socklen_t length);

// listen(2).
int weft_listen(weft_node *node, int fd, int backlog);

// accept4(2). On a blocking socket WEFT_PENDING while no connection waits.
int weft_accept(weft_node *node, int fd, struct sockaddr *address, socklen_t *length, int flags);

// shutdown(2).
int weft_shutdown(weft_node *node, int fd, int how);

// getsockname(2).
int weft_getsockname(weft_node *node, int fd, struct sockaddr *address, socklen_t *length);

// getpeername(2).
int weft_getpeername(weft_node *node, int fd, struct sockaddr *address, socklen_t *length);

// setsockopt(2).
int weft_setsockopt(weft_node *node,
                    int fd,
                    int level,
                    int name,
                    const void *value,
                    socklen_t length);

// getsockopt(2); SO_GET_FILTER tells bytes here; TCP_INFO fills struct tcp_info, cut to `*length`.
int weft_getsockopt(weft_node *node, int fd, int level, int name, void *value, socklen_t *length);

// send(2). How many bytes were taken: on a blocking stream, too, that may be fewer than `length`; WEFT_PENDING when none were.
int64_t weft_send(weft_node *node,
                  int fd,
                  const void *data,
                  size_t length,
                  int flags);

// sendto(2).
int64_t weft_sendto(weft_node *node,
                    int fd,
                    const void *data,
                    size_t length,
                    int flags,
                    const struct sockaddr *address,
                    socklen_t address_length);

// sendmsg(2), with control messages.
int64_t weft_sendmsg(weft_node *node, int fd, const struct msghdr *message, int flags);

// recv(2). WEFT_PENDING while there is nothing, on a blocking socket. MSG_WAITALL does not wait: what is there is returned.
int64_t weft_recv(weft_node *node,
                  int fd,
                  void *buffer,
                  size_t length,
                  int flags);

// recvfrom(2).
int64_t weft_recvfrom(weft_node *node,
                      int fd,
                      void *buffer,
                      size_t length,
                      int flags,
                      struct sockaddr *address,
                      socklen_t *address_length);

// recvmsg(2), with control messages; what of them does not fit is cut off, and MSG_CTRUNC set.
int64_t weft_recvmsg(weft_node *node, int fd, struct msghdr *message, int flags);

// ioctl(2) for FIONREAD, SIOCOUTQ and the others that sockets have: `argument` is read and written, `length` bytes. FIONBIO sets O_NONBLOCK.
int weft_ioctl(weft_node *node,
               int fd,
               uint64_t request,
               void *argument,
               size_t length);

// fcntl(2) for F_GETFL and F_SETFL with O_NONBLOCK; other commands give -EINVAL.
int weft_fcntl(weft_node *node, int fd, int command, int argument);

// poll(2) without waiting: fills in `revents` and returns how many are not 0. To wait, advance the clock and feed frames until weft_changed names
// one of them.
int weft_poll(weft_node *node,
              struct pollfd *entries,
              size_t count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WEFT_H */
