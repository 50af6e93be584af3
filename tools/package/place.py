"""Where things are, what they are called, and the time that they bear."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FILES = Path(__file__).resolve().parent / "files"
DIST = ROOT / "dist"
WORK = ROOT / "target/package"
VENV = ROOT / "target/venv"

# The names `weft` of PyPI and crates.io belong to others.
NAME, KERNEL = "weft-net", "weft-kernel"
MAINTAINER = "the weft authors"
LICENSE = "Apache-2.0 OR MIT"
DESCRIPTION = "Unmodified programs on a network stack that can be taken apart"

# The oldest glibc that the programs of a wheel run with; Debian 10, RHEL 8 and Ubuntu 18.10 have it.
GLIBC = "2.28"
TARGET = "x86_64-unknown-linux-gnu"
WHEEL_TAG = f"py3-none-manylinux_{GLIBC.replace('.', '_')}_x86_64"
# What the name of libweft's interface is: a number that changes when programs have to be linked anew.
SONAME = "libweft.so.0"


class Wrong(Exception):
    """What cannot be made, and why."""


def version() -> str:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def epoch() -> int:
    """The time of every file that is made, in seconds: SOURCE_DATE_EPOCH, else that of the commit."""
    if told := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(told)
    git = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True)
    if git.returncode:
        raise Wrong("there is no commit here to take the time of files from: set SOURCE_DATE_EPOCH (seconds since 1970)")
    return int(git.stdout)


def run(words: Sequence[object], env: Mapping[str, str] | None = None, folder: Path = ROOT) -> None:
    """Runs a program; what it said is shown where it failed."""
    told = [str(word) for word in words]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch()), **(env or {})}
    done = subprocess.run(told, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Wrong(f"{' '.join(told)}: exit status {done.returncode}\n{done.stdout}")


def tool(name: str) -> Path:
    """A program of the environment that tools/setup makes."""
    path = VENV / "bin" / name
    if not path.exists():
        raise Wrong(f"{path} is missing: run tools/setup packages")
    return path
