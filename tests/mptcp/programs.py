"""Unmodified programs that know nothing of Multipath TCP, over two wires, by weft's personality alone: in virtual time and in real time.

    virtual    client ══ near, side ══ server            nodes of a scenario with `mptcp = true`
    real       P ··· weft in S: TAPs w0, w1 ═ [ weft bridge ] ═ v0, v1: weft in S ··· Q

In real time both ends are programs of weft, on a daemon each, and net.mptcp.enabled is 0 in all of their namespaces: no kernel speaks it. What the
programs do is that of tests/programs and tests/virtual; its sums say that all bytes are right. The counters of both ends say that connections began with
Multipath TCP, that subflows joined, and that none fell back. The canary of a row is the same without Multipath TCP: then the counters must not say so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths, results, weft
from harness.environment import Environment
from harness.namespaces import in_user_namespace
from harness.processes import Failure, Process
from programs import more_rows, rows as real_rows  # noqa: F401  rows register themselves
from programs.shared import IPV4
from programs.stage import Site, Stage, want_equal
from virtual import table, table_rows  # noqa: F401
from virtual.shared import events, is_wanted

from . import counters, judge, sim
from .cases import FULL

# Rows of both tables, by their names there, and whether they carry so much that each wire has its share.
PROGRAMS = {
    "curl-http": True, "curl-https": True, "curl-upload": True, "ssh-scp": True, "python-http": True, "python-asyncio": True, "node": True,
    "go-static": False, "java": False, "iperf3-tcp": True, "iperf3-reverse": True, "iperf3-parallel": True, "nginx-wrk": True, "redis": False,
}
MORE = {"wget": True, "python-ssl": True, "nc": True, "bash-jobs": False, "forking-server": False, "postgres-pgbench": True, "git-clone": False}
# Canaries in the short form.
CANARIES = ("curl-http", "iperf3-tcp")
# Of the bytes of all wires.
SHARE_MIN = 0.05
# In real time a program may end a connection while a join is on its way, which is then refused.
LATE_JOINS = ("MPJoinNoTokenFound", "MPJoinRejected")
BRIDGE_RATE, BRIDGE_DELAY = "100mbit", "1ms"
ROWS_AT_ONCE = 3


def expect_paths(found: Mapping[str, Mapping[str, int]], carried: list[int], long: bool, but: tuple[str, ...] = ()) -> str:
    """Both ends spoke it, over two subflows and to the end, without an error but those of `but`; each wire carried its share of what was `long`."""
    for role, of in found.items():
        counters.expect_spoken(f"the {role}", of, role, 1)
        # Programs end as they like: some leave data unread, or a connection open.
        counters.expect_sound(f"the {role}", of, resets=True, but=(counters.LEFT, *but))
    counters.expect_joined("the server", found["server"])
    shares = [of / sum(carried) for of in carried]
    if min(shares) < SHARE_MIN and long:
        raise Failure(f"wires carried {carried} bytes")
    return f"{found['server']['MPCapableACKRX']} connections, {found['server']['MPJoinAckRx']} joins, shares " + judge.shares(shares)


# In virtual time.


class TwoWires(table.World):
    """Client and server with a second wire, "side", and Multipath TCP."""

    mptcp = True

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.ring = True

    def text(self) -> str:
        for node in ("client", "server"):
            self.lines.setdefault(node, []).append(f"mptcp = {json.dumps(self.mptcp)}")
        looks = [{"at": f"{int(self.duration.removesuffix('s')) - 1}s", "node": node, "control": [f"replace {sim.REPLACED} {sim.REPLACED}"]}
                 for node in ("client", "server")]
        return super().text() + events(*looks)


class Runner(table.Runner):
    """Runs rows of virtual/table.py over two wires."""

    def over_two(self, name: str, long: bool, mptcp: bool = True) -> str:
        row = table.ROWS[name]
        world = TwoWires(self.files, row.family, False)
        world.mptcp = mptcp
        check = row.body(world)
        text, folder = world.text(), name if mptcp else f"{name}-without"
        hash, out = self.run(folder, "first", text)
        self.check(check, out)
        again, _ = self.run(folder, "again", text, "--threads", "2")
        if hash != again:
            raise Failure(f"{hash}, and on two threads {again}")
        found = sim.of_weft(out, ["client", "server"])
        wires = json.loads((out / "summary.json").read_text())["wires"]
        return expect_paths(found, [sum(way["bytes"] for way in wire["directions"]) for wire in wires], long)


# In real time.

SECOND = {"client": "10.79.0.2", "server": "10.79.0.1"}
TAPS = {"client": "w", "server": "v"}


class TwoPaths(Stage):
    """A daemon for the client and one for the server, which is the row's peer; two wires join them."""

    mptcp = True

    def _sites_weft(self) -> tuple[Site, Site]:
        self._q = self.env.namespace("q")
        for namespace in (self._s, self._p, self._q):
            namespace.shell("[ ! -e /proc/sys/net/mptcp/enabled ] || echo 0 > /proc/sys/net/mptcp/enabled")
        self.daemons = {"client": self._up("client", self.family.stack), "server": self._up("server", self.family.host)}
        self._daemon = self.daemons["client"]
        for wire in range(2):
            ends = tuple(f"{tap}{wire}" for tap in TAPS.values())
            for end in ends:
                self._s.ip("link", "set", end, "up")
            weft.bridge(self.env, self._s, ends, BRIDGE_RATE, {"delay": BRIDGE_DELAY}, seed=1 + wire)
        self._watch = self.env.start("p-holder", ["sleep", "infinity"], self._p)
        client, server = ([*namespace.prefix, *daemon.run_words()] for namespace, daemon in zip((self._p, self._q), self.daemons.values(), strict=True))
        return Site(client, self.family.stack, True), Site(server, self.family.host, True)

    def _up(self, name: str, address: str) -> weft.Daemon:
        text = weft.stack_file(name, [(f"{TAPS[name]}0", f"{address}/{self.family.bits}"), (f"{TAPS[name]}1", f"{SECOND[name]}/24")])
        file = self.env.folder / f"{name}.toml"
        file.write_text(text)
        return weft.Daemon(self.env, self._s, name=name, extra=("--stack", str(file), *(["--mptcp"] if self.mptcp else [])))

    def start_server(self, name: str, argv: list[str], port: int, protocol: str = "tcp", stdin: Path | None = None, **variables: str) -> Process:
        process = self.env.start(name, argv, self.server.words, stdin, **variables)
        self.daemons["server"].wait_listening(process, port, protocol)
        return process

    def carried(self) -> list[int]:
        """Bytes that each wire has carried."""
        links = {link["ifname"]: link["stats64"] for link in json.loads(self._s.ip("-s", "-j", "link", "show"))}
        return [sum(links[f"{TAPS['client']}{wire}"][way]["bytes"] for way in ("rx", "tx")) for wire in range(2)]

    def found(self) -> dict[str, Mapping[str, int]]:
        counted: dict[str, Mapping[str, int]] = {}
        for role, daemon in self.daemons.items():
            counted[role] = {}
            for row in daemon.show("counters"):
                counted[role] |= counters.of_block(row["block"], row["counters"])
        return counted


