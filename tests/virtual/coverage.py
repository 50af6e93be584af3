"""`make coverage`: what of the stack worlds reach by themselves, line by line and function by function, file by file.

Only scenarios run, of built-in programs and (in full) of unmodified ones: no unit test, no fuzzer. What they do not reach is code that nobody has shown to
work in a network. The table judges nothing but that it is one: every scenario ran, and the middle of the stack was reached.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from harness import coverage, paths, results
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, keys, section, tcp, udp

CRATES = ("wire", "core", "blocks", "tcp", "socket", "node")
# Less would mean that the profile is not that of the scenarios.
TCP_LEAST = 50.0

TCP = keys(ipv6=True) + tcp("d-left*", "d-right*", bytes=2_000_000).replace("d-right*:5001", "d-right{n}:5001") + builtin("back", "d-right1", "ping", to="d-left2")
LAN = section("nodes.a") + section("nodes.r") + section("nodes.b") + section("nodes.lan", kind="switch") + section("nodes.c")
LAN += section("wires.ar", between=["a", "r"], delay="1ms") + section("wires.rl", between=["r", "lan"], mtu=600)
LAN += section("wires.b", between=["b", "lan"], delay="1us", duplicate=0.01, reorder=0.01, corrupt=0.01) + section("wires.c", between=["c", "lan"], delay="1us")
UDP = LAN + udp(rate="2mbit", size=4000, duration="2s") + builtin("ping", "c", "ping", to="a", size=2000, expect="any")
UDP += builtin("nobody", "c", "tcp-send", to="b:81", bytes=1, expect=1)
UDP += section("[events]", at="500ms", down="ar") + section("[events]", at="700ms", up="ar")
UDP += section("[events]", at="1s", crash="c") + section("[events]", at="1100ms", restart="c")


def dumbbell(congestion: str, queue: str, **mischief) -> str:
    bottleneck = {"rate": "10mbit", "delay": "10ms", "queue": queue, "ecn": True, **mischief}
    return TCP + section("templates.d", kind="dumbbell", left=2, right=2, wire={"rate": "100mbit", "delay": "1ms"}, bottleneck=bottleneck,
                         node={"parameters": {"tcp.congestion": congestion}})


def scenarios() -> dict[str, str]:
    out = {"datagrams": UDP}
    out["tcp, cubic, fq-codel"] = dumbbell("cubic", "fq-codel", loss=0.01)
    out["tcp, reno, red"] = dumbbell("reno", "red", gilbert={"to_bad": 0.01, "to_good": 0.3})
    out["tcp, bbr, drop-tail"] = dumbbell("bbr", "drop-tail", jitter="2ms")
    out["tcp, cubic, pie"] = dumbbell("cubic", "pie", reorder=0.02)
    return out


def run(program: Path, folder: Path, name: str, text: str) -> str:
    file = folder / "scenario.toml"
    file.write_text(text)
    profile = folder / f"{name.replace(' ', '-').replace('/', '-')}-%p.profraw"
    done = subprocess.run([str(program), "sim", str(file)], cwd=paths.ROOT / "docs" / "examples", capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL, env={**os.environ, "LLVM_PROFILE_FILE": str(profile)})
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}\n{done.stderr[-1000:]}")
    return done.stderr.strip().splitlines()[-1].removeprefix("weft: ")


def table(files: dict[str, coverage.File], crate: str) -> str:
    found = coverage.of_crate(files, crate)
    if crate == "tcp" and found.lines_share < TCP_LEAST:
        raise Failure(f"only {found.lines_share:.1f} % of tcp's lines")
    return str(found)


def main() -> int:
    recorder = results.Recorder()

    def row(name: str, body) -> object:
        started, answer = time.monotonic(), None
        try:
            answer = body()
            outcome, reason = results.PASSED, answer if isinstance(answer, str) else ""
        except (Failure, subprocess.SubprocessError) as failure:
            outcome, reason = results.FAILED, str(failure)
        recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))
        return answer

    with tempfile.TemporaryDirectory(prefix="weft-coverage-") as name:
        folder = Path(name)
        program = row("build", lambda: coverage.build("--package", "weft-cli", "--bin", "weft") / "weft")
        if program is None:
            return recorder.finish()
        examples = {path.stem: path.read_text() for path in sorted((paths.ROOT / "docs" / "examples").glob("*.toml")) if "[programs" in path.read_text()}
        for label, text in {**scenarios(), **examples}.items():
            row(f"scenario/{label}", lambda: run(program, folder, label, text))
        files = row("profiles", lambda: coverage.read(program, coverage.merge(folder.glob("*.profraw"), folder)))
        for crate in CRATES if files else ():
            row(f"coverage/{crate}", lambda: table(files, crate))
    return recorder.finish()
