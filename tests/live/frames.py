"""pcapng files as weft writes them, and what is looked at in their frames."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from pathlib import Path

BLOCK_INTERFACE, BLOCK_PACKET = 1, 6
BYTE_ORDER = bytes.fromhex("1a2b3c4d")
OPTION_END, OPTION_RESOLUTION, OPTION_FLAGS = 0, 9, 2
ETHER_IP4, ETHER_IP6, PROTOCOL_TCP = 0x0800, 0x86DD, 6
FIN, RST = 0x01, 0x04


class Broken(Exception):
    """The file is no pcapng file."""


@dataclasses.dataclass(frozen=True)
class Packet:
    """A frame: when, whether it left, and its bytes as far as they were kept."""

    at_ns: int
    outbound: bool
    data: bytes


def read(path: Path) -> Iterator[Packet]:
    data, at, resolutions = path.read_bytes(), 0, []
    order = {BYTE_ORDER: ">", BYTE_ORDER[::-1]: "<"}.get(data[8:12])
    if order is None:
        raise Broken(f"{path.name}: it begins with {data[:12].hex()}")
    while at + 12 <= len(data):
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if length < 12 or at + length > len(data):
            raise Broken(f"{path.name}: a block of {length} bytes at {at}")
        if kind == BLOCK_INTERFACE:
            options = dict(_options(data[at + 16:at + length - 4], order))
            resolutions.append(options.get(OPTION_RESOLUTION, b"\x06")[0])
        elif kind == BLOCK_PACKET:
            interface, high, low, kept = struct.unpack_from(f"{order}IIII", data, at + 8)
            rest = data[at + 28 + (kept + 3) // 4 * 4:at + length - 4]
            flags = struct.unpack(f"{order}I", dict(_options(rest, order)).get(OPTION_FLAGS, bytes(4)))[0]
            units = (high << 32 | low) * 10 ** (9 - resolutions[interface])
            yield Packet(units, flags & 3 == 2, data[at + 28:at + 28 + kept])
        at += length


def _options(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from(f"{order}HH", data, at)
        if code == OPTION_END:
            return
        yield code, data[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4


@dataclasses.dataclass(frozen=True)
class Segment:
    """What a TCP segment says."""

    source: int
    destination: int
    flags: int
    payload_bytes: int


def segment(frame: bytes) -> Segment | None:
    """The TCP segment of an Ethernet frame. None: it has none, or only a part."""
    kind = int.from_bytes(frame[12:14], "big")
    if kind == ETHER_IP4 and frame[23] == PROTOCOL_TCP:
        at, end = 14 + (frame[14] & 15) * 4, 14 + int.from_bytes(frame[16:18], "big")
    elif kind == ETHER_IP6 and frame[20] == PROTOCOL_TCP:
        at, end = 54, 54 + int.from_bytes(frame[18:20], "big")
    else:
        return None
    if len(frame) < at + 14:
        return None
    source, destination = struct.unpack_from("!HH", frame, at)
    return Segment(source, destination, frame[at + 13], end - at - (frame[at + 12] >> 4) * 4)
