"""`weft exec` with a word too few: a node of a world without `--` before the program, a block without a procedure."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from harness.processes import Failure

from .ends import told
from .stack import SECONDS_MAX, Stack

WORLD = 'duration = "1000s"\n[nodes.alice]\n[nodes.bob]\n'


def no_procedure(stack: Stack) -> str:
    told(stack, 2, "'tcp' is a block: name the procedure behind it; there are: control", "weft help block tcp", words=("exec", "tcp"))
    told(stack, 2, "'ether' is a block, and its kind (ether) has no procedures", words=("exec", "ether"))
    return "two blocks"


def no_dashes(stack: Stack) -> str:
    """A program in a node, and `--` forgotten: with a stack beside the world, and without."""
    (stack.folder / "world.toml").write_text(WORLD)
    world = subprocess.Popen(stack.command("sim", "world.toml", "--pace", "1.0"), cwd=stack.folder, env=stack.environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not list(stack.folder.glob("weft/sim-*")):
            if time.monotonic() > deadline:
                raise Failure("the world has no socket")
            time.sleep(0.05)
        said = ("'alice' is a node of a world that runs: write -- before the program", "help: weft exec alice -- bash here")
        told(stack, 2, *said, words=("exec", "alice", "bash", "here"))
        told(stack, 2, "there is no block named 'carol'", words=("exec", "carol", "bash"))
        told(stack, 0, words=("down",))
        told(stack, 2, *said, words=("exec", "alice", "bash", "here"))
    finally:
        world.terminate()
        world.wait(SECONDS_MAX)
    return "with a stack, and without"


ROWS: dict[str, Callable[[Stack], str]] = {"exec/no procedure": no_procedure, "exec/no dashes": no_dashes}
