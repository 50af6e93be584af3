#!/usr/bin/env python3
"""Asks this machine's Linux how it forwards, and writes forward.json.

Needs root, `ip` and Python 3.9. The kernel is a router: eth0 is 10.0.0.1/24, eth1 10.1.0.1/24 with an MTU of 1400; a packet socket is at the other
end of each, 10.0.0.2 and 10.1.0.2. What is sent comes in on eth0. `send_redirects` is off: weft sends none (docs/linux-notes/ip.md). Cases named
"rp_filter N, …" are asked with that setting.
"""

import json
import os
import platform
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from make import ALL, OUR_IP, OUR_MAC, PEER_IP, PEER_MAC, ethernet, icmp, ip, run, udp

KERNEL, PEER = f"weft-forw-k{os.getpid()}", f"weft-forw-p{os.getpid()}"
FAR = "10.1.0.2"
ROUTES = ["172.16.0.0/12 via 10.1.0.2", "unreachable 198.51.100.0/24", "prohibit 203.0.113.0/24", "blackhole 192.88.99.0/24"]
# Reached through eth0, as they should be, on the network and through a gateway; through eth1; not at all, for four reasons.
SOURCES = ["10.0.0.2", "9.9.9.9", "10.1.0.2", "172.16.0.9", "8.8.8.8", "198.51.100.1", "203.0.113.1", "192.88.99.1"]
DONT, MORE = 0x4000, 0x2000


