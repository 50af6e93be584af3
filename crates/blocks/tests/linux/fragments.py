#!/usr/bin/env python3
"""Asks this machine's Linux what it makes of fragments, and writes fragments.json.

Needs root, `ip` and Python 3.9. As in make.py, the kernel's end is 10.0.0.1/24, the other, 10.0.0.2, is a packet socket. What is cut is mostly an
echo request: its reply shows what the kernel put together. ipfrag_time is one second; `late` is what comes when it is over.
Counters are those of /proc/net/snmp and netstat, from before the first frame to after the last reply.
"""

import itertools
import json
import os
import platform
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from make import ALL, BROADCAST, OUR_IP, OUR_MAC, PEER_IP, PEER_MAC, checksum, ethernet, icmp, ip, run, udp

KERNEL, PEER = f"weft-frag-k{os.getpid()}", f"weft-frag-p{os.getpid()}"
TIMEOUT_S = 1
MORE, DONT = 0x2000, 0x4000
COUNTERS = ["ReasmReqds", "ReasmOKs", "ReasmFails", "ReasmTimeout", "ReasmOverlaps"]
numbers = itertools.count(1)


def message(length: int) -> bytes:
    """An echo request of so many bytes, with a byte in each place that tells the place."""
    return icmp(8, 0, data=bytes((place * 7 // 3) & 255 for place in range(length - 8)))


def piece(number: int, payload: bytes, start: int, end: int, more: bool, protocol: int = 1, dont: bool = False, **header) -> bytes:
    flags = start // 8 | (MORE if more else 0) | (DONT if dont else 0)
    packet = bytearray(ip(payload[start:end], protocol, flags=flags, **header))
    packet[4:6] = number.to_bytes(2, "big")
    head = (packet[0] & 15) * 4
    packet[10:12] = b"\0\0"
    packet[10:12] = checksum(bytes(packet[:head])).to_bytes(2, "big")
    dst = ALL if header.get("dst") == BROADCAST else OUR_MAC
    return ethernet(bytes(packet), dst=dst)


def cut(payload: bytes, *parts: tuple, **header) -> list[bytes]:
    """Fragments of one packet: (start, end) each, or (start, end, more, {header})."""
    number = next(numbers)
    out = []
    for start, end, *rest in parts:
        more = rest[0] if rest else end < len(payload)
        out.append(piece(number, payload, start, end, more, **header, **(rest[1] if len(rest) > 1 else {})))
    return out


def other_bytes(echo: bytes) -> list[bytes]:
    number = next(numbers)
    return [piece(number, payload, *span) for payload, span in ((echo, (0, 16, True)), (bytes(40), (8, 16, True)), (echo, (16, 40, False)))]


def cases() -> list[tuple[str, list[bytes]]]:
    echo, long = message(40), message(4008)
    first, second, third = (0, 16), (16, 32), (32, 40)
    rows = [("one fragment that is all", cut(echo, (0, 40)))]
    for order in itertools.permutations((first, second, third)):
        rows.append((f"order {order}", cut(echo, *order)))
    rows += [
        ("exact duplicate of the first", cut(echo, first, first, (16, 40))),
        ("exact duplicate of the last", cut(echo, (16, 40), (16, 40), first)),
        ("inside a fragment", cut(echo, (0, 24), (8, 16), (24, 40))),
        ("across two of one run", cut(echo, first, second, (8, 24), third)),
        ("all of one run", cut(echo, first, second, (0, 32), third)),
        ("across two runs", cut(echo, second, first, (8, 24), third)),
        ("all of two runs", cut(echo, second, first, (0, 32), third)),
        ("overlap to the right", cut(echo, (0, 24), second, third)),
        ("overlap to the left", cut(echo, second, (8, 24), third, first)),
        ("around", cut(echo, second, (8, 40), first)),
        ("duplicate with other bytes", other_bytes(echo)),
        ("the rest again after the packet", cut(echo, first, (16, 40), (16, 40))),
        ("after an overlap, all of it again", cut(echo, (0, 24), (16, 40), (0, 24), (24, 40))),
        ("second last one behind", cut(echo, (16, 32, False), (32, 40, False), first)),
        ("second last one before", cut(echo, (32, 40, False), (16, 24, False), first)),
        ("more behind the last", cut(echo, (16, 32, False), (32, 40, True), first)),
        ("nothing in it", cut(echo, first, (16, 16, True), (16, 40))),
        ("nothing in it, last", cut(echo, first, (16, 16, False), (16, 40))),
        ("less than eight in the middle", cut(echo, first, (16, 21, True), (16, 40))),
        ("twelve in the middle", cut(echo, (0, 12, True), (8, 40))),
        ("eight bytes first", cut(echo, (0, 8), (8, 40))),
        ("eight bytes each", cut(echo, *((at, at + 8) for at in range(0, 40, 8)))),
        ("beyond 65535", cut(message(65528 + 16 - 8)[:65536] + bytes(16), (65528, 65544, False), first)),
        ("up to 65535 behind a header with options", cut(echo, (0, 8, True, {"options": b"\x01\x01\x01\x01"}), (65504, 65515, False))),
        ("another identification", cut(echo, first) + cut(echo, (16, 40))),
        ("another source", cut(echo, first, (16, 40, False, {"src": "10.0.0.3"}))),
        ("another protocol", cut(echo, first, (16, 40, False, {"protocol": 17}))),
        ("other ttl, tos of the second", cut(echo, (0, 16, True, {"ttl": 3, "tos": 0x10}), (16, 40, False, {"ttl": 1, "tos": 0x08}))),
        ("don't fragment, all", cut(echo, (0, 16, True, {"dont": True}), (16, 40, False, {"dont": True}))),
        ("options in the first", cut(echo, (0, 16, True, {"options": b"\x94\x04\0\0"}), (16, 40))),
        ("options in the second", cut(echo, first, (16, 40, False, {"options": b"\x94\x04\0\0"}))),
        ("bad option in the second", cut(echo, first, (16, 40, False, {"options": b"\x07\x2c"}))),
        ("source route in the second", cut(echo, first, (16, 40, False, {"options": b"\x83\x03\x04"}))),
        ("to broadcast", cut(echo, first, (16, 40), dst=BROADCAST)),
        ("first only", cut(echo, first)),
        ("first only, long", cut(message(1408), (0, 1400))),
        ("last only", cut(echo, (16, 40))),
        ("first only, to broadcast", cut(echo, first, dst=BROADCAST)),
        ("first only, of an icmp error", cut(icmp(3, 3, b"\0" * 4, ip(udp(b"hello", OUR_IP, PEER_IP), 17, OUR_IP, PEER_IP)), (0, 16))),
        ("first only, of udp", cut(udp(bytes(32)), (0, 16), protocol=17)),
        ("udp to a closed port", cut(udp(bytes(1600)), (0, 800), (800, 1608), protocol=17)),
        ("protocol 99", cut(bytes(1600), (0, 800), (800, 1600), protocol=99)),
        ("reply in fragments", cut(long, (0, 1480), (1480, 2960), (2960, 4008))),
        ("reply in fragments, with don't fragment", cut(long, *((a, b, b < 4008, {"dont": True}) for a, b in ((0, 1480), (1480, 2960), (2960, 4008))))),
    ]
    for one, two in itertools.product(range(4), repeat=2):
        rows.append((f"ecn {one} and {two}", cut(echo, (0, 16, True, {"tos": one}), (16, 40, False, {"tos": two}))))
    for others in (63, 64, 65):
        start, *rest = cut(echo, first, (16, 40))
        between = [frame for _ in range(others) for frame in cut(echo, (0, 16), protocol=99)]
        rows.append((f"{others} others between", [start, *between, *rest]))
    return rows


def counters() -> dict[str, int]:
    text = subprocess.run(["ip", "netns", "exec", sys.argv[2], "cat", "/proc/net/snmp", "/proc/net/netstat"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in text.splitlines()]
    values = {name: int(value) for names, row in zip(lines[::2], lines[1::2]) for name, value in zip(names[1:], row[1:])}
    return {name: values[name] for name in COUNTERS if name in values}


def inside() -> None:
    """In the peer's namespace: sends each frame and collects what comes back."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("peer0", 0))

    def collect(span: float) -> list[str]:
        replies, end = [], time.monotonic() + span
        while (left := end - time.monotonic()) > 0:
            if not select.select([wire], [], [], left)[0]:
                break
            data, (_, _, kind, *_) = wire.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING:
                replies.append(data.hex())
        return replies

    rows = []
    for name, frames in cases():
        before = counters()
        for frame in frames:
            wire.send(frame)
        replies = collect(0.06)
        late = collect(TIMEOUT_S + 0.3)
        after = counters()
        rows.append({"name": name, "sent": [frame.hex() for frame in frames], "replies": replies, "late": late,
                     "counters": {key: after[key] - before[key] for key in after}})
    print(json.dumps(rows))


def main() -> None:
    for name in (KERNEL, PEER):
        run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", "eth0", "netns", KERNEL, "address", OUR_MAC.hex(":"), "type", "veth",
            "peer", "name", "peer0", "netns", PEER, "address", PEER_MAC.hex(":"))
        for space, device in ((KERNEL, "eth0"), (PEER, "peer0")):
            run("ip", "netns", "exec", space, "sh", "-c", f"""
                echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
                ethtool -K {device} tx off rx off gso off tso off gro off >/dev/null 2>&1
                ip link set {device} up""")
        run("ip", "netns", "exec", KERNEL, "sh", "-c", f"""
            ip link set lo up
            ip address add {OUR_IP}/24 dev eth0
            echo {TIMEOUT_S} > /proc/sys/net/ipv4/ipfrag_time
            echo 0 > /proc/sys/net/ipv4/icmp_ratelimit
            echo 100000 > /proc/sys/net/ipv4/icmp_msgs_per_sec
            echo 10000 > /proc/sys/net/ipv4/icmp_msgs_burst
            ip neighbour replace 10.0.0.3 lladdr {PEER_MAC.hex(':')} dev eth0 nud permanent
            ip neighbour replace {PEER_IP} lladdr {PEER_MAC.hex(':')} dev eth0 nud permanent""")
        time.sleep(1)
        output = subprocess.run(["ip", "netns", "exec", PEER, sys.executable, __file__, "inside", KERNEL],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    rows = ",\n".join("  " + json.dumps(row) for row in json.loads(output))
    head = f'"kernel": "{platform.release()}", "timeout_s": {TIMEOUT_S}'
    Path(__file__).with_name("fragments.json").write_text(f'{{{head}, "cases": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    inside() if sys.argv[1:2] == ["inside"] else main()
