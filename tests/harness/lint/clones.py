"""The same lines in two crates: what is done twice gets one home.

A clone is a run of twelve lines or more that stands in two crates, in the same order and with nothing else between.
Lines are compared without comments, and with one space for any white space. Some lines say nothing by themselves: they
neither count nor interrupt a run. They are empty lines, attributes, imports, and lines without a letter or digit, such
as closing braces. What only looks alike, with other names, is not found, nor what stands twice in one crate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from .. import paths
from . import rust

LINES = 12

_ATTRIBUTE = re.compile(r"^#!?\[.*\]$")
_SAYS_SOMETHING = re.compile(r"\w")

# A line's number and its text.
Line = tuple[int, str]
# A file and the index of a line that counts.
Place = tuple[Path, int]


def lines(path: Path) -> list[Line]:
    """The lines of a file that count."""
    text = rust.IMPORT.sub(lambda found: "\n" * found.group().count("\n"), rust.code(path))
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        plain = " ".join(line.split())
        if _SAYS_SOMETHING.search(plain) and not _ATTRIBUTE.match(plain):
            found.append((number, plain))
    return found


def crate(path: Path, root: Path) -> str:
    """The name of the folder below crates/ that a file is in."""
    return path.relative_to(root).parts[1]


def check(files: list[Path], root: Path = paths.ROOT) -> list[str]:
    """A finding for each run of lines that two crates have in common."""
    sources = [path for path in files if path.suffix == ".rs" and path.relative_to(root).parts[0] == "crates"]
    texts = {path: lines(path) for path in sources}
    starts: dict[int, list[Place]] = defaultdict(list)
    for path, text in texts.items():
        plain = [line for _, line in text]
        for at in range(len(plain) - LINES + 1):
            starts[hash(tuple(plain[at:at + LINES]))].append((path, at))
    findings = []
    for places in starts.values():
        for number, first in enumerate(places):
            for second in places[number + 1:]:
                if crate(first[0], root) != crate(second[0], root):
                    findings += _finding(texts, first, second)
    return sorted(findings)


def _finding(texts: dict[Path, list[Line]], first: Place, second: Place) -> list[str]:
    """What the two places have in common, unless it began a line before them or is less than a run."""
    (a, x), (b, y) = first, second

    def same(offset: int) -> bool:
        i, j = x + offset, y + offset
        return 0 <= i < len(texts[a]) and 0 <= j < len(texts[b]) and texts[a][i][1] == texts[b][j][1]

    if same(-1):
        return []
    length = 0
    while same(length):
        length += 1
    if length < LINES:
        return []
    return [f"{a}:{texts[a][x][0]}: {length} lines that {b}:{texts[b][y][0]} has as well: give them one home"]
