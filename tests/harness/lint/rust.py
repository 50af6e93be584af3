"""What the lint of clones needs to know of Rust, and no more: text without comments.

Regular expressions serve, as rustfmt has laid the text out: an item begins at the start of its line, and the brace that
ends it stands in the same column. A grammar (tree-sitter) would be another thing to install, and takes longer.
"""

from __future__ import annotations

import re
from pathlib import Path

# Comments, and whatever a comment cannot begin in: strings and characters.
_COMMENT = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(?P<hash>#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]+?|[^\'\\\n])\'', re.DOTALL)
# A `use`, whether or not it hands the names on, and its tree.
IMPORT = re.compile(r"^[ \t]*(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)


def code(path: Path) -> str:
    """The text of a file without comments; its lines keep their numbers."""
    def without(found: re.Match[str]) -> str:
        text = found.group()
        return "\n" * text.count("\n") if text.startswith("/") else text

    return _COMMENT.sub(without, path.read_text(errors="replace"))
