"""Values of setsockopt that end where memory does: how many bytes of each length are looked at, and what comes of less. And no pointer at all."""

import ctypes
import mmap
import socket

from answers import coded, runs

libc = ctypes.CDLL(None, use_errno=True)
libc.setsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PAGE = mmap.PAGESIZE
START = libc.mmap(None, 3 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
END = START + 2 * PAGE
libc.mprotect(END, PAGE, 0)
# As many of them as some option looks at, and neighbours.
THERE = (0, 1, 3, 4, 7, 8, 11, 12, 14, 15, 16, 19, 20, 31, 32, 135, 136, 144, 263, 264, 272)
LENGTHS = (1, 4, 7, 8, 12, 16, 20, 24, 32, 44, 136, 144, 264, 272)
# One of each kind: an `int` of each level, each struct, each string; what nobody has.
OPTIONS = {
    1: (2, 9, 13, 20, 21, 25, 37, 47, 61, 65, 66, 67, 90),
    0: (1, 2, 4, 10, 14, 32, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 60),
    41: (1, 7, 8, 16, 17, 18, 20, 21, 25, 27, 28, 36, 42, 43, 44, 45, 46, 47, 48, 49, 50, 54, 55, 57, 59, 67, 76, 90),
    6: (1, 4, 13, 31, 33, 60),
    17: (1, 103, 90),
    255: (1, 7, 36),
    58: (1, 2),
    136: (1, 10),
    77: (1,),
}
# SO_BINDTODEVICE, TCP_CONGESTION, TCP_ULP: a name may end before its length.
NAMES = {1: (25,), 6: (13, 31)}
KINDS = {
    "tcp": (socket.SOCK_STREAM, 0),
    "udp": (socket.SOCK_DGRAM, 0),
    "raw": (socket.SOCK_RAW, 253),
    "icmp": (socket.SOCK_RAW, None),
}


def filled(byte):
    ctypes.memset(START, byte, 2 * PAGE)


def options(table, family, kind, protocol):
    for level, names in table.items():
        for name in names:
            with socket.socket(family, kind, protocol) as s:

                def of_length(length):
                    """EFAULT or not: what a value comes to is another script's."""
                    there = [size for size in THERE if size <= length]
                    answers = [(size, coded(libc.setsockopt(s.fileno(), level, name, END - size, length))) for size in there]
                    return runs((size, "EFAULT" if answer == "EFAULT" else "-") for size, answer in answers)

                nulls = [coded(libc.setsockopt(s.fileno(), level, name, None, length)) for length in (4, 20, 264)]
                yield f"{level} {name}: " + runs((length, of_length(length)) for length in LENGTHS) + "; null " + " ".join(map(str, nulls))


for byte, table in ((1, OPTIONS), (0, NAMES)):
    filled(byte)
    for family, host in ((socket.AF_INET, "4"), (socket.AF_INET6, "6")):
        for kind, (what, protocol) in KINDS.items():
            number = protocol if protocol is not None else 1 if host == "4" else 58
            for line in options(table, family, what, number):
                print(f"{kind}{host} of {byte}", line)
