"""`make test-under-load`: the short form of every target beside eight busy loops.

Each target must pass once, those that wait for real clocks (`real_time` in tests/targets.toml) three times. What has
passed is kept in target/under-load.json with its commit, so that a pass may be spread over several runs: the next one
goes on with what is missing. AGAIN=1 begins a new pass.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from . import paths, schedule, targets
from .busy import busy_loops
from .execution import run_target

if TYPE_CHECKING:
    from .runner import Report

LOOPS = 8
TIMES, TIMES_IN_REAL_TIME = 1, 3
# Watchdogs have to wait longer where others have most of the processors.
PATIENCE = 8
# Targets beside each other: more of them have a larger part of processors that the loops share.
ROOM = 6.0
PAGE = paths.output_dir() / "under-load.json"


def times(target: targets.Target) -> int:
    return TIMES_IN_REAL_TIME if target.real_time else TIMES


class Passes:
    """How often each target has passed, and at which commits."""

    def __init__(self, page: Path = PAGE, again: bool = False) -> None:
        self._page, self._lock = page, threading.Lock()
        self.commits: dict[str, list[str]] = {} if again or not page.exists() else json.loads(page.read_text())

    def add(self, target: targets.Target, commit: str) -> None:
        with self._lock:
            self.commits.setdefault(target.name, []).append(commit)
            self._page.write_text(json.dumps(self.commits, indent=1) + "\n")

    def missing(self, target: targets.Target) -> int:
        return max(0, times(target) - len(self.commits.get(target.name, [])))


def run(chosen: list[targets.Target], report: Report, verbose: bool) -> None:
    """What is missing of a pass."""
    passes, commit = Passes(again=bool(os.environ.get("AGAIN"))), paths.commit()
    missing = [target for target in chosen if passes.missing(target)]
    print(f"{len(missing)} of {len(chosen)} targets have not passed beside {LOOPS} busy loops yet", flush=True)

    def task(target: targets.Target) -> schedule.Task:
        def body() -> bool:
            for _ in range(passes.missing(target)):
                outcome = run_target(dataclasses.replace(target, timeout_s=PATIENCE * target.timeout_s), False, verbose)
                report.target(outcome)
                if outcome.failed:
                    return False
                passes.add(target, commit)
            return True

        return schedule.Task(target.name, body, target.processor_seconds / target.seconds, target.seconds * passes.missing(target))

    os.environ["WEFT_PATIENCE"] = str(PATIENCE)
    with busy_loops(LOOPS):
        schedule.run_all([task(target) for target in missing], ROOM)
    for target in chosen:
        print(f"  {target.name:<20} passed {len(passes.commits.get(target.name, []))} of {times(target)}: "
              f"{', '.join(passes.commits.get(target.name, [])) or 'never'}")
