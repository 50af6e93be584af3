"""One row a table of commands, and one for each thing that a person does at a terminal. Untimed; the short form is the full one."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Callable

from harness import paths
from harness.environment import run_main
from load.rows import Rows

from . import ends, meant, schema, shells, terminal, width, words
from .stack import Stack

ROWS: dict[str, Callable[[Stack], str]] = {
    "words/own": lambda stack: words.script(stack, "own", words.OWN),
    "words/fins": lambda stack: words.script(stack, "fins", words.FINS, "--fins"),
    "words/lana": lambda stack: words.script(stack, "lana", words.LANA, "--lana"),
    "words/schema": schema.of_tables,
    "terminal/completion": terminal.completion,
    "terminal/history": terminal.history,
    "terminal/ctrl-c": terminal.change_of_mind,
    "terminal/subscribe": terminal.news,
    "terminal/the stack ends": terminal.end_of_the_stack,
    **width.ROWS,
    **shells.ROWS,
    **ends.ROWS,
    **meant.ROWS,
}


def in_folder(body: Callable[[Stack], str]) -> str:
    with tempfile.TemporaryDirectory(prefix="weft-console-") as folder, Stack(Path(folder)) as stack:
        return body(stack)


def main() -> int:
    rows = Rows()
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    for name, body in ROWS.items():
        if not wanted or any(word in name for word in wanted):
            rows.run(name, lambda body=body: in_folder(body))
    return rows.recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print(f"no weft at {paths.target_dir() / 'release' / 'weft'}: run make build, or set WEFT_BIN")
        sys.exit(1)
    sys.exit(run_main(main))
