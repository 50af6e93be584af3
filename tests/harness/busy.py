"""Other work for every processor: what a test says must not depend on who else uses the machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from . import paths

# They end when this program does, however it does.
_LOOP = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


@contextlib.contextmanager
def busy_loops(number: int = os.cpu_count() or 1) -> Iterator[None]:
    """Processes that compute without end, each in a session of its own: the scheduler gives each what it gives a whole test."""
    loops = [subprocess.Popen([paths.PYTHON, "-c", _LOOP], start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
