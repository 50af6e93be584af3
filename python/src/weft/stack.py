"""A stack in real time: `weft up` and `weft down` around a block of Python, and programs on it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Optional

from . import _command, _toml
from ._held import Held
from .errors import WeftError
from .world import PathLike

# How long a stack may take to end once it has been told to, in seconds.
DOWN_SECONDS_MAX = 20


class Stack:
    """A running stack, for programs to join.

        with Stack({"tcp.congestion": "bbr"}, nat=True) as stack:
            print(stack.run(["curl", "-s", "https://example.org/"]).stdout)

    `settings` are parameters of blocks over those of the stack file. `file` is a stack file; without one it is the default stack, on a TAP:
    that needs root, and a normal user gets a pair of interfaces in a namespace of weft's own. `options` are more words for `weft up`.
    """

    def __init__(self, settings: Optional[Mapping[str, Any]] = None, file: Optional[PathLike] = None, *, mptcp: bool = False, nat: bool = False,
                 publish: Sequence[str] = (), options: Sequence[str] = ()) -> None:
        words = [] if file is None else ["--stack", str(file)]
        words += [word for word, is_wanted in (("--mptcp", mptcp), ("--nat", nat)) if is_wanted]
        words += [word for port in publish for word in ("--publish", port)]
        self._words = [*words, *_set_words(settings or {}), *options]
        self._process: Optional[subprocess.Popen[str]] = None
        self._folder: Optional[Held] = None
        self._said: list[str] = []

    @property
    def control(self) -> Path:
        """The control socket, for `weft … --control`."""
        if self._folder is None:
            raise WeftError("the stack is not up: use it in `with Stack() as stack`")
        return self._folder.folder / "control"

    def __enter__(self) -> Stack:
        binary = _command.binary()
        self._folder = Held("weft-stack-")
        self._said = []
        words = [binary, "up", *self._words, "--control", str(self.control)]
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None and self._process.stderr is not None
        # What it says is read to its end: a full pipe would hold it up.
        threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True).start()
        if not any(line.startswith("ready") for line in iter(self._process.stdout.readline, "")):
            status = self._process.wait()
            self._clean()
            raise WeftError(f"weft up ended with status {status}\n{''.join(self._said).strip()}")
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            subprocess.run([_command.binary(), "down", "--control", str(self.control)], capture_output=True, stdin=subprocess.DEVNULL)
            try:
                process.wait(DOWN_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self._clean()

    def run(self, command: Sequence[str], *, strict: bool = False, check: bool = False, input: Optional[str] = None,
            timeout: Optional[float] = None) -> subprocess.CompletedProcess[str]:
        """Runs an unmodified program on the stack to its end (`timeout`: in seconds), and returns its status and output."""
        given: dict[str, Any] = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(self._run_words(command, strict), capture_output=True, text=True, check=check, timeout=timeout, **given)

    def start(self, command: Sequence[str], *, strict: bool = False, **options: Any) -> subprocess.Popen[str]:
        """Starts an unmodified program on the stack; `options` are those of `subprocess.Popen`."""
        return subprocess.Popen(self._run_words(command, strict), text=True, **options)

    def show(self, table: str) -> Any:
        """A table of `weft show` as data: "sockets", "routes", "counters", "drops" … "connections" are the sockets of TCP that have a peer."""
        if table == "connections":
            return [row for row in self.show("sockets") if row["proto"] == "tcp" and row["state"] != "LISTEN"]
        return json.loads(self.command("show", table, "--json"))

    def get(self, parameter: str) -> str:
        """The value of a parameter, such as "tcp.congestion"."""
        return self.command("get", parameter).partition(" = ")[2].strip()

    def set(self, parameter: str, value: Any) -> None:
        """Sets a parameter while programs use the stack."""
        self.command("set", parameter, _toml.value(value))

    def command(self, *words: str) -> str:
        """A command for the stack, in the words of the command line ("add", "wan", "delay", "delay=20ms"), and what it says."""
        given = [_command.binary(), words[0], *words[1:], "--control", str(self.control)]
        done = subprocess.run(given, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise WeftError(done.stderr.strip() or f"weft {words[0]} ended with status {done.returncode}")
        return done.stdout

    def _run_words(self, command: Sequence[str], strict: bool) -> list[str]:
        return [_command.binary(), "run", "--control", str(self.control), *(["--strict"] if strict else []), "--", *command]

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self._said.append(line)
        stream.close()

    def _clean(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._folder is not None:
            self._folder.remove()
        self._process = self._folder = None


def _set_words(settings: Mapping[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={_toml.value(value)}")]
