"""Sockets of IPPROTO_MPTCP in each of their states: which options they have and which not, what SOL_MPTCP tells of them, and what accept, fork and ioctl come to."""

import array
import ctypes
import fcntl
import os
import select
import socket
import struct
import time

from answers import coded, said
from generic import LOC_ID, REMOTE, SIGNAL, TOKEN, Manager, end, number

libc = ctypes.CDLL(None, use_errno=True)
MPTCP, SOL_MPTCP = 262, 284
INFO, TCPINFO, ADDRS, FULL = 1, 2, 3, 4
TCP_ULP, TCP_IS_MPTCP = 31, 43
SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK = 0x541B, 0x5411, 0x894B, 0x8905
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
LEVELS = {"socket": (1, 84), "ip": (0, 54), "tcp": (6, 44), "ipv6": (41, 80), "mptcp": (SOL_MPTCP, 8), "udp": (17, 3), "none": (99, 3)}
# Which values are the machine's, or those of a congestion control that it has chosen: only their lengths are told.
LENGTHS_ONLY = {(1, 7), (1, 49), (1, 55), (1, 57), (1, 71), (6, 2), (6, 11), (6, 13), (6, 26), (6, 33), (41, 24), (SOL_MPTCP, 1)}
# What weft's TCP has not, either, or what needs rights: the rows that say so are other scripts'.
LEFT_OUT = {(6, 26), (1, 25), (1, 26), (1, 32), (1, 33), (1, 54), (1, 79), (1, 80), (1, 82), (1, 83), (0, 19), (41, 75)}


def new(family):
    return socket.socket(family, socket.SOCK_STREAM, MPTCP)


def listening(family, host):
    s = new(family)
    s.bind((host, 0))
    s.listen(3)
    return s


def pair(family, host):
    listener = listening(family, host)
    client = new(family)
    client.connect(listener.getsockname()[:2])
    accepted = listener.accept()[0]
    # Both have heard all of the handshake.
    client.sendall(b"x")
    accepted.recv(1)
    accepted.sendall(b"x")
    client.recv(1)
    return client, accepted


def states(family, host):
    yield "new", new(family)
    bound = new(family)
    bound.bind((host, 0))
    yield "bound", bound
    yield "listening", listening(family, host)
    client, accepted = pair(family, host)
    yield "connected", client
    yield "accepted", accepted
    client, accepted = pair(family, host)
    accepted.close()
    client.recv(1)
    yield "half closed", client


def got(s, level, name):
    value = said(lambda: s.getsockopt(level, name, 256))
    if not isinstance(value, bytes):
        return value
    return f"{len(value)} bytes" if (level, name) in LENGTHS_ONLY else value.hex() or "nothing"


def options(text, s):
    for name, (level, end) in LEVELS.items():
        read = [(number, got(s, level, number)) for number in range(end) if (level, number) not in LEFT_OUT]
        first = read[0][1]
        print(f"{text}: get {name}:", *(f"{number}={value}" for number, value in read if value != first or number == 0))


def settings(text, s):
    for name, (level, end) in LEVELS.items():
        written = []
        for number in range(end):
            if (level, number) in LEFT_OUT:
                continue
            before = said(lambda: s.getsockopt(level, number, 256))
            result = said(lambda: s.setsockopt(level, number, 1))
            if isinstance(before, bytes) and result is None and len(before) == 4:
                said(lambda: s.setsockopt(level, number, before))
            written.append((number, "set" if result is None else result))
        first = written[0][1]
        print(f"{text}: set {name}:", *(f"{number}={value}" for number, value in written if value != first or number == 0))


def whole(s, name, value):
    """getsockopt(2) with something in the place for the value."""
    buffer = ctypes.create_string_buffer(bytes(value), len(value))
    length = ctypes.c_uint32(len(value))
    result = coded(libc.getsockopt(s.fileno(), SOL_MPTCP, name, buffer, ctypes.byref(length)))
    return result, length.value, buffer.raw


