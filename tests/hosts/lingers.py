"""close(2): with SO_LINGER, whether it waits; and what the peer gets. A child for each family, side by side: most of it is waiting."""

import os
import select
import signal
import socket
import struct
import threading
import time

from answers import full

# Much longer than anything that should end a wait.
LONG = 20
SHORT = 2
ROUNDS = 8


def pair(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client = socket.socket(family)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
    client.connect(listener.getsockname()[:2])
    peer = listener.accept()[0]
    listener.close()
    return client, peer


def linger(s, seconds, on=1):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", on, seconds))


def rest(peer):
    """Reads to the end: how many bytes, and what the end is."""
    count = 0
    peer.settimeout(LONG)
    try:
        while data := peer.recv(65_536):
            count += len(data)
    except OSError as error:
        return count, type(error).__name__
    return count, "EOF"


def waits(limit, close):
    """Whether it waits until its time is over."""
    start = time.monotonic()
    close()
    return "to the limit" if time.monotonic() - start >= limit else "less"


class Later:
    """Does something while a close waits, and knows whether that was before the close returned."""

    def __init__(self, what):
        self.began = False
        self._what = what
        self._timer = threading.Timer(0.4, self._run)
        self._timer.start()

    def _run(self):
        self.began = True
        self._what()

    def waits(self, close):
        found = waits(LONG, close)
        began = self.began
        self._timer.join()
        return f"until then: {began}, {found}"


def body(address):
    client, peer = pair(address)
    sent = full(client)
    linger(client, SHORT)
    print("nobody reads: waits", waits(SHORT, client.close), end="; ")
    got, end = rest(peer)
    print("all of it comes:", got == sent, end)

    client, peer = pair(address)
    sent = full(client)
    linger(client, LONG)
    found = []
    reader = Later(lambda: found.append(rest(peer)))
    print("the peer reads: waits", reader.waits(client.close), end="; ")
    print("all of it comes:", found[0][0] == sent, found[0][1])

    client, peer = pair(address)
    sent = full(client)
    linger(client, LONG)
    client.setblocking(True)
    came = []
    signal.signal(signal.SIGALRM, lambda *_: came.append(True))
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    found = waits(LONG, client.close)
    print("a signal comes: waits until then:", bool(came), found, end="; ")
    signal.setitimer(signal.ITIMER_REAL, 0)
    got, end = rest(peer)
    print("all of it comes:", got == sent, end)

    client, peer = pair(address)
    full(client)
    linger(client, LONG)
    reset = Later(lambda: (linger(peer, 0), peer.close()))
    print("the peer resets: waits", reset.waits(client.close))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    twin = socket.socket(fileno=os.dup(client.fileno()))
    print("there is a duplicate: waits", waits(SHORT, client.close), end="; ")
    print("its close: waits", waits(SHORT, twin.close))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    null = os.open("/dev/null", os.O_RDONLY)
    print("dup2 in its place: waits", waits(SHORT, lambda: os.dup2(null, client.fileno())))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    number = client.detach()
    print("close_range: waits", waits(SHORT, lambda: os.closerange(number, number + 1)))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    client.shutdown(socket.SHUT_WR)
    print("behind a shutdown: waits", waits(SHORT, client.close))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    child = os.fork()
    if child == 0:
        time.sleep(0.5)
        os._exit(0)
    print("another process has it: waits", waits(SHORT, client.close))
    os.waitpid(child, 0)

    child = os.fork()
    if child == 0:
        client, peer = pair(address)
        full(client)
        linger(client, LONG)
        client.setblocking(True)
        os._exit(0)
    start = time.monotonic()
    os.waitpid(child, 0)
    print("a process ends: waits", "to the limit" if time.monotonic() - start >= LONG else "not so long")

    client, peer = pair(address)
    peer.send(b"unread")
    full(client)
    time.sleep(0.2)
    linger(client, SHORT)
    print("something is unread: waits", waits(SHORT, client.close), end="; ")
    print("the peer's end:", rest(peer)[1])

    client, peer = pair(address)
    peer.send(b"unread")
    full(client)
    time.sleep(0.2)
    client.shutdown(socket.SHUT_WR)
    linger(client, SHORT)
    print("something is unread behind a shutdown: waits", waits(SHORT, client.close), end="; ")
    print("the peer's end:", rest(peer)[1])

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    number, over, told = client.fileno(), os.pipe(), {}
    def watch(what, epoll):
        told[what] = [("client" if fd == number else "pipe", events) for fd, events in epoll.poll()]
    watchers = []
    for what, more in (("level", 0), ("edge", select.EPOLLET), ("one shot", select.EPOLLONESHOT)):
        epoll = select.epoll()
        epoll.register(number, select.EPOLLIN | select.EPOLLRDHUP | more)
        epoll.register(over[0], select.EPOLLIN)
        watchers.append(threading.Thread(target=watch, args=(what, epoll)))
    [watcher.start() for watcher in watchers]
    found = waits(SHORT, client.close)
    os.write(over[1], b"x")
    [watcher.join() for watcher in watchers]
    print("epolls wait: waits", found, "they tell", sorted(told.items()))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT)
    client.setblocking(True)
    got = []
    reader = threading.Thread(target=lambda: got.append(client.recv(100)))
    reader.start()
    time.sleep(0.4)
    found = waits(SHORT, lambda: os.close(client.fileno()))
    peer.send(b"later")
    print("another thread waits in a call: waits", found, "and the call behind it", waits(SHORT, reader.join), got[0], rest(peer)[1])
    client.detach()

    # However it comes out who is the last.
    found = []
    def close(fd, start):
        start.wait()
        found.append(waits(SHORT, lambda: os.close(fd)))
    pairs, threads = [pair(address) for _ in range(ROUNDS)], []
    for client, _ in pairs:
        full(client)
        linger(client, SHORT)
        start = threading.Barrier(2)
        numbers = os.dup(client.fileno()), client.detach()
        threads += [threading.Thread(target=close, args=(fd, start)) for fd in numbers]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("two threads close duplicates: wait", found.count("to the limit"), "of", len(found))

    client, peer = pair(address)
    client.send(b"x")
    time.sleep(0.2)
    linger(client, 0)
    print("no time at all: waits", waits(SHORT, client.close), end="; ")
    print("the peer's end:", rest(peer))

    client, peer = pair(address)
    linger(client, SHORT)
    print("nothing to send: waits", waits(SHORT, client.close), end="; ")
    print("the peer's end:", rest(peer))

    client, peer = pair(address)
    full(client)
    linger(client, SHORT, on=0)
    print("switched off: waits", waits(SHORT, client.close))

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for name, kind in (("datagrams", socket.SOCK_DGRAM), ("never connected", socket.SOCK_STREAM)):
        s = socket.socket(family, kind)
        linger(s, SHORT)
        print(f"{name}: waits", waits(SHORT, s.close))
    listener = socket.create_server((address, 0), family=family)
    linger(listener, SHORT)
    print("a listener: waits", waits(SHORT, listener.close))


