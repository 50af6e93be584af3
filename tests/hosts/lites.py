"""UDP-Lite, and UDP without checksums: how much of a datagram a checksum covers, what is sent and what is taken, over both families."""

import ctypes
import itertools
import select
import socket
import struct

from answers import said

UDPLITE, SEND_COVERAGE, RECEIVE_COVERAGE = 136, 10, 11
SO_NO_CHECK, UDP_SEGMENT, NO_CHECK_TX, NO_CHECK_RX, UDP_CORK = 11, 103, 101, 102, 1
SO_ATTACH_FILTER, SO_RXQ_OVFL = 26, 40
HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
HEADER = 8


def made(family, protocol=UDPLITE, bound=True):
    s = socket.socket(family, socket.SOCK_DGRAM, protocol)
    if bound:
        s.bind((HOSTS[family], 0))
    return s


def looking(family, protocol=UDPLITE):
    """A raw socket, which sees what is sent."""
    return socket.socket(family, socket.SOCK_RAW, protocol)


def seen(raw):
    """The next packet from its transport header on."""
    packet = raw.recv(70000)
    return packet[(packet[0] & 15) * 4 :] if raw.family == socket.AF_INET else packet


def total(data):
    data += bytes(len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def pseudo(family, length):
    own = socket.inet_pton(family, HOSTS[family])
    tail = struct.pack("!BBH", 0, UDPLITE, length) if family == socket.AF_INET else struct.pack("!IHBB", length, 0, 0, UDPLITE)
    return own + own + tail


def datagram(family, ports, data, coverage, flip=None, checksum=None):
    """A datagram as it is sent, with a checksum that is right for so much of it; then one bit is changed."""
    length = HEADER + len(data)
    covered = coverage or length
    header = struct.pack("!HHHH", *ports, coverage, 0)
    value = 0xFFFF - total(pseudo(family, length) + (header + data)[:covered]) or 0xFFFF
    packet = bytearray(header[:6] + struct.pack("!H", value if checksum is None else checksum) + data)
    if flip is not None:
        packet[flip] ^= 1
    return bytes(packet)


def until_marked(s, mark):
    """What a socket has received, until the mark comes."""
    out = []
    while (data := s.recv(70000)) != mark:
        out.append(data)
    return out


def sent(family):
    """What the header of a datagram says, by UDPLITE_SEND_CSCOV."""
    raw = looking(family)
    for coverage, size in itertools.product((None, 0, 1, 7, 8, 9, 12, 20, 100, 108, 70000, -1), (0, 1, 4, 100)):
        a, b = made(family), made(family)
        a.connect(b.getsockname())
        set_to = None if coverage is None else said(lambda: a.setsockopt(UDPLITE, SEND_COVERAGE, coverage))
        a.send(b"x" * size)
        packet = seen(raw)
        field = struct.unpack("!H", packet[4:6])[0]
        covered = field or len(packet)
        right = total(pseudo(family, len(packet)) + packet[:covered]) == 0xFFFF
        print("sent", coverage, size, set_to, a.getsockopt(UDPLITE, SEND_COVERAGE), "says", field, right, len(b.recv(200)))
        a.close(), b.close()
    raw.close()


def taken(family):
    """What is taken, by UDPLITE_RECV_CSCOV."""
    for least, coverage in itertools.product((None, 0, 1, 8, 9, 12, 18, 70000), (None, 0, 8, 9, 12, 18, 19)):
        a, b, whole = made(family), made(family), made(family)
        if least is not None:
            b.setsockopt(UDPLITE, RECEIVE_COVERAGE, least)
        if coverage is not None:
            a.setsockopt(UDPLITE, SEND_COVERAGE, coverage)
        a.sendto(b"0123456789", b.getsockname())
        whole.sendto(b"mark", b.getsockname())
        print("taken", least, b.getsockopt(UDPLITE, RECEIVE_COVERAGE), coverage, until_marked(b, b"mark"))
        for s in (a, b, whole):
            s.close()


def damaged(family):
    """What comes as no socket would send it."""
    raw, b, whole = looking(family), made(family), made(family)
    to = b.getsockname()[1]
    cases = [
        ("right", 0, None, None),
        ("wrong", 0, 10, None),
        ("without", 0, None, 0),
        ("behind what is covered", 12, 15, None),
        ("in what is covered", 12, 10, None),
        ("in the header", 8, 1, None),
        *((f"coverage {coverage}", coverage, None, None) for coverage in (1, 7, 8, 17, 18)),
    ]
    for name, coverage, flip, checksum in cases:
        raw.sendto(datagram(family, (5, to), b"0123456789", coverage, flip, checksum), (HOSTS[family], 0))
        whole.sendto(b"mark", b.getsockname())
        print("damaged", name, until_marked(b, b"mark"))
    for coverage in (19, 65535):
        header = struct.pack("!HHHH", 5, to, coverage, 1)
        raw.sendto(header + b"0123456789", (HOSTS[family], 0))
        whole.sendto(b"mark", b.getsockname())
        print("damaged coverage", coverage, until_marked(b, b"mark"))
    raw.close(), b.close(), whole.close()


def apart(family):
    """Ports of UDP and of UDP-Lite are not the same ones."""
    lite, udp = made(family), socket.socket(family, socket.SOCK_DGRAM)
    print("same port", said(lambda: udp.bind(lite.getsockname())), said(lambda: made(family, bound=False).bind(lite.getsockname())))
    a, b = made(family, bound=False), socket.socket(family, socket.SOCK_DGRAM)
    a.sendto(b"lite", lite.getsockname()), b.sendto(b"udp", udp.getsockname())
    print("each its own", lite.recv(10), udp.recv(10), said(lambda: lite.recv(10, socket.MSG_DONTWAIT)), said(lambda: udp.recv(10, socket.MSG_DONTWAIT)))
    port = lite.getsockname()
    lite.close()
    a.connect(port)
    a.send(b"nobody")
    poll = select.poll()
    poll.register(a, select.POLLIN)
    print("nobody", bool(poll.poll(5000)), a.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 111, a.getpeername() == port)
    for name, level, option in (("type", 1, socket.SO_TYPE), ("protocol", 1, socket.SO_PROTOCOL), ("no check", 1, SO_NO_CHECK)):
        print(name, a.getsockopt(level, option))
    a.close(), b.close(), udp.close()


def other_calls(family):
    a, b = made(family), made(family)
    a.connect(b.getsockname())
    a.setsockopt(socket.SOL_UDP if hasattr(socket, "SOL_UDP") else 17, UDP_SEGMENT, 10)
    print("segments", said(lambda: a.send(bytes(25))), said(lambda: a.send(bytes(5))))
    a.setsockopt(17, UDP_SEGMENT, 0)
    a.setsockopt(UDPLITE, UDP_CORK, 1)
    a.setsockopt(UDPLITE, SEND_COVERAGE, 10)
    print("corked", a.send(b"one"), a.send(b"two"), said(lambda: b.recv(10, socket.MSG_DONTWAIT)), a.setsockopt(UDPLITE, UDP_CORK, 0), b.recv(10))
    most = 65507 if family == socket.AF_INET else 65527
    print("largest", said(lambda: a.send(bytes(most))), len(b.recv(70000)), said(lambda: a.send(bytes(most + 1))))
    print("peek", a.send(b"again"), b.recv(2, socket.MSG_PEEK), b.recvfrom(10)[0])
    print("made", *(said(lambda: socket.socket(family, kind, UDPLITE).close()) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)))
    udp = socket.socket(family, socket.SOCK_DGRAM)
    print("of UDP", *(said(lambda: udp.setsockopt(level, option, 8)) for level in (17, UDPLITE) for option in (SEND_COVERAGE, RECEIVE_COVERAGE)))
    a.close(), b.close(), udp.close()


