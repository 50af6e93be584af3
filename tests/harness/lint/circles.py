"""Circles of modules: files of one crate that need each other, each the next, around to the first.

No file of a circle can be read, tested or moved without all of them. A file needs another if it names what that one
defines: by `use`, or by a path in the code that begins with `crate`, `super`, `self` or a module below. A name that a
module only hands on (`pub use`) leads to the file that defines it, so that a list of such names in lib.rs is no knot.
Tests do not count.

ratchet.toml holds two numbers for each crate: the files of its largest circle, and all files that are in circles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .. import paths
from . import rust

LARGEST, FILES = "largest circle of modules", "files in circles of modules"
ADVICE = "move what both need below both, or turn one of the uses around"

Name = tuple[str, ...]
Graph = dict[Path, set[Path]]

_PATH = re.compile(r"(?<![\w:])(\w+(?:::\w+)+)")
# Names that are handed on from module to module, in a chain of at most so many.
_HOPS_MAX = 8


def leaves(tree: str) -> Iterator[tuple[Name, str]]:
    """Each path of a `use` with the name that it gets: `a::{b, c::D as E}` has a::b as b and a::c::D as E."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        path, _, alias = head.partition(" as ")
        parts = _names(path)
        if parts:
            yield parts, alias.strip() or parts[-1]
        return
    prefix, inside = _names(head), rest.rpartition("}")[0]
    depth = begin = 0
    for at, letter in enumerate(inside + ","):
        depth += (letter == "{") - (letter == "}")
        if letter != "," or depth > 0:
            continue
        for path, name in leaves(inside[begin:at]):
            whole = prefix if path == ("self",) else prefix + path
            yield whole, whole[-1] if name == "self" else name
        begin = at + 1


def _names(path: str) -> Name:
    return tuple(part.strip() for part in path.split("::") if part.strip())


class Program:
    """The modules of one program, and what they name of each other."""

    def __init__(self, root: Path) -> None:
        modules = rust.modules(root)
        self.files = {name: path for name, (path, _) in modules.items()}
        self.handed_on: dict[Name, dict[str, Name]] = {name: {} for name in self.files}
        self.named: dict[Name, set[Name]] = {name: set() for name in self.files}
        for name, (_, text) in modules.items():
            self._read(name, text)

    def _read(self, module: Name, text: str) -> None:
        for public, tree in rust.IMPORT.findall(text):
            for path, name in leaves(" ".join(tree.split())):
                full = self._from_root(module, path)
                if full is None:
                    continue
                # What a module has imported is there for the modules below it, too.
                self.handed_on[module][name] = full
                if not public or name == "*":
                    self.named[module].add(full)
        for found in set(_PATH.findall(rust.IMPORT.sub("", text))):
            full = self._from_root(module, tuple(found.split("::")))
            if full is not None:
                self.named[module].add(full)

    def _from_root(self, module: Name, path: Name) -> Name | None:
        """A path as it reads from the root; None for one that begins with something that is no module here."""
        if path[0] == "crate":
            return path[1:]
        if path[0] not in ("self", "super"):
            return module + path if module + path[:1] in self.files else None
        place, rest = module, list(path)
        while rest and rest[0] in ("self", "super"):
            if rest.pop(0) == "super":
                place = place[:-1]
        return place + tuple(rest)

    def _home(self, path: Name) -> Name:
        """The module that defines what a path names."""
        module: Name = ()
        for _ in range(_HOPS_MAX):
            length = max(n for n in range(len(path) + 1) if path[:n] in self.files)
            module, rest = path[:length], path[length:]
            if not rest or rest[0] not in self.handed_on[module]:
                break
            path = self.handed_on[module][rest[0]] + rest[1:]
        return module

    def needs(self) -> Graph:
        """For each file the others that it needs."""
        graph: Graph = {path: set() for path in self.files.values()}
        for module, names in self.named.items():
            here = self.files[module]
            graph[here] |= {self.files[self._home(name)] for name in names} - {here}
        return graph


def circles(graph: Graph) -> list[set[Path]]:
    """The strongly connected components of more than one file, by Tarjan's algorithm."""
    order: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    found: list[set[Path]] = []

    def visit(file: Path) -> None:
        order[file] = lowest[file] = len(order)
        stack.append(file)
        for other in graph[file]:
            if other not in order:
                visit(other)
            if other in stack:
                lowest[file] = min(lowest[file], lowest[other])
        if lowest[file] == order[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for file in graph:
        if file not in order:
            visit(file)
    return found


def roots(files: list[Path], root: Path = paths.ROOT) -> Iterator[tuple[str, Path]]:
    """Each crate's programs and libraries: a lib.rs or main.rs in a folder of the crate that is not one of tests."""
    for path in files:
        parts = path.relative_to(root).parts
        if len(parts) == 4 and parts[0] == "crates" and parts[3] in ("lib.rs", "main.rs") and parts[2] not in ("tests", "examples", "benches"):
            yield parts[1], path


def count(files: list[Path], root: Path = paths.ROOT) -> tuple[dict[str, int], dict[str, int]]:
    """For each crate that has circles: the files of its largest one, and all files in circles."""
    largest: Counter[str] = Counter()
    everything: Counter[str] = Counter()
    for crate, path in roots(files, root):
        for circle in circles(Program(path).needs()):
            largest[crate] = max(largest[crate], len(circle))
            everything[crate] += len(circle)
    return dict(largest), dict(everything)
