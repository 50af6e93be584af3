"""`make bench-engines`: LANA's experiment. Frames of 64 bytes through ether and two blocks that pass them on, then dropped; by each engine, and by the kernel.

LANA measured a kernel thread of high and of normal priority, a scheduler that it controls, and the softirq itself, beside the kernel that drops at once. Here they are
a thread for each block at real-time and at normal priority, a queue for each block on one thread, and running to completion, over a veth pair; the kernel drops by a rule at
ingress. Its figures stand beside: what is compared is the share of the kernel's own rate. The plot is written beside the rows, as SVG.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
from typing import Callable

from .. import paths
from ..environment import Environment, run_main
from . import drops, report

RUNS = 5 if os.environ.get("FULL") else 3
PRIORITY = 50
WIDTH, BAR, LEFT, UNIT = 760, 22, 330, 300


@dataclasses.dataclass(frozen=True)
class Way:
    """A row of LANA's table: its name here, LANA's frames a second, and the engine (none: the kernel)."""

    name: str
    lana: float
    engine: str = ""
    high: bool = False


WAYS = (
    Way("threaded, high priority", 700_000, "threaded", True),
    Way("threaded, normal priority", 750_000, "threaded"),
    Way("queued", 900_000, "queued"),
    Way("inline", 1_300_000, "inline"),
    Way("kernel, dropped at ingress", 1_380_000),
)


def source(env: Environment, number: int, way: Way) -> Callable[[], drops.Run]:
    if not way.engine:
        return drops.by_nftables(env)
    return drops.by_weft(env, "packet", number, way.engine, urgent if way.high else None)


def urgent(pid: int) -> None:
    """All threads of a process before every other work of the machine but interrupts."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(PRIORITY))


def measure() -> dict[str, float]:
    """Frames a second by name: medians, measured in turn."""
    with Environment("engines") as env:
        sources = [(way.name, source(env, number, way)) for number, way in enumerate(WAYS)]
        runs: dict[str, list[float]] = {name: [] for name, _ in sources}
        for _ in range(RUNS):
            for name, body in sources:
                runs[name].append(body().rate)
    return {name: statistics.median(rates) for name, rates in runs.items()}


def table(rates: dict[str, float]) -> list[report.Row]:
    """Each beside LANA's, both as shares of their kernel's rate."""
    kernel, kernel_then = rates[WAYS[-1].name], WAYS[-1].lana
    rows = []
    for way in WAYS:
        rows.append(report.Row(f"LANA's table: {way.name}", rates[way.name] / 1e6, "M/s", way.lana / 1e6, rates[way.name] / way.lana))
        rows.append(report.Row("  of the kernel's rate", 100 * rates[way.name] / kernel, "%", 100 * way.lana / kernel_then))
    return rows


def plot(rates: dict[str, float]) -> str:
    """Two bars a row: the share of the kernel's rate, here and in LANA's."""
    kernel, kernel_then = rates[WAYS[-1].name], WAYS[-1].lana
    height = 50 + len(WAYS) * (2 * BAR + 14)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>',
             '<text x="12" y="24" font-size="15">Frames of 64 bytes through three blocks: share of the rate at which the kernel drops them</text>']
    for at, way in enumerate(WAYS):
        top = 44 + at * (2 * BAR + 14)
        lines.append(f'<text x="12" y="{top + BAR + 4}">{way.name}</text>')
        bars = ((rates[way.name] / kernel, rates[way.name], "#2b6cb0", "weft"), (way.lana / kernel_then, way.lana, "#a0aec0", "LANA"))
        for which, (share, rate, colour, whose) in enumerate(bars):
            y = top + which * BAR
            lines.append(f'<rect x="{LEFT - 110}" y="{y}" width="{max(1, share * UNIT):.0f}" height="{BAR - 4}" fill="{colour}"/>')
            lines.append(f'<text x="{LEFT - 104 + share * UNIT:.0f}" y="{y + BAR - 8}">{whose} {100 * share:.0f} %, {rate / 1e6:.2f} M/s</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    rates = measure()
    rows = table(rates)
    report.write("engines", rows)
    file = paths.output_dir() / "bench" / "engines.svg"
    file.write_text(plot(rates))
    print(report.table(rows))
    print(f"\nplot: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
