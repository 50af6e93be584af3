#!/usr/bin/env python3
"""2 and 1 Mbit/s: Multipath TCP over both wires carries what TCP carries over one and over the other.

    ./sum.py [--seeds 30] [--linux all] [--out sum]
"""

from worlds import WAYS, Mean, all_of, bars, options, parsed, run, table, two_wires

BUFFERS = {f'nodes.{node}.sysctls."net.ipv4.tcp_{way}mem"': "4096 131072 4194304" for node in ("phone", "server") for way in "rw"}


def wire(mbit: int) -> dict[str, object]:
    # Jitter, so that seeds differ.
    return {"rate": f"{mbit}mbit", "delay": "10ms", "jitter": "1ms", "queue_packets": 30}


def main() -> None:
    args = parsed(options(__doc__, "sum"))
    sets = two_wires(wire(2), wire(1)) | BUFFERS
    found = all_of(args, WAYS, lambda way, seed: run(args, "paths.toml", WAYS[way] | sets, seed).goodput_mbit())
    both, one, other = found.values()
    parts = {"TCP, 2 Mbit/s": one, "TCP, 1 Mbit/s": other, "their sum": [sum(pair) for pair in zip(one, other)], "MPTCP": both}
    means = {name: Mean(tuple(values)) for name, values in parts.items()}
    table(args, "sum", ("way", "Mbit/s"), means.items())
    bars(args, "sum", f"20 s, {args.seeds} seeds, 95 % intervals", "goodput, Mbit/s", {name: [("", mean)] for name, mean in means.items()})


if __name__ == "__main__":
    main()
