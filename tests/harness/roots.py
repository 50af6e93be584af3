"""A folder as the root of a process: other releases of Debian. A mount namespace and pivot_root: a process that is only chrooted may make no user namespace."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import paths
from .processes import PATIENCE, Failure

SECONDS_MAX = 900 * PATIENCE
# Where the image itself, the folder of the test and the files of this machine are, seen from inside.
IMAGE, WORK, MACHINE = "/mnt/image", "/mnt/work", "/mnt/machine"
INSIDE = f"""
mkdir -p "$1/mnt/old" "$1{IMAGE}" "$1{WORK}" "$1{MACHINE}"; mount --bind "$1" "$1"; cd "$1"
mount --bind "$1" .{IMAGE}; mount --bind "$2" .{WORK}; mount --bind / .{MACHINE}; mount --rbind /proc proc; mount --rbind /dev dev
shift 2; pivot_root . mnt/old; cd /; umount -l /mnt/old; exec "$@"
"""
PRIVATE = ("unshare", "--mount", "--propagation", "private")
UNSHARE = [*PRIVATE, "sh", "-euc"]


def unpacked(release: str, packages: str, image: Path) -> Path:
    """A release of Debian as a folder, with these packages (divided by commas)."""
    # Root's nodes run as nobody.
    image.parent.chmod(0o755)
    # What it mounts meanwhile is nobody else's: below /var it would be another layout for nodes that begin then.
    command = [*PRIVATE, paths.tool("debootstrap"), "--variant=minbase", f"--include={packages}", release, str(image)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"debootstrap {release}: {done.stdout[-1000:]}{done.stderr[-500:]}")
    shutil.rmtree(image / "var" / "cache" / "apt", ignore_errors=True)
    return image


def enter(image: Path, work: Path, *namespaces: str) -> list[str]:
    """What is put before a command that has the image for its root, and `work` at WORK; `namespaces`: more options of unshare."""
    return [*PRIVATE, *namespaces, "sh", "-euc", INSIDE, "sh", str(image), str(work)]
