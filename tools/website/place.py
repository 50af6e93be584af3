"""Where things of the site are, and what can go wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SITE = ROOT / "target" / "site"
# What Sphinx reads: pages as they lie in the repository, and those that are made for the site.
SOURCE = ROOT / "target" / "site-source"
SPHINX = ROOT / "target" / "venv" / "bin" / "sphinx-build"


class Wrong(Exception):
    """The site cannot be made, or is not sound; the text says why."""


def output(*words: str) -> str:
    """What a command prints."""
    if shutil.which(words[0]) is None:
        raise Wrong(f"{words[0]} is not installed: run tools/setup site")
    run = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if run.returncode:
        raise Wrong(f"{' '.join(words)}: {run.stderr.strip()}")
    return run.stdout


def weft(*words: str) -> str:
    """What the command says that was built in the profile of WEFT_PROFILE, or that WEFT_BIN names."""
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    command = Path(os.environ.get("WEFT_BIN") or target / (os.environ.get("WEFT_PROFILE") or "release") / "weft")
    if not command.exists():
        raise Wrong(f"{command} is not there: run make build")
    return output(str(command), *words)