def cases() -> list[tuple[str, bytes]]:
    data = udp(b"hello", PEER_IP, FAR)
    big = udp(bytes(index & 255 for index in range(1452)), PEER_IP, FAR)

    def to(dst: str, **header) -> bytes:
        return ethernet(ip(data, 17, dst=dst, **header))

    def via(options: bytes, payload: bytes = data, **header) -> bytes:
        return ethernet(ip(payload, 17, dst=FAR, options=options, **header))

    own = ip(udp(b"hello", FAR, PEER_IP), 17, FAR, PEER_IP)
    return [
        ("udp", to(FAR)),
        ("through a gateway", to("172.16.5.5")),
        ("tos, don't fragment", to(FAR, tos=0xBB, flags=DONT)),
        ("ttl 2", to(FAR, ttl=2)),
        ("ttl 1", to(FAR, ttl=1)),
        ("ttl 0", to(FAR, ttl=0)),
        ("ttl 1, to the router", ethernet(ip(icmp(8, 0), 1, dst="10.1.0.1", ttl=1))),
        ("ttl 1, no route", to("8.8.8.8", ttl=1)),
        ("ttl 1, unreachable", to("198.51.100.1", ttl=1)),
        ("ttl 1, an icmp error", ethernet(ip(icmp(3, 3, b"\0" * 4, own), 1, dst=FAR, ttl=1))),
        ("ttl 1, an echo request", ethernet(ip(icmp(8, 0), 1, dst=FAR, ttl=1))),
        ("ttl 1, a later fragment", ethernet(ip(data, 17, dst=FAR, ttl=1, flags=1))),
        ("ttl 1, a first fragment", ethernet(ip(data, 17, dst=FAR, ttl=1, flags=MORE))),
        ("no route", to("8.8.8.8")),
        ("no route, link-local", to("169.254.1.1")),
        ("unreachable", to("198.51.100.1")),
        ("prohibit", to("203.0.113.1")),
        ("blackhole", to("192.88.99.1")),
        ("1480 bytes", ethernet(ip(big, 17, dst=FAR))),
        ("1480 bytes, don't fragment", ethernet(ip(big, 17, dst=FAR, flags=DONT))),
        ("1480 bytes with record route and router alert", via(b"\x94\x04\0\0\x07\x07\x04\0\0\0\0", big[:1460])),
        ("1480 bytes, a fragment in the middle", ethernet(ip(big, 17, dst=FAR, flags=MORE | 5))),
        ("1480 bytes, a last fragment", ethernet(ip(big, 17, dst=FAR, flags=7))),
        ("a fragment that fits", ethernet(ip(data + bytes(3), 17, dst=FAR, flags=MORE | 9))),
        ("padded", to(FAR) + b"\xee" * 8),
        ("wrong udp checksum", ethernet(ip(udp(b"hello", PEER_IP, FAR, sum_=0x1234), 17, dst=FAR))),
        ("protocol 99", ethernet(ip(b"data", 99, dst=FAR))),
        ("back where it came from", to("10.0.0.2", src="172.16.0.9")),
        ("broadcast frame", ethernet(ip(data, 17, dst=FAR), dst=ALL)),
        ("to the far network's broadcast", to("10.1.0.255")),
        ("to the near network's broadcast", to("10.0.0.255")),
        ("to all ones", to("255.255.255.255")),
        ("to a group", ethernet(ip(data, 17, dst="239.1.1.1"), dst=bytes.fromhex("01005e010101"))),
        ("to 127.0.0.1", to("127.0.0.1")),
        ("to 0.1.2.3", to("0.1.2.3")),
        ("to 0.0.0.0", to("0.0.0.0")),
        ("to 240.0.0.1", to("240.0.0.1")),
        ("from 127.0.0.1", to(FAR, src="127.0.0.1")),
        ("from a group", to(FAR, src="224.0.0.1")),
        ("from all ones", to(FAR, src="255.255.255.255")),
        ("from 0.0.0.0", to(FAR, src="0.0.0.0")),
        ("from 0.1.2.3", to(FAR, src="0.1.2.3")),
        ("from the router", to(FAR, src="10.1.0.1")),
        ("from the far network", to("172.16.5.5", src="10.1.0.9")),
        ("from the near network's broadcast", to(FAR, src="10.0.0.255")),
        ("from nowhere", to(FAR, src="9.9.9.9", ttl=1)),
        ("record route", via(b"\x07\x0b\x04" + bytes(8))),
        ("record route, one slot left", via(b"\x07\x0b\x08\x01\x02\x03\x04" + bytes(4))),
        ("record route, full", via(b"\x07\x07\x08\x01\x02\x03\x04")),
        ("record route, two", via(b"\x07\x03\x04\x07\x03\x04")),
        ("record route, pointer 3", via(b"\x07\x07\x03" + bytes(4))),
        ("record route, pointer 5", via(b"\x07\x07\x05" + bytes(4))),
        ("record route, length 2", via(b"\x07\x02")),
        ("record route, too long", via(b"\x01\x07\x2c")),
        ("timestamp", via(b"\x44\x08\x05\0" + bytes(4))),
        ("timestamp, full", via(b"\x44\x08\x09\0" + bytes(4))),
        ("timestamp, overflow at its limit", via(b"\x44\x08\x09\xf0" + bytes(4))),
        ("timestamp with address", via(b"\x44\x0c\x05\x01" + bytes(8))),
        ("timestamp with address, half a slot", via(b"\x44\x08\x05\x01" + bytes(4))),
        ("timestamp prespecified, ours", via(b"\x44\x0c\x05\x03" + socket.inet_aton("10.1.0.1") + bytes(4))),
        ("timestamp prespecified, the near address", via(b"\x44\x0c\x05\x03" + socket.inet_aton(OUR_IP) + bytes(4))),
        ("timestamp prespecified, another's", via(b"\x44\x0c\x05\x03" + socket.inet_aton("10.1.0.2") + bytes(4))),
        ("timestamp of another kind", via(b"\x44\x0c\x05\x02" + bytes(8))),
        ("timestamp, length 3", via(b"\x44\x03\x05")),
        ("timestamp, pointer 4", via(b"\x44\x08\x04\0" + bytes(4))),
        ("router alert", via(b"\x94\x04\0\0")),
        ("router alert, length 3", via(b"\x94\x03\0")),
        ("security", via(b"\x82\x0b" + bytes(9))),
        ("no operations", via(b"\x01\x01\x01\x01")),
        ("end, and more behind it", via(b"\x01\0\x07\x2c")),
        ("loose source route", via(b"\x83\x07\x04" + socket.inet_aton("10.1.0.2"))),
        ("strict source route", via(b"\x89\x07\x04" + socket.inet_aton("10.1.0.2"))),
        ("loose source route, ttl 1", via(b"\x83\x07\x04" + socket.inet_aton("10.1.0.2"), ttl=1)),
        ("malformed option, no route", ethernet(ip(data, 17, dst="8.8.8.8", options=b"\x01\x07\x2c"))),
        *((f"rp_filter {mode}, {way}, from {source}", frame) for mode in (1, 2) for source in SOURCES for way, frame in (
            ("on", to("172.16.5.5", src=source)),
            ("to the router", ethernet(ip(icmp(8, 0), 1, src=source, dst=OUR_IP))),
        )),
    ]


