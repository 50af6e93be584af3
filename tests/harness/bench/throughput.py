"""iperf3 through weft over its TAP, both ways, beside iperf3 kernel to kernel over a veth pair.

Once with segmentation and checksum offload as they come, and once without on both: frames of at most 1500 bytes on the wire, each with a
computed checksum. Runs alternate, medians of five: neighbours of the machine disturb both alike.
"""

from __future__ import annotations

import itertools
import json
import statistics

from .. import paths, weft
from ..environment import Environment
from ..processes import Failure
from . import places, report

RUNS = 5
SECONDS = 3
# Gbit/s each way, for the reference machine.
NEEDED_OFFLOAD = 10.0
NEEDED_PLAIN = 3.0

_ports = itertools.count(5401)


def iperf3(env: Environment, server: list[str], address: str, client: list[str], reverse: bool) -> float:
    """Gbit/s that the receiver counted."""
    port = next(_ports)
    process = env.start("iperf3-server", [paths.tool("iperf3"), "--server", "--one-off", "--port", str(port)], server)
    env.wait_listening(process, port)
    options = ["--reverse"] if reverse else []
    output = env.run("iperf3", [paths.tool("iperf3"), "--client", address, "--port", str(port), "--json",
                                "--time", str(SECONDS), "--omit", "1", *options], client, SECONDS + 30)
    result = json.loads(output)
    if "error" in result:
        raise Failure(f"iperf3: {result['error']}")
    process.stop()
    return result["end"]["sum_received"]["bits_per_second"] / 1e9


def measure(native: bool) -> list[report.Row]:
    """Two rows for each kind of wire, needs as for the reference machine. Natively the veth pair is compared with itself."""
    rows = []
    for offload in (True, False):
        with Environment("throughput") as env:
            compared = places.kernel(env, offload)
            tested = places.kernel(env, offload, "second") if native else places.stack(env, offload)
            rows += _directions(env, tested, compared, offload)
    return rows


def _directions(env: Environment, tested: places.Place, compared: places.Place, offload: bool) -> list[report.Row]:
    rows = []
    for name, reverse in (("sending", False), ("receiving", True)):
        found: list[float] = []
        beside: list[float] = []
        for _ in range(RUNS):
            for place, into in ((tested, found), (compared, beside)):
                into.append(iperf3(env, place.peer, place.peer_address, place.program, reverse))
        value, versus = statistics.median(found), statistics.median(beside)
        label = f"iperf3 over TAP, {name}" + ("" if offload else ", without offload")
        rows.append(report.Row(label, value, "Gbit/s", versus, value / versus, NEEDED_OFFLOAD if offload else NEEDED_PLAIN))
    return rows
