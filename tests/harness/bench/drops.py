"""How many frames of 64 bytes are dropped in a second: by weft, through ether → forward → forward → drop, and by nftables at ingress.

For each backend, and whose processor time it took. The generator sends with sendmmsg past the queueing discipline as fast as it can on a core
of its own. For `tap:` it writes to the device that weft reads; for `packet:` and for nftables into one end of a veth pair, whose
other end is read through the ring, or has the rule. The kernel drops in the softirq that the generator's own call raises: it has no thread
of its own for it.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from pathlib import Path
from typing import Callable

from .. import paths, weft
from ..environment import Environment
from ..namespaces import Namespace, veth
from . import report
from .requests import traffic, value

RUNS = 5
SECONDS = 2.0
MAC = "02:00:00:00:00:07"

GRAPH = """[node]
name = "drops"
graph = "empty"
engine = "{engine}"
[[interface]]
name = "in"
backend = "{backend}"
mac = "{mac}"
[block.interfaces]
[block.ether]
[block.one]
kind = "forward"
[block.two]
kind = "forward"
[block.drop]
[graph]
edges = [
  "interfaces:upper -> ether:lower", "ether:ip4 -> one:in", "one:out -> two:in", "two:out -> drop:in",
  # Must be bound, and nothing takes them.
  "ether:lower -> interfaces:upper", "ether:ip6 -> ether:upper",
]
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """Frames a second, and the processor seconds a second of each who worked."""

    rate: float
    dropper: float
    generator: float
    softirq: float

    @property
    def nanoseconds(self) -> float:
        """Processor time of the one who drops, for a frame."""
        return self.dropper / self.rate * 1e9


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def softirq_seconds() -> float:
    """Of all processors."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[7]) / os.sysconf("SC_CLK_TCK")


def on_core(number: int, words: list[str]) -> list[str]:
    cores = sorted(os.sched_getaffinity(0))
    return [paths.tool("taskset"), "--cpu-list", str(cores[number % len(cores)]), *words]


def _count(env: Environment, words: list[str], interface: str, dropped: Callable[[], int], pid: int | None) -> Run:
    """Starts the generator, lets it run in, and counts for SECONDS."""
    generator = env.start("frames", [*words, *on_core(1, [traffic(env), "frames", interface, MAC, str(SECONDS + 1)])])
    time.sleep(0.5)

    def used() -> tuple[float, float, float]:
        return cpu_seconds(pid) if pid else 0, cpu_seconds(generator.pid), softirq_seconds()

    before, spent, start = dropped(), used(), time.monotonic()
    time.sleep(SECONDS)
    after, span = dropped(), time.monotonic() - start
    shares = [(now - then) / span for now, then in zip(used(), spent)]
    generator.wait(SECONDS + 20)
    value(generator.stdout, "frames")
    return Run((after - before) / span, *shares)


def by_weft(env: Environment, backend: str, number: int, engine: str, started: Callable[[int], None] | None = None) -> Callable[[], Run]:
    """A function that measures once. `started` is told the process that is to drop."""
    host = env.namespace(f"drop{number}")
    interface, words, url = weft.TAP, host.prefix, f"tap:{weft.TAP}"
    if backend == "packet":
        other = env.namespace(f"send{number}")
        veth((other, "eth0"), (host, "eth0"))
        interface, words, url = "eth0", other.prefix, "packet:eth0"
    file = env.folder / f"drops-{number}.toml"
    file.write_text(GRAPH.format(backend=url, mac=MAC, engine=engine))
    daemon = weft.Daemon(env, host, name=f"drops-{number}", extra=("--stack", str(file)))
    if backend == "tap":
        host.ip("link", "set", weft.TAP, "up")
    if started:
        started(daemon.process.pid)

    def dropped() -> int:
        return sum(row["frames"] for row in daemon.show("drops") if (row["block"], row["reason"]) == ("drop", "discarded"))

    return lambda: _count(env, words, interface, dropped, daemon.process.pid)


def by_nftables(env: Environment) -> Callable[[], Run]:
    """The same for a rule of the kernel's."""
    sending, host = env.namespace("nft-send"), env.namespace("nft-drop")
    veth((sending, "eth0"), (host, "eth0"))
    host.shell(f"{paths.tool('nft')} 'add table netdev t; add chain netdev t c {{ type filter hook ingress device eth0 priority 0; }};"
               " add rule netdev t c counter drop'")

    def dropped() -> int:
        words = host.shell(f"{paths.tool('nft')} list chain netdev t c").split()
        return int(words[words.index("packets") + 1])

    return lambda: _count(env, sending.prefix, "eth0", dropped, None)


def measure() -> list[report.Row]:
    with Environment("drops") as env:
        sources = [("nftables, ingress of a veth", by_nftables(env))]
        sources += [(f"weft, {backend}, {engine}", by_weft(env, backend, number, engine)) for number, (backend, engine) in enumerate(
            (("packet", "inline"), ("packet", "queued"), ("packet", "threaded"), ("tap", "inline"), ("tap", "queued"), ("tap", "threaded")))]
        runs: dict[str, list[Run]] = {name: [] for name, _ in sources}
        for _ in range(RUNS):
            for name, source in sources:
                runs[name].append(source())

    def median(name: str, field: str) -> float:
        return statistics.median(getattr(run, field) for run in runs[name])

    reference = sources[0][0]
    versus = median(reference, "rate")
    rows = []
    for name, _ in sources:
        rate = median(name, "rate")
        rows.append(report.Row(f"64-byte frames dropped, {name}", rate / 1e6, "M/s", versus / 1e6, rate / versus))
        if name != reference:
            whose = "threads" if "threaded" in name else "thread"
            rows.append(report.Row(f"  weft's {whose}, of a processor, {name}", median(name, "dropper"), "cores"))
            rows.append(report.Row(f"  weft's {whose}, a frame, {name}", median(name, "nanoseconds"), "ns"))
        rows.append(report.Row(f"  the generator, of a processor, {name}", median(name, "generator"), "cores"))
        rows.append(report.Row(f"  softirqs, of all processors, {name}", median(name, "softirq"), "cores"))
    return rows
