"""examples/mptcp: each experiment in a short form, the picture of a result folder, and the commands of docs/mptcp.md, word for word."""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from harness import paths, weft
from harness.processes import PATIENCE, Failure
from pages import blocks
from virtual.determinism import debug_build, same
from virtual.kernels import PHONE_FILES, kernel
from virtual.releases import elsewhere
from virtual.runs import Runs
from virtual.shared import SECONDS_MAX, expect, weft_command

from .cases import FULL
from .pairs import EXAMPLES

Row = Mapping[str, str]
# Of the sum of TCP over each wire.
SUM_MIN, JAIN_MIN = 0.9, 0.9
# Of one key: a round trip by LTE takes 80 to 92 ms, and a path that is cut a timeout of each end.
HANDOVER_MS_MAX, FAILOVER_MS_MAX = 100, 2000


def experiment(folder: Path, name: str, *words: str, seeds: int = 1, seconds: float = SECONDS_MAX) -> list[dict[str, str]]:
    """Runs one, with one seed if nobody says otherwise; the rows of its table."""
    out = folder / "out"
    plots = subprocess.run([paths.PYTHON, "-c", "import matplotlib"], capture_output=True).returncode == 0
    # A user's PYTHONPATH would lead to the tests' modules.
    command = [paths.PYTHON, str(EXAMPLES / f"{name}.py"), "--weft", weft.binary(), "--seeds", str(seeds), "--out", str(out), *words]
    done = subprocess.run([*command, *([] if plots else ["--no-plot"])], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                          env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"})
    if done.returncode:
        raise Failure(f"{name}: exit status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    expect("plots", bool(list(out.glob("*.svg"))), plots)
    return list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))


def by(rows: list[Row], *keys: str, value: str = "Mbit/s") -> dict[str, float]:
    return {" ".join(row[key] for key in keys): float(row[value]) for row in rows}


def expect_order(found: Mapping[str, float], *names: str) -> str:
    """From the least to the most."""
    values = [found[name] for name in names]
    if any(one >= other for one, other in zip(values, values[1:])):
        raise Failure(f"{found}, not in the order {names}")
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, values))


