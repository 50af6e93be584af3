"""The tools around a run: records and their first difference, sweeps, expectations, JUnit, and the search for a seed that fails.

Each row plants something and looks whether the tool names it; each also shows that the tool can say no.
FULL=1: the search goes through all its seeds, and says how many of them fail.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path
from typing import Callable, Iterator

from harness import paths
from harness.processes import Failure

from . import live, told
from .shared import builtin, difference, expect, figures, keys, pair, program, run_rows, sim, tcp, udp, weft_command

FULL = bool(os.environ.get("FULL"))

# Datagram n (from 0) leaves at n * 10 ms, but for the first two, which wait for an address.
DATAGRAMS = pair(rate="1gbit", delay="1ms") + udp(rate="800kbit", size=1000, count=200)
# A loss rate that leaves some seeds without a loss.
LOSSY = pair(rate="20mbit", delay="10ms", loss=0.002) + tcp(bytes=500_000)

# Says so, and sends itself 1000 bytes twice, half a second apart: a little less than 32 kbit/s.
WORDS = '''import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5000))
for pause in (0.5, 0):
    s.sendto(bytes(1000), s.getsockname())
    s.recv(1000)
    time.sleep(pause)
print("it is so")
sys.exit(3)
'''

# A store of values that takes every write, whenever it comes; the right one would look at the number of the write. Now and then the wire holds a
# datagram back, and an old write comes after a newer one.
STORE = '''
[nodes.client]
[nodes.store]
[wires.line]
between = ["client", "store"]
delay = "1ms"
reorder = 0.02
reorder_by = "4ms"
[programs.store]
node = "store"
expect = "running"
command = ["python3", "-ISE", "-c", """
import socket
s, value = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), {}
s.bind(('', 7000))
while True:
    words, who = s.recvfrom(100)
    name, *given = words.decode().split('=')
    if given: value[name] = given[0]
    else: s.sendto(value.get(name, '?').encode(), who)
"""]
[programs.client]
node = "client"
start = "500ms"
command = ["python3", "-ISE", "-c", """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.connect(('store', 7000))
for word in (b'y=0', b'x=1', b'x=2'):
    s.send(word); time.sleep(0.002)
