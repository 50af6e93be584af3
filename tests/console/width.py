"""What is printed on terminals of some sizes: help and tables fit, nothing is coloured that is not to be, and what is no terminal gets all of it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unicodedata
from collections.abc import Mapping

from harness.processes import Failure

from .stack import SECONDS_MAX, Stack

ROWS_HIGH = 24
COLUMNS = (40, 80, 100, 200)
# Of 40 columns less what examples are moved in; a word or an example of a command line may be longer.
EXCUSED = 8
# With --pace 1.0 longer than it takes until progress is shown.
WORLD = '[nodes.a]\n[nodes.b]\n[wires.ab]\nbetween = ["a", "b"]\n[programs.p]\nnode = "a"\nbuiltin = "ping"\nto = "b"\ncount = 150\ninterval = "10ms"\n'


def at_terminal(stack: Stack, columns: int, *words: str, variables: Mapping[str, str] | None = None, status: int = 0) -> str:
    """What a command prints at a terminal of so many columns, raw, standard error with it."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS_HIGH, columns, 0, 0))
    # Lines end as they are written.
    attributes = termios.tcgetattr(follower)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(follower, termios.TCSANOW, attributes)
    clean = {key: value for key, value in stack.environment.items() if key not in ("NO_COLOR", "COLUMNS")}
    child = subprocess.Popen(stack.command(*words), cwd=stack.folder, env={**clean, **(variables or {})}, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower)
    os.close(follower)
    said = b""
    try:
        while piece := os.read(leader, 65536):
            said += piece
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(leader)
    if child.wait(timeout=SECONDS_MAX) != status:
        raise Failure(f"{words}: status {child.returncode}: {said.decode(errors='replace')}")
    return said.decode()


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def counted(text: str) -> list[str]:
    """The words of a table, with a sign for what goes on meanwhile."""
    return re.sub(r"\d+", "N", text).split()


def longer(text: str, columns: int) -> list[str]:
    return [line for line in text.splitlines() if width(line) > columns]


def help_fits(stack: Stack) -> str:
    counted = 0
    for columns in COLUMNS:
        for topic in ("", "sim", "run", "show", "stack", "scenario", "root", "blocks", "block tcp", "block interfaces"):
            said = at_terminal(stack, columns, "help", *topic.split())
            # What cannot be parted is as long as it is: usage, names, and code of examples.
            whole = [line for line in longer(said, columns) if " = " not in line and "Usage:" not in line and len(line.split()) > EXCUSED]
            if whole:
                raise Failure(f"weft help {topic} at {columns} columns: {whole[0]!r}")
            counted += said.count("\n")
    narrow, wide = at_terminal(stack, 60, "help", "scenario"), at_terminal(stack, 200, "help", "scenario")
    if narrow.count("\n") <= wide.count("\n"):
        raise Failure("a narrow terminal has as many lines as a wide one")
    piped = stack.said("help", "stack").stdout
    # A remark that goes on has its sign again.
    if "".join(piped.replace("#", "").split()) != "".join(at_terminal(stack, 60, "help", "stack").replace("#", "").split()):
        raise Failure("a pipe and a terminal say other things")
    return f"{counted} lines on terminals of {', '.join(map(str, COLUMNS))} columns"


def tables_fit(stack: Stack) -> str:
    cut = 0
    for what in ("blocks", "edges", "interfaces", "counters"):
        whole = stack.said("show", what).stdout
        for columns in COLUMNS:
            said = at_terminal(stack, columns, "show", what)
            if longer(said, columns) or said.count("\n") != whole.count("\n"):
                raise Failure(f"show {what} at {columns} columns:\n{said}")
            if ("…" in said) != (counted(said) != counted(whole)):
                raise Failure(f"show {what} at {columns} columns: what is cut is not marked:\n{said}")
            cut += "…" in said
        if "…" in whole or counted(at_terminal(stack, 40, "show", what, "--wide")) != counted(whole):
            raise Failure(f"show {what}: --wide does not show all")
    # Names stand in the first column: they are what one looks for.
    if not all(name in at_terminal(stack, 80, "show", "blocks") for name in ("interfaces", "loopback6", "sockets")):
        raise Failure("names of blocks are cut")
    longest = max(map(width, stack.said("show", "blocks").stdout.splitlines()))
    return f"{cut} tables cut; show blocks is {longest} columns wide elsewhere"


def without_colour(stack: Stack) -> str:
    """Colours and lines that are written over, on a terminal that takes them; none on others."""
    wrong = ("shwo",)
    lively = at_terminal(stack, 80, *wrong, status=2)
    if "\x1b[" not in lively:
        raise Failure(f"a terminal gets no colours: {lively!r}")
    (stack.folder / "world.toml").write_text(WORLD)
    for name, variables in {"NO_COLOR": {"NO_COLOR": "1"}, "dumb": {"TERM": "dumb"}, "dumb in CI": {"TERM": "dumb", "CI": "true"}}.items():
        for words, status in ((wrong, 2), (("check", "nothing.toml"), 2), (("help", "block", "tcp"), 0), (("show", "blocks"), 0)):
            if "\x1b" in (said := at_terminal(stack, 80, *words, variables=variables, status=status)):
                raise Failure(f"{name}: {words}: {said!r}")
        logged = at_terminal(stack, 80, "show", "blocks", variables={**variables, "WEFT_LOG": "trace"})
        if "\x1b" in logged:
            raise Failure(f"{name}: the log is coloured: {logged[:200]!r}")
    run = ("sim", "world.toml", "--pace", "1.0")
    if "\r" not in (said := at_terminal(stack, 80, *run)):
        raise Failure(f"no progress is shown: {said!r}")
    if "\r" in (said := at_terminal(stack, 80, *run, variables={"TERM": "dumb"})) or "\x1b" in said:
        raise Failure(f"a dumb terminal is written over: {said[:300]!r}")
    return "errors, log, help, tables and progress"


ROWS = {"width/help": help_fits, "width/tables": tables_fit, "width/colours": without_colour}
