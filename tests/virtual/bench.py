"""What virtual time costs in real time: `make bench-sim`, with unmodified programs (pairs.c) but for the rows that say otherwise.

Medians of five runs of the whole command in the full form, of one otherwise, which also does less. Needs are stated for the
reference machine and scaled like those of `make bench`. A pass that does not come to the first one's hash is an error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable

from harness import paths, weft
from harness.bench import machine, report

from .shared import SECONDS_MAX, compiled, keys, pair, program, section, tcp

FULL = bool(os.environ.get("FULL"))
RUNS = 5 if FULL else 1
TRIPS = 100_000 if FULL else 10_000
PAIRS = 100
CROWD = 1000
FANOUT = 50
# For what has as many programs as there are nodes, every processor is used.
CORES = len(os.sched_getaffinity(0))

WIRE = pair(rate="1gbit", delay="1ms")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of the command: how long it took, what it says, and what all its processes held where that was asked for."""

    seconds: float
    summary: dict
    bytes: int


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pairs = str(compiled(Path(__file__).with_name("pairs.c"), folder / "pairs", "-O2", "-Wextra"))
        self.hashes: dict[str, str] = {}

    def run(self, text: str, threads: int = 1, hold: int = 0) -> Run:
        file = self.folder / "scenario.toml"
        file.write_text(text)
        words = [weft.binary(), "sim", str(file), "--json", "--threads", str(threads)]
        # Everybody is there as long as it takes to add up what they hold.
        words += ["--pace", "1.0"] if hold else []
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            started = time.monotonic()
            child = subprocess.Popen(words, stdout=output, stderr=errors, stdin=subprocess.DEVNULL, cwd="/")
            try:
                if hold:
                    return Run(0, {}, self.memory(child, hold))
                child.wait(SECONDS_MAX)
            finally:
                child.kill()
                child.wait()
            seconds = time.monotonic() - started
            for stream in (output, errors):
                stream.seek(0)
            if child.returncode != 0:
                raise RuntimeError(f"weft sim: exit status {child.returncode}\n{errors.read()[-2000:]}")
            summary = json.loads(output.read())
        before = self.hashes.setdefault(text, summary["hash"])
        if before != summary["hash"] or summary["not_reproducible"]:
            raise RuntimeError(f"hash {before}, then {summary['hash']} {summary['not_reproducible']}")
        return Run(seconds, summary, 0)

    @staticmethod
    def memory(child: subprocess.Popen, processes: int) -> int:
        """Stops the command when so many processes are there, and adds up what all of them hold."""
        deadline = time.monotonic() + SECONDS_MAX
        while child.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"longer than {SECONDS_MAX} s")
            if len(below(child.pid)) >= processes:
                child.send_signal(signal.SIGSTOP)
                held = sum(proportional(pid) for pid in below(child.pid))
                child.send_signal(signal.SIGCONT)
                return held
            time.sleep(0.01)
        raise RuntimeError(f"there never were {processes} processes")

    def median(self, text: str, value: Callable[[Run], float], threads: int = 1) -> float:
        return statistics.median(value(self.run(text, threads)) for _ in range(RUNS))

    # The rows.

    def round_trips(self, kind: str, name: str, needed: float) -> report.Row:
        text = WIRE + program("echo", "b", self.pairs, f"{kind}-echo", "7000", expect="any")
        text += program("ping", "a", self.pairs, f"{kind}-ping", "b", "7000", str(TRIPS), start="10ms")
        return report.Row(name, self.median(text, lambda run: run.seconds / TRIPS * 1e6), "µs", needed=needed)

    def flow(self) -> report.Row:
        count = 2 * TRIPS
        text = WIRE + program("sink", "b", self.pairs, "flow-sink", "7000", str(count))
        text += program("flow", "a", self.pairs, "flow", "b", "7000", str(count), start="10ms")
        return report.Row("UDP flow, 100 Mbit/s", self.median(text, lambda run: count / run.seconds), "packets/s", needed=100_000)

    def bulk(self) -> list[report.Row]:
        seconds = 10 if FULL else 2
        own = WIRE + program("sink", "b", self.pairs, "bulk-sink", "5001")
        own += program("send", "a", self.pairs, "bulk", "b", "5001", str(seconds), start="10ms")
        traffic = WIRE + tcp(duration=f"{seconds}s")

        def rate(run: Run) -> float:
            directions = [direction for wire in run.summary["wires"] for direction in wire["directions"]]
            return sum(direction["frames"] for direction in directions) / run.seconds

        return [
            report.Row("TCP bulk, 1 Gbit/s, built-in traffic", self.median(traffic, rate), "segments/s", needed=600_000),
            report.Row("… on two threads", self.median(traffic, rate, threads=2), "segments/s", needed=1_000_000),
            report.Row("TCP bulk, 1 Gbit/s, programs", self.median(own, rate), "segments/s", needed=600_000),
            report.Row("… on two threads", self.median(own, rate, threads=2), "segments/s", needed=1_000_000),
        ]

    def crowd(self) -> list[report.Row]:
        # In pairs: on one LAN most of the time would go into everybody's telling everybody about multicast groups.
        text = keys(duration="1s", ipv6=True) + "".join(section(f"nodes.n{node}") for node in range(CROWD))
        text += "".join(wire(f"w{node}", f"n{node}", f"n{node + 1}", "1gbit", "1ms") for node in range(0, CROWD, 2))
        text += program("sleep", "n*", "sleep", "1000", expect="running")
        seconds = self.median(text, lambda run: run.seconds, threads=CORES)
        # weft, who makes processes 1, and of every node its process 1 and the sleeping one.
        held = self.run(text.replace('duration = "1s"', f'duration = "{SECONDS_MAX}s"'), hold=2 + 2 * CROWD).bytes
        return [
            report.Row("1,000 nodes with a sleeping process, all processors", seconds, "s", needed=0.9),
            report.Row("… memory", held / 2**20, "MiB", needed=400),
        ]

    def fetches(self) -> report.Row:
        # A tree: twenty routers with fifty nodes each.
        text = section("nodes.server", files={"/srv/www/x": "x" * 1000}) + section("nodes.core")
        text += "".join(section(f"nodes.n{node}") for node in range(CROWD)) + "".join(section(f"nodes.r{router}") for router in range(CROWD // FANOUT))
        text += wire("s", "server", "core", "10gbit", "100us")
        text += "".join(wire(f"c{router}", "core", f"r{router}", "10gbit", "100us") for router in range(CROWD // FANOUT))
        text += "".join(wire(f"w{node}", f"n{node}", f"r{node // FANOUT}", "1gbit", "100us") for node in range(CROWD))
        text += program("web", "server", "python3", "-m", "http.server", "80", "--directory", "/srv/www", expect="any")
        # One after the other: the server's backlog is 5.
        text += "".join(program(f"curl{node}", f"n{node}", "curl", "-s", "-o", "/dev/null", "http://server/x", start=f"{1000 + 3 * node}ms") for node in range(CROWD))
        return report.Row("1,000 nodes fetch with curl", self.median(text, lambda run: run.seconds), "s", needed=8)

    def independent(self) -> list[report.Row]:
        """How much two threads gain; and, to compare it with, how much two worlds gain that have nothing to do with each other."""
        def of(numbers: range, trips: int) -> str:
            text = "".join(section(f"nodes.a{n}") + section(f"nodes.b{n}") + wire(f"w{n}", f"a{n}", f"b{n}", "1gbit", "1ms") for n in numbers)
            for n in numbers:
                text += program(f"echo{n}", f"b{n}", self.pairs, "udp-echo", "7000", expect="any")
                text += program(f"ping{n}", f"a{n}", self.pairs, "udp-ping", f"b{n}", "7000", str(trips), start="10ms")
            return text

        # Only what runs in parallel: how long the programs take to start stands in a row of its own.
        text, idle = (of(range(PAIRS), trips) for trips in (TRIPS // 100, 1))
        half, half_idle = ([of(range(first, PAIRS, 2), trips) for first in (0, 1)] for trips in (TRIPS // 100, 1))
        # In turns: what else the machine does meanwhile is then the same for all.
        gains, bounds = [], []
        for _ in range(RUNS):
            one, two = (self.run(text, threads).seconds - self.run(idle, threads).seconds for threads in (1, 2))
            apart = self.side_by_side(half) - self.side_by_side(half_idle)
            gains.append(one / two)
            bounds.append(one / apart)
        gain, bound = statistics.median(gains), statistics.median(bounds)
        return [
            report.Row("50 pairs, and 50 in another world beside it", bound, "× one after the other"),
            report.Row("100 pairs, from 1 thread to 2", gain, "×", needed=1.7),
        ]

    def side_by_side(self, texts: list[str]) -> float:
        """Seconds until worlds have ended that begin together, each on one thread and a processor of its own."""
        started = time.monotonic()
        children = []
        for number, text in enumerate(texts):
            file = self.folder / f"beside-{number}.toml"
            file.write_text(text)
            words = [paths.tool("taskset"), "-c", str(sorted(os.sched_getaffinity(0))[number % CORES]), weft.binary(), "sim", str(file), "--threads", "1", "--json"]
            children.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd="/"))
        for child in children:
            if child.wait(SECONDS_MAX):
                raise RuntimeError(f"weft sim beside another: exit status {child.returncode}")
        return time.monotonic() - started


def wire(name: str, a: str, b: str, rate: str, delay: str) -> str:
    return section(f"wires.{name}", between=[a, b], rate=rate, delay=delay)


def below(pid: int) -> list[int]:
    """The process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat[stat.rindex(")") + 2:].split()[1]), []).append(int(entry))
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


def proportional(pid: int) -> int:
    """The process's share of memory, bytes: what several have mapped is divided among them."""
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def scaled(row: report.Row, measured: machine.Machine) -> report.Row:
    """The row with its need on a machine like this one. Bytes and ratios are the same on every machine."""
    if row.needed is None:
        return row
    if row.unit in ("MiB", "×"):
        return dataclasses.replace(row, met=(row.value <= row.needed) if row.unit == "MiB" else row.value >= row.needed)
    return machine.scale(row, measured.speed)


def judged(sources: dict[str, Callable[[], list[report.Row]]], name: str) -> int:
    """Runs what ONLY names, and judges each by how fast the machine is right before and right after it: a shared one is not the same minutes later."""
    only = os.environ.get("ONLY")
    rows: list[report.Row] = []
    failed = False
    before = machine.measure()
    for label, source in sources.items():
        if only and label not in only.split(","):
            continue
        try:
            found = source()
        except RuntimeError as error:  # one that fails must not take the others' results with it
            print(f"failed: {label}: {error}", flush=True)
            failed = True
            continue
        after = machine.measure()
        measured, before = before.and_later(after), after
        found = [*measured.rows(), *(scaled(row, measured) for row in found)]
        print(report.table(found), flush=True)
        rows += found
    report.write(name, rows)
    print("\n" + report.table(rows), flush=True)
    return 1 if failed or (FULL and any(row.met is False for row in rows)) else 0


def main() -> int:
    # Not below /tmp: a node has a /tmp of its own.
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        bench = Bench(Path(name))
        sources = {
            "udp": lambda: [bench.round_trips("udp", "UDP round trip over 1 ms", 15)],
            "tcp": lambda: [bench.round_trips("tcp", "TCP round trip over 1 ms", 18)],
            "flow": lambda: [bench.flow()],
            "bulk": bench.bulk,
            "crowd": bench.crowd,
            "curl": lambda: [bench.fetches()],
            "pairs": bench.independent,
        }
        return judged(sources, "sim")
