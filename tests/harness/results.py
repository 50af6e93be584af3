"""Rows of results, from a target to the runner.

A target is a process of its own; it reports each row it ran as one JSON line in the file that WEFT_RESULTS names.
Without that variable (somebody runs `make test-programs` by hand) the rows are only printed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from pathlib import Path
from typing import Callable, Iterable

from . import paths
from .processes import Failure

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Row:
    """One checked thing. `name` is unique inside its target; `reason` says why it failed or was skipped."""

    name: str
    outcome: str
    seconds: float = 0.0
    reason: str = ""


def judged(name: str, body: Callable[[], str], failures: tuple[type[Exception], ...] = (Failure,)) -> Row:
    """Runs a body: what it says, why it failed (one of `failures`), or which tool is missing."""
    started = time.monotonic()
    try:
        outcome, reason = PASSED, body()
    except failures as failure:
        outcome, reason = FAILED, str(failure)
    except paths.MissingTool as missing:
        outcome, reason = SKIPPED, str(missing)
    return Row(name, outcome, time.monotonic() - started, reason)


class Recorder:
    """Collects rows, prints each as it comes, appends it to the runner's file. Safe to use from several threads."""

    def __init__(self, quiet: bool = False) -> None:
        path = os.environ.get("WEFT_RESULTS")
        self._path = Path(path) if path else None
        self._lock = threading.Lock()
        self._quiet = quiet
        # Rows say on which engine, where one is named: a target may run the same ones on several.
        engine = os.environ.get("ENGINE")
        self._before = f"{engine}/" if engine else ""
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        row = dataclasses.replace(row, name=self._before + row.name)
        with self._lock:
            self.rows.append(row)
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps(dataclasses.asdict(row)) + "\n")
            if not self._quiet or row.outcome == FAILED:
                print(_line(row), flush=True)

    def add_said(self, row: Row) -> bool:
        """The same, and before it, on a line of its own, what a row that has passed said. Has it passed?"""
        passed = row.outcome == PASSED
        if passed:
            print(f"    {row.name}: {row.reason}", flush=True)
        self.add(dataclasses.replace(row, reason="" if passed else row.reason))
        return passed

    def count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    def finish(self) -> int:
        """Prints the sum and returns the exit status of the target."""
        print(summary(self.rows), flush=True)
        return 1 if self.count(FAILED) or not self.rows else 0


def _line(row: Row) -> str:
    text = f"  {row.outcome:<7} {row.seconds:6.1f} s  {row.name}"
    if row.reason:
        indented = row.reason.replace("\n", "\n" + " " * 10)
        text += ("\n" + " " * 10 if row.outcome == FAILED else ": ") + indented
    return text


def summary(rows: Iterable[Row]) -> str:
    rows = list(rows)
    counts = {outcome: sum(row.outcome == outcome for row in rows) for outcome in (PASSED, FAILED, SKIPPED)}
    return f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped"


def read(path: Path) -> list[Row]:
    """The rows that a target reported; an empty list when it reported none."""
    if not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text().splitlines() if line]
