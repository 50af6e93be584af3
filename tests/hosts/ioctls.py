"""ioctl(2) on sockets: every request about sockets and interfaces that programs know, through each kind of socket; SIOCGIFCONF of every length."""

import ctypes
import errno
import fcntl
import os
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
SIOCGIFCONF = 0x8912
NOWHERE = 8
room = ctypes.create_string_buffer(1 << 16)
AT = ctypes.addressof(room)


def asked(s, request, at=None):
    result = libc.ioctl(s.fileno(), request, AT if at is None else at)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result


def filled(data):
    ctypes.memset(AT, 0, 256)
    ctypes.memmove(AT, data, len(data))


def stream(family, host):
    listener = socket.create_server((host, 0), family=family)
    a = socket.create_connection(listener.getsockname()[:2])
    b, _ = listener.accept()
    b.sendall(b"12345")
    a.recv(1, socket.MSG_PEEK)
    return a, listener, b


def datagram(family, host):
    a = socket.socket(family, socket.SOCK_DGRAM)
    a.bind((host, 0))
    a.sendto(b"12345", a.getsockname())
    a.sendto(b"123", a.getsockname())
    a.recv(1, socket.MSG_PEEK)
    return (a,)


def raw(family, host):
    a = socket.socket(family, socket.SOCK_RAW, 253)
    a.bind((host, 0))
    a.sendto(b"12345", (host, 0))
    a.recv(1, socket.MSG_PEEK)
    return (a,)


MAKERS = {"stream": stream, "datagram": datagram, "raw": raw, "local": lambda family, host: socket.socketpair()}
# SIOCATMARK, FIONREAD, SIOCOUTQ, SIOCOUTQNSD, FIOGETOWN, SIOCGPGRP, SIOCGSTAMP, SIOCGSTAMPNS in both forms, FIONBIO, FIOASYNC, and what there is not.
SOCKET_REQUESTS = (0x8905, 0x541B, 0x5411, 0x894B, 0x8903, 0x8904, 0x5421, 0x5452, 0x5401, 0x5413, 0xABCD, 0)
NAMES = (b"lo", b"lo:1", b"nothing", b"", b"l", b"lo\0x", b"123456789012345", b"1234567890123456", b"l\xff")
# SIOCGIFNAME is by number. SIOCGIFFLAGS, …ADDR, …DSTADDR, …BRDADDR, …NETMASK, …METRIC, …MEM, …MTU, …HWADDR, …SLAVE, …INDEX, …PFLAGS, …TXQLEN, …MAP.
INTERFACE_REQUESTS = (0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D, 0x891F, 0x8921, 0x8927, 0x8929, 0x8933, 0x8935, 0x8942, 0x8970)


def of_sockets(kind, family, host):
    for request in SOCKET_REQUESTS:
        sockets = MAKERS[kind](family, host)
        filled(b"\xee" * 32)
        if request in (0x5421, 0x5452):
            filled(struct.pack("=i", 1))
        answer = asked(sockets[0], request)
        print(kind, hex(request), answer, end=" ")
        # What is not known goes to the interfaces' requests, which read more.
        print(room[:8].hex(), "nowhere", asked(sockets[0], request, NOWHERE), asked(sockets[0], request, 0)) if answer == 0 else print()
        for s in sockets:
            s.close()


def owners(s, what):
    """FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP beside fcntl(2): one owner, however he is told and asked for."""
    told = []
    for request, number in ((0x8901, os.getpid()), (0x8902, -os.getpgrp()), (0x8901, 0)):
        filled(struct.pack("=i", number))
        told.append(asked(s, request))
        for ask in (0x8903, 0x8904):
            filled(b"\xee" * 8)
            told += [asked(s, ask), struct.unpack("=i", room[:4])[0] == number]
        # A group's is a negative number, which looks like an errno.
        told.append(fcntl.fcntl(s, fcntl.F_GETOWN) == number if number >= 0 else "-")
    fcntl.fcntl(s, fcntl.F_SETOWN, os.getpid())
    told += [asked(s, 0x8903), struct.unpack("=i", room[:4])[0] == os.getpid()]
    filled(struct.pack("=i", 1 << 30))
    told += [asked(s, 0x8901), *(asked(s, request, NOWHERE) for request in (0x8901, 0x8902, 0x8903, 0x8904))]
    print(what, "owner", *told)


def times(kind, family, host):
    """SIOCGSTAMP and SIOCGSTAMPNS: when the last packet that was read came."""
    for request, unit, layout in ((0x8906, 10**6, "=qq"), (0x8907, 10**9, "=qq"), (0x80108906, 10**6, "=qq"), (0x80108907, 10**9, "=qq")):
        sockets = MAKERS[kind](family, host)
        fresh = socket.socket(family, sockets[0].type, sockets[0].proto)
        answer = [asked(fresh, request), asked(sockets[0], request)]
        sockets[0].recv(10)
        answer.append(asked(sockets[0], request))
        if answer[-1] == 0:
            seconds, part = struct.unpack(layout, room[:16])
            answer.append(seconds > 0 and 0 <= part < unit)
        answer.append(asked(sockets[0], request, NOWHERE))
        fresh.close()
        print(kind, "time", hex(request), *answer)
        for s in sockets:
            s.close()


def of_interfaces(kind, family, host):
    sockets = MAKERS[kind](family, host)
    s = sockets[0]
    for name in NAMES:
        for request in INTERFACE_REQUESTS:
            filled(name)
            answer = asked(s, request)
            print(kind, hex(request), name, answer, room[16:40].hex() if answer == 0 else "")
    for index in (0, 1, 2, -1, 1 << 30):
        filled(bytes(16) + struct.pack("=i", index))
        print(kind, "name of", index, asked(s, 0x8910), room[:16].rstrip(b"\0"))
    print(kind, "nowhere", *(asked(s, request, NOWHERE) for request in (*INTERFACE_REQUESTS, 0x8910, SIOCGIFCONF)))
    for length in (-(1 << 31), -1, 0, 1, 39, 40, 41, 79, 80, 4000, (1 << 31) - 1):
        filled(struct.pack("=iiQ", length, 0, 0))
        counted = asked(s, SIOCGIFCONF), struct.unpack("=i", room[:4])[0]
        filled(struct.pack("=iiQ", length, 0, AT + 1024))
        ctypes.memset(AT + 1024, 0xEE, 128)
        written = asked(s, SIOCGIFCONF), struct.unpack("=i", room[:4])[0], bytes(room[1024:1152]).rstrip(b"\xee").hex()
        filled(struct.pack("=iiQ", length, 0, NOWHERE))
        print(kind, "list", length, "without room", *counted, "with", *written, "nowhere", asked(s, SIOCGIFCONF))
    for s in sockets:
        s.close()


owners(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), "netlink")
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for kind in MAKERS:
        owners(MAKERS[kind](family, host)[0], kind)
        of_sockets(kind, family, host)
        if kind != "local":
            times(kind, family, host)
        of_interfaces(kind, family, host)
