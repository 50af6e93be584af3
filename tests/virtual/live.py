"""Worlds that people take part in: time tied to the wall clock (`--pace`), and programs that come in from outside (`weft exec`).

The wall clock is looked at here, and nowhere else in virtual time: what is judged is how far the world's time strays from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import Iterator

from harness import weft
from harness.processes import PATIENCE, Failure

from .shared import builtin, expect, figures, keys, pair, program, sim

# Watchdog.
SECONDS_MAX = 60 * PATIENCE
STRAY_NS = 10_000_000
TOLD, SETTLES, ATTEMPTS = 45, 5, 3

WORLD = keys(duration="600s") + pair(delay="5ms")
WORLD += program("web", "b", "python3", "-ISm", "http.server", "8000", "--directory", "/usr/share/misc", expect="running")
WORLD += builtin("ping", "a", "ping", to="b", count=10000, interval="50ms", expect="any")

# So much that it takes a while to simulate.
UNPACED = WORLD.replace('interval = "50ms"', 'interval = "1ms"').replace("count = 10000", "count = 400_000_000").replace("600s", "100000s")

TELL_TIME = f"import time\nfor _ in range({TOLD}): print(time.time_ns(), flush=True); time.sleep(0.05)"
LAN = '[nodes.lan]\nkind = "switch"\n[wires.port]\nbetween = ["a", "lan"]\n'


@contextlib.contextmanager
def world(folder: Path, text: str, *words: str) -> Iterator[tuple[subprocess.Popen, str, Path]]:
    """A running world: its process, the path of its socket, and its results, which are complete afterwards."""
    (folder / "world.toml").write_text(text)
    socket, out = str(folder / "world.sock"), folder / "out"
    command = [weft.binary(), "sim", "world.toml", "--json", "--control", socket, "--out", str(out), *words]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline() if select.select([process.stderr], [], [], SECONDS_MAX)[0] else ""
        if "ready control=" not in line:
            process.kill()
            raise Failure(f"{line}{process.stderr.read()}")
        yield process, socket, out
        ended = process.poll() is not None
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=SECONDS_MAX)[1]
        if ": interrupted" not in said and not ended:
            raise Failure(said)
    finally:
        process.kill()
        process.wait()


def lines_of(process: subprocess.Popen) -> Iterator[str]:
    """What it says, until it has closed its output; it is ended when that takes too long."""
    watchdog = threading.Timer(SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        yield from process.stdout
    finally:
        watchdog.cancel()


def enter(socket: str, node: str, *command: str) -> list[str]:
    return [weft.binary(), "exec", "--control", socket, node, "--", *command]


def pace(folder: Path) -> str:
    """What time it is in the world, told by a program in it, stays within 10 ms of the wall clock, while others use the network."""
    # Nothing but other work on this machine can make it stray in one attempt and not in another.
    for attempt in range(ATTEMPTS):
        try:
            (folder / str(attempt)).mkdir()
            return one_pace(folder / str(attempt))
        except Strayed as strayed:
            said = strayed
    raise Failure(str(said))


class Strayed(Exception):
    """The world's time was too far from the wall clock."""


