"""Interface groups: every operation on them through unmodified `ip`, and through weft's own words what upstream never got. One row, one assertion.

    python3 -m groups            the rows (make test-groups)
    python3 -m groups bench      the table of the group patches, for weft and the kernel in one run (make bench-groups)

The interfaces are made by `ip link add type dummy` on a stack of its own; nothing of the host's is touched. Where upstream stops half way (a member that cannot),
the assertion is weft's own: nothing is changed, and the member is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Callable

from harness import results
from harness.environment import Environment, run_main
from harness.processes import Failure
from harness.weft import Daemon, binary

from . import bench

# Counts the packets, and the messages in them, that a listener to RTNLGRP_LINK gets.
LISTENER = """
import os, socket, struct, sys
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.bind((0, 1))
print("listening", flush=True)
packet = s.recv(1 << 20)
names, at = [], 0
while at < len(packet):
    length, kind = struct.unpack_from("=IH", packet, at)
    if kind == 16:
        names.append(length)
    at += (length + 3) & ~3
s.settimeout(0.5)
try:
    s.recv(1 << 20)
    print("another packet")
except TimeoutError:
    print(len(names), "messages in one packet")
"""

GROUP_FILE = "0\tdefault\n7\twifi\n"


class Stack:
    """A running stack with members of groups, and the words of two programs."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.daemon = Daemon(env, env.namespace("groups"), extra=("--stack", str(self._file(env))))

    @staticmethod
    def _file(env: Environment):
        path = env.folder / "groups.toml"
        path.write_text('[node]\nname = "groups"\ninterfaces = "none"\n[block.nd]\ndad_transmits = 0\n')
        return path

    def ip(self, words: str, *options: str) -> tuple[int, str]:
        """Status, and what it said on both streams."""
        run = subprocess.run([*self.daemon.run_words(), "ip", *options, *words.split()], capture_output=True, text=True, timeout=60,
                             env=self.env.variables())
        return run.returncode, run.stdout + run.stderr

    def weft(self, *words: str) -> tuple[int, str]:
        run = subprocess.run([binary(), *words, "--control", str(self.daemon.control)], capture_output=True, text=True, timeout=60,
                             env=self.env.variables())
        return run.returncode, run.stdout + run.stderr

    def links(self) -> dict[str, dict]:
        return {row["ifname"]: row for row in json.loads(self.ip("link show", "-j")[1])}

    def members(self, group: str) -> dict[str, dict]:
        return {name: row for name, row in self.links().items() if row["group"] == group}


Check = Callable[[Stack], None]
ROWS: list[tuple[str, Check]] = []


