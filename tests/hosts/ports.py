"""Which ports a socket gets that asks for none: even or odd, which half of the range, and how many of a small range, on each way to a port.

bind(2) leaves the even ports to connect(2). So whoever connects to a port that was bound a moment ago does not connect to itself.
"""

import errno
import socket
import struct

IP_LOCAL_PORT_RANGE = 51
FIRST, LAST = 32768, 60999
HOSTS = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
NAMES = {socket.AF_INET: "4", socket.AF_INET6: "6"}


def bind(s, family, server):
    s.bind((HOSTS[family], 0))


def bind_reusing(s, family, server):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((HOSTS[family], 0))


def listen(s, family, server):
    s.listen()


def connect(s, family, server):
    s.connect(server.getsockname()[:2])


WAYS = (bind, bind_reusing, listen, connect)


def taken(family, way, count, own=None):
    """The ports of `count` sockets that live at once, and how it ended."""
    held, ports, end = [], [], "all"
    server = socket.create_server((HOSTS[family], 0), family=family, backlog=200)
    for _ in range(count):
        s = socket.socket(family)
        held.append(s)
        if own:
            s.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", own[1] << 16 | own[0]))
        try:
            way(s, family, server)
        except OSError as error:
            end = errno.errorcode[error.errno]
            break
        ports.append(s.getsockname()[1])
    for s in (*held, server):
        s.close()
    return ports, end


for family in HOSTS:
    for way in WAYS:
        ports, end = taken(family, way, 40)
        low = sum(port < FIRST + (LAST + 1 - FIRST) // 4 * 2 for port in ports)
        # connect(2) begins somewhere and goes on from there.
        half = "" if way is connect else "lower half" if low == len(ports) else "both halves"
        print(NAMES[family], way.__name__, {port % 2 for port in ports}, half, all(FIRST <= port <= LAST for port in ports), end)
    first = 50000
    for way in WAYS:
        # Of an odd number one port may be left out, or not.
        for size in (1, 2, 4, 6, 8, 10):
            first += 20
            ports, end = taken(family, way, 14, (first, first + size - 1))
            # Each kind comes before the next: in the upper half or not, odd or not.
            halves = way is bind_reusing and size >= 4
            kinds = [f"{'lower upper'.split()[port - first >= size // 4 * 2] if halves else ''}{'even odd'.split()[(port - first) % 2]}" for port in ports]
            print(NAMES[family], way.__name__, size, sorted(port - first for port in ports), kinds if way is not connect else "", end)
    # Nobody listens, and nobody connects to itself.
    selves = 0
    for _ in range(2000):
        with socket.socket(family) as s:
            s.bind((HOSTS[family], 0))
            there = s.getsockname()
        with socket.socket(family) as s:
            selves += s.connect_ex(there) != errno.ECONNREFUSED
    print(NAMES[family], "connected to itself", selves)