class OnePersonality(TwoPaths):
    """Without Multipath TCP."""

    mptcp = False


def java(stage: Stage, servers: Path) -> None:
    """As virtual/table_rows.py has it."""
    count, data = 24, stage.shared.small.path.read_bytes()
    run = [paths.tool("java"), "-cp", str(servers), "Crowd"]
    stage.start_server("java-server", [*run, "serve", stage.server.address, "8020", str(stage.shared.small.path)], 8020)
    said = stage.run_client("java", [*run, "fetch", stage.server.address, "8020", str(count)])
    want_equal("sums", said.split(), [hashlib.sha256(data[number:]).hexdigest() for number in range(count)])


def real(files: table.Files, name: str, long: bool, stage: type[TwoPaths] = TwoPaths) -> str:
    with Environment(f"two-paths-{name}") as env:
        place = stage(env, files.shared, "client", False, False, IPV4)
        if name == "java":
            java(place, files.servers)
        else:
            real_rows.ROWS[name].body(place)
        place.finish()
        return expect_paths(place.found(), place.carried(), long, LATE_JOINS)


def canary(body: Callable[[], str]) -> str:
    """The same without Multipath TCP must fail, and for that reason."""
    try:
        body()
    except Failure as failure:
        if "MPCapable" not in str(failure):
            raise
        return str(failure).splitlines()[0]
    raise Failure("it passes without Multipath TCP")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    body: Callable[[], str]
    needs_root: str = ""

    @property
    def real(self) -> bool:
        return "/real" in self.name


def all_rows(runner: Runner) -> list[Row]:
    found = []
    for name, long in (PROGRAMS | (MORE if FULL else {})).items():
        here = name in real_rows.ROWS or name == "java"
        needs_root = real_rows.ROWS[name].needs_root if name in real_rows.ROWS else ""
        found.append(Row(f"program/{name}/virtual", lambda name=name, long=long: runner.over_two(name, long)))
        if here:
            found.append(Row(f"program/{name}/real", lambda name=name, long=long: real(runner.files, name, long), needs_root))
        if name in CANARIES or FULL:
            found.append(Row(f"program/{name}/virtual/canary", lambda name=name, long=long: canary(lambda: runner.over_two(name, long, False))))
            if here:
                without = lambda name=name, long=long: canary(lambda: real(runner.files, name, long, OnePersonality))  # noqa: E731
                found.append(Row(f"program/{name}/real/canary", without, needs_root))
    return found


def main() -> int:
    recorder = results.Recorder()
    with Environment("mptcp-programs") as env:
        runner = Runner(table.prepare_files(env))

        def judged(row: Row) -> results.Row:
            if row.real and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
                return results.Row(row.name, results.SKIPPED, 0.0, "/dev/net/tun cannot be opened")
            if row.needs_root and in_user_namespace():
                return results.Row(row.name, results.SKIPPED, 0.0, row.needs_root)
            return table.case(row.name, row.body)

        with ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
            for found in pool.map(judged, [row for row in all_rows(runner) if is_wanted(row.name)]):
                recorder.add(found)
    return recorder.finish()
