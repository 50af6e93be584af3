"""Subflows as programs are told of them one by one: their numbers, what sock_diag(7) says of each, and what went again when one was stuck."""

import ctypes
import socket
import struct
import subprocess
import time

from generic import BACKUP, REMOTE, SIGNAL, TOKEN, Events, Manager, attributes, end, number

MPTCP, SOL_MPTCP, INFO, FULL_INFO = 262, 284, 1, 4
# sock_diag(7): the request, INET_DIAG_*, INET_ULP_INFO_*.
SOCK_DIAG, BY_FAMILY, DUMP, DONE = 4, 20, 0x301, 3
DIAG_INFO, ULP_INFO, ULP_MPTCP = 2, 19, 3
# MPTCP_SUBFLOW_ATTR_*.
TOKEN_REM, TOKEN_LOC, WRITTEN, MAP, MAP_HERE, OFFSET, MAP_LENGTH, FLAGS, ID_REM, ID_LOC = range(1, 11)
# What it says of the last mapping that has come, and of what was written.
OF_THE_MAP = {WRITTEN: "written", MAP: "map", MAP_HERE: "here", OFFSET: "offset", MAP_LENGTH: "length"}
TIME_WAIT, CLOSE = 6, 7
SUBFLOWS_MAX = 20
INFO_BYTES, SUBFLOW_BYTES = 96, 264
libc = ctypes.CDLL(None, use_errno=True)
manager = Manager()
# Linux refuses joins while nobody listens.
events = Events(manager)


