"""The lints that cargo runs: rustfmt, clippy, and clippy again with the forbidden calls for the pure crates.

The forbidden calls have a run of their own over the libraries only, with harness/lint/pure/clippy.toml: tests and
examples of the same crates may read a clock. Its wrapper (harness/wrappers/forbidden-calls) says which lints these are.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .. import paths
from . import dependencies

PURE_CONFIGURATION = Path(__file__).parent / "pure"
WRAPPER = paths.TESTS / "harness" / "wrappers" / "forbidden-calls"


def run(command: list[str], root: Path = paths.ROOT, forbidden: str | None = None, timeout_s: float | None = None,
        **environment: str) -> list[str]:
    """A finding with the command's output if it fails, or if `forbidden` stands in the output of a success."""
    result = subprocess.run(
        command, cwd=root, env={**os.environ, "CARGO_TERM_COLOR": "never", **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=timeout_s,
    )
    if result.returncode == 0 and (forbidden is None or forbidden not in result.stdout):
        return []
    return [f"{' '.join(command)} failed:\n" + "\n".join(result.stdout.splitlines()[-80:])]


def check_format() -> list[str]:
    return run(["cargo", "fmt", "--all", "--check", "--", "--color", "never"])


# In the profile of the tests, whose macros and build scripts are compiled already.
CLIPPY = ["cargo", "clippy", "--profile", paths.CHECKED, "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]


def check_clippy() -> list[str]:
    return run(CLIPPY)


def pure_packages(metadata: dict) -> list[str]:
    return [p["name"] for p in metadata["packages"] if dependencies.short_name(p["name"]) in dependencies.PURE]


def check_forbidden_calls(packages: list[str], root: Path = paths.ROOT, target: Path | None = None,
                          configuration: Path = PURE_CONFIGURATION) -> list[str]:
    """Clocks, threads, hash order, files, environment, descriptors and sockets in the libraries of `packages`.

    Other warnings are the other run's. Clippy only mentions a path in its configuration that leads nowhere (a renamed
    function of the standard library); here that is a finding, or the row would fall silent.
    """
    if not packages:
        return ["no pure crate found: the forbidden calls were not checked"]
    selection = [word for package in packages for word in ("-p", package)]
    command = ["cargo", "check", "--profile", paths.CHECKED, "--quiet", "--lib", *selection, "--target-dir", str(target or paths.target_dir())]
    return run(command, root, forbidden="clippy.toml", CLIPPY_CONF_DIR=str(configuration), RUSTC_WORKSPACE_WRAPPER=str(WRAPPER))
