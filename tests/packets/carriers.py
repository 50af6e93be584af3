"""Rows of carriers: links.py on the kernel and in a node, what takes the carrier away, and a routing daemon that hears of it.

The kernel's half runs once for a script, in a namespace with eth0, a veth whose other end is eth0 of a second namespace, where the peer is.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure
from virtual.runs import Runs
from virtual.shared import USUAL_SIGNALS, events, keys, program, section

from . import links

BODY = Path(links.__file__)
SECONDS_MAX = 120 * PATIENCE
RIGHTS = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
# Numbers that differ, or notice of a carrier comes late: linkwatch_urgent_event.
NATIVE = """
mount -t sysfs none /sys
ip link set lo up
unshare --net sleep 1000 &
peer=$!
trap 'kill $peer' EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link add eth0 index 10 type veth peer name eth0 index 20 netns $peer
nsenter --target $peer --net ip link set lo up
nsenter --target $peer --net ip link set eth0 up
begin=$(python3 -c 'import time; print(time.monotonic() + 1.5)')
nsenter --target $peer --net python3 "$1" peer "$2" $begin &
python3 "$1" body "$2" $begin
"""
# CLOCK_MONOTONIC of a node that has just booted is a second more than the world's time.
BEGIN_S = 5
# A triangle of routers, each with a network of its own behind it.
BIRD = """
router id 10.255.0.{number};
protocol device {{ }}
protocol direct {{ ipv4; }}
protocol kernel {{ ipv4 {{ export where source = RTS_OSPF; }}; }}
protocol ospf v2 {{
  ipv4 {{ import all; export none; }};
  area 0 {{ interface "eth0", "eth1" {{ type ptp; hello 10; dead 40; }}; interface "eth2" {{ stub yes; }}; }};
}}
"""


class Natives:
    """What the kernel says of each script: they run beside each other, as they sleep most of the time."""

    def __init__(self) -> None:
        self.pool = concurrent.futures.ThreadPoolExecutor()
        self.all: dict[str, concurrent.futures.Future[list[str]]] = {}

    def get(self, script: str) -> list[str]:
        if not self.all:
            self.all = {one: self.pool.submit(natively, one) for one in links.SCRIPTS}
        return self.all[script].result()


def natively(script: str) -> list[str]:
    command = [paths.tool("unshare"), *RIGHTS, "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", *USUAL_SIGNALS, "sh", "-euc", NATIVE, "sh", str(BODY), script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"natively: {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout.splitlines()


def world(script: str, **wire) -> str:
    """Two nodes on a wire, and the body on one of them."""
    alone = {"addresses": {"eth0": []}}
    return keys(duration="60s", boot="0s") + section("nodes.a", **alone) + section("nodes.b", **alone) \
        + section("wires.w", between=["a", "b"], delay="1ms", **wire) \
        + program("body", "a", "python3", str(BODY), "body", script, str(BEGIN_S + 1), start="1s")


def by_program(script: str) -> str:
    """The other end puts its interface down and up itself."""
    return world(script) + program("peer", "b", "python3", str(BODY), "peer", script, str(BEGIN_S + 1), expect="any")


def by_events(script: str, **what: Mapping[str, str]) -> str:
    """What the peer would do is done to the wire or to the node. `down`, `up`: which event does."""
    found = [(number, step.split()[1]) for number, step in enumerate(links.SCRIPTS[script], 1) if step.startswith("peer")]
    return world(script) + program("peer", "b", "python3", str(BODY), "peer-idle", script, "0", expect="any") \
        + events(*({"at": f"{BEGIN_S * 1000 + number * int(links.STEP_S * 1000)}ms", **what[word]} for number, word in found))


def same(runs: Runs, natives: Natives, script: str, text: str) -> str:
    one, out = runs.run(text)
    here = (out / "programs" / "body" / "stdout").read_text().splitlines()
    native = natives.get(script)
    differ = [f"natively  {one!r}\nhere      {two!r}" for one, two in zip(native, here) if one != two]
    if not native or native != here:
        raise Failure("\n".join([*differ[:20], f"{len(native)} lines natively, {len(here)} here"]))
    two, _ = runs.run(text, "--threads", "2", as_user=True)
    if one != two:
        raise Failure(f"the hash is {one}, and as a user on two threads {two}")
    return f"{len(links.SCRIPTS[script])} steps, {len(native)} lines"


def noticed(runs: Runs, carrier, after_ms: int | None) -> str:
    """How long a cut takes to be noticed, which lasts a second: 0.1 s before it and every 50 ms from then on somebody looks."""
    look = "for n in $(seq 0 30); do ip -o link show eth0 | grep -c NO-CARRIER; sleep 0.05; done"
    text = keys(duration="10s") + section("nodes.a") + section("nodes.b") + section("wires.w", between=["a", "b"], carrier=carrier) \
        + program("look", "a", "sh", "-c", look, start="925ms") + events({"at": "1s", "down": "w"}, {"at": "2s", "up": "w"})
    _, out = runs.run(text)
    seen = (out / "programs" / "look" / "stdout").read_text().split()
    # At 925 + 50 n ms; what is noticed late is forgotten late.
    wanted = ["1" if after_ms is not None and 1000 + after_ms <= 925 + 50 * number < 2000 + after_ms else "0" for number in range(31)]
    if seen != wanted:
        raise Failure(f"{seen}\nand not {wanted}")
    return f"{seen.count('1')} of {len(seen)}"


def switched(runs: Runs) -> str:
    """A host's carrier is that of its wire to the switch: another host's is nobody's."""
    text = keys(duration="10s") + "".join(section(f"nodes.{name}") for name in "ab") + section("nodes.s", kind="switch") \
        + "".join(section(f"wires.{name}", between=[name, "s"]) for name in "ab") \
        + program("look", "a", "sh", "-c", "sleep 1.5; cat /sys/class/net/eth0/carrier; sleep 1; cat /sys/class/net/eth0/carrier; sleep 1; cat /sys/class/net/eth0/carrier") \
        + events({"at": "1s", "down": "b"}, {"at": "2s", "down": "a"}, {"at": "3s", "up": "a"})
    _, out = runs.run(text)
    seen = (out / "programs" / "look" / "stdout").read_text().split()
    if seen != ["1", "0", "1"]:
        raise Failure(str(seen))
    return " ".join(seen)


