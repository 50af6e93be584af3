"""MSG_WAITALL of more than any buffer holds: what ends the wait, how much has come by then, and what the next call says."""

import ctypes
import errno
import os
import signal
import socket
import struct
import threading
import time

FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
MSG_WAITALL, MSG_TRUNC, MSG_DONTWAIT = socket.MSG_WAITALL, socket.MSG_TRUNC, socket.MSG_DONTWAIT
LARGE = 3_000_000
# Which a signal interrupts.
WANTED = 2000


def said(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode.get(error.errno, "TIMEOUT")


def pair(number):
    family, host = FAMILIES[number]
    listener = socket.create_server((host, 0), family=family)
    a = socket.create_connection(listener.getsockname()[:2])
    b, _ = listener.accept()
    listener.close()
    return a, b


def pattern(count, start=0):
    return (bytes(range(251)) * (count // 251 + 2))[start % 251 :][:count]


def is_pattern(data):
    return data == pattern(len(data))


def whole(taken, size):
    return "all" if taken == size else "a part" if 0 < taken < size else taken


class Sender:
    """Another thread: sends pieces of the pattern, with something between them."""

    def __init__(self, a, *steps):
        self.thread = threading.Thread(target=self.run, args=(a, steps))
        self.thread.start()

    def run(self, a, steps):
        at = 0
        try:
            for step in steps:
                if callable(step):
                    time.sleep(0.1)
                    step()
                else:
                    a.sendall(pattern(step, at))
                    at += step
        except OSError:
            # Nobody reads any more.
            pass

    def end(self, b):
        b.close()
        self.thread.join()


def nothing():
    pass


def asked(number, print):
    """All of it over one family."""
    # By each call, of each size.
    for size, first in ((8, 3), (70_000, 65_536), (200_000, 70_000), (LARGE, 1_000_000)):
        a, b = pair(number)
        sender = Sender(a, first, nothing, size - first, 5)
        data = b.recv(size, MSG_WAITALL)
        print(number, "recv", size, len(data), is_pattern(data), b.recv(5, MSG_WAITALL) == pattern(5, size))
        sender.end(b)

        a, b = pair(number)
        sender = Sender(a, first, nothing, size - first)
        pieces = [bytearray(size // 4) for _ in range(4)]
        taken, control, flags, name = b.recvmsg_into(pieces, 100, MSG_WAITALL)
        print(number, "recvmsg", size, whole(taken, size), is_pattern(b"".join(pieces)[:taken]), control, flags)
        sender.end(b)

        a, b = pair(number)
        sender = Sender(a, first, nothing, size - first, 7)
        taken = b.recv_into(bytearray(size), size, MSG_WAITALL | MSG_TRUNC)
        print(number, "thrown away", size, whole(taken, size), taken < size or b.recv(7, MSG_WAITALL) == pattern(7, size))
        sender.end(b)

    # What ends it, with a part and without one.
    for part in (0, 1000, 1_000_000):
        a, b = pair(number)
        sender = Sender(a, part, lambda: a.shutdown(socket.SHUT_WR))
        data = b.recv(LARGE, MSG_WAITALL)
        print(number, "end", part, len(data), is_pattern(data), said(lambda: len(b.recv(1))))
        sender.end(b)

        a, b = pair(number)
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 300_000))
        sender = Sender(a, part)
        print(number, "time limit", part, said(lambda: len(b.recv(LARGE, MSG_WAITALL))))
        sender.end(b)

        a, b = pair(number)
        sender = Sender(a, part, lambda: b.shutdown(socket.SHUT_RD))
        print(number, "shut down", part, said(lambda: len(b.recv(LARGE, MSG_WAITALL))), said(lambda: len(b.recv(1))))
        sender.end(b)

        a, b = pair(number)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        sender = Sender(a, part, a.close)
        print(number, "reset", part, said(lambda: len(b.recv(LARGE, MSG_WAITALL))), said(lambda: len(b.recv(1))), said(lambda: len(b.recv(1))))
        sender.end(b)

        a, b = pair(number)
        sender = Sender(a, part, nothing, lambda: a.send(b"!", socket.MSG_OOB), 50, a.close)
        print(number, "urgent", part, said(lambda: len(b.recv(LARGE, MSG_WAITALL))), said(lambda: b.recv(1, socket.MSG_OOB)),
              said(lambda: len(b.recv(LARGE, MSG_WAITALL))))
        sender.end(b)

    a, b = pair(number)
    a.sendall(pattern(1000))
    time.sleep(0.1)
    print(number, "without waiting", said(lambda: len(b.recv(LARGE, MSG_WAITALL | MSG_DONTWAIT))))
    a.sendall(pattern(1000))
    time.sleep(0.1)
    b.setblocking(False)
    print(number, "non-blocking", said(lambda: len(b.recv(LARGE, MSG_WAITALL))))


LINES = {number: [] for number in FAMILIES}
THREADS = [threading.Thread(target=asked, args=(number, lambda *words, to=lines: to.append(words))) for number, lines in LINES.items()]
for thread in THREADS:
    thread.start()
for thread in THREADS:
    thread.join()
for lines in LINES.values():
    for words in lines:
        print(*words)


def signalled(number, part, restarts):
    """A signal, which a handler takes, after a part has come: it ends the wait, with SA_RESTART too; without a part only without."""
    signal.signal(signal.SIGUSR1, lambda *_: taken.append(1))
    signal.siginterrupt(signal.SIGUSR1, not restarts)
    taken = []
    a, b = pair(number)
    a.sendall(pattern(part))
    pid = os.fork()
    if pid == 0:
        time.sleep(0.1)
        os.kill(os.getppid(), signal.SIGUSR1)
        time.sleep(0.1)
        a.sendall(pattern(WANTED - part, part))
        os._exit(0)
    # recv(2) of the C library: Python's makes the call again.
    buffer = ctypes.create_string_buffer(WANTED)
    found = libc.recv(b.fileno(), buffer, WANTED, MSG_WAITALL)
    print(number, "signal", part, "restarts" if restarts else "ends", found if found >= 0 else errno.errorcode[ctypes.get_errno()], len(taken))
    b.close()
    a.close()
    os.waitpid(pid, 0)


libc = ctypes.CDLL(None, use_errno=True)
for number in FAMILIES:
    for part in (0, 1000):
        for restarts in (False, True):
            signalled(number, part, restarts)
