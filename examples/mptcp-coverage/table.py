#!/usr/bin/env python3
"""What of the kernel's Multipath TCP (net/mptcp) four scenarios reach: runs them, and prints lines, functions and branches per file, and all together.

    ./table.py [--out DIR] [--weft weft] [--lines 68] [--functions 86] [SCENARIO.toml ...]

Exit status 1: less than that much of the lines or functions, in per cent. Needs `weft kernel build --coverage`, and gcov.
After section 4.2 of "Direct Code Execution: Revisiting Library OS Architecture for Reproducible Network Experiments" (CoNEXT 2013), whose table 4 has 68.0 % and 85.9 %.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = [HERE / f"{name}.toml" for name in ("sockets", "paths", "manager", "middle")]
MEASURES = ("lines", "functions", "branches")


def run(weft: str, *words: str) -> str:
    done = subprocess.run([weft, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"weft {' '.join(words)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def counted(weft: str, scenarios: list[Path], out: Path) -> dict:
    """The kernel's counts after all scenarios have run, as `weft kernel coverage` tells them."""
    results = [str(out / scenario.stem) for scenario in scenarios]
    for scenario, folder in zip(scenarios, results):
        run(weft, "sim", str(scenario), "--json", "--out", folder)
    return json.loads(run(weft, "kernel", "coverage", "net/mptcp", *results, "--json"))


def share(row: dict, measure: str) -> float:
    """Per cent."""
    return 100 * row[measure]["reached"] / row[measure]["all"] if row[measure]["all"] else 100.0


def printed(told: dict) -> None:
    print(f"{'':<26}" + "".join(f"{measure:>20}" for measure in MEASURES))
    for row in [*told["files"], told["all"]]:
        name = Path(row["file"]).name if row in told["files"] else "all"
        print(f"{name:<26}" + "".join(f"{row[measure]['reached']:>6} / {row[measure]['all']:<5}{share(row, measure):>5.1f} %" for measure in MEASURES))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", type=Path, default=SCENARIOS)
    parser.add_argument("--out", type=Path, help="folder of the results of the scenarios (default: none is left)")
    parser.add_argument("--weft", default="weft")
    parser.add_argument("--lines", type=float, default=68)
    parser.add_argument("--functions", type=float, default=86)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-coverage-") as folder:
        told = counted(args.weft, args.scenarios, args.out or Path(folder))
    printed(told)
    lacking = [measure for measure, least in (("lines", args.lines), ("functions", args.functions)) if share(told["all"], measure) < least]
    for measure in lacking:
        print(f"too few {measure}: {share(told['all'], measure):.1f} %")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
