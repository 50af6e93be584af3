"""`make test-mptcp-interop`: weft's Multipath TCP beside the host kernel's, in real time, over a wire that may lose, reorder and repeat frames.

A row is named as in sim.py. The short form has some of each; FULL=1 all. ONLY= chooses among all by words of names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths, results
from harness.environment import Environment
from harness.processes import Failure
from virtual.shared import expect

from . import counters, ends, judge
from .cases import (
    CLEAN, EVERYTHING, FALLBACKS, FULL, GAIN_MIN, LINUX_WEFT, LOSSY, PLAIN, WEFT_LINUX, WEFT_WEFT, Case, Fallback, end_words, matrix, protocol,
)
from .world import Wire, World, end, since

WIRES = {
    CLEAN: Wire(200, {"delay": "1ms"}),
    LOSSY: Wire(200, {"delay": "2ms", "loss": "0.01", "reorder": "0.02", "duplicate": "0.01"}),
}
FAST = Wire(2000)
PATH = Wire(10, {"delay": "10ms"})
FETCHED_BYTES = 64_000_000
# A watchdog for a row.
SECONDS_MAX = 40
# A client is killed when it has sent for so long.
KILL_SECONDS = 1.0
# Names of processes that only look.
LOOKS = ("nstat", "weft-show", "weft-set")
ENDS = str(Path(ends.__file__))
SERVE = str(Path(__file__).with_name("serve.py"))

Body = Callable[[World], str]


def talk(world: World, case: Case, protocols: Sequence[str] | None = None) -> tuple[judge.Report | None, judge.Report]:
    """What client and server say, once both have ended."""
    (client_host, server_host), port = case.hosts, world.port()
    asked, served = protocols or [protocol(host) for host in case.hosts]
    address = world.address(server_host, 6 if case.family == "v6" else 4)

    def start(role: str, host: str, with_protocol: str):
        words = end_words(role, case.kind, case.family, with_protocol, address, port)
        return world.start(f"{role}-{host}", host, paths.PYTHON, ENDS, *words)

    with contextlib.ExitStack() as stack:
        server = start("server", server_host, served)
        stack.callback(server.stop)
        server.wait_for_line("ready")
        client = start("client", client_host, asked)
        stack.callback(client.stop)
        if case.kind in judge.KILLED:
            time.sleep(KILL_SECONDS)
            client.kill_group(signal.SIGKILL)
            return None, judge.report(end(server, SECONDS_MAX), "the server")
        said = judge.report(end(client, SECONDS_MAX), "the client")
        return said, judge.report(end(server, SECONDS_MAX), "the server")


def matrix_row(case: Case) -> Body:
    def body(world: World) -> str:
        world.want_checksums(tuple(host for host in case.hosts if case.wants_checksum(host)))
        before = world.counters()
        said = judge.expect_ends(case.kind, *talk(world, case))
        moved = since(before, world.counters())
        for role, host in zip(("client", "server"), case.hosts, strict=True):
            counters.expect_spoken(f"{role} ({host})", moved[host], role, ends.KINDS[case.kind].connections)
            counters.expect_sound(f"{role} ({host})", moved[host], case.kind in judge.RESETS)
        return said

    return body


def fallback_row(fallback: Fallback, family: str) -> Body:
    def body(world: World) -> str:
        case = Case("transfer", fallback.pair, family)
        roles = dict(zip(("client", "server"), case.hosts, strict=True))
        plain, other = roles[fallback.plain], next(host for role, host in roles.items() if role != fallback.plain)
        protocols = [PLAIN if role == fallback.plain else protocol(host) for role, host in roles.items()]
        before = world.counters()
        world.enable(plain, fallback.enabled)
        try:
            said = judge.expect_ends(case.kind, *talk(world, case, protocols))
        finally:
            world.enable(plain, True)
        moved = since(before, world.counters())[other]
        expect(f"counters of {other}", {name: moved.get(name, 0) for name in fallback.counted}, fallback.counted)
        counters.expect_sound(other, moved, but=("MPCapableFallbackSYNACK",))
        return said

    return body


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetched(pair: str, family: int) -> Body:
    """curl, and a web server on the other side."""
    def body(world: World) -> str:
        (client, server), port = pair.split("-"), world.port()
        folder, got = world.env.folder / "www", world.env.folder / "got"
        folder.mkdir(exist_ok=True)
        (folder / "x").write_bytes(os.urandom(FETCHED_BYTES))
        address, before = world.address(server, family), world.counters()
        if server == "linux":
            served = world.start("serve", server, paths.PYTHON, SERVE, str(folder), address, str(port))
            served.wait_for_line("ready")
        else:
            served = world.start("serve", server, paths.PYTHON, "-m", "http.server", "--directory", str(folder), "--bind", address, str(port))
            world.daemon.wait_listening(served, port)
        url = f"http://[{address}]:{port}/x" if family == 6 else f"http://{address}:{port}/x"
        before_curl = [paths.tool("mptcpize"), "run"] if client == "linux" else []
        world.env.run("curl", [*before_curl, paths.tool("curl"), "-sS", "-o", str(got), url], world.words(client), SECONDS_MAX)
        served.stop()
        expect("what was fetched", digest(got), digest(folder / "x"))
        moved = since(before, world.counters())
        for role, host in (("client", client), ("server", server)):
            counters.expect_spoken(f"{role} ({host})", moved[host], role, 1)
            counters.expect_sound(f"{role} ({host})", moved[host])
        return f"{FETCHED_BYTES / 1e6:.0f} MB"

    return body


def paths_row(case: Case) -> Body:
    """Two wires: both carry a fair part. What they carry together is judged in full only, where nothing else runs beside it."""
    def body(world: World) -> str:
        before, carried = world.counters(), world.carried()
        client, server = talk(world, case)
        said = judge.expect_ends(case.kind, client, server)
        moved = since(before, world.counters())
        for role, host in zip(("client", "server"), case.hosts, strict=True):
            counters.expect_sound(f"{role} ({host})", moved[host])
        counters.expect_joined("the server", moved[case.hosts[1]])
        on_wires = [after - then for after, then in zip(world.carried(), carried, strict=True)]
        return f"{said}, " + judge.expect_both(on_wires, judge.goodput_mbit(server), PATH.rate_mbit, GAIN_MIN if FULL else 0.0)

    return body


# In the short form: all kinds in both roles, and each family, checksum and wire some times.
SHORT = (
    Case("transfer", WEFT_LINUX),
    Case("transfer", LINUX_WEFT, "v6", "checksum by Linux"),
    Case("both", WEFT_LINUX, "mapped", "checksum by weft"),
    Case("both", LINUX_WEFT, "mapped"),
    Case("echo", WEFT_LINUX, "v6", "checksum by Linux"),
    Case("echo", LINUX_WEFT, "v4", "checksum by weft"),
    Case("unread", WEFT_LINUX),
    Case("unread", LINUX_WEFT),
    Case("killed", WEFT_LINUX),
    Case("killed", LINUX_WEFT),
    Case("killed-unread", WEFT_LINUX),
    Case("killed-unread", LINUX_WEFT),
    Case("full", WEFT_LINUX),
    Case("full", LINUX_WEFT),
    Case("sequence", LINUX_WEFT),
    Case("crowd", WEFT_LINUX),
    Case("transfer", WEFT_LINUX, "v6", "no checksum", LOSSY),
    Case("transfer", LINUX_WEFT, "v4", "checksum by weft", LOSSY),
    Case("slow", WEFT_LINUX, wire=LOSSY),
    Case("slow", LINUX_WEFT, wire=LOSSY),
    Case("sequence", WEFT_LINUX, wire=LOSSY),
    Case("crowd", LINUX_WEFT, "v6", "checksum by Linux", LOSSY),
)
FALLBACKS_SHORT = ("Linux's server has a TCP socket", "Linux's client has net.mptcp.enabled=0")
PATHS = (Case("long", WEFT_LINUX), Case("long", LINUX_WEFT))


def groups() -> list[tuple[Callable[[Environment], World], dict[str, Body]]]:
    """Rows that share a world."""
    cases = matrix((WEFT_LINUX, LINUX_WEFT), WIRES) if EVERYTHING else SHORT
    found = []
    for name, wire in WIRES.items():
        rows = {case.name: matrix_row(case) for case in cases if case.wire == name}
        if name == CLEAN:
            every = [key for key, fallback in FALLBACKS.items() if fallback.pair != WEFT_WEFT]
            for key in every if EVERYTHING else FALLBACKS_SHORT:
                rows |= {f"fallback/{key}/{family}": fallback_row(FALLBACKS[key], family) for family in (("v4", "v6") if EVERYTHING else ("v4",))}
        found.append((lambda env, wire=wire: World(env, wire), rows))
    families = (4, 6) if EVERYTHING else (4,)
    fetches = {f"curl/{pair}/v{family}": fetched(pair, family) for pair in (WEFT_LINUX, LINUX_WEFT) for family in families}
    found.append((lambda env: World(env, FAST), fetches))
    for case in PATHS:
        role = ("client", "server")[case.hosts.index("weft")]
        found.append((lambda env, role=role: World(env, PATH, 2, role), {f"two paths/{case.pair}": paths_row(case)}))
    return found


def chosen(rows: dict[str, Body]) -> dict[str, Body]:
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    return {name: body for name, body in rows.items() if not wanted or any(word in name for word in wanted)}


def described(env: Environment, first: int) -> str:
    """The processes of a row, but for those that look."""
    return "\n".join(process.describe() for process in env.processes[first:] if not process.name.endswith(LOOKS))


def run_in_one_world(recorder: results.Recorder, build: Callable[[Environment], World], rows: dict[str, Body]) -> dict[str, Body]:
    """Rows one after the other, until one fails: those that are left, for a world that has nothing of it."""
    left = dict(rows)
    with Environment("mptcp") as env:
        world = build(env)
        for name, body in rows.items():
            first = len(env.processes)
            row = results.judged(name, lambda body=body: body(world))
            if row.outcome == results.FAILED:
                row = dataclasses.replace(row, reason=f"{row.reason}\n{described(env, first)}")
            recorder.add(row)
            del left[name]
            if row.outcome == results.FAILED:
                break
    return left


def run_group(recorder: results.Recorder, build: Callable[[Environment], World], rows: dict[str, Body]) -> None:
    try:
        while rows:
            rows = run_in_one_world(recorder, build, rows)
    except paths.MissingTool as missing:
        for name in rows:
            recorder.add(results.Row(name, results.SKIPPED, reason=str(missing)))
    except Failure as failure:
        recorder.add(results.Row(f"world of {next(iter(rows))}", results.FAILED, reason=str(failure)))


def main() -> int:
    recorder = results.Recorder()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        recorder.add(results.Row("all", results.SKIPPED, reason="/dev/net/tun cannot be opened"))
        return recorder.finish()
    worlds = [(build, rows) for build, rows in ((build, chosen(rows)) for build, rows in groups()) if rows]
    # They wait for their wires most of the time.
    with ThreadPoolExecutor(max(len(worlds), 1)) as pool:
        list(pool.map(lambda of: run_group(recorder, *of), worlds))
    return recorder.finish()