def buffers(*words: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        if words:
            kernel(folder)
        return expect_order(by(experiment(folder, "buffers", "--sizes", "256", *words), "way"), "TCP, LTE", "TCP, Wi-Fi", "MPTCP")

    return body


def sum_of_two(folder: Path) -> str:
    found = by(experiment(folder, "sum"), "way")
    if found["MPTCP"] < SUM_MIN * found["their sum"]:
        raise Failure(f"{found}")
    return expect_order(found, "TCP, 1 Mbit/s", "TCP, 2 Mbit/s", "MPTCP")


def payload(folder: Path) -> str:
    rows = experiment(folder, "payload", "--sizes", "1024", "--megabytes", "4")
    # Real time, of the difference of two runs: beside other work it may be anything.
    if not all(math.isfinite(float(row["processor s/GB"])) for row in rows):
        raise Failure(f"{rows}")
    found = by(rows, "kind", "wires")
    return "; ".join(expect_order(found, f"{kind} 1", f"{kind} 2") for kind in ("stream", "datagrams"))


def handover(*words: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        if words:
            kernel(folder)
        rows = experiment(folder, "handover", *words)
        silence = {row["part"]: float(row["longest silence, ms"]) for row in rows}
        if max(silence["handover to LTE"], silence["handover to Wi-Fi"]) > HANDOVER_MS_MAX or silence["Wi-Fi is cut"] > FAILOVER_MS_MAX:
            raise Failure(f"silence in ms: {silence}")
        expect_picture(folder / "out" / "results", ["phone: set mptcp.prefer", "wire wifi down", "> 10.1.0.2:22"])
        return ", ".join(f"{part} {ms:.0f} ms" for part, ms in silence.items())

    return body


def power(folder: Path) -> str:
    return expect_order(by(experiment(folder, "power"), "standby", value="LTE, wake-ups"), "never", "active", "always")


def schedulers(folder: Path) -> str:
    names = ("backup", "default", "ecf")
    found = by(experiment(folder, "schedulers", "--pairs", "clean", "--schedulers", ",".join(names), "--seconds", "5"), "scheduler")
    return "; ".join(expect_order(found, "backup", name) for name in names[1:])


def fairness(folder: Path) -> str:
    [row] = experiment(folder, "fairness", "--controls", "lia", "--seconds", "30")
    if float(row["Jain"]) < JAIN_MIN:
        raise Failure(f"{row}")
    return f"Jain index {float(row['Jain']):.3f}"


def expect_picture(results: Path, words: list[str]) -> None:
    """pictures/mptcp is well-formed, has lines, and says these words; the series beside it has rows."""
    root = ElementTree.fromstring((results / "pictures" / "mptcp.svg").read_text())
    said = "\n".join("".join(text.itertext()).strip() for text in root.iter() if text.tag.endswith("text"))
    missing = [word for word in words if word not in said]
    expect(f"words that are not in the picture, which has {said!r}", missing, [])
    expect("lines", sum(line.tag.endswith("polyline") for line in root.iter()) > 4, True)
    expect("PNG", (results / "pictures" / "mptcp.png").read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
    expect("PDF", (results / "pictures" / "mptcp.pdf").read_bytes()[:5], b"%PDF-")
    expect("series", len((results / "series" / "subflows.csv").read_text().splitlines()) > 10, True)


def picture(folder: Path) -> str:
    """What subflows carry, and when their wires came and went. To look at them changes no hash."""
    hashes = {json_hash(folder, *words) for words in (("--out", "with"), ("--set", "sample=1000s"))}
    expect("hashes with and without samples", len(hashes), 1)
    expect_picture(folder / "with", ["data of connections, MB", "1: 5 s, wire wifi down", "2: 8 s, wire wifi up", "10.1.0.2:80 > 10.2.0.1:", "acknowledged"])
    return hashes.pop()


def json_hash(folder: Path, *words: str) -> str:
    said = weft_command(folder, "sim", str(EXAMPLES / "download.toml"), *words).stdout
    return next(line for line in said.splitlines() if line.startswith("hash"))


def block_of_page(heading: str) -> list[str]:
    """The commands of the first block under a heading of docs/mptcp.md."""
    block = next(block for block in blocks.read(paths.ROOT / "docs" / "mptcp.md") if block.heading == heading)
    return [command.text for command in block.commands]


def five_commands(folder: Path) -> str:
    """From a shell in weft's folder. What builds weft, what shows a picture and how long one waits is not the page's: xdg-open looks
    whether there is a picture, and sleep waits until the paced world has come as far as it does on a machine that is not loaded."""
    commands = block_of_page("In five commands")
    expect("commands", len(commands), 5)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "weft").symlink_to(weft.binary())
    (folder / "examples").symlink_to(paths.ROOT / "examples")
    scripts = {
        "make": "true",
        "xdg-open": 'grep -q "wire wifi down" "$1" && echo "shown: $1"',
        "sleep": 'until [ "$(weft show mptcp --node phone 2>/dev/null | grep -c " active ")" = 2 ]; do /bin/sleep 0.1; done',
    }
    for name, script in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    # A world of its own is the only one there.
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(folder)}
    shell = subprocess.Popen(["bash", "-euc", "\n".join(commands)], cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        status = shell.wait(60 * PATIENCE)
    finally:
        # The paced world is in its middle.
        os.killpg(shell.pid, signal.SIGINT)
    said = shell.stdout.read()
    shown = [line for line in said.splitlines() if " active " in line]
    if status or "12000000 bytes in" not in said or "shown: " not in said or len(shown) != 2:
        raise Failure(f"exit status {status}\n{said}")
    return f"{len(shown)} subflows"


def one_hash(folder: Path) -> str:
    """The world of the phone with weft's stack: one hash and the same digits on one thread and two. In full 20 runs, a debug build, and another Debian release."""
    folder.chmod(0o777)
    shutil.copy2(weft.binary(), folder / "weft")
    for name in PHONE_FILES:
        shutil.copy(EXAMPLES / name, folder)
    if FULL:
        debug_build(folder)
    text = (EXAMPLES / "paths.toml").read_text()
    said = same(Runs(folder), text)
    return said + (f"; {elsewhere(folder, {'paths.toml': text}, ())}" if FULL and os.geteuid() == 0 else "")


def two_paths(folder: Path) -> str:
    """examples/mptcp/two-paths.sh, in real time: both subflows are shown, and its picture has both."""
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise paths.MissingTool("only root may make interfaces; runs as root")
    (folder / "weft").symlink_to(weft.binary())
    env = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "RESULTS": str(folder / "results")}
    done = subprocess.run([str(EXAMPLES / "two-paths.sh")], env=env, capture_output=True, text=True, timeout=60 * PATIENCE, stdin=subprocess.DEVNULL)
    found = re.search(r"^12000000 bytes in ([\d.]+) s$", done.stdout, re.MULTILINE)
    if done.returncode or not found or done.stdout.count(" active ") != 2:
        raise Failure(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    expect_picture(folder / "results", ["> 10.1.0.1:", "> 10.2.0.1:", "received in order"])
    return f"{12 * 8 / float(found[1]):.1f} Mbit/s"


def rows() -> dict[str, Callable[[Path], str]]:
    bodies = {
        "buffers": buffers(), "buffers, Linux": buffers("--linux", "all"), "sum": sum_of_two, "payload": payload, "handover": handover(),
        "handover, Linux serves": handover("--linux", "server"), "power": power, "schedulers": schedulers, "fairness": fairness,
        "picture": picture, "five commands": five_commands, "one hash": one_hash,
    }
    return {f"example/{name}": body for name, body in bodies.items()}


def real_rows() -> dict[str, Callable[[Path], str]]:
    return {"example/two paths": two_paths}