time.sleep(0.1)
s.send(b'x')
found = s.recv(100)
print('x is', found.decode())
sys.exit(found != b'2')
"""]
[[expect]]
program = "client"
output = "x is 2"
'''
SEEDS = 200


def scenario(folder: Path, text: str) -> str:
    (folder / "scenario.toml").write_text(text)
    return "scenario.toml"


def recorded(folder: Path, name: str, text: str, *words: str) -> str:
    """The hash of a recorded run whose results are below `name`."""
    done = weft_command(folder, "sim", scenario(folder, text), "--json", "--out", name, "--record", "full", *words)
    return json.loads(done.stdout)["hash"]


def planted_loss(folder: Path) -> str:
    """One frame of many is lost: `weft diff` says which one did not come, and when it would have."""
    recorded(folder, "whole", DATAGRAMS)
    # Datagram 100 leaves at 1 s.
    lossy = '[[events]]\nat = "{}ms"\nwire = "ab"\nset = {{ loss = {} }}\n'
    recorded(folder, "planted", DATAGRAMS + lossy.format(996, 1.0) + lossy.format(1004, 0.0))
    found = json.loads(weft_command(folder, "diff", "--json", "whole", "planted", status=1).stdout)["difference"]
    # 1042 bytes at 1 Gbit/s, then a millisecond.
    expect("first difference", (found["node"], found["place"], found["at_ns"]), ("b", "interface eth0", 100 * 10_000_000 + 8336 + 1_000_000))
    said = weft_command(folder, "diff", "planted", "whole", status=1).stdout
    if "node b interface eth0" not in said.splitlines()[0]:
        raise Failure(said)
    return said.splitlines()[0]


PROGRAM = """
[nodes.a]
[programs.first]
node = "a"
command = ["sh", "-c", "for n in 1 2 3; do sleep 1; echo $n; done"]
[programs.second]
node = "a"
environment = { WORD = "same" }
command = ["sh", "-c", "sleep 2.5; echo $WORD; sleep 1; echo same again"]
"""


def planted_word(folder: Path) -> str:
    """What one program of two is given differs: `weft diff` names the program, at the time at which it acts on it."""
    same = recorded(folder, "one", PROGRAM)
    expect("another run", recorded(folder, "again", PROGRAM), same)
    weft_command(folder, "diff", "one", "again")
    other = PROGRAM.replace("sleep 2.5; echo $WORD", "sleep 2.5; kill -0 $$; echo $WORD")
    recorded(folder, "other", other)
    found = json.loads(weft_command(folder, "diff", "--json", "one", "other", status=1).stdout)["difference"]
    if found["node"] != "a" or "second" not in found["place"] or not 2_500_000_000 <= found["at_ns"] < 2_600_000_000:
        raise Failure(f"first difference: {found}")
    return f"{found['at_ns']} ns, {found['place']}: {found['what']}"


def one_bit(folder: Path) -> str:
    """A bit that changed in a record is found, and said whose it is; so is a start that is a nanosecond later."""
    base = pair(rate="1gbit", delay="1ms") + builtin("ping", "a", "ping", to="b", count=3)
    for name, words in (("one", ()), ("same", ("--threads", "2")), ("other", ("--set", "programs.ping.start=1000000001ns"))):
        summary = sim(folder, base, "--out", str(folder / name), "--record", "full", *words)
        expect(f"weft hash {name}", weft_command(folder, "hash", name).stdout.strip(), summary["hash"])
    weft_command(folder, "diff", "one", "same")
    found = json.loads(weft_command(folder, "diff", "--json", "one", "other", status=1).stdout)["difference"]
    if found["node"] != "a" or found["at_ns"] > 1_000_000_000:
        raise Failure(f"first difference: {found}")
    # A bit of the last frame that b got.
    file = folder / "same" / "record" / "b.events"
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)
    weft_command(folder, "hash", "same", status=1)
    found = json.loads(weft_command(folder, "diff", "--json", "one", "same", status=1).stdout)["difference"]
    expect("node of the bit", (found["node"], found["place"]), ("b", "interface eth0"))
    return f"{found['at_ns']} ns, {found['node']}, {found['place']}: {found['what']}"


def hash_agrees(folder: Path) -> str:
    """`weft hash` recomputes it, and refuses what is no complete record or not this run's."""
    found = recorded(folder, "run", LOSSY, "--threads", "2")
    expect("weft hash", weft_command(folder, "hash", "run").stdout.strip(), found)
    expect("weft hash --json", json.loads(weft_command(folder, "hash", "--json", "run").stdout)["agrees"], True)
    programs = recorded(folder, "programs", PROGRAM)
    expect("weft hash of programs", weft_command(folder, "hash", "programs").stdout.strip(), programs)
    refused = []
    # Without a record; with the record of another run; cut short; without its end.
    weft_command(folder, "sim", scenario(folder, LOSSY), "--out", "plain")
    refused.append(weft_command(folder, "hash", "plain", status=2).stderr)
    recorded(folder, "mixed", LOSSY, "--seed", "2")
    shutil.rmtree(folder / "mixed" / "record")
    shutil.copytree(folder / "run" / "record", folder / "mixed" / "record")
    refused.append(weft_command(folder, "hash", "mixed", status=1).stderr)
    short = folder / "run" / "record" / "b.events"
    whole = short.read_bytes()
    short.write_bytes(whole[:-7])
    refused.append(weft_command(folder, "hash", "run", status=2).stderr)
    short.write_bytes(whole)
    next((folder / "run" / "record").glob("*.json")).unlink()
    refused.append(weft_command(folder, "hash", "run", status=2).stderr)
    for text in refused:
        if not text.startswith("weft: "):
            raise Failure(f"it does not say why: {text}")
    return f"{found}; refused {len(refused)} others"


