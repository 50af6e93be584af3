#!/usr/bin/env python3
"""Asks this machine's Linux what it answers to the frames below, and writes replies.json.

Needs root, `ip` and Python 3.9. Two network namespaces joined by a veth pair are made and removed; nothing leaves them.
The kernel's end is 10.0.0.1/24, 02:00:00:00:00:01; the other end, 10.0.0.2, 02:00:00:00:00:02, is a packet socket.
Rate limits are off and the peer is a permanent neighbour, so that every frame is answered for itself.
"""

import json
import platform
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

KERNEL, PEER = "weft-blocks-k", "weft-blocks-p"
OUR_MAC, PEER_MAC, ALL = bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), b"\xff" * 6
OUR_IP, PEER_IP, BROADCAST = "10.0.0.1", "10.0.0.2", "10.0.0.255"


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ethernet(payload: bytes, kind: int = 0x0800, dst: bytes = OUR_MAC) -> bytes:
    return dst + PEER_MAC + struct.pack("!H", kind) + payload


def ip(payload: bytes, protocol: int, src: str = PEER_IP, dst: str = OUR_IP, tos: int = 0, flags: int = 0, ttl: int = 64,
       options: bytes = b"", version: int = 4, ihl: int | None = None, total: int | None = None, bad_sum: bool = False) -> bytes:
    options += b"\0" * (-len(options) % 4)
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    total = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack("!BBHHHBBH", version << 4 | ihl, tos, total, 0x1234, flags, ttl, protocol, 0)
    head += socket.inet_aton(src) + socket.inet_aton(dst) + options
    value = checksum(head) ^ (1 if bad_sum else 0)
    return head[:10] + struct.pack("!H", value) + head[12:] + payload


def icmp(kind: int, code: int, rest: bytes = b"\0\x07\0\x01", data: bytes = b"0123456789abcdef", bad_sum: bool = False) -> bytes:
    body = struct.pack("!BBH", kind, code, 0) + rest + data
    return body[:2] + struct.pack("!H", checksum(body) ^ (1 if bad_sum else 0)) + body[4:]


def udp(data: bytes, src: str = PEER_IP, dst: str = OUR_IP, port: int = 4999, length: int | None = None, sum_: int | None = None) -> bytes:
    length = 8 + len(data) if length is None else length
    head = struct.pack("!HHHH", 40000, port, length, 0)
    pseudo = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack("!BBH", 0, 17, 8 + len(data))
    value = (checksum(pseudo + head + data) or 0xFFFF) if sum_ is None else sum_
    return head[:6] + struct.pack("!H", value) + data


def arp(operation: int, sender_mac: bytes, sender: str, target_mac: bytes, target: str, hardware: int = 1) -> bytes:
    return struct.pack("!HHBBH", hardware, 0x0800, 6, 4, operation) + sender_mac + socket.inet_aton(sender) + target_mac + socket.inet_aton(target)


