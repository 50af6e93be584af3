"""The tarball with install.sh, and the image for containers."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path

from . import place, stage
from .binary import Built
from .distributions import fresh, stamp

IMAGE_PLAN = place.FILES / "image.toml"


def tar(tree: Path, to: Path, below: str = "", compress: bool = True) -> None:
    """A tar file of a tree whose bytes depend on what is in it alone."""
    epoch = place.epoch()
    raw = io.BytesIO() if compress else to.open("wb")
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            info = archive.gettarinfo(path, f"{below}{path.relative_to(tree)}")
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = min(int(info.mtime), epoch)
            if info.isreg():
                with path.open("rb") as contents:
                    archive.addfile(info, contents)
            else:
                archive.addfile(info)
    if compress:
        # The smallest systems have gzip, and no xz.
        to.write_bytes(gzip.compress(raw.getvalue(), mtime=0))
    raw.close()


def tarball(built: Built) -> Path:
    tree = fresh("tarball")
    stage.with_installer(built, tree)
    stage.settle(tree)
    name = f"{place.NAME}-{place.version()}-x86_64-linux"
    to = place.DIST / f"{name}.tar.gz"
    tar(tree, to, f"{name}/")
    return to


def symbols(built: Built) -> Path:
    """What a debugger wants, for those who have no .deb: `gdb` finds it beside the programs."""
    tree = fresh("symbols")
    for path in built.debug:
        shutil.copyfile(path, tree / path.name)
    stage.settle(tree)
    to = place.DIST / f"{place.NAME}-{place.version()}-x86_64-linux.debug.tar.gz"
    tar(tree, to)
    return to


def image(built: Built) -> Path:
    """An OCI image: a small Debian that is the same wherever it is made, the command, and what a first session wants. No daemon takes part."""
    root, layout = place.WORK / "image", place.WORK / "layout"
    for folder in (root, layout):
        shutil.rmtree(folder, ignore_errors=True)
    place.run([built.command, "root", "make", IMAGE_PLAN, "--out", root])
    stage.command(built.command, root / "usr")
    stage.python(root / "usr", "lib/python3/dist-packages", "weft")
    (root / "work").mkdir()
    layer = place.WORK / "layer.tar"
    tar(root, layer, compress=False)
    reference, created = f"{layout}:{place.version()}", stamp(place.epoch())
    history = ["--history.created", created, "--history.author", place.MAINTAINER]
    place.run(["umoci", "init", "--layout", layout])
    place.run(["umoci", "new", "--image", reference])
    place.run(["umoci", "raw", "add-layer", "--image", reference, *history, "--history.created_by", "weft root make", layer])
    place.run(["umoci", "config", "--image", reference, *history, "--history.created_by", "make packages", "--created", created, "--author", place.MAINTAINER,
               "--os", "linux", "--architecture", "amd64", "--config.entrypoint", "/usr/bin/weft", "--config.cmd", "doctor", "--config.workingdir", "/work",
               "--config.env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
    place.run(["umoci", "gc", "--layout", layout])
    to = place.DIST / f"{place.NAME}-{place.version()}-oci.tar"
    tar(layout, to, compress=False)
    return to
