"""The tree that is installed: one list of what goes where, for packages, the tarball and `make install`."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from . import licences, metadata, place
from .binary import Built

# Shell completions: what `weft generate` makes, and where shells look for it.
COMPLETIONS = {
    "weft.bash": "share/bash-completion/completions/weft",
    "weft.zsh": "share/zsh/site-functions/_weft",
    "weft.fish": "share/fish/vendor_completions.d/weft.fish",
}

# What commands of the pages name, which are run in weft's folder: below share/weft it has the same places.
EXAMPLES = ("examples", "docs/examples", "crates/plugin/include", "tools/gdb")

# JSON schemas, which editors find by the first line of a scenario or stack file.
SCHEMAS = ("scenario.schema.json", "stack.schema.json")
SCHEMA_FOLDER = "share/weft/schema"
_NAMES_SCHEMA = re.compile(r"\A#:schema \S*?([^/\s]+)$", re.MULTILINE)


def _put(source: Path, to: Path, mode: int = 0o644) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, to)
    to.chmod(mode)


def _write(text: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(text)
    to.chmod(0o644)


def _example(path: Path, to: Path, schemas: Path) -> None:
    """A file of the project; the schema that it names lies elsewhere than in the project."""
    source = place.ROOT / path
    _put(source, to, 0o755 if os.access(source, os.X_OK) else 0o644)
    if path.suffix == ".toml":
        to.write_text(_NAMES_SCHEMA.sub(lambda found: f"#:schema {os.path.relpath(schemas / found[1], to.parent)}", source.read_text()))


def tracked(*folders: str) -> Iterator[Path]:
    """The files of folders that belong to the project, from its root; where there is no git, all of them."""
    listed = subprocess.run(["git", "-C", str(place.ROOT), "ls-files", "-z", "--", *folders], capture_output=True)
    if listed.returncode == 0:
        yield from (Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name)
        return
    for folder in folders:
        yield from (path.relative_to(place.ROOT) for path in sorted((place.ROOT / folder).rglob("*")) if path.is_file())


def command(built: Path, prefix: Path) -> None:
    """The command, its pages, completions, examples and licences, below PREFIX."""
    _put(built, prefix / "bin/weft", 0o755)
    for page in sorted((place.ROOT / "docs/man").glob("*.[1-9]")):
        to = prefix / "share/man" / f"man{page.suffix[1:]}" / f"{page.name}.gz"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    for name, to in COMPLETIONS.items():
        _put(place.ROOT / "docs/completions" / name, prefix / to)
    for name in SCHEMAS:
        _put(place.ROOT / "docs" / name, prefix / SCHEMA_FOLDER / name)
    for path in tracked(*EXAMPLES):
        _example(path, prefix / "share/weft" / path, prefix / SCHEMA_FOLDER)
    _put(place.FILES / "apparmor", prefix / "share/weft/apparmor/weft")
    documents = prefix / "share/doc" / place.NAME
    for name in ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"):
        _put(place.ROOT / name, documents / name)
    _write(licences.text(), documents / "copyright")


def library(built: Built, prefix: Path, libraries: str = "lib", told_prefix: str | None = None) -> None:
    """libweft, its header and what pkg-config reads, below PREFIX; `told_prefix`: where that will be, if it is not there already."""
    lib = prefix / libraries
    version = place.version()
    real = f"libweft.so.{version}"
    _put(built.shared, lib / real, 0o644)
    for link, to in ((place.SONAME, real), ("libweft.so", place.SONAME)):
        (lib / link).unlink(missing_ok=True)
        (lib / link).symlink_to(to)
    _put(built.static, lib / "libweft.a")
    _put(place.ROOT / "crates/capi/include/weft.h", prefix / "include/weft.h")
    text = (place.FILES / "weft.pc").read_text()
    for key, value in {"PREFIX": told_prefix or str(prefix), "LIBRARIES": libraries, "VERSION": version}.items():
        text = text.replace(f"@{key}@", value)
    _write(text, lib / "pkgconfig/weft.pc")


def python(prefix: Path, folder: str, installer: str) -> None:
    """The Python package, into a folder that an interpreter looks into, with what it says of itself."""
    for path in tracked("python/src/weft"):
        _put(place.ROOT / path, prefix / folder / path.relative_to("python/src"))
    for name, text in metadata.files(installer).items():
        _write(text, prefix / folder / metadata.folder() / name)


def scripts(tree: Path) -> None:
    """What puts a tree below a PREFIX, and takes it away again."""
    _put(place.FILES / "install.sh", tree / "install.sh", 0o755)
    _put(place.FILES / "uninstall.sh", tree / "share/weft/uninstall.sh", 0o755)


def with_installer(built: Built, tree: Path) -> None:
    """All that the tarball has, and `make install` installs."""
    command(built.command, tree)
    library(built, tree, "lib", "/usr/local")
    python(tree, "share/weft/python", "install.sh")
    scripts(tree)


def settle(tree: Path) -> None:
    """Every file and folder bears the same time, and has the same rights whatever the umask was."""
    epoch = place.epoch()
    for folder, _, files in os.walk(tree):
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
            os.utime(path, (epoch, epoch), follow_symlinks=False)
        Path(folder).chmod(0o755)
        os.utime(folder, (epoch, epoch))


def entries(tree: Path) -> Iterator[tuple[str, Path]]:
    """Files and links below a tree, by their path in it, sorted."""
    for path in sorted(tree.rglob("*")):
        if path.is_symlink() or stat.S_ISREG(path.lstat().st_mode):
            yield str(path.relative_to(tree)), path
