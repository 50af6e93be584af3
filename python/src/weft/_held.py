"""A folder that goes with its holder: only in the process that made it, and not any more once another process may know it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Held:
    """A temporary folder, which goes when nobody holds this object any more. A copy of it holds the same; one that is pickled keeps the folder for good:
    whoever reads it may be anywhere."""

    def __init__(self, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        """Where it is."""
        self._goes = weakref.finalize(self, _remove, str(self.folder), os.getpid())

    def keep(self) -> None:
        """It stays from now on."""
        self._goes.detach()

    def remove(self) -> None:
        """It goes now."""
        self._goes()

    def __deepcopy__(self, memo: dict[int, Any]) -> Held:
        return self

    def __copy__(self) -> Held:
        return self

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        self.keep()
        return _nobody, ()


def _nobody() -> None:
    """Who holds a folder that is kept."""


def _remove(folder: str, owner: int) -> None:
    # A child that was forked has the object, too.
    if os.getpid() != owner:
        return
    shutil.rmtree(folder, ignore_errors=True)
    # Folders that programs made may let nobody in. What does not go even so stays.
    if os.path.exists(folder):
        for place, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(place, 0o700)
                for name in os.listdir(place):
                    if os.path.isdir(path := os.path.join(place, name)) and not os.path.islink(path):
                        os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
