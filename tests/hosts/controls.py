"""Control messages of every level, number and length, on every kind of socket; what is told about what is received; the sticky forms of RFC 3542."""

import ctypes
import errno
import socket
import struct

from answers import runs, said

SOL_UDP = 17
LENGTHS = (0, 1, 2, 4, 8, 12, 16, 20, 24)
# What the kernel knows, and neighbours of it. MSG_ZEROCOPY's and SO_TIMESTAMPING's answers are another script's.
NUMBERS = {
    socket.SOL_SOCKET: [1, 2, 29, 36, 12, 61, 37, 65, 79, 81],
    socket.IPPROTO_IP: [1, 2, 7, 8, 9, 52, 24],
    socket.IPPROTO_IPV6: [2, 3, 4, 5, 8, 9, 11, 49, 50, 51, 52, 54, 55, 57, 59, 62, 67, 74, 80],
    socket.IPPROTO_TCP: [1, 36],
    SOL_UDP: [1, 103, 104],
    255: [1],
}
KINDS = {"udp": (socket.SOCK_DGRAM, 0), "raw": (socket.SOCK_RAW, 253), "tcp": (socket.SOCK_STREAM, 0)}
# Everything that asks for news of received packets: level, number.
ASKED = [(0, 8), (0, 12), (0, 13), (0, 6), (0, 20), (41, 49), (41, 51), (41, 53), (41, 56), (41, 58), (41, 66), (41, 74), (1, 40), (1, 75), (41, 11)]
MTU = 65536


def pair(family, host, kind):
    what, protocol = KINDS[kind]
    if kind == "tcp":
        listener = socket.create_server((host, 0), family=family)
        a = socket.create_connection(listener.getsockname()[:2])
        b, _ = listener.accept()
        listener.close()
    else:
        a, b = (socket.socket(family, what, protocol) for _ in range(2))
        b.bind((host, 0))
        a.connect(b.getsockname())
    for level, number in ASKED:
        said(lambda: b.setsockopt(level, number, 1))
    b.settimeout(5)
    return a, b


def news(b):
    """What a receive tells beside the data."""
    try:
        data, control, flags, _ = b.recvmsg(100, 4096)
    except OSError as error:
        return errno.errorcode.get(error.errno, "TIMEOUT")
    return " ".join(f"{level}/{number}/{told(level, number, value)}" for level, number, value in control) + f" flags {flags:#x}"


def told(level, number, value):
    # The port of an original destination, and a flow's label, are others each time.
    return f"{len(value)} bytes" if (level, number) in ((0, 20), (41, 74), (41, 11)) else value.hex()


END = b"the end"


def emptied(a, b):
    """How many have come: one more is sent behind them."""
    a.sendto(END, b.getsockname())
    count = 0
    while not b.recv(1 << 16).endswith(END):
        count += 1
    return count


def all_numbers(family, host, kind):
    for level, numbers in NUMBERS.items():
        for number in numbers:
            a, b = pair(family, host, kind)
            zeros = runs((length, said(lambda length=length: a.sendmsg([b"abc"], [(level, number, bytes(length))]))) for length in LENGTHS)
            ones = runs(
                (value, said(lambda value=value: a.sendmsg([b"abc"], [(level, number, struct.pack("=i", value))])))
                for value in (-1, 0, 1, 255, 256, 70000)
            )
            print(f"{kind} {level} {number}: lengths {zeros}; values {ones}; came", "-" if kind == "tcp" else emptied(a, b))
            a.close(), b.close()


def wrong_headers(family, host, kind):
    libc = ctypes.CDLL(None, use_errno=True)
    a, b = pair(family, host, kind)
    for what, control in (
        ("short header", struct.pack("=QI", 12, 0)),
        ("length 0", struct.pack("=Qii", 0, 0, 1)),
        ("length 15", struct.pack("=Qii", 15, 0, 1)),
        ("length huge", struct.pack("=Qii", 1 << 63, 0, 1)),
        ("too long", struct.pack("=Qiii4x", 28, 0, 1, 0)),
        ("unknown level", struct.pack("=Qii", 16, 77, 1)),
        ("unknown level, then length 0", struct.pack("=QiiQii", 16, 77, 1, 0, 0, 0)),
        ("two", struct.pack("=Qiii4xQiii4x", 20, 0, 1, 4, 20, 0, 2, 9)),
    ):
        held = ctypes.create_string_buffer(control, len(control))
        data = ctypes.create_string_buffer(b"abc", 3)
        vector = struct.pack("=QQ", ctypes.addressof(data), 3)
        at = ctypes.create_string_buffer(vector, 16)
        message = struct.pack("=QI4xQQQQi4x", 0, 0, ctypes.addressof(at), 1, ctypes.addressof(held), len(control), 0)
        result = libc.sendmsg(a.fileno(), ctypes.create_string_buffer(message, len(message)), 0)
        print(kind, what, errno.errorcode[ctypes.get_errno()] if result < 0 else result)
    # What comes late would be a later raw socket's, too.
    emptied(a, b) if kind != "tcp" else None
    a.close(), b.close()