def sweep(folder: Path) -> str:
    """A sweep is its seeds one by one: hashes, and means with the interval that a person computes from them."""
    file = scenario(folder, LOSSY)
    found = json.loads(weft_command(folder, "sim", file, "--seeds", "3..10", "--json").stdout)
    single = {}
    for seed in range(3, 11):
        single[seed] = json.loads(weft_command(folder, "sim", file, "--seed", str(seed), "--json").stdout)
    expect("hashes", found["hashes"], {str(seed): summary["hash"] for seed, summary in single.items()})
    values = [figures(summary, "sink")["goodput_bits_per_second"] for summary in single.values()]
    mean = sum(values) / len(values)
    # Student's t of eight values, 97.5 %.
    half = 2.364624252 * (sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)) ** 0.5
    row = next(row for row in found["figures"] if row["figure"] == "sink.goodput_bits_per_second")
    expect("keys", list(row), ["figure", "seeds", "mean", "margin_of_error", "min", "max"])
    close = all(math.isclose(one, other, rel_tol=1e-7) for one, other in ((row["mean"], mean), (row["margin_of_error"], half)))
    if not close or (row["seeds"], row["min"], row["max"]) != (8, min(values), max(values)):
        raise Failure(f"row of the table: {row}, and not {mean} ± {half}")
    if half == 0:
        raise Failure("every seed is the same: the row shows nothing")
    table = weft_command(folder, "sim", file, "--seeds", "3..10", "--threads", "1").stdout
    line = next((line for line in table.splitlines() if "sink.goodput " in line), "")
    if f"{mean / 1e6:.3f}" not in line or f"{half / 1e6:.3f}" not in line or "Mbit/s" not in line:
        raise Failure(f"the table says otherwise:\n{table}")
    return f"8 seeds, {mean:,.0f} ± {half:,.0f} bit/s"


def expectations(folder: Path) -> str:
    """Every kind of expectation holds where it does, and fails where it does not; JUnit's file says the same."""
    text = LOSSY + program("words", "a", "python3", "-ISc", WORDS, expect="any") + program("mute", "a", "true", expect="any")
    summary = json.loads(weft_command(folder, "sim", scenario(folder, text), "--json").stdout)
    kinds = {
        "status": ('program = "words"\nstatus = 3', 'program = "words"\nstatus = 0'),
        "output": ('program = "words"\noutput = "it is so"', 'program = "words"\noutput = "it is not"'),
        "goodput": ('program = "sink"\ngoodput_min = "1mbit"', 'program = "sink"\ngoodput_min = "21mbit"'),
        "goodput of an unmodified program": (
            'program = "words"\ngoodput_min = "31900bit"\ngoodput_max = "32kbit"',
            'program = "words"\ngoodput_min = "32kbit"',
        ),
        "goodput that cannot be computed": ('program = "words"\nstatus = 3', 'program = "mute"\ngoodput_max = "1gbit"'),
        "figure at least": ('program = "sink"\nfigure = "received_bytes"\nmin = 500_000', 'program = "sink"\nfigure = "received_bytes"\nmin = 500_001'),
        "figure at most": ('program = "sink"\nfigure = "received_bytes"\nmax = 500_000', 'program = "sink"\nfigure = "received_bytes"\nmax = 499_999'),
        "figure that is not there": ('program = "sink"\nfigure = "connections"\nmin = 1', 'program = "sink"\nfigure = "nothing"\nmin = 1'),
        "hash": (f'hash = "{summary["hash"]}"', 'hash = "00000000000000000000000000000001"'),
    }
    for what, (right, wrong) in kinds.items():
        file = scenario(folder, text + f"[[expect]]\n{right}\n")
        weft_command(folder, "sim", file)
        file = scenario(folder, text + f"[[expect]]\n{right}\n[[expect]]\n{wrong}\n")
        said = weft_command(folder, "sim", file, "--junit", "one.xml", status=1).stderr
        named = [line for line in said.splitlines() if line.startswith("weft: not as expected: ")]
        if len(named) != 1:
            raise Failure(f"{what}: {said}")
        suite = ElementTree.parse(folder / "one.xml").getroot().find("testsuite")
        failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
        # Two programs end or run as they should, and two expectations.
        counts = (suite.get("failures"), len(failed), suite.get("tests"), len(list(suite.iter("testcase"))))
        expect(f"{what}: JUnit", counts, ("1", 1, "4", 4))
        if failed[0].find("failure").get("message") not in named[0]:
            raise Failure(f"{what}: JUnit says '{failed[0].find('failure').get('message')}' and weft '{named[0]}'")
    return f"{len(kinds)} kinds"


