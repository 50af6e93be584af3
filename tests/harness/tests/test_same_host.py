"""A failure while the machine's files change is asked again; every other failure stands."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from harness import same_host
from harness.processes import Failure


class SameHost(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.calls = 0

    def ask(self, failures: int, changes: bool) -> str:
        def body() -> str:
            self.calls += 1
            if changes:
                (self.folder / f"installed-{self.calls}").touch()
            if self.calls <= failures:
                raise Failure("two hashes")
            return "one hash"

        with contextlib.redirect_stdout(io.StringIO()):
            return same_host.ask(body, (str(self.folder), "/nowhere"))

    def test_a_failure_on_a_quiet_machine_stands(self) -> None:
        with self.assertRaises(Failure):
            self.ask(failures=1, changes=False)
        self.assertEqual(self.calls, 1)

    def test_a_failure_beside_an_installation_is_asked_again(self) -> None:
        self.assertEqual(self.ask(failures=2, changes=True), "one hash")
        self.assertEqual(self.calls, 3)

    def test_not_for_ever(self) -> None:
        with self.assertRaises(Failure):
            self.ask(failures=99, changes=True)
        self.assertEqual(self.calls, same_host.ATTEMPTS_MAX)

    def test_success_is_not_asked_again(self) -> None:
        self.ask(failures=0, changes=True)
        self.assertEqual(self.calls, 1)


if __name__ == "__main__":
    unittest.main()
