"""What the tests of virtual time share: the command, scenarios as text, what is looked at in results, and the rows of a target."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths, results, same_host, weft
from harness.processes import PATIENCE, Failure

# Watchdog of one command.
SECONDS_MAX = 600 * PATIENCE
# Before a command whose signals must be the usual ones: whoever runs the tests may ignore some (nohup, a background job of a shell).
USUAL_SIGNALS = ["env", "--default-signal"]


def compiled(source: Path, command: Path, *words: str) -> Path:
    """A C program, made once."""
    if not command.exists():
        words = ("-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", *words)
        done = subprocess.run([paths.tool("cc"), *words, "-o", str(command), str(source)], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0:
            raise Failure(f"{source.name}: {done.stderr[-1500:]}")
    return command


def weft_command(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs `weft` with these words in `folder`; Failure unless it ends with this status."""
    done = subprocess.run([weft.binary(), *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"weft {' '.join(words)}: exit status {done.returncode} instead of {status}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def sim(folder: Path, text: str, *words: str) -> dict:
    """The summary of a run."""
    file = folder / "scenario.toml"
    file.write_text(text)
    return json.loads(weft_command(folder, "sim", str(file), "--json", *words).stdout)


def figures(summary: dict, program: str) -> dict:
    return next(row["figures"] for row in summary["programs"] if row["name"] == program)


def expect(what: str, got, wanted) -> None:
    if got != wanted:
        raise Failure(f"{what}: {got}, expected {wanted}")


def difference(one: Path, other: Path, but: set[str] = frozenset()) -> None:
    """Result folders are equal to the byte but for wall.json, and files of the names in `but`."""
    def files(folder: Path) -> list[Path]:
        return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name not in {"wall.json", *but})
    expect("files", files(other), files(one))
    _, wrong, errors = filecmp.cmpfiles(one, other, [str(path) for path in files(one)], shallow=False)
    if wrong or errors:
        raise Failure(f"differ: {wrong + errors}")


def where(one: Path, other: Path) -> str:
    """What programs wrote: the first line that differs, of the first file that does, with the lines before it."""
    for path in sorted(one.rglob("std*")):
        lines, twins = (file.read_text(errors="replace").splitlines() for file in (path, other / path.relative_to(one)))
        if lines != twins:
            at = next((at for at, (line, twin) in enumerate(zip(lines, twins, strict=False)) if line != twin), min(len(lines), len(twins)))
            before, said = "\n".join(lines[max(0, at - 6):at]), ("\n".join(of[at:at + 4]) or "(its end)" for of in (lines, twins))
            return f"{path.relative_to(one)}:{at + 1}:\n{before}\nthen\n" + "\nand\n".join(said)
    return "what programs wrote is the same"


# Scenarios as text.


def value(given) -> str:
    """A value of TOML."""
    if isinstance(given, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {value(item)}" for key, item in given.items()) + " }"
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(value(item) for item in given) + "]"
    return json.dumps(given)


def keys(**given) -> str:
    return "".join(f"{key} = {value(item)}\n" for key, item in given.items())


def section(name: str, **given) -> str:
    return f"[{name}]\n{keys(**given)}"


def pair(a: Mapping | None = None, **wire) -> str:
    """Two nodes, a and b, and a wire between them, ab; `a`: keys of the first."""
    return section("nodes.a", **(a or {})) + section("nodes.b") + section("wires.ab", between=["a", "b"], **wire)


def program(name: str, node: str, *command: str, start: str = "0ms", expect: str = "0", **more) -> str:
    return section(f"programs.{name}", node=node, command=command, start=start, expect=int(expect) if expect.isdigit() else expect, **more)


def builtin(name: str, node: str, kind: str, **more) -> str:
    return section(f"programs.{name}", node=node, builtin=kind, **more)


def events(*rows: dict) -> str:
    return "".join(f"[[events]]\n{keys(**row)}" for row in rows)


def tcp(sender: str = "a", receiver: str = "b", **how_much) -> str:
    """The programs `send` and `sink`."""
    return builtin("sink", receiver, "tcp-sink", port=5001) + builtin("send", sender, "tcp-send", to=f"{receiver}:5001", **how_much)


def udp(sender: str = "a", receiver: str = "b", **how_much) -> str:
    """The programs `cbr` and `sink`."""
    return builtin("sink", receiver, "udp-sink", port=9000) + builtin("cbr", sender, "udp-cbr", to=f"{receiver}:9000", **how_much)


def is_wanted(name: str) -> bool:
    """ONLY= chooses rows whose names hold one of its words."""
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    return not wanted or any(word in name for word in wanted)


def run_rows(bodies: Mapping[str, Callable[[Path], str]], directory: str | None = None, at_once: int = 1) -> int:
    """A row for each body that is_wanted, which gets a folder of its own (below `directory`: a node has a /tmp of its own, so what its programs are to
    find lies elsewhere)."""
    recorder = results.Recorder()

    def row(name: str) -> results.Row:
        def in_a_folder() -> str:
            with tempfile.TemporaryDirectory(prefix="weft-virtual-", dir=directory) as folder:
                return bodies[name](Path(folder))

        return results.judged(name, lambda: same_host.ask(in_a_folder), (Failure, subprocess.TimeoutExpired))

    with ThreadPoolExecutor(at_once) as pool:
        for found in pool.map(row, filter(is_wanted, bodies)):
            recorder.add(found)
    return recorder.finish()
