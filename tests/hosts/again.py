"""Sockets that are used again on the same descriptor, while they stay in an epoll: each line is what the epoll tells in the end.

What was before (a connect that failed, a connection or a listener that was dissolved, a datagram socket that asks for errors) × what comes then
(connect, listen) × how the epoll watches × which descriptor it watches × IPv4 and IPv6. Nothing is asked between the two uses.
"""

import ctypes
import errno
import os
import select
import socket
import struct
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
ADDRESSES = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
NAMES = {socket.AF_INET: "4", socket.AF_INET6: "6"}
FLAGS = {"level": 0, "edge": select.EPOLLET, "once": select.EPOLLONESHOT}
ALL = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP


def code(result: int) -> str:
    return errno.errorcode.get(result, str(result))


def told(found: list, names: dict) -> str:
    bits = ("IN", "PRI", "OUT", "ERR", "HUP", "RDHUP")
    said = lambda events: "+".join(name for name in bits if events & getattr(select, f"EPOLL{name}")) or "0"
    return " ".join(sorted(f"{names.get(fd, '?')}:{said(events)}" for fd, events in found)) or "nothing"


def dissolve(s: socket.socket) -> str:
    ok = libc.connect(s.fileno(), b"\0" * 16, 16)
    return "0" if ok == 0 else code(ctypes.get_errno())


def free_port(family: int) -> int:
    with socket.socket(family) as s:
        s.bind((ADDRESSES[family], 0))
        return s.getsockname()[1]


def refused(s, family, servers):
    """Nobody listens there."""
    target = (ADDRESSES[family], free_port(family))
    first = code(s.connect_ex(target))
    # The failure is told once.
    return f"{first} {code(s.connect_ex(target))}"


def connected(s, family, servers):
    """A connection, which is dissolved."""
    server = socket.create_server((ADDRESSES[family], 0), family=family)
    first = code(s.connect_ex(server.getsockname()))
    servers += [server, server.accept()[0]]
    return f"{first} {dissolve(s)}"


def listened(s, family, servers):
    """A listener that was shut down."""
    s.bind((ADDRESSES[family], 0))
    s.listen()
    s.shutdown(socket.SHUT_RD)
    return "listened"


def fresh(s, family, servers):
    return "fresh"


BEFORE = (fresh, refused, connected, listened)


def connects(s, family, servers):
    server = socket.create_server((ADDRESSES[family], 0), family=family)
    result = code(s.connect_ex(server.getsockname()))
    peer = server.accept()[0]
    servers += [server, peer]
    return result, lambda: peer.send(b"x")


def fails(s, family, servers):
    return code(s.connect_ex((ADDRESSES[family], free_port(family)))), None


def listens(s, family, servers):
    s.listen()

    def knock():
        servers.append(socket.create_connection(s.getsockname()[:2]))

    return "listens", knock


THEN = (connects, fails, listens)


def shown(epoll, names) -> str:
    """What it tells first, and what right after that."""
    return f"{told(epoll.poll(0), names)}, {told(epoll.poll(0), names)}"


def together(cases) -> None:
    """Goes on with all of them, a moment after their last step: what belongs to one moment may arrive piece by piece."""
    cases = list(cases)
    while cases:
        time.sleep(0.2)
        cases = [one for one in cases if next(one, "over") != "over"]


def streams(family):
    for before in BEFORE:
        for then in THEN:
            for flags in FLAGS:
                for watches in ("itself", "duplicate", "both"):
                    yield one_stream(family, before, then, flags, watches)


def one_stream(family, before, then, flags, watches):
    servers: list = []
    s = socket.socket(family)
    s.setblocking(False)
    twin = socket.socket(fileno=os.dup(s.fileno()))
    names = {s.fileno(): "s", twin.fileno(): "d"}
    epoll = select.epoll()
    mask = ALL | FLAGS[flags]
    members = {"itself": [s], "duplicate": [twin], "both": [s, twin]}[watches]
    if watches == "itself":
        twin.close()
    for one in members:
        epoll.register(one.fileno(), mask)
    epoll.poll(0)
    was = before(s, family, servers)
    epoll.poll(0)
    result, news = then(s, family, servers)

    def arm():
        for one in members if flags == "once" else ():
            epoll.modify(one.fileno(), mask)

    arm()
    yield
    words = [shown(epoll, names)] if then is not listens else []
    if news:
        arm()
        news()
        yield
        words.append(shown(epoll, names))
    for one in members:
        try:
            epoll.unregister(one.fileno())
            words.append("removed")
        except OSError as error:
            words.append(code(error.errno))
    print(NAMES[family], before.__name__, then.__name__, flags, watches, was, result, "|", "; ".join(words))
    for one in [*servers, s, epoll] + ([] if watches == "itself" else [twin]):
        one.close()


