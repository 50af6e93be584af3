"""splice(2) between sockets and pipes, and sendfile(2) from a pipe to a socket: what each comes to, and that nothing is lost."""

import ctypes
import errno
import hashlib
import os
import select
import socket
import threading


def splice(a, b, n, flags=0, oa=None, ob=None):
    try: return os.splice(a, b, n, offset_src=oa, offset_dst=ob, flags=flags)
    except OSError as e: return errno.errorcode[e.errno]
libc = ctypes.CDLL(None, use_errno=True)
def csplice(a, oa, b, ob, n, flags):
    r = libc.splice(a, oa, b, ob, ctypes.c_size_t(n), ctypes.c_uint(flags))
    return errno.errorcode[ctypes.get_errno()] if r < 0 else r
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    l = socket.create_server((host, 0), family=family)
    def pair():
        a = socket.create_connection(l.getsockname()[:2]); b, _ = l.accept(); return a, b
    # a copy of 3 MB: unix -> pipe -> tcp -> pipe -> file, as Go's io.Copy makes it
    data = os.urandom(3 << 20)
    u, v = socket.socketpair()
    a, b = pair()
    def feed():
        u.sendall(data); u.close()
    def relay():
        r, w = os.pipe()
        while True:
            n = splice(v.fileno(), w, 1 << 20)
            if not isinstance(n, int) or n == 0: break
            while n:
                m = splice(r, a.fileno(), n)
                assert isinstance(m, int), m
                n -= m
        a.close()
    out = hashlib.sha256()
    got = 0
    def drain():
        global got
        r, w = os.pipe()
        while True:
            n = splice(b.fileno(), w, 1 << 20)
            if not isinstance(n, int) or n == 0: print("ends with", n); break
            while n:
                piece = os.read(r, n); out.update(piece); n -= len(piece); got += len(piece)
    ts = [threading.Thread(target=f) for f in (feed, relay, drain)]
    [t.start() for t in ts]; [t.join() for t in ts]
    print("copied", got == len(data), out.digest() == hashlib.sha256(data).digest())
    # errors
    a, b = pair(); r, w = os.pipe()
    print("two sockets", csplice(a.fileno(), None, b.fileno(), None, 10, 0))
    off = ctypes.c_longlong(0)
    print("offset of a pipe", csplice(a.fileno(), None, w, ctypes.byref(off), 10, 0), csplice(r, ctypes.byref(off), a.fileno(), None, 10, 0))
    print("offset of a socket", csplice(a.fileno(), ctypes.byref(off), w, None, 10, 0))
    print("flags", csplice(a.fileno(), None, w, None, 10, 64), "nothing", csplice(a.fileno(), None, w, None, 0, 0))
    print("listener", csplice(l.fileno(), None, w, None, 10, 0))
    os.write(w, b"datagram")
    print("empty pipe", csplice(r, None, a.fileno(), None, 100, 0), b.recv(100), csplice(r, None, a.fileno(), None, 100, 2))
    a.setblocking(False)
    print("nothing there", csplice(a.fileno(), None, w, None, 10, 0))
    b.send(b"0123456789")
    select.select([a], [], [], 5)
    print("a part", csplice(a.fileno(), None, w, None, 4, 0), os.read(r, 100), a.recv(100))
    os.close(r)
    b.send(b"x"); select.select([a], [], [], 5)
    print("no reader", csplice(a.fileno(), None, w, None, 4, 0), a.recv(10))
    os.close(w); r, w = os.pipe(); os.close(w)
    print("no writer", csplice(r, None, b.fileno(), None, 4, 0))
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind((host, 0)); s.connect(s.getsockname()); r, w = os.pipe()
    os.write(w, b"one"); print("datagram out", csplice(r, None, s.fileno(), None, 100, 0))
    print("datagram in", csplice(s.fileno(), None, w, None, 100, 0), os.read(r, 10))
    print("unconnected", csplice(socket.socket(family, socket.SOCK_STREAM).fileno(), None, w, None, 4, 0))
    r, w = os.pipe()
    os.write(w, b"through sendfile")
    os.close(w)
    a, b = pair()
    try:
        print("sendfile", os.sendfile(a.fileno(), r, None, 100), b.recv(100))
    except OSError as e:
        print("sendfile", errno.errorcode[e.errno])
    c, d = pair()
    d.send(b"from a socket")
    select.select([c], [], [], 5)
    try:
        print("sendfile of a socket", os.sendfile(a.fileno(), c.fileno(), None, 100))
    except OSError as e:
        print("sendfile of a socket", errno.errorcode[e.errno])
    for what, call in (("tee", lambda: libc.tee(c.fileno(), w, 10, 0)), ("vmsplice", lambda: libc.vmsplice(c.fileno(), None, 0, 0))):
        print(what, call() if (found := call()) >= 0 else errno.errorcode[ctypes.get_errno()])
