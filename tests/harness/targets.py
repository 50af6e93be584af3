"""The table of make targets (tests/targets.toml) and of known skips (tests/skips.toml)."""

from __future__ import annotations

import dataclasses
import fnmatch
import shlex
import tomllib
from pathlib import Path

from . import paths


class TableError(Exception):
    """A table of the tests is wrong; the text names the file and the row."""


@dataclasses.dataclass(frozen=True)
class Target:
    """One make target: what it shows and how to run it. `timeout_s` is a watchdog, not a bound under test."""

    name: str
    shows: str
    command: tuple[str, ...]
    group: str
    in_ci: bool
    timeout_s: int = 600
    full_timeout_s: int = 3600
    # Some of its rows want Linux kernels of `weft kernel build`.
    kernels: bool = False


def load(path: Path = paths.TESTS / "targets.toml") -> list[Target]:
    """Every target in the order of the table; raises TableError on an unknown field or a double name."""
    targets: list[Target] = []
    for row in tomllib.loads(path.read_text()).get("target", []):
        try:
            row["command"] = tuple(shlex.split(row["command"]))
            target = Target(**row)
        except (TypeError, KeyError) as error:
            raise TableError(f"{path}: target {row.get('name', '?')}: {error}") from error
        if any(target.name == other.name for other in targets):
            raise TableError(f"{path}: target {target.name} stands there twice")
        targets.append(target)
    return targets


@dataclasses.dataclass(frozen=True)
class KnownSkip:
    """A skip that is accepted: `name` is `target/row`, a shell pattern is allowed."""

    name: str
    reason: str

    def covers(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.name)


def load_skips(path: Path = paths.TESTS / "skips.toml") -> list[KnownSkip]:
    """The accepted skips; each must give its reason."""
    skips = [KnownSkip(**row) for row in tomllib.loads(path.read_text()).get("skip", [])]
    for skip in skips:
        if not skip.reason.strip():
            raise TableError(f"{path}: skip {skip.name} gives no reason")
    return skips
