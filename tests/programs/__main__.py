"""Runs the table of programs.

    python3 -m programs [--native] [--list] [WORD…]     WORDs select rows whose name holds one of them (also ONLY=)

Short form: every row in every role under weft with its canary, and every row once natively as the oracle.
FULL=1: natively in every role with canaries too. MODE=native runs without a `weft` binary: kernel against kernel.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import sys
import time

from harness import paths, results
from harness.environment import Environment, run_main
from harness.namespaces import in_user_namespace
from harness.processes import Failure

from . import more_rows  # noqa: F401  its rows register themselves
from .rows import ROWS, Row
from .shared import Shared, prepare

# Rows wait much and compute little, canaries only wait.
ROWS_AT_ONCE = 4
CANARIES_AT_ONCE = 8


@dataclasses.dataclass(frozen=True)
class Case:
    """A row in one role and mode, perhaps as canary."""

    row: str
    role: str
    native: bool
    canary: bool

    @property
    def name(self) -> str:
        return f"{self.row}/{self.role}" + ("/native" if self.native else "") + ("/canary" if self.canary else "")


def missing(row: Row) -> str:
    """What of the stack a row needs that is not there yet; empty: it can run under weft."""
    return row.awaits


def cases(native_only: bool, full: bool) -> list[Case]:
    every = [(name, role) for name, row in ROWS.items() for role in row.roles]
    under_weft = [(name, role) for name, role in every if not missing(ROWS[name])]
    found = [] if native_only else [Case(row, role, False, canary) for canary in (False, True) for row, role in under_weft]
    if native_only or full:
        found += [Case(row, role, True, canary) for canary in (False, True) for row, role in every]
    else:
        found += [Case(name, row.roles[0], True, False) for name, row in ROWS.items()]
    return found


def run_case(case: Case, shared: Shared) -> results.Row:
    started = time.monotonic()
    if ROWS[case.row].needs_root and in_user_namespace():
        return results.Row(case.name, results.SKIPPED, 0.0, ROWS[case.row].needs_root)
    try:
        _run(case, shared)
    except Failure as failure:
        return results.Row(case.name, results.FAILED, time.monotonic() - started, str(failure))
    except Exception as error:  # a fault of the harness or an answer that does not parse: a failure of this row only
        return results.Row(case.name, results.FAILED, time.monotonic() - started, f"{type(error).__name__}: {error}")
    return results.Row(case.name, results.PASSED, time.monotonic() - started)


def _run(case: Case, shared: Shared) -> None:
    with Environment(case.name) as env:
        row = ROWS[case.row]
        stage = row.stage(env, shared, case.role, case.native, case.canary, row.family)
        try:
            row.body(stage)
        except Failure:
            if case.canary and stage.was_cut:
                return
            raise
        except (ValueError, OSError, KeyError, StopIteration) as error:
            if case.canary and stage.was_cut:
                return
            raise Failure(f"the result does not parse: {type(error).__name__}: {error}") from error
        if case.canary:
            raise Failure("the row still passes with the stack cut: it does not show whose stack carried it")
        stage.finish()


def run_all(chosen: list[Case], recorder: results.Recorder) -> None:
    with Environment("shared") as env:
        shared = prepare(env)
        for canary, at_once in ((False, ROWS_AT_ONCE), (True, CANARIES_AT_ONCE)):
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                for row in pool.map(lambda case: run_case(case, shared), [c for c in chosen if c.canary == canary]):
                    recorder.add(row)


def main() -> int:
    parser = argparse.ArgumentParser(prog="programs")
    parser.add_argument("--native", action="store_true", default=os.environ.get("MODE") == "native")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*", default=os.environ.get("ONLY", "").replace(",", " ").split())
    options = parser.parse_args()

    chosen = cases(options.native, bool(os.environ.get("FULL")))
    if options.words:
        chosen = [case for case in chosen if any(word in case.name for word in options.words)]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    recorder = results.Recorder()
    if not options.native and paths.weft_binary() is None:
        recorder.add(results.Row("weft", results.FAILED, 0.0, "no weft binary: run make build, or MODE=native"))
        return recorder.finish()
    run_all(chosen, recorder)
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(run_main(main))
