"""One long or short flow from client to server, on whoever's stack: what a benchmark counts.

    flow.py server PROTOCOL PORT [CONTROL]                          one connection to its end
    flow.py client PROTOCOL ADDRESS PORT bytes COUNT [CONTROL]      sends so many bytes
    flow.py client PROTOCOL ADDRESS PORT seconds COUNT [CONTROL]    sends for so many seconds

PROTOCOL: 6, or 262 (IPPROTO_MPTCP); CONTROL: TCP_CONGESTION; SNDBUF in the environment: SO_SNDBUF. The last line of the server is a JSON object: bytes, seconds from the accepted connection to its
end, the longest time in which nothing came, and the bytes of each second.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

CHUNK_BYTES = 1 << 16


def made(protocol: str, control: list[str]) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(protocol))
    if buffer := os.environ.get("SNDBUF"):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(buffer))
    if control:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control[0].encode())
    return made


def serve(protocol: str, port: str, *control: str) -> None:
    # It listens until the end: where nobody listens Linux takes no further subflows.
    listener = made(protocol, list(control))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", int(port)))
    listener.listen()
    connection, _ = listener.accept()
    begun = last = time.monotonic()
    total, gap, seconds = 0, 0.0, [0]
    buffer = bytearray(CHUNK_BYTES)
    while count := connection.recv_into(buffer):
        now = time.monotonic()
        # The first bytes come a round trip after the connection.
        gap = max(gap, now - last) if total else gap
        total, last = total + count, now
        seconds += [0] * (int(now - begun) + 1 - len(seconds))
        seconds[-1] += count
    print(json.dumps({"bytes": total, "seconds": last - begun, "gap": gap, "each": seconds}))


def ask(protocol: str, address: str, port: str, unit: str, count: str, *control: str) -> None:
    data = bytes(CHUNK_BYTES)
    with made(protocol, list(control)) as connection:
        connection.connect((address, int(port)))
        if unit == "bytes":
            connection.sendall(bytes(int(count)))
            return
        until = time.monotonic() + float(count)
        while time.monotonic() < until:
            connection.sendall(data)


if __name__ == "__main__":
    {"server": serve, "client": ask}[sys.argv[1]](*sys.argv[2:])
