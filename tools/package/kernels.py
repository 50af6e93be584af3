"""The Linux kernels that are nodes, ready built: what the GPL asks for lies beside them."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

from . import place

VERSIONS = ("6.12", "6.1")
SUMMARY = "Linux kernels as nodes of weft's virtual networks"


def built() -> list[dict]:
    """As `weft kernel list --json` shows them; those that are not there yet are built, which takes minutes."""
    command = place.WORK / "programs/weft"
    for version in VERSIONS:
        place.run([command, "kernel", "build", "--version", version])
    listed = json.loads(subprocess.run([command, "kernel", "list", "--json"], check=True, capture_output=True, text=True).stdout)
    # Of several the newest release is what scenarios get.
    found = []
    for version in VERSIONS:
        named = [kernel for kernel in listed if kernel["name"] == version]
        found.append(max(named, key=lambda kernel: [int(part) for part in kernel["release"].split(".")]))
    return found


def tree(prefix: Path) -> None:
    """The kernels below PREFIX, where `weft` looks for those of packages."""
    rows = []
    for kernel in built():
        binary = Path(kernel["path"])
        to = prefix / "lib/weft/kernels" / f"{kernel['name']}-{kernel['key']}"
        to.mkdir(parents=True)
        for source, name, mode in ((binary, "linux", 0o755), (binary.with_name("kernel.json"), "kernel.json", 0o644)):
            shutil.copyfile(source, to / name)
            (to / name).chmod(mode)
        rows.append(f"Linux {kernel['release']}: Debian's source package linux, as linux-source-{kernel['name']} of that version has it.")
    documents = prefix / "share/doc" / place.KERNEL
    for folder in ("patches", "config", "init"):
        shutil.copytree(place.ROOT / "kernel" / folder, documents / "source" / folder)
    for path in documents.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    copyright = (place.FILES / "kernel-copyright").read_text().replace("@KERNELS@", "\n".join(rows))
    (documents / "copyright").write_text(copyright)
    (documents / "copyright").chmod(0o644)
    licence = subprocess.run(["cat", "/usr/share/common-licenses/GPL-2"], check=True, capture_output=True).stdout
    (documents / "GPL-2.gz").write_bytes(gzip.compress(licence, mtime=0))
