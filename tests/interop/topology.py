"""Two hosts joined by one shaped bridge.

    P (programs) ··· weft in A: TAP weft0 ┐
                     kernel of A: 10.77.0.3 ┤ bridge lan ─ a0 ═ x0 [ weft bridge in X ] x1 ═ c0  kernel of C: 10.77.0.1

weft's stack (10.77.0.2) and A's own kernel share everything from `lan` on, so that Linux to Linux runs over the same
bridge as weft to Linux. In native mode there is no weft: the kernel of A is the only host and a reference bridge in
Python takes the place of `weft bridge`. OFFLOADS=off has the kernels send what fits the wire, for a bridge that cannot
cut large frames.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from pathlib import Path

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure, Process

LINUX = "10.77.0.3"
PREFIX6 = "fd77::"
RATE_MBIT = 100
TRANSFER = str(Path(__file__).with_name("transfer.py"))
DATAGRAMS = str(Path(__file__).with_name("datagrams.py"))
REFERENCE = str(Path(__file__).with_name("reference_bridge.py"))


@dataclasses.dataclass(frozen=True)
class Impairment:
    """One impairment of the bridge; at most one is set."""

    name: str
    loss: float = 0.0
    delay_ms: int = 0
    reorder: float = 0.0
    duplicate: float = 0.0
    blackhole: int = 0

    @property
    def options(self) -> dict[str, str]:
        options = {}
        if self.loss:
            options["loss"] = str(self.loss)
        if self.delay_ms:
            options["delay"] = f"{self.delay_ms}ms"
        for name in ("reorder", "duplicate", "blackhole"):
            if value := getattr(self, name):
                options[name] = str(value)
        return options


# Those under which goodput is compared, and those that bytes must survive besides.
IMPAIRMENTS = (
    Impairment("clean"),
    Impairment("loss 1 %", loss=0.01),
    Impairment("loss 5 %", loss=0.05),
    Impairment("delay 20 ms", delay_ms=20),
)
FURTHER_IMPAIRMENTS = (
    Impairment("reordering 5 %", reorder=0.05),
    Impairment("duplication 5 %", duplicate=0.05),
    Impairment("black hole above 1400 bytes", blackhole=1400),
)


@dataclasses.dataclass(frozen=True)
class Host:
    """A place for one end of a transfer."""

    name: str
    words: list[str]
    address: str
    address6: str
    under_weft: bool = False

    def at(self, family: int) -> str:
        return self.address6 if family == 6 else self.address


class Topology:
    """See the module. One impairment for the life of the topology."""

    def __init__(self, env: Environment, impairment: Impairment, native: bool, seed: int = 1) -> None:
        self._env = env
        self._ports = itertools.count(5300)
        a, x, c = env.namespace("a"), env.namespace("x"), env.namespace("c")
        for namespace in (a, c):
            namespace.enable_ipv6()
        veth((a, "a0"), (x, "x0"))
        veth((c, "c0"), (x, "x1"))
        a.ip("link", "add", "lan", "type", "bridge")
        a.ip("link", "set", "a0", "master", "lan")
        a.ip("link", "set", "lan", "up")
        a.ip("address", "add", f"{LINUX}/24", "dev", "lan")
        a.ip("address", "add", f"{PREFIX6}3/64", "dev", "lan", "nodad")
        c.ip("address", "add", f"{weft.HOST}/24", "dev", "c0")
        c.ip("address", "add", f"{PREFIX6}1/64", "dev", "c0", "nodad")
        for namespace in (a, c):
            # What Linux does about a path-MTU black hole; off by default there.
            namespace.sysctl("net.ipv4.tcp_mtu_probing", "1")
        self.linux = Host("linux", a.prefix, LINUX, f"{PREFIX6}3")
        self.peer = Host("peer", c.prefix, weft.HOST, f"{PREFIX6}1")
        self.weft: Host | None = None
        self._daemon: weft.Daemon | None = None
        if native or os.environ.get("OFFLOADS") == "off":
            for namespace, name in ((a, "lan"), (a, "a0"), (c, "c0"), (x, "x0"), (x, "x1")):
                env.run("ethtool", [paths.tool("ethtool"), "-K", name, "tso", "off", "gso", "off", "gro", "off",
                                    "tx", "off"], namespace)
        if native:
            bridge = env.start("bridge", [paths.PYTHON, REFERENCE, "x0", "x1", str(RATE_MBIT), str(impairment.loss),
                                          str(impairment.delay_ms), str(seed)], x)
            bridge.wait_for_line("ready")
        else:
            weft.bridge(env, x, ("x0", "x1"), f"{RATE_MBIT}mbit", impairment.options, seed)
            self.weft = self._start_weft(a)

    def _start_weft(self, a) -> Host:
        """The default stack's addresses, its TAP in `lan`: the host's side is whatever is on that bridge."""
        p = self._env.namespace("p")
        file = self._env.folder / "stack.toml"
        file.write_text(weft.stack_file("weft", [(weft.TAP, f"{weft.STACK}/24")], default=weft.HOST) + "\n".join([
            "[[address]]", f'interface = "{weft.TAP}"', f'address = "{PREFIX6}2/64"',
            "[[route]]", 'destination = "default"', f'gateway = "{PREFIX6}1"', ""]))
        self._daemon = weft.Daemon(self._env, a, extra=("--stack", str(file)))
        a.ip("link", "set", weft.TAP, "master", "lan")
        a.ip("link", "set", weft.TAP, "up")
        return Host("weft", [*p.prefix, *self._daemon.run_words()], weft.STACK, f"{PREFIX6}2", under_weft=True)

    def transfer(self, sender: Host, receiver: Host, congestion: str, size: int, seed: int, family: int = 4) -> float:
        """Moves `size` bytes; Failure unless they came byte-exact. Returns goodput in Mbit/s."""
        port = next(self._ports)
        server = self._env.start(f"receive-{receiver.name}", [
            paths.PYTHON, TRANSFER, "receive", receiver.at(family), str(port), congestion], receiver.words)
        self._wait_listening(receiver, server, port)
        # A watchdog: 2 Mbit/s, a fiftieth of the bridge's rate, counts as hung.
        watchdog_s = 15 + size * 8 / 2e6
        sent = json.loads(self._env.run(f"send-{sender.name}", [
            paths.PYTHON, TRANSFER, "send", receiver.at(family), str(port), congestion, str(size), str(seed),
        ], sender.words, watchdog_s))
        if status := server.wait(30):
            raise Failure(f"the receiver ended with status {status}")
        received = json.loads(server.stdout)
        if (received["bytes"], received["sha256"]) != (sent["bytes"], sent["sha256"]):
            raise Failure(f"sent {sent}, received {received}")
        goodput = received["bytes"] * 8 / 1e6 / received["seconds"]
        # Who begins to read late, on a busy machine, has what came by then at once. Without shaping it is Gbit/s.
        if goodput > 1.5 * RATE_MBIT:
            raise Failure(f"{goodput:.0f} Mbit/s through a bridge of {RATE_MBIT}: the bridge does not shape")
        return goodput

    def datagrams(self, sender: Host, receiver: Host, count: int, seed: int, family: int = 4) -> int:
        """Datagrams of all sizes up to the largest there and back; Failure unless each came back equal. Returns how many."""
        port = next(self._ports)
        server = self._env.start(f"echo-{receiver.name}", [
            paths.PYTHON, DATAGRAMS, "echo", receiver.at(family), str(port)], receiver.words)
        server.wait_for_line("ready")
        out = self._env.run(f"send-{sender.name}", [
            paths.PYTHON, DATAGRAMS, "send", receiver.at(family), str(port), str(count), str(seed)], sender.words, 120)
        server.stop()
        return int(json.loads(out)["equal"])

    def _wait_listening(self, receiver: Host, server: Process, port: int) -> None:
        if receiver.under_weft:
            assert self._daemon is not None
            self._daemon.wait_listening(server, port)
        else:
            self._env.wait_listening(server, port)
