"""What the programs of all four scenarios share: sockets of Multipath TCP, a server that does as it is told, and netlink as MPTCP has it.

    python3 mptcp.py serve          port 5000 and 5002 to 5029 of all addresses, Multipath TCP; port 5001 is plain TCP

A client's first line says what the server does with the connection, see Server.
"""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading
import time

MPTCP, SOL_MPTCP, SOL_NETLINK, INFO, TCPINFO, SUBFLOW_ADDRS, FULL_INFO = 262, 284, 270, 1, 2, 3, 4
PORT, PLAIN, PORTS = 5000, 5001, (5000, *range(5002, 5030))
libc = ctypes.CDLL(None, use_errno=True)


def say(*words) -> None:
    print(f"{time.monotonic():9.3f}", *words, flush=True)


def attempt(what: str, body, *words):
    """Does it, and says what came of it: most of what is tried here is to fail."""
    try:
        result = body(*words)
    except (OSError, subprocess.SubprocessError) as error:
        say(what, "->", error)
        return None
    say(what, "->", result if isinstance(result, (int, str, type(None))) else type(result).__name__)
    return result


def sh(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    return f"{done.returncode} {done.stdout}{done.stderr}".strip()


def sysctl(name: str, value) -> None:
    attempt(f"{name} = {value}", lambda: open("/proc/sys/" + name.replace(".", "/"), "w").write(str(value)))


def family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def made(of: int = socket.AF_INET, protocol: int = MPTCP) -> socket.socket:
    return socket.socket(of, socket.SOCK_STREAM, protocol)


def connect(to: str, port: int = PORT, protocol: int = MPTCP, source: str = "", seconds: float = 20) -> socket.socket:
    sock = made(family(to), protocol)
    if source:
        sock.bind((source, 0))
    sock.settimeout(seconds)
    sock.connect((to, port))
    return sock


def remote(to: str, command: str) -> str:
    """Lets the server execute a command, over plain TCP."""
    with connect(to, PLAIN, 0, seconds=60) as sock:
        sock.sendall(f"run {command}\n".encode())
        said = received(sock).decode()
    say(f"there: {command} -> {said}")
    return said


def received(sock: socket.socket, most: int = 10_000_000) -> bytes:
    """What comes to the end; no more than that, for some ends never come."""
    said = b""
    while len(said) < most and (more := sock.recv(1 << 16)):
        said += more
    return said


def ask(sock: socket.socket, line: str) -> str:
    sock.sendall(line.encode() + b"\n")
    return sock.recv(1 << 16).decode()


def transfer(sock: socket.socket, size: int) -> str:
    """Sends so many bytes to the server, and comes back with how many it says have come."""
    sock.sendall(b"sink\n" + b"x" * size)
    sock.shutdown(socket.SHUT_WR)
    return received(sock).decode()


def token(sock: socket.socket) -> int:
    """An end's token, of its struct mptcp_info."""
    return struct.unpack_from("=I", sock.getsockopt(SOL_MPTCP, INFO, 128), 12)[0]


def counters() -> None:
    """What the kernel counted of Multipath TCP."""
    names, values = [line.split()[1:] for line in open("/proc/net/netstat") if line.startswith("MPTcpExt")]
    say("counted:", " ".join(f"{name}={value}" for name, value in zip(names, values) if value != "0"))


class Server:
    """One thread a connection, which reads lines until one of them has its own way of ending:

    run COMMAND, token: answers, and goes on           sink: counts to the end, and says how many
    source N: N bytes, and waits for the client's end  echo
    abort N: reads N bytes, then ends without mercy    unread T: after T seconds ends and leaves what came
    hold T: T seconds                                  quiet N: half of the connection's end, then N bytes
    """

    def __init__(self) -> None:
        for port in (*PORTS, PLAIN):
            for of, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                listener = made(of, 0 if port == PLAIN else MPTCP)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if of == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 8)
                listener.bind((address, port))
                listener.listen(16)
                threading.Thread(target=self.accept, args=[listener]).start()
        say("serves")

    def accept(self, listener: socket.socket) -> None:
        while True:
            sock, peer = listener.accept()
            threading.Thread(target=self.connection, args=[sock, peer]).start()

    def connection(self, sock: socket.socket, peer: tuple) -> None:
        try:
            with sock, sock.makefile("rb") as lines:
                while line := lines.readline():
                    verb, _, word = line.decode(errors="replace").strip().partition(" ")
                    if getattr(self, verb)(sock, lines, word):
                        break
        except (OSError, ValueError, AttributeError) as error:
            say(peer, error)

    def run(self, sock, lines, word) -> bool:
        sock.sendall(sh(word).encode())
        return True

    def token(self, sock, lines, word) -> bool:
        sock.sendall(str(token(sock)).encode())
        return False

    def sink(self, sock, lines, word) -> bool:
        count = 0
        while more := lines.read1(1 << 16):
            count += len(more)
        sock.sendall(str(count).encode())
        return True

    def source(self, sock, lines, word) -> bool:
        sock.sendall(b"y" * int(word))
        sock.shutdown(socket.SHUT_WR)
        lines.read()
        return True

    def echo(self, sock, lines, word) -> bool:
        while more := lines.read1(1 << 16):
            sock.sendall(more)
        return True

    def abort(self, sock, lines, word) -> bool:
        lines.read(int(word))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return True

    def unread(self, sock, lines, word) -> bool:
        time.sleep(float(word))
        return True

    def hold(self, sock, lines, word) -> bool:
        time.sleep(float(word))
        return True

    def quiet(self, sock, lines, word) -> bool:
        sock.shutdown(socket.SHUT_RD)
        sock.sendall(b"z" * int(word))
        return True


