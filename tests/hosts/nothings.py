"""Calls that move no bytes, on sockets of every kind and state: what each comes to, and whether a datagram of nothing is sent."""

import ctypes
import signal
import socket
import struct

from answers import coded

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
READ, WRITE, READV, WRITEV, SENDTO, RECVFROM, SENDMSG, RECVMSG, PREADV2, PWRITEV2 = 0, 1, 19, 20, 44, 45, 46, 47, 327, 328
NOWAIT = 8
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
NOWHERE = 8
WHERE_IT_STANDS = -1
scratch = ctypes.create_string_buffer(4096)
AT = ctypes.addressof(scratch)
MANY = 1024


def call(number, *words):
    return coded(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words)))


def vectors(count, base=AT):
    """So many buffers of nothing."""
    array = struct.pack("=QQ", base, 0) * count
    at = ctypes.create_string_buffer(array, len(array) + 16)
    return at, ctypes.addressof(at)


def gathered(number, f, *rest):
    """By lists of no buffer, of one, of many, of one that lies nowhere; and where the list lies nowhere, or is too long."""
    answers = []
    for count, base in ((0, AT), (1, AT), (MANY, AT), (1, NOWHERE)):
        kept, at = vectors(count, base)
        answers.append(call(number, f, at, count, *rest))
    return [*answers, call(number, f, NOWHERE, 0, *rest), call(number, f, NOWHERE, 1, *rest), call(number, f, NOWHERE, MANY + 1, *rest)]


def message(number, f, flags):
    answers = []
    for count in (0, 1):
        kept, at = vectors(count)
        header = ctypes.create_string_buffer(struct.pack("=QI4xQQQQi4x", 0, 0, at, count, 0, 0, 0), 56)
        answers.append(call(number, f, ctypes.addressof(header), flags))
    return answers


DONTWAIT = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
WRITES = {
    "write": lambda f: [call(WRITE, f, AT, 0), call(WRITE, f, NOWHERE, 0)],
    "writev": lambda f: gathered(WRITEV, f),
    "pwritev2": lambda f: gathered(PWRITEV2, f, WHERE_IT_STANDS, WHERE_IT_STANDS, 0),
    "pwritev2 without waiting": lambda f: gathered(PWRITEV2, f, WHERE_IT_STANDS, WHERE_IT_STANDS, NOWAIT),
    "send": lambda f: [call(SENDTO, f, AT, 0, DONTWAIT, 0, 0), call(SENDTO, f, 0, 0, DONTWAIT, 0, 0)],
    "sendmsg": lambda f: message(SENDMSG, f, DONTWAIT),
}
READS = {
    "read": lambda f: [call(READ, f, AT, 0), call(READ, f, NOWHERE, 0)],
    "readv": lambda f: gathered(READV, f),
    "preadv2": lambda f: gathered(PREADV2, f, WHERE_IT_STANDS, WHERE_IT_STANDS, 0),
    "preadv2 without waiting": lambda f: gathered(PREADV2, f, WHERE_IT_STANDS, WHERE_IT_STANDS, NOWAIT),
    "recv": lambda f: [call(RECVFROM, f, AT, 0, DONTWAIT, 0, 0)],
    "recvmsg": lambda f: message(RECVMSG, f, DONTWAIT),
}


def datagrams(family):
    kind, host = FAMILIES[family]
    a, b = socket.socket(kind, socket.SOCK_DGRAM), socket.socket(kind, socket.SOCK_DGRAM)
    a.bind((host, 0)), b.bind((host, 0))
    a.connect(b.getsockname()), b.connect(a.getsockname())
    return a, b


def streams(family):
    kind, host = FAMILIES[family]
    listener = socket.create_server((host, 0), family=kind)
    a = socket.create_connection(listener.getsockname()[:2])
    return a, listener.accept()[0]


PAIRS = {
    "udp4": lambda: datagrams("4"),
    "udp6": lambda: datagrams("6"),
    "tcp4": lambda: streams("4"),
    "tcp6": lambda: streams("6"),
    "unix stream": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM),
    "unix datagram": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "unix packet": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
}


def all_of(b):
    """The lengths of all that comes until the end, of a datagram socket until a word."""
    lengths = []
    while (data := b.recv(99)) != b"the end" and (data or b.type != socket.SOCK_STREAM):
        lengths.append(len(data))
    return lengths


signal.signal(signal.SIGPIPE, signal.SIG_IGN)
for kind, pair in PAIRS.items():
    for name, writes in WRITES.items():
        a, b = pair()
        answers = writes(a.fileno())
        a.send(b"the end")
        print(kind, name, *answers, "| the peer has", all_of(b))
    for name, reads in READS.items():
        a, b = pair()
        for word in (b"one",) if b.type == socket.SOCK_STREAM else (b"one", b"two", b"three"):
            b.send(word)
        a.recv(1, socket.MSG_PEEK)
        answers = reads(a.fileno())
        print(kind, name, *answers, "| then", a.recv(99))

UNCONNECTED = {
    "udp4": (socket.AF_INET, socket.SOCK_DGRAM),
    "udp6": (socket.AF_INET6, socket.SOCK_DGRAM),
    "tcp4": (socket.AF_INET, socket.SOCK_STREAM),
    "tcp6": (socket.AF_INET6, socket.SOCK_STREAM),
    "netlink": (socket.AF_NETLINK, socket.SOCK_RAW),
    "unix stream": (socket.AF_UNIX, socket.SOCK_STREAM),
    "unix datagram": (socket.AF_UNIX, socket.SOCK_DGRAM),
    "unix packet": (socket.AF_UNIX, socket.SOCK_SEQPACKET),
}
for kind, (family, what) in UNCONNECTED.items():
    for name, moves in (WRITES | READS).items():
        a = socket.socket(family, what)
        a.setblocking(False)
        print(kind, "not connected", name, *moves(a.fileno()))
for kind, pair in PAIRS.items():
    for name, writes in WRITES.items():
        a, b = pair()
        a.shutdown(socket.SHUT_WR)
        print(kind, "shut for writing", name, *writes(a.fileno()))
    for name, reads in READS.items():
        a, b = pair()
        a.shutdown(socket.SHUT_RD)
        a.setblocking(False)
        print(kind, "shut for reading", name, *reads(a.fileno()))
