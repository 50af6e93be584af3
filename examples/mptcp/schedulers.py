#!/usr/bin/env python3
"""Schedulers compared on ten pairs of paths (pairs.toml): goodput of 20 s, or of 1 MB.

    ./schedulers.py [--seeds 30] [--schedulers default,lowest-rtt,…] [--pairs WORDS] [--bytes 1000000] [--out schedulers]

With --linux server the peer is a Linux kernel.
"""

import tomllib

from worlds import HERE, Mean, all_of, bars, options, parsed, run, table, two_wires, way

SCHEDULERS = "default,lowest-rtt,round-robin,redundant,backup,blest,ecf"
BUFFERS = {f'nodes.{node}.sysctls."net.ipv4.tcp_{mem}"': sizes for node in ("phone", "server")
           for mem, sizes in (("rmem", "4096 131072 6291456"), ("wmem", "4096 16384 4194304"))}


def main() -> None:
    parser = options(__doc__, "schedulers")
    parser.add_argument("--schedulers", default=SCHEDULERS)
    parser.add_argument("--pairs", default="", help="those whose names have these words (default: all)")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--bytes", type=int, help="so much instead of so long")
    args = parsed(parser)
    pairs = {name: pair for name, pair in tomllib.loads((HERE / "pairs.toml").read_text()).items() if args.pairs in name}
    schedulers, amount = args.schedulers.split(","), (args.bytes, "bytes") if args.bytes else (args.seconds, "seconds")

    def goodput(point: tuple[str, str], seed: int) -> float:
        pair, scheduler = point
        sets = way(True, "10.1.0.2", *amount) | two_wires(**pairs[pair]) | BUFFERS | {"nodes.phone.parameters": {"mptcp.scheduler": scheduler}}
        return run(args, "paths.toml", sets, seed).goodput_mbit()

    found = all_of(args, [(pair, scheduler) for pair in pairs for scheduler in schedulers], goodput)
    means = {point: Mean(tuple(values)) for point, values in found.items()}
    table(args, "schedulers", ("pair", "scheduler", "Mbit/s"), [(*point, mean) for point, mean in means.items()])
    of = {pair: [(scheduler, means[pair, scheduler]) for scheduler in schedulers] for pair in pairs}
    bars(args, "schedulers", f"{amount[0]:g} {amount[1]}, {args.seeds} seeds, 95 % intervals", "goodput, Mbit/s", of)


if __name__ == "__main__":
    main()
