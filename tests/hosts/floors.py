"""SO_RCVLOWAT of streams: when they count as readable, what a blocking read waits for, and how much room is made for it."""

import select
import signal
import socket
import struct
import threading
import time

from answers import side_by_side

LOW = 18  # SO_RCVLOWAT
HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def pair(family, buffer=0, mss=0):
    """Two ends. `buffer`: SO_RCVBUF of the first; `mss`: of the segments that it receives."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    if buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    if mss:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss)
    listener.bind((HOSTS[family], 0))
    listener.listen()
    other = socket.create_connection(listener.getsockname()[:2])
    one = listener.accept()[0]
    one.settimeout(None)
    return one, other


def ready(one, seconds=0.0):
    poller = select.poll()
    poller.register(one, select.POLLIN)
    return ["in" for _, events in poller.poll(seconds * 1000) if events & select.POLLIN]


def kept(family, name):
    """What is told of it."""
    one, _ = pair(family)
    for value in (-1, 0, 1, 1000, 65536, 100_000, 1_000_000, 16 << 20, 1 << 30):
        one.setsockopt(socket.SOL_SOCKET, LOW, value)
        print(name, "kept", value, one.getsockopt(socket.SOL_SOCKET, LOW), one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    one, _ = pair(family, buffer=20_000)
    for value in (-1, 0, 1000, 19_999, 20_000, 20_001, 1 << 30):
        one.setsockopt(socket.SOL_SOCKET, LOW, value)
        print(name, "kept, fixed", value, one.getsockopt(socket.SOL_SOCKET, LOW), one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    fresh = socket.socket(family, socket.SOCK_STREAM)
    fresh.setsockopt(socket.SOL_SOCKET, LOW, 300_000)
    print(name, "kept, fresh", fresh.getsockopt(socket.SOL_SOCKET, LOW), fresh.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, LOW, 300_000)
    print(name, "kept, datagrams", datagrams.getsockopt(socket.SOL_SOCKET, LOW), datagrams.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))


def marks(family, name):
    """A stream is readable from the mark on, and when the mark is lowered to what is there."""
    one, other = pair(family)
    one.setsockopt(socket.SOL_SOCKET, LOW, 10)
    other.send(b"x" * 9)
    print(name, "9 of 10", ready(one, 0.2))
    other.send(b"x")
    print(name, "10 of 10", ready(one, 5))
    one.setsockopt(socket.SOL_SOCKET, LOW, 11)
    print(name, "10 of 11", ready(one))
    epoll = select.epoll()
    epoll.register(one, select.EPOLLIN)
    print(name, "epoll, 10 of 11", len(epoll.poll(0.2)))
    lowers = threading.Timer(0.2, one.setsockopt, (socket.SOL_SOCKET, LOW, 10))
    lowers.start()
    print(name, "epoll, lowered", len(epoll.poll(5)))
    lowers.join()
    one.setsockopt(socket.SOL_SOCKET, LOW, 1000)
    print(name, "do not wait", len(one.recv(4, socket.MSG_DONTWAIT)), "of", 4)
    other.shutdown(socket.SHUT_WR)
    print(name, "its end", ready(one, 5), len(one.recv(1000)), len(one.recv(1000)))


def reads(family, name):
    """A blocking read has the mark, or all that it has room for; a signal or a time limit gives it what is there."""
    for low, room, pieces in ((10, 100, (4, 4, 4)), (10, 6, (4, 4, 4)), (10, 100, (30,)), (100, 100, (50, 50)), (100, 30, (20, 20))):
        one, other = pair(family)
        one.setsockopt(socket.SOL_SOCKET, LOW, low)

        def sends(other=other, pieces=pieces):
            for piece in pieces:
                time.sleep(0.15)
                other.send(b"x" * piece)
            time.sleep(0.3)
            other.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=sends)
        sender.start()
        got = []
        while not got or got[-1]:
            got.append(len(one.recv(room)))
        sender.join()
        print(name, "read", low, room, pieces, got)
    one, other = pair(family)
    one.setsockopt(socket.SOL_SOCKET, LOW, 100)
    other.send(b"x" * 30)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300_000))
    time.sleep(0.1)
    print(name, "time limit", len(one.recv(200)))
    other.send(b"x" * 30)
    time.sleep(0.1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    print(name, "signal", len(one.recv(200)))


def rooms(family, name):
    """However large the mark, what it asks for comes: there is room, or what there is room for counts as readable."""
    for buffer, low in ((0, 60_000), (0, 70_000), (0, 200_000), (0, 2_000_000), (20_000, 20_000), (20_000, 1_000_000), (100_000, 100_000), (1, 1000)):
        for mss in (0, 1000):
            one, other = pair(family, buffer, mss)
            one.setsockopt(socket.SOL_SOCKET, LOW, low)
            least = one.getsockopt(socket.SOL_SOCKET, LOW)
            total = 3 * least + 1
            sender = threading.Thread(target=lambda other=other, total=total: (other.sendall(b"x" * total), other.shutdown(socket.SHUT_WR)))
            sender.start()
            got, waits = 0, 0
            while ready(one, 5):
                part = len(one.recv(1 << 20, socket.MSG_DONTWAIT))
                got += part
                if not part:
                    break
            else:
                waits += 1
            sender.join(1)
            print(name, "room", buffer, low, mss, least, "all" if got == total else f"{got} of {total}, and waits")
    for buffer, low in ((0, 200_000), (20_000, 20_000), (100_000, 100_000)):
        one, other = pair(family, buffer, 1000)
        one.setsockopt(socket.SOL_SOCKET, LOW, low)
        total = 3 * low
        sender = threading.Thread(target=lambda other=other, total=total: (other.sendall(b"x" * total), time.sleep(0.5), other.shutdown(socket.SHUT_WR)))
        sender.start()
        got = []
        while not got or got[-1]:
            got.append(len(one.recv(1 << 22)))
        sender.join()
        print(name, "blocking", buffer, low, sum(got), "never less" if min([*got[:-2], low]) >= low else f"less: {got}")


for family, name in ((socket.AF_INET, "IPv4"), (socket.AF_INET6, "IPv6")):
    side_by_side(*(lambda part=part: part(family, name) for part in (kept, marks, reads, rooms)))