def junit_of_a_sweep(folder: Path) -> str:
    """One suite a seed; those fail that fail alone."""
    text = LOSSY + '[[expect]]\nprogram = "sink"\ngoodput_min = "17mbit"\n'
    file = scenario(folder, text)
    done = weft_command(folder, "sim", file, "--seeds", "1..12", "--junit", "many.xml", "--json", status=1)
    failed = json.loads(done.stdout)["failed"]
    suites = ElementTree.parse(folder / "many.xml").getroot().findall("testsuite")
    names = {suite.get("name"): int(suite.get("failures")) for suite in suites}
    expect("suites that fail", sorted(name for name, count in names.items() if count), sorted(f"{file} seed {seed}" for seed in failed))
    if len(names) != 12 or not 0 < len(failed) < 12:
        raise Failure(f"{len(names)} suites, {failed} fail: the row shows nothing")
    return f"{len(failed)} of 12 fail"


def until_fail(folder: Path) -> str:
    """A bug that shows in one seed of about fifty is found, and the command that is printed shows it again."""
    file = scenario(folder, STORE)
    seeds = f"1..{SEEDS}"
    said = weft_command(folder, "sim", file, "--seeds", seeds, "--until-fail", status=1).stderr
    found = re.search(r"to repeat it: (weft sim .* --seed (\d+).*)", said)
    if not found or "client" not in said:
        raise Failure(said)
    seed = int(found.group(2))
    words = shlex.split(found.group(1))[1:]
    again = weft_command(folder, *words, "--json", status=1)
    client = next(row for row in json.loads(again.stdout)["programs"] if row["name"] == "client")
    if client["status"] != "exit status 1" or "x is 1" not in weft_command(folder, *words, status=1).stdout:
        raise Failure(f"seed {seed} does not show it: {client}")
    # Nobody before it fails.
    if seed < 2 or f"weft: {seed - 1} of {seed} seeds as expected" not in said:
        raise Failure(f"seed {seed}: {said}")
    weft_command(folder, "sim", file, "--seed", str(seed - 1))
    # Without the wire's mischief there is no such seed.
    if FULL:
        weft_command(folder, "sim", file, "--seeds", seeds, "--set", "wires.line.reorder=0.0")
        done = weft_command(folder, "sim", file, "--seeds", seeds, "--json", status=1)
        failed = json.loads(done.stdout)["failed"]
        if not 1 <= len(failed) <= 12 or failed[0] != seed:
            raise Failure(f"seeds that fail: {failed}, found first: {seed}")
        return f"seed {seed}; of {SEEDS} these fail: {failed}"
    weft_command(folder, "sim", file, "--seed", str(seed), "--set", "wires.line.reorder=0.0")
    return f"seed {seed} of {SEEDS}"


def threads_of_a_sweep(folder: Path) -> str:
    """The same sweep on one thread and on four, and result folders on one and two."""
    file = scenario(folder, LOSSY)
    one, four = (weft_command(folder, "sim", file, "--seeds", "1..8", "--json", "--threads", threads).stdout for threads in ("1", "4"))
    expect("sweep on four threads", four, one)
    for threads in ("1", "2"):
        weft_command(folder, "sim", file, "--out", f"on{threads}", "--threads", threads, "--set", "sample='50ms'", "--set", "capture=true")
    difference(folder / "on1", folder / "on2")
    return "8 seeds"


