"""Unsafe code only in the crates that are marked for it, and there every block with its SAFETY line.

The SAFETY line itself is clippy's `undocumented_unsafe_blocks`, denied for the workspace; what is checked here is that
every crate inherits the workspace's lints and that all others forbid unsafe code at the root of each target.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from . import dependencies

FORBID = "#![forbid(unsafe_code)]"
_KINDS = {"lib", "bin", "rlib", "cdylib", "staticlib", "proc-macro"}


def check(metadata: dict) -> list[str]:
    """Findings in the crates that `cargo metadata` lists."""
    findings = []
    for package in metadata["packages"]:
        name = dependencies.short_name(package["name"])
        manifest = tomllib.loads(Path(package["manifest_path"]).read_text())
        if not manifest.get("lints", {}).get("workspace"):
            findings.append(f"crate {name}: Cargo.toml lacks `[lints] workspace = true`")
        if name in dependencies.UNSAFE:
            continue
        for target in package["targets"]:
            root = Path(target["src_path"])
            if _KINDS & set(target["kind"]) and FORBID not in root.read_text():
                findings.append(f"crate {name}: {root.name} lacks {FORBID}")
    return findings


def check_workspace(manifest: dict) -> list[str]:
    """The workspace's manifest must deny unsafe blocks without a SAFETY line."""
    lints = manifest.get("workspace", {}).get("lints", {})
    if lints.get("clippy", {}).get("undocumented_unsafe_blocks") not in ("deny", "forbid"):
        return ["Cargo.toml does not deny clippy::undocumented_unsafe_blocks"]
    return []
