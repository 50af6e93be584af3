"""Packets of the far end, as scripts write them: made and read with dpkt, so that nothing here knows where a field lies.

A segment is written `FLAGS START:END [ack N] [win N] [urg N] [<option, option…>] [IP words]`; sequence numbers are relative to the first one of
each side. Flags: S F R P U . (ACK) E (ECE) W (CWR).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import struct

import dpkt

from .program import pattern

FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, ".": 16, "U": 32, "E": 64, "W": 128}
ORDER = "SFRPUEW."
EOL, NOP, MSS, WSCALE, SACK_OK, SACK, TIMESTAMPS, FAST_OPEN, EXPERIMENT = 0, 1, 2, 3, 4, 5, 8, 34, 254
ECN = {0: "", 1: " ect1", 2: " ect0", 3: " ce"}
TOS = {"ect1": 1, "ect0": 2, "ce": 3}
MASK = 0xFFFFFFFF
# ICMP errors: of IPv4 and of IPv6, type and code.
ERRORS = {
    "frag-needed": ((3, 4), (2, 0)), "net-unreachable": ((3, 0), (1, 0)), "host-unreachable": ((3, 1), (1, 3)), "port-unreachable": ((3, 3), (1, 4)),
    "admin-prohibited": ((3, 13), (1, 1)), "time-exceeded": ((11, 0), (3, 0)), "protocol-unreachable": ((3, 2), (4, 1)),
}


class BadScript(Exception):
    """A line of a script that nobody can read."""


@dataclasses.dataclass
class Packet:
    """A TCP segment with what IP says of it."""

    source: str
    destination: str
    tcp: dpkt.tcp.TCP
    ecn: int
    raw: bytes

    @property
    def options(self) -> list[tuple[int, bytes]]:
        return dpkt.tcp.parse_opts(self.tcp.opts) if self.tcp.opts else []

    def timestamps(self) -> tuple[int, int] | None:
        for kind, data in self.options:
            if kind == TIMESTAMPS and len(data) == 8:
                return struct.unpack(">II", data)
        return None


def address(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


def read(raw: bytes) -> Packet | dpkt.icmp.ICMP | dpkt.icmp6.ICMP6 | None:
    """A packet that came out of the stack; None: nothing that scripts are about."""
    try:
        ip = dpkt.ip6.IP6(raw) if raw[0] >> 4 == 6 else dpkt.ip.IP(raw)
    except dpkt.UnpackError:
        return None
    if isinstance(ip.data, (dpkt.icmp.ICMP, dpkt.icmp6.ICMP6)):
        return ip.data
    if not isinstance(ip.data, dpkt.tcp.TCP):
        return None
    ecn = (ip.fc if raw[0] >> 4 == 6 else ip.tos) & 3
    return Packet(str(ipaddress.ip_address(ip.src)), str(ipaddress.ip_address(ip.dst)), ip.data, ecn, raw)


def packet(source: str, destination: str, protocol: int, payload: object, tos: int = 0) -> bytes:
    """An IP packet; dpkt fills in checksums."""
    if ":" in source:
        ip = dpkt.ip6.IP6(src=address(source), dst=address(destination), nxt=protocol, hlim=64, data=payload, plen=len(bytes(payload)))
        ip.fc = tos
        ip.extension_hdrs = {}
        ip.all_extension_headers = []
    else:
        ip = dpkt.ip.IP(src=address(source), dst=address(destination), p=protocol, ttl=64, tos=tos, data=payload, id=1)
        ip.df = 1
        ip.len = 20 + len(bytes(payload))
    return bytes(ip)


def echo(source: str, destination: str, number: int) -> bytes:
    """A request whose answer says that everything before it has been dealt with."""
    request = dpkt.icmp.ICMP(type=8, data=dpkt.icmp.ICMP.Echo(id=number >> 16 & 0xFFFF, seq=number & 0xFFFF, data=b"weft"))
    return packet(source, destination, dpkt.ip.IP_PROTO_ICMP, request)


def echoed(icmp: dpkt.icmp.ICMP) -> int | None:
    """The number of the request that this answers."""
    if not isinstance(icmp, dpkt.icmp.ICMP) or icmp.type != 0 or not isinstance(icmp.data, dpkt.icmp.ICMP.Echo):
        return None
    return icmp.data.id << 16 | icmp.data.seq


def icmp_error(name: str, mtu: int, router: str, quoted: bytes) -> bytes:
    """An ICMP error about a packet of the stack's, to who sent it."""
    six = quoted[0] >> 4 == 6
    kind, code = ERRORS[name][six]
    to = str(ipaddress.ip_address(quoted[8:24] if six else quoted[12:16]))
    rest = struct.pack(">I", mtu if name == "frag-needed" else 0)
    body = quoted[:1200] if six else quoted[:28]
    if six:
        message = dpkt.icmp6.ICMP6(type=kind, code=code, data=rest + body)
        return packet(router, to, dpkt.ip.IP_PROTO_ICMP6, message)
    message = dpkt.icmp.ICMP(type=kind, code=code, data=rest + body)
    return packet(router, to, dpkt.ip.IP_PROTO_ICMP, message)


