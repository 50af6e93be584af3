"""What lies in dist/: how large it is, what it says of itself, and that it comes out the same again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.processes import Failure
from package import place
from virtual.shared import SECONDS_MAX, expect

WHEEL_BYTES_MAX = 12_000_000
COMMAND_BYTES_MAX = 25_000_000


def one(pattern: str) -> Path:
    found = sorted(place.DIST.glob(pattern))
    if len(found) != 1:
        raise Failure(f"dist/{pattern}: {[path.name for path in found]}: run make packages")
    return found[0]


def sizes(_: Path) -> str:
    wheel, command = one("weft_net-*.whl").stat().st_size, (place.WORK / "programs/weft").stat().st_size
    if wheel > WHEEL_BYTES_MAX or command > COMMAND_BYTES_MAX:
        raise Failure(f"the wheel has {wheel} bytes, the command {command}")
    return f"wheel {wheel / 1e6:.1f} MB, command {command / 1e6:.1f} MB"


def old_glibc(_: Path) -> str:
    """No symbol that is newer than the wheel's name says."""
    newest = (0, 0)
    for name in ("weft", "libweft.so"):
        said = subprocess.run(["objdump", "-T", str(place.WORK / "programs" / name)], capture_output=True, text=True, check=True).stdout
        newest = max([newest, *((int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", said))])
    if newest > tuple(map(int, place.GLIBC.split("."))):
        raise Failure(f"glibc {newest}")
    return f"glibc {newest[0]}.{newest[1]}"


def no_paths(_: Path) -> str:
    """Nothing tells where it was built."""
    for name in ("weft", "weft.debug", "libweft.so", "libweft.so.debug", "libweft.a"):
        data = (place.WORK / "programs" / name).read_bytes()
        for path in (str(place.ROOT), str(Path.home() / ".cargo")):
            if path.encode() in data:
                at = data.index(path.encode())
                raise Failure(f"{name}: {data[max(0, at - 40):at + 120]!r}")
    return "no path of this machine"


def again(folder: Path) -> str:
    """A clone elsewhere makes the same bytes."""
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.DIST.iterdir()}
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(place.ROOT), str(clone)], check=True)
    (clone / "target").mkdir()
    # Of its own: what zig compiles is called as it lies, within the clone.
    subprocess.run(["cp", "--archive", "--link", str(place.VENV), str(clone / "target/venv")], check=True)
    # ONLY names rows here, and kinds of packages there.
    whole = {name: value for name, value in os.environ.items() if name != "ONLY"}
    done = subprocess.run(["make", "--silent", "-C", str(clone), "packages"], env=whole, capture_output=True, text=True, timeout=6 * SECONDS_MAX,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failure(f"make packages: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    after = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (clone / "dist").iterdir()}
    differ = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    expect("what differs", differ, [])
    return f"{len(before)} files are the same"


def image(folder: Path) -> str:
    """The image for containers is a layout of OCI: a filesystem of its own, with the command as what it begins with; it runs."""
    layout = folder / "layout"
    with tarfile.open(one("weft-net-*-oci.tar")) as archive:
        archive.extractall(layout, filter="tar") if hasattr(tarfile, "tar_filter") else archive.extractall(layout)
    said = subprocess.run([paths.tool("umoci"), "unpack", "--image", f"{layout}:{place.version()}", str(folder / "bundle")], capture_output=True, text=True)
    if said.returncode:
        raise Failure(said.stderr)
    config = json.loads((folder / "bundle/config.json").read_text())
    expect("what it begins with", config["process"]["args"], ["/usr/bin/weft", "doctor"])
    root = folder / "bundle/rootfs"
    told = subprocess.run(["unshare", "--net", "--mount", "chroot", str(root), "/usr/bin/weft", "--version"], capture_output=True, text=True)
    expect("version", told.stdout.split()[1:2], [place.version()])
    python = subprocess.run(["chroot", str(root), "/usr/bin/python3", "-c", "import weft; print(weft.World.__name__)"], capture_output=True, text=True)
    expect("the Python package", (python.stdout, python.stderr), ("World\n", ""))
    return f"{one('weft-net-*-oci.tar').stat().st_size / 1e6:.0f} MB"


ROWS: dict[str, Callable[[Path], str]] = {"sizes": sizes, "glibc": old_glibc, "no paths": no_paths, "oci image": image, "built twice": again}
