"""All that a program can ask of a socket of Multipath TCP: options, calls, and the ways that a connection begins and ends. 4 and 6 are both done."""

import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

from mptcp import (FULL_INFO, INFO, MPTCP, PLAIN, PORT, SOL_MPTCP, SUBFLOW_ADDRS, TCPINFO, Netlink, ask, attempt, attribute, connect, counters, libc, made, received, remote,
                   say, sh, sysctl, token, transfer)

ADDRESSES = sys.argv[1:]
IP, IP6, TCP, SOCKET = socket.IPPROTO_IP, socket.IPPROTO_IPV6, socket.IPPROTO_TCP, socket.SOL_SOCKET
ONE, PAIR, TIME = struct.pack("i", 1), struct.pack("ii", 1, 5), struct.pack("qq", 30, 0)
DEBUG, DONTROUTE, BROADCAST, SNDBUF, RCVBUF, KEEPALIVE, OOBINLINE, NO_CHECK, PRIORITY, LINGER, BSDCOMPAT, REUSEPORT, PASSCRED, RCVLOWAT = 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18
# Level, option, and what it is set to.
OPTIONS = [(SOCKET, option, struct.pack("i", value)) for option, value in (
    (2, 1), (REUSEPORT, 1), (62, 0), (KEEPALIVE, 1), (PRIORITY, 3), (SNDBUF, 300000), (RCVBUF, 300000), (32, 400000), (33, 400000), (36, 7), (49, 0), (DEBUG, 1), (DEBUG, 0), (29, 1), (35, 1),
    (63, 1), (64, 1), (29, 0), (RCVLOWAT, 1), (46, 0), (NO_CHECK, 1), (DONTROUTE, 0), (BROADCAST, 1), (BSDCOMPAT, 1), (PASSCRED, 1), (40, 1), (OOBINLINE, 1), (42, 1), (60, 1), (37, 16), (65, 16))]
OPTIONS += [(SOCKET, LINGER, PAIR), (SOCKET, LINGER, struct.pack("ii", 0, 0)), (SOCKET, LINGER, ONE), (SOCKET, 20, TIME), (SOCKET, 21, TIME), (SOCKET, 66, TIME), (SOCKET, 67, TIME),
            (SOCKET, 37, PAIR), (SOCKET, 37, b"x"), (SOCKET, 25, b"eth0\0"), (SOCKET, 25, b"\0"), (SOCKET, KEEPALIVE, b"x"), (SOCKET, SNDBUF, b"xy"), (SOCKET, 35, ONE + ONE)]
OPTIONS += [(IP, option, struct.pack("i", value)) for option, value in (
    (15, 1), (19, 1), (24, 1), (51, 0x6c50_5c40), (1, 0x10), (1, 0), (2, 64), (8, 1), (13, 1), (12, 1), (10, 2), (11, 1), (21, 2), (6, 1), (7, 1), (20, 1), (23, 1), (25, 1), (26, 1), (4, 1), (32, 1))]
OPTIONS += [(IP6, option, struct.pack("i", value)) for option, value in (
    (26, 1), (75, 1), (78, 1), (49, 1), (51, 1), (56, 1), (54, 1), (58, 1), (66, 1), (67, 32), (16, 64), (23, 1), (24, 1280), (25, 1), (33, 1), (60, 1), (62, 0), (70, 1), (74, 1), (77, 1),
    (2, 1), (8, 1), (11, 1), (3, 1), (5, 1), (4, 1), (6, 1), (50, 1), (73, 1), (31, 1), (17, 1), (72, 1), (34, 1), (1, 1))]
OPTIONS += [(TCP, option, struct.pack("i", value)) for option, value in (
    (1, 1), (1, 0), (2, 1200), (3, 1), (3, 0), (4, 60), (5, 10), (6, 4), (4, 0), (7, 3), (8, 10), (9, 2), (10, 60000), (12, 1), (16, 1), (17, 1), (18, 30000), (23, 5), (24, 1), (25, 16384), (27, 0), (30, 0),
    (34, 0), (36, 1), (36, 2), (37, 0), (14, 1), (19, 1), (11, 1), (44, 1))]
