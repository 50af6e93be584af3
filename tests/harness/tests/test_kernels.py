"""The kernels that CI builds beside its tests: what came of one is said, and none outlives the run."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import kernels, runner, targets


class Kernels(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name, "log")

    def build(self, script: str, idle: bool = False) -> kernels.Build:
        return kernels.Build(["bash", "-c", script], self.log, idle)

    def test_what_came_of_it_is_said(self) -> None:
        self.assertTrue(self.build("true").wait(20).startswith("there after"))
        said = self.build("echo no room >&2; exit 3").wait(20)
        self.assertIn("exit status 3", said)
        self.assertIn("no room", said)

    def test_what_is_not_there_in_time_is_ended_with_all_that_it_started(self) -> None:
        build = self.build("trap 'echo away; exit 1' TERM; sleep 600 & wait")
        self.assertIn("not there yet", build.wait(0.5))
        self.assertIsNotNone(build.process.poll())

    def test_it_has_what_others_leave_over(self) -> None:
        build = self.build("chrt --pid $$", idle=True)
        build.wait(20)
        self.assertIn("SCHED_IDLE", self.log.read_text())

    def test_it_is_not_idle_any_more_when_it_is_waited_for(self) -> None:
        build = self.build("while chrt --pid $$ | grep -q SCHED_IDLE; do sleep 0.05; done; chrt --pid $$", idle=True)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            kernels.await_all({"6.12": build})
        self.assertIn("there after", said.getvalue())
        self.assertIn("SCHED_OTHER", self.log.read_text())

    def test_who_wants_kernels_runs_last(self) -> None:
        def target(name: str, wants: bool) -> targets.Target:
            return targets.Target(name, "shows", ("true",), True, kernels=wants)

        table = [target("a", False), target("b", True), target("c", False)]
        self.assertEqual([one.name for one in runner.select(table, "", False)], ["a", "c", "b"])

    def test_their_builds_begin_when_weft_is_there(self) -> None:
        begun: list[str] = []
        step = targets.Step("programs", ("bash", "-c", "sleep 0.2"), 1.0, 1.0)
        wants = targets.Target("selftest-kernels", "shows", ("true",), True, kernels=True)
        report = runner.Report()

        def begin(builds: dict[str, kernels.Build]) -> None:
            begun.extend(step.name for step, _, _ in report.steps)
            builds["6.12"] = self.build("true")

        with mock.patch.object(targets, "load_steps", lambda: [step]), mock.patch.object(kernels, "begin", begin), \
                contextlib.redirect_stdout(io.StringIO()) as said, kernels.meanwhile() as builds:
            runner.run_short([wants], report, False, builds)
        self.assertEqual(begun, ["programs"])
        self.assertIn("Linux 6.12: there after", said.getvalue())
        self.assertEqual([outcome.target.name for outcome in report.outcomes], ["selftest-kernels"])

    def test_none_is_left_when_the_targets_end(self) -> None:
        with mock.patch.object(kernels, "command", lambda _: ["sleep", "600"]), mock.patch.object(kernels, "log_of", lambda _: self.log):
            with kernels.meanwhile() as builds:
                kernels.begin(builds)
                (build,) = builds.values()
                self.assertIsNone(build.process.poll())
            self.assertIsNotNone(build.process.poll())


if __name__ == "__main__":
    unittest.main()
