"""Connections through a middlebox that takes options away, changes them and invents some, that loses, splits and corrupts; and to peers who have no Multipath TCP."""

import socket
import struct
import sys
import threading
import time

from box import PORTS, STRANGE
from mptcp import MPTCP, PLAIN, PORT, ask, attempt, connect, counters, made, received, remote, say, sh, sysctl, token, transfer

HERE, THERE, HERE2, THERE2 = sys.argv[1:]
SIZE = 100_000


def both(name: str, value) -> None:
    sysctl(name, value)
    remote(THERE, f"sysctl -w '{name}={value}'")


def through(rule: str, size: int = SIZE, seconds: float = 1) -> None:
    """Much up, and much down."""
    for way in (up, down):
        attempt(f"{rule} {way.__name__}", way, PORTS[rule], size, seconds)


def up(port: int, size: int, seconds: float) -> str:
    with connect(THERE, port, seconds=seconds) as sock:
        time.sleep(0.1)
        mercy(sock, False)
        said = transfer(sock, size)
        mercy(sock, True)
        return said


def down(port: int, size: int, seconds: float) -> int:
    with connect(THERE, port, seconds=seconds) as sock:
        mercy(sock, False)
        sock.sendall(f"source {size}\n".encode())
        count = len(received(sock, 2 * size))
        mercy(sock, count == size)
        return count


def mercy(sock: socket.socket, wanted: bool) -> None:
    """Does its close wait for the other end? Where that is confused, its retransmissions would go on for long."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", not wanted, 0))


def joined(rule: str, size: int = SIZE, seconds: float = 1) -> None:
    """With a subflow from the second address."""
    sh(f"ip mptcp endpoint add {HERE2} subflow")
    through(rule, size, seconds)
    sh("ip mptcp endpoint flush")


def announced(rule: str, seconds: float) -> None:
    remote(THERE, f"ip mptcp endpoint add {THERE2} signal")
    with connect(THERE, PORTS[rule]) as sock:
        sock.sendall(b"echo\nx")
        time.sleep(seconds)
        sock.sendall(b"y" * 1000)
        time.sleep(0.2)
    remote(THERE, "ip mptcp endpoint flush")


def options() -> None:
    """What the handshake has, or has not, in one direction or in both."""
    for rule in ("strip_syn", "strip_syn_ack", "strip_acks", "strip_answers", "old_version", "unknown_flags", "with_checksum", "first_ack_lost"):
        through(rule)
    for _ in STRANGE:
        attempt("strange_syn", lambda: transfer(connect(THERE, PORTS["strange_syn"], seconds=0.5), 1000))
    for rule in ("join_token", "join_answer", "join_ack", "join_stripped", "join_ack_stripped"):
        joined(rule)


def mappings() -> None:
    """What says where data belong: gone, wrong, doubled, late."""
    for rule in ("no_mapping", "wrong_mapping", "split", "held", "strange", "failing", "reset"):
        through(rule)
        joined(rule)
    joined("nothing_after", 200_000, 4)


def checksums() -> None:
    """Checksums over data and mapping, which find what a middlebox has changed."""
    both("net.mptcp.checksum_enabled", 1)
    for rule in ("corrupt", "split", "held", "with_checksum", "no_mapping"):
        through(rule)
        joined(rule)
    joined("corrupt_joined", 200_000)
    for port in (PORT, PLAIN):
        with connect(THERE, port) as sock:
            say("no box", transfer(sock, 50_000))
    both("net.mptcp.checksum_enabled", 0)


def blackhole() -> None:
    """SYNs with MP_CAPABLE do not come through: the third goes without, and later connections do not try for a while."""
    sysctl("net.mptcp.blackhole_timeout", 4)
    for pause in (0, 0, 4):
        time.sleep(pause)
        attempt("drop_capable", lambda: transfer(connect(THERE, PORTS["drop_capable"]), 1000))
    time.sleep(9)
    attempt("no box", lambda: transfer(connect(THERE), 1000))
    attempt("no box", lambda: transfer(connect("127.0.0.1", PLAIN, seconds=1), 1000))


def cookies() -> None:
    """A server that keeps nothing of a SYN."""
    remote(THERE, "sysctl -w net.ipv4.tcp_syncookies=2")
    for protocol in (MPTCP, 0):
        attempt("cookies", lambda protocol=protocol: transfer(connect(THERE, PORT, protocol), SIZE))
    sh(f"ip mptcp endpoint add {HERE2} subflow")
    attempt("cookies", lambda: transfer(connect(THERE), SIZE))
    for rule in ("join_ack", "join_ack_stripped", "join_token", "strip_acks"):
        through(rule)
    sh("ip mptcp endpoint flush")
    remote(THERE, "sysctl -w net.ipv4.tcp_syncookies=1")


def itself() -> None:
    """A socket that connects to itself: both SYNs cross."""
    with made() as sock:
        sock.bind(("127.0.0.1", 6100))
        attempt("itself", sock.connect, ("127.0.0.1", 6100))
        sock.settimeout(1)
        attempt("itself", sock.send, b"x")
        attempt("itself", lambda: sock.recv(1).decode())


def pressure() -> None:
    """Hardly any memory for TCP, at both ends, and a server that does not read."""
    both("net.ipv4.tcp_mem", "2 4 300")
    for _ in range(2):
        attempt("pressure", lambda: transfer(connect(THERE, seconds=3), SIZE))
    socks = []
    for _ in range(3):
        with connect(THERE, seconds=1) as sock:
            attempt("unread", sock.sendall, b"hold 2\n" + bytes(2_000_000))
            socks.append(sock)
    both("net.ipv4.tcp_mem", "8000 12000 16000")


def closing() -> None:
    """Ends that nobody answers any more: time is over, or a reset ends it; and data that arrive after the end."""
    sysctl("net.mptcp.close_timeout", 2)
    for wait in (0, 3):
        with connect(THERE, PORTS["nothing_after"]) as sock:
            attempt("nothing after", sock.sendall, b"echo\n" + bytes(SIZE))
            time.sleep(wait)
            attempt("end", sock.shutdown, socket.SHUT_WR)
        time.sleep(3)
    with connect(THERE) as sock:
        say("token", ask(sock, "token").isdigit(), token(sock) != 0)
        sock.sendall(b"source 3000000\n")
        time.sleep(0.2)
        threading.Timer(0.2, sock.close).start()
        attempt("closed by another thread", lambda: len(received(sock)))
    sh(f"ip mptcp endpoint add {HERE2} subflow")
    for linger in (b"\1\0\0\0\0\0\0\0", b"\1\0\0\0\5\0\0\0"):
        with connect(THERE) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            sock.sendall(b"echo\n" + b"x" * 5000)
            time.sleep(0.1)
    sh("ip mptcp endpoint flush")


def main() -> None:
    for body in (lambda: sh("ip mptcp limits set subflow 4 add_addr_accepted 4"), lambda: remote(THERE, "ip mptcp limits set subflow 4 add_addr_accepted 4")):
        body()
    for body in (options, mappings, checksums, blackhole, cookies, itself, pressure, closing):
        say(f"--- {body.__name__}")
        attempt(body.__name__, body)
    both("net.mptcp.add_addr_timeout", 1)
    announced("announced_wrongly", 0.5)
    announced("announced_in_vain", 6)
    remote(THERE, "grep MPTcp /proc/net/netstat")
    counters()


main()
