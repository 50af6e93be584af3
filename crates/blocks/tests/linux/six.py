#!/usr/bin/env python3
"""Asks this machine's Linux what it answers to the IPv6 frames below, and writes six.json.

Needs root, `ip` and Python 3.9. Two network namespaces joined by a veth pair are made and removed; nothing leaves them.
The kernel's end has fd77::1/64 and its link-local address, 02:00:00:00:00:01; the other end, fd77::2, 02:00:00:00:00:02, is a packet
socket. Rate limits are off and the peers are permanent neighbours, so that every frame is answered for itself. The frames of
`routed` are sent once more, to a kernel that forwards: behind it is fd88::/64, on a link with an MTU of 1400.
"""

import json
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

KERNEL, PEER = f"weft-six-k{os.getpid()}", f"weft-six-p{os.getpid()}"
OUR_MAC, PEER_MAC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
OUR, PEER_IP, OUR_LINK, PEER_LINK = "fd77::1", "fd77::2", "fe80::ff:fe00:1", "fe80::ff:fe00:2"
ALL, FAR, BEHIND = "ff02::1", "2001:db8::9", "fd88::5"


def address(text: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, text)


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(payload: bytes, next_: int, src: str = PEER_IP, dst: str = OUR, hops: int = 64, traffic: int = 0, version: int = 6,
          length: int | None = None, mac: bytes | None = None) -> bytes:
    length = len(payload) if length is None else length
    head = struct.pack("!IHBB", version << 28 | traffic << 20 | 0x12345, length, next_, hops)
    if mac is None:
        mac = b"\x33\x33" + address(dst)[12:] if address(dst)[0] == 0xFF else OUR_MAC
    return mac + PEER_MAC + b"\x86\xdd" + head + address(src) + address(dst) + payload


def upper(protocol: int, body: bytes, at: int, src: str, dst: str, bad: bool = False) -> bytes:
    pseudo = address(src) + address(dst) + struct.pack("!II", len(body), protocol)
    value = (checksum(pseudo + body) or 0xFFFF) ^ (1 if bad else 0)
    return body[:at] + struct.pack("!H", value) + body[at + 2:]


def icmp(kind: int, code: int = 0, rest: bytes = b"\0\x07\0\x01", data: bytes = b"0123456789abcdef", src: str = PEER_IP, dst: str = OUR,
         bad: bool = False) -> bytes:
    return upper(58, struct.pack("!BBH", kind, code, 0) + rest + data, 2, src, dst, bad)


def udp(data: bytes = b"hello", src: str = PEER_IP, dst: str = OUR, port: int = 4999, bad: bool = False) -> bytes:
    return upper(17, struct.pack("!HHHH", 40000, port, 8 + len(data), 0) + data, 6, src, dst, bad)


