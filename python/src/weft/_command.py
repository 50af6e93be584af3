"""The command `weft`: where it is, and what it says."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Optional

from .errors import BinaryNotFound, ScenarioError, WeftError

# The oldest weft that has all that this package asks for.
OLDEST = (0, 1, 0)
HOW_TO_GET = "install a wheel that brings it, or build it with `make build` in weft's repository and put target/release into PATH, or name it in WEFT_BIN"
SCENARIO_WRONG, WALL_LIMIT = 2, 3
# How long weft may take to end once it has been told to, in seconds.
END_SECONDS_MAX = 30
# The script that ends weft where Python has died: its standard input ends then without a line.
GUARD = 'trap "" HUP INT TERM; read line || kill -INT "$0"'
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


def binary() -> str:
    """The path of `weft`: WEFT_BIN, that of this interpreter's environment (a wheel brings it along), or the first in PATH. BinaryNotFound where there is
    none, or one that is too old."""
    named = os.environ.get("WEFT_BIN")
    found = shutil.which(named) if named else shutil.which("weft", path=sysconfig.get_path("scripts")) or shutil.which("weft")
    if found is None:
        what = f"WEFT_BIN names {named}, which is no program" if named else "the command weft is not in PATH"
        raise BinaryNotFound(f"{what}: {HOW_TO_GET}")
    have = version(found)
    if have < OLDEST:
        told = [".".join(map(str, numbers)) for numbers in (have, OLDEST)]
        raise BinaryNotFound(f"{found} is weft {told[0]}, and {told[1]} is needed: {HOW_TO_GET}")
    return found


@lru_cache(maxsize=None)
def version(path: str) -> tuple[int, ...]:
    """What `weft --version` says."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL).stdout
    except OSError as error:
        raise BinaryNotFound(f"{path} cannot be run: {error.strerror}: {HOW_TO_GET}") from None
    numbers = re.match(r"weft (\d+)\.(\d+)\.(\d+)", said)
    if numbers is None:
        raise BinaryNotFound(f"{path} does not say which version of weft it is: {HOW_TO_GET}")
    return tuple(int(number) for number in numbers.groups())


def watched() -> bool:
    """Does somebody look: at a terminal, or in a notebook?"""
    python = sys.modules.get("IPython")
    return sys.stderr.isatty() or python is not None and getattr(python.get_ipython(), "kernel", None) is not None


def run(words: Sequence[str], progress: Optional[bool] = None, folder: Optional[str] = None) -> Done:
    """Runs `weft` (in a folder) to its end, and tells how it gets on where somebody looks (`progress`). ctrl-C ends it, too, and so
    does the end of Python."""
    told = watched() if progress is None else progress
    # weft has its line of progress for terminals only.
    ours, its = pty.openpty() if told else os.pipe()
    try:
        process = subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its, cwd=folder)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    said: list[str] = []
    listener = threading.Thread(target=_listen, args=(ours, said, sys.stderr if told else None), daemon=True)
    listener.start()
    try:
        with _guarded(process):
            stdout, _ = process.communicate()
    except BaseException:
        _end(process)
        raise
    listener.join()
    return Done(process.returncode, stdout.decode(errors="replace"), _last_of_lines("".join(said)))


@contextlib.contextmanager
def _guarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Nobody is left behind: a shell waits for the end of this Python, or of the block."""
    guard = subprocess.Popen(["sh", "-c", GUARD, str(process.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        guard.communicate(b"\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends weft, by force where it does not end or somebody presses ctrl-C again."""
    process.send_signal(signal.SIGINT)
    # What it still says is taken: in front of a full pipe it would sleep for ever.
    if process.stdout is not None and not process.stdout.closed:
        threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        process.wait(END_SECONDS_MAX)
    except BaseException as error:
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def _listen(descriptor: int, said: list[str], to: Optional[IO[str]]) -> None:
    """Takes what comes until nobody can write any more."""
    with open(descriptor, encoding="utf-8", errors="replace", newline="", buffering=1) as file:
        while True:
            try:
                text = os.read(file.fileno(), 65536).decode(errors="replace")
            except OSError:  # a pseudo-terminal that nobody has open
                return
            if not text:
                return
            said.append(text)
            if to is not None:
                to.write(text)
                to.flush()


def _last_of_lines(text: str) -> str:
    """Lines as they stand at the end: without what was written over."""
    lines = (_ESCAPES.sub("", line.rstrip("\r")).rsplit("\r", 1)[-1] for line in text.split("\n"))
    return "\n".join(lines).strip()


def checked(done: Done, fine: Sequence[int]) -> Done:
    """The same, when it ended with one of these statuses; else what it said is an error."""
    if done.status in fine:
        return done
    if done.status == SCENARIO_WRONG:
        raise ScenarioError(done.stderr)
    if done.status in (130, -signal.SIGINT):
        raise KeyboardInterrupt
    raise WeftError(f"weft ended with status {done.status}\n{done.stderr}")
