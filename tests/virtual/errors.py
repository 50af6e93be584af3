"""What `weft sim` says when something is wrong: with a scenario, with a program, or with the patience of its user.

`scenario-files/NAME.toml` is a wrong scenario, `NAME.txt` what `weft sim NAME.toml` says. A line that ends with … stands for all that
begin so: such lines list what there is, which grows.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

from harness import weft
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, expect, keys, pair, run_rows, udp, weft_command

FOLDER = Path(__file__).parent / "scenario-files"
REFUSED, MISSED = 2, 1

NODES = pair(delay="1ms")
# Nobody listens: its status is 1, and 0 was expected.
EARLY = NODES + builtin("sender", "a", "tcp-send", to="b:5001", bytes=1000)
# It does not end, and was to.
ENDLESS = keys(duration="5s") + NODES + builtin("lonely", "b", "tcp-sink", port=5001, expect=0)
# Longer than anybody waits.
LONG = keys(duration="100000s", capture=True) + NODES + udp(rate="1mbit", size=1000, duration="90000s")


def wrong_file(name: str) -> str:
    expected = (FOLDER / f"{name}.txt").read_text()
    wanted = expected.splitlines()
    if not wanted[0].startswith(f"weft: {name}.toml:") or "help: " not in expected:
        raise Failure("the expected message names no place, or not what to do")
    done = weft_command(FOLDER, "sim", f"{name}.toml", status=REFUSED)
    found = done.stderr.splitlines()
    same = len(wanted) == len(found) and all(fits(line, other) for line, other in zip(wanted, found))
    if not same or done.stdout:
        raise Failure(f"wanted:\n{expected}\nfound:\n{done.stdout}{done.stderr}")
    # Looking at it only says the same.
    if weft_command(FOLDER, "sim", f"{name}.toml", "--check", status=REFUSED).stderr != done.stderr:
        raise Failure("--check says something else")
    return wanted[0]


def fits(wanted: str, found: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("…") else found.rstrip() == wanted


def misses(folder: Path, name: str, text: str) -> str:
    """The run fails with status 1 and names the program; its results are there."""
    (folder / "scenario.toml").write_text(text)
    out = folder / name
    said = weft_command(folder, "sim", "scenario.toml", "--out", str(out), status=MISSED).stderr
    told = [line for line in said.splitlines() if line.startswith("weft: not as expected: ")]
    if len(told) != 1 or name not in told[0]:
        raise Failure(said)
    summary = json.loads((out / "summary.json").read_text())
    if summary["passed"] or not any(row["failure"] for row in summary["expectations"]):
        raise Failure(f"the summary says otherwise: {summary['expectations']}")
    return told[0]


def interrupted(folder: Path) -> str:
    """Ctrl-C: results are complete up to that time."""
    (folder / "scenario.toml").write_text(LONG)
    out = folder / "out"
    words = [weft.binary(), "sim", "scenario.toml", "--out", str(out), "--record", "full"]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        events = out / "record" / "b.events"
        deadline = time.monotonic() + SECONDS_MAX
        while not events.exists() or events.stat().st_size < 1 << 18:
            if time.monotonic() > deadline or process.poll() is not None:
                raise Failure("the run does not come to anything")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    summary = json.loads((out / "summary.json").read_text())
    if summary["end"] != "interrupted" or ": interrupted" not in said or not 0 < summary["end_ns"] < 90_000 * 10**9:
        raise Failure(f"{summary['end']} at {summary['end_ns']}: {said}")
    status = json.loads((out / "programs" / "cbr" / "status.json").read_text())
    sent = status["figures"]["sent"]
    # 1000 bytes each at 1 Mbit/s: 8 ms apart.
    if abs(sent - summary["end_ns"] // 8_000_000) > 2 or (out / "captures" / "b-eth0.pcapng").stat().st_size < sent * 1000:
        raise Failure(f"{sent} datagrams until {summary['end_ns']} ns")
    expect("weft hash", weft_command(folder, "hash", str(out)).stdout.strip(), summary["hash"])
    return f"{sent} datagrams, status {process.returncode}, hash {summary['hash']}"


def main() -> int:
    rows: dict[str, Callable[[Path], str]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        rows[f"wrong file/{path.stem}"] = lambda _, name=path.stem: wrong_file(name)
    rows["program/ends with another status"] = lambda folder: misses(folder, "sender", EARLY)
    rows["program/does not end"] = lambda folder: misses(folder, "lonely", ENDLESS)
    rows["interrupted"] = interrupted
    return run_rows(rows)
