"""`make test-mptcp-sim`: weft's Multipath TCP beside Linux kernels, and beside itself, in virtual time. Each scenario runs twice, with one hash.

A row is named KIND/CLIENT-SERVER/FAMILY/CHECKSUM/WIRE. The short form has some of each; FULL=1 all, and Linux beside
Linux, which must do as well. ONLY= chooses among all by words of names, PRINT=1 prints their scenarios, to be run by hand
beside ends.py.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure
from virtual.shared import events, expect, keys, program, run_rows, section, weft_command

from . import counters, ends, judge, own_scheduler
from .cases import (
    BOXES, CHECKSUMS, CLEAN, EVERYTHING, FALLBACKS, GAIN_MIN, LINUX_LINUX, LINUX_WEFT, LOSSY, PLAIN, SCHEDULERS, SPREADING, WEFT_LINUX,
    WEFT_WEFT, Box, Case, Fallback, end_words, linux_endpoints, matrix, protocol, weft_endpoints,
)

SCRIPT = "/srv/ends.py"
# How to read the counters of a weft node after a run: its results have every generation of all blocks, once one is replaced.
REPLACED, GENERATIONS = "loopback", "generations.jsonl"
PAIRS = (WEFT_LINUX, LINUX_WEFT, WEFT_WEFT, LINUX_LINUX)
NODES = {"a": "client", "b": "server"}
RATE, DELAY = "100mbit", "10ms"
WIRES = {
    CLEAN: {"rate": RATE, "delay": DELAY},
    LOSSY: {"rate": RATE, "delay": DELAY, "jitter": "1ms", "loss": 0.01, "duplicate": 0.005, "reorder": 0.01, "reorder_by": "3ms"},
}
# Virtual seconds until everything must have ended, on either wire; and when clients begin.
SECONDS = {CLEAN: 30, LOSSY: 90}
START = 1
# A watchdog: real seconds of a run that takes one or two.
WALL_SECONDS_MAX = 90
# Worlds of Linux kernels and of programs leave a processor idle.
ROWS_AT_ONCE = 2


def expect_kernel(folder: Path, kernel: str) -> None:
    built = {of["name"] for of in json.loads(weft_command(folder, "kernel", "list", "--json").stdout)}
    if not built or kernel and kernel not in built:
        which = f" {kernel}" if kernel else ""
        raise paths.MissingTool(f"no Linux kernel{which} has been built: `weft kernel build{which}` takes a few minutes")


def node(host: str, checksum: bool = False, enabled: bool = True, parameters: Mapping | None = None, **more) -> dict:
    """The keys of a node; `enabled`: it has Multipath TCP."""
    more["files"] = {SCRIPT: {"from": "ends.py"}}
    if host == "linux":
        return {"kind": "linux", "sysctls": {"net.mptcp.enabled": str(int(enabled)), "net.mptcp.checksum_enabled": str(int(checksum))}} | more
    parameters = dict(parameters or {}) | ({"mptcp.checksum": True} if checksum else {})
    return {"mptcp": enabled} | ({"parameters": parameters} if parameters else {}) | more


def programs(kind: str, protocols: tuple[str, str], family: str, address: str, expect: str = "0") -> str:
    """The server on node b, and the client on a."""
    expected = {"server": expect, "client": "any" if kind in judge.KILLED else expect}
    text = ""
    for name, role, asked, start in (("b", "server", protocols[1], "500ms"), ("a", "client", protocols[0], f"{START}s")):
        text += program(role, name, "python3", SCRIPT, *end_words(role, kind, family, asked, address), start=start, expect=expected[role])
    return text


def looks(hosts: tuple[str, str], seconds: int) -> str:
    """The counters of all nodes, when everything has ended."""
    text, at = "", f"{seconds - 1}s"
    for name, host in zip(NODES, hosts, strict=True):
        if host == "linux":
            text += program(f"nstat-{name}", name, *counters.NSTAT, start=at)
        else:
            text += events({"at": at, "node": name, "control": [f"replace {REPLACED} {REPLACED}"]})
    return text


def scenario(case: Case) -> str:
    seconds = SECONDS[case.wire]
    text = keys(duration=f"{seconds}s", ipv6=True)
    for name, host in zip(NODES, case.hosts, strict=True):
        text += section(f"nodes.{name}", **node(host, case.wants_checksum(host)))
    text += section("wires.ab", between=["a", "b"], **WIRES[case.wire])
    client, server = case.hosts
    text += programs(case.kind, (protocol(client), protocol(server)), case.family, "b") + looks(case.hosts, seconds)
    if case.kind in judge.KILLED:
        text += events({"at": f"{START + case.kill_seconds}s", "signal": "client", "name": "SIGKILL"})
    return text


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run came to; counters by the name of the node."""

    summary: dict
    wrote: dict[str, str]
    counters: dict[str, Mapping[str, int]]

    def reports(self, kind: str) -> tuple[judge.Report | None, judge.Report]:
        client = None if kind in judge.KILLED else judge.report(self.wrote["client"], "the client")
        return client, judge.report(self.wrote["server"], "the server")