def crashed(runs: Runs) -> str:
    """A machine without power takes the carrier at the other end, and finds none when it boots on a wire that was cut meanwhile."""
    show = "cat /sys/class/net/eth0/carrier /sys/class/net/eth0/carrier_changes"
    text = keys(duration="10s", ipv6=True) + section("nodes.a") + section("nodes.b") + section("wires.w", between=["a", "b"]) \
        + program("a", "a", "sh", "-c", f"for n in 1 2 3 4; do sleep 0.9; {show}; done") \
        + program("b", "b", "sh", "-c", f"{show}; ip -6 -br address show eth0; sleep 4; {show}; ip -br address show eth0", expect="any") \
        + events({"at": "1s", "crash": "b"}, {"at": "1500ms", "down": "w"}, {"at": "2s", "restart": "b"}, {"at": "3s", "up": "w"})
    _, out = runs.run(text)
    seen = [(out / "programs" / name / "stdout").read_text().split() for name in "ab"]
    # At 0.9, 1.8, 2.7 and 3.6 s. Of b its first life, and at 2 and 6 s its second: IPv6 begins with the first carrier, but for the address that somebody has set.
    here, there = seen[0], [word for word in seen[1] if not word.startswith("fe80:")]
    given = "fd77:0:0:1::2/64"
    wanted = ["1", "2", "eth0", "UP", given, "0", "1", "eth0", "DOWN", given, "1", "2", "eth0", "UP", "10.0.0.2/24", given]
    if here != ["1", "2", "0", "3", "0", "3", "1", "4"] or there != wanted:
        raise Failure(f"{here}\n{there}")
    return " ".join(here)


def converges(runs: Runs, event: Mapping[str, str]) -> str:
    """Three routers with bird, and no route that weft has set; one of their links is lost. OSPF's dead interval is 40 s: who hears of the carrier needs none."""
    bird = shutil.which("bird") or next((place for place in ("/usr/sbin/bird", "/sbin/bird") if os.path.exists(place)), None)
    if bird is None:
        return "skipped: there is no bird"
    text = keys(duration="60s", routes="none")
    for number, name in enumerate(("r1", "r2", "r3"), 1):
        text += section(f"nodes.{name}", files={"/etc/bird/own.conf": BIRD.format(number=number)}) + section(f"nodes.h{number}", routes="hops")
    for name, ends in (("w12", ["r1:eth0", "r2:eth0"]), ("w23", ["r2:eth1", "r3:eth0"]), ("w31", ["r3:eth1", "r1:eth1"])):
        text += section(f"wires.{name}", between=ends, delay="5ms")
    for number in (1, 2, 3):
        text += section(f"wires.x{number}", between=[f"r{number}:eth2", f"h{number}"], delay="1ms") \
            + program(f"bird{number}", f"r{number}", bird, "-f", "-c", "/etc/bird/own.conf", "-s", "/run/bird.ctl", expect="running")
    text += program("ping", "h1", "sh", "-c", "ping -D -i 0.1 -c 250 -W 1 h2", start="30s", expect="any") + events({"at": "40s", **event})
    _, out = runs.run(text)
    lines = (out / "programs" / "ping" / "stdout").read_text().splitlines()
    numbers = [int(line.split("icmp_seq=")[1].split()[0]) for line in lines if "bytes from" in line]
    lost = sorted(set(range(1, 251)) - set(numbers))
    if len(numbers) < 200 or not lost or lost[0] < 95 or lost[-1] - lost[0] > 20:
        raise Failure(f"{len(numbers)} answers; lost: {lost}")
    return f"{len(lost)} of 250 pings, 0.1 s apart"


def rows(runs: Runs) -> dict[str, Callable[[Path], str]]:
    natives = Natives()
    cut = {"down": {"down": "w"}, "up": {"up": "w"}}
    told = {"down": {"down": "b:eth0"}, "up": {"up": "b:eth0"}}
    return {
        "links/thirty": lambda _: same(runs, natives, "thirty", by_program("thirty")),
        "links/ignore": lambda _: same(runs, natives, "ignore", by_program("ignore")),
        "links/files": lambda _: same(runs, natives, "files", by_program("files")),
        "links/wire": lambda _: same(runs, natives, "thirty", by_events("thirty", **cut)),
        "links/interface": lambda _: same(runs, natives, "thirty", by_events("thirty", **told)),
        "links/noticed-at-once": lambda _: noticed(runs, True, 0),
        "links/noticed-late": lambda _: noticed(runs, {"delay": "200ms"}, 200),
        "links/never-noticed": lambda _: noticed(runs, False, None),
        "links/switch": lambda _: switched(runs),
        "links/crash": lambda _: crashed(runs),
        "links/bird-wire": lambda _: converges(runs, {"down": "w12"}),
        "links/bird-interface": lambda _: converges(runs, {"down": "r2:eth0"}),
    }
