"""`make bench-mptcp`: what several paths are worth, in virtual time and in real time, beside Linux kernels and weft's own TCP.

Rows in real time are those of bench_real.py; they are told, and never fail. ONLY= chooses rows by words of their names. FULL=1: 30 seeds of
everything that is judged, and each scheduler and each control beside them over a few.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from harness import paired, paths
from harness.bench import report
from harness.processes import Failure
from virtual.kernels import kernel

from . import bench_real, shared_bottleneck
from .cases import SCHEDULERS
from .examples import by, experiment
from .pairs import PAIRS, Flow, Measured, Wire, run, world

FULL = bool(os.environ.get("FULL"))
SHORT_SEEDS = range(1, 6)
SEEDS = range(1, 31) if FULL else SHORT_SEEDS
# One scheduler and one control, for every pair.
BEST = ("ecf", "cubic")
CONTROLS = ("cubic", "bbr", "lia", "olia", "balia", "wvegas")
# Both have the same buffers: what Linux takes follows from its memory.
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}
LONG, SHORT = ("seconds", 30.0), ("bytes", 1e6)
LINUX = Flow("linux", LONG, sysctls=BUFFERS)
WEFT = Flow("weft", LONG, scheduler=BEST[0], control=BEST[1], sysctls=BUFFERS)
PAIRS_BETTER_MIN = 8

SWEEP_SECONDS_MAX = 3600.0

Bodies = dict[str, Callable[[], list[report.Row]]]


def alone(flow: Flow) -> Flow:
    """The same as TCP over one path."""
    return dataclasses.replace(flow, multipath=False)


def all_of(worlds: Iterable[tuple[str, int]]) -> list[Measured]:
    """Each of them, as many at a time as there are processors."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda one: run(*one), worlds))


def seeded(text: str, seeds: Iterable[int] = SEEDS) -> list[Measured]:
    return all_of((text, seed) for seed in seeds)


def goodputs(found: Sequence[Measured]) -> list[float]:
    return [of.goodput_mbit for of in found]


def seconds(found: Sequence[Measured]) -> list[float]:
    return [of.seconds for of in found]


def row(name: str, values: Sequence[float], others: Sequence[float], unit: str, needed: float | None = None, faster: bool = False) -> report.Row:
    """Means, and the ratio of pairs; `needed`: that it is at least so much, within its interval. `faster`: of times, the other way round."""
    ratio = paired.ratio(others, values) if faster else paired.ratio(values, others)
    met = None if needed is None else ratio.most >= needed
    words = None if needed is None else f"≥ {needed:g}"
    return report.Row(f"{name}, {ratio}", statistics.mean(values), unit, statistics.mean(others), ratio.value, words, met)


# Rows in virtual time.


def two_and_one() -> list[report.Row]:
    """Both paths carry as much as TCP does over each alone, and no less than Linux."""
    one, other = Wire(2, 10, 30), Wire(1, 10, 30)
    each = [goodputs(seeded(world((path,), alone(WEFT)))) for path in (one, other)]
    sums = [sum(of) for of in zip(*each)]
    best, same = (seeded(world((one, other), flow)) for flow in (WEFT, dataclasses.replace(WEFT, scheduler="default", control="cubic")))
    linux = seeded(world((one, other), LINUX))
    return [
        row("2 + 1 Mbit/s beside the sum of TCP's alone", goodputs(best), sums, "Mbit/s", 0.99),
        row("2 + 1 Mbit/s beside Linux", goodputs(best), goodputs(linux), "Mbit/s", 1.0),
        row("2 + 1 Mbit/s, Linux's scheduler and control beside Linux", goodputs(same), goodputs(linux), "Mbit/s"),
    ]


def wide() -> list[report.Row]:
    wires = (Wire(20, 10, 60), Wire(20, 30, 120))
    linux, best = (seeded(world(wires, flow)) for flow in (LINUX, WEFT))
    return [row("20 Mbit/s 10 ms + 20 Mbit/s 30 ms beside Linux", goodputs(best), goodputs(linux), "Mbit/s", 1.0)]