OPTIONS += [(TCP, 13, name) for name in (b"reno", b"cubic", b"nonsense", b"bbr", b"")] + [(TCP, 33, bytes(range(16))), (TCP, 31, b"mptcp"), (TCP, 1, b"x"), (SOL_MPTCP, INFO, ONE), (999, 1, ONE)]


def options(sock: socket.socket, what: str) -> None:
    """Sets and asks all of them; says how many went well."""
    went = [0, 0]
    for level, option, value in OPTIONS:
        for number, body in enumerate((lambda: sock.setsockopt(level, option, value), lambda: sock.getsockopt(level, option, 64))):
            try:
                body()
                went[number] += 1
            except OSError:
                pass
    for length in (1, 2, 4, 0, 256):
        for option in (1, 3, 36):
            attempt(f"{option} in {length}", sock.getsockopt, TCP, option, length)
    attempt("tcp info", lambda: len(sock.getsockopt(TCP, 11, 256)))
    say(what, f"{went[0]} options were set and {went[1]} told, of {len(OPTIONS)}")


def asked(sock: socket.socket, option: int, inside: bytes, length: int) -> str:
    """getsockopt with something in what it writes into."""
    room = ctypes.create_string_buffer(inside.ljust(length, b"\0"), max(length, len(inside), 1))
    size = ctypes.c_int(length)
    status = libc.getsockopt(sock.fileno(), SOL_MPTCP, option, room, ctypes.byref(size))
    return f"{status} {size.value} {os.strerror(ctypes.get_errno()) if status else ''}"


def told(sock: socket.socket) -> None:
    """SOL_MPTCP: with room for everything, for little, and with headers that make no sense."""
    for length in (0, 16, 256):
        say("info", asked(sock, INFO, b"", length))
    headers = [struct.pack("=IIII", *header) for header in ((16, 0, 0, 512), (16, 0, 0, 100), (8, 0, 0, 64), (16, 1, 0, 64), (1 << 31, 0, 0, 64), (16, 0, 0, 0), (9999, 0, 0, 64))]
    for option in (TCPINFO, SUBFLOW_ADDRS):
        for header in headers:
            say(option, asked(sock, option, header, 4096))
        say(option, asked(sock, option, headers[0], 16), asked(sock, option, headers[0], 4))
    rooms = [ctypes.create_string_buffer(4096) for _ in range(2)]
    where = struct.pack("=QQ", *(ctypes.addressof(room) for room in rooms))
    for sizes in ((0, 256, 0, 300, 0, 4), (0, 256, 0, 300, 0, 1), (0, 0, 0, 4, 0, 4), (1, 256, 0, 300, 0, 4), (0, 1 << 31, 0, 300, 0, 4)):
        say("full", asked(sock, FULL_INFO, struct.pack("=6I", *sizes) + where, 400))
    say("full", asked(sock, FULL_INFO, struct.pack("=6I", 0, 256, 0, 300, 0, 4) + bytes(16), 400), asked(sock, FULL_INFO, b"", 8), asked(sock, 99, b"", 8))


def ioctls(sock: socket.socket) -> None:
    for request in (0x541B, 0x5411, 0x894B, 0x8905, 0x8906, 0x8907):
        attempt(f"ioctl {request:x}", fcntl.ioctl, sock, request, bytes(16))


def disconnected(sock: socket.socket) -> int:
    return libc.connect(sock.fileno(), bytes(16), 16)


