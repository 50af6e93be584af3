"""weft on its host's own interfaces, with their addresses, over two paths, most of which are without Ethernet; the peer is a kernel.

    P (programs) ··· weft in A ─ packet:a0 ─ a0 ═ [ weft bridge in B ] ═ c0 ─ kernel of C      Ethernet: both are veth ends
                               ─ packet:a1 ─ a1 ═ [ weft bridge in B ] ═ c1 ─                  raw: TUN devices, as a modem's or WireGuard's
                               ─ tun:w1 ─ kernel of A ─ a1 ═ [ weft bridge in B ] ═ c1 ─       tun: the host's kernel forwards

Behind `packet:` the kernel of A has the very addresses that weft uses, and knows nothing of weft's connections: it would reset them, were it not for the
guard. That it would is looked at before weft is there. Behind `tun:` the address is weft's alone.
"""

from __future__ import annotations

from collections.abc import Callable

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure
from virtual.shared import expect

from . import judge
from .cases import EVERYTHING, LINUX_WEFT, SHARE_MIN, WEFT_LINUX, Case
from .interop import Body, long_talk
from .world import HOSTS, Wire, World

ETHERNET, RAW, TUN = "Ethernet", "raw", "tun"
WIRE = Wire(40, {"delay": "5ms"})
# Of the host's kernel: what it has got, and what it has answered.
SEEN = ("InSegs", "OutRsts")
FAMILIES = {"IPv4": ("v4", (4, 4)), "IPv6": ("v6", (6, 6)), "IPv4 and IPv6": ("v4 and v6", (4, 6)), "IPv6 and IPv4": ("v6 and v4", (6, 4))}
# Linux tries its endpoint with the server's first address, too, to which this wire is no route; of IPv4 it asks the wire all the same.
NO_WAY = ("MPJoinSynTxConnectErr",)
# Nobody listens there.
NO_PORT = 9
ASK = """
import socket, sys
for address in sys.argv[1:]:
    try:
        socket.create_connection((address, %d), 10)
    except ConnectionRefusedError:
        print("refused")
""" % NO_PORT


class OwnAddresses(World):
    """See the module. `kinds`: of the wires; the first is that of the connection's first subflow."""

    def __init__(self, env: Environment, kinds: tuple[str, ...]) -> None:
        self._kinds, self._wires = kinds, env.namespace("b")
        super().__init__(env, WIRE, tuple(4 for _ in kinds), endpoints=())

    def _lay(self, number: int) -> None:
        a, b, c, d = (f"{name}{number}" for name in "abcd")
        raw = self._kinds[number] == RAW
        if not number:
            self._weft.enable_ipv6()
        if not raw:
            veth((self._weft, a), (self._wires, b))
            veth((self._wires, d), (self.kernel, c))
        self._bridges.append(weft.bridge(self.env, self._wires, (b, d), f"{self.wire.rate_mbit}mbit", dict(self.wire.impairment), seed=1 + number,
                                         scheme="tun" if raw else "packet"))
        if raw:
            for name, namespace, there in ((b, self._weft, a), (d, self.kernel, c)):
                self._wires.ip("link", "set", name, "netns", namespace.name, "name", there)
                namespace.ip("link", "set", there, "up")
        forwards = self._kinds[number] == TUN
        if forwards:
            # This interface is none of weft's, and so not guarded: it is not to be the way to addresses of the others.
            self._weft.sysctl(f"net.ipv4.conf.{a}.arp_ignore", "1")
        for family, bits, own in ((4, 24, "254"), (6, 64, "fe")):
            address = self.address("weft", family, number)
            router = address[:-1] + own
            self._weft.ip("address", "add", f"{router if forwards else address}/{bits}", "dev", a, *(["nodad"] if family == 6 else []))

    def _start(self, wires: int) -> weft.Daemon:
        own = [number for number in range(wires) if self._kinds[number] != TUN]
        addresses = [self.address("weft", family, number) for number in own for family in (4, 6)]
        self._expect_resets(addresses)
        return super()._start(wires)

    def _backend(self, interface: str) -> str:
        number = interface.removeprefix("w")
        return f"tun:{interface}" if self._kinds[int(number)] == TUN else f"packet:a{number}"

    def _join(self, number: int) -> None:
        if self._kinds[number] != TUN:
            return
        self._weft.ip("link", "set", f"w{number}", "up")
        for family, bits, own in ((4, 32, "254"), (6, 128, "fe")):
            address = self.address("weft", family, number)
            self._weft.sysctl("net.ipv4.ip_forward" if family == 4 else "net.ipv6.conf.all.forwarding", "1")
            self._weft.ip("route", "add", f"{address}/{bits}", "dev", f"w{number}")
            self.kernel.ip("route", "add", f"{address}/{bits}", "via", address[:-1] + own, "dev", f"c{number}")

    def _expect_resets(self, addresses: list[str]) -> None:
        """The host's kernel answers for these addresses, as long as weft is not there."""
        said = self.env.run("ask", [paths.PYTHON, "-c", ASK, *addresses], self.kernel)
        expect("connections refused without weft", said.split(), ["refused"] * len(addresses))
        expect("resets without weft", self.seen()["OutRsts"], len(addresses))

    def seen(self) -> dict[str, int]:
        """What the kernel of weft's host has seen of TCP."""
        names, values = (line.split()[1:] for line in self._weft.shell("grep ^Tcp: /proc/net/snmp").splitlines())
        return {name: int(value) for name, value in zip(names, values, strict=True) if name in SEEN}

    def arrange(self, role: str, families: tuple[int, ...]) -> None:
        """weft is client or server from now on, and these are the families of the endpoints."""
        for host in HOSTS:
            self.set_endpoints(host, there=False)
        self.role, self._further = role, [(number, family) for number, family in enumerate(families) if number]
        for host in HOSTS:
            self.set_endpoints(host)


