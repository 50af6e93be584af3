"""Tables of what differs from Linux: each entry names the row of docs/compatibility.md that says so."""

from __future__ import annotations

import tomllib
from pathlib import Path

from . import paths
from .lint import compatibility
from .processes import Failure


def entries(table: Path) -> list[dict]:
    """The entries of a table, [[difference]] each. A Failure where the page has not the row of one."""
    found = tomllib.loads(table.read_text())["difference"]
    told = {row.id for row in compatibility.rows((paths.ROOT / compatibility.DOCUMENT).read_text())[0]}
    if unknown := sorted({entry["id"] for entry in found} - told):
        raise Failure(f"{compatibility.DOCUMENT} has no rows {', '.join(unknown)}, which {table.name} names")
    return found