def frames() -> list[tuple[str, bytes]]:
    zero, echo = b"\0" * 6, icmp(8, 0)
    own = ip(udp(b"hello", OUR_IP, PEER_IP), 17, OUR_IP, PEER_IP)
    return [
        ("arp request", ethernet(arp(1, PEER_MAC, PEER_IP, zero, OUR_IP), 0x806, ALL)),
        ("arp request to us alone", ethernet(arp(1, PEER_MAC, PEER_IP, OUR_MAC, OUR_IP), 0x806)),
        ("arp request, padded", ethernet(arp(1, PEER_MAC, PEER_IP, zero, OUR_IP) + b"\0" * 18, 0x806, ALL)),
        ("arp request for another", ethernet(arp(1, PEER_MAC, PEER_IP, zero, "10.0.0.9"), 0x806, ALL)),
        ("arp probe", ethernet(arp(1, PEER_MAC, "0.0.0.0", zero, OUR_IP), 0x806, ALL)),
        ("arp request for loopback", ethernet(arp(1, PEER_MAC, PEER_IP, zero, "127.0.0.1"), 0x806, ALL)),
        ("arp request for a group", ethernet(arp(1, PEER_MAC, PEER_IP, zero, "224.0.0.1"), 0x806, ALL)),
        ("arp request of hardware type 99", ethernet(arp(1, PEER_MAC, PEER_IP, zero, OUR_IP, 99), 0x806, ALL)),
        ("arp request, cut", ethernet(arp(1, PEER_MAC, PEER_IP, zero, OUR_IP)[:20], 0x806, ALL)),
        ("arp announcement of our address", ethernet(arp(1, PEER_MAC, OUR_IP, zero, OUR_IP), 0x806, ALL)),
        ("arp operation 3", ethernet(arp(3, PEER_MAC, PEER_IP, zero, OUR_IP), 0x806, ALL)),
        ("arp request to another station", ethernet(arp(1, PEER_MAC, PEER_IP, zero, OUR_IP), 0x806, bytes.fromhex("020000000099"))),
        ("echo", ethernet(ip(echo, 1))),
        ("echo, padded", ethernet(ip(echo, 1) + b"\xee" * 9)),
        ("echo without data", ethernet(ip(icmp(8, 0, data=b""), 1))),
        ("echo of 1472 bytes", ethernet(ip(icmp(8, 0, data=bytes(range(256)) * 5 + bytes(192)), 1))),
        ("echo with tos and don't fragment", ethernet(ip(echo, 1, tos=0x2E, flags=0x4000, ttl=1))),
        ("echo with code 5", ethernet(ip(icmp(8, 5), 1))),
        ("echo to broadcast", ethernet(ip(echo, 1, dst=BROADCAST), dst=ALL)),
        ("echo to all ones", ethernet(ip(echo, 1, dst="255.255.255.255"), dst=ALL)),
        ("echo to all systems", ethernet(ip(echo, 1, dst="224.0.0.1"), dst=bytes.fromhex("01005e000001"))),
        ("echo to us in a broadcast frame", ethernet(ip(echo, 1), dst=ALL)),
        ("echo to another station", ethernet(ip(echo, 1), dst=bytes.fromhex("020000000099"))),
        ("echo to another host", ethernet(ip(echo, 1, dst="10.0.0.9"))),
        ("echo to the network's address", ethernet(ip(echo, 1, dst="10.0.0.0"))),
        ("echo to loopback", ethernet(ip(echo, 1, dst="127.0.0.1"))),
        ("echo from loopback", ethernet(ip(echo, 1, src="127.0.0.1"))),
        ("echo from us", ethernet(ip(echo, 1, src=OUR_IP))),
        ("echo from nobody", ethernet(ip(echo, 1, src="0.0.0.0"))),
        ("echo from 0.1.2.3", ethernet(ip(echo, 1, src="0.1.2.3"))),
        ("echo from broadcast", ethernet(ip(echo, 1, src="255.255.255.255"))),
        ("echo from the network's broadcast", ethernet(ip(echo, 1, src=BROADCAST))),
        ("echo from a group", ethernet(ip(echo, 1, src="224.0.0.1"))),
        ("echo with a wrong checksum", ethernet(ip(icmp(8, 0, bad_sum=True), 1))),
        ("echo with a wrong header checksum", ethernet(ip(echo, 1, bad_sum=True))),
        ("echo of 4 bytes", ethernet(ip(echo[:4], 1))),
        ("echo with version 6", ethernet(ip(echo, 1, version=6))),
        ("echo with header length 4", ethernet(ip(echo, 1, ihl=4))),
        ("echo with a total length too large", ethernet(ip(echo, 1, total=500))),
        ("echo with a total length below the header", ethernet(ip(echo, 1, total=19))),
        ("echo with a loose source route", ethernet(ip(echo, 1, options=b"\x83\x07\x04\x0a\x00\x00\x09"))),
        ("echo with a bad option", ethernet(ip(echo, 1, options=b"\x01\x01\x07\x2c"))),
        ("first fragment", ethernet(ip(echo, 1, flags=0x2000))),
        ("priority tag", ethernet(struct.pack("!HH", 0xA000, 0x0800) + ip(echo, 1), 0x8100)),
        ("an 802.3 length", ethernet(ip(echo, 1), 40)),
        ("icmp type 99", ethernet(ip(icmp(99, 0), 1))),
        ("echo reply", ethernet(ip(icmp(0, 0), 1))),
        ("port unreachable", ethernet(ip(icmp(3, 3, b"\0" * 4, own), 1))),
        ("time exceeded about nothing", ethernet(ip(icmp(11, 0, b"\0" * 4, b""), 1))),
        ("udp to a closed port", ethernet(ip(udp(b"hello"), 17))),
        ("udp to a closed port, empty", ethernet(ip(udp(b""), 17))),
        ("udp to a closed port, 520 bytes", ethernet(ip(udp(bytes(520)), 17))),
        ("udp to a closed port, 521 bytes", ethernet(ip(udp(bytes(521)), 17))),
        ("udp to a closed port, 1400 bytes", ethernet(ip(udp(bytes(1400)), 17))),
        ("udp to a closed port with tos", ethernet(ip(udp(b"hello"), 17, tos=0xBB, flags=0x4000))),
        ("udp to a closed port, padded", ethernet(ip(udp(b"hello"), 17) + b"\xee" * 11)),
        ("udp to a closed port, packet longer than the datagram", ethernet(ip(udp(b"hello") + b"more", 17))),
        ("udp without checksum", ethernet(ip(udp(b"hello", sum_=0), 17))),
        ("udp with a wrong checksum", ethernet(ip(udp(b"hello", sum_=0x1234), 17))),
        ("udp with length 7", ethernet(ip(udp(b"hello", length=7), 17))),
        ("udp with a length too large", ethernet(ip(udp(b"hello", length=200), 17))),
        ("udp of 6 bytes", ethernet(ip(udp(b"")[:6], 17))),
        ("udp to a closed port, broadcast", ethernet(ip(udp(b"hello", dst=BROADCAST), 17, dst=BROADCAST), dst=ALL)),
        ("udp to a closed port in a broadcast frame", ethernet(ip(udp(b"hello"), 17), dst=ALL)),
        ("udp to a closed port from broadcast", ethernet(ip(udp(b"hello", src=BROADCAST), 17, src=BROADCAST))),
        ("protocol 99", ethernet(ip(b"some data", 99))),
        ("protocol 99 to broadcast", ethernet(ip(b"data", 99, dst=BROADCAST), dst=ALL)),
    ]


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def inside() -> None:
    """In the peer's namespace: sends each frame and collects what comes back."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("peer0", 0))
    rows = []
    for name, frame in frames():
        wire.send(frame)
        replies, end = [], time.monotonic() + 0.05
        while (left := end - time.monotonic()) > 0 and select.select([wire], [], [], left)[0]:
            data, (_, _, kind, *_) = wire.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING:
                replies.append(data.hex())
        rows.append({"name": name, "sent": frame.hex(), "replies": replies})
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
                ethtool -K {device} tx off rx off >/dev/null 2>&1
                ip link set {device} up""")
        run("ip", "netns", "exec", KERNEL, "sh", "-c", f"""
            ip link set lo up
            ip address add {OUR_IP}/24 dev eth0
            echo 0 > /proc/sys/net/ipv4/icmp_ratelimit
            echo 100000 > /proc/sys/net/ipv4/icmp_msgs_per_sec
            echo 10000 > /proc/sys/net/ipv4/icmp_msgs_burst
            ip neighbour replace {PEER_IP} lladdr {PEER_MAC.hex(':')} dev eth0 nud permanent""")
        time.sleep(1)
        output = subprocess.run(["ip", "netns", "exec", PEER, sys.executable, __file__, "inside"],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    rows = ",\n".join("  " + json.dumps(row) for row in json.loads(output))
    Path(__file__).with_name("replies.json").write_text(f'{{"kernel": "{platform.release()}", "frames": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    inside() if sys.argv[1:] == ["inside"] else main()
