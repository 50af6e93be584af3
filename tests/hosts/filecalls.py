"""Calls about files, on sockets of every kind and on epolls: what each comes to. Whom a message tells that states somebody else; the order of events."""

import ctypes
import fcntl
import mmap
import os
import select
import socket
import stat
import struct

from answers import coded, said, side_by_side

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_long
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
PAGE = 4096
EMPTY_PATH = 0x1000
EXECVEAT = 322
SECONDS_MAX = 20
# Others, and root of a namespace without other users, may neither name a trusted attribute nor state somebody else: their lines say what root is told.
with open("/proc/self/uid_map") as users:
    IS_ROOT = os.geteuid() == 0 and users.read().split()[2] == str(2**32 - 1)
IOCTLS = {"FIGETBSZ": 2, "FICLONE": 0x40049409, "FIONREAD": 0x541B, "TCGETS": 0x5401, "SIOCATMARK": 0x8905, "one that nobody has": 0x12345678}
# Between those of interfaces; the numbers are nobody's. These two end in a descriptor.
OPENING = {"SIOCGSKNS": 0x894C, "SIOCUNIXFILE": 0x89E0}
AMONG_INTERFACES = OPENING | {hex(number): number for number in (0x8911, 0x8950, 0x8975, 0x89A8, 0x89C0, 0x89DF, 0x89E5)}
DEVICES = {"nothing": b"", "a device": b"lo"}
A_DEVICES_OWN = 0x89F0
FIOASYNC = 0x5452


def new(kind, _):
    return [socket.socket(kind)]


def listening(kind, host):
    return [socket.create_server((host, 0), family=kind)]


def connected(kind, host):
    listener = socket.create_server((host, 0), family=kind)
    a = socket.create_connection(listener.getsockname()[:2])
    return [a, listener.accept()[0], listener]


def datagrams(kind, host):
    a, b = socket.socket(kind, socket.SOCK_DGRAM), socket.socket(kind, socket.SOCK_DGRAM)
    a.bind((host, 0)), b.bind((host, 0))
    a.connect(b.getsockname()), b.connect(a.getsockname())
    return [a, b]


def netlink():
    return [socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)]


def epoll(*members):
    one = select.epoll()
    for member in members:
        one.register(member, select.EPOLLIN)
    return [one, *members]


STREAMS = {f"tcp{name} {make.__name__}": (make, *where) for name, where in FAMILIES.items() for make in (new, listening, connected)}
DATAGRAMS = {f"udp{name}": (datagrams, *where) for name, where in FAMILIES.items()}
UNIX = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packet": socket.SOCK_SEQPACKET}
PAIRS = {f"unix {name}": (socket.socketpair, socket.AF_UNIX, kind) for name, kind in UNIX.items()}
EPOLLS = {"epoll of nothing": (epoll,)} | {f"epoll of tcp{name}": (lambda *where: epoll(*connected(*where)), *where) for name, where in FAMILIES.items()}
KINDS = STREAMS | DATAGRAMS | PAIRS | {"netlink": (netlink,)} | EPOLLS


def looks(f):
    """What it is called, and its kind."""
    name, mode = os.readlink(f"/proc/self/fd/{f}").split(":")[0], os.fstat(f).st_mode
    return name, {stat.S_IFSOCK: "socket", 0: "nothing"}[stat.S_IFMT(mode)]


def owner(f):
    return said(lambda: os.fchown(f, os.getuid(), os.getgid()))


def sigio(f):
    answer = said(lambda: fcntl.ioctl(f, FIOASYNC, struct.pack("i", 1)) and 0)
    return answer, bool(fcntl.fcntl(f, fcntl.F_GETFL) & os.O_ASYNC)


def told(f):
    """The names of the lines of its fdinfo."""
    with open(f"/proc/self/fdinfo/{f}") as lines:
        return " ".join(dict.fromkeys(line.split(":")[0] for line in lines))


def executed(f):
    words = (ctypes.c_char_p * 2)(b"x", None)
    return coded(libc.syscall(ctypes.c_long(EXECVEAT), f, b"", words, (ctypes.c_char_p * 1)(None), EMPTY_PATH))


def asked(f, request):
    data = bytearray(64)
    return said(lambda: fcntl.ioctl(f, request, data)), struct.unpack_from("i", data)[0]


def asked_of(f, request, device):
    """Of an interface's request, which has a name where it begins."""
    answer = said(lambda: fcntl.ioctl(f, request, bytearray(device.ljust(64, b"\0"))))
    if request in OPENING.values() and isinstance(answer, int):
        os.close(answer)
        return "a descriptor"
    return answer


def mapped(f, rights, how):
    at = libc.mmap(None, ctypes.c_size_t(PAGE), rights, how, f, ctypes.c_long(0))
    if at < 0:
        return coded(at)
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(PAGE))
    return "mapped"