def one_path() -> list[report.Row]:
    wire = (Wire(1000, 1, 500),)
    flow = Flow("weft", ("seconds", 3.0), sysctls=BUFFERS)
    both = [goodputs(seeded(world(wire, of))) for of in (flow, alone(flow))]
    return [row("one path of 1 Gbit/s beside TCP", *both, "Mbit/s", 0.95)]


CUT_S = 6


def failover() -> list[report.Row]:
    """A path ends without a word: how long nothing comes. And another takes over by preference: nothing is missed."""
    wires = (Wire(10, 10, 40), Wire(10, 20, 40))
    flow = dataclasses.replace(WEFT, how=("seconds", 12.0))
    cut = ({"at": f"{CUT_S}s", "down": "one"},)
    gaps = [of.gap * 1000 for of in seeded(world(wires, flow, cut))]
    undisturbed = [of.gap * 1000 for of in seeded(world(wires, flow))]
    # Of the path that ends: a round trip with a full queue, and Linux's least time.
    rto_ms = 200 + 2 * 10 + wires[0].queue_packets * 1500 * 8 / 10e6 * 1000
    bound = max(2 * rto_ms, 300.0)
    linux = [of.gap * 1000 for of in seeded(world(wires, dataclasses.replace(LINUX, how=flow.how), cut))]
    preferring = dataclasses.replace(flow, parameters={"mptcp.prefer": ["eth0", "eth1"]})
    taken = ({"at": f"{CUT_S}s", "node": "a", "control": ["""set mptcp.prefer '["eth1","eth0"]'"""]},)
    found = seeded(world(wires, preferring, taken))
    slow = [of.gap * 1000 for of in seeded(world((wires[1],), alone(flow)))]
    over = max(0.0, max(of.gap * 1000 for of in found) - max(slow))
    return [
        report.Row("failover: nothing comes for", max(gaps), "ms", max(linux), max(gaps) / max(linux), f"≤ {bound:.0f} (2 RTO)", max(gaps) <= bound),
        report.Row("without one", max(undisturbed), "ms"),
        report.Row("make before break: silence beyond that of a path", over, "ms", needed="0", met=over == 0),
    ]


def candidates() -> list[tuple[str, str]]:
    """The one that is judged, first; and what differs from it in the scheduler or in the control."""
    if not FULL:
        return [BEST, ("default", "cubic"), ("lowest-rtt", "bbr")]
    scheduler, control = BEST
    return list(dict.fromkeys([BEST, *((other, control) for other in SCHEDULERS), *((scheduler, other) for other in CONTROLS)]))


def beside(name: str, candidate: tuple[str, str], linux: Mapping[tuple[str, float], list[Measured]]) -> tuple[list[report.Row], bool]:
    """A pair of paths with a scheduler and a control, 30 s and 1 MB; and whether both are better than Linux's, beyond doubt."""
    scheduler, control = candidate
    flow, seeds = dataclasses.replace(WEFT, scheduler=scheduler, control=control), SEEDS if candidate == BEST else SHORT_SEEDS
    long, short = (seeded(world(PAIRS[name], dataclasses.replace(flow, how=how)), seeds) for how in (LONG, SHORT))
    rates, times = (goodputs(long), goodputs(linux[LONG][: len(seeds)])), (seconds(short), seconds(linux[SHORT][: len(seeds)]))
    rows = [
        row(f"{name}, {scheduler}/{control}, 30 s", *rates, "Mbit/s"),
        row(f"{name}, {scheduler}/{control}, 1 MB", *times, "s", faster=True),
    ]
    return rows, paired.ratio(*rates).least > 1 and paired.ratio(*reversed(times)).least > 1