def unconnected(to: str) -> None:
    """A socket that has not been connected, and one that listens."""
    of = socket.AF_INET6 if ":" in to else socket.AF_INET
    sock = made(of)
    options(sock, "unconnected")
    told(sock)
    ioctls(sock)
    for what, body in (("send", lambda: sock.send(b"x")), ("recv", lambda: sock.recv(1)), ("name", lambda: str(sock.getpeername()[1])), ("shutdown", lambda: sock.shutdown(2)),
                       ("accept", sock.accept), ("disconnect", lambda: disconnected(sock)), ("short", lambda: libc.connect(sock.fileno(), bytes(1), 1))):
        attempt(what, body)
    attempt("bind", sock.bind, ("::1" if ":" in to else "127.0.0.1", 6000))
    attempt("again", sock.bind, ("::" if ":" in to else "0.0.0.0", 6001))
    attempt("listen", sock.listen, 0)
    attempt("listen", sock.listen, 3)
    options(sock, "listening")
    told(sock)
    ioctls(sock)
    attempt("recv", sock.recv, 1)
    sock.setblocking(False)
    attempt("accept", sock.accept)
    clients = [made(of) for _ in range(5)]
    for client in clients:
        client.setblocking(False)
        attempt("connect", client.connect, sock.getsockname())
    time.sleep(0.1)
    say(select.select([sock], [], [], 0)[0] == [sock], sh("ss -Mlnie; ss -Mnaie; ss -tlnie"))
    accepted = attempt("accept", sock.accept)
    attempt("disconnect a listener", disconnected, sock)
    sock.close()
    if accepted:
        accepted[0].close()
    time.sleep(0.1)
    for client in clients:
        attempt("recv", client.recv, 1)
        client.close()
    refused(of, to)


def refused(of: int, to: str) -> None:
    attempt("nobody listens", connect, to, 7)
    sock = made(of)
    attempt("no route", sock.connect, ("2001:db8::1" if ":" in to else "240.0.0.1", 1))
    sock.setblocking(False)
    attempt("connect", sock.connect, (to, PORT))
    attempt("connect", sock.connect, (to, PORT))
    select.select([], [sock], [], 5)
    attempt("connected", sock.connect, (to, PORT))
    attempt("bind", sock.bind, (to, 6002))
    attempt("listen", sock.listen)
    sock.close()


