"""Generic netlink as the path manager of Multipath TCP has it: requests, what they come to, and events."""

import errno
import select
import socket
import struct

GENERIC, CONTROL, SOL_NETLINK, ADD_MEMBERSHIP, CAP_ACK, EXT_ACK = 16, 16, 270, 1, 10, 11
REQUEST, ACK, DUMP, NESTED = 1, 4, 0x300, 0x8000
# MPTCP_PM_CMD_*.
COMMANDS = ("", "add", "delete", "get", "flush", "limit", "limits", "flags", "announce", "remove", "create", "destroy")
# MPTCP_PM_ATTR_*.
ADDR, TOKEN, LOC_ID, REMOTE = 1, 4, 5, 6
SIGNAL, SUBFLOW, BACKUP, FULLMESH = 1, 2, 4, 8
# MPTCP_EVENT_*, and what MPTCP_ATTR_* tell of addresses.
EVENTS = {1: "created", 2: "established", 3: "closed", 6: "announced", 7: "removed", 10: "subflow", 11: "subflow closed", 13: "priority",
          15: "listener", 16: "listener closed"}
NAMES = {1: "token", 2: "family", 3: "local", 4: "remote", 5: "from", 6: "from", 7: "to", 8: "to", 9: "port", 10: "toport", 11: "backup", 12: "error",
         13: "flags", 14: "timeout", 15: "device", 16: "reason", 17: "transient", 18: "server"}


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data):
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def number(kind, value, form="I"):
    return attribute(kind, struct.pack(f"={form}", value))


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def end(kind=ADDR, address="", of=None, data=None, **numbers):
    """An address: `of` instead of its family, `data` instead of itself; id, port, flags, device."""
    inside = b""
    if address or of is not None:
        inside += number(1, family(address) if of is None else of, "H")
    if address:
        six = ":" in address
        inside += attribute(4 if six else 3, socket.inet_pton(family(address), address) if data is None else data)
    for name, (place, form) in {"id": (2, "B"), "port": (5, "H"), "flags": (6, "I"), "device": (7, "i")}.items():
        if name in numbers:
            inside += number(place, numbers[name], form)
    return attribute(kind | NESTED, inside)


def shown(data):
    """An address in an answer."""
    inside = attributes(attributes(data).get(ADDR, b""))
    address = inside.get(3, inside.get(4, b""))
    where = socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address) if address else ""
    return where, *(int.from_bytes(inside.get(kind, b""), "little") for kind in (1, 2, 5, 6, 7))


class Manager:
    """Asks the family mptcp_pm."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
        self.socket.bind((0, 0))
        self.socket.settimeout(5)
        for option in (CAP_ACK, EXT_ACK):
            self.socket.setsockopt(SOL_NETLINK, option, 1)
        told = attributes(self.asked(CONTROL, 3, 0, attribute(2, b"mptcp_pm\0"))[0][4:])
        self.family = int.from_bytes(told[1], "little")
        groups = (attributes(group) for group in attributes(told[7]).values())
        self.groups = {group[1].rstrip(b"\0").decode(): int.from_bytes(group[2], "little") for group in groups}

    def asked(self, kind, command, flags, body):
        """The bodies of the answers; a number and what stands behind it: an error."""
        self.socket.send(struct.pack("=IHHIIBBH", 20 + len(body), kind, REQUEST | flags, 7, 0, command, 1, 0) + body)
        found = []
        while True:
            data = self.socket.recv(1 << 16)
            while len(data) >= 16:
                length, kind, flags_of = struct.unpack_from("=IHH", data)
                one, data = data[16:length], data[(length + 3) & ~3 :]
                if kind in (2, 3):
                    said = attributes(one[4:] if kind == 3 else one[20:]) if flags_of & 0x200 else {}
                    return found, -struct.unpack_from("=i", one)[0], said
                found.append(one)
                if not flags_of & 2 and not flags & ACK:
                    return found if kind == CONTROL else (found, 0, {})

    def does(self, verb, *parts, flags=ACK):
        """What a command comes to, for people."""
        found, error, said = self.asked(self.family, COMMANDS.index(verb), flags, b"".join(parts))
        words = [errno.errorcode.get(error, "done")] if error or not found else []
        words += [repr(said[1].rstrip(b"\0").decode())] if 1 in said else []
        words += [f"misses {int.from_bytes(said[5], 'little')}"] if 5 in said else []
        words += [f"in {int.from_bytes(said[6], 'little')}"] if 6 in said else []
        return " ".join([*words, *(str(shown(one[4:])) for one in found)])


LATE_SECONDS = 5


class Events:
    """What happens; `names` are of tokens, `ports` of listeners."""

    def __init__(self, manager):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
        self.socket.bind((0, 0))
        self.socket.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, manager.groups["mptcp_pm_events"])
        self.names, self.ports = {}, {}

    def seen(self, seconds=0.25, wanted=0):
        """Events as they came, until none comes any more: name, and attributes by name. So many are waited for longer: beside other work they come late."""
        found = []
        while select.select([self.socket], [], [], seconds if len(found) >= wanted else LATE_SECONDS)[0]:
            data = self.socket.recv(1 << 16)
            said = attributes(data[20:])
            found.append((EVENTS.get(data[16], data[16]), {NAMES.get(kind, kind): value for kind, value in said.items()}))
        return found

    def told(self, seconds=0.25, wanted=0):
        """The same as lines, in the order of the alphabet."""
        return sorted(f"{name} {' '.join(self.word(*word) for word in said.items())}" for name, said in self.seen(seconds, wanted))

    def word(self, name, value):
        if name in ("from", "to"):
            return f"{name}={socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)}"
        if name in ("port", "toport"):
            port = int.from_bytes(value, "big")
            return f"{name}={self.ports.get(port, 'other') if port > 9999 else port}"
        told = int.from_bytes(value, "little")
        return f"{name}={self.names.get(told, 'nobody') if name == 'token' else told}"
