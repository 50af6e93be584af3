"""Datagrams of every size, there and back, one at a time: fragments both ways.

    datagrams.py echo ADDRESS PORT                    sends every datagram back
    datagrams.py send ADDRESS PORT COUNT SEED         prints {"equal"}: how many came back as they were sent
"""

from __future__ import annotations

import json
import random
import socket
import sys

BYTES_MAX = 65_507
# A watchdog for one datagram. Nothing on the way loses any.
ANSWER_SECONDS_MAX = 10


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def echo(address: str, port: str) -> None:
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as server:
        server.bind((address, int(port)))
        print("ready", flush=True)
        while True:
            data, sender = server.recvfrom(1 << 16)
            server.sendto(data, sender)


def send(address: str, port: str, count: str, seed: str) -> None:
    source = random.Random(int(seed))
    sizes = [4, 1471, 1472, 1473, 2952, 2953, 8192, 65_000, BYTES_MAX]
    sizes += [source.randrange(4, BYTES_MAX + 1) for _ in range(int(count) - len(sizes))]
    equal = 0
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as client:
        client.connect((address, int(port)))
        client.settimeout(ANSWER_SECONDS_MAX)
        for number, size in enumerate(sizes):
            data = number.to_bytes(4, "big") + source.randbytes(size - 4)
            client.send(data)
            # A wire that duplicates datagrams brings answers twice: those of earlier ones are passed over.
            while True:
                try:
                    answer = client.recv(1 << 16)
                except TimeoutError:
                    sys.exit(f"datagram {number} of {size} bytes got no answer")
                if answer == data:
                    break
                if len(answer) < 4 or int.from_bytes(answer[:4], "big") >= number:
                    sys.exit(f"datagram {number} of {size} bytes came back as {len(answer)} others")
            equal += 1
    print(json.dumps({"equal": equal}))


{"echo": echo, "send": send}[sys.argv[1]](*sys.argv[2:])
