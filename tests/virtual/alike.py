"""What a program sees natively, it sees in virtual time: terminals, calls that wait in the kernel, signals that the kernel raises, descriptors that are none
(alike.c); CPU clocks and who waits for them (cpu_clocks.c); locks that are handed over (futex_pi.c); streams that
take more (writers.c).

Each program does it, a line each. The same lines must come natively and, several times with one hash, in virtual time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure

from .runs import Runs
from .shared import SECONDS_MAX, USUAL_SIGNALS, compiled, keys, program, section

HERE = Path(__file__).parent
SOURCES = ("alike.c", "cpu_clocks.c", "futex_pi.c", "writers.c")
TIMES = 3


class Alike:
    """All runs of a program, made when the first row asks."""

    def __init__(self, runs: Runs, source: str) -> None:
        self.runs = runs
        self.source = HERE / source
        self.found: list[dict[str, str]] = []

    def all(self) -> list[dict[str, str]]:
        """Natively, then in virtual time."""
        if self.found:
            return self.found
        command = compiled(self.source, self.runs.folder / self.source.stem, "-Wno-unused-result")
        said = [subprocess.run([*USUAL_SIGNALS, str(command)], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, start_new_session=True).stdout]
        text = keys(duration="100s") + section("nodes.a") + program("alike", "a", str(command))
        several = [self.runs.run(text) for _ in range(TIMES)]
        said += [(out / "programs" / "alike" / "stdout").read_text() for _, out in several]
        self.found = [dict(line.split(": ", 1) for line in text.splitlines()) for text in said]
        if len({found for found, _ in several}) != 1:
            raise Failure(f"{TIMES} runs, and their hashes are {[found for found, _ in several]}")
        return self.found

    def same(self, part: str) -> str:
        native, *virtual = self.all()
        for run in virtual:
            if run.get(part) != native[part]:
                raise Failure(f"natively {native[part]}\nin virtual time {run.get(part)}")
        return native[part]

    def rows(self) -> dict[str, Callable[[Path], str]]:
        parts = [line.split('{"')[1:] for line in self.source.read_text().partition("PARTS[] = {")[2].partition("};")[0].splitlines()]
        names = [piece.partition('"')[0] for line in parts for piece in line]
        return {f"as natively/{name}": (lambda _, name=name: self.same(name)) for name in names}
