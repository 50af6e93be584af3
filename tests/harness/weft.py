"""The command line of `weft` as the tests use it: everything they know of it is in this file.

    weft up [--set block.parameter=value]… --control PATH      in the namespace of the host side
    weft run [--strict] --control PATH -- PROGRAM…             in any other namespace
    weft show TABLE [--json] | get | set | bind | unbind --control PATH
    weft down --control PATH
    weft bridge --rate RATE [--loss P] [--delay T] [--seed N] packet:IF packet:IF

`weft up` and `weft bridge` print a line with "ready" on standard output when they are.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from . import paths
from .environment import Environment
from .namespaces import Namespace
from .processes import Failure, Process

# The default stack: the TAP `weft0`, the stack's address on it and the host's.
TAP = "weft0"
STACK = "10.77.0.2"
HOST = "10.77.0.1"
PREFIX_LENGTH = 24
STACK6 = "fd77::2"
HOST6 = "fd77::1"
PREFIX_LENGTH6 = 64

# The edges whose cut takes the transport protocols off the network.
TRANSPORT_EDGES = (("tcp:ip4", "ip4:upper"), ("udp:ip4", "ip4:upper"))
# The edges between the internet layer and the wire, or the loopback: without them nothing leaves.
LINK_EDGES = (("ip4:lower", "arp:upper"), ("ip4:loopback", "loopback:in"))


def ipv6_edges(edges: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The same edges on the IPv6 side of the graph."""
    names = {"ip4": "ip6", "arp": "nd", "loopback": "loopback6"}

    def port(words: str) -> str:
        block, name = words.split(":")
        return f"{names.get(block, block)}:{'ip6' if name == 'ip4' else name}"

    return tuple((port(upper), port(lower)) for upper, lower in edges)


def stack_file(name: str, interfaces: list[tuple[str, str]], default: str = "", host_side: str = "",
               interface_lines: tuple[str, ...] = (), backend: Callable[[str], str] = lambda interface: f"tap:{interface}") -> str:
    """A stack file: interfaces with an address with its prefix each, and a TAP of the same name unless `backend` says otherwise; `interface_lines`
    hold for each."""
    lines = ["[node]", f'name = "{name}"']
    for interface, address in interfaces:
        lines += ["[[interface]]", f'name = "{interface}"', f'backend = "{backend(interface)}"']
        if host_side:
            lines += [f'host_address = "{host_side}"']
        lines += interface_lines
        lines += ["[[address]]", f'interface = "{interface}"', f'address = "{address}"']
    if default:
        lines += ["[[route]]", 'destination = "default"', f'gateway = "{default}"']
    return "\n".join(lines) + "\n"


class NoBinary(Failure):
    """There is no `weft` to test."""


def binary() -> str:
    """The path of `weft`."""
    path = paths.weft_binary()
    if path is None:
        raise NoBinary(f"no weft at {paths.built() / 'weft'}: run make build, or set WEFT_BIN")
    return str(path)


def engine_words() -> list[str]:
    """The engine that ENGINE names (inline, queued, threaded), as options for a command that brings a stack up."""
    engine = os.environ.get("ENGINE")
    return ["--engine", engine] if engine else []


def strict_words() -> list[str]:
    """With STRICT=1 programs run in the loader, in real time (`weft run --strict`)."""
    return ["--strict"] if os.environ.get("STRICT") else []


def run_words() -> list[str]:
    """`weft run` on the engine that ENGINE names, and with STRICT=1 under the loader."""
    return [binary(), "run", *engine_words(), *strict_words()]


