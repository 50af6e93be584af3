"""A stack that ends: `weft down` waits until it has."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from harness.processes import Failure

from .stack import SECONDS_MAX, Stack

TIMES = 6


def told(stack: Stack, status: int, *parts: str, words: tuple[str, ...]) -> None:
    done = stack.said(*words)
    if done.returncode != status or any(part not in done.stderr for part in parts):
        raise Failure(f"weft {' '.join(words)}: {done.returncode}, {done.stdout}{done.stderr}")


def down_and_up(stack: Stack) -> str:
    """`down` comes back when there is nothing left: the next `up` finds its place."""
    for _ in range(TIMES):
        told(stack, 0, words=("down",))
        if stack.daemon.poll() is None:
            raise Failure("the stack has not ended yet")
        stack.__exit__()
        stack.__enter__()
    return f"{TIMES} times"


def down_twice(stack: Stack) -> str:
    """Whoever comes too late hears that there is none."""
    both = [subprocess.Popen(stack.command("down"), cwd=stack.folder, env=stack.environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [(one.communicate(timeout=SECONDS_MAX)[1], one.returncode) for one in both]
    late = [text for text, status in said if status != 0]
    if len(late) > 1 or any("has ended meanwhile" not in text and "no weft answers" not in text for text in late):
        raise Failure(f"{said}")
    told(stack, 2, "no weft answers at", "weft up", words=("down",))
    return f"{len(late)} came too late"


ROWS: dict[str, Callable[[Stack], str]] = {
    "ends/down and up": down_and_up,
    "ends/down twice": down_twice,
}