OF_ITS_OWNER = {
    "fchmod": lambda f: (said(lambda: os.fchmod(f, 0o777)), said(lambda: os.utime(f))),
    "O_NOATIME": lambda f: said(lambda: fcntl.fcntl(f, fcntl.F_SETFL, os.O_NOATIME)),
}
CALLS = {
    "looks": looks,
    "mode": lambda f: oct(os.fstat(f).st_mode),
    "lseek": lambda f: said(lambda: os.lseek(f, 0, os.SEEK_SET)),
    "fchown": owner,
    "F_NOTIFY": lambda f: said(lambda: fcntl.fcntl(f, fcntl.F_NOTIFY, 1)),
    "attributes": lambda f: tuple(os.listxattr(f)),
    "protocol": lambda f: said(lambda: os.getxattr(f, "system.sockprotoname").rstrip(b"\0").decode()),
    "trusted attribute": lambda f: said(lambda: os.setxattr(f, "trusted.x", b"1")) if IS_ROOT else "ENOTSUP",
    "fdinfo": told,
    "execveat": executed,
    **{f"ioctl {name}": (lambda f, number=number: asked(f, number)) for name, number in IOCTLS.items()},
    **{
        f"ioctl {name} of {what}": (lambda f, number=number, device=device: asked_of(f, number, device))
        for name, number in AMONG_INTERFACES.items()
        for what, device in DEVICES.items()
    },
    "ioctl of a device's own": lambda f: asked_of(f, A_DEVICES_OWN, b""),
    "ioctl FIOASYNC": sigio,
    "mmap to read": lambda f: mapped(f, mmap.PROT_READ, mmap.MAP_SHARED),
    "mmap to read, private": lambda f: mapped(f, mmap.PROT_READ, mmap.MAP_PRIVATE),
    "mmap to write": lambda f: mapped(f, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED),
    "mmap to write, private": lambda f: mapped(f, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE),
}


def stated(kind, uid, gid):
    """The users that a message tells whose sender states these."""
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", os.getpid(), uid, gid))])
    (_, _, data), *_ = b.recvmsg(9, 99)[1]
    pid, *users = struct.unpack("3i", data)
    return pid == os.getpid(), *users


def states():
    """By root, who may state anybody, and by one who is three."""
    for name, kind in UNIX.items():
        for uid, gid in ((0, 0), (1, 0), (0, 5), (7, 7)):
            print("unix", name, "root states", uid, gid, *(stated(kind, uid, gid) if IS_ROOT else (True, uid, gid)))
    if IS_ROOT:
        os.setresgid(2001, 2002, 2003)
        os.setresuid(1001, 1002, 1003)
    for name, kind in UNIX.items():
        for uid, gid in ((1001, 2001), (1002, 2002), (1003, 2003)):
            print("unix", name, "states", uid, gid, *(stated(kind, uid, gid) if IS_ROOT else (True, uid, gid)))
        print("unix", name, "states another", said(lambda: stated(kind, 1004, 2001)) if IS_ROOT else "EPERM")


def ordered(family, room):
    """The events of an epoll with sockets of the stack and descriptors of the kernel's, in the order that they are told in."""
    a, b, *kept = connected(*FAMILIES[family])
    c, d = datagrams(*FAMILIES[family])
    e, f = socket.socketpair()
    event, (out, into) = os.eventfd(0), os.pipe()
    members = {event: "event", out: "pipe", a.fileno(): "tcp", c.fileno(): "udp", e.fileno(): "unix"}
    one = select.epoll()
    for member in members:
        one.register(member, select.EPOLLIN)
    ready = {
        a.fileno(): lambda: b.send(b"x"),
        out: lambda: os.write(into, b"x"),
        c.fileno(): lambda: d.send(b"x"),
        event: lambda: os.eventfd_write(event, 1),
        e.fileno(): lambda: f.send(b"x"),
    }
    for member, makes_ready in ready.items():
        makes_ready()
        select.select([member], [], [], SECONDS_MAX)
    events = [" ".join(members[number] for number, _ in one.poll(SECONDS_MAX, room)) for _ in range(len(members))]
    os.close(event), os.close(out), os.close(into)
    return ", ".join(events)


side_by_side(states)
for kind, (make, *words) in KINDS.items():
    files = make(*words)
    # The inode of all epolls is root's on Linux.
    for name, call in CALLS.items() if kind in EPOLLS else {**OF_ITS_OWNER, **CALLS}.items():
        answer = call(files[0].fileno())
        print(kind, name, *(answer if isinstance(answer, tuple) else (answer,)))
for family in FAMILIES:
    for room in (9, 2, 1):
        print("order", family, room, ordered(family, room))
