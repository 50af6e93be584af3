"""Where the scenario of a world stands while it runs: in its folder, since programs and files are found beside it.

The file's name comes from its content, `.weft-DIGEST.toml`: programs that list their folder see the same each time, and so does `--resume`.
Whoever runs it holds a shared lock on it. The last one takes it away. That of a run that failed stays, for the command that repeats it, and goes when
another process runs a world of this folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Union

from .errors import ScenarioError

_BEGUN = time.time()
_NAME = re.compile(r"\.weft-[0-9a-f]{16}\.toml")


def name_of(text: Union[str, bytes]) -> str:
    """The name of the file with this text."""
    return f".weft-{hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]}.toml"


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


@contextlib.contextmanager
def in_folder(folder: Path, text: str) -> Iterator[Path]:
    """The file, which is there until the end of the block: of the last such block of all processes."""
    path = folder / name_of(text)
    try:
        descriptor = _open(path, text)
    except OSError as error:
        raise ScenarioError(f"{folder}: the scenario cannot be written there: {error.strerror}") from None
    try:
        yield path
    finally:
        _let_go(descriptor, path)


def leave(folder: Path, text: str) -> Path:
    """The file, which stays: until a world with this text has run again, or another process tidies up."""
    path = folder / name_of(text)
    _make(path, text)
    with contextlib.suppress(OSError):
        os.utime(path)
    return path


def tidy(folder: Path) -> None:
    """Takes away what earlier processes have left, and nobody runs now. Where that is not allowed, it stays."""
    for path in folder.glob(".weft-*.toml"):
        with contextlib.suppress(OSError, ValueError):
            if _NAME.fullmatch(path.name) and path.stat().st_mtime < _BEGUN and name_of(path.read_bytes()) == path.name:
                _let_go(os.open(path, os.O_RDONLY), path)


def _open(path: Path, text: str) -> int:
    """A descriptor of the file with a shared lock, and the whole text in it."""
    while True:
        if not path.exists():
            _make(path, text)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Somebody may have taken it away before it was locked.
        if _is_there(descriptor, path):
            return descriptor
        os.close(descriptor)


def _make(path: Path, text: str) -> None:
    """All of the file at once, for whoever else reads it."""
    descriptor, begun = tempfile.mkstemp(dir=path.parent, prefix=".weft-", suffix=".part")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(begun, 0o644)
        with contextlib.suppress(FileExistsError):
            os.link(begun, path)
    finally:
        os.unlink(begun)


def _is_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _let_go(descriptor: int, path: Path) -> None:
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, path):
                path.unlink()
    finally:
        os.close(descriptor)
