"""Goodput of TCP at a given loss beside the models of the literature: 30 seeds each.

Mathis, Semke, Mahdavi, Ott (1997): a window of sqrt(3/2) / sqrt(p) segments for Reno. RFC 9438 §5.1 for CUBIC: ((C (3 + b) / (4 (1 - b)))^(1/4) RTT^(3/4) /
p^(3/4), "with a deterministic loss model where the number of packets between two successive packet losses is always 1/p". So frames are lost nearly that
regularly there, each gap a quarter more or less by the seed: windows are whole segments, so that CUBIC stays on its plateau for the 1.4 s before and after K
in which it is less than a segment away, and with gaps that are all alike every plateau within a sixth of the model's is as good as the model's (Linux 6.12 as
well: 1.15 of the model). And once more by chance, where the same equations, run by themselves, say what is to be expected (about a sixth more: a long time
without a loss gives more than a short one takes).

The models know nothing of slow start, timeouts and the round trip that a recovery takes. Round trips are chosen so that these are small, and that
CUBIC's own region applies, not that of Reno.
"""

from __future__ import annotations

import concurrent.futures
import os
import random
from pathlib import Path
from typing import Callable

from harness.processes import Failure

from .shared import figures, pair, sim, tcp

SEEDS = 30
SEGMENT_BYTES = 1448
WITHIN = 0.10
# Of the gap between two losses, where they are to be regular.
UNEVEN = 0.25

# RFC 9438 §4.1: "C SHOULD be set to 0.4", §4.6: beta_cubic "SHOULD be set to 0.7".
C, BETA = 0.4, 0.7


def mathis(p: float) -> float:
    return (1.5 / p) ** 0.5


def rfc9438(p: float, rtt: float) -> float:
    return (C * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * rtt**0.75 / p**0.75


def equations(p: float, rtt: float, seconds: float, seed: int) -> float:
    """The mean window of RFC 9438's equations when packets are lost by chance: a round trip after the other, nothing of a network."""
    rng = random.Random(seed)
    window, before_loss, plateau, estimate, began, now, sent, slow = 10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, True
    alpha = 3 * (1 - BETA) / (1 + BETA)
    while now < seconds:
        packets = max(1, int(window + rng.random()))
        lost = any(rng.random() < p for _ in range(packets))
        sent, now = sent + packets, now + rtt
        if lost:
            # §4.7: fast convergence.
            plateau = window * (1 + BETA) / 2 if window < before_loss else window
            before_loss, window, slow = window, window * BETA, False
            # Recovery takes a round trip.
            sent, now = sent + int(window), now + rtt
            began, estimate, after = now, window, window
        elif slow:
            window *= 2
        else:
            estimate += alpha if estimate < plateau else 1
            k = (max(plateau - after, 0) / C) ** (1 / 3)
            elapsed = now - began
            if C * (elapsed - k) ** 3 + plateau < estimate:
                window = estimate
            else:
                window = min(max(C * (elapsed + rtt - k) ** 3 + plateau, window), 1.5 * window)
    return sent * rtt / seconds


def text(congestion: str, rtt_ms: int, seconds: int, **loss) -> str:
    """One sender over a wire that loses so on the way there."""
    wire = pair({"parameters": {"tcp.congestion": congestion}}, rate="1gbit", delay=f"{rtt_ms / 2}ms", back={"loss": 0.0}, **loss)
    return wire + tcp(duration=f"{seconds}s")


def by_chance(folder: Path, congestion: str, p: float, rtt_ms: int, seconds: int) -> float:
    """Mean window in segments, from the goodput of all seeds."""
    rows = sim(folder, text(congestion, rtt_ms, seconds, loss=p), "--seeds", f"1..{SEEDS}")["figures"]
    row = next(row for row in rows if row["figure"] == "sink.goodput_bits_per_second")
    if row["seeds"] != SEEDS:
        raise Failure(f"{row['seeds']} seeds")
    return float(row["mean"]) * rtt_ms / 1000 / 8 / SEGMENT_BYTES


def regularly(folder: Path, congestion: str, p: float, rtt_ms: int, seconds: int) -> float:
    """The same with every 1/p-th frame lost, give or take; the seed moves the first, too."""
    every, enough = round(1 / p), 4 * int(rfc9438(p, rtt_ms / 1000) * seconds * 1000 / rtt_ms)

    def one(seed: int) -> float:
        own = folder / f"seed{seed}"
        own.mkdir()
        rng, lost = random.Random(seed), [every * seed // SEEDS]
        while lost[-1] < enough:
            lost.append(lost[-1] + round(every * rng.uniform(1 - UNEVEN, 1 + UNEVEN)))
        summary = sim(own, text(congestion, rtt_ms, seconds, lose=lost), "--seed", str(seed))
        return figures(summary, "sink")["goodput_bits_per_second"]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        goodputs = list(pool.map(one, range(1, SEEDS + 1)))
    return sum(goodputs) / SEEDS * rtt_ms / 1000 / 8 / SEGMENT_BYTES


def judge(found: float, model: float) -> str:
    said = f"window of {found:.1f} segments, the model {model:.1f}: {found / model:.3f}"
    if abs(found / model - 1) > WITHIN:
        raise Failure(said)
    return said


def chance_of_equations(p: float, rtt_ms: int, seconds: int) -> float:
    return sum(equations(p, rtt_ms / 1000, seconds, seed) for seed in range(SEEDS)) / SEEDS


ROWS: dict[str, Callable[[Path], str]] = {
    "reno, 1 %, Mathis": lambda folder: judge(by_chance(folder, "reno", 0.01, 200, 800), mathis(0.01)),
    "reno, 0.1 %, Mathis": lambda folder: judge(by_chance(folder, "reno", 0.001, 100, 200), mathis(0.001)),
    "cubic, 1 %, RFC 9438": lambda folder: judge(regularly(folder, "cubic", 0.01, 300, 400), rfc9438(0.01, 0.3)),
    "cubic, 0.1 %, RFC 9438": lambda folder: judge(regularly(folder, "cubic", 0.001, 300, 200), rfc9438(0.001, 0.3)),
    "cubic, 1 % by chance": lambda folder: judge(by_chance(folder, "cubic", 0.01, 300, 1000), chance_of_equations(0.01, 300, 1000)),
    "cubic, 0.1 % by chance": lambda folder: judge(by_chance(folder, "cubic", 0.001, 300, 300), chance_of_equations(0.001, 300, 300)),
}
