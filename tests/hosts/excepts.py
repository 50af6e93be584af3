"""select(2) asks for no hang-up of a descriptor that it is to read nothing from: one that has hung up neither ends the wait nor keeps others from it."""

import itertools
import os
import resource
import select
import signal
import socket
import time

from answers import full, side_by_side

SOCKETS = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
LONG, SHORT = 30, 0.2


class Signalled(Exception):
    pass


def handles(*_):
    # What was ready at once did not wait for it.
    if waiting:
        raise Signalled


def a_pipe_without_writers():
    out, into = os.pipe()
    os.close(into)
    return out


def a_pipe_without_readers():
    out, into = os.pipe()
    os.close(out)
    return into


def a_unix_socket():
    one, other = socket.socketpair()
    other.close()
    return one.detach()


def a_full_unix_socket():
    """Which its own process has shut down: what was sent is still read, and then there is room."""
    one, other = socket.socketpair()
    full(one, 1000)
    one.shutdown(socket.SHUT_RDWR)
    others.append(other)
    return one.detach()


def meanwhile(does):
    """A child does it while this process waits."""
    pid = os.fork()
    if pid == 0:
        time.sleep(SHORT)
        does()
        os._exit(0)
    return pid


def nothing():
    pass


def a_signal():
    """Until it is waited for: one that comes before the wait wakes nobody."""
    parent = os.getppid()
    while os.getppid() == parent:
        os.kill(parent, signal.SIGUSR1)
        time.sleep(SHORT)


def a_datagram():
    with socket.socket(socket_beside.family, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", socket_beside.getsockname())


def a_byte():
    os.write(into_beside, b"x")


def a_reader():
    for one in others:
        while one.recv(1 << 16):
            pass


def waited(reads, writes, excepts, limit):
    global waiting
    waiting = True
    try:
        found = select.select(reads, writes, excepts, limit)
    except Signalled:
        return "a signal"
    finally:
        waiting = False
    return " ".join(f"{name}:{','.join(names[fd] for fd in one)}" for name, one in zip(("read", "write", "except"), found, strict=True) if one) or "nothing"


waiting = False
signal.signal(signal.SIGUSR1, handles)


def with_much_open():
    """Numbers are taken up to where the next descriptors of whoever helps to wait lie beyond what select(2) of C libraries reaches."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    taken = [os.dup(2) for _ in range(3000)]
    for fd in taken[:20]:
        os.close(fd)


def case(number, make, sets, cause, title=""):
    global others, socket_beside, into_beside, names
    family, host = SOCKETS[number]
    others = []
    hung = make()
    socket_beside = socket.socket(family, socket.SOCK_DGRAM)
    socket_beside.bind((host, 0))
    pipe_beside, into_beside = os.pipe()
    names = {hung: "hung up", socket_beside.fileno(): "socket", pipe_beside: "pipe"}
    writes = [hung] if "write" in sets else []
    excepts = [hung] if "except" in sets else []
    ends = cause != nothing and (cause != a_reader or writes)
    pid = meanwhile(cause)
    told = waited([socket_beside.fileno(), pipe_beside], writes, excepts, LONG if ends else 2 * SHORT)
    if cause == a_signal:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    print(f"udp{number}, {make.__name__.replace('_', ' ')} to {sets}{title}, {cause.__name__.replace('_', ' ')}: {told}", flush=True)
    for fd in (hung, pipe_beside, into_beside):
        os.close(fd)
    socket_beside.close()
    for other in others:
        other.close()


def of_one(number, make):
    for sets, cause in itertools.product(("except", "write", "write and except"), (nothing, a_signal, a_datagram, a_byte, a_reader)):
        if cause != a_reader or make == a_full_unix_socket:
            case(number, make, sets, cause)


def much_open(number):
    with_much_open()
    for cause in (nothing, a_signal, a_datagram, a_byte):
        case(number, a_pipe_without_writers, "except", cause, " with much open")


MAKES = (a_pipe_without_writers, a_pipe_without_readers, a_unix_socket, a_full_unix_socket)
side_by_side(
    *(lambda number=number, make=make: of_one(number, make) for number, make in itertools.product(SOCKETS, MAKES)),
    *(lambda number=number: much_open(number) for number in SOCKETS),
)
