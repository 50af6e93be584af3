"""`python3 -m virtual worlds`: worlds drawn from a number, and unmodified programs in them that do what they draw (worlds/); each comes to one hash however it is run.

Two to five nodes, sometimes a switch; wires of any rate, delay, loss, order and queue, which fail and change; programs in C, Python and bash that talk to each
other over TCP and UDP, start threads and children, wait, and are interrupted; nodes that crash and come back. Result folders are the same to the byte.

    SEEDS=17 python3 -m virtual worlds         this world only; SEEDS=100..200: these
    SEEDS=17 PRINT=1 python3 -m virtual worlds its scenario, to make it smaller by hand

FULL=1 runs 200 of them, which are others each time. Of what fails the scenario stays in KEEP, a folder, if that is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import seeds as drawn
from harness import weft
from harness.busy import busy_loops
from harness.processes import PATIENCE, Failure

from .runs import Runs
from .shared import builtin, compiled, difference, keys, program, run_rows, section, where

KEEP = os.environ.get("KEEP")
SEEDS, SEEDS_FULL = range(1, 7), 200
HERE = Path(__file__).parent / "worlds"
# Virtual seconds in which everything happens.
SECONDS = 12
# Watchdog of one run, in real time.
WALL_LIMIT = f"{240 * PATIENCE:.0f}s"
# How programs may not end: nobody sends these signals.
CRASHES = {f"killed by signal {number}": name for number, name in ((4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (11, "SIGSEGV"), (31, "SIGSYS"))}

# A way of running: its words, and how else.
WAYS: dict[str, tuple[tuple[str, ...], dict]] = {
    "two threads": (("--threads", "2"), {}),
    "everything asked of the controller": ((), {"shortcuts": False}),
    "two threads under load": (("--threads", "2"), {"busy": True}),
    **({"as a user": ((), {"as_user": True})} if os.geteuid() == 0 else {}),
}


def milliseconds(draw: random.Random, least: float, most: float) -> str:
    return f"{round(draw.uniform(least, most) * 1000)}us"


def wire(draw: random.Random) -> dict:
    """What a wire does to frames."""
    of = {"delay": draw.choice(["0ms", "1us", milliseconds(draw, 0.01, 1), milliseconds(draw, 1, 40)])}
    if draw.random() < 0.8:
        of["rate"] = f"{draw.choice([1, 3, 10, 50, 100, 1000])}mbit"
    for key, most, chance in (("loss", 0.08, 0.4), ("duplicate", 0.03, 0.2), ("corrupt", 0.02, 0.2), ("reorder", 0.1, 0.2)):
        if draw.random() < chance:
            of[key] = round(draw.uniform(0, most), 4)
    if draw.random() < 0.25:
        of["jitter"] = milliseconds(draw, 0, 3)
    if draw.random() < 0.5:
        of["queue"] = draw.choice(["drop-tail", "red", "codel", "fq-codel", "pie"])
    if draw.random() < 0.3:
        of["queue_packets"] = draw.randint(3, 200)
    if draw.random() < 0.2:
        of["mtu"] = draw.choice([1280, 1400, 4000, 9000])
    if draw.random() < 0.3:
        of["carrier"] = draw.choice([False, {"delay": milliseconds(draw, 0, 300)}])
    return of


def nodes(draw: random.Random) -> tuple[str, list[str], list[str]]:
    """Nodes and wires as text, the names of hosts, and of wires."""
    hosts = [f"n{number}" for number in range(draw.randint(2, 5))]
    text, wires = "", []
    for name in hosts:
        of: dict = {"forward": True} if len(hosts) > 2 else {}
        if draw.random() < 0.15:
            of["large_frames"] = False
        if draw.random() < 0.2:
            of["cpu"] = draw.choice([{"per_call": "100ns"}, {"per_call": "20us"}, {"factor": 3.0}])
        text += section(f"nodes.{name}", **of)
    if len(hosts) > 2 and draw.random() < 0.3:
        text += section("nodes.s", kind="switch")
        ends = [("s", name) for name in hosts]
    else:
        ends = [(hosts[draw.randrange(number)], hosts[number]) for number in range(1, len(hosts))]
        if len(hosts) > 2 and draw.random() < 0.3:
            ends.append((hosts[0], hosts[-1]))
    for number, between in enumerate(ends):
        wires.append(f"w{number}")
        text += section(f"wires.w{number}", between=list(between), **wire(draw))
    return text, hosts, wires


def programs(draw: random.Random, folder: Path, hosts: list[str]) -> tuple[str, list[str]]:
    """A server or two, and programs that ask them; their names."""
    text, names, servers = "", [], []
    for number in range(draw.randint(1, 2)):
        node, port = draw.choice(hosts), str(7000 + number)
        servers.append((node, port))
        names.append(f"server{number}")
        style = draw.choice(["threads", "forks", "loop", "one"])
        text += program(names[-1], node, str(folder / "talks"), "serve", port, style, str(draw.randrange(10**9)), expect="any")
    # Who is alone on a node is let run ahead.
    alone = [name for name in hosts if name not in dict(servers)] if draw.random() < 0.5 else []
    for number in range(draw.randint(1, len(alone) or 5)):
        node, (to, port) = alone.pop() if alone else draw.choice(hosts), draw.choice(servers)
        words = draw.choice([[str(folder / "talks"), "ask"], [str(folder / "odd")], ["python3", "-B", str(folder / "talks.py")], ["bash", str(folder / "talks.sh")]])
        names.append(f"asks{number}")
        text += program(names[-1], node, *words, to, port, str(draw.randint(2, 9)), str(draw.randrange(10**9)), start=milliseconds(draw, 0, 3000), expect="any")
    if draw.random() < 0.3:
        one, other = draw.sample(hosts, 2)
        text += builtin("ping", one, "ping", to=other, count=20, interval=milliseconds(draw, 1, 300), expect="any")
    return text, names


def events(draw: random.Random, hosts: list[str], wires: list[str], names: list[str]) -> str:
    """What happens to wires, programs and nodes."""
    text = ""

    def event(at: float, **what) -> None:
        nonlocal text
        text += f'[[events]]\nat = "{round(at * 1e6)}us"\n' + keys(**what)

    for _ in range(draw.choice([0, 0, 1, 2, 4])):
        at = draw.uniform(0.2, SECONDS - 4)
        match draw.choice(["wire", "interface", "set", "signal", "stop", "crash", "freeze"]):
            case "interface":
                name = f"{draw.choice(hosts)}:eth0"
                event(at, down=name)
                event(at + draw.uniform(0.001, 2), up=name)
            case "wire":
                name = draw.choice(wires)
                event(at, down=name)
                event(at + draw.uniform(0.001, 2), up=name)
            case "set":
                event(at, wire=draw.choice(wires), set=wire(draw))
            case "signal":
                event(at, signal=draw.choice(names), name=draw.choice(["USR1", "INT", "TERM", "HUP", "ALRM"]))
            case "freeze":
                name = draw.choice(names)
                event(at, signal=name, name="STOP")
                event(at + draw.uniform(0.001, 2), signal=name, name="CONT")
            case "stop":
                event(at, stop=draw.choice(names))
            case "crash":
                name = draw.choice(hosts)
                event(at, crash=name)
                event(at + draw.uniform(0.001, 2), restart=name)
    return text


def scenario(seed: int, folder: Path) -> str:
    """The world of this number."""
    draw = random.Random(seed)
    network, hosts, wires = nodes(draw)
    what, names = programs(draw, folder, hosts)
    # Nobody else is waited for.
    clock = section("nodes.clock") + program("clock", "clock", "sleep", str(SECONDS))
    return keys(seed=seed, duration=f"{SECONDS + 1}s") + network + clock + what + events(draw, hosts, wires, names)


def run(runs: Runs, text: str, *words: str, busy: bool = False, **how) -> tuple[str, Path]:
    with busy_loops() if busy else contextlib.nullcontext():
        return runs.run(text, "--wall-limit", WALL_LIMIT, *words, **how)


def one_hash(runs: Runs, text: str, ways: dict[str, tuple[tuple[str, ...], dict]] = WAYS) -> str:
    """However it is run."""
    first, kept = run(runs, text)
    for one in json.loads((kept / "summary.json").read_text())["programs"]:
        # Whoever is sent a signal may end by it; nobody fails.
        wrong = [life["status"] for life in one["lives"] if life["status"] in CRASHES or (life["status"] or "").startswith("exit status") and life["status"] != "exit status 0"]
        if wrong:
            raise Failure(f"{one['name']}: {CRASHES.get(wrong[0], wrong[0])}: {(kept / 'programs' / one['name'] / 'stderr').read_text()[-600:]}")
    for way, (words, how) in ways.items():
        found, out = run(runs, text, *words, **how)
        if found != first:
            raise Failure(f"{first} and, with {way}, {found}: {where(kept, out)}")
        difference(kept, out)
        shutil.rmtree(out)
    shutil.rmtree(kept)
    return f"{first}, {len(ways) + 1} runs"


def prepared(folder: Path) -> Path:
    """The programs, in a folder that every user can read and nobody changes: Python lists it."""
    folder = folder / "talks"
    if folder.exists():
        return folder
    folder.mkdir()
    folder.chmod(0o755)
    for name in ("talks", "odd"):
        compiled(HERE / f"{name}.c", folder / name, "-Wno-unused-result")
    for name in ("talks.py", "talks.sh"):
        shutil.copy2(HERE / name, folder / name)
    return folder


def rows(runs: Runs, seeds: Iterable[int]) -> dict[str, Callable[[Path], str]]:
    """A row for each world."""
    def row(seed: int) -> str:
        text = scenario(seed, prepared(runs.folder))
        try:
            return one_hash(runs, text)
        except (Failure, subprocess.TimeoutExpired):
            if KEEP:
                (Path(KEEP) / f"{seed}.toml").write_text(text)
            raise
    return {f"random world/{seed}": (lambda _, seed=seed: row(seed)) for seed in seeds}


def main() -> int:
    first, _, last = os.environ.get("SEEDS", "").partition("..")
    seeds = range(int(first), int(last or first) + 1) if first else drawn.seeds(SEEDS, SEEDS_FULL)
    # A node has a /tmp of its own: what programs are to find lies elsewhere.
    with tempfile.TemporaryDirectory(prefix="weft-worlds-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        if os.environ.get("PRINT"):
            print("".join(scenario(seed, folder) for seed in seeds), end="")
            return 0
        shutil.copy2(weft.binary(), folder / "weft")
        return run_rows(rows(Runs(folder), seeds), directory="/var/tmp")
