"""Snapshots of nodes of a virtual world, taken and put back while programs use them: the world goes on as if nothing had been."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from harness.processes import Failure
from harness import weft
from virtual.shared import SECONDS_MAX, expect, sim

from . import frames
from .virtual_worlds import judge_programs, sha_of, world

SIZE = (24 if os.environ.get("FULL") else 6) << 20
FIRST_MS, EVERY_MS, COUNT = 700, 97, 400 if os.environ.get("FULL") else 60


def captured(out: Path) -> list[list]:
    return [[(packet.at_ns, packet.outbound, packet.data) for packet in frames.read(out / "captures" / f"{node}-eth0.pcapng")] for node in ("a", "b")]


def round_trips() -> dict[int, list[tuple[str, list[str]]]]:
    """Each node in turn: a snapshot, and at the same time its restoration, through the file."""
    lines = {}
    for turn in range(COUNT):
        node = "ab"[turn % 2]
        lines[FIRST_MS + EVERY_MS * turn] = [(node, [f"snapshot {node}.snapshot"]), (node, [f"restore {node}.snapshot"])]
    return lines


def same(folder: Path) -> str:
    """TCP through loss, over both families: the same hash and the same frames with and without."""
    sha = sha_of(folder, SIZE)
    plain = sim(folder, world(SIZE, {}, loss=0.01), "--out", str(folder / "plain"))
    judge_programs(folder / "plain", sha)
    out, text = folder / "restored", world(SIZE, round_trips(), loss=0.01)
    restored = sim(folder, text, "--out", str(out))
    judge_programs(out, sha)
    if captured(out) != captured(folder / "plain"):
        raise Failure("frames on the wire are others")
    expect("hash", restored["hash"], plain["hash"])
    rows = [json.loads(line) for line in (out / "generations.jsonl").read_text().splitlines()]
    expect("generations of tcp that ended", sum(row["block"] == "tcp" and row["ended_ns"] is not None for row in rows), COUNT)
    files = sorted((out / "snapshots").iterdir())
    expect("files", [file.name for file in files], ["a.snapshot", "b.snapshot"])
    expect("their mode", {oct(file.stat().st_mode & 0o7777) for file in files}, {"0o600"})
    # Without a folder of results they are kept in memory, and nothing is another.
    expect("hash without a folder", sim(folder, text, "--threads", "2")["hash"], plain["hash"])
    return f"{COUNT} snapshots restored; hash {plain['hash'][:8]}…, {sum(map(len, captured(out)))} frames"


def canary(folder: Path) -> str:
    """State of a second ago is noticed: it is refused, or the world is another."""
    sha = sha_of(folder, SIZE)
    plain = sim(folder, world(SIZE, {}, loss=0.01))
    lines = {2000: [("b", ["snapshot b.snapshot"])], 3000: [("b", ["restore b.snapshot"])]}
    (folder / "scenario.toml").write_text(world(SIZE, lines, loss=0.01))
    # Programs that lose their connection end with an error, and so does the command.
    done = subprocess.run([weft.binary(), "sim", "scenario.toml", "--out", "out", "--json"], cwd=folder, capture_output=True, text=True,
                          timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    try:
        judge_programs(folder / "out", sha)
    except Failure as noticed:
        return f"programs notice: {noticed}"
    if "restore b.snapshot" in done.stderr:
        return f"refused: {done.stderr.strip().splitlines()[-1]}"
    if json.loads(done.stdout)["hash"] == plain["hash"]:
        raise Failure("the state of a second ago changed nothing")
    return "another hash"


ROWS = {"snapshots/same": same, "snapshots/canary": canary}
