"""How near weft's TCP is to Linux's: `make test-fidelity`. The same bulk transfer on the same wire with weft's stack at both ends, and with Linux kernels: the
ratio of goodput, seed by seed. Skipped where no kernel has been built (`weft kernel build`)."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import statistics
from pathlib import Path
from typing import Callable

from .kernels import kernel
from .shared import keys, program, run_rows, section, weft_command

from harness import paired
from harness.processes import Failure

FULL = bool(os.environ.get("FULL"))
# The ratio's 95 % interval lies between these.
LEAST, MOST = 0.95, 1.05
# Seeds are added, so many at a time, until half of that interval is so much; in the short form there are a few.
MARGIN = 0.02
SEEDS_AT_A_TIME = 8 if FULL else 4
SEEDS_MAX = 800 if FULL else 4
CONTROLS = ("cubic", "reno", "bbr")
# Both have the same buffers: what Linux takes follows from its memory.
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}


@dataclasses.dataclass(frozen=True)
class Transfer:
    """A wire and how long data are sent over it, virtual seconds: so long that a seed has some hundred losses, or that there are no other differences."""

    rate: str
    delay: str
    seconds: int
    loss: float = 0.0
    wire: dict = dataclasses.field(default_factory=dict)
    ecn: bool = False


# Delays are of one way. The accuracy experiment of the paper on DCE, and paths from 0.1 to 100 Mbit/s, 1 to 300 ms.
PATHS = {
    "2 Mbit/s 200 ms 5 % loss": Transfer("2mbit", "100ms", 120, 0.05),
    "100 kbit/s 20 ms shallow": Transfer("100kbit", "10ms", 120, wire={"queue_packets": 20}),
    "1 Mbit/s 300 ms 1 % loss": Transfer("1mbit", "150ms", 120, 0.01),
    "5 Mbit/s 100 ms 3 % loss": Transfer("5mbit", "50ms", 60, 0.03),
    "10 Mbit/s 20 ms 1 % loss": Transfer("10mbit", "10ms", 40, 0.01),
    "10 Mbit/s 40 ms shallow": Transfer("10mbit", "20ms", 40, wire={"queue_packets": 12}),
    "10 Mbit/s 40 ms deep": Transfer("10mbit", "20ms", 40, wire={"queue_packets": 500}),
    "20 Mbit/s 10 ms ECN": Transfer("20mbit", "5ms", 20, wire={"queue": "codel", "ecn": True, "target": "1ms", "interval": "20ms"}, ecn=True),
    "50 Mbit/s 10 ms 0.3 % loss": Transfer("50mbit", "5ms", 20, 0.003),
    "100 Mbit/s 1 ms": Transfer("100mbit", "500us", 6, wire={"queue_packets": 100}),
}
# In the short form.
SHORT = ("2 Mbit/s 200 ms 5 % loss/reno", "100 kbit/s 20 ms shallow/cubic", "100 kbit/s 20 ms shallow/bbr", "20 Mbit/s 10 ms ECN/reno")


def scenario(transfer: Transfer, control: str) -> str:
    sysctls = BUFFERS | {"net.ipv4.tcp_congestion_control": control, "net.ipv4.tcp_ecn": "1" if transfer.ecn else "0"}
    wire = {"between": ["sender", "receiver"], "rate": transfer.rate, "delay": transfer.delay} | transfer.wire
    if transfer.loss:
        wire |= {"loss": transfer.loss, "back": {"loss": 0.0}}
    text = keys(duration=f"{transfer.seconds + 4}s", sample="1s")
    text += section("nodes.sender", sysctls=sysctls) + section("nodes.receiver", sysctls=sysctls) + section("wires.path", **wire)
    text += program("server", "receiver", "iperf3", "-s", start="1s", expect="running")
    return text + program("client", "sender", "iperf3", "-c", "receiver", "-t", "3600", start="2s", expect="running")


def goodput(folder: Path, seed: int) -> dict[str, float]:
    """Mbit/s of the flow that carries the data, with weft's stack and with Linux's, of one seed."""
    told = json.loads(weft_command(folder, "twin", "w.toml", "--json", "--variants", "weft,linux", "--seeds", f"{seed}..{seed}", "--threads", "1").stdout)
    rates: dict[str, float] = {}
    for row in told["rows"]:
        rates[row["variant"]] = max(rates.get(row["variant"], 0.0), row["goodput_mbit_per_second"])
    return rates


def measured(of_seed: Callable[[int], dict[str, float]]) -> tuple[paired.Ratio, dict[str, float]]:
    """weft's to Linux's, and the mean goodput of each."""
    found: list[dict[str, float]] = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        while True:
            first = len(found) + 1
            found += pool.map(of_seed, range(first, first + SEEDS_AT_A_TIME))
            rates = {variant: [of[variant] for of in found] for variant in ("weft", "linux")}
            ratio = paired.ratio(rates["weft"], rates["linux"])
            if ratio.margin <= MARGIN or len(found) >= SEEDS_MAX:
                return ratio, {variant: statistics.mean(of) for variant, of in rates.items()}


def is_alike(ratio: paired.Ratio, full: bool) -> bool:
    """In full the interval is narrow and lies inside; of a few seeds it may not lie outside."""
    least, most = ratio.least, ratio.most
    return ratio.margin <= MARGIN and LEAST <= least and most <= MOST if full else most >= LEAST and least <= MOST


def judged(said: str, ratio: paired.Ratio) -> str:
    if not is_alike(ratio, FULL):
        raise Failure(f"{said}: not between {LEAST} and {MOST}, or not known to {MARGIN}")
    return said


def row(transfer: Transfer, control: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        kernel(folder)
        (folder / "w.toml").write_text(scenario(transfer, control))
        ratio, rates = measured(lambda seed: goodput(folder, seed))
        return judged(f"{rates['weft']:.4g} and {rates['linux']:.4g} Mbit/s, {ratio} of {ratio.count} seeds", ratio)

    return body


def main() -> int:
    # It has its ways to judge from here.
    from mptcp import fidelity as multipath

    rows = {f"{name}/{control}": row(transfer, control) for name, transfer in PATHS.items() for control in CONTROLS} | multipath.rows()
    short = (*SHORT, *(f"mptcp/{name}" for name in multipath.SHORT))
    return run_rows(rows if FULL or os.environ.get("ONLY") else {name: rows[name] for name in short})
