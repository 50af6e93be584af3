"""What a host may notice only later, and whom it may interrupt: each line is what was asked, how, and the answer."""

import ctypes
import errno
import os
import select
import signal
import socket
import subprocess

from saying import libc, said
from streaming import FAMILIES

IP_RECVERR, IPV6_RECVERR = 11, 25
TIMES = 200
SHORT_CALLS = 20_000
MICROSECONDS = 200
ENDS = {
    "a pipe": os.pipe,
    "an eventfd": lambda: (os.eventfd(0),) * 2,
    "a unix stream": lambda: [one.detach() for one in socket.socketpair()],
    "a unix datagram socket": lambda: [one.detach() for one in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)],
}


def closed_listener(family: int, host: str) -> str:
    """Who connects to the port of a listener that was closed."""
    for _ in range(TIMES):
        listener = socket.create_server((host, 0), family=family)
        name = listener.getsockname()
        listener.close()
        if socket.socket(family).connect_ex(name) != errno.ECONNREFUSED:
            return "is let in"
    return "is refused"


def listed(family: int, host: str) -> str:
    """Whether ss shows a listener that is closed."""
    for _ in range(3):
        listener = socket.create_server((host, 0), family=family)
        port = listener.getsockname()[1]
        listener.close()
        if subprocess.run(["ss", "-Htln", f"sport = :{port}"], stdout=subprocess.PIPE, check=True).stdout.strip():
            return "is listed"
    return "is not listed"


def bound_again(family: int, host: str, kind: int) -> str:
    """Who binds to the port of a socket that was closed."""
    first = socket.socket(family, kind)
    first.bind((host, 0))
    name = first.getsockname()
    for _ in range(TIMES):
        first.close()
        first = socket.socket(family, kind)
        first.bind(name)
    return "has it"


def closed_receiver(family: int, host: str) -> str:
    """Who sends to the port of a UDP socket that asks for errors and was closed: every time, or some time later."""
    refused = 0
    for _ in range(TIMES):
        receiver, sender = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
        receiver.setsockopt(*((socket.IPPROTO_IPV6, IPV6_RECVERR) if family == socket.AF_INET6 else (socket.IPPROTO_IP, IP_RECVERR)), 1)
        receiver.bind((host, 0))
        sender.connect(receiver.getsockname())
        receiver.close()
        sender.sendto(b"x", sender.getpeername())
        refused += sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    while sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != errno.ECONNREFUSED:
        sender.sendto(b"x", sender.getpeername())
    return "is refused at once" if refused == TIMES else "is refused later"


def interrupted(restart: bool) -> str:
    """Calls that wait for nothing, under a timer: how many a signal ends. As they stand: Python's own functions call again."""
    number = (ctypes.c_int * 1)()
    seen = 0
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, not restart)
    fd = libc.socket(socket.AF_INET, socket.SOCK_DGRAM, 0)
    signal.setitimer(signal.ITIMER_REAL, MICROSECONDS / 1e6, MICROSECONDS / 1e6)
    for _ in range(SHORT_CALLS):
        if libc.setsockopt(fd, socket.SOL_SOCKET, socket.SO_BROADCAST, number, 4) < 0:
            if ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "")
            seen += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    return "some" if seen else "none"


def edges(make) -> str:
    """Events of a file of the kernel's that is watched for edges, of which nobody reads: one for each write, and none in between; then one for two writes."""
    one, other = make()
    seen = []
    with select.epoll() as epoll:
        epoll.register(one, select.EPOLLIN | select.EPOLLET)
        for writes in (1, 1, 2, 3):
            for _ in range(writes):
                os.write(other, (1).to_bytes(8, "little"))
            seen.append(len(epoll.poll(0)))
            seen.append(len(epoll.poll(0)))
    return " ".join(map(str, seen))


def edges_beside(make) -> str:
    """The same beside another file of that epoll, in which something is written meanwhile."""
    (one, other), (out, into) = make(), os.pipe()
    seen = []
    with select.epoll() as epoll:
        epoll.register(one, select.EPOLLIN | select.EPOLLET)
        epoll.register(out, select.EPOLLIN | select.EPOLLET)
        for to in (other, into, into, other, into):
            os.write(to, (1).to_bytes(8, "little"))
            seen.append("+".join(sorted("first" if fd == one else "second" for fd, _ in epoll.poll(0))))
    return " ".join(seen)


def edges_read(make) -> str:
    """What one reads a part of is told again only when there is more."""
    one, other = make()
    seen = []
    with select.epoll() as epoll:
        epoll.register(one, select.EPOLLIN | select.EPOLLET)
        for _ in range(3):
            os.write(other, (1).to_bytes(8, "little"))
        seen.append(len(epoll.poll(0)))
        os.read(one, 8)
        seen.append(len(epoll.poll(0)))
        os.write(other, (1).to_bytes(8, "little"))
        seen.append(len(epoll.poll(0)))
        os.read(one, 8)
        seen.append(len(epoll.poll(0)))
    return " ".join(map(str, seen))


def edges_nested(make) -> str:
    """Events of an epoll in an epoll that watches for edges: one for what is written, and none for what happens elsewhere."""
    (one, other), (_, into) = make(), os.pipe()
    seen = []
    with select.epoll() as inner, select.epoll() as outer:
        inner.register(one, select.EPOLLIN)
        outer.register(inner.fileno(), select.EPOLLIN | select.EPOLLET)
        for to in (other, into, other):
            os.write(to, (1).to_bytes(8, "little"))
            seen.append(len(outer.poll(0)))
    return " ".join(map(str, seen))


def closed_member(make) -> str:
    """A descriptor is closed that an epoll watches, and a duplicate is left: the file is watched as before."""
    one, other = make()
    number = os.dup(one)
    with select.epoll() as epoll:
        epoll.register(number, select.EPOLLIN)
        os.close(number)
        os.write(other, (1).to_bytes(8, "little"))
        return "is told" if epoll.poll(0) == [(number, select.EPOLLIN)] else "is not told"


if __name__ == "__main__":
    for name, (family, host) in FAMILIES.items():
        said(f"after close{name}", "who connects to a listener", lambda family=family, host=host: closed_listener(family, host))
        said(f"after close{name}", "who lists listeners", lambda family=family, host=host: listed(family, host))
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            said(f"after close{name}", f"who binds, {kind:d}", lambda family=family, host=host, kind=kind: bound_again(family, host, kind))
        said(f"after close{name}", "who sends to a socket that asks for errors", lambda family=family, host=host: closed_receiver(family, host))
    for restart in (False, True):
        said("short calls", "interrupted, SA_RESTART" if restart else "interrupted", lambda restart=restart: interrupted(restart))
    for what, make in ENDS.items():
        said("edges", f"{what}, alone", lambda make=make: edges(make))
        said("edges", f"{what}, beside another", lambda make=make: edges_beside(make))
        said("edges", f"{what}, read in part", lambda make=make: edges_read(make))
        said("edges", f"{what}, in another epoll", lambda make=make: edges_nested(make))
        said("closed member", what, lambda make=make: closed_member(make))
