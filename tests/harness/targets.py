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
    in_ci: bool
    # What the short form may take on two quiet processors: from begin to end, and of the processors together.
    seconds: float = 60.0
    processor_seconds: float = 60.0
    # Steps whose output it uses.
    needs: tuple[str, ...] = ("programs",)
    # It waits for real clocks, so that a busy machine can change what it sees.
    real_time: bool = False
    timeout_s: int = 900
    full_timeout_s: int = 3600
    # Some of its rows want Linux kernels of `weft kernel build`.
    kernels: bool = False


def _rows(path: Path, key: str, kind: type) -> list:
    """The rows of one table of the file; raises TableError on an unknown field or a double name."""
    found: dict[str, object] = {}
    for row in tomllib.loads(path.read_text()).get(key, []):
        name = row.get("name", "?")
        try:
            row["command"] = tuple(shlex.split(row["command"]))
            if "needs" in row:
                row["needs"] = tuple(row["needs"])
            if name in found:
                raise TypeError("stands there twice")
            found[name] = kind(**row)
        except (TypeError, KeyError) as error:
            raise TableError(f"{path}: {key} {name}: {error}") from error
    return list(found.values())


def load(path: Path = paths.TESTS / "targets.toml") -> list[Target]:
    """Every target in the order of the table. Raises TableError on an unknown field, a double name or a need that is no step."""
    targets, steps = _rows(path, "target", Target), {step.name for step in load_steps(path)}
    for target in targets:
        if unknown := set(target.needs) - steps:
            raise TableError(f"{path}: target {target.name} needs {', '.join(sorted(unknown))}, which is no step")
    return targets


@dataclasses.dataclass(frozen=True)
class Step:
    """Something that is built once, before the targets that need it: {profile} in its command is the profile of what
    they run. Seconds as in Target, on a clean checkout."""

    name: str
    command: tuple[str, ...]
    seconds: float
    processor_seconds: float
    # Steps that come before it.
    needs: tuple[str, ...] = ()


def load_steps(path: Path = paths.TESTS / "targets.toml") -> list[Step]:
    """Every step in the order of the table."""
    return _rows(path, "step", Step)


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
