"""A UDP echo server, and its client that sends datagrams larger than any link takes.

    udp_echo.py serve ADDRESS PORT
    udp_echo.py echo ADDRESS PORT BYTES…      prints the sizes that came back equal
"""

from __future__ import annotations

import random
import socket
import sys


def opened(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def serve(address: str, port: str) -> None:
    server = opened(address)
    server.bind((address, int(port)))
    while True:
        data, peer = server.recvfrom(1 << 16)
        server.sendto(data, peer)


def echo(address: str, port: str, *sizes: str) -> None:
    client = opened(address)
    client.settimeout(2)
    equal = []
    for size in map(int, sizes):
        data = random.Random(size).randbytes(size)
        # A datagram may be lost, its fragments too: five attempts.
        for _ in range(5):
            client.sendto(data, (address, int(port)))
            try:
                if client.recvfrom(1 << 16)[0] == data:
                    equal.append(size)
                    break
            except TimeoutError:
                continue
    print(*equal)


if __name__ == "__main__":
    {"serve": serve, "echo": echo}[sys.argv[1]](*sys.argv[2:])
