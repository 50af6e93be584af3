"""Runs `test` (byte-exact transfers) or `bench` (goodput beside Linux to Linux).

Short form: 20 MB clean, 2 MB per impairment; FULL=1: 200 MB and 20 MB. MODE=native needs no weft.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths, results
from harness.bench import report
from harness.bench.awake import awake
from harness.environment import Environment, run_main
from harness.processes import Failure

from .topology import FURTHER_IMPAIRMENTS, IMPAIRMENTS, RATE_MBIT, Host, Impairment, Topology

BENCH_CONGESTION_CONTROLS = ("reno", "cubic")
# BBR is only tested, not compared: what it reaches scatters more than the bounds, on the kernel too. Kernels may lack it.
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
CONGESTION_CONTROLS = (*BENCH_CONGESTION_CONTROLS, *(name for name in ("bbr",) if name in AVAILABLE))
# Fragments travel under these; without loss, because nobody repeats a datagram.
FRAGMENTED = ("clean", "reordering 5 %", "duplication 5 %")
DATAGRAMS = 200
IMPAIRMENTS_AT_ONCE = 3
MB = 1_000_000
RUNS = 3
RATIO_MIN, RATIO_MAX = 0.85, 1.15
# Goodput under loss scatters: with 40 MB at 5 % the kernel against itself has a standard deviation of 8 %, too much for
# medians of three to tell 15 % apart. So a run is the mean of several transfers at once, each over a bridge of its own with
# a seed of its own.
BENCH_BYTES, BENCH_BYTES_LOSS = 20 * MB, 40 * MB
LANES_LOSS = 5


def directions(topology: Topology, host: Host) -> list[tuple[str, Host, Host]]:
    return [("out", host, topology.peer), ("in", topology.peer, host)]


def tested_host(topology: Topology) -> Host:
    return topology.weft or topology.linux


def test(native: bool, full: bool) -> int:
    recorder = results.Recorder()

    def size(impairment: Impairment) -> int:
        return (200 if full else 20) * MB if impairment.name == "clean" else (20 if full else 2) * MB

    # The reference bridge of native mode has rate, delay and loss only. They mostly wait, for their bridges.
    impairments = IMPAIRMENTS if native else (*IMPAIRMENTS, *FURTHER_IMPAIRMENTS)
    with ThreadPoolExecutor(IMPAIRMENTS_AT_ONCE) as pool:
        list(pool.map(lambda impairment: _test_impairment(recorder, impairment, size(impairment), native), impairments))
    return recorder.finish()


def _test_impairment(recorder: results.Recorder, impairment: Impairment, size: int, native: bool) -> None:
    """One row per direction and congestion control. A topology per impairment: the bridge keeps one for its life."""
    try:
        with Environment(impairment.name) as env:
            topology = Topology(env, impairment, native)
            for seed, congestion in enumerate(CONGESTION_CONTROLS):
                # IPv6 once an impairment: what differs lies below the congestion controls.
                for family in (4, 6) if congestion == "cubic" else (4,):
                    for name, sender, receiver in directions(topology, tested_host(topology)):
                        row = f"{impairment.name}/{name}/{congestion}" + ("/ipv6" if family == 6 else "")
                        _test_row(recorder, env, row, lambda: _transfer(topology, sender, receiver, congestion, size, seed, family))
            if impairment.name in FRAGMENTED:
                for family in (4, 6):
                    for name, sender, receiver in directions(topology, tested_host(topology)):
                        row = f"{impairment.name}/{name}/fragments" + ("/ipv6" if family == 6 else "")
                        _test_row(recorder, env, row, lambda: _datagrams(topology, sender, receiver, family))
    except Failure as failure:
        recorder.add(results.Row(f"{impairment.name}/set-up", results.FAILED, 0.0, str(failure)))


def _test_row(recorder: results.Recorder, env: Environment, row: str, body) -> None:
    started = time.monotonic()
    try:
        outcome, reason = results.PASSED, body()
    except Failure as failure:
        outcome, reason = results.FAILED, f"{failure}\n{env.describe()}"
    recorder.add(results.Row(row, outcome, time.monotonic() - started, reason))


def _transfer(topology: Topology, sender: Host, receiver: Host, congestion: str, size: int, seed: int, family: int) -> str:
    goodput = topology.transfer(sender, receiver, congestion, size, seed, family)
    return f"{size // MB} MB equal, {goodput:.1f} Mbit/s"


def _datagrams(topology: Topology, sender: Host, receiver: Host, family: int) -> str:
    equal = topology.datagrams(sender, receiver, DATAGRAMS, 1, family)
    return f"{equal} datagrams of up to 65,507 bytes there and back, equal"


def bench(native: bool) -> int:
    """Goodput of weft and of Linux, alternating over the same bridges; medians."""
    # Linux delays the acknowledgment of a full buffer's worth until its program reads, weft's daemon reads for its program: beside other work
    # on the machine that alone was 29 % at 5 % loss. So both go before it, where that is allowed. On processors that must be woken
    # first it was 25 %, with a fifth fewer acknowledgments; awake they come as from weft.
    with contextlib.suppress(PermissionError):
        os.nice(-20)
    rows: list[report.Row] = []
    for impairment in IMPAIRMENTS:
        with awake(), contextlib.ExitStack() as stack:
            lanes = []
            for lane in range(LANES_LOSS if impairment.loss else 1):
                env = stack.enter_context(Environment(f"{impairment.name}, lane {lane}"))
                lanes.append(Topology(env, impairment, native, seed=1 + lane))
            for congestion in BENCH_CONGESTION_CONTROLS:
                rows += _bench_pair(lanes, impairment, congestion)
    report.write("interop", rows)
    print(report.table(rows))
    return 0 if all(row.met is not False for row in rows) else 1


def _bench_pair(lanes: list[Topology], impairment: Impairment, congestion: str) -> list[report.Row]:
    rows = []
    size = BENCH_BYTES_LOSS if impairment.loss else BENCH_BYTES
    for direction, name in enumerate(("out", "in")):
        found: list[float] = []
        compared: list[float] = []
        for run in range(RUNS):
            for host, goodputs in ((tested_host, found), (lambda topology: topology.linux, compared)):
                goodputs.append(_mean_goodput(lanes, host, direction, congestion, size, run))
        value, versus = statistics.median(found), statistics.median(compared)
        ratio = value / versus
        rows.append(report.Row(
            name=f"goodput, {impairment.name}, {congestion}, {name}", value=value, unit="Mbit/s", versus=versus,
            ratio=ratio, needed=f"ratio {RATIO_MIN} to {RATIO_MAX}", met=RATIO_MIN <= ratio <= RATIO_MAX,
        ))
        print(f"  {rows[-1].name}: {value:.1f} beside {versus:.1f} Mbit/s of {RATE_MBIT}", flush=True)
    return rows


def _mean_goodput(lanes: list[Topology], host: Callable[[Topology], Host], direction: int, congestion: str, size: int, run: int) -> float:
    """One transfer on each lane, all at once."""
    def transfer(topology: Topology) -> float:
        _, sender, receiver = directions(topology, host(topology))[direction]
        return topology.transfer(sender, receiver, congestion, size, run)

    with ThreadPoolExecutor(len(lanes)) as pool:
        return statistics.mean(pool.map(transfer, lanes))


def main() -> int:
    native = os.environ.get("MODE") == "native"
    if not native and paths.weft_binary() is None:
        print("failed: no weft binary: run make build, or MODE=native")
        return 1
    if sys.argv[1:] == ["bench"]:
        return bench(native)
    if not native and not tap_can_be_opened():
        recorder = results.Recorder()
        recorder.add(results.Row("all", results.SKIPPED, reason="/dev/net/tun cannot be opened"))
        return recorder.finish()
    return test(native, bool(os.environ.get("FULL")))


def tap_can_be_opened() -> bool:
    """Without a TAP weft stays in a namespace of its own, and its stack cannot join the bridge."""
    return os.access("/dev/net/tun", os.R_OK | os.W_OK)


if __name__ == "__main__":
    sys.exit(run_main(main))
