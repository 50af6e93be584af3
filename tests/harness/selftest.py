"""`make test-harness`: the harness's own tests, as rows."""

from __future__ import annotations

import sys
import time
import unittest

from . import paths, results
from .environment import run_main


class RowResult(unittest.TestResult):
    """Turns each unittest into a row."""

    def __init__(self, recorder: results.Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._started = time.monotonic()

    def _add(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        name = test.id().removeprefix("harness.tests.")
        self._recorder.add(results.Row(name, outcome, time.monotonic() - self._started, reason))

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, results.PASSED)

    def addFailure(self, test: unittest.TestCase, err) -> None:
        self._add(test, results.FAILED, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._add(test, results.SKIPPED, reason)


def main() -> int:
    recorder = results.Recorder()
    suite = unittest.defaultTestLoader.discover(
        str(paths.TESTS / "harness" / "tests"), top_level_dir=str(paths.TESTS),
    )
    suite.run(RowResult(recorder))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(run_main(main))
