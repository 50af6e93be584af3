"""SO_SNDBUF of a stream that nobody has fixed: it grows with the congestion window, is never less than what waits, and SO_MEMINFO says the same."""

import fcntl
import socket
import struct
import termios
import threading
import time

from answers import full

SO_MEMINFO, SNDBUF_WORD = 55, 3
MSS = 1000
# Of a few of these the first window is, and of many hundreds the last.
BYTES = 20_000_000
# Twice ten segments of 2 KiB, with what a buffer costs beside its bytes.
FIRST_MAX = 100_000
# Linux asks before it begins a buffer, and fills that.
BEGUN = 65_536
FILLED_MAX = 1000


def pair(address, fixed):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MSS)
    listener.bind((address, 0))
    listener.listen()
    client = socket.socket(family)
    if fixed:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, fixed)
    client.connect(listener.getsockname()[:2])
    peer = listener.accept()[0]
    listener.close()
    return client, peer


def shown(s):
    """The buffer, and whether both ways of asking agree."""
    size = s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    return size, struct.unpack("9I", s.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[SNDBUF_WORD] == size


def reads(s, most):
    while most > 0 and (data := s.recv(min(most, 65_536))):
        most -= len(data)


for address in ("127.0.0.1", "::1"):
    for fixed in (0, 50_000):
        client, peer = pair(address, fixed)
        name = f"{address} {'fixed' if fixed else 'grows'}"
        first, same = shown(client)
        print(name, "first", first if fixed else first < FIRST_MAX, same)
        reader = threading.Thread(target=reads, args=(peer, BYTES))
        reader.start()
        client.sendall(bytes(BYTES))
        reader.join()
        later, same = shown(client)
        print(name, "later", later == first, later > first, same)
        waits = 0
        # What fills the buffer for a moment may all go on to the peer, which reads nothing, until that is full, too.
        for _ in range(FILLED_MAX):
            full(client)
            time.sleep(0.01)
            waits = struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))[0]
            if waits > 0:
                break
        last, same = shown(client)
        print(name, "full", waits > 0, bool(fixed) or waits <= last + BEGUN, last >= later, same)
        client.close()
        peer.close()
