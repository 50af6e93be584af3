"""What a suite of somebody else's tests is: where it comes from, what is run by itself, and which verdicts that gives."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure

PASSED, FAILED, SKIPPED, TIMEOUT = "passed", "failed", "skipped", "timeout"
# Watchdog of what fetches or builds something.
BUILD_SECONDS_MAX = 1200 * PATIENCE


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended: the program's status (None: the watchdog ended it, or in virtual time nothing was due any more), and all that it said."""

    status: int | None
    text: str

    def verdict(self) -> str:
        """By the status alone."""
        return TIMEOUT if self.status is None else FAILED if self.status else PASSED


@dataclasses.dataclass(frozen=True)
class Suite:
    """A suite that is there and built. A unit is what is run by itself; it has one test or, where it says a verdict for each part, several."""

    name: str
    # What it is and of which version, for the page.
    what: str
    units: tuple[str, ...]
    # The command of a unit.
    command: Callable[[str], list[str]]
    # Verdicts by test.
    verdicts: Callable[[str, Ended], dict[str, str]]
    # Where it runs; None: in a new folder, into which the folders of `laid` are copied under these names.
    folder: Path | None = None
    laid: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Watchdog of one unit.
    seconds_max: float = 60


def folder(*words: str) -> Path:
    """A folder below target/foreign, where everything that is fetched and built stays."""
    path = paths.output_dir().joinpath("foreign", *words)
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(command: list[str], cwd: Path, **variables: str) -> str:
    """Runs a command that fetches or builds; what it says, or Failure."""
    done = subprocess.run(command, cwd=cwd, env=variables or None, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failure(f"{' '.join(command)[:200]}: exit status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout
