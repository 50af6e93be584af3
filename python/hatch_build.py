"""A wheel for everybody is pure Python. `make packages` makes one with the command in it, of a tree that it has laid out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TREE, TAG = "WEFT_NET_TREE", "WEFT_NET_TAG"


class Tree(BuildHookInterface):
    """`weft` of the tree becomes a program of the environment; what lies below its folders goes below sys.prefix."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        told = os.environ.get(TREE)
        if not told:
            return
        tree = Path(told)
        build_data["pure_python"] = False
        build_data["tag"] = os.environ[TAG]
        if (tree / "weft").is_file():
            build_data["shared_scripts"][str(tree / "weft")] = "weft"
        for folder in sorted(path for path in tree.iterdir() if path.is_dir()):
            build_data["shared_data"][str(folder)] = folder.name
