#!/usr/bin/env python3
"""Goodput against the size of buffers: MPTCP over Wi-Fi and LTE, TCP over each, as a table and a plot.

    ./goodput.py [--seeds 30] [--sizes 32,64,128,256,512] [--out goodput] [--weft weft] [--jobs 2]

Every point is the mean of all seeds with its 95 % interval (Student's t). Needs matplotlib, and programs that the phone and the server run: iperf3, mptcpize.
"""

import argparse
import concurrent.futures
import csv
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What runs at both ends, and from which address.
PLAIN = {"listen": ["iperf3", "-s", "-1"]}
WAYS = {
    "MPTCP": {},
    "TCP, Wi-Fi": PLAIN | {"iperf3": ["iperf3", "-c", "10.3.0.2", "-t", "20", "-J", "-B", "10.1.0.2"]},
    "TCP, LTE": PLAIN | {"iperf3": ["iperf3", "-c", "10.3.0.2", "-t", "20", "-J", "-B", "10.2.0.2"]},
}
# Student's t, 97.5 %, by degrees of freedom; above 30 that of 30.
T = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080,
     2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


def words(way: str, kibibytes: int) -> list[str]:
    """What is set over the scenario."""
    size = kibibytes << 10
    found = []
    for node in ("phone", "server"):
        for name, value in (("net.ipv4.tcp_rmem", f"4096 {size} {size}"), ("net.ipv4.tcp_wmem", f"4096 {size} {size}"),
                            ("net.core.rmem_max", str(size)), ("net.core.wmem_max", str(size))):
            found += ["--set", f'nodes.{node}.sysctls."{name}"="{value}"']
    for program, command in WAYS[way].items():
        found += ["--set", f"programs.{program}.command={json.dumps(command)}"]
    return found


def goodput(weft: str, way: str, kibibytes: int, seed: int) -> float:
    """Mbit/s that the server's iperf3 counted."""
    with tempfile.TemporaryDirectory(prefix="weft-goodput-") as out:
        command = [weft, "sim", str(HERE / "scenario.toml"), "--seed", str(seed), "--json", "--out", out, *words(way, kibibytes)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{way}, {kibibytes} KiB, seed {seed}:\n{done.stderr}")
        said = Path(out, "programs", "iperf3", "stdout").read_text()
    try:
        return json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6
    except (ValueError, KeyError):
        sys.exit(f"{way}, {kibibytes} KiB, seed {seed}: iperf3 did not come to its end: {said[-500:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--sizes", default="32,64,128,256,512", help="KiB")
    parser.add_argument("--out", type=Path, default=Path("goodput"), help="folder of the table and the plot")
    parser.add_argument("--weft", default="weft")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    # Before an hour of worlds, and not after it.
    if importlib.util.find_spec("matplotlib") is None:
        sys.exit("no matplotlib, which the plot needs: apt-get install python3-matplotlib, or pip install matplotlib")
    sizes = [int(size) for size in args.sizes.split(",")]
    points = [(way, size, seed) for way in WAYS for size in sizes for seed in range(1, args.seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        rates = dict(zip(points, pool.map(lambda point: goodput(args.weft, *point), points)))
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for way in WAYS:
        for size in sizes:
            found = [rates[way, size, seed] for seed in range(1, args.seeds + 1)]
            margin = T[min(len(found) - 1, 30)] * statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.nan
            rows.append((way, size, statistics.mean(found), margin, len(found)))
    with (args.out / "goodput.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(["way", "buffer_kibibytes", "goodput_mbit_per_second", "margin_of_error", "seeds"])
        table.writerows([(way, size, repr(mean), repr(margin), count) for way, size, mean, margin, count in rows])
    for way, size, mean, margin, _ in rows:
        print(f"{way:<12} {size:>5} KiB  {mean:.6f} ± {margin:.6f} Mbit/s")
    plot(rows, sizes, args)


def plot(rows: list[tuple], sizes: list[int], args: argparse.Namespace) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for way in WAYS:
        of_way = [row for row in rows if row[0] == way]
        axes.errorbar([row[1] for row in of_way], [row[2] for row in of_way], yerr=[row[3] for row in of_way], marker="o", capsize=3, label=way)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("buffer at both ends (KiB)")
    axes.set_ylabel("goodput (Mbit/s)")
    axes.set_title(f"Linux 6.12, 20 s, {args.seeds} seeds, 95 % intervals")
    axes.legend()
    axes.grid(alpha=0.3)
    for kind in ("svg", "png"):
        figure.savefig(args.out / f"goodput.{kind}", bbox_inches="tight", dpi=150)
    print(f"plot: {args.out}/goodput.svg and .png")


if __name__ == "__main__":
    main()
