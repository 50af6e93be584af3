#!/usr/bin/env python3
"""Payloads of 64 to 65507 bytes over one wire of 100 Mbit/s and over two: goodput, and processor time a gigabyte, as a stream and as datagrams.

    ./payload.py [--seeds 5] [--sizes 64,…] [--megabytes 20] [--linux all] [--out payload]

A stream over two wires is Multipath TCP, over one it is TCP; datagrams go to the server's addresses in turn. Processor time is that of `weft sim`, with the
programs in it, beyond that of a world in which only one payload goes. It is real time: run nothing beside it (--jobs 1, the default).
"""

import itertools

from worlds import MPTCP, TCP, Mean, all_of, lines, options, parsed, run, table, two_wires

WIRE = {"rate": "100mbit", "delay": "5ms", "queue_packets": 200}
ADDRESSES = ("10.1.0.2", "10.2.0.2")
KINDS, PATHS = ("stream", "datagrams"), (1, 2)
# Of what wires carry: datagrams have headers, and no control of congestion.
LOAD = 0.7
PAYLOADS_MAX = 50_000


def programs(kind: str, paths: int, size: int, count: int) -> dict[str, object]:
    asked = MPTCP if paths > 1 else TCP
    sink = ["5000", asked] if kind == "stream" else ["5000"]
    words = [asked, ADDRESSES[0], "5000", size, count] if kind == "stream" else ["5000", size, count, LOAD * 100 * paths, *ADDRESSES[:paths]]
    script = ["python3", "/srv/payload_flow.py"]
    return {"programs.receive.command": [*script, f"{kind}-sink", *sink], "programs.send.command": [*script, kind, *map(str, words)]}


def main() -> None:
    parser = options(__doc__, "payload", seeds=5)
    parser.set_defaults(jobs=1)
    parser.add_argument("--sizes", default="64,256,1024,4096,16384,65507", help="bytes")
    parser.add_argument("--megabytes", type=float, default=20, help=f"a point, but {PAYLOADS_MAX} payloads at most")
    args = parsed(parser)
    sizes = [int(size) for size in args.sizes.split(",")]
    buffers = {f'nodes.{node}.sysctls."net.ipv4.tcp_{way}mem"': "4096 131072 4194304" for node in ("phone", "server") for way in "rw"}
    script = {f"nodes.{node}.files": {"/srv/payload_flow.py": {"from": "payload_flow.py"}} for node in ("phone", "server")}
    sets = two_wires(WIRE, WIRE) | buffers | script | {"sample": "1000s"}

    def measured(point: tuple[str, int, int], seed: int) -> tuple[float, float]:
        kind, paths, size = point
        count = min(PAYLOADS_MAX, int(args.megabytes * 1e6 / size))
        plain = {} if kind == "stream" and paths > 1 else {f"nodes.{node}.mptcp": False for node in ("phone", "server")}
        all_, one = (run(args, "paths.toml", sets | plain | programs(kind, paths, size, count), seed) for count in (count, 1))
        flow = all_.flow()
        return flow["bytes"] * 8 / flow["seconds"] / 1e6, (all_.processor_seconds - one.processor_seconds) / (flow["bytes"] / 1e9)

    found = all_of(args, itertools.product(KINDS, PATHS, sizes), measured)
    means = {point: [Mean(values) for values in zip(*of)] for point, of in found.items()}
    table(args, "payload", ("kind", "wires", "bytes", "Mbit/s", "processor s/GB"), [(*point, *of) for point, of in means.items()])
    for number, (name, unit) in enumerate((("goodput", "goodput, Mbit/s"), ("processor", "processor seconds a GB"))):
        of = {f"{kind}, {paths} wire{'s' * (paths > 1)}": [(size, means[kind, paths, size][number]) for size in sizes] for kind in KINDS for paths in PATHS}
        lines(args, f"payload-{name}", f"{args.seeds} seeds, 95 % intervals", "bytes of a payload", unit, of)


if __name__ == "__main__":
    main()
