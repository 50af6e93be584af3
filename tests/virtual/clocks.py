"""`make test-clocks`: machines have clocks and process ids of their own: who takes its identity from them differs from its neighbours, the same in every run.
Clocks that are wrong, set and disciplined do what those of a Linux kernel do, and whoever waits by them waits by a wrong one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import paths, user, weft
from harness.processes import Failure
from programs.shared import built_go

from .shared import SECONDS_MAX, compiled, events, expect, keys, run_rows, section, sim, weft_command

CLUSTERS = Path(__file__).parent / "clusters"
NODES = ("k1", "k2", "k3")

# All clocks that tell how long the machine is up, in hundredths of a second, and the process id.
TELL = """
import os, re, subprocess, time
ways = {name: time.clock_gettime(getattr(time, "CLOCK_" + name)) for name in ("MONOTONIC", "MONOTONIC_RAW", "MONOTONIC_COARSE", "BOOTTIME") if hasattr(time, "CLOCK_" + name)}
ways["times"] = os.times().elapsed
ways["uptime"] = float(open("/proc/uptime").read().split()[0])
ways["btime"] = time.time() - int(re.search("btime (.*)", open("/proc/stat").read())[1])
ways["starttime"] = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
print(os.getpid(), time.time_ns(), *(f"{name}={value:.2f}" for name, value in ways.items()))
"""


def program(name: str, node: str, *command: str, **more) -> str:
    return section(f"programs.{name}", node=node, command=command, **more)


def outputs(folder: Path) -> dict[str, str]:
    """What each program has written in the run whose results lie in `out`."""
    return {file.parent.name: file.read_text() for file in folder.glob("out/programs/*/stdout")}


def run(folder: Path, text: str, *words: str) -> tuple[str, dict[str, str]]:
    """A run's hash, and what came of it."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    summary = sim(folder, text, "--out", str(folder / "out"), *words)
    return summary["hash"], outputs(folder)


def told(folder: Path, head: str, *words: str) -> tuple[str, list[list[str]]]:
    """The words that each node says of its clocks."""
    text = head + "".join(section(f"nodes.{node}") for node in NODES) + "".join(program(node, node, "python3", "-c", TELL) for node in NODES)
    run_hash, said = run(folder, text, *words)
    return run_hash, [said[node].split() for node in NODES]


def differ(folder: Path) -> str:
    run_hash, said = told(folder, "")
    for threads in ("1", "2"):
        expect("the same on other threads", told(folder, "", "--threads", threads), (run_hash, said))
    expect("process ids, dates and times since boot", [len({row[at] for row in said}) for at in (0, 1, 2)], [3, 1, 3])
    other_hash, other = told(folder, "", "--seed", "2")
    if other_hash == run_hash or any(row in other for row in said):
        raise Failure(f"another seed, and the same: {said} and {other}")
    return " ".join(row[0] for row in said)