def thread_waits() -> None:
    """A thread waits at the epoll while the socket is used again."""
    for family in ADDRESSES:
        for flags in ("level", "edge"):
            servers: list = []
            s = socket.socket(family)
            s.setblocking(False)
            refused(s, family, servers)
            epoll = select.epoll()
            epoll.register(s.fileno(), select.EPOLLIN | FLAGS[flags])
            epoll.poll(0)
            found: list = []

            def wait(epoll=epoll, found=found):
                for _ in range(20):
                    found[:] = [events for _, events in epoll.poll(5)]
                    if any(events & select.EPOLLIN and not events & select.EPOLLERR for events in found):
                        return
                    time.sleep(0.02)

            result, news = connects(s, family, servers)
            thread = threading.Thread(target=wait)
            thread.start()
            time.sleep(0.1)
            news()
            thread.join()
            print(NAMES[family], "a thread waits", flags, result, told([(0, one) for one in found], {0: "s"}))
            for one in [*servers, s, epoll]:
                one.close()


def datagrams(family):
    """A datagram socket that asks for errors when it is in an epoll, and has a duplicate."""
    for flags in FLAGS:
        for watches in ("itself", "duplicate", "both"):
            yield one_datagrams(family, flags, watches)


def one_datagrams(family, flags, watches):
    options = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.bind((ADDRESSES[family], 0))
    s.setblocking(False)
    twin = socket.socket(fileno=os.dup(s.fileno()))
    members = {"itself": [s], "duplicate": [twin], "both": [s, twin]}[watches]
    names = {s.fileno(): "s", twin.fileno(): "d"}
    epoll = select.epoll()
    for one in members:
        epoll.register(one.fileno(), select.EPOLLIN | FLAGS[flags])
    s.sendto(b"one", s.getsockname())
    s.setsockopt(*options[family], struct.pack("i", 1))
    yield
    words = [shown(epoll, names), str(twin.recv(10))]
    for one in members if flags == "once" else ():
        epoll.modify(one.fileno(), select.EPOLLIN | FLAGS[flags])
    twin.sendto(b"two", s.getsockname())
    yield
    words += [shown(epoll, names), str(s.recv(10))]
    print(NAMES[family], "datagrams", flags, watches, "|", "; ".join(words))
    for one in (s, twin, epoll):
        one.close()


def said(call) -> str:
    try:
        call()
        return "0"
    except OSError as error:
        return code(error.errno)


def of_threads(family) -> None:
    """A program with several threads: what it has in the epoll under each number can be changed, removed and added again."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    for before in BEFORE:
        for then in THEN:
            servers: list = []
            s = socket.socket(family)
            s.setblocking(False)
            twin = socket.socket(fileno=os.dup(s.fileno()))
            epoll = select.epoll()
            for one in (s, twin):
                epoll.register(one.fileno(), ALL)
            was = before(s, family, servers)
            result, _ = then(s, family, servers)
            words = []
            for one in (s, twin):
                words.append(said(lambda: epoll.modify(one.fileno(), select.EPOLLIN)))
                words.append(said(lambda: epoll.unregister(one.fileno())))
                words.append(said(lambda: epoll.register(one.fileno(), select.EPOLLIN)))
            print(NAMES[family], "threads", before.__name__, then.__name__, was, result, "|", " ".join(words))
            for one in (*servers, s, twin, epoll):
                one.close()
    over.set()
    thread.join()


def closed_number(family) -> None:
    """The number under which it was put into the epoll is closed meanwhile, and its file lives on."""
    servers: list = []
    s = socket.socket(family)
    s.setblocking(False)
    epoll = select.epoll()
    number = os.dup(s.fileno())
    epoll.register(number, ALL)
    os.close(number)
    was = refused(s, family, servers)
    result, news = connects(s, family, servers)
    news()
    time.sleep(0.2)
    print(NAMES[family], "closed number", was, result, "|", told(epoll.poll(0), {number: "n"}))
    for one in (*servers, s, epoll):
        one.close()


def spent(family) -> None:
    """A one-shot that has fired says nothing more, whatever becomes of the socket."""
    for then in THEN:
        servers: list = []
        s = socket.socket(family)
        s.setblocking(False)
        epoll = select.epoll()
        epoll.register(s.fileno(), ALL | select.EPOLLONESHOT)
        first = told(epoll.poll(0), {s.fileno(): "s"})
        was = refused(s, family, servers)
        result, _ = then(s, family, servers)
        time.sleep(0.2)
        print(NAMES[family], "spent", then.__name__, first, was, result, "|", shown(epoll, {s.fileno(): "s"}))
        for one in (*servers, s, epoll):
            one.close()


for family in ADDRESSES:
    of_threads(family)
    closed_number(family)
    spent(family)
    together(streams(family))
    together(datagrams(family))
thread_waits()
