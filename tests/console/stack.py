"""A stack whose interface leads nowhere: it needs no privilege and no device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness import paths
from harness.processes import Failure

STACK = '[[interface]]\nname = "weft0"\nbackend = "memory:nowhere"\n'
# For a command that answers at once. Nothing is measured by it.
SECONDS_MAX = 60


class Stack:
    """Up while it is entered, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder), "TERM": "xterm", "HOME": str(folder)}
        self.environment.pop("WEFT_CONTROL", None)
        (folder / "stack.toml").write_text(STACK)

    def __enter__(self) -> "Stack":
        self.daemon = subprocess.Popen(self.command("up", "--stack", "stack.toml", *self.options), cwd=self.folder, env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self.daemon.stdout
        line = self.daemon.stdout.readline()
        if not line.startswith("ready control="):
            self.daemon.kill()
            raise Failure(f"the stack does not come up: {line!r}")
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.kill()
        self.daemon.wait()
        assert self.daemon.stdout
        self.daemon.stdout.close()

    def command(self, *words: str) -> list[str]:
        return [str(paths.weft_binary()), *words]

    def said(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*words), cwd=self.folder, env=self.environment, input=text, capture_output=True, text=True,
                              timeout=SECONDS_MAX)
