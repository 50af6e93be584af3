"""Both ends of a connection, whoever's stack it is on.

    ends.py server KIND FAMILY PROTOCOL ADDRESS PORT       prints "ready" when it listens
    ends.py client KIND FAMILY PROTOCOL ADDRESS PORT

FAMILY: 4, 6, or any (an IPv6 listener that takes IPv4, too). PROTOCOL: 0, or 262 for Multipath TCP's sockets. The last
line of either is a JSON list: what each connection has sent and received, with digests, and how it ended. The data
never repeats, so that bytes in the wrong place change the digest.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

CHUNK_BYTES = 1 << 16
OUT_BYTES, BACK_BYTES = 5_000_000, 3_000_000
LONG_BYTES = 10_000_000
ENOUGH = "enough"
WRITES, WRITE_BYTES_MAX, WRITES_UNANSWERED_MAX = 2_000, 3_000, 100
SMALL_WRITES, SMALL_BYTES_MAX, SMALL_AT_ONCE = 2_000, 300, 10
UNREAD_BYTES = 50_000
# Until data that nobody reads has come.
UNREAD_SECONDS = 1.0
SLOW_BYTES, SLOW_BUFFER_BYTES, SLOW_READ_BYTES, SLOW_SECONDS = 10_000_000, 1 << 16, 500_000, 0.2
CONNECTIONS = 50
SHORT_BYTES_MAX = 20_000
# The stream of a client that is killed, more than it can send until then: its server has the same, to compare.
KILLED_SEED, KILLED_BYTES = 99, 40_000_000
# More than the two buffers together hold for a peer that does not read, and for how long it does not.
FULL_BUFFER_BYTES, FULL_BYTES_MAX, FULL_SECONDS = 1 << 16, 1 << 20, 3.0
# So much each way before and after a pause, in which a box on the way forgets the connection.
PAUSED_BYTES, PAUSE_SECONDS = 200_000, 4.0


class Talk:
    """A connection, with what has gone through it."""

    def __init__(self, connection: socket.socket, seed: int) -> None:
        self.connection, self.source = connection, random.Random(seed)
        self._sums = {"sent": hashlib.sha256(), "received": hashlib.sha256()}
        self._counts = {"sent": 0, "received": 0}
        self._first = self._last = 0.0
        self.ended = ""

    def counted(self, which: str, data: bytes) -> None:
        self._sums[which].update(data)
        self._counts[which] += len(data)

    def count(self, which: str) -> int:
        return self._counts[which]

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)
        self.counted("sent", data)

    def send(self, count: int) -> None:
        while count:
            data = self.source.randbytes(min(CHUNK_BYTES, count))
            self.write(data)
            count -= len(data)

    def read(self, count_max: int = CHUNK_BYTES) -> bytes:
        data = self.connection.recv(count_max)
        self.counted("received", data)
        self._last = time.monotonic()
        self._first = self._first or self._last
        return data

    def receive(self, count: int | None = None) -> None:
        """Until the end, or so much."""
        while (count is None or self.count("received") < count) and self.read():
            pass

    def finish(self) -> None:
        self.connection.shutdown(socket.SHUT_WR)

    def report(self) -> dict:
        """`seconds`: from the first that was received to the last."""
        both_ways = {which: [self._counts[which], self._sums[which].hexdigest()] for which in self._sums}
        return both_ways | {"ended": self.ended, "seconds": self._last - self._first}


def beside(body: Callable[[], object]) -> Future:
    """Runs in a thread; its result is also its error."""
    return ThreadPoolExecutor(1).submit(body)


# What the two do, by the name of the kind.


def transfer_client(talk: Talk) -> None:
    talk.send(OUT_BYTES)
    talk.finish()
    talk.receive()


def transfer_server(talk: Talk) -> None:
    talk.receive()
    talk.send(BACK_BYTES)


def long_client(talk: Talk) -> None:
    talk.send(LONG_BYTES)
    talk.finish()
    talk.receive()


def long_server(talk: Talk) -> None:
    talk.receive()


def steady_client(talk: Talk) -> None:
    """Until there is a file of that name in its folder."""
    while not os.path.exists(ENOUGH):
        talk.send(CHUNK_BYTES)
    talk.finish()
    talk.receive()


def both(talk: Talk) -> None:
    """Both directions at once."""
    sender = beside(lambda: (talk.send(BACK_BYTES), talk.finish()))
    talk.receive()
    sender.result()


def echo_client(talk: Talk) -> None:
    """Many writes, up to so many of them ahead of their answers."""
    room = threading.Semaphore(WRITES_UNANSWERED_MAX)
    sizes = [talk.source.randint(1, WRITE_BYTES_MAX) for _ in range(WRITES)]

    def read() -> None:
        came, wanted = 0, 0
        try:
            for size in sizes:
                wanted += size
                while came < wanted:
                    came += len(talk.read()) or sys.exit("the echo ended early")
                room.release()
        finally:
            # Whoever writes is to hear of the end, too.
            room.release(len(sizes) * WRITES_UNANSWERED_MAX)

    reader = beside(read)
    for number, size in enumerate(sizes):
        # Now and then everything has been answered, and a write is alone.
        for _ in range(WRITES_UNANSWERED_MAX if number % 500 == 0 else 1):
            room.acquire()
        if number % 500 == 0:
            room.release(WRITES_UNANSWERED_MAX - 1)
        talk.write(talk.source.randbytes(size))
    reader.result()
    talk.finish()
    talk.receive()


def echo_server(talk: Talk) -> None:
    while data := talk.read():
        talk.write(data)


def small(talk: Talk) -> None:
    """Small writes, each a segment of its own, some at a time, for a second."""
    talk.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in range(SMALL_WRITES):
        talk.write(talk.source.randbytes(talk.source.randint(1, SMALL_BYTES_MAX)))
        if number % SMALL_AT_ONCE == 0:
            time.sleep(SMALL_AT_ONCE / SMALL_WRITES)


def small_client(talk: Talk) -> None:
    small(talk)
    talk.finish()
    talk.receive()


def small_server(talk: Talk) -> None:
    talk.receive()
    small(talk)


def unread_client(talk: Talk) -> None:
    talk.send(UNREAD_BYTES)
    talk.receive()


def unread_server(talk: Talk) -> None:
    talk.read(1)
    time.sleep(UNREAD_SECONDS)


def killed_client(talk: Talk) -> None:
    talk.source.seed(KILLED_SEED)
    talk.send(KILLED_BYTES)
    time.sleep(1000)


def killed_server(talk: Talk) -> None:
    """What comes is the beginning of what was sent."""
    source = random.Random(KILLED_SEED)
    wanted = b""
    while data := talk.read():
        while len(wanted) < len(data):
            wanted += source.randbytes(CHUNK_BYTES)
        if not wanted.startswith(data):
            sys.exit("something else came than was sent")
        wanted = wanted[len(data):]


def killed_unread_client(talk: Talk) -> None:
    talk.send(1)
    time.sleep(1000)


def killed_unread_server(talk: Talk) -> None:
    talk.receive(1)
    talk.send(UNREAD_BYTES)
    talk.receive()


def slow_client(talk: Talk) -> None:
    talk.send(SLOW_BYTES)
    talk.finish()
    talk.receive()


def slow_server(talk: Talk) -> None:
    """So much at a time, and then a pause in which the window closes."""
    for end in range(SLOW_READ_BYTES, SLOW_BYTES + 1, SLOW_READ_BYTES):
        talk.receive(end)
        time.sleep(SLOW_SECONDS)
    talk.receive()


def full_client(talk: Talk) -> None:
    """As much as is taken while nobody reads: that has an end."""
    talk.connection.setblocking(False)
    until = time.monotonic() + FULL_SECONDS / 2
    while time.monotonic() < until:
        try:
            data = talk.source.randbytes(CHUNK_BYTES)
            talk.counted("sent", data[:talk.connection.send(data)])
        except BlockingIOError:
            time.sleep(0.05)
        if talk.count("sent") > FULL_BYTES_MAX:
            sys.exit(f"more than {FULL_BYTES_MAX} bytes were taken, and nobody has read one")
    talk.connection.setblocking(True)
    talk.finish()
    talk.receive()


def full_server(talk: Talk) -> None:
    time.sleep(FULL_SECONDS)
    talk.receive()


def speak(talk: Talk) -> None:
    """What the first of the two does between pauses: it speaks, and is answered."""
    talk.send(PAUSED_BYTES)
    talk.receive(talk.count("received") + PAUSED_BYTES)


def answer(talk: Talk) -> None:
    talk.receive(talk.count("received") + PAUSED_BYTES)
    talk.send(PAUSED_BYTES)


def paused(*parts: Callable[[Talk], None]) -> Callable[[Talk], None]:
    """Parts with a pause between them, and then the end."""

    def body(talk: Talk) -> None:
        for number, part in enumerate(parts):
            if number:
                time.sleep(PAUSE_SECONDS)
            part(talk)
        talk.finish()
        talk.receive()

    return body


def short_client(talk: Talk) -> None:
    talk.send(talk.source.randint(1, SHORT_BYTES_MAX))
    talk.finish()
    talk.receive()


def short_server(talk: Talk) -> None:
    talk.receive()
    talk.send(talk.source.randint(1, SHORT_BYTES_MAX))


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the two do with each connection, how many there are, and whether the client opens them all at once."""

    client: Callable[[Talk], None]
    server: Callable[[Talk], None]
    connections: int = 1
    at_once: bool = False
    receive_buffer: int = 0
    send_buffer: int = 0


