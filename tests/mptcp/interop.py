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
from harness.processes import PATIENCE, Failure
from virtual.shared import expect

from . import counters, ends, judge
from .cases import (
    CLEAN, EVERYTHING, FALLBACKS, FULL, GAIN_MIN, LINUX_WEFT, LOSSY, PLAIN, SCHEDULERS, SHARE_MIN, SPREADING, WEFT_LINUX, WEFT_WEFT,
    Case, Fallback, end_words, matrix, protocol,
)
from .world import HOSTS, Wire, World, end, since

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
# Names of processes that only look.
LOOKS = ("nstat", "weft-show", "weft-set")
ENDS = str(Path(ends.__file__))
SERVE = str(Path(__file__).with_name("serve.py"))

Body = Callable[[World], str]


def talk(world: World, case: Case, protocols: Sequence[str] | None = None,
         meanwhile: Callable[[], object] = lambda: None) -> tuple[judge.Report | None, judge.Report]:
    """What client and server say, once both have ended; `meanwhile` happens when the client has begun."""
    (client_host, server_host), port = case.hosts, world.port()
    asked, served = protocols or [protocol(host) for host in case.hosts]
    address = world.address(server_host, 6 if case.family.startswith("v6") else 4)
    address = f"::ffff:{address}" if case.family == "v4 and v6" else address

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
            time.sleep(case.kill_seconds)
            client.kill_group(signal.SIGKILL)
            return None, judge.report(end(server, SECONDS_MAX), "the server")
        meanwhile()
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
            excused = counters.excused(host, case.wire == LOSSY)
            counters.expect_sound(f"{role} ({host})", moved[host], case.kind in judge.RESETS, excused)
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


def long_talk(world: World, case: Case, meanwhile: Callable[[], object] = lambda: None, but: Sequence[str] = ()) -> tuple[str, judge.Report, list[int]]:
    """A talk over several wires, with joins and without an error but those of `but`: what is said of it, what the server says, bytes on each wire."""
    before, carried = world.counters(), world.carried()
    client, server = talk(world, case, meanwhile=meanwhile)
    said = judge.expect_ends(case.kind, client, server)
    moved = since(before, world.counters())
    for role, host in zip(("client", "server"), case.hosts, strict=True):
        counters.expect_sound(f"{role} ({host})", moved[host], but=tuple(but))
    counters.expect_joined("the server", moved[case.hosts[1]])
    return said, server, [after - then for after, then in zip(world.carried(), carried, strict=True)]


def paths_row(case: Case, scheduler: str = SCHEDULERS[0]) -> Body:
    """Several wires: all carry a fair part. What they carry together is judged in full only, where nothing else runs beside it."""
    def body(world: World) -> str:
        world.daemon.command("set", "mptcp.scheduler", scheduler)
        said, server, on_wires = long_talk(world, case)
        goodput = judge.goodput_mbit(server)
        if scheduler not in SPREADING:
            return f"{said}, {on_wires} bytes, {goodput:.1f} Mbit/s"
        share = SHARE_MIN * 2 / len(on_wires)
        return f"{said}, " + judge.expect_both(on_wires, goodput, PATH.rate_mbit, GAIN_MIN if FULL else 0.0, share)

    return body


# What happens while data flows is told by bytes and not by the clock: so much on a wire means that it carries, and less that it does not.
CARRIES_BYTES, IDLE_BYTES_MAX = 400_000, 150_000


def wait_carried(world: World, wire: int, count: int = CARRIES_BYTES) -> None:
    """Until this wire has carried so much more."""
    then, deadline = world.carried()[wire], time.monotonic() + SECONDS_MAX * PATIENCE
    while world.carried()[wire] < then + count:
        if time.monotonic() > deadline:
            raise Failure(f"wire {wire} carried {world.carried()[wire] - then} bytes and not {count}")
        time.sleep(0.02)


def expect_idle(world: World, wire: int, other: int) -> None:
    """This wire carries nothing more, but for what is on its way and what keeps it alive, while the other one carries."""
    wait_carried(world, other)
    then = world.carried()[wire]
    wait_carried(world, other)
    if (more := world.carried()[wire] - then) > IDLE_BYTES_MAX:
        raise Failure(f"wire {wire} carried {more} bytes more")


