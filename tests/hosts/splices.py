"""splice(2) between sockets and pipes, and sendfile(2) from a pipe to a socket: what each comes to, and that nothing is lost."""

import collections
import ctypes
import errno
import fcntl
import hashlib
import os
import resource
import select
import socket
import threading
import time

from answers import full


def splice(a, b, n, flags=0, oa=None, ob=None):
    try: return os.splice(a, b, n, offset_src=oa, offset_dst=ob, flags=flags)
    except OSError as e: return errno.errorcode[e.errno]
libc = ctypes.CDLL(None, use_errno=True)
def csplice(a, oa, b, ob, n, flags):
    r = libc.splice(a, oa, b, ob, ctypes.c_size_t(n), ctypes.c_uint(flags))
    return errno.errorcode[ctypes.get_errno()] if r < 0 else r
def csendfile(to, a, offset, n):
    r = libc.sendfile(to, a, offset, ctypes.c_size_t(n))
    return errno.errorcode[ctypes.get_errno()] if r < 0 else r
def ctee(a, b, n, flags):
    r = libc.tee(a, b, ctypes.c_size_t(n), ctypes.c_uint(flags))
    return errno.errorcode[ctypes.get_errno()] if r < 0 else r


def refusals(s, appends):
    """Which end of what is refused how, in which order. Nothing is there to be moved, and nothing waits."""
    r, w = os.pipe()
    named = {"socket": s.fileno(), "appends": appends.fileno(), "reads": r, "writes": w, "file": os.open(__file__, os.O_RDONLY),
             "path": os.open(__file__, os.O_PATH), "random": os.open("/dev/urandom", os.O_RDONLY), "closed": -1}
    place, nowhere = ctypes.c_longlong(0), ctypes.c_void_p(8)
    places = (None, ctypes.byref(place), nowhere)
    for of, a in named.items():
        for to, b in named.items():
            if "socket" not in (of, to) and "appends" not in (of, to):
                continue
            by_length = [csplice(a, None, b, None, n, flags) for n, flags in ((10, 2), (0, 2), (10, 64), (0, 64), (1 << 63, 2))]
            by_place = [csplice(a, x, b, y, 10, 2) for x in places for y in places]
            print(f"splice {of} {to}:", *by_length, "places", *by_place)
            if of not in ("file", "random") or "closed" in (of, to):
                print(f"sendfile {of} {to}:", *(csendfile(b, a, x, n) for x in places for n in (10, 1 << 63)))
            print(f"tee {of} {to}:", *(ctee(a, b, n, flags) for n, flags in ((10, 2), (0, 2), (10, 64), (0, 64))))
    for fd in named.values():
        if fd not in (-1, s.fileno(), appends.fileno()):
            os.close(fd)


def both(splices, drains, feed):
    """Two threads splice from one place at a time, each to its own; what comes there, in whatever order."""
    found = [collections.Counter(), collections.Counter()]
    def move(at):
        while (n := splices[at]()) != 0:
            assert isinstance(n, int), n
    def drain(at):
        while data := drains[at]():
            found[at].update(data)
    movers = [threading.Thread(target=move, args=(at,)) for at in (0, 1)]
    others = [threading.Thread(target=drain, args=(at,)) for at in (0, 1)]
    [thread.start() for thread in movers + others]
    feed()
    for thread in movers:
        thread.join()
    return found, others


def sources(pair):
    """sendfile(2) to a socket from all that is no plain file, and where that leaves the place."""
    made = {
        "file": lambda: os.open(os.sys.executable, os.O_RDONLY),
        "memory": lambda: os.memfd_create("nothing"),
        "folder": lambda: os.open("/", os.O_RDONLY),
        "null": lambda: os.open("/dev/null", os.O_RDWR),
        "zero": lambda: os.open("/dev/zero", os.O_RDONLY),
        "random": lambda: os.open("/dev/urandom", os.O_RDONLY),
        "event": lambda: os.eventfd(3),
        "write-only": lambda: os.open("/dev/null", os.O_WRONLY),
    }
    for name, opens in made.items():
        answers = []
        for began in (None, 0, 2, -1):
            for count in (0, 4, 1 << 63):
                a, b = pair()
                fd = opens()
                place = ctypes.c_longlong(0 if began is None else began)
                answers.append(csendfile(a.fileno(), fd, None if began is None else ctypes.byref(place), count))
                answers.append(f"at {os.lseek(fd, 0, os.SEEK_CUR) if began is None else place.value}")
                os.close(fd)
        print("sendfile from", name, *answers)
    for state in ("new", "listening"):
        s = socket.socket(pair()[0].family)
        s.listen() if state == "listening" else None
        r, w = os.pipe()
        os.write(w, b"one")
        fd = made["file"]()
        print("into a stream that is", state, csplice(r, None, s.fileno(), None, 3, 2), csendfile(s.fileno(), fd, None, 3))
        for one in (r, w, fd):
            os.close(one)


def threads(pair):
    data = os.urandom(400_000)
    r, w = os.pipe()
    (a, b), (c, d) = pair(), pair()
    def feed():
        for at in range(0, len(data), 1000):
            os.write(w, data[at:at + 1000])
        os.close(w)
    splices = [lambda s=s: csplice(r, None, s.fileno(), None, 700, 0) for s in (a, c)]
    found, others = both(splices, [lambda s=s: s.recv(65_536) for s in (b, d)], feed)
    a.close(); c.close()
    [thread.join() for thread in others]
    print("two threads from a pipe: each byte once", found[0] + found[1] == collections.Counter(data))
    os.close(r)
    a, b = pair()
    one, two = os.pipe(), os.pipe()
    def feed():
        b.sendall(data)
        b.close()
    splices = [lambda w=w: csplice(a.fileno(), None, w, None, 700, 0) for w in (one[1], two[1])]
    found, others = both(splices, [lambda r=r: os.read(r, 65_536) for r in (one[0], two[0])], feed)
    os.close(one[1]); os.close(two[1])
    [thread.join() for thread in others]
    print("two threads from a socket: each byte once", found[0] + found[1] == collections.Counter(data))
    os.close(one[0]); os.close(two[0])


def beside(pair):
    """A pipe is read while a splice of another thread waits until a socket takes what is in it."""
    a, b = pair()
    full(a, 100_000)
    a.setblocking(True)
    r, w = os.pipe()
    os.set_blocking(r, False)
    os.write(w, b"abc")
    results = []
    mover = threading.Thread(target=lambda: results.append(csplice(r, None, a.fileno(), None, 3, 0)))
    mover.start()
    time.sleep(0.5)
    def rest():
        data = b""
        while piece := b.recv(1 << 20):
            data = (data + piece)[-3:]
        results.append(data)
    drain = threading.Timer(0.5, rest)
    drain.start()
    try:
        got = os.read(r, 10)
    except BlockingIOError:
        got = "nothing"
    mover.join()
    a.close()
    drain.join()
    print("read beside", got, "splice", *results)


def full_table(pair):
    """No number is free for another descriptor."""
    a, b = pair()
    r, w = os.pipe()
    os.write(w, b"abc")
    b.send(b"def")
    select.select([a], [], [], 5)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    copies = []
    try:
        while True:
            copies.append(os.dup(0))
    except OSError as e:
        found = errno.errorcode[e.errno]
    print("no number free", found, csplice(a.fileno(), None, w, None, 3, 0), csplice(r, None, a.fileno(), None, 3, 0))
    for fd in copies:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


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
    print("no reader, nothing there", csplice(a.fileno(), None, w, None, 4, 0))
    b.send(b"x"); select.select([a], [], [], 5)
    print("no reader", csplice(a.fileno(), None, w, None, 4, 0), a.recv(10))
    os.close(w); r, w = os.pipe(); os.close(w)
    print("no writer", csplice(r, None, b.fileno(), None, 4, 0))
    s = socket.socket(family, socket.SOCK_DGRAM); s.bind((host, 0)); s.connect(s.getsockname()); r, w = os.pipe()
    os.write(w, b"one"); print("datagram out", csplice(r, None, s.fileno(), None, 100, 0))
    print("datagram in", csplice(s.fileno(), None, w, None, 100, 0), os.read(r, 10))
    s.send(b""); s.send(b"two"); select.select([s], [], [], 5)
    print("empty datagram", csplice(s.fileno(), None, w, None, 100, 0), csplice(s.fileno(), None, w, None, 2, 0), os.read(r, 10))
    s.setblocking(False)
    print("nothing more", csplice(s.fileno(), None, w, None, 100, 0))
    s.send(bytes(20_000)); select.select([s], [], [], 5)
    print("large datagram", csplice(s.fileno(), None, w, None, 1 << 20, 0), len(os.read(r, 65_536)))
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
    print("sendfile of a socket", csendfile(a.fileno(), c.fileno(), None, 100))
    r, w = os.pipe()
    print("sendfile into a pipe", csendfile(w, c.fileno(), None, 0), csendfile(w, c.fileno(), None, 6), os.read(r, 100), c.recv(100))
    c.setblocking(False)
    print("nothing there", csendfile(w, c.fileno(), None, 6))
    print("random bytes", csendfile(a.fileno(), os.open("/dev/urandom", os.O_RDONLY), None, 1000), len(b.recv(1000, socket.MSG_WAITALL)))
    os.close(r)
    print("no reader", csendfile(w, c.fileno(), None, 6))
    print("vmsplice", errno.errorcode[ctypes.get_errno()] if libc.vmsplice(c.fileno(), None, 0, 0) < 0 else 0)
    d.close()
    e, f = pair()
    f.setblocking(False)
    e.setblocking(False)
    fcntl.fcntl(f, fcntl.F_SETFL, fcntl.fcntl(f, fcntl.F_GETFL) | os.O_APPEND)
    refusals(e, f)
    sources(pair)
    threads(pair)
    beside(pair)
    full_table(pair)
