"""AF_NETLINK as a family: names, binding, groups, dumps, what is cut, time limits, errors and options. What each call comes to."""

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import time

from answers import coded, said

libc = ctypes.CDLL(None, use_errno=True)
libc.setsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
libc.getsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.bind.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
libc.connect.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
ROUTE, DIAG = 0, 4
SOL_NETLINK = 270
RTM_GETLINK, RTM_GETADDR, RTM_NEWLINK, RTM_GETROUTE, RTM_GETRULE = 18, 22, 16, 26, 34
NLM_F_REQUEST, NLM_F_ACK, NLM_F_ROOT, NLM_F_DUMP = 1, 4, 0x100, 0x300
ADD, DROP, PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, LISTEN_ALL, LIST, CAP_ACK, EXT_ACK, STRICT = 1, 2, 3, 4, 5, 8, 9, 10, 11, 12
ME = os.getpid()


def opened(protocol=ROUTE, kind=socket.SOCK_RAW, bound=None):
    s = socket.socket(socket.AF_NETLINK, kind, protocol)
    if bound is not None:
        s.bind(bound)
    return s


def name(s):
    pid, groups = s.getsockname()
    return ("me" if pid == ME else "0" if pid == 0 else "another"), groups


def request(kind, flags=0, body=b"\0" * 16, sequence=7, pid=0, length=None):
    return struct.pack("=IHHII", 16 + len(body) if length is None else length, kind, NLM_F_REQUEST | flags, sequence, pid) + body


def messages(data):
    """Kinds of messages, and errors with their errno."""
    out = []
    while len(data) >= 16:
        length, kind, flags, sequence, pid = struct.unpack("=IHHII", data[:16])
        error = f" {errno.errorcode.get(-struct.unpack('=i', data[16:20])[0], 0)}" if kind == 2 else ""
        multi = " multi" if flags & 2 else ""
        out.append(f"{kind}{multi}{error} of {sequence} to {'me' if pid == ME else 'another'}")
        if length < 16:
            break
        data = data[(length + 3) & ~3 :]
    return out


def answers(s, at_most=100):
    """All messages up to the end of a dump, an acknowledgment or an error."""
    out = []
    s.settimeout(5)
    while len(out) < at_most:
        try:
            data = s.recv(1 << 16)
        except OSError as error:
            return [*out, errno.errorcode.get(error.errno, "TIMEOUT")]
        found = messages(data)
        out += found
        if not found or found[-1].split()[0] in ("2", "3"):
            return out
    return out


def sockets():
    for kind in (1, 2, 3, 4, 5):
        for protocol in (ROUTE, DIAG, 32, 33, 1 << 20):
            print("socket", kind, protocol, said(lambda: opened(protocol, kind).close() or "made"))


def names():
    for protocol in (ROUTE, DIAG):
        a, b = opened(protocol), opened(protocol)
        print("fresh", name(a), "peer", said(a.getpeername))
        print("bind", said(lambda: a.bind((0, 0))), name(a), said(lambda: b.bind((0, 0))), name(b))
        c = opened(protocol)
        print("taken", said(lambda: c.bind((a.getsockname()[0], 0))), name(c))
        print("own number", said(lambda: c.bind((77777, 0))), c.getsockname())
        print("second bind", said(lambda: c.bind((77777, 0))), said(lambda: c.bind((0, 0))), said(lambda: c.bind((77778, 0))), c.getsockname())
        d = opened(protocol)
        print("send binds", said(lambda: d.send(request(RTM_GETLINK, NLM_F_DUMP))), name(d)[0] != "0")
        e = opened(protocol)
        print("connect", said(lambda: e.connect((0, 0))), e.getpeername(), name(e)[0] != "0")
        print("connect to somebody", said(lambda: e.connect((77777, 0))), e.getpeername())
        print("connect to a group", said(lambda: e.connect((0, 1))), e.getpeername())
        unspecified = struct.pack("=HHII", 0, 0, 0, 0)
        print("dissolve", coded(libc.connect(e.fileno(), unspecified, 12)), e.getpeername())
        for length in (0, 1, 2, 11, 12, 13, 16, 128, 129):
            f = opened(protocol)
            packed = struct.pack("=HHII", socket.AF_NETLINK, 0, 0, 0) + bytes(200)
            print("length", length, coded(libc.bind(f.fileno(), packed, length)), coded(libc.connect(f.fileno(), packed, length)))
        wrong = struct.pack("=HHII", socket.AF_INET, 0, 0, 0)
        print("family", coded(libc.bind(f.fileno(), wrong, 12)), coded(libc.connect(f.fileno(), wrong, 12)))
        for what in (a, b, c, d, e, f):
            what.close()
        again = opened(protocol, bound=(0, 0))
        print("the number again", name(again))
        again.close()


