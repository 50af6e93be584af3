"""weft and the kernel in real time, with one wire between them or several.

    P (programs) ··· weft in A: TAPs w0, w1 … ═ [ weft bridge in A ] ═ a0, a1 … ─ c0, c1 …  kernel of C

Wire number i joins 10.77.i.2 of weft and 10.77.i.1 of C's kernel. What is set is set in C, whose kernel's tables and
settings are its own, and in weft.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import PATIENCE, Failure, Process

from . import cases, counters

SETTINGS = "net.mptcp"
HOSTS = ("linux", "weft")
# Until connections whose programs have ended are gone from the tables.
GONE_SECONDS_MAX = 10


@dataclasses.dataclass(frozen=True)
class Wire:
    """What `weft bridge` does between the two."""

    rate_mbit: int
    impairment: Mapping[str, str] = dataclasses.field(default_factory=dict)


class World:
    """See the module. `role`: which end weft is, where there are several wires. `families`: of the addresses of each wire that are endpoints; those of
    the first are none. `endpoints`: the hosts that have them from the start."""

    def __init__(self, env: Environment, wire: Wire, families: tuple[int, ...] = (4,), role: str = "client", endpoints: tuple[str, ...] = HOSTS) -> None:
        self.env, self.wire, self.role, wires = env, wire, role, len(families)
        self._further = [(number, family) for number, family in enumerate(families) if number]
        self._ports = itertools.count(5400)
        self._weft, self.kernel, self._programs = env.namespace("a"), env.namespace("c"), env.namespace("p")
        if not (Path("/proc/sys") / SETTINGS.replace(".", "/")).exists():
            raise paths.MissingTool("this kernel has no Multipath TCP")
        self.kernel.enable_ipv6()
        self._bridges: list[Process] = []
        for number in range(wires):
            self._lay(number)
            self.kernel.ip("address", "add", f"{self.address('linux', 4, number)}/24", "dev", f"c{number}")
            self.kernel.ip("address", "add", f"{self.address('linux', 6, number)}/64", "dev", f"c{number}", "nodad")
        self.daemon = self._start(wires)
        for number in range(wires):
            self._join(number)
        self.kernel.shell(cases.LIMITS)
        self.set("enabled", True)
        for host in endpoints if wires > 1 else ():
            self.set_endpoints(host)

    def _lay(self, number: int) -> None:
        """A wire, as far as it is there before weft."""
        veth((self._weft, f"a{number}"), (self.kernel, f"c{number}"))

    def _join(self, number: int) -> None:
        """What weft has made of a wire, and the wire itself."""
        self._weft.ip("link", "set", f"w{number}", "up")
        self._bridges.append(self._bridge(number))

    def _bridge(self, number: int) -> Process:
        return weft.bridge(self.env, self._weft, (f"w{number}", f"a{number}"), f"{self.wire.rate_mbit}mbit", dict(self.wire.impairment), seed=1 + number)

    def cut(self, number: int) -> None:
        """Nothing goes over this wire any more, and nobody is told."""
        self._bridges[number].stop()

    def restore(self, number: int) -> None:
        self._bridges[number] = self._bridge(number)

    def role_of(self, host: str) -> str:
        return self.role if host == "weft" else {"client": "server", "server": "client"}[self.role]

    def set_endpoints(self, host: str, there: bool = True, backup: bool = False) -> None:
        """A host's addresses on the further wires are endpoints from now on, or none is."""
        of = [(self.address(host, family, number), f"{'w' if host == 'weft' else 'c'}{number}") for number, family in self._further] if there else []
        if host == "weft":
            words = [f"{word} backup" if backup else word for word in cases.weft_endpoints(self.role, *of)["mptcp.endpoints"]]
            self.daemon.command("set", "mptcp.endpoints", json.dumps(words))
        else:
            # There are none yet, or all go, or they change.
            known = self.kernel.shell("ip mptcp endpoint show")
            change = [f"ip mptcp endpoint change {address} {'backup' if backup else 'nobackup'}" for address, _ in of]
            self.kernel.shell("; ".join((change if known else cases.linux_endpoints(self.role_of(host), *of)) if there else ["ip mptcp endpoint flush"]))

    def _start(self, wires: int) -> weft.Daemon:
        text = weft.stack_file("weft", [(f"w{number}", f"{self.address('weft', 4, number)}/24") for number in range(wires)], backend=self._backend)
        for number in range(wires):
            text += f'[[address]]\ninterface = "w{number}"\naddress = "{self.address("weft", 6, number)}/64"\n'
        file = self.env.folder / "stack.toml"
        file.write_text(text)
        # As on Linux, without endpoints no address but the first is used.
        settings = {"mptcp.path_manager": "kernel"} if wires > 1 else {}
        return weft.Daemon(self.env, self._weft, settings, extra=("--stack", str(file), "--mptcp"))

    def _backend(self, interface: str) -> str:
        """What one of weft's interfaces is."""
        return f"tap:{interface}"

    @staticmethod
    def address(host: str, family: int = 4, wire: int = 0) -> str:
        last = {"linux": 1, "weft": 2}[host]
        return f"fd77:0:0:{wire}::{last}" if family == 6 else f"10.77.{wire}.{last}"

    def words(self, host: str) -> list[str]:
        """Words before a program that put it on this host."""
        return [*self._programs.prefix, *self.daemon.run_words()] if host == "weft" else self.kernel.prefix

    def set(self, name: str, value: bool) -> None:
        """One of the kernel's settings of Multipath TCP, in C."""
        self.kernel.sysctl(f"{SETTINGS}.{name}", str(int(value)))

    def enable(self, host: str, value: bool) -> None:
        """New connections of a host try Multipath TCP, or do not."""
        if host == "linux":
            self.set("enabled", value)
        else:
            self.daemon.command("set", "mptcp.enabled", str(value).lower())

    def want_checksums(self, hosts: tuple[str, ...]) -> None:
        """These hosts want them, and the other does not."""
        self.set("checksum_enabled", "linux" in hosts)
        self.daemon.command("set", "mptcp.checksum", str("weft" in hosts).lower())

    def port(self) -> int:
        return next(self._ports)

    def start(self, name: str, host: str, *argv: str) -> Process:
        return self.env.start(name, list(argv), self.words(host))

    def _counters(self, host: str) -> dict[str, int]:
        if host == "linux":
            history = str(self.env.folder / "nstat")
            return counters.parsed(self.env.run("nstat", counters.NSTAT, self.kernel, NSTAT_HISTORY=history))
        found: dict[str, int] = {}
        for row in self.daemon.show("counters"):
            for name, count in counters.of_block(row["block"], row["counters"]).items():
                found[name] = found.get(name, 0) + count
        return found

    def counters(self) -> dict[str, dict[str, int]]:
        """Those of both hosts, when no connection is left; a connection that stays is in them."""
        deadline = time.monotonic() + GONE_SECONDS_MAX * PATIENCE
        while True:
            found = {host: self._counters(host) for host in HOSTS}
            if not any(of.get(counters.LEFT) for of in found.values()) or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def carried(self) -> list[int]:
        """Bytes that the kernel's end of each wire has sent and received."""
        links = json.loads(self.kernel.ip("-s", "-j", "link", "show"))
        ends = sorted((link for link in links if link["ifname"].startswith("c")), key=lambda link: link["ifname"])
        return [link["stats64"]["rx"]["bytes"] + link["stats64"]["tx"]["bytes"] for link in ends]


def since(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """What has moved; connections that are still there count as they are."""
    moved = {host: {name: count - before[host].get(name, 0) for name, count in found.items()} for host, found in after.items()}
    for host, found in after.items():
        moved[host][counters.LEFT] = found.get(counters.LEFT, 0)
    return moved


def end(process: Process, seconds_max: float) -> str:
    """What it wrote; Failure unless it ends well in time."""
    if status := process.wait(seconds_max):
        raise Failure(f"{process.name} ended with status {status}")
    return process.stdout