# Generic netlink, family mptcp_pm. Attributes of a message, and of an address in it.
ADDR, ACCEPTED, SUBFLOWS, TOKEN, LOC_ID, REMOTE = 1, 2, 3, 4, 5, 6
FAMILY, ID, ADDR4, ADDR6, ADDR_PORT, FLAGS, DEVICE = 1, 2, 3, 4, 5, 6, 7
ADD_ADDR, DEL_ADDR, GET_ADDR, FLUSH, SET_LIMITS, GET_LIMITS, SET_FLAGS, ANNOUNCE, REMOVE, CREATE, DESTROY = range(1, 12)
SIGNAL, SUBFLOW, BACKUP, FULLMESH = 1, 2, 4, 8
REQUEST, ACK, DUMP, NESTED = 1, 4, 0x300, 0x8000


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3fff] = data[4:length]
        data = data[(length + 3) & ~3:]
    return found


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def endpoint(kind: int = ADDR, address: str = "", id: int | None = None, port: int = 0, flags: int = 0, device: int = 0) -> bytes:
    inside = b""
    if address:
        inside += attribute(FAMILY, struct.pack("=H", family(address)))
        inside += attribute(ADDR6 if ":" in address else ADDR4, socket.inet_pton(family(address), address))
    if id is not None:
        inside += u8(ID, id)
    if port:
        inside += attribute(ADDR_PORT, struct.pack("=H", port))
    if flags:
        inside += u32(FLAGS, flags)
    if device:
        inside += attribute(DEVICE, struct.pack("=i", device))
    return attribute(kind | NESTED, inside)


class Netlink:
    """A socket of netlink: a message, and the answers to it."""

    def __init__(self, protocol: int) -> None:
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self.sock.bind((0, 0))
        self.number = 0

    def ask(self, kind: int, flags: int, body: bytes) -> list[bytes]:
        """The bodies of the answers; OSError when the kernel refuses."""
        self.number += 1
        self.sock.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | flags, self.number, 0) + body)
        found = []
        while True:
            data = self.sock.recv(1 << 16)
            while len(data) >= 16:
                length, kind, flag, _, _ = struct.unpack_from("=IHHII", data)
                body, data = data[16:length], data[(length + 3) & ~3:]
                if kind == 2:
                    error = -struct.unpack_from("=i", body)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                    return found
                if kind == 3:
                    return found
                found.append(body)
                if not flag & 2 and not flags & ACK:
                    return found


class Manager(Netlink):
    """The kernel's path manager, by its commands."""

    def __init__(self) -> None:
        super().__init__(16)
        [answer] = self.ask(16, 0, struct.pack("=BBH", 3, 1, 0) + attribute(2, b"mptcp_pm\0"))
        family_of = attributes(answer[4:])
        self.family = struct.unpack("=H", family_of[1])[0]
        groups = [attributes(group) for group in attributes(family_of[7]).values()]
        self.groups = {group[1].rstrip(b"\0").decode(): struct.unpack("=I", group[2])[0] for group in groups}

    def do(self, command: int, *parts: bytes, flags: int = ACK):
        return self.ask(self.family, flags, struct.pack("=BBH", command, 1, 0) + b"".join(parts))

    def attempt(self, what: str, command: int, *parts: bytes, flags: int = ACK):
        return attempt(what, lambda: len(self.do(command, *parts, flags=flags)))

    def listen(self) -> None:
        """The events, as they come."""
        self.sock.setsockopt(SOL_NETLINK, 1, self.groups["mptcp_pm_events"])
        while True:
            data = self.sock.recv(1 << 16)
            say("event", data[16], {kind: value.hex() for kind, value in attributes(data[20:]).items()})


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        Server()
    elif sys.argv[1:] == ["events"]:
        Manager().listen()
