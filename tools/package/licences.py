"""Under which licences what is linked into the programs may be used: asked for by all of them, and so part of every package."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path

from . import place

# Files of a crate that hold its licence begin with one of these.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def _reached(metadata: dict) -> list[dict]:
    """Crates of others that are linked into the command or the library."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    left = [name for name, package in packages.items() if package["name"] in ("weft-cli", "weft-capi")]
    seen: set[str] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        left += [dep["pkg"] for dep in nodes[name]["deps"] if any(kind["kind"] in (None, "normal") for kind in dep["dep_kinds"])]
    found = [packages[name] for name in seen if packages[name]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


@functools.lru_cache(maxsize=None)
def text() -> str:
    """weft's own licence, and those of others, each text once with the crates that it is for."""
    words = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={place.TARGET}"]
    said = subprocess.run(words, cwd=place.ROOT, capture_output=True, text=True)
    if said.returncode:
        raise place.Wrong(f"{' '.join(words)}: {said.stderr}")
    of_text: dict[str, list[str]] = {}
    table = []
    for package in _reached(json.loads(said.stdout)):
        folder = Path(package["manifest_path"]).parent
        name = f"{package['name']} {package['version']}"
        table.append(f"{name}: {package['license'] or 'see its text'}")
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.name.upper().startswith(NAMES):
                of_text.setdefault(path.read_text(errors="replace").strip(), []).append(name)
    parts = [f"weft: Copyright (c) {place.MAINTAINER}. License: {place.LICENSE} (LICENSE-APACHE, LICENSE-MIT).",
             "The programs contain these crates, with their licences:\n\n" + "\n".join(table)]
    parts += [f"For {', '.join(names)}:\n\n{licence}" for licence, names in of_text.items()]
    return f"\n\n{'-' * 78}\n\n".join(parts) + "\n"
