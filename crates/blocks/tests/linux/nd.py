#!/usr/bin/env python3
"""Asks this machine's Linux about neighbour discovery and multicast reports, and writes nd.json: what was sent, what came back, what it believes.

Needs root and `ip`. Two network namespaces, joined by a veth pair, are made and removed; frames stay on that pair.
"""

import json
import os
import platform
import socket
import struct
import subprocess
import threading
import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

KERNEL, PEER = f"weft-nd-k{os.getpid()}", f"weft-nd-p{os.getpid()}"
OUR_MAC, PEER_MAC, OTHER_MAC = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))
OURS, OUR_LINK = IPv6Address("fd77::1"), IPv6Address("fe80::ff:fe00:1")
NOBODY, ALL_NODES = IPv6Address("::"), IPv6Address("ff02::1")
ROUTER, SOLICITED, OVERRIDE = 0x80, 0x40, 0x20
CLONE_NEWNET = 0x40000000


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def setns(name: str) -> None:
    import ctypes

    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), name)


def inside(name: str, work):
    """Runs `work` on a thread in a namespace."""
    box = []

    def body() -> None:
        setns(name)
        box.append(work())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return box[0]


def group_of(address: IPv6Address) -> IPv6Address:
    return IPv6Address(int(IPv6Address("ff02::1:ff00:0")) | int(address) & 0xFFFFFF)


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(src: IPv6Address, dst: IPv6Address, message: bytes, hops: int = 255, mac: bytes = PEER_MAC) -> bytes:
    pseudo = src.packed + dst.packed + struct.pack("!IxxxB", len(message), 58)
    message = message[:2] + struct.pack("!H", checksum(pseudo + message[:2] + b"\0\0" + message[4:])) + message[4:]
    to = b"\x33\x33" + dst.packed[12:] if dst.is_multicast else OUR_MAC
    return to + mac + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(message), 58, hops) + src.packed + dst.packed + message