ASKS = r"""
import socket, sys, time
open('/tmp/x', 'w').write('text that is longer than what is shown of it')
try: open('/tmp/not there')
except OSError: pass
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('10.0.0.2', 7))
s.send(b'a\nb')
time.sleep(0.25)
try: socket.socket(socket.AF_APPLETALK, socket.SOCK_DGRAM)
except OSError: pass
import ctypes
for number in 64, 444, 462, 600: ctypes.CDLL(None).syscall(number, -1, -1, -1, -1)
sys.exit(3)
"""
CALLS = f"""
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
delay = "1ms"
[programs.asks]
node = "a"
start = "2s"
expect = 3
command = ["python3", "-ISE", "-c", '''{ASKS}''']
[programs.child]
node = "b"
command = ["sh", "-c", "sleep 1; (sleep 1; exit 4); exit 0"]
"""
# What must be in the log, in this order.
CALLED = (
    r'\d openat\(AT_FDCWD, "/tmp/x", O_WRONLY\|O_CREAT\|O_TRUNC\|O_CLOEXEC, 0666\) = 3',
    r'\d write\(3, "text that is longer than what is"\.\.\., 44\) = 44',
    r'\d openat\(AT_FDCWD, "/tmp/not there", O_RDONLY\|O_CLOEXEC, 0\) = -1 ENOENT \(No such file or directory\)',
    r'\d socket\(AF_INET, SOCK_DGRAM\|SOCK_CLOEXEC, 0\) = 3',
    r'\d connect\(3, \{10\.0\.0\.2:7\}, 16\) = 0',
    r'\d sendto\(3, "a\\nb", 3, 0, NULL\) = 3',
    r'\d clock_nanosleep\(1, TIMER_ABSTIME, \{.*\}, 0\) = 0',
    r'\d semget\(-1, -1, 0xf+\) = -1 EINVAL \(Invalid argument\)',
    r'\d landlock_create_ruleset\(0xf+, -1, 0xf+\) = -1',
    r'\d mseal\(0xf+, -1, 0xf+\) = -1',
    r'\d call 600\(0xf+, 0xf+, 0xf+, 0xf+\) = -1 ENOSYS \(Function not implemented\)',
    r'\d exit_group\(3\) = \?',
)


def calls(folder: Path) -> str:
    """What programs ask is written as strace writes it, at its virtual time, and asking for that changes nothing."""
    plain = recorded(folder, "plain", CALLS)
    expect("hash with --calls", recorded(folder, "told", CALLS, "--calls"), plain)
    difference(folder / "plain", folder / "told", but={"calls"})
    lines = (folder / "told" / "programs" / "asks" / "calls").read_text().splitlines()
    found = iter(lines)
    for wanted in CALLED:
        if not any(re.search(wanted, line) for line in found):
            raise Failure(f"no line is {wanted}, or not in this order:\n" + "\n".join(lines[-60:]))
    times = [float(line.split()[0]) for line in lines]
    slept = next(at for at, line in enumerate(lines) if "clock_nanosleep(" in line)
    if times != sorted(times) or times[0] < 2 or not 0.25 <= times[slept] - times[slept - 1] < 0.2501:
        raise Failure(f"times: {times[0]} … {times[slept - 1]}, {times[slept]} … {times[-1]}")
    children = {line.split()[1] for line in (folder / "told" / "programs" / "child" / "calls").read_text().splitlines()}
    if len(children) < 3:
        raise Failure(f"processes of the other program: {children}")
    unnamed = [line for line in lines if "syscall_" in line or re.search(r"\d call \d+\(", line)]
    if len(unnamed) != 1 or " call 600(" not in unnamed[0]:
        raise Failure(f"calls without a name: {unnamed}")
    refused = json.loads((folder / "plain" / "calls.json").read_text())
    return f"{len(lines)} calls; in vain: {[row['request'] for row in refused['unsupported']]}"


def pictures(folder: Path) -> str:
    """Each picture is there as SVG, PNG and PDF, and the same to the bit every time."""
    for name in ("one", "two"):
        weft_command(folder, "sim", scenario(folder, LOSSY), "--out", name, "--set", "sample='50ms'")
    difference(folder / "one", folder / "two")
    found = sorted(path.name for path in (folder / "one" / "pictures").iterdir())
    wanted = [f"{name}.{kind}" for name in ("topology", "throughput", "queue", "cwnd", "srtt") for kind in ("svg", "png", "pdf")]
    expect("pictures", found, sorted(wanted))
    for path in (folder / "one" / "pictures").glob("*.png"):
        data = path.read_bytes()
        if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR":
            raise Failure(f"{path.name} is no PNG")
        width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
        expect(f"{path.name}: depth, colour, interlaced", (depth, colour, interlaced), (8, 2, 0))
        rows = zlib.decompress(b"".join(chunk for kind, chunk in chunks(data) if kind == b"IDAT"))
        expect(f"{path.name}: bytes", len(rows), height * (1 + 3 * width))
        if len(set(rows)) < 5:
            raise Failure(f"{path.name} is empty")
    for path in (folder / "one" / "pictures").glob("*.pdf"):
        expect(path.name, path.read_bytes()[:5], b"%PDF-")
    return ", ".join(found)


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and contents of a PNG's parts."""
    at = 8
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        yield data[at + 4:at + 8], data[at + 8:at + 8 + length]
        at += 12 + length


