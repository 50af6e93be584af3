"""Pages written for people who read them once, from the beginning: README, guides and the like, docs/architecture and docs/decisions.

Such a page has lines of 120 characters at most, a heading for every 200 words, and sentences of 25 words on average. One
of docs/architecture also has a picture that is drawn from a file beside it. A page of docs/decisions has a number in its name, its five
parts in their order, 40 lines at most, and a row in the table of the folder.

Words are those of prose: paragraphs and lists. Code blocks, tables, headings, pictures and the targets of links do not
count.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import paths
from . import hygiene, pages

PAGES, DECISIONS = "docs/architecture", "docs/decisions"
# Pages for readers, beside those of docs/architecture; a star is any name.
FOR_READERS = (
    "README.md", "docs/guides/*.md", "docs/tour.md", "docs/gallery.md", "docs/tutorial-ring.md", "docs/install.md", "docs/coming-from.md", "docs/testing.md",
    "docs/how-a-frame-travels.md", "docs/mptcp.md", "docs/plugins.md", "python/README.md", "examples/*/README.md", "CONTRIBUTING.md", "SECURITY.md",
)
WORDS_PER_HEADING = 200
WORDS_PER_SENTENCE = 25
DECISION_LINES_MAX = 40
DECISION_PARTS = ["Context", "Decision", "Reasons", "Rejected", "In the code"]
WITHOUT_PICTURE = {
    "glossary.md": "a table of words and places in the code, which other pages draw",
}

_PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+\.svg)\)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
_HEADING = re.compile(r"^#+ ")
_WORD = re.compile(r"\w")
_CODE = re.compile(r"`[^`]*`")
# An end of a sentence stands before white space, perhaps behind a bracket or an emphasis that it closes.
_END = re.compile(r"[.!?][)*_\"']*(?:\s+|$)")
_DECISION = re.compile(r"^\d{3}-[a-z0-9-]+\.md$")


def check(files: list[Path], root: Path = paths.ROOT) -> list[str]:
    """Findings in all of these pages."""
    findings: list[str] = []
    for path in files:
        if path.suffix == ".md" and path.parent == root / PAGES:
            findings += [f"{path}: {finding}" for finding in check_page(path)]
        if _is_for_readers(path.relative_to(root)):
            findings += [f"{path}: {finding}" for finding in check_prose(hygiene.read_text(path) or "")]
        if path.suffix == ".md" and path.parent == root / DECISIONS:
            findings += [f"{path}: {finding}" for finding in check_decision(path)]
    return findings


def _is_for_readers(path: Path) -> bool:
    # A pattern by itself matches from the right.
    return any(path.match(pattern) and len(path.parts) == len(Path(pattern).parts) for pattern in FOR_READERS)


def check_page(path: Path) -> list[str]:
    """Findings in one page of docs/architecture."""
    text = hygiene.read_text(path) or ""
    findings = check_prose(text)
    if path.name not in WITHOUT_PICTURE:
        findings += _check_pictures(path, text)
    return findings


def check_prose(text: str) -> list[str]:
    """Findings in a page's lines, headings and sentences."""
    findings = [f"line {number} has more than {pages.WIDTH} characters: {pages.ADVICE}" for number in pages.long_lines(text)]
    for title, words in words_below_headings(text):
        if words > WORDS_PER_HEADING:
            findings.append(f"{words} words below {title!r}, more than {WORDS_PER_HEADING}: divide them by a heading")
    average = words_per_sentence(text)
    if average > WORDS_PER_SENTENCE:
        findings.append(f"{average:.1f} words a sentence, more than {WORDS_PER_SENTENCE}: one thought a sentence")
    return findings


def _check_pictures(path: Path, text: str) -> list[str]:
    pictures = _PICTURE.findall(text)
    if not pictures:
        return ["no picture: draw one, NAME.dot with NAME.svg beside it (`make docs`)"]
    return [f"{picture} has no {Path(picture).with_suffix('.dot')} from which it is drawn"
            for picture in pictures if not (path.parent / picture).with_suffix(".dot").is_file()]


def check_decision(path: Path) -> list[str]:
    """Findings in one page of docs/decisions."""
    if path.name == "README.md":
        return []
    text = hygiene.read_text(path) or ""
    findings = []
    if not _DECISION.match(path.name):
        findings.append("the name is not NNN-name.md")
    parts = re.findall(r"^## (.*)$", text, re.MULTILINE)
    if parts != DECISION_PARTS:
        findings.append(f"its parts are {', '.join(parts) or 'none'}, not {', '.join(DECISION_PARTS)}")
    if (lines := len(text.splitlines())) > DECISION_LINES_MAX:
        findings.append(f"{lines} lines, more than {DECISION_LINES_MAX}")
    table = path.parent / "README.md"
    if not table.is_file() or f"({path.name})" not in (hygiene.read_text(table) or ""):
        findings.append("no row in README.md of its folder")
    return findings


def words_below_headings(text: str) -> list[tuple[str, int]]:
    """Each heading with the words between it and the next."""
    counts: list[tuple[str, int]] = [("the page's beginning", 0)]
    fenced = False
    for line, is_prose in _prose(text):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if not fenced and _HEADING.match(line):
            counts.append((line.lstrip("# "), 0))
        elif is_prose:
            title, words = counts[-1]
            counts[-1] = (title, words + len(_words(line)))
    return counts


def words_per_sentence(text: str) -> float:
    """The average, of paragraphs and items: each ends a sentence, with a full stop or without."""
    lengths = [len(words) for paragraph in _paragraphs(text)
               for sentence in _END.split(paragraph) if (words := _words(sentence))]
    return sum(lengths) / len(lengths) if lengths else 0.0


def _prose(text: str) -> list[tuple[str, bool]]:
    """Each line, and whether its words count."""
    return [(line, is_prose and not _PICTURE.match(line)) for _, line, is_prose in pages.prose(text)]


def _paragraphs(text: str) -> list[str]:
    found: list[str] = []
    goes_on = False
    for line, is_prose in _prose(text):
        if not is_prose:
            goes_on = False
        elif goes_on and not _ITEM.match(line):
            found[-1] += " " + line.strip()
        else:
            found.append(_ITEM.sub("", line).strip())
            goes_on = True
    # A full stop within code (`x.y`, `SOCK…`) ends nothing.
    return [_CODE.sub(lambda code: code.group().replace(". ", " "), paragraph) for paragraph in found]


def _words(line: str) -> list[str]:
    return [word for word in _LINK.sub(r"\1", _ITEM.sub("", line)).split() if _WORD.search(word)]
