"""What weft is built from, and does not own: cargo-shear looks at dependencies that nothing uses.

It names dependencies in the wrong table of a manifest, too, and source files that belong to no target. tools/setup has
it as a program from PyPI, where nothing needs to be compiled.
"""

from __future__ import annotations

from pathlib import Path

from .. import paths
from . import cargo

def check_unused(root: Path = paths.ROOT) -> list[str]:
    """Dependencies that nothing uses, those of the workspace that no crate has taken among them."""
    return cargo.run([paths.venv_tool("cargo-shear"), "--color", "never", "--deny-warnings"], root)
