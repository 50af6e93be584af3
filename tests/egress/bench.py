"""`make bench-egress`: how much a user's program gets through weft and passt, beside pasta (the kernel's TCP before the same passt) and the host's own kernel.

iperf3 to a server beyond, each kind of way in turn, round after round; medians. FULL=1: more rounds, longer ones, and both families.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import statistics
import sys
from collections.abc import Callable

from harness import paths, user
from harness.bench import report
from harness.environment import Environment, run_main
from programs.shared import Family, Shared, prepare

from .stage import FAMILIES, Outside, holding

FULL = bool(os.environ.get("FULL"))
ROUNDS, SECONDS = (7, 5) if FULL else (3, 2)
CHOSEN = FAMILIES if FULL else {"IPv4": FAMILIES["IPv4"]}
PORT = 5201
SECONDS_MAX = 60
# What is measured, and iperf3's words for it.
KINDS = {"sending": [], "receiving": ["--reverse"], "sending by 8": ["--parallel", "8"], "receiving by 8": ["--reverse", "--parallel", "8"]}
TUN = (10, 200)


def ways(stage: Outside) -> dict[str, list[str]]:
    """Words before a program."""
    device = stage.env.folder / "tun"
    os.mknod(device, stat.S_IFCHR, os.makedev(*TUN))
    # As distributions have it: any user may open it, and do nothing with it outside a namespace of its own.
    device.chmod(0o666)
    entering = [*stage.near.prefix, *holding(stage.files() | {"/dev/net/tun": device}), *user.words()]
    return {
        "weft": stage.going_out(),
        "pasta": [*entering, "timeout", "--signal=KILL", str(SECONDS_MAX), paths.tool("pasta"), "--config-net", "--quiet", "--foreground", "--"],
        "kernel": stage.near.prefix,
    }


def rate(env: Environment, way: list[str], host: str, words: list[str]) -> float:
    """Mbit/s that arrived."""
    said = env.run("iperf3", [*way, paths.tool("iperf3"), "--json", "--client", host, "--port", str(PORT), "--time", str(SECONDS), *words], timeout_s=SECONDS_MAX)
    return json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6


def measured(shared: Shared, name: str, family: Family) -> list[report.Row]:
    with Environment(f"bench-egress-{name}") as env:
        stage = Outside(env, shared, family)
        stage.start_server("iperf3-server", [paths.tool("iperf3"), "--server", "--bind", stage.server.address, "--port", str(PORT)], PORT)
        found: dict[tuple[str, str], list[float]] = {}
        each: dict[str, list[str]] = ways(stage)
        for _, (kind, words), (way, before) in itertools.product(range(ROUNDS), KINDS.items(), each.items()):
            found.setdefault((kind, way), []).append(rate(env, before, stage.server.address, words))
    median: Callable[[str, str], float] = lambda kind, way: statistics.median(found[kind, way])  # noqa: E731
    rows = []
    for kind, other in itertools.product(KINDS, ("pasta", "kernel")):
        one, another = median(kind, "weft"), median(kind, other)
        rows.append(report.Row(f"{kind}, {name}, beside {other}", one, "Mbit/s", another, one / another))
    return rows


def main() -> int:
    with Environment("shared") as env:
        shared = prepare(env)
        rows = [row for name, family in CHOSEN.items() for row in measured(shared, name, family)]
    print(report.table(rows))
    report.write("egress", rows)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
