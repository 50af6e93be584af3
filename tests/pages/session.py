"""A shell in which the commands of a page run one after the other: in a folder, in namespaces of network, mounts and processes of its own.

Nothing of it outlives it. Root is root there, so that interfaces can be made; a normal user is who he is.
"""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import time
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure

from . import blocks

# Watchdog of one command.
SECONDS_MAX = 120 * PATIENCE
MARK = "\x01"
# Stacks have their control sockets in /run, and pages their results in /tmp.
INSIDE = "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /tmp && ip link set lo up && exec"
SHELL = ("bash", "--norc", "--noprofile")
# A normal user makes the namespaces by a user namespace, and then has no right in it.
ANY_USER = ("--user", "--map-current-user", "--keep-caps")
WITHOUT_RIGHTS = ("setpriv", "--ambient-caps=-all", "--inh-caps=-all")


class Session:
    """`tools`: folders before the PATH. `variables`: beside the usual."""

    def __init__(self, folder: Path, tools: list[Path], **variables: str) -> None:
        home = folder.parent / "home"
        home.mkdir()
        path = ":".join([*map(str, tools), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
        environment = {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        user, without = ((), ()) if os.geteuid() == 0 else (ANY_USER, WITHOUT_RIGHTS)
        inside = f"{INSIDE} {shlex.join((*without, *SHELL))}"
        words = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", inside]
        self._shell = subprocess.Popen(
            [paths.tool(words[0]), *words[1:]], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._said = ""
        self._number = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        # The shell is the first process of its namespace: when it ends, the others do.
        self._shell.stdin.close()
        try:
            self._shell.wait(SECONDS_MAX)
        finally:
            self._shell.kill()
            self._shell.stdout.close()

    def run(self, command: blocks.Command) -> None:
        """Runs it to its end, or into the background. Failure where it prints something else than is shown, or fails and nothing is shown."""
        self._number += 1
        begin = f"{MARK}{self._number} "
        # A background command stays this shell's child, and finds no input.
        text = f"eval {shlex.quote(command.text)} </dev/null; printf '\\n{begin}%d{MARK}\\n' $?\n"
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()
        self._read(lambda: begin in self._said and self._said.endswith(f"{MARK}\n"), command)
        said, _, rest = self._said.partition(begin)
        self._said = ""
        status = int(rest.split(MARK)[0])
        if not command.shown:
            if status:
                raise Failure(f"$ {command.text}\nends with {status}:\n{said[-2000:]}")
            return
        if command.stays:
            self._read(lambda: blocks.agrees(command.shown, said + self._said), command)
            self._said = ""
        elif not blocks.agrees(command.shown, said):
            raise Failure(f"$ {command.text}\nis shown with\n{_lines(command.shown)}\nand says\n{said[-3000:]}")

    def _read(self, is_enough, command: blocks.Command) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        output = self._shell.stdout.fileno()
        while not is_enough():
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(output, 65536) if ready else b""
            if not data:
                wanted = f"\nis shown with\n{_lines(command.shown)}" if command.shown else ""
                raise Failure(f"$ {command.text}{wanted}\n{'the shell has ended' if ready else 'is not at its end'}:\n{self._said[-3000:]}")
            self._said += data.decode(errors="replace")


def _lines(shown: tuple[str, ...]) -> str:
    return "\n".join(shown)
