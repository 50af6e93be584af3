"""`make install` and `make uninstall`: the programs of a build below PREFIX (/usr/local), for packagers below DESTDIR, by the scripts of the tarball.

    python3 -m package.install BUILD     BUILD: the folder where cargo has put weft and libweft
    python3 -m package.install --remove
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from . import binary, place, stage


def _prefix() -> str:
    prefix = os.environ.get("PREFIX") or "/usr/local"
    if not prefix.startswith("/"):
        raise place.Wrong(f"PREFIX={prefix} is no absolute path")
    return prefix


def install(build: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="weft-install-") as name:
        # Not where packages have theirs: those are what lies in dist/.
        tree, built = Path(name, "tree"), binary.apart(build, Path(name, "programs"))
        stage.with_installer(built, tree)
        return subprocess.run(["sh", tree / "install.sh", _prefix()]).returncode


def remove() -> int:
    prefix = _prefix()
    script = Path(os.environ.get("DESTDIR", "") + prefix) / "share/weft/uninstall.sh"
    if not script.exists():
        raise place.Wrong(f"nothing was installed below {prefix}: {script} is missing")
    return subprocess.run(["sh", script]).returncode


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["--remove"]:
                return remove()
            case [build]:
                return install(Path(build))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (place.Wrong, OSError) as wrong:
        print(wrong, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
