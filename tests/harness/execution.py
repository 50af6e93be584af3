"""One command under a watchdog, in a process group of its own: what it reported, how long it took, and what it cost.

Output goes to target/test-logs/NAME.log.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from . import paths, results, targets

GRACE_SECONDS = 15


@dataclasses.dataclass
class Outcome:
    """What one target did: rows it reported (or one for its exit status), and the seconds that passed and that it kept
    processors busy, with all processes that somebody waited for."""

    target: targets.Target
    seconds: float
    rows: list[results.Row]
    processor_seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return any(row.outcome == results.FAILED for row in self.rows)


@dataclasses.dataclass
class Ended:
    """How a command ended; `status` is None when the watchdog ended it."""

    status: int | None
    seconds: float
    processor_seconds: float


def profile(full: bool) -> str:
    """What the full forms run is what people use; the short ones run what checks itself."""
    return paths.RELEASE if full else paths.CHECKED


def log_of(name: str) -> Path:
    logs = paths.output_dir() / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"{name}.log"


def run_target(target: targets.Target, full: bool, verbose: bool) -> Outcome:
    """Runs one target to its end."""
    timeout_s = target.full_timeout_s if full else target.timeout_s
    with tempfile.NamedTemporaryFile(prefix="weft-results-") as result_file:
        # ONLY restricts this runner; handed on it would also restrict the rows of a target. What targets need is there.
        environment = {key: value for key, value in os.environ.items() if key not in ("ONLY", "MAKEFLAGS", "MAKELEVEL")}
        environment.update(FULL="1" if full else "", WEFT_RESULTS=result_file.name, WEFT_PREPARED="1", WEFT_PROFILE=profile(full))
        ended = run_logged(target.name, target.command, environment, timeout_s, verbose)
        rows = results.read(Path(result_file.name))
    if ended.status is None:
        rows.append(results.Row("watchdog", results.FAILED, ended.seconds, f"ran longer than {timeout_s} s"))
    elif ended.status != 0 and not any(row.outcome == results.FAILED for row in rows):
        rows.append(results.Row("exit status", results.FAILED, ended.seconds, f"exit status {ended.status}"))
    elif not rows:
        rows.append(results.Row("exit status", results.PASSED, ended.seconds))
    return Outcome(target, ended.seconds, rows, ended.processor_seconds)


class _Running:
    """The commands that run now, so that all end when this program is told to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen] = set()
        self._closed = False

    def add(self, process: subprocess.Popen) -> None:
        with self._lock:
            self._processes.add(process)
            closed = self._closed
        if closed:
            _signal(process, signal.SIGTERM)

    def remove(self, process: subprocess.Popen) -> None:
        with self._lock:
            self._processes.discard(process)

    def end(self) -> None:
        """SIGTERM for an orderly end, then SIGKILL. What is started from now on ends at once."""
        with self._lock:
            self._closed, processes = True, list(self._processes)
        for process in processes:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._processes and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in processes:
            _signal(process, signal.SIGKILL)


running = _Running()


def run_logged(name: str, command: tuple[str, ...], environment: dict[str, str], timeout_s: float, verbose: bool) -> Ended:
    """Runs a command with its output in its log. Its whole process group ends with it."""
    started = time.monotonic()
    with log_of(name).open("wb") as log:
        process = subprocess.Popen(
            command, cwd=paths.ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if verbose else log, stderr=subprocess.STDOUT, start_new_session=True,
        )
        running.add(process)
        hung = threading.Event()

        def end() -> None:
            """SIGTERM first: the target removes its namespaces on the way out."""
            hung.set()
            _signal(process, signal.SIGTERM)

        watchdogs = threading.Timer(timeout_s, end), threading.Timer(timeout_s + GRACE_SECONDS, _signal, (process, signal.SIGKILL))
        for watchdog in watchdogs:
            watchdog.daemon = True
            watchdog.start()
        try:
            if verbose:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    sys.stdout.buffer.write(f"    {name}: ".encode() + line)
                    sys.stdout.flush()
            # Waited for by hand: the usage tells what it and all that it waited for cost.
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            running.remove(process)
            for watchdog in watchdogs:
                watchdog.cancel()
            # Nothing of a command outlives it.
            _signal(process, signal.SIGKILL)
    return Ended(None if hung.is_set() else process.returncode, time.monotonic() - started, usage.ru_utime + usage.ru_stime)


def _signal(process: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass
