"""Scripts that say something else on weft: each with its row of docs/compatibility.md, and each must differ."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .place import LINUX, NOTIFY, STRICT

FILE = Path(__file__).parent / "differences.toml"
PAGE = "docs/compatibility.md"


@functools.cache
def table() -> dict[tuple[str, str, str], str]:
    """Script, family and host: the row."""
    found = {}
    for entry in tomllib.loads(FILE.read_text())["difference"]:
        for script in entry["scripts"]:
            for host in entry.get("hosts", [STRICT, NOTIFY]):
                for family in entry.get("families", ["IPv4", "IPv6"]):
                    if (script, family, host) in found:
                        raise Failure(f"{FILE.name} has {script} twice, on {host}")
                    found[script, family, host] = entry["row"]
    return found


def check(names: list[str]) -> None:
    """The scripts are there, and so are the rows."""
    if gone := sorted({script for script, _, _ in table()} - set(names)):
        raise Failure(f"{FILE.name} names scripts that are not there: {gone}")
    page = (paths.ROOT / PAGE).read_text()
    if missing := sorted({row for row in table().values() if f"| `{row}` |" not in page}):
        raise Failure(f"{PAGE} has no row {missing}")


def judged(script: str, family: str, host: str, wrong: str) -> str:
    """What is wrong when a play came to `wrong` (nothing: as the script says)."""
    row = table().get((script, family, host)) if host != LINUX else None
    if row is None:
        return wrong
    return "" if wrong else f"it does what Linux does: take it out of {FILE.name} (row {row})"
