"""What rings of packet sockets do, the cases of body.py that are about them."""

import ctypes
import os
import select
import socket
import struct
import time

from body import ALL, AUXDATA, ETH_P_ALL, ETH_P_OTHER, ETH_P_OURS, FOREIGN, LIBC, NAMES, SOL_PACKET, STATISTICS, ask, frame, left, named, own, packet, peer, said

RX, COPY_THRESH, VERSION, HDRLEN, RESERVE, TX, LOSS, HAS_OFFSETS = 5, 7, 10, 11, 12, 13, 14, 19
PAGE = 4096
# Bytes of a frame's header, and where it has status, length, captured length, and where link and network headers are.
HEADERS = {0: 32, 1: 32, 2: 48}
FIELDS = {0: (0, 8, 12, 16, 18), 1: (0, 4, 8, 12, 14), 2: (20, 16, 12, 24, 26)}
# TP_STATUS_CSUMNOTREADY and CSUM_VALID depend on the way of a frame, TS_SOFTWARE on whether anybody wants times.
CHANCE = 8 | 128 | 1 << 29
LIBC.mmap.restype = ctypes.c_ssize_t
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Ring:
    """Memory of a socket's rings."""

    def __init__(self, one, size, offset=0, protection=3, flags=1):
        self.at, self.size = LIBC.mmap(None, size, protection, flags, one.fileno(), offset), size
        if self.at == -1:
            raise OSError(ctypes.get_errno(), "")
        self.bytes = (ctypes.c_char * size).from_address(self.at)

    def close(self):
        del self.bytes
        LIBC.munmap(self.at, self.size)

    def read(self, kind, at):
        return struct.unpack_from(kind, self.bytes, at)[0]

    def write(self, kind, at, value):
        struct.pack_into(kind, self.bytes, at, value)


