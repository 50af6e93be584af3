"""docs/rfc: tests that the tables name are there.

In any page `FILE::NAME` is a test of a crate, or a function or module; with … it is the beginning of a name, and without a name all of a file. A page
may begin with letters for files, as "*c* = `crates/mptcp/tests/compliance.rs`, *b* = `boxes.rs`, all beside it". There each row of the table that says
"met" names a test, or the row or the file where it is shown (`SHOWN`), and each name behind a letter is a test of that file, or else of its crate.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import paths
from .compatibility import rust_tests

FOLDER = "docs/rfc"
# Words of a row that is shown by others.
SHOWN = ("the rows of", ", all of it")
# Rows that are met, of which no test shows just this. None may be added, and none may stay that names one.
WITHOUT = frozenset({
    "8684.md: the right edge never moves back",
    "8684.md: whoever opened the connection opens the others (SHOULD)",
})

_LETTER = re.compile(r"\*(\w)\*\s=\s`([^`]+)`")
_CELL = re.compile(r"(?<!\\)\|")
_NAMES = re.compile(r"\*(\w)\*|`([a-z_0-9]+)(…?)`|(;)")
_MODULE = re.compile(r"`((?:[a-z0-9_]+::)+)([a-z0-9_]*)(…?)`")
_FUNCTION = re.compile(r"\bfn (\w+)")


def check(root: Path = paths.ROOT, without: frozenset[str] = WITHOUT) -> list[str]:
    tests = rust_tests(root)
    files = sorted((root / "crates").rglob("*.rs"))
    functions = [({*file.relative_to(root).with_suffix("").parts}, set(_FUNCTION.findall(file.read_text()))) for file in files]
    findings, unproven = [], set()
    for page in sorted((root / FOLDER).glob("*.md")):
        text = page.read_text()
        letters = dict(_LETTER.findall(text.partition("\n|")[0]))
        for number, line in enumerate(text.splitlines(), 1):
            cells = [cell.strip() for cell in _CELL.split(line.strip())[1:-1]]
            if len(cells) < 3:
                continue
            place = f"{FOLDER}/{page.name}:{number}"
            findings += [f"{place}: {finding}" for finding in _modules(cells[-1], tests, functions)]
            if letters:
                found, wrong = _names(cells[-1], letters, tests)
                findings += [f"{place}: {finding}" for finding in wrong]
                if cells[2].startswith("met") and not found and not any(words in cells[-1] for words in SHOWN):
                    unproven.add(f"{page.name}: {cells[1]}")
    findings += [f"{FOLDER}/{row}: it says that it is met, and names no test" for row in sorted(unproven - without)]
    return findings + [f"{FOLDER}/{row}: it names a test, or is gone: take it out of WITHOUT" for row in sorted(without - unproven)]


def _names(cell: str, letters: dict[str, str], tests: list[tuple[frozenset[str], str]]) -> tuple[int, list[str]]:
    """How many tests a cell names by letters, and what is wrong with them."""
    crates = {file.split("/")[1] for file in letters.values() if file.startswith("crates/")}
    found, wrong, file = 0, [], ""
    for letter, name, begins, ends in _NAMES.findall(cell):
        if letter or ends:
            file = Path(letters.get(letter, "")).stem
            if letter and not file:
                wrong.append(f"*{letter}* stands for no file")
            continue
        there = [parts for parts, test in tests if (test.startswith(name) if begins else test == name) and (file in parts or not file and crates & parts)]
        found += bool(there)
        if not there:
            wrong.append(f"`{name}` is no test of {file or ' or '.join(sorted(crates))} that `cargo test` runs")
    return found, wrong


def _modules(cell: str, tests: list[tuple[frozenset[str], str]], functions: list[tuple[set[str], set[str]]]) -> list[str]:
    wrong = []
    for modules, name, begins in _MODULE.findall(cell):
        where = set(modules.split("::")) - {""}
        named = [(parts, {test}) for parts, test in tests] + functions
        in_it = any(where <= parts and any(one.startswith(name) if begins or not name else one == name for one in names) for parts, names in named)
        if not in_it and not any(where | {name} <= parts for parts, _ in named):
            wrong.append(f"`{modules}{name}{begins}` is neither a test nor a function nor a module")
    return wrong