def ends(data, at):
    """An address that stands in a `struct sockaddr_storage`: what it is, without an ephemeral port."""
    family, port = struct.unpack_from("=HH", data, at)[0], struct.unpack_from("!H", data, at + 2)[0]
    address = data[at + 4:at + 8] if family == socket.AF_INET else data[at + 8:at + 24]
    return family, port != 0, socket.inet_ntop(family, address) if family in (socket.AF_INET, socket.AF_INET6) else "", any(data[at + 28:at + 128])


def info(text, s):
    data = said(lambda: s.getsockopt(SOL_MPTCP, INFO, 200))
    if not isinstance(data, bytes):
        print(f"{text}: info", data)
        return
    subflows, signal, accepted = data[:3]
    flags, token = struct.unpack_from("2I", data, 8)
    write, una, following = struct.unpack_from("3Q", data, 16)
    used, _, checksum = data[40:43]
    again, resent, sent, received, acknowledged = struct.unpack_from("=I4Q", data, 44)
    print(f"{text}: info {len(data)}", subflows, signal, accepted, flags, token != 0, write != 0, write - una, following != 0, used, checksum,
          again, resent, sent, received, acknowledged, data[80])
    for length in (-1, 0, 1, 95, 96):
        print(f"{text}: info of {length}", coded(libc.getsockopt(s.fileno(), SOL_MPTCP, INFO, ctypes.create_string_buffer(100),
                                                              ctypes.byref(ctypes.c_int32(length)))))


def arrays(text, s):
    for name in (TCPINFO, ADDRS):
        for head, each, length in ((16, 8, 300), (16, 300, 400), (20, 8, 40), (16, 0, 40), (16, 8, 16), (16, 8, 23), (15, 8, 40), (41, 8, 40),
                                   (16, 8, 15), (1 << 31, 8, 40), (16, 1 << 31, 40), (16, 8, 0)):
            given = struct.pack("4I", head, 0, 0, each).ljust(length, b"\xee")[:length]
            result, told, data = whole(s, name, given)
            words = struct.unpack_from("4I", data) if result == 0 else ()
            rest = data[16:]
            kept = rest.strip(b"\xee") == b"" if name == TCPINFO else (ends(rest, 0)[:2] if each == 8 and head == 16 and length == 300 else "")
            print(f"{text}: {name} with {head} {each} {length}:", result, told if result == 0 else "", words[:2], words[3:], words[2:3] if name == ADDRS else "", kept)
        for words in ((16, 1, 0, 8), (16, 0, 1, 8)):
            print(f"{text}: {name} of {words}:", whole(s, name, struct.pack("4I", *words) + bytes(40))[0])
    result, _, data = whole(s, ADDRS, struct.pack("4I", 16, 0, 0, 256) + bytes(256))
    if result == 0:
        print(f"{text}: ends", ends(data, 16), ends(data, 144))


def full(text, s):
    flows, tcp = ctypes.create_string_buffer(b"\xee" * 600, 600), ctypes.create_string_buffer(b"\xee" * 600, 600)
    for tcp_each, flow_each, most, length in ((8, 264, 2, 136), (8, 8, 1, 100), (0, 0, 2, 40), (8, 264, 0, 136), (8, 264, 2, 39), (300, 300, 1, 200)):
        ctypes.memset(flows, 0xEE, 600), ctypes.memset(tcp, 0xEE, 600)
        given = struct.pack("6I2Q", 0, tcp_each, 0, flow_each, 0, most, ctypes.addressof(flows), ctypes.addressof(tcp)).ljust(length, b"\xee")[:length]
        result, told, data = whole(s, FULL, given)
        if result != 0:
            print(f"{text}: full of {tcp_each} {flow_each} {most} {length}:", result)
            continue
        words = struct.unpack_from("6I", data)
        print(f"{text}: full of {tcp_each} {flow_each} {most} {length}:", told, min(words[1], 8), words[2:], struct.unpack_from("I", flows.raw),
              ends(flows.raw, 8) if flow_each >= 264 and most else "", flows.raw.rstrip(b"\xee") == b"", tcp.raw[0], tcp.raw[8] == 0xEE)
    for at in (0, 2, 4):
        words = [0, 8, 0, 8, 0, 1]
        words[at] = 1
        print(f"{text}: full with {words}", whole(s, FULL, struct.pack("6I2Q", *words, 0, 0))[0])
    print(f"{text}: full of nowhere", whole(s, FULL, struct.pack("6I2Q", 0, 8, 0, 8, 0, 1, 8, 8))[0])


