"""Multipath TCP in a virtual world whose nodes are changed meanwhile: schedulers, controls, blocks, groups of interfaces, snapshots."""

from __future__ import annotations

import collections
import itertools
import json
import os
from pathlib import Path

from harness.processes import Failure
from virtual.shared import expect, keys, program, section, sim

from .virtual_worlds import RECEIVE, SEND

FULL = bool(os.environ.get("FULL"))
BYTES = (48 if FULL else 8) << 20
SECONDS = 120 if FULL else 30
WIRE = {"rate": "10mbit", "delay": "10ms", "queue_packets": 60, "loss": 0.001}
SCHEDULERS = ("lowest-rtt", "round-robin", "redundant", "backup", "blest", "ecf", "default")
CONTROLS = ("reno", "lia", "olia", "bbr", "balia", "wvegas", "cubic")
FIRST_MS, EVERY_MS, LAST_MS = 700, 40, (40_000 if FULL else 7_000)
# Of the interfaces of the second wire.
GROUP = "7"
JOINS_AT = 8080
# None of these may move: it would be plain TCP, or a peer that broke the rules.
WRONG = ("MPCapableFallbackACK", "MPCapableFallbackSYNACK", "DSSNotMatching", "DSSNoMatchTCP", "DataCsumErr", "NoDSSInWindow", "BadOptions", "WordsUnread")
NODES = {"a": "10.1.0.1", "b": "10.1.0.2"}

# Over IPv4, at a port of its own.
RECEIVE4 = RECEIVE.replace('"::"', '""').replace(", family=socket.AF_INET6", "")

Lines = dict[int, list[tuple[str, list[str]]]]


def world(lines: Lines, mptcp: bool = True, starts: tuple[str, ...] = ("300ms",), more: str = "") -> str:
    """Each node pushes to the other, as often as there are `starts`, over two wires. `lines`: by milliseconds, changes of nodes."""
    text = keys(duration=f"{SECONDS}s", capture=False)
    for name, address in NODES.items():
        addresses = {"eth0": f"{address}/24", "eth1": f"{address.replace('10.1', '10.2')}/24"}
        text += section(f"nodes.{name}", mptcp=mptcp, addresses=addresses)
    for number in ("one", "two"):
        text += section(f"wires.{number}", between=list(NODES), **WIRE)
    for at, (start, (name, address)) in enumerate(itertools.product(starts, NODES.items())):
        other = "b" if name == "a" else "a"
        port = str(7000 + at)
        text += program(f"receive{at}", name, "python3", "-ISc", RECEIVE4.replace("7000", port), expect="any")
        text += program(f"push{at}", other, "python3", "-ISc", SEND.replace("7000", port), address, str(BYTES), start=start)
    # Results have the counters of every generation of all blocks, once one is replaced.
    for name in NODES:
        text += "[[events]]\n" + keys(at="100ms", node=name, control=["replace loopback loopback"])
    for at, told in sorted(lines.items()):
        for name, control in told:
            text += "[[events]]\n" + keys(at=f"{at}ms", node=name, control=control)
    return text + more


def run(folder: Path, name: str, text: str) -> tuple[dict, Path]:
    out = folder / name
    summary = sim(folder, text, "--out", str(out))
    expect("hash of a second run", sim(folder, text, "--threads", "2")["hash"], summary["hash"])
    return summary, out


def judge(out: Path, pushes: int) -> None:
    """What arrived is what was sent."""
    for at in range(pushes):
        said = (out / "programs" / f"push{at}" / "stdout").read_text().split()
        if len(said) != 2 or said[0] != said[1]:
            raise Failure(f"digests of what push{at} sent and of what arrived: {said}")


