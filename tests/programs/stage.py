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

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Failure, Process, snmp, snmp6

from .shared import IPV4, IPV6, Family, Shared

ROLES = ("client", "server", "both")
# A canary's client finds the stack cut; most would wait for minutes.
CANARY_SECONDS = 3.0

# Counters of P's kernel that move only when a program used it.
_SILENT = ("TcpActiveOpens", "TcpPassiveOpens", "TcpOutSegs", "UdpOutDatagrams", "UdpInDatagrams", "IcmpOutMsgs",
           "Udp6OutDatagrams", "Udp6InDatagrams", "Icmp6OutEchos")


@dataclasses.dataclass(frozen=True)
class Site:
    """A place for a program: the words that lead there, the address that others reach it by."""

    words: list[str]
    address: str
    under_weft: bool

    @property
    def host(self) -> str:
        """The address as a URL, and whatever else appends a port, wants it."""
        return f"[{self.address}]" if ":" in self.address else self.address


class Stage:
    """One row, one role: namespaces, perhaps a daemon, and the processes of the row."""

    # The edges whose cut takes programs off the network.
    CUT: tuple[tuple[str, str], ...] = weft.TRANSPORT_EDGES

    def __init__(self, env: Environment, shared: Shared, role: str, native: bool, canary: bool,
                 family: Family = IPV4) -> None:
        self.env = env
        self.shared = shared
        self.role = role
        self.native = native
        self.family = family
        self._canary = canary
        self.was_cut = False
        self._s, self._p = env.namespace("s"), env.namespace("p")
        self._daemon: weft.Daemon | None = None
        self.program, self.peer = self._sites_native() if native else self._sites_weft()
        self.server = self.peer if role == "client" else self.program
        self.client = self.peer if role == "server" else self.program

    def _sites_native(self) -> tuple[Site, Site]:
        veth((self._s, weft.TAP), (self._p, "eth0"))
        family = self.family
        self._address(self._s, weft.TAP, family.host)
        self._address(self._p, "eth0", family.stack)
        self._p.ip("route", "add", "default", "via", family.host)
        return Site(self._p.prefix, family.stack, False), Site(self._s.prefix, family.host, False)

    def _sites_weft(self) -> tuple[Site, Site]:
        self._daemon = self._start_daemon()
        # A process that only waits there: through it the counters of P are read.
        self._watch = self.env.start("p-holder", ["sleep", "infinity"], self._p)
        program = Site([*self._p.prefix, *self._daemon.run_words()], self.family.stack, True)
        return program, Site(self._host_side(), self.family.host, False)

    def _start_daemon(self) -> weft.Daemon:
        if self.family is IPV6:
            self._s.enable_ipv6()
        return weft.Daemon(self.env, self._s)

    def _host_side(self) -> list[str]:
        assert self._daemon is not None
        words = self._daemon.host_side
        if self.family is IPV6:
            # Where weft gives the host's side an IPv6 address itself, this adds nothing.
            add = f"{paths.tool('ip')} address replace {IPV6.host}/{IPV6.bits} dev {weft.TAP} nodad"
            self.env.run("host-address", ["sh", "-c", add], words)
        return words

    def _address(self, namespace: Namespace, interface: str, address: str) -> None:
        """Gives an interface of a namespace an address of this family, usable at once."""
        words = ["address", "add", f"{address}/{self.family.bits}", "dev", interface]
        if self.family is IPV6:
            namespace.enable_ipv6()
            words.append("nodad")
        namespace.ip(*words)

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
            self._daemon.unbind(self.CUT if self.family is IPV4 else weft.ipv6_edges(self.CUT))
        else:
            for interface in ("eth0", "lo"):
                self._p.ip("link", "set", interface, "down")
        self.was_cut = True

    def finish(self) -> None:
        """What must hold after a row: the kernel of the programs' namespace sent and received nothing."""
        if self._daemon is None:
            return
        counters = snmp(self._watch.pid) | snmp6(self._watch.pid)
        moved = {name: counters[name] for name in _SILENT if counters.get(name)}
        if moved:
            raise Failure(f"the kernel of the program's namespace took part: {moved}")
        if not self._daemon.process.running:
            raise Failure(f"the daemon ended with status {self._daemon.process.status}")


class PingStage(Stage):
    """Nothing but echo requests goes over the wire, so the cut is made below the transports."""

    CUT = weft.LINK_EDGES


class StoppedStage(Stage):
    """For a row that asks the stack about itself: the cut ends the stack."""

    def _cut(self) -> None:
        if self._daemon is not None:
            self._daemon.process.stop()
            self.was_cut = True
        else:
            super()._cut()

    def finish(self) -> None:
        if not self.was_cut:
            super().finish()


