"""What a stream tells in each of its states: TCP_INFO before there is a connection, its figures when it has ended, the processor that its packets come to, and repair of keyed segments."""

import ctypes
import socket
import struct
import time

from answers import coded, said

libc = ctypes.CDLL(None, use_errno=True)
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
SO_INCOMING_CPU, SO_ZEROCOPY, TCP_AO_REPAIR = 49, 60, 42
SO_MAX_PACING_RATE, TCP_INFO = 47, 11
UDPLITE = 136
SIOCINQ, SIOCOUTQ = 0x541B, 0x5411
# struct tcp_info: eight bytes, 24 words, four of 64 bits, and what came later. Times since something was sent or received are the machine's.
WORDS = ("rto ato snd_mss rcv_mss unacked sacked lost retrans fackets - - - - pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss "
         "reordering rcv_rtt rcv_space total_retrans").split()


def info(s):
    data = s.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 232).ljust(232, b"\0")
    words = zip(WORDS, struct.unpack_from("24I", data, 8))
    told = {name: value for name, value in words if name != "-" and value}
    return [*data[:8]], told, struct.unpack_from("4Q", data, 104), data[136:].hex().rstrip("0")


def new(kind, _):
    return socket.socket(kind)


def paced(kind, _):
    s = socket.socket(kind)
    s.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 1_000_000)
    return s


def bound(kind, host):
    s = socket.socket(kind)
    s.bind((host, 0))
    return s


def listening(kind, host):
    return socket.create_server((host, 0), family=kind, backlog=3)


def connected(kind, host):
    listener = listening(kind, host)
    return socket.create_connection(listener.getsockname()[:2])


def accepted(kind, host):
    listener = listening(kind, host)
    peer = socket.create_connection(listener.getsockname()[:2])
    s = listener.accept()[0]
    peer.close()
    return s


def refused(kind, host):
    listener = listening(kind, host)
    address = listener.getsockname()
    listener.close()
    s = socket.socket(kind)
    said(lambda: s.connect(address))
    return s


def repaired(s):
    value = ctypes.create_string_buffer(64)
    length = ctypes.c_uint(64)
    got = coded(libc.getsockopt(s.fileno(), socket.IPPROTO_TCP, TCP_AO_REPAIR, value, ctypes.byref(length)))
    return got, *(coded(libc.setsockopt(s.fileno(), socket.IPPROTO_TCP, TCP_AO_REPAIR, value, size)) for size in (0, 4, 64))


def reset(kind, host):
    listener = listening(kind, host)
    s = socket.create_connection(listener.getsockname()[:2])
    peer = listener.accept()[0]
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    said(lambda: s.recv(1))
    return s


def finished(kind, host):
    """The peer ends first, so nothing is left of this end."""
    listener = listening(kind, host)
    s = socket.create_connection(listener.getsockname()[:2])
    peer = listener.accept()[0]
    peer.shutdown(socket.SHUT_WR)
    s.recv(1)
    s.shutdown(socket.SHUT_WR)
    peer.recv(1)
    peer.close()
    return s


def dissolved(kind, host):
    s = connected(kind, host)
    libc.connect(s.fileno(), bytes(16), 16)
    return s


def stopped(kind, host):
    s = listening(kind, host)
    s.shutdown(socket.SHUT_RD)
    return s


def queued(s, request):
    value = ctypes.c_int(-1)
    return coded(libc.ioctl(s.fileno(), request, ctypes.byref(value))), value.value


def is_told(s):
    return s.getsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU) >= 0


def copies(s):
    return said(lambda: s.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)), s.getsockopt(socket.SOL_SOCKET, SO_ZEROCOPY)


def keeps(kind, host, happens):
    """Is the processor that a program has set still the one, when something came in?"""
    listener = listening(kind, host)
    a = socket.socket(kind)
    a.connect(listener.getsockname())
    b, _ = listener.accept()
    a.setsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU, 77)
    happens(a, b)
    time.sleep(0.1)
    return a.getsockopt(socket.SOL_SOCKET, SO_INCOMING_CPU) == 77


HAPPENS = {
    "nothing": lambda a, b: None,
    "data": lambda a, b: b.send(b"x"),
    "an acknowledgment": lambda a, b: a.send(b"x"),
    "the end": lambda a, b: b.close(),
}
for name, (kind, host) in FAMILIES.items():
    for what, happens in HAPPENS.items():
        print(f"tcp{name} behind {what}: keeps its processor", keeps(kind, host, happens))
    for state in (new, paced, bound, listening):
        print(f"tcp{name}", state.__name__, "|", *info(state(kind, host)))
    for state in (new, bound, listening, connected, accepted, refused):
        s = state(kind, host)
        print(f"tcp{name}", state.__name__, "| processor", is_told(s), "keys", *repaired(s), "copies", *copies(s))
    for state in (refused, reset, finished, dissolved, stopped):
        s = state(kind, host)
        mss = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        print(f"tcp{name} ended, {state.__name__}: mss {mss} unsent {queued(s, SIOCOUTQ)} unread {queued(s, SIOCINQ)}")
    a, b = socket.socket(kind, socket.SOCK_DGRAM), socket.socket(kind, socket.SOCK_DGRAM)
    a.bind((host, 0)), b.bind((host, 0))
    b.sendto(b"one", a.getsockname())
    print(f"udp{name}", a.recv(9), "| processor", is_told(a), "of the sender", is_told(b))
    a.connect(b.getsockname())
    b.sendto(b"two", a.getsockname())
    print(f"udp{name} connected", a.recv(9), "| processor", is_told(a), "of the sender", is_told(b))
    print(f"udp{name} copies", *copies(a), "UDP-Lite", *copies(socket.socket(kind, socket.SOCK_DGRAM, UDPLITE)))