def options(next_: int, body: bytes) -> bytes:
    body += {0: b"", 1: b"\0"}.get(-(2 + len(body)) % 8) or (bytes([1, -(2 + len(body)) % 8 - 2]) + b"\0" * (-(2 + len(body)) % 8 - 2)
                                                            if -(2 + len(body)) % 8 else b"")
    return bytes([next_, (2 + len(body)) // 8 - 1]) + body


def routing(next_: int, kind: int, left: int) -> bytes:
    return bytes([next_, 2, kind, left]) + b"\0" * 4 + address(FAR)


def part(next_: int, offset: int, more: int, number: int = 7) -> bytes:
    return struct.pack("!BBHI", next_, 0, offset | more, number)


def frames() -> list[tuple[str, bytes]]:
    echo, hop, dst, route, fragment = icmp(128), 0, 60, 43, 44
    skip = b"\x1e\x02\x07\x07"

    def behind(first: int, extensions: bytes, to: str = OUR, data: bytes | None = None) -> bytes:
        return frame(extensions + (icmp(128, dst=to) if data is None else data), first, dst=to)

    own = frame(udp(src=OUR, dst=PEER_IP), 17, OUR, PEER_IP)[14:]
    return [
        ("echo", frame(echo, 58)),
        ("echo, padded", frame(echo, 58) + b"\xee" * 9),
        ("echo without data", frame(icmp(128, data=b""), 58)),
        ("echo of 1452 bytes", frame(icmp(128, data=bytes(range(256)) * 5 + bytes(172)), 58)),
        ("echo with traffic class, one hop", frame(echo, 58, traffic=0x2E, hops=1)),
        ("echo with no hops", frame(echo, 58, hops=0)),
        ("echo with code 5", frame(icmp(128, 5), 58)),
        ("echo to all nodes", frame(icmp(128, dst=ALL), 58, dst=ALL)),
        ("echo to all nodes from a link-local address", frame(icmp(128, src=PEER_LINK, dst=ALL), 58, PEER_LINK, ALL)),
        ("echo to the solicited-node group", frame(icmp(128, dst="ff02::1:ff00:1"), 58, dst="ff02::1:ff00:1")),
        ("echo to another group", frame(icmp(128, dst="ff02::77"), 58, dst="ff02::77")),
        ("echo to all nodes of a site", frame(icmp(128, dst="ff05::1"), 58, dst="ff05::1")),
        ("echo to an interface-local group", frame(icmp(128, dst="ff01::1"), 58, dst="ff01::1")),
        ("echo to a group of scope 0", frame(icmp(128, dst="ff00::1"), 58, dst="ff00::1")),
        ("echo to the link-local address", frame(icmp(128, src=PEER_LINK, dst=OUR_LINK), 58, PEER_LINK, OUR_LINK)),
        ("echo to another host", frame(icmp(128, dst="fd77::9"), 58, dst="fd77::9")),
        ("echo to loopback", frame(icmp(128, dst="::1"), 58, dst="::1")),
        ("echo from loopback", frame(icmp(128, src="::1"), 58, "::1")),
        ("echo from nobody", frame(icmp(128, src="::"), 58, "::")),
        ("echo from a group", frame(icmp(128, src=ALL), 58, ALL)),
        ("echo from an IPv4-mapped address", frame(icmp(128, src="::ffff:10.0.0.2"), 58, "::ffff:10.0.0.2")),
        ("echo from far away", frame(icmp(128, src=FAR), 58, FAR)),
        ("echo to us in a multicast frame", frame(echo, 58, mac=bytes.fromhex("333300000001"))),
        ("echo with a wrong checksum", frame(icmp(128, bad=True), 58)),
        ("echo of 4 bytes", frame(echo[:4], 58)),
        ("echo with version 4", frame(echo, 58, version=4)),
        ("echo with a payload length too large", frame(echo, 58, length=200)),
        ("echo with no payload length", frame(echo, 58, length=0)),
        ("hop-by-hop options that are skipped", behind(hop, options(58, skip))),
        ("a router alert", behind(hop, options(58, b"\x05\x02\0\0"))),
        ("destination options that are skipped", behind(dst, options(58, skip))),
        ("an option to be discarded", behind(dst, options(58, b"\x5e\x02\x07\x07"))),
        ("an option to be reported", behind(dst, options(58, b"\x9e\x02\x07\x07"))),
        ("an option to be reported, behind padding", behind(dst, options(58, b"\0\0\x9e\x02\x07\x07"))),
        ("an option to be reported, hop by hop", behind(hop, options(58, b"\x9e\x02\x07\x07"))),
        ("an option to be reported, to all nodes", behind(dst, options(58, b"\x9e\x02\x07\x07"), ALL)),
        ("an option to be reported unless to a group", behind(dst, options(58, b"\xde\x02\x07\x07"))),
        ("an option to be reported unless to a group, to all nodes", behind(dst, options(58, b"\xde\x02\x07\x07"), ALL)),
        ("an option that is too long", behind(dst, bytes([58, 0, 0x1E, 9, 0, 0, 0, 0]))),
        ("padding that is not zero", behind(dst, bytes([58, 0, 1, 4, 0, 7, 0, 0]))),
        ("too much padding", behind(dst, bytes([58, 1]) + b"\0" * 14)),
        ("eight options", behind(dst, options(58, b"\x1e\0" * 8))),
        ("nine options", behind(dst, options(58, b"\x1e\0" * 9))),
        ("destination options that the packet does not have", behind(dst, bytes([58, 99, 1, 4, 0, 0, 0, 0]))),
        ("hop-by-hop options behind destination options", behind(dst, options(hop, skip) + options(58, skip))),
        ("hop-by-hop options twice", behind(hop, options(hop, skip) + options(58, skip))),
        ("destination options twice", behind(dst, options(dst, skip) + options(58, skip))),
        ("routing type 0, done", behind(route, routing(58, 0, 0))),
        ("routing type 0", behind(route, routing(58, 0, 1))),
        ("routing type 9, done", behind(route, routing(58, 9, 0))),
        ("routing type 9", behind(route, routing(58, 9, 1))),
        ("routing type 9, to all nodes", behind(route, routing(58, 9, 1), ALL)),
        ("routing behind destination options", behind(dst, options(route, skip) + routing(58, 9, 1))),
        ("an atomic fragment", behind(fragment, part(58, 0, 0))),
        ("an atomic fragment behind options", behind(hop, options(fragment, skip) + part(58, 0, 0))),
        ("a fragment of odd length", behind(fragment, part(58, 0, 1), data=echo + b"x")),
        ("a fragment beyond 65535 bytes", behind(fragment, part(58, 65528, 1, 8), data=bytes(64))),
        ("a first fragment without the upper layer's header", behind(fragment, part(58, 0, 1, 9), data=b"")),
        ("nothing follows", frame(b"ignored", 59)),
        ("protocol 99", frame(b"some data", 99)),
        ("protocol 99 behind options", behind(dst, options(99, skip), data=b"some data")),
        ("protocol 99 to all nodes", frame(b"some data", 99, dst=ALL)),
        ("icmp type 99", frame(icmp(99), 58)),
        ("icmp type 200", frame(icmp(200), 58)),
        ("echo reply", frame(icmp(129), 58)),
        ("port unreachable", frame(icmp(1, 4, b"\0" * 4, own), 58)),
        ("time exceeded about nothing", frame(icmp(3, 0, b"\0" * 4, b""), 58)),
        ("udp to a closed port", frame(udp(), 17)),
        ("udp to a closed port, empty", frame(udp(b""), 17)),
        ("udp to a closed port, 1184 bytes", frame(udp(bytes(1184)), 17)),
        ("udp to a closed port, 1185 bytes", frame(udp(bytes(1185)), 17)),
        ("udp to a closed port with traffic class", frame(udp(), 17, traffic=0xBB)),
        ("udp to a closed port of the link-local address", frame(udp(src=PEER_LINK, dst=OUR_LINK), 17, PEER_LINK, OUR_LINK)),
        ("udp to a closed port behind options", behind(dst, options(17, skip), data=udp())),
        ("udp without checksum", frame(udp()[:6] + b"\0\0hello", 17)),
        ("udp with a wrong checksum", frame(udp(bad=True), 17)),
        ("udp of 6 bytes", frame(udp(b"")[:6], 17)),
        ("udp to a closed port, all nodes", frame(udp(dst=ALL), 17, dst=ALL)),
        ("udp to a closed port from nobody", frame(udp(src="::"), 17, "::")),
        ("udp to a closed port in a multicast frame", frame(udp(), 17, mac=bytes.fromhex("333300000001"))),
    ]


def routed() -> list[tuple[str, bytes]]:
    there = udp(dst=BEHIND)
    return [
        ("through", frame(there, 17, dst=BEHIND)),
        ("its last hop", frame(there, 17, dst=BEHIND, hops=1)),
        ("no hops left", frame(there, 17, dst=BEHIND, hops=0)),
        ("too big for the link", frame(udp(bytes(1400), dst=BEHIND), 17, dst=BEHIND)),
        ("to a prohibited prefix", frame(udp(dst="fd90::1"), 17, dst="fd90::1")),
        ("to an unreachable prefix", frame(udp(dst="fd91::1"), 17, dst="fd91::1")),
        ("to a blackhole", frame(udp(dst="fd92::1"), 17, dst="fd92::1")),
        ("to where there is no route", frame(udp(dst="fd93::1"), 17, dst="fd93::1")),
        ("from a link-local address", frame(udp(src=PEER_LINK, dst=BEHIND), 17, PEER_LINK, BEHIND)),
        ("to a link-local address", frame(udp(dst="fe80::77"), 17, dst="fe80::77")),
        ("to a group of the site", frame(udp(dst="ff05::77"), 17, dst="ff05::77")),
        ("from nobody", frame(udp(src="::", dst=BEHIND), 17, "::", BEHIND)),
        ("from loopback", frame(udp(src="::1", dst=BEHIND), 17, "::1", BEHIND)),
        ("in a multicast frame", frame(there, 17, dst=BEHIND, mac=bytes.fromhex("333300000001"))),
        ("a bad option for the destination", frame(options(17, b"\x9e\x02\x07\x07") + there, 60, dst=BEHIND)),
        ("a bad option for everyone", frame(options(17, b"\x9e\x02\x07\x07") + there, 0, dst=BEHIND)),
        ("a routing header", frame(routing(17, 0, 1) + there, 43, dst=BEHIND)),
        ("an error whose last hop it is", frame(icmp(1, 4, b"\0" * 4, there, dst=BEHIND), 58, dst=BEHIND, hops=1)),
        ("a fragment", frame(part(17, 0, 1) + there[:8], 44, dst=BEHIND)),
        ("a fragment whose last hop it is", frame(part(17, 64, 1) + there[:8], 44, dst=BEHIND, hops=1)),
    ]


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def is_answer(data: bytes) -> bool:
    """ICMPv6 errors and echo replies; not what the kernel says of itself (reports of groups, solicitations)."""
    return len(data) > 54 and data[12:14] == b"\x86\xdd" and data[20] == 58 and (data[54] < 128 or data[54] == 129)


def inside(which: str) -> None:
    """In the peer's namespace: sends each frame and collects what comes back."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    wire.bind(("peer0", 0))
    rows = []
    for name, sent in frames() if which == "host" else routed():
        wire.send(sent)
        replies, end = [], time.monotonic() + 0.05
        while (left := end - time.monotonic()) > 0 and select.select([wire], [], [], left)[0]:
            data, (_, _, kind, *_) = wire.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING and is_answer(data):
                replies.append(data.hex())
        rows.append({"name": name, "sent": sent.hex(), "replies": replies})
    print(json.dumps(rows))


def ask(which: str) -> str:
    output = subprocess.run(["ip", "netns", "exec", PEER, sys.executable, __file__, which], check=True, stdout=subprocess.PIPE, text=True).stdout
    return ",\n".join("  " + json.dumps(row) for row in json.loads(output))


def main() -> None:
    for name in (KERNEL, PEER):
        run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", "eth0", "netns", KERNEL, "address", OUR_MAC.hex(":"), "type", "veth",
            "peer", "name", "peer0", "netns", PEER, "address", PEER_MAC.hex(":"))
        run("ip", "netns", "exec", PEER, "sh", "-c", """
            echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
            ethtool -K peer0 tx off rx off >/dev/null 2>&1
            ip link set peer0 up""")
        run("ip", "netns", "exec", KERNEL, "sh", "-c", f"""
            for f in all default eth0; do cd /proc/sys/net/ipv6/conf/$f; echo 0 > disable_ipv6; echo 0 > accept_dad; echo 0 > accept_ra; done
            echo 0 > /proc/sys/net/ipv6/icmp/ratelimit
            echo 1000000 > /proc/sys/net/ipv4/icmp_msgs_per_sec
            echo 1000000 > /proc/sys/net/ipv4/icmp_msgs_burst
            ethtool -K eth0 tx off rx off >/dev/null 2>&1
            ip link set lo up
            ip link set eth0 up
            ip link add eth1 type veth peer name far1; ip link set far1 up
            ip link set eth1 mtu 1400 up
            ip address add {OUR}/64 dev eth0 nodad
            for peer in {PEER_IP} {PEER_LINK}; do ip neighbour replace $peer lladdr {PEER_MAC.hex(':')} dev eth0 nud permanent; done
            ip neighbour replace fd77::fe lladdr 02:00:00:00:00:fe dev eth0 nud permanent
            ip route add 2001:db8::/32 via fd77::fe""")
        time.sleep(2)
        host = ask("host")
        run("ip", "netns", "exec", KERNEL, "sh", "-c", """
            echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
            echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
            ip address add fd88::1/64 dev eth1 nodad
            ip neighbour replace fd88::5 lladdr 02:00:00:00:00:05 dev eth1 nud permanent
            ip route add prohibit fd90::/64
            ip route add unreachable fd91::/64
            ip route add blackhole fd92::/64""")
        router = ask("router")
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    text = f'{{"kernel": "{platform.release()}", "host": [\n{host}\n], "router": [\n{router}\n]}}\n'
    Path(__file__).with_name("six.json").write_text(text)


if __name__ == "__main__":
    inside(sys.argv[1]) if sys.argv[1:] else main()
