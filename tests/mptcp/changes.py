"""Rows of `make test-mptcp-sim`: more than two paths, paths of both families, and endpoints that come, go and become backups while data flows.

    a ══ eth0, eth1 … ══ b        the client sends, as in the rows of two paths of sim.py
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.processes import Failure
from virtual.shared import events, expect, keys, program, section

from . import counters, judge, sim
from .cases import (
    ENDPOINT_WORDS, EVERYTHING, LIMITS, LINUX_WEFT, SCHEDULERS, SPREADING, WEFT_LINUX, WEFT_WEFT, Case, protocol,
)

OLD_KERNEL = "6.1"
# With three paths, of the bytes on all wires, and of what one wire could carry.
SHARE_MIN, GAIN_MIN = 0.15, 2.0


@dataclasses.dataclass(frozen=True)
class Change:
    """Of the endpoint of the second path of one end, from then on: "there", "backup", or "" for none."""

    at: str
    is_now: str

    def for_linux(self, before: str, address: str, role: str) -> str:
        if not self.is_now:
            return f"ip mptcp endpoint delete id $(ip mptcp endpoint show | sed -n 's/^{address.replace('.', '[.]')} id \\([0-9]*\\).*/\\1/p')"
        if not before:
            return f"ip mptcp endpoint add {address} dev eth1 {ENDPOINT_WORDS[role]}"
        return f"ip mptcp endpoint change {address} {'backup' if self.is_now == 'backup' else 'nobackup'}"

    def for_weft(self, address: str, role: str) -> list[str]:
        return [f"{address} dev eth1 {ENDPOINT_WORDS[role]}{' backup' if self.is_now == 'backup' else ''}"] if self.is_now else []


@dataclasses.dataclass(frozen=True)
class Ways:
    """`families`: of each path; `begins`: what the endpoint of the second one is at first; `second`: bytes that the client sends over the second
    path, at least and at most, of LONG_BYTES; `counts`: counters that must move at the ends; `parameters`: what weft alone has."""

    families: tuple[int, ...] = (4, 4)
    begins: str = "there"
    changes: tuple[Change, ...] = ()
    second: tuple[int, int] = (0, 0)
    counts: tuple[str, ...] = ()
    # Of the client, which is weft then.
    parameters: Mapping = dataclasses.field(default_factory=dict)


# The client sends from 1 s on, 1.25 MB a second over each path.
COMES_AND_GOES = Ways(begins="", changes=(Change("2s", "there"), Change("4s", "")), second=(1_500_000, 3_000_000), counts=("RmAddrTx", "RmAddr"))
A_BACKUP_FOR_A_WHILE = Ways(changes=(Change("2500ms", "backup"), Change("4500ms", "there")), second=(2_500_000, 4_500_000), counts=("MPPrioTx", "MPPrioRx"))
# Of what tcp has taken something never leaves; headers are not counted, and take less than a tenth.
A_QUOTA = Ways(second=(1_500_000, 2_200_000), parameters={"mptcp.quota": ["eth1 2MB", "group:7 1GB"]})
WAYS = {
    "three paths": Ways((4, 4, 4)),
    "IPv4 and IPv6": Ways((4, 6)),
    "IPv6 and IPv4": Ways((6, 4)),
    "an endpoint comes and goes": COMES_AND_GOES,
    "a backup for a while": A_BACKUP_FOR_A_WHILE,
    "a quota": A_QUOTA,
}


def address(number: int, family: int, node: str) -> str:
    last = {"a": 1, "b": 2}[node]
    return f"fd00:{number + 1}::{last}" if family == 6 else f"10.{number + 1}.0.{last}"


def scenario(ways: Ways, pair: str, changes: str, scheduler: str) -> str:
    """`changes`: the role whose endpoint changes."""
    case, both = Case("long", pair), len(set(ways.families)) > 1
    text, more = keys(duration=f"{sim.PATHS_SECONDS}s"), ""
    for (name, role), host in zip(sim.NODES.items(), case.hosts, strict=True):
        own = [address(number, family, name) for number, family in enumerate(ways.families)]
        given = {f"eth{number}": f"{of}/{64 if ':' in of else 24}" for number, of in enumerate(own)}
        # Who waits for the other's change has no endpoint of its own. And to an address that the server told of any of the client's would lead by that wire.
        begins = ways.begins if role == changes or not ways.changes and (role == "client" or not ways.parameters) else ""
        endpoints = [f"{of} dev eth{number} {ENDPOINT_WORDS[role]}" for number, of in enumerate(own) if number and begins]
        if host == "linux":
            more += program(f"paths-{name}", name, "sh", "-ec", "; ".join([LIMITS, *(f"ip mptcp endpoint add {of}" for of in endpoints)]))
        parameters = {"mptcp.path_manager": "kernel", "mptcp.endpoints": endpoints, "mptcp.scheduler": scheduler}
        parameters |= ways.parameters if role == "client" else {}
        text += section(f"nodes.{name}", **sim.node(host, parameters=parameters, addresses=given))
        before = begins
        for number, change in enumerate(ways.changes if role == changes else ()):
            if host == "linux":
                more += program(f"change-{number}", name, "sh", "-ec", change.for_linux(before, own[1], role), start=change.at)
            else:
                more += events({"at": change.at, "node": name, "parameter": "mptcp.endpoints", "value": change.for_weft(own[1], role)})
            before = change.is_now
    for number in range(len(ways.families)):
        text += section(f"wires.w{number}", between=["a", "b"], **sim.PATH)
    client, server = case.hosts
    to = ("::ffff:" if both and ways.families[0] == 4 else "") + address(0, ways.families[0], "b")
    text += sim.programs(case.kind, (protocol(client), protocol(server)), "v4 and v6" if both else "v4", to)
    return text + more + sim.looks(case.hosts, sim.PATHS_SECONDS)


def row(ways: Ways, pair: str, changes: str = "", scheduler: str = SCHEDULERS[0]) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        hosts = Case("long", pair).hosts
        result = sim.run(folder, scenario(ways, pair, changes, scheduler), hosts)
        client, server = result.reports("long")
        said = judge.expect_ends("long", client, server)
        for name, host in zip(sim.NODES, hosts, strict=True):
            # Subflows of an address that goes, or is used up, are reset. Linux sends beyond the window, where one of two paths holds it up.
            goes = bool(ways.parameters) or any(not change.is_now for change in ways.changes)
            counters.expect_sound(f"{sim.NODES[name]} ({host})", result.counters[name], goes, but=("NoDSSInWindow",) if ways.changes else ())
        counters.expect_joined("the server", result.counters["b"])
        moved = {counter for of in result.counters.values() for counter in counters.moved(of)}
        if still := [counter for counter in ways.counts if counter not in moved]:
            raise Failure(f"{still} did not move: {[counters.moved(of) for of in result.counters.values()]}")
        carried = [wire["directions"][0]["bytes"] for wire in result.summary["wires"]]
        goodput = judge.goodput_mbit(server)
        if ways.second[1]:
            low, high = ways.second
            if not low <= carried[1] <= high:
                raise Failure(f"the second path carried {carried[1]} bytes and not {low} to {high}")
            return f"{said}, {carried} bytes, {goodput:.1f} Mbit/s"
        if scheduler not in SPREADING:
            return f"{said}, {carried} bytes, {goodput:.1f} Mbit/s"
        three = len(carried) > 2
        return f"{said}, " + judge.expect_both(carried, goodput, sim.PATH_MBIT, GAIN_MIN if three else sim.GAIN_MIN, *([SHARE_MIN] if three else []))

    return body


def reset_row(pair: str) -> Callable[[Path], str]:
    """The server closes with data unread and resets all subflows (MP_FASTCLOSE): whoever hears of it on one begins no other."""
    def body(folder: Path) -> str:
        case = Case("unread", pair)
        result = sim.run(folder, sim.paths_scenario(case, sim.NOTHING, SCHEDULERS[0]), case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        found = result.counters["a"]
        expect("joins that the client began, of those that were answered", found["MPJoinSynTx"], found["MPJoinSynAckRx"])
        return said

    return body


# In the short form.
SHORT = (
    ("three paths", WEFT_LINUX, ""), ("three paths", LINUX_WEFT, ""), ("IPv4 and IPv6", WEFT_LINUX, ""), ("IPv6 and IPv4", LINUX_WEFT, ""),
    ("an endpoint comes and goes", WEFT_LINUX, "client"), ("an endpoint comes and goes", LINUX_WEFT, "server"),
    ("a backup for a while", WEFT_LINUX, "server"), ("a backup for a while", LINUX_WEFT, "client"), ("a backup for a while", WEFT_WEFT, "client"),
    ("a quota", WEFT_WEFT, ""),
)
# With the older kernel.
OLD = [Case(kind, pair) for kind in ("transfer", "both", "echo", "unread", "crowd") for pair in (WEFT_LINUX, LINUX_WEFT)]


def rows() -> dict[str, Callable[[Path], str]]:
    every = [(name, pair, changes) for name, ways in WAYS.items()
             for pair, changes in itertools.product(sim.PAIRS, ("client", "server") if ways.changes else ("",))
             if not ways.parameters or pair in (WEFT_WEFT, WEFT_LINUX)]
    found = {}
    for name, pair, changes in every if EVERYTHING else SHORT:
        found[f"paths/{name}/{pair}" + (f"/at the {changes}" if changes else "")] = row(WAYS[name], pair, changes)
    if not EVERYTHING:
        found[f"paths/three paths/{WEFT_WEFT}/redundant"] = row(WAYS["three paths"], WEFT_WEFT, scheduler="redundant")
    for pair in sim.PAIRS if EVERYTHING else (WEFT_WEFT,):
        found[f"paths/unread/{pair}"] = reset_row(pair)
    if EVERYTHING:
        for pair, scheduler in itertools.product((WEFT_LINUX, WEFT_WEFT), SCHEDULERS[1:]):
            found[f"paths/three paths/{pair}/{scheduler}"] = row(WAYS["three paths"], pair, scheduler=scheduler)
        for case in OLD:
            found[f"Linux {OLD_KERNEL}/{case.name}"] = sim.matrix_row(case, OLD_KERNEL)
        for name, pair in itertools.product(sim.HAPPENS, (WEFT_LINUX, LINUX_WEFT)):
            found[f"Linux {OLD_KERNEL}/two paths/{pair}/{name}"] = sim.paths_row(Case("long", pair), name, kernel=OLD_KERNEL)
    return found
