"""Limits of time: no call comes back before its own is over, whatever else the program does meanwhile."""

import select
import socket
import struct
import threading
import time

from answers import full

LIMIT = 0.033
# Limits of sockets count in ticks, of which the first may be a part (sock_sndtimeo, schedule_timeout): a kernel has 100 to 1000 in a second.
TICK = 0.01
ROUNDS = 4
END = threading.Event()


def timeout(s, name):
    s.setsockopt(socket.SOL_SOCKET, name, struct.pack("ll", 0, int(LIMIT * 1e6)))


def busy(family, address):
    """Others keep the stack at work."""
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.bind((address, 0))
        while not END.is_set():
            for _ in range(20):
                s.sendto(b"x" * 1000, s.getsockname())
                s.recv(2000)
            time.sleep(0.001)


def pair(family, address):
    with socket.create_server((address, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        return client, listener.accept()[0]


def attempt(call):
    try:
        return call()
    except OSError as error:
        return type(error).__name__


def calls(family, address):
    client, peer = pair(family, address)
    timeout(client, socket.SO_RCVTIMEO)
    yield "recv", lambda: client.recv(1)
    yield "recvmsg", lambda: client.recvmsg(1)
    writer, reader = pair(family, address)
    full(writer, 100_000)
    writer.setblocking(True)
    timeout(writer, socket.SO_SNDTIMEO)
    yield "send", lambda: writer.send(b"x" * 1_000_000)
    listener = socket.create_server((address, 0), family=family)
    timeout(listener, socket.SO_RCVTIMEO)
    yield "accept", listener.accept
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.bind((address, 0))
    timeout(datagrams, socket.SO_RCVTIMEO)
    yield "recvfrom", lambda: datagrams.recvfrom(1)
    yield "select", lambda: select.select([client], [], [], LIMIT)
    poll = select.poll()
    poll.register(client, select.POLLIN)
    # In whole milliseconds.
    yield "poll", lambda: poll.poll(LIMIT * 1000)
    epoll = select.epoll()
    epoll.register(client, select.EPOLLIN)
    yield "epoll", lambda: epoll.poll(LIMIT)
    yield "kept", lambda: [peer, reader]


for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    END.clear()
    others = [threading.Thread(target=busy, args=(family, address)) for _ in range(2)]
    for one in others:
        one.start()
    for name, call in calls(family, address):
        if name == "kept":
            continue
        early = 0
        for _ in range(ROUNDS):
            start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            said = attempt(call)
            least = LIMIT if name in ("select", "poll", "epoll") else LIMIT - TICK
            took = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start
            # What is sent before everything is full waits for nothing.
            early += took < least * 1e9 and not isinstance(said, int)
        print(address, name, said, "early:", early)
    END.set()
    for one in others:
        one.join()