KINDS = {
    "transfer": Kind(transfer_client, transfer_server),
    "long": Kind(long_client, long_server),
    "steady": Kind(steady_client, long_server),
    "both": Kind(both, both),
    "echo": Kind(echo_client, echo_server),
    "small": Kind(small_client, small_server),
    "unread": Kind(unread_client, unread_server),
    "killed": Kind(killed_client, killed_server),
    "killed-unread": Kind(killed_unread_client, killed_unread_server),
    "slow": Kind(slow_client, slow_server, receive_buffer=SLOW_BUFFER_BYTES),
    "full": Kind(full_client, full_server, receive_buffer=FULL_BUFFER_BYTES, send_buffer=FULL_BUFFER_BYTES),
    "client after a pause": Kind(paused(speak, speak), paused(answer, answer)),
    "server after a pause": Kind(paused(speak, answer), paused(answer, speak)),
    "sequence": Kind(short_client, short_server, CONNECTIONS),
    "crowd": Kind(short_client, short_server, CONNECTIONS, at_once=True),
}


def talked(connection: socket.socket, seed: int, body: Callable[[Talk], None], talks: list[Talk]) -> None:
    """One connection from here to its end."""
    talk = Talk(connection, seed)
    talks.append(talk)
    with connection:
        try:
            body(talk)
            talk.ended = "end"
        except OSError as error:
            talk.ended = errno.errorcode.get(error.errno or 0, str(error))


