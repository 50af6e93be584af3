"""Where a row of the table runs: a server and a client, each on weft's stack or on the kernel's.

Namespace S holds the kernel peer (and the daemon with its TAP), namespace P the programs under weft, whose own kernel
must not send anything: its counters are checked after each row. In native mode a veth pair takes the TAP's place with
the same addresses, so a row's body is the same: kernel against kernel is the oracle of each row.

role      server                     client
client    in S, on the kernel        in P, under weft
server    in P, under weft           in S, on the kernel
both      in P, under weft           in P, under weft
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness import weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure, Process, snmp

from .shared import Shared

ROLES = ("client", "server", "both")
# A canary's client finds the stack cut; most would wait for minutes.
CANARY_SECONDS = 3.0

# Counters of P's kernel that move only when a program used it.
_SILENT = ("TcpActiveOpens", "TcpPassiveOpens", "TcpOutSegs", "UdpOutDatagrams", "UdpInDatagrams")


@dataclasses.dataclass(frozen=True)
class Site:
    """A place for a program: the words that lead there, the address that others reach it by."""

    words: list[str]
    address: str
    under_weft: bool


class Stage:
    """One row, one role: namespaces, perhaps a daemon, and the processes of the row."""

    def __init__(self, env: Environment, shared: Shared, role: str, native: bool, canary: bool) -> None:
        self.env = env
        self.shared = shared
        self.role = role
        self.native = native
        self._canary = canary
        self.was_cut = False
        self._s, self._p = env.namespace("s"), env.namespace("p")
        self._daemon: weft.Daemon | None = None
        self.program, self.peer = self._sites_native() if native else self._sites_weft()
        self.server = self.peer if role == "client" else self.program
        self.client = self.peer if role == "server" else self.program

    def _sites_native(self) -> tuple[Site, Site]:
        veth((self._s, weft.TAP), (self._p, "eth0"))
        self._s.ip("address", "add", f"{weft.HOST}/{weft.PREFIX_LENGTH}", "dev", weft.TAP)
        self._p.ip("address", "add", f"{weft.STACK}/{weft.PREFIX_LENGTH}", "dev", "eth0")
        self._p.ip("route", "add", "default", "via", weft.HOST)
        return Site(self._p.prefix, weft.STACK, False), Site(self._s.prefix, weft.HOST, False)

    def _sites_weft(self) -> tuple[Site, Site]:
        self._daemon = weft.Daemon(self.env, self._s)
        # A process that only waits there: through it the counters of P are read.
        self._watch = self.env.start("p-holder", ["sleep", "infinity"], self._p)
        program = Site([*self._p.prefix, *self._daemon.run_words()], weft.STACK, True)
        return program, Site(self._daemon.host_side, weft.HOST, False)

    def start_server(self, name: str, argv: list[str], port: int, protocol: str = "tcp", stdin: Path | None = None,
                     **variables: str) -> Process:
        """Starts the row's server and waits until it listens."""
        process = self.env.start(name, argv, self.server.words, stdin, **variables)
        if self.server.under_weft:
            assert self._daemon is not None
            self._daemon.wait_listening(process, port, protocol)
        else:
            self.env.wait_listening(process, port, protocol)
        return process

    def run_client(self, name: str, argv: list[str], timeout_s: float = 40, stdin: Path | None = None,
                   **variables: str) -> str:
        """Runs a client to its end; Failure unless its status is 0. In a canary, the stack is cut right before."""
        if self._canary:
            if not self.was_cut:
                self._cut()
            timeout_s = CANARY_SECONDS
        return self.env.run(name, argv, self.client.words, timeout_s, stdin, **variables)

    def _cut(self) -> None:
        """Takes the program's stack off the network: its transports from ip4, or its interfaces down."""
        if self._daemon is not None:
            self._daemon.unbind(weft.TRANSPORT_EDGES)
        else:
            for interface in ("eth0", "lo"):
                self._p.ip("link", "set", interface, "down")
        self.was_cut = True

    def finish(self) -> None:
        """What must hold after a row: the kernel of the programs' namespace sent and received nothing."""
        if self._daemon is None:
            return
        counters = snmp(self._watch.pid)
        moved = {name: counters[name] for name in _SILENT if counters[name]}
        if moved:
            raise Failure(f"the kernel of the program's namespace took part: {moved}")
        if not self._daemon.process.running:
            raise Failure(f"the daemon ended with status {self._daemon.process.status}")


def want(condition: bool, text: str) -> None:
    """Failure with `text` unless `condition` holds."""
    if not condition:
        raise Failure(text)


def want_equal(what: str, found: object, wanted: object) -> None:
    want(found == wanted, f"{what}: found {found!r}, wanted {wanted!r}")
