"""docs/status.md: what each make target shows and the commit it last held at.

The page is its own memory: rows of targets that did not run now are read back from it and kept.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from . import paths, results, targets

if TYPE_CHECKING:
    from .execution import Outcome

PAGE = paths.ROOT / "docs" / "status.md"
NEVER = "–"

_HEAD = """# Status

Written by `make acceptance`, which runs every target of tests/targets.toml in its full form. A row keeps the commit at
which its target last held; a target that failed later says so beside it. A `+` marks a commit with local changes.

| target | shows | held at | seconds | rows | since |
|---|---|---|---|---|---|
"""


@dataclasses.dataclass
class Entry:
    """What is known of one target. `since` is empty while it holds, else says at which commit it failed."""

    held_at: str = NEVER
    seconds: str = NEVER
    rows: str = NEVER
    since: str = ""


def parse(text: str) -> dict[str, Entry]:
    """The entries of an earlier page; lines that are no row of the table are passed over."""
    entries: dict[str, Entry] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`make "):
            entries[cells[0].strip("`").removeprefix("make ")] = Entry(*cells[2:])
    return entries


def render(table: list[targets.Target], entries: dict[str, Entry]) -> str:
    """The page: one row per target of the table, in its order; a target that left the table leaves the page."""
    lines = []
    for target in table:
        entry = entries.get(target.name, Entry())
        cells = (f"`make {target.name}`", target.shows, entry.held_at, entry.seconds, entry.rows, entry.since)
        lines.append("| " + " | ".join(cells) + " |")
    return _HEAD + "\n".join(lines) + "\n"


def update(table: list[targets.Target], outcomes: list[Outcome], commit: str, page: Path = PAGE) -> None:
    """Enters what just ran. Called after each target, so that an interrupted run loses nothing."""
    entries = parse(page.read_text()) if page.exists() else {}
    for outcome in outcomes:
        entry = entries.setdefault(outcome.target.name, Entry())
        if outcome.failed:
            entry.since = f"failed at {commit}"
        else:
            entries[outcome.target.name] = Entry(
                commit, f"{outcome.seconds:.0f}", results.summary(outcome.rows).replace(", 0 failed, 0 skipped", ""),
            )
    page.parent.mkdir(exist_ok=True)
    page.write_text(render(table, entries))
