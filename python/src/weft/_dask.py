"""A sweep on Dask: a run is a task. What a worker needs goes along: the scenario, and the files beside it.

A worker that is lost takes nothing with it: Dask gives its tasks to others, and each run has one place in the table.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from . import _command, _place, sweeps
from .errors import ScenarioError, WeftError
from .result import library
from .world import World

# Most bytes of the files beside a scenario.
BESIDE_BYTES_MAX = 64 << 20
# What programs make by themselves, or nobody needs to run them.
LEFT_OUT = {".git", "__pycache__"}


@dataclass(frozen=True)
class File:
    """A file, a folder or a link, as it was."""

    path: str
    mode: int
    mtime_ns: int
    content: bytes
    """Of a link, where it leads."""


@dataclass(frozen=True)
class Baggage:
    """What a run needs on the worker."""

    name: Optional[str]
    """Of the scenario's own file, if it has one."""
    text: str
    """The scenario."""
    files: tuple[File, ...]
    """The files beside it; folders before what is in them."""
    roots: tuple[str, ...]
    """Folders that must be on the worker."""
    version: tuple[int, ...]
    """Of weft."""


def runs(world: World, seeds: list[Optional[int]], points: list[list[str]], client: Any) -> list[dict[str, Any]]:
    """The runs, point by point and seed by seed."""
    library("distributed", "a sweep with a client")
    world = _with_whole_paths(world)
    # A task that brings it, and no data of a worker: what is lost with one is made anew.
    baggage = client.submit(_same, _packed(world), pure=False)
    cases = [(point, seed) for point in points for seed in seeds]
    futures = [client.submit(_run, baggage, point, seed, pure=False) for point, seed in cases]
    return list(client.gather(futures))


def _same(baggage: Baggage) -> Baggage:
    return baggage


def _run(baggage: Baggage, point: list[str], seed: Optional[int]) -> dict[str, Any]:
    """A run, on the worker."""
    for root in baggage.roots:
        if not os.path.isdir(root):
            raise ScenarioError(f"root: there is no folder {root} on the worker {os.uname().nodename}")
    have = _command.version(_command.binary())
    if have != baggage.version:
        raise WeftError(f"the worker {os.uname().nodename} has weft {have}, and this machine {baggage.version}: their hashes differ")
    with tempfile.TemporaryDirectory(prefix="weft-task-") as folder:
        _unpack(baggage, Path(folder))
        seeds = None if seed is None else f"{seed}..{seed}"
        words = [word for text in point for word in ("--grid", text)]
        path = _place.kept(baggage.text) if baggage.name is None else Path(folder, baggage.name)
        if baggage.name is None:
            words += ["--beside", folder]
        with contextlib.nullcontext() if baggage.name else _place.told_by_path(path, baggage.text):
            found = sweeps.runs(str(path), seeds, [*words, "--threads", "1"], False)
    return found[0]


def _with_whole_paths(world: World) -> World:
    """The same world, with roots whose paths do not depend on its folder."""
    copy = World.from_data(world.to_data())
    copy.folder, copy.path = world.folder, world.path
    nodes = [*copy.nodes.values(), *(template.node for template in copy.templates.values() if template.node)]
    for node in nodes:
        if node.root is not None:
            node.root = os.path.normpath(Path(world.folder or ".").absolute() / node.root)
    return copy


def _packed(world: World) -> Baggage:
    nodes = [*world.nodes.values(), *(template.node for template in world.templates.values() if template.node)]
    roots = tuple(dict.fromkeys(node.root for node in nodes if node.root is not None))
    text = world.to_toml()
    files = () if world.folder is None else _pack(Path(world.folder).absolute(), set(roots))
    # As it is called there when it runs on this machine.
    name = world.path.name if world.path is not None and world._is_as_saved(world.path) else None
    return Baggage(name, text, files, roots, _command.version(_command.binary()))


def _pack(folder: Path, but: set[str]) -> tuple[File, ...]:
    """Everything in a folder, but for roots."""
    files: list[File] = []
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and os.path.join(place, name) not in but)
        for name in [*folders, *sorted(names)]:
            path = Path(place, name)
            about = path.lstat()
            if path.is_symlink():
                content = os.readlink(path).encode()
            else:
                content = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
            size += len(content)
            if size > BESIDE_BYTES_MAX:
                raise ScenarioError(f"{folder} holds more than {BESIDE_BYTES_MAX >> 20} MiB, which go to every worker: put the scenario into a folder "
                                    "with what it needs, and what is large into `root` or `mounts` by its whole path")
            files.append(File(str(path.relative_to(folder)), about.st_mode, about.st_mtime_ns, content))
    return tuple(files)


def _unpack(baggage: Baggage, folder: Path) -> None:
    # Programs of nodes are others than who runs the worker.
    folder.chmod(0o755)
    for file in baggage.files:
        path = folder / file.path
        if stat.S_ISLNK(file.mode):
            path.symlink_to(file.content.decode())
        elif stat.S_ISDIR(file.mode):
            path.mkdir()
        elif stat.S_ISREG(file.mode):
            path.write_bytes(file.content)
            path.chmod(stat.S_IMODE(file.mode))
    if baggage.name is not None:
        (folder / baggage.name).write_text(baggage.text, encoding="utf-8")
    # Folders last, and the inner ones before the outer: what is made in one changes its time.
    for file in reversed(baggage.files):
        path = folder / file.path
        if stat.S_ISDIR(file.mode):
            path.chmod(stat.S_IMODE(file.mode))
        if not stat.S_ISLNK(file.mode) and path.exists():
            os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
