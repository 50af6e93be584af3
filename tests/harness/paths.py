"""Where things are: the repository, build output, tools that minimal PATHs hide."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# Debian's interpreter first: one in somebody's home cannot be run by the unprivileged halves of the tests.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else (shutil.which("python3") or "python3")

# The profile of Cargo.toml in which everything is built that `make test` runs, and that of what people use and measure.
CHECKED, RELEASE = "checked", "release"

# CI may run as another user than the one who owns the checkout.
GIT = ("git", "-c", "safe.directory=*")

_EXTRA_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/go/bin"


class MissingTool(Exception):
    """A program that the test needs is not installed; `tools/setup` would have named it."""


@lru_cache(maxsize=None)
def tool(name: str) -> str:
    """The absolute path of `name`. A minimal PATH lacks the sbin folders, so they are searched too."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":" + _EXTRA_PATH)
    if found is None:
        raise MissingTool(f"{name} is not installed: run tools/setup test")
    return found


def unpacked(package: str, name: str) -> str:
    """The same of a program that tools/setup only unpacks, as its package would change the machine."""
    found = sorted((output_dir() / "unpacked" / package).glob(f"usr/*bin/{name}"))
    if not found:
        raise MissingTool(f"{name} is not unpacked: run tools/setup test")
    return str(found[0])


@lru_cache(maxsize=None)
def target_dir() -> Path:
    """Cargo's target directory: CARGO_TARGET_DIR or `target`, as cargo itself decides it."""
    chosen = os.environ.get("CARGO_TARGET_DIR")
    return (ROOT / chosen) if chosen else ROOT / "target"


def output_dir() -> Path:
    """Where results of tests and benchmarks go, whatever the build's target directory is."""
    directory = ROOT / "target"
    directory.mkdir(exist_ok=True)
    return directory


def venv_python() -> Path:
    """The interpreter of the environment that tools/setup makes for Python packages which Debian does not have."""
    python = output_dir() / "venv" / "bin" / "python3"
    if not python.exists():
        raise MissingTool("aioquic is not installed: run tools/setup test")
    return python


def venv_tool(name: str) -> str:
    """A program that tools/setup has from PyPI, as somebody there has compiled it."""
    program = output_dir() / "venv" / "bin" / name
    if not program.exists():
        raise MissingTool(f"{name} is not installed: run tools/setup lint")
    return str(program)


@lru_cache(maxsize=None)
def postgres() -> Path:
    """The folder of PostgreSQL's programs, which Debian keeps out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        raise MissingTool("postgresql is not installed: run tools/setup test")
    return found[-1].parent


def profile() -> str:
    """The profile that WEFT_PROFILE names: the Makefile chooses it."""
    return os.environ.get("WEFT_PROFILE") or RELEASE


def built() -> Path:
    """The folder of what was built in that profile."""
    return target_dir() / profile()


def weft_binary() -> Path | None:
    """The `weft` that was built, or the one WEFT_BIN names; None if there is none."""
    chosen = os.environ.get("WEFT_BIN")
    path = Path(chosen) if chosen else built() / "weft"
    return path if path.exists() else None


def commit() -> str:
    """The commit of the working tree, with `+` when tracked files differ from it."""
    def git(*arguments: str) -> str:
        run = subprocess.run([*GIT, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30)
        return run.stdout.strip() if run.returncode == 0 else ""

    head = git("rev-parse", "--short=10", "HEAD") or "unknown"
    # docs/status.md is what `make acceptance` itself writes, so its change says nothing about the code.
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/status.md")
    return head + ("+" if dirty else "")


@lru_cache(maxsize=None)
def cargo_metadata() -> dict:
    """`cargo metadata` of the workspace, dependencies by name only."""
    run = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )
    if run.returncode != 0:
        raise RuntimeError(f"cargo metadata failed:\n{run.stderr}")
    return json.loads(run.stdout)
