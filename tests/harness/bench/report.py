"""Rows of a benchmark: target/bench/<name>.json, and the table that a person reads."""

from __future__ import annotations

import dataclasses
import json

from .. import paths


@dataclasses.dataclass
class Row:
    """One measured value.

    `versus` is the same quantity of what it is compared with, `ratio` is value / versus. `needed` is the bound on this
    machine, a number of `unit` (a maximum for times, a minimum else) or words; `met` is None when nothing is needed.
    """

    name: str
    value: float
    unit: str
    versus: float | None = None
    ratio: float | None = None
    needed: float | str | None = None
    met: bool | None = None


def write(name: str, rows: list[Row]) -> None:
    folder = paths.output_dir() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=2) + "\n")


def table(rows: list[Row]) -> str:
    head = ("", "value", "unit", "versus", "ratio", "needed", "met")
    cells = [head] + [
        (row.name, number(row.value), row.unit, number(row.versus), number(row.ratio), number(row.needed),
         {True: "yes", False: "NO", None: ""}[row.met]) for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = []
    for line in cells:
        padded = [cell.ljust(width) if column in (0, 2, 5) else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(line, widths))]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def number(value: float | str | None) -> str:
    """Three significant digits, whole numbers from a hundred on."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
