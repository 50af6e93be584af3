"""The blocks of a page: what a reader types, the files that a reader saves, and why the others are not run.

- Blocks of `sh` are commands, those of `console` (or of no language) commands behind `$ ` with what they print.
- A block behind a line that ends with the name of a file in backquotes and a colon is that file.
- A comment of HTML before a block says that it is not run, and why: `<!-- not run: it installs packages -->`.
- From a comment `<!-- as root -->` to one `<!-- as any user -->` commands are root's.
- A comment before a picture names the file among the results that it is: `<!-- picture: results/pictures/queue.svg -->`.
  Where unmodified programs of another version would draw another one, it says `picture, of programs`.
- In shown output `…` stands for any text of a line, and on a line of its own for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
_HEADING = re.compile(r"^#+ +(.*)$")
_FILE = re.compile(r"`([\w./-]+\.\w+)`:$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_PICTURE = re.compile(r"^<!-- picture(, of programs)?: (.+) -->$")
_IMAGE = re.compile(r"^!\[[^\]]+\]\(([^)]+)\)$")
_AS_ROOT, _AS_ANY_USER = "<!-- as root -->", "<!-- as any user -->"
SHELL, SHOWN, PYTHON = ("sh",), ("console", ""), ("python",)
PROMPT, GOES_ON, ANY = "$ ", "> ", "…"


@dataclass(frozen=True)
class Command:
    """A command with what it prints, as far as the page shows that."""

    text: str
    shown: tuple[str, ...] = ()

    @property
    def stays(self) -> bool:
        """It goes on in the background."""
        return re.search(r"&\s*(#.*)?$", self.text) is not None


@dataclass(frozen=True)
class Picture:
    """`made` is what commands before it have made, `shown` the picture of the page. Not all of it is the same with other programs, if it is theirs."""

    line: int
    made: str
    shown: str
    of_programs: bool = False


@dataclass(frozen=True)
class Block:
    line: int
    heading: str
    language: str
    text: str
    file: str = ""
    not_run: str = ""
    as_root: bool = False
    commands: tuple[Command, ...] = field(default=())


def read(page: Path) -> list[Block]:
    return [part for part in parse(page.read_text()) if isinstance(part, Block)]


def named_pictures(text: str) -> list[int]:
    """The lines of comments that name a picture."""
    return [number for number, line in enumerate(text.split("\n"), 1) if _PICTURE.match(line)]


def parse(text: str) -> Iterator[Block | Picture]:
    """What a page has, in its order."""
    heading, before, as_root, lines = "", "", False, enumerate(text.split("\n"), 1)
    for number, line in lines:
        as_root = (as_root or line == _AS_ROOT) and line != _AS_ANY_USER
        if found := _HEADING.match(line):
            heading = found[1]
        fence = _FENCE.match(line)
        if (image := _IMAGE.match(line)) and (made := _PICTURE.match(before)):
            yield Picture(number, made[2], image[1], of_programs=bool(made[1]))
        if not fence:
            before = line.strip() or before
            continue
        indent, language = len(fence[1]), fence[2]
        inside: list[str] = []
        for _, line in lines:
            if line.strip() == "```":
                break
            inside.append(line[indent:])
        not_run, file = (found[1] if (found := pattern.search(before)) else "" for pattern in (_NOT_RUN, _FILE))
        yield Block(number, heading, language, "\n".join(inside) + "\n", file, not_run, as_root, tuple(_commands(language, inside)) if not file else ())
        before = ""


def _commands(language: str, lines: list[str]) -> list[Command]:
    if language in SHELL:
        return [Command(text) for text in _joined(lines) if text.strip() and not text.startswith("#")]
    if language not in SHOWN:
        return []
    found: list[Command] = []
    for line in _joined(lines):
        if line.startswith(PROMPT):
            found.append(Command(line.removeprefix(PROMPT)))
        elif found and line.startswith(GOES_ON) and not found[-1].shown:
            found[-1] = Command(f"{found[-1].text}\n{line.removeprefix(GOES_ON)}")
        elif found and line.strip():
            found[-1] = Command(found[-1].text, (*found[-1].shown, line))
    return found


def _joined(lines: list[str]) -> Iterator[str]:
    """Lines, with those that end with a backslash and those behind them as one."""
    whole = ""
    for line in lines:
        whole += line
        if line.endswith("\\"):
            whole += "\n"
        else:
            yield whole
            whole = ""


def agrees(shown: tuple[str, ...], said: str) -> bool:
    """Whether a command has printed what is shown. How wide columns are, and empty lines, do not matter."""
    pattern = "".join(r"(?:.*\n)*" if line.strip() == ANY else _one_line(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{' '.join(line.split())}\n" for line in said.splitlines() if line.strip())) is not None


def _one_line(line: str) -> str:
    """The pattern of a line; spaces around … belong to it."""
    return ".*".join(re.escape(" ".join(part.split())) for part in line.split(ANY))