def served(kind: Kind, family: str, protocol: int, address: str, port: int) -> list[Talk]:
    """All connections that come, each in a thread of its own."""
    talks: list[Talk] = []
    with socket.socket(socket.AF_INET if family == "4" else socket.AF_INET6, socket.SOCK_STREAM, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family != "4":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, family == "6")
        if kind.receive_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kind.receive_buffer)
        listener.bind((address, port))
        listener.listen(128)
        print("ready", flush=True)
        threads = []
        for number in range(kind.connections):
            connection, _ = listener.accept()
            threads.append(threading.Thread(target=talked, args=(connection, 1000 + number, kind.server, talks)))
            threads[-1].start()
        for thread in threads:
            thread.join()
    return talks


def asked(kind: Kind, family: str, protocol: int, address: str, port: int) -> list[Talk]:
    """All connections, one after the other or all at once."""
    talks: list[Talk] = []

    def one(number: int) -> None:
        connection = socket.socket(socket.AF_INET6 if family == "6" else socket.AF_INET, socket.SOCK_STREAM, protocol)
        if kind.send_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kind.send_buffer)
        connection.connect((address, port))
        talked(connection, number, kind.client, talks)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(kind.connections)]
    for thread in threads:
        thread.start()
        if not kind.at_once:
            thread.join()
    for thread in threads:
        thread.join()
    return talks


def main(role: str, kind: str, family: str, protocol: str, address: str, port: str) -> None:
    body = {"server": served, "client": asked}[role]
    talks = body(KINDS[kind], family, int(protocol), address, int(port))
    if len(talks) != KINDS[kind].connections:
        sys.exit(f"{len(talks)} connections instead of {KINDS[kind].connections}")
    print(json.dumps([talk.report() for talk in talks]))


if __name__ == "__main__":
    main(*sys.argv[1:])
