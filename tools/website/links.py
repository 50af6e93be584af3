"""Every link of the built site leads to a file of it and to a place in that file, and nothing that a page needs comes from elsewhere."""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

_LINK = re.compile(r'<(\w+)\b[^>]*?\b(?:href|src)="([^"]*)"')
_PLACE = re.compile(r'\b(?:id|name)="([^"]+)"')
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z+.-]*:|//)")
# Elements that only lead somewhere when a reader follows them.
FOLLOWED = ("a",)


def broken(site: Path) -> list[str]:
    """Findings, each with its page."""
    findings = []
    for page in sorted(site.rglob("*.html")):
        for element, link in sorted({(element, unescape(link)) for element, link in _LINK.findall(page.read_text())}):
            if finding := _finding(site, page, element, link):
                findings.append(f"{page.relative_to(site)}: {finding}")
    return findings


def _finding(site: Path, page: Path, element: str, link: str) -> str:
    if link.startswith("data:"):
        return ""
    if _ELSEWHERE.match(link):
        return "" if element in FOLLOWED else f"<{element}> wants {link}, which a reader without a network does not have"
    name, _, anchor = link.partition("#")
    # What stands behind a question mark is for browsers: a file of another content has another one.
    target = (page.parent / unquote(name.partition("?")[0])).resolve() if name else page
    if not target.is_relative_to(site.resolve()) or not target.is_file():
        return f"{link} leads nowhere"
    if anchor and target.suffix == ".html" and unquote(anchor) not in _places(target):
        return f"{link}: there is no such place in the page"
    return ""


@lru_cache(maxsize=None)
def _places(page: Path) -> frozenset[str]:
    return frozenset(unescape(place) for place in _PLACE.findall(page.read_text()))
