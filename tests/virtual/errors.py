"""What `weft sim` says when something is wrong: with a scenario, with a program, or with the patience of its user.

`scenario-files/NAME.toml` is a wrong scenario, `NAME.txt` what `weft sim NAME.toml` says. A line that ends with … stands for all that
begin so: such lines list what there is, which grows.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterable

from harness import user, weft
from harness.processes import Failure

from . import schemas
from .scenarios import LIMITS
from .shared import SECONDS_MAX, USUAL_SIGNALS, builtin, events, expect, keys, pair, program, run_rows, section, udp, weft_command

FOLDER = Path(__file__).parent / "scenario-files"
REFUSED, MISSED = 2, 1
# As a shell has it of a program that a signal killed.
KILLED = 128

NODES = pair(delay="1ms")
# Nobody listens: its status is 1, and 0 was expected.
EARLY = NODES + builtin("sender", "a", "tcp-send", to="b:5001", bytes=1000)
# It does not end, and was to.
ENDLESS = keys(duration="5s") + NODES + builtin("lonely", "b", "tcp-sink", port=5001, expect=0)
# Longer than anybody waits.
LONG = keys(duration="100000s", capture=True) + NODES + udp(rate="1mbit", size=1000, duration="90000s")
LONG += events({"at": "99998s", "down": "ab"}, {"at": "99999s", "up": "ab"})


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(what)
        time.sleep(0.05)


def wrong_file(name: str) -> str:
    expected = (FOLDER / f"{name}.txt").read_text()
    wanted = expected.splitlines()
    if not wanted[0].startswith(f"weft: {name}.toml:") or "help: " not in expected:
        raise Failure("the expected message names no place, or not what to do")
    done = weft_command(FOLDER, "sim", f"{name}.toml", status=REFUSED)
    found = done.stderr.splitlines()
    same = len(wanted) == len(found) and all(fits(line, other) for line, other in zip(wanted, found))
    if not same or done.stdout:
        raise Failure(f"wanted:\n{expected}\nfound:\n{done.stdout}{done.stderr}")
    # Looking at it only says the same.
    if weft_command(FOLDER, "sim", f"{name}.toml", "--check", status=REFUSED).stderr != done.stderr:
        raise Failure("--check says something else")
    return wanted[0]


def fits(wanted: str, found: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("…") else found.rstrip() == wanted


def misses(folder: Path, name: str, text: str) -> str:
    """The run fails with status 1 and names the program; its results are there."""
    (folder / "scenario.toml").write_text(text)
    out = folder / name
    said = weft_command(folder, "sim", "scenario.toml", "--out", str(out), status=MISSED).stderr
    told = [line for line in said.splitlines() if line.startswith("weft: not as expected: ")]
    if len(told) != 1 or name not in told[0]:
        raise Failure(said)
    summary = json.loads((out / "summary.json").read_text())
    if summary["passed"] or not any(row["failure"] for row in summary["expectations"]):
        raise Failure(f"the summary says otherwise: {summary['expectations']}")
    return told[0]


def interrupted(folder: Path) -> str:
    """Ctrl-C: results are complete up to that time."""
    (folder / "scenario.toml").write_text(LONG)
    out = folder / "out"
    words = [weft.binary(), "sim", "scenario.toml", "--out", str(out), "--record", "full"]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        events = out / "record" / "b.events"
        deadline = time.monotonic() + SECONDS_MAX
        while not events.exists() or events.stat().st_size < 1 << 18:
            if time.monotonic() > deadline or process.poll() is not None:
                raise Failure("the run does not come to anything")
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    summary = json.loads((out / "summary.json").read_text())
    if summary["end"] != "interrupted" or ": interrupted" not in said or not 0 < summary["end_ns"] < 90_000 * 10**9:
        raise Failure(f"{summary['end']} at {summary['end_ns']}: {said}")
    status = json.loads((out / "programs" / "cbr" / "status.json").read_text())
    sent = status["figures"]["sent"]
    # 1000 bytes each at 1 Mbit/s: 8 ms apart.
    if abs(sent - summary["end_ns"] // 8_000_000) > 2 or (out / "captures" / "b-eth0.pcapng").stat().st_size < sent * 1000:
        raise Failure(f"{sent} datagrams until {summary['end_ns']} ns")
    expect("weft hash", weft_command(folder, "hash", str(out)).stdout.strip(), summary["hash"])
    expect("status", process.returncode, KILLED + signal.SIGINT)
    # All that did not come to pass is told, and an event that was too late is.
    expect("idle events", summary["idle_events"], ["event at 99998.000000000s and 1 later: the run ended before"])
    return f"{sent} datagrams, status {process.returncode}, hash {summary['hash']}"


# All that an unmodified program can leave behind: processes that detach themselves, that spin without a call, that sleep; files everywhere, shared memory.
BUSY = """
import os, time, mmap, socket, threading
open('/tmp/left', 'w').write('x'); open('/dev/shm/left', 'w').write('x'); open('/var/tmp/left', 'w').write('x')
s = socket.socket(socket.AF_UNIX); s.bind('/run/left'); s.listen()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: time.sleep(0.5)
    os._exit(0)
