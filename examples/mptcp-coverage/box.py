"""A middlebox: it passes frames between its two interfaces on, and does to segments of Multipath TCP what the port of the server says, see RULES.

    python3 box.py
"""

import select
import socket
import struct

CAPABLE, JOIN, DSS, ADDED, REMOVED, PRIO, FAIL, FASTCLOSE, RESET = range(9)
FIN, SYN, RST, ACK = 1, 2, 4, 16


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Segment:
    """A frame with a TCP segment in IPv4, taken apart."""

    def __init__(self, frame: bytes) -> None:
        length = struct.unpack_from("!H", frame, 16)[0]
        end = 14 + (frame[14] & 15) * 4
        self.below, tcp = frame[:end], frame[end:14 + length]
        self.sport, self.dport, self.seq, self.ack, offset, self.flags, self.window = struct.unpack_from("!HHIIBBH", tcp)
        self.payload = tcp[(offset >> 4) * 4:]
        self.options, rest = [], tcp[20:(offset >> 4) * 4]
        while rest and rest[0]:
            size = 1 if rest[0] == 1 else max(rest[1], 2)
            self.options.append(rest[:size])
            rest = rest[size:]
        self.up = self.dport in RULES

    def copy(self) -> "Segment":
        return Segment(self.bytes())

    def bytes(self) -> bytes:
        options = b"".join(self.options)
        options = options[:40] + b"\1" * (-len(options) % 4)
        tcp = struct.pack("!HHIIBBHHH", self.sport, self.dport, self.seq, self.ack, (5 + len(options) // 4) << 4, self.flags, self.window, 0, 0) + options + self.payload
        below = bytearray(self.below)
        struct.pack_into("!H", below, 16, len(below) - 14 + len(tcp))
        struct.pack_into("!H", below, 24, 0)
        struct.pack_into("!H", below, 24, checksum(bytes(below[14:])))
        over = checksum(bytes(below[26:34]) + struct.pack("!HH", 6, len(tcp)) + tcp)
        return bytes(below) + tcp[:16] + struct.pack("!H", over) + tcp[18:]

    def find(self, kind: int) -> int:
        """Where it has an option of this kind; -1: it has none."""
        return next((at for at, option in enumerate(self.options) if option[0] == 30 and len(option) > 2 and option[2] >> 4 == kind), -1)

    def strip(self, *kinds: int) -> None:
        self.options = [option for option in self.options if option[0] != 30 or (kinds and option[2] >> 4 not in kinds)]

    def change(self, kind: int, at: int, value: int) -> bool:
        """Another byte in an option (XOR)."""
        if (where := self.find(kind)) < 0 or len(self.options[where]) <= at:
            return False
        option = bytearray(self.options[where])
        option[at] ^= value
        self.options[where] = bytes(option)
        return True

    def add(self, option: bytes) -> None:
        """One more option, in the place of those that are not needed for this."""
        self.options = [known for known in self.options if known[0] not in (1, 5, 8)]
        if sum(map(len, self.options)) + len(option) > 40:
            self.strip()
        self.options.append(option)


def plain(segment: Segment, state: dict) -> list[Segment]:
    return [segment]


def strip_syn(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and segment.flags & SYN:
        segment.strip()
    return [segment]


def strip_syn_ack(segment: Segment, state: dict) -> list[Segment]:
    if not segment.up and segment.flags & SYN:
        segment.strip()
    return [segment]


def strip_acks(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and not segment.flags & SYN:
        segment.strip()
    return [segment]


def strip_answers(segment: Segment, state: dict) -> list[Segment]:
    if not segment.up and not segment.flags & SYN:
        segment.strip()
    return [segment]


def drop_capable(segment: Segment, state: dict) -> list[Segment]:
    return [] if segment.flags & SYN and segment.find(CAPABLE) >= 0 else [segment]


def corrupt(segment: Segment, state: dict) -> list[Segment]:
    """One byte of the third large segment up, with a TCP checksum that fits."""
    if segment.up and len(segment.payload) > 1000:
        state["large"] = state.get("large", 0) + 1
        if state["large"] == 3:
            segment.payload = segment.payload[:500] + b"!" + segment.payload[501:]
    return [segment]


def corrupt_joined(segment: Segment, state: dict) -> list[Segment]:
    """The same on a subflow that joined."""
    if segment.flags & SYN and segment.find(JOIN) >= 0:
        state["joined"] = True
    return corrupt(segment, state) if state.get("joined") else [segment]


def join_token(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and segment.flags & SYN:
        segment.change(JOIN, 5, 0xff)
    return [segment]


def join_answer(segment: Segment, state: dict) -> list[Segment]:
    if not segment.up and segment.flags & SYN:
        segment.change(JOIN, 6, 0xff)
    return [segment]


def join_ack(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and not segment.flags & SYN:
        segment.change(JOIN, 10, 0xff)
    return [segment]


def join_stripped(segment: Segment, state: dict) -> list[Segment]:
    if not segment.up and segment.flags & SYN:
        segment.strip(JOIN)
    return [segment]


def join_ack_stripped(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and not segment.flags & SYN:
        segment.strip(JOIN)
    return [segment]


def no_mapping(segment: Segment, state: dict) -> list[Segment]:
    """After the twentieth segment with data nothing tells where they belong."""
    state["data"] = state.get("data", 0) + bool(segment.payload)
    if state["data"] > 20 and segment.payload:
        segment.strip(DSS)
    return [segment]


def wrong_mapping(segment: Segment, state: dict) -> list[Segment]:
    """Mappings that begin elsewhere, or are for less."""
    state["data"] = state.get("data", 0) + bool(segment.payload)
    where = segment.find(DSS)
    if state["data"] > 10 and segment.payload and where >= 0:
        option = segment.options[where]
        segment.change(DSS, len(option) - (1 if state["data"] % 2 else 3), 0x13)
    return [segment]


def split(segment: Segment, state: dict) -> list[Segment]:
    """Every segment becomes two, and both say the same mapping."""
    if len(segment.payload) < 200 or segment.flags & (SYN | FIN):
        return [segment]
    second = segment.copy()
    segment.payload, second.payload = segment.payload[:150], segment.payload[150:]
    second.seq = (second.seq + 150) & 0xffffffff
    return [segment, second]


def held(segment: Segment, state: dict) -> list[Segment]:
    """Every seventh with data comes three later."""
    if not segment.payload or segment.flags & (SYN | FIN):
        return [segment]
    state["count"] = state.get("count", 0) + 1
    late = state.pop("late", None) if state["count"] % 7 == 3 else None
    if state["count"] % 7 == 0:
        state["late"] = segment
        return []
    return [segment, late] if late else [segment]


def announced_wrongly(segment: Segment, state: dict) -> list[Segment]:
    segment.change(ADDED, 9, 0xff)
    return [segment]


def announced_in_vain(segment: Segment, state: dict) -> list[Segment]:
    if segment.find(ADDED) >= 0:
        segment.strip(*[kind for kind in range(9) if kind != ADDED])
    return [segment]


def old_version(segment: Segment, state: dict) -> list[Segment]:
    if segment.flags & SYN:
        segment.change(CAPABLE, 2, 1)
    return [segment]


def unknown_flags(segment: Segment, state: dict) -> list[Segment]:
    if segment.flags & SYN:
        segment.change(CAPABLE, 3, 0x43 if segment.up else 0x40)
    return [segment]


def with_checksum(segment: Segment, state: dict) -> list[Segment]:
    """The server is told that the client wants checksums."""
    if segment.flags & SYN and segment.up:
        segment.change(CAPABLE, 3, 0x80)
    return [segment]


def reset(segment: Segment, state: dict) -> list[Segment]:
    """The tenth segment with data becomes a reset, with a reason and without."""
    state["data"] = state.get("data", 0) + bool(segment.payload)
    if state["data"] == 10 and segment.payload:
        segment.flags, segment.payload = RST | ACK, b""
        segment.strip()
        if segment.sport % 2 == 0:
            segment.add(bytes([30, 4, RESET << 4, 3]))
    return [segment]


def first_ack_lost(segment: Segment, state: dict) -> list[Segment]:
    if segment.up and not segment.flags & SYN and not segment.payload and not state.get("lost"):
        state["lost"] = True
        return []
    return [segment]


# What is added to the segments of a connection, one after another: options of every kind, in forms that are allowed and in forms that are not.
STRANGE = [bytes([30, length, first, *range(length - 3)]) for length, first in (
    (4, 0x00), (5, 0x01), (12, 0x01), (20, 0x01), (22, 0x01), (24, 0x01), (21, 0x01), (12, 0x11), (12, 0x10), (16, 0x10), (24, 0x10), (9, 0x10), (4, 0x20), (8, 0x20), (10, 0x20), (12, 0x20), (18, 0x20),
    (20, 0x20), (26, 0x20), (16, 0x30), (18, 0x30), (8, 0x31), (10, 0x31), (28, 0x30), (30, 0x30), (20, 0x31), (22, 0x31), (7, 0x30), (4, 0x40), (5, 0x40), (11, 0x40), (12, 0x40), (3, 0x40), (3, 0x50), (3, 0x51),
    (4, 0x50), (5, 0x50), (12, 0x60), (11, 0x60), (12, 0x70), (11, 0x70), (4, 0x80), (5, 0x80), (4, 0x90), (12, 0xf0))]
STRANGE += [bytes([30, length, 0x20, flags, *range(length - 4)]) for length, flags in ((8, 1), (12, 3), (20, 0x0f), (22, 0x0f), (18, 7), (20, 7), (26, 0x0f), (28, 0x0f), (14, 4), (16, 5), (12, 0x1f), (20, 0x1f))]


def strange(segment: Segment, state: dict) -> list[Segment]:
    """To pure acknowledgements, in both directions."""
    if segment.payload or segment.flags & (SYN | FIN | RST):
        return [segment]
    state["strange"] = state.get("strange", -1) + 1
    extra = segment.copy()
    extra.strip()
    extra.add(STRANGE[state["strange"] % len(STRANGE)])
    return [segment, extra]


def strange_syn(segment: Segment, state: dict) -> list[Segment]:
    """In the handshake: one form for every connection."""
    if segment.flags & SYN:
        RULES[segment.dport if segment.up else segment.sport][1]["all"] = number = RULES[segment.dport if segment.up else segment.sport][1].get("all", -1) + 1
        segment.strip()
        segment.add(STRANGE[number % len(STRANGE)])
    return [segment]


def failing(segment: Segment, state: dict) -> list[Segment]:
    """MP_FAIL out of nowhere."""
    state["data"] = state.get("data", 0) + bool(segment.payload)
    if state["data"] == 8 and not segment.payload:
        state["data"] += 1
        segment.strip()
        segment.add(bytes([30, 12, FAIL << 4, 0, *range(8)]))
    return [segment]


def nothing_after(segment: Segment, state: dict) -> list[Segment]:
    """A wire that carries nothing more after the thirtieth segment with data, for this subflow."""
    state["data"] = state.get("data", 0) + bool(segment.payload)
    return [] if state["data"] > 30 else [segment]


RULES = {port: (rule, {}) for port, rule in enumerate((
    strip_syn, strip_syn_ack, strip_acks, strip_answers, drop_capable, corrupt, corrupt_joined, join_token, join_answer, join_ack, join_stripped, join_ack_stripped, no_mapping, wrong_mapping, split, held,
    announced_wrongly, announced_in_vain, old_version, unknown_flags, with_checksum, reset, first_ack_lost, strange, strange_syn, failing, nothing_after), 5002)}
PORTS = {rule.__name__: port for port, (rule, _) in RULES.items()}


def passed(frame: bytes) -> list[bytes]:
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return [frame]
    segment = Segment(frame)
    port = segment.dport if segment.up else segment.sport
    if port not in RULES:
        return [frame]
    rule, states = RULES[port]
    client = (frame[26:30], segment.sport) if segment.up else (frame[30:34], segment.dport)
    return [each.bytes() for each in rule(segment, states.setdefault(client, {}))]


def main() -> None:
    ends = []
    for name in ("eth0", "eth1"):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        sock.bind((name, 3))
        ends.append(sock)
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        for sock in select.select(ends, [], [])[0]:
            frame, address = sock.recvfrom(65536)
            if address[2] != socket.PACKET_OUTGOING:
                for each in passed(frame):
                    other[sock].send(each)


if __name__ == "__main__":
    main()
