"""Calls on sockets with lengths, flags and memory at the edge: negative, huge, ending in the middle, nowhere. What each comes to."""

import ctypes
import errno
import mmap
import os
import select
import socket
import struct

from answers import runs

libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
PROT_NONE = 0
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.syscall.restype = ctypes.c_long
SENDTO, RECVFROM, SENDMSG, RECVMSG, BIND, CONNECT, GETSOCKNAME, GETPEERNAME, ACCEPT, LISTEN, SHUTDOWN, SOCKET = (
    44,
    45,
    46,
    47,
    49,
    42,
    51,
    52,
    43,
    50,
    48,
    41,
)
WRITE, WRITEV, READ, READV = 1, 20, 0, 19
NOWHERE = 8
LENGTHS = (-(1 << 31), -1, 0, 1, 2, 7, 8, 15, 16, 17, 23, 24, 27, 28, 29, 128, 129, 4096, (1 << 31) - 1)


def call(number, *words):
    """A system call by its number: libc changes nothing."""
    result = libc.syscall(ctypes.c_long(number), *(word if isinstance(word, ctypes._SimpleCData) else ctypes.c_long(word) for word in words))
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result


class Edge:
    """Two pages that can be read and written, and one behind them that cannot."""

    def __init__(self):
        self.at = libc.mmap(None, 3 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        self.end = self.at + 2 * PAGE
        libc.mprotect(self.end, PAGE, PROT_NONE)
        ctypes.memset(self.at, ord("x"), 2 * PAGE)

    def before(self, data):
        """These bytes, the last of which is the last that can be read."""
        ctypes.memmove(self.end - len(data), data, len(data))
        return self.end - len(data)


edge = Edge()
scratch = ctypes.create_string_buffer(1 << 16)
AT = ctypes.addressof(scratch)


def raw(address):
    """`struct sockaddr_in` or `_in6`."""
    host, port = address[:2]
    if ":" in host:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def header(name=0, name_bytes=0, vectors=(), count=None, control=0, control_bytes=0, flags=0):
    """`struct msghdr`, somewhere."""
    array = b"".join(struct.pack("=QQ", at, length & (1 << 64) - 1) for at, length in vectors)
    ctypes.memmove(AT + 1024, array, len(array))
    packed = struct.pack(
        "=QI4xQQQQi4x", name, name_bytes & 0xFFFFFFFF, AT + 1024, len(vectors) if count is None else count, control, control_bytes, flags
    )
    ctypes.memmove(AT, packed, len(packed))
    return AT


END = b"the end"


def waiting(a, b):
    """The lengths of everything that has come from the one to the other: a datagram, or an end of the stream, is sent behind it."""
    got = []
    b.settimeout(5)
    if b.type == socket.SOCK_STREAM:
        a.shutdown(socket.SHUT_WR)
        while piece := b.recv(1 << 17):
            got.append(len(piece))
        return [sum(got)]
    a.send(END)
    while (piece := b.recv(1 << 17)) != END:
        got.append(len(piece))
    return got


def datagram_pair(family, host):
    a, b = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    a.bind((host, 0)), b.bind((host, 0))
    a.connect(b.getsockname()), b.connect(a.getsockname())
    return a, b


def stream_pair(family, host):
    listener = socket.create_server((host, 0), family=family)
    a = socket.create_connection(listener.getsockname()[:2])
    b, _ = listener.accept()
    listener.close()
    return a, b


PAIRS = {"udp": datagram_pair, "tcp": stream_pair}


def memory_of_data(kind, family, host):
    """Data that begins where it can be read, and ends where it cannot."""
    for size in (0, 1, 100, PAGE, 2 * PAGE):
        for more in (0, 1, 100, PAGE):
            a, b = PAIRS[kind](family, host)
            at = edge.end - size
            total = size + more
            vectors = header(vectors=[(at, size), (NOWHERE, more)])
            print(
                f"{kind} {size}+{more} sendto {call(SENDTO, a.fileno(), at, total, 0, 0, 0)} sendmsg {call(SENDMSG, a.fileno(), vectors, 0)}",
                end=" ",
            )
            print(f"more {call(SENDTO, a.fileno(), at, total, socket.MSG_DONTWAIT, 0, 0)}", end=" ")
            print("came", waiting(a, b))
            a.close(), b.close()


def room_for_data(kind, family, host):
    """Room that begins where it can be written, and ends where it cannot."""
    for size in (0, 1, 100):
        a, b = PAIRS[kind](family, host)
        a.send(b"y" * 50)
        a.send(b"z" * 50) if kind == "udp" else None
        b.recv(1, socket.MSG_PEEK)
        print(f"{kind} room {size} of 200: recvfrom {call(RECVFROM, b.fileno(), edge.end - size, 200, 0, 0, 0)}", end=" ")
        print(f"left {waiting(a, b)}")


def lengths_of_addresses(kind, family, host):
    """Lengths of addresses: bind, connect, sendto, names; and addresses that end where memory does."""
    what = socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
    peer = socket.socket(family, what)
    peer.bind((host, 0))
    peer.listen() if kind == "tcp" else None
    address = raw(peer.getsockname())
    ctypes.memset(AT, 0, 8192)
    own = raw((host, 0))
    ctypes.memmove(AT, own, len(own))

    def fresh(number, at, length, *before):
        s = socket.socket(family, what)
        s.setblocking(False)
        return call(number, s.fileno(), *before, at, length)

    print(kind, "bind", runs((length, fresh(BIND, AT, length)) for length in LENGTHS))
    ctypes.memmove(AT, address, len(address))
    print(kind, "connect", runs((length, fresh(CONNECT, AT, length)) for length in LENGTHS))
    print(kind, "sendto", runs((length, fresh(SENDTO, AT, length, AT, 3, 0)) for length in LENGTHS))

    def named(length):
        s = socket.socket(family, what)
        ctypes.memmove(AT + 4096, address, len(address))
        return call(SENDMSG, s.fileno(), header(AT + 4096, length, [(AT, 3)]), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    print(kind, "sendmsg", runs((length, named(length)) for length in LENGTHS))
    for number, name in ((BIND, "bind"), (CONNECT, "connect")):
        print(
            kind,
            name,
            "nowhere",
            fresh(number, NOWHERE, 16),
            fresh(number, 0, 0),
            fresh(number, 0, 16),
            fresh(number, edge.before(address[:8]), 28),
        )
    print(kind, "sendto nowhere", fresh(SENDTO, NOWHERE, 16, AT, 3, 0), fresh(SENDTO, NOWHERE, 0, AT, 3, 0), fresh(SENDTO, 0, 99, AT, 3, 0))
    for number, name in ((GETSOCKNAME, "getsockname"), (GETPEERNAME, "getpeername")):
        s = socket.socket(family, what)
        s.connect(peer.getsockname())

        def told(length, s=s, number=number):
            ctypes.memset(AT, 0xEE, 256)
            ctypes.memmove(AT + 4096, struct.pack("=i", length), 4)
            result = call(number, s.fileno(), AT, AT + 4096)
            # The port is another each time.
            written = max(0, len(bytes(scratch[:200]).rstrip(b"\xee")))
            return f"{result} {struct.unpack('=i', scratch[4096:4100])[0]} {written}"

        print(kind, name, runs((length, told(length)) for length in LENGTHS))
        ctypes.memmove(AT + 4096, struct.pack("=i", 28), 4)
        print(
            kind,
            name,
            "nowhere",
            call(number, s.fileno(), NOWHERE, AT + 4096),
            call(number, s.fileno(), AT, NOWHERE),
            call(number, s.fileno(), 0, 0),
        )
        s.close()


def lengths_of_messages(kind, family, host):
    """Numbers of iovecs, their lengths, lengths of control messages and of names, as sendmsg and recvmsg take them."""
    a, b = PAIRS[kind](family, host)
    f = a.fileno()
    for flags in (0, socket.MSG_DONTWAIT):
        print(
            kind, flags, "iovecs", *(call(SENDMSG, f, header(vectors=[(AT, 1)], count=count), flags) for count in (0, 1025, 1 << 32, (1 << 64) - 1))
        )
        print(
            kind,
            flags,
            "negative",
            call(SENDMSG, f, header(vectors=[(AT, -1)]), flags),
            call(SENDMSG, f, header(vectors=[(AT, 3), (AT, -5)]), flags),
        )
        print(kind, flags, "empty ones", call(SENDMSG, f, header(vectors=[(NOWHERE, 0), (AT, 3), (0, 0)]), flags))
        print(
            kind,
            flags,
            "control",
            *(
                call(SENDMSG, f, header(vectors=[(AT, 3)], control=at, control_bytes=size), flags)
                for at, size in (
                    (0, 100),
                    (NOWHERE, 0),
                    (NOWHERE, 100),
                    (AT + 8192, 100),
                    (AT + 8192, 1 << 20),
                    (AT + 8192, 1 << 31),
                    (AT + 8192, 3),
                )
            ),
        )
        print(kind, flags, "header", call(SENDMSG, f, 0, flags), call(SENDMSG, f, NOWHERE, flags), call(SENDMSG, f, edge.before(bytes(40)), flags))
    print(kind, "came", sum(waiting(a, b)))
    for size in (-1, -(1 << 31), 0, 15, 16, 100, 129, 1 << 20):
        a, b = PAIRS[kind](family, host)
        a.send(b"abc")
        b.recv(1, socket.MSG_PEEK)
        ctypes.memset(AT + 4096, 0xEE, 256)
        result = call(RECVMSG, b.fileno(), header(AT + 4096, size, [(AT + 2048, 3)]), 0)
        print(kind, "name of", size, result, struct.unpack("=i", scratch[8:12])[0], len(bytes(scratch[4096:4296]).rstrip(b"\xee")), waiting(a, b))


def huge(kind, family, host):
    """Lengths beyond what can be moved; flags that nobody knows."""
    a, b = PAIRS[kind](family, host)
    print(
        kind,
        "huge",
        *(
            call(SENDTO, a.fileno(), AT, ctypes.c_ulong(size), socket.MSG_DONTWAIT, 0, 0) if kind == "udp" else "-"
            for size in (65507, 65508, 65528, 1 << 31, 1 << 32, (1 << 64) - 1, 1 << 63)
        ),
    )
    print(kind, "came", waiting(a, b))
    a, b = PAIRS[kind](family, host)
    a.send(b"abcdef")
    b.recv(1, socket.MSG_PEEK)
    print(
        kind,
        "huge room",
        call(RECVFROM, b.fileno(), AT, ctypes.c_ulong((1 << 64) - 1), socket.MSG_PEEK, 0, 0),
        call(RECVFROM, b.fileno(), AT, 1 << 40, socket.MSG_PEEK, 0, 0),
    )
    for bit in range(32):
        if (1 << bit) in (socket.MSG_WAITALL, socket.MSG_ERRQUEUE) or 1 << bit == 0x8000 and kind == "tcp":
            continue
        flags = 1 << bit
        s, t = PAIRS[kind](family, host)
        sent = call(SENDTO, s.fileno(), AT, 4, flags | socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, 0, 0)
        s.send(b"more")
        t.recv(1, socket.MSG_PEEK)
        got = call(RECVFROM, t.fileno(), AT + 4096, 2, flags | socket.MSG_DONTWAIT, 0, 0)
        print(kind, f"flag {flags:#x}: sent {sent} got {got}")
        s.close(), t.close()


def numbers(family, host):
    """Numbers that make sockets, backlogs, ways to shut down."""
    kinds = (-1, 0, 1, 2, 3, 4, 5, 6, 11, 15, 0x801, 0x80001, 0x1001, 0x7FFFFFFF)
    # Datagrams of ICMP are a matter of rights.
    protocols = (-1, 0, 2, 6, 17, 41, 132, 255, 256, 263, 1 << 20)
    for kind in kinds:

        def made(protocol, kind=kind):
            fd = call(SOCKET, family, kind, protocol)
            if isinstance(fd, int):
                os.close(fd)
                return "made"
            return fd

        print("socket", kind, runs((protocol, made(protocol)) for protocol in protocols))
        if kind in (1, 2):
            print("UDP-Lite" if kind == 2 else "MPTCP", made(136 if kind == 2 else 262))
    print(
        "family",
        runs(
            (number, "made" if isinstance(fd := call(SOCKET, number, 2, 0), int) and not os.close(fd) else fd)
            for number in (-1, 0, 11, 12, 46, 47, 255, 1 << 30)
        ),
    )
    for backlog in (-1, 0, 1 << 30, -(1 << 31)):
        s = socket.socket(family, socket.SOCK_STREAM)
        s.bind((host, 0))
        print("listen", backlog, call(LISTEN, s.fileno(), backlog))
    for kind in PAIRS:
        for how in (-1, 3, 4, 1 << 30):
            a, b = PAIRS[kind](family, host)
            print(kind, "shutdown", how, call(SHUTDOWN, a.fileno(), how))


def names_of_nothing(family, host):
    """sendto with a name of length 0, somewhere and nowhere."""
    for kind, (what, protocol) in {"tcp": (socket.SOCK_STREAM, 0), "udp": (socket.SOCK_DGRAM, 0), "raw": (socket.SOCK_RAW, 253)}.items():
        peer = socket.socket(family, what, protocol)
        peer.bind((host, 0))
        peer.listen() if kind == "tcp" else None
        for connected in (False, True):
            s = socket.socket(family, what, protocol)
            s.connect(peer.getsockname()) if connected else None
            answers = [call(SENDTO, s.fileno(), AT, 3, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, at, 0) for at in (AT, NOWHERE, 0)]
            answers.append(call(SENDMSG, s.fileno(), header(AT + 4096, 0, [(AT, 3)]), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL))
            print(kind, "connected" if connected else "not connected", "name of nothing", *answers)


def wrong_in_two_ways(family, host):
    """Datagrams that cannot be read, and are too long, or go nowhere, or may not be sent: which of these is told?"""
    quiet = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    kinds = {"udp": (socket.SOCK_DGRAM, 0), "raw": (socket.SOCK_RAW, 253), "icmp": (socket.SOCK_RAW, 1 if family == socket.AF_INET else 58)}
    for kind, (what, protocol) in kinds.items():
        peer = socket.socket(family, what, protocol)
        peer.bind((host, 0))
        peer.connect((host, 9))

        def made(state):
            s = socket.socket(family, what, protocol)
            if state != "not connected":
                s.connect(peer.getsockname())
            if state == "shut":
                s.shutdown(socket.SHUT_WR)
            if state == "corked":
                s.send(b"before", socket.MSG_MORE)
            return s

        for state in ("not connected", "connected", "shut", "corked"):
            for flags in (0, socket.MSG_OOB, socket.MSG_MORE):
                sizes = (1, 2, 100, 60_000, 65_507, 65_508, 65_536, 70_000, 1 << 20)
                each = [(size, made(state)) for size in sizes]
                answers = runs((size, call(SENDTO, s.fileno(), NOWHERE, size, flags | quiet, 0, 0)) for size, s in each)
                print(kind, state, "flags", flags, "unreadable", answers)
            s = made(state)
            bad = call(SENDTO, s.fileno(), NOWHERE, 10, quiet, 0, 0)
            print(kind, state, "unreadable", bad, "and then", call(SENDTO, s.fileno(), AT, 10, quiet, 0, 0))
        name = ctypes.create_string_buffer(raw((host, 9)), len(raw((host, 9))))
        at = ctypes.addressof(name)
        for bytes in (0, 4, len(name) - 1):
            s = socket.socket(family, what, protocol)
            print(kind, "a name of", bytes, "bytes, unreadable", call(SENDTO, s.fileno(), NOWHERE, 10, quiet, at, bytes))


# Addresses that no program has, and of which one has the first byte.
PLACES = {"the kernel's": -(1 << 47), "nobody's": 1 << 62, "a page": AT}
SIZES = {"0": 0, "1": 1, "2^31": 1 << 31, "2^47": 1 << 47, "2^63-1": (1 << 63) - 1, "-1": -1}


def places(kind, make) -> None:
    """Buffers that lie where no program has memory, or reach there: whether anything waits, and for each way to pass one."""

    def vectors(fd, at, size, count):
        array = struct.pack("=QQ", at & (1 << 64) - 1, size & (1 << 64) - 1)
        ctypes.memmove(AT + 1024, array * count, 16 * count)
        return fd, AT + 1024, count

    reads = {
        "read": lambda fd, at, size: call(READ, fd, at, size),
        "recvfrom": lambda fd, at, size: call(RECVFROM, fd, at, size, socket.MSG_DONTWAIT, 0, 0),
        "recvfrom, cut": lambda fd, at, size: call(RECVFROM, fd, at, size, socket.MSG_DONTWAIT | socket.MSG_TRUNC, 0, 0),
        "readv of one": lambda fd, at, size: call(READV, *vectors(fd, at, size, 1)),
        "readv of two": lambda fd, at, size: call(READV, *vectors(fd, at, size, 2)),
    }
    writes = {
        "write": lambda fd, at, size: call(WRITE, fd, at, size),
        "sendto": lambda fd, at, size: call(SENDTO, fd, at, size, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT, 0, 0),
        "writev of two": lambda fd, at, size: call(WRITEV, *vectors(fd, at, size, 2)),
    }
    for waits in (0, 1):
        for name, one in (reads | writes).items():
            answers = []
            for place, at in PLACES.items():
                for size, bytes in SIZES.items():
                    # How much of a stream fits is its host's.
                    if name in writes and place == "a page" and bytes not in (0, 1):
                        continue
                    a, b = make()
                    a.setblocking(False)
                    if waits:
                        b.send(b"abc")
                        a.recv(1, socket.MSG_PEEK) if select.select([a], [], [], 5)[0] else None
                    answers.append(f"{size}: {one(a.fileno(), at, bytes)}")
                    a.close(), b.close()
            print(kind, "waits" if waits else "empty", name, *answers)


for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for kind in PAIRS:
        places(f"{kind} {host}", lambda kind=kind, family=family, host=host: PAIRS[kind](family, host)[:2])
places("unix", socket.socketpair)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    names_of_nothing(family, host)
    wrong_in_two_ways(family, host)
    for kind in PAIRS:
        memory_of_data(kind, family, host)
        room_for_data(kind, family, host)
        lengths_of_addresses(kind, family, host)
        lengths_of_messages(kind, family, host)
        huge(kind, family, host)
    numbers(family, host)
