"""`make install` and `make uninstall`: the programs of a build below PREFIX (/usr/local), for packagers below DESTDIR.

    python3 -m package.install BUILD     BUILD: the folder where cargo has put weft and libweft
    python3 -m package.install --remove
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import binary, place, stage

# What was installed, below PREFIX: a line a file.
LIST = "share/weft/installed"


def _target() -> tuple[Path, str]:
    """Where files go, and the PREFIX that they will have."""
    prefix = os.environ.get("PREFIX") or "/usr/local"
    if not prefix.startswith("/"):
        raise place.Wrong(f"PREFIX={prefix} is no absolute path")
    return Path(os.environ.get("DESTDIR", "") + prefix), prefix


def install(build: Path) -> None:
    target, prefix = _target()
    with tempfile.TemporaryDirectory(prefix="weft-install-") as name:
        # Not where packages have theirs: those are what lies in dist/.
        tree, built = Path(name, "tree"), binary.apart(build, Path(name, "programs"))
        stage.command(built.command, tree)
        stage.library(built, tree, "lib", prefix)
        stage.python(tree, "share/weft/python")
        listed = [of for of, _ in stage.entries(tree)]
        if (target / LIST).exists():
            remove()
        (target / LIST).parent.mkdir(parents=True, exist_ok=True)
        (target / LIST).write_text("\n".join([*listed, LIST]) + "\n")
        shutil.copytree(tree, target, symlinks=True, dirs_exist_ok=True)
    print(f"weft is at {target / 'bin/weft'}; `make uninstall PREFIX={prefix}` removes it")


def remove() -> None:
    target, prefix = _target()
    try:
        listed = (target / LIST).read_text().splitlines()
    except FileNotFoundError:
        raise place.Wrong(f"nothing was installed below {prefix}: {target / LIST} is missing") from None
    folders = set()
    for name in listed:
        (target / name).unlink(missing_ok=True)
        folders |= set((target / name).relative_to(target).parents)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        path = target / folder
        if folder.parts and path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def main() -> int:
    try:
        match sys.argv[1:]:
            case ["--remove"]:
                remove()
            case [build]:
                install(Path(build))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (place.Wrong, OSError) as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
