"""Blocks that hold frames back, and choose among them by chance, are replaced under traffic: the wire carries the same frames, at the same nanosecond."""

from __future__ import annotations

from pathlib import Path

from harness.processes import Failure
from virtual.shared import expect

from . import frames
from .virtual_worlds import BY_CHANGES, FULL, end_of_flows, generations, judge_programs, longest_gap_ms, run, sha_of

SIZE = (24 if FULL else 6) << 20
SETUP_MS, FIRST_MS = 100, 500
# A node remembers 4,096 generations.
EVERY_MS, LAST_MS = (15, 55_000) if FULL else (7, 13_000)
# On the way out of each node, one behind the other: kind and parameters.
BLOCKS = {
    "reorder": "reorder probability=0.02 time=4ms",
    "gilbert": "gilbert p=0.002 r=0.4 loss_bad=0.5",
    "jitter": "delay delay=1ms jitter=500us",
    "rate": "rate rate=40mbit overhead_bytes=24",
    "delay": "delay delay=3ms",
}


def setup() -> list[str]:
    lines, front = [], "ether:lower"
    for name, block in BLOCKS.items():
        lines += [f"add {name} {block}", f"insert {name} {front} interfaces:upper"]
        front = f"{name}:out"
    return lines


def lines(end_ms: int) -> dict[int, list[tuple[str, list[str]]]]:
    told = {SETUP_MS: [(node, setup()) for node in "ab"]}
    names = list(BLOCKS)
    for turn, at in enumerate(range(FIRST_MS, end_ms, EVERY_MS)):
        name = names[turn // 2 % len(names)]
        told[at] = [("ab"[turn % 2], [f"replace {name} {BLOCKS[name].split()[0]}"])]
    return told


def on_the_wire(out: Path) -> list[tuple[int, bytes]]:
    return [(packet.at_ns, packet.data) for node in "ab" for packet in frames.read(out / "captures" / f"{node}-eth0.pcapng") if packet.outbound]


def replaced(folder: Path) -> str:
    sha = sha_of(folder, SIZE)
    plain, plain_out = run(folder, "plain", SIZE, lines(0))
    summary, out = run(folder, "replaced", SIZE, lines(LAST_MS))
    for each in (plain_out, out):
        judge_programs(each, sha)
        longest_gap_ms(each)
    expect("end of the flows", end_of_flows(summary), end_of_flows(plain))
    before, after = on_the_wire(plain_out), on_the_wire(out)
    if before != after:
        first = next(at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
        raise Failure(f"frame {first} of {len(before)} and {len(after)} is another, or left at another time: {before[first][0]} and {after[first][0]} ns")
    return f"{len(before)} frames, each the same; {judge_generations(out)}"


def judge_generations(out: Path) -> str:
    """What is lost is what a block has chosen: the generations' counters add up, from block to block."""
    rows = generations(out)
    for row in rows:
        if lost := BY_CHANGES & set(row["drops"]):
            raise Failure(f"{row['node']}: generation {row['generation']} of {row['block']} lost frames: {lost} {row['drops']}")
    for node in "ab":
        of = {name: [row for row in rows if (row["node"], row["block"]) == (node, name)] for name in BLOCKS}
        sums = {name: {counter: sum(row["counters"][counter] for row in of[name]) for counter in of[name][0]["counters"]} for name in BLOCKS}
        expect(f"frames from reorder to gilbert of {node}", sums["gilbert"]["Passed"] + sums["gilbert"]["Lost"], sums["reorder"]["Passed"])
        for front, behind in (("gilbert", "jitter"), ("jitter", "rate"), ("rate", "delay")):
            expect(f"frames from {front} to {behind} of {node}", sums[behind]["Passed"], sums[front]["Passed"])
        if not sums["gilbert"]["Lost"] or not sums["reorder"]["Held"]:
            raise Failure(f"nothing was lost or held back at {node}")
        if (fewest := min(sum(row["frames"] > 0 for row in of[name]) for name in BLOCKS)) < 50:
            raise Failure(f"{fewest} generations of a block of {node} have seen frames")
    return f"{len(rows)} generations"


ROWS = {"tools/replaced": replaced}
