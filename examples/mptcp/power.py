#!/usr/bin/env python3
"""What an interface that stands by costs: bytes and wake-ups of Wi-Fi and LTE for each mptcp.standby, and what a failover then takes.

    ./power.py [--seeds 1] [--idle 1] [--out power]

A wake-up: a frame in either direction after so many seconds without one.
"""

from worlds import Mean, World, all_of, bars, options, parsed, run, table

STANDBY = ("always", "active", "never")
WIRES = ("wifi", "lte")


def wakeups(world: World, wire: str, idle: float) -> int:
    busy = sorted({float(row["time_s"]) for row in world.wires if row["wire"] == wire and int(row["throughput_bits_per_second"])})
    return sum(at - before > idle for before, at in zip([-idle - 1, *busy], busy))


def main() -> None:
    parser = options(__doc__, "power", seeds=1, linux=False)
    parser.add_argument("--idle", type=float, default=1, help="seconds")
    args = parsed(parser)
    found = all_of(args, STANDBY, lambda standby, seed: run(args, "power.toml", {'nodes.phone.parameters."mptcp.standby"': standby}, seed))
    rows, of = [], {}
    for standby, worlds in found.items():
        carried = [Mean(tuple(sum(way["bytes"] for wire in world.summary["wires"] if wire["name"] == name for way in wire["directions"]) / 1000
                              for world in worlds)) for name in WIRES]
        woken = [Mean(tuple(wakeups(world, wire, args.idle) for world in worlds)) for wire in WIRES]
        rows.append((standby, *carried, *woken, Mean(tuple(float(world.said["ask"]) for world in worlds))))
        of[standby] = list(zip(WIRES, woken))
    table(args, "power", ("standby", "Wi-Fi, kB", "LTE, kB", "Wi-Fi, wake-ups", "LTE, wake-ups", "longest answer, s"), rows)
    bars(args, "power", "six answers of 200 kB in 120 s, Wi-Fi is cut in the fifth", "wake-ups", of)


if __name__ == "__main__":
    main()
