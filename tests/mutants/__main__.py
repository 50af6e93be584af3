"""Do the tests of tcp and ip4 notice when the code is wrong? `cargo mutants` on a seeded sample; at most a tenth may survive.

SEED=N draws another sample, MUTANTS=N another number of them. A mutant that does not compile counts neither way.
"""

from __future__ import annotations

import difflib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import paths, results

# Which package, and which of its files ("" for all).
SUBJECTS = (("weft-tcp", ""), ("weft-blocks", "crates/blocks/src/ip/ip4"))
SAMPLE = 60
SURVIVORS_MOST = 0.10
# Watchdogs: of one mutant's tests (five times what they take without it, but not less than this), and of all of it.
TEST_SECONDS_LEAST = 60
SECONDS_MAX = 7000


def population() -> list[tuple[str, str]]:
    """Every mutant as (package, name)."""
    out = []
    for package, prefix in SUBJECTS:
        listed = subprocess.run(["cargo", "mutants", "--list", "--json", "--package", package], cwd=paths.ROOT, check=True,
                                capture_output=True, text=True).stdout
        out += [(package, mutant["name"]) for mutant in json.loads(listed) if mutant["file"].startswith(prefix)]
    return out


def exactly(name: str) -> str:
    return f"^{re.escape(name).replace('/', '[/]')}$"


def lines_of(names: list[str]) -> str:
    """A diff that adds the lines which these mutants change. cargo-mutants 27 takes every "delete field" whatever --re says, but none beyond a diff."""
    lines: dict[str, set[int]] = {}
    for name in names:
        path, line, _ = name.split(":", 2)
        lines.setdefault(path, set()).add(int(line))
    out = []
    for path, added in sorted(lines.items()):
        new = (paths.ROOT / path).read_text().splitlines(keepends=True)
        old = [text for number, text in enumerate(new, 1) if number not in added]
        out += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(out)


def run(package: str, names: list[str], folder: Path) -> list[dict]:
    """What became of these mutants. The tests are the package's own."""
    diff = folder / "lines.diff"
    diff.write_text(lines_of(names))
    command = ["cargo", "mutants", "--package", package, "--jobs", "2", "--profile", "mutants", "--output", str(folder),
               "--minimum-test-timeout", str(TEST_SECONDS_LEAST), "--no-shuffle", "--colors", "never", "--test-workspace=false",
               "--cap-lints=true", "--in-diff", str(diff)]
    command += [word for name in names for word in ("--re", exactly(name))]
    # Each job builds in its own copy of the tree: a common target directory would make them wait for one another.
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    subprocess.run(command, cwd=paths.ROOT, env=environment, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    outcomes = json.loads((folder / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    return [outcome for outcome in outcomes if outcome["scenario"] != "Baseline" and outcome["scenario"]["Mutant"]["name"] in names]


def main() -> int:
    seed, count = int(os.environ.get("SEED") or 1), int(os.environ.get("MUTANTS") or SAMPLE)
    recorder = results.Recorder()
    mutants = population()
    chosen = random.Random(seed).sample(sorted(mutants), min(count, len(mutants)))
    print(f"{len(chosen)} of {len(mutants)} mutants, seed {seed}", flush=True)
    started, caught, missed, unbuilt = time.monotonic(), 0, [], 0
    with tempfile.TemporaryDirectory(prefix="weft-mutants-") as name:
        for package, _ in SUBJECTS:
            names = [mutant for of, mutant in chosen if of == package]
            folder = Path(name) / package
            folder.mkdir()
            for outcome in run(package, names, folder) if names else ():
                mutant = outcome["scenario"]["Mutant"]["name"]
                if outcome["summary"] in ("CaughtMutant", "Timeout"):
                    caught += 1
                elif outcome["summary"] == "MissedMutant":
                    missed.append(mutant)
                    print(f"survived: {mutant}", flush=True)
                else:
                    unbuilt += 1
                    print(f"{outcome['summary']}: {mutant}", flush=True)
    total = caught + len(missed)
    if caught + len(missed) + unbuilt != len(chosen):
        raise SystemExit(f"{len(chosen)} mutants were drawn, {caught + len(missed) + unbuilt} have a result")
    text = f"{len(missed)} of {total} that compile survived, seed {seed}" + "".join(f"\n{mutant}" for mutant in missed)
    passed = total > 0 and len(missed) <= SURVIVORS_MOST * total
    recorder.add(results.Row("mutants", results.PASSED if passed else results.FAILED, time.monotonic() - started, text))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
