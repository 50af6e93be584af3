"""What can be computed by hand comes out of `weft sim` to the nanosecond, once and again.

Runs the command as people do: round-trip times, gaps between frames in a capture, goodput, one hash for any number of
threads and for repeated runs, tshark's opinion of a capture, equal result folders. And what TCP makes of loss lies near the
models of the literature (`models.py`).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import paths
from harness.processes import Failure

from . import models
from .shared import SECONDS_MAX, builtin, difference, expect, figures, keys, pair, program, run_rows, section, sim, tcp, udp


def pings(delay: str) -> str:
    return pair(rate="1gbit", delay=delay) + builtin("ping", "a", "ping", to="b", count=3)


LOSSY = keys(capture=True, sample="100ms") + pair(rate="100mbit", delay="5ms", loss=0.01) + tcp(bytes=2_000_000) + builtin("ping", "b", "ping", to="a")
PACED = keys(capture=True) + pair(rate="1gbit", delay="5us") + udp(rate="100mbit", size=1470, count=1000)


def ping(folder: Path) -> str:
    for delay, nanos in (("50us", 50_000), ("1ms", 1_000_000), ("10ms", 10_000_000)):
        summary = sim(folder, pings(delay))
        # 98 bytes at 1 Gbit/s take 784 ns.
        expect(f"round trip over {delay}", figures(summary, "ping")["rtt_min_ns"], 2 * (nanos + 784))
    return "50 us, 1 ms, 10 ms"


def gaps(folder: Path) -> str:
    out = folder / "paced"
    sim(folder, PACED, "--out", str(out))
    capture = out / "captures" / "b-eth0.pcapng"
    times = fields(capture, "udp.dstport == 9000", "frame.time_epoch")
    instants = [int(text.replace(".", "")) for text in times]
    # Datagram n leaves 117600 n ns after the first: 1470 bytes at 100 Mbit/s. The first two waited for an address.
    found = {later - earlier for earlier, later in zip(instants[2:], instants[3:])}
    expect("gaps in ns", found, {117_600})
    return f"{len(instants)} datagrams, every gap 117600 ns"


def fields(capture: Path, display_filter: str, *names: str) -> list[str]:
    words = [paths.tool("tshark"), "-r", str(capture), "-Y", display_filter, "-T", "fields"]
    done = subprocess.run([*words, *[word for name in names for word in ("-e", name)]], capture_output=True, text=True,
                          timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"tshark: {done.stderr[-500:]}")
    return done.stdout.split("\n")[:-1]


def tshark(folder: Path) -> str:
    """No checksum is wrong and nothing malformed; retransmissions are there, because frames were lost."""
    out = folder / "lossy"
    sim(folder, LOSSY, "--out", str(out))
    count = 0
    for capture in sorted((out / "captures").iterdir()):
        words = [paths.tool("tshark"), "-r", str(capture), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                 "-o", "udp.check_checksum:TRUE"]
        bad = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0 || icmp.checksum.status == 0"
        done = subprocess.run([*words, "-Y", bad], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0 or done.stdout:
            raise Failure(f"{capture.name}: {done.stdout[:500]}{done.stderr[-500:]}")
        count += len(fields(capture, "frame", "frame.number"))
    return f"{count} frames without complaint"


def one_hash(folder: Path) -> str:
    folders = []
    for number, threads in enumerate(("1", "2", "4", "1")):
        out = folder / f"run{number}"
        summary = sim(folder, LOSSY, "--out", str(out), "--threads", threads)
        folders.append((summary["hash"], out))
    expect("hashes", len({found for found, _ in folders}), 1)
    for _, out in folders[1:]:
        difference(folders[0][1], out)
    other = sim(folder, LOSSY, "--seed", "2")
    if other["hash"] == folders[0][0]:
        raise Failure("another seed has the same hash")
    return folders[0][0]


def large_frames(folder: Path) -> str:
    """Whether frames go to the wire large and are cut there, or are cut at the interface: nothing that anybody can see."""
    runs = []
    for number, large in enumerate(("true", "false")):
        out = folder / f"large{number}"
        summary = sim(folder, LOSSY, "--out", str(out), "--set", f"nodes.a.large_frames={large}", "--set", f"nodes.b.large_frames={large}")
        runs.append((summary["hash"], out))
    expect("hash without large frames", runs[1][0], runs[0][0])
    difference(runs[0][1], runs[1][1])
    return runs[0][0]


def line_rate(folder: Path) -> str:
    """TCP over 1 Gbit/s and 10 ms of round trip fills the wire: nothing is lost but headers and the first round trips."""
    summary = sim(folder, pair(rate="1gbit", delay="5ms") + tcp(duration="3s"))
    goodput = figures(summary, "sink")["goodput_bits_per_second"]
    # A frame of 1514 bytes carries 1448.
    most = 1_000_000_000 * 1448 / 1514
    if not 0.97 * most < goodput <= most:
        raise Failure(f"{goodput} bit/s of {most:.0f}")
    return f"{goodput / 1e6:.1f} of {most / 1e6:.1f} Mbit/s"


POLLS = '''
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("b", 9000))
s.send(b"first"); time.sleep(0.01)
due = time.monotonic_ns() + 1_000_000
for n in range(500):
    while time.monotonic_ns() < due: pass
    s.send(b"x" * 1470)
    due += 117_000
'''
POLLED = keys(capture=True) + pair(rate="1gbit", delay="5us") + builtin("sink", "b", "udp-sink", port=9000) + program("polls", "a", "python3", "-ISc", POLLS)


def polls(folder: Path) -> str:
    """An unmodified program that looks at the clock until its time has come leaves exact gaps on the wire."""
    out = folder / "polled"
    sim(folder, POLLED, "--out", str(out))
    times = fields(out / "captures" / "b-eth0.pcapng", "udp.dstport == 9000", "frame.time_epoch")
    instants = [int(text.replace(".", "")) for text in times][1:]
    expect("datagrams", len(instants), 500)
    expect("gaps in ns", {later - earlier for earlier, later in zip(instants, instants[1:])}, {117_000})
    return f"{len(instants)} datagrams, every gap 117000 ns"


TRACED = keys(capture=True) + pair(trace="up.trace", delay="20ms", back={"rate": "1gbit"}) + udp(rate="100mbit", size=1472, count=600)


def trace(folder: Path) -> str:
    """Packets of 1500 bytes leave at the times of a trace in Mahimahi's format, and at no other."""
    times = [1, 4, 4, 9, 15, 16, 16, 16, 30]
    (folder / "up.trace").write_text("".join(f"{time}\n" for time in times))
    out = folder / "traced"
    sim(folder, TRACED, "--out", str(out))
    arrived = fields(out / "captures" / "b-eth0.pcapng", "udp.dstport == 9000", "frame.time_epoch")
    opportunities = [number * 30 + time + 20 for number in range(100) for time in times]
    nanos = [int(text.replace(".", "")) for text in arrived]
    found = [(at - nanos[0] // 10**9 * 10**9) // 1_000_000 for at in nanos]
    expect("parts of a millisecond", {at % 1_000_000 for at in nanos}, {0})
    # What asks for addresses takes some of the first; from the tenth on every opportunity is used, because datagrams always wait.
    start = opportunities.index(found[10])
    while opportunities[start:start + 2] == [found[10]] * 2 and opportunities[start:start + 3] != found[10:13]:
        start += 1
    expect("arrivals in ms", found[10:], opportunities[start:start + len(found) - 10])
    return f"{len(found)} datagrams until {found[-1]} ms"


CPU = section("nodes.a", cpu={"per_call": "1us"}) + program(
    "asks", "a", "python3", "-ISc", "import os, time; a = time.monotonic_ns(); [os.getppid() for _ in range(1000)]; print(time.monotonic_ns() - a)")


def cpu(folder: Path) -> str:
    """A call costs what the node says: per_call times factor."""
    took = {}
    for cost in ("per_call = '1us'", "per_call = '5us'", "per_call = '5us', factor = 2.0", "factor = 0.5"):
        out = folder / f"cpu{len(took)}"
        sim(folder, CPU, "--out", str(out), "--set", f"nodes.a.cpu={{ {cost} }}")
        took[cost] = int((out / "programs" / "asks" / "stdout").read_text())
    one = took["per_call = '1us'"]
    # 1000 calls and what Python asks between two looks at the clock.
    if not 1_000_000 < one < 1_020_000:
        raise Failure(f"1000 calls at 1 us took {one} ns")
    expect("ns", list(took.values()), [one, 5 * one, 10 * one, one // 2])
    return f"{one} ns"


ROWS = {body.__name__: body for body in (ping, gaps, polls, line_rate, trace, cpu, tshark, one_hash, large_frames)}


def main() -> int:
    return run_rows({**ROWS, **{f"goodput/{name}": body for name, body in models.ROWS.items()}})
