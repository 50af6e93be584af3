"""What is told of a path's MTU to who sends more: by each way to discover it, with IPV6_MTU, IPV6_DONTFRAG, options, extension headers."""

import errno
import itertools
import socket
import struct

from answers import said

KINDS = {"udp": (socket.SOCK_DGRAM, 0), "raw": (socket.SOCK_RAW, 253), "ping": (socket.SOCK_DGRAM, None)}
DISCOVER = range(6)


def queued(s):
    """ee_errno, ee_origin, ee_info of what the error queue has."""
    try:
        _, control, _, _ = s.recvmsg(10, 1000, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    except OSError as error:
        return errno.errorcode[error.errno]
    return [struct.unpack("=IB3xI", value[:12]) for level, number, value in control if (level, number) in ((0, 11), (41, 25))]


def news(s):
    """IPV6_RECVPATHMTU's: the MTU."""
    try:
        _, control, _, _ = s.recvmsg(10, 1000, socket.MSG_DONTWAIT)
    except OSError as error:
        return errno.errorcode[error.errno]
    return [struct.unpack("=28xI", value) for level, number, value in control if (level, number) == (41, 61)]


def made(kind, family):
    what, protocol = KINDS[kind]
    s = socket.socket(family, what, (1 if family == socket.AF_INET else 58) if protocol is None else protocol)
    # A raw socket hears itself, and its errors need room beside that.
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        s.setsockopt(socket.SOL_SOCKET, buffer, 1 << 20)
    return s


def first_refused(s, to, data, sizes):
    """The first of these sizes that is refused, how, and what is told of it."""
    for size in sizes:
        answer = said(lambda: s.sendto(data + bytes(size - len(data)), to))
        if answer != size:
            return f"{size} {answer} {queued(s)}"
    return "none"


for kind in KINDS:
    # Something hears it, so that no error comes back; a raw socket hears what it has sent itself.
    ear = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    ear.bind(("::1", 0))
    for headers, discover, fragment, uncut in itertools.product((0, 8), DISCOVER, (0, 1300), (0, 1)):
        s = made(kind, socket.AF_INET6)
        for name, value in ((25, 1), (60, 1), (23, discover), (62, uncut)):
            s.setsockopt(41, name, value)
        s.setsockopt(41, 59, bytes(8)) if headers else None
        s.setsockopt(41, 24, fragment) if fragment else None
        data = struct.pack("!BBHHH", 128, 0, 0, 1, 1) if kind == "ping" else b""
        to = ("::1", ear.getsockname()[1] if kind == "udp" else 0)
        told = first_refused(s, to, data, (1250, 1350, 65_480, 65_496, 65_500, 65_530))
        print(f"{kind}6 headers {headers} discover {discover} fragment {fragment} uncut {uncut}: {told}")
        if kind == "udp":
            print(f"{kind}6 headers {headers} discover {discover} fragment {fragment} uncut {uncut} news {news(s)}")
        elif kind == "ping":
            s.setsockopt(41, 60, 0)
            s.setsockopt(41, 60, 1)
            print(f"{kind}6 headers {headers} discover {discover} fragment {fragment} uncut {uncut} news", news(s) not in ([], [(fragment,)]))
        s.close()
    ear.close()
    ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ear.bind(("127.0.0.1", 0))
    for options, discover in itertools.product((0, 8), DISCOVER):
        s = made(kind, socket.AF_INET)
        s.setsockopt(0, 11, 1)
        s.setsockopt(0, 10, discover)
        s.setsockopt(0, 4, b"\x01" * 8) if options else None
        data = struct.pack("!BBHHH", 8, 0, 0, 1, 1) if kind == "ping" else b""
        to = ("127.0.0.1", ear.getsockname()[1] if kind == "udp" else 0)
        print(f"{kind}4 options {options} discover {discover}: {first_refused(s, to, data, (65_499, 65_500, 65_507, 65_508, 65_515, 65_535))}")
        s.close()
    ear.close()