def run(folder: Path, text: str, hosts: tuple[str, str], kernel: str = "", once: bool = False) -> Result:
    """Two runs, on one thread and on two, which must come to one hash; `kernel`: that of Linux nodes, if not the latest. `once`: of something that a
    row compares with such a run, the first is enough."""
    if "linux" in hosts:
        expect_kernel(folder, kernel)
    if kernel:
        text = text.replace(keys(kind="linux"), keys(kind="linux", kernel=kernel))
    shutil.copy(Path(ends.__file__), folder / "ends.py")
    (folder / "w.toml").write_text(text)
    if os.environ.get("PRINT"):
        print(text, flush=True)
    out = folder / "out"
    words = ("sim", "w.toml", "--json", "--wall-limit", f"{WALL_SECONDS_MAX * PATIENCE:.0f}s")
    try:
        done = weft_command(folder, *words, "--out", str(out))
    except Failure as failure:
        outputs = sorted(out.glob("programs/[cs]*/std*"))
        raise Failure(f"{failure}\n" + "".join(f"{path.parent.name}: {path.read_text()[-600:]}\n" for path in outputs)) from None
    summary = json.loads(done.stdout)
    if not once:
        expect("hash of the second run", json.loads(weft_command(folder, *words, "--threads", "2").stdout)["hash"], summary["hash"])
    wrote = {path.parent.name: path.read_text() for path in out.glob("programs/*/stdout")}
    kinds = dict(zip(NODES, hosts, strict=True))
    found = {name: counters.parsed(wrote[f"nstat-{name}"]) for name, host in kinds.items() if host == "linux"}
    return Result(summary, wrote, found | of_weft(out, [name for name, host in kinds.items() if host == "weft"]))


def of_weft(out: Path, nodes: list[str]) -> dict[str, Mapping[str, int]]:
    """What these nodes have counted, all generations of a block together."""
    found: dict[str, collections.Counter] = {name: collections.Counter() for name in nodes}
    rows = [json.loads(line) for line in (out / GENERATIONS).read_text().splitlines()] if nodes else []
    for row in rows:
        # Routers on the way have generations of their own.
        if row["node"] in found:
            found[row["node"]].update(counters.of_block(row["block"], row["counters"]))
    return dict(found)


def matrix_row(case: Case, kernel: str = "") -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        result = run(folder, scenario(case), case.hosts, kernel)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        for (name, role), host in zip(NODES.items(), case.hosts, strict=True):
            counters.expect_spoken(f"{role} ({host})", result.counters[name], role, ends.KINDS[case.kind].connections)
            excused = counters.excused(host, case.wire == LOSSY)
            counters.expect_sound(f"{role} ({host})", result.counters[name], case.kind in judge.RESETS, excused)
        return f"{said}, {time_of(result.summary):.1f} s"

    return body


def time_of(summary: dict) -> float:
    """Virtual seconds at which the server had ended."""
    return next(row["end_ns"] for row in summary["programs"] if row["name"] == "server") / 1e9


