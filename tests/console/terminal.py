"""The console at a terminal: what a person sees who completes words, looks back, changes their mind and leaves."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

from harness.processes import Failure

from .stack import SECONDS_MAX, Stack

PROMPT = "weft> "
UP, TAB, ENTER, CTRL_C, CTRL_D = "\x1b[A", "\t", "\r", "\x03", "\x04"
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>])|\r")


class Terminal:
    """A console at a pseudo-terminal."""

    def __init__(self, stack: Stack, *options: str) -> None:
        self.leader, follower = pty.openpty()
        self.child = subprocess.Popen(stack.command("console", *options), cwd=stack.folder, env=stack.environment, stdin=follower,
                                      stdout=follower, stderr=follower, start_new_session=True)
        os.close(follower)
        self.seen = ""
        self.wait(PROMPT)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.leader)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.leader], [], [], seconds)[0]:
            return False
        try:
            said = os.read(self.leader, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += ESCAPES.sub("", said.decode(errors="replace"))
        return bool(said)

    def wait(self, text: str) -> None:
        """Until this is on the screen; what was before it is forgotten."""
        deadline = time.monotonic() + SECONDS_MAX
        while text not in self.seen:
            if not self._read(1) and (self.child.poll() is not None or time.monotonic() > deadline):
                raise Failure(f"{text!r} does not come; there is {self.seen!r}")
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def type(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    def ends(self) -> int:
        while self._read(SECONDS_MAX):
            pass
        return self.child.wait(timeout=SECONDS_MAX)


def completion(stack: Stack) -> str:
    with Terminal(stack) as terminal:
        for keys, whole, answer in (("ge" + TAB + " tcp.ms" + TAB, "get tcp.mss", "tcp.mss = 0"),
                                    ("show pub" + TAB, "show published", "(nothing)"),
                                    ("add wan del" + TAB + " del" + TAB + "20ms", "add wan delay delay=20ms", "add wan delay"),
                                    ("ins" + TAB + " w" + TAB + " ether:lo" + TAB + " inter" + TAB + ":upp" + TAB,
                                     "insert wan ether:lower interfaces:upper", "wan:out -> interfaces:upper")):
            terminal.type(keys)
            terminal.wait(whole)
            terminal.type(ENTER)
            terminal.wait(answer)
            terminal.wait(PROMPT)
        terminal.type("un" + TAB + TAB)
        for word in ("unbind", "unpause", "unsubscribe"):
            terminal.wait(word)
    return "commands, blocks, ports, parameters and kinds"


def history(stack: Stack) -> str:
    with Terminal(stack) as terminal:
        terminal.type("get tcp.mss" + ENTER)
        terminal.wait("tcp.mss = 0")
        terminal.wait(PROMPT)
        terminal.type(UP + ENTER)
        terminal.wait("tcp.mss = 0")
        terminal.wait(PROMPT)
        terminal.type("get udp" + CTRL_C)
        terminal.wait(PROMPT)
        terminal.type(CTRL_D)
        if terminal.ends() != 0:
            raise Failure("ctrl-D is no failure")
    with Terminal(stack) as terminal:
        terminal.type(UP)
        terminal.wait("get tcp.mss")
        terminal.type(ENTER)
        terminal.wait("tcp.mss = 0")
    return "also of the last time; a line that was cleared is none"


def change_of_mind(stack: Stack) -> str:
    with Terminal(stack) as terminal:
        terminal.type("delete tcp" + CTRL_C)
        terminal.wait(PROMPT)
        terminal.type("isnert" + ENTER)
        terminal.wait("there is no command 'isnert'; did you mean 'insert'?")
        terminal.wait(PROMPT)
        terminal.type("get tcp.mss" + ENTER)
        terminal.wait("tcp.mss = 0")
        terminal.wait(PROMPT)
        for _ in range(2):
            terminal.type(CTRL_C)
            terminal.wait(PROMPT)
        terminal.type(CTRL_D)
        if terminal.ends() != 0:
            raise Failure("a line that was refused is no failure at a terminal")
    return "ctrl-C clears the line and ends nothing"


def news(stack: Stack) -> str:
    with Terminal(stack) as terminal:
        terminal.type("subscribe tcp" + ENTER)
        terminal.wait(PROMPT)
        terminal.type("get tc")
        terminal.wait("get tc")
        if stack.said("set", "tcp.mss", "536").returncode != 0:
            raise Failure("set")
        terminal.wait("set tcp.mss 536")
        terminal.type("p.mss" + ENTER)
        terminal.wait("tcp.mss = 536")
        terminal.wait(PROMPT)
        terminal.type("unsubscribe" + ENTER)
        terminal.wait(PROMPT)
        stack.said("set", "tcp.mss", "537")
        terminal.type("get tcp.mss" + ENTER)
        terminal.wait(PROMPT)
        if "set tcp.mss 537" in terminal.seen:
            raise Failure("it goes on telling")
    return "between the letters of a line that is being typed"


def end_of_the_stack(stack: Stack) -> str:
    with Terminal(stack) as terminal:
        stack.daemon.kill()
        stack.daemon.wait()
        terminal.type("get tcp.mss" + ENTER)
        terminal.wait("the weft daemon went away")
        if terminal.ends() != 2:
            raise Failure("the status is another")
    return "says so and ends with status 2"
