"""`python3 -m pages` (`make test-pages`): runs the commands of README and of the guides, each page in a folder of its own.

ONLY is words of their names. WRITE=1 puts the pictures that are made into the pages, in place of those that are there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from harness import paths, weft
from harness.processes import Failure
from virtual.shared import run_rows

from . import blocks
from .session import Session

WRITE = bool(os.environ.get("WRITE"))
NOT_ROOT = "only root may; make test-pages as root runs it"
PAGES = ("README.md", "docs/tour.md", "docs/gallery.md", "docs/tutorial-ring.md", "docs/coming-from.md", "docs/install.md", "docs/guides/*.md")
# A reader of a guide begins in an empty folder, of other pages in weft's own, of which they name these.
GUIDES = paths.ROOT / "docs" / "guides"
BESIDE = ("docs/examples", "examples", "crates/plugin/include")


def pages() -> list[Path]:
    return [page for pattern in PAGES for page in sorted(paths.ROOT.glob(pattern))]


def unsaid(page: Path) -> list[str]:
    """Blocks of which nobody knows what becomes of them, and pictures that nobody compares."""
    parts = list(blocks.parse(page.read_text()))
    pictures = {part.line for part in parts if isinstance(part, blocks.Picture)}
    lost = [f"line {line}: a comment names a picture, but none is on the next line" for line in blocks.named_pictures(page.read_text()) if line + 1 not in pictures]
    return lost + [f"line {block.line}: a reader runs this code, but it is no file: say `NAME`: before it, or why it is not run"
            for block in parts if isinstance(block, blocks.Block) and block.language in blocks.PYTHON and not (block.file or block.not_run)]


def row(page: Path) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        if found := unsaid(page):
            raise Failure("\n".join(found))
        return _run(page, folder)

    return body


def _run(page: Path, folder: Path) -> str:
    tools, place = folder / "tools", folder / "weft"
    place.mkdir()
    for name in () if page.parent == GUIDES else BESIDE:
        shutil.copytree(paths.ROOT / name, place / name)
    tools.mkdir()
    (tools / "weft").symlink_to(weft.binary())
    # The package as if it were installed, and its plug-in.
    python = {"PYTHONPATH": str(paths.ROOT / "python" / "src"), "PYTEST_PLUGINS": "weft.pytest_plugin", "MPLBACKEND": "agg"}
    ran, left, pictures = 0, [], 0
    with Session(place, [tools, paths.venv_python().parent], **python) as session:
        for block in blocks.parse(page.read_text()):
            if isinstance(block, blocks.Picture):
                _look(block, page, place)
                pictures += 1
                continue
            why = block.not_run or (NOT_ROOT if block.as_root and os.geteuid() != 0 else "")
            if why and (block.commands or block.language in blocks.PYTHON):
                left.append(f"line {block.line}: {why}")
                continue
            if block.file:
                (place / block.file).parent.mkdir(parents=True, exist_ok=True)
                (place / block.file).write_text(block.text)
            for command in block.commands:
                try:
                    session.run(command)
                except Failure as failure:
                    raise Failure(f"block at line {block.line}: {failure}") from None
                ran += 1
    if not ran and not left:
        raise Failure("it has no command")
    return f"{ran} commands, {pictures} pictures" + "".join(f"\n      not run: {reason}" for reason in left)


def _words(picture: Path) -> set[str]:
    """What is written in it, without numbers: programs of another version send other lengths, and so the lines differ a little."""
    texts = (element for element in ElementTree.parse(picture).iter() if element.tag.endswith("text"))
    return {re.sub(r"[0-9.]+", "", "".join(text.itertext())).strip() for text in texts}


def _look(picture: blocks.Picture, page: Path, place: Path) -> None:
    """The picture of the page is the one that its commands make."""
    made, shown = place / picture.made, page.parent / picture.shown
    if not made.is_file():
        raise Failure(f"line {picture.line}: no command has made {picture.made}")
    if WRITE:
        shown.parent.mkdir(exist_ok=True)
        shutil.copy(made, shown)
    same = shown.is_file() and (_words(made) == _words(shown) if picture.of_programs else made.read_bytes() == shown.read_bytes())
    if not same:
        raise Failure(f"line {picture.line}: {picture.shown} is not what the commands make: look at it, and WRITE=1 make test-pages ONLY={page.stem}")


def main() -> int:
    return run_rows({str(page.relative_to(paths.ROOT)): row(page) for page in pages()}, "/var/tmp", at_once=2)


if __name__ == "__main__":
    sys.exit(main())
