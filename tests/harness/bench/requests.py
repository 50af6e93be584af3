"""Small things: how long one byte takes there and back, connections a second, datagrams of 64 bytes a second.

Through weft over its TAP, with the host's kernel as peer, beside kernel to kernel over a veth pair; runs alternate, medians of five.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
from typing import Callable

from .. import paths, weft
from ..environment import Environment
from ..processes import Process
from . import places, report

RUNS = 5
SECONDS = 2
DATAGRAM_BYTES = 64

_ports = itertools.count(6401)


def traffic(env: Environment) -> str:
    """The path of traffic.c's program."""
    program = env.folder / "traffic"
    if not program.exists():
        source = str(paths.TESTS / "harness" / "bench" / "traffic.c")
        subprocess.run([paths.tool("cc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), source],
                       check=True, timeout=60)
    return str(program)


def value(output: str, name: str) -> float:
    """The number after a word of a line that the program printed."""
    words = output.split()
    return float(words[words.index(name) + 1])


def rate(output: str, name: str) -> float:
    return value(output, name) / value(output, "seconds")


def _serve(env: Environment, place: places.Place, on_stack: bool, mode: str, port: int, *more: str, protocol: str = "tcp") -> Process:
    process = env.start(f"{mode}-server", [*(place.program if on_stack else place.peer), traffic(env), mode, str(port), *more])
    if on_stack and place.daemon is not None:
        place.daemon.wait_listening(process, port, protocol)
    else:
        env.wait_listening(process, port, protocol)
    return process


def latency_us(env: Environment, place: places.Place) -> float:
    port = next(_ports)
    server = _serve(env, place, False, "answer", port)
    output = env.run("ping", [*place.program, traffic(env), "ping", place.peer_address, str(port), str(SECONDS)])
    server.stop()
    return value(output, "median_us")


def connections(env: Environment, place: places.Place, accepting: bool) -> float:
    """Connections a second that the program under test opens, or accepts."""
    port = next(_ports)
    server = _serve(env, place, accepting, "greet", port)
    address, words = (place.program_address, place.peer) if accepting else (place.peer_address, place.program)
    output = env.run("connect", [*words, traffic(env), "connect", address, str(port), str(SECONDS)])
    server.stop()
    return rate(output, "connections")


def datagrams(env: Environment, place: places.Place, receiving: bool) -> float:
    """Datagrams a second that arrived at a program."""
    port = next(_ports)
    sink = _serve(env, place, receiving, "sink", port, str(SECONDS), protocol="udp")
    address, words = (place.program_address, place.peer) if receiving else (place.peer_address, place.program)
    flood = env.start("flood", [*words, traffic(env), "flood", address, str(port), str(DATAGRAM_BYTES), str(SECONDS + 1)])
    sink.wait(SECONDS + 20)
    flood.stop()
    return rate(sink.stdout, "datagrams")


Measure = Callable[[Environment, places.Place], float]

MEASURES: tuple[tuple[str, str, Measure], ...] = (
    ("TCP, one byte there and back", "µs", latency_us),
    ("TCP connections, opened one after the other", "1/s", lambda env, place: connections(env, place, False)),
    ("TCP connections, accepted one after the other", "1/s", lambda env, place: connections(env, place, True)),
    (f"UDP, {DATAGRAM_BYTES} bytes, sending", "1/s", lambda env, place: datagrams(env, place, False)),
    (f"UDP, {DATAGRAM_BYTES} bytes, receiving", "1/s", lambda env, place: datagrams(env, place, True)),
)


def measure() -> list[report.Row]:
    with Environment("requests") as env:
        tested, compared = places.stack(env), places.kernel(env)
        rows = []
        for name, unit, function in MEASURES:
            found: list[float] = []
            beside: list[float] = []
            for _ in range(RUNS):
                found.append(function(env, tested))
                beside.append(function(env, compared))
            median, versus = statistics.median(found), statistics.median(beside)
            rows.append(report.Row(name, median, unit, versus, median / versus))
        return rows