def comes_and_goes(world: World, host: str) -> None:
    wait_carried(world, 0)
    world.set_endpoints(host)
    wait_carried(world, 1)
    world.set_endpoints(host, there=False)
    expect_idle(world, 1, 0)


def is_a_backup_for_a_while(world: World, host: str) -> None:
    wait_carried(world, 1)
    world.set_endpoints(host, backup=True)
    expect_idle(world, 1, 0)
    world.set_endpoints(host)
    wait_carried(world, 1)


def is_cut(world: World, wire: int) -> None:
    wait_carried(world, wire)
    world.cut(wire)
    expect_idle(world, wire, 1 - wire)
    world.restore(wire)
    wait_carried(world, wire)


# Linux sends beyond the window where one of two paths holds it up; a subflow that goes is reset.
HAPPENS: dict[str, tuple[Callable[[World, str], None], tuple[str, ...]]] = {
    "an endpoint comes and goes": (comes_and_goes, ("NoDSSInWindow", *counters.RESETS)),
    "a backup for a while": (is_a_backup_for_a_while, ("NoDSSInWindow",)),
    "the first is cut and restored": (lambda world, _: is_cut(world, 0), ("NoDSSInWindow",)),
    "the second is cut and restored": (lambda world, _: is_cut(world, 1), ("NoDSSInWindow",)),
}


def happens_row(pair: str, name: str, host: str) -> Body:
    """The client sends until all of it has happened."""
    happens, but = HAPPENS[name]

    def body(world: World) -> str:
        enough = world.env.folder / ends.ENOUGH
        enough.unlink(missing_ok=True)
        said, _, on_wires = long_talk(world, Case("steady", pair), lambda: (happens(world, host), enough.touch()), but)
        return f"{said}, {on_wires} bytes"

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
PAIRS = (WEFT_LINUX, LINUX_WEFT)
FAMILIES_OF_PATHS = {"two paths": (4, 4), "three paths": (4, 4, 4), "IPv4 and IPv6": (4, 6), "IPv6 and IPv4": (6, 4)}
# Each in a world of its own, all beside each other.
PATHS_SHORT = (
    "two paths/weft-linux", "two paths/linux-weft", "three paths/linux-weft", "IPv4 and IPv6/weft-linux", "an endpoint comes and goes/linux/linux-weft",
    "a backup for a while/weft/weft-linux", "the first is cut and restored/weft-linux",
)


def paths_rows() -> list[tuple[str, str, Body]]:
    """Rows over several wires: name, pair and body."""
    found: list[tuple[str, str, Body]] = []
    for pair in PAIRS:
        for name, families in FAMILIES_OF_PATHS.items():
            family = "v4" if set(families) == {4} else "v4 and v6" if families[0] == 4 else "v6 and v4"
            found.append((name, pair, paths_row(Case("long", pair, family))))
        for name in HAPPENS:
            for host in ("weft", "linux") if "cut" not in name else ("",):
                found.append((f"{name}/{host}" if host else name, pair, happens_row(pair, name, host)))
    found += [(f"two paths/{scheduler}", WEFT_LINUX, paths_row(Case("long", WEFT_LINUX), scheduler)) for scheduler in SCHEDULERS[1:]]
    return found if EVERYTHING else [of for of in found if f"{of[0]}/{of[1]}" in PATHS_SHORT]


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
    for name, pair, body in paths_rows():
        what, _, whose = name.partition("/")
        families = FAMILIES_OF_PATHS.get(what, (4, 4))
        endpoints = {"an endpoint comes and goes": (), "a backup for a while": (whose,)}.get(what, HOSTS)
        role = ("client", "server")[pair.split("-").index("weft")]
        found.append((lambda env, of=(families, role, endpoints): World(env, PATH, *of), {f"{name}/{pair}": body}))
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


def main(more: Sequence[tuple[Callable[[Environment], World], dict[str, Body]]]) -> int:
    """`more`: groups of other modules."""
    recorder = results.Recorder()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        recorder.add(results.Row("all", results.SKIPPED, reason="/dev/net/tun cannot be opened"))
        return recorder.finish()
    worlds = [(build, rows) for build, rows in ((build, chosen(rows)) for build, rows in [*groups(), *more]) if rows]
    # They wait for their wires most of the time.
    with ThreadPoolExecutor(max(len(worlds), 1)) as pool:
        list(pool.map(lambda of: run_group(recorder, *of), worlds))
    return recorder.finish()
