"""Descriptors of sockets that were sent over an AF_UNIX socket and are thrown away there: their connections, ports and listeners end at once."""

import array
import itertools
import os
import socket

from answers import said

FAMILIES = {"IPv4": (socket.AF_INET, "127.0.0.1"), "IPv6": (socket.AF_INET6, "::1")}
KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packet": socket.SOCK_SEQPACKET}
LIMIT_S = 3


def sends(u, *sockets):
    u.sendmsg([b"abc"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno() for one in sockets]))])


def both_close(u, v):
    u.close()
    v.close()


def receiver_closes(u, v):
    v.close()


def replaced(u, v):
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, v.fileno())
    os.close(null)


def in_a_range(u, v):
    fd = v.detach()
    os.closerange(fd, fd + 1)


WAYS = {
    "both are closed": both_close,
    "the receiver is closed": receiver_closes,
    "the receiver is replaced": replaced,
    "the receiver is closed in a range": in_a_range,
    "recv": lambda u, v: v.recv(9),
    "read": lambda u, v: os.read(v.fileno(), 9),
    "readv": lambda u, v: os.readv(v.fileno(), [bytearray(9)]),
    "recvmsg without room": lambda u, v: v.recvmsg(9),
    "recvmsg with room for one": lambda u, v: v.recvmsg(9, socket.CMSG_SPACE(4)),
}


def thrown(kind, way, throws, sender):
    u, v = socket.socketpair(socket.AF_UNIX, KINDS[kind])
    sent, checks = [], []
    for family, (number, address) in FAMILIES.items():
        listener = socket.create_server((address, 0), family=number)
        name = listener.getsockname()[:2]
        near = socket.create_connection(name)
        far, _ = listener.accept()
        port = socket.socket(number, socket.SOCK_DGRAM)
        port.bind((address, 0))
        sent += [far, port, listener]
        checks.append((family, number, name, near, port.getsockname()[:2]))
    if sender == "itself":
        sends(u, *sent)
    else:
        pid = os.fork()
        if not pid:
            sends(u, *sent)
            os._exit(0)
        os.waitpid(pid, 0)
    for one in sent:
        one.close()
    got = said(lambda: throws(u, v))
    rights = got[1] if isinstance(got, tuple) else []
    kept = [fd for *_, data in rights for fd in array.array("i", data)]
    for family, number, name, near, port in checks:
        near.settimeout(LIMIT_S)
        first = said(lambda: near.recv(1)) if not kept or family != "IPv4" else "kept"
        bound = said(lambda: socket.socket(number, socket.SOCK_DGRAM).bind(port))
        asks = socket.socket(number)
        asks.settimeout(LIMIT_S)
        print(f"{kind} of {sender} {way} {family}: peer {first}, port {bound}, listener {said(lambda: asks.connect(name))}")
        near.close()
    for fd in kept:
        os.close(fd)
    for one in (u, v):
        one.detach() if one.fileno() < 0 else one.close()


for kind, (way, throws), sender in itertools.product(KINDS, WAYS.items(), ("itself", "a process")):
    thrown(kind, way, throws, sender)
