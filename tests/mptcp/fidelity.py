"""Rows of `make test-fidelity` about Multipath TCP: ten pairs of paths between two of weft's, and between two Linux kernels on the same wires, with Linux's
scheduler and control.

There are two subflows, and the sender's buffer is fixed (SO_SNDBUF), so large that it fills both paths: what a kernel's own buffer holds depends on how it was
built (docs/linux-notes/mptcp.md).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from virtual import fidelity
from virtual.kernels import kernel

from .pairs import PAIRS, Flow, Measured, run, world

SYSCTLS = fidelity.BUFFERS | {"net.core.wmem_max": "4194304"}
FLOWS = {host: Flow(host, ("seconds", 30.0), control="cubic", sysctls=SYSCTLS, announces=False, send_buffer=1_000_000) for host in ("weft", "linux")}
# In the short form: a subflow that stays in slow start, or a far path that seems empty, shows here first.
SHORT = ("near + far",)


def shares(flows: list[Measured]) -> str:
    """Mbit/s of each path: the mean."""
    each = zip(*([carried * 8 / of.seconds / 1e6 for carried in of.carried] for of in flows))
    return " and ".join(f"{statistics.mean(of):.2f}" for of in each)


def row(name: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        kernel(folder)
        found: dict[str, list[Measured]] = {host: [] for host in FLOWS}

        def goodputs(seed: int) -> dict[str, float]:
            rates = {}
            for host, flow in FLOWS.items():
                of = run(world(PAIRS[name], flow), seed)
                found[host].append(of)
                rates[host] = of.goodput_mbit
            return rates

        ratio, rates = fidelity.measured(goodputs)
        each = f"shares {shares(found['weft'])} of weft's, {shares(found['linux'])} of Linux's"
        return fidelity.judged(f"{rates['weft']:.4g} and {rates['linux']:.4g} Mbit/s, {ratio} of {ratio.count} seeds; {each}", ratio)

    return body


def rows() -> dict[str, Callable[[Path], str]]:
    return {f"mptcp/{name}": row(name) for name in PAIRS}
