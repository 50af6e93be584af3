"""When what was sent is there, and how much lies where: each line is what was asked, how, and the answer."""

import errno
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import termios
import threading

from saying import said

FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
TIMES, ROUNDS = 200, 3
KIB = 1024


def streams(family: int, host: str, **options: int) -> tuple[socket.socket, socket.socket]:
    """Two ends; options are set before they are connected, of `one` or of the `other`."""
    server = socket.socket(family)
    if "other" in options:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options["other"])
    server.bind((host, 0))
    server.listen()
    one = socket.socket(family)
    if "one" in options:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options["one"])
    one.connect(server.getsockname())
    return one, server.accept()[0]


def datagrams(family: int, host: str) -> tuple[socket.socket, socket.socket]:
    ends = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    for one in ends:
        one.bind((host, 0))
    ends[0].connect(ends[1].getsockname())
    ends[1].connect(ends[0].getsockname())
    return ends


def at_once(one: socket.socket, other: socket.socket) -> str:
    """Whether what was sent is there when send has returned, each of many times; all of it comes, in its order.

    A kernel that has much to do may be late as well: one of three rounds counts."""
    for _ in range(ROUNDS):
        there = 0
        for number in range(TIMES):
            one.send(struct.pack("I", number))
            try:
                got = other.recv(4, socket.MSG_DONTWAIT)
                there += 1
            except BlockingIOError:
                got = other.recv(4)
            if got != struct.pack("I", number):
                return f"{got} instead of {number}"
        if there == TIMES:
            return "always"
    return "all comes, some of it later"


def between(one: socket.socket, other: socket.socket) -> str:
    """From another process, whose send has returned, and back: here the kernel is late, too, and all of it comes in its order."""
    pid = os.fork()
    if not pid:
        for _ in range(TIMES):
            other.send(other.recv(4))
        os._exit(0)
    for number in range(TIMES):
        one.send(struct.pack("I", number))
        if one.recv(4) != struct.pack("I", number):
            return f"another one than {number}"
    os.waitpid(pid, 0)
    return "all comes"


def filled(one: socket.socket) -> int:
    """Writes until nothing more is taken, however long one waits; gives how much the other end's host has."""
    one.setblocking(False)
    taken = 0
    while select.select([], [one], [], 1)[1]:
        try:
            taken += one.send(bytes(16 * KIB))
        except BlockingIOError:
            pass
    return taken - struct.unpack("i", fcntl.ioctl(one.fileno(), termios.TIOCOUTQ, bytes(4)))[0]


def beyond(family: int, host: str, read: int) -> str:
    """What has come at an end that has read so much and reads no more, beside its receive buffer of 64 KiB."""
    one, other = streams(family, host, other=32 * KIB)
    while read:
        one.sendall(bytes(min(read, 16 * KIB)))
        read -= len(other.recv(min(read, 16 * KIB), socket.MSG_WAITALL))
    more = filled(one) - other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    for limit in (0, 64, 512):
        if more <= limit * KIB:
            return f"{limit} KiB more at most"
    return f"{more} bytes more"


def shrinks(family: int, host: str) -> str:
    """What a stream takes whose send buffer was made smaller when it was connected."""
    one, other = streams(family, host, other=4 * KIB, one=512 * KIB)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KIB)
    one.setblocking(False)
    return "little" if one.send(bytes(900 * KIB)) <= 64 * KIB else "much"


def fast_open_allowed() -> None:
    """Listeners may be opened fast: by the file of it, or where that is the host's by weft's word."""
    try:
        with open("/proc/sys/net/ipv4/tcp_fastopen", "w") as file:
            file.write("3")
    except OSError:
        subprocess.run([sys.argv[1], "set", "tcp.fastopen", "3"], check=True, stdout=subprocess.DEVNULL)


def fast_open(family: int, host: str, deferred: bool, closed: bool) -> str:
    """What a blocking write says whose SYN has a cookie, and the next one."""
    server = socket.socket(family)
    server.bind((host, 0))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
    server.listen()
    first = socket.socket(family)
    first.sendto(b"x", socket.MSG_FASTOPEN, server.getsockname())
    peer = server.accept()[0]
    peer.send(b"y")
    first.recv(1)
    first.close()
    peer.close()
    target = server.getsockname()
    if closed:
        server.close()
    else:
        threading.Thread(target=swallow, args=(server,), daemon=True).start()
    one = socket.socket(family)
    data = bytes(100 * KIB)

    def written(ask) -> str:
        try:
            return "everything" if ask() == len(data) else "a part"
        except OSError as error:
            return errno.errorcode[error.errno]

    if deferred:
        one.setsockopt(socket.IPPROTO_TCP, 30, 1)
        one.connect(target)
        return written(lambda: os.write(one.fileno(), data))
    return written(lambda: one.sendto(data, socket.MSG_FASTOPEN, target))


def swallow(server: socket.socket) -> None:
    """Reads all that comes."""
    peer = server.accept()[0]
    while peer.recv(1 << 16):
        pass


if __name__ == "__main__":
    for name, (family, host) in FAMILIES.items():
        for what, pair in (("a stream", streams), ("a datagram socket", datagrams)):
            said("beside", f"{what} over IPv{name}, one process", lambda: at_once(*pair(family, host)))
            said("beside", f"{what} over IPv{name}, two processes", lambda: between(*pair(family, host)))
        for read in (0, 4096):
            said("window", f"unread over IPv{name}, {read} KiB read before", lambda: beyond(family, host, read * KIB))
        said("send buffer", f"a stream over IPv{name}", lambda: shrinks(family, host))

    fast_open_allowed()
    for name, (family, host) in FAMILIES.items():
        for deferred, way in ((False, "sendto with MSG_FASTOPEN"), (True, "write after TCP_FASTOPEN_CONNECT")):
            for closed, where in ((False, "to a listener"), (True, "where nobody listens")):
                said("fast open", f"{way} {where} over IPv{name}", lambda: fast_open(family, host, deferred, closed))
