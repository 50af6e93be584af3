"""Do the tests of tcp and ip4 notice when the code is wrong? `cargo mutants` on a seeded sample; at most a tenth may survive.

SEED=N draws another sample, MUTANTS=N another number of them. A mutant that does not compile counts neither way.
"""

from __future__ import annotations

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
# Watchdogs: of one mutant's tests, and of all of it.
TEST_SECONDS_MAX = 120
SECONDS_MAX = 7000


def population() -> list[tuple[str, str]]:
    """Every mutant as (package, name)."""
    out = []
    for package, prefix in SUBJECTS:
        listed = subprocess.run(["cargo", "mutants", "--list", "--json", "--package", package], cwd=paths.ROOT, check=True,
                                capture_output=True, text=True).stdout
        out += [(package, mutant["name"]) for mutant in json.loads(listed) if mutant["file"].startswith(prefix)]
    return out


def run(package: str, names: list[str], folder: Path) -> list[dict]:
    """What became of these mutants. The tests are the package's own."""
    command = ["cargo", "mutants", "--package", package, "--jobs", "2", "--timeout", str(TEST_SECONDS_MAX), "--output", str(folder),
               "--no-shuffle", "--colors", "never", "--test-workspace=false", "--cap-lints=true"]
    for name in names:
        command += ["--re", f"^{re.escape(name).replace('/', '[/]')}$"]
    subprocess.run(command, cwd=paths.ROOT, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    outcomes = json.loads((folder / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    return [outcome for outcome in outcomes if outcome["scenario"] != "Baseline"]


def main() -> int:
    seed, count = int(os.environ.get("SEED") or 1), int(os.environ.get("MUTANTS") or SAMPLE)
    recorder = results.Recorder()
    mutants = population()
    chosen = random.Random(seed).sample(sorted(mutants), min(count, len(mutants)))
    print(f"{len(chosen)} of {len(mutants)} mutants, seed {seed}", flush=True)
    started, caught, missed = time.monotonic(), 0, []
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
                    print(f"{outcome['summary']}: {mutant}", flush=True)
    total = caught + len(missed)
    text = f"{len(missed)} of {total} that compile survived, seed {seed}" + "".join(f"\n{mutant}" for mutant in missed)
    passed = total > 0 and len(missed) <= SURVIVORS_MOST * total
    recorder.add(results.Row("mutants", results.PASSED if passed else results.FAILED, time.monotonic() - started, text))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
