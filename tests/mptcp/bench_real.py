"""The half of `make bench-mptcp` that is in real time: between two of weft's, and beside it between two of the host's kernel's.

    A: client ─ a0 ═ [ weft bridge in B ] ═ c0 ─ server: C        weft by packet:a0 and packet:c0, with programs in P and Q
              ─ a1 ═ [ weft bridge in B ] ═ c1 ─                  at full speed there is no bridge: one veth pair a wire

Each kind of flow has a place of its own, and takes its turn after the others, round after round: neighbours of the machine disturb all alike. Medians.
Processor time is that of both programs and of both stacks beyond that of a flow of one payload; a kernel's is in that of the programs.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import resource
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness import paths, weft
from harness.bench import report
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Failure, Process

from . import cases
from .pairs import EXAMPLES, Wire

FULL = bool(os.environ.get("FULL"))
ROUNDS = 5 if FULL else 3
# As long as in virtual time: what a beginning costs counts as much.
SECONDS = 30 if FULL else 5
FAST_SECONDS = 2
SECONDS_MAX = 120
FLOW, PAYLOAD = str(EXAMPLES / "flow.py"), str(EXAMPLES / "payload_flow.py")
ASKED = {True: cases.MPTCP, False: "6"}
# As in virtual time: both have the same.
BUFFERS = {"rmem": (4096, 131072, 6291456), "wmem": (4096, 16384, 4194304)}
SCHEDULER = "ecf"
# What flows ask for; and what is there without a word, which a namespace can have whatever the host allows.
ASKED_CONTROL, CONTROL = "cubic", "reno"
# A cut is so long after the client has begun.
CUT_SECONDS = 2.0

# A machine that others share stands still now and then.
LOOK_SECONDS, STILL_SECONDS_MAX, TRIES_MAX = 0.01, 0.1, 4

_ports = itertools.count(5000)


@dataclasses.dataclass(frozen=True)
class Flow:
    """Whose stack is at both ends, and whether it speaks Multipath TCP; `wires`: None is one at full speed."""

    host: str
    multipath: bool
    wires: tuple[Wire | None, ...]


@dataclasses.dataclass(frozen=True)
class Measured:
    bytes: int
    seconds: float
    gap: float
    processor_seconds: float

    @property
    def goodput_mbit(self) -> float:
        return self.bytes * 8 / self.seconds / 1e6


class Place:
    """Two hosts and what is between them."""

    def __init__(self, env: Environment, name: str, flow: Flow) -> None:
        self.env, self.kind, self._name = env, flow, name
        joins: list[Callable[[], Process]] = []
        self._daemons: list[weft.Daemon] = []
        hosts = {"client": env.namespace(f"{name}-a"), "server": env.namespace(f"{name}-c")}
        between = env.namespace(f"{name}-b")
        for number, wire in enumerate(flow.wires):
            a, b, c, d = (f"{letter}{number}" for letter in "abcd")
            if wire is None:
                veth((hosts["client"], a), (hosts["server"], c))
                continue
            veth((hosts["client"], a), (between, b))
            veth((between, d), (hosts["server"], c))
            words = {"delay": f"{wire.delay_ms:g}ms", "queue-bytes": str(wire.queue_packets * 1500)}
            joins.append(lambda wire=wire, ends=(b, d), words=words: weft.bridge(env, between, ends, f"{wire.mbit:g}mbit", words))
        self._joins = joins
        self.bridges = [join() for join in joins]
        up = {"linux": self._linux, "weft": self._weft}[flow.host]
        self._words = {role: up(role, namespace) for role, namespace in hosts.items()}

    def restore(self) -> None:
        """The first wire is there again."""
        self.bridges[0] = self._joins[0]()

    @staticmethod
    def address(role: str, wire: int = 0) -> str:
        return f"10.78.{wire}.{('client', 'server').index(role) + 1}"

    def _interfaces(self, role: str) -> list[tuple[str, str]]:
        """An address and the interface that has it, for each wire."""
        letter = {"client": "a", "server": "c"}[role]
        return [(self.address(role, wire), f"{letter}{wire}") for wire in range(len(self.kind.wires))]

    def _linux(self, role: str, namespace: Namespace) -> list[str]:
        for address, interface in self._interfaces(role):
            namespace.ip("address", "add", f"{address}/24", "dev", interface)
        for name, values in BUFFERS.items():
            namespace.sysctl(f"net.ipv4.tcp_{name}", " ".join(map(str, values)))
        # A flow is to know nothing of the one before.
        namespace.sysctl("net.ipv4.tcp_no_metrics_save", "1")
        namespace.sysctl("net.ipv4.tcp_congestion_control", CONTROL)
        if self.kind.multipath:
            namespace.sysctl("net.mptcp.enabled", "1")
            namespace.shell("; ".join(cases.linux_endpoints(role, *self._interfaces(role)[1:])))
        return namespace.prefix

    def _weft(self, role: str, namespace: Namespace) -> list[str]:
        interfaces = self._interfaces(role)
        file = self.env.folder / f"{self._name}-{role}.toml"
        file.write_text(weft.stack_file(role, [(interface, f"{address}/24") for address, interface in interfaces], backend="packet:{}".format))
        settings = {f"tcp.{name}_{which}": str(value) for name, values in BUFFERS.items() for which, value in zip(("min", "default", "max"), values)}
        settings["tcp.congestion"] = CONTROL
        if self.kind.multipath:
            settings |= {"mptcp.path_manager": "kernel", "mptcp.scheduler": SCHEDULER}
        extra = ("--stack", str(file), *(["--mptcp"] if self.kind.multipath else []))
        daemon = weft.Daemon(self.env, namespace, settings, name=f"{self._name}-{role}", extra=extra)
        if self.kind.multipath:
            daemon.command("set", "mptcp.endpoints", json.dumps(cases.weft_endpoints(role, *interfaces[1:])["mptcp.endpoints"]))
        self._daemons.append(daemon)
        return [*self.env.namespace(f"{self._name}-{role}").prefix, *daemon.run_words()]

    def processor_seconds(self) -> float:
        """Of all programs that have ended, and of this place's stacks."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks = 0
        for daemon in self._daemons:
            words = Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(words[11]) + int(words[12])
        return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")

    def _talk(self, server: Callable[[str], Sequence[str]], client: Callable[[str], Sequence[str]], meanwhile: Callable[[], None]) -> Measured:
        """What the server says of one connection; both are given the port."""
        port = next(_ports)
        served = self.env.start(f"{self._name}-serve", [paths.PYTHON, *server(str(port))], self._words["server"])
        if self._daemons:
            self._daemons[1].wait_listening(served, port)
        else:
            self.env.wait_listening(served, port)
        before = self.processor_seconds()
        asked = self.env.start(f"{self._name}-ask", [paths.PYTHON, *client(str(port))], self._words["client"])
        meanwhile()
        for process in (asked, served):
            if status := process.wait(SECONDS_MAX):
                raise Failure(f"{process.name} ended with status {status}")
        said = json.loads(served.stdout)
        return Measured(said["bytes"], said["seconds"], said.get("gap", 0.0), self.processor_seconds() - before)

    def flow(self, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> Measured:
        """As much as there is room for."""
        asked, address = ASKED[self.kind.multipath], self.address("server")
        return self._talk(lambda port: [FLOW, "server", asked, port, ASKED_CONTROL],
                          lambda port: [FLOW, "client", asked, address, port, "seconds", str(seconds), ASKED_CONTROL], meanwhile)

    def payloads(self, size: int, count: int) -> Measured:
        """So many of this size."""
        asked, address = ASKED[self.kind.multipath], self.address("server")
        found = self._talk(lambda port: [PAYLOAD, "stream-sink", port, asked],
                           lambda port: [PAYLOAD, "stream", asked, address, port, str(size), str(count)], lambda: None)
        if found.bytes != size * count:
            raise Failure(f"{found.bytes} bytes came of {size * count}")
        return found


Found = dict[str, list[Measured]]


class Watch:
    """How long this process could not run, at most: longer than a moment only if the whole machine stood still."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(LOOK_SECONDS):
            now = time.monotonic()
            self.longest, before = max(self.longest, now - before - LOOK_SECONDS), now

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def undisturbed(measure: Callable[[], Measured]) -> Measured:
    """Measured again where the machine stood still meanwhile; of those that all were so, the least."""
    tries: list[tuple[float, Measured]] = []
    while len(tries) < TRIES_MAX and (not tries or tries[-1][0] > STILL_SECONDS_MAX):
        with Watch() as watch:
            found = measure()
        tries.append((watch.longest, found))
    return min(tries, key=lambda of: of[0])[1]


def in_turn(flows: Mapping[str, Flow], measure: Callable[[Place], Measured], may_hang: str = "") -> Found:
    """Each flow once a round, all in the same order. The one that `may_hang` is left out from then on, and has nothing if it does."""
    with Environment("mptcp-bench") as env:
        places = {name: Place(env, f"p{number}", flow) for number, (name, flow) in enumerate(flows.items())}
        found: Found = {name: [] for name in flows}
        for _ in range(ROUNDS):
            for name, place in list(places.items()):
                try:
                    found[name].append(undisturbed(lambda place=place: measure(place)))
                except Failure as failure:
                    if name != may_hang:
                        raise
                    print(f"  {name}: {str(failure).splitlines()[0]}", flush=True)
                    found[name] = []
                    del places[name]
        return found


def median(found: Sequence[Measured], of: Callable[[Measured], float]) -> float:
    return statistics.median(map(of, found))


def row(name: str, value: float, versus: float, unit: str, wanted: str | None = None) -> report.Row:
    """`wanted` is told and not judged: who knows what else the machine does."""
    return report.Row(f"real time: {name}", value, unit, versus, value / versus, wanted)


def goodput(of: Measured) -> float:
    return of.goodput_mbit


TWO, ONE = Wire(2, 10, 30), Wire(1, 10, 30)
NEAR, FAR = Wire(20, 10, 60), Wire(20, 30, 120)


def two_and_one() -> list[report.Row]:
    flows = {
        "weft": Flow("weft", True, (TWO, ONE)), "linux": Flow("linux", True, (TWO, ONE)),
        "two": Flow("weft", False, (TWO,)), "one": Flow("weft", False, (ONE,)),
        "linux two": Flow("linux", False, (TWO,)), "linux one": Flow("linux", False, (ONE,)),
    }
    found = {name: median(of, goodput) for name, of in in_turn(flows, lambda place: place.flow(SECONDS)).items()}
    return [
        row("2 + 1 Mbit/s beside Linux", found["weft"], found["linux"], "Mbit/s", "≥ 1"),
        row("2 + 1 Mbit/s beside the sum of TCP's alone", found["weft"], found["two"] + found["one"], "Mbit/s", "≥ 0.99"),
        row("2 + 1 Mbit/s, Linux beside the sum of its TCP's alone", found["linux"], found["linux two"] + found["linux one"], "Mbit/s"),
    ]


def wide() -> list[report.Row]:
    flows = {host: Flow(host, True, (NEAR, FAR)) for host in ("weft", "linux")}
    found = {name: median(of, goodput) for name, of in in_turn(flows, lambda place: place.flow(SECONDS)).items()}
    return [row("20 Mbit/s 10 ms + 20 Mbit/s 30 ms beside Linux", found["weft"], found["linux"], "Mbit/s", "≥ 1")]


def one_path() -> list[report.Row]:
    flows = {f"{host} {name}": Flow(host, multipath, (None,)) for host in ("weft", "linux") for name, multipath in (("MPTCP", True), ("TCP", False))}
    found = {name: median(of, goodput) for name, of in in_turn(flows, lambda place: place.flow(FAST_SECONDS)).items()}
    return [
        row("one path at full speed beside TCP", found["weft MPTCP"], found["weft TCP"], "Mbit/s", "≥ 0.95"),
        row("one path at full speed, Linux beside its TCP", found["linux MPTCP"], found["linux TCP"], "Mbit/s"),
    ]


def cut(place: Place) -> Measured:
    """A path of two ends without a word, and is there again before the next flow."""
    def ends() -> None:
        time.sleep(CUT_SECONDS)
        place.bridges[0].stop()

    found = place.flow(2 * CUT_SECONDS, ends)
    place.restore()
    return found


def failover() -> list[report.Row]:
    wires = (Wire(10, 10, 40), Wire(10, 20, 40))
    found = in_turn({host: Flow(host, True, wires) for host in ("weft", "linux")}, cut)
    gaps = {host: [of.gap * 1000 for of in each] for host, each in found.items()}
    return [row(f"failover: nothing comes for, {name} of {ROUNDS}", of(gaps["weft"]), of(gaps["linux"]), "ms")
            for name, of in (("median", statistics.median), ("longest", max))]


# Bytes of a payload, as in examples/mptcp/payload.py.
SIZES = (64, 256, 1024, 4096, 16384, 65507) if FULL else (1024, 65507)
POINT_BYTES, PAYLOADS_MAX = 200_000_000, 100_000


def processor() -> list[report.Row]:
    """Processor seconds a gigabyte."""
    flows = {f"{host} {name}": Flow(host, multipath, (None,) * wires) for host in ("weft", "linux")
             for name, multipath, wires in (("TCP", False, 1), ("MPTCP", True, 1), ("MPTCP, two paths", True, 2))}
    rows = []
    for size in SIZES:
        def spent(place: Place, size: int = size) -> Measured:
            count = min(PAYLOADS_MAX, POINT_BYTES // size)
            one, all_ = place.payloads(size, 1), place.payloads(size, count)
            return dataclasses.replace(all_, processor_seconds=all_.processor_seconds - one.processor_seconds)

        measured = in_turn(flows, spent, may_hang="linux MPTCP, two paths")
        found = {name: median(of, lambda one: one.processor_seconds / one.bytes * 1e9) for name, of in measured.items() if of}
        for name in ("MPTCP", "MPTCP, two paths"):
            rows.append(row(f"{size} bytes a payload, {name} beside TCP", found[f"weft {name}"], found["weft TCP"], "s/GB"))
            if f"linux {name}" in found:
                rows.append(row(f"{size} bytes a payload, {name} beside Linux", found[f"weft {name}"], found[f"linux {name}"], "s/GB"))
        rows.append(row(f"{size} bytes a payload, TCP beside Linux", found["weft TCP"], found["linux TCP"], "s/GB"))
    return rows


BODIES = {"real: two and one": two_and_one, "real: wide": wide, "real: one path": one_path, "real: failover": failover, "real: processor": processor}
