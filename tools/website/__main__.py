"""`python3 -m website` (`make site`): makes the site in target/site. A warning of Sphinx or a link that leads nowhere is an error."""

from __future__ import annotations

import shutil
import subprocess
import sys

from . import links, place, reference, stage


def make() -> None:
    stage.stage()
    reference.write()
    stage.navigate()
    if not place.SPHINX.exists():
        raise place.Wrong("Sphinx is not installed: run tools/setup site")
    shutil.rmtree(place.SITE, ignore_errors=True)
    # What Sphinx keeps between two runs would hide what is wrong in pages that have not changed.
    words = [place.SPHINX, "--quiet", "--fresh-env", "--fail-on-warning", "-d", place.SOURCE / ".doctrees", "-c", place.HERE, place.SOURCE, place.SITE]
    if subprocess.run(words).returncode:
        raise place.Wrong("Sphinx has said why")
    shutil.copy(place.SITE / f"{stage.START}.html", place.SITE / "index.html")
    if found := links.broken(place.SITE):
        raise place.Wrong("\n".join(found))


def main() -> int:
    try:
        make()
    except place.Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    pages = sum(1 for _ in place.SITE.rglob("*.html"))
    print(f"{pages} pages: {place.SITE.relative_to(place.ROOT) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
