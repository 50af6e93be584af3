"""Linux kernels as nodes of virtual worlds: `make test-kernel`. Skipped where no kernel has been built (`weft kernel build`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Callable

from harness import paths

from .shared import expect, keys, program, run_rows, section, weft_command

LINUX = {"kind": "linux"}
SOURCE = "/usr/share/common-licenses"
# What a ping over two kernels takes: twice the delay, and an Ethernet frame of 98 bytes at 100 Mbit/s each way.
DELAY_NS, FRAME_NS = 10_000_000, 98 * 8 * 10


def kernel(folder: Path) -> None:
    """Is there a kernel?"""
    if not json.loads(weft_command(folder, "kernel", "list", "--json").stdout):
        raise paths.MissingTool("no Linux kernel has been built: `weft kernel build` takes a few minutes")


def world(folder: Path, text: str, *words: str) -> tuple[dict, dict[str, str]]:
    """The summary of a run, and what its programs wrote."""
    kernel(folder)
    (folder / "w.toml").write_text(text)
    out = folder / "out"
    summary = json.loads(weft_command(folder, "sim", "w.toml", "--json", "--out", str(out), *words).stdout)
    return summary, {row["name"]: (out / "programs" / row["name"] / "stdout").read_text() for row in summary["programs"]}


def linux_pair(a: dict, b: dict) -> str:
    return section("nodes.a", **a) + section("nodes.b", **b) + section("wires.ab", between=["a", "b"], rate="100mbit", delay="10ms")


def ping(a: dict, b: dict) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        text = keys(duration="5s") + linux_pair(a, b) + program("ping", "a", "ping", "-n", "-c", "3", "-i", "0.2", "b", start="2s")
        _, wrote = world(folder, text, "--set", "capture=true")
        expect("answers", wrote["ping"].count("bytes from"), 3)
        # On the wire, to the nanosecond: what goes in at one end comes out at the other.
        tshark = [paths.tool("tshark"), "-r", str(folder / "out" / "captures" / "a-eth0.pcapng"), "-Y", "icmp", "-T", "fields", "-e", "frame.time_epoch"]
        times = [int(line.replace(".", "")) for line in subprocess.run(tshark, capture_output=True, text=True, check=True).stdout.split()]
        gap = times[-1] - times[-2]
        expect("the last round trip in ns", gap, 2 * DELAY_NS + 2 * FRAME_NS)
        return f"{gap} ns"

    return body


def transfer(a: dict, b: dict) -> Callable[[Path], str]:
    """http in both directions, with what is at both ends compared byte for byte."""
    def body(folder: Path) -> str:
        fetch = "curl -sS http://{}/GPL-3 | sha256sum; sha256sum < " + SOURCE + "/GPL-3"
        text = keys(duration="20s") + linux_pair(a, b)
        for here, there in (("a", "b"), ("b", "a")):
            text += program(f"server-{here}", here, "python3", "-m", "http.server", "80", expect="running", directory=SOURCE)
            text += program(f"fetch-{here}", here, "sh", "-c", fetch.format(there), start="2s")
        _, wrote = world(folder, text)
        for name in ("fetch-a", "fetch-b"):
            got, wanted = wrote[name].split("\n")[:2]
            expect(name, got, wanted)
        return "byte-exact"

    return body


FORWARDING = keys(duration="10s") + section("nodes.a", **LINUX) + section("nodes.r", **LINUX) + section("nodes.b") + \
    section("wires.ar", between=["a", "r"], rate="100mbit", delay="5ms") + section("wires.rb", between=["r", "b"], delay="5ms") + \
    program("server", "b", "python3", "-m", "http.server", "80", expect="running", directory=SOURCE) + \
    program("fetch", "a", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{time_total}", "http://b/GPL-3", start="2s") + \
    program("random", "a", "sh", "-c", "head -c 16 /dev/urandom | sha256sum; date; cat /proc/sys/kernel/random/boot_id", start="1s")


def one_hash(folder: Path) -> str:
    seen = {}
    for threads in ("1", "2", "1"):
        summary, wrote = world(folder, FORWARDING, "--threads", threads)
        seen[summary["hash"], tuple(sorted(wrote.items()))] = threads
    expect("outcomes", len(seen), 1)
    other, _ = world(folder, FORWARDING, "--set", "seed=2")
    expect("another seed, another hash", (other["hash"],) in {key[:1] for key in seen}, False)
    return next(iter(seen))[0]


ROWS = {
    "ping/linux-linux": ping(LINUX, LINUX),
    "ping/linux-weft": ping(LINUX, {}),
    "ping/weft-linux": ping({}, LINUX),
    "http/linux-linux": transfer(LINUX, LINUX),
    "http/linux-weft": transfer(LINUX, {}),
    "forwarding, one hash": one_hash,
}


def main() -> int:
    return run_rows(ROWS)
