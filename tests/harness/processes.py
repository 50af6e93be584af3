"""Processes of a test: started in a process group of their own, watched, and always ended.

Timeouts are watchdogs: they end a test that hangs, they never decide whether a result is right.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

LINES_SHOWN = 12
# How much longer watchdogs wait, where others have most of the processors: `make test-under-load` says so.
PATIENCE = float(os.environ.get("WEFT_PATIENCE", "1"))


class Failure(Exception):
    """A test did not get what it wanted. The text is for a person: what was wanted, what came, the last output."""


class Process:
    """A running program with its output in files."""

    def __init__(self, name: str, argv: list[str], folder: Path, environment: dict[str, str],
                 cwd: Path | None = None, stdin: Path | None = None) -> None:
        self.name = name
        self.argv = argv
        self.stdout_path = folder / f"{name}.out"
        self.stderr_path = folder / f"{name}.err"
        with self.stdout_path.open("wb") as out, self.stderr_path.open("wb") as err, \
                open(stdin or os.devnull, "rb") as source:
            self._popen = subprocess.Popen(
                argv, cwd=cwd or folder, env=environment, stdin=source, stdout=out, stderr=err, start_new_session=True,
            )
        self.pid = self._popen.pid
        # Its group has no member any more: from then on the number may be anybody's.
        self._group_is_gone = False

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def status(self) -> int | None:
        return self._seen(self._popen.poll())

    def _seen(self, status: int | None) -> int | None:
        """Looks, as soon as it has ended, whether it has left others in its group, who keep the number taken."""
        if status is not None and not self._group_is_gone:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._group_is_gone = True
            except PermissionError:
                pass
        return status

    @property
    def stdout(self) -> str:
        return self.stdout_path.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def wait(self, timeout_s: float) -> int:
        """The exit status; Failure when the watchdog ends first (the process goes on running)."""
        timeout_s *= PATIENCE
        try:
            return self._seen(self._popen.wait(timeout_s))
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} still ran after {timeout_s:g} s") from None

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = 15) -> None:
        """Waits until `condition` holds; Failure when the process ends before or the watchdog does."""
        timeout_s *= PATIENCE
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.running:
                if condition():
                    return
                raise Failure(f"{self.name} ended with status {self.status} before it was {what}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} was not {what} within {timeout_s:g} s")
            time.sleep(0.01)

    def wait_for_line(self, text: str, timeout_s: float = 15) -> str:
        """The first line of standard output that holds `text`, when all of it is there: a program may write it in pieces."""
        found: list[str] = []

        def is_there() -> bool:
            ended = not self.running
            lines = self.stdout.splitlines(keepends=True)
            found[:] = [line for line in lines if text in line and (line.endswith("\n") or ended)]
            return bool(found)

        self.wait_for(is_there, f"printing '{text}'", timeout_s)
        return found[0].rstrip("\n")

    def kill_group(self, number: int) -> None:
        if self._group_is_gone:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def stop(self, grace_s: float = 3.0) -> int:
        """Ends the whole process group: SIGTERM, and SIGKILL after `grace_s`. Returns the exit status."""
        self.kill_group(signal.SIGTERM)
        try:
            self._seen(self._popen.wait(grace_s))
        except subprocess.TimeoutExpired:
            pass
        self.kill_group(signal.SIGKILL)
        return self._seen(self._popen.wait())

    def describe(self, lines: int = LINES_SHOWN) -> str:
        """Name, state and last lines of output, for a failure's text."""
        state = "running" if self.running else f"status {self.status}"
        text = [f"{self.name} ({state}): {' '.join(self.argv)[:300]}"]
        for label, path in (("out", self.stdout_path), ("err", self.stderr_path)):
            for line in tail(path, lines):
                text.append(f"  {label}| {line[:300]}")
        return "\n".join(text)


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a file that may be large."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        return file.read().decode(errors="replace").splitlines()[-lines:]


def listening(pid: int, port: int, protocol: str = "tcp") -> bool:
    """Whether the kernel of `pid`'s network namespace has a listening (TCP) or bound (UDP) socket on `port`."""
    wanted_state = "0A" if protocol == "tcp" else "07"
    for table in (protocol, protocol + "6"):
        try:
            text = Path(f"/proc/{pid}/net/{table}").read_text()
        except OSError:
            continue
        for line in text.splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rsplit(":", 1)[1], 16) == port and fields[3] == wanted_state:
                return True
    return False


def snmp(pid: int) -> dict[str, int]:
    """Kernel counters of `pid`'s network namespace, named as nstat names them (TcpActiveOpens, UdpOutDatagrams, …)."""
    counters: dict[str, int] = {}
    lines = Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2]):
        prefix = names.split(":")[0]
        for name, value in zip(names.split()[1:], values.split()[1:]):
            counters[prefix + name] = int(value)
    return counters


def snmp6(pid: int) -> dict[str, int]:
    """The same of IPv6 (Udp6OutDatagrams, Icmp6OutEchos, …); empty where the kernel has no IPv6."""
    try:
        lines = Path(f"/proc/{pid}/net/snmp6").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, value in (line.split() for line in lines)}
