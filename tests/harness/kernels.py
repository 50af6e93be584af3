"""The Linux kernels that targets with `kernels = true` want: built once, and kept where `weft kernel build` keeps them, outside the checkout.

With KERNELS=1 `make test` builds 6.12 while it tests, with what the processors have left over; when nothing else is left to do it gets the
processors, and is waited for. `make acceptance` builds all of them first. What cannot be built (packages are missing, no
room, no time) is said, and the rows that want it are skipped with their reason, all of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

from . import paths

# The names of `weft kernel list`, and what makes them.
IN_CI: dict[str, list[str]] = {"6.12": []}
ALL: dict[str, list[str]] = {**IN_CI, "6.12+coverage": ["--coverage"], "6.12+debug": ["--debug"], "6.1": ["--version", "6.1"]}
# So long CI waits for it when nothing else is left to do.
WAIT_SECONDS_MAX = 420
GRACE_SECONDS = 15
LINES_OF_A_FAILURE = 6


class Build:
    """`weft kernel build`, in a process group of its own. Its output goes to a file."""

    def __init__(self, words: list[str], log: Path, idle: bool) -> None:
        self.log = log
        self.started = time.monotonic()
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                words, cwd=paths.ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=when_idle if idle else None,
            )

    def hurry(self) -> None:
        """From now on it is as important as everything else, as far as we may say so."""
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                if os.getpgid(int(entry)) == self.process.pid:
                    os.sched_setscheduler(int(entry), os.SCHED_OTHER, os.sched_param(0))

    def wait(self, seconds_max: float | None) -> str:
        """What came of it, in words."""
        try:
            status = self.process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.end()
            return f"not there yet after {time.monotonic() - self.started:.0f} s"
        if status == 0:
            return f"there after {time.monotonic() - self.started:.0f} s at most"
        lines = self.log.read_text(errors="replace").splitlines()
        return f"exit status {status}\n" + "\n".join(f"      | {line}" for line in lines[-LINES_OF_A_FAILURE:])

    def end(self) -> None:
        """SIGTERM first: it takes away what it has made so far."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
                return


def when_idle() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def command(name: str) -> list[str]:
    return [str(paths.weft_binary()), "kernel", "build", *ALL[name]]


def log_of(name: str) -> Path:
    logs = paths.output_dir() / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"kernel-{name}.log"


def build_all() -> None:
    """One after the other, and nothing else meanwhile."""
    for name in ALL:
        print(f"building: Linux {name}", flush=True)
        print(f"  {Build(command(name), log_of(name), idle=False).wait(None)}", flush=True)


def begin(builds: dict[str, Build]) -> None:
    """Begins to build what CI wants, beside the targets: `weft` has to be there."""
    builds.update({name: Build(command(name), log_of(name), idle=True) for name in IN_CI})


@contextlib.contextmanager
def meanwhile() -> Iterator[dict[str, Build]]:
    """For builds that are begun inside. What has not come at the end is ended."""
    builds: dict[str, Build] = {}
    try:
        yield builds
    finally:
        for build in builds.values():
            build.end()


def await_all(builds: dict[str, Build]) -> float:
    """Before the first target that wants them; the seconds that this took."""
    started = time.monotonic()
    while builds:
        name, build = builds.popitem()
        build.hurry()
        print(f"  Linux {name}: {build.wait(WAIT_SECONDS_MAX)}", flush=True)
    return time.monotonic() - started
