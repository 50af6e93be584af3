"""The runner of the program table: a row that does not use the stack, or uses the kernel's, is found out.

Runs against the double of weft, so it needs no weft; `python3 -m programs` with WEFT_BIN set to the double runs them all.
"""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from unittest import mock

from harness import paths, results
from harness.environment import Environment
from harness.processes import Failure
from programs import __main__ as programs
from programs import rows
from programs.shared import prepare
from programs.stage import Stage, want

DOUBLE = str(Path(__file__).with_name("double.py"))


def sleeps(stage: Stage) -> None:
    """A row that checks nothing of the network."""
    stage.run_client("true", ["true"])


def wants_too_much(stage: Stage) -> None:
    want(False, "the answer is wrong")


def goes_around(stage: Stage) -> None:
    """A row whose client runs on the kernel of the programs' namespace."""
    script = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))"
    stage.env.run("around", [paths.PYTHON, "-c", script], stage._p)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.env = Environment("shared")
        cls.addClassCleanup(cls.env.close)
        cls.shared = prepare(cls.env)
        variables = mock.patch.dict(os.environ, {"WEFT_BIN": DOUBLE})
        variables.start()
        cls.addClassCleanup(variables.stop)

    def run_row(self, row: str, canary: bool = False, role: str = "client", native: bool = False) -> results.Row:
        planted = {"sleeps": sleeps, "wants-too-much": wants_too_much, "goes-around": goes_around}
        with mock.patch.dict(rows.ROWS, {name: rows.Row(body) for name, body in planted.items()}):
            return programs.run_case(programs.Case(row, role, native, canary), self.shared)

    def assertPassed(self, row: results.Row) -> None:
        self.assertEqual(row.outcome, results.PASSED, row.reason)

    def assertFailedWith(self, row: results.Row, text: str) -> None:
        self.assertEqual(row.outcome, results.FAILED)
        self.assertIn(text, row.reason)

    def test_a_good_row_passes_and_so_does_its_canary(self) -> None:
        for role in ("client", "both"):
            for canary in (False, True):
                self.assertPassed(self.run_row("nc", canary, role))

    def test_a_row_that_does_not_need_the_stack_fails_as_canary(self) -> None:
        self.assertPassed(self.run_row("sleeps"))
        self.assertFailedWith(self.run_row("sleeps", canary=True), "still passes with the stack cut")

    def test_a_canary_that_fails_before_the_cut_is_no_success(self) -> None:
        self.assertFailedWith(self.run_row("wants-too-much", canary=True), "the answer is wrong")

    def test_a_program_that_goes_around_weft_is_found(self) -> None:
        self.assertFailedWith(self.run_row("goes-around"), "kernel of the program's namespace took part")

    def test_without_weft_there_is_no_result(self) -> None:
        with mock.patch.dict(os.environ, {"WEFT_BIN": "/nonexistent/weft"}):
            self.assertFailedWith(self.run_row("nc"), "no weft at")

    def test_every_row_has_every_role_and_a_canary(self) -> None:
        short, full = programs.cases(False, False), programs.cases(False, True)
        under_weft = {(case.row, case.role, case.canary) for case in short if not case.native}
        self.assertEqual(under_weft, {(name, role, canary) for name, row in rows.ROWS.items() for role in row.roles
                                      for canary in (False, True) if not programs.missing(row)})
        self.assertTrue(all(f"{name}-6" in rows.ROWS for name, row in rows.ROWS.items() if not name.endswith("-6")
                            and name != "two-stacks"))
        self.assertLessEqual(set(short), set(full))

    def test_a_failure_carries_the_last_words_of_the_row(self) -> None:
        def dies(stage: Stage) -> None:
            stage.start_server("dies", ["sh", "-c", "echo not today >&2; exit 7"], 8000)

        with mock.patch.dict(rows.ROWS, {"dies": rows.Row(dies)}):
            row = programs.run_case(programs.Case("dies", "client", False, False), self.shared)
        self.assertFailedWith(row, "not today")
        with self.assertRaises(Failure):
            want(False, "x")


if __name__ == "__main__":
    unittest.main()
