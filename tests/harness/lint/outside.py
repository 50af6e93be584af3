"""What weft is built from, and does not own: cargo-deny and cargo-shear look at the crates from crates.io.

cargo-deny reads deny.toml: licences, versions that stand twice, places that crates may come from, and the advisories of
RustSec. cargo-shear names dependencies that nothing uses, dependencies in the wrong table of a manifest, and source
files that belong to no target. tools/setup has both as programs from PyPI, where nothing needs to be compiled.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .. import paths
from . import Skip, cargo

_NO_DATABASE = "failed to fetch advisory database"
_CHECKED = "advisories FAILED"
_FETCH_SECONDS_MAX = 120


def check_crates(root: Path = paths.ROOT, **environment: str) -> list[str]:
    """Licences, duplicate versions and sources, by deny.toml. An exception that nothing needs any more is a finding."""
    return cargo.run([*_deny(), "-D", "unmatched-skip", "licenses", "bans", "sources"], root, **environment)


def check_advisories(root: Path = paths.ROOT, **environment: str) -> list[str]:
    """Faults that are known of the versions in Cargo.lock, by the database of today or the one that was fetched last."""
    try:
        findings = cargo.run([*_deny(), "advisories"], root, timeout_s=_FETCH_SECONDS_MAX, **environment)
    except subprocess.TimeoutExpired:
        findings = [_NO_DATABASE]
    if findings and _NO_DATABASE in findings[0]:
        findings = cargo.run([*_deny("--offline"), "advisories"], root, **environment)
        if findings and _CHECKED not in findings[0]:
            raise Skip("the database of advisories (https://github.com/RustSec/advisory-db) cannot be fetched from here; "
                       "`target/venv/bin/cargo-deny check advisories` says what is known on a machine that reaches it")
    return findings


def check_unused(root: Path = paths.ROOT) -> list[str]:
    """Dependencies that nothing uses, those of the workspace that no crate has taken among them."""
    return cargo.run([paths.venv_tool("cargo-shear"), "--color", "never", "--deny-warnings"], root)


def _deny(*options: str) -> list[str]:
    return [paths.venv_tool("cargo-deny"), "--color", "never", "--locked", *options, "check", "--hide-inclusion-graph"]
