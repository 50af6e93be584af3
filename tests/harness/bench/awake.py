"""Processors that do not fall asleep while something is measured.

An idle processor of a virtual machine halts, and to wake it costs what the hypervisor likes: 50 µs on one day, a millisecond on another.
Whoever waits for a program then measures that. A program of the lowest class on each processor keeps it from halting; whoever else wants
it has it at once.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from harness import paths

# It ends with whoever started it, however that ends: its standard input is at its end then.
SPIN = "import select, sys\nwhile not select.select([sys.stdin], [], [], 0)[0]: pass"


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Keeps each processor that this process may use from halting."""
    spinning: list[subprocess.Popen] = []
    try:
        for processor in sorted(os.sched_getaffinity(0)):
            child = subprocess.Popen([paths.PYTHON, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            spinning.append(child)
            os.sched_setscheduler(child.pid, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setaffinity(child.pid, {processor})
        yield
    finally:
        for child in spinning:
            child.kill()
            child.wait()