threading.Thread(target=time.sleep, args=(10**6,)).start()
print('here', flush=True)
WORK
"""
SPINS, SLEEPS = "while True: pass", "time.sleep(10**6)"
# The same, and what the kernel stops does not come back to weft by itself.
STUCK = "while True: 'stuck'"
NODES_MANY = 12
# Process 1 of a node, the program, its child that has ended, and the one below that (who spins leaves its child no turn).
PROCESSES = 4
# Starting Python is over by then.
SPINS_TICKS = 100
# Outside programs get this long to be gone; nothing is judged by how long it took.
END_SECONDS = 20


def crowded(work: str) -> str:
    """Many nodes, each with programs that do not end; one of them does this when the others sleep."""
    text = keys(duration="100000s", capture=True) + section("nodes.s", kind="switch")
    for number in range(NODES_MANY):
        body = BUSY.replace("WORK", work if number == 0 else SLEEPS)
        text += section(f"nodes.n{number}") + section(f"wires.w{number}", between=["s", f"n{number}"], delay="1ms")
        text += program(f"p{number}", f"n{number}", "python3", "-ISc", body, expect="any", start="1s" if number == 0 else "0s")
    return text


def stat_of(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def ticks_of(pid: int) -> int:
    """How long a process has computed, in hundredths of a second."""
    stat = stat_of(pid)
    return int(stat[11]) if stat else 0


def below(root: int) -> dict[int, str]:
    """All processes below one, with their start times, which tell them from others that get the number later."""
    parents = {int(path.name): stat_of(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found, before = {root}, 0
    while len(found) != before:
        before = len(found)
        found |= {pid for pid, stat in parents.items() if stat and int(stat[1]) in found}
    return {pid: parents[pid][19] for pid in found - {root} if parents[pid]}


def namespaces(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        for path in Path(f"/proc/{pid}/ns").glob("*"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(path))
    return found


def leavings() -> set[str]:
    """Mounts of the kinds that nodes have, and what lies where programs of nodes have written."""
    mounts = {line.split(" ", 1)[1] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " overlay " in line or " proc " in line or " devpts " in line}
    return mounts | {str(path) for folder in ("/dev/shm", "/var/tmp", "/tmp", "/run") for path in Path(folder).glob("*left*")}


def leaves_nothing(folder: Path, work: str, how: signal.Signals) -> str:
    """A run that is told to stop ends soon, with complete results, and no process, namespace, mount or file of its nodes is left."""
    (folder / "scenario.toml").write_text(crowded(work))
    before, own, out = leavings(), namespaces(["self"]), folder / "out"
    words = [*USUAL_SIGNALS, weft.binary(), "sim", "scenario.toml", "--out", str(out), "--threads", "2"]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for("its programs do not start", lambda: process.poll() is not None or len(below(process.pid)) >= PROCESSES * NODES_MANY - (work != SLEEPS))
        # They are in the middle of their work, whichever it is: who computes has done so for longer than it takes to start.
        time.sleep(0.5)
        if work != SLEEPS:
            wait_for("nobody computes", lambda: process.poll() is not None or any(ticks_of(pid) >= SPINS_TICKS for pid in below(process.pid)))
        children = below(process.pid)
        made = namespaces(children) - own
        # Of each node processes, mounts, host name and IPC; of all of them users and network.
        if process.poll() is not None or len(made) < 4 * NODES_MANY + 2:
            raise Failure(f"{len(children)} processes, {len(made)} namespaces: {process.poll()}")
        if work == STUCK:
            for pid in children:
                if (stat := stat_of(pid)) and stat[0] == "R":
                    os.kill(pid, signal.SIGSTOP)
        process.send_signal(how)
        try:
            _, said = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Failure(f"it goes on for {END_SECONDS} s after {how.name}") from late
    finally:
        process.kill()
        process.wait()
    summary = json.loads((out / "summary.json").read_text())
    if summary["end"] != "interrupted" or ": interrupted" not in said:
        raise Failure(f"{summary['end']}: {said}")
    if work == STUCK and "is stuck in the kernel" not in said:
        raise Failure(f"nobody is named: {said}")
    complete = [path for path in (out / "programs").iterdir() if json.loads((path / "status.json").read_text())["start_ns"] is not None]
    expect("programs with results", len(complete), NODES_MANY)
    expect("what the spinning one said", (out / "programs" / "p0" / "stdout").read_text(), "here\n")
    alive = {pid for pid, started in children.items() if (stat := stat_of(pid)) and stat[19] == started}
    expect("processes that are left", alive, set())
    # A namespace that is gone may give its number to a new one: only who was there before counts.
    expect("namespaces that are left", {pid for pid in children if pid in alive and namespaces([pid]) & made}, set())
    held = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    expect("mounts of its folder", held, [])
    expect("mounts and files that are left", leavings() - before, set())
    expect("status", process.returncode, KILLED + how)
    return f"{how.name}: {len(children)} processes and {len(made)} namespaces are gone, interrupted at {summary['end_ns']} ns"


def swept(folder: Path) -> str:
    """Ctrl-C of a sweep: its status tells that seeds are missing."""
    (folder / "scenario.toml").write_text(keys(duration="100000s") + NODES + udp(rate="1mbit", size=1000, duration="90000s"))
    process = subprocess.Popen([weft.binary(), "sim", "scenario.toml", "--seeds", "1..9", "--threads", "1"], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        handled = Path(f"/proc/{process.pid}/status")
        wait_for("it does not catch the signal", lambda: int(handled.read_text().split("SigCgt:")[1].split()[0], 16) & 1 << signal.SIGINT - 1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    expect("status", process.returncode, KILLED + signal.SIGINT)
    return said.strip()


# Each is sound, and told of: what, and where.
REMARKS = {
    "broadcast": (pair(a={"addresses": {"eth0": "10.9.0.255/24"}}), "scenario.toml:2: 10.9.0.255 is the broadcast address of its network: "),
    "network": (pair(a={"addresses": {"eth0": "10.9.0.0/24"}}), "scenario.toml:2: 10.9.0.0 is the first address of its network: "),
    "point to point": (pair(a={"addresses": {"eth0": "10.9.0.0/31"}}), ""),
    "routers": (pair(a={"addresses": {"eth0": "fd09::/64"}}), ""),
    "interface": (pair() + events({"at": "1s", "down": "a:eth7"}), "scenario.toml:7: no wire ends at interface 'eth7' of node 'a': "),
    "late": (keys(duration="5s") + section("nodes.a") + program("p", "a", "true", start="5s", expect="any"), "scenario.toml:6: at 5.000000000s the run is over: it lasts 5.000000000s: "),
    "loopback": (pair() + events({"at": "1s", "down": "a:lo"}), ""),
    # Who has no address gets none that somebody has.
    "given": (keys(ipv6=True) + section("nodes.a", addresses={"eth0": ["10.9.0.2/24", "fd09::2/64"]}) + section("nodes.b") + section("wires.ab", between=["a", "b"]), ""),
    # Anycast: one address on two networks.
    "anycast": (section("nodes.r") + "".join(section(f"nodes.{name}", addresses={"eth0": "10.9.0.1/24"}) + section(f"wires.{name}", between=[name, "r"]) for name in "ab"), ""),
}


def remarks(folder: Path) -> str:
    """What is probably meant otherwise is told, by --check and by the run, which goes on."""
    for name, (text, told) in REMARKS.items():
        (folder / "scenario.toml").write_text(text)
        said = weft_command(folder, "sim", "scenario.toml", "--check").stderr
        if not (said.startswith(f"weft: {told}") and said.count("\n") == 1 if told else said == ""):
            raise Failure(f"{name}: {said}")
        # An event may be told of that comes to nothing.
        if told and name != "interface" and told not in weft_command(folder, "sim", "scenario.toml").stderr:
            raise Failure(f"{name}: the run does not tell")
    return f"{len(REMARKS)} scenarios"


def without_folder(folder: Path) -> str:
    """A folder that is missing, and not the program, is what is told of; --check sees it."""
    (folder / "scenario.toml").write_text(section("nodes.a", files={"/srv/www/x": "text"}) + program("p", "a", "true", directory="/srv/ww"))
    warned = weft_command(folder, "sim", "scenario.toml", "--check", status=REFUSED).stderr
    if "program 'p': there is no folder '/srv/ww' to start in" not in warned:
        raise Failure(warned)
    done = weft_command(folder, "sim", "scenario.toml", status=MISSED)
    if "there is no folder '/srv/ww'" not in done.stdout:
        raise Failure(done.stdout + done.stderr)
    for there in ("/srv/www", "/srv", "/tmp", "/usr"):
        (folder / "scenario.toml").write_text(section("nodes.a", files={"/srv/www/x": "text"}) + program("p", "a", "true", directory=there))
        expect(there, weft_command(folder, "sim", "scenario.toml", "--check").stderr, "")
        weft_command(folder, "sim", "scenario.toml")
    # A program that is missing is not taken for its folder.
    (folder / "scenario.toml").write_text(section("nodes.a") + program("p", "a", "/usr/bin/none", directory="/tmp"))
    said = weft_command(folder, "sim", "scenario.toml", status=MISSED).stdout
    if "folder" in said or "/usr/bin/none" not in said:
        raise Failure(said)
    return done.stdout.splitlines()[0]


def other_kind(folder: Path) -> str:
    """A scenario is no stack file, and who takes it is told."""
    (folder / "scenario.toml").write_text(NODES)
    for words in (["check"], ["run", "--stack"]):
        said = weft_command(folder, *words, "scenario.toml", *(["true"] if "run" in words else []), status=REFUSED).stderr
        if "scenario.toml:1: this is a scenario file, and a stack file was wanted\n" not in said or "`weft sim FILE` takes it" not in said:
            raise Failure(said)
    said = weft_command(folder, "run", "scenario.toml", status=REFUSED).stderr
    if "this is a scenario file, and no program\nhelp: `weft sim FILE`" not in said:
        raise Failure(said)
    return said.splitlines()[-1]


def alone(folder: Path) -> str:
    """A node without a wire knows its own name, as Debian has it; one with a wire has that of its address."""
    (folder / "scenario.toml").write_text(section("nodes.alone") + pair() + "".join(program(f"of-{node}", node, "getent", "hosts", node) for node in ("alone", "a")))
    out = folder / "out"
    weft_command(folder, "sim", "scenario.toml", "--out", str(out))
    found = {node: (out / "programs" / f"of-{node}" / "stdout").read_text().split()[0] for node in ("alone", "a")}
    expect("addresses", found, {"alone": "127.0.1.1", "a": "10.0.0.1"})
    return f"{found}"


def limits(folder: Path) -> str:
    """`memory` and `descriptors` of a node: ENOMEM and EMFILE, as Linux gives them, and the numbers that programs ask for."""
    (folder / "scenario.toml").write_text(LIMITS)
    said = weft_command(folder, "sim", "scenario.toml").stdout.replace("limits: ", "").splitlines()
    kind, count = said[0].split()
    # Python has some of it already.
    if kind != "MemoryError" or not 32 <= int(count) < 64:
        raise Failure(said[0])
    # Standard input, output and error are there; a pipe takes two.
    expect("descriptors", said[1:5], ["24 61", "24 61", "24 30", "24 61"])
    expect("limits", said[5], f"({64 << 20}, {64 << 20}) (64, 64) ['MemTotal:', '{64 << 10}', 'kB'] {16 << 10}")
    expect("raising them", said[6:8], ["not raised", "not raised"])
    expect("sbrk", said[8], "-1 12")
    if str(64 << 20) not in said[9] or "'64', '64'" not in said[9]:
        raise Failure(said[9])
    return f"{count} MiB of 64 in pieces of one"


# Opens many of something, as far as its own limit and `count` go, and says why it ends.
MANY = """
import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (5000, 5000))
made = []
try:
    while len(made) < {count}: made.append({what})
    print("enough")
