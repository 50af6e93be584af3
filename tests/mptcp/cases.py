"""Rows of the matrix, as data: what the two ends do, who they are, over which addresses, with whose checksums, on which wire."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable

from . import ends

FULL = bool(os.environ.get("FULL"))
# All rows of the matrix, of which ONLY chooses, and not the short form's.
EVERYTHING = FULL or bool(os.environ.get("ONLY"))
PORT = 5000
# Protocols of socket(2): programs on weft know nothing of Multipath TCP, those on Linux ask for it.
PLAIN, MPTCP = "0", "262"

WEFT_WEFT, WEFT_LINUX, LINUX_WEFT, LINUX_LINUX = "weft-weft", "weft-linux", "linux-weft", "linux-linux"
# FAMILY of ends.py for client and server, and what the server binds.
FAMILIES = {"v4": ("4", "4", "0.0.0.0"), "v6": ("6", "6", "::"), "mapped": ("4", "any", "::")}
# Sockets that take subflows of both families, which those of IPv4 on Linux do not: for paths of both.
FAMILIES_OF_BOTH = {"v4 and v6": ("6", "any", "::"), "v6 and v4": ("6", "any", "::")}
# Who wants checksums: with one end that does, both send them.
CHECKSUMS = {"no checksum": "", "checksum by weft": "weft", "checksum by Linux": "linux"}
CLEAN, LOSSY = "clean", "lossy"
# All but those that are for several paths.
OF_OTHER_ROWS = ("long", "steady", "small", "client after a pause", "server after a pause")
KINDS = tuple(kind for kind in ends.KINDS if kind not in OF_OTHER_ROWS)


class Named:
    """A row that is named by its fields; `pair` is CLIENT-SERVER."""

    pair: str

    @property
    def name(self) -> str:
        return "/".join(dataclasses.astuple(self))

    @property
    def hosts(self) -> tuple[str, str]:
        """Client and server."""
        client, server = self.pair.split("-")
        return client, server


@dataclasses.dataclass(frozen=True)
class Case(Named):
    """One row."""

    kind: str
    pair: str
    family: str = "v4"
    checksum: str = "no checksum"
    wire: str = CLEAN

    @property
    def makes_sense(self) -> bool:
        """A checksum that neither end wants is no other row. A reset that is lost nobody repeats: who only reads would wait for ever, Linux's, too."""
        return CHECKSUMS[self.checksum] in ("", *self.hosts) and (self.kind, self.wire) != ("killed-unread", LOSSY)

    @property
    def kill_seconds(self) -> int:
        """After how long a client is killed: when the connection is there, though its SYN or an ARP request is lost."""
        return 5 if self.wire == LOSSY else 1

    def wants_checksum(self, host: str) -> bool:
        return CHECKSUMS[self.checksum] == host


def matrix(pairs: Iterable[str], wires: Iterable[str]) -> list[Case]:
    cases = [Case(*of) for of in itertools.product(KINDS, pairs, FAMILIES, CHECKSUMS, wires)]
    return [case for case in cases if case.makes_sense]


def protocol(host: str) -> str:
    return MPTCP if host == "linux" else PLAIN


def end_words(role: str, kind: str, family: str, protocol: str, address: str, port: int = PORT) -> list[str]:
    """Arguments of ends.py; `address`: the server's, which a client wants."""
    client_family, server_family, bind = (FAMILIES | FAMILIES_OF_BOTH)[family]
    if role == "server":
        return ["server", kind, server_family, protocol, bind, str(port)]
    return ["client", kind, client_family, protocol, address, str(port)]


# Peers that do not speak it: everything arrives all the same.


@dataclasses.dataclass(frozen=True)
class Fallback:
    """`plain`: the end that does not speak it. `enabled`: its host does, but its program asks for a TCP socket."""

    pair: str
    plain: str
    enabled: bool

    @property
    def counted(self) -> dict[str, int]:
        """What the other end counts."""
        if self.plain == "server":
            return {"MPCapableSYNTX": 1, "MPCapableFallbackSYNACK": 1}
        return {"MPCapableSYNRX": 0, "MPCapableACKRX": 0}


FALLBACKS = {
    "Linux's server has a TCP socket": Fallback(WEFT_LINUX, "server", True),
    "Linux's server has net.mptcp.enabled=0": Fallback(WEFT_LINUX, "server", False),
    "Linux's client has a TCP socket": Fallback(LINUX_WEFT, "client", True),
    "Linux's client has net.mptcp.enabled=0": Fallback(LINUX_WEFT, "client", False),
    "weft's server has no mptcp": Fallback(LINUX_WEFT, "server", False),
    "weft's client has no mptcp": Fallback(WEFT_LINUX, "client", False),
    "one weft has no mptcp": Fallback(WEFT_WEFT, "server", False),
}

# Boxes on the way, as `weft help block NAME` has them.


@dataclasses.dataclass(frozen=True)
class Box:
    """`client`, `server`: what they count where the box makes the connection plain TCP; else it stays as it is."""

    words: str
    client: dict[str, int] = dataclasses.field(default_factory=dict)
    server: dict[str, int] = dataclasses.field(default_factory=dict)


BOXES = {
    "renumbers": Box("shift_sequence"),
    "splits": Box("split segment_bytes=700"),
    "joins": Box("coalesce"),
    "strips": Box("strip_options options=30", {"MPCapableFallbackSYNACK": 1}, {"MPCapableSYNRX": 0}),
    "strips the answers": Box("strip_options options=30 direction=to_opener", {"MPCapableFallbackSYNACK": 1}, {"MPCapableFallbackACK": 1}),
}

# Two paths: each end's second address is one more for the connection. The client opens a subflow from it, the server announces it.

ENDPOINT_WORDS = {"client": "subflow", "server": "signal"}
LIMITS = "ip mptcp limits set subflow 4 add_addr_accepted 4"
SCHEDULERS = ("default", "lowest-rtt", "round-robin", "redundant", "backup", "blest", "ecf")
# Those that use both paths to send more.
SPREADING = ("default", "lowest-rtt", "round-robin", "blest", "ecf")
# Of the bytes on both wires, and of what one wire could carry.
SHARE_MIN, GAIN_MIN = 0.2, 1.5


def weft_endpoints(role: str, *of: tuple[str, str]) -> dict[str, list[str]]:
    """How a weft node is told of its further addresses, each with its interface: parameters of its stack."""
    return {"mptcp.endpoints": [f"{address} dev {interface} {ENDPOINT_WORDS[role]}" for address, interface in of]}


def linux_endpoints(role: str, *of: tuple[str, str]) -> list[str]:
    """The same for Linux: commands of ip."""
    return [LIMITS, *(f"ip mptcp endpoint add {address} dev {interface} {ENDPOINT_WORDS[role]}" for address, interface in of)]
