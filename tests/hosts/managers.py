"""A path manager in user space: each of its commands, with what is right and what is wrong, and what happens then."""

import ctypes
import itertools
import socket
import struct
import time

from generic import ACK, BACKUP, DUMP, FULLMESH, LOC_ID, REMOTE, SIGNAL, SUBFLOW, TOKEN, Events, Manager, end, number

MPTCP, SOL_MPTCP = 262, 284
libc = ctypes.CDLL(None, use_errno=True)
UNKNOWN = 0xFFFFFFFF
manager = Manager()
events = Events(manager)


def token(s):
    return struct.unpack_from("=I", s.getsockopt(SOL_MPTCP, 1, 128), 12)[0]


def info(s):
    """Subflows, announced, accepted, local addresses in use; all subflows."""
    data = s.getsockopt(SOL_MPTCP, 1, 128)
    return *data[:3], data[40], data[80]


class Pair:
    """A connection with itself over the loopback."""

    def __init__(self, name, host, other, family=None, to=None, quiet=False):
        self.name, self.host, self.other = name, host, other
        family = family or (socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.listener = socket.socket(family, socket.SOCK_STREAM, MPTCP)
        self.listener.bind(("::" if to else host, 0))
        self.listener.listen(8)
        self.port = self.listener.getsockname()[1]
        self.client = socket.socket(family, socket.SOCK_STREAM, MPTCP)
        self.client.connect((to or host, self.port))
        self.server = self.listener.accept()[0]
        events.ports[self.port] = "the listener's"
        self.talk()
        self.of, self.its = token(self.client), token(self.server)
        events.names.update({self.of: "client", self.its: "server"})
        if quiet:
            events.seen()
        else:
            self.tell("opened")

    def talk(self):
        for _ in range(2):
            for one, other in ((self.client, self.server), (self.server, self.client)):
                one.sendall(b"x" * 5000)
                got = 0
                while got < 5000:
                    got += len(other.recv(5000 - got))

    def tell(self, what):
        for line in events.told():
            print(f"{self.name}: {what}: {line}")
        print(f"{self.name}: {what}", info(self.client), info(self.server))

    def do(self, verb, *parts, whose="client", **words):
        """A command of the client's, or the server's, and what happens then."""
        of = self.of if whose == "client" else self.its
        print(f"{self.name}: {whose} {verb} {({**words, 'to_port': 'P'} if 'to_port' in words else words)}", manager.does(verb, number(TOKEN, of), *made(words), *parts))
        self.talk()
        self.tell(f"{whose} {verb}")

    def close(self):
        self.client.close()
        time.sleep(0.1)
        self.server.close()
        time.sleep(0.1)
        self.listener.close()
        # Of both ends, and of the listener.
        for line in events.told(0.5, wanted=3):
            print(f"{self.name}: closed: {line}")


def made(words):
    """Attributes of words: those of the local address, and remote ones with a prefix."""
    parts = []
    if "removes" in words:
        parts += [number(LOC_ID, words["removes"], "B")]
    local = {name: value for name, value in words.items() if name in ("address", "id", "port", "flags", "device", "of", "data")}
    remote = {name.removeprefix("to_"): value for name, value in words.items() if name.startswith("to_")}
    parts += [end(**local)] if local else []
    parts += [end(REMOTE, **remote)] if remote else []
    return parts


def addresses(s):
    """Both ends of each subflow, the first one first (MPTCP_SUBFLOW_ADDRS)."""
    room = ctypes.create_string_buffer(struct.pack("4I", 16, 0, 0, 256) + bytes(8 * 256), 16 + 8 * 256)
    length = ctypes.c_uint32(len(room))
    if libc.getsockopt(s.fileno(), SOL_MPTCP, 3, room, ctypes.byref(length)):
        return []
    count = struct.unpack_from("4I", room)[1]

    def one(at):
        family = struct.unpack_from("=H", room, at)[0]
        port = struct.unpack_from("!H", room, at + 2)[0]
        data = room.raw[at + 4 : at + 8] if family == socket.AF_INET else room.raw[at + 8 : at + 24]
        return socket.inet_ntop(family, data), port

    return [(one(16 + 256 * each), one(144 + 256 * each)) for each in range(count)]


def mistakes(pair):
    """Each command: with nothing, with a token that is right or nobody's, and with addresses that lack something."""
    other = "fd99::1" if "." in pair.host else "10.99.0.1"
    verbs = ("announce", "remove", "create", "destroy", "flags", "get")
    some = ({}, {"address": pair.other, "id": 9}, {"address": pair.other, "id": 9, "to_address": pair.host, "to_port": pair.port}, {"removes": 9},
            {"id": 9}, {"to_address": pair.host})
    for verb, words, whose in itertools.product(verbs, some, ("none", "unknown", "client")):
        of = {"none": [], "unknown": [number(TOKEN, UNKNOWN)], "client": [number(TOKEN, pair.of)]}[whose]
        if verb == "create" and whose == "client" and "to_port" in words or verb == "announce" and whose == "none" and not words:
            continue
        print(f"{pair.name}: {verb} {sorted(words)} of {whose}:", manager.does(verb, *of, *made(words)))
    whole = {"address": pair.other, "id": 3}
    to = {"to_address": pair.host, "to_port": pair.port}
    wrong = [
        ("announce", {"address": pair.other, "id": 0, "flags": SIGNAL}), ("announce", {"address": pair.other, "flags": SIGNAL}), ("announce", whole),
        ("announce", {**whole, "flags": SUBFLOW}), ("announce", {**whole, "of": 1, "flags": SIGNAL}), ("announce", {"id": 3, "of": 2, "flags": SIGNAL}),
        ("announce", {"id": 3, "flags": SIGNAL}), ("announce", {"id": 3, "of": 10, "flags": SIGNAL}), ("announce", {**whole, "of": 0, "flags": SIGNAL}),
        ("remove", {"removes": 99}),
        ("create", {**whole, **to, "flags": SIGNAL}), ("create", {**whole, "to_address": other, "to_port": 7}), ("create", {**to, "address": other, "id": 4}),
        ("create", {**whole, "to_port": 7}), ("create", {"id": 4, **to}), ("create", {**whole, **to, "to_of": 1}), ("create", {**whole, **to, "of": 1}),
        ("destroy", {"address": pair.host, "port": 1, "to_address": other, "to_port": 2}), ("destroy", {"address": pair.host, "port": 1, "to_address": pair.host, "to_port": 2}),
        ("destroy", {"address": pair.host, "to_address": pair.host, "to_port": 2}), ("destroy", {"address": pair.host, "port": 1, "to_address": pair.host}),
        ("destroy", {"id": 1, "port": 1, "to_address": pair.host}), ("destroy", {"address": pair.host, "port": 1, "to_id": 1}),
        ("flags", {"address": pair.host, "to_address": pair.host, "to_port": 1}), ("flags", {"id": 1, "to_address": pair.host}), ("flags", {"address": pair.host, "to_id": 1}),
        ("flags", {"address": pair.other, "to_address": pair.host, "flags": BACKUP}), ("get", {"id": 99}), ("get", {"address": pair.other}),
    ]
    for verb, words in wrong:
        print(f"{pair.name}: {verb} {words.keys() - to.keys() and sorted(words.items() - to.items(), key=str)} {'there' if to.items() <= words.items() else ''}:",
              manager.does(verb, number(TOKEN, pair.of), *made(words)))
    for of in (None, UNKNOWN, pair.of):
        print(f"{pair.name}: list of {'none' if of is None else 'unknown' if of == UNKNOWN else 'client'}:",
              manager.does("get", *([] if of is None else [number(TOKEN, of)]), flags=DUMP | ACK))
    pair.tell("after mistakes")


def managed(pair):
    """One connection, and all that can be done to it from this end and the other."""
    here, there = pair.host, pair.other
    pair.do("announce", address=there, id=5, flags=SIGNAL)
    pair.do("announce", address=there, id=5, flags=SIGNAL)
    pair.do("announce", address=there, id=6, flags=SIGNAL)
    pair.do("announce", address=here, id=5, flags=SIGNAL)
    # Of IPv6 there is no room for it beside timestamps on Linux.
    pair.do("announce", address=there, id=7, flags=SIGNAL | BACKUP, **({"port": 5566} if "." in there else {}))
    pair.do("create", address=there, id=5, to_address=here, to_port=pair.port)
    pair.do("create", address=there, id=8, to_address=here, to_port=pair.port, flags=BACKUP)
    pair.do("create", address=there, id=5, to_address=here, to_port=pair.port, flags=FULLMESH)
    pair.do("get", id=5)
    pair.do("get", id=7)
    print(f"{pair.name}: list:", manager.does("get", number(TOKEN, pair.of), flags=DUMP | ACK))
    print(f"{pair.name}: list of the server's:", manager.does("get", number(TOKEN, pair.its), flags=DUMP | ACK))
    first, *more = addresses(pair.client)
    for flags in (BACKUP, 0):
        for local, remote in (first, *more[:1]):
            words = {"address": local[0], "to_address": remote[0], "flags": flags}
            print(f"{pair.name}: flags {flags} of {local[0]}", manager.does("flags", number(TOKEN, pair.of), *made({**words, "port": local[1], "to_port": remote[1]})),
                  manager.does("flags", number(TOKEN, pair.of), *made(words)))
            pair.talk()
            pair.tell("flags")
    for local, remote in more:
        print(f"{pair.name}: destroy", manager.does("destroy", number(TOKEN, pair.of), *made({"address": local[0], "port": local[1], "to_address": remote[0], "to_port": remote[1]})))
        pair.talk()
        pair.tell("destroy")
    pair.do("remove", removes=5)
    pair.do("remove", removes=5)
    pair.do("remove", removes=7)
    pair.do("announce", whose="server", address=there, id=3, flags=SIGNAL)
    pair.do("remove", whose="server", removes=3)
    pair.do("create", address=there, id=9, to_address=here, to_port=1)
    pair.do("remove", removes=9)
    mistakes(pair)
    pair.do("create", address=there, id=9, to_address=here, to_port=pair.port)
    pair.do("remove", removes=0)
    pair.do("remove", removes=0)


def failing(pair):
    """What cannot be connected, and words that are taken as they are."""
    to = {"to_address": pair.host, "to_port": pair.port}
    pair.do("create", **to, address="10.77.0.1", id=4)
    pair.do("create", address=pair.other, id=4, to_address="10.9.9.9", to_port=pair.port)
    pair.do("create", **to, address="127.0.0.10", id=11, device=99)
    pair.do("create", **to, address="127.0.0.4")
    pair.do("create", **to, address="127.0.0.5", id=0)
    pair.do("create", **to, address="127.0.0.7", id=7, port=4444, to_id=9)
    pair.do("create", **to, address="127.0.0.7", id=77, port=4444)
    pair.do("create", **to, address="127.0.0.1", id=8, flags=BACKUP)
    pair.do("create", **to, address="127.0.0.9", id=10, device=1)
    pair.do("announce", address="10.1.1.1", id=24, flags=0xFFFFFFFF)
    pair.do("announce", address="10.1.1.2", id=25, flags=SIGNAL, device=55)
    print(f"{pair.name}: list:", manager.does("get", number(TOKEN, pair.of), flags=DUMP | ACK))


def mapped(local, remote):
    """IPv4 by a connection of IPv6, with addresses of either form."""
    pair = Pair(f"{local} {remote}", "::1", local, socket.AF_INET6, "::ffff:127.0.0.1", quiet=True)
    print(f"{pair.name}: create", manager.does("create", number(TOKEN, pair.of), *made({"address": local, "id": 3, "to_address": remote, "to_port": pair.port})))
    pair.talk()
    events.seen()
    print(f"{pair.name}: {len(addresses(pair.client))} subflows")
    here, there = addresses(pair.client)[1]
    for one, other in itertools.product(("127.0.0.2", "::ffff:127.0.0.2"), ("127.0.0.1", "::ffff:127.0.0.1")):
        words = {"address": one, "port": here[1], "to_address": other, "to_port": there[1]}
        print(f"{pair.name}: destroy {one} {other}", manager.does("destroy", number(TOKEN, pair.of), *made(words)))
    for one in (pair.client, pair.server, pair.listener):
        one.close()
    events.seen(0.4)


def unheard(pair):
    """What a peer announces and joins while nobody listens to events."""
    events.socket.close()
    time.sleep(0.1)
    for verb, words in (("announce", {"address": "127.0.0.5", "id": 3, "flags": SIGNAL}), ("create", {"address": "127.0.0.6", "id": 4, "to_address": pair.host, "to_port": pair.port})):
        print("unheard:", verb, manager.does(verb, number(TOKEN, pair.of), *made(words)))
        pair.talk()
        time.sleep(0.3)
    print("unheard:", info(pair.client), info(pair.server))


def main():
    for name, host, other in (("4", "127.0.0.1", "127.0.0.2"), ("6", "::1", "::1")):
        pair = Pair(name, host, other)
        managed(pair)
        pair.close()
    pair = Pair("more", "127.0.0.1", "127.0.0.2")
    failing(pair)
    pair.close()
    for local, remote in itertools.product(("127.0.0.2", "::ffff:127.0.0.2"), ("127.0.0.1", "::ffff:127.0.0.1")):
        mapped(local, remote)
    unheard(Pair("unheard", "127.0.0.1", "127.0.0.2"))


main()
