"""The stack under the demo's curl, and the places around it.

`WeftStack` is the real one. `NativeStack` lets the harness run the whole demo without weft: the kernel of a second
namespace behind a veth pair, whose MSS and cut are done with `ip`.
"""

from __future__ import annotations

import os

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Process, snmp
from harness.weft import HOST, STACK


class WeftStack:
    """A daemon, the words that lead to its host side, and the words that run a program on it.

    As root both sides are namespaces of the test. A normal user starts weft as it is: it makes its own user and network
    namespace, and so does the program's place.
    """

    def __init__(self, env: Environment, settings: dict[str, str]) -> None:
        root = os.geteuid() == 0
        namespace: Namespace | None = env.namespace("kernel") if root else None
        self._daemon = weft.Daemon(env, namespace, settings)
        self.said = self._daemon.process.stderr.strip().splitlines()
        self.host_words = self._daemon.host_side
        # A process that only holds the program's namespace: its counters are read through it.
        if root:
            place = env.namespace("program")
            self._holder = env.start("holder", ["sleep", "infinity"], place)
            words = place.prefix
        else:
            self._holder = env.start("holder", [paths.tool("unshare"), "--user", "--map-root-user", "--net", "sh", "-c",
                                                "echo there; exec sleep infinity"])
            self._holder.wait_for_line("there")
            words = weft.enter(self._holder.pid)
        self.program_words = [*words, *self._daemon.run_words()]

    def cut(self) -> str:
        self._daemon.unbind(weft.TRANSPORT_EDGES[:1])
        return "weft unbind tcp:ip4 ip4:upper"

    def mend(self) -> str:
        self._daemon.bind(weft.TRANSPORT_EDGES[:1])
        return "weft bind tcp:ip4 ip4:upper"

    def tcp_counters(self) -> list[str]:
        """The lines of `weft show counters` that are TCP's and not zero."""
        lines = self._daemon.command("show", "counters").splitlines()
        return [line.rstrip() for line in lines if line.lstrip().startswith("tcp") and not line.rstrip().endswith(" 0")]

    def kernel_counters(self) -> dict[str, int]:
        """What the kernel of the program's namespace counted."""
        return snmp(self._holder.pid)

    def down(self) -> None:
        self._daemon.down()


class NativeStack:
    """See the module. Offers what WeftStack does."""

    def __init__(self, env: Environment, settings: dict[str, str]) -> None:
        kernel, self._program = env.namespace("kernel"), env.namespace("program")
        veth((kernel, weft.TAP), (self._program, "eth0"))
        kernel.ip("address", "add", f"{HOST}/24", "dev", weft.TAP)
        self._program.ip("address", "add", f"{STACK}/24", "dev", "eth0")
        if mss := settings.get("tcp.mss"):
            self._program.ip("route", "replace", "10.77.0.0/24", "dev", "eth0", "advmss", mss)
        self.said: list[str] = []
        self.host_words = kernel.prefix
        self.program_words = self._program.prefix
        self._holder: Process = env.start("holder", ["sleep", "infinity"], self._program)

    def cut(self) -> str:
        self._program.ip("link", "set", "eth0", "down")
        return "ip link set eth0 down"

    def mend(self) -> str:
        self._program.ip("link", "set", "eth0", "up")
        return "ip link set eth0 up"

    def tcp_counters(self) -> list[str]:
        return [f"tcp {name} {value}" for name, value in self.kernel_counters().items()
                if name.startswith("Tcp") and value > 0]

    def kernel_counters(self) -> dict[str, int]:
        return snmp(self._holder.pid)

    def down(self) -> None:
        """The kernel goes with its namespace."""


Stack = WeftStack | NativeStack
