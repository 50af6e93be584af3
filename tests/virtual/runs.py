"""Runs of one binary that every user may start, in a folder that every user can read."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import user
from harness.processes import Failure

from .shared import SECONDS_MAX


class Runs:
    """Runs scenarios, with a binary and in a folder that every user can read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    def run(self, text: str, *words: str, as_user: bool = False, shortcuts: bool = True, debug: bool = False,
            before: Sequence[str] = ()) -> tuple[str, Path]:
        """The hash and the results. `before`: what starts weft."""
        self.number += 1
        # The summary names the file.
        file, out = self.folder / "scenario.toml", self.folder / f"{self.number}"
        file.write_text(text)
        out.mkdir()
        out.chmod(0o777)
        command = [str(self.folder / ("weft-debug" if debug else "weft")), "sim", str(file), "--json", "--out", str(out), *words]
        if as_user:
            command = [*user.words(), *command]
        done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/",
                              env={**os.environ, "WEFT_SIM_AHEAD": str(int(shortcuts)), "WEFT_SIM_GATES": str(int(shortcuts)),
                                   "WEFT_SIM_EARLY": str(int(shortcuts))})
        if done.returncode != 0:
            errors = "".join(f"{path.parent.name}: {path.read_text()[-600:]}" for path in out.glob("programs/*/stderr"))
            raise Failure(f"exit status {done.returncode}\n{done.stderr[-1500:]}\n{errors}")
        summary = json.loads(done.stdout)
        if summary["not_reproducible"]:
            raise Failure(f"{summary['not_reproducible']}")
        return summary["hash"], out
