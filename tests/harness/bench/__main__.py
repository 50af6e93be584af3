"""`make bench`: measures the machine, throughput, requests and drops over real interfaces, and calls the benchmarks in Rust; prints one table.

A benchmark in Rust prints its rows as a JSON list on standard output, with needs as for the reference machine: they
are scaled here, in one place. WEFT_MACHINE_SPEED tells it the speed, should its own text want it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from .. import paths
from ..environment import run_main
from . import drops, machine, report, requests, throughput

# name of the result, cargo arguments, whether it is meant for one core
RUST = (
    ("memory", ("-p", "weft-host", "--example", "bench-memory", "--", "--json"), True),
    ("drop", ("-p", "weft-host", "--example", "bench-drop", "--", "--json"), True),
    ("graph", ("-p", "weft-core", "--example", "bench-graph", "--", "--json"), True),
    ("replace", ("-p", "weft-node", "--example", "bench-replace", "--", "--json"), True),
    ("blocks", ("-p", "weft-plugin", "--example", "bench-blocks", "--", "--json"), False),
    ("threaded", ("-p", "weft-host", "--example", "bench-threaded", "--", "--json"), False),
)


def rust(arguments: tuple[str, ...], speed: float, one_core: bool = True) -> list[report.Row]:
    """The rows that a benchmark in Rust prints. Raises when it fails: a benchmark that is not there is no result.

    It is built first, and then runs, on one core alone if what it measures is meant for one core."""
    build = arguments[: arguments.index("--")]
    subprocess.run(["cargo", "build", "--quiet", "--release", *build], cwd=paths.ROOT, stdin=subprocess.DEVNULL, check=True, timeout=1800)
    cores = {max(os.sched_getaffinity(0))} if one_core else os.sched_getaffinity(0)
    run = subprocess.run(
        ["cargo", "run", "--quiet", "--release", *arguments], cwd=paths.ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, timeout=1800, env={**os.environ, "WEFT_MACHINE_SPEED": f"{speed:.4f}"},
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if run.returncode != 0:
        raise RuntimeError(f"cargo run {' '.join(arguments)} ended with status {run.returncode}")
    return parse(run.stdout)


def parse(output: str) -> list[report.Row]:
    """The JSON list in `output`; lines of text before it are passed over."""
    start = output.find("[\n") if "[\n" in output else output.find("[{")
    if start < 0:
        raise RuntimeError(f"a benchmark printed no rows:\n{output[-500:]}")
    return [report.Row(**row) for row in json.loads(output[start:])]


def main() -> int:
    native = os.environ.get("MODE") == "native"
    measured = machine.measure()
    rows = measured.rows()
    print(report.table(rows), flush=True)
    failed = False
    sources = [("tap", lambda: throughput.measure(native))]
    if not native:
        sources += [("requests", requests.measure), ("drops", drops.measure)]
        sources += [(name, lambda arguments=arguments, one_core=one_core: rust(arguments, measured.speed, one_core))
                    for name, arguments, one_core in RUST]
    for name, source in sources:
        try:
            found = [machine.scale(row, measured.speed) for row in source()]
        except Exception as error:  # one benchmark that fails must not take the others' results with it
            print(f"failed: {name}: {error}", flush=True)
            failed = True
            continue
        report.write(name, [*measured.rows(), *found])
        rows += found
    print("\n" + report.table(rows), flush=True)
    return status(rows, failed, bool(os.environ.get("FULL")))


def status(rows: list[report.Row], failed: bool, full: bool) -> int:
    """A benchmark that failed fails all. A need that is not met is an error in the full form; else the table says NO."""
    return 1 if failed or (full and any(row.met is False for row in rows)) else 0


if __name__ == "__main__":
    sys.exit(run_main(main))