def option_bytes(kind: int, data: bytes = b"") -> bytes:
    return bytes([kind]) if kind in (EOL, NOP) else bytes([kind, 2 + len(data)]) + data


@dataclasses.dataclass(frozen=True)
class Words:
    """A segment as a script writes it, taken apart."""

    flags: str
    start: int
    end: int
    fields: dict[str, int]
    options: list[str]
    ecn: str


def words_of(text: str) -> Words:
    bare = re.sub(r"<([^>]*)>", "", text).split()
    options = re.search(r"<([^>]*)>", text)
    try:
        start, end = bare[1].split(":")
        rest = bare[2:]
        ecn = rest.pop() if rest and rest[-1] in TOS else ""
        fields = {name: int(value) for name, value in zip(rest[::2], rest[1::2], strict=True)}
        if set(fields) - {"ack", "win", "urg"} or set(bare[0]) - {*FLAGS, "-"}:
            raise ValueError
        return Words(bare[0].strip("-"), int(start), int(end), fields, [word.strip() for word in options[1].split(",")] if options else [], ecn)
    except (IndexError, ValueError):
        raise BadScript(f"no segment: {text}") from None


class Side:
    """How one play sees its packets: whose first sequence number is what, and what is announced."""

    def __init__(self, stack: str, peer: str, mtu: int) -> None:
        self.stack, self.peer = stack, peer
        self.mss = mtu - (60 if ":" in stack else 40)
        self.stack_port = self.peer_port = 0
        self.peer_isn = 77_000
        self.stack_isn: int | None = None
        self.window = 65535
        self.timestamps = False
        # What the stack is to echo, and what it has said last.
        self.clock = lambda: 0
        self.stack_value = 0
        self.explicit_times = False
        self.sent: dict[int, bytes] = {}
        self.cookie = b""

    def relative(self, value: int, first: int) -> int:
        """Signed distance of a sequence number from the first one of its side."""
        distance = (value - first) & MASK
        return distance - (1 << 32) if distance >> 31 else distance

    # Into the stack.

    def build(self, text: str) -> bytes:
        words = words_of(text)
        flags = sum(FLAGS[letter] for letter in words.flags)
        start, end = words.start, words.end
        options = b"".join(self._option(word, flags) for word in words.options if word)
        stamped = any(word.startswith(("TS", "no ts")) for word in words.options)
        if self.timestamps and not flags & FLAGS["S"] and not stamped:
            options = option_bytes(NOP) * 2 + self._option("TS", flags) + options
        options += option_bytes(NOP) * (-len(options) % 4)
        self.window = words.fields.get("win", self.window)
        ack = ((self.stack_isn or 0) + words.fields["ack"]) & MASK if "ack" in words.fields else 0
        payload = pattern(start if flags & FLAGS["S"] else start - 1, end - start) if end > start else b""
        tcp = dpkt.tcp.TCP(
            sport=self.peer_port, dport=self.stack_port, seq=(self.peer_isn + start) & MASK, ack=ack, flags=flags, win=self.window,
            urp=words.fields.get("urg", 0), opts=options, data=payload)
        tcp.off = 5 + len(options) // 4
        return packet(self.peer, self.stack, dpkt.ip.IP_PROTO_TCP, tcp, TOS.get(words.ecn, 0))

    def _option(self, word: str, flags: int) -> bytes:
        name, *values = word.split()
        match name:
            case "mss":
                return option_bytes(MSS, struct.pack(">H", int(values[0])))
            case "sackok":
                return option_bytes(SACK_OK)
            case "wscale":
                return option_bytes(WSCALE, bytes([int(values[0])]))
            case "nop":
                return option_bytes(NOP)
            case "no":
                return b""
            case "TS":
                if flags & FLAGS["S"]:
                    self.timestamps = True
                if values:
                    self.explicit_times = True
                value = int(values[0]) if values else self.clock()
                echo_of = (self.stack_value if values[1:] in ([], ["last"]) else int(values[1])) if flags & FLAGS["."] else 0
                return option_bytes(TIMESTAMPS, struct.pack(">II", value & MASK, echo_of & MASK))
            case "sack":
                edges = [int(edge) for block in values for edge in block.split(":")]
                return option_bytes(SACK, b"".join(struct.pack(">I", ((self.stack_isn or 0) + edge) & MASK) for edge in edges))
            case "FO":
                cookie = self.cookie if values == ["cookie"] else bytes.fromhex(values[0]) if values else b""
                return option_bytes(FAST_OPEN, cookie)
            case "kind":
                return option_bytes(int(values[0]), bytes.fromhex(values[1]) if values[1:] else b"")
        raise BadScript(f"no option: {word}")

    # Out of the stack.

    def learn(self, seen: Packet) -> None:
        """What later lines need of a packet that has come."""
        tcp = seen.tcp
        if tcp.flags & FLAGS["S"]:
            if self.stack_isn is None or not tcp.flags & FLAGS["."]:
                self.stack_isn = tcp.seq
            self.stack_port, self.peer_port = tcp.sport, tcp.dport
            if tcp.flags & FLAGS["."]:
                self.timestamps = self.timestamps and seen.timestamps() is not None
            for kind, data in seen.options:
                if kind == FAST_OPEN and data:
                    self.cookie = bytes(data)
        if times := seen.timestamps():
            self.stack_value = times[0]
        self.sent[self.relative(tcp.seq, self.stack_isn or 0)] = seen.raw

    def shown(self, seen: Packet, windows: bool) -> str:
        """A packet as a script writes it."""
        tcp = seen.tcp
        first = tcp.seq if self.stack_isn is None else self.stack_isn
        start = self.relative(tcp.seq, first)
        flags = "".join(letter for letter in ORDER if tcp.flags & FLAGS[letter]) or "-"
        text = f"{flags} {start}:{start + len(tcp.data)}"
        if tcp.flags & FLAGS["."]:
            text += f" ack {self.relative(tcp.ack, self.peer_isn)}"
        elif tcp.ack:
            text += " stray-ack"
        if windows or tcp.flags & FLAGS["S"] or tcp.win == 0 and not tcp.flags & FLAGS["R"]:
            text += f" win {tcp.win}"
        if tcp.flags & FLAGS["U"] or tcp.urp:
            text += f" urg {tcp.urp}"
        if options := self._shown_options(seen):
            text += f" <{options}>"
        text += ECN[seen.ecn]
        if bytes(tcp.data) != pattern(start if tcp.flags & FLAGS["S"] else start - 1, len(tcp.data)):
            text += " wrong bytes" if start >= 1 or len(tcp.data) > 1 else ""
        return text

    def _shown_options(self, seen: Packet) -> str:
        every = bool(seen.tcp.flags & FLAGS["S"])
        return ",".join(text for kind, data in seen.options if (text := self._shown_option(kind, bytes(data), every)))

    def _shown_option(self, kind: int, data: bytes, every: bool) -> str:
        match kind:
            case 0:
                return "eol" if every else ""
            case 1:
                return "nop" if every else ""
            case 2:
                value = struct.unpack(">H", data)[0]
                return "mss own" if value == self.mss else f"mss {value}"
            case 3:
                return f"wscale {data[0]}"
            case 4:
                return "sackok"
            case 5:
                edges = [self.relative(edge, self.peer_isn) for edge in struct.unpack(f">{len(data) // 4}I", data)]
                return "sack " + " ".join(f"{edges[at]}:{edges[at + 1]}" for at in range(0, len(edges), 2))
            case 8:
                echo_of = struct.unpack(">II", data)[1]
                return f"TS ecr {echo_of}" if self.explicit_times else "TS"
            case 34:
                return f"FO {len(data)} bytes" if data else "FO"
        return f"kind {kind} {data.hex()}".strip()
