"""What a run tells: the output of every life of a program, one log with the virtual time, hints, and results that are only this run's.

Each row shows that the tool says what it should, and that it does not where there is nothing to say.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

from harness import weft
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, difference, events, expect, keys, pair, program, section, sim, tcp, udp, weft_command

LIVES = """
import os, sys, time
print('life', int(time.monotonic()), flush=True)
if os.fork() == 0:
    time.sleep(0.25)
    print('child', file=sys.stderr, flush=True)
    os._exit(0)
time.sleep(100)
"""


def expects(*rows: dict) -> str:
    return "".join(f"[[expect]]\n{keys(**row)}" for row in rows)


def lives(folder: Path) -> str:
    """What a program wrote before it was killed, stopped or lost with its node is there, and each life is told."""
    text = keys(duration="14s") + pair(delay="1ms") + program("p", "a", "python3", "-ISc", LIVES, expect="any")
    text += events({"at": "2s", "crash": "a"}, {"at": "3s", "restart": "a"}, {"at": "5s", "stop": "p"}, {"at": "6s", "start": "p"},
                   {"at": "8s", "signal": "p", "name": "SIGKILL"}, {"at": "9s", "start": "p"}, {"at": "13s", "down": "ab"})
    text += expects({"program": "p", "matches": r"(life \d+\n){4}"}, {"program": "p", "absent": "life 9\nlife"})
    hashes = set()
    for threads in ("1", "2"):
        out = folder / threads
        hashes.add(sim(folder, text, "--out", str(out), "--threads", threads)["hash"])
    difference(folder / "1", folder / "2")
    status = json.loads((folder / "1" / "programs" / "p" / "status.json").read_text())
    expect("starts", [life["start_ns"] // 10**9 for life in status["lives"]], [0, 3, 6, 9])
    expect("ends at", [life["end_ns"] and life["end_ns"] // 10**9 for life in status["lives"]], [2, 5, 8, None])
    expect("ends", [life["status"] for life in status["lives"]], ["killed by signal 9", "killed by signal 15", "killed by signal 9", None])
    expect("stderr", (folder / "1" / "programs" / "p" / "stderr").read_text(), "child\n" * 4)
    expect("hash without results", weft_command(folder, "sim", str(folder / "scenario.toml")).stdout.split()[-1], *hashes)
    return f"{len(status['lives'])} lives"


SAYS = "import sys, time\nfor n in range(3):\n    print('{0}', n, flush=True); time.sleep(1)\nprint('{0} ends', file=sys.stderr); print('no end', end='')"


def log(folder: Path) -> str:
    """output.log has the lines of all programs in the order of virtual time, to the microsecond, though nobody stops them there."""
    text = pair(delay="1ms")
    for name, node, start in (("p", "a", "0ms"), ("q", "b", "500ms")):
        text += program(name, node, "python3", "-ISc", SAYS.format(name), start=start)
    text += builtin("ping", "a", "ping", to="b", count=1)
    hashes = {sim(folder, text, "--out", str(folder / name), *words)["hash"] for name, words in (("one", ()), ("two", ("--threads", "2")))}
    hashes.add(weft_command(folder, "sim", "scenario.toml").stdout.split()[-1])
    expect("hashes", len(hashes), 1)
    difference(folder / "one", folder / "two")
    lines = [re.fullmatch(r"(\d+\.\d{9}) (\S+?)([:!]) (.*)", line).groups() for line in (folder / "one" / "output.log").read_text().splitlines()]
    told = [(who, mark, what) for _, who, mark, what in lines if not who.startswith("ping")]
    wanted = [(f"{name}@{node}", ":", f"{name} {n}") for n in range(3) for name, node in (("p", "a"), ("q", "b"))]
    wanted += [row for name, node in (("p", "a"), ("q", "b")) for row in ((f"{name}@{node}", "!", f"{name} ends"), (f"{name}@{node}", ":", "no end"))]
    expect("lines", sorted(told[6:]), sorted(wanted[6:]))
    expect("order", told[:6], wanted[:6])
    times = [float(at) for at, *_ in lines]
    p = [float(at) for at, who, _, what in lines if who == "p@a" and what[-1].isdigit()]
    if times != sorted(times) or any(abs(later - earlier - 1) > 0.0005 for earlier, later in zip(p, p[1:])):
        raise Failure(f"{times}")
    return f"{len(lines)} lines"


def live(folder: Path) -> str:
    """--pace shows output as it comes."""
    (folder / "scenario.toml").write_text(keys(duration="30s") + section("nodes.a") + program("p", "a", "python3", "-ISc", SAYS.format("p"), expect="any"))
    process = subprocess.Popen([weft.binary(), "sim", "scenario.toml", "--pace", "1.0"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        # Its time is not over for a long while.
        expect("it still runs", process.poll(), None)
    finally:
        process.kill()
        process.wait()
    if not re.fullmatch(r"0\.\d{9} p@a: p 0\n", line):
        raise Failure(repr(line))
    return line.strip()


def hints(folder: Path) -> str:
    """A python program that seems to say nothing, a script that only the host has, a figure that nobody reports."""
    quiet = "print('here')\nimport time\ntime.sleep(1000)"
    text = keys(duration="1s") + section("nodes.a") + program("p", "a", "python3", "-ISc", quiet, expect="running")
    (folder / "scenario.toml").write_text(text + expects({"program": "p", "output": "here"}, {"program": "p", "figure": "goodput", "min": 1}))
    said = weft_command(folder, "sim", "scenario.toml", status=1).stderr
    if "PYTHONUNBUFFERED" not in said or "once they made a socket" not in said:
        raise Failure(said)
    loud = text.replace('"python3"', '"python3", "-u"') + expects({"program": "p", "output": "here"})
    (folder / "scenario.toml").write_text(loud)
    weft_command(folder, "sim", "scenario.toml")
    script = Path("/tmp", f"weft-told-{os.getpid()}.sh")
    script.write_text("#!/bin/sh\necho hello\n")
    try:
        script.chmod(0o755)
        for words in ((str(script),), ("sh", str(script))):
            (folder / "scenario.toml").write_text(section("nodes.a") + program("p", "a", *words))
            warned = weft_command(folder, "sim", "scenario.toml", "--check", status=2).stderr
            if f"'{script}' is the host's" not in warned:
                raise Failure(warned)
        (folder / "scenario.toml").write_text(section("nodes.a") + program("p", "a", str(script)))
        said = weft_command(folder, "sim", "scenario.toml", status=1).stdout
        if "/root and /run are the node's own" not in said:
            raise Failure(said)
        given = section("nodes.a", files={str(script): {"from": str(script)}}) + program("p", "a", str(script)) + expects({"program": "p", "output": "hello"})
        (folder / "scenario.toml").write_text(given)
        expect("--check", weft_command(folder, "sim", "scenario.toml", "--check").stderr, "")
        weft_command(folder, "sim", "scenario.toml")
    finally:
        script.unlink()
    return "each is told"


def wall_limit(folder: Path) -> str:
    """A run that takes too long ends with complete results and a status of its own; one that does not is as ever."""
    text = keys(duration="1000000s") + pair(delay="1ms") + udp(rate="10mbit", size=1000, duration="900000s")
    (folder / "scenario.toml").write_text(text)
    began = time.monotonic()
    said = weft_command(folder, "sim", "scenario.toml", "--out", "out", "--wall-limit", "1s", status=3).stderr
    summary = json.loads((folder / "out" / "summary.json").read_text())
    if "wall limit" not in summary["end"] or not summary["not_reproducible"] or "--wall-limit 1s" not in said or time.monotonic() - began < 1:
        raise Failure(f"{summary['end']} {said}")
    sent = json.loads((folder / "out" / "programs" / "cbr" / "status.json").read_text())["figures"]["sent"]
    if abs(sent - summary["end_ns"] // 800_000) > 2:
        raise Failure(f"{sent} datagrams until {summary['end_ns']}")
    short = text.replace("1000000s", "1s").replace("900000s", "1ms")
    expect("a short one", sim(folder, short, "--wall-limit", "500s")["not_reproducible"], [])
    weft_command(folder, "sim", "scenario.toml", "--wall-limit", "soon", status=2)
    ended_before(folder)
    return f"{sent} datagrams in a second"


def ended_before(folder: Path) -> None:
    """A run that ended by itself, and whose results are still being written when the limit is over, has the status of what was expected."""
    (folder / "scenario.toml").write_text(pair(delay="1ms") + builtin("lonely", "a", "tcp-send", to="b:5001", bytes=1000))
    os.mkfifo(folder / "junit")
    words = ("sim", "scenario.toml", "--out", "ended", "--wall-limit", "2s", "--junit", "junit")
    process = subprocess.Popen([weft.binary(), *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        # It waits for somebody who reads what comes last.
        time.sleep(3)
        with open(folder / "junit", encoding="utf-8") as junit:
            junit.read()
        _, said = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    end = json.loads((folder / "ended" / "summary.json").read_text())["end"]
    if process.returncode != 1 or "wall limit" in end or "--wall-limit" in said:
        raise Failure(f"{process.returncode} {end} {said}")


def used_folder(folder: Path) -> str:
    """Results into a used folder: nothing of the earlier run is left, and what is not weft's is."""
    first = keys(capture=True, sample="100ms") + pair(delay="1ms") + tcp(bytes=10_000) + builtin("more", "a", "ping", to="b", count=1)
    second = pair(delay="1ms") + tcp(bytes=10_000)
    sim(folder, first, "--out", str(folder / "used"), "--record", "full", "--calls")
    (folder / "used" / "notes.txt").write_text("mine")
    (folder / "used" / "captures" / "mine.txt").write_text("mine")
    sim(folder, second, "--out", str(folder / "used"))
    sim(folder, second, "--out", str(folder / "new"))
    for path in (folder / "used" / "notes.txt", folder / "used" / "captures" / "mine.txt"):
        expect(str(path), path.read_text(), "mine")
        path.unlink()
    (folder / "used" / "captures").rmdir()
    difference(folder / "new", folder / "used")
    # A folder that weft did not make is not cleared.
    (folder / "other" / "programs" / "mine").mkdir(parents=True)
    (folder / "other" / "programs" / "mine" / "stdout").write_text("mine")
    sim(folder, second, "--out", str(folder / "other"))
    expect("a file of others", (folder / "other" / "programs" / "mine" / "stdout").read_text(), "mine")
    return "equal to a new one"