def groups():
    s = opened(bound=(0, 0))

    def listed():
        room = ctypes.create_string_buffer(64)
        length = ctypes.c_int(64)
        result = coded(libc.getsockopt(s.fileno(), SOL_NETLINK, LIST, room, ctypes.byref(length)))
        return result, length.value, bytes(room[: min(length.value, 64)]).rstrip(b"\0").hex()

    print("none", s.getsockname()[1], listed())
    for group in (1, 5, 31, 32, 33, 36, 38, 39, 40, 100, 0, -1, 1 << 20):
        print("join", group, said(lambda: s.setsockopt(SOL_NETLINK, ADD, group)), s.getsockname()[1], listed()[2])
    for group in (5, 5, 33, 0, 200):
        print("leave", group, said(lambda: s.setsockopt(SOL_NETLINK, DROP, group)), s.getsockname()[1], listed()[2])
    print("bind to groups", said(lambda: s.bind((0, 0x11))), s.getsockname()[1], listed()[2])
    print("bind to none", said(lambda: s.bind((0, 0))), s.getsockname()[1], listed()[2])
    s.bind((s.getsockname()[0], 0x80000011))
    for length in (-1, 0, 1, 3, 4, 5, 7, 8, 12):
        room = ctypes.create_string_buffer(b"\xee" * 16, 16)
        told = ctypes.c_int(length)
        print("list", length, coded(libc.getsockopt(s.fileno(), SOL_NETLINK, LIST, room, ctypes.byref(told))), told.value, room.raw.hex())
    told = ctypes.c_int(0)
    print("how long", coded(libc.getsockopt(s.fileno(), SOL_NETLINK, LIST, None, ctypes.byref(told))), told.value)
    s.close()


def options():
    s = opened()
    for option in range(0, 15):
        for length in (-1, 0, 3, 4, 5, 8):
            value = ctypes.c_int64(1)
            told = ctypes.c_int(length)
            room = ctypes.create_string_buffer(64)
            result = coded(libc.setsockopt(s.fileno(), SOL_NETLINK, option, ctypes.byref(value), length & 0xFFFFFFFF))
            got = coded(libc.getsockopt(s.fileno(), SOL_NETLINK, option, room, ctypes.byref(told)))
            print("option", option, length, result, got, told.value, room[:4].hex() if got == 0 else "")
        s.setsockopt(SOL_NETLINK, option, 0) if option in (PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, CAP_ACK, EXT_ACK, STRICT) else None
    for level in (0, 6, 41, 269, 271):
        print("level", level, said(lambda: s.getsockopt(level, 1)), said(lambda: s.setsockopt(level, 1, 1)))
    for option in (
        socket.SO_TYPE,
        socket.SO_DOMAIN,
        socket.SO_PROTOCOL,
        socket.SO_ACCEPTCONN,
        socket.SO_ERROR,
        socket.SO_REUSEADDR,
        socket.SO_PASSCRED,
        socket.SO_RCVLOWAT,
        socket.SO_PRIORITY,
        socket.SO_KEEPALIVE,
        socket.SO_BROADCAST,
    ):
        print(
            "socket option",
            option,
            said(lambda: s.getsockopt(1, option)),
            said(lambda: s.setsockopt(1, option, 1)),
            said(lambda: s.getsockopt(1, option)),
        )
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        print("buffer", said(lambda: s.getsockopt(1, option)), said(lambda: s.setsockopt(1, option, 50000)), said(lambda: s.getsockopt(1, option)))
    s.close()


# RTM_GET* with the bytes of what stands in front of the attributes.
TABLES = {"link": (18, 16), "address": (22, 8), "route": (26, 12), "neighbour": (30, 12), "rule": (34, 12), "queue": (38, 20), "namespace": (90, 4)}


def packets(s):
    """How a dump is cut into packets, by family. Those of multicast routing (128, 129) have something of their own in some tables."""
    s.settimeout(5)
    for name, (kind, size) in TABLES.items():
        for family in (0, 1, 2, 5, 10, 17, 128, 129, 200):
            if name == "link" and family in (128, 129):
                continue
            s.send(request(kind, NLM_F_DUMP, bytes([family]) + bytes(size - 1)))
            seen = []
            while not seen or "3" not in seen[-1].split():
                data, kinds = s.recv(1 << 16), []
                while len(data) >= 16:
                    length, one = struct.unpack("=IH", data[:6])
                    kinds.append(str(one))
                    data = data[length + 3 & ~3 :]
                seen.append(" ".join(kinds))
            print("packets", name, family, seen)


