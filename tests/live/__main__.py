"""`make test-live`: see the package."""

from __future__ import annotations

import sys
import tempfile

from virtual.shared import run_rows

from . import virtual_worlds

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="weft-live-", dir="/var/tmp") as directory:
        sys.exit(run_rows(virtual_worlds.ROWS, directory))
