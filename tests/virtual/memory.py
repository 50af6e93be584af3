"""`make test-valgrind`: worlds of built-in programs under valgrind's memcheck, and programs of nodes that were built with a sanitizer.

The stack has no unsafe code; what it stands on has some. Each world must end as it does without valgrind, with the same hash, no error, and
nothing definitely lost. A sanitizer must find the fault of faulty.c that it is for, in every run at the same virtual time, and nothing where there is none.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, compiled, difference, keys, pair, program, run_rows, section, tcp, udp, weft_command

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


def sanitized(folder: Path, sanitizer: str, fault: str, finds: str) -> str:
    """A program built with this sanitizer, twice; `finds`: what its report says, nothing: it finds nothing."""
    # Root's nodes are nobody outside.
    folder.chmod(0o755)
    command = str(compiled(Path(__file__).with_name("faulty.c"), folder / "faulty", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined"))
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}
    text = pair(rate="10mbit", delay="1ms") + program("faulty", "b", command, "serve", fault, expect="any", environment=environment)
    text += program("send", "a", command, "send", "b", start="10ms", environment=environment)
    (folder / "scenario.toml").write_text(text)
    found = []
    for out in ("one", "two"):
        done = weft_command(folder, "sim", "scenario.toml", "--json", "--out", out)
        results = folder / out / "programs" / "faulty"
        status = json.loads((results / "status.json").read_text())
        found.append((json.loads(done.stdout)["hash"], status, (results / "stdout").read_text(), (results / "stderr").read_text()))
    difference(folder / "one", folder / "two")
    (_, status, said, report), other = found
    if found[0] != other:
        raise Failure(f"two runs: {status['status']} {found[0][0]}, then {other[1]['status']} {other[0]}")
    if finds not in report or bool(report) != bool(finds):
        raise Failure(f"the report does not say {finds!r}:\n{report[-2000:]}")
    if not finds and said != "20 datagrams, 60\n":
        raise Failure(f"it said {said!r}")
    return f"{finds or 'nothing'} after {status['end_ns'] / 1e9:.9f} s, {status['status']}, one hash"


# What each is for. Of leaks see docs/compatibility.md.
SANITIZERS = {
    "address": ("overflow", "heap-buffer-overflow"),
    "undefined": ("shift", "shift exponent 100 is too large"),
    "thread": ("race", "data race"),
}


LEAKING = """
#include <stdlib.h>
static void *volatile kept;
int main(void)
{
    kept = malloc(100);
    kept = NULL;
    return 0;
}
"""
LEAKS_SAID = {"natively": "LeakSanitizer: detected memory leaks", "in a node": "LeakSanitizer has encountered a fatal error"}


def leaks(folder: Path) -> str:
    """The search for leaks at a program's end finds one natively, and ends the program in a node (docs/compatibility.md, `leaks`)."""
    folder.chmod(0o755)
    (folder / "leaking.c").write_text(LEAKING)
    command = str(compiled(folder / "leaking.c", folder / "leaking", "-fsanitize=address"))
    (folder / "scenario.toml").write_text(section("nodes.a") + program("leaking", "a", command, expect="any"))
    weft_command(folder, "sim", "scenario.toml", "--json", "--out", "out")
    found = {"natively": subprocess.run([command], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL).stderr,
             "in a node": (folder / "out" / "programs" / "leaking" / "stderr").read_text()}
    for where, said in LEAKS_SAID.items():
        if said not in found[where]:
            raise Failure(f"{where} it does not say {said!r}: {found[where][-1500:]}")
    return "found natively, and not in a node"


def main() -> int:
    rows = {name: lambda folder, text=text, words=words: run(folder, text, words) for name, (text, words) in WORLDS.items()}
    for sanitizer, (fault, finds) in SANITIZERS.items():
        rows[f"sanitizer/{sanitizer}/{fault}"] = lambda folder, sanitizer=sanitizer, fault=fault, finds=finds: sanitized(folder, sanitizer, fault, finds)
        rows[f"sanitizer/{sanitizer}/right"] = lambda folder, sanitizer=sanitizer: sanitized(folder, sanitizer, "right", "")
    rows["sanitizer/leaks"] = leaks
    # Not below /tmp: a node has a /tmp of its own.
    return run_rows(rows, "/var/tmp")
