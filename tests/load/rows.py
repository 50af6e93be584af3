"""Bodies that run as rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Callable

from harness import results
from harness.namespaces import in_user_namespace
from harness.processes import Failure


class Rows:
    """Runs bodies as rows; one that fails does not keep the others from running. `only`: of those whose names have one of these words in them, where
    there are any."""

    def __init__(self, only: Sequence[str] = ()) -> None:
        self.recorder, self._only = results.Recorder(), only

    def run(self, name: str, body: Callable[[], str], needs_root: str = "") -> None:
        """`needs_root` says why a normal user skips the row."""
        if self._only and not any(word in name for word in self._only):
            return
        started = time.monotonic()
        if needs_root and in_user_namespace():
            self.recorder.add(results.Row(name, results.SKIPPED, 0.0, needs_root))
            return
        try:
            outcome, reason = results.PASSED, body()
        except Failure as failure:
            outcome, reason = results.FAILED, str(failure)
        except Exception as error:  # a fault of the harness or an answer that does not parse: a failure of this row only
            outcome, reason = results.FAILED, f"{type(error).__name__}: {error}"
        self.recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))
