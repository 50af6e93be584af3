"""What Linux kernels as nodes cost in real time: `make bench-kernel`. Medians and needs as in bench.py; what a row is about is told from what comes with it
(booting, mostly) by a second world that lacks it."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from harness import paths
from harness.bench import report

from . import bench
from .kernels import LINUX, kernel
from .shared import keys, program, section

FULL = bench.FULL
# Each is a kernel and the process of its process 1.
CROWD = 128
IDLE = 32
# Virtual seconds of nothing, and of traffic.
SECONDS_IDLE = 1000
SECONDS_BULK = 10 if FULL else 3

PAIR = section("nodes.a", **LINUX) + section("nodes.b", **LINUX) + section("wires.ab", between=["a", "b"], rate="100mbit", delay="1ms")


def bulk(seconds: int) -> str:
    """Two pairs of kernels, each with a TCP connection that fills its wire."""
    text = keys(duration=f"{seconds + 3}s")
    for n in (1, 2):
        text += section(f"nodes.a{n}", **LINUX) + section(f"nodes.b{n}", **LINUX)
        text += section(f"wires.w{n}", between=[f"a{n}", f"b{n}"], rate="100mbit", delay="1ms")
        text += program(f"server{n}", f"b{n}", "iperf3", "-s", "-1", start="1s", expect="any")
        text += program(f"client{n}", f"a{n}", "iperf3", "-c", f"b{n}", "-t", str(seconds), start="2s", expect="any")
    return text


def frames(run: bench.Run) -> int:
    return sum(direction["frames"] for wire in run.summary["wires"] for direction in wire["directions"])


class KernelBench:
    def __init__(self, folder: Path) -> None:
        self.bench = bench.Bench(folder)

    def rounds(self) -> range:
        return range(bench.RUNS)

    def traffic(self) -> list[report.Row]:
        """Of one pair on one thread, and of two pairs on one thread and two."""
        long, short = bulk(SECONDS_BULK), bulk(1)
        per_frame: dict[int, list[float]] = {1: [], 2: []}
        for _ in self.rounds():
            for threads, found in per_frame.items():
                all_, few = self.bench.run(long, threads), self.bench.run(short, threads)
                found.append((all_.seconds - few.seconds) / (frames(all_) - frames(few)) * 1e6)
        one, two = (statistics.median(found) for found in per_frame.values())
        return [
            report.Row("a frame from kernel to kernel, TCP, one thread", one, "µs", needed=50),
            report.Row("two pairs of kernels, from 1 thread to 2", one / two, "×"),
        ]

    def boots(self) -> report.Row:
        text = keys(duration="10ms") + "".join(section(f"nodes.n{node}", **LINUX) for node in range(CROWD))
        text += "".join(section(f"wires.w{node}", between=[f"n{node}", f"n{node + 1}"], delay="1ms") for node in range(0, CROWD, 2))
        return report.Row(f"{CROWD} kernels boot, all processors", self.bench.median(text, lambda run: run.seconds, threads=bench.CORES), "s", needed=10)

    def memory(self) -> report.Row:
        text = keys(duration=f"{bench.SECONDS_MAX}s") + "".join(section(f"nodes.n{node}", **LINUX) for node in range(IDLE))
        text += "".join(section(f"wires.w{node}", between=[f"n{node}", f"n{node + 1}"], delay="1ms") for node in range(0, IDLE, 2))
        text += program("sleep", "n*", "sleep", "1000", expect="running")
        # weft, and of every node the kernel, its process 1 and the sleeping one.
        held = self.bench.run(text, hold=1 + 3 * IDLE).bytes
        return report.Row("memory of an idle kernel", held / IDLE / 2**20, "MiB", needed=12)

    def idle(self) -> report.Row:
        found = []
        for _ in self.rounds():
            long, short = (self.bench.run(keys(duration=f"{seconds}s") + PAIR) for seconds in (SECONDS_IDLE + 10, 10))
            found.append(long.seconds - short.seconds)
        return report.Row(f"two idle kernels for {SECONDS_IDLE:,} virtual seconds", statistics.median(found), "s", needed=0.3)


def main() -> int:
    # Not below /tmp: a node has a /tmp of its own.
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        try:
            kernel(Path(name))
        except paths.MissingTool as missing:
            print(f"skipped: {missing}")
            return 1 if FULL else 0
        bench_ = KernelBench(Path(name))
        sources = {"traffic": bench_.traffic, "boots": lambda: [bench_.boots()], "memory": lambda: [bench_.memory()], "idle": lambda: [bench_.idle()]}
        return bench.judged(sources, "kernel")
