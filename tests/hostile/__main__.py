"""Hostile frames into live nodes, and how much of the code that reads them they reached.

Short form: 100,000 frames. FULL=1: 1,000,000, and the fuzz targets (every format, reassembly, a whole node) for 20 minutes in all.
SEED=N and FRAMES=N repeat a run; FUZZ_SECONDS=N fuzzes for another time (0: not at all).

`python3 -m hostile build` only compiles.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import coverage as counted
from harness import results, seeds
from harness.processes import Failure

from . import fuzz

# Watchdogs.
RUN_SECONDS_MAX = 3000
COVERAGE_LEAST = 90.0

TCP_INPUT = [
    "block/ingress.rs", "block/listen.rs", "block/listener.rs", "block/cookies.rs", "block/error.rs", "block/fast_open.rs",
    "block/servers.rs", "block/time_wait.rs", "connection/segment.rs", "connection/text.rs", "connection/receiver.rs",
    "connection/receiver_acks.rs", "connection/receiver_stamps.rs", "connection/acknowledge.rs", "connection/sacks.rs",
    "connection/handshake.rs", "connection/early.rs", "connection/bounds.rs", "connection/setup.rs", "connection/opening.rs",
    "connection/reassembly.rs", "connection/ranges.rs", "connection/urgent.rs", "connection/ecn.rs",
    "connection/outstanding.rs", "connection/undo.rs",
]
# What reads frames. The fuzz targets themselves and the conversation with people (parameters, state) are not what is measured.
GROUPS = {
    "wire": lambda path: path.startswith("crates/wire/src/") and not path.endswith("/fuzzing.rs"),
    "ip": lambda path: path.startswith("crates/blocks/src/ip/") and not path.endswith(("/control.rs", "/request.rs")),
    "tcp input": lambda path: path.startswith("crates/tcp/src/") and path.removeprefix("crates/tcp/src/") in TCP_INPUT,
}


def build() -> Path:
    """The example with counters in it."""
    return counted.build("--workspace", "--example", "hostile") / "examples" / "hostile"


def attack(program: Path, folder: Path, frames: int, seed: int) -> str:
    """Runs it, shows what it prints, and returns its account of the run."""
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(folder / "hostile.profraw"), "RUST_BACKTRACE": "1"}
    process = subprocess.Popen(
        [str(program), "--frames", str(frames), "--seed", str(seed)], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )
    assert process.stdout is not None
    started, lines = time.monotonic(), []
    for line in process.stdout:
        lines.append(line)
        print(f"    {line}", end="", flush=True)
        if time.monotonic() - started > RUN_SECONDS_MAX:
            process.kill()
    if process.wait() != 0:
        tail = "".join(lines[-30:])
        raise Failure(f"exit status {process.returncode}; again: SEED={seed} FRAMES={frames} make test-hostile\n{tail}")
    return "; ".join(line.strip() for line in lines if line.startswith(("sound", "connections")))


def coverage(program: Path, folder: Path) -> dict[str, tuple[int, int]]:
    """Lines and lines that ran of each source file of weft, by its path in the repository."""
    files = counted.read(program, counted.merge([folder / "hostile.profraw"], folder))
    return {path: (file.lines, file.lines_ran) for path, file in files.items()}


def judge(files: dict[str, tuple[int, int]], group: str) -> str:
    """The share of a group; its files are printed, those with the most lines that did not run first."""
    chosen = {path: counts for path, counts in files.items() if GROUPS[group](path)}
    total, ran = (sum(counts[at] for counts in chosen.values()) for at in (0, 1))
    if not total:
        raise Failure(f"no file of {group} is in the program")
    gone = [name for name in TCP_INPUT if f"crates/tcp/src/{name}" not in files]
    if gone:
        raise Failure(f"TCP_INPUT names what is not in the program: {', '.join(gone)}")
    for path, (count, covered) in sorted(chosen.items(), key=lambda row: row[1][1] - row[1][0]):
        print(f"    {100 * covered / max(count, 1):5.1f} %  {covered:5}/{count:<5} {path}")
    share = 100 * ran / total
    text = f"{share:.1f} % of {total} lines in {len(chosen)} files ran"
    if share < COVERAGE_LEAST:
        raise Failure(f"{text}, less than {COVERAGE_LEAST} %")
    return text


def main() -> int:
    if sys.argv[1:] == ["build"]:
        try:
            build()
        except Failure as failure:
            print(failure, file=sys.stderr)
            return 1
        return 0
    full = bool(os.environ.get("FULL"))
    frames = int(os.environ.get("FRAMES") or (1_000_000 if full else 100_000))
    seed = seeds.seed()
    recorder = results.Recorder()

    def row(name: str, body) -> object:
        started = time.monotonic()
        answer = None
        try:
            answer = body()
            outcome, reason = results.PASSED, answer if isinstance(answer, str) else ""
        except (Failure, subprocess.SubprocessError) as failure:
            outcome, reason = results.FAILED, str(failure)
        recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))
        return answer

    folder = Path(tempfile.mkdtemp(prefix="weft-hostile-"))
    try:
        program = row("build", build)
        if program is not None and row(f"{frames} frames, seed {seed}", lambda: attack(program, folder, frames, seed)) is not None:
            files = row("coverage", lambda: coverage(program, folder))
            for group in GROUPS if files else ():
                row(f"coverage/{group}", lambda: judge(files, group))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = int(os.environ.get("FUZZ_SECONDS") or (1200 if full else 0))
    for target, share in fuzz.shares(seconds):
        row(f"fuzz/{target.name}", lambda: fuzz.run(target, share))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
