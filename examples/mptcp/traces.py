#!/usr/bin/env python3
"""Makes wifi.trace and lte.trace: when each 1500-byte packet can leave, in milliseconds, a line each, in Mahimahi's format. After the last they begin again.

Synthetic: the rate walks at random between two bounds, a step every 100 ms, always with the same seed.
"""

import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Name, Mbit/s at least and at most and in one step, seed.
TRACES = (("wifi", 0.6, 3.2, 0.25, 1), ("lte", 0.7, 1.4, 0.08, 2))
MILLISECONDS, STEP = 20_000, 100

for name, least, most, step, seed in TRACES:
    chance, rate, credit, lines = random.Random(seed), (least + most) / 2, 0.0, []
    for now in range(1, MILLISECONDS + 1):
        if now % STEP == 0:
            rate = min(most, max(least, rate + chance.uniform(-step, step)))
        credit += rate * 1e6 / 8 / 1000 / 1500
        while credit >= 1:
            credit -= 1
            lines.append(now)
    (HERE / f"{name}.trace").write_text("".join(f"{line}\n" for line in lines))
    print(f"{name}: {len(lines) * 1500 * 8 / MILLISECONDS / 1000:.2f} Mbit/s on average")
