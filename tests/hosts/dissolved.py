"""A connection or a listener ends under a call that waits: dissolved or shut by another thread, reset or closed by its peer. What the call comes to, and
the calls behind it: an error is told once, and to whom Linux tells it."""

import ctypes
import functools
import os
import select
import signal
import socket
import struct
import tempfile
import threading
import time

from answers import coded, full, said, side_by_side

libc = ctypes.CDLL(None, use_errno=True)
PAUSE_S = 0.7
# Of a wait that ends: a busy machine has as much time.
LIMIT_S = 30
# Of one that nothing ends.
SHORT_LIMIT_S = 1
# More than the buffers of both ends can become (tcp_wmem, tcp_rmem).
MUCH = 16 << 20
# All events but POLLWRBAND.
ALL = 0x2DFF
FAMILIES = {"IPv4": (socket.AF_INET, "127.0.0.1"), "IPv6": (socket.AF_INET6, "::1")}


def polled(events):
    def poll(s):
        poll = select.poll()
        poll.register(s, events)
        return [hex(found) for _, found in poll.poll(1000 * LIMIT_S)]

    return poll


def watched(s):
    epoll = select.epoll()
    epoll.register(s, select.EPOLLIN | select.EPOLLET)
    return [hex(found) for _, found in epoll.poll(LIMIT_S)]


def selected(s):
    return [len(found) for found in select.select([s], [], [s], LIMIT_S)]


def spliced(s):
    _, into = os.pipe()
    return os.splice(s.fileno(), into, 9)


def some(sent):
    """A number of bytes is as large as buffers are."""
    return "some" if isinstance(sent, int) and sent > 0 else sent


def sent_from_a_file(s):
    with tempfile.TemporaryFile() as file:
        file.truncate(MUCH)
        return some(os.sendfile(s.fileno(), file.fileno(), 0, MUCH))


READS = {
    "recv": lambda s: s.recv(9),
    "recv of all": lambda s: s.recv(9, socket.MSG_WAITALL),
    "peek": lambda s: s.recv(9, socket.MSG_PEEK),
    "splice": spliced,
    "poll for data": polled(select.POLLIN),
    "poll for nothing": polled(0),
    "epoll": watched,
    "select": selected,
}
WRITES = {
    "send": lambda s: some(s.send(bytes(MUCH))),
    "sendmsg": lambda s: some(s.sendmsg([bytes(MUCH // 8)] * 8)),
    "sendfile": sent_from_a_file,
}
ACCEPTS = {"accept": lambda s: s.accept(), "poll for data": polled(select.POLLIN), "poll for nothing": polled(0), "epoll": watched, "select": selected}


def dissolves(s, peer):
    return coded(libc.connect(s.fileno(), bytes(16), 16))


def shuts(how):
    return lambda s, peer: s.shutdown(how)


def resets(s, peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


CAUSES = {
    "dissolved": dissolves,
    "shut for reading": shuts(socket.SHUT_RD),
    "shut for both": shuts(socket.SHUT_RDWR),
    "reset by its peer": resets,
    "closed by its peer": lambda s, peer: peer.close(),
}


def lasts(what, how):
    """Does the wait go on?"""
    return (what, how) in {("poll for nothing", "shut for reading"), ("poll for nothing", "closed by its peer")} or (
        what in WRITES and how == "shut for reading"
    )


def limited(s, what, how):
    """Each case has its process."""
    global LIMIT_S
    LIMIT_S = SHORT_LIMIT_S if lasts(what, how) else LIMIT_S
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", LIMIT_S, 0))


def waits(call, cause, s, peer):
    """What the call comes to, and what ends it."""
    got = []
    thread = threading.Thread(target=lambda: got.append(said(lambda: call(s))), daemon=True)
    thread.start()
    time.sleep(PAUSE_S)
    ended = said(lambda: cause(s, peer))
    thread.join()
    return ended, got[0]


def connection(family, what, call, how, cause):
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    number, address = FAMILIES[family]
    with socket.socket(number) as listener:
        listener.bind((address, 0))
        listener.listen()
        s = socket.socket(number)
        s.connect(listener.getsockname())
        peer, _ = listener.accept()
    limited(s, what, how)
    if what == "recv of all":
        peer.send(b"abc")
    answers = waits(call, cause, s, peer)
    print(f"{family} connection {how} | {what} |", *answers)
    # What waits for its peer to be asked again is asked when everything has come.
    time.sleep(PAUSE_S)
    s.setblocking(False)
    while lasts(what, how) and what in WRITES and full(s):
        # Its time was over before all room was: on a busy machine the peer takes more later.
        time.sleep(PAUSE_S)
    print(f"{family} connection {how} | behind {what}: poll |", *polled(ALL)(s))
    print(f"{family} connection {how} | behind {what}: recv, recv, send, send, SO_ERROR |", end=" ")
    print(said(lambda: s.recv(9)), said(lambda: s.recv(9)), said(lambda: s.send(b"x")), time.sleep(PAUSE_S) or said(lambda: s.send(b"x")), end=" ")
    print(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def listening(family, what, call, how, cause):
    number, address = FAMILIES[family]
    s = socket.socket(number)
    s.bind((address, 0))
    s.listen()
    limited(s, what, how)
    print(f"{family} listener {how} | {what} |", *waits(call, cause, s, None))
    s.setblocking(False)
    print(f"{family} listener {how} | behind {what}: poll |", *polled(ALL)(s))
    print(f"{family} listener {how} | behind {what}: accept, recv, listen |", said(s.accept), said(lambda: s.recv(9)), said(s.listen))


CONNECTIONS = [
    [functools.partial(connection, family, what, call, how, cause) for family in FAMILIES for what, call in calls.items() for how, cause in CAUSES.items()]
    for calls in (READS, WRITES)
]
LISTENERS = [
    functools.partial(listening, family, what, call, how, CAUSES[how])
    for family in FAMILIES
    for what, call in ACCEPTS.items()
    for how in ("dissolved", "shut for reading", "shut for both")
]
# Who writes much keeps the others from their turn.
for bodies in (*CONNECTIONS, LISTENERS):
    side_by_side(*bodies)
