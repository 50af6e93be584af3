"""`make test-clocks`: machines have clocks and process ids of their own: who takes its identity from them differs from its neighbours, the same in every run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import paths, user, weft
from harness.processes import Failure
from programs.shared import built_go

from .shared import SECONDS_MAX, expect, keys, run_rows, section, sim

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


ROWS: dict[str, Callable[[Path], str]] = {
    "machines/differ": differ,
    "machines/anywhere": anywhere,
    "machines/alike": alike,
    "machines/clocks agree": agree,
    **{f"cluster/{language}": cluster(language) for language in ("python", "java", "go", "erlang")},
}


def main() -> int:
    return run_rows(ROWS, "/var/tmp", at_once=2)