def last_datagrams(address):
    """What a datagram socket has sent just before it is closed arrives, whatever lies there unread."""
    sends = {
        "write": lambda s, to, data: os.write(s.fileno(), data),
        "send": lambda s, to, data: s.send(data),
        "sendto": lambda s, to, data: s.sendto(data, to),
        "sendmsg": lambda s, to, data: s.sendmsg([data]),
    }
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for way, send in sends.items():
        for unread in (0, 1, 5):
            arrived = set()
            for _ in range(20):
                a, b = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
                a.bind((address, 0)), b.bind((address, 0))
                a.connect(b.getsockname()[:2])
                for _ in range(unread):
                    b.sendto(b"unread", a.getsockname()[:2])
                # So that it lies there.
                if unread:
                    a.recv(10, socket.MSG_PEEK)
                for number in range(5):
                    send(a, b.getsockname()[:2], b"%d" % number)
                a.close()
                b.settimeout(LONG)
                arrived.add(tuple(b.recv(10) for _ in range(5)))
                b.close()
            print("last datagrams", way, unread, arrived)


children = []
for address in ("127.0.0.1", "::1"):
    ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(ends[1], 1)
        os.close(ends[0])
        os.close(ends[1])
        body(address)
        last_datagrams(address)
        os.sys.stdout.flush()
        os._exit(0)
    os.close(ends[1])
    children.append((address, child, ends[0]))
for address, child, end in children:
    with os.fdopen(end) as lines:
        for line in lines:
            print(address, line, end="")
    os.waitpid(child, 0)