def counted(out: Path) -> collections.Counter:
    """What the blocks of both nodes have counted, all generations together."""
    found: collections.Counter = collections.Counter()
    for line in (out / "generations.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["block"] == "mptcp":
            found.update(row["counters"])
    return found


def expect_sound(found: collections.Counter) -> None:
    if wrong := {name: found[name] for name in WRONG if found[name]}:
        raise Failure(f"counters that may not move: {wrong} of {dict(found)}")


def replaced(folder: Path) -> str:
    """Schedulers and congestion controls become others, blocks their successors, while data flows both ways."""
    lines: Lines = {}
    changes = (
        [f"set mptcp.scheduler {scheduler}" for scheduler in SCHEDULERS],
        [f"set mptcp.congestion {control}" for control in CONTROLS],
        [f"replace {block} {block}" for block in ("mptcp", "tcp", "sockets")],
    )
    # One of each kind in turn, to one node and the other.
    words = (word for each in zip(*map(itertools.cycle, changes)) for word in each)
    for at, name, word in zip(range(FIRST_MS, LAST_MS, EVERY_MS), itertools.cycle(NODES), words):
        lines[at] = [(name, [word])]
    summary, out = run(folder, "replaced", world(lines))
    judge(out, 2)
    found = counted(out)
    expect_sound(found)
    expect("joins", found["MPJoinAckRx"] >= 2, True)
    return f"{len(lines)} changes while {2 * BYTES >> 20} MiB passed, hash {summary['hash'][:8]}…"


def group_down(folder: Path) -> str:
    """The group of the second wire's interface is set down in the middle of the transfers, and up again."""
    more = program("group", "a", "sh", "-ec", f"ip link set dev eth1 group {GROUP}", start="100ms")
    more += program("down", "a", "sh", "-ec", f"ip link set group {GROUP} down; ip link show group {GROUP}", start="2s")
    more += program("up", "a", "sh", "-ec", f"ip link set group {GROUP} up", start="4s")
    summary, out = run(folder, "group", world({}, more=more))
    judge(out, 2)
    found = counted(out)
    expect_sound(found)
    # A subflow of each connection at first, and another of the one that a has opened after its group has come back.
    expect("joins", found["MPJoinAckRx"] >= 3, True)
    expect("addresses taken back", found["RmAddrTx"] >= 1, True)
    return f"{found['MPJoinAckRx']} joins, hash {summary['hash'][:8]}…"


def inserted(folder: Path) -> str:
    """Put under running connections and taken away again: those that were there stay what they are."""
    words = ["add mptcp mptcp", "insert mptcp sockets:tcp tcp:upper"]
    lines: Lines = {1000: [(name, words) for name in NODES], 4000: [(name, ["extract mptcp"]) for name in NODES]}
    summary, out = run(folder, "inserted", world(lines, mptcp=False, starts=("300ms", "2s", "5s")))
    judge(out, 6)
    found = counted(out)
    expect_sound(found)
    # The first two are plain TCP, and the last two; what lies between has two subflows.
    expect("connections that have it", (found["MPCapableSYNTX"], found["MPCapableACKRX"]), (2, 2))
    expect("joins", found["MPJoinAckRx"] >= 2, True)
    expect("connections that are left", found["MPCurrEstab"], 0)
    return f"2 of 6 connections have it, hash {summary['hash'][:8]}…"


def switched(folder: Path) -> str:
    """Switched off and on again, at both ends: what begins while it is off is plain TCP, at listeners that are there all the time, too."""
    lines: Lines = {ms: [(name, [f"set mptcp.enabled {on}"]) for name in NODES] for ms, on in ((1000, "false"), (4000, "true"))}
    lines[200] = [("a", ["set mptcp.path_manager kernel"]), ("b", [f"""set mptcp.endpoints '["10.2.0.2 dev eth1 signal port {JOINS_AT}"]'"""])]
    lines[1000 * SECONDS - 2000] = [("b", ["set mptcp.endpoints []"])]
    summary, out = run(folder, "switched", world(lines, starts=("300ms", "2s", "5s")))
    judge(out, 6)
    found = counted(out)
    expect_sound(found)
    expect("connections that have it", (found["MPCapableSYNTX"], found["MPCapableACKRX"]), (4, 4))
    # Whoever opened the connection: b announces the port on all of them, listens there itself, and does so again. At a there is nothing to join.
    expect("joins at an announced port", found["MPJoinPortAckRx"], 4)
    expect("connections that are left", found["MPCurrEstab"], 0)
    return f"4 of 6 connections have it, hash {summary['hash'][:8]}…"


def snapshots(folder: Path) -> str:
    """Each node in turn is stored and put back, while its connections run: the same hash as without."""
    plain, plain_out = run(folder, "plain", world({}))
    judge(plain_out, 2)
    lines: Lines = {}
    for turn, at in enumerate(range(FIRST_MS, LAST_MS, EVERY_MS)):
        name = "ab"[turn % 2]
        lines[at] = [(name, [f"snapshot {name}.snapshot"]), (name, [f"restore {name}.snapshot"])]
    restored, out = run(folder, "restored", world(lines))
    judge(out, 2)
    expect("hash", restored["hash"], plain["hash"])
    found = counted(out)
    expect_sound(found)
    expect("joins", found["MPJoinAckRx"] >= 2, True)
    return f"{len(lines)} snapshots restored, hash {plain['hash'][:8]}…"


ROWS = {
    "multipath/replaced": replaced,
    "multipath/group down and up": group_down,
    "multipath/inserted and extracted": inserted,
    "multipath/switched off and on": switched,
    "multipath/snapshots": snapshots,
}
