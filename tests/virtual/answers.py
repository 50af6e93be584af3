"""Calls whose answers the host's kernel decides: answers.c makes them natively and in a node, and prints what came of them. No line may differ."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure

from .shared import SECONDS_MAX, USUAL_SIGNALS, keys, program, section

SOURCE = Path(__file__).parent / "answers.c"
CASES = ("whole", "all of it", "limits", "several", "users", "locks", "epolls", "places", "processor")
# Natively they need root.
OF_ROOT = {"users"}


def same(folder: Path, binary: Path, case: str) -> str:
    if case in OF_ROOT and os.geteuid() != 0:
        return "root would be needed natively"
    command = folder / "answers"
    if not command.exists():
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", str(command), str(SOURCE), "-pthread"], check=True, timeout=SECONDS_MAX)
    native = subprocess.run([*USUAL_SIGNALS, str(command), case], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL).stdout.splitlines()
    (folder / "answers.toml").write_text(keys(duration="60s") + section("nodes.a") + program("answers", "a", str(command), case))
    out = folder / "answers-out"
    done = subprocess.run([str(binary), "sim", str(folder / "answers.toml"), "--out", str(out)], capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL)
    virtual = (out / "programs" / "answers" / "stdout").read_text().splitlines()
    if not native or native != virtual:
        lines = [f"natively {one!r}, in a node {two!r}" for one, two in zip(native, virtual) if one != two]
        raise Failure("\n".join([*lines, f"{len(native)} lines natively, {len(virtual)} in a node", done.stderr[-800:]]))
    return f"{len(native)} answers"


def rows(folder: Path, binary: Path) -> dict[str, Callable[[Path], str]]:
    return {f"answers/{case}": (lambda _, case=case: same(folder, binary, case)) for case in CASES}