def connected(to: str) -> None:
    """Two subflows: options, and all ways of sending and receiving."""
    sock = connect(to)
    sock.sendall(b"echo\nready")
    sock.recv(100)
    time.sleep(0.3)
    options(sock, "connected")
    told(sock)
    for value in (b"reno", b"cubic"):
        sock.setsockopt(TCP, 13, value)
    say(sh("ss -Mnaiemo; ss -tnaiemo; ss -Mna state established dport = :5000; ss -Mna sport = :1; cat /proc/net/protocols"), token(sock))
    diagnosed(sock)
    sock.setsockopt(TCP, 36, 1)
    sock.setsockopt(SOCKET, 35, 1)
    sock.sendmsg([b"one", b"two"], [], socket.MSG_MORE)
    sock.send(b"three", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    time.sleep(0.2)
    ioctls(sock)
    say("peek", sock.recv(5, socket.MSG_PEEK), sock.recvmsg(5, 200, socket.MSG_PEEK)[1:3], sock.recv(2), sock.recv(2, socket.MSG_TRUNC), sock.recv(7, socket.MSG_WAITALL))
    sock.settimeout(None)
    attempt("errors", sock.recvmsg, 10, 100, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    attempt("urgent", sock.send, b"!", socket.MSG_OOB)
    attempt("urgent", sock.recv, 1, socket.MSG_OOB)
    polled(sock)
    spliced(sock)
    for body in (lambda: sock.setsockopt(SOCKET, RCVLOWAT, 60000), lambda: sock.setsockopt(SOCKET, RCVLOWAT, 0), lambda: sock.setsockopt(TCP, 25, 1), lambda: sock.setsockopt(TCP, 3, 1)):
        attempt("low water", body)
    sock.send(b"corked")
    sock.setsockopt(TCP, 3, 0)
    say("uncorked", sock.recv(100))
    attempt("disconnect", disconnected, sock)
    sock.settimeout(5)
    attempt("connect again", sock.connect, (to, PORT))
    say("again", ask(sock, "token").isdigit())
    sock.close()


def diagnosed(sock: socket.socket) -> None:
    """sock_diag of one socket, which is found by its token; and of none."""
    diag = Netlink(4)
    for cookie in (token(sock), 1):
        request = struct.pack("=BBBBI", sock.family, 255, 255, 0, 0xffffffff) + bytes(40) + struct.pack("=II", cookie, 0)
        attempt("diag", lambda request=request: len(diag.ask(20, 0, request + attribute(3, struct.pack("=I", MPTCP)))[0]))


def polled(sock: socket.socket) -> None:
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)
    sock.send(b"polled")
    for _ in range(3):
        say("poll", [event for _, event in poll.poll(0.1)])
        time.sleep(0.02)
    sock.recv(100)
    sock.settimeout(0.05)
    attempt("nothing", sock.recv, 1)
    sock.settimeout(None)


def spliced(sock: socket.socket) -> None:
    """sendfile to it, and splice from it."""
    with open("/usr/share/common-licenses/GPL-3", "rb") as file:
        size = os.fstat(file.fileno()).st_size
        sent = os.sendfile(sock.fileno(), file.fileno(), 0, size)
    inlet, outlet = os.pipe()
    got = 0
    while got < sent:
        got += os.splice(sock.fileno(), outlet, 4096)
        os.read(inlet, 4096)
    say("spliced", sent, got)


def large(to: str) -> None:
    """Much in both directions, with buffers that fill: nobody reads for a while."""
    with connect(to) as sock:
        say("up", transfer(sock, 1_500_000))
    with connect(to) as sock:
        sock.sendall(b"source 1500000\n")
        time.sleep(1)
        say("down", len(received(sock)))
    with connect(to) as sock:
        sock.setblocking(False)
        sock.send(b"unread 2\n")
        sent = 0
        try:
            while True:
                sent += sock.send(bytes(65536))
        except OSError as error:
            say("full after", sent, error, select.select([], [sock], [], 0)[1])
        say(select.select([], [sock], [], 5)[1] == [sock])
        attempt("send", sock.send, b"x")
        attempt("send", sock.send, b"x")


def ends(to: str) -> None:
    """The ways that a connection ends: by either side, in order and not."""
    for line, body in (("abort 5", b"12345"), ("unread 0.2", b"much" * 1000), ("hold 0.1", b""), ("quiet 10", b"")):
        with connect(to) as sock:
            sock.sendall(line.encode() + b"\n" + body)
            time.sleep(0.6)
            poll = select.poll()
            poll.register(sock)
            say(line, poll.poll(0))
            for what, action in (("recv", lambda: len(sock.recv(100))), ("send", lambda: sock.send(b"x")), ("send", lambda: sock.send(b"x")), ("error", lambda: sock.getsockopt(SOCKET, socket.SO_ERROR))):
                attempt(what, action)
    for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR, 7):
        with connect(to) as sock:
            sock.sendall(b"echo\nx")
            attempt("shutdown", sock.shutdown, how)
            attempt("recv", lambda sock=sock: len(sock.recv(100)))
            attempt("send", sock.send, b"x")
            ioctls(sock)
    for linger in ((1, 0), (1, 2)):
        with connect(to) as sock:
            sock.sendall(b"echo\nx")
            sock.setsockopt(SOCKET, LINGER, struct.pack("ii", *linger))
    with connect(to) as sock:
        sock.sendall(b"source 200000\n")
        time.sleep(0.3)
    sock = connect(to)
    sock.sendall(b"echo\nx")
    say(sh("ss -K -M dport = :5000; ss -K -tn dport = :5000; ss -K -tln sport = :5000; ss -Mna"))
    attempt("killed", sock.recv, 10)
    sock.close()
    woken(to)


