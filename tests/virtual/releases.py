"""weft on another Debian release: the same worlds, over the same root, come to the same hash.

debootstrap unpacks the other release once. Its folder becomes the root of weft itself, where the same binary runs with the other release's libraries. There
every scenario has this machine's files as the root of its nodes, and must come to the hash of this machine. What the release has programs for runs over the
release's files as well, here and there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness import paths, roots, weft
from harness.processes import Failure
from harness.roots import IMAGE, MACHINE, UNSHARE, WORK

from .shared import SECONDS_MAX

# A release, and what takes its place where it is the machine's own.
OTHER, OR = "trixie", "bookworm"
PACKAGES = "python3,curl,openssl"
# Here, too, this machine's files are a folder: of the host's own root, nodes get other layers.
HERE = """mkdir -p "$1"; mount --bind / "$1"; shift; exec "$@" """


def here() -> str:
    release = Path("/etc/os-release").read_text()
    return next((line.split("=")[1] for line in release.splitlines() if line.startswith("VERSION_CODENAME=")), "")


def unpacked(folder: Path) -> tuple[str, Path]:
    """Another release than the machine's, and the folder that is its root."""
    name = OTHER if here() != OTHER else OR
    return name, roots.unpacked(name, PACKAGES, folder / name)


class Release:
    """Another release, on which weft runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name, self.image = unpacked(folder)
        shutil.copy2(weft.binary(), folder / "weft-there")
        self.start = [f"{WORK}/weft-there"]
        version = subprocess.run([*self.enter(), *self.start, "--version"], capture_output=True, text=True, timeout=SECONDS_MAX)
        if version.returncode != 0:
            # An older libc than weft was built with: this machine's goes along.
            self.start = self.with_own_libraries()

    def enter(self) -> list[str]:
        return roots.enter(self.image, self.folder)

    def machine(self) -> Path:
        return self.folder / "machine"

    def with_own_libraries(self) -> list[str]:
        libraries = self.folder / "libraries"
        libraries.mkdir()
        said = subprocess.run(["ldd", str(self.folder / "weft-there")], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", said):
            shutil.copy2(path, libraries)
        linker = next(path.name for path in libraries.iterdir() if path.name.startswith("ld-linux"))
        return [f"{WORK}/libraries/{linker}", "--library-path", f"{WORK}/libraries", *self.start]

    def hash(self, text: str, there: bool, root: str) -> str:
        """The hash of a world whose nodes have this root, run here or there."""
        return self.sim(text, there, root)["hash"]

    def sim(self, text: str, there: bool, root: str, *words: str) -> dict:
        """The summary of a run here or there, whose results are in the folder `out` of this one's folder."""
        text = re.sub(r"^(\[nodes\.\w+\])$", rf'\1\nroot = "{root}"', text, flags=re.MULTILINE)
        (self.folder / "there.toml").write_text(text)
        beside = [*UNSHARE, HERE, "sh", str(self.machine()), str(self.folder / "weft-there")]
        command = [*self.enter(), *self.start] if there else beside
        place = WORK if there else str(self.folder)
        command += ["sim", f"{place}/there.toml", "--json", "--out", f"{place}/out", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/", env=os.environ | {"WEFT_KERNELS": f"{place}/kernels"})
        if done.returncode != 0:
            raise Failure(f"{'there' if there else 'here'}: exit status {done.returncode}\n{done.stderr[-1500:]}")
        summary = json.loads(done.stdout)
        if summary["not_reproducible"]:
            raise Failure(f"{summary['not_reproducible']}")
        return summary


def elsewhere(folder: Path, scenarios: dict[str, str], minimal: tuple[str, ...]) -> str:
    """All these have one hash here and there, over this machine's files, and the minimal ones over the release's."""
    if os.geteuid() != 0:
        raise paths.MissingTool("debootstrap wants to be root; runs as root")
    release = Release(folder)
    said = subprocess.run([*release.enter(), "sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
    if said != release.name:
        raise Failure(f"inside it says that it is '{said}', not {release.name}")
    worlds = [(name, text, str(release.machine()), MACHINE) for name, text in scenarios.items()]
    worlds += [(f"{name} over {release.name}", scenarios[name], str(release.image), IMAGE) for name in minimal]
    for name, text, root_here, root_there in worlds:
        hash_here, hash_there = release.hash(text, False, root_here), release.hash(text, True, root_there)
        if hash_here != hash_there:
            raise Failure(f"{name}: {hash_here} here, {hash_there} on {release.name}")
    return f"{len(scenarios)} scenarios over the machine's files and {len(minimal)} over the release's: one hash each on {here()} and {release.name}"
