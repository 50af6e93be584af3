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

SECONDS_MAX = 600
CRATES = ("wire", "core", "blocks", "tcp", "socket", "node")
# Less would mean that the profile is not that of the scenarios.
TCP_LEAST = 50.0

TCP = """
ipv6 = true
[templates.d]
kind = "dumbbell"
left = 2
right = 2
wire = { rate = "100mbit", delay = "1ms" }
bottleneck = { rate = "10mbit", delay = "10ms", queue = "QUEUE", ecn = true, LOSS }
node = { parameters = { "tcp.congestion" = "CONGESTION" } }
[programs.sink]
node = "d-right*"
builtin = "tcp-sink"
port = 5001
[programs.send]
node = "d-left*"
builtin = "tcp-send"
to = "d-right{n}:5001"
bytes = 2_000_000
[programs.back]
node = "d-right1"
builtin = "ping"
to = "d-left2"
"""
UDP = """
[nodes.a]
[nodes.r]
[nodes.b]
[nodes.lan]
kind = "switch"
[nodes.c]
[wires.ar]
between = ["a", "r"]
delay = "1ms"
[wires.rl]
between = ["r", "lan"]
mtu = 600
[wires.b]
between = ["b", "lan"]
delay = "1us"
duplicate = 0.01
reorder = 0.01
corrupt = 0.01
[wires.c]
between = ["c", "lan"]
delay = "1us"
[programs.sink]
node = "b"
builtin = "udp-sink"
port = 9000
[programs.cbr]
node = "a"
builtin = "udp-cbr"
to = "b:9000"
rate = "2mbit"
size = 4000
duration = "2s"
[programs.ping]
node = "c"
builtin = "ping"
to = "a"
size = 2000
expect = "any"
[programs.nobody]
node = "c"
builtin = "tcp-send"
to = "b:81"
bytes = 1
expect = 1
[[events]]
at = "500ms"
down = "ar"
[[events]]
at = "700ms"
up = "ar"
[[events]]
at = "1s"
crash = "c"
[[events]]
at = "1100ms"
restart = "c"
"""


def scenarios() -> dict[str, str]:
    out = {"datagrams": UDP}
    losses = {"cubic": "loss = 0.01", "reno": "gilbert = { to_bad = 0.01, to_good = 0.3 }", "bbr": "jitter = '2ms'", "dctcp": "reorder = 0.02"}
    for congestion, queue in (("cubic", "fq-codel"), ("reno", "red"), ("bbr", "drop-tail"), ("cubic", "pie")):
        text = TCP.replace("CONGESTION", congestion).replace("QUEUE", queue).replace("LOSS", losses[congestion])
        out[f"tcp, {congestion}, {queue}"] = text
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
    """Prints a crate's files, those with the most lines that did not run first, and returns their sum."""
    chosen = {path: file for path, file in files.items() if path.startswith(f"crates/{crate}/src/") and "/tests" not in path and not path.endswith("/fuzzing.rs")}
    if not chosen:
        raise Failure("none of its files is in the program")
    for path, file in sorted(chosen.items(), key=lambda row: row[1].lines_ran - row[1].lines):
        print(f"    {100 * file.lines_ran / max(file.lines, 1):5.1f} % of {file.lines:5} lines  "
              f"{100 * file.functions_ran / max(file.functions, 1):5.1f} % of {file.functions:4} functions  {path}")
    lines, ran = sum(file.lines for file in chosen.values()), sum(file.lines_ran for file in chosen.values())
    functions, called = sum(file.functions for file in chosen.values()), sum(file.functions_ran for file in chosen.values())
    share = 100 * ran / lines
    if crate == "tcp" and share < TCP_LEAST:
        raise Failure(f"only {share:.1f} % of tcp's lines")
    return f"{share:.1f} % of {lines} lines, {100 * called / functions:.1f} % of {functions} functions"


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
        files = row("profiles", lambda: coverage.read(program, folder.glob("*.profraw"), folder))
        for crate in CRATES if files else ():
            row(f"coverage/{crate}", lambda: table(files, crate))
    return recorder.finish()
