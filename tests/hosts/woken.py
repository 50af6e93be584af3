"""Which wake-ups an epoll hears of: what happens to a descriptor × what the epoll asks for × how (level, edge, one shot), alone and in another epoll.

An edge is a wake-up with a key that concerns the member (ep_poll_callback), whatever the descriptor shows besides: news for readers are none for writers,
a read or a write of one's own is none, an option that is set is none. The outer epoll hears whenever the inner one does, also where that has not been
looked at since; a change of the inner one's members is news only where the member was not on its list.
"""

import contextlib
import ctypes
import itertools
import os
import resource
import select
import signal
import socket
import struct
import time

libc = ctypes.CDLL(None, use_errno=True)
IN, OUT, RDHUP, EDGE, ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLRDHUP, select.EPOLLET, select.EPOLLONESHOT
MASKS = {"in": IN, "out": OUT, "in+out": IN | OUT, "rdhup": RDHUP}
HOW = {"level": 0, "edge": EDGE, "once": ONCE}


def tcp(family, host):
    listener = socket.create_server((host, 0), family=family)
    client = socket.socket(family)
    client.connect(listener.getsockname())
    server = listener.accept()[0]
    listener.close()
    return client, server


def udp(family, host):
    one, other = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    one.bind((host, 0)), other.bind((host, 0))
    one.connect(other.getsockname()), other.connect(one.getsockname())
    return one, other


SOCKETS = {
    "tcp": lambda: tcp(socket.AF_INET, "127.0.0.1"),
    "tcp6": lambda: tcp(socket.AF_INET6, "::1"),
    "udp": lambda: udp(socket.AF_INET, "127.0.0.1"),
    "udp6": lambda: udp(socket.AF_INET6, "::1"),
}
LOCAL = {"unix": socket.socketpair, "unix datagram": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)}


def together(cases) -> None:
    """Goes on with all of them, a moment after their last step: what belongs to one moment may arrive piece by piece."""
    cases = list(cases)
    while cases:
        time.sleep(0.2)
        cases = [one for one in cases if next(one, "over") != "over"]


def told(epoll, names=()) -> str:
    bits = ("IN", "PRI", "OUT", "ERR", "HUP", "RDHUP")
    said = lambda events: "+".join(name for name in bits if events & getattr(select, f"EPOLL{name}"))
    return ",".join(said(events) for _, events in epoll.poll(0)) or "-"


def option(s, *what):
    try:
        s.setsockopt(*what)
    except OSError:
        pass


def stays(a, b):
    """Takes one of two."""
    b.send(b"abc"), b.send(b"def")
    yield
    a.recv(2)
    yield
    a.recv(100)
    yield


def comes(a, b):
    b.send(b"abc")
    yield
    b.send(b"def")
    yield
    a.recv(100)
    yield
    b.send(b"ghi")
    yield


def sends(a, b):
    a.send(b"abc")
    yield
    b.recv(100)
    yield
    a.send(b"def")
    yield


def peeks(a, b):
    b.send(b"abc")
    yield
    a.recv(1, socket.MSG_PEEK)
    yield


def closes(a, b):
    b.close()
    yield
    try:
        a.send(b"abc")
    except OSError:
        return
    yield


def ends(a, b):
    b.send(b"abc")
    b.shutdown(socket.SHUT_WR)
    yield
    a.recv(100)
    yield


def stops(a, b):
    a.shutdown(socket.SHUT_WR)
    yield
    a.shutdown(socket.SHUT_RD)
    yield


