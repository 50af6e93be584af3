"""Sources of Debian's packages: the release's own, whose checksums apt compares with the signed list."""

from __future__ import annotations

import re
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .suite import folder, run

RELEASE = Path("/etc/os-release")
MIRROR = "http://deb.debian.org/debian"


def codename() -> str:
    found = re.search(r"^VERSION_CODENAME=(\w+)$", RELEASE.read_text(), re.M)
    if not found:
        raise Failure(f"{RELEASE} names no release")
    return found[1]


def fetched(package: str) -> tuple[Path, str]:
    """The archive of its authors (`orig`), and the version. With lists of its own: this machine's have no sources perhaps, and stay as they are."""
    here = folder("debian", package)
    there = sorted(here.glob("*.orig.tar.*"))
    if not there:
        apt = paths.tool("apt-get")
        (here / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (here / "sources.list").write_text(f"deb-src {MIRROR} {codename()} main\n")
        options = ["-o", f"Dir::Etc::sourcelist={here}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={here}/lists",
                   "-o", f"Dir::Cache={here}/cache", "-o", "APT::Sandbox::User="]
        run([apt, *options, "update"], here)
        run([apt, *options, "source", "--download-only", package], here)
        there = sorted(here.glob("*.orig.tar.*"))
    if len(there) != 1:
        raise Failure(f"{package}: {len(there)} archives")
    return there[0], there[0].name.split("_", 1)[1].split(".orig.")[0]


def unpacked(package: str, *parts: str) -> tuple[Path, str]:
    """The folder of the sources (of the files that match one of these patterns), and the version."""
    archive, version = fetched(package)
    there = folder("debian", package) / f"source-{version}"
    if not there.exists():
        beside = there.with_suffix(".new")
        beside.mkdir(exist_ok=True)
        wanted = ["--wildcards", *parts] if parts else []
        run([paths.tool("tar"), "--extract", f"--file={archive}", f"--directory={beside}", "--strip-components=1", "--no-same-owner", *wanted], beside)
        beside.rename(there)
    return there, version
