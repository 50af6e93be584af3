"""`make test-valgrind`: worlds of built-in programs under valgrind's memcheck. The stack has no unsafe code; what it stands on has some.

Each row must end as it does without valgrind, with the same hash, no error, and nothing definitely lost.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, keys, pair, run_rows, section, tcp, udp

ERROR_STATUS = 99

PING = keys(ipv6=True) + section("templates.n", kind="star", count=3, wire={"delay": "1ms", "loss": 0.01})
PING += builtin("ping", "n1", "ping", to="n3", count=5, expect="any")
TCP = keys(sample="100ms", capture=True) + pair(rate="20mbit", delay="5ms", loss=0.01, queue="fq-codel") + tcp(bytes=300_000)
UDP = section("templates.n", kind="chain", count=4, wire={"rate": "100mbit", "delay": "5us", "duplicate": 0.01, "reorder": 0.01})
UDP += udp("n1", "n4", rate="10mbit", size=3000, count=200)
UDP += section("[events]", at="100ms", crash="n2") + section("[events]", at="150ms", restart="n2")
WORLDS = {"ping over a switch": (PING, ()), "TCP with loss": (TCP, ()), "TCP on two threads": (TCP, ("--threads", "2")), "datagrams and a crash": (UDP, ())}


def run(folder: Path, text: str, words: tuple[str, ...]) -> str:
    (folder / "scenario.toml").write_text(text)
    command = [weft.binary(), "sim", "scenario.toml", "--json", *words]
    plain = subprocess.run([*command, "--out", "plain"], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    log = folder / "valgrind.log"
    checked = [paths.tool("valgrind"), f"--error-exitcode={ERROR_STATUS}", "--leak-check=full", "--errors-for-leak-kinds=definite", f"--log-file={log}"]
    started = time.monotonic()
    done = subprocess.run([*checked, *command, "--out", "checked"], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    took = time.monotonic() - started
    said = log.read_text()
    if done.returncode != plain.returncode:
        raise Failure(f"exit status {done.returncode} instead of {plain.returncode}\n{said[-3000:]}{done.stderr[-1000:]}")
    if json.loads(done.stdout)["hash"] != json.loads(plain.stdout)["hash"]:
        raise Failure("another hash than without valgrind")
    errors = re.search(r"ERROR SUMMARY: (\d+) errors", said)
    lost = re.search(r"definitely lost: ([\d,]+) bytes", said)
    heap = re.search(r"total heap usage: ([\d,]+) allocs", said)
    if not errors or not heap or errors.group(1) != "0":
        raise Failure(said[-3000:])
    return f"{errors.group(1)} errors, {lost.group(1) if lost else 0} bytes lost of {heap.group(1)} allocations, {took:.1f} s"


def main() -> int:
    return run_rows({name: lambda folder, text=text, words=words: run(folder, text, words) for name, (text, words) in WORLDS.items()})