def pairs() -> list[report.Row]:
    """Ten pairs of paths: 1 MB, and 30 s, beside Linux."""
    rows, better = [], {candidate: 0 for candidate in candidates()}
    for name, wires in PAIRS.items():
        linux = {how: seeded(world(wires, dataclasses.replace(LINUX, how=how))) for how in (LONG, SHORT)}
        for candidate in better:
            found, is_better = beside(name, candidate, linux)
            rows += found
            better[candidate] += is_better
    for (scheduler, control), count in better.items():
        needed = (f"≥ {PAIRS_BETTER_MIN}", count >= PAIRS_BETTER_MIN) if (scheduler, control) == BEST else (None, None)
        rows.append(report.Row(f"pairs in which {scheduler}/{control} beats Linux at both", count, "of 10", None, None, *needed))
    return rows


# A bottleneck that Multipath TCP's two subflows share with a TCP flow.
FAIR_SECONDS = 60


def jain(rates: Sequence[float]) -> float:
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def fairness() -> list[report.Row]:
    rows = []
    for control in ("lia", "olia", "balia", "reno"):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda seed: shared_bottleneck.rates(shared_bottleneck.world(control, FAIR_SECONDS), seed), SEEDS))
        value = statistics.mean(jain(of) for of in found)
        needed = (None, None) if control == "reno" else ("≥ 0.95", value >= 0.95)
        shares = statistics.mean(of[0] / of[1] for of in found)
        rows.append(report.Row(f"two subflows of {control} and a NewReno flow: Jain index", value, f"({shares:.2f} : 1)", None, None, *needed))
    return rows


# KiB of the buffers at both ends.
BUFFERS_KIB = (32, 64, 128, 256, 512)


def sweep() -> list[report.Row]:
    """Small buffers over Wi-Fi and LTE: at no size are two paths worth less than the better one alone. weft's, and Linux's."""
    rows = []
    for who, words in (("weft", ()), ("weft, ecf", ("--scheduler", BEST[0])), ("Linux", ("--linux", "all"))):
        with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/var/tmp") as name:
            sizes = ",".join(map(str, BUFFERS_KIB))
            found = by(experiment(Path(name), "buffers", "--sizes", sizes, *words, seeds=len(SEEDS), seconds=SWEEP_SECONDS_MAX), "way", "KiB")
        for size in BUFFERS_KIB:
            both, *alone_each = (found[f"{way} {size}"] for way in ("MPTCP", "TCP, Wi-Fi", "TCP, LTE"))
            needed = ("≥ 1", both >= max(alone_each)) if who != "Linux" else (None, None)
            name = f"buffers of {size} KiB, {who}, beside the better path alone"
            rows.append(report.Row(name, both, "Mbit/s", max(alone_each), both / max(alone_each), *needed))
    return rows


VIRTUAL: Bodies = {"two and one": two_and_one, "wide": wide, "one path": one_path, "failover": failover, "pairs": pairs, "fairness": fairness, "buffers": sweep}


def without_kernel() -> str | None:
    """Why there is no Linux kernel for virtual time."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/var/tmp") as name:
        try:
            kernel(Path(name))
        except paths.MissingTool as missing:
            return str(missing)
    return None


def main() -> int:
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    chosen = {name: body for name, body in (VIRTUAL | bench_real.BODIES).items() if not wanted or any(word in name for word in wanted)}
    missing = without_kernel() if chosen.keys() & VIRTUAL.keys() else None
    if missing:
        print(f"skipped in virtual time: {missing}")
        if FULL:
            return 1
        chosen = {name: body for name, body in chosen.items() if name not in VIRTUAL}
    rows: list[report.Row] = []
    for body in chosen.values():
        try:
            found = body()
        except (Failure, paths.MissingTool) as failure:
            print(failure, file=sys.stderr)
            return 1
        print(report.table(found), flush=True)
        rows += found
    report.write("mptcp", rows)
    return int(any(of.met is False for of in rows))
