"""One byte-exact transfer; the sender connects.

    transfer.py receive ADDRESS PORT CONGESTION        prints {"bytes", "sha256", "seconds"} of what came
    transfer.py send ADDRESS PORT CONGESTION BYTES SEED

The data never repeats, so that a segment in the wrong place changes the sum. Seconds run from the first byte to the
end of the stream, at the receiver: goodput, without the handshake.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import time

CHUNK_BYTES = 1 << 16


def choose(connection: socket.socket, congestion: str) -> None:
    """Sets the congestion control and reads it back: a stack that ignores the option must not pass as if it had it."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    if found != congestion:
        sys.exit(f"congestion control is {found}, wanted {congestion}")


def receive(address: str, port: str, congestion: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, int(port)), family=family) as listener:
        connection, _ = listener.accept()
    choose(connection, congestion)
    digest, count, started = hashlib.sha256(), 0, 0.0
    while data := connection.recv(CHUNK_BYTES):
        started = started or time.monotonic()
        digest.update(data)
        count += len(data)
    seconds = time.monotonic() - started
    print(json.dumps({"bytes": count, "sha256": digest.hexdigest(), "seconds": seconds}))


def send(address: str, port: str, congestion: str, size: str, seed: str) -> None:
    source, digest, left = random.Random(int(seed)), hashlib.sha256(), int(size)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as connection:
        choose(connection, congestion)
        # A watchdog: a lost SYN is sent again within a second, five of them are no impairment of these tests.
        connection.settimeout(10)
        connection.connect((address, int(port)))
        connection.settimeout(None)
        while left:
            data = source.randbytes(min(CHUNK_BYTES, left))
            digest.update(data)
            connection.sendall(data)
            left -= len(data)
        connection.shutdown(socket.SHUT_WR)
        # The receiver closes when it has everything.
        if connection.recv(1):
            sys.exit("the receiver sent something")
    print(json.dumps({"bytes": int(size), "sha256": digest.hexdigest()}))


{"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
