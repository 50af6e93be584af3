"""Payloads of one size, as a stream or as datagrams: who sends, and who counts.

    payload_flow.py stream-sink PORT PROTOCOL                         payload_flow.py stream PROTOCOL ADDRESS PORT SIZE COUNT
    payload_flow.py datagrams-sink PORT                               payload_flow.py datagrams PORT SIZE COUNT MBIT ADDRESS …

Datagrams go to the addresses in turn, at so many Mbit/s, and a last one of a single byte, again and again, says that they were all. A sink prints a JSON
object: bytes, payloads that came (of a stream: reads), and seconds from the first to the last.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import time

READ_BYTES = 1 << 16


def counted(read, least: int) -> None:
    """Until a read brings less than so many bytes."""
    total = count = 0
    begun = last = 0.0
    while (size := read()) >= least:
        last = time.monotonic()
        begun = begun or last
        total, count = total + size, count + 1
    print(json.dumps({"bytes": total, "payloads": count, "seconds": last - begun}))


def stream_sink(port: str, protocol: str) -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(protocol))
    listener.bind(("", int(port)))
    listener.listen()
    connection, _ = listener.accept()
    buffer = bytearray(READ_BYTES)
    # A read of a stream may bring a single byte.
    counted(lambda: connection.recv_into(buffer), 1)


def stream(protocol: str, address: str, port: str, size: str, count: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(protocol)) as connection:
        connection.connect((address, int(port)))
        payload = bytes(int(size))
        for _ in range(int(count)):
            connection.sendall(payload)


def datagrams_sink(port: str) -> None:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("", int(port)))
    buffer = bytearray(READ_BYTES)
    counted(lambda: one.recv_into(buffer), 2)


def datagrams(port: str, size: str, count: str, mbit: str, *addresses: str) -> None:
    payload, begun = bytes(int(size)), time.monotonic()
    ways = itertools.cycle([(address, int(port)) for address in addresses])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(int(count)):
            sender.sendto(payload, next(ways))
            time.sleep(max(0.0, begun + (number + 1) * len(payload) * 8 / float(mbit) / 1e6 - time.monotonic()))
        for _ in range(10):
            time.sleep(0.1)
            sender.sendto(b"x", next(ways))


if __name__ == "__main__":
    {"stream-sink": stream_sink, "stream": stream, "datagrams-sink": datagrams_sink, "datagrams": datagrams}[sys.argv[1]](*sys.argv[2:])