def sets(a, b):
    b.send(b"abc")
    yield
    option(a, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    option(a, socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    yield
    option(a, socket.SOL_SOCKET, socket.SO_SNDBUF, 100000)
    yield
    option(a, socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2)
    yield
    option(a, socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    yield


CAUSES = (stays, comes, sends, peeks, closes, ends, stops, sets)


def alone(kind, make, cause, mask, how):
    a, b = make()
    a.setblocking(False)
    epoll = select.epoll()
    epoll.register(a.fileno(), MASKS[mask] | HOW[how])
    words = [told(epoll)]
    for _ in cause(a, b):
        yield
        words.append(told(epoll))
    print(kind, cause.__name__, mask, how, *words)
    for one in (a, b, epoll):
        one.close()


def nested(kind, make, mask, inner_how, outer_how):
    """What the outer epoll tells at each step, and now and then the inner one."""
    a, b = make()
    a.setblocking(False)
    other, other_end = make()
    inner, outer = select.epoll(), select.epoll()
    inner.register(a.fileno(), MASKS[mask] | HOW[inner_how])
    outer.register(inner.fileno(), IN | HOW[outer_how])
    steps = {
        "first": lambda: b.send(b"abc"),
        "second": lambda: b.send(b"def"),
        "modified": lambda: inner.modify(a.fileno(), MASKS[mask] | HOW[inner_how]),
        "both": lambda: inner.modify(a.fileno(), IN | OUT | HOW[inner_how]),
        "added": lambda: inner.register(other.fileno(), IN | HOW[inner_how]),
        "ready": lambda: other_end.send(b"x"),
        "inner": lambda: told(inner),
        "polled": lambda: str(len(polled(inner))),
        "read": lambda: (a.recv(3), other.recv(100)),
        "inner again": lambda: told(inner),
        "third": lambda: b.send(b"ghi"),
        "removed": lambda: inner.unregister(a.fileno()),
    }
    words = [told(outer)]
    for name, step in steps.items():
        said = step()
        yield
        words.append(f"{name}{f'={said}' if isinstance(said, str) else ''}:{told(outer)}")
    print(kind, mask, inner_how, "in", outer_how, *words)
    for one in (a, b, other, other_end, inner, outer):
        one.close()


def timer(mask, how):
    """A timerfd: once, then in intervals that nobody reads."""
    fd = timerfd_create()
    epoll, outer = select.epoll(), select.epoll()
    epoll.register(fd, MASKS[mask] | HOW[how])
    outer.register(epoll.fileno(), IN | EDGE)
    steps = {
        "once": lambda: timerfd_settime(fd, 0.05),
        "read": lambda: os.read(fd, 8),
        "intervals": lambda: timerfd_settime(fd, 0.05, 0.05),
        "more": lambda: None,
        "read again": lambda: os.read(fd, 8),
        "stopped": lambda: timerfd_settime(fd, 0),
        "modified": lambda: epoll.modify(fd, MASKS[mask] | HOW[how]),
    }
    words = []
    for name, step in steps.items():
        step()
        yield
        words.append(f"{name}:{told(outer)}/{told(epoll)}")
    print("timer", mask, how, *words)
    for one in (epoll, outer):
        one.close()
    os.close(fd)


def timerfd_create() -> int:
    return libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK)


def timerfd_settime(fd: int, value: float, interval: float = 0.0) -> None:
    spec = struct.pack("4l", int(interval), round(interval % 1 * 1e9), int(value), round(value % 1 * 1e9))
    assert libc.timerfd_settime(fd, 0, spec, None) == 0


def dump(what, mask, how):
    """A netlink socket that gets an answer of one packet (or of two, of which the second is made when the first is read), and another one."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    s.bind((0, 0))
    epoll, outer = select.epoll(), select.epoll()
    epoll.register(s.fileno(), MASKS[mask] | HOW[how])
    outer.register(epoll.fileno(), IN | EDGE)
    asked = {"rules": struct.pack("=IHHII12x", 28, 34, 0x301, 1, 0), "links": struct.pack("=IHHII16x", 32, 18, 0x301, 1, 0)}[what]
    ask, read = lambda: s.send(asked), lambda: s.recv(65536)
    steps = {"asked": ask, "read": read, "asked again": ask, "read again": read}
    if what == "links":
        steps = {"asked": ask, "looked at": lambda: s.recv(65536, socket.MSG_PEEK), "read": read, "read to the end": read}
    words = [told(outer)]
    for name, step in steps.items():
        step()
        yield
        words.append(f"{name}:{told(outer)}/{told(epoll)}")
    print("dump" if what == "rules" else f"dump of {what}", mask, how, *words)
    for one in (s, epoll, outer):
        one.close()


def signals(mask, how) -> None:
    """A signalfd: a signal of another kind, of its own, once more, and after a read."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    fd = libc.signalfd(-1, struct.pack("16Q", 1 << signal.SIGUSR1 - 1, *[0] * 15), os.O_NONBLOCK)
    epoll, outer = select.epoll(), select.epoll()
    epoll.register(fd, MASKS[mask] | HOW[how])
    outer.register(epoll.fileno(), IN | EDGE)
    steps = {
        "other": lambda: os.kill(os.getpid(), signal.SIGUSR2),
        "own": lambda: os.kill(os.getpid(), signal.SIGUSR1),
        "again": lambda: os.kill(os.getpid(), signal.SIGUSR1),
        "read": lambda: os.read(fd, 128),
        "another": lambda: os.kill(os.getpid(), signal.SIGUSR1),
        "waited for": lambda: signal.sigwait({signal.SIGUSR1}),
    }
    words = []
    for name, step in steps.items():
        step()
        words.append(f"{name}:{told(outer)}/{told(epoll)}")
    print("signals", mask, how, *words)
    signal.sigwait({signal.SIGUSR2})
    for one in (epoll, outer):
        one.close()
    os.close(fd)


def polled(epoll) -> list:
    poll = select.poll()
    poll.register(epoll, select.POLLIN)
    return poll.poll(0)


def deep(kind, make):
    """Four epolls, one in the other, all but the first for edges."""
    a, b = make()
    chain = [select.epoll() for _ in range(4)]
    chain[0].register(a.fileno(), IN)
    for inner, outer in itertools.pairwise(chain):
        outer.register(inner.fileno(), IN | EDGE)
    words = []
    for _ in range(3):
        b.send(b"abc")
        yield
        words.append("/".join(told(one) for one in reversed(chain)))
    print(kind, "deep", *words)
    for one in (a, b, *chain):
        one.close()


def filling(family, host):
    """A stream with small buffers at both ends."""
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4000)
    listener.bind((host, 0))
    listener.listen()
    client = socket.socket(family)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    client.connect(listener.getsockname())
    server = listener.accept()[0]
    listener.close()
    client.setblocking(False), server.setblocking(False)
    return client, server


def drained(kind, family, host, refused, mask):
    """A stream that loses its room and gets it back: by writes that are taken whole, or until one is refused. Nobody polls it meanwhile."""
    pieces = whole = 0
    # How many pieces fit is another's to know, and may be fewer of this one: beside other work data moves on later.
    while whole <= pieces:
        client, server = filling(family, host)
        poll = select.poll()
        poll.register(client, select.POLLOUT)
        pieces = 0
        while poll.poll(0):
            client.send(bytes(10_000))
            pieces += 1
        for one in (client, server):
            one.close()
        client, server = filling(family, host)
        epoll = select.epoll()
        epoll.register(client, MASKS[mask] | EDGE)
        words, whole = [told(epoll)], 0
        with contextlib.suppress(BlockingIOError):
            while whole <= pieces and client.send(bytes(10_000)) == 10_000:
                whole += 1
    try:
        while refused:
            client.send(bytes(10_000))
    except BlockingIOError:
        pass
    yield
    for _ in range(300):
        try:
            server.recv(1 << 20)
        except BlockingIOError:
            time.sleep(0.001)
    yield
    words.append(told(epoll))
    print(kind, "drained", "behind a refusal" if refused else "and never refused", mask, *words)
    for one in (client, server, epoll):
        one.close()


def cases(kind, make, inner_hows=HOW, outer_hows=HOW):
    return (nested(kind, make, *each) for each in itertools.product(("in", "out", "in+out"), inner_hows, outer_hows))


def listens(kind, family, host, how):
    """A listener: each connection that comes is news, also while others wait."""
    listener, epoll, clients = socket.create_server((host, 0), family=family), select.epoll(), []
    epoll.register(listener, IN | HOW[how])
    for step, taken in (("one comes", 0), ("another comes", 0), ("one is taken", 1), ("a third comes", 0), ("both are taken", 2), ("one comes again", 0)):
        for _ in range(taken):
            listener.accept()
        if not taken:
            clients.append(socket.socket(family))
            clients[-1].connect(listener.getsockname())
        yield
        print(f"listener {kind} {how}: {step}", told(epoll))


# All at once, for each step takes a while: that many descriptors.
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard == resource.RLIM_INFINITY else min(hard, 4096), hard))
everything = []
for kind, make in SOCKETS.items():
    everything += [*(alone(kind, make, *each) for each in itertools.product(CAUSES, MASKS, HOW)), *cases(kind, make), deep(kind, make)]
for kind, make in LOCAL.items():
    # For edges of the kernel's descriptors see edge-native.
    everything += cases(kind, make, ("level", "once"), ("level", "once"))
for mask, how in itertools.product(("in", "out", "in+out"), HOW):
    everything += [timer(mask, how), dump("rules", mask, how), dump("links", mask, how)]
for (kind, *where), refused, mask in itertools.product(
    (("tcp", socket.AF_INET, "127.0.0.1"), ("tcp6", socket.AF_INET6, "::1")), (False, True), ("out", "in+out")
):
    everything.append(drained(kind, *where, refused, mask))
everything += [listens(kind, *where, how) for (kind, *where), how in itertools.product(
    (("tcp", socket.AF_INET, "127.0.0.1"), ("tcp6", socket.AF_INET6, "::1")), HOW)]
together(everything)
for mask, how in itertools.product(("in", "out"), HOW):
    signals(mask, how)