def told():
    """Of each socket of TCP its ends, its state and what its ULP says."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG)
    request = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 1 << (DIAG_INFO - 1), 0, 0xFFFFFFFF) + bytes(48)
    s.send(struct.pack("=IHHII", 16 + len(request), BY_FAMILY, DUMP, 7, 0) + request)
    found = []
    while True:
        data = s.recv(1 << 16)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            one, data = data[16:length], data[(length + 3) & ~3 :]
            if kind == DONE:
                return found
            ports = struct.unpack_from("!HH", one, 4)
            ends = [(socket.inet_ntoa(one[at : at + 4]), port) for at, port in zip((8, 24), ports, strict=True)]
            found.append((*ends, one[1], attributes(attributes(one[72:]).get(ULP_INFO, b""))))


class Pair:
    """A connection with itself."""

    def __init__(self, text, host):
        self.text, self.host = text, host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener, self.client = (socket.socket(family, socket.SOCK_STREAM, MPTCP) for _ in range(2))
        self.listener.bind((host, 0))
        self.listener.listen(8)
        self.client.bind((host, 0))
        self.client.connect(self.listener.getsockname()[:2])
        self.server = self.listener.accept()[0]
        self.here, self.there = self.client.getsockname()[1], self.listener.getsockname()[1]
        self.talk()
        self.tokens = {struct.unpack_from("=I", info(s), 12)[0]: name for name, s in (("client", self.client), ("server", self.server))}
        self.maps = {}

    def talk(self):
        for one, other in ((self.client, self.server), (self.server, self.client)):
            one.sendall(b"x" * 1000)
            received(other, 1000)

    def does(self, verb, *parts, whose="client"):
        of = next(token for token, name in self.tokens.items() if name == whose)
        print(f"{self.text}: {whose} {verb}", manager.does(verb, number(TOKEN, of), *parts))

    def joins(self, address, id, port=0, to=0):
        """One more from there, by which both have heard of all."""
        self.does("create", end(address=address, id=id, **({"port": port} if port else {})), end(REMOTE, self.host, port=to or self.there))
        wait(lambda: [one for one in told() if one[0][0] == address and one[2] == 1] or to)
        self.talk()
        time.sleep(0.2)

    def shows(self):
        """What sock_diag says of each, in the order of the alphabet."""
        every = [(local, remote, attributes(ulp.get(ULP_MPTCP, b""))) for local, remote, _, ulp in told()]
        for line in sorted(f"{self.text}: {self.named(*local)} to {self.named(*remote)}: {self.words(words)}" for local, remote, words in every if words):
            print(line)

    def named(self, address, port):
        return f"{address} {'listener' if port == self.there else 'client' if port == self.here else 'other'}"

    def words(self, said):
        said = {kind: int.from_bytes(value, "little") for kind, value in said.items()}
        here, there = (self.tokens.get(said[kind], said[kind]) for kind in (TOKEN_LOC, TOKEN_REM))
        if MAP in said:
            # Of what stands on the wire only how it goes on.
            said[MAP] -= self.maps.setdefault(here, said[MAP])
            said[OFFSET] = said[OFFSET] != 0
        of_map = (f"{name}={said[kind]}" for kind, name in OF_THE_MAP.items() if kind in said)
        return " ".join((f"of={here} with={there} flags={said[FLAGS]} from={said[ID_LOC]} to={said[ID_REM]}", *of_map))

    def close(self):
        for one in (self.client, self.server, self.listener):
            one.close()


def received(s, count):
    while count > 0:
        count -= len(s.recv(count))


def wait(done):
    """For what the other threads of a kernel or a stack do."""
    for _ in range(100):
        if done():
            return
        time.sleep(0.05)


def info(s):
    return s.getsockopt(SOL_MPTCP, INFO, INFO_BYTES)


def sent_again(s):
    """mptcpi_bytes_retrans: was there something?"""
    return struct.unpack_from("=Q", info(s), 48)[0] > 0


def total(s):
    """mptcpi_subflows_total."""
    return info(s)[80]


def numbers(s):
    """Of its subflows, as MPTCP_FULL_INFO has them."""
    return [number for number, _ in listed(s)]


def listed(s):
    """Number and state of each."""
    flows, tcp = ctypes.create_string_buffer(SUBFLOWS_MAX * SUBFLOW_BYTES), ctypes.create_string_buffer(SUBFLOWS_MAX * 8)
    head = struct.pack("=6I2Q", 0, 8, 0, SUBFLOW_BYTES, 0, SUBFLOWS_MAX, ctypes.addressof(flows), ctypes.addressof(tcp))
    value = ctypes.create_string_buffer(head, len(head) + INFO_BYTES)
    assert libc.getsockopt(s.fileno(), SOL_MPTCP, FULL_INFO, value, ctypes.byref(ctypes.c_uint32(len(value)))) == 0
    count = struct.unpack_from("=6I", value)[4]
    return [(struct.unpack_from("=I", flows, SUBFLOW_BYTES * at)[0], tcp.raw[8 * at]) for at in range(count)]


def known():
    """Subflows come and go."""
    pair = Pair("known", "127.0.0.1")
    pair.shows()
    for id, address in ((2, "127.0.0.2"), (3, "127.0.0.3")):
        pair.joins(address, id)
    pair.shows()
    print("known:", numbers(pair.client), numbers(pair.server))
    port = next(local[1] for local, *_ in told() if local[0] == "127.0.0.2")
    pair.does("destroy", end(address="127.0.0.2", port=port), end(REMOTE, "127.0.0.1", port=pair.there))
    states = lambda: [state for local, remote, state, _ in told() if "127.0.0.2" in (local[0], remote[0])]
    wait(lambda: states() in ([], [TIME_WAIT]))
    print("known: states of the one that has ended:", states())
    pair.joins("127.0.0.4", 4)
    pair.joins("127.0.0.5", 5, to=1)
    pair.joins("127.0.0.6", 6)
    print("known: numbers then", numbers(pair.client), numbers(pair.server))
    pair.close()


def first():
    """The first one goes, and the connection goes on."""
    pair = Pair("first", "127.0.0.1")
    pair.joins("127.0.0.2", 2)
    pair.does("destroy", end(address="127.0.0.1", port=pair.there), end(REMOTE, "127.0.0.1", port=pair.here), whose="server")
    # Its other end goes as soon as it has heard so.
    wait(lambda: total(pair.client) == 1 and {state for one in (pair.server, pair.client) for _, state in listed(one)} == {1, CLOSE})
    print("first: total", total(pair.server), total(pair.client), "listed", listed(pair.server), listed(pair.client))
    print("first: ended", sorted(state for local, remote, state, _ in told() if {local[1], remote[1]} == {pair.here, pair.there}))
    pair.close()


def again():
    """A subflow whose address is gone has data that another sends again. Then it ends."""
    ip = lambda *words: subprocess.run(["ip", "addr", *words, "dev", "lo"], check=True)
    for host in ("10.0.0.1", "10.0.0.5"):
        ip("add", f"{host}/32")
    pair = Pair("again", "10.0.0.1")
    pair.joins("10.0.0.5", 5, port=7000)
    ends = end(address=pair.host, port=pair.here, flags=BACKUP), end(REMOTE, pair.host, port=pair.there)
    pair.does("flags", *ends)
    pair.talk()
    ip("del", "10.0.0.5/32")
    pair.client.sendall(b"x" * 5000)
    pair.does("flags", end(address=pair.host, port=pair.here, flags=0), ends[1])
    received(pair.server, 5000)
    print("again:", sent_again(pair.client))
    ip("add", "10.0.0.5/32")
    pair.does("destroy", end(address=pair.host, port=pair.there), end(REMOTE, "10.0.0.5", port=7000), whose="server")
    wait(lambda: len(numbers(pair.client)) == 1)
    # It has been told of its end, too.
    time.sleep(0.5)
    print("again: after its end", sent_again(pair.client))
    pair.close()


def far():
    """Addresses of IPv6 that are announced with a port, and without."""
    pair = Pair("far", "::1")
    events.seen()
    for id, words in ((5, {"port": 5566}), (6, {})):
        pair.does("announce", end(address=f"fd99::{id}", id=id, flags=SIGNAL, **words))
        pair.talk()
        print(f"far: announced {words}:", [struct.unpack("!H", said["toport"])[0] != pair.there for name, said in events.seen() if name == "announced"])
    pair.close()


def main():
    known()
    first()
    again()
    far()


main()
