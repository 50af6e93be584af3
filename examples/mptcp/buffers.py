#!/usr/bin/env python3
"""Goodput against the size of buffers: Multipath TCP over Wi-Fi and LTE, and TCP over each.

    ./buffers.py [--seeds 30] [--sizes 32,64,128,256,512] [--linux all] [--scheduler ecf] [--out buffers]

Figure 7 of "Direct Code Execution" (CoNEXT 2013), after "How Hard Can It Be?" (NSDI 2012). Every point is the mean of all seeds with its 95 % interval.
"""

from worlds import WAYS, Mean, all_of, lines, options, parsed, run, table


def buffers(kibibytes: int) -> dict[str, str]:
    size = kibibytes << 10
    return {f'nodes.{node}.sysctls."net.ipv4.tcp_{way}mem"': f"4096 {size} {size}" for node in ("phone", "server") for way in "rw"}


def main() -> None:
    parser = options(__doc__, "buffers")
    parser.add_argument("--sizes", default="32,64,128,256,512", help="KiB")
    parser.add_argument("--scheduler", help="of weft's phone: mptcp.scheduler")
    args = parsed(parser)
    sizes = [int(size) for size in args.sizes.split(",")]
    scheduler = {"nodes.phone.parameters": {"mptcp.scheduler": args.scheduler}} if args.scheduler else {}
    points = [(way, size) for way in WAYS for size in sizes]

    def sets(way: str, size: int) -> dict[str, object]:
        return WAYS[way] | buffers(size) | (scheduler if way == "MPTCP" else {})

    found = all_of(args, points, lambda point, seed: run(args, "paths.toml", sets(*point), seed))
    means = {point: Mean(tuple(world.goodput_mbit() for world in worlds)) for point, worlds in found.items()}
    table(args, "buffers", ("way", "KiB", "Mbit/s", "hash of seed 1"), [(*point, mean, found[point][0].hash) for point, mean in means.items()])
    of = {way: [(size, means[way, size]) for size in sizes] for way in WAYS}
    stack = f"Linux on {args.linux}" if args.linux else "weft"
    lines(args, "buffers", f"{stack}, 20 s, {args.seeds} seeds, 95 % intervals", "buffer at both ends, KiB", "goodput, Mbit/s", of)


if __name__ == "__main__":
    main()
