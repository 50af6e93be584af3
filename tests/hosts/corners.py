"""Who may share a port, how far SO_PEEK_OFF goes back, for how many bytes an AF_UNIX socket waits, and who is told of urgent data."""

import fcntl
import os
import signal
import socket
import time

from answers import said

FAMILIES = {"IPv4": (socket.AF_INET, "127.0.0.1"), "IPv6": (socket.AF_INET6, "::1")}
SO_PEEK_OFF = 42
MSG_TRUNC = socket.MSG_TRUNC


def in_a_process(body) -> None:
    """Its own, for what it changes."""
    os.sys.stdout.flush()
    pid = os.fork()
    if not pid:
        body()
        os.sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)


def joins(family, number, address, kind, user):
    first = socket.socket(number, kind)
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    first.bind((address, 0))

    def second():
        # Whoever may not become another user asks without the option, which Linux answers alike.
        may_be = user is None or os.getuid() == 0
        if user is not None and may_be:
            os.setuid(user)
        other = socket.socket(number, kind)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, may_be)
        print(f"{family} {kind.name} joins as", "itself" if user is None else "another", said(lambda: other.bind(first.getsockname()[:2])))

    in_a_process(second)


def looks(family, number, address):
    receiver, sender = socket.socket(number, socket.SOCK_DGRAM), socket.socket(number, socket.SOCK_DGRAM)
    receiver.settimeout(2)
    receiver.bind((address, 0))
    for flags in (0, MSG_TRUNC):
        receiver.setsockopt(socket.SOL_SOCKET, SO_PEEK_OFF, 2)
        for data in (b"abcdefgh", b"IJKL"):
            sender.sendto(data, receiver.getsockname())
        peeks = [said(lambda: receiver.recv(10, socket.MSG_PEEK)) for _ in range(2)]
        offset = receiver.getsockopt(socket.SOL_SOCKET, SO_PEEK_OFF)
        reads = said(lambda: len(receiver.recv(3, flags)))
        print(f"{family} peeks {peeks} to {offset}, a read with {flags} of {reads} bytes goes back to", end=" ")
        print(receiver.getsockopt(socket.SOL_SOCKET, SO_PEEK_OFF), said(lambda: receiver.recv(9)))


def waits_for(low_water, call, read):
    a, b = socket.socketpair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
    a.send(b"abc")

    def rest():
        time.sleep(0.3)
        a.send(b"defgh")

    pid = os.fork()
    if not pid:
        rest()
        os._exit(0)
    print(f"unix {call} with a low-water mark of {low_water}", read(b))
    os.waitpid(pid, 0)


def is_told(family, number, address, asks):
    told = []
    signal.signal(signal.SIGURG, lambda *_: told.append("SIGURG"))
    listener = socket.create_server((address, 0), family=number)
    a = socket.create_connection(listener.getsockname()[:2])
    b, _ = listener.accept()
    if asks:
        fcntl.fcntl(a, fcntl.F_SETOWN, os.getpid())
    b.send(b"u", socket.MSG_OOB)
    time.sleep(0.3)
    print(f"{family} urgent data,", "with an owner" if asks else "without one", *told)


for family, where in FAMILIES.items():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        joins(family, *where, kind, None)
        joins(family, *where, kind, 1000)
    looks(family, *where)
    for asks in (False, True):
        is_told(family, *where, asks)
for call, read in {"recv": lambda s: s.recv(20), "read": lambda s: os.read(s.fileno(), 20), "recvmsg": lambda s: s.recvmsg(20)[0]}.items():
    for low_water in (1, 5):
        waits_for(low_water, call, read)
