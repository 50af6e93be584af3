"""ioctls that set something of an interface, a route or a neighbour, with arguments that mean nothing: which errno each kind of socket has for them."""

import ctypes
import socket

from answers import coded

libc = ctypes.CDLL(None, use_errno=True)
SOCKETS = {
    "udp4": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "tcp4": lambda: socket.socket(socket.AF_INET),
    "udp6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "tcp6": lambda: socket.socket(socket.AF_INET6),
    "unix": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
}
# SIOCSIFFLAGS and SIOCSIFNAME would change the interface.
INTERFACES = {
    "SIOCSIFLINK": 0x8911,
    "SIOCSIFADDR": 0x8916,
    "SIOCSIFDSTADDR": 0x8918,
    "SIOCSIFBRDADDR": 0x891A,
    "SIOCSIFNETMASK": 0x891C,
    "SIOCSIFMETRIC": 0x891E,
    "SIOCSIFMEM": 0x8920,
    "SIOCSIFMTU": 0x8922,
    "SIOCSIFHWADDR": 0x8924,
    "SIOCSIFENCAP": 0x8926,
    "SIOCSIFSLAVE": 0x8930,
    "SIOCADDMULTI": 0x8931,
    "SIOCDELMULTI": 0x8932,
    "SIOCSIFPFLAGS": 0x8934,
    "SIOCSIFHWBROADCAST": 0x8937,
    "SIOCETHTOOL": 0x8946,
    "SIOCSIFMAP": 0x8971,
}
OTHERS = {"SIOCADDRT": 0x890B, "SIOCDELRT": 0x890C, "SIOCDARP": 0x8953, "SIOCGARP": 0x8954, "SIOCSARP": 0x8955, "SIOCGRARP": 0x8961}


def asked(s, request, name):
    # struct ifreq has 40 bytes, struct rtentry 120: all behind the name is zero.
    return coded(libc.ioctl(s.fileno(), request, ctypes.create_string_buffer(name, 128)))


for kind, make in SOCKETS.items():
    with make() as s:
        for what, request in INTERFACES.items():
            print(kind, what, *(asked(s, request, name) for name in (b"lo", b"", b"none0")))
        for what, request in OTHERS.items():
            print(kind, what, asked(s, request, b""))
