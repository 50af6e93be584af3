"""Rows of `make test-mptcp-sim`: an interface of one end goes down while data flows, and comes up: its path carries again.

    phone ══ wifi, lte ══ server        the phone sends; both have an interface at each wire
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure
from virtual.shared import builtin, events, figures, keys, section, weft_command

SECONDS, BYTES = 60, 10_000_000
DOWN, UP = 4, 7
WIRES = {"wifi": {"rate": "4mbit", "delay": "10ms"}, "lte": {"rate": "2mbit", "delay": "40ms"}}
# Of the time that it takes when the wire is cut for as long, and of all data, by the wire that was away.
LONGER_MAX, SHARE_MIN = 1.15, {"wifi": 0.45, "lte": 0.2}


def scenario(family: int, what: str) -> str:
    text = keys(duration=f"{SECONDS}s")
    for last, node in enumerate(("phone", "server"), 1):
        own = [f"fd00:{wire}::{last}/64" if family == 6 else f"10.{wire}.0.{last}/24" for wire in range(len(WIRES))]
        text += section(f"nodes.{node}", mptcp=True, addresses={f"eth{wire}": of for wire, of in enumerate(own)})
    text += "".join(section(f"wires.{name}", between=["phone", "server"], **wire) for name, wire in WIRES.items())
    to = "[fd00:0::2]:5001" if family == 6 else "10.0.0.2:5001"
    text += builtin("sink", "server", "tcp-sink", port=5001) + builtin("send", "phone", "tcp-send", to=to, bytes=BYTES)
    return text + events({"at": f"{DOWN}s", "down": what}, {"at": f"{UP}s", "up": what})


def run(folder: Path, family: int, what: str) -> tuple[float, dict[str, int]]:
    """Seconds, and bytes that the phone has sent over each wire."""
    (folder / "flap.toml").write_text(scenario(family, what))
    summary = json.loads(weft_command(folder, "sim", "flap.toml", "--json").stdout)
    seconds = figures(summary, "send")["duration_ns"] / 1e9
    return seconds, {wire["name"]: wire["directions"][0]["bytes"] for wire in summary["wires"]}


def row(family: int, node: str, wire: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        cut, _ = run(folder, family, wire)
        seconds, sent = run(folder, family, f"{node}:eth{list(WIRES).index(wire)}")
        if seconds > LONGER_MAX * cut or sent[wire] < SHARE_MIN[wire] * sum(sent.values()):
            raise Failure(f"{seconds:.1f} s, {cut:.1f} s where the wire is cut; {sent}")
        return f"{seconds:.1f} s, {cut:.1f} s where the wire is cut"

    return body


def rows() -> dict[str, Callable[[Path], str]]:
    return {f"flaps/IPv{family}, {wire} of the {node}": row(family, node, wire) for family in (4, 6) for node in ("phone", "server") for wire in WIRES}
