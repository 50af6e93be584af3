"""Where load runs: the kernel peer and the daemon in namespace S, the programs under weft in P, and what is measured there."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Callable

from harness import paths, weft
from harness.environment import MARK, Environment
from harness.processes import Failure, Process, snmp

HERE = Path(__file__).parent
FIRST_PORT, PORTS = 5000, 8
# Watchdogs.
SECONDS_MAX, SETTLE_SECONDS_MAX = 600, 150
ROLES = ("server", "client")
# Counters of P's kernel that move only when a program used it.
SILENT = ("TcpActiveOpens", "TcpPassiveOpens", "TcpOutSegs")


def build(env: Environment, name: str, folder: Path = HERE) -> str:
    """Compiles one of the C programs beside this file, or of another folder."""
    output = env.folder / name
    env.run("cc", [paths.tool("cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(output), str(folder / f"{name}.c")])
    output.chmod(0o755)
    return str(output)


@dataclasses.dataclass(frozen=True)
class Tools:
    crowd: str
    flood: str


@dataclasses.dataclass(frozen=True)
class Held:
    """What a daemon and the processes of this test hold of the system."""

    descriptors: dict[str, int]
    mounts: frozenset[str]
    namespaces: frozenset[str]

    def differences(self, later: Held) -> list[str]:
        found = []
        for kind in sorted(self.descriptors.keys() | later.descriptors.keys()):
            before, after = self.descriptors.get(kind, 0), later.descriptors.get(kind, 0)
            if before != after:
                found.append(f"{before} descriptors of kind {kind} before, {after} after")
        found += [f"mount {path} is new" for path in sorted(later.mounts - self.mounts)]
        return found + [f"namespace {name} is new" for name in sorted(later.namespaces - self.namespaces)]


class Stage:
    """A daemon, and programs of one role under it."""

    def __init__(self, env: Environment, tools: Tools, settings: dict[str, str], extra: tuple[str, ...] = (),
                 prepare: Callable[[Stage], None] = lambda _: None) -> None:
        self.env, self.tools = env, tools
        self.kernel, self.program = env.namespace("s"), env.namespace("p")
        prepare(self)
        self.daemon = weft.Daemon(env, self.kernel, settings, extra=extra)
        # Where the kernel peer is; for a normal user not S, but a namespace that weft has made.
        self.peer = self.daemon.host_side
        # The kernel's own TIME-WAITs must not be what stops short connections in a row.
        for name, value in (("ip_local_port_range", "10000 65535"), ("tcp_tw_reuse", "1")):
            env.run("sysctl", ["sh", "-c", f"echo '{value}' > /proc/sys/net/ipv4/{name}"], self.peer)
        self._holder = env.start("p-holder", ["sleep", "infinity"], self.program)
        # Only then do what is held now and its counters mean P.
        self._holder.wait_for(lambda: self._holder.pid in self.program.pids() and _is_sleep(self._holder.pid, env.id), "in its namespace")
        self._files = 0

    def words(self, role: str, side: str) -> list[str]:
        """Words that lead to where the server or the client of a role runs."""
        return [*self.program.prefix, *self.daemon.run_words()] if role == side else self.peer

    @staticmethod
    def address(role: str) -> str:
        return weft.STACK if role == "server" else weft.HOST

    def serve(self, role: str) -> Process:
        server = self.env.start(f"serve-{role}", [self.tools.crowd, "serve", str(FIRST_PORT), str(PORTS)], self.words(role, "server"))
        server.wait_for_line("serving")
        return server

    def client(self, role: str, verb: str, *words: str) -> Process:
        argv = [self.tools.crowd, verb, self.address(role), str(FIRST_PORT), str(PORTS), *words]
        return self.env.start(f"{verb}-{role}", argv, self.words(role, "client"))

    def run_client(self, role: str, verb: str, *words: str) -> str:
        """Runs a client to its end; its last line. What went wrong it says itself."""
        return self.finish(self.client(role, verb, *words))

    @staticmethod
    def finish(client: Process) -> str:
        status = client.wait(SECONDS_MAX)
        last = (client.stdout.splitlines() or [""])[-1]
        if status != 0:
            raise Failure(f"{client.name} ended with status {status}: {last or client.stderr[-500:]}")
        return last

    def end_server(self, server: Process) -> None:
        """A server is there to be ended; that it ended before is a failure."""
        if not server.running:
            raise Failure(f"{server.name} ended with status {server.status}")
        server.stop()

    def flag(self) -> Path:
        """A file that does not exist yet: what clients wait for."""
        self._files += 1
        return self.env.folder / f"until-{self._files}"

    # ---- what is measured

    def memory_bytes(self) -> int:
        """Resident memory of the daemon."""
        return _memory_bytes(self.daemon.process.pid)

    def counters(self) -> dict[str, int]:
        """Those of tcp. Asked for without Environment.run: many answers would fill a failure's text."""
        words = [weft.binary(), "show", "counters", "--json", "--control", str(self.daemon.control)]
        run = subprocess.run(words, capture_output=True, text=True, timeout=30, env=self.env.variables())
        if run.returncode != 0:
            raise Failure(f"weft show counters: {run.stderr}")
        return next(row["counters"] for row in json.loads(run.stdout) if row["block"] == "tcp")

    def held(self) -> Held:
        pid = self.daemon.process.pid
        kinds: collections.Counter[str] = collections.Counter()
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                kinds[re.sub(r"\[\d+\]$", "", os.readlink(entry))] += 1
            except OSError:
                continue
        mounts = own_mounts(Path(f"/proc/{pid}/mountinfo").read_text())
        return Held(dict(kinds), frozenset(mounts), frozenset(_namespaces(self.env.id)))

    def check_silent(self) -> None:
        """The kernel of the programs' namespace sent and received nothing."""
        counters = snmp(self._holder.pid)
        if moved := {name: counters[name] for name in SILENT if counters[name]}:
            raise Failure(f"the kernel of the program's namespace took part: {moved}")
        if not self.daemon.process.running:
            raise Failure(f"the daemon ended with status {self.daemon.process.status}")

    def settle(self) -> int:
        """Waits until connections, TIME-WAITs and what they needed are gone; the memory that is left, bytes."""
        self.until(self._is_empty, "rid of its connections and TIME-WAITs")
        last = [0, 0.0]

        def is_steady() -> bool:
            memory, now = self.memory_bytes(), time.monotonic()
            if memory != last[0]:
                last[:] = [memory, now]
            return now - last[1] > 2

        self.until(is_steady, "steady in its memory")
        return self.memory_bytes()

    def _is_empty(self) -> bool:
        counters = self.counters()
        return not counters["CurrEstab"] and not counters["TCPTimeWaitNow"]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while not condition():
            if not self.daemon.process.running:
                raise Failure(f"the daemon ended with status {self.daemon.process.status}")
            if time.monotonic() > deadline:
                raise Failure(f"the daemon was not {what} within {SETTLE_SECONDS_MAX} s")
            time.sleep(0.1)


def own_mounts(table: str) -> set[str]:
    """Mount points that other tests on this machine, which has one mount namespace, have not made: theirs carry the number of their process,
    or hold a network namespace that is not ours."""
    own, found = f"weft-{os.getpid()}-", set()
    for line in table.splitlines():
        path = line.split()[4]
        others = "/netns/" in path or re.search(r"weft-[a-z-]*\d+", path)
        if own in path or not others:
            found.add(path)
    return found


def _memory_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Failure(f"process {pid} has no memory: it has ended")


def _is_sleep(pid: int, mark: str) -> bool:
    """Has it executed what it is to be? Before that, and for a moment then, its environment cannot be read, and so it would not be counted."""
    try:
        entry = Path("/proc", str(pid))
        return (entry / "comm").read_text() == "sleep\n" and f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes()
    except OSError:
        return False


def _namespaces(mark: str) -> set[str]:
    """Namespaces of all processes of this environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                    found |= {os.readlink(link) for link in (entry / "ns").iterdir()}
            except OSError:
                continue
    return found