# Frame 40 of the sender's is lost in one variant; another has the same losses with another name.
VARIANTS = keys(capture=True) + pair(rate="20mbit", delay="10ms") + tcp(bytes=300_000) + '''
[[twins]]
name = "again"
linux = []
[[twins]]
name = "planted"
linux = []
set = ["wires.ab.lose=[40]"]
[[twins]]
name = "sown"
linux = []
set = ["seed=7", "wires.ab.loss=0.05"]
'''


def twin_variants(folder: Path) -> str:
    """`weft twin` without a Linux kernel: the first frame that differs, variants alike, ratios of seeds, and what it does not do."""
    def told(*words: str) -> dict:
        return json.loads(weft_command(folder, "twin", scenario(folder, VARIANTS), "--json", *words).stdout)

    found = told("--variants", "planted,again,weft", "--out", "out", "--tolerance", "0ns", "--windows")
    planted, again = (row["difference"] for row in found["first_differences"])
    expect("alike", (again, found["hashes"]["again"]), (None, found["hashes"]["weft"]))
    expect("where", (planted["node"], planted["interface"]), ("b", "eth0"))
    expect("hash", found["hashes"]["planted"] != found["hashes"]["weft"], True)
    # The sender's capture has the frame that the receiver misses.
    fields = ["-T", "fields", "-e", "tcp.seq", "-Y", "frame.packet_flags_direction == 2"]
    capture = str(folder / "out" / "weft" / "captures" / "a-eth0.pcapng")
    sent = subprocess.run([paths.tool("tshark"), "-r", capture, *fields], capture_output=True, text=True, check=True).stdout.splitlines()
    expect("the frame", f"seq {sent[39]} " in planted["weft"]["frame"], True)
    goodput = next(row for row in found["table"] if row["figure"] == "goodput_mbit_per_second")
    expect("goodput", 0 < goodput["planted"] < goodput["weft"] == goodput["again"], True)
    expect("output.log", (folder / "out" / "weft" / "output.log").is_file(), True)

    # A variant keeps the seed that it sets, unless seeds are asked for.
    alone = [told("--variants", words)["hashes"]["sown"] for words in ("sown", "weft,sown", "sown,weft")]
    expect("a variant's own seed", len(set(alone)), 1)
    rows = told("--variants", "sown,weft", "--seeds", "1..6")["rows"]
    ratio = {row["variant"]: row.get("ratio") for row in rows}
    expect("ratios", ratio["weft"] is None and 0 < ratio["sown"] < 1, True)
    expect("seeds", [row["seeds"] for row in rows], [6, 6])

    (folder / "other").mkdir()
    shutil.copy2(folder / "scenario.toml", folder / "other")
    for words, says in (
        (("scenario.toml", "--variants", "sawn"), "has no variant 'sawn'"),
        (("scenario.toml", "other/scenario.toml"), "would write their results into the same folder, twin-scenario"),
        (("scenario.toml", "--seeds", "1..2", "--out", "x"), "cannot be used with"),
        (("scenario.toml", "--seeds", "1.2"), "is no range"),
        (("scenario.toml", "--tolerance", "soon"), "--tolerance"),
    ):
        said = weft_command(folder, "twin", *words, status=2).stderr
        expect(" ".join(words), says in said, True)
    return f"{planted['equal_before']} equal frames; {ratio['sown']}"


ROWS: dict[str, Callable[[Path], str]] = {
    "diff/a frame that is lost": planted_loss,
    "diff/a program that calls otherwise": planted_word,
    "diff/a bit": one_bit,
    "hash": hash_agrees,
    "sweep/table": sweep,
    "sweep/threads": threads_of_a_sweep,
    "sweep/junit": junit_of_a_sweep,
    "expect": expectations,
    "until-fail": until_fail,
    "calls": calls,
    "pictures": pictures,
    "twin/variants": twin_variants,
    **live.ROWS,
    **told.ROWS,
}


def main() -> int:
    return run_rows(ROWS, "/var/tmp")
