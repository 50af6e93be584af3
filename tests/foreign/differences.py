"""Tests that come to another verdict on weft than natively, by the row of docs/compatibility.md that says why: differences.toml."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from harness import differences as tables

from .suite import PASSED, SKIPPED

TABLE = Path(__file__).with_name("differences.toml")
Verdicts = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Difference:
    """An entry. `tests` is a regular expression of whole names. By chance: it may be that a run shows none of them."""

    id: str
    suite: str
    hosts: tuple[str, ...]
    tests: re.Pattern[str]
    reason: str
    by_chance: bool

    def explains(self, suite: str, host: str, test: str) -> bool:
        return suite == self.suite and host in self.hosts and bool(self.tests.fullmatch(test))


def load() -> list[Difference]:
    return [
        Difference(entry["id"], entry["suite"], tuple(entry["hosts"]), re.compile(entry["tests"]), entry["reason"], entry.get("by_chance", False))
        for entry in tables.entries(TABLE)
    ]


def lost(native: Verdicts, here: Verdicts) -> dict[str, tuple[str, str]]:
    """Tests that pass natively (or are skipped there) and do not here. What fails natively is not compared, and neither is what is skipped only there."""
    found = {}
    for test, verdict in native.items():
        other = here.get(test, "not run")
        if verdict in (PASSED, SKIPPED) and other != verdict and (verdict, other) != (SKIPPED, PASSED):
            found[test] = (verdict, other)
    return found