class RouterStage(Stage):
    """A router between program and peer: a second stack with two TAPs in S (native: a namespace that forwards).

        P ··· weft, TAP weft0 ─ bridge lan ─ r0, TAP [ router, weft ] r1, TAP ─ kernel of S, FAR
    """

    CUT = weft.LINK_EDGES
    FAR = {4: ("10.78.0.1", "10.78.0.254", "10.77.0.254"), 6: ("fd78::1", "fd78::fe", "fd77::fe")}

    @property
    def router(self) -> tuple[str, str]:
        """The router's addresses: on the program's side, on the peer's side."""
        _, far_side, near_side = self.FAR[self.family.version]
        return near_side, far_side

    def _sites_native(self) -> tuple[Site, Site]:
        far, far_side, near_side = self.FAR[self.family.version]
        middle = self.env.namespace("r")
        veth((middle, "r0"), (self._p, "eth0"))
        veth((middle, "r1"), (self._s, "far"))
        for namespace, interface, address in ((self._p, "eth0", self.family.stack), (middle, "r0", near_side),
                                              (middle, "r1", far_side), (self._s, "far", far)):
            self._address(namespace, interface, address)
        self._p.ip("route", "add", "default", "via", near_side)
        self._s.ip("route", "add", "default", "via", far_side)
        middle.sysctl(f"net.ipv{self.family.version}.{'ip_forward' if self.family is IPV4 else 'conf.all.forwarding'}", "1")
        return Site(self._p.prefix, self.family.stack, False), Site(self._s.prefix, far, False)

    def _start_daemon(self) -> weft.Daemon:
        far, far_side, near_side = self.FAR[self.family.version]
        bits = self.family.bits
        name = f"ip{self.family.version}"
        text = weft.stack_file("client", [("weft0", f"{self.family.stack}/{bits}")], default=near_side)
        daemon = weft.Daemon(self.env, self._s, extra=("--stack", self._file("client.toml", text)))
        text = weft.stack_file("router", [("r0", f"{near_side}/{bits}"), ("r1", f"{far_side}/{bits}")]
                               ) + f"[block.{name}]\nforward = true\n"
        self._router = weft.Daemon(self.env, self._s, name="router", extra=("--stack", self._file("router.toml", text)))
        self._s.ip("link", "add", "lan", "type", "bridge")
        for port in ("weft0", "r0"):
            self._s.ip("link", "set", port, "master", "lan")
        for interface in ("lan", "weft0", "r0", "r1"):
            self._s.ip("link", "set", interface, "up")
        self._address(self._s, "r1", far)
        self._s.ip("route", "add", "default", "via", far_side)
        return daemon

    def _host_side(self) -> list[str]:
        return self._s.prefix

    def _sites_weft(self) -> tuple[Site, Site]:
        program, peer = super()._sites_weft()
        return program, dataclasses.replace(peer, address=self.FAR[self.family.version][0])

    def _file(self, name: str, text: str) -> str:
        path = self.env.folder / name
        path.write_text(text)
        return str(path)


class TwoStacksStage(Stage):
    """Two stacks with a congestion control each, beside one another; the second one's place is `second`."""

    controls = ("reno", "cubic")

    def _sites_native(self) -> tuple[Site, Site]:
        program, peer = super()._sites_native()
        other = self.env.namespace("q")
        veth((self._s, "weft1"), (other, "eth0"))
        self._s.ip("address", "add", "10.79.0.1/24", "dev", "weft1")
        other.ip("address", "add", "10.79.0.2/24", "dev", "eth0")
        there = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
        self.controls = tuple(control if control in there else there[0] for control in self.controls)
        for namespace, control in zip((self._p, other), self.controls):
            namespace.sysctl("net.ipv4.tcp_congestion_control", control)
        self.second = Site(other.prefix, "10.79.0.2", False)
        return program, peer

    def _start_daemon(self) -> weft.Daemon:
        text = weft.stack_file("second", [("weft1", "10.79.0.2/24")], host_side="10.79.0.1/24")
        path = self.env.folder / "second.toml"
        path.write_text(text)
        first, second = ({"tcp.congestion": control} for control in self.controls)
        other = weft.Daemon(self.env, self._s, second, name="second", extra=("--stack", str(path)))
        self.second = Site([*self._p.prefix, *other.run_words()], "10.79.0.2", True)
        return weft.Daemon(self.env, self._s, first)


def want(condition: bool, text: str) -> None:
    """Failure with `text` unless `condition` holds."""
    if not condition:
        raise Failure(text)


def want_equal(what: str, found: object, wanted: object) -> None:
    want(found == wanted, f"{what}: found {found!r}, wanted {wanted!r}")