def option(kind: int, data: bytes) -> bytes:
    return bytes([kind, (len(data) + 2) // 8]) + data


def solicitation(src, dst, target, options: bytes = b"", **more) -> bytes:
    return frame(src, dst, bytes([135, 0, 0, 0]) + bytes(4) + target.packed + options, **more)


def advertisement(src, dst, target, flags: int, options: bytes = b"", **more) -> bytes:
    return frame(src, dst, bytes([136, 0, 0, 0, flags, 0, 0, 0]) + target.packed + options, **more)


def echo(src) -> bytes:
    return frame(src, OURS, bytes([128, 0, 0, 0, 0, 7, 0, 1]) + b"data", hops=64)


def router(src, lifetime: int, options: bytes = b"", flags: int = 0) -> bytes:
    return frame(src, ALL_NODES, struct.pack("!BBHBBHII", 134, 0, 0, 0, flags, lifetime, 0, 0) + options)


def prefix(text: str, flags: int, valid: int, preferred: int, bits: int = 64) -> bytes:
    return option(3, struct.pack("!BBIII", bits, flags, valid, preferred, 0) + IPv6Address(text).packed)


class Wire:
    def __init__(self) -> None:
        self.socket = inside(PEER, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        self.socket.bind(("eth0", 0))

    def collect(self, seconds: float, wanted) -> list[str]:
        out, end = [], time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                data, address = self.socket.recvfrom(65536)
            except TimeoutError:
                break
            if address[2] != socket.PACKET_OUTGOING and wanted(data):
                out.append(data.hex())
        return out

    def send(self, data: bytes) -> None:
        self.socket.send(data)


def is_icmp6(data: bytes, kinds: set[int]) -> bool:
    return data[12:14] == b"\x86\xdd" and data[20] == 58 and data[54] in kinds


def is_report(data: bytes) -> bool:
    mld = data[12:14] == b"\x86\xdd" and data[20] == 0 and data[62] in {131, 132, 143}
    return mld or (data[12:14] == b"\x08\x00" and data[23] == 2)


def neighbours() -> dict:
    rows = json.loads(run("ip", "-n", KERNEL, "-j", "-6", "neigh", "show", "dev", "eth0"))
    return {row["dst"]: [row.get("lladdr"), row["state"][0], "router" in row] for row in rows}


def neighbour_cases() -> list[tuple[str, list, IPv6Address]]:
    """Name, frames, and whose entry is looked at; every case has a peer of its own."""
    cases, number = [], 0
    source, target = option(1, PEER_MAC), option(2, PEER_MAC)

    def add(name: str, make) -> None:
        nonlocal number
        number += 1
        peer = IPv6Address(f"fd77::{number:x}:2")
        cases.append((name, make(peer), peer))

    ours = group_of(OURS)
    add("solicited by the group", lambda p: [solicitation(p, ours, OURS, source)])
    add("solicited alone", lambda p: [solicitation(p, OURS, OURS, source)])
    add("solicited without address", lambda p: [solicitation(p, ours, OURS)])
    add("duplicate detection", lambda p: [solicitation(NOBODY, ours, OURS)])
    add("duplicate detection with nonce", lambda p: [solicitation(NOBODY, ours, OURS, option(14, b"nonce!"))])
    add("link-local address solicited", lambda p: [solicitation(p, group_of(OUR_LINK), OUR_LINK, source)])
    add("hop limit 254", lambda p: [solicitation(p, ours, OURS, source, hops=254)])
    add("option of length 0", lambda p: [solicitation(p, ours, OURS, bytes([1, 0]) + PEER_MAC)])
    add("option cut off", lambda p: [solicitation(p, ours, OURS, bytes([1, 2]) + PEER_MAC)])
    add("unknown option", lambda p: [solicitation(p, ours, OURS, option(99, bytes(6)) + source)])
    add("code 1", lambda p: [frame(p, ours, bytes([135, 1, 0, 0]) + bytes(4) + OURS.packed + source)])
    add("too short", lambda p: [frame(p, ours, bytes([135, 0, 0, 0]) + bytes(4) + OURS.packed[:8])])
    add("somebody else's address", lambda p: [solicitation(p, ours, IPv6Address("fd77::aa00:1"), source)])
    add("a group as target", lambda p: [solicitation(p, ours, ALL_NODES, source)])
    add("from nobody with address", lambda p: [solicitation(NOBODY, ours, OURS, source)])
    add("from nobody to one", lambda p: [solicitation(NOBODY, OURS, OURS)])
    add("our own address solicits", lambda p: [solicitation(OURS, ours, OURS, source)])
    add("advertised unasked", lambda p: [advertisement(p, ALL_NODES, p, OVERRIDE, target)])
    add("changed address solicits", lambda p: [solicitation(p, ours, OURS, source), solicitation(p, ours, OURS, option(1, OTHER_MAC))])
    add("router solicitation", lambda p: [frame(p, IPv6Address("ff02::2"), bytes([133, 0, 0, 0]) + bytes(4) + source)])
    answer = lambda p: advertisement(p, OURS, p, SOLICITED | OVERRIDE, target)  # noqa: E731
    before = {
        "incomplete": lambda p: [echo(p)],
        "reachable": lambda p: [echo(p), answer(p)],
        "stale": lambda p: [solicitation(NOBODY, ours, OURS), solicitation(p, ours, OURS, source)],
    }
    for state, make in before.items():
        for flags in range(0, 256, 32):
            for text, mac in (("same", PEER_MAC), ("other", OTHER_MAC), ("no", None)):
                options = option(2, mac) if mac else b""
                name = f"{state}: flags {flags:02x}, {text} address"
                add(name, lambda p, make=make, flags=flags, options=options: [*make(p), advertisement(p, OURS, p, flags, options)])
        add(f"{state}: to a group, solicited", lambda p, make=make: [*make(p), advertisement(p, ALL_NODES, p, SOLICITED | OVERRIDE, target)])
    return cases


def ask_neighbours(wire: Wire) -> list[dict]:
    rows = []
    for name, frames, peer in neighbour_cases():
        steps = []
        for data in frames:
            wire.send(data)
            steps.append({"sent": data.hex(), "replies": wire.collect(0.03, lambda data: is_icmp6(data, {129, 135, 136}))})
        rows.append({"name": name, "steps": steps, "peer": str(peer), "entry": neighbours().get(str(peer))})
        run("ip", "-n", KERNEL, "-6", "neigh", "flush", "dev", "eth0")
        # Whatever is asked for the last time leaves before the next case.
        wire.collect(0.02, lambda data: True)
    return rows


def believed() -> dict:
    """Routes and addresses that routers told of."""
    routes = json.loads(run("ip", "-n", KERNEL, "-j", "-6", "route", "show", "dev", "eth0"))
    rows = json.loads(run("ip", "-n", KERNEL, "-j", "-6", "address", "show", "dev", "eth0"))[0]["addr_info"]
    told = [[row["dst"], row.get("gateway"), row["metric"], row.get("pref", "medium")] for row in routes if row.get("protocol") in ("ra", "kernel")]
    made = [
        [row["local"], bool(row.get("deprecated")), row["valid_life_time"], row["preferred_life_time"]]
        for row in rows if row.get("dynamic")
    ]
    return {"routes": sorted(told, key=str), "addresses": sorted(made)}


def ask_routers(wire: Wire) -> list[dict]:
    one, two = IPv6Address("fe80::aa"), IPv6Address("fe80::bb")
    hour, forever = 3600, 0xFFFFFFFF
    link, auto = 0x80, 0x40
    steps = [
        ("a default router", router(one, 1800, option(1, PEER_MAC))),
        ("another, of high preference", router(two, 900, flags=0x08)),
        ("it is none any more", router(two, 0)),
        ("not from a link-local address", router(IPv6Address("fd77::9"), 1800)),
        ("a prefix on the link", router(one, 1800, prefix("2001:db8:1::", link, 600, 300))),
        ("it is gone", router(one, 1800, prefix("2001:db8:1::", link, 0, 0))),
        ("a prefix for addresses", router(one, 1800, prefix("2001:db8:2::", auto, hour, 600))),
        ("less than two hours remain", router(one, 1800, prefix("2001:db8:2::", auto, hour // 2, 600))),
        ("more than two hours", router(one, 1800, prefix("2001:db8:2::", auto, 10 * hour, 600))),
        ("no less than two hours", router(one, 1800, prefix("2001:db8:2::", auto, 60, 60))),
        ("deprecated", router(one, 1800, prefix("2001:db8:2::", auto, 10 * hour, 0))),
        ("both, for ever", router(one, 1800, prefix("2001:db8:3::", link | auto, forever, forever))),
        ("preferred for longer than valid", router(one, 1800, prefix("2001:db8:4::", link | auto, 300, 600))),
        ("80 bits", router(one, 1800, prefix("2001:db8:5::", link | auto, 600, 300, bits=80))),
        ("the link-local prefix", router(one, 1800, prefix("fe80::", link | auto, 600, 300))),
        ("a route, which is not asked for", router(one, 1800, option(24, struct.pack("!BBI", 48, 0, 600) + IPv6Address("2001:db8:7::").packed))),
        ("the network of an address that was set", router(one, 1800, prefix("fd77::", link, 600, 300))),
    ]
    rows = []
    for name, data in steps:
        wire.send(data)
        # Addresses that are made of a prefix are detected: at most a second before the solicitation and one after it.
        time.sleep(2.5 if "prefix for" in name or "both" in name else 0.2)
        rows.append({"name": name, "sent": data.hex(), **believed()})
    return rows


V6, V4 = "ff05::1:3", "239.1.2.3"
JOIN, LEAVE, BLOCK, UNBLOCK, JOIN_SOURCE, LEAVE_SOURCE = 42, 45, 43, 44, 46, 47
SOURCES = {socket.AF_INET6: ["2001:db8::1", "2001:db8::2"], socket.AF_INET: ["192.0.2.1", "192.0.2.2"]}


def sockaddr(text: str) -> bytes:
    if ":" in text:
        raw = struct.pack("=HHI", socket.AF_INET6, 0, 0) + IPv6Address(text).packed + bytes(4)
    else:
        raw = struct.pack("=HH", socket.AF_INET, 0) + IPv4Address(text).packed + bytes(8)
    return raw.ljust(128, b"\0")


def ask_groups(wire: Wire) -> list[dict]:
    rows = []
    for family, level, group in ((socket.AF_INET6, 41, V6), (socket.AF_INET, 0, V4)):
        one = inside(KERNEL, lambda: socket.socket(family, socket.SOCK_DGRAM))
        index = inside(KERNEL, lambda: socket.if_nametoindex("eth0"))
        first, second = SOURCES[family]
        steps = [
            ("join", JOIN, None, ["exclude", []]),
            ("block one", BLOCK, first, ["exclude", [first]]),
            ("block another", BLOCK, second, ["exclude", [first, second]]),
            ("unblock one", UNBLOCK, first, ["exclude", [second]]),
            ("leave", LEAVE, None, None),
            ("join a source", JOIN_SOURCE, first, ["include", [first]]),
            ("join another", JOIN_SOURCE, second, ["include", [first, second]]),
            ("leave a source", LEAVE_SOURCE, first, ["include", [second]]),
            ("leave the last", LEAVE_SOURCE, second, None),
        ]
        for name, number, source, wish in steps:
            value = struct.pack("=I4x", index) + sockaddr(group) + (sockaddr(source) if source else b"")
            one.setsockopt(level, number, value)
            rows.append({"name": name, "group": group, "wish": wish, "reports": wire.collect(2.3, is_report)})
        one.close()
    return rows


def main() -> None:
    for name in (KERNEL, PEER):
        run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", "eth0", "netns", KERNEL, "address", OUR_MAC.hex(":"), "type", "veth", "peer", "name", "eth0", "netns", PEER)
        run("ip", "netns", "exec", PEER, "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
        run("ip", "netns", "exec", KERNEL, "sysctl", "-qw", "net.ipv6.conf.eth0.router_solicitations=0")
        run("ip", "-n", PEER, "link", "set", "eth0", "up")
        wire = Wire()
        run("ip", "-n", KERNEL, "link", "set", "eth0", "up")
        found = {"kernel": platform.release()}
        # The link-local address is detected, and its group reported.
        found["start"] = wire.collect(5, lambda data: is_report(data) or is_icmp6(data, {133, 135, 136}))
        run("ip", "-n", KERNEL, "address", "add", f"{OURS}/64", "dev", "eth0", "nodad")
        run("ip", "-n", KERNEL, "address", "add", "10.0.0.1/24", "dev", "eth0")
        wire.collect(3, lambda data: False)
        found["neighbours"] = ask_neighbours(wire)
        found["groups"] = ask_groups(wire)
        found["routers"] = ask_routers(wire)
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    text = ",\n".join(
        f"{json.dumps(key)}: " + (json.dumps(value) if isinstance(value, str) else "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n]")
        for key, value in found.items()
    )
    Path(__file__).with_name("nd.json").write_text("{" + text + "}\n")


if __name__ == "__main__":
    main()