def request(blocks=4, block=PAGE, size=2048, frames=None, *more):
    return struct.pack(f"{4 + len(more)}I", block, blocks, size, block // size * blocks if frames is None else frames, *more)


def one_of(version, what=RX, asked=None, interface="eth0", protocol=ETH_P_OURS, kind=socket.SOCK_RAW):
    one = packet(kind, protocol, interface)
    one.setsockopt(SOL_PACKET, VERSION, version)
    if asked:
        one.setsockopt(SOL_PACKET, what, asked)
    return one


def header_bytes(one, version, length=4):
    value, size = ctypes.create_string_buffer(struct.pack("i", version), 8), ctypes.c_int(length)
    if LIBC.getsockopt(one.fileno(), SOL_PACKET, HDRLEN, value, ctypes.byref(size)) < 0:
        raise OSError(ctypes.get_errno(), "")
    return struct.unpack("i", value.raw[:4])[0], size.value


def sizes():
    """What is refused, and what is not."""
    one = packet(protocol=0, interface="lo")
    for version in (0, 1, 2, 3, -1):
        said(f"header of version {version}", lambda: header_bytes(one, version))
    for length in (0, 3, 8, -1):
        said(f"header, asked with {length} bytes", lambda: header_bytes(one, 1, length))
    for name in (VERSION, RESERVE, LOSS, COPY_THRESH, HAS_OFFSETS):
        for value in (b"\1", b"\1\0\0\0\0", struct.pack("i", -1), struct.pack("i", 3), struct.pack("i", 1)):
            said(f"set {name} {value}", lambda: one.setsockopt(SOL_PACKET, name, value))
        said(f"get {name}", lambda: one.getsockopt(SOL_PACKET, name))
    said("set the header", lambda: one.setsockopt(SOL_PACKET, HDRLEN, 1))
    said("get a ring", lambda: one.getsockopt(SOL_PACKET, RX))
    for version in (0, 1, 2):
        more = (0, 0, 0) if version == 2 else ()
        for what, asked in (("short", request(4, PAGE, 2048, None, *more)[:-1]), ("nothing", b""), ("no block", request(4, 0, 2048, 8, *more)),
                            ("huge blocks", request(4, 1 << 31, 2048, 8, *more)), ("odd blocks", request(4, 4100, 2048, 8, *more)), ("small frames", request(4, PAGE, 32, None, *more)),
                            ("just too small", request(4, PAGE, 48 if version < 2 else 64, None, *more)), ("odd frames", request(4, PAGE, 1000, None, *more)),
                            ("long frames", request(4, PAGE, 8192, 4, *more)), ("another number", request(4, PAGE, 2048, 9, *more)), ("no number", request(4, PAGE, 2048, 0, *more)),
                            ("no blocks", request(0, PAGE, 2048, 8, *more)), ("none", request(0, 0, 0, 0, *more)), ("too many", request(1 << 31, PAGE, 2048, 0, *more)),
                            ("long", request(4, PAGE, 2048, None, *more) + b"x")):
            for way in (RX, TX):
                one = one_of(version, interface="lo", protocol=0)
                said(f"{version} {way} {what}", lambda: one.setsockopt(SOL_PACKET, way, asked))
    for what, asked in (("private", request(4, PAGE, 2048, None, 0, 13, 0)), ("much private", request(4, PAGE, 2048, None, 0, PAGE, 0)),
                        ("as much as there is", request(4, PAGE, 2048, None, 0, PAGE - 48 - 68, 0)), ("one more", request(4, PAGE, 2048, None, 0, PAGE - 48 - 67, 0)),
                        ("time", request(4, PAGE, 2048, None, 10, 0, 0)), ("features", request(4, PAGE, 2048, None, 0, 0, 0xff)), ("all ones", request(4, PAGE, 2048, None, 0, 1 << 32 - 1, 0))):
        for way in (RX, TX):
            one = one_of(2, interface="lo", protocol=0)
            said(f"{way} {what}", lambda: one.setsockopt(SOL_PACKET, way, asked))
    one = one_of(1, interface="lo", protocol=0)
    one.setsockopt(SOL_PACKET, RESERVE, 2000)
    said("with a reserve", lambda: one.setsockopt(SOL_PACKET, RX, request()))
    said("with room for it", lambda: one.setsockopt(SOL_PACKET, RX, request(4, PAGE, 4096)))
    for what, name, value in (("again", RX, request()), ("version", VERSION, 1), ("reserve", RESERVE, 0), ("loss", LOSS, 0), ("offsets", HAS_OFFSETS, 1), ("threshold", COPY_THRESH, 1)):
        said(f"then {what}", lambda: one.setsockopt(SOL_PACKET, name, value))
    said("offsets", lambda: one.getsockopt(SOL_PACKET, HAS_OFFSETS))


def maps():
    """Who maps what, and for how long a ring stays."""
    none = struct.pack("4I", 0, 0, 0, 0)
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    said("another socket", lambda: Ring(other, PAGE) and 0)
    one = one_of(1, interface="lo", protocol=0)
    said("without a ring", lambda: Ring(one, PAGE) and 0)
    one.setsockopt(SOL_PACKET, RX, request())
    for what, words in (("short", (3 * PAGE,)), ("long", (5 * PAGE,)), ("nothing", (0,)), ("from a page on", (4 * PAGE, PAGE)), ("from a byte on", (4 * PAGE, 1)),
                        ("of no kind", (4 * PAGE, 0, 3, 0)), ("nearly all", (4 * PAGE - 1,))):
        said(what, lambda: Ring(one, *words).close())
    ring = Ring(one, 4 * PAGE)
    said("it is empty", lambda: any(bytes(ring.bytes)))
    said("while it is mapped", lambda: one.setsockopt(SOL_PACKET, RX, none))
    said("another one meanwhile", lambda: one.setsockopt(SOL_PACKET, TX, request()))
    twice = Ring(one, 4 * PAGE)
    ring.write("I", 1000, 4711)
    said("mapped twice", lambda: twice.read("I", 1000))
    ring.close()
    said("once still", lambda: one.setsockopt(SOL_PACKET, RX, none))
    twice.close()
    said("no more", lambda: one.setsockopt(SOL_PACKET, TX, request(2)))
    both = Ring(one, 6 * PAGE)
    said("what was there", lambda: both.read("I", 1000))
    child, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(child[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(child[0], 1)
    both.close()
    said("a child has it", lambda: one.setsockopt(SOL_PACKET, RX, none))
    os.write(go[1], b"x")
    os.waitpid(pid, 0)
    said("the child is gone", lambda: one.setsockopt(SOL_PACKET, RX, none))
    said("the other is there", lambda: Ring(one, 2 * PAGE).close())
    said("which goes, too", lambda: one.setsockopt(SOL_PACKET, TX, none))
    said("none is left", lambda: Ring(one, 2 * PAGE).close())
    readable = one_of(1, RX, request(), "lo", 0)
    said("only to read", lambda: Ring(readable, 4 * PAGE, 0, 1).close())
    said("of its own", lambda: Ring(readable, 4 * PAGE, 0, 3, 2).close())


def told(ring, at, version):
    """A frame, as far as it is the same in each run."""
    status, length, captured, mac, net = (ring.read(kind, at + field) for kind, field in zip("IIIHH", FIELDS[version]))
    family, protocol, index, hardware, kind, address = struct.unpack_from("=HHiHBB", ring.bytes, at + HEADERS[version])
    protocol, index = socket.ntohs(protocol), index == socket.if_nametoindex("eth0")
    data = bytes(ring.bytes[at + mac:at + mac + captured])
    text = named(data[:40]), named(bytes(ring.bytes[at + HEADERS[version] + 12:at + HEADERS[version] + 18]))
    tag = (ring.read("H", at + 24), ring.read("H", at + 26)) if version == 1 else (ring.read("I", at + 32), ring.read("H", at + 36)) if version == 2 else ()
    seconds = ring.read("I", at + (20, 16, 4)[version])
    return (status & ~CHANCE, length, captured, mac, net, tag, family, protocol, index, hardware, kind, address, *text, abs(time.time() - seconds) < 100)


def wait(one, milliseconds=5000):
    look = select.poll()
    look.register(one, select.POLLIN)
    return [events for _, events in look.poll(milliseconds)]


def all_sent(talks):
    while talks.recv(2000)[14:] != b"done":
        pass


TAGGED = b"\x20\x05" + struct.pack("!H", ETH_P_OURS) + b"tagged"


def frames():
    """Rings of frames: what is there of each, what is lost, and what poll says."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    for version in (0, 1):
        for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
            one = one_of(version, RX, request(), protocol=ETH_P_OURS, kind=kind)
            # Hears what the ring hears, after it.
            talks, ring = packet(), Ring(one, 4 * PAGE)
            said("before", lambda: wait(one, 0))
            ask(talks, [frame(own()), frame(ALL, data=b"x" * 100), frame(FOREIGN), frame(own(), 0x8100, TAGGED)])
            # The fifth is "done".
            all_sent(talks)
            for at in range(5):
                print(f"{version} {int(kind)}: {told(ring, at * 2048, version)}", flush=True)
            said("with frames", lambda: wait(one, 0))
            one.setblocking(False)
            said("none is queued", lambda: one.recv(100))
            for at in range(5):
                ring.write("I", at * 2048, 0)
            said("given back", lambda: wait(one, 0))
            said("statistics", lambda: struct.unpack("2I", one.getsockopt(SOL_PACKET, STATISTICS, 12)))
            # The ring goes on at its sixth place, and has eight.
            ask(talks, [frame(own(), data=bytes([65 + at])) for at in range(11)])
            all_sent(talks)
            said("full", lambda: wait(one, 0))
            print([ring.bytes[at * 2048 + ring.read("H", at * 2048 + FIELDS[version][3]) + (14 if kind == socket.SOCK_RAW else 0)] for at in range(8)], flush=True)
            ring.write("I", 5 * 2048, 0)
            ask(talks, [])
            all_sent(talks)
            print(f"losing: {told(ring, 5 * 2048, version)}")
            said("lost", lambda: struct.unpack("2I", one.getsockopt(SOL_PACKET, STATISTICS, 8)))
            talks.close(), one.close(), ring.close()


def cuts():
    """Frames that are longer than their place, and places of other sizes."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    for version in (0, 1):
        for size, reserve, threshold in ((256, 0, 0), (256, 0, 1), (64, 0, 1), (512, 100, 0)):
            one = one_of(version)
            one.setsockopt(SOL_PACKET, RESERVE, reserve)
            one.setsockopt(SOL_PACKET, COPY_THRESH, threshold)
            one.setsockopt(SOL_PACKET, RX, request(1, PAGE, size))
            talks, ring = packet(), Ring(one, PAGE)
            ask(talks, [frame(own(), data=b"0123456789" * 40)])
            all_sent(talks)
            for at in range(2):
                print(f"{version} {size} {reserve} {threshold}: {told(ring, at * size, version)}", flush=True)
            one.setblocking(False)
            said("its copy", lambda: one.recvfrom(2000))
            said("another", lambda: len(one.recv(2000)))
            talks.close(), one.close(), ring.close()


def block(ring, at):
    """A block's head, but for its times."""
    version, private, status, count, first, length, sequence = struct.unpack_from("6IQ", ring.bytes, at)
    return version, private, status & ~CHANCE, count, first, length, sequence


def blocks():
    """Rings of blocks: which are closed when, what is in them, and when nothing is received any more."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    for private in (0, 13):
        one = one_of(2, RX, request(4, PAGE, 2048, None, 300, private, 0))
        talks, ring = packet(), Ring(one, 4 * PAGE)
        for at in range(2):
            print(f"new: {block(ring, at * PAGE)}", flush=True)
        said("before", lambda: wait(one, 0))
        ask(talks, [frame(own()), frame(own(), data=b"x" * 100), frame(own(), 0x8100, TAGGED)])
        all_sent(talks)
        said("when its time is over", lambda: wait(one))
        print(f"block: {block(ring, 0)}")
        at = ring.read("I", 16)
        while True:
            behind = ring.read("I", at)
            print(f"{behind}: {told(ring, at, 2)}", flush=True)
            if not behind:
                break
            at += behind
        print("last", ring.read("I", 40) == ring.read("I", at + 4), ring.read("I", 44) == ring.read("I", at + 8), "first", ring.read("I", 32) <= ring.read("I", 40))
        said("statistics", lambda: struct.unpack("3I", one.getsockopt(SOL_PACKET, STATISTICS, 12)))
        ring.write("I", 8, 0)
        said("given back", lambda: wait(one, 0))
        ask(talks, [frame(own(), data=b"x" * 1000)], 30)
        all_sent(talks)
        said("full", lambda: wait(one, 0))
        for at in range(4):
            print(f"block {at}: {block(ring, at * PAGE)}")
        said("lost", lambda: struct.unpack("3I", one.getsockopt(SOL_PACKET, STATISTICS, 16)))
        for at in (1, 2, 3, 0):
            ring.write("I", at * PAGE + 8, 0)
        ask(talks, [])
        all_sent(talks)
        said("goes on", lambda: wait(one))
        for at in range(4):
            print(f"block {at}: {block(ring, at * PAGE)}")
        talks.close(), one.close(), ring.close()


def transmits():
    """Send rings: what is marked goes out, and what cannot says so."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    tap = packet(protocol=ETH_P_ALL)
    for version in (0, 1, 2):
        status, length, captured, mac, net = FIELDS[version]
        for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
            more = (0, 0, 0) if version == 2 else ()
            one = one_of(version, TX, request(1, PAGE, 512, None, *more), protocol=ETH_P_OURS, kind=kind)
            ring = Ring(one, PAGE)
            to = ("eth0", ETH_P_OURS, 0, 0, FOREIGN)
            go = (lambda: one.sendto(b"", to)) if kind == socket.SOCK_DGRAM else (lambda: one.send(b""))

            def put(at, data, offset=HEADERS[version], bytes_=None):
                where = 512 * at
                ctypes.memmove(ring.at + where + offset, data, len(data))
                ring.write("I", where + length, len(data) if bytes_ is None else bytes_)
                ring.write("I", where + status, 1)

            look = select.poll()
            look.register(one)
            said("before", lambda: look.poll(0)[0][1])
            said("nothing", go)
            wrap = (lambda data: frame(FOREIGN, sender=own(), data=data)) if kind == socket.SOCK_RAW else (lambda data: data)
            put(0, wrap(b"first")), put(1, wrap(b"second")), put(3, wrap(b"none of these"))
            said("two", go)
            print("status", [ring.read("I", 512 * at + status) for at in range(4)])
            put(2, wrap(b"third"))
            said("two more", lambda: one.sendto(b"ignored", to))
            put(4, wrap(b"x"), bytes_=5)
            said("five bytes", go)
            print("status", [ring.read("I", 512 * at + status) for at in range(8)])
            put(4, wrap(b"x"), bytes_=2000)
            said("too many", go)
            print("status", [ring.read("I", 512 * at + status) for at in range(8)], look.poll(0)[0][1])
            if version == 2:
                put(4, wrap(b"x"))
                ring.write("I", 4 * 512, 100)
                said("of another size", go)
                ring.write("I", 4 * 512, 0)
            if kind == socket.SOCK_DGRAM:
                put(4, b"to nobody")
                said("without an address", lambda: one.send(b""))
            put(4, wrap(b"goes on"))
            said("goes on", go)
            ring.close(), one.close()
            one = one_of(version)
            one.setsockopt(SOL_PACKET, LOSS, 1)
            one.setsockopt(SOL_PACKET, HAS_OFFSETS, 1)
            one.setsockopt(SOL_PACKET, TX, request(1, PAGE, 512, None, *more))
            ring = Ring(one, PAGE)
            put(0, frame(FOREIGN, sender=own(), data=b"at its place"), 100)
            ring.write("H", mac, 100)
            put(1, frame(FOREIGN, sender=own(), data=b"nowhere"))
            ring.write("H", 512 + mac, 10)
            put(2, frame(FOREIGN, sender=own(), data=b"beyond"))
            ring.write("H", 1024 + mac, 511)
            put(3, frame(FOREIGN, sender=own(), data=b"at another"), 120)
            ring.write("H", 1536 + mac, 120)
            said("what can go", lambda: one.send(b""))
            print("status", [ring.read("I", 512 * at + status) for at in range(8)])
            ring.close(), one.close()
    for data, who in left(tap):
        if who[1] == ETH_P_OURS and who[2] == socket.PACKET_OUTGOING:
            print(named(data), named(who), flush=True)
    one = one_of(1, TX, request(1, PAGE, 512), protocol=ETH_P_OURS)
    ring = Ring(one, PAGE)
    asks = ALL + own() + struct.pack("!HHH", ETH_P_OTHER, 1, 0)
    ctypes.memmove(ring.at + 32, asks, len(asks))
    ring.write("I", 4, len(asks)), ring.write("I", 0, 1)
    said("asks", lambda: one.send(b""))
    said("is answered", lambda: one.recv(100))
    unbound = one_of(1, TX, request(1, PAGE, 512), interface=None, protocol=0)
    said("of no interface", lambda: unbound.send(b""))


def tags():
    """A frame with a tag of a VLAN is heard without it."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    kept = [frame(own(), 0x8100, TAGGED), frame(own(), 0x88A8, TAGGED), frame(own(), 0x8100, b"\x60\0" + TAGGED[2:]), frame(own(), 0x8100, b"\0\1")]
    for what, kind, protocol in (("all", socket.SOCK_RAW, ETH_P_ALL), ("all cooked", socket.SOCK_DGRAM, ETH_P_ALL), ("ours", socket.SOCK_RAW, ETH_P_OURS),
                                 ("tagged", socket.SOCK_RAW, 0x8100), ("ours cooked", socket.SOCK_DGRAM, ETH_P_OURS)):
        talks, one = packet(), packet(kind, protocol)
        one.setsockopt(SOL_PACKET, AUXDATA, 1)
        ask(talks, kept)
        all_sent(talks)
        for data, control, _, who in left(one, lambda: one.recvmsg(2000, 200)):
            if who[2] != socket.PACKET_OUTGOING and who[1] not in (0x800, 0x806, 0x86DD):
                status, length, captured, _, net, tag, of = struct.unpack("IIIHHHH", control[0][2])
                print(f"{what}: {named(data)} {named(who)} {status & ~CHANCE} {length} {captured} {net} {tag:x} {of:x}", flush=True)
        talks.close(), one.close()


def local():
    """Rings of lo: what IP sends there, and what a send ring does."""
    takes = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    takes.bind(("127.0.0.1", 7000))
    takes.settimeout(5)
    sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sends.bind(("127.0.0.1", 7001))
    for version in (0, 1, 2):
        more = (20, 0, 0) if version == 2 else ()
        one = one_of(version, RX, request(4, PAGE, 2048, None, *more), "lo", 0x800)
        one.setsockopt(SOL_PACKET, TX, request(2, PAGE, 2048, None, *((0, 0, 0) if more else ())))
        ring = Ring(one, 6 * PAGE)
        sends.sendto(b"hello", ("127.0.0.1", 7000))
        said("came", lambda: takes.recv(100))
        said("readable", lambda: wait(one))
        at = ring.read("I", 16) if version == 2 else 0
        status, length, captured, mac, _ = FIELDS[version]
        frame_, bytes_ = at + ring.read("H", at + mac), ring.read("I", at + captured)
        data = bytes(ring.bytes[frame_:frame_ + bytes_])
        print(version, ring.read("I", at + length), bytes_, data[:14], data[-5:], struct.unpack_from("=HHiHBB6s", ring.bytes, at + HEADERS[version]))
        where = 4 * PAGE
        ctypes.memmove(ring.at + where + HEADERS[version], data, len(data))
        ring.write("I", where + length, len(data)), ring.write("I", where + status, 1)
        said("sent again", lambda: one.send(b""))
        takes.settimeout(0.3)
        said("came again", lambda: takes.recv(100))
        takes.settimeout(5)
        said("its place", lambda: ring.read("I", where + status))
        ready = select.epoll()
        ready.register(one, select.EPOLLIN)
        said("with epoll", lambda: [events for _, events in ready.poll(5)])
        for block_ in range(4):
            for frame_ in range(2):
                ring.write("I", block_ * PAGE + (8 if version == 2 else frame_ * 2048), 0)
        said("nothing", lambda: ready.poll(0))
        sends.sendto(b"again", ("127.0.0.1", 7000))
        said("once more", lambda: [events for _, events in ready.poll(5)])
        takes.recv(100)
        frames_, lost = struct.unpack("2I", one.getsockopt(SOL_PACKET, STATISTICS, 8))
        print("statistics", frames_, lost)
        one.close()
        said("its memory is there", lambda: ring.read("I", where + length) == len(data))
        ring.close(), ready.close()


FANOUT, ROLLOVER_STATISTICS, FANOUT_DATA, BYPASS, TIMESTAMP, VNET, VNET_BYTES = 18, 21, 22, 20, 17, 15, 24


def heard(who):
    """How many frames each has."""
    counts = []
    for one in who:
        counts.append(sum(who[2] != socket.PACKET_OUTGOING for _, who in left(one)))
    return counts


def groups():
    """PACKET_FANOUT: who may be in a group, and who of it hears."""
    # One processor: some groups go by it.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    takes = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(8)]
    for at, one in enumerate(takes):
        one.bind(("127.0.0.1", 7000 + at))
    sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sends.bind(("127.0.0.1", 8000))

    def send(times=1, length=5):
        for _ in range(times):
            for at in range(8):
                sends.sendto(b"x" * length, ("127.0.0.1", 7000 + at))

    def member(id_, kind, flags=0, most=None, protocol=0x800, kind_=socket.SOCK_RAW):
        one = packet(kind_, protocol, "lo")
        one.setsockopt(SOL_PACKET, FANOUT, struct.pack("=HBB", id_, kind, flags) + (b"" if most is None else struct.pack("I", most)))
        return one

    for name in (BYPASS, TIMESTAMP):
        one = packet(protocol=0x800, interface="lo")
        for value in (b"\1", struct.pack("i", 3), struct.pack("i", 0), struct.pack("i", -1)):
            said(f"set {name} {value}", lambda: one.setsockopt(SOL_PACKET, name, value))
            said(f"get {name}", lambda: one.getsockopt(SOL_PACKET, name))
    for kind in range(-1, 10):
        said(f"kind {kind}", lambda: member(1, kind & 0xff) and 0)
    for flags in (0x10, 0x20, 0x40, 0x80, 0x01):
        said(f"flags {flags}", lambda: hex(member(0, 0, flags).getsockopt(SOL_PACKET, FANOUT) & 0xffff0000))
    said("rollover of rollover", lambda: member(1, 3, 0x10) and 0)
    said("a number of its own, and another", lambda: member(5, 0, 0x20) and 0)
    for length in (0, 3, 5, 7, 9):
        said(f"{length} bytes", lambda: packet(protocol=0x800, interface="lo").setsockopt(SOL_PACKET, FANOUT, b"\1\0\0\0\0\0\0\0\0"[:length]))
    said("that hears nothing", lambda: member(1, 0, protocol=0) and 0)
    said("too many", lambda: member(1, 0, most=(1 << 16) + 1) and 0)
    first = member(1, 1, most=2)
    said("of no group", lambda: packet(protocol=0x800, interface="lo").getsockopt(SOL_PACKET, FANOUT))
    said("of a group", lambda: first.getsockopt(SOL_PACKET, FANOUT))
    said("again", lambda: first.setsockopt(SOL_PACKET, FANOUT, struct.pack("=HBB", 1, 1, 0)))
    said("then bind", lambda: first.bind(("lo", 0x800)))
    for what, words in (("another kind", (1, 0)), ("other flags", (1, 1, 0x10)), ("another bound", (1, 1, 0, 3)), ("another protocol", (1, 1, 0, None, 0x806))):
        said(what, lambda: member(*words) and 0)
    second = member(1, 1, kind_=socket.SOCK_DGRAM)
    said("a third", lambda: member(1, 1) and 0)
    send()
    said("in turn", lambda: heard((first, second)))
    second.close()
    send()
    said("alone", lambda: heard((first,)))
    first.close()
    said("gone", lambda: member(1, 0).getsockopt(SOL_PACKET, FANOUT))
    pair = [member(2, 0), member(2, 0)]
    send(3)
    count = heard(pair)
    print("by flow", sum(count), [one % 3 for one in count])
    for kind in (2, 5):
        pair = [member(10 + kind, kind), member(10 + kind, kind)]
        send()
        count = heard(pair)
        print(kind, sum(count), max(count))
    pair = [member(4, 4), member(4, 4)]
    send(10)
    count = heard(pair)
    print("by chance", sum(count), min(count) > 10)
    pair = [member(6, 6), member(6, 6), member(6, 6)]
    said("without a program", lambda: pair[0].setsockopt(SOL_PACKET, FANOUT_DATA, b"x" * 15))
    send()
    said("by no program", lambda: heard(pair))
    # The lowest bit of the port that it goes to: ldh [22]; and #1; ret a, from the network header on.
    program = ctypes.create_string_buffer(struct.pack("HBBI" * 3, 0x28, 0, 0, 22, 0x54, 0, 0, 1, 0x16, 0, 0, 0))
    said("a program", lambda: pair[1].setsockopt(SOL_PACKET, FANOUT_DATA, struct.pack("HxxxxxxQ", 3, ctypes.addressof(program))))
    send()
    said("by it", lambda: heard(pair))
    said("a program for another kind", lambda: member(20, 0).setsockopt(SOL_PACKET, FANOUT_DATA, struct.pack("HxxxxxxQ", 3, ctypes.addressof(program))))
    said("for none", lambda: packet(protocol=0x800, interface="lo").setsockopt(SOL_PACKET, FANOUT_DATA, struct.pack("HxxxxxxQ", 3, ctypes.addressof(program))))
    small = [member(3, 3), member(3, 3)]
    small[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    send(2, 500)
    statistics = struct.unpack("3Q", small[0].getsockopt(SOL_PACKET, ROLLOVER_STATISTICS, 24))
    count = heard(small)
    print("by room", sum(count), count[1] > 0, statistics[0] > 0, statistics[2])
    said("statistics of another", lambda: member(21, 0).getsockopt(SOL_PACKET, ROLLOVER_STATISTICS, 24))
    deaf = member(22, 0, 0x40, protocol=ETH_P_ALL)
    send()
    deaf.setblocking(False)
    said("what goes out", lambda: deaf.recvfrom(2000)[1][2])


def offloads():
    """PACKET_VNET_HDR: what is said of each frame, and what is believed of one that is sent."""
    there = peer()
    NAMES.update({own(): b"<own>", there: b"<peer>"})
    said("cooked", lambda: packet(socket.SOCK_DGRAM).setsockopt(SOL_PACKET, VNET, 1))
    one = packet()
    for name in (VNET, VNET_BYTES):
        for value in (b"\1", struct.pack("i", 1), struct.pack("q", 1), struct.pack("i", 10), struct.pack("i", 12), struct.pack("i", -1), struct.pack("i", 0)):
            said(f"set {name} {value}", lambda: one.setsockopt(SOL_PACKET, name, value))
            said("gives", lambda: (one.getsockopt(SOL_PACKET, VNET), one.getsockopt(SOL_PACKET, VNET_BYTES)))
    for bytes_ in (10, 12):
        one = packet()
        one.setsockopt(SOL_PACKET, VNET_BYTES, bytes_)
        talks = packet()
        ask(talks, [frame(own()), frame(own(), data=b"second"), frame(own(), data=b"third")])
        all_sent(talks)
        said("in too little", lambda: one.recv(5))
        said("the next", lambda: one.recv(2000))
        said("cut", lambda: one.recv(bytes_ + 12))
        said("the last", lambda: one.recv(2000))
        plain = b"\0" * bytes_
        out = frame(FOREIGN, sender=own())
        said("nothing", lambda: one.send(plain[1:]))
        said("a header alone", lambda: one.send(plain))
        said("plain", lambda: one.send(plain + out))
        head = lambda protocol, length: FOREIGN + own() + b"\x08\0" + struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + length, 0, 0, 9, protocol, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
        large = head(6, 3020) + struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 9, 0, 0) + b"x" * 3000
        datagrams = head(17, 3008) + struct.pack("!HHHH", 1, 2, 3008, 0) + b"x" * 3000
        for what, words in (("headers beyond the end", (0, 0, 20, 0, 0, 0)), ("a checksum beyond it", (1, 0, 0, 0, 40, 0)), ("a kind that is none", (0, 9, 0, 100, 0, 0)),
                            ("pieces of nothing", (0, 1, 0, 0, 0, 0)), ("no TCP", (0, 1, 0, 100, 0, 0))):
            said(what, lambda: one.send(struct.pack("=BBHHHH", *words).ljust(bytes_, b"\0") + out))
        for what, words in (("too long", (0, 0, 0, 0, 0, 0)), ("in pieces", (1, 1, 54, 1000, 34, 16)), ("with another checksum", (1, 1, 54, 1000, 34, 6)), ("of IPv6", (1, 4, 54, 1000, 34, 16)),
                            ("of TCP without one", (0, 1, 54, 1000, 0, 0)), ("all at once", (0, 1, 54, 0xffff, 0, 0))):
            said(f"large, {what}", lambda: one.sendto(struct.pack("=BBHHHH", *words).ljust(bytes_, b"\0") + large, ("eth0", 0x800)))
        for what, words in (("in pieces", (1, 5, 42, 1000, 34, 6)), ("in too many", (1, 5, 42, 10, 34, 6)), ("without a checksum", (0, 5, 42, 1000, 0, 0)), ("with another", (1, 5, 42, 1000, 34, 4))):
            said(f"datagrams, {what}", lambda: one.sendto(struct.pack("=BBHHHH", *words).ljust(bytes_, b"\0") + datagrams, ("eth0", 0x800)))
        for version in (0, 1, 2):
            more = (100, 0, 0) if version == 2 else ()
            one = one_of(version)
            one.setsockopt(SOL_PACKET, VNET_BYTES, bytes_)
            one.setsockopt(SOL_PACKET, RX, request(1, PAGE, 2048, None, *more))
            one.setsockopt(SOL_PACKET, TX, request(1, PAGE, 2048, None, *((0, 0, 0) if more else ())))
            said("with a ring", lambda: one.setsockopt(SOL_PACKET, VNET, 0))
            ring, talks = Ring(one, 2 * PAGE), packet()
            ask(talks, [frame(own())])
            all_sent(talks)
            wait(one)
            at = ring.read("I", 16) if version == 2 else 0
            mac = ring.read("H", at + FIELDS[version][3])
            print(version, told(ring, at, version), bytes(ring.bytes[at + mac - bytes_:at + mac]))
            status, length = FIELDS[version][:2]
            for where, header in enumerate((plain, struct.pack("=BBHHHH", 0, 9, 0, 100, 0, 0).ljust(bytes_, b"\0"))):
                where = PAGE + where * 2048
                data = header + out
                ctypes.memmove(ring.at + where + HEADERS[version], data, len(data))
                ring.write("I", where + length, len(data)), ring.write("I", where + status, 1)
                said("sends", lambda: one.send(b""))
                said("its place", lambda: ring.read("I", where + status))
            one.close(), ring.close(), talks.close()


CASES = {"sizes": sizes, "maps": maps, "frames": frames, "cuts": cuts, "blocks": blocks, "transmits": transmits, "tags": tags, "local": local, "groups": groups, "offloads": offloads}
