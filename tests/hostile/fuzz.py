"""The fuzz targets of all crates, under libFuzzer for a given time in all."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import tempfile
from pathlib import Path

from harness import paths
from harness.processes import Failure

CRATES = ("wire", "blocks", "node")
# The whole node has the most to find, then what holds memory for strangers.
WEIGHTS = {"node": 10, "reassembly": 3}
BUILD_SECONDS_MAX = 1800


@dataclasses.dataclass(frozen=True)
class Target:
    crate: Path
    name: str


def targets() -> list[Target]:
    """By their corpora: each is a folder with the name of its target."""
    folders = [paths.ROOT / "crates" / crate for crate in CRATES]
    return [Target(folder, corpus.name) for folder in folders for corpus in sorted((folder / "fuzz" / "corpus").iterdir())]


def shares(seconds: int) -> list[tuple[Target, int]]:
    """Which target runs for how long."""
    if seconds <= 0:
        return []
    chosen = targets()
    total = sum(WEIGHTS.get(target.name, 1) for target in chosen)
    return [(target, max(1, seconds * WEIGHTS.get(target.name, 1) // total)) for target in chosen]


def run(target: Target, seconds: int) -> str:
    """New inputs go to a folder of their own: what the repository keeps is chosen by people."""
    cargo = ["cargo", "+nightly", "fuzz"]
    # A fuzz crate is a workspace of its own: its build is shared by the targets of one crate.
    environment = {**os.environ, "CARGO_TARGET_DIR": str(paths.target_dir() / "fuzz" / target.crate.name)}
    built = subprocess.run([*cargo, "build", target.name], cwd=target.crate, env=environment, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    if built.returncode != 0:
        raise Failure(f"cargo fuzz build {target.name}: exit status {built.returncode}\n{built.stderr[-3000:]}")
    with tempfile.TemporaryDirectory(prefix="weft-fuzz-") as name:
        found = Path(name) / "artifacts"
        found.mkdir()
        grown = Path(name) / "corpus"
        grown.mkdir()
        kept = target.crate / "fuzz" / "corpus" / target.name
        done = subprocess.run(
            [*cargo, "run", target.name, str(grown), str(kept), "--", f"-max_total_time={seconds}", f"-artifact_prefix={found}/",
             "-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"],
            cwd=target.crate, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds + BUILD_SECONDS_MAX,
        )
        if done.returncode != 0:
            inputs = "\n".join(f"input {path.name}: {path.read_bytes().hex()}" for path in found.iterdir())
            raise Failure(f"{target.name}: exit status {done.returncode}\n{done.stderr[-3000:]}\n{inputs}")
    units = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    coverage = re.findall(r"cov: (\d+)", done.stderr)
    return f"{seconds} s, {units.group(1) if units else '?'} inputs, {coverage[-1] if coverage else '?'} edges"
