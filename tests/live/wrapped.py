"""compress and seal are switched on and off at both ends of a wire while a connection runs over it: LANA's example of adapting a running connection.

The ends are switched one after the other, half a second apart: each knows a frame of the other state when it sees one.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from harness.processes import Failure
from virtual.shared import expect

from . import frames
from .virtual_worlds import end_of_flows, generations, judge_programs, run, sha_of

ENVELOPE, COMPRESSED, SEALED = b"\x88\xb5", 1, 2
KEY = "00112233445566778899aabbccddeeff" * 2
SIZE = 12 << 20
# When a world's wall clock begins, since 1970.
BEGAN_NS = 1_893_456_000 * 10**9
# Milliseconds: what comes in is opened before the other end begins to close, and until it has stopped.
OPEN, CLOSE, STOP, END = (1000, 1500), (2000, 2500), (7000, 7500), (8000, 8500)
BY_BLOCKS = {"bad-packet", "filtered", "unknown-ether-type"}


@dataclasses.dataclass(frozen=True)
class Switch:
    """A pair of blocks at each end."""

    kind: str
    parameters: str
    number: int


def lines(switches: tuple[Switch, ...]) -> dict[int, list[tuple[str, list[str]]]]:
    told: dict[int, list[tuple[str, list[str]]]] = {}
    for node, at in (("a", 0), ("b", 1)):
        before = {"in": "interfaces:upper", "out": "ether:lower"}
        for place, switch in enumerate(switches):
            # The first is nearest to Ethernet on both ways: what leaves passes it first, what comes in last.
            comes, leaves = f"{switch.kind}-in", f"{switch.kind}-out"
            behind = f"{switches[place - 1].kind}-in:in" if place else "ether:lower"
            told.setdefault(OPEN[at] + place, []).append((node, [f"add {comes} {switch.kind} {switch.parameters}", f"insert {comes} {before['in']} {behind}"]))
            front = f"{switches[place - 1].kind}-out:out" if place else before["out"]
            told.setdefault(CLOSE[at] + place, []).append((node, [f"add {leaves} {switch.kind} {switch.parameters}", f"insert {leaves} {front} interfaces:upper"]))
            told.setdefault((OPEN[at] + STOP[at]) // 2 + place, []).append((node, [f"replace {leaves} {switch.kind}", f"replace {comes} {switch.kind}"]))
            told.setdefault(STOP[at] - place, []).append((node, [f"extract {leaves}", f"delete {leaves}"]))
            told.setdefault(END[at] - place, []).append((node, [f"extract {comes}", f"delete {comes}"]))
    return told


def on_the_wire(out: Path, kind: int) -> str:
    """Every frame between switching on and off is in an envelope, none before and after."""
    counts = [0, 0]
    for node, at in (("a", 0), ("b", 1)):
        for packet in frames.read(out / "captures" / f"{node}-eth0.pcapng"):
            if not packet.outbound:
                continue
            enveloped = packet.data[12:14] == ENVELOPE
            milliseconds = (packet.at_ns - BEGAN_NS) / 1e6
            # Of two, one is switched a millisecond before the other, and frames wait for the wire.
            switching = any(-2 <= milliseconds - turn[at] <= 100 for turn in (CLOSE, STOP))
            if enveloped and packet.data[14] != kind and not switching:
                raise Failure(f"an envelope of kind {packet.data[14]} at {packet.at_ns} ns")
            if CLOSE[at] + 100 < milliseconds < STOP[at] - 100 and kind == SEALED and not enveloped:
                raise Failure(f"{node} sent {packet.data[:40].hex()} at {milliseconds} ms")
            if enveloped and not CLOSE[at] <= milliseconds <= STOP[at] + 100:
                raise Failure(f"{node} sent an envelope at {milliseconds} ms")
            counts[enveloped] += 1
    if counts[1] < 1000:
        raise Failure(f"{counts[1]} frames in envelopes of {sum(counts)}")
    return f"{counts[1]} of {sum(counts)} frames in envelopes"


def switched(folder: Path, switches: tuple[Switch, ...]) -> str:
    sha = sha_of(folder, SIZE)
    # Only what the wire loses is lost: nothing.
    plain, _ = run(folder, "plain", SIZE, {}, loss=0.0)
    summary, out = run(folder, "switched", SIZE, lines(switches), loss=0.0)
    judge_programs(out, sha)
    for row in generations(out):
        if lost := BY_BLOCKS & set(row["drops"]):
            raise Failure(f"{row['node']}: {row['block']} dropped frames: {lost} {row['drops']}")
    expect("hash of both on one more run", run(folder, "again", SIZE, lines(switches), loss=0.0)[0]["hash"], summary["hash"])
    took = [end_of_flows(each) / 1e9 for each in (plain, summary)]
    return f"{on_the_wire(out, switches[-1].number)}; {took[1]:.2f} s (without: {took[0]:.2f})"


COMPRESS, SEAL = Switch("compress", "level=3", COMPRESSED), Switch("seal", f"key={KEY}", SEALED)
ROWS = {
    "compress/switched live": lambda folder: switched(folder, (COMPRESS,)),
    "seal/switched live": lambda folder: switched(folder, (SEAL,)),
    "compress and seal/switched live": lambda folder: switched(folder, (COMPRESS, SEAL)),
}
