"""Wheels, through hatchling: the Python package with the command in it, and the kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import kernels, place, stage

# What the Python package depends on, beside it in dist/: `pip install --no-index dist/*.whl` needs no index.
WITH_IT = ("tomli-w==1.2.0", "tomli==2.2.1")


def _made(folder: Path, out: Path, settings: dict[str, str]) -> Path:
    place.run([place.VENV / "bin/python", "-m", "hatchling", "build", "--target", "wheel", "--directory", out], settings, folder)
    return max(out.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def command(built: Path, tag: str, out: Path = place.DIST) -> Path:
    """The wheel of the command and the package: PREFIX of an environment gets what /usr would get."""
    tree = place.WORK / "wheel"
    shutil.rmtree(tree, ignore_errors=True)
    stage.command(built, tree)
    (tree / "bin/weft").rename(tree / "weft")
    (tree / "bin").rmdir()
    return _made(place.ROOT / "python", out, {"WEFT_NET_TREE": str(tree), "WEFT_NET_TAG": tag})


def kernel() -> Path:
    """The wheel of the kernels: files below the PREFIX of an environment, and no module."""
    folder = place.WORK / "kernel-wheel"
    shutil.rmtree(folder, ignore_errors=True)
    kernels.tree(folder / "tree")
    shutil.copyfile(place.FILES / "kernel-pyproject.toml", folder / "pyproject.toml")
    (folder / "weft_kernel.py").write_text('"""Linux kernels as nodes of weft: `weft kernel list` shows them."""\n')
    settings = {"WEFT_NET_TREE": str(folder / "tree"), "WEFT_NET_TAG": place.WHEEL_TAG}
    shutil.copyfile(place.ROOT / "python/hatch_build.py", folder / "hatch_build.py")
    text = (folder / "pyproject.toml").read_text().replace("@VERSION@", place.version())
    (folder / "pyproject.toml").write_text(text)
    return _made(folder, place.DIST, settings)


def what_it_needs() -> list[Path]:
    for wanted in WITH_IT:
        place.run([place.VENV / "bin/pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform=any", "--python-version=3.9",
                   "--implementation=py", "--dest", place.DIST, wanted])
    return [next(place.DIST.glob(f"{wanted.replace('-', '_').replace('==', '-')}-*.whl")) for wanted in WITH_IT]