def queues(text, s):
    def asks(request):
        value = array.array("i", [0])
        return said(lambda: fcntl.ioctl(s, request, value)) or value[0]

    print(f"{text}: queues", *(asks(request) for request in (SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK)))


def kinds():
    for family, _ in FAMILIES.values():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            print("kind", int(family), int(kind), said(lambda: socket.socket(family, kind, MPTCP).getsockopt(1, 38)))


def unread(name, family, host):
    """What is not acknowledged, not read, and not in order."""
    client, accepted = pair(family, host)
    client.sendall(b"y" * 1000)
    select.select([accepted], [], [])
    queues(f"{name} written", client)
    queues(f"{name} unread", accepted)
    print(f"{name}: urgent", said(lambda: client.send(b"zz", socket.MSG_OOB)), said(lambda: accepted.recv(4, socket.MSG_OOB | socket.MSG_WAITALL)))
    print(f"{name}: errors", said(lambda: accepted.recv(1, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)))


def passed(name, family, host):
    """A connection in a child, and over a socket of AF_UNIX."""
    client, accepted = pair(family, host)
    here, there = socket.socketpair()
    socket.send_fds(here, [b"x"], [client.fileno()])
    client.close()
    pid = os.fork()
    if pid == 0:
        accepted.close()
        other = socket.socket(fileno=socket.recv_fds(there, 1, 1)[1][0])
        other.sendall(str((other.getsockopt(1, 38), other.getsockopt(6, TCP_IS_MPTCP))).encode())
        other.close()
        os._exit(0)
    there.close()
    print(f"{name}: of a child", accepted.recv(100).decode(), os.waitpid(pid, 0)[1])
    print(f"{name}: its end", accepted.recv(100))


def shut(name, family, host):
    """Both directions are shut, and then the peer writes: what came can be read, and the peer may write more."""
    client, accepted = pair(family, host)
    print(f"{name}: shut", said(lambda: client.shutdown(socket.SHUT_RDWR)), said(lambda: accepted.recv(1)))
    for data in (b"one", b"two"):
        print(f"{name}: the peer writes", said(lambda data=data: accepted.send(data)))
        time.sleep(0.05)
    print(f"{name}: it reads", said(lambda: client.recv(100)), said(lambda: client.recv(100)), said(lambda: accepted.getsockopt(1, 4)))


def managed(name, family, host):
    """Commands of a path manager in user space, of a connection that none manages."""
    client, _ = pair(family, host)
    token = number(TOKEN, struct.unpack_from("=I", client.getsockopt(SOL_MPTCP, INFO, 128), 12)[0])
    here, there = end(address=host, id=7, port=1, flags=SIGNAL), end(REMOTE, host, port=2)
    manager = Manager()
    for verb in ("announce", "remove", "create", "destroy", "flags", "get"):
        for parts in ((), (here,), (here, there), (here, there, number(LOC_ID, 7, "B"))):
            print(f"{name}: {verb} with {len(parts)}", manager.does(verb, token, *parts))
    print(f"{name}: list", manager.does("get", token, flags=0x304))
    print(f"{name}: endpoint of no interface:", manager.does("add", end(address=host, device=99)), manager.does("flush"))


def main():
    kinds()
    for name, (family, host) in FAMILIES.items():
        for text, s in states(family, host):
            text = f"{name} {text}"
            info(text, s)
            arrays(text, s)
            full(text, s)
            queues(text, s)
            print(f"{text}: is", s.getsockopt(1, 38), said(lambda: s.getsockopt(6, TCP_IS_MPTCP)), said(lambda: s.getsockopt(6, TCP_ULP, 16)))
            options(text, s)
            settings(text, s)
        unread(name, family, host)
        shut(name, family, host)
        passed(name, family, host)
        managed(name, family, host)


main()