def received(family, host, kind):
    """Each thing asked for by itself, then all."""
    for level, number in ASKED:
        a, b = pair(family, host, kind)
        for one in ASKED:
            said(lambda: b.setsockopt(*one, 0))
        said(lambda: b.setsockopt(level, number, 1))
        a.send(b"abc")
        print(kind, "asked", level, number, news(b))
        a.close(), b.close()
    a, b = pair(family, host, kind)
    for option in ((0, 1, 8), (0, 2, 33), (41, 67, 12), (41, 16, 44), (1, 36, 7)):
        said(lambda: a.setsockopt(*option))
    a.send(b"abc")
    print(kind, "all", news(b))
    if kind == "tcp":
        return
    sent = [
        said(lambda: a.sendmsg([b"abc"], [(level, number, struct.pack("=i", value))]))
        for level, number, value in ((0, 1, 16), (0, 2, 9), (41, 67, 20), (41, 52, 10), (1, 36, 9))
    ]
    print(kind, "by message", *sent, "; ".join(news(b) for one in sent if one == 3))
    address = socket.inet_aton("127.0.0.3") if family == socket.AF_INET else socket.inet_pton(family, "::1")
    for index in (0, 1, 2, 99):
        info = (0, 8, struct.pack("=i", index) + address + bytes(4)) if family == socket.AF_INET else (41, 50, address + struct.pack("=i", index))
        sent = said(lambda: a.sendmsg([b"abc"], [info]))
        print(kind, "from", index, sent, f"{b.recvfrom(9, socket.MSG_PEEK)[1][:1]} {news(b)}" if sent == 3 else "")
    wrong = socket.inet_aton("10.1.2.3") if family == socket.AF_INET else socket.inet_pton(family, "2001:db8::1")
    info = (0, 8, struct.pack("=i", 0) + wrong + bytes(4)) if family == socket.AF_INET else (41, 50, wrong + struct.pack("=i", 0))
    print(kind, "from somebody else", said(lambda: a.sendmsg([b"abc"], [info])))
    a.close(), b.close()


def sticky(kind):
    """IPV6_PKTINFO and its kin as options, in each order with what binds to an interface."""
    what, protocol = KINDS[kind]

    def made():
        return socket.socket(socket.AF_INET6, what, protocol)

    def info(index, address="::"):
        return socket.inet_pton(socket.AF_INET6, address) + struct.pack("=i", index)

    for index in (-1, 0, 1, 2, 99):
        for address in ("::", "::1", "2001:db8::1", "ff02::1", "::ffff:127.0.0.1"):
            s = made()
            print(kind, "sticky", index, address, said(lambda: s.setsockopt(41, 50, info(index, address))), end=" ")
            if kind != "tcp":
                print("connect", said(lambda: s.connect(("::1", 9))), said(lambda: s.getsockname()[:1]), end=" ")
                t = made()
                t.setsockopt(41, 50, info(index, address))
                print(
                    "send",
                    said(lambda: t.sendto(b"x", ("::1", 9 if kind == "udp" else 0))),
                    said(lambda: t.sendto(b"x", ("ff02::1", 9 if kind == "udp" else 0))),
                    end=" ",
                )
                t.close()
            print()
            s.close()
    for device, index in ((1, 0), (1, 1), (1, 2)):
        s = made()
        print(
            kind,
            "bound",
            device,
            "sticky",
            index,
            said(lambda: s.setsockopt(1, 62, device)),
            said(lambda: s.setsockopt(41, 50, info(index))),
            end=" ",
        )
        s.close()
        s = made()
        print("sticky, bound", said(lambda: s.setsockopt(41, 50, info(index))), said(lambda: s.setsockopt(1, 62, device)), end=" ")
        for option in (17, 76):
            wanted = index if option == 17 else socket.htonl(index)
            print(option, said(lambda: s.setsockopt(41, option, wanted)), said(lambda: s.getsockopt(41, option)), end=" ")
        print()
        s.close()


def path(family, host, kind):
    """IPV6_RECVPATHMTU, IPV6_PATHMTU, IPV6_MTU and IP_MTU of a socket with a peer."""
    a, b = pair(family, host, kind)
    print(
        kind,
        "mtu",
        said(lambda: a.getsockopt(0, 14)),
        said(lambda: a.getsockopt(41, 24)),
        said(lambda: a.getsockopt(41, 61, 32)[28:].hex()),
        said(lambda: len(a.getsockopt(41, 61, 40))),
    )
    if kind == "udp":
        for discover, whole in ((0, 0), (0, 1), (2, 0), (2, 1), (3, 0), (4, 0)):
            for asked in (0, 1):
                for size in (60000, 65507, 65508, 70000) if family == socket.AF_INET6 or discover < 3 else (60000, 65507, 70000):
                    (
                        said(lambda: a.setsockopt(41, 60, asked)),
                        said(lambda: a.setsockopt(41, 62, whole)),
                        said(lambda: a.setsockopt(41, 23, discover)),
                        said(lambda: a.setsockopt(0, 10, discover)),
                    )
                    print(
                        kind,
                        "discover",
                        discover,
                        whole,
                        "news",
                        asked,
                        "of",
                        size,
                        said(lambda: a.sendto(bytes(size), b.getsockname())),
                        said(lambda: shown(a)),
                    )
    a.close(), b.close()


def shown(s):
    s.setblocking(False)
    data, control, flags, address = s.recvmsg(100, 4096)
    return len(data), [(level, number, len(value), value[28:].hex()) for level, number, value in control], flags


for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for kind in KINDS:
        all_numbers(family, host, kind)
        wrong_headers(family, host, kind)
        received(family, host, kind)
        path(family, host, kind)
        if family == socket.AF_INET6:
            sticky(kind)