except OSError as error: print(error.strerror)
# Others open theirs meanwhile.
time.sleep(1)
"""


def hosts_descriptors(folder: Path) -> str:
    """A host that allows few descriptors: whoever meets that limit is told, and the run says that it may not repeat."""
    hard = 1400
    folder.chmod(0o777)
    as_user = user.words() if os.geteuid() == 0 else []

    def said(name: str, nodes: int, count: int, what: str, limit: int) -> tuple[list[str], str]:
        body = MANY.format(count=count, what=what)
        programs = [section(f"nodes.n{index}") + program(f"p{index}", f"n{index}", "python3", "-ISc", body) for index in range(nodes)]
        (folder / "scenario.toml").write_text("".join(programs))
        # By somebody who cannot raise it.
        words = [*as_user, "prlimit", f"--nofile={limit}:{limit}", weft.binary(), "sim", "scenario.toml", "--json", "--out", name]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Failure(f"{name}: exit status {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return [(folder / name / "programs" / f"p{index}" / "stdout").read_text().strip() for index in range(nodes)], "; ".join(json.loads(done.stdout)["not_reproducible"])

    ends, why = said("weft", 2, 800, "socket.socket()", hard)
    if ends[1] != "Too many open files in system" or "node 'n1': socket, accept" not in why or "ulimit -Hn" not in why:
        raise Failure(f"sockets: {ends}, {why}")
    ends, why = said("program", 1, 2000, "os.dup(0)", hard)
    if ends != ["Too many open files"] or "descriptors of a process" not in why:
        raise Failure(f"descriptors: {ends}, {why}")
    # Where there are enough, nothing is said.
    expect("enough of them", said("enough", 2, 800, "socket.socket()", 4000), (["enough", "enough"], ""))
    expect("a limit of its own", said("own", 1, 6000, "os.dup(0)", 8000), (["Too many open files"], ""))
    return why


def usage(folder: Path) -> str:
    """rusage of status.json: a call costs what `cpu` says, and computing nothing."""
    def used(calls: int, per_call: str) -> dict:
        text = section("nodes.a", cpu={"per_call": per_call}) + program("p", "a", "python3", "-ISc", f"import os\nfor _ in range({calls}): os.getppid()\nsum(range(10**5))")
        (folder / "scenario.toml").write_text(text)
        weft_command(folder, "sim", "scenario.toml", "--out", f"{calls}{per_call}")
        return json.loads((folder / f"{calls}{per_call}" / "programs" / "p" / "status.json").read_text())["rusage"]
    some: dict = {}
    for per_call, cost in (("1us", 1_000_000), ("5us", 5_000_000)):
        none, some = used(0, per_call), used(1000, per_call)
        expect(f"calls, CPU time at {per_call}", (some["calls"] - none["calls"], some["user_ns"] - none["user_ns"], some["system_ns"]), (1000, cost, 0))
    return f"{some}"


def main() -> int:
    rows: dict[str, Callable[[Path], str]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        rows[f"wrong file/{path.stem}"] = lambda _, name=path.stem: wrong_file(name)
    rows["program/ends with another status"] = lambda folder: misses(folder, "sender", EARLY)
    rows["program/does not end"] = lambda folder: misses(folder, "lonely", ENDLESS)
    rows["program/memory and descriptors"] = limits
    rows["program/descriptors of the host"] = hosts_descriptors
    rows["program/rusage"] = usage
    rows["program/its folder is missing"] = without_folder
    rows["program/on a node without wires"] = alone
    rows |= schemas.ROWS
    rows["remarks"] = remarks
    rows["the other kind of file"] = other_kind
    rows["interrupted"] = interrupted
    rows["interrupted/sweep"] = swept
    rows["leaves nothing/a program spins"] = lambda folder: leaves_nothing(folder, SPINS, signal.SIGINT)
    rows["leaves nothing/a program is stuck in the kernel"] = lambda folder: leaves_nothing(folder, STUCK, signal.SIGTERM)
    rows["leaves nothing/SIGHUP"] = lambda folder: leaves_nothing(folder, SLEEPS, signal.SIGHUP)
    rows["leaves nothing/SIGTERM"] = lambda folder: leaves_nothing(folder, SLEEPS, signal.SIGTERM)
    return run_rows(rows)
