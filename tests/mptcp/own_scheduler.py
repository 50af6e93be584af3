"""Schedulers of one's own: loadable blocks in each language, in worlds of two paths. Each runs twice, with one hash."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import paths
from harness.processes import Failure
from virtual.shared import events, expect, weft_command

from . import counters, ends, judge
from .cases import FULL, WEFT_WEFT, Case

OWN = Path(__file__).parent / "own"
EXAMPLES = paths.ROOT / "examples" / "schedulers"
PLUGIN = paths.ROOT / "crates" / "plugin"
FAILED = "SchedulersFailed"
COMPILE_SECONDS_MAX = 120
# Questions that a scheduler answers well before it no longer does.
AFTER = 200
# In the words of a change: the name of the node.
NODE = "NODE"

Changes = tuple[tuple[str, tuple[str, ...]], ...]


def compiled(folder: Path, name: str, *words: str) -> str:
    done = subprocess.run([*words, "-o", name], cwd=folder, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX)
    if done.returncode:
        raise Failure(f"{words[0]}: {done.stderr[-1500:]}")
    return name


def to_wasm(folder: Path, source: Path) -> str:
    strict = ("-O2", "-Wall", "-Wextra", "-Werror", "-I", str(PLUGIN / "include"))
    return compiled(folder, f"{source.stem}.wasm", paths.tool("clang"), "--target=wasm32", "-nostdlib", "-Wl,--no-entry", *strict, str(source))


def to_native(folder: Path, source: Path) -> str:
    strict = ("-O2", "-Wall", "-Wextra", "-Werror", "-I", str(PLUGIN / "include"))
    return compiled(folder, f"{source.stem}.so", paths.tool("cc"), "-shared", "-fPIC", *strict, str(source))


def of_rust(folder: Path, source: Path) -> str:
    """With the file that `weft new block --lang rust` brings."""
    shutil.copy(source, folder / "lib.rs")
    shutil.copy(PLUGIN / "template" / "rust" / "weft.rs", folder / "weft.rs")
    return compiled(folder, f"{source.stem}.wasm", paths.tool("rustc"), "--edition", "2021", "--target", "wasm32-unknown-unknown", "--crate-type",
                    "cdylib", "-O", "lib.rs")


def as_script(folder: Path, source: Path) -> str:
    shutil.copy(source, folder)
    return source.name


# The built-in scheduler that each repeats, and how its file comes to be.
SAME: dict[str, tuple[str, str, Callable[[Path], str]]] = {
    "C as WebAssembly": ("lowest-rtt", "lowest", lambda folder: to_wasm(folder, OWN / "lowest.c")),
    "C as a native object": ("lowest-rtt", "lowest", lambda folder: to_native(folder, OWN / "lowest.c")),
    "Rust as WebAssembly": ("lowest-rtt", "lowest", lambda folder: of_rust(folder, OWN / "lowest.rs")),
    "Python": ("lowest-rtt", "lowest", lambda folder: as_script(folder, OWN / "lowest.py")),
    "Python, with memory": ("round-robin", "turns", lambda folder: as_script(folder, OWN / "turns.py")),
}
ODD = {
    "far": "chose a subflow that there is not", "nobody": "chooses nobody for ever", "none": "gives 0 bytes", "ahead": "leaves data out",
    "behind": "gives what the peer has", "trap": "traps", "loop": "loops for ever", "memory": "takes memory without end",
}
ODD_PYTHON = {
    "raises": "raise KeyError('window')", "ends": "import os; os._exit(3)", "says what is none": "return 'the first'",
    "chooses nobody": "return None", "gives less than nothing": "return question.subflows[0], -1",
}


def chosen(file: str, kind: str, parameters: str = "", scheduler: str = "block:mine") -> Changes:
    """A loadable scheduler is there from the beginning, and it, or another one, is used."""
    return (("0s", (f"load {file}", f"add mine {kind} {parameters}".strip(), f"set mptcp.scheduler {scheduler}")),)


def changed(words: Changes) -> str:
    named = ((at, name, [word.replace(NODE, name) for word in control]) for at, control in words for name in ("a", "b"))
    return events(*({"at": at, "node": name, "control": control} for at, name, control in named))


def run(folder: Path, changes: Changes, but: tuple[str, ...] = (), compared: bool = False, fails: bool = False):
    """10 MB over two paths; what came of it. `but`: counters that may move. `compared`: it is what another run is to be, and the short form runs it once."""
    # sim lists these rows, too.
    from . import sim

    case = Case("long", WEFT_WEFT)
    result = sim.run(folder, ("blocks_may_fail = true\n" if fails else "") + sim.paths_scenario(case, sim.NOTHING, "default") + changed(changes), case.hosts, once=compared and not FULL)
    judge.expect_ends(case.kind, *result.reports(case.kind))
    for name in sim.NODES:
        counters.expect_sound(name, result.counters[name], but=but)
    return result


def course(result) -> dict:
    """All that the wires carried, and when programs ended: the same segments at the same times."""
    return {"wires": result.summary["wires"], "ends": [(row["name"], row["end_ns"]) for row in result.summary["programs"]]}


def failures(result) -> tuple[int, int]:
    return result.counters["a"][FAILED], result.counters["b"][FAILED]


def same_as_built_in(name: str, folder: Path) -> str:
    built_in, kind, make = SAME[name]
    file = make(folder)
    own = run(folder, chosen(file, kind))
    # The block is there in the other worlds, too: it has its share of the node's randomness.
    expect("what came of it", course(own), course(run(folder, chosen(file, kind, scheduler=built_in), compared=True)))
    expect("failures", failures(own), (0, 0))
    # Another one is another course: the comparison sees it.
    if course(own) == course(run(folder, chosen(file, kind, scheduler="backup"), compared=True)):
        raise Failure("the course is that of another scheduler, too")
    carried = [wire["directions"][0]["bytes"] for wire in own.summary["wires"]]
    return f"as {built_in}: {' and '.join(map(str, carried))} bytes, hash {own.summary['hash'][:8]}…"


def odd(what: str, folder: Path) -> str:
    file = to_wasm(folder, OWN / "odd.c")
    result = run(folder, chosen(file, "odd", f"what={what} after={AFTER}"), fails=True)
    # The end that sends but little asks less often.
    expect("failures of the one that sends", failures(result)[0], 1)
    return f"{ends.LONG_BYTES} bytes all the same"


def odd_python(what: str, folder: Path) -> str:
    body = f"        question.memory[0] += 1\n        if question.memory[0] > {AFTER}:\n            {ODD_PYTHON[what]}\n    "
    script = (OWN / "lowest.py").read_text().replace("schedule(self, question):\n    ", f"schedule(self, question):\n{body}")
    (folder / "odd.py").write_text(script)
    result = run(folder, chosen("odd.py", "lowest"), fails=True)
    expect("failures of the one that sends", failures(result)[0], 1)
    return f"{ends.LONG_BYTES} bytes all the same"


def swapped(folder: Path) -> str:
    """Replaced twice while the connection runs, stored and put back: as the built-in ones do."""
    lowest, turns = to_wasm(folder, OWN / "lowest.c"), as_script(folder, OWN / "turns.py")

    def first(scheduler: str) -> Changes:
        return (("0s", (f"load {lowest}", f"load {turns}", "add mine lowest", f"set mptcp.scheduler {scheduler}")),)

    replaces = (("2s", ("replace mine turns",)), ("4s", ("replace mine lowest",)))
    own = run(folder, first("block:mine") + replaces)
    by_name = (("2s", ("replace mine turns", "set mptcp.scheduler round-robin")), ("4s", ("replace mine lowest", "set mptcp.scheduler lowest-rtt")))
    expect("what came of it", course(own), course(run(folder, first("lowest-rtt") + by_name, compared=True)))
    back = tuple((f"{at}ms", (f"{word} {NODE}{at}.snapshot",)) for at in (1500, 2500, 3500, 4500) for word in ("snapshot", "restore"))
    # A connection that a block has taken over was not counted by it when it began.
    stored = run(folder, first("block:mine") + replaces + back, but=(counters.LEFT,))
    expect("what came of it, stored and put back", (course(stored), stored.summary["hash"]), (course(own), own.summary["hash"]))
    expect("failures", failures(own) + failures(stored), (0, 0, 0, 0))
    return f"lowest-rtt, round-robin, lowest-rtt, and {len(back) // 2} snapshots of each node: hash {own.summary['hash'][:8]}…"


def removed(folder: Path) -> str:
    """Deleted while it is used: the default goes on. The next of its name is used again."""
    file = as_script(folder, OWN / "turns.py")
    own = run(folder, chosen(file, "turns") + (("2s", ("delete mine",)), ("3s", ("add mine turns",))))
    by_name = (("2s", ("delete mine", "set mptcp.scheduler default")), ("3s", ("add mine turns", "set mptcp.scheduler round-robin")))
    expect("what came of it", course(own), course(run(folder, chosen(file, "turns", scheduler="round-robin") + by_name, compared=True)))
    expect("failures", failures(own), (1, 1))
    return "the default for a second"


def refused(folder: Path) -> str:
    """A name that no scheduler has."""
    as_script(folder, OWN / "turns.py")
    text = 'duration = "1s"\n[nodes.a]\nmptcp = true\n' + events({"at": "0s", "node": "a", "control": ["set mptcp.scheduler block:mine"]})
    (folder / "w.toml").write_text(text)
    done = weft_command(folder, "sim", "w.toml", status=2)
    for words in ("mptcp.scheduler", "there is no block 'mine'", "add mine KIND"):
        if words not in done.stderr + done.stdout:
            raise Failure(f"not said: {words}\n{done.stderr}{done.stdout}")
    return "what, where, and what to do"


def example(file: str, most: float, least: float, make: Callable[[Path], str] | None, folder: Path) -> str:
    """The world of an example; the second wire carries so much of the data."""
    place = folder / "schedulers"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns("*.wasm", "*.so"))
    built = make(place) if make else ""
    scenario = place / file
    if built.endswith(".so"):
        scenario.write_text(scenario.read_text().replace("weighted.wasm", built))
    one, two = (json.loads(weft_command(place, "sim", file, "--json", *more).stdout) for more in ((), ("--threads", "2")))
    expect("hash of a second run", two["hash"], one["hash"])
    received = next(row["figures"]["received_bytes"] for row in one["programs"] if row["name"] == "sink")
    expect("bytes that came", received, 5_000_000)
    carried = [wire["directions"][0]["bytes"] for wire in one["wires"]]
    share = carried[1] / sum(carried)
    if not least <= share <= most:
        raise Failure(f"the second wire carried {share:.3f}, not {least} to {most}")
    return f"{share:.3f} of the data over the second wire, hash {one['hash'][:8]}…"


def rows() -> dict[str, Callable[[Path], str]]:
    found: dict[str, Callable[[Path], str]] = {f"own scheduler/the same as the built-in/{name}": partial(same_as_built_in, name) for name in SAME}
    found |= {f"own scheduler/nonsense/{says}": partial(odd, what) for what, says in ODD.items()}
    found |= {f"own scheduler/nonsense/Python {what}": partial(odd_python, what) for what in ODD_PYTHON}
    found |= {"own scheduler/replaced and stored": swapped, "own scheduler/removed": removed, "own scheduler/no such block": refused}
    weighted = partial(example, "weighted.toml", 0.27, 0.23)
    found["own scheduler/example weighted.c as WebAssembly"] = partial(weighted, lambda place: to_wasm(place, place / "weighted.c"))
    found["own scheduler/example weighted.c as a native object"] = partial(weighted, lambda place: to_native(place, place / "weighted.c"))
    found["own scheduler/example metered.py"] = partial(example, "metered.toml", 0.11, 0.05, None)
    return found
