"""The ring of docs/tutorial-ring.md: captures prove that packets go left and right by turns while the block is in, and only then. The same with the block built in,
as WebAssembly and as a native object from one C source, and in Python.
And the projects that `weft new block` writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from console.stack import Stack
from harness import paths, weft
from harness.processes import Failure
from live import frames
from virtual.shared import difference, expect, run_rows, weft_command

EXAMPLES = paths.ROOT / "examples" / "ring"
INCLUDE = paths.ROOT / "crates" / "plugin" / "include"
PORT = 9000
IN_NS, OUT_NS = 2_000_000_000, 4_000_000_000
SENT, ALTERNATED = 500, 200
SECONDS_MAX = 120


def folder_of_its_own(folder: Path) -> Path:
    """The example, as a person copies it."""
    place = folder / "ring"
    shutil.copytree(EXAMPLES, place, ignore=shutil.ignore_patterns("*.wasm", "*.so"))
    return place


def build(place: Path, *words: str) -> None:
    done = subprocess.run([*words, "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE), "alternate.c"], cwd=place, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"{words[0]}: {done.stderr[-1500:]}")


def to_wasm(place: Path) -> None:
    build(place, paths.tool("clang"), "--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", "-o", "alternate.wasm")


def to_native(place: Path) -> None:
    build(place, paths.tool("cc"), "-O2", "-shared", "-fPIC", "-o", "alternate.so")


def run(place: Path, scenario: str, out: str) -> dict:
    return json.loads(weft_command(place, "sim", scenario, "--json", "--out", out).stdout)


def sent_at(captures: Path, interface: str) -> list[tuple[int, str]]:
    """When n1 sent datagrams out of an interface, as its capture has it."""
    rows = []
    for packet in frames.read(captures / f"n1-{interface}.pcapng"):
        frame = packet.data
        is_udp = frame[12:14] == b"\x08\x00" and frame[23] == 17
        if packet.outbound and is_udp and int.from_bytes(frame[36:38], "big") == PORT:
            rows.append((packet.at_ns, interface))
    return rows


def alternation(captures: Path) -> str:
    """Every packet while the block is in goes the other way than the one before, and no packet goes left else."""
    ways = sorted(sent_at(captures, "left") + sent_at(captures, "right"))
    began = ways[0][0] - 500_000_000  # the sender starts half a second in
    ways = [(at - began, way) for at, way in ways]
    expect("datagrams that n1 sent", len(ways), SENT)
    during = [way for at, way in ways if IN_NS <= at < OUT_NS]
    expect("datagrams sent while the block was in", len(during), ALTERNATED)
    expect("pairs of neighbours among them that went the same way", sum(one == other for one, other in zip(during, during[1:])), 0)
    expect("datagrams that went left before or after", sum(way == "left" for at, way in ways if not IN_NS <= at < OUT_NS), 0)
    return f"{during.count('left')} left and {during.count('right')} right by turns, then all right"


def ring(folder: Path, scenario: str, make=None) -> str:
    place = folder_of_its_own(folder)
    if make is not None:
        make(place)
    summary = run(place, scenario, "one")
    said = alternation(place / "one" / "captures")
    again = run(place, scenario, "two")
    expect("the hash of a second run", again["hash"], summary["hash"])
    difference(place / "one", place / "two")
    return f"{said}; {summary['hash']}"


def native(folder: Path) -> str:
    place = folder_of_its_own(folder)
    to_native(place)
    (place / "ring-native.toml").write_text((place / "ring-wasm.toml").read_text().replace("alternate.wasm", "alternate.so"))
    run(place, "ring-native.toml", "one")
    return alternation(place / "one" / "captures")


def content_is_part_of_the_hash(folder: Path) -> str:
    """Another build that does the same is another world; and so it is where a stack file loads it."""
    place = folder_of_its_own(folder)
    stack = '[node]\nname = "a"\n[[interface]]\nname = "eth0"\nbackend = "wire:w"\n[[address]]\ninterface = "eth0"\naddress = "10.0.0.1/24"\n[graph]\nload = ["../ring/alternate.wasm"]\n'
    other = "duration = \"1s\"\n[nodes.a]\nstack = \"a.toml\"\n[nodes.b]\n[wires.w]\nbetween = [\"a\", \"b\"]\n"
    (place / "a.toml").write_text(stack)
    (place / "loads.toml").write_text(other)
    hashes = []
    for _ in range(2):
        to_wasm(place)
        hashes.append([run(place, scenario, f"out{len(hashes)}")["hash"] for scenario in ("ring-wasm.toml", "loads.toml")])
        source = place / "alternate.c"
        source.write_text(source.read_text().replace('version = \\"1.0.0\\"', 'version = \\"1.0.1\\"'))
    for scenario, one, two in zip(("ring-wasm.toml", "loads.toml"), *hashes):
        if one == two:
            raise Failure(f"{scenario}: the hash is the same with another build of the block")
    return f"{hashes[0][0]} and {hashes[1][0]}"


def replaced_live(folder: Path) -> str:
    """Another build takes over while packets go by: whose turn it is is not forgotten, and its version is said."""
    place = folder_of_its_own(folder)
    to_wasm(place)
    (place / "alternate.wasm").rename(place / "old.wasm")
    source = place / "alternate.c"
    source.write_text(source.read_text().replace('version = \\"1.0.0\\"', 'version = \\"2.0.0\\"'))
    to_wasm(place)
    text = (place / "ring-wasm.toml").read_text().replace("load alternate.wasm", "load old.wasm", 1)
    text += "".join(
        f'\n[[events]]\nat = "{2000 + 100 * number + 5 * (number % 2)}ms"\nnode = "n1"\ncontrol = ["load {file}", "replace ring alternate-c"]\n'
        for number, file in enumerate(["alternate.wasm", "old.wasm"] * 9, start=1)
    )
    (place / "replaced.toml").write_text(text)
    run(place, "replaced.toml", "one")
    return f"18 replacements: {alternation(place / 'one' / 'captures')}"


def in_real_time(folder: Path) -> str:
    """The words at a running stack: versions are shown, state passes on, and what is in use stays."""
    place = folder_of_its_own(folder)
    to_wasm(place)
    with Stack(place) as stack:
        def told(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
            done = stack.said(*words)
            expect(f"status of {' '.join(words)} ({done.stderr})", done.returncode, status)
            return done

        def version() -> str:
            rows = json.loads(told("show", "blocks", "--json").stdout)
            return next(row["version"] for row in rows if row["name"] == "ring")

        told("load", "alternate.wasm")
        told("add", "ring", "alternate-c", "left_gateway=10.0.0.1")
        told("insert", "ring", "ip4:lower", "arp:upper")
        first = version()
        source = place / "alternate.c"
        source.write_text(source.read_text().replace('version = \\"1.0.0\\"', 'version = \\"1.1.0\\"'))
        to_wasm(place)
        told("load", "alternate.wasm")
        expect("the version of a block that exists, after load", version(), first)
        told("replace", "ring", "alternate-c")
        second = version()
        if not (first.startswith("1.0.0+") and second.startswith("1.1.0+")):
            raise Failure(f"versions: {first}, then {second}")
        if "10.0.0.1" not in told("get", "ring.left_gateway").stdout:
            raise Failure("the replacement lost a parameter")
        refused = told("unload", "alternate-c", status=2).stderr
        if "'ring' of the graph would be without it" not in refused:
            raise Failure(f"unload of a kind in use: {refused}")
        told("extract", "ring")
        told("delete", "ring")
        told("unload", "alternate-c")
        return f"{first}, then {second}"


def command(folder: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout + done.stderr


def new_block(folder: Path, language: str) -> str:
    """The project that `weft new block` writes builds, passes its tests, and does in a world what its scenario expects."""
    weft_command(folder, "new", "block", "my-block", "--lang", language)
    place = folder / "my-block"
    refused = weft_command(folder, "new", "block", "my-block", status=2).stderr
    if "cannot make the folder my-block" not in refused:
        raise Failure(f"a second one over the first: {refused}")
    if language == "c":
        path = os.pathsep.join([str(Path(weft.binary()).parent), os.environ["PATH"]])
        said = command(place, "make", "test", PATH=path)
        if "my-block: all tests passed" not in said or "received 90 datagrams" not in said:
            raise Failure(f"make test: {said}")
        # Without clang it is a native object, and does the same.
        said = command(place, "make", "test", "CLANG=clang-is-not-there", PATH=path)
        if "my-block.so" not in said or "received 90 datagrams" not in said:
            raise Failure(f"make test without clang: {said}")
        return "as WebAssembly and as a native object"
    target = str(place / "target")
    if "test result: ok. 1 passed" not in command(place, "cargo", "test", "--offline", CARGO_TARGET_DIR=target):
        raise Failure("cargo test ran no test")
    command(place, "cargo", "build", "--offline", "--release", "--target", "wasm32-unknown-unknown", CARGO_TARGET_DIR=target)
    weft_command(place, "sim", "world.toml")
    return "as WebAssembly"


ROWS = {
    "ring/built in": partial(ring, scenario="ring.toml"),
    "ring/WebAssembly from C": partial(ring, scenario="ring-wasm.toml", make=to_wasm),
    "ring/Python": partial(ring, scenario="ring-python.toml"),
    "ring/native, the same source": native,
    "ring/another build is another world": content_is_part_of_the_hash,
    "ring/replaced by another build while packets go by": replaced_live,
    "ring/at a running stack": in_real_time,
    "new block/c": partial(new_block, language="c"),
    "new block/rust": partial(new_block, language="rust"),
}

if __name__ == "__main__":
    os.environ.setdefault("PATH", "/usr/bin:/bin")
    sys.exit(run_rows(ROWS))