class Daemon:
    """A running `weft up` with the default stack, its TAP in `namespace` (None: where the test itself runs); `before`: words before it there, as those
    that make it a normal user's."""

    def __init__(self, env: Environment, namespace: Namespace | None, settings: dict[str, str] | None = None,
                 name: str = "weft", extra: tuple[str, ...] = (), before: Sequence[str] = ()) -> None:
        self._env = env
        self._weft = binary()
        self.control = env.folder / f"{name}.sock"
        options = [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
        self.namespace = namespace
        self._before = list(before)
        words = [*self._before, self._weft, "up", *engine_words(), "--control", str(self.control), *options, *extra]
        self.process = env.start(f"{Path(name).name}-up", words, namespace)
        self.process.wait_for_line("ready control=")

    @property
    def host_side(self) -> list[str]:
        """Words before a command that runs it on the host's side of the stack's interface.

        Where no TAP can be opened, weft moves into a user and network namespace of its own, whose kernel is then the
        peer. The process that did so is the daemon or a child of it.
        """
        words = host_side(self.process.pid, self.namespace)
        if words is None:
            raise Failure(f"no namespace of the daemon has the host's address {HOST}")
        return words

    def run_words(self, *options: str) -> list[str]:
        """Words before a program that put it on this stack."""
        return [self._weft, "run", *strict_words(), "--control", str(self.control), *options, "--"]

    def command(self, *words: str, timeout_s: float = 10) -> str:
        """Runs a control command (`show counters`, `unbind …`) and returns what it prints."""
        verb, *rest = words
        return self._env.run(f"weft-{verb}", [*self._before, self._weft, verb, *rest, "--control", str(self.control)],
                             self.namespace, timeout_s)

    def show(self, table: str) -> object:
        """A table of `weft show` as data."""
        return json.loads(self.command("show", table, "--json"))

    def unbind(self, edges: tuple[tuple[str, str], ...]) -> None:
        for upper, lower in edges:
            self.command("unbind", upper, lower)

    def bind(self, edges: tuple[tuple[str, str], ...]) -> None:
        for upper, lower in edges:
            self.command("bind", upper, lower)

    def down(self) -> None:
        """`weft down`: the daemon ends by itself, with status 0."""
        self.command("down")
        if status := self.process.wait(10):
            raise Failure(f"the daemon ended with status {status} after weft down")

    def listening(self, port: int, protocol: str) -> bool:
        """Whether the stack has a listening (TCP) or bound (UDP) socket on `port`."""
        # The stack is asked without Environment.run: many answers of a wait would fill the failure's text.
        run = subprocess.run([*self._before, self._weft, "show", "sockets", "--json", "--control", str(self.control)],
                             capture_output=True, text=True, timeout=10, env=self._env.variables())
        rows = json.loads(run.stdout) if run.returncode == 0 else []
        states = ("LISTEN",) if protocol == "tcp" else ("UNCONN", "ESTAB")
        return any(row["proto"] == protocol and row["state"] in states and row["local"].endswith(f":{port}")
                   for row in rows)

    def wait_listening(self, server: Process, port: int, protocol: str = "tcp", timeout_s: float = 15) -> None:
        server.wait_for(lambda: self.listening(port, protocol), f"listening on {protocol} {port}", timeout_s)


def host_side(weft_pid: int, namespace: Namespace | None) -> list[str] | None:
    """Words that lead to the host's side of the stack of a weft that was started in `namespace`; None: it is not there (yet)."""
    for pid in [weft_pid, *_descendants(weft_pid)]:
        if _has_address(pid, HOST):
            own = namespace.path if namespace else Path("/proc/self/ns/net")
            if os.stat(f"/proc/{pid}/ns/net").st_ino != own.stat().st_ino:
                return enter(pid)
            return namespace.prefix if namespace else []
    return None


def bridge(env: Environment, namespace: Namespace, interfaces: tuple[str, str], rate: str,
           impairment: dict[str, str], seed: int = 1, scheme: str = "packet") -> Process:
    """A `weft bridge` between two interfaces of `namespace`, which it makes itself where `scheme` says so (tap, tun)."""
    options = [word for key, value in impairment.items() for word in (f"--{key}", value)]
    process = env.start("bridge", [
        binary(), "bridge", "--rate", rate, *options, "--seed", str(seed), *(f"{scheme}:{name}" for name in interfaces),
    ], namespace)
    process.wait_for_line("ready")
    return process


def enter(pid: int) -> list[str]:
    """Words that run a command in the user and network namespace of `pid`."""
    return [paths.tool("nsenter"), f"--target={pid}", "--user", "--net", "--preserve-credentials", "--"]


def _has_address(pid: int, address: str) -> bool:
    """Whether the kernel of `pid`'s network namespace has `address` as its own."""
    try:
        trie = Path(f"/proc/{pid}/net/fib_trie").read_text()
    except OSError:
        return False
    return re.search(rf"-- {re.escape(address)}\n\s+/32 host LOCAL", trie) is not None


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [found for child in children for found in (int(child), *_descendants(int(child)))]