def set_filter(mode: int) -> None:
    run("ip", "netns", "exec", sys.argv[2], "sh", "-c", f"echo {mode} > /proc/sys/net/ipv4/conf/all/rp_filter")


def inside() -> None:
    """In the peers' namespace: sends each frame and collects what comes out of both ends."""
    wires = []
    for device in ("peer0", "peer1"):
        wires.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        wires[-1].bind((device, 0))
    rows = []
    for name, frame in cases():
        # ip_error takes a second's worth of tokens of the source for each "unreachable", and icmp_ratelimit 0 keeps none of them longer.
        time.sleep(1.1)
        set_filter(int(name.split()[1].rstrip(",")) if name.startswith("rp_filter") else 0)
        wires[0].send(frame)
        out, end = [[], []], time.monotonic() + 0.06
        while (left := end - time.monotonic()) > 0:
            for wire in select.select(wires, [], [], left)[0]:
                data, (_, _, kind, *_) = wire.recvfrom(65536)
                if kind != socket.PACKET_OUTGOING:
                    out[wires.index(wire)].append(data.hex())
        rows.append({"name": name, "sent": frame.hex(), "near": out[0], "far": out[1]})
    print(json.dumps(rows))


def main() -> None:
    for name in (KERNEL, PEER):
        run("ip", "netns", "add", name)
    try:
        for index, (own, peer) in enumerate(((OUR_MAC.hex(":"), PEER_MAC.hex(":")), ("02:00:00:00:01:01", "02:00:00:00:01:02"))):
            run("ip", "link", "add", f"eth{index}", "netns", KERNEL, "address", own, "type", "veth",
                "peer", "name", f"peer{index}", "netns", PEER, "address", peer)
            for space, device in ((KERNEL, f"eth{index}"), (PEER, f"peer{index}")):
                run("ip", "netns", "exec", space, "sh", "-c", f"""
                    echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
                    ethtool -K {device} tx off rx off gso off tso off gro off >/dev/null 2>&1
                    ip link set {device} up""")
        routes = "\n".join(f"ip route add {route}" for route in ROUTES)
        run("ip", "netns", "exec", KERNEL, "sh", "-e", "-c", f"""
            ip link set lo up
            ip link set eth1 mtu 1400
            ip address add {OUR_IP}/24 dev eth0
            ip address add 10.1.0.1/24 dev eth1
            ip route add 9.9.9.0/24 via {PEER_IP}
            {routes}
            for name in all default eth0 eth1; do echo 0 > /proc/sys/net/ipv4/conf/$name/send_redirects; done
            echo 1 > /proc/sys/net/ipv4/ip_forward
            echo 0 > /proc/sys/net/ipv4/icmp_ratelimit
            echo 100000 > /proc/sys/net/ipv4/icmp_msgs_per_sec
            echo 10000 > /proc/sys/net/ipv4/icmp_msgs_burst
            ip neighbour replace {PEER_IP} lladdr {PEER_MAC.hex(':')} dev eth0 nud permanent
            ip neighbour replace {FAR} lladdr 02:00:00:00:01:02 dev eth1 nud permanent""")
        time.sleep(1)
        output = subprocess.run(["ip", "netns", "exec", PEER, sys.executable, __file__, "inside", KERNEL],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    rows = ",\n".join("  " + json.dumps(row) for row in json.loads(output))
    Path(__file__).with_name("forward.json").write_text(f'{{"kernel": "{platform.release()}", "cases": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    inside() if sys.argv[1:2] == ["inside"] else main()
