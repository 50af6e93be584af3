"""Pages that a person reads in an editor: lines of 120 characters at most, but for tables, code and what has no space.

Old pages have longer lines; ratchet.toml holds how many each. A page that has changed since the rule came may have none
any more, so that pages become readable one by one, where somebody works on them anyway. Pages that `make docs` writes
are not anybody's to wrap: docs/blocks.

`PYTHONPATH=tests python3 -m harness.lint.pages FILE…` wraps pages: it joins and breaks lines and changes no word.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from .. import paths
from . import Skip, hygiene, ratchet

WIDTH = 120
# The last commit before the rule.
SINCE = "62baae046e9449668b43527564cfc621753d3a4f"
SECTION = "long lines of pages"
ADVICE = "`PYTHONPATH=tests python3 -m harness.lint.pages FILE` breaks them"
GENERATED = ("docs/blocks/",)

_FENCE = re.compile(r"^\s*(```|~~~)")
_APART = re.compile(r"^\s*($|[|#<>]|---|\[[^\]]+\]:)")
_MARKER = re.compile(r"^(\s*)((?:[-*+]|\d+[.)])\s+)?")


def prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, and whether it is part of a paragraph or of a list: no code, table, heading or HTML."""
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fence = bool(_FENCE.match(line))
        yield number, line, not (fenced or fence or _APART.match(line))
        fenced ^= fence


def long_lines(text: str) -> list[int]:
    """The numbers of lines that are too long and could be broken."""
    return [number for number, line, is_prose in prose(text)
            if is_prose and len(line) > WIDTH and " " in _code_in_one(line[_MARKER.match(line).end():])]


def wrap(text: str) -> str:
    """`text` with every paragraph and item broken anew in which a line is too long."""
    out: list[str] = []
    paragraph: list[str] = []

    def finish() -> None:
        if any(len(line) > WIDTH for line in paragraph):
            out.extend(_broken(paragraph))
        else:
            out.extend(paragraph)
        paragraph.clear()

    for _, line, is_prose in prose(text):
        if not is_prose or _MARKER.match(line).group(2):
            finish()
        if is_prose:
            paragraph.append(line)
        else:
            out.append(line)
    finish()
    return "\n".join(out)


def _broken(paragraph: list[str]) -> list[str]:
    indent, marker = _MARKER.match(paragraph[0]).groups(default="")
    joined = " ".join(line.strip() for line in paragraph)[len(marker):]
    lines = textwrap.wrap(
        _code_in_one(joined), WIDTH, initial_indent=indent + marker, subsequent_indent=indent + " " * len(marker),
        break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _code_in_one(text: str) -> str:
    """`text` without spaces in code: that stays on one line, as it is copied from there."""
    return re.sub(r"`[^`]*`", lambda code: code.group().replace(" ", "\0"), text)


def count(files: list[Path], root: Path = paths.ROOT) -> dict[str, int]:
    """The long lines of each page that has any."""
    pages = {str(path.relative_to(root)): path for path in files if path.suffix == ".md"}
    numbers = {name: len(long_lines(hygiene.read_text(path) or ""))
               for name, path in pages.items() if not name.startswith(GENERATED)}
    return {name: number for name, number in numbers.items() if number}


def changed(since: str = SINCE, root: Path = paths.ROOT) -> list[str]:
    """The pages that have changed since that commit, those of the working tree among them."""
    command = [*paths.GIT, "diff", "--name-only", "-z", since, "--", "*.md"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60)
    if run.returncode != 0:
        raise Skip(f"{since} is not in this clone, so nobody knows which pages have changed; fetch the whole history")
    return [name for name in run.stdout.split("\0") if name]


def check_changed(today: dict[str, int], names: list[str]) -> list[str]:
    """Findings in pages that a change touches."""
    return [f"{name} has changed and has {today[name]} lines of more than {WIDTH} characters: {ADVICE}"
            for name in names if name in today]


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        Path(argument).write_text(wrap(Path(argument).read_text()))
