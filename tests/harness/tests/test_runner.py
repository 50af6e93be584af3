"""The runner of `make test`: an unknown skip, a run that is too slow, a hung or failing target each fail; status.md remembers."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from harness import crates, execution, results, runner, status, targets, under_load


def target(name: str = "t", command: str = "true", timeout_s: int = 20, **more) -> targets.Target:
    return targets.Target(name, "shows", ("bash", "-c", command), True, timeout_s=timeout_s, **more)


def run(command: str, timeout_s: int = 20) -> execution.Outcome:
    return execution.run_target(target("selftest", command, timeout_s), full=False, verbose=False)


def report_of(*outcomes: execution.Outcome) -> runner.Report:
    report = runner.Report()
    report.outcomes += outcomes
    return report


def conclude(report: runner.Report, seconds: float) -> tuple[int, str]:
    """The exit status, and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status_code = runner.conclude(report, seconds, judged=True)
    return status_code, said.getvalue()


def reporting(outcome: str) -> str:
    row = f'{{"name": "r", "outcome": "{outcome}", "seconds": 0, "reason": "because"}}'
    return f"echo '{row}' >> $WEFT_RESULTS"


class Targets(unittest.TestCase):
    def test_the_tables_of_the_repository_load(self) -> None:
        names = [row.name for row in targets.load()]
        self.assertIn("demo", names)
        self.assertTrue(all(skip.reason for skip in targets.load_skips()))

    def test_wrong_tables_are_refused(self) -> None:
        good = '[[target]]\nname = "a"\nshows = "x"\ncommand = "true"\nin_ci = true\n'
        for text in (good.replace("shows", "show"), good + good, good + 'needs = ["nothing like this"]\n'):
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

    def test_skips_for_one_reason_share_a_line(self) -> None:
        rows = [results.Row(f"r{number}", results.SKIPPED, 0.0, "because") for number in range(9)] + [results.Row("x", results.SKIPPED, 0.0, "of that")]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            runner.show_skips([execution.Outcome(target("t"), 1.0, rows)])
        lines = said.getvalue().split("\n")[2:-1]
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], "r0, .* and 5 more: because")

    def test_failures_are_told_once_more_at_the_end(self) -> None:
        rows = [results.Row("good", results.PASSED, 0.0), results.Row("bad", results.FAILED, 0.0, "because\nof this")]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            runner.show_failures(report_of(execution.Outcome(target("t"), 1.0, rows)))
        self.assertIn("t/bad: because", said.getvalue())
        self.assertIn("of this", said.getvalue())
        self.assertNotIn("good", said.getvalue())

    def test_what_it_costs_is_counted(self) -> None:
        outcome = run("for i in {1..100000}; do :; done")
        self.assertGreater(outcome.processor_seconds, 0.01)

    def test_what_is_over_its_budget_is_named(self) -> None:
        outcomes = [execution.Outcome(target(name, processor_seconds=100), 1.0, [], taken) for name, taken in (("small", 120), ("large", 130))]
        (line,) = runner.over_budget(report_of(*outcomes))
        self.assertIn("large took 130 s", line)

    def test_too_long_is_a_failure_where_the_processors_say_so_too(self) -> None:
        passed = [results.Row("r", results.PASSED)]
        for seconds, processors, fails in ((2000, 2000, False), (3000, 2000, False), (2300, 3000, True), (3000, 3000, True), (1000, 3000, False)):
            status_code, said = conclude(report_of(execution.Outcome(target(processor_seconds=9999), 1.0, passed, processors)), seconds)
            self.assertEqual((status_code, "failure:" in said), (int(fails), fails), said)
        status_code, said = conclude(report_of(execution.Outcome(target(processor_seconds=9999, kernels=True), 1.0, passed, 3000)), 3000)
        self.assertEqual(status_code, 0, said)

    def test_what_could_not_be_built_is_a_failure(self) -> None:
        step = targets.Step("selftest-step", ("bash", "-c", "echo no compiler; exit 1"), 1.0, 1.0)
        report = runner.Report()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertFalse(runner.step_task(step, report, False, False).body())
        self.assertIn("no compiler", said.getvalue())
        status_code, said_at_the_end = conclude(report, 1.0)
        self.assertEqual(status_code, 1)
        self.assertIn("build/selftest-step", said_at_the_end)

    def test_only_what_the_targets_need_is_built(self) -> None:
        steps = [targets.Step("a", (), 1, 1), targets.Step("b", (), 1, 1, ("a",)), targets.Step("c", (), 1, 1)]
        found = runner.steps_of([target(needs=("b",))], steps)
        self.assertEqual([step.name for step in found], ["a", "b"])

    def test_a_pass_under_load_goes_on_where_it_stopped(self) -> None:
        usual, waits = target("usual"), target("waits", real_time=True)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "passes.json"
            passes = under_load.Passes(page)
            self.assertEqual((passes.missing(usual), passes.missing(waits)), (1, 3))
            passes.add(usual, "c1")
            passes.add(waits, "c1")
            passes = under_load.Passes(page)
            self.assertEqual((passes.missing(usual), passes.missing(waits)), (0, 2))
            self.assertEqual(passes.commits["usual"], ["c1"])
            self.assertEqual(under_load.Passes(page, again=True).missing(usual), 1)

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

    def test_two_crates_have_binaries_of_one_name(self) -> None:
        """What fails in the first is no success because the second has a test of the same name."""
        output = """
     Running tests/conduct.rs (target/debug/deps/conduct-0123456789abcdef)
test it_is_as_recorded ... FAILED
     Running tests/conduct.rs (target/debug/deps/conduct-fedcba9876543210)
test it_is_as_recorded ... ok
"""
        self.assertEqual([row.outcome for row in crates.parse(output.splitlines())], ["failed", "passed"])

    def test_sources_with_tests_of_rustdoc_are_found(self) -> None:
        text, tested = "/// ```text\n/// x\n/// ```\n", "//! ```\n//! f();\n//! ```\n"
        ignored = "/// ```ignore\n/// f();\n/// ```\n"
        self.assertEqual([crates.doc_tests(one) for one in (text, ignored, tested, text + tested, tested + "fn f() {}\n" + tested)], [0, 0, 1, 1, 2])
        self.assertEqual(crates.doc_tests("/// ```rust,no_run\n/// f();\n/// ```\n"), 1)


class Status(unittest.TestCase):
    def test_it_remembers_what_did_not_run(self) -> None:
        table = [target("a"), target("b")]
        passed, failed = results.Row("r", results.PASSED), results.Row("r", results.FAILED)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "status.md"
            status.update(table, [execution.Outcome(t, 3.0, [passed]) for t in table], "c1", page)
            status.update(table, [execution.Outcome(table[0], 4.0, [failed])], "c2", page)
            entries = status.parse(page.read_text())
            self.assertEqual((entries["a"].held_at, entries["a"].since), ("c1", "failed at c2"))
            self.assertEqual((entries["b"].held_at, entries["b"].since), ("c1", ""))
            status.update(table, [execution.Outcome(table[0], 4.0, [passed])], "c3", page)
            entry = status.parse(page.read_text())["a"]
            self.assertEqual((entry.held_at, entry.since), ("c3", ""))


if __name__ == "__main__":
    unittest.main()
