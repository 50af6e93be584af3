"""One end of many flows: a server of what the other end asks, and a client of the other end's server, in one process.

    flows.py SEED SIDE OWN4 OWN6 PEER4 PEER6 START [ONLY]

Flows are drawn from the seed: IPv4 and IPv6, TCP, UDP and ICMP, options in the IP header, small segments, messages from one byte to several
large frames. Several are open at a time, and whose turn it is is drawn as well. Every message comes back with each byte inverted, which the
client checks; answers to ICMP echo requests are the other stack's. SIDE makes the two ends draw different flows.

Prints "listening", waits for the file START, prints a line of JSON when all of its own flows are done, and serves until it is ended.
ONLY is one protocol. With SPOIL in the environment the server inverts one byte less, which the other end must notice.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import socket
import struct
import sys
import threading
import time

PORT = 5400
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
PROTOCOLS = ("tcp", "udp", "icmp")
OPTIONS = ("none", "short", "long")
INVERT = bytes(255 - byte for byte in range(256))
# Around the border of a head, around what an MTU of 1500 leaves, and what takes several frames.
SMALL = (1, 19, 56, 120, 146, 154, 165, 178, 200)
FULL_SIZED = (1300, 1400, 1412, 1428, 1440, 1448, 1452, 1460, 1472)
LARGE = {"tcp": (5_000, 30_000, 65_000, 150_000), "udp": (1_473, 4_000, 20_000, 60_000), "icmp": (1_473, 4_000, 20_000)}
# What Linux's headers call these.
IPV6_HOPOPTS, IPV6_DSTOPTS, UDP_SEGMENT, SOL_UDP, SOL_RAW, SO_RCVBUFFORCE = 54, 59, 103, 17, 255, 33
ICMP_FILTER, ICMP6_FILTER = 1, 1
SEGMENTED = 1_200
OPEN_FLOWS = 6


class Flow:
    """A flow of this end's: what it is, and its messages."""

    def __init__(self, draw: random.Random, family: int, protocol: str, options: str, number: int) -> None:
        self.family, self.protocol, self.options, self.number = family, protocol, options, number
        self.segment_bytes = draw.choice((0, 0, 536, 1000)) if protocol == "tcp" else 0
        self.segmented = protocol == "udp" and options == "none"
        sizes = [draw.choice(SMALL), draw.choice(FULL_SIZED), draw.choice(LARGE[protocol]), draw.choice(SMALL)]
        draw.shuffle(sizes)
        self.messages = [draw.randbytes(size) for size in sizes]
        self.socket: socket.socket | None = None

    def __str__(self) -> str:
        sizes = [len(message) for message in self.messages]
        return f"{self.protocol} over IPv{self.family}, options {self.options}, segments of {self.segment_bytes or 'any'} bytes, {sizes} bytes to come"


def draw_flows(seed: int, side: str, only: str) -> tuple[random.Random, list[Flow]]:
    draw = random.Random(f"{seed} {side}")
    kinds = [(family, protocol, options) for family in FAMILIES for protocol in PROTOCOLS for options in OPTIONS if only in ("", protocol)]
    kinds *= int(os.environ.get("ROUNDS", "1"))
    draw.shuffle(kinds)
    return draw, [Flow(draw, *kind, number) for number, kind in enumerate(kinds)]


def with_room(sock: socket.socket) -> socket.socket:
    """A socket that loses nothing for want of room, however late it is read."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return sock


def hear_replies_only(sock: socket.socket, family: int) -> None:
    """A raw socket hears everybody's messages: of these only echo replies. A bit that is set keeps a type out."""
    if family == 4:
        sock.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", 0xffff_ffff & ~1))
    else:
        words = [0xffff_ffff] * 8
        words[129 >> 5] &= ~(1 << (129 & 31))
        sock.setsockopt(socket.IPPROTO_ICMPV6, ICMP6_FILTER, struct.pack("=8I", *words))