def woken(to: str) -> None:
    """A thread that waits in recv while another ends the connection."""
    sock = connect(to)
    sock.sendall(b"hold 5\n")
    waits = threading.Thread(target=attempt, args=["woken", sock.recv, 1])
    waits.start()
    time.sleep(0.1)
    sock.shutdown(socket.SHUT_RDWR)
    waits.join()
    sock.close()


def fast_open(to: str) -> None:
    """Data in the SYN: the first time a cookie is fetched."""
    of = socket.AF_INET6 if ":" in to else socket.AF_INET
    for flags in (socket.MSG_FASTOPEN, socket.MSG_FASTOPEN, socket.MSG_FASTOPEN | socket.MSG_DONTWAIT):
        with made(of) as sock:
            attempt("fast open", sock.sendto, b"sink\nearly", flags, (to, PORT))
            select.select([], [sock], [], 2)
            attempt("more", sock.send, b"later")
            sock.shutdown(socket.SHUT_WR)
            attempt("counted", lambda sock=sock: sock.recv(10).decode())
    with made(of) as sock:
        sock.setsockopt(TCP, 30, 1)
        sock.connect((to, PORT))
        say("fast open connect", transfer(sock, 3000))
    with made(of) as sock:
        attempt("to nobody", sock.sendto, b"early", socket.MSG_FASTOPEN, (to, 7))
    with made(of) as sock:
        attempt("to nowhere", sock.sendto, b"early", socket.MSG_FASTOPEN, ("2001:db8::1" if ":" in to else "240.0.0.1", 7))
    with connect(to, PLAIN) as sock:
        say("plain peer", transfer(sock, 1000))
    with connect(to, PLAIN) as sock:
        options(sock, "fallen back")
        told(sock)
        ioctls(sock)
        sock.settimeout(None)
        sock.sendall(b"echo\nx")
        spliced(sock)
        attempt("disconnect", disconnected, sock)
    with connect(to, PORT, 0) as sock:
        say("plain client", transfer(sock, 1000))


def mapped(to: str) -> None:
    """IPv4 with a socket of IPv6."""
    with made(socket.AF_INET6) as sock:
        sock.connect(("::ffff:" + to, PORT))
        told(sock)
        options(sock, "mapped")
        say("mapped", transfer(sock, 100000))
    with made(socket.AF_INET6) as listener:
        listener.bind(("::", 6010))
        listener.listen()
        with connect("127.0.0.1", 6010) as sock:
            other, peer = listener.accept()
            sock.sendall(b"x")
            say("mapped", peer[0], other.recv(10))
            other.close()
    attempt("no such socket", socket.socket, socket.AF_INET, socket.SOCK_DGRAM, MPTCP)


def names() -> None:
    """A network namespace of its own, and what net.mptcp has in it."""
    say(sh("unshare -n sh -c 'sysctl net.mptcp; ip mptcp limits; ip mptcp endpoint; ip link set lo up'"))
    say(sh("sysctl net.mptcp; sysctl -w net.mptcp.scheduler=nonsense; sysctl -w net.mptcp.scheduler=default"))
    for name, value in (("enabled", 0), ("enabled", 1), ("close_timeout", 5), ("blackhole_timeout", 60)):
        sysctl(f"net.mptcp.{name}", value)
        if value == 0:
            attempt("not enabled", made)


def main() -> None:
    sh("ip mptcp limits set subflow 2 add_addr_accepted 2")
    for device in ("eth1",):
        say(sh(f"for a in $(ip -o addr show dev {device} scope global | awk '{{ print $4 }}'); do ip mptcp endpoint add ${{a%/*}} dev {device} subflow; done; ip mptcp endpoint"))
    names()
    for to in ADDRESSES:
        for body in (unconnected, connected, large, ends, fast_open):
            say(f"--- {body.__name__} {to}")
            body(to)
    mapped(ADDRESSES[0])
    remote(ADDRESSES[0], "cat /proc/net/netstat | grep MPTcp; ss -Mna")
    counters()


main()
