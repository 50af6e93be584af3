"""`python3 -m packages` (`make test-packages`): the short form makes a wheel of the weft that is built and installs it into a fresh environment; FULL=1 installs
everything that lies in dist/ into fresh roots of Debian 12 and 13."""

from __future__ import annotations

import os
import sys

from virtual.shared import run_rows

from . import built, fresh, rows


def main() -> int:
    if not os.environ.get("FULL"):
        return run_rows(fresh.ROWS, directory="/var/tmp")
    bodies = {**fresh.ROWS, **built.ROWS, **rows.all_rows()}
    return run_rows(bodies, directory="/var/tmp")


if __name__ == "__main__":
    sys.exit(main())