def set_options(sock: socket.socket, family: int, options: str) -> None:
    """Options that a receiver ignores; over IPv6 headers of them."""
    if options == "none":
        return
    if family == 4:
        # No-operations, and the end of the list.
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1" * (3 if options == "short" else 39) + b"\0")
        return
    # The next header, the length, and PadN.
    if options == "short":
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    else:
        # Of more than seven bytes of padding Linux drops the packet: an option that nobody knows, to be skipped (RFC 4727).
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, bytes([0, 32, 0x1e, 254, *bytes(254), 1, 4, 0, 0, 0, 0]))
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_HOPOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))


class Client:
    """Runs the flows; `doing` says with which it is busy."""

    def __init__(self, own: dict[int, str], peer: dict[int, str], raw: bool) -> None:
        self.own, self.peer, self.raw = own, peer, raw
        self.doing = "nothing yet"
        self.bytes = self.datagrams = 0

    def open(self, flow: Flow) -> None:
        self.doing = f"opening {flow}"
        family = FAMILIES[flow.family]
        if flow.protocol == "tcp":
            flow.socket = socket.socket(family, socket.SOCK_STREAM)
            if flow.segment_bytes:
                flow.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, flow.segment_bytes)
        elif flow.protocol == "udp":
            flow.socket = with_room(socket.socket(family, socket.SOCK_DGRAM))
        else:
            protocol = socket.IPPROTO_ICMP if flow.family == 4 else socket.IPPROTO_ICMPV6
            flow.socket = with_room(socket.socket(family, socket.SOCK_RAW if self.raw else socket.SOCK_DGRAM, protocol))
            if self.raw:
                hear_replies_only(flow.socket, flow.family)
        set_options(flow.socket, flow.family, flow.options)
        flow.socket.bind((self.own[flow.family], 0))
        flow.socket.connect((self.peer[flow.family], 0 if flow.protocol == "icmp" else PORT))

    def send(self, flow: Flow, message: bytes) -> None:
        self.doing = f"sending {len(message)} bytes of {flow}"
        if flow.protocol == "tcp":
            flow.socket.sendall(struct.pack("!I", len(message)) + message)
        elif flow.protocol == "udp":
            if segmented(flow, message):
                flow.socket.setsockopt(SOL_UDP, UDP_SEGMENT, SEGMENTED)
            sent = flow.socket.send(message)
            assert sent == len(message), f"{sent} of {len(message)} bytes were sent"
            if segmented(flow, message):
                flow.socket.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
        else:
            flow.socket.send(echo_request(flow, message))

    def receive(self, flow: Flow, message: bytes) -> None:
        self.doing = f"waiting for {len(message)} bytes of {flow}"
        if flow.protocol == "tcp":
            came = bytearray()
            while len(came) < len(message):
                part = flow.socket.recv(1 << 20)
                if not part:
                    raise SystemExit(f"after {len(came)} of {len(message)} bytes the end of {flow}")
                came += part
            self.check(flow, bytes(came).translate(INVERT), message)
        elif flow.protocol == "udp":
            size = SEGMENTED if segmented(flow, message) else max(len(message), 1)
            for start in range(0, max(len(message), 1), size):
                self.check(flow, flow.socket.recv(1 << 16).translate(INVERT), message[start:start + size])
        else:
            self.check(flow, echo_answer(flow, self.raw), message)

    def check(self, flow: Flow, came: bytes, wanted: bytes) -> None:
        if came != wanted:
            at = next((at for at, (one, other) in enumerate(zip(came, wanted)) if one != other), min(len(came), len(wanted)))
            raise SystemExit(f"{len(came)} bytes came back where {len(wanted)} were sent, other from byte {at} on: {flow}")
        self.bytes += len(came)
        self.datagrams += 1

    def run(self, draw: random.Random, flows: list[Flow]) -> None:
        waiting, opened = list(flows), []
        while waiting or opened:
            while waiting and len(opened) < OPEN_FLOWS:
                flow = waiting.pop()
                self.open(flow)
                opened.append(flow)
            turn = draw.sample(opened, min(len(opened), draw.randint(1, 3)))
            for flow in turn:
                self.send(flow, flow.messages[0])
            for flow in turn:
                self.receive(flow, flow.messages.pop(0))
                if not flow.messages:
                    flow.socket.close()
                    opened.remove(flow)


def segmented(flow: Flow, message: bytes) -> bool:
    return flow.segmented and SEGMENTED < len(message) <= 60 * SEGMENTED


