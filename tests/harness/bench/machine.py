"""How fast this machine is beside the one that the absolute needs are meant for.

That one takes 90 ns for a native getppid and 1.6 µs for a futex round trip on one core. The speed is the geometric mean
of both ratios: 1 there, 0.5 on a machine that takes twice as long. A need is scaled with it, whichever way it points.
How much two threads get done that have nothing to do with each other is shown beside it, in times of one, and scales
nothing: on a shared machine it tells why a ratio of one thread to two is what it is.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import subprocess
import tempfile
from pathlib import Path

from .. import paths
from . import report

REFERENCE_GETPPID_NS = 90.0
REFERENCE_FUTEX_NS = 1600.0


@dataclasses.dataclass(frozen=True)
class Machine:
    getppid_ns: float
    futex_ns: float
    threads: float

    @property
    def speed(self) -> float:
        return math.sqrt(REFERENCE_GETPPID_NS / self.getppid_ns * REFERENCE_FUTEX_NS / self.futex_ns)

    def rows(self) -> list[report.Row]:
        return [
            report.Row("machine: getppid", self.getppid_ns, "ns", REFERENCE_GETPPID_NS,
                       self.getppid_ns / REFERENCE_GETPPID_NS),
            report.Row("machine: futex round trip", self.futex_ns, "ns", REFERENCE_FUTEX_NS,
                       self.futex_ns / REFERENCE_FUTEX_NS),
            report.Row("machine: speed", self.speed, "× reference", 1.0, self.speed),
            report.Row("machine: two threads", self.threads, "× one thread", 2.0, self.threads / 2),
        ]

    def and_later(self, later: Machine) -> Machine:
        """The geometric mean of two measurements, by which is judged what was measured between them."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(later))
        return Machine(*(statistics.geometric_mean(pair) for pair in pairs))


def measure() -> Machine:
    with tempfile.TemporaryDirectory(prefix="weft-machine-") as folder:
        program = str(Path(folder) / "machine")
        source = str(Path(__file__).with_name("machine.c"))
        subprocess.run([paths.tool("cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program,
                        source], check=True, timeout=60)
        words = subprocess.run([program], capture_output=True, text=True, check=True, timeout=120).stdout.split()
    return Machine(float(words[1]), float(words[3]), float(words[5]))


def smaller_is_better(unit: str) -> bool:
    """Times are costs; rates (Gbit/s, segments/s) are not."""
    return unit.split("/")[0].strip() in ("ns", "us", "µs", "ms", "s")


def scale(row: report.Row, speed: float) -> report.Row:
    """The row with its need, stated for the reference machine, turned into this machine's, and whether it is met."""
    if not isinstance(row.needed, (int, float)):
        return row
    if smaller_is_better(row.unit):
        needed = row.needed / speed
        return dataclasses.replace(row, needed=needed, met=row.value <= needed)
    needed = row.needed * speed
    return dataclasses.replace(row, needed=needed, met=row.value >= needed)