def row(kind: str, pair: str, family: str, families: tuple[int, ...]) -> Callable[[OwnAddresses], str]:
    """Both wires carry a fair part, and the host's kernel sees nothing of it."""
    def body(world: OwnAddresses) -> str:
        case = Case(kind, pair, family)
        world.arrange(("client", "server")[case.hosts.index("weft")], families)
        before = world.seen()
        said, _, on_wires = long_talk(world, case, but=NO_WAY if case.hosts[0] == "linux" and families == (6, 6) else ())
        expect("what the host's kernel has seen of TCP", world.seen(), before)
        shares = [of / sum(on_wires) for of in on_wires]
        if min(shares) < SHARE_MIN:
            raise Failure(f"wires carried {on_wires} bytes")
        return f"{said}, shares {judge.shares(shares)}"

    return body


KINDS_OF_TALK = ("long", "transfer", "both")
WORLDS = ((ETHERNET, TUN), (RAW, ETHERNET), (TUN, ETHERNET), (ETHERNET, RAW), (TUN, RAW), (RAW, TUN), (ETHERNET, ETHERNET))
# In the short form: of the first two worlds.
SHORT = {
    WORLDS[0]: (("long", WEFT_LINUX, "IPv4"), ("both", LINUX_WEFT, "IPv6")),
    WORLDS[1]: (("long", LINUX_WEFT, "IPv4"), ("both", WEFT_LINUX, "IPv6"), ("transfer", WEFT_LINUX, "IPv6 and IPv4")),
}


def groups() -> list[tuple[Callable[[Environment], World], dict[str, Body]]]:
    """As those of interop.py."""
    every = [(kind, pair, family) for kind in KINDS_OF_TALK for pair in (WEFT_LINUX, LINUX_WEFT) for family in FAMILIES]
    chosen = {kinds: every for kinds in WORLDS} if EVERYTHING else SHORT
    return [(lambda env, kinds=kinds: OwnAddresses(env, kinds),
             {f"{' and '.join(kinds)}/{family}/{kind}/{pair}": row(kind, pair, *FAMILIES[family]) for kind, pair, family in of})
            for kinds, of in chosen.items()]
