"""`make test`, `make test-under-load` and `make acceptance`: run the targets of tests/targets.toml.

`make test` runs them in their short form, beside each other as far as the processors have room (schedule.py), and what
is compiled as steps among them. `make acceptance` runs each in its full form by itself. `make test-under-load` runs the
short forms beside eight busy loops (under_load.py). The last lines of a target's log are shown when it fails.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from . import kernels, paths, results, schedule, status, targets, under_load
from .execution import Outcome, log_of, profile, run_logged, run_target, running

# What `make test` may take, builds and all, and what is left for targets when the builds' part is taken off: they run
# beside each other, so that is the processors' time for builds by the number of processors. A machine whose processors
# have other work to do is slow for no fault of the tests: there the processors' own time is what counts.
ALL_SECONDS_MAX = 2400
TARGETS_SECONDS_MAX = 1500
PROCESSOR_SECONDS_MAX = 2520
# How much more than its budget a target may take before it is named.
OVER = 1.25
# Processors' worth of targets beside each other, for each processor: what one leaves over another takes.
ROOM_PER_PROCESSOR = 1.5
STEP_SECONDS_MAX = 3000
LINES_OF_A_FAILURE = 60
LINES_OF_A_REASON = 12
NAMES_OF_A_SKIP = 4


class Report:
    """What is printed, by one thread at a time, and what has been found."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.outcomes: list[Outcome] = []
        # Steps: name, seconds, seconds of processors.
        self.steps: list[tuple[targets.Step, float, float]] = []
        self.failed_steps: list[str] = []
        # For kernels that were not there yet.
        self.waited_seconds = 0.0

    def step(self, step: targets.Step, seconds: float, processor_seconds: float, good: bool) -> None:
        with self._lock:
            self.steps.append((step, seconds, processor_seconds))
            mark = "ok" if good else "FAILED"
            print(f"  {'build ' + step.name:<20} {seconds:7.1f} s {processor_seconds:7.1f} s  {mark}", flush=True)
            if not good:
                self.failed_steps.append(step.name)
                show_log(step.name)

    def target(self, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes.append(outcome)
            show_outcome(outcome)

    @property
    def rows(self) -> list[results.Row]:
        return [row for outcome in self.outcomes for row in outcome.rows]

    @property
    def build_seconds(self) -> float:
        """Of the processors, for steps."""
        return sum(taken for _, _, taken in self.steps)

    @property
    def processor_seconds(self) -> float:
        return sum(outcome.processor_seconds for outcome in self.outcomes) + self.build_seconds

    @property
    def counted_seconds(self) -> float:
        """Of the processors, without targets of Linux kernels, which a machine may have or not."""
        return self.processor_seconds - sum(outcome.processor_seconds for outcome in self.outcomes if outcome.target.kernels)


def show_log(name: str) -> None:
    log = log_of(name)
    print(f"      last lines of {log.relative_to(paths.ROOT)}:")
    for line in log.read_text(errors="replace").splitlines()[-LINES_OF_A_FAILURE:]:
        print(f"      | {line}")


def show_outcome(outcome: Outcome) -> None:
    mark = "FAILED" if outcome.failed else "ok"
    print(f"  {outcome.target.name:<20} {outcome.seconds:7.1f} s {outcome.processor_seconds:7.1f} s  {mark:<7} "
          f"{results.summary(outcome.rows)}", flush=True)
    if not outcome.failed:
        return
    for row in outcome.rows:
        if row.outcome == results.FAILED:
            print(f"      failed: {row.name}" + (f": {row.reason.splitlines()[0]}" if row.reason else ""))
    show_log(outcome.target.name)


def show_failures(report: Report) -> None:
    """Every failure once more, with its whole reason: the last that is printed, as often only the end of a long log is kept."""
    failed = [("build", results.Row(name, results.FAILED, 0.0, "it could not be built")) for name in report.failed_steps]
    failed += [(o.target.name, row) for o in report.outcomes for row in o.rows if row.outcome == results.FAILED]
    if failed:
        print("\nfailed:")
    for name, row in failed:
        lines = row.reason.splitlines() or ["no reason given"]
        print(f"  {name}/{row.name}: " + "\n      ".join(lines[:LINES_OF_A_REASON]))


def show_skips(outcomes: list[Outcome]) -> None:
    """Rows of a target that are skipped for one reason share a line."""
    skipped: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for row in outcome.rows:
            if row.outcome == results.SKIPPED:
                skipped.setdefault((outcome.target.name, row.reason), []).append(row.name)
    if skipped:
        print("\nskipped:")
    for (target, reason), names in skipped.items():
        more = f" and {len(names) - NAMES_OF_A_SKIP} more" if len(names) > NAMES_OF_A_SKIP else ""
        print(f"  {target}: {', '.join(names[:NAMES_OF_A_SKIP])}{more}: {reason}")


def unknown_skips(outcomes: list[Outcome], known: list[targets.KnownSkip]) -> list[str]:
    """Names of skipped rows that tests/skips.toml does not name."""
    return [
        f"{outcome.target.name}/{row.name}"
        for outcome in outcomes for row in outcome.rows
        if row.outcome == results.SKIPPED and not any(skip.covers(f"{outcome.target.name}/{row.name}") for skip in known)
    ]


def over_budget(report: Report) -> list[str]:
    """What took more of the processors than tests/targets.toml gives it. Wall time beside other targets judges nothing."""
    taken = [(outcome.target, outcome.processor_seconds) for outcome in report.outcomes]
    taken += [(step, processor_seconds) for step, _, processor_seconds in report.steps]
    return [f"{one.name} took {seconds:.0f} s of the processors, its budget is {one.processor_seconds:.0f} s"
            for one, seconds in taken if seconds > OVER * one.processor_seconds]


def too_slow(seconds: float, seconds_of_targets: float, processor_seconds: float) -> str:
    """Why `make test` as a whole took too long; empty: it did not."""
    if processor_seconds <= PROCESSOR_SECONDS_MAX:
        return ""
    for what, taken, most in (("everything", seconds, ALL_SECONDS_MAX), ("the targets", seconds_of_targets, TARGETS_SECONDS_MAX)):
        if taken > most:
            return f"{what} took {taken:.0f} s, more than {most} s, and all together {processor_seconds:.0f} s of the processors, more than {PROCESSOR_SECONDS_MAX} s"
    return ""


def select(table: list[targets.Target], only: str, acceptance: bool) -> list[targets.Target]:
    """The targets to run: those ONLY names, else all (acceptance) or those of CI (test)."""
    names = [name for name in only.replace(",", " ").split() if name]
    unknown = set(names) - {target.name for target in table}
    if unknown:
        raise targets.TableError(f"ONLY names no target of tests/targets.toml: {', '.join(sorted(unknown))}")
    chosen = [t for t in table if (t.name in names if names else acceptance or t.in_ci)]
    # Last, when their kernels have been built.
    return sorted(chosen, key=lambda target: target.kernels)


def steps_of(chosen: list[targets.Target], steps: list[targets.Step]) -> list[targets.Step]:
    """The steps that the chosen targets need, with those that these need."""
    by_name = {step.name: step for step in steps}
    wanted = [name for target in chosen for name in target.needs]
    for name in wanted:
        wanted += by_name[name].needs
    return [step for step in steps if step.name in wanted]


def step_task(step: targets.Step, report: Report, full: bool, verbose: bool) -> schedule.Task:
    def body() -> bool:
        command = tuple(word.format(profile=profile(full)) for word in step.command)
        ended = run_logged(step.name, command, dict(os.environ), STEP_SECONDS_MAX, verbose)
        report.step(step, ended.seconds, ended.processor_seconds, ended.status == 0)
        return ended.status == 0

    return schedule.Task(step.name, body, step.processor_seconds / step.seconds, step.seconds, frozenset(step.needs))


def target_task(target: targets.Target, report: Report, full: bool, verbose: bool, prepare) -> schedule.Task:
    def body() -> bool:
        prepare(target)
        report.target(run_target(target, full, verbose))
        return True

    return schedule.Task(target.name, body, target.processor_seconds / target.seconds, target.seconds, frozenset(target.needs), last=target.kernels)


def kernels_task(builds: dict[str, kernels.Build]) -> schedule.Task:
    """Begins their builds as soon as there is a weft that builds them; they take what the processors have left over."""
    def body() -> bool:
        kernels.begin(builds)
        return True

    return schedule.Task("kernels", body, load=0.0, seconds=STEP_SECONDS_MAX, needs=frozenset({"programs"}))


def run_short(chosen: list[targets.Target], report: Report, verbose: bool, builds: dict[str, kernels.Build] | None) -> None:
    """Steps and targets beside each other; `builds`: kernels are built, too."""
    lock = threading.Lock()

    def await_kernels(target: targets.Target) -> None:
        if target.kernels and builds:
            with lock:
                report.waited_seconds += kernels.await_all(builds)

    tasks = [step_task(step, report, False, verbose) for step in steps_of(chosen, targets.load_steps())]
    tasks += [target_task(target, report, False, verbose, await_kernels) for target in chosen]
    if builds is not None:
        tasks.append(kernels_task(builds))
    for name in schedule.run_all(tasks, ROOM_PER_PROCESSOR * (os.cpu_count() or 1)):
        print(f"  {name:<20} not run: what it needs could not be built", flush=True)


def build(chosen: list[targets.Target], report: Report, full: bool, verbose: bool) -> bool:
    """The steps that they need, one after the other."""
    return all(step_task(step, report, full, verbose).body() for step in steps_of(chosen, targets.load_steps()))


def run_full(chosen: list[targets.Target], report: Report, verbose: bool, recorded: bool) -> None:
    """One after the other, each by itself; docs/status.md is written as they end if they are `recorded`."""
    table = targets.load()
    # The commit is read before the first target: what runs is what was built from it.
    commit = paths.commit()
    if not build(chosen, report, True, verbose):
        return
    if recorded and any(target.kernels for target in chosen):
        kernels.build_all()
    for target in chosen:
        outcome = run_target(target, True, verbose)
        report.target(outcome)
        if recorded:
            status.update(table, [outcome], commit)


def conclude(report: Report, seconds: float, judged: bool) -> int:
    """The end of the output, and the exit status. `judged`: the bounds of `make test` hold."""
    show_skips(report.outcomes)
    rows = report.rows + [results.Row(name, results.FAILED) for name in report.failed_steps]
    for name in unknown_skips(report.outcomes, targets.load_skips()):
        print(f"\nfailure: the skip of {name} is not named in tests/skips.toml")
        rows.append(results.Row(name, results.FAILED))
    if judged:
        for line in over_budget(report):
            print(f"over its budget: {line}")
        own = seconds - report.waited_seconds
        if why := too_slow(own, own - report.build_seconds / (os.cpu_count() or 1), report.counted_seconds):
            print(f"\nfailure: {why}")
            rows.append(results.Row("seconds of all", results.FAILED, seconds, why))
    show_failures(report)
    print(f"\n{seconds:.0f} s in all, {report.processor_seconds:.0f} s of the processors "
          f"(builds {report.build_seconds:.0f} s)")
    print(results.summary(rows))
    return 1 if any(row.outcome == results.FAILED for row in rows) else 0


def main(arguments: list[str]) -> int:
    form = arguments[0] if arguments else "test"
    full = form == "acceptance" or bool(os.environ.get("FULL"))
    verbose = bool(os.environ.get("VERBOSE"))
    chosen = select(targets.load(), os.environ.get("ONLY", ""), form == "acceptance")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Report()
    started = time.monotonic()
    try:
        if form == "under-load":
            if build(chosen, report, False, verbose):
                under_load.run(chosen, report, verbose)
            return conclude(report, time.monotonic() - started, judged=False)
        print(f"running {len(chosen)} targets in their {'full' if full else 'short'} form (seconds, and those of the processors)", flush=True)
        if full:
            run_full(chosen, report, verbose, recorded=form == "acceptance")
        else:
            wanted = os.environ.get("KERNELS") and any(target.kernels for target in chosen)
            with kernels.meanwhile() if wanted else contextlib.nullcontext(None) as builds:
                run_short(chosen, report, verbose, builds)
        return conclude(report, time.monotonic() - started, judged=not full and not os.environ.get("ONLY"))
    finally:
        running.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
