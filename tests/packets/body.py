"""What packet sockets do, a case each: `body.py CASE`, beside a peer on the other side of eth0: `body.py peer`. On the kernel and in a node the lines must be the same."""

import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import sys
import time

ETH_P_ALL, ETH_P_OURS, ETH_P_OTHER = 3, 0x88B5, 0x88B6
SOL_PACKET, SOL_SOCKET = 263, 1
ADD, DROP, STATISTICS, AUXDATA, ORIGDEV, IGNORE_OUTGOING = 1, 2, 6, 8, 9, 23
ALL = b"\xff" * 6
GROUP, FOREIGN = b"\x03\0\0\0\0\x07", b"\x02\0\0\0\0\x99"
LIBC = ctypes.CDLL(None, use_errno=True)


def packet(kind=socket.SOCK_RAW, protocol=ETH_P_OURS, interface="eth0"):
    # Who names a protocol before an interface hears all interfaces until then, and keeps what came.
    one = socket.socket(socket.AF_PACKET, kind, 0 if interface else socket.htons(protocol))
    if interface:
        one.bind((interface, protocol))
    one.settimeout(5)
    return one


def left(one, take=None):
    """What lies in a socket's queue, until that is empty. It does not wait from then on."""
    one.setblocking(False)
    while True:
        try:
            yield (take or (lambda: one.recvfrom(2000)))()
        except BlockingIOError:
            return


def own():
    return packet(protocol=0).getsockname()[4]


def peer():
    """The peer's address, once it is there."""
    one = packet()
    one.settimeout(0.2)
    while True:
        ask(one, [])
        try:
            return one.recvfrom(2000)[1][4]
        except TimeoutError:
            continue


def ask(one, frames, times=1):
    """Lets the peer send these frames, so often, and then one that says so."""
    text = b"".join(struct.pack("!H", len(frame)) + frame for frame in frames)
    one.send(ALL + own() + struct.pack("!H", ETH_P_OTHER) + struct.pack("!HH", times, len(frames)) + text)


def serve():
    """The peer."""
    one = packet(protocol=ETH_P_OTHER)
    one.settimeout(None)
    me = own()
    while True:
        data, sender = one.recvfrom(70000)
        if sender[2] != socket.PACKET_BROADCAST or len(data) < 18:
            continue
        times, count = struct.unpack("!HH", data[14:18])
        for _ in range(times):
            at = 18
            for _ in range(count):
                length = struct.unpack("!H", data[at:at + 2])[0]
                one.send(data[at + 2:at + 2 + length].replace(b"PEER..", me))
                at += 2 + length
        one.send(data[6:12] + me + struct.pack("!H", ETH_P_OURS) + b"done")


def frame(to, kind=ETH_P_OURS, data=b"data", sender=b"PEER.."):
    return to + sender + struct.pack("!H", kind) + data


def said(what, call):
    """What comes of a call, without what differs from run to run."""
    try:
        result = call()
    except OSError as error:
        result = errno.errorcode.get(error.errno, type(error).__name__)
    print(f"{what}: {named(result)}", flush=True)
    return result


NAMES = {}


def named(value):
    if isinstance(value, bytes):
        for address, name in NAMES.items():
            value = value.replace(address, name)
        return value
    return tuple(map(named, value)) if isinstance(value, tuple) else value


def address(protocol=ETH_P_OURS, interface=None, length=6, to=ALL, family=socket.AF_PACKET):
    index = socket.if_nametoindex("eth0") if interface is None else interface
    return struct.pack("=HHiHBB8s", family, socket.htons(protocol), index, 0, 0, length, to)


def raw(name, one, *words):
    """A call of the C library with bytes as they are."""
    result = getattr(LIBC, name)(one.fileno(), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def refusals():
    NAMES[own()] = b"<own>"
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, 7):
        said(f"socket {kind}", lambda: socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL)).fileno() > 0)
    one = packet(interface=None)
    said("name of one that is bound to nothing", lambda: one.getsockname())
    for what, bytes_ in (("short", address()[:19]), ("of IP", address(family=2)), ("of nobody", address(interface=4711)), ("below", address(interface=-1))):
        said(f"bind {what}", lambda: raw("bind", one, bytes_, len(bytes_)))
    said("send nowhere", lambda: one.send(frame(ALL)))
    kept = packet(protocol=ETH_P_OTHER, interface=None)
    said("bind without a protocol", lambda: raw("bind", kept, address(protocol=0), 20))
    said("its name", lambda: kept.getsockname())
    for what, call in (("connect", lambda: raw("connect", one, address(), 20)), ("listen", lambda: one.listen()), ("accept", lambda: raw("accept", one, None, None)),
                       ("shutdown", lambda: one.shutdown(socket.SHUT_RDWR)), ("peer", lambda: one.getpeername())):
        said(what, call)
    one = packet()
    said("name", lambda: one.getsockname())
    for length in (13, 14, 1514, 1515, 1518):
        said(f"send {length}", lambda: one.send(frame(FOREIGN)[:length].ljust(length, b"x")))
    tagged = (FOREIGN + b"PEER.." + b"\x81\0").ljust(1518, b"x")
    said("send a tagged one", lambda: one.send(tagged))
    said("send one that is too long", lambda: one.send(tagged + b"x"))
    for what, bytes_ in (("short", address()[:19]), ("with a long address", address(length=9)), ("to nobody", address(interface=4711)), ("nowhere", address(interface=0)),
                         ("of IP", address(family=2))):
        said(f"sendto {what}", lambda: raw("sendto", one, frame(FOREIGN), 20, 0, bytes_, len(bytes_)))
    one.setblocking(False)
    for flag in (0, socket.MSG_PEEK, socket.MSG_OOB, socket.MSG_WAITALL, socket.MSG_ERRQUEUE, socket.MSG_TRUNC):
        said(f"receive {flag}", lambda: one.recv(100, flag))
    for level, name in ((SOL_SOCKET, socket.SO_TYPE), (SOL_SOCKET, 38), (SOL_SOCKET, 39), (SOL_SOCKET, 42), (socket.SOL_IP, 1), (41, 26), (6, 1), (SOL_PACKET, 99), (SOL_PACKET, ADD)):
        said(f"get {level} {name}", lambda: one.getsockopt(level, name))
    said("peek offset", lambda: one.setsockopt(SOL_SOCKET, 42, 1))
    for name in (AUXDATA, ORIGDEV, IGNORE_OUTGOING):
        for value in (b"\1", b"\1\0\0\0", b"\2\0\0\0", b"\0\0\0\0"):
            said(f"set {name} {value}", lambda: one.setsockopt(SOL_PACKET, name, value))
            said(f"get {name}", lambda: one.getsockopt(SOL_PACKET, name))
    eth0 = socket.if_nametoindex("eth0")
    for what, value in (("short", struct.pack("=iHH", eth0, 0, 6) + b"\0" * 7), ("of nobody", struct.pack("=iHH8s", 4711, 1, 0, b"")),
                        ("long", struct.pack("=iHH8s", eth0, 0, 9, GROUP)), ("longer", struct.pack("=iHH32s", eth0, 0, 7, GROUP)), ("a group", struct.pack("=iHH8s", eth0, 0, 6, GROUP)),
                        ("again", struct.pack("=iHH8s", eth0, 0, 6, GROUP)), ("all", struct.pack("=iHH8s", eth0, 1, 0, b"")), ("no kind", struct.pack("=iHH8s", eth0, 9, 0, b""))):
        said(f"add {what}", lambda: one.setsockopt(SOL_PACKET, ADD, value))
        said(f"drop {what}", lambda: one.setsockopt(SOL_PACKET, DROP, value))
        said(f"drop {what} again", lambda: one.setsockopt(SOL_PACKET, DROP, value))
    said("statistics", lambda: struct.unpack("II", one.getsockopt(SOL_PACKET, STATISTICS, 8)))
    said("statistics in part", lambda: one.getsockopt(SOL_PACKET, STATISTICS, 3))
    said("set statistics", lambda: one.setsockopt(SOL_PACKET, STATISTICS, 1))


