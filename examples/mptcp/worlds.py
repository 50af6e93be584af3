"""What the experiments share: the command line, worlds run with many seeds, means with their 95 % intervals, tables and plots."""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import dataclasses
import importlib.util
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
# IPPROTO_MPTCP, for which a program asks on Linux, and TCP.
MPTCP, TCP = "262", "6"
# Student's t, 97.5 %, by degrees of freedom; above 30 that of 30.
T = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
     2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)

Sets = Mapping[str, object]


def options(doc: str, name: str, seeds: int = 30, linux: bool = True) -> argparse.ArgumentParser:
    """What every experiment takes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"worlds a point (default {seeds})")
    parser.add_argument("--out", type=Path, default=Path(name), help="folder of the table and the plot")
    parser.add_argument("--weft", default="weft", help="the command")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="worlds at a time")
    parser.add_argument("--threads", default="1", help="of each world; they change no result")
    parser.add_argument("--no-plot", action="store_true", help="the table alone, which needs no matplotlib")
    if linux:
        parser.add_argument("--linux", default="", metavar="NODES", help="nodes that are Linux kernels (`weft kernel build`): names, or all")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    args = parser.parse_args()
    # Before an hour of worlds, and not after it.
    if not args.no_plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("no matplotlib: apt-get install python3-matplotlib, pip install matplotlib, or --no-plot")
    args.out.mkdir(parents=True, exist_ok=True)
    return args


@dataclasses.dataclass(frozen=True)
class World:
    """What a run left."""

    summary: dict
    # What programs wrote.
    said: dict[str, str]
    # Rows of series/wires.csv.
    wires: list[dict[str, str]]
    processor_seconds: float

    @property
    def hash(self) -> str:
        return self.summary["hash"]

    def flow(self, program: str = "receive") -> dict:
        """What flow.py says of what came."""
        try:
            return json.loads(self.said[program])
        except ValueError:
            sys.exit(f"{program} did not come to its end: {self.said[program][-500:]!r}")

    def goodput_mbit(self, program: str = "receive") -> float:
        flow = self.flow(program)
        return flow["bytes"] * 8 / flow["seconds"] / 1e6


def toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, (list, tuple)) else json.dumps(value)


def run(args: argparse.Namespace, scenario: str, sets: Sets, seed: int, keep: Path | None = None) -> World:
    """One world to its end; `sets`: what is otherwise than in the file. `keep`: where its results stay."""
    everything = dict(sets) | {f"nodes.{node}.kind": "linux" for node in getattr(args, "linux", "").replace("all", "phone,server").split(",") if node}
    words = [word for path, value in everything.items() for word in ("--set", f"{path}={toml(value)}")]
    with tempfile.TemporaryDirectory(prefix="weft-experiment-", dir="/var/tmp") as folder:
        out = keep or Path(folder)
        command = [args.weft, "sim", str(HERE / scenario), "--seed", str(seed), "--threads", args.threads, "--json", "--out", str(out), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        printed, error = process.stdout.read(), process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said = {path.parent.name: path.read_text(errors="replace") for path in out.glob("programs/*/stdout")}
        if process.returncode:
            why = "".join(path.read_text(errors="replace")[-500:] for path in out.glob("programs/*/stderr"))
            sys.exit(f"{' '.join(command)}\n{error}{why}")
        wires = out / "series" / "wires.csv"
        rows = list(csv.DictReader(wires.read_text().splitlines())) if wires.exists() else []
        return World(json.loads(printed), said, rows, processor_seconds(used))


def processor_seconds(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime


def all_of(args: argparse.Namespace, points: Iterable, measure: Callable) -> dict:
    """measure(point, seed) of every point and seed, some at a time: by the point, a list in the order of the seeds."""
    points, seeds = list(points), range(1, args.seeds + 1)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(lambda each: measure(*each), itertools.product(points, seeds)))
    return {point: found[at * args.seeds:(at + 1) * args.seeds] for at, point in enumerate(points)}


@dataclasses.dataclass(frozen=True)
class Mean:
    """Of values of all seeds, with half of its 95 % interval; of one seed there is none."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def margin(self) -> float:
        count = len(self.values)
        return T[min(count - 1, 30)] * statistics.stdev(self.values) / math.sqrt(count) if count > 1 else math.nan

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + (f" ± {self.margin:.3f}" if len(self.values) > 1 else "")


