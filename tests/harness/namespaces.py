"""Network namespaces with names that tell whose they are: weft-PID-NUMBER-NAME.

The PID is that of the test process, so a later run can remove what a crashed one left: namespaces of its own prefix
whose process is dead, nothing else. A normal user gets the same through a user namespace around the whole test.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import paths
from .processes import Failure

FOLDER = Path("/run/netns")
_NAME = re.compile(r"^weft-(\d+)-")
_INSIDE = "WEFT_HARNESS_INSIDE"


def enter_user_namespace() -> None:
    """As a normal user: runs this program again as root of a user, network and mount namespace of its own.

    `ip netns` wants /run/netns, so /run becomes a file system of that mount namespace. Root stays as it is.
    """
    if os.geteuid() == 0:
        return
    again = [sys.executable, *sys.orig_argv[1:]]
    script = 'mount -t tmpfs tmpfs /run && mkdir /run/netns && exec "$@"'
    os.environ[_INSIDE] = "1"
    os.execv(paths.tool("unshare"), [
        "unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private", "--",
        "sh", "-c", script, "sh", *again,
    ])


def in_user_namespace() -> bool:
    """Whether root here is root of a user namespace only."""
    return not Path("/proc/self/uid_map").read_text().split()[:3] == ["0", "0", "4294967295"]


def ip(*arguments: str, check: bool = True) -> str:
    """Runs `ip`; Failure with its words when it refuses."""
    run = subprocess.run([paths.tool("ip"), *arguments], capture_output=True, text=True, timeout=20)
    if check and run.returncode != 0:
        raise Failure(f"ip {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout


class Namespace:
    """A network namespace with lo up and IPv6 off (its neighbour discovery would be traffic nobody asked for)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = FOLDER / name
        ip("netns", "add", name)
        self.ip("link", "set", "lo", "up")
        self.shell("[ ! -e /proc/sys/net/ipv6 ] || for f in all default; do"
                   " echo 1 > /proc/sys/net/ipv6/conf/$f/disable_ipv6; done")

    @property
    def prefix(self) -> list[str]:
        """Words before a command that runs it in this namespace."""
        return [paths.tool("nsenter"), f"--net={self.path}", "--"]

    def ip(self, *arguments: str, check: bool = True) -> str:
        return ip("-n", self.name, *arguments, check=check)

    def shell(self, script: str) -> str:
        run = subprocess.run([*self.prefix, "sh", "-ec", script], capture_output=True, text=True, timeout=20)
        if run.returncode != 0:
            raise Failure(f"in {self.name}: {script}: {run.stderr.strip()}")
        return run.stdout

    def sysctl(self, name: str, value: str) -> None:
        self.shell(f"echo '{value}' > /proc/sys/{name.replace('.', '/')}")

    def enable_ipv6(self) -> None:
        """IPv6 on, with addresses usable at once and no router solicited."""
        self.shell("for f in all default; do for setting in disable_ipv6=0 accept_dad=0 accept_ra=0; do"
                   " echo ${setting#*=} > /proc/sys/net/ipv6/conf/$f/${setting%=*}; done; done")

    def pids(self) -> list[int]:
        return pids_in(self.path)

    def remove(self) -> None:
        ip("netns", "del", self.name, check=False)


def pids_in(path: Path) -> list[int]:
    """Processes whose network namespace is the one mounted at `path`."""
    try:
        wanted = path.stat().st_ino
    except OSError:
        return []
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}/ns/net").st_ino == wanted:
                    found.append(int(entry))
            except OSError:
                continue
    return found


def veth(first: tuple[Namespace, str], second: tuple[Namespace, str]) -> None:
    """A veth pair between two namespaces, both ends up."""
    (ns_a, name_a), (ns_b, name_b) = first, second
    ns_a.ip("link", "add", name_a, "type", "veth", "peer", "name", name_b, "netns", ns_b.name)
    ns_a.ip("link", "set", name_a, "up")
    ns_b.ip("link", "set", name_b, "up")


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") and _state(pid) not in "ZX" for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def sweep() -> list[str]:
    """Removes what crashed runs left (namespaces and temporary folders whose process is dead); returns the names."""
    removed = []
    if FOLDER.is_dir() and os.access(FOLDER, os.W_OK):
        for path in FOLDER.iterdir():
            if _is_dead(path.name):
                kill_all(pids_in(path))
                ip("netns", "del", path.name, check=False)
                removed.append(path.name)
    for path in Path(tempfile.gettempdir()).glob("weft-*-*"):
        if _is_dead(path.name) and path.is_dir() and path.stat().st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path.name)
    return removed


def _is_dead(name: str) -> bool:
    match = _NAME.match(name)
    return match is not None and not os.path.exists(f"/proc/{match[1]}")
