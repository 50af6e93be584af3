"""Rows of `make test-mptcp-sim`: a node whose two interfaces each have a gateway, and a peer behind them both.

    peer ── router ══ wifi0, lte0 ══ node        the node has two default routes, and one is the better
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.processes import Failure
from virtual.shared import expect, keys, program, section

from . import counters, ends, judge, sim
from .cases import EVERYTHING, LINUX_WEFT, WEFT_LINUX, WEFT_WEFT, Case, linux_endpoints, protocol

SECONDS = 40
WIRE = {"rate": "10mbit", "delay": "10ms", "queue_packets": 100}
NETS = {"wifi0": ("192.168.1.1", "192.168.1.7"), "lte0": ("10.64.0.1", "10.64.0.7")}
PEER = "10.9.0.2"
# Of what the node sends: what leaves by the interface that the routes alone would not choose.
SHARE_MIN = 0.25


def scenario(case: Case, node_is: str, happens: str = "") -> str:
    """`node_is`: the role of the node with two interfaces, which is weft; the other's host is its peer's."""
    text, more = keys(duration=f"{SECONDS}s"), ""
    text += section("nodes.router", addresses={f"r{at}": f"{of}/24" for at, of in enumerate([*(gate for gate, _ in NETS.values()), "10.9.0.1"])})
    for (name, role), host in zip(sim.NODES.items(), case.hosts, strict=True):
        two = role == node_is
        addresses = {device: f"{own}/24" for device, (_, own) in NETS.items()} if two else {"eth0": f"{PEER}/24"}
        text += section(f"nodes.{name}", **sim.node(host, addresses=addresses))
        if host == "linux":
            more += program(f"paths-{name}", name, "sh", "-ec", "; ".join(linux_endpoints(role)))
        if two:
            for at, device in enumerate(NETS):
                text += section(f"wires.{device}", between=[f"router:r{at}", f"{name}:{device}"], **WIRE)
        else:
            text += section("wires.peer", between=[f"{name}:eth0", "router:r2"], rate="100mbit", delay="1ms")
    client, server = case.hosts
    to = NETS["wifi0"][1] if node_is == "server" else PEER
    return text + more + happens + sim.programs(case.kind, (protocol(client), protocol(server)), "v4", to) + sim.looks(case.hosts, SECONDS)


def sent(summary: Mapping, device: str) -> int:
    """Bytes that the node has sent over one of its interfaces."""
    return next(wire for wire in summary["wires"] if wire["name"] == device)["directions"][1]["bytes"]


def answers_by_both(pair: str) -> Callable[[Path], str]:
    """A server: what joined at its second address is answered by that interface, though the routes prefer the first."""
    def body(folder: Path) -> str:
        case = Case("transfer", pair)
        result = sim.run(folder, scenario(case, "server"), case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        counters.expect_joined("the server", result.counters["b"])
        by = {device: sent(result.summary, device) for device in NETS}
        if min(by.values()) < SHARE_MIN * ends.BACK_BYTES:
            raise Failure(f"the server has sent {by}")
        return f"{said}, {by}"

    return body


def comes_back_without_a_route(pair: str) -> Callable[[Path], str]:
    """A client whose interface goes down and comes up, its default route gone: nothing from its address leaves by the other one."""
    def body(folder: Path) -> str:
        case = Case("long", pair)
        flap = program("flap", "a", "sh", "-ec", "ip link set wifi0 down; sleep 1; ip link set wifi0 up", start="2s")
        result = sim.run(folder, scenario(case, "client", flap), case.hosts)
        said = judge.expect_ends(case.kind, *result.reports(case.kind))
        # It asks on the link for the peer, as whoever is bound to an interface does, and nobody answers there.
        expect("joins of the client's that were answered", result.counters["a"]["MPJoinSynAckRx"], 1)
        return f"{said}, {[sent(result.summary, device) for device in NETS]}"

    return body


def rows() -> dict[str, Callable[[Path], str]]:
    found = {f"gateways/answers by both/{pair}": answers_by_both(pair) for pair in ((LINUX_WEFT, WEFT_WEFT) if EVERYTHING else (LINUX_WEFT,))}
    return found | {f"gateways/comes back without a route/{pair}": comes_back_without_a_route(pair)
                    for pair in ((WEFT_LINUX, WEFT_WEFT) if EVERYTHING else (WEFT_WEFT,))}
