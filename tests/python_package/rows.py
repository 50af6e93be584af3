"""The rows of `make test-python`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure
from virtual.shared import run_rows

from . import looked_at, many, objects, ran, tested

ROWS = {**objects.ROWS, **ran.ROWS, **many.ROWS, **tested.ROWS, **looked_at.ROWS}


def told(body: Callable[[Path], str]) -> Callable[[Path], str]:
    """An error of the package that no row expects is a failure, with the lines that led to it."""
    def row(folder: Path) -> str:
        try:
            return body(folder)
        except Failure:
            raise
        except Exception:
            raise Failure(traceback.format_exc()[-3000:]) from None

    return row


def main() -> int:
    return run_rows({name: told(body) for name, body in ROWS.items()}, "/var/tmp", at_once=2)
