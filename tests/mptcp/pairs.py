"""Ten pairs of paths between two hosts, and worlds in which a flow takes one of them or both."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from harness import paths
from harness.processes import Failure
from virtual.shared import events, keys, program, section, weft_command

from . import cases

SCRIPT, EXAMPLES = "/srv/flow.py", paths.ROOT / "examples" / "mptcp"
FLOW = {SCRIPT: {"from": str(EXAMPLES / "flow.py")}}
WIRES = ("one", "two")


@dataclasses.dataclass(frozen=True)
class Wire:
    """A wire: Mbit/s, one-way delay in ms, packets that its queue holds, and the part of frames towards the server that is lost."""

    mbit: float
    delay_ms: float
    queue_packets: int
    loss: float = 0.0
    jitter_ms: float = 0.0

    def words(self) -> dict:
        wire = {"rate": f"{self.mbit:g}mbit", "delay": f"{self.delay_ms:g}ms", "queue_packets": self.queue_packets}
        if self.jitter_ms:
            wire["jitter"] = f"{self.jitter_ms:g}ms"
        return wire | ({"loss": self.loss, "back": {"loss": 0.0}} if self.loss else {})

    def __str__(self) -> str:
        words = [f"{self.mbit:g} Mbit/s", f"{self.delay_ms:g} ms", f"{self.queue_packets} packets"]
        return ", ".join(words + ([f"{self.loss:.1%} lost"] if self.loss else []) + ([f"jitter {self.jitter_ms:g} ms"] if self.jitter_ms else []))


def of_scenario(keys: Mapping) -> Wire:
    """A wire as examples/mptcp/pairs.toml has it."""
    return Wire(float(keys["rate"].removesuffix("mbit")), float(keys["delay"].removesuffix("ms")), keys["queue_packets"], keys.get("loss", 0.0),
                float(keys.get("jitter", "0ms").removesuffix("ms")))


PAIRS: dict[str, tuple[Wire, Wire]] = {
    name: (of_scenario(pair["one"]), of_scenario(pair["other"])) for name, pair in tomllib.loads((EXAMPLES / "pairs.toml").read_text()).items()
}


@dataclasses.dataclass(frozen=True)
class Flow:
    """Who sends to whom, how much (`bytes` or `seconds`), and with what."""

    host: str = "weft"
    how: tuple[str, float] = ("seconds", 30)
    multipath: bool = True
    scheduler: str = "default"
    control: str = "cubic"
    # Over those of both stacks.
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # And over those of weft's.
    parameters: Mapping = dataclasses.field(default_factory=dict)
    # The server announces its second address, so that there is a third subflow: by the second wire from the client's.
    announces: bool = True
    # SO_SNDBUF; 0: the stacks' own.
    send_buffer: int = 0

    @property
    def name(self) -> str:
        return f"{self.host} {self.scheduler}/{self.control}" if self.multipath else f"{self.host} TCP/{self.control}"


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a flow came to: bytes, seconds until the last, the longest silence, and bytes that each wire carried towards the server."""

    bytes: int
    seconds: float
    gap: float
    each: list[int]
    carried: list[int]
    hash: str

    @property
    def goodput_mbit(self) -> float:
        return self.bytes * 8 / self.seconds / 1e6


def seconds_of(flow: Flow) -> float:
    """Virtual seconds in which it must have ended."""
    unit, count = flow.how
    return 12 + (count * 1.2 if unit == "seconds" else count * 8 / 2e5)


def world(paths: tuple[Wire, ...], flow: Flow, happens: tuple[dict, ...] = ()) -> str:
    """Client a sends to server b over these wires; happens: events."""
    text, setup = keys(duration=f"{seconds_of(flow):.0f}s"), ""
    joins = range(1, len(paths)) if flow.multipath else ()
    for number, (name, role) in enumerate((("a", "client"), ("b", "server")), 1):
        own = [(f"10.{wire + 1}.0.{number}", f"eth{wire}") for wire in joins if role == "client" or flow.announces]
        more: dict = {
            "addresses": {f"eth{wire}": f"10.{wire + 1}.0.{number}/24" for wire in range(len(paths))},
            "files": FLOW,
            "sysctls": {"net.ipv4.tcp_congestion_control": flow.control, **flow.sysctls},
        }
        if flow.host == "linux":
            more |= {"kind": "linux"}
            if own:
                setup += program(f"paths-{name}", name, "sh", "-ec", "; ".join(cases.linux_endpoints(role, *own)))
        elif flow.multipath:
            # Without an endpoint weft would announce all addresses.
            endpoints = cases.weft_endpoints(role, *own) if own else {"mptcp.path_manager": "kernel"}
            more |= {"mptcp": True, "parameters": endpoints | {"mptcp.scheduler": flow.scheduler, **flow.parameters}}
        text += section(f"nodes.{name}", **more)
    for wire, path in zip(WIRES, paths):
        text += section(f"wires.{wire}", between=["a", "b"], **path.words())
    asked = "262" if flow.multipath else "6"
    unit, count = flow.how
    text += setup + program("server", "b", "python3", SCRIPT, "server", asked, "5000", start="500ms")
    client = ("python3", SCRIPT, "client", asked, "10.1.0.2", "5000", unit, f"{count:.0f}")
    text += program("client", "a", *(("env", f"SNDBUF={flow.send_buffer}") if flow.send_buffer else ()), *client, start="1s")
    return text + events(*happens)


def run(text: str, seed: int, *words: str) -> Measured:
    """One world to its end."""
    # A node has a /tmp of its own: what its programs are to find lies elsewhere.
    with tempfile.TemporaryDirectory(prefix="weft-pairs-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "w.toml").write_text(text)
        done = weft_command(folder, "sim", "w.toml", "--json", "--threads", "1", "--seed", str(seed), "--out", "out", *words)
        summary = json.loads(done.stdout)
        said = (folder / "out" / "programs" / "server" / "stdout").read_text()
    try:
        told = json.loads(said)
    except ValueError:
        raise Failure(f"the flow did not come to its end: {said[-300:]!r}\n{text}") from None
    carried = [next(row["bytes"] for row in wire["directions"] if row.get("from", "a").startswith("a")) for wire in summary["wires"]]
    return Measured(told["bytes"], told["seconds"], told["gap"], told["each"], carried, summary["hash"])
