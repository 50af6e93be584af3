"""Numbers of descriptors of select and poll at the edge, lengths of names of local sockets, and calls that programs try out."""

import ctypes
import errno
import os
import resource
import socket
import struct
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SELECT, POLL, PSELECT, PRCTL, COPY, UNSHARE = 23, 7, 270, 157, 326, 272


def said(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result


def call(number, *words):
    return said(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words)))


room = ctypes.create_string_buffer(1 << 20)
AT = ctypes.addressof(room)
zero = ctypes.create_string_buffer(16)
Z = ctypes.addressof(zero)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in (-1, 0, 1, 64, 1024, 1025, 4096, (1 << 31) - 1, 1 << 31):
    ctypes.memset(AT, 0, 1 << 20)
    print("select", n, call(SELECT, n, AT, 0, 0, Z), call(PSELECT, n, AT, 0, 0, Z, 0))
    print("select nothing", n, call(SELECT, n, 0, 0, 0, Z), "nowhere", call(SELECT, n, 8, 0, 0, Z))
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
for n in (0, 1, 255, 256, 257, 3000, (1 << 31) - 1, (1 << 32) - 1):
    ctypes.memset(AT, 0xFF, 1 << 20)
    print("poll", n, call(POLL, AT, n, 0), call(POLL, 8, n, 0))
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print("dumpable", call(PRCTL, 3), call(PRCTL, 4, 0), call(PRCTL, 3), call(PRCTL, 4, 2), call(PRCTL, 4, 1), call(PRCTL, 3))
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
libc.bind.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
libc.connect.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for what in ("path", "abstract"):
        for n in (0, 1, 2, 50, 104, 105, 106, 107, 108, 109, 126):
            name = b"p" * n if what == "path" else b"\0" + b"a" * (n - 1) if n else b""
            packed = struct.pack("=H", socket.AF_UNIX) + name
            u, v = socket.socket(socket.AF_UNIX, kind), socket.socket(socket.AF_UNIX, kind)
            bound = said(libc.bind(u.fileno(), packed, len(packed)))
            # A socket that binds to no name gets one that is drawn.
            told = len(u.getsockname()) if n else ""
            if kind == socket.SOCK_STREAM and bound == 0:
                u.listen()
            print(kind, what, n, bound, told, said(libc.connect(v.fileno(), packed, len(packed))))
            if what == "path" and bound == 0 and n:
                os.unlink(name)
for n in (0, 1, 2):
    print("short", n, said(libc.bind(socket.socket(socket.AF_UNIX).fileno(), struct.pack("=H", socket.AF_UNIX), n)))
with open("a", "wb") as file:
    file.write(b"0123456789")
a, b = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
print(
    "copy",
    call(COPY, a, 0, b, 0, 100, 0),
    os.pread(b, 100, 0),
    call(COPY, a, 0, b, 0, 100, 0),
    call(COPY, a, 0, b, 0, 1, 1),
    call(COPY, a, 0, s.fileno(), 0, 1, 0),
    call(COPY, s.fileno(), 0, b, 0, 1, 0),
)
r, w = os.pipe()
print("copy of pipes", call(COPY, r, 0, b, 0, 1, 0), call(COPY, a, 0, w, 0, 1, 0), call(COPY, 999, 0, b, 0, 1, 0))
print("unshare", call(UNSHARE, 0x400), call(UNSHARE, 0x200), call(UNSHARE, 0), call(UNSHARE, 0x40000), call(UNSHARE, 1))
os.chdir("/")
