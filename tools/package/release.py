"""A version: its number in Cargo.toml and python/pyproject.toml, its part of CHANGELOG.md, a commit and a tag.

    python3 -m package.release 0.2.0
"""

from __future__ import annotations

import re
import subprocess
import sys

from . import place

NUMBER = re.compile(r"\d+\.\d+\.\d+")


def changes() -> str:
    """What stands under "Unreleased"."""
    text = (place.ROOT / "CHANGELOG.md").read_text()
    return text.split("## Unreleased\n", 1)[1].split("\n## ", 1)[0].strip()


def refused(wanted: str) -> str:
    """Why there can be no such version now; empty: there can."""
    if not NUMBER.fullmatch(wanted):
        return f"'{wanted}' is no version: make release VERSION=0.2.0"
    old = place.version()
    if tuple(map(int, wanted.split("."))) <= tuple(map(int, old.split("."))):
        return f"{wanted} is not newer than {old}, which stands in Cargo.toml"
    if not changes():
        return "CHANGELOG.md says nothing under \"Unreleased\": what would be new?"
    state = subprocess.run(["git", "-C", str(place.ROOT), "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    if state:
        return f"there are changes that are in no commit:\n{state}"
    return ""


def main() -> int:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if why := refused(wanted):
        print(why, file=sys.stderr)
        return 1
    try:
        place.run([place.tool("bump-my-version"), "bump", "--config-file", place.ROOT / ".bumpversion.toml",
                   "--current-version", place.version(), "--new-version", wanted])
    except place.Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    print(f"version {wanted}: see git show v{wanted}; publish it with git push --follow-tags, after make packages and FULL=1 make test-packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
