"""shutdown(2) of a socket of the kernel's, by another thread and by its peer, before a call and while one waits: what the call comes to."""

import ctypes
import functools
import os
import select
import signal
import socket
import struct
import threading
import time

from answers import coded, full, said, side_by_side

libc = ctypes.CDLL(None, use_errno=True)
PAUSE_S = 0.2
# Who is not woken says EAGAIN then; a busy machine has time to wake the others.
SHORT_LIMIT_S, LIMIT_S = 1, 30
KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packet": socket.SOCK_SEQPACKET}
HOWS = {"reading": socket.SHUT_RD, "writing": socket.SHUT_WR, "both": socket.SHUT_RDWR}
buffer = ctypes.create_string_buffer(64)


def polled(a):
    poll = select.poll()
    poll.register(a, select.POLLIN | select.POLLRDHUP)
    seconds, _ = struct.unpack("ll", a.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))
    return [hex(found) for _, found in poll.poll(1000 * seconds)]


def received(a):
    data, control, flags, name = a.recvmsg(9, 99)
    return data, control, flags, name


CALLS = {
    "read": lambda a: coded(libc.read(a.fileno(), buffer, 9)),
    "readv": lambda a: os.readv(a.fileno(), [bytearray(9)]),
    "recv": lambda a: a.recv(9),
    "recv of all": lambda a: a.recv(9, socket.MSG_WAITALL),
    "peek": lambda a: a.recv(9, socket.MSG_PEEK),
    "recvmsg": received,
    "without waiting": lambda a: a.recv(9, socket.MSG_DONTWAIT),
    "poll": polled,
    "send": lambda a: a.send(b"y" * 1000),
}


def wakes(kind, call, how, who):
    """Is it the half that the call waits for? What a datagram socket's peer shuts is none of its own."""
    half = "writing" if (call == "send") == (who == "itself") else "reading"
    return how in (half, "both") and (who == "itself" or kind != "datagram")


def alone(kind, call, how, who, when):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    a, b = socket.socketpair(socket.AF_UNIX, KINDS[kind])
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        a.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", LIMIT_S if wakes(kind, call, how, who) else SHORT_LIMIT_S, 0))
    if call == "send":
        full(a, 1000)
        a.setblocking(True)
    ends = a if who == "itself" else b
    called = threading.Event()

    def shuts():
        if when == "meanwhile":
            # A call that does not wait is over before, however late it comes.
            called.wait(None if call == "without waiting" else PAUSE_S)
        if when == "behind data" and call != "send":
            b.send(b"data")
        ends.shutdown(HOWS[how])

    thread = threading.Thread(target=shuts, daemon=True)
    thread.start()
    if when != "meanwhile":
        thread.join()
    answers = [said(lambda: CALLS[call](a)) for _ in range(1 if when == "meanwhile" else 2)]
    called.set()
    print(f"unix {kind} shut for {how} by {who} {when} | {call} |", *answers)


def accepts(kind, when):
    a = socket.socket(socket.AF_UNIX, KINDS[kind])
    a.bind("")
    a.listen()

    def shuts():
        if when == "meanwhile":
            time.sleep(PAUSE_S)
        a.shutdown(socket.SHUT_RD)

    thread = threading.Thread(target=shuts, daemon=True)
    thread.start()
    if when != "meanwhile":
        thread.join()
    answers = [said(lambda: a.accept()), said(lambda: coded(libc.accept4(a.fileno(), None, None, socket.SOCK_NONBLOCK)))]
    a.setblocking(False)
    print(f"unix {kind} listener shut {when} | accept |", *answers, said(lambda: a.accept()))


CASES = [
    (kind, call, how, who, when)
    for kind in KINDS
    for call in CALLS
    for how in HOWS
    for who in ("itself", "peer")
    for when in ("before", "behind data", "meanwhile")
]
for at in range(0, len(CASES), 162):
    side_by_side(*(functools.partial(alone, *one) for one in CASES[at : at + 162]))
side_by_side(*(functools.partial(accepts, kind, when) for kind in ("stream", "packet") for when in ("before", "meanwhile")))
