"""Where the scenario of a world stands that no file has: in the user's cache, in a folder that its content gives a name.

Not in the world's own folder: programs that list that would find it there. `weft sim --beside` says in which folder scripts and files are. The same world
has the same file each time, in every process: so the command that repeats a run stays true, and `--resume` knows the world again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from .errors import ScenarioError

# Scenarios that are kept: so many, the latest ones, and so long after their last use.
KEPT_MAX, KEPT_SECONDS_MAX = 1000, 30 * 86_400
_NAME = re.compile("[0-9a-f]{16}")


def kept(text: str) -> Path:
    """The file with this text."""
    folder = _cache() / hashlib.sha256(text.encode()).hexdigest()[:16]
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        # Another process may have taken the folder away as one of the oldest.
        with contextlib.suppress(FileNotFoundError):
            descriptor, begun = tempfile.mkstemp(dir=folder)
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            # All of it at once, for whoever else reads it.
            os.replace(begun, folder / "scenario.toml")
            os.utime(folder)
            return folder / "scenario.toml"


@lru_cache(maxsize=None)
def _cache() -> Path:
    """The folder of all of them, without those that are too many; of a user without a cache it is one of the folder for temporary files."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    own = Path(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "weft", "worlds")
    shared = Path(tempfile.gettempdir(), f"weft-worlds-{os.getuid()}")
    for folder in (own, shared):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.is_absolute() and folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK):
                _tidy(folder)
                return folder
    return Path(tempfile.mkdtemp(prefix="weft-worlds-"))


def _tidy(cache: Path) -> None:
    """Takes away what is too old, or too much."""
    entries = sorted(((entry.stat().st_mtime, entry.path) for entry in os.scandir(cache) if _NAME.fullmatch(entry.name)), reverse=True)
    for number, (used, path) in enumerate(entries):
        if number >= KEPT_MAX or used < time.time() - KEPT_SECONDS_MAX:
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def told_by_path(path: Path, text: str) -> Iterator[None]:
    """Errors of the block about this file, which is gone when somebody reads them, name the keys of its lines instead: wires.ab.rate."""
    try:
        yield
    except ScenarioError as error:
        named = re.compile(rf"(?:{re.escape(str(path))}|(?<![\w/.-]){re.escape(path.name)}):(\d+)(?::\d+)?")
        told = named.sub(lambda found: key_of(text, int(found.group(1))), str(error))
        raise type(error)(told.replace(str(path), "the scenario")) from None


def key_of(text: str, line: int) -> str:
    """The path of what stands in a line of a scenario, as our writer of TOML writes it."""
    table, key = "", ""
    tables: dict[str, int] = {}
    for row in text.split("\n")[:line]:
        if found := re.fullmatch(r"\[\[(.+)\]\]", row):
            name = found.group(1)
            tables[name] = tables.get(name, 0) + 1
            table, key = f"{name}.{tables[name]}", ""
        elif found := re.fullmatch(r"\[(.+)\]", row):
            table, key = found.group(1), ""
            for name, number in tables.items():
                if table.startswith(f"{name}."):
                    table = f"{name}.{number}{table[len(name):]}"
        elif found := re.match(r'("(?:\\.|[^"\\])*"|[\w-]+) = ', row):
            key = found.group(1)
    return ".".join(part for part in (table, key) if part) or "the scenario"