def one_pace(folder: Path) -> str:
    with world(folder, WORLD, "--pace", "1.0") as (_, socket, out):
        program = subprocess.Popen(enter(socket, "a", "python3", "-ISc", TELL_TIME), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        # Python computes as it starts, which takes time here and none there: the world catches up.
        strays = [time.time_ns() - int(line) for line in lines_of(program)][SETTLES:]
        expect("status", program.wait(SECONDS_MAX), 0)
    # Who keeps this test or the world off the processors makes both late for a while. A world that does not follow the clock is never near it again.
    middle = statistics.median(strays)
    near = [stray for stray in strays if abs(stray - middle) <= STRAY_NS]
    worst = max(abs(stray - middle) for stray in strays) / 1e6
    if len(strays) != TOLD - SETTLES or len(near) < len(strays) / 2:
        raise Strayed(f"{len(near)} of {len(strays)} within 10 ms, the worst {worst:.1f} ms")
    summary = json.loads((out / "summary.json").read_text())
    rtt = figures(summary, "ping")["rtt_min_ns"]
    expect("round trip over 5 ms", rtt, 10_000_000)
    return f"{len(near)} of {len(strays)} within 10 ms, the worst {worst:.1f} ms"


def pace_changes_nothing(folder: Path) -> str:
    """The same hash, ten times as fast as the clock and as fast as it goes."""
    text = WORLD.replace('duration = "600s"', 'duration = "5s"')
    hashes, took = [], []
    for words in (("--pace", "10"), ("--threads", "2")):
        started = time.monotonic()
        hashes.append(sim(folder, text, *words)["hash"])
        took.append(time.monotonic() - started)
    expect("hash", hashes[0], hashes[1])
    if took[0] < 0.5:
        raise Failure(f"5 s at ten times the clock's speed took {took[0]} s")
    return hashes[0]


def shell(folder: Path) -> str:
    """A shell at a terminal, in a node: its name, its network, its time; what is typed comes in, ctrl-C too."""
    with world(folder, WORLD, "--pace", "1.0") as (_, socket, out):
        status, said = at_a_terminal(enter(socket, "a", "bash", "--norc", "--noprofile", "-i"), [
            ("# ", "echo $((6 * 7)) is $(hostname)\n"),
            ("42 is a", "curl -s -o /dev/null -w '%{http_code} from %{remote_ip}\\n' http://b:8000/\n"),
            ("200 from 10.0.0.2", "tty > /dev/null && echo terminal; date +%Y\n"),
            ("2030", "exit 7\n"),
        ])
        if status != 7 or "terminal" not in said:
            raise Failure(f"status {status}:\n{said}")
        sleeper = subprocess.Popen(enter(socket, "b", "sleep", "1000"), stdin=subprocess.DEVNULL)
        time.sleep(0.5)
        sleeper.send_signal(signal.SIGINT)
        expect("status after SIGINT", sleeper.wait(SECONDS_MAX), 128 + signal.SIGINT)
        piped = subprocess.run(enter(socket, "b", "sh", "-c", "read word; echo got $word; echo on >&2; exit 3"), input="it\n", capture_output=True,
                               text=True, timeout=SECONDS_MAX)
        expect("through pipes", (piped.returncode, piped.stdout, piped.stderr), (3, "got it\n", "on\n"))
        for words, status, why in ((("nobody", "true"), 2, "there is no node 'nobody'"), (("a", "not-there"), 127, "cannot execute not-there"),
                                   (("a", "/etc/passwd"), 126, "cannot execute /etc/passwd")):
            refused = subprocess.run(enter(socket, *words), capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
            if refused.returncode != status or why not in refused.stderr:
                raise Failure(f"{words}: status {refused.returncode}, {refused.stderr}")
    summary = json.loads((out / "summary.json").read_text())
    if not any("weft exec" in why for why in summary["not_reproducible"]):
        raise Failure(f"the run is said to be reproducible: {summary['not_reproducible']}")
    return "terminal, pipes, ctrl-C; exit status 7, 130 and 3"


def told(socket: str, *words: str, node: str | None = "a") -> subprocess.CompletedProcess:
    """What `weft WORDS --node NODE` says to a world."""
    whom = ["--node", node] if node else []
    return subprocess.run([weft.binary(), *words, "--control", socket, *whom], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)


def words(folder: Path) -> str:
    """The words of the console change a node of a running world, and the run says so; who only asks leaves no trace."""
    # The graph that it began with, but for one parameter.
    (folder / "shape.toml").write_text("[node]\nname = \"a\"\n[block.ip4]\ndefault_ttl = 9\n")
    (folder / "wired.toml").write_text("[node]\nname = \"a\"\n[[interface]]\nname = \"lab0\"\nbackend = \"tap:lab0\"\n")
    with world(folder, WORLD + LAN, "--pace", "1.0") as (_, socket, out):
        for command, said in (
            (("set", "ip4.default_ttl=9"), ""),
            (("get", "ip4.default_ttl"), "9"),
            (("add", "seen", "counter"), "seen"),
            (("insert", "seen", "ip4:lower", "arp"), "seen"),
            (("show", "blocks"), "seen"),
            (("exec", "arp", "flush"), ""),
            (("apply", str(folder / "shape.toml"), "--dry-run"), "delete seen"),
            (("apply", str(folder / "shape.toml")), "seen"),
            (("apply", str(folder / "shape.toml")), "nothing to change"),
        ):
            done = told(socket, *command)
            if done.returncode != 0 or said not in done.stdout:
                raise Failure(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
        ttl = subprocess.run(enter(socket, "b", "sh", "-c", "ping -c 1 a | grep -o ttl=.*time"), capture_output=True, text=True, timeout=SECONDS_MAX,
                             stdin=subprocess.DEVNULL)
        expect("what b sees of it", ttl.stdout.split()[:1], ["ttl=9"])
        for command, node, why in (
            (("set", "ip4.default_ttl=300"), "a", "default_ttl"),
            (("get", "ip5"), "a", "ip5"),
            (("show", "blocks"), "nobody", "there is no node 'nobody'"),
            (("show", "blocks"), "lan", "'lan' is a switch: it has no stack"),
            (("show", "blocks"), None, "which node?"),
            (("show", "calls"), "a", "a world that `weft sim` runs"),
            (("subscribe",), None, "nobody can subscribe"),
            (("trace",), None, "a world that `weft sim` runs"),
            (("exec", "interfaces", "add", "name=lab0", "backend=tap:lab0"), "a", "nobody here opens 'tap:lab0'"),
            (("apply", str(folder / "wired.toml")), "a", "in virtual time interfaces are ends of the scenario's wires"),
        ):
            refused = told(socket, *command, node=node)
            if refused.returncode in (0, -signal.SIGKILL) or why not in refused.stderr:
                raise Failure(f"{command} of {node}: status {refused.returncode}, {refused.stderr}")
    summary = json.loads((out / "summary.json").read_text())
    if not any("'a': somebody told it" in why for why in summary["not_reproducible"]):
        raise Failure(f"the run is said to be reproducible: {summary['not_reproducible']}")
        refused = subprocess.run(enter(socket, "lan", "true"), capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        expect("a program in a switch", (refused.returncode, "'lan' is a switch" in refused.stderr), (2, True))
    return "set, insert, exec; eleven refused"


def questions(folder: Path) -> str:
    """Who asks a node something all the time leaves the hash as it is."""
    text = WORLD.replace('duration = "600s"', 'duration = "3s"')
    with world(folder, text, "--pace", "1.0") as (process, socket, out):
        asked = 0
        while process.poll() is None:
            asked += told(socket, *(("show", "counters"), ("get", "tcp"), ("show", "routes"))[asked % 3], node="ab"[asked % 2]).returncode == 0
    summary = json.loads((out / "summary.json").read_text())
    expect("doubts", summary["not_reproducible"], [])
    (folder / "again").mkdir()
    expect("hash", summary["hash"], sim(folder / "again", text)["hash"])
    if asked < 10:
        raise Failure(f"only {asked} questions were answered")
    return f"{asked} questions"


def at_a_terminal(command: list[str], talk: list[tuple[str, str]]) -> tuple[int, str]:
    """Runs a command at a terminal of its own; says the second of each pair when the first has come."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    said, seen, deadline = "", 0, time.monotonic() + SECONDS_MAX
    try:
        for wait_for, answer in talk:
            while wait_for not in said[seen:]:
                if time.monotonic() > deadline or not select.select([leader], [], [], 1)[0] and process.poll() is not None:
                    raise Failure(f"'{wait_for}' does not come:\n{said}")
                with contextlib.suppress(OSError):
                    said += os.read(leader, 4096).decode(errors="replace") if select.select([leader], [], [], 0)[0] else ""
            seen = len(said)
            os.write(leader, answer.encode())
        return process.wait(SECONDS_MAX), said
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def unpaced(folder: Path) -> str:
    """Into a world that runs as fast as it can, too."""
    with world(folder, UNPACED) as (_, socket, _out):
        done = subprocess.run(enter(socket, "b", "sh", "-c", "hostname; date +%Y"), capture_output=True, text=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL)
        expect("what it says", (done.returncode, done.stdout), (0, "b\n2030\n"))
    return done.stdout.replace("\n", " ")


def break_at(folder: Path) -> str:
    """The world stands still before the first event at a time, and goes on."""
    plain = sim(folder, WORLD.replace('duration = "600s"', 'duration = "3s"'))
    command = [weft.binary(), "sim", "scenario.toml", "--json", "--break-at", "1234567us"]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        if " is at 1.2" not in line or "gdb -p" not in line:
            raise Failure(line)
        deadline = time.monotonic() + SECONDS_MAX
        while "\nState:\tT" not in Path(f"/proc/{process.pid}/status").read_text():
            if time.monotonic() > deadline:
                raise Failure("it does not stop")
            time.sleep(0.01)
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.wait()
    expect("hash", json.loads(said)["hash"], plain["hash"])
    return line.strip()


ROWS = {"pace": pace, "pace/one hash": pace_changes_nothing, "exec/shell": shell, "exec/unpaced": unpaced, "words": words, "words/questions": questions, "break-at": break_at}
