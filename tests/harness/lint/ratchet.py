"""Numbers that may only fall: what was there before its rule, held in ratchet.toml until somebody mends it.

A section of the file is a rule, a row of it a crate or a file with its number. More than that is a finding. So is less,
until the row says it: what has been gained cannot be lost again. `LOWER=1 make lint` writes the lower numbers; it never
writes a higher one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

FILE = Path(__file__).parent / "ratchet.toml"

_SECTION = re.compile(r'^\["?([^"\]]+)"?\]$')
_ROW = re.compile(r'^"?([^"=]+?)"?\s*=\s*(\d+)$')


def held(section: str, file: Path = FILE) -> dict[str, int]:
    """The rows of one section."""
    return tomllib.loads(file.read_text()).get(section, {})


def check(section: str, today: dict[str, int], advice: str, file: Path = FILE) -> list[str]:
    """Findings where `today`, in which a missing row is 0, is not what the file holds."""
    rows = held(section, file)
    findings = []
    for name in sorted(rows.keys() | today.keys()):
        now, was = today.get(name, 0), rows.get(name, 0)
        if now > was:
            findings.append(f"{section}: {name} has {now}, and {was} at most are allowed: {advice}")
        elif now < was:
            findings.append(f"{section}: {name} has {now}, and {file.name} still allows {was}: run `LOWER=1 make lint`")
    return findings


def lower(section: str, today: dict[str, int], file: Path = FILE) -> None:
    """Writes the numbers that have fallen, and leaves out the rows that have come to 0."""
    out, here = [], ""
    for line in file.read_text().splitlines():
        if found := _SECTION.match(line):
            here = found.group(1)
        found = _ROW.match(line)
        if found and here == section:
            number = min(int(found.group(2)), today.get(found.group(1), 0))
            if number == 0:
                continue
            line = f"{line[:found.start(2)]}{number}"
        out.append(line)
    file.write_text("\n".join(out) + "\n")
