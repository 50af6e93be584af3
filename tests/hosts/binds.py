"""Who may bind beside whom, on each pair of addresses with each flag; addresses that are not the host's; headers of one's own; interfaces."""

import errno
import itertools
import socket
import struct


def said(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


PLACES = {
    "any4": (socket.AF_INET, "0.0.0.0"),
    "lo4": (socket.AF_INET, "127.0.0.1"),
    "any6": (socket.AF_INET6, "::"),
    "lo6": (socket.AF_INET6, "::1"),
    "mapped": (socket.AF_INET6, "::ffff:127.0.0.1"),
    "mapped-any": (socket.AF_INET6, "::ffff:0.0.0.0"),
}
FLAGS = ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,))


def made(kind, place, flags, only=0, device=False):
    family, host = PLACES[place]
    s = socket.socket(family, kind)
    for flag in flags:
        s.setsockopt(socket.SOL_SOCKET, flag, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    return s, host


port = 7000
for kind, name in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
    for one, other in itertools.product(PLACES, repeat=2):
        answers = []
        for only in (0, 1):
            for flags in FLAGS:
                for listens in (0, 1) if name == "tcp" else (0,):
                    port += 1
                    a, host = made(kind, one, flags, only)
                    first = said(lambda: a.bind((host, port)))
                    a.listen() if listens and first is None else None
                    b, host = made(kind, other, flags, only)
                    second = said(lambda: b.bind((host, port)))
                    third = said(b.listen) if listens and second is None else ""
                    answers.append(f"{first or 'bound'}/{second or 'bound'}{third or ''}")
                    a.close(), b.close()
        a, host = made(kind, one, (), 0, True)
        port += 1
        first = said(lambda: a.bind((host, port)))
        b, host = made(kind, other, ())
        answers.append(f"device {first} {said(lambda: b.bind((host, port)))}")
        print(name, one, other, *answers)
        a.close(), b.close()
# Addresses that are not the host's.
for family, level, host, there, options in (
    (socket.AF_INET, 0, "192.0.2.9", "127.0.0.1", {"free": 15, "transparent": 19}),
    (socket.AF_INET6, 41, "2001:db8::9", "::1", {"free": 78, "transparent": 75}),
):
    for kind, protocol in ((socket.SOCK_DGRAM, 0), (socket.SOCK_STREAM, 0), (socket.SOCK_RAW, 253)):
        for what, number in ({"none": None} | options).items():
            s = socket.socket(family, kind, protocol)
            said(lambda: s.setsockopt(level, number, 1)) if number else None
            bound = said(lambda: s.bind((host, 0)))
            print(family, kind, what, "bind", bound, end=" ")
            if kind != socket.SOCK_STREAM:
                r = socket.socket(family, kind, protocol)
                r.bind((there, 0))
                print("send", said(lambda: s.sendto(b"abc", r.getsockname())))
            else:
                print("listen", said(s.listen) if bound is None else "")
# Headers of one's own.
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
r = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253)
r.settimeout(2)
for destination, to in (("127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.3"), ("192.0.2.1", "127.0.0.1")):
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 7, 0, 9, 253, 0, socket.inet_aton("127.0.0.1"), socket.inet_aton(destination))
    print("header", destination, to, said(lambda: s.sendto(header + b"abc", (to, 0))), end=" ")
    # What is addressed to another host leaves by the loopback, and nobody has it.
    print(r.recv(100).hex() if destination != "192.0.2.1" else "")
for option, value in ((50, 1), (50, 2)):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        u = socket.socket(socket.AF_INET, kind)
        print("unicast interface", value, said(lambda: u.setsockopt(0, option, socket.htonl(value))), said(lambda: u.connect(("127.0.0.1", 9))))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for device in (b"lo", b"lo\0", b"nothing", b"", b"123456789012345678", b"lo:1"):
    print("device", device, said(lambda: u.setsockopt(1, 25, device)), said(lambda: u.getsockopt(1, 25, 16)), said(lambda: u.getsockopt(1, 62)))