def dumps():
    s = opened(bound=(0, 0))
    for kind in (RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE):
        s.send(request(kind, NLM_F_DUMP, b"\0" * (16 if kind == RTM_GETLINK else 12)))
        print("dump", kind, answers(s))
    packets(s)
    one = request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0))
    s.send(one)
    s.settimeout(5)
    size = len(s.recv(1 << 16, socket.MSG_PEEK | socket.MSG_TRUNC))
    whole = len(s.recv(1 << 16, socket.MSG_PEEK))
    print("peeked", size == whole > 100, s.recv(0, socket.MSG_PEEK), len(s.recv(20, socket.MSG_PEEK)))
    data, _, flags, address = s.recvmsg(20)
    print("cut", len(data), flags, address)
    data, _, flags, address = s.recvmsg(1 << 16)
    print("after it", messages(data), flags)
    s.send(one)
    print("one", answers(s))
    s.send(request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, 99, 0, 0)))
    print("none such", answers(s))
    s.close()


def running():
    """What is asked while a dump is under way, and in which order the answers come."""
    link, address, route, rule = (
        (kind, bytes(size)) for kind, size in ((RTM_GETLINK, 16), (RTM_GETADDR, 12), (RTM_GETROUTE, 12), (RTM_GETRULE, 12))
    )
    for first, second in ((link, link), (address, address), (route, route), (rule, rule), (link, rule), (rule, link), (address, link)):
        s = opened(bound=(0, 0))
        for sequence, (kind, body) in enumerate((first, second), 1):
            s.send(request(kind, NLM_F_DUMP, body, sequence))
        print("running", first[0], second[0], everything(s))
        s.close()
    s = opened(bound=(0, 0))
    s.send(request(RTM_GETLINK, NLM_F_DUMP, link[1], 1) + request(RTM_GETADDR, NLM_F_DUMP, address[1], 2))
    print("running in one packet", everything(s))
    s.send(request(RTM_GETLINK, NLM_F_DUMP, link[1], 3))
    s.send(request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, 99, 0, 0), 4))
    print("running and none such", everything(s))
    s.send(request(RTM_GETLINK, NLM_F_DUMP, link[1], 5))
    s.settimeout(5)
    looks = [messages(s.recv(1 << 16, socket.MSG_PEEK))[0] for _ in range(3)]
    print("running and looked at", looks, everything(s))
    s.close()


def everything(s):
    """All messages, until nothing comes any more."""
    out = []
    s.settimeout(0.3)
    while True:
        try:
            out += messages(s.recv(1 << 16))
        except TimeoutError:
            return out


def wrong():
    s = opened(bound=(0, 0))
    for what, data in (
        ("nothing", b""),
        ("a byte", b"x"),
        ("no header", b"\0" * 15),
        ("short length", request(RTM_GETLINK, length=15)),
        ("long length", request(RTM_GETLINK, length=100)),
        ("no request", struct.pack("=IHHII", 32, RTM_GETLINK, NLM_F_ACK, 7, 0) + b"\0" * 16),
        ("unknown", request(999, NLM_F_ACK)),
        ("a noop", request(1, NLM_F_ACK)),
        ("an error", request(2, NLM_F_ACK)),
        ("done", request(3, NLM_F_ACK)),
        ("two", request(999, 0) + request(998, 0)),
        ("no body", request(RTM_GETLINK, NLM_F_ACK, b"")),
        ("dump without body", request(RTM_GETLINK, NLM_F_DUMP, b"")),
        ("generic body", request(RTM_GETADDR, NLM_F_DUMP, b"\0")),
    ):
        sent = said(lambda: s.send(data))
        print(
            what,
            sent,
            "then",
            answers(s) if select.select([s], [], [], 0.1)[0] else "nothing",
            # On a stack whose answers come from another process the second may be under way yet.
            answers(s, 1) if select.select([s], [], [], 2 if what == "two" else 0)[0] else "",
        )
    for flag in (socket.MSG_OOB, socket.MSG_MORE, socket.MSG_DONTROUTE, socket.MSG_CONFIRM, socket.MSG_EOR):
        print(
            "flag",
            flag,
            said(lambda: s.send(request(RTM_GETLINK, NLM_F_DUMP), flag)),
            len(answers(s)) > 1 if select.select([s], [], [], 0.1)[0] else "nothing",
        )
    s.settimeout(None)
    print(
        "received by flag",
        said(lambda: s.recv(10, socket.MSG_OOB)),
        said(lambda: s.recv(10, socket.MSG_DONTWAIT)),
        said(lambda: s.recv(10, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)),
    )
    print(
        "calls", said(s.listen), said(s.accept), said(lambda: s.shutdown(2)), said(lambda: socket.socketpair(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    )
    for request_number in (0x541B, 0x5411, 0x8906, 0x8905, 0x8910):
        print("ioctl", hex(request_number), said(lambda: fcntl.ioctl(s, request_number, bytes(64)) and "answered"))
    s.close()


def acknowledgments():
    """NETLINK_CAP_ACK and NETLINK_EXT_ACK: how long an error is, and what it says."""
    for options in ((), (CAP_ACK,), (EXT_ACK,), (CAP_ACK, EXT_ACK)):
        s = opened(bound=(0, 0))
        for option in options:
            s.setsockopt(SOL_NETLINK, option, 1)
        for what, data in (
            ("good", request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0))),
            ("unknown", request(999, NLM_F_ACK)),
            ("no such", request(RTM_GETLINK, 0, struct.pack("=BBHiII", 0, 0, 0, 99, 0, 0))),
        ):
            # With NETLINK_EXT_ACK weft says in its own words what it does not know.
            if what == "unknown" and EXT_ACK in options:
                continue
            s.send(data)
            s.settimeout(5)
            got = s.recv(1 << 16)
            if struct.unpack("=H", got[4:6])[0] != 2:
                got = s.recv(1 << 16)
            length, kind, flags, sequence, _ = struct.unpack("=IHHII", got[:16])
            print("acknowledged", options, what, kind, hex(flags), length, len(got), -struct.unpack("=i", got[16:20])[0], sequence)
        s.close()


