"""Calls whose answers the host's kernel decides: answers.c makes them natively and in a node, and prints what came of them. No line may differ."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .runs import Runs
from .shared import SECONDS_MAX, USUAL_SIGNALS, compiled, keys, program, section

SOURCE = Path(__file__).parent / "answers.c"
CASES = ("whole", "all of it", "limits", "several", "users", "locks", "epolls", "places", "processor", "paths", "settings", "splices", "listings")
# Natively they need root.
OF_ROOT = {"users", "settings"}
# What they change is a namespace's.
OF_NAMESPACE = {"settings"}


def same(runs: Runs, case: str) -> str:
    if case in OF_ROOT and os.geteuid() != 0:
        raise paths.MissingTool("only root may be another user natively; runs as root")
    command = compiled(SOURCE, runs.folder / "answers")
    apart = [paths.tool("unshare"), "--net"] if case in OF_NAMESPACE else []
    native = subprocess.run([*apart, *USUAL_SIGNALS, str(command), case], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL).stdout.splitlines()
    _, out = runs.run(keys(duration="60s") + section("nodes.a") + program("answers", "a", str(command), case))
    virtual = (out / "programs" / "answers" / "stdout").read_text().splitlines()
    if not native or native != virtual:
        lines = [f"natively {one!r}, in a node {two!r}" for one, two in zip(native, virtual) if one != two]
        raise Failure("\n".join([*lines, f"{len(native)} lines natively, {len(virtual)} in a node"]))
    return f"{len(native)} answers"


def rows(runs: Runs) -> dict[str, Callable[[Path], str]]:
    return {f"answers/{case}": (lambda _, case=case: same(runs, case)) for case in CASES}
