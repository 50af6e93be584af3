"""Netlink sockets of programs that send to each other and to the kernel: who is woken, who waits for room, whose number is whose, what is refused."""

import ctypes
import mmap
import os
import select
import socket
import struct
import sys
import threading
import time

from answers import coded, said

libc = ctypes.CDLL(None, use_errno=True)
libc.getsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.sendto.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
ROUTE, DIAG = 0, 4
SOL_NETLINK, LIST, ADD = 270, 9, 1
RTM_GETLINK, RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 18, 20, 21, 22
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
ME = os.getpid()
ROOM = 4 << 20
# A call that nobody wakes ends then; what is woken takes no part of it.
SECONDS_MAX = 60


def opened(protocol=ROUTE, bound=(0, 0)):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", SECONDS_MAX, 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", SECONDS_MAX, 0))
    if bound is not None:
        s.bind(bound)
    return s


def number(s):
    return s.getsockname()[0]


def whose(s):
    return "me" if number(s) == ME else "none" if number(s) == 0 else "another"


def request(kind, flags=0, body=b"\0" * 16):
    return struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, 7, 0) + body


def link_of(index):
    return request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, index, 0, 0))


def waits_first(s):
    select.select([s], [], [], SECONDS_MAX)
    return s.recv(ROOM)


RECEIVES = {
    "recv": lambda s: s.recv(ROOM),
    "read": lambda s: os.read(s.fileno(), ROOM),
    "recvfrom": lambda s: s.recvfrom(ROOM)[0],
    "recvmsg": lambda s: s.recvmsg(ROOM)[0],
    "select": waits_first,
}


def connected(a, to):
    a.connect((to, 0))
    return a


SENDS = {
    "sendto": lambda a, to, data: a.sendto(data, (to, 0)),
    "sendmsg": lambda a, to, data: a.sendmsg([data], [], 0, (to, 0)),
    "connected sendmsg": lambda a, to, data: connected(a, to).sendmsg([data]),
    "connected write": lambda a, to, data: os.write(connected(a, to).fileno(), data),
}