def hears():
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    frames = [frame(own()), frame(ALL), frame(GROUP), frame(FOREIGN), frame(own(), ETH_P_OTHER, b"\xff\xff"), frame(own(), 5, b"12345"), frame(own(), 0x5FF, b"x"),
              frame(own(), 0x600, b"y"), frame(own(), data=b"")]
    for what, kind, protocol in (("ours", socket.SOCK_RAW, ETH_P_OURS), ("all", socket.SOCK_RAW, ETH_P_ALL), ("cooked", socket.SOCK_DGRAM, ETH_P_OURS),
                                 ("all cooked", socket.SOCK_DGRAM, ETH_P_ALL), ("802.2", socket.SOCK_RAW, 4), ("none", socket.SOCK_RAW, 0)):
        talks, one = packet(), packet(kind, protocol)
        ask(talks, frames)
        while talks.recv(100)[14:] != b"done":
            pass
        for data, who in left(one):
            # What is asked of the peer names addresses of this run; IP is not what this is about.
            if (who[1] != ETH_P_OTHER or who[2] != socket.PACKET_OUTGOING) and who[1] not in (0x800, 0x806, 0x86DD):
                print(f"{what}: {named(data)} {named(who)}", flush=True)
        said(f"{what}, statistics", lambda: struct.unpack("II", one.getsockopt(SOL_PACKET, STATISTICS, 8)))
        talks.close(), one.close()


def sends():
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    one, beside, deaf, cooked = packet(), packet(protocol=ETH_P_ALL), packet(protocol=ETH_P_ALL), packet(socket.SOCK_DGRAM)
    deaf.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    said("raw", lambda: one.send(frame(FOREIGN, sender=own())))
    said("with an address", lambda: one.sendto(frame(FOREIGN, sender=own()), ("eth0", ETH_P_OTHER)))
    said("cooked", lambda: cooked.sendto(b"cooked", ("eth0", ETH_P_OTHER, 0, 0, FOREIGN)))
    said("cooked, and to nobody", lambda: cooked.send(b"plain"))
    said("itself, all", lambda: beside.send(frame(FOREIGN, sender=own(), data=b"mine")))
    for what, who in (("one", one), ("beside", beside), ("deaf", deaf), ("cooked", cooked)):
        for data, sender in left(who):
            if sender[1] not in (0x800, 0x806, 0x86DD):
                print(f"{what} hears {named(data)} {named(sender)}", flush=True)


def reads():
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    one = packet()
    one.setsockopt(SOL_PACKET, AUXDATA, 1)
    ask(one, [frame(own(), data=b"0123456789" * 5)] * 6)
    said("peek", lambda: one.recv(20, socket.MSG_PEEK))
    said("cut", lambda: one.recv(20))
    said("cut, and its length", lambda: len(one.recv(20, socket.MSG_TRUNC)))
    data, control, flags, sender = one.recvmsg(20, 200)
    print(f"message: {named(data)} {flags} {named(sender)}")
    for level, kind, value in control:
        # Whether a checksum was looked at depends on the way of a frame.
        status, length, captured, link, network, tag, of = struct.unpack("IIIHHHH", value)
        print(f"auxiliary: {level} {kind} {status & ~(8 | 128)} {length} {captured} {network - link} {tag} {of}")
    # These two do not wait, and the peer may be late.
    select.select([one], [], [], 5)
    said("a part of its name", lambda: raw("recvfrom", one, ctypes.create_string_buffer(100), 100, 0, None, None))
    select.select([one], [], [], 5)
    said("waits", lambda: struct.unpack("i", fcntl_ioctl(one, 0x541B))[0])
    said("rest", lambda: one.recv(2000))
    # if (A == 0x88b5) keep 20 bytes, else none
    program = struct.pack("HBBI" * 4, 0x28, 0, 0, 12, 0x15, 0, 1, ETH_P_OURS, 0x06, 0, 0, 20, 0x06, 0, 0, 0)
    held = ctypes.create_string_buffer(program)
    one, other = packet(), packet(protocol=ETH_P_ALL)
    for who in (one, other):
        who.setsockopt(SOL_SOCKET, 26, struct.pack("HxxxxxxQ", 4, ctypes.addressof(held)))
    ask(one, [frame(own(), data=b"0123456789" * 5), frame(own(), ETH_P_OTHER, b"\xff\xff")])
    for _ in range(2):
        said("filtered", lambda: one.recv(2000))
        said("of all", lambda: other.recv(2000))
    other.setblocking(False)
    said("no more of all", lambda: other.recv(2000))
    said("statistics", lambda: struct.unpack("II", other.getsockopt(SOL_PACKET, STATISTICS, 8)))


def fcntl_ioctl(one, request):
    import fcntl
    return fcntl.ioctl(one, request, b"\0" * 4)