def fallback_row(case: Fallback, family: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        client, server = case.pair.split("-")
        hosts, protocols = (client, server), {"client": protocol(client), "server": protocol(server)} | {case.plain: PLAIN}
        text = keys(duration=f"{SECONDS[CLEAN]}s", ipv6=True)
        for (name, role), host in zip(NODES.items(), hosts, strict=True):
            text += section(f"nodes.{name}", **node(host, enabled=role != case.plain or case.enabled))
        text += section("wires.ab", between=["a", "b"], **WIRES[CLEAN])
        text += programs("transfer", (protocols["client"], protocols["server"]), family, "b") + looks(hosts, SECONDS[CLEAN])
        result = run(folder, text, hosts)
        said = judge.expect_ends("transfer", *result.reports("transfer"))
        [(name, role)] = [(name, role) for name, role in NODES.items() if role != case.plain]
        found = result.counters[name]
        expect(f"counters of the {role}", {counter: found.get(counter, 0) for counter in case.counted}, case.counted)
        counters.expect_sound(f"the {role}", found, but=("MPCapableFallbackSYNACK",))
        return said

    return body


def box_scenario(case: Case, box: Box) -> str:
    """A router between the two, with the box in it."""
    text, seconds = keys(duration=f"{SECONDS[CLEAN]}s", ipv6=True), SECONDS[CLEAN]
    for name, host in zip(NODES, case.hosts, strict=True):
        text += section(f"nodes.{name}", **node(host, case.wants_checksum(host)))
    text += section("nodes.r")
    for near in NODES:
        text += section(f"wires.{near}r", between=[near, "r"], **WIRES[CLEAN])
    client, server = case.hosts
    text += programs(case.kind, (protocol(client), protocol(server)), case.family, "b") + looks(case.hosts, seconds)
    return text + events({"at": "0s", "node": "r", "control": [f"add box {box.words}", "insert box interfaces:upper ether:lower"]})


def box_row(case: Case, box: Box) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        result = run(folder, box_scenario(case, box), case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        for (name, role), wanted in zip(NODES.items(), (box.client, box.server), strict=True):
            found = result.counters[name]
            expect(f"counters of the {role}", {counter: found.get(counter, 0) for counter in wanted}, wanted)
            if not wanted:
                counters.expect_spoken(f"the {role}", found, role, 1)
            counters.expect_sound(f"the {role}", found, but=tuple(wanted))
        return said

    return body


# Two wires between the same two nodes, as wide as each other: their addresses on each.

PATHS = {"one": {"a": "10.1.0.1", "b": "10.1.0.2"}, "two": {"a": "10.2.0.1", "b": "10.2.0.2"}}
PATH_MBIT = 10
PATH = {"rate": f"{PATH_MBIT}mbit", "delay": "10ms", "queue_packets": 60}
PATHS_SECONDS = 40
# What happens to the wires meanwhile. Who carries how much is judged where nothing does.
NOTHING = "both wires"
HAPPENS = {
    NOTHING: (),
    "one loses": ({"at": "1s", "wire": "one", "set": {"loss": 0.01}},),
    "one ends": ({"at": "3s", "down": "one"},),
    "two ends": ({"at": "3s", "down": "two"},),
    "one is away": ({"at": "3s", "down": "one"}, {"at": "6s", "up": "one"}),
}


def paths_scenario(case: Case, happens: str, scheduler: str) -> str:
    text, setup = keys(duration=f"{PATHS_SECONDS}s"), ""
    for (name, role), host in zip(NODES.items(), case.hosts, strict=True):
        second = PATHS["two"][name]
        more: dict = {"addresses": {f"eth{number}": f"{path[name]}/24" for number, path in enumerate(PATHS.values())}}
        if host == "linux":
            setup += program(f"paths-{name}", name, "sh", "-ec", "; ".join(linux_endpoints(role, (second, "eth1"))))
        else:
            more["parameters"] = weft_endpoints(role, (second, "eth1")) | {"mptcp.scheduler": scheduler}
        text += section(f"nodes.{name}", **node(host, case.wants_checksum(host), **more))
    for wire in PATHS:
        text += section(f"wires.{wire}", between=["a", "b"], **PATH)
    client, server = case.hosts
    text += setup + programs(case.kind, (protocol(client), protocol(server)), case.family, PATHS["one"]["b"])
    return text + events(*HAPPENS[happens]) + looks(case.hosts, PATHS_SECONDS)


def paths_row(case: Case, happens: str = NOTHING, scheduler: str = SCHEDULERS[0], kernel: str = "") -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        result = run(folder, paths_scenario(case, happens, scheduler), case.hosts, kernel)
        client, server = result.reports(case.kind)
        said = judge.expect_ends(case.kind, client, server)
        for (name, role), host in zip(NODES.items(), case.hosts, strict=True):
            # Linux sends beyond the window of its peer, where one of two paths holds it up: so beside Linux, too. It resets the subflow of a wire
            # that has ended when the connection ends.
            moves = ("NoDSSInWindow",) + (("MPRstTx",) if host == "linux" else ()) if happens != NOTHING else ()
            counters.expect_sound(f"{role} ({host})", result.counters[name], but=moves)
        counters.expect_joined("the server", result.counters["b"])
        carried = [wire["directions"][0]["bytes"] for wire in result.summary["wires"]]
        if happens != NOTHING or scheduler not in SPREADING:
            return f"{said}, {carried} bytes, {judge.goodput_mbit(server):.1f} Mbit/s"
        return f"{said}, " + judge.expect_both(carried, judge.goodput_mbit(server), PATH_MBIT, GAIN_MIN)

    return body


# In the short form: all kinds in both roles, and each family, checksum and wire some times.
SHORT = (
    Case("transfer", WEFT_LINUX),
    Case("transfer", LINUX_WEFT, "v6"),
    Case("transfer", WEFT_LINUX, "mapped", "checksum by Linux", LOSSY),
    Case("transfer", LINUX_WEFT, "mapped", "checksum by weft", LOSSY),
    Case("both", WEFT_LINUX, "v6", "checksum by weft", LOSSY),
    Case("both", LINUX_WEFT, "v4", "checksum by Linux", LOSSY),
    Case("echo", WEFT_LINUX, "v6", "checksum by Linux", LOSSY),
    Case("echo", LINUX_WEFT, "v4", "checksum by weft"),
    Case("unread", WEFT_LINUX),
    Case("unread", LINUX_WEFT),
    Case("killed", WEFT_LINUX),
    Case("killed", LINUX_WEFT),
    Case("killed-unread", WEFT_LINUX),
    Case("killed-unread", LINUX_WEFT),
    Case("slow", WEFT_LINUX),
    Case("slow", LINUX_WEFT, "v6", "checksum by Linux"),
    Case("full", WEFT_LINUX),
    Case("full", LINUX_WEFT),
    Case("sequence", WEFT_LINUX),
    Case("sequence", LINUX_WEFT),
    Case("crowd", WEFT_LINUX, "v6"),
    Case("crowd", LINUX_WEFT, wire=LOSSY),
    Case("transfer", WEFT_WEFT, "v4", "checksum by weft", LOSSY),
    Case("both", WEFT_WEFT, "v6", wire=LOSSY),
    Case("unread", WEFT_WEFT),
    Case("crowd", WEFT_WEFT),
)
FALLBACKS_SHORT = ("Linux's server has a TCP socket", "Linux's client has net.mptcp.enabled=0", "weft's server has no mptcp", "one weft has no mptcp")
BOXES_SHORT = (("renumbers", WEFT_LINUX), ("strips the answers", WEFT_LINUX), ("strips the answers", LINUX_WEFT))
# Beside Linux.
SCHEDULERS_SHORT = ("round-robin", "redundant")
PATHS_SHORT = (
    (Case("long", WEFT_LINUX), NOTHING), (Case("long", LINUX_WEFT), NOTHING), (Case("long", WEFT_WEFT, checksum="checksum by weft"), NOTHING),
    (Case("long", WEFT_LINUX), "one ends"), (Case("long", LINUX_WEFT), "one is away"),
)


def ports_row(pair: str) -> Callable[[Path], str]:
    """Three subflows between the same two addresses, over the one wire: the client opens two more from other ports."""
    def body(folder: Path) -> str:
        case, seconds = Case("long", pair), SECONDS[CLEAN]
        text = keys(duration=f"{seconds}s")
        for name, host in zip(NODES, case.hosts, strict=True):
            text += section(f"nodes.{name}", **node(host, parameters={"mptcp.path_manager": "ndiffports", "mptcp.ndiffports": 3}))
        text += section("wires.ab", between=["a", "b"], **WIRES[CLEAN])
        client, server = case.hosts
        text += programs(case.kind, (protocol(client), protocol(server)), case.family, "b") + looks(case.hosts, seconds)
        result = run(folder, text, case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        for name in NODES:
            counters.expect_sound(name, result.counters[name])
        expect("joins", [result.counters["a"]["MPJoinSynTx"], result.counters["b"]["MPJoinAckRx"]], [2, 2])
        return f"{said}, {time_of(result.summary):.1f} s"

    return body


# Both wires lose all when the server announces its second address, and until the handshake has been repeated.
DEAF = ({"at": "1047ms", "wire": "one", "set": {"loss": 1.0}}, {"at": "1200ms", "wire": "one", "set": {"loss": 0.0}})
SAYS_AGAIN_AFTER = 2
# Settings, as parameters of weft's nodes and as sysctls of Linux's.
Both = tuple[dict[str, object], dict[str, str]]
SAYS_AGAIN: Both = ({"mptcp.add_addr_timeout": f"{SAYS_AGAIN_AFTER}s"}, {"net.mptcp.add_addr_timeout": str(SAYS_AGAIN_AFTER)})
# weft's client goes where it is told, and not from every address that it has.
TOLD: Both = ({"mptcp.path_manager": "kernel"}, {})
COOKIES: Both = ({"tcp.syncookies": 2, "mptcp.path_manager": "kernel"}, {"net.ipv4.tcp_syncookies": "2"})


def announcing(folder: Path, pair: str, words: str, happens: tuple[dict, ...], settings: Both) -> tuple[str, dict[str, dict[str, int]]]:
    """A server that announces its second address, in the words of an endpoint. What the ends say, and their counters."""
    case, second = Case("long", pair), PATHS["two"]["b"]
    text = keys(duration=f"{PATHS_SECONDS}s")
    for name, host in zip(NODES, case.hosts, strict=True):
        more: dict = {"addresses": {f"eth{number}": f"{path[name]}/24" for number, path in enumerate(PATHS.values())}}
        if host == "weft":
            announces = {"mptcp.endpoints": [f"{second} signal {words}"]} if name == "b" else {}
            more["parameters"] = announces | settings[0]
        else:
            more["sysctls"] = {"net.mptcp.enabled": "1"} | settings[1]
        text += section(f"nodes.{name}", **node(host, **more))
    for wire in PATHS:
        text += section(f"wires.{wire}", between=["a", "b"], **PATH)
    setup = {"a": linux_endpoints("client"), "b": [*linux_endpoints("server"), f"ip mptcp endpoint add {second} dev eth1 signal {words}"]}
    for name, host in zip(NODES, case.hosts, strict=True):
        if host == "linux":
            text += program(f"paths-{name}", name, "sh", "-ec", "; ".join(setup[name]))
    client, server = case.hosts
    text += programs(case.kind, (protocol(client), protocol(server)), case.family, PATHS["one"]["b"]) + events(*happens) + looks(case.hosts, PATHS_SECONDS)
    result = run(folder, text, case.hosts)
    said = judge.expect_ends(case.kind, *result.reports(case.kind))
    for name in NODES:
        counters.expect_sound(name, result.counters[name])
    return f"{said}, {time_of(result.summary):.1f} s", result.counters


def announced_again_row(pair: str) -> Callable[[Path], str]:
    """The peer hears of the second address when it is announced for the second time."""
    def body(folder: Path) -> str:
        said, found = announcing(folder, pair, "", DEAF, SAYS_AGAIN)
        wanted = [found[name][of] for name, of in (("b", "AddAddrTx"), ("a", "AddAddr"), ("a", "MPJoinSynTx"), ("b", "EchoAdd"))]
        expect("announced, heard, joined, echoed", wanted, [2, 1, 1, 1])
        return said

    return body


def announced_port_row(pair: str, cookies: bool) -> Callable[[Path], str]:
    """A port of its own is announced with the address. With cookies the server keeps nothing of a SYN."""
    def body(folder: Path) -> str:
        said, found = announcing(folder, pair, "port 7000", (), COOKIES if cookies else TOLD)
        wanted = [found[name][of] for name, of in (("b", "MPJoinPortSynRx"), ("a", "MPJoinPortSynAckRx"), ("b", "MPJoinPortAckRx"), ("b", "MPJoinAckRx"))]
        expect("joins at the port: asked, answered, done; all", wanted, [1, 1, 1, 1])
        return said

    return body


# Subflows of a connection, all but the first asked for at once.
AT_ONCE = 4


def cookies_at_once_row(folder: Path) -> str:
    """Several joins wait for their end at a time, and the server has kept none of their SYNs."""
    settings: Both = ({"tcp.syncookies": 2, "mptcp.path_manager": "ndiffports", "mptcp.ndiffports": AT_ONCE}, {})
    said, found = announcing(folder, WEFT_WEFT, "", (), settings)
    expect("joins: asked, answered, done", [found[name][of] for name, of in (("b", "MPJoinSynRx"), ("a", "MPJoinSynAckRx"), ("b", "MPJoinAckRx"))],
           [AT_ONCE - 1] * 3)
    return said


# The families of two paths: of the connection's first, as its client's socket has it, and of the address that the server announces. And the joins that come
# of it: a socket of IPv4 has subflows of IPv4 only (mptcp_pm_addr_families_match).
BY_FAMILY = {("v4", "6"): 0, ("v4 and v6", "6"): 1, ("v6 and v4", "4"): 1}
OF_FAMILY = {"4": ("10.{}.0.{}", 24), "6": ("fd0{}::{}", 64)}


def family_row(pair: str, family: str, second: str) -> Callable[[Path], str]:
    """A second path that is of the other family, of a client whose socket takes both or not."""
    def body(folder: Path) -> str:
        case, first = Case("long", pair, family), "6" if family.startswith("v6") else "4"
        ends_of = {name: [OF_FAMILY[of][0].format(wire, host) for wire, of in ((1, first), (2, second))] for host, name in enumerate(NODES, 1)}
        text = keys(duration=f"{PATHS_SECONDS}s", ipv6=True)
        for (name, role), host in zip(NODES.items(), case.hosts, strict=True):
            both = zip((f"{ends_of[name][0]}/{OF_FAMILY[first][1]}", f"{ends_of[name][1]}/{OF_FAMILY[second][1]}"), ("eth0", "eth1"), strict=True)
            more: dict = {"addresses": {device: address for address, device in both}}
            if host == "weft":
                more["parameters"] = weft_endpoints(role, (ends_of[name][1], "eth1"))
            else:
                text += program(f"paths-{name}", name, "sh", "-ec", "; ".join(linux_endpoints(role, (ends_of[name][1], "eth1"))), start="100ms")
            text += section(f"nodes.{name}", **node(host, **more))
        for wire in PATHS:
            text += section(f"wires.{wire}", between=["a", "b"], **PATH)
        client, server = case.hosts
        where = f"::ffff:{ends_of['b'][0]}" if family == "v4 and v6" else ends_of["b"][0]
        result = run(folder, text + programs(case.kind, (protocol(client), protocol(server)), family, where) + looks(case.hosts, PATHS_SECONDS), case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        expect("joins", result.counters["b"].get("MPJoinAckRx", 0), BY_FAMILY[family, second])
        return said

    return body


# What the SYN carries, and all that each end sends. The server reads a piece before it answers.
EARLY_BYTES, EARLY_ALL = 1000, 300_000
EARLY = f"""import socket, sys
role, host, protocol = sys.argv[1:]
data = bytes(range(251)) * ({EARLY_ALL} // 251)
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, int(protocol))
if role == "serve":
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
    s.bind(("0.0.0.0", 5000))
    s.listen()
    # Where nobody listens there are no joins.
    listener, (s, _) = s, s.accept()
    got = s.recv(1)
    s.sendall(data)
else:
    print(s.sendto(data[:{EARLY_BYTES}], socket.MSG_FASTOPEN, (host, 5000)))
    s.sendall(data[{EARLY_BYTES}:])
    got = s.recv(1)
# TCPI_OPT_SYN_DATA.
print(bool(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & 32))
s.shutdown(socket.SHUT_WR)
while piece := s.recv(65536):
    got += piece
assert got == data, (len(got), len(data))
print("whole")
"""


def fast_open_row(pair: str) -> Callable[[Path], str]:
    """Data of a SYN, which comes before the connection's first number (RFC 8684, appendix B), over two paths. No cookies, as those do not fit beside
    MP_CAPABLE in a SYN|ACK with timestamps."""
    def body(folder: Path) -> str:
        folder.chmod(0o755)
        (folder / "early.py").write_text(EARLY)
        case, text = Case("long", pair), keys(duration=f"{PATHS_SECONDS}s")
        for name, host in zip(NODES, case.hosts, strict=True):
            more: dict = {"addresses": {f"eth{number}": f"{path[name]}/24" for number, path in enumerate(PATHS.values())}}
            second = PATHS["two"][name], "eth1"
            if host == "weft":
                more["parameters"] = {"tcp.fastopen": 519} | weft_endpoints(NODES[name], second)
            else:
                more["sysctls"] = {"net.mptcp.enabled": "1", "net.ipv4.tcp_fastopen": "519"}
                text += program(f"paths-{name}", name, "sh", "-ec", "; ".join(linux_endpoints(NODES[name], second)))
            text += section(f"nodes.{name}", **node(host, **more))
            role = {"a": "open", "b": "serve"}[name]
            words = "python3", str(folder / "early.py"), role, PATHS["one"]["b"], str(protocol(host))
            text += program(role, name, *words, start="2s" if role == "open" else "1s")
        for wire in PATHS:
            text += section(f"wires.{wire}", between=["a", "b"], **PATH)
        result = run(folder, text + looks(case.hosts, PATHS_SECONDS), case.hosts)
        for name, said in (("open", [str(EARLY_BYTES), "True", "whole"]), ("serve", ["True", "whole"])):
            expect(name, result.wrote[name].split(), said)
        for name in NODES:
            # Linux's server sends beyond the window of its client, whoever that is.
            counters.expect_sound(name, result.counters[name], but=("NoDSSInWindow",) if case.hosts[1] == "linux" else ())
        counters.expect_joined("the server", result.counters["b"])
        return f"{EARLY_BYTES} bytes with the SYN"

    return body


# A client and a server that ask for Multipath TCP by name, and say whether they have got it.
GO = """package main
import ("context"; "fmt"; "io"; "net"; "os")
func main() {
	if os.Args[1] == "serve" {
		var config net.ListenConfig
		config.SetMultipathTCP(true)
		listener, err := config.Listen(context.Background(), "tcp", ":5000")
		if err != nil { panic(err) }
		c, err := listener.Accept()
		if err != nil { panic(err) }
		all, err := io.ReadAll(c)
		is, why := c.(*net.TCPConn).MultipathTCP()
		fmt.Println(len(all), err, is, why)
		return
	}
	var dialer net.Dialer
	dialer.SetMultipathTCP(true)
	c, err := dialer.Dial("tcp", os.Args[1] + ":5000")
	if err != nil { panic(err) }
	sent, err := c.Write(make([]byte, 100000))
	is, why := c.(*net.TCPConn).MultipathTCP()
	fmt.Println(sent, err, is, why)
	c.Close()
}
"""


def go_row(multipath: bool) -> Callable[[Path], str]:
    """Go's own switch: with the block both ends have it, without they go on as TCP."""
    def body(folder: Path) -> str:
        # Programs of a node are executed by whoever may.
        folder.chmod(0o755)
        (folder / "main.go").write_text(GO)
        built = subprocess.run([paths.tool("go"), "build", "-o", str(folder / "talks"), str(folder / "main.go")], capture_output=True, text=True,
                               timeout=PATIENCE * WALL_SECONDS_MAX, env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"})
        if built.returncode:
            raise Failure(built.stderr[-1000:])
        nodes = {f"nodes.{name}": {"mptcp": multipath} for name in ("a", "b")}
        talks = str(folder / "talks")
        (folder / "go.toml").write_text(keys(seed=1, duration="20s") + "".join(section(name, **given) for name, given in nodes.items())
                                        + section("wires.ab", between=["a", "b"]) + program("server", "b", talks, "serve")
                                        + program("client", "a", talks, "b", start="1s"))
        weft_command(folder, "sim", "go.toml", "--out", "go")
        said = [(folder / "go" / "programs" / name / "stdout").read_text().split() for name in ("client", "server")]
        expect("what both ends say", said, [["100000", "<nil>", str(multipath).lower(), "<nil>"]] * 2)
        return "both ends"

    return body


def rows() -> dict[str, Callable[[Path], str]]:
    cases = matrix(PAIRS, WIRES) if EVERYTHING else SHORT
    found = {case.name: matrix_row(case) for case in cases}
    found |= {"go asks for it": go_row(True), "go asks for it in vain": go_row(False)}
    for name in FALLBACKS if EVERYTHING else FALLBACKS_SHORT:
        for family in ("v4", "v6") if EVERYTHING else ("v4",):
            found[f"fallback/{name}/{family}"] = fallback_row(FALLBACKS[name], family)
    for name, pair in itertools.product(BOXES, PAIRS) if EVERYTHING else BOXES_SHORT:
        found[f"box {name}/{pair}"] = box_row(Case("transfer", pair), BOXES[name])
    every = [Case("long", pair, checksum=checksum) for pair in PAIRS for checksum in CHECKSUMS]
    all_of_them = tuple(itertools.product([case for case in every if case.makes_sense], HAPPENS))
    for case, happens in all_of_them if EVERYTHING else PATHS_SHORT:
        found[f"two paths/{case.pair}/{case.checksum}/{happens}"] = paths_row(case, happens)
    sending = itertools.product((WEFT_LINUX, WEFT_WEFT), HAPPENS) if EVERYTHING else ((WEFT_WEFT, NOTHING),)
    schedulers = [*itertools.product(sending, SCHEDULERS[1:]), *(((WEFT_LINUX, NOTHING), name) for name in SCHEDULERS_SHORT)]
    for (pair, happens), scheduler in schedulers:
        found[f"two paths/{pair}/{scheduler}/{happens}"] = paths_row(Case("long", pair), happens, scheduler)
    found |= {f"ndiffports/{pair}": ports_row(pair) for pair in (WEFT_LINUX, WEFT_WEFT)}
    found |= {f"announced again/{pair}": announced_again_row(pair) for pair in (PAIRS if EVERYTHING else (WEFT_LINUX, LINUX_WEFT))}
    found |= {f"announced port{', cookies' if cookies else ''}/{pair}": announced_port_row(pair, cookies)
              for pair in PAIRS for cookies in (False, True) if EVERYTHING or cookies and pair in (WEFT_LINUX, LINUX_WEFT)}
    found[f"joins at once, cookies/{WEFT_WEFT}"] = cookies_at_once_row
    found |= {f"fast open/{pair}": fast_open_row(pair) for pair in ((WEFT_LINUX, LINUX_WEFT, WEFT_WEFT) if EVERYTHING else (WEFT_LINUX, LINUX_WEFT))}
    found |= {f"families/{pair}/{family} then {second}": family_row(pair, family, second) for pair in PAIRS for family, second in BY_FAMILY
              if EVERYTHING or second == "6" and pair == WEFT_LINUX}
    return found | own_scheduler.rows()


def main(more: Mapping[str, Callable[[Path], str]]) -> int:
    # A node has a /tmp of its own: what its programs are to find lies elsewhere.
    tempfile.tempdir = "/var/tmp"
    return run_rows(rows() | more, at_once=ROWS_AT_ONCE)
