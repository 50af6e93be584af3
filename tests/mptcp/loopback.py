"""Rows of `make test-mptcp-sim`: both ends on one node, whose own addresses a wire has, too, and no subflow may come of that.

    b (lo: client and server) ── a
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

from virtual.shared import expect, keys, program, section

from . import counters, judge, sim
from .cases import EVERYTHING, end_words, protocol

SECONDS = 20
# Where the client finds the server: addresses of lo, and of the wire.
ADDRESSES = {"v4": "127.0.0.1", "v6": "::1", "mapped": "127.0.0.1", "wire v4": "10.1.0.2", "wire v6": "fd00:1::2"}


@dataclasses.dataclass(frozen=True)
class Loop:
    """One row. Without timestamps headers are shorter, and with checksums every frame is a segment."""

    kind: str
    host: str
    to: str = "v4"
    checksum: bool = False
    timestamps: bool = True

    @property
    def name(self) -> str:
        more = ("checksum",) * self.checksum + ("no timestamps",) * (not self.timestamps)
        return "/".join(("loopback", self.kind, self.host, self.to, *more))


def scenario(case: Loop) -> str:
    parameters = {} if case.timestamps else {"tcp.timestamps": False}
    node = sim.node(case.host, case.checksum, parameters=parameters, addresses={"eth0": ["10.1.0.2/24", "fd00:1::2/64"]})
    if case.host == "linux" and not case.timestamps:
        node["sysctls"] |= {"net.ipv4.tcp_timestamps": "0"}
    text = keys(duration=f"{SECONDS}s", ipv6=True) + section("nodes.b", **node)
    text += section("nodes.a", **sim.node("weft", addresses={"eth0": ["10.1.0.1/24", "fd00:1::1/64"]}))
    text += section("wires.ab", between=["a", "b"], rate="100mbit", delay="1ms")
    family = case.to.removeprefix("wire ")
    for role, start in (("server", "500ms"), ("client", "1s")):
        words = end_words(role, case.kind, family, protocol(case.host), ADDRESSES[case.to])
        text += program(role, "b", "python3", sim.SCRIPT, *words, start=start, expect="0")
    return text + sim.looks(("weft", case.host), SECONDS)


def row(case: Loop) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        result = sim.run(folder, scenario(case), ("weft", case.host))
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        found = result.counters["b"]
        for role in ("client", "server"):
            counters.expect_spoken(f"the {role}", found, role, 1)
        counters.expect_sound(f"both ({case.host})", found)
        expect("subflows beside the first", found.get("MPJoinSynTx", 0), 0)
        return said

    return body


def rows() -> dict[str, Callable[[Path], str]]:
    hosts = ("weft", "linux") if EVERYTHING else ("weft",)
    every = [Loop(*words) for words in itertools.product(("transfer", "both"), hosts, ADDRESSES, (False, True), (True, False))]
    short = [case for case in every if case.kind == "both" and case.to == "v4" and (case.timestamps or not case.checksum)]
    short += [Loop("transfer", "weft"), Loop("both", "weft", "v6")]
    return {case.name: row(case) for case in (every if EVERYTHING else short)}
