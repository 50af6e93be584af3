"""Node's own tests (of Debian's sources), those about sockets, processes and what they talk through: one program each, in the installed node."""

from __future__ import annotations

import re
from pathlib import Path

from harness import paths

from . import debian
from .suite import SKIPPED, Ended, Suite, run

PARTS = ("net", "tcp", "dgram", "dns", "pipe", "cluster", "child-process", "signal", "stdin", "stdout", "stdio")
FLAGS = re.compile(r"^// Flags: (.*)$", re.M)
SKIP = re.compile(r"^1\.\.0 # Skipped: ", re.M)


def verdicts(unit: str, ended: Ended) -> dict[str, str]:
    return {unit: SKIPPED if ended.status == 0 and SKIP.search(ended.text) else ended.verdict()}


def flags(file: Path) -> list[str]:
    """What a test wants its node to be started with."""
    return [flag for line in FLAGS.findall(file.read_text(errors="replace")) for flag in line.split()]


def suite() -> Suite:
    node = paths.tool("node")
    source, version = debian.unpacked("nodejs", "*/test/common/*", "*/test/fixtures/*", "*/test/parallel/*")
    parallel = source / "test" / "parallel"
    part = re.compile(rf"test-(?:{'|'.join(PARTS)})-.*\.m?js")
    units = tuple(sorted(file.name for file in parallel.iterdir() if part.fullmatch(file.name)))
    installed = run([node, "--version"], parallel, PATH="/usr/bin:/bin").strip().removeprefix("v")
    return Suite(
        name="node",
        what=f"node {installed}, by the tests of {version.split('+')[0]}",
        units=units,
        command=lambda unit: [node, *flags(parallel / unit), str(parallel / unit)],
        verdicts=verdicts,
        # Its tests make a folder below this one.
        variables={"NODE_TEST_DIR": "."},
    )


def suites() -> dict:
    return {"node": suite}