def row(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        ROWS.append((name, check))
        return check
    return add


def want(truth: bool, what: object) -> None:
    if not truth:
        raise Failure(str(what))


def succeeds(answer: tuple[int, str]) -> str:
    want(answer[0] == 0, f"status {answer[0]}: {answer[1]}")
    return answer[1]


@row("each interface has one group, 0 at first, with its name")
def _(s: Stack) -> None:
    for name in ("a0", "a1", "a2", "other"):
        succeeds(s.ip(f"link add {name} type dummy"))
    want({row["group"] for row in s.links().values()} == {"default"}, s.links())


@row("ip link set dev D group G")
def _(s: Stack) -> None:
    for name in ("a0", "a1", "a2"):
        succeeds(s.ip(f"link set dev {name} group 100"))
    want(set(s.members("100")) == {"a0", "a1", "a2"}, s.links())


def _sets(words: str, shows: Callable[[dict], bool]) -> None:
    @row(f"ip link set group G {words}")
    def _(s: Stack) -> None:
        before = s.links()["other"]
        succeeds(s.ip(f"link set group 100 {words}"))
        want(all(shows(row) for row in s.members("100").values()) and len(s.members("100")) == 3, s.members("100"))
        want(s.links()["other"] == before, "an interface of another group has changed")


_sets("up", lambda row: "UP" in row["flags"])
_sets("down", lambda row: "UP" not in row["flags"])
_sets("mtu 1400", lambda row: row["mtu"] == 1400)
_sets("address 02:00:00:00:00:77", lambda row: row["address"] == "02:00:00:00:00:77")
_sets("arp on", lambda row: "NOARP" not in row["flags"])
_sets("promisc on", lambda row: "PROMISC" in row["flags"])
_sets("multicast on", lambda row: "MULTICAST" in row["flags"])
_sets("allmulticast on", lambda row: "ALLMULTI" in row["flags"])
_sets("txqueuelen 77", lambda row: row["txqlen"] == 77)
_sets("alias many", lambda row: row.get("ifalias") == "many")
_sets("nomaster", lambda row: "master" not in row)


@row("ip link set group G master M is refused by name")
def _(s: Stack) -> None:
    status, said = s.ip("link set group 100 master other")
    want(status == 2 and "weft puts no interface under another" in said, said)


@row("ip link show group G, ip addr show group G, -s")
def _(s: Stack) -> None:
    for words in ("link show group 100", "addr show group 100"):
        for options in ((), ("-s",)):
            said = succeeds(s.ip(words, *options))
            want(all(f"{name}:" in said for name in ("a0", "a1", "a2")) and "other:" not in said and "lo:" not in said, said)


@row("set on an empty or unknown group succeeds silently")
def _(s: Stack) -> None:
    want(s.ip("link set group 4711 mtu 1400") == (0, ""), s.ip("link set group 4711 mtu 1400"))


@row("a member that cannot leaves every member unchanged, and is named")
def _(s: Stack) -> None:
    succeeds(s.ip("link set lo group 100"))
    before = s.links()
    # lo takes it, the others do not; in the kernel's order lo is the first and would have changed.
    status, said = s.ip("link set group 100 mtu 70000")
    want(status == 2 and "mtu greater than device maximum: member 'a0' of group 100; none is changed" in said, said)
    want(s.links() == before, "a member has changed")
    succeeds(s.ip("link set lo group default"))


@row("several parameters in one command: all of them or none")
def _(s: Stack) -> None:
    before = s.links()
    status, _ = s.ip("link set group 100 mtu 1300 address 03:00:00:00:00:01")
    want(status == 2 and s.links() == before, "half of a command was done")


@row("one notification for the group: one packet with a message for each member")
def _(s: Stack) -> None:
    listener = s.env.start("listener", [*s.daemon.run_words(), sys.executable, "-c", LISTENER])
    listener.wait_for_line("listening")
    succeeds(s.ip("link set group 100 mtu 1200"))
    want(listener.wait(20) == 0 and "3 messages in one packet" in listener.stdout, listener.stdout)


@row("weft set group:NAME mtu=1400: names are those of iproute2, and it says who changed")
def _(s: Stack) -> None:
    said = succeeds(s.weft("set", "group:100", "mtu=1400"))
    want(said.split() == ["a0", "a1", "a2"], said)
    want({row["mtu"] for row in s.members("100").values()} == {1400}, s.members("100"))
    succeeds(s.weft("set", "group:default", "tx_queue_packets=500"))
    want(s.links()["other"]["txqlen"] == 500 and s.links()["a0"]["txqlen"] == 77, s.links())


@row("weft set group:G … dry_run=true says who would change, and changes nobody")
def _(s: Stack) -> None:
    before = s.links()
    said = succeeds(s.weft("set", "group:100", "mtu=1399", "dry_run=true"))
    want(said.split() == ["a0", "a1", "a2"] and s.links() == before, said)


@row("weft set group:G: all or nothing, with the culprit")
def _(s: Stack) -> None:
    before = s.links()
    status, said = s.weft("set", "group:100", "mtu=66000")
    want(status != 0 and "member 'a0' of group 100; none is changed" in said, said)
    want(s.links() == before, "a member has changed")


@row("weft set group:G group=H moves a group into another")
def _(s: Stack) -> None:
    succeeds(s.weft("set", "group:100", "group=200"))
    want(set(s.members("200")) == {"a0", "a1", "a2"} and not s.members("100"), s.links())
    succeeds(s.weft("set", "group:200", "group=100"))


@row("ip address add A group G is no command of ip's; weft set group:G address=A is one")
def _(s: Stack) -> None:
    status, _ = s.ip("address add 10.5.0.1/24 group 100")
    want(status != 0, "ip has learnt it")
    succeeds(s.weft("set", "group:100", "address=10.5.0.1/24"))
    rows = [one for one in json.loads(s.ip("-4 addr show group 100", "-j")[1]) if one]
    want(len(rows) == 3 and all(one["addr_info"][0]["local"] == "10.5.0.1" for one in rows), rows)


@row("an address that one member has already: no member gets it, and that member is named")
def _(s: Stack) -> None:
    succeeds(s.ip("addr add 10.6.0.1/24 dev a1"))
    status, said = s.weft("set", "group:100", "address=10.6.0.1/24")
    want(status != 0 and "member 'a1' of group 100; none is changed" in said, said)
    want(s.ip("-4 addr show group 100")[1].count("10.6.0.1/24") == 1, s.ip("-4 addr show group 100"))


@row("an IPv6 address for each member")
def _(s: Stack) -> None:
    succeeds(s.weft("set", "group:100", "address=fd05::1/64"))
    want(s.ip("-6 addr show group 100")[1].count("fd05::1/64") == 3, s.ip("-6 addr show group 100"))


@row("a route for each member, of metrics that follow")
def _(s: Stack) -> None:
    succeeds(s.ip("link set group 100 up"))
    succeeds(s.weft("set", "group:100", "route=10.66.0.0/16"))
    said = s.ip("route show 10.66.0.0/16")[1]
    want(all(f"dev a{number}" in said for number in range(3)) and "metric 2" in said, said)


@row("routes of a group: all or none")
def _(s: Stack) -> None:
    succeeds(s.ip("route add 10.67.0.0/16 dev other metric 1") if s.ip("link set other up")[0] == 0 else (1, ""))
    status, said = s.weft("set", "group:100", "route=10.67.0.0/16")
    want(status != 0 and "member 'a1'; none is changed" in said, said)
    want("dev a" not in s.ip("route show 10.67.0.0/16")[1], s.ip("route show 10.67.0.0/16"))


@row("weft get group:G: what each member has carried, and the sum; one figure of it")
def _(s: Stack) -> None:
    rows = json.loads(succeeds(s.weft("get", "group:100", "--json")))
    want(set(rows) == {"a0", "a1", "a2", "group:100"} and rows["group:100"]["rx_packets"] == 0, rows)
    figures = json.loads(succeeds(s.weft("get", "group:100.tx_bytes", "--json")))
    total = figures.pop("group:100")["tx_bytes"]
    want(total > 0 and total == sum(row["tx_bytes"] for row in figures.values()), (total, figures))
    want("group:0.rx_bytes" in succeeds(s.weft("get", "group:default.rx_bytes")), s.weft("get", "group:default.rx_bytes"))


@row("a filter's expression and a class are about a group, by number or name, and follow who joins it")
def _(s: Stack) -> None:
    succeeds(s.weft("add", "sort", "classify"))
    succeeds(s.weft("insert", "sort", "ip4:lower", "arp:upper"))
    succeeds(s.weft("set", "sort.class1", "oifgroup default"))
    succeeds(s.weft("set", "sort.class2", "group 100 and dscp ef"))
    want("sort.class1 = oifgroup 0" in succeeds(s.weft("get", "sort.class1")), s.weft("get", "sort.class1"))
    status, said = s.weft("set", "sort.class2", "group nowhere")
    want(status != 0 and "/etc/iproute2/group" in said, said)
    ping = [*s.daemon.run_words(), "ping", "-c", "1", "-W", "0.2", "-I", "a0", "-Q", "0xb8", "10.6.0.77"]

    def counts() -> dict[str, int]:
        rows = json.loads(succeeds(s.weft("show", "counters", "--json")))
        return next(row["counters"] for row in rows if row["block"] == "sort")

    subprocess.run(ping, capture_output=True, timeout=60, env=s.env.variables())
    want(counts()["Class1"] == 0 and counts()["Class2"] >= 1, counts())
    before = counts()["Class2"]
    succeeds(s.ip("link set dev a0 group default"))
    subprocess.run(ping, capture_output=True, timeout=60, env=s.env.variables())
    want(counts()["Class1"] >= 1 and counts()["Class2"] == before, counts())
    succeeds(s.ip("link set dev a0 group 100"))
    succeeds(s.weft("extract", "sort"))
    succeeds(s.weft("delete", "sort"))


@row("ip link del group: 0 is EPERM, an unknown one ENODEV")
def _(s: Stack) -> None:
    want("Operation not permitted" in s.ip("link del group 0")[1], s.ip("link del group 0"))
    want("No such device" in s.ip("link del group 4711")[1], s.ip("link del group 4711"))


@row("ip link del group G with lo in it: EOPNOTSUPP, and nothing is deleted")
def _(s: Stack) -> None:
    succeeds(s.ip("link set lo group 100"))
    want("Operation not supported" in s.ip("link del group 100")[1], "lo was deleted?")
    want({"a0", "a1", "a2", "lo"} <= set(s.links()), s.links())
    succeeds(s.ip("link set lo group default"))


@row("ip link del group G")
def _(s: Stack) -> None:
    succeeds(s.ip("link del group 100"))
    want(not {"a0", "a1", "a2"} & set(s.links()) and "other" in s.links(), s.links())
    want("10.66" not in s.ip("route")[1], s.ip("route"))


@row("a node carries 100,000 interfaces; one is found by name and by number as fast as among ten")
def _(s: Stack) -> None:
    def ask(names: list[str]) -> float:
        words = "".join(f"link show dev {name}\n" for name in names)
        started = time.monotonic()
        run = subprocess.run([*s.daemon.run_words(), "ip", "-o", "-batch", "-"], input=words, capture_output=True, text=True, timeout=120)
        want(run.returncode == 0 and len(run.stdout.splitlines()) == len(names), run.stderr)
        return time.monotonic() - started

    succeeds(s.weft("exec", "interfaces", "add", "name=few", "count=10", "up=false"))
    few = min(ask([f"few{number % 10}" for number in range(500)]) for _ in range(3))
    succeeds(s.weft("exec", "interfaces", "add", "name=m", "count=100000", "up=false", "group=9"))
    many = min(ask([f"m{number * 199}" for number in range(500)]) for _ in range(3))
    # A search through all would take a thousand times as long.
    want(many < few * 20, f"{many:.3f} s against {few:.3f} s for 500 look-ups")
    succeeds(s.ip("link set group 9 mtu 1400"))
    want("mtu 1400" in s.ip("link show dev m99999")[1] and "mtu 1500" in s.ip("link show dev few0")[1], "the group was not set")


def main() -> int:
    if sys.argv[1:] == ["bench"]:
        return bench.main()
    recorder = results.Recorder()
    with Environment("groups") as env:
        stack = Stack(env)
        for name, check in ROWS:
            started = time.monotonic()
            try:
                check(stack)
                outcome, reason = results.PASSED, ""
            except Failure as failure:
                outcome, reason = results.FAILED, str(failure)[:2000]
            recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(run_main(main))
