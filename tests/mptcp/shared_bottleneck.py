"""A world in which both subflows of a connection go through one bottleneck, beside a TCP flow."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from virtual.shared import keys, program, section, weft_command

from .pairs import FLOW, SCRIPT

BOTTLENECK = {"rate": "10mbit", "delay": "10ms", "queue_packets": 100}
# Different for every packet, or who is dropped follows from who sends when.
ACCESS = {"rate": "100mbit", "delay": "5ms", "jitter": "1ms"}


def world(control: str, seconds: int) -> str:
    """
        a ══ r ── s ── b        two wires from a to r, and one from t
             t ──┘
    """
    text = keys(duration=f"{seconds + 10}s")
    text += section("nodes.a", mptcp=True, files=FLOW) + section("nodes.b", mptcp=True, files=FLOW)
    text += section("nodes.t", files=FLOW) + section("nodes.r") + section("nodes.s")
    for name, ends, wire in (("one", ("a", "r"), ACCESS), ("two", ("a", "r"), ACCESS), ("plain", ("t", "r"), ACCESS),
                             ("neck", ("r", "s"), BOTTLENECK), ("last", ("s", "b"), {"rate": "100mbit", "delay": "1ms"})):
        text += section(f"wires.{name}", between=list(ends), **wire)
    for port, (name, node, asked, with_) in enumerate((("both", "a", "262", control), ("plain", "t", "6", "reno")), 5000):
        text += program(f"{name}-server", "b", "python3", SCRIPT, "server", asked, str(port), with_, start="500ms")
        text += program(f"{name}-client", node, "python3", SCRIPT, "client", asked, "b", str(port), "seconds", str(seconds), with_, start="1s")
    return text


def rates(text: str, seed: int) -> list[float]:
    """Bytes a second of Multipath TCP and of TCP, once both are under way."""
    with tempfile.TemporaryDirectory(prefix="weft-fair-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "w.toml").write_text(text)
        weft_command(folder, "sim", "w.toml", "--json", "--threads", "1", "--seed", str(seed), "--out", "out")
        said = [json.loads((folder / "out" / "programs" / f"{of}-server" / "stdout").read_text()) for of in ("both", "plain")]
    middle = slice(10, -3)
    return [sum(of["each"][middle]) / len(of["each"][middle]) for of in said]