def lost():
    peer()
    talks, one = packet(), packet()
    one.setsockopt(SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setsockopt(SOL_SOCKET, 40, 1)
    ask(talks, [frame(own(), data=b"x" * 1000)], 60)
    while talks.recv(100)[14:] != b"done":
        pass
    frames, lost = struct.unpack("II", one.getsockopt(SOL_PACKET, STATISTICS, 8))
    print(f"frames {frames} lost {lost > 0}")
    print(f"together {len(list(left(one))) + lost}")
    said("statistics again", lambda: struct.unpack("II", one.getsockopt(SOL_PACKET, STATISTICS, 8)))


def polls():
    peer()
    one = packet()
    look = select.poll()
    look.register(one, 0xFFFF)
    said("before", lambda: look.poll(0)[0][1])
    ask(one, [])
    select.select([one], [], [], 5)
    said("with a frame", lambda: look.poll(0)[0][1])
    one.recv(2000)
    said("after", lambda: look.poll(0)[0][1])
    ready = select.epoll()
    ready.register(one, select.EPOLLIN | select.EPOLLET)
    said("edge, nothing", lambda: ready.poll(0))
    ask(one, [])
    said("edge", lambda: [events for _, events in ready.poll(5)])
    said("edge, again", lambda: ready.poll(0))
    one.settimeout(0.05)
    one.recv(2000)
    said("nobody", lambda: one.recv(2000))


def downs():
    peer()
    bound, free = packet(), packet(interface=None)
    subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    for what, one in (("bound", bound), ("free", free)):
        one.setblocking(False)
        said(f"{what} receives", lambda: one.recv(2000))
        said(f"{what} receives again", lambda: one.recv(2000))
        said(f"{what} has a name", lambda: one.getsockname()[1:4])
        said(f"{what} sends", lambda: raw("sendto", one, frame(ALL), 18, 0, address(), 20))
    late = packet(interface=None)
    said("bind to what is down", lambda: raw("bind", late, address(), 20))
    late.setblocking(False)
    said("late receives", lambda: late.recv(2000))
    subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)
    peer()
    time.sleep(0.5)
    for what, one in (("bound", bound), ("free", free), ("late", late)):
        said(f"{what} hears", lambda: one.recv(2000)[14:])


def loops():
    """Frames of lo, which IP and packet sockets send: their addresses are nobody's."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        all_, ip, cooked = packet(protocol=ETH_P_ALL, interface="lo"), packet(protocol=0x800, interface="lo"), packet(socket.SOCK_DGRAM, 0x800, "lo")
        said("name", lambda: all_.getsockname())
        try:
            takes = socket.socket(family, socket.SOCK_DGRAM)
            takes.bind((address, 7000))
        except OSError as error:
            print(f"{address}: {errno.errorcode[error.errno]}")
            continue
        takes.settimeout(5)
        sends = socket.socket(family, socket.SOCK_DGRAM)
        sends.bind((address, 7001))
        sends.sendto(b"hello", (address, 7000))
        said("came", lambda: takes.recv(100))
        kept = b""
        for what, one in (("all", all_), ("IPv4", ip), ("cooked", cooked)):
            for data, who in left(one):
                kept = data if what == "IPv4" else kept
                header = data[:14] if what != "cooked" else b""
                print(f"{what}: {header} {len(data)} {data[-5:]} {who}", flush=True)
        if kept:
            said("again", lambda: ip.send(kept))
            takes.settimeout(0.2)
            said("came again", lambda: takes.recv(100))
            said("all hear it", lambda: [all_.recvfrom(2000)[1] for _ in range(2)])
            said("the sender hears it come", lambda: ip.recvfrom(2000)[1])
            said("what is no IP", lambda: ip.sendto(b"\0" * 12 + b"\x88\xb5x", ("lo", ETH_P_OURS)))
            said("is heard", lambda: [all_.recvfrom(2000)[1] for _ in range(2)])


CASES = {"loops": loops, "refusals": refusals, "hears": hears, "sends": sends, "reads": reads, "lost": lost, "polls": polls, "downs": downs}

if __name__ == "__main__":
    # The cases about rings take this module for one of theirs.
    sys.modules["body"] = sys.modules["__main__"]
    import rings

    CASES |= rings.CASES
    serve() if sys.argv[1] == "peer" else CASES[sys.argv[1]]()
