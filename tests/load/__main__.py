"""Many connections, long and short, and a flood of SYNs, through weft: as server and as client, the kernel on the other side.

Short form: 10,000 idle and 1,000 active connections, 3,000 short ones in a row, 100,000 SYNs. FULL=1: 100,000 short ones with TIME-WAIT as long
as it is by default, 1,000,000 SYNs. All of it twice: the second round must leave neither descriptors nor memory behind.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time

from harness import paths, weft
from harness.environment import Environment, run_main
from harness.processes import Failure

from .rows import Rows
from .stage import FIRST_PORT, ROLES, SECONDS_MAX, Stage, Tools, build

KIB = 1024
# What a connection may cost inside weft, and what a flood may.
IDLE_BYTES_MAX = 16 * KIB
FLOOD_BYTES_MAX = 32 * KIB * KIB
# How much more memory a second identical round may leave: a quiet stack gives back what a burst needed, tables included.
SECOND_ROUND_MAX = 1.05
# Of the SYNs of a flood, so many find the listener's table full and get a cookie.
COOKIES_MIN = 0.9
AFTER_FLOOD = 200
FLOOD_NEEDS_ROOT = "only a TAP tells how fast weft takes frames; runs as root"


@dataclasses.dataclass(frozen=True)
class Size:
    idle: int
    active: int
    active_bytes: int
    short: int
    flood: int
    settings: dict[str, str]


SHORT = Size(10_000, 1_000, 64_000, 3_000, 100_000, {"tcp.time_wait": "1s"})
FULL = Size(10_000, 1_000, 1_000_000, 100_000, 1_000_000, {})


def idle(stage: Stage, role: str, count: int) -> int:
    """Opens connections, lets them be, and wants to hear from each in the end. What each costs the daemon, bytes."""
    server = stage.serve(role)
    before, until = stage.memory_bytes(), stage.flag()
    client = stage.client(role, "hold", str(count), str(until))
    client.wait_for_line("open", SECONDS_MAX)
    # The accepting side may be behind.
    stage.until(lambda: stage.counters()["CurrEstab"] >= count, f"at {count} connections")
    each = (stage.memory_bytes() - before) // count
    until.touch()
    stage.finish(client)
    stage.end_server(server)
    return each


def idle_row(stage: Stage, role: str, size: Size) -> str:
    each = idle(stage, role, size.idle)
    if each > IDLE_BYTES_MAX:
        raise Failure(f"{size.idle} idle connections cost {each} bytes each inside weft, more than {IDLE_BYTES_MAX}")
    stage.check_silent()
    return f"{size.idle} connections, {each / KIB:.1f} KiB each inside weft (at most {IDLE_BYTES_MAX // KIB})"


def active(stage: Stage, role: str, size: Size) -> str:
    server, started = stage.serve(role), time.monotonic()
    stage.run_client(role, "talk", str(size.active), str(size.active_bytes))
    stage.end_server(server)
    megabytes = size.active * size.active_bytes / 1e6
    return f"{size.active} connections at once, {megabytes:.0f} MB there and back, every byte checked, {time.monotonic() - started:.1f} s"


def short(stage: Stage, role: str, size: Size) -> str:
    server, started = stage.serve(role), time.monotonic()
    stage.run_client(role, "short", str(size.short))
    stage.end_server(server)
    return f"{size.short} connections in a row, {size.short / (time.monotonic() - started):.0f} a second"


def flood(stage: Stage, size: Size) -> str:
    """SYNs from nowhere while a client goes on connecting, and after."""
    server = stage.serve("server")
    mac = next(row["mac"] for row in stage.daemon.show("interfaces") if row["name"] == weft.TAP)
    before, memory, until = stage.counters(), stage.memory_bytes(), stage.flag()
    client = stage.client("server", "short", "0", str(until))
    words = [stage.tools.flood, weft.TAP, mac, weft.STACK, str(FIRST_PORT), str(size.flood), "1"]
    stage.env.run("flood", words, stage.peer, SECONDS_MAX)
    grown = stage.memory_bytes() - memory
    until.touch()
    during = int(stage.finish(client).split()[1])
    stage.run_client("server", "short", str(AFTER_FLOOD))
    after = stage.counters()
    stage.end_server(server)
    sent, received = (after[name] - before[name] for name in ("SyncookiesSent", "SyncookiesRecv"))
    if sent < COOKIES_MIN * size.flood:
        raise Failure(f"of {size.flood} SYNs only {sent} were answered by cookie")
    if during < 1 or received < 1:
        raise Failure(f"during the flood {during} connections were served, {received} of all began with a cookie")
    if grown > FLOOD_BYTES_MAX:
        raise Failure(f"the flood cost {grown} bytes of memory, more than {FLOOD_BYTES_MAX}")
    return f"{size.flood} SYNs, {sent} answered by cookie, {during} connections served meanwhile and {AFTER_FLOOD} after, {grown // KIB} KiB more memory"


def one_round(rows: Rows, stage: Stage, size: Size, suffix: str) -> None:
    for role in ROLES:
        rows.run(f"idle again/{role}{suffix}", lambda role=role: f"{size.idle} connections" if idle(stage, role, size.idle) is not None else "")
        rows.run(f"active/{role}{suffix}", lambda role=role: active(stage, role, size))
        rows.run(f"short/{role}{suffix}", lambda role=role: short(stage, role, size))
    rows.run(f"flood{suffix}", lambda: flood(stage, size), FLOOD_NEEDS_ROOT)


def check_held(stage: Stage, before) -> str:
    """Descriptors are closed when the daemon hears of what happened, so they get time."""
    deadline = time.monotonic() + 10
    while (left := before.differences(stage.held())) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        raise Failure("; ".join(left))
    return f"{sum(before.descriptors.values())} descriptors, {len(before.mounts)} mounts, {len(before.namespaces)} namespaces, before and after"


def check_memory(first: int, second: int) -> str:
    text = f"{first / KIB / KIB:.1f} MiB after the first round, {second / KIB / KIB:.1f} MiB after the second"
    if second > first * SECOND_ROUND_MAX:
        raise Failure(f"{text}: more than {SECOND_ROUND_MAX:.2f} times")
    return text


def main() -> int:
    size, rows = FULL if os.environ.get("FULL") else SHORT, Rows()
    with Environment("tools") as shared:
        tools = Tools(build(shared, "crowd"), build(shared, "flood"))
        for role in ROLES:
            # A daemon that is new: what an earlier round left free in it would hide what a connection costs.
            with Environment(f"idle-{role}") as env:
                rows.run(f"idle/{role}", lambda env=env, role=role: idle_row(Stage(env, tools, size.settings), role, size))
        with Environment("rounds") as env:
            stage = Stage(env, tools, size.settings)
            before, memory = stage.held(), []
            for suffix in ("", ", second round"):
                one_round(rows, stage, size, suffix)
                memory.append(stage.settle())
            rows.run("descriptors, mounts, namespaces", lambda: check_held(stage, before))
            rows.run("memory", lambda: check_memory(*memory))
            rows.run("whose stack", lambda: stage.check_silent() or "the kernel of the programs' namespace sent no segment")
    return rows.recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print(f"no weft at {paths.target_dir() / 'release' / 'weft'}: run make build, or set WEFT_BIN")
        sys.exit(1)
    sys.exit(run_main(main))
