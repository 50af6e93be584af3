"""The program whose TCP is looked at: it makes the socket calls that come through a unix socket, and says what each gave.

It runs natively and under `weft run`; the unix socket is the kernel's on either. Sockets do not block: a call that Linux would wait in says EAGAIN.
A request is a line of JSON {"id", "play", "call", "words"}; the answer is {"id", "said"}.
"""

import errno
import json
import os
import select
import socket
import struct
import sys

# Bytes of a stream at position n, so that what arrives can be told from what was sent elsewhere.
PATTERN = bytes((n * 7 + n // 251) & 0xFF for n in range(65536))
OPTIONS = {
    **{name: (socket.IPPROTO_TCP, number) for name, number in {
        "TCP_NODELAY": 1, "TCP_MAXSEG": 2, "TCP_CORK": 3, "TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6, "TCP_SYNCNT": 7,
        "TCP_LINGER2": 8, "TCP_DEFER_ACCEPT": 9, "TCP_WINDOW_CLAMP": 10, "TCP_QUICKACK": 12, "TCP_USER_TIMEOUT": 18, "TCP_RTO_MAX_MS": 44, "TCP_RTO_MIN_US": 45, "TCP_DELACK_MAX_US": 46, "TCP_FASTOPEN": 23,
        "TCP_TIMESTAMP": 24, "TCP_NOTSENT_LOWAT": 25, "TCP_FASTOPEN_CONNECT": 30, "TCP_FASTOPEN_KEY": 33, "TCP_FASTOPEN_NO_COOKIE": 34,
        "TCP_INQ": 36, "TCP_THIN_LINEAR_TIMEOUTS": 16,
    }.items()},
    "SO_SNDBUF": (socket.SOL_SOCKET, socket.SO_SNDBUF), "SO_RCVBUF": (socket.SOL_SOCKET, socket.SO_RCVBUF),
    "SO_KEEPALIVE": (socket.SOL_SOCKET, socket.SO_KEEPALIVE), "SO_ERROR": (socket.SOL_SOCKET, socket.SO_ERROR),
    "SO_RCVLOWAT": (socket.SOL_SOCKET, socket.SO_RCVLOWAT), "SO_OOBINLINE": (socket.SOL_SOCKET, socket.SO_OOBINLINE),
}
FLAGS = {"more": socket.MSG_MORE, "oob": socket.MSG_OOB, "peek": socket.MSG_PEEK, "eor": socket.MSG_EOR, "trunc": socket.MSG_TRUNC, "zerocopy": 0x4000000}
EVENTS = {"IN": select.POLLIN, "PRI": select.POLLPRI, "OUT": select.POLLOUT, "ERR": select.POLLERR, "HUP": select.POLLHUP, "RDHUP": 0x2000}
SIOCOUTQ, SIOCINQ, SIOCOUTQNSD, SIOCATMARK = 0x5411, 0x541B, 0x894B, 0x8905
# struct tcp_info: what stands at which byte.
INFO = {
    "state": ("B", 0), "ca_state": ("B", 1), "retransmits": ("B", 2), "probes": ("B", 3), "backoff": ("B", 4), "options": ("B", 5),
    "wscales": ("B", 6), "fastopen_fail": ("B", 7), "rto": ("I", 8), "ato": ("I", 12), "snd_mss": ("I", 16), "rcv_mss": ("I", 20),
    "unacked": ("I", 24), "sacked": ("I", 28), "lost": ("I", 32), "retrans": ("I", 36), "last_data_sent": ("I", 44), "last_data_recv": ("I", 52),
    "last_ack_recv": ("I", 56), "pmtu": ("I", 60), "rcv_ssthresh": ("I", 64), "rtt": ("I", 68), "rttvar": ("I", 72), "snd_ssthresh": ("I", 76),
    "snd_cwnd": ("I", 80), "advmss": ("I", 84), "reordering": ("I", 88), "rcv_space": ("I", 96), "total_retrans": ("I", 100),
    "pacing_rate": ("Q", 104), "bytes_acked": ("Q", 120), "bytes_received": ("Q", 128), "segs_out": ("I", 136), "segs_in": ("I", 140),
    "notsent_bytes": ("I", 144), "min_rtt": ("I", 148), "data_segs_in": ("I", 152), "data_segs_out": ("I", 156), "delivery_rate": ("Q", 160),
    "busy_time": ("Q", 168), "rwnd_limited": ("Q", 176), "sndbuf_limited": ("Q", 184), "delivered": ("I", 192), "delivered_ce": ("I", 196),
    "bytes_sent": ("Q", 200), "bytes_retrans": ("Q", 208), "dsack_dups": ("I", 216), "reord_seen": ("I", 220), "rcv_ooopack": ("I", 224),
    "snd_wnd": ("I", 228), "rcv_wnd": ("I", 232), "total_rto": ("H", 240), "total_rto_recoveries": ("H", 242),
}
# Fields that are times: whether there is any.
CLASSES = {"busy_time", "rwnd_limited", "sndbuf_limited", "last_data_sent", "last_data_recv", "last_ack_recv"}
# Less than this, in microseconds, is no time: a call takes a while.
TIME_MIN = {"busy_time": 10_000, "rwnd_limited": 10_000, "sndbuf_limited": 10_000}
PIECE = 1 << 20


def pattern(at, length):
    """`length` bytes of the stream from position `at` on."""
    start = at % len(PATTERN)
    return (PATTERN * (2 + (start + length) // len(PATTERN)))[start:start + length]


class Play:
    """The sockets of one script: the one that it speaks of, and its listener."""

    def __init__(self, local, remote):
        self.local, self.remote = local, remote
        self.family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
        self.sockets = {}
        self.sent = self.received = 0

    def make(self, name):
        if name not in self.sockets:
            self.sockets[name] = made = socket.socket(self.family, socket.SOCK_STREAM)
            made.setblocking(False)
            # weft's default; what a kernel takes is its builder's choice, and only this asks no more than rights over the namespace.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        return self.sockets[name]

    def call(self, name, call, words):
        # An error leaves nothing half done here: the socket is what it is.
        return getattr(self, "call_" + call)(name, *words)

    def call_socket(self, name):
        self.make(name)

    def call_listen(self, name, backlog="16"):
        listener = self.make(name)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.getsockname()[1] == 0:
            listener.bind(tuple(self.local))
        listener.listen(int(backlog))

    def call_accept(self, name):
        accepted, _ = self.sockets["listener"].accept()
        accepted.setblocking(False)
        self.sockets[name] = accepted

    def call_bind(self, name):
        self.make(name).bind(tuple(self.local))

    def call_connect(self, name):
        self.make(name).connect(tuple(self.remote))

    def call_send(self, name, length, *flags):
        # One position for a play: scripts with one connection have one stream.
        data = pattern(self.sent, int(length))
        taken = self.sockets[name].send(data, sum(FLAGS[flag] for flag in flags))
        self.sent += taken
        return taken

    def call_sendto(self, name, length):
        """With MSG_FASTOPEN."""
        taken = self.make(name).sendto(pattern(self.sent, int(length)), 0x20000000, tuple(self.remote))
        self.sent += taken
        return taken

    def call_fill(self, name, piece="100000", *flags):
        """Writes until the socket takes no more."""
        taken = 0
        try:
            while taken < 64 << 20:
                taken += self.call_send(name, piece, *flags)
        except BlockingIOError:
            pass
        return taken

    def call_recv(self, name, length, *flags):
        data = self.sockets[name].recv(int(length), sum(FLAGS[flag] for flag in flags))
        good = data == pattern(self.received, len(data))
        if "peek" not in flags and "oob" not in flags:
            self.received += len(data)
        return f"{len(data)}" if good or "oob" in flags or "trunc" in flags else f"{len(data)} wrong bytes"

    def call_drain(self, name):
        """Reads all that there is."""
        count = 0
        try:
            while data := self.sockets[name].recv(PIECE):
                if data != pattern(self.received, len(data)):
                    return f"{count} and wrong bytes"
                count += len(data)
                self.received += len(data)
        except BlockingIOError:
            return count
        return f"{count} and the end"

    def call_set(self, name, option, value):
        level, number = OPTIONS[option]
        self.make(name).setsockopt(level, number, bytes.fromhex(value[2:]) if value.startswith("0x") else int(value))

    def call_get(self, name, option):
        return self.make(name).getsockopt(*OPTIONS[option])

    def call_getkey(self, name, length="16"):
        return self.make(name).getsockopt(*OPTIONS["TCP_FASTOPEN_KEY"], int(length)).hex()

    def call_linger(self, name, on, seconds):
        self.make(name).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(on), int(seconds)))

    def call_control(self, name, algorithm):
        self.make(name).setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())

    def call_shutdown(self, name, how):
        self.sockets[name].shutdown({"rd": socket.SHUT_RD, "wr": socket.SHUT_WR, "rdwr": socket.SHUT_RDWR}[how])

    def call_close(self, name):
        self.sockets.pop(name).close()

    def call_poll(self, name):
        poller = select.poll()
        poller.register(self.sockets[name], sum(EVENTS.values()))
        found = poller.poll(0)
        return "+".join(word for word, bit in EVENTS.items() if found and found[0][1] & bit) or "nothing"

    def number(self, name, request):
        import fcntl
        return struct.unpack("i", fcntl.ioctl(self.sockets[name], request, b"\0\0\0\0"))[0]

    def call_outq(self, name):
        return self.number(name, SIOCOUTQ)

    def call_inq(self, name):
        return self.number(name, SIOCINQ)

    def call_unsent(self, name):
        return self.number(name, SIOCOUTQNSD)

    def call_atmark(self, name):
        return self.number(name, SIOCATMARK)

    def call_info(self, name, *fields):
        info = self.sockets[name].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 320)
        return " ".join(f"{field}={self.field(info, field)}" for field in fields)

    @staticmethod
    def field(info, name):
        form, at = INFO[name]
        value = struct.unpack_from(form, info, at)[0]
        if name in CLASSES:
            return "some" if value >= TIME_MIN.get(name, 1) else "none"
        return value

    def end(self):
        for one in self.sockets.values():
            # What a script leaves behind sends nothing into another one's time: it is reset.
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
            one.close()
        self.sockets.clear()


def answer(plays, request):
    play, call, words = request["play"], request["call"], request["words"]
    if call == "begin":
        plays[play] = Play(*words)
        return "ok"
    if call == "end":
        plays.pop(play).end()
        return "ok"
    try:
        said = plays[play].call(request["socket"], call, words)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__} {error}"
    return "ok" if said is None else str(said)


def main():
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(sys.argv[1])
    plays, left = {}, b""
    while received := control.recv(PIECE):
        *lines, left = (left + received).split(b"\n")
        for line in lines:
            request = json.loads(line)
            control.sendall(json.dumps({"id": request["id"], "said": answer(plays, request)}).encode() + b"\n")
    # Nobody needs the interpreter to put itself away.
    os._exit(0)


if __name__ == "__main__":
    main()
