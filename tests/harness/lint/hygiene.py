"""Rules for every tracked text file: size, no path of one machine, nothing left to do later, links that lead somewhere;
and for the crates: no errno in the text of an error."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .. import paths

LINES_WARNED = 800
LINES_MAX = 1000
SOURCE_SUFFIXES = {".rs", ".py", ".c", ".h", ".go", ".sh"}

# Written in parts, so that this file does not find itself.
_LATER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
_MACHINE = re.compile(r"(?<![\w.{}$)/-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/[a-z])[\w-]*/")
_ERRNO = re.compile(r'"E[A-Z0-9]+: ')
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_TITLE = re.compile(r"^#+ +(.*)$", re.MULTILINE)
# What GitHub leaves out of a heading's name.
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


def tracked_files(root: Path = paths.ROOT) -> list[Path]:
    run = subprocess.run([*paths.GIT, "ls-files", "-z"], cwd=root, capture_output=True, timeout=60, check=True)
    return [root / name for name in run.stdout.decode().split("\0") if name and (root / name).is_file()]


def read_text(path: Path) -> str | None:
    """The file's text, None when it is binary."""
    data = path.read_bytes()
    return None if b"\0" in data else data.decode(errors="replace")


def check_sizes(files: list[Path]) -> tuple[list[str], list[str]]:
    """(failures, warnings) about source files that have outgrown a reader."""
    failures, warnings = [], []
    for path in files:
        if path.suffix not in SOURCE_SUFFIXES:
            continue
        lines = len((read_text(path) or "").splitlines())
        if lines > LINES_MAX:
            failures.append(f"{path}: {lines} lines, more than {LINES_MAX}: make it a folder of named parts")
        elif lines > LINES_WARNED:
            warnings.append(f"{path}: {lines} lines, more than {LINES_WARNED}")
    return failures, warnings


def check_text(files: list[Path]) -> list[str]:
    """Paths of one machine and notes to do something later."""
    findings = []
    for path in files:
        for number, line in enumerate((read_text(path) or "").splitlines(), 1):
            if _LATER.search(line):
                findings.append(f"{path}:{number}: left for later: {line.strip()[:80]}")
            if _MACHINE.search(line):
                findings.append(f"{path}:{number}: a path of one machine: {line.strip()[:80]}")
    return findings


def check_errnos(files: list[Path], root: Path = paths.ROOT) -> list[str]:
    """Literals in the crates that begin with an errno's name, as if somebody read it out of the text: it is a kind."""
    return [
        f"{path}:{number}: an errno in a text: say its kind, as weft_core::Refused does: {line.strip()[:80]}"
        for path in files if path.is_relative_to(root / "crates")
        for number, line in enumerate((read_text(path) or "").splitlines(), 1) if _ERRNO.search(line)
    ]


def check_links(files: list[Path]) -> list[str]:
    """Relative links of Markdown pages that lead nowhere, or to a heading that is not there."""
    findings = []
    for path in files:
        if path.suffix != ".md":
            continue
        for target, anchor in _LINK.findall(read_text(path) or ""):
            page = path.parent / target if target else path
            if not page.exists():
                findings.append(f"{path}: link to {target} leads nowhere")
            elif anchor and page.suffix == ".md" and anchor not in _anchors(read_text(page) or ""):
                findings.append(f"{path}: link to {target}#{anchor}: there is no such heading")
    return findings


def _anchors(text: str) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    return {_NOT_IN_ANCHOR.sub("", title.strip().lower()).replace(" ", "-") for title in _TITLE.findall(text)}


_HEADING = re.compile(r"^## ", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
# NAME, FAMILY, …: any file of that folder.
_PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b(?=\.|$)")


def check_to_add(files: list[Path], root: Path = paths.ROOT) -> list[str]:
    """Tables below a heading "To add": each path that they name is there, and each name stands in one of its row's files."""
    findings = []
    for path in files:
        if path.suffix != ".md":
            continue
        for section in _HEADING.split(read_text(path) or ""):
            if section.startswith("To add\n"):
                for row in section.splitlines():
                    if row.startswith("|"):
                        findings += [f"{path}: to add: {finding}" for finding in _missing(row, root)]
    return findings


def _missing(row: str, root: Path) -> list[str]:
    words = _CODE.findall(row)
    places = {word: list(root.glob(_PLACEHOLDER.sub("*", word).rstrip("/"))) for word in words if "/" in word and " " not in word}
    findings = [f"there is no {place}" for place, found in places.items() if not found]
    text = "".join(read_text(file) or "" for found in places.values() for file in found if file.is_file())
    names = [word for word in words if word.isidentifier() and places and not _PLACEHOLDER.fullmatch(word)]
    return findings + [f"no {name} in {', '.join(places)}" for name in names if not re.search(rf"\b{name}\b", text)]
