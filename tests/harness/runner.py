"""`make test` and `make acceptance`: runs the targets of tests/targets.toml.

Builds stand apart, as a step of their own, because the eight minutes that a group of targets may take are meant for
tests. A target's output goes to target/test-logs/NAME.log; its last lines are shown when it fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from . import kernels, paths, results, status, targets
from .lint import cargo

# What the targets of a group should take together, on a machine that does a system call in 0.1 µs; more is said.
GROUP_SECONDS = 480
# What all may take together; builds stand apart.
ALL_SECONDS_MAX = 2400
GRACE_SECONDS = 15
LINES_OF_A_FAILURE = 60
LINES_OF_A_REASON = 12


@dataclasses.dataclass
class Outcome:
    """What one target did: rows it reported (or one for its exit status) and the seconds it took."""

    target: targets.Target
    seconds: float
    rows: list[results.Row]

    @property
    def failed(self) -> bool:
        return any(row.outcome == results.FAILED for row in self.rows)


# What is compiled first, and which targets alone need it (none: all do). What is built in a way of its own builds itself.
STEPS: tuple[tuple[list[str], set[str]], ...] = (
    (["cargo", "build", "--release", "--workspace", "--bins", "--example", "socket-twins", "--quiet"], set()),
    (["cargo", "test", "--workspace", "--no-run", "--quiet"], {"test-crates"}),
    (["cargo", "build", "--release", "--package", "weft-capi", "--quiet"], {"test-capi"}),
    ([sys.executable, "-m", "hostile", "build"], {"test-hostile", "coverage"}),
)


def build(chosen: set[str]) -> bool:
    """Compiles what the chosen targets will need; test seconds shall not hold compile seconds."""
    for step, only_for in STEPS:
        if only_for and not only_for & chosen:
            continue
        print(f"building: {' '.join(step)}", flush=True)
        started = time.monotonic()
        run = subprocess.run(step, cwd=paths.ROOT, stdin=subprocess.DEVNULL)
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
        if run.returncode != 0:
            return False
    if "lint" in chosen:
        # `make lint` then has the cache of a run like its own, and reports what this one finds.
        subprocess.run(cargo.CLIPPY, cwd=paths.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return True


def run_target(target: targets.Target, full: bool, verbose: bool) -> Outcome:
    """Runs one target under its watchdog in a process group of its own."""
    logs = paths.output_dir() / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    log_path = logs / f"{target.name}.log"
    timeout_s = target.full_timeout_s if full else target.timeout_s
    with tempfile.NamedTemporaryFile(prefix="weft-results-") as result_file:
        # ONLY restricts this runner; handed on it would also restrict the rows of a target.
        environment = {key: value for key, value in os.environ.items() if key not in ("ONLY", "MAKEFLAGS", "MAKELEVEL")}
        environment.update(FULL="1" if full else "", WEFT_RESULTS=result_file.name)
        started = time.monotonic()
        with log_path.open("wb") as log:
            status_code = _run_logged(target, environment, log, timeout_s, verbose)
        seconds = time.monotonic() - started
        rows = results.read(Path(result_file.name))
    if status_code is None:
        rows.append(results.Row("watchdog", results.FAILED, seconds, f"ran longer than {timeout_s} s"))
    elif status_code != 0 and not any(row.outcome == results.FAILED for row in rows):
        rows.append(results.Row("exit status", results.FAILED, seconds, f"exit status {status_code}"))
    elif not rows:
        rows.append(results.Row("exit status", results.PASSED, seconds))
    return Outcome(target, seconds, rows)


def _run_logged(target: targets.Target, environment: dict[str, str], log, timeout_s: int, verbose: bool) -> int | None:
    """Exit status of the target, None when the watchdog ended it. Its whole process group ends with it."""
    process = subprocess.Popen(
        target.command, cwd=paths.ROOT, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if verbose else log, stderr=subprocess.STDOUT, start_new_session=True,
    )
    hung = threading.Event()

    def end() -> None:
        """SIGTERM first: the target removes its namespaces on the way out."""
        hung.set()
        os.killpg(process.pid, signal.SIGTERM)

    watchdog = threading.Timer(timeout_s, end)
    watchdog.start()
    try:
        if verbose:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                sys.stdout.buffer.write(b"    " + line)
                sys.stdout.flush()
        status_code = process.wait(timeout_s + GRACE_SECONDS)
        return None if hung.is_set() else status_code
    except subprocess.TimeoutExpired:
        return None
    finally:
        watchdog.cancel()
        _end_group(process)


def _end_group(process: subprocess.Popen) -> None:
    """Nothing of a target outlives it: SIGTERM for an orderly end where it still runs, then SIGKILL for what is left."""
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(GRACE_SECONDS)
    except (subprocess.TimeoutExpired, ProcessLookupError):
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def unknown_skips(outcomes: list[Outcome], known: list[targets.KnownSkip]) -> list[str]:
    """Names of skipped rows that tests/skips.toml does not name."""
    return [
        f"{outcome.target.name}/{row.name}"
        for outcome in outcomes for row in outcome.rows
        if row.outcome == results.SKIPPED and not any(skip.covers(f"{outcome.target.name}/{row.name}") for skip in known)
    ]


def slow_groups(outcomes: list[Outcome], seconds_max: float = GROUP_SECONDS) -> list[tuple[str, float]]:
    """Groups whose targets together took longer than they should. Not a failure: there are machines on which a call takes thirty times as long."""
    seconds: dict[str, float] = {}
    for outcome in outcomes:
        seconds[outcome.target.group] = seconds.get(outcome.target.group, 0.0) + outcome.seconds
    return [(group, taken) for group, taken in seconds.items() if taken > seconds_max]


def show_outcome(outcome: Outcome) -> None:
    mark = "FAILED" if outcome.failed else "ok"
    print(f"  {outcome.target.name:<15} {outcome.seconds:7.1f} s  {mark:<7} {results.summary(outcome.rows)}", flush=True)
    if not outcome.failed:
        return
    for row in outcome.rows:
        if row.outcome == results.FAILED:
            print(f"      failed: {row.name}" + (f": {row.reason.splitlines()[0]}" if row.reason else ""))
    log = paths.output_dir() / "test-logs" / f"{outcome.target.name}.log"
    lines = log.read_text(errors="replace").splitlines()
    print(f"      last lines of {log.relative_to(paths.ROOT)}:")
    for line in lines[-LINES_OF_A_FAILURE:]:
        print(f"      | {line}")


def show_failures(outcomes: list[Outcome]) -> None:
    """Every failed row once more, with its whole reason: the last that is printed, as often only the end of a long log is kept."""
    failed = [(o.target.name, row) for o in outcomes for row in o.rows if row.outcome == results.FAILED]
    if failed:
        print("\nfailed:")
    for name, row in failed:
        lines = row.reason.splitlines() or ["no reason given"]
        print(f"  {name}/{row.name}: " + "\n      ".join(lines[:LINES_OF_A_REASON]))


def show_skips(outcomes: list[Outcome]) -> None:
    skipped = [(o.target.name, row) for o in outcomes for row in o.rows if row.outcome == results.SKIPPED]
    if skipped:
        print("\nskipped:")
    for name, row in skipped:
        print(f"  {name}/{row.name}: {row.reason}")


def select(table: list[targets.Target], only: str, acceptance: bool) -> list[targets.Target]:
    """The targets to run: those ONLY names, else all (acceptance) or those of CI (test)."""
    names = [name for name in only.replace(",", " ").split() if name]
    unknown = set(names) - {target.name for target in table}
    if unknown:
        raise targets.TableError(f"ONLY names no target of tests/targets.toml: {', '.join(sorted(unknown))}")
    chosen = [t for t in table if (t.name in names if names else acceptance or t.in_ci)]
    # Last, when their kernels have been built.
    return sorted(chosen, key=lambda target: target.kernels)


def main(arguments: list[str]) -> int:
    acceptance = arguments == ["acceptance"]
    full = acceptance or bool(os.environ.get("FULL"))
    table = targets.load()
    chosen = select(table, os.environ.get("ONLY", ""), acceptance)
    known = targets.load_skips()
    # The commit is read before the first target: what runs is what was built from it.
    commit = paths.commit()

    if not build({target.name for target in chosen}):
        print("\nthe build failed\n0 passed, 1 failed, 0 skipped")
        return 1

    wanted = any(target.kernels for target in chosen)
    if wanted and acceptance:
        kernels.build_all()

    outcomes: list[Outcome] = []
    print(f"\nrunning {len(chosen)} targets in their {'full' if full else 'short'} form", flush=True)
    with kernels.meanwhile() if wanted and not acceptance and os.environ.get("CI") else contextlib.nullcontext({}) as builds:
        for target in chosen:
            if target.kernels:
                kernels.await_all(builds)
            outcome = run_target(target, full, bool(os.environ.get("VERBOSE")))
            show_outcome(outcome)
            outcomes.append(outcome)
            if acceptance:
                status.update(table, [outcome], commit)

    show_skips(outcomes)
    rows = [row for outcome in outcomes for row in outcome.rows]
    for name in unknown_skips(outcomes, known):
        print(f"\nfailure: the skip of {name} is not named in tests/skips.toml")
        rows.append(results.Row(name, results.FAILED))
    if not full:
        for group, seconds in slow_groups(outcomes):
            print(f"\nslow: the targets of {group} took {seconds:.0f} s, more than {GROUP_SECONDS} s")
    seconds = sum(outcome.seconds for outcome in outcomes)
    if not full and seconds > ALL_SECONDS_MAX:
        print(f"\nfailure: the targets took {seconds:.0f} s, more than {ALL_SECONDS_MAX} s")
        rows.append(results.Row("seconds of all targets", results.FAILED))
    show_failures(outcomes)
    print(f"\n{seconds:.0f} s in all")
    print(results.summary(rows))
    return 1 if any(row.outcome == results.FAILED for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
