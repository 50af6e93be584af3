"""Prints each SYN that the kernel of this namespace sees, as it comes from the wire.

    capture.py INTERFACE|any

In place of tcpdump, which insists on changing its user and cannot inside a user namespace.
"""

from __future__ import annotations

import socket
import struct
import sys

ETHERTYPE_IP, IPPROTO_TCP = 0x0800, 6
FLAG_SYN, FLAG_ACK = 0x02, 0x10
_OPTIONS = {2: "mss", 3: "wscale", 4: "sackOK", 8: "TS", 34: "tfo", 30: "mptcp"}


def options(data: bytes) -> list[str]:
    """TCP options by name, those of one number with it."""
    found = []
    while data and data[0] != 0:
        if data[0] == 1:
            data = data[1:]
            continue
        if len(data) < 2 or data[1] < 2:
            break
        kind, value = data[0], data[2:data[1]]
        name = _OPTIONS.get(kind, f"kind {kind}")
        found.append(f"{name} {int.from_bytes(value, 'big')}" if kind in (2, 3) else name)
        data = data[data[1]:]
    return found


def describe(packet: bytes) -> str | None:
    """A line about an IPv4 packet that is a SYN, None for any other."""
    header = (packet[0] & 15) * 4
    if packet[0] >> 4 != 4 or packet[9] != IPPROTO_TCP or len(packet) < header + 20:
        return None
    segment = packet[header:]
    if not segment[13] & FLAG_SYN:
        return None
    ports = struct.unpack("!HH", segment[:4])
    ends = [f"{socket.inet_ntoa(packet[at:at + 4])}:{port}" for at, port in zip((12, 16), ports)]
    flags = "SYN ACK" if segment[13] & FLAG_ACK else "SYN"
    return f"{ends[0]} > {ends[1]}  {flags}  {', '.join(options(segment[20:(segment[12] >> 4) * 4]))}"


def main(interface: str) -> None:
    capture = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETHERTYPE_IP))
    if interface != "any":
        capture.bind((interface, ETHERTYPE_IP))
    print("capturing", flush=True)
    while True:
        if line := describe(capture.recv(65536)):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
