"""The runner of `make test`: an unknown skip, a slow group, a hung or failing target each fail; status.md remembers."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from harness import crates, results, runner, status, targets


def target(name: str = "t", command: str = "true", timeout_s: int = 20, group: str = "g") -> targets.Target:
    return targets.Target(name, "shows", ("bash", "-c", command), group, True, timeout_s)


def run(command: str, timeout_s: int = 20) -> runner.Outcome:
    return runner.run_target(target("selftest", command, timeout_s), full=False, verbose=False)


def reporting(outcome: str) -> str:
    row = f'{{"name": "r", "outcome": "{outcome}", "seconds": 0, "reason": "because"}}'
    return f"echo '{row}' >> $WEFT_RESULTS"


class Targets(unittest.TestCase):
    def test_the_tables_of_the_repository_load(self) -> None:
        names = [row.name for row in targets.load()]
        self.assertIn("demo", names)
        self.assertTrue(all(skip.reason for skip in targets.load_skips()))

    def test_wrong_tables_are_refused(self) -> None:
        good = '[[target]]\nname = "a"\nshows = "x"\ncommand = "true"\ngroup = "g"\nin_ci = true\n'
        for text in (good.replace("shows", "show"), good + good):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text)
                file.flush()
                with self.assertRaises(targets.TableError):
                    targets.load(Path(file.name))

    def test_only_must_name_targets(self) -> None:
        table = [target("a"), target("b")]
        self.assertEqual([t.name for t in runner.select(table, "b", False)], ["b"])
        with self.assertRaises(targets.TableError):
            runner.select(table, "c", False)


class Runner(unittest.TestCase):
    def test_rows_come_from_the_target(self) -> None:
        outcome = run(reporting("passed"))
        self.assertEqual([(row.name, row.outcome) for row in outcome.rows], [("r", "passed")])

    def test_exit_status_is_a_row(self) -> None:
        self.assertFalse(run("true").failed)
        self.assertTrue(run("exit 3").failed)
        self.assertTrue(run(reporting("passed") + "; exit 1").failed)

    def test_the_watchdog_ends_the_whole_group(self) -> None:
        outcome = run("sleep 600 & sleep 600", timeout_s=1)
        self.assertEqual(outcome.rows[-1].name, "watchdog")
        self.assertTrue(outcome.failed)

    def test_an_unnamed_skip_is_a_failure(self) -> None:
        outcome = run(reporting("skipped"))
        known = targets.KnownSkip("selftest/r", "known")
        self.assertEqual(runner.unknown_skips([outcome], [known]), [])
        self.assertEqual(runner.unknown_skips([outcome], []), ["selftest/r"])

    def test_failures_are_told_once_more_at_the_end(self) -> None:
        rows = [results.Row("good", results.PASSED, 0.0), results.Row("bad", results.FAILED, 0.0, "because\nof this")]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            runner.show_failures([runner.Outcome(target("t"), 1.0, rows)])
        self.assertIn("t/bad: because", said.getvalue())
        self.assertIn("of this", said.getvalue())
        self.assertNotIn("good", said.getvalue())

    def test_a_slow_group_is_found(self) -> None:
        outcomes = [runner.Outcome(target(str(n)), 250.0, []) for n in range(2)]
        self.assertEqual(runner.slow_groups(outcomes), [("g", 500.0)])
        self.assertEqual(runner.slow_groups(outcomes[:1]), [])

    def test_no_row_is_no_success(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(results.Recorder().finish(), 1)


class CargoOutput(unittest.TestCase):
    def test_rows(self) -> None:
        output = """     Running unittests src/lib.rs (target/debug/deps/weft_wire-0123456789abcdef)
test tcp::options ... ok
test tcp::slow ... ignored, takes a minute
     Running tests/golden.rs (target/debug/deps/golden-0123456789abcdef)
test bytes ... FAILED

failures:

---- bytes stdout ----
thread 'bytes' panicked at tests/golden.rs:3:5:
one is not two

failures:
    bytes

   Doc-tests weft_wire
test crates/wire/src/lib.rs - x (line 3) ... ignored
"""
        rows = [(row.name, row.outcome, row.reason) for row in crates.parse(output.splitlines())]
        self.assertEqual(rows, [("weft_wire::tcp::options", "passed", ""), ("weft_wire::tcp::slow", "skipped", "takes a minute"),
                                ("golden::bytes", "failed", "thread 'bytes' panicked at tests/golden.rs:3:5:\none is not two\n")])


class Status(unittest.TestCase):
    def test_it_remembers_what_did_not_run(self) -> None:
        table = [target("a"), target("b")]
        passed, failed = results.Row("r", results.PASSED), results.Row("r", results.FAILED)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "status.md"
            status.update(table, [runner.Outcome(t, 3.0, [passed]) for t in table], "c1", page)
            status.update(table, [runner.Outcome(table[0], 4.0, [failed])], "c2", page)
            entries = status.parse(page.read_text())
            self.assertEqual((entries["a"].held_at, entries["a"].since), ("c1", "failed at c2"))
            self.assertEqual((entries["b"].held_at, entries["b"].since), ("c1", ""))
            status.update(table, [runner.Outcome(table[0], 4.0, [passed])], "c3", page)
            entry = status.parse(page.read_text())["a"]
            self.assertEqual((entry.held_at, entry.since), ("c3", ""))


if __name__ == "__main__":
    unittest.main()
