"""Servers that fork: the acceptor has closed its copy of a connection and waits again when the child is done with it, and the peer sees the end."""

import itertools
import os
import select
import signal
import socket
import time

from answers import said, side_by_side

HOSTS = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}


def by_accept(listener, _):
    listener.accept()


def by_poll(listener, _):
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.poll()


def by_select(listener, _):
    select.select([listener], [], [])


def by_poll_with_a_pipe(listener, pipe):
    """The kernel's descriptors are waited for beside."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.register(listener, select.POLLIN)
    poll.poll()


def by_epoll(listener, _):
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    epoll.poll()


def closes(one):
    one.close()


def replaces(one):
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, one.fileno())


def closes_a_range(one):
    os.closerange(one.fileno(), one.fileno() + 1)


def shuts(one):
    one.shutdown(socket.SHUT_RDWR)


def ends(_):
    os._exit(0)


def is_killed(_):
    os.kill(os.getpid(), signal.SIGKILL)


def child(listener, one, gives_up, go):
    listener.close()
    one.recv(9)
    # The acceptor waits by now.
    time.sleep(0.2)
    one.sendall(b"answer")
    gives_up(one)
    # It is there until the peer has seen the end.
    os.read(go, 1)
    os._exit(0)


def acceptor(listener, waits, leaves, gives_up, go):
    pipe, _ = os.pipe()
    one, _ = listener.accept()
    worker = os.fork()
    if worker == 0:
        child(listener, one, gives_up, go)
    leaves(one)
    waits(listener, pipe)
    os.waitpid(worker, 0)
    os._exit(0)


def seen(peer):
    """What comes, and how it ends."""
    peer.settimeout(20)
    out = []
    while not out or isinstance(out[-1], bytes) and out[-1]:
        out.append(said(lambda: peer.recv(99)))
    return out


def case(number, waits, leaves, gives_up):
    family, host = HOSTS[number]
    listener = socket.create_server((host, 0), family=family)
    address = listener.getsockname()
    go, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(tell)
        acceptor(listener, waits, leaves, gives_up, go)
    listener.close()
    peer = socket.create_connection(address[:2])
    peer.sendall(b"question")
    told = seen(peer)
    # Now the acceptor has something else to do.
    socket.create_connection(address[:2]).close()
    os.write(tell, b"1")
    os.waitpid(pid, 0)
    peer.close()
    os.close(go)
    os.close(tell)
    what = " ".join(one.__name__.replace("_", " ") for one in (waits, leaves, gives_up))
    print(f"tcp{number} waits {what}: {told}", flush=True)


WAYS = ((closes, closes), (closes, replaces), (closes, shuts), (closes, ends), (closes, is_killed), (replaces, closes), (closes_a_range, ends))


def of_one(number, waits):
    for leaves, gives_up in WAYS:
        case(number, waits, leaves, gives_up)


side_by_side(
    *(
        lambda number=number, waits=waits: of_one(number, waits)
        for number, waits in itertools.product(HOSTS, (by_accept, by_poll, by_select, by_poll_with_a_pipe, by_epoll))
    )
)