def unchecked(family):
    """UDP without checksums: SO_NO_CHECK over IPv4, UDP_NO_CHECK6_TX and _RX over IPv6."""
    raw = looking(family, socket.IPPROTO_UDP)
    for tx, rx in itertools.product((0, 1), (0, 1)):
        a, b, whole = (made(family, 0) for _ in range(3))
        if family == socket.AF_INET:
            a.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, tx), b.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, rx)
        else:
            a.setsockopt(17, NO_CHECK_TX, tx), b.setsockopt(17, NO_CHECK_RX, rx)
        a.sendto(b"abc", b.getsockname())
        none = seen(raw)[6:8] == bytes(2)
        whole.sendto(b"mark", b.getsockname())
        seen(raw)
        print("unchecked", tx, rx, none, until_marked(b, b"mark"))
        a.setsockopt(17, UDP_SEGMENT, 10)
        print("unchecked segments", tx, said(lambda: a.sendto(bytes(25), whole.getsockname())))
        for s in (a, b, whole):
            s.close()
        while select.select([raw], [], [], 0)[0]:
            raw.recv(70000)
    raw.close()


def lost(family):
    """SO_RXQ_OVFL: how many were lost before a datagram came, whenever it is read, if it was asked for by then."""
    for kind, protocol in (("UDP", 0), ("UDP-Lite", UDPLITE)):
        a, b = made(family, protocol), made(family, protocol)
        to = b.getsockname()
        # BPF_LD|BPF_W|BPF_LEN; BPF_JMP|BPF_JGT: of more than 20 bytes nothing, else all.
        code = b"".join(struct.pack("HBBI", *step) for step in ((0x80, 0, 0, 0), (0x25, 1, 0, 20), (0x06, 0, 0, 0xFFFF), (0x06, 0, 0, 0)))
        text = ctypes.create_string_buffer(code)
        b.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 4, ctypes.addressof(text)))
        b.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)

        def told() -> tuple:
            data, control, _, _ = b.recvmsg(100, 100)
            return data, *(value.hex() for level, what, value in control if (level, what) == (socket.SOL_SOCKET, SO_RXQ_OVFL))

        a.sendto(b"before", to), a.sendto(bytes(100), to)
        print("lost", kind, "filtered", told())
        a.sendto(b"after", to)
        print("lost", kind, "filtered", told())
        if protocol:
            a.setsockopt(UDPLITE, SEND_COVERAGE, 8), b.setsockopt(UDPLITE, RECEIVE_COVERAGE, 9)
        elif family == socket.AF_INET6:
            a.setsockopt(17, NO_CHECK_TX, 1)
        a.sendto(b"partly", to), a.sendto(bytes(100), to)
        a.setsockopt(*((UDPLITE, SEND_COVERAGE, 0) if protocol else (17, NO_CHECK_TX, 0)))
        a.sendto(b"wholly", to)
        last = told()
        print("lost", kind, "not covered", last if last[0] == b"wholly" else (last, told()))
        b.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 0)
        a.sendto(b"not asked", to)
        b.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
        a.sendto(b"asked", to)
        print("lost", kind, "asked late", told(), told())
        a.close(), b.close()


def mapped():
    a, b = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, UDPLITE), made(socket.AF_INET)
    a.setsockopt(UDPLITE, SEND_COVERAGE, 9)
    print("mapped", a.sendto(b"abc", ("::ffff:127.0.0.1", b.getsockname()[1])), b.recvfrom(10)[0])
    a.close(), b.close()


for family in HOSTS:
    for part in (sent, taken, damaged, apart, other_calls, unchecked, lost):
        part(family)
mapped()
