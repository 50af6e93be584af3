"""The twin bodies of crates/socket (tests/twins) inside a node, beside the host kernel: no line differs.

    python3 -m virtual twins             ONLY=loopback/message,links/plain chooses rows; SHOW=1 prints the lines that differ

`socket-twins` is an unmodified program of a node, which makes the kernel's calls; natively every body runs in a network namespace of its own.
What tests/twins lists as differences of the notify adapter is none here, so there is no table: a line that differs is a failure.

    loopback    every body in every form (IPv4, IPv6, mapped), in a node with nothing but its loopback
    links       the bodies of hosts with a second interface, in a node on a wire whose other end answers nothing

Each as root on one thread, and once more as an unprivileged user on two: one hash.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict

from harness import paths, results, same_host, user, weft
from harness.environment import Environment
from harness.processes import PATIENCE, Failure
from twins import compare
from twins.__main__ import twins_binary

from . import shared

SECONDS_MAX = 300 * PATIENCE
# The native half sleeps most of the time.
SLICES = 6
LINES_SHOWN = 40
# How often the host runs before a difference counts: there chance has a part (two addresses of a port may share a list of its tables, and frames come in other
# portions); in a node it has none. What is wrong is so each time.
ATTEMPTS = 3

# kernel::add_link, as a scenario says it: the other end has no address that anybody asks for.
SECOND_INTERFACE = {"addresses": {"weft9": ["10.55.0.1/24", "fe80::5/64", "2001:db8:5::1/64"]}}


@dataclasses.dataclass(frozen=True)
class World:
    """A form of the bodies, and the world that they run in."""

    words: tuple[str, ...]
    node: dict
    rest: str = ""
    at_least: int = 0


WORLDS = {
    "loopback": World(("--everything",), {}, at_least=700),
    "links": World(("--links",), SECOND_INTERFACE, shared.section("nodes.other", addresses={"eth0": ["10.56.0.1/24"]})
                   + shared.section("wires.ab", between=["a:weft9", "other"]), at_least=10),
}
VARIANTS = {"message": (), "plain": ("--plain",)}
# What of a node must be seen in the lines: the comparison can fail.
CANARY = {"parameters": {"ip4.default_ttl": 63}}


def natively(env: Environment, world: World, variant: str) -> compare.Transcripts:
    enter = [paths.tool("unshare"), "--net", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    program = [*enter, str(env.folder / "socket-twins"), "--namespace", *world.words, *VARIANTS[variant]]
    slices = [env.start(f"linux-{number}", [*program, "--slice", f"{number}/{SLICES}"]) for number in range(SLICES)]
    found: compare.Transcripts = {}
    for process in slices:
        if status := process.wait(SECONDS_MAX):
            raise Failure(f"natively: socket-twins ended with status {status}: {process.stderr.strip()[-300:]}")
        found.update(compare.parse(process.stdout))
    return found


def in_a_node(env: Environment, world: World, variant: str, way: str, *words: str, as_user: bool = False, **more) -> tuple[compare.Transcripts, str]:
    """The lines, and the hash."""
    file, out = env.folder / "scenario.toml", env.folder / way
    file.write_text(shared.keys(duration="7200s") + shared.section("nodes.a", **world.node, **more) + world.rest
                    + shared.program("bodies", "a", str(env.folder / "socket-twins"), *world.words, *VARIANTS[variant]))
    # There when they are asked again.
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    out.chmod(0o777)
    command = [str(env.folder / "weft"), "sim", str(file), "--json", "--out", str(out), *words]
    if as_user:
        command = [*user.words(), *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/")
    said = out / "programs" / "bodies"
    if done.returncode != 0:
        raise Failure(f"{way}: exit status {done.returncode}\n{done.stderr[-1500:]}")
    summary = json.loads(done.stdout)
    if summary["not_reproducible"]:
        raise Failure(f"{way}: {summary['not_reproducible']}")
    return compare.parse((said / "stdout").read_text()), summary["hash"]


def one_hash(env: Environment, world: World, variant: str) -> tuple[compare.Transcripts, str]:
    """The lines, and the hash of two runs."""
    found, first = in_a_node(env, world, variant, "first")
    again, second = in_a_node(env, world, variant, "second", "--threads", "2", as_user=os.geteuid() == 0)
    if (found, first) != (again, second):
        raise Failure(f"{first}, and as a user on two threads {second}")
    return found, first


def unlike(linux: compare.Transcripts, weft_: compare.Transcripts) -> dict[str, list[str]]:
    """The lines that differ, by topic."""
    found: dict[str, list[str]] = defaultdict(list)
    for body in sorted({*linux, *weft_}):
        lines = compare.differing(linux.get(body, []), weft_.get(body, []), [])
        found[body.partition("/")[0]] += [f"{body}: {line}" for line in lines]
    return found


def rows(name: str, variant: str) -> list[results.Row]:
    """A row for each topic, one for the hash, and one for the canary."""
    started = time.monotonic()
    world, label = WORLDS[name], f"{name}/{variant}"
    row = lambda what, wrong: results.Row(f"{label}/{what}", results.FAILED if wrong else results.PASSED, time.monotonic() - started, wrong)  # noqa: E731
    try:
        with Environment(f"twins-{name}") as env:
            shutil.copy2(weft.binary(), env.folder / "weft")
            shutil.copy2(twins_binary(), env.folder / "socket-twins")
            linux = natively(env, world, variant)
            if len(linux) < world.at_least:
                raise Failure(f"only {len(linux)} bodies")
            found, _ = same_host.ask(lambda: one_hash(env, world, variant))
            topics = unlike(linux, found)
            for _ in range(ATTEMPTS - 1):
                if any(topics.values()):
                    again = unlike(natively(env, world, variant), found)
                    topics = {topic: [line for line in lines if line in again.get(topic, ())] for topic, lines in topics.items()}
            other, _ = in_a_node(env, world, variant, "canary", **CANARY)
    except Failure as failure:
        return [row("hash", str(failure))]
    if os.environ.get("SHOW"):
        print("\n".join(line for lines in topics.values() for line in lines), flush=True)
    made = [row(topic, "\n".join(lines[:LINES_SHOWN])) for topic, lines in topics.items()]
    made.append(row("hash", ""))
    if name == "loopback":
        made.append(row("canary", "" if any(unlike(linux, other).values()) else "another time to live is not seen"))
    return made


def main() -> int:
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    recorder = results.Recorder()
    # A node has a /tmp of its own: what its programs are to find lies elsewhere.
    tempfile.tempdir = "/var/tmp"
    for name in WORLDS:
        for variant in VARIANTS:
            if not wanted or any(word in f"{name}/{variant}" for word in wanted):
                for row in rows(name, variant):
                    recorder.add(row)
    return recorder.finish()
