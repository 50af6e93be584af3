"""Packages of distributions, .deb and .rpm, through nfpm: one description serves both."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
from pathlib import Path

from . import kernels, place, stage
from .binary import Built

FORMATS = ("deb", "rpm")
# Where libraries are, below /usr.
LIBRARIES = {"deb": "lib/x86_64-linux-gnu", "rpm": "lib64"}
# Debian's Python looks here; those of rpm systems each have a folder of their own, and are told by PYTHONPATH.
PYTHON = {"deb": "lib/python3/dist-packages", "rpm": "share/weft/python"}
GLIBC = {"deb": f"libc6 (>= {place.GLIBC})", "rpm": f"glibc >= {place.GLIBC}"}
# The smallest that every dpkg and rpm in use reads.
COMPRESSION = {"deb": "xz", "rpm": "xz"}


@dataclasses.dataclass
class Package:
    """A package of a distribution: its tree, and what it says of itself."""

    name: str
    summary: str
    tree: Path
    depends: list[str] = dataclasses.field(default_factory=list)
    recommends: list[str] = dataclasses.field(default_factory=list)
    suggests: list[str] = dataclasses.field(default_factory=list)
    scripts: dict[str, Path] = dataclasses.field(default_factory=dict)
    licence: str = place.LICENSE
    version: str = dataclasses.field(default_factory=place.version)
    section: str = "net"

    def description(self) -> dict:
        epoch = place.epoch()
        contents = []
        for name, path in stage.entries(self.tree):
            if path.is_symlink():
                contents.append({"src": str(path.readlink()), "dst": f"/{name}", "type": "symlink", "file_info": {"mtime": stamp(epoch)}})
            else:
                info = {"mode": path.stat().st_mode & 0o777, "mtime": stamp(epoch)}
                contents.append({"src": str(path), "dst": f"/{name}", "file_info": info})
        return {
            "name": self.name, "arch": "amd64", "platform": "linux", "version": self.version, "section": self.section, "priority": "optional",
            "maintainer": place.MAINTAINER, "description": self.summary, "license": self.licence,
            "mtime": stamp(epoch), "contents": contents, "depends": self.depends, "recommends": self.recommends, "suggests": self.suggests,
            "scripts": {name: str(path) for name, path in self.scripts.items()},
            "deb": {"compression": COMPRESSION["deb"]}, "rpm": {"compression": COMPRESSION["rpm"], "buildhost": "weft", "group": "Applications/Internet"},
        }

    def make(self, format: str) -> Path:
        stage.settle(self.tree)
        told = place.WORK / f"{self.name}.{format}.json"
        told.write_text(json.dumps(self.description(), indent=1))
        file = f"{self.name}_{self.version}_amd64.deb" if format == "deb" else f"{self.name}-{self.version}.x86_64.rpm"
        place.run([place.tool("nfpm"), "package", "--config", told, "--packager", format, "--target", place.DIST / file])
        return place.DIST / file


def stamp(epoch: int) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def fresh(name: str) -> Path:
    tree = place.WORK / name
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    return tree


def command(built: Built, format: str) -> Package:
    tree = fresh(f"{format}-command")
    stage.command(built.command, tree / "usr")
    stage.python(tree / "usr", PYTHON[format], {"deb": "apt", "rpm": "rpm"}[format])
    if format == "deb":
        # zsh of Debian looks there for what packages bring.
        (tree / "usr/share/zsh/vendor-completions").mkdir()
        (tree / "usr/share/zsh/site-functions/_weft").rename(tree / "usr/share/zsh/vendor-completions/_weft")
        (tree / "usr/share/zsh/site-functions").rmdir()
    recommends = {"deb": ["python3 (>= 3.11) | python3-tomli", "python3-tomli-w", "iproute2"], "rpm": ["python3", "python3-tomli-w", "iproute"]}[format]
    suggests = ["python3-pandas", "python3-matplotlib", place.KERNEL]
    scripts = {"postinstall": place.FILES / "postinstall.sh", "preremove": place.FILES / "preremove.sh"}
    return Package(place.NAME, place.DESCRIPTION, tree, [GLIBC[format]], recommends, suggests, scripts)


def development(built: Built, format: str) -> Package:
    tree = fresh(f"{format}-dev")
    stage.library(built, tree / "usr", LIBRARIES[format], "/usr")
    return Package(f"{place.NAME}-dev", "libweft: a node of weft as a C library, with its header", tree, [GLIBC[format]], section="libdevel")


def debug(built: Built) -> Package:
    tree = fresh("deb-debug")
    for symbols, of in zip(built.debug, ("usr/bin", f"usr/{LIBRARIES['deb']}"), strict=True):
        to = tree / "usr/lib/debug" / of / symbols.name
        to.parent.mkdir(parents=True)
        shutil.copyfile(symbols, to)
    depends = [f"{place.NAME} (= {place.version()})"]
    return Package(f"{place.NAME}-dbgsym", "What a debugger shows of weft: names of functions and lines", tree, depends, section="debug")


def kernel(format: str) -> Package:
    tree = fresh(f"{format}-kernel")
    kernels.tree(tree / "usr")
    return Package(place.KERNEL, kernels.SUMMARY, tree, recommends=[place.NAME], licence="GPL-2.0-only", section="kernel")