def echo_request(flow: Flow, message: bytes) -> bytes:
    """For a raw socket over IPv4 with its checksum; ICMP datagram sockets and the kernel's ICMPv6 compute it."""
    header = struct.pack("!BBHHH", 8 if flow.family == 4 else 128, 0, 0, 0x4000 + flow.number, 7)
    data = header + message
    words = struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return header[:2] + struct.pack("!H", 0xffff - total) + header[4:] + message if flow.family == 4 else data


def echo_answer(flow: Flow, raw: bool) -> bytes:
    """The payload of the next echo reply to this flow."""
    while True:
        data = flow.socket.recv(1 << 16)
        if raw and flow.family == 4:
            data = data[(data[0] & 15) * 4:]
        kind, _, _, identifier, _ = struct.unpack("!BBHHH", data[:8])
        # A raw socket hears everybody's, requests too.
        if kind == (0 if flow.family == 4 else 129) and (not raw or identifier == 0x4000 + flow.number):
            return data[8:]


class Server(threading.Thread):
    """Sends back what comes, inverted."""

    def __init__(self, own: dict[int, str]) -> None:
        super().__init__(daemon=True)
        self.spoil = bool(os.environ.get("SPOIL"))
        self.selector = selectors.DefaultSelector()
        for family, address in own.items():
            listener = socket.socket(FAMILIES[family], socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, PORT))
            listener.listen(64)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ, self.accept)
            datagrams = with_room(socket.socket(FAMILIES[family], socket.SOCK_DGRAM))
            datagrams.bind((address, PORT))
            datagrams.setblocking(False)
            self.selector.register(datagrams, selectors.EVENT_READ, self.answer)

    def run(self) -> None:
        while True:
            for key, events in self.selector.select():
                key.data(key.fileobj, events)

    def accept(self, listener: socket.socket, _events: int) -> None:
        connection, _ = listener.accept()
        connection.setblocking(False)
        self.selector.register(connection, selectors.EVENT_READ, Stream(self, connection).go_on)

    def answer(self, datagrams: socket.socket, _events: int) -> None:
        message, sender = datagrams.recvfrom(1 << 16)
        datagrams.sendto(self.inverted(message), sender)

    def inverted(self, message: bytes) -> bytes:
        if self.spoil and len(message) > 1000:
            return message[:1000].translate(INVERT) + message[1000:1001] + message[1001:].translate(INVERT)
        return message.translate(INVERT)


class Stream:
    """A connection to the server: collects a whole message, then sends it back."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self.server, self.connection = server, connection
        self.came, self.to_send = bytearray(), b""

    def go_on(self, _socket: socket.socket, events: int) -> None:
        if events & selectors.EVENT_READ:
            part = self.connection.recv(1 << 20)
            if not part:
                self.server.selector.unregister(self.connection)
                self.connection.close()
                return
            self.came += part
            if len(self.came) >= 4 and len(self.came) >= 4 + (length := struct.unpack("!I", self.came[:4])[0]):
                self.to_send += self.server.inverted(bytes(self.came[4:4 + length]))
                del self.came[:4 + length]
        if self.to_send:
            try:
                self.to_send = self.to_send[self.connection.send(self.to_send):]
            except BlockingIOError:
                pass
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.to_send else 0)
        self.server.selector.modify(self.connection, wanted, self.go_on)


def main() -> int:
    seed, side, own4, own6, peer4, peer6, start, *only = sys.argv[1:]
    # Under weft everybody gets ICMP datagram sockets; natively root gets raw ones without a setting of the kernel's.
    client = Client({4: own4, 6: own6}, {4: peer4, 6: peer6}, raw=bool(os.environ.get("RAW")))
    signal.signal(signal.SIGTERM, lambda *_: (print(f"ended while {client.doing}", file=sys.stderr), os._exit(0)))
    Server(client.own).start()
    print("listening", flush=True)
    while not os.path.exists(start):
        time.sleep(0.01)
    draw, flows = draw_flows(int(seed), side, only[0] if only else "")
    client.run(draw, flows)
    client.doing = "serving"
    print("done " + json.dumps({"flows": len(flows), "messages": client.datagrams, "bytes": client.bytes}), flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
