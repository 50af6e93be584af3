"""What can be computed by hand comes out of `weft sim` to the nanosecond, once and again.

Runs the command as people do: round-trip times, gaps between frames in a capture, goodput, one hash for any number of
threads and for repeated runs, tshark's opinion of a capture, equal result folders, wrong scenarios and expectations. And what
TCP makes of loss lies near the models of the literature (`models.py`).
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness import paths, results, weft
from harness.processes import Failure

from . import models

SECONDS_MAX = 600

PING = """
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "1gbit"
delay = "DELAY"
[programs.ping]
node = "a"
builtin = "ping"
to = "b"
count = 3
"""

LOSSY = """
capture = true
sample = "100ms"
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "100mbit"
delay = "5ms"
loss = 0.01
[programs.sink]
node = "b"
builtin = "tcp-sink"
port = 5001
[programs.send]
node = "a"
builtin = "tcp-send"
to = "b:5001"
bytes = 2_000_000
[programs.ping]
node = "b"
builtin = "ping"
to = "a"
"""

PACED = """
capture = true
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "1gbit"
delay = "5us"
[programs.sink]
node = "b"
builtin = "udp-sink"
port = 9000
[programs.cbr]
node = "a"
builtin = "udp-cbr"
to = "b:9000"
rate = "100mbit"
size = 1470
count = 1000
"""


def sim(folder: Path, text: str, *words: str, status: int = 0) -> tuple[dict, str]:
    """The summary and the messages of a run."""
    file = folder / "scenario.toml"
    file.write_text(text)
    done = subprocess.run([weft.binary(), "sim", str(file), "--json", *words], capture_output=True, text=True,
                          timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"exit status {done.returncode} instead of {status}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout) if done.stdout else {}, done.stderr


def figures(summary: dict, program: str) -> dict:
    return next(row["figures"] for row in summary["programs"] if row["name"] == program)


def expect(what: str, got, wanted) -> None:
    if got != wanted:
        raise Failure(f"{what}: {got}, expected {wanted}")


def ping(folder: Path) -> str:
    for delay, nanos in (("50us", 50_000), ("1ms", 1_000_000), ("10ms", 10_000_000)):
        summary, _ = sim(folder, PING.replace("DELAY", delay))
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
        summary, _ = sim(folder, LOSSY, "--out", str(out), "--threads", threads)
        folders.append((summary["hash"], out))
    expect("hashes", len({found for found, _ in folders}), 1)
    for _, out in folders[1:]:
        difference(folders[0][1], out)
    other, _ = sim(folder, LOSSY, "--seed", "2")
    if other["hash"] == folders[0][0]:
        raise Failure("another seed has the same hash")
    return folders[0][0]


def difference(one: Path, other: Path, but: set[str] = frozenset()) -> None:
    """Result folders are equal to the byte but for wall.json, and files of the names in `but`."""
    def files(folder: Path) -> list[Path]:
        return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name not in {"wall.json", *but})
    expect("files", files(other), files(one))
    _, wrong, errors = filecmp.cmpfiles(one, other, [str(path) for path in files(one)], shallow=False)
    if wrong or errors:
        raise Failure(f"differ: {wrong + errors}")


def large_frames(folder: Path) -> str:
    """Whether frames go to the wire large and are cut there, or are cut at the interface: nothing that anybody can see."""
    runs = []
    for number, large in enumerate(("true", "false")):
        out = folder / f"large{number}"
        summary, _ = sim(folder, LOSSY, "--out", str(out), "--set", f"nodes.a.large_frames={large}", "--set", f"nodes.b.large_frames={large}")
        runs.append((summary["hash"], out))
    expect("hash without large frames", runs[1][0], runs[0][0])
    difference(runs[0][1], runs[1][1])
    return runs[0][0]


def line_rate(folder: Path) -> str:
    """TCP over 1 Gbit/s and 10 ms of round trip fills the wire: nothing is lost but headers and the first round trips."""
    text = LOSSY.replace("loss = 0.01\n", "").replace("100mbit", "1gbit").replace("bytes = 2_000_000", 'duration = "3s"').replace("capture = true\n", "")
    summary, _ = sim(folder, text)
    goodput = figures(summary, "sink")["goodput_bits_per_second"]
    # A frame of 1514 bytes carries 1448.
    most = 1_000_000_000 * 1448 / 1514
    if not 0.97 * most < goodput <= most:
        raise Failure(f"{goodput} bit/s of {most:.0f}")
    return f"{goodput / 1e6:.1f} of {most / 1e6:.1f} Mbit/s"


POLLED = """
capture = true
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "1gbit"
delay = "5us"
[programs.sink]
node = "b"
builtin = "udp-sink"
port = 9000
[programs.polls]
node = "a"
command = ["python3", "-ISc", '''
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("b", 9000))
s.send(b"first"); time.sleep(0.01)
due = time.monotonic_ns() + 1_000_000
for n in range(500):
    while time.monotonic_ns() < due: pass
    s.send(b"x" * 1470)
    due += 117_000
''']
"""


def polls(folder: Path) -> str:
    """An unmodified program that looks at the clock until its time has come leaves exact gaps on the wire."""
    out = folder / "polled"
    sim(folder, POLLED, "--out", str(out))
    times = fields(out / "captures" / "b-eth0.pcapng", "udp.dstport == 9000", "frame.time_epoch")
    instants = [int(text.replace(".", "")) for text in times][1:]
    expect("datagrams", len(instants), 500)
    expect("gaps in ns", {later - earlier for earlier, later in zip(instants, instants[1:])}, {117_000})
    return f"{len(instants)} datagrams, every gap 117000 ns"


TRACED = """
capture = true
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
trace = "up.trace"
delay = "20ms"
back = { rate = "1gbit" }
[programs.sink]
node = "b"
builtin = "udp-sink"
port = 9000
[programs.cbr]
node = "a"
builtin = "udp-cbr"
to = "b:9000"
rate = "100mbit"
size = 1472
count = 600
"""


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


CPU = """
[nodes.a]
cpu = { per_call = "1us" }
[programs.asks]
node = "a"
command = ["python3", "-ISc", "import os, time; a = time.monotonic_ns(); [os.getppid() for _ in range(1000)]; print(time.monotonic_ns() - a)"]
"""


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


def record(folder: Path) -> str:
    """`weft hash` recomputes the hash of a recorded run, and `weft diff` names the first difference."""
    base = PING.replace("DELAY", "1ms")
    for name, words in (("one", ()), ("same", ("--threads", "2")), ("other", ("--set", "programs.ping.start=1000000001ns"))):
        summary, _ = sim(folder, base, "--out", str(folder / name), "--record", "full", *words)
        expect(f"weft hash {name}", _weft(0, "hash", str(folder / name)).strip(), summary["hash"])
    _weft(0, "diff", str(folder / "one"), str(folder / "same"))
    found = json.loads(_weft(1, "diff", "--json", str(folder / "one"), str(folder / "other")))["difference"]
    if found["node"] != "a" or found["at_ns"] > 1_000_000_000:
        raise Failure(f"first difference: {found}")
    sim(folder, base, "--out", str(folder / "without"))
    _weft(2, "hash", str(folder / "without"))
    # A bit of the last frame that b got.
    file = folder / "same" / "record" / "b.events"
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    _weft(1, "hash", str(folder / "same"))
    found = json.loads(_weft(1, "diff", "--json", str(folder / "one"), str(folder / "same")))["difference"]
    expect("node of the bit", (found["node"], found["place"]), ("b", "interface eth0"))
    return f"{found['at_ns']} ns, {found['node']}, {found['place']}: {found['what']}"


def _weft(status: int, *words: str) -> str:
    done = subprocess.run([weft.binary(), *words], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"weft {' '.join(words)}: exit status {done.returncode} instead of {status}\n{done.stdout}{done.stderr}")
    return done.stdout


def refused(folder: Path) -> str:
    """A wrong file: status 2 and its place; a missed expectation: status 1 and its name."""
    _, said = sim(folder, PING, status=2)
    if "scenario.toml:7: " not in said or "help: " not in said:
        raise Failure(said)
    text = PING.replace("DELAY", "1ms") + '[[expect]]\nprogram = "ping"\nfigure = "replies"\nmin = 4\n'
    junit = folder / "junit.xml"
    _, said = sim(folder, text, "--junit", str(junit), status=1)
    if "not as expected: ping: replies is at least 4" not in said or 'failures="1"' not in junit.read_text():
        raise Failure(said)
    _, said = sim(folder, text, "--seeds", "1..20", "--until-fail", status=1)
    if "--seed 1" not in said:
        raise Failure(said)
    return "status 2 and 1"


def main() -> int:
    recorder = results.Recorder()
    rows = {body.__name__: body for body in (ping, gaps, polls, line_rate, trace, cpu, tshark, one_hash, large_frames, record, refused)}
    rows.update({f"goodput/{name}": body for name, body in models.ROWS.items()})
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    with tempfile.TemporaryDirectory(prefix="weft-exact-") as name:
        for label, body in rows.items():
            if wanted and not any(word in label for word in wanted):
                continue
            started = time.monotonic()
            needs = "tshark" if body in (gaps, polls, trace, tshark) else None
            try:
                if needs and shutil.which(needs) is None:
                    outcome, reason = results.SKIPPED, f"{needs} is not installed"
                else:
                    outcome, reason = results.PASSED, body(Path(name))
            except Failure as failure:
                outcome, reason = results.FAILED, str(failure)
            recorder.add(results.Row(label, outcome, time.monotonic() - started, reason))
    return recorder.finish()
