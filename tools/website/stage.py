"""What Sphinx reads: the repository's pages, each in its place, so that their links lead where they lead in the repository.

A page says nothing of the site's navigation. navigation.toml does, and what it says is written below the staged copies.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from . import place

NAVIGATION = tomllib.loads((place.HERE / "navigation.toml").read_text())
START = "README"
# Words in brackets, which may hold a picture or code, and where they lead.
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\]\([^)]*\))*)\]\((?![a-z]+:)([^)#\s]+)([^)]*)\)")


def stage() -> None:
    """Fills the folder with every page that the navigation names, and with the files that pages link to."""
    shutil.rmtree(place.SOURCE, ignore_errors=True)
    place.SOURCE.mkdir(parents=True)
    tracked = place.output("git", "-c", "safe.directory=*", "-C", str(place.ROOT), "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    # Of those that are named and not there, the reference makes some, and Sphinx misses the others.
    for name in [START, *_named()]:
        for path in fnmatched(tracked, f"{name}.md"):
            _page(Path(path))


def _page(path: Path) -> None:
    """Stages a page with the files that it links to. A site has no folders: a link to one leads to its README.md, or is words alone."""
    folder = (place.ROOT / path).parent

    def led(link: re.Match[str]) -> str:
        words, target, anchor = link.groups()
        linked = (folder / target).resolve()
        if linked.is_dir():
            return f"[{words}]({target.rstrip('/')}/README.md)" if (linked / "README.md").is_file() else words
        # A page that is linked to is in the navigation, or the link is an error.
        if linked.is_file() and linked.suffix != ".md":
            _copy(linked.relative_to(place.ROOT))
        return f"[{words}]({target}{anchor})"

    _copy(path, _LINK.sub(led, (place.ROOT / path).read_text()))


def _named() -> list[str]:
    return [name for part in (*NAVIGATION["section"], *NAVIGATION["below"]) for name in part["pages"]]


def fnmatched(paths: list[str], pattern: str) -> list[str]:
    """Those that match; a star stands for a name without a slash."""
    exact = re.compile(re.escape(pattern).replace(r"\*", "[^/]*"))
    return [path for path in paths if exact.fullmatch(path)]


def _copy(name: Path, text: str | None = None) -> None:
    target = place.SOURCE / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        shutil.copy(place.ROOT / name, target)
    else:
        target.write_text(text)


def navigate() -> None:
    """Writes the navigation below the staged pages, those made among them."""
    pages = sorted(str(path.relative_to(place.SOURCE).with_suffix("")) for path in place.SOURCE.rglob("*.md"))
    _write(START, "".join(_tree(pages, START, part["pages"], part["caption"]) for part in NAVIGATION["section"]))
    for part in NAVIGATION["below"]:
        if "title" in part:
            (place.SOURCE / f"{part['page']}.md").write_text(f"# {part['title']}\n\n{part['text']}\n")
        _write(part["page"], _tree(pages, part["page"], part["pages"], hidden="title" not in part))


def _tree(pages: list[str], page: str, names: list[str], caption: str = "", hidden: bool = True) -> str:
    options = (f":caption: {caption}\n" if caption else "") + (":hidden:\n" if hidden else ":maxdepth: 1\n")
    found = [each for name in names for each in (fnmatched(pages, name) or [name]) if each != page]
    return f"\n```{{toctree}}\n{options}\n" + "".join(f"/{each}\n" for each in found) + "```\n"


def _write(page: str, tree: str) -> None:
    with (place.SOURCE / f"{page}.md").open("a") as file:
        file.write(tree)
