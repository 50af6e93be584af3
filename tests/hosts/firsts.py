"""First calls of threads: whatever a new thread begins with, the calls that another one makes meanwhile come to what they do alone."""

import os
import select
import socket
import tempfile
import threading

from answers import said

THREADS = 20
FOLDER = tempfile.mkdtemp()
there = socket.socket()
there.bind(("127.0.0.1", 0))
there.listen(4096)
beside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
beside.bind(("127.0.0.1", 0))


def unix(kind):
    with socket.socket(socket.AF_UNIX, kind) as one:
        return one.connect_ex(os.path.join(FOLDER, "nobody"))


# What a thread begins with.
FIRST = {
    "connect of a unix stream": lambda: unix(socket.SOCK_STREAM),
    "connect of a unix datagram socket": lambda: unix(socket.SOCK_DGRAM),
    "socket": lambda: socket.socket().close(),
    "dup and close": lambda: os.close(os.dup(there.fileno())),
    "poll": lambda: select.select([there], [], [], 0),
    "connect": lambda: socket.create_connection(there.getsockname()).close(),
    "getsockname": lambda: there.getsockname(),
}
ep = select.epoll()
ep.register(beside, select.EPOLLIN)
# What another thread does meanwhile.
MEANWHILE = {
    "epoll_ctl": lambda: ep.modify(beside, select.EPOLLIN),
    "sendto": lambda: beside.sendto(b"x" * 100, ("127.0.0.1", 9)),
}
there.setblocking(False)
for name, first in FIRST.items():
    for what, meanwhile in MEANWHILE.items():
        alone, answers, over = said(meanwhile), set(), threading.Event()

        def others(first=first, over=over):
            for _ in range(THREADS):
                one = threading.Thread(target=first)
                one.start()
                one.join()
            over.set()

        starter = threading.Thread(target=others)
        starter.start()
        while not over.is_set():
            answers.add(said(meanwhile))
        starter.join()
        print(f"{what} beside threads that begin with {name}: {'as alone' if answers <= {alone} else sorted(map(str, answers))}")
        while said(there.accept) != "EAGAIN":
            pass
os.rmdir(FOLDER)