def table(args: argparse.Namespace, name: str, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """To be read, and as OUT/NAME.csv with every digit; a Mean has two columns there."""
    rows = [list(row) for row in rows]
    text = [list(header)] + [[str(cell) if not isinstance(cell, float) else f"{cell:.3f}" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*text)]
    for line in text:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    names = [[title, f"{title}, margin"] if isinstance(cell, Mean) else [title] for title, cell in zip(header, rows[0])]
    with (args.out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(itertools.chain(*names))
        for row in rows:
            writer.writerow(itertools.chain(*([repr(cell.mean), repr(cell.margin)] if isinstance(cell, Mean) else [cell] for cell in row)))


def margins(means: Sequence[Mean]) -> list[float] | None:
    """For error bars; of one seed there are none (matplotlib before 3.7 takes no list of NaN)."""
    return None if any(math.isnan(mean.margin) for mean in means) else [mean.margin for mean in means]


def axes_of(args: argparse.Namespace, name: str, title: str, x: str, y: str, draw: Callable) -> None:
    """OUT/NAME.svg and .png; draw(axes) has the data."""
    if args.no_plot:
        return
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    draw(axes)
    axes.set(title=title, xlabel=x, ylabel=y, ylim=(0, None))
    if axes.get_legend_handles_labels()[1]:
        axes.legend()
    axes.grid(alpha=0.3)
    for kind in ("svg", "png"):
        figure.savefig(args.out / f"{name}.{kind}", bbox_inches="tight", dpi=150)
    pyplot.close(figure)
    print(f"plot: {args.out / name}.svg and .png")


def lines(args: argparse.Namespace, name: str, title: str, x: str, y: str, of: Mapping[str, Sequence[tuple[float, Mean]]]) -> None:
    """A line with error bars each; x doubles."""
    def draw(axes) -> None:
        for label, points in of.items():
            axes.errorbar([at for at, _ in points], [mean.mean for _, mean in points], yerr=margins([mean for _, mean in points]), marker="o", capsize=3, label=label)
        ticks = sorted({at for points in of.values() for at, _ in points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{at:g}" for at in ticks])

    axes_of(args, name, title, x, y, draw)


def bars(args: argparse.Namespace, name: str, title: str, y: str, of: Mapping[str, Sequence[tuple[str, Mean]]]) -> None:
    """Groups of bars; in each the same labels."""
    def draw(axes) -> None:
        labels = list(dict.fromkeys(label for group in of.values() for label, _ in group))
        width = 0.8 / len(labels)
        for number, label in enumerate(labels):
            found = [(at, mean) for at, group in enumerate(of.values()) for of_label, mean in group if of_label == label]
            axes.bar([at + (number + 0.5) * width - 0.4 for at, _ in found], [mean.mean for _, mean in found], width,
                     yerr=margins([mean for _, mean in found]), capsize=2, label=label)
        axes.set_xticks(range(len(of)), of, rotation=20 if len(of) > 4 else 0, ha="right" if len(of) > 4 else "center")

    axes_of(args, name, title, "", y, draw)


def two_wires(one: Sets, other: Sets) -> dict[str, object]:
    """The wires of paths.toml."""
    ends = (("wifi", "phone:wifi0", "server:eth0"), ("lte", "phone:lte0", "server:eth1"))
    return {f"wires.{name}": {"between": list(between), **wire} for (name, *between), wire in zip(ends, (one, other))}


def way(multipath: bool, address: str = "10.1.0.2", seconds: float = 20, how: str = "seconds") -> dict[str, object]:
    """How the phone of paths.toml sends: by Multipath TCP, or as TCP to one of the server's addresses, whose wire it takes."""
    asked = MPTCP if multipath else TCP
    sets: dict[str, object] = {
        "programs.receive.command": ["python3", "/srv/flow.py", "server", asked, "5000"],
        "programs.send.command": ["python3", "/srv/flow.py", "client", asked, address, "5000", how, f"{seconds:g}"],
    }
    return sets | ({} if multipath else {"nodes.phone.mptcp": False, "nodes.server.mptcp": False})


WAYS = {"MPTCP": way(True), "TCP, Wi-Fi": way(False), "TCP, LTE": way(False, "10.2.0.2")}