def to_users():
    """From one socket of the program's to another."""
    a, b = opened(bound=(0, 0)), opened(bound=(0, 0))
    target = b.getsockname()[0]
    print("to another", said(lambda: a.sendto(b"x" * 20, (target, 0))), end=" ")
    data, sender = b.recvfrom(100, socket.MSG_DONTWAIT)
    print(data, "of its number" if sender == a.getsockname() else sender)
    print("to nobody", said(lambda: a.sendto(b"x" * 20, (66666, 0))))
    print("to a group", said(lambda: a.sendto(b"x" * 20, (0, 1))))
    print("to itself", said(lambda: a.sendto(b"x" * 20, (a.getsockname()[0], 0))), said(lambda: a.recv(100, socket.MSG_DONTWAIT)))
    a.close(), b.close()


def told(control):
    """The group, and whether the credentials are this process's or the kernel's."""
    mine = struct.pack("=iII", ME, os.getuid(), os.getgid())
    names = {mine: "mine", bytes(12): "the kernel's"}
    return [(level, kind, names.get(data, data) if kind == 2 else struct.unpack("=I", data)[0]) for level, kind, data in control]


def news():
    """In whose name the kernel tells a group, and what a program sends to a number and a group at once."""
    a, b, c = opened(bound=(0, 0)), opened(bound=(0, 0x11)), opened(bound=(0, 0x111))
    for what in (b, c):
        what.setsockopt(SOL_NETLINK, PKTINFO, 1)
        what.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    for kind in (20, 21):
        a.send(request(kind, 0, struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 99, 0, 1]))))
        for what in (b, c):
            data, control, flags, name = what.recvmsg(1 << 16, 256)
            print("news", struct.unpack("=H", data[4:6])[0], told(control), flags, name)
    number = c.getsockname()[0]
    for group in (0, 1, 1 << 4, 1 << 8):
        for receivers in (number, 0):
            a.sendto(request(999), (receivers, group))
            for who, what in (("b", b), ("c", c)):
                got = said(lambda: what.recvmsg(1 << 16, 256, socket.MSG_DONTWAIT))
                print("to", "c" if receivers else "the kernel", group, who, got if isinstance(got, str) else (told(got[1]), got[3][0] == a.getsockname()[0], got[3][1]))
    # Who has no room keeps nobody from hearing what is for his group.
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    filled = opened(bound=(0, 0))
    while said(lambda: filled.sendto(b"x" * 20, socket.MSG_DONTWAIT, (number, 0))) == 20:
        pass
    print("without room", said(lambda: a.sendto(request(999), socket.MSG_DONTWAIT, (number, 1))), said(lambda: len(b.recv(100, socket.MSG_DONTWAIT))))
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", 0, 50000))
    print("and a limit", said(lambda: a.sendto(request(999), (number, 1))), said(lambda: len(b.recv(100, socket.MSG_DONTWAIT))), said(lambda: b.recv(100, socket.MSG_DONTWAIT)))
    # The group hears it before the kernel does what is asked.
    a.sendto(request(20, 0, struct.pack("=BBBBi", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 99, 0, 2]))), (0, 1 << 4))
    for _ in range(2):
        data, control, _, name = b.recvmsg(1 << 16, 256)
        print("in order", struct.unpack("=H", data[4:6])[0], told(control), name[0] == a.getsockname()[0], name[1])
    for what in (a, b, c, filled):
        what.close()