def seeds_with_results(folder: Path) -> str:
    """--seeds with --out: a folder for each seed that fails, as that seed alone leaves it."""
    text = pair(delay="10ms", loss=0.05) + builtin("ping", "a", "ping", to="b", count=3) + expects({"program": "ping", "figure": "replies", "min": 3})
    (folder / "scenario.toml").write_text(text)
    weft_command(folder, "sim", "scenario.toml", "--seeds", "1..8", "--out", "sweep", "--record", "full", status=1)
    done = weft_command(folder, "sim", "scenario.toml", "--seeds", "1..8", "--json", status=1)
    failed = json.loads(done.stdout)["failed"]
    tables = ["runs.csv", "runs.jsonl", "runs.parquet", "summary.json"]
    expect("folders", sorted(path.name for path in (folder / "sweep").iterdir()), sorted([*tables, *(f"seed-{seed}" for seed in failed)]))
    weft_command(folder, "sim", "scenario.toml", "--seed", str(failed[0]), "--out", "alone", "--record", "full", status=1)
    difference(folder / "alone", folder / "sweep" / f"seed-{failed[0]}")
    # Seeds that pass now, and what lies beside.
    (folder / "sweep" / f"seed-{failed[0]}" / "notes.txt").write_text("mine")
    (folder / "sweep" / "seed-0").mkdir()
    (folder / "sweep" / "seed-0" / "summary.json").write_text("{}")
    weft_command(folder, "sim", "scenario.toml", "--seeds", "1..8", "--out", "sweep", "--set", "wires.ab.loss=0.0")
    left = sorted(str(path.relative_to(folder / "sweep")) for path in (folder / "sweep").rglob("*") if path.is_file())
    expect("left", left, sorted([*tables, "seed-0/summary.json", f"seed-{failed[0]}/notes.txt"]))
    return f"seeds {failed}"


ROWS = {
    "told/lives": lives,
    "told/log": log,
    "told/as it comes": live,
    "told/hints": hints,
    "told/wall limit": wall_limit,
    "told/used folder": used_folder,
    "told/seeds": seeds_with_results,
}
