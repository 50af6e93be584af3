"""What is there of a socket right after its last close: whether its port can be bound, and whether somebody still answers there."""

import itertools
import os
import socket
import sys

from answers import said

TIMES = 5
HOSTS = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
# IP_RECVERR, IPV6_RECVERR
RECVERR = {"4": (0, 11), "6": (41, 25)}


def made(kind, number):
    """A socket that has a port, and what must stay as long as it is there."""
    family, host = HOSTS[number]
    stream = kind.startswith("tcp")
    one = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    if kind == "udp recverr":
        one.setsockopt(*RECVERR[number], 1)
    one.bind((host, 0))
    beside = []
    if kind in ("tcp listener", "tcp accepted"):
        one.listen()
    if kind == "tcp accepted":
        beside = [socket.create_connection(one.getsockname()[:2])]
        beside.append(one.accept()[0])
    if kind == "udp connected":
        one.connect((host, 9))
    return one, beside


def by_close(one):
    one.close()


def by_duplicates(one):
    other = one.dup()
    one.close()
    other.close()


def by_replacing(one):
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, one.fileno())
    os.close(nothing)
    one.close()


def by_a_child(one):
    """It is the child's alone, and goes with it."""
    ready, tell = os.pipe()
    closed, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"1")
        os.read(closed, 1)
        os._exit(0)
    os.read(ready, 1)
    one.close()
    os.write(go, b"1")
    os.waitpid(child, 0)
    for fd in (ready, tell, closed, go):
        os.close(fd)


def by_shutdown(one):
    said(lambda: one.shutdown(socket.SHUT_RDWR))
    one.close()


def elsewhere(kind, address):
    """A socket with a port of its own: the kernel may choose the one that is free again, and a socket would answer itself."""
    host = "::1" if ":" in address[0] else "127.0.0.1"
    while True:
        new = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM if kind.startswith("tcp") else socket.SOCK_DGRAM)
        new.bind((host, 0))
        if new.getsockname()[1] != address[1]:
            return new
        new.close()


def bound(kind, address):
    """A new socket takes the port."""
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM if kind.startswith("tcp") else socket.SOCK_DGRAM) as new:
        return said(lambda: new.bind(address)) or "bound"


def answered(kind, address):
    """A connection, or a datagram's error."""
    with elsewhere(kind, address) as new:
        new.settimeout(2)
        if kind.startswith("tcp"):
            return said(lambda: new.connect(address)) or "connected"
        new.sendto(b"x", address)
        new.connect(address)
        new.send(b"x")
        # recvmsg, since a native read has a row of its own (datagram-error-read).
        return said(lambda: new.recvmsg(1)) or "nothing"


for kind, number, close, then in itertools.product(
    ("tcp bound", "tcp listener", "tcp accepted", "udp bound", "udp connected", "udp recverr"), HOSTS,
    (by_close, by_duplicates, by_replacing, by_a_child, by_shutdown), (bound, answered),
):
    answers = set()
    for _ in range(TIMES):
        one, beside = made(kind, number)
        address = one.getsockname()
        close(one)
        answers.add(then(kind, address))
        for other in beside:
            other.close()
    print(f"{kind} {number}, {close.__name__.replace('_', ' ')}, then {then.__name__}: {' '.join(sorted(map(str, answers)))}")
sys.stdout.flush()
