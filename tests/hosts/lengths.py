"""setsockopt and getsockopt of every number of every level, with every length, on every kind of socket: what each comes to."""

import ctypes
import socket

from answers import coded, runs

libc = ctypes.CDLL(None, use_errno=True)
# As they are: a negative length, an address that is none.
libc.setsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
libc.getsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
LONGEST = 264
SETS = (-1, 0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 32, 136, LONGEST, 5000)
GETS = (-1, 0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 20, 32, 144, 300)
VALUES = (0, 1, 2, 3, 5, 63, 255, 256, 1000, 70000, -1, -2, 1 << 31, (1 << 31) - 1)
NOWHERE = 8
ROOM = 8192
HELD = (ctypes.c_ubyte * ROOM)()
# Numbers that programs know, and some that nobody has.
LEVELS = {
    "socket": (1, [*range(1, 64), *range(65, 84), 90]),
    "ip": (0, range(0, 70)),
    "ipv6": (41, [*range(0, 79), 90]),
    # But for TCP_CC_INFO, which is another congestion control's on each machine.
    "tcp": (6, [*range(0, 26), *range(27, 47), 60]),
    "udp": (17, [0, 1, 2, *range(100, 105)]),
    "raw": (255, [0, 1, 2, 7, 36]),
    "icmpv6": (58, [0, 1, 2, 7]),
    "udplite": (136, [1, 10, 11]),
    "icmp": (2, [1]),
    "negative": (-1, [1]),
}
# What is another value on each machine, or at each time: only how long it is is told.
DRAWN = {(1, 55), (1, 57), (1, 71), (6, 11), (6, 24), (6, 13), (6, 33), (6, 35)}
KINDS = {
    "tcp": (socket.SOCK_STREAM, 0),
    "udp": (socket.SOCK_DGRAM, 0),
    "raw": (socket.SOCK_RAW, 253),
    "icmp": (socket.SOCK_RAW, None),
    "ping": (socket.SOCK_DGRAM, None),
}


def set_option(s, level, name, value, length):
    return coded(libc.setsockopt(s.fileno(), level, name, value, length & 0xFFFFFFFF))


def get_option(s, level, name, length, room=None):
    held = HELD if room is None else room
    if room is None:
        ctypes.memset(HELD, 0xEE, LONGEST + 60)
    told = ctypes.c_int(length)
    result = libc.getsockopt(s.fileno(), level, name, held, ctypes.byref(told))
    if result < 0:
        return coded(result)
    if room is not None or (level, name) in DRAWN:
        return f"{told.value} bytes"
    # What lies behind the value is nobody's to write.
    return bytes(held[: max(told.value, 0) + 2]).hex()


# What says that there is no such option, or none of this length.
NOT_THERE = ("ENOPROTOOPT", "EOPNOTSUPP", "ENOTSUP", "EPROTO", "EINVAL")


def rows(make, level, name):
    s = make()
    got = [(length, get_option(s, level, name, length)) for length in GETS]
    yield "get", runs(got)
    if any(answer not in NOT_THERE for _, answer in got):
        yield "told nowhere", f"{get_option(s, level, name, 4, NOWHERE)} {coded(libc.getsockopt(s.fileno(), level, name, NOWHERE, NOWHERE))}"
    yield "empty", get_option(s, level, name, 0, NOWHERE)
    one = (ctypes.c_ubyte * ROOM)(1)
    answers = [(length, set_option(s, level, name, one, length)) for length in SETS]
    yield "set", runs(answers)
    yield "of it", get_option(s, level, name, 8)
    s.close()
    s = make()
    if dict(answers)[LONGEST] not in NOT_THERE:
        yield "from nowhere", f"{set_option(s, level, name, NOWHERE, LONGEST)}"
    if dict(answers)[4] not in NOT_THERE:
        yield "null", f"{set_option(s, level, name, None, 4)} {set_option(s, level, name, None, 0)} {get_option(s, level, name, 4)}"
    values = []
    for value in VALUES:
        answer = set_option(s, level, name, ctypes.byref(ctypes.c_int32(value)), 4)
        values.append((value, f"{answer} {get_option(s, level, name, 4)}"))
    yield "values", runs(values)
    s.close()


def netlink():
    """Of a family of its own: SOL_SOCKET as every socket has it, and SOL_NETLINK."""
    for level, number, names in (("socket", 1, [*LEVELS["socket"][1], 64]), ("netlink", 270, [*range(0, 16), 60]), ("ip", 0, [1]), ("negative", -1, [1])):
        for name in names:
            told = rows(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0), number, name)
            print(f"netlink {level} {name}: " + "; ".join(f"{row} {text}" for row, text in told))


def main(kinds, levels):
    for family, host in ((socket.AF_INET, "4"), (socket.AF_INET6, "6")):
        for kind in kinds:
            what, protocol = KINDS[kind]
            if protocol is None:
                protocol = 1 if host == "4" else 58
            for level in levels:
                number, names = LEVELS[level]
                for name in names:
                    told = rows(lambda: socket.socket(family, what, protocol), number, name)
                    print(f"{kind}{host} {level} {name}: " + "; ".join(f"{row} {text}" for row, text in told))


main(KINDS, LEVELS)
netlink()
