"""iperf3 through weft over its TAP, both ways, beside iperf3 kernel to kernel over a veth pair.

Both with segmentation offload as they come, alternating, medians of five: neighbours of the machine disturb both alike.
"""

from __future__ import annotations

import itertools
import json
import statistics

from .. import paths, weft
from ..environment import Environment
from ..namespaces import Namespace, veth
from ..processes import Failure
from . import report

RUNS = 5
SECONDS = 3
NEEDED_GBIT = 5.0
VETH_A, VETH_B = "10.78.0.1", "10.78.0.2"

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
    """One row per direction, needs as for the reference machine. Natively the veth pair is compared with itself."""
    with Environment("throughput") as env:
        host, program = env.namespace("host"), env.namespace("program")
        a, b = env.namespace("a"), env.namespace("b")
        _join(a, b)
        if native:
            words, address, peer = b.prefix, VETH_A, a.prefix
        else:
            daemon = weft.Daemon(env, host)
            words, address, peer = [*program.prefix, *daemon.run_words()], weft.HOST, daemon.host_side
        rows = []
        for name, reverse in (("sending", False), ("receiving", True)):
            found: list[float] = []
            compared: list[float] = []
            for _ in range(RUNS):
                found.append(iperf3(env, peer, address, words, reverse))
                compared.append(iperf3(env, a.prefix, VETH_A, b.prefix, reverse))
            value, versus = statistics.median(found), statistics.median(compared)
            rows.append(report.Row(f"iperf3 over TAP, {name}", value, "Gbit/s", versus, value / versus, NEEDED_GBIT))
        return rows


def _join(a: Namespace, b: Namespace) -> None:
    veth((a, "eth0"), (b, "eth0"))
    a.ip("address", "add", f"{VETH_A}/24", "dev", "eth0")
    b.ip("address", "add", f"{VETH_B}/24", "dev", "eth0")