def anywhere(folder: Path) -> str:
    """Whoever runs it, also where ns_last_pid cannot be written, as in a container: the numbers before the first are used up."""
    if os.geteuid() != 0:
        raise paths.MissingTool("only root may be somebody else; runs as root")
    folder.chmod(0o755)
    shutil.copy2(weft.binary(), folder / "weft")
    (folder / "scenario.toml").write_text("".join(section(f"nodes.{node}") + program(node, node, "sh", "-c", "echo $$; cat /proc/self/stat") for node in NODES))
    # Over what lies something nobody mounts a /proc of his own, either.
    locked = [paths.tool("unshare"), "--mount", "--propagation", "private", "sh", "-euc",
              'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; mount -t tmpfs none /proc/acpi 2> /dev/null || mount -t tmpfs none /proc/bus; exec "$@"', "sh"]
    found = {}
    for where, before in (("root", []), ("a user", user.words()), ("locked, root", locked), ("locked, a user", [*locked, *user.words()])):
        done = subprocess.run([*before, str(folder / "weft"), "sim", "scenario.toml"], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        found[where] = done.stdout, done.returncode
    if len(set(found.values())) != 1 or "hash" not in found["root"][0]:
        raise Failure(f"{found}")
    return found["root"][0].splitlines()[-1]


def alike(folder: Path) -> str:
    """As in a laboratory: all were born at once."""
    _, said = told(folder, keys(boot="0s"))
    expect("nodes that say the same", len({" ".join(row) for row in said}), 1)
    expect("process id", said[0][0], "2")
    return " ".join(said[0][2:4])


def agree(folder: Path) -> str:
    """Whichever way a program asks for how long its machine is up, it is the same time, to what a way has of it."""
    for head in ("", keys(boot="0s"), keys(boot="20h")):
        for row in told(folder, head)[1]:
            ways = {name: float(value) for name, value in (word.split("=") for word in row[2:])}
            base = ways["MONOTONIC"]
            wrong = {name: value for name, value in ways.items() if abs(value - base) > (1.01 if name == "btime" else 0.06)}
            expect("ways that say something else", wrong, {})
    return f"{len(ways)} ways"


def ready(folder: Path, language: str) -> list[str]:
    """The command of a member of the cluster."""
    there = folder / "cluster"
    there.mkdir(exist_ok=True)
    # Nodes look at it as a user of their own.
    folder.chmod(0o755)
    builds = {"java": ["javac", "-d", str(there), str(CLUSTERS / "Elect.java")], "erlang": ["erlc", "-o", str(there), str(CLUSTERS / "elect.erl")]}
    if build := builds.get(language):
        done = subprocess.run([paths.tool(build[0]), *build[1:]], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode:
            raise Failure(done.stderr[-1500:])
    elif language == "go":
        built_go(CLUSTERS, there / "elect", "elect.go")
    shutil.copy(CLUSTERS / "elect.py", there)
    return {
        "python": ["python3", str(there / "elect.py")],
        "java": ["java", "-cp", str(there), "Elect"],
        "go": [str(there / "elect")],
        "erlang": ["erl", "-noshell", "-pa", str(there), "-run", "elect", "main"],
    }[language]


def cluster(language: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        command = ready(folder, language)
        nodes = "".join(section(f"nodes.{node}") for node in NODES) + section("nodes.lan", kind="switch")
        wires = "".join(section(f"wires.{node}", between=[node, "lan"], delay="1ms") for node in NODES)

        def members(status: int) -> str:
            others = {node: [peer for peer in NODES if peer != node] for node in NODES}
            return "".join(program(node, node, *command, node, *others[node], start="1s", expect=status) for node in NODES)

        run_hash, said = run(folder, nodes + wires + members(0))
        leaders = set(said.values())
        if len(leaders) != 1 or not leaders.pop().startswith("leader k"):
            raise Failure(f"they do not agree: {said}")
        expect("again", run(folder, nodes + wires + members(0), "--threads", "2"), (run_hash, said))
        # Twins never agree: what is tried above is what it is taken from.
        _, twins = run(folder, keys(boot="0s") + nodes + wires + members(1))
        if not all("nobody leads" in line for line in twins.values()):
            raise Failure(f"members that are all the same: {twins}")
        return said[NODES[0]].strip()

    return body


# Nanoseconds since 1970 at which a world begins.
START = 1893456000 * 10**9
# Wrong clocks, by node: offset and drift, and both in nanoseconds and parts of a thousand million.
WRONG = {
    "plain": ({}, 0, 0),
    "ahead": ({"offset": "250ms", "drift": "40ppm"}, 250_000_000, 40_000),
    "behind": ({"offset": "-2s", "drift": "-12.5ppm"}, -2_000_000_000, -12_500),
    "fast": ({"drift": "100000ppm"}, 0, 100_000_000),
    "slow": ({"offset": "-87600h", "drift": "-100000ppm"}, -87600 * 3600 * 10**9, -100_000_000),
}
READ = """
import time
def tell(): print(*(time.clock_gettime_ns(clock) for clock in (0, 1, 4)), flush=True)
tell(); time.sleep(5); tell(); time.sleep(1000); tell()
"""


def wrong_nodes() -> str:
    return "".join(section(f"nodes.{node}", **({"clock": clock} if clock else {})) for node, (clock, *_) in WRONG.items())


def offset_and_drift(folder: Path) -> str:
    """What a clock shows is what its world's time, offset and drift come to, to the nanosecond; so is when whoever sleeps by it wakes up."""
    text = wrong_nodes() + "".join(program(node, node, "python3", "-c", READ, start="10s") for node in WRONG)
    run_hash, said = run(folder, text)
    for threads in ("1", "2"):
        expect("the same on other threads", run(folder, text, "--threads", threads), (run_hash, said))
    looked = 0
    for node, (_, offset, drift) in WRONG.items():
        rows = [[int(word) for word in line.split()] for line in said[node].splitlines()]
        expect("times of looking", len(rows), 3)
        # Each look costs a microsecond of the world's time, wherever the node's clock is.
        begun = None
        for date, up, raw in rows:
            # The world's time at which the date was looked at: the whole number that comes to what it shows.
            shown = date - START - offset
            at = -(-shown * 10**9 // (10**9 + drift))
            expect(f"{node}: the date", at + at * drift // 10**9, shown)
            for later, value in ((1000, up), (2000, raw)):
                begun = begun if begun is not None else value - (at + later) * (10**9 + drift) // 10**9
                if abs(value - begun - (at + later) * (10**9 + drift) // 10**9) > 1:
                    raise Failure(f"{node}: {value} since the boot at {at + later}, which is not {begun} more")
            looked += 1
        for (_, one, _), (_, other, _), time in zip(rows, rows[1:], (5, 1000)):
            if not 0 <= other - one - time * 10**9 < 20_000:
                raise Failure(f"{node}: slept {other - one} ns by its clock instead of {time} s")
    return f"{looked} looks"


def at_the_top(folder: Path) -> str:
    """`clock` at the top is for all, and a node's own goes before it, key by key."""
    text = section("clock", offset="1s", drift="10ppm") + section("nodes.a") + section("nodes.b", clock={"offset": "-1s"}) + section("nodes.c", clock={"drift": "0ppm"})
    text += "".join(program(node, node, "python3", "-c", "import time; print(time.time_ns())", start="100s") for node in "abc")
    _, said = run(folder, text)
    dates = {node: int(word) - START - 100 * 10**9 for node, word in said.items()}
    # What the drift comes to in a hundred seconds is a millisecond; starting a program takes the same time on all of them.
    expect("apart", [round((dates[node] - dates["c"]) / 1e6) for node in "ab"], [1, -1999])
    expect("as a key of a run", run(folder, text, "--set", "nodes.c.clock.offset=5s")[1]["c"].startswith(str((START + 105 * 10**9) // 10**9)), True)
    return "key by key"


def discipline(folder: Path, source: str) -> Path:
    folder.chmod(0o755)
    return compiled(Path(__file__).parent / source, folder / "discipline", "-Wno-unused-result", "-lrt")


def kernels(folder: Path) -> bool:
    return bool(json.loads(weft_command(folder, "kernel", "list", "--json").stdout))


def as_linux(source: str, part: str) -> Callable[[Path], str]:
    """The same lines on a Linux kernel, and on nodes whose clocks are right and wrong."""
    def body(folder: Path) -> str:
        command = str(discipline(folder, source))
        names = list(WRONG)
        text = keys(duration="4000s") + wrong_nodes()
        text += "".join(program(node, node, command, part, start="1s", environment={"EXACT": "1"}) for node in names)
        if has_kernel := kernels(folder):
            text += section("nodes.linux", kind="linux") + program("linux", "linux", command, part, start="1s")
        run_hash, said = run(folder, text)
        for node in names:
            wanted = said["linux" if has_kernel else "plain"].splitlines()
            for number, (line, other) in enumerate(zip(said[node].splitlines(), wanted, strict=False), 1):
                expect(f"line {number} of node {node}", line, other)
            expect(f"lines of node {node}", len(said[node].splitlines()), len(wanted))
        if run(folder, text, "--threads", "1")[0] != run_hash:
            raise Failure("another hash on one thread")
        if not has_kernel:
            raise paths.MissingTool("no Linux kernel has been built: `weft kernel build` takes a few minutes")
        return f"{len(said['linux'].splitlines())} lines"

    return body


def date_s(folder: Path) -> str:
    """date -s sets one node's clock, for root alone; after a crash it is what it would be if nobody had."""
    text = keys(duration="60s") + section("nodes.a", clock={"offset": "1s", "drift": "1000ppm"}) + section("nodes.b")
    text += program("set", "a", "sh", "-c", "test -e /var/done && exit; date -s '2031-02-03 04:05:06' && sleep 1 && date +%s.%N; touch /var/done", start="10s")
    text += program("user", "a", "python3", "-c", "import os, time\nos.setuid(1000)\ntry: time.clock_settime(0, 5)\nexcept PermissionError as why: print(why)", start="12s")
    text += "".join(program(f"after-{node}", node, "date", "+%s.%N", start="20s") for node in "ab")
    text += program("again", "a", "sh", "-c", "date +%s.%N; cat /proc/uptime", start="40s")
    text += events({"at": "25s", "crash": "a"}, {"at": "30s", "restart": "a"})
    _, said = run(folder, text)
    first, second = said["set"].splitlines()
    expect("set", [first, second.split(".")[0]], ["Mon Feb  3 04:05:06 UTC 2031", "1927857907"])
    expect("a user", said["user"].splitlines()[0], "[Errno 1] Operation not permitted")
    # Programs of a node that boots again run again.
    after = {node: float(said[f"after-{node}"].splitlines()[0]) for node in "ab"}
    expect("the neighbour's", round(after["b"] - START / 1e9, 2), 20)
    expect("and its own", round(after["a"] - 1927857906), 10)
    date, up = said["again"].splitlines()[:2]
    expect("after a crash", round(float(date) - START / 1e9, 2), 41.04)
    # It has booted for one to two seconds when its programs may start, ten seconds before, by a clock that is one in a thousand too fast.
    expect("since the boot", 11 <= float(up.split()[0]) <= 12.2, True)
    return "set"


def chrony(offset: str, drift: float, jitter: str) -> Callable[[Path], str]:
    """chronyd finds the drift that was planted, and makes the clock right: it sets and slews it by the kernel's means."""
    def body(folder: Path) -> str:
        daemon, asks = paths.unpacked("chrony", "chronyd"), paths.unpacked("chrony", "chronyc")
        conf = {"server": "local stratum 1\nallow all\n", "client": "server server iburst minpoll 2 maxpoll 4\nmakestep 0.1 3\n"}
        text = keys(duration="1201s") + section("nodes.server", files={"/etc/c.conf": conf["server"]})
        text += section("nodes.client", files={"/etc/c.conf": conf["client"]}, clock={"offset": offset, "drift": f"{drift}ppm"})
        text += section("wires.w", between=["server", "client"], delay="5ms", **({"jitter": jitter} if jitter else {}))
        for node, start in (("server", "0s"), ("client", "5s")):
            text += program(f"chronyd-{node}", node, daemon, "-d", "-u", "root", "-f", "/etc/c.conf", start=start, expect="any")
        text += program("tracking", "client", asks, "-n", "tracking", start="1199s")
        text += "".join(program(f"date-{node}", node, "date", "+%s.%N", start="1200s") for node in ("server", "client"))
        run_hash, said = run(folder, text)
        found = re.search(r"Frequency\s*:\s*([0-9.]+) ppm (slow|fast)", said["tracking"])
        if not found:
            raise Failure(said["tracking"])
        ppm = float(found[1]) * (1 if found[2] == "fast" else -1)
        apart = float(said["date-client"]) - float(said["date-server"])
        if abs(ppm - drift) > abs(drift) / 100 or abs(apart) > 0.001:
            raise Failure(f"{ppm} ppm instead of {drift}, and {apart * 1e6:.1f} us apart\n{said['tracking']}{said['chronyd-client']}")
        expect("on one thread", run(folder, text, "--threads", "1")[0], run_hash)
        return f"{ppm} ppm, {apart * 1e6:.1f} us"

    return body


def ntpd(folder: Path) -> str:
    """ntpd, too: its offsets go through the kernel's loop."""
    daemon = paths.unpacked("ntpsec", "ntpd")
    conf = {"server": "server 127.127.1.0\nfudge 127.127.1.0 stratum 3\n", "client": "server server iburst minpoll 4 maxpoll 4\ntinker step 0.128\n"}
    text = keys(duration="3001s") + section("nodes.server", files={"/etc/n.conf": conf["server"]})
    text += section("nodes.client", files={"/etc/n.conf": conf["client"]}, clock={"offset": "40ms", "drift": "-30ppm"})
    text += section("wires.w", between=["server", "client"], delay="5ms")
    for node, start in (("server", "0s"), ("client", "20s")):
        text += program(f"ntpd-{node}", node, daemon, "-n", "-g", "-c", "/etc/n.conf", start=start, expect="any")
    text += program("frequency", "client", "python3", "-c", FREQUENCY, start="2999s")
    text += "".join(program(f"date-{node}", node, "date", "+%s.%N", start="3000s") for node in ("server", "client"))
    run_hash, said = run(folder, text)
    apart, ppm = float(said["date-client"]) - float(said["date-server"]), float(said["frequency"])
    if abs(ppm - 30) > 3 or abs(apart) > 0.001:
        raise Failure(f"{ppm} ppm instead of 30, and {apart * 1e6:.1f} us apart\n{said['ntpd-client']}")
    expect("on one thread", run(folder, text, "--threads", "1")[0], run_hash)
    return f"{ppm} ppm, {apart * 1e6:.1f} us"


# The frequency that the kernel was told, in ppm.
FREQUENCY = """
import ctypes
words = (ctypes.c_long * 26)()
ctypes.CDLL(None).adjtimex(words)
print(words[2] / 65536)
"""


def lease(folder: Path) -> str:
    """A lease is over before its time where the holder's clock is slow, in the same way in every run, whoever runs it; and never where clocks are right."""
    there = folder / "cluster"
    there.mkdir()
    shutil.copy(CLUSTERS / "lease.py", there)
    folder.chmod(0o755)
    nodes = {"server": "0ppm", "one": "-100000ppm", "other": "20ppm"}

    def world(drifts: bool) -> str:
        text = keys(duration="160s") + section("nodes.lan", kind="switch")
        for node, drift in nodes.items():
            text += section(f"nodes.{node}", **({"clock": {"drift": drift}} if drifts else {})) + section(f"wires.{node}", between=[node, "lan"], delay="1ms")
        text += program("serve", "server", "python3", str(there / "lease.py"), "serve", expect="any")
        for node, start in (("one", "1s"), ("other", "2s")):
            text += program(node, node, "python3", str(there / "lease.py"), node, "server", start=start)
        return text

    run_hash, said = run(folder, world(True))
    if "has lost it" not in said["one"] and "late" not in said["serve"]:
        raise Failure(f"nobody lost it: {said}")
    for threads in ("1", "2"):
        expect("again", run(folder, world(True), "--threads", threads), (run_hash, said))
    if os.geteuid() == 0:
        (folder / "scenario.toml").write_text(world(True))
        shutil.copy2(weft.binary(), folder / "weft")
        command = [*user.words(), str(folder / "weft"), "sim", str(folder / "scenario.toml"), "--json"]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        expect("as a user", json.loads(done.stdout or "{}").get("hash"), run_hash)
    expect("with clocks that are right", run(folder, world(False))[1], {"serve": "", "one": "", "other": ""})
    return (said["one"] + said["serve"]).splitlines()[0]


PARTS = {
    "discipline.c": ("readings", "stamps", "refused", "zone", "words", "seconds", "random", "rates", "leap"),
    "clock_waits.c": ("waits", "forward", "back", "repeat", "cancel", "slewed"),
}

ROWS: dict[str, Callable[[Path], str]] = {
    "machines/differ": differ,
    "machines/anywhere": anywhere,
    "machines/alike": alike,
    "machines/clocks agree": agree,
    "wrong/offset and drift": offset_and_drift,
    "wrong/at the top": at_the_top,
    "wrong/date -s, crash": date_s,
    "wrong/lease": lease,
    **{f"linux/{part}": as_linux(source, part) for source, parts in PARTS.items() for part in parts},
    "lab/chronyd": chrony("40s", 37.5, ""),
    "lab/chronyd, jitter": chrony("-3ms", -120.0, "200us"),
    "lab/ntpd": ntpd,
    **{f"cluster/{language}": cluster(language) for language in ("python", "java", "go", "erlang")},
}


def main() -> int:
    return run_rows(ROWS, "/var/tmp", at_once=2)
