"""What the lints of clones and of circles need to know of Rust, and no more: text without comments, and the files that
`mod` makes one program of.

Regular expressions serve, as rustfmt has laid the text out: an item begins at the start of its line, and the brace that
ends it stands in the same column. A grammar (tree-sitter) would be another thing to install, and takes longer.
"""

from __future__ import annotations

import re
from pathlib import Path

# Comments, and whatever a comment cannot begin in: strings and characters.
_COMMENT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(?P<hash>#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]+?|[^\'\\\n])\'', re.DOTALL)
# `mod tests { … }` behind #[cfg(test)], and any other module that has its text in the same file.
_TEST_MODULE = re.compile(r"^([ \t]*)#\[cfg\(test\)\]\n(?:\1#\[[^\n]*\n)*\1(?:pub )?mod \w+ \{\n.*?^\1\}", re.M | re.S)
_INLINE_MODULE = re.compile(r"^([ \t]*)(?:pub(?:\([^)]*\))? )?mod \w+ \{\n.*?^\1\}", re.M | re.S)
_MODULE = re.compile(r'^((?:[ \t]*#\[[^\n]*\n)*)[ \t]*(?:pub(?:\([^)]*\))? )?mod (\w+);', re.M)
# A `use`, whether or not it hands the names on, and its tree.
IMPORT = re.compile(r"^[ \t]*(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
_PATH_ATTRIBUTE = re.compile(r'#\[path = "([^"]+)"\]')


def code(path: Path) -> str:
    """The text of a file without comments; its lines keep their numbers."""
    def without(found: re.Match[str]) -> str:
        text = found.group()
        return "\n" * text.count("\n") if text.startswith("/") else text

    return _COMMENT.sub(without, path.read_text(errors="replace"))


def code_of_a_module(path: Path) -> str:
    """`code` without the tests that stand in the file; what other modules in it say of `super` is the file itself."""
    text = _TEST_MODULE.sub("", code(path))
    return _INLINE_MODULE.sub(lambda found: found.group().replace("super::", "self::"), text)


def modules(root: Path) -> dict[tuple[str, ...], tuple[Path, str]]:
    """The modules of the program that begins in the file `root`, with their texts, by their paths from there.

    () is `root` itself. Those that exist in tests only, and those that have no file of their own, are left out.
    """
    found: dict[tuple[str, ...], tuple[Path, str]] = {}
    pending: list[tuple[tuple[str, ...], Path]] = [((), root)]
    while pending:
        name, path = pending.pop()
        text = code_of_a_module(path)
        found[name] = path, text
        owns_folder = path == root or path.name == "mod.rs"
        folder = path.parent if owns_folder else path.with_suffix("")
        for attributes, child in _MODULE.findall(text):
            if "cfg(test)" in attributes:
                continue
            chosen = _PATH_ATTRIBUTE.search(attributes)
            places = [path.parent / chosen.group(1)] if chosen else [folder / f"{child}.rs", folder / child / "mod.rs"]
            pending += [((*name, child), place) for place in places if place.is_file()][:1]
    return found