class Beside(threading.Thread):
    """A call in a thread of its own, and whether it was over in time."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.result = call, None
        self.start()
        # So that it waits.
        time.sleep(0.05)

    def run(self):
        before = time.monotonic()
        self.result = said(self.call)
        self.late = time.monotonic() - before > SECONDS_MAX / 2

    def said(self):
        self.join()
        return "late" if self.late else self.result


def woken():
    """Each way to wait for each way to send."""
    for how, receive in RECEIVES.items():
        for way, send in SENDS.items():
            a, b = opened(), opened()
            waits = Beside(lambda: receive(b))
            sent = said(lambda: send(a, number(b), b"x" * 20))
            print("woken", how, "by", way, sent, waits.said())
            a.close(), b.close()
        for way, send in SENDS.items():
            s = opened()
            waits = Beside(lambda: len(receive(s)) > 20)
            print("answered", how, "of", way, said(lambda: send(s, 0, link_of(1))), waits.said())
            s.close()


def filled(a, to, size):
    """Sends until there is no room: how often."""
    count = 0
    while count < 5000 and said(lambda: a.sendto(b"x" * size, socket.MSG_DONTWAIT, (to, 0))) == size:
        count += 1
    return count


def room():
    """A receiver that is full: the sender waits, or is told EAGAIN, and the receiver hears nothing of it."""
    # Older kernels take one more than 6.18.
    for size, buffer, least in ((1, None, 200), (1000, None, 70), (5000, None, 24), (60000, None, 3), (200000, None, 1), (20, 1, 1), (5000, 1, 1)):
        a, b = opened(), opened()
        if buffer is not None:
            b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        count = filled(a, number(b), size)
        again = said(lambda: a.sendto(b"x" * size, socket.MSG_DONTWAIT, (number(b), 0)))
        nonblocking = opened()
        nonblocking.setblocking(False)
        other = said(lambda: nonblocking.sendto(b"x" * size, (number(b), 0)))
        b.setblocking(False)
        taken = []
        while (data := said(lambda: b.recv(ROOM))) != "EAGAIN":
            taken.append(len(data) if isinstance(data, bytes) else data)
        print("filled", size, buffer, least <= count <= least * 1.5 + 2, again, other, taken == [size] * count, filled(a, number(b), size) == count)
        a.close(), b.close(), nonblocking.close()
    for way, send in SENDS.items():
        for how, receive in RECEIVES.items():
            a, b = opened(), opened()
            b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            count = filled(opened(), number(b), 20)
            waits = Beside(lambda: send(a, number(b), b"last"))
            alive = waits.is_alive()
            first = receive(b) == b"x" * 20
            result = waits.said()
            rest = [receive(b) for _ in range(count)]
            print("waits", way, how, alive, first, result, rest == [b"x" * 20] * (count - 1) + [b"last"])
            a.close(), b.close()
        a, b = opened(), opened()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        filled(opened(), number(b), 20)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", 0, 50000))
        print("limit", way, said(lambda: send(a, number(b), b"y")))
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", SECONDS_MAX, 0))
        to = number(b)
        waits = Beside(lambda: send(a, to, b"z"))
        b.close()
        print("closed", way, waits.said(), said(lambda: send(a, to, b"z")))
        a.close()


def peers():
    """A socket that is connected takes from its peer alone, the kernel among them."""
    for protocol in (ROUTE, DIAG):
        a, b, c = opened(protocol), opened(protocol), opened(protocol)
        b.connect((number(a), 0))
        print("of its peer", a.sendto(b"a", (number(b), 0)), b.recv(10, socket.MSG_DONTWAIT))
        print("of another", said(lambda: c.sendto(b"c", (number(b), 0))), said(lambda: b.recv(10, socket.MSG_DONTWAIT)))
        name = struct.pack("=HHII", socket.AF_NETLINK, 0, 0, 0)
        for length in (0, 1, 11, 12):
            sent = coded(libc.sendto(b.fileno(), b"named", 5, 0, name, length))
            print("a name of", length, sent, said(lambda: a.recv(10, socket.MSG_DONTWAIT)))
        a.connect((0, 0))
        print("of one that asks the kernel", said(lambda: c.sendto(b"c", (number(a), 0))), said(lambda: a.recv(10, socket.MSG_DONTWAIT)))
        libc.connect(a.fileno(), bytes(12), 12)
        print("of anybody", c.sendto(b"c", (number(a), 0)), a.recv(10, socket.MSG_DONTWAIT))
        for what in (a, b, c):
            what.close()
    s = opened()
    s.connect((77777, 0))
    for what, data in (("one", link_of(1)), ("none", link_of(99)), ("dump", request(RTM_GETLINK, NLM_F_DUMP))):
        sent = s.sendto(data, (0, 0))
        print("asked while connected:", what, sent, said(lambda: len(s.recv(1 << 16, socket.MSG_DONTWAIT)) > 100))
    s.close()


def spoiled(length, good):
    """An address from which so many bytes are readable, and behind which there is nothing."""
    pages = -(-length // mmap.PAGESIZE) + 2
    at = libc.mmap(None, pages * mmap.PAGESIZE, 3, 0x22, -1, 0)
    end = at + (-(-good // mmap.PAGESIZE) or 1) * mmap.PAGESIZE
    libc.munmap(end, at + pages * mmap.PAGESIZE - end)
    return end - good


def whole():
    """What is sent is sent whole: as long as SO_SNDBUF allows, of memory that is there."""
    for buffer in (None, 1, 30000, 1 << 20):
        a, b = opened(), opened()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if buffer is not None:
            a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        most = a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - 32
        for what, size in (("half", most // 2), ("most", most), ("one more", most + 1), ("much more", most + 100000)):
            for way, send in SENDS.items():
                got = set()
                for receive in RECEIVES.values():
                    if (sent := said(lambda: send(a, number(b), b"x" * size))) == size:
                        got.add(len(receive(b)) == size)
                print("long", buffer, what, way, sent if isinstance(sent, str) else sent == size, got)
        a.close(), b.close()
    a, b = opened(), opened()
    name = struct.pack("=HHII", socket.AF_NETLINK, 0, number(b), 0)
    for length in (1, 20, 5000, 100000):
        for good in sorted({0, 1, length // 2, length - 1, length} - {length + 1}):
            at = spoiled(length, good)
            sent = coded(libc.sendto(a.fileno(), at, length, 0, name, 12))
            print("spoiled", length, good, sent, said(lambda: len(b.recv(ROOM, socket.MSG_DONTWAIT))))
    a.close(), b.close()


def numbers():
    """The number of a socket that asks for none is the process's, whoever was closed just before, and in each of its threads."""
    binds = {
        "bind": lambda s: s.bind((0, 0)),
        "connect": lambda s: s.connect((0, 0)),
        "sendto": lambda s: s.sendto(link_of(1), (0, 0)),
        "sendmsg": lambda s: s.sendmsg([link_of(1)]),
        "write": lambda s: os.write(s.fileno(), link_of(1)),
    }
    for protocol in (ROUTE, DIAG):
        for before in binds:
            for then in binds:
                found = []
                for _ in range(5):
                    one = opened(protocol, None)
                    binds[before](one)
                    found.append(whose(one))
                    other = opened(protocol, None)
                    one.close()
                    binds[then](other)
                    found.append(whose(other))
                    other.close()
                print("number", protocol, before, then, set(found))
        for how, bind in binds.items():
            s = opened(protocol, None)
            thread = Beside(lambda: bind(s) and None)
            print("in a thread", how, thread.said(), whose(s))
            s.close()
        explicit = []
        for _ in range(50):
            s = opened(protocol, (4242, 0))
            explicit.append(number(s))
            s.close()
        print("a number of its own again and again", set(explicit))
        to = opened(protocol, (4243, 0))
        to.close()
        print("closed", said(lambda: opened(protocol).sendto(b"x", (4243, 0))))
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        s = opened()
        print("in a child", number(s) == os.getpid(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def address(kind, last, flags=0):
    body = struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, 1)
    for attribute in (1, 2):
        body += struct.pack("=HH4B", 8, attribute, 10, 9, 8, last)
    return request(kind, flags, body)


def has(last):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((f"10.9.8.{last}", 0))
        return True
    except OSError:
        return False


def at_once():
    """What was asked without an acknowledgment is done when send returns, whoever asks next, and if the socket is closed at once."""
    # Others make calls meanwhile.
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for _ in range(3000):
                s.getsockname()
        os._exit(0)
    done = []
    for last in range(1, 60):
        for kind, wanted in ((RTM_NEWADDR, True), (RTM_DELADDR, False)):
            s = opened()
            # Half of them have an answer that nobody reads.
            s.send(link_of(1)) if last % 4 < 2 else None
            s.send(address(kind, last))
            s.close() if last % 2 else None
            if last % 3:
                opened(ROUTE, (0, 0)).close()
            done.append(has(last) == wanted)
            s.close()
    print("done at once", all(done), len(done))
    os.waitpid(child, 0)


def overflow():
    """Answers that nobody takes."""
    s = opened()
    sent = [said(lambda: s.send(link_of(99))) for _ in range(2000)]
    s.setblocking(False)
    taken = []
    while (data := said(lambda: s.recvmsg(1 << 16)[0])) != "EAGAIN":
        taken.append(data if isinstance(data, str) else "answer")
    print("answers", set(sent) == {len(link_of(99))}, "lost" if "ENOBUFS" in taken else "kept", taken.count("answer") == 2000)
    s.close()


for part in (woken, room, peers, whole, numbers, at_once, overflow):
    print("--", part.__name__, flush=True)
    part()