def claimed():
    """Control messages of a send: credentials, and what a packet of netlink's does not take."""
    a, b = opened(bound=(0, 0)), opened(bound=(0, 0))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    mine = struct.pack("=iII", ME, os.getuid(), os.getgid())
    pipe = os.pipe()
    for what, control in (
        ("mine", [(1, 2, mine)]),
        ("short", [(1, 2, mine[:8])]),
        ("long", [(1, 2, mine + b"x")]),
        ("files", [(1, 1, struct.pack("=i", pipe[0]))]),
        ("a mark", [(1, 36, struct.pack("=i", 1))]),
        ("another level", [(41, 2, mine), (270, 3, bytes(4))]),
    ):
        for to in (b.getsockname()[0], 0):
            sent = said(lambda: a.sendmsg([request(RTM_GETLINK, 0, b"")], control, 0, (to, 0)))
            got = said(lambda: b.recvmsg(100, 100, socket.MSG_DONTWAIT))
            print("claimed", what, "to b" if to else "to the kernel", sent, got if isinstance(got, str) else told(got[1]))
    a.close(), b.close()


def beside():
    """What comes beside a packet: credentials, the group, and groups in the sender's name."""
    a, b, c = opened(bound=(0, 0)), opened(bound=(0, 0)), opened(bound=(0, 0))
    for option, level in ((socket.SO_PASSCRED, socket.SOL_SOCKET), (PKTINFO, SOL_NETLINK)):
        b.setsockopt(level, option, 1)
        a.sendto(b"x" * 20, (b.getsockname()[0], 0))
        b.send(request(RTM_GETLINK, NLM_F_ACK, struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0)))
        for _ in range(3):
            _, control, flags, _ = b.recvmsg(1 << 16, 256)
            print("beside", option, told(control), flags)
        for room in (0, 15, 16, 17, 28, 32):
            a.sendto(b"x" * 20, (b.getsockname()[0], 0))
            _, control, flags, _ = b.recvmsg(1 << 16, room)
            print("beside", option, "room", room, [(one[0], one[1], len(one[2])) for one in control], flags)
        b.setsockopt(level, option, 0)
    for what in (b, c):
        what.setsockopt(SOL_NETLINK, ADD, 9)
    print("to a group", a.sendto(request(999), (0, 1 << 8)), end=" ")
    for what in (a, b, c):
        got = said(lambda: what.recvfrom(1 << 16, socket.MSG_DONTWAIT))
        print(got if isinstance(got, str) else (len(got[0]), "of the kernel" if got[1][0] == 0 else "of a", got[1][1]), end=" ")
    print()
    for what in (a, b, c):
        what.close()


def stranger():
    """Whom one without rights may say to be."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(2001, 2002, 2003)
            os.setresuid(1001, 1002, 1003)
        s = opened(bound=(0, 0))
        pid, user, group = os.getpid(), os.getresuid(), os.getresgid()
        for what, credentials in (
            ("itself", (pid, user[0], group[0])),
            ("its effective ones", (pid, user[1], group[1])),
            ("its saved ones", (pid, user[2], group[2])),
            ("another process", (os.getppid(), user[0], group[0])),
            ("another user", (pid, user[0] + 7, group[0])),
            ("another group", (pid, user[0], group[0] + 7)),
        ):
            sent = said(lambda: s.sendmsg([request(RTM_GETLINK, 0, b"")], [(1, 2, struct.pack("=iII", *credentials))], 0, (0, 0)))
            print("stranger says", what, sent)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


def limits():
    s = opened(bound=(0, 0))
    for seconds, micros in ((0, 50000), (0, 1)):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", seconds, micros))
        before = time.monotonic()
        what = said(lambda: s.recv(100))
        print("limit of receives", what, time.monotonic() - before >= micros / 1e6, s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16).hex())
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", 1, 5))
    print("limit of sends", s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, 16).hex())
    print("poll", select.select([s], [s], [], 0)[0] == [], select.select([s], [s], [], 0)[1] == [s])
    s.close()


for part in (sockets, names, groups, options, dumps, running, wrong, acknowledgments, to_users, beside, news, claimed, stranger, limits):
    print("--", part.__name__)
    part()
