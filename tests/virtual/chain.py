"""Datagrams at a constant rate over chains of nodes, in virtual time and over network namespaces.

1470 bytes, 100 Mbit/s, wires of 1 Gbit/s, chains of 2 to 64 nodes. What was sent must have been received at every length;
how long that took is printed, beside the same chain of namespaces with veth pairs, which takes as long as it lasts and
may lose. Short form: 2 s of traffic and three lengths; FULL=1: 10 s and all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time

from harness import namespaces, paths
from harness.processes import Failure

from .shared import SECONDS_MAX, figures, run_rows, weft_command

SCENARIO = paths.ROOT / "docs" / "examples" / "chain.toml"
LENGTHS = (2, 4, 8, 16, 32, 64)
LENGTHS_SHORT = (2, 16, 64)
SETTLE_SECONDS_MAX = 20


def simulate(length: int, seconds: int) -> tuple[dict, float]:
    """The summary of a run, and how long it took."""
    last = f"n{length}"
    sets = [f"templates.n.count={length}", f"programs.sink.node={last}", f"programs.ping.to={last}",
            f"programs.cbr.to={last}:9000", f"programs.cbr.duration={seconds}s"]
    started = time.monotonic()
    done = weft_command(SCENARIO.parent, "sim", str(SCENARIO), "--json", *[word for text in sets for word in ("--set", text)])
    return json.loads(done.stdout), time.monotonic() - started


def row(length: int, seconds: int) -> str:
    summary, wall = simulate(length, seconds)
    sent, received = figures(summary, "cbr")["sent"], figures(summary, "sink")["received"]
    expected = -(-100_000_000 * seconds // (1470 * 8))
    if not sent == received == expected:
        raise Failure(f"{sent} sent, {received} received, {expected} expected")
    frames = sum(direction["frames"] for wire in summary["wires"] for direction in wire["directions"])
    text = f"{received} of {sent} datagrams; {wall:.2f} s wall for {seconds} s, {frames / wall:,.0f} frames/s"
    beside = native(length, seconds)
    return f"{text}; namespaces: {beside}"


def native(length: int, seconds: int) -> str:
    """The same over network namespaces: what iperf3 says came of it."""
    made: list[namespaces.Namespace] = []
    prefix = f"weft-{os.getpid()}-{length}"
    try:
        for number in range(1, length + 1):
            made.append(namespaces.Namespace(f"{prefix}-n{number}"))
            made[-1].sysctl("net.ipv4.ip_forward", "1")
        for number in range(1, length):
            left, right = made[number - 1], made[number]
            namespaces.veth((left, "right"), (right, "left"))
            left.ip("addr", "add", f"10.{number}.0.1/24", "dev", "right")
            right.ip("addr", "add", f"10.{number}.0.2/24", "dev", "left")
        for number, namespace in enumerate(made, 1):
            if number < length:
                namespace.ip("route", "add", "default", "via", f"10.{number}.0.2")
            for before in range(1, number - 1):
                namespace.ip("route", "add", f"10.{before}.0.0/24", "via", f"10.{number - 1}.0.1")
        return measure(made[0], made[-1], f"10.{length - 1}.0.2", seconds)
    finally:
        for namespace in made:
            namespaces.kill_all(namespace.pids())
            namespace.remove()


def measure(first: namespaces.Namespace, last: namespaces.Namespace, address: str, seconds: int) -> str:
    iperf3 = paths.tool("iperf3")
    server = subprocess.Popen([*last.prefix, iperf3, "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while ":5201" not in subprocess.run([*last.prefix, paths.tool("ss"), "-ltn"], capture_output=True, text=True).stdout:
            if time.monotonic() > deadline:
                raise Failure("iperf3 does not listen")
            time.sleep(0.05)
        words = [*first.prefix, iperf3, "-c", address, "-u", "-b", "100M", "-l", "1470", "-t", str(seconds), "-J"]
        started = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX)
        wall = time.monotonic() - started
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-500:]}")
        end = json.loads(done.stdout)["end"]["sum"]
        return f"{end['packets'] - end['lost_packets']} of {end['packets']}, {wall:.2f} s wall"
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        server.wait()


def main() -> int:
    namespaces.enter_user_namespace()
    full = bool(os.environ.get("FULL"))
    lengths, seconds = (LENGTHS, 10) if full else (LENGTHS_SHORT, 2)
    return run_rows({f"{length} nodes": lambda _, length=length: row(length, seconds) for length in lengths})
