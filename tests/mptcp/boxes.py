"""Boxes on the way, at every point of a connection: between two of weft's nodes, and beside Linux kernels, in virtual time.

    a ── r ── b                      one path, with the box in router r
    a ══ r, r2 ══ b                  two paths, with the box on the first, on the second or on both

A row is named BOX/POINT/PATHS/CLIENT-SERVER/KIND. Whatever a box does, the transfer ends: byte-exact, as Multipath TCP or as TCP. What cannot end
so with TCP, either, has its own word (`Middlebox.may`) or is no row (`Case.makes_sense`). The box must have done something. What Linux makes of a box
otherwise stands in LINUX, with what Linux beside Linux makes of it: a fault of weft has no place there.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure
from virtual.shared import events, keys, program, section, value

from . import counters, judge, sim
from .cases import EVERYTHING, LIMITS, LINUX_LINUX, LINUX_WEFT, WEFT_LINUX, WEFT_WEFT, Named, protocol

WIRE = {"rate": "20mbit", "delay": "5ms", "queue_packets": 60}
# While the client sends; the client starts at 1 s. A box that goes again does so a little later.
MIDDLE, LATER = "1500ms", "1900ms"
# Virtual seconds in which everything has ended that ends at all: a connection without a subflow waits for another for 60 of them (close_timeout).
SECONDS = 150

# What becomes of a transfer.
EXACT = "byte-exact"
RESET = "reset"
# Other bytes came, because the box made others of them.
ALTERED = "altered"
HUNG = "hung"

# Where the box is.
ONE, FIRST, SECOND, BOTH = "one path", "first of two", "second of two", "both of two"
TWO_PATHS = (FIRST, SECOND, BOTH)
ROUTERS = {ONE: ("r",), FIRST: ("r",), SECOND: ("r2",), BOTH: ("r", "r2")}

# When it is.
ALWAYS, FROM_MIDDLE, UNTIL_MIDDLE, MIDDLE_ONLY = "always", "from the middle", "until the middle", "for a while"

SPOKEN, PLAIN, EITHER = "Multipath TCP", "TCP", "either"


@dataclasses.dataclass(frozen=True)
class Middlebox:
    """`words`: kind and parameters, as `weft help block KIND` has them. `acts`: its counter that shows that it did something, so often at least. `asks`: the
    parameter that makes it look for something, and nothing without. `remembers`: connections that it has served break without it, and those that began
    without it break with it (`nat`). `becomes`: what the connection must be in the end. `may`: what else than EXACT is right with one path, and
    `may_on_both` where it is on both of two: without what it takes a subflow of several is reset (RFC 8684 §3.7), and so is a connection that has lost
    all of them. `talks`: kinds of talk. `points`: where it makes sense only there."""

    words: str
    acts: str
    asks: str = ""
    remembers: bool = False
    becomes: str = EITHER
    may: tuple[str, ...] = ()
    may_on_both: tuple[str, ...] = ()
    checksum: bool = False
    talks: tuple[str, ...] = ("transfer", "both")
    paths: tuple[str, ...] = (ONE, *TWO_PATHS)
    points: tuple[str, ...] = ()
    acts_min: int = 1

    @property
    def kind(self) -> str:
        return self.words.split()[0]


BOXES = {
    "renumbers": Middlebox("shift_sequence", "Shifted", remembers=True, becomes=SPOKEN),
    "splits": Middlebox("split segment_bytes=700", "Cut", becomes=SPOKEN),
    # It joins what is small.
    "joins": Middlebox("coalesce time=5ms", "Joined", may_on_both=(RESET,), talks=("small", "echo")),
    "strips": Middlebox("strip_options options=30", "Stripped", asks="options=30", may_on_both=(RESET,)),
    "drops": Middlebox("drop_options options=30", "Dropped", asks="options=30"),
    "drops unknown": Middlebox("drop_options unknown=true", "Dropped", asks="unknown=true"),
    "translates": Middlebox("nat", "Out", remembers=True, becomes=SPOKEN),
    # After a pause the client's next segment makes a mapping again; what the server says first is lost with its path.
    "forgets": Middlebox("nat established_timeout=1s", "Mappings", acts_min=2, becomes=SPOKEN, points=(ALWAYS,), talks=("client after a pause",)),
    "forgets before the server speaks": Middlebox(
        "nat established_timeout=1s", "Refused", becomes=SPOKEN, points=(ALWAYS,), talks=("server after a pause",), paths=(FIRST, SECOND)),
    "alters": Middlebox("alter_payload find=AB replace=YZ", "Replaced", may=(ALTERED,), may_on_both=(ALTERED, RESET), checksum=True),
    "lengthens": Middlebox("alter_payload find=AB replace=XYZ", "Replaced", remembers=True, may=(ALTERED,), may_on_both=(ALTERED, RESET), checksum=True),
    "shortens": Middlebox("alter_payload find=AB replace=X", "Replaced", remembers=True, may=(ALTERED,), may_on_both=(ALTERED, RESET), checksum=True),
    "resets both": Middlebox("inject_reset after_bytes=500000", "Resets", may=(RESET,), paths=(ONE, FIRST, SECOND)),
    "resets the client": Middlebox("inject_reset after_bytes=500000 to=opener", "Resets", may=(RESET,), paths=(ONE, FIRST, SECOND)),
    "resets the server": Middlebox("inject_reset after_bytes=500000 to=listener", "Resets", may=(RESET,), paths=(ONE, FIRST, SECOND)),
}
# A reset of the second path's handshake, at each of its segments and behind it.
BOXES |= {f"resets at segment {number}": Middlebox(f"inject_reset after_segments={number}", "Resets", paths=(SECOND,)) for number in range(1, 8)}


@dataclasses.dataclass(frozen=True)
class Point:
    """`more`: parameters that say in which segments. `enters`, `leaves`: when it is inserted and extracted. `begins`: it is there from the start, and
    from then on does what it is for; so it knows which direction is which."""

    more: str = ""
    enters: str = "0s"
    leaves: str = ""
    begins: str = ""

    @property
    def handshake(self) -> bool:
        """It is there when the connection begins."""
        return self.enters == "0s" and not self.begins

    @property
    def stays(self) -> bool:
        return not self.leaves


POINTS = {
    ALWAYS: Point(),
    FROM_MIDDLE: Point(enters=MIDDLE),
    UNTIL_MIDDLE: Point(leaves=MIDDLE),
    MIDDLE_ONLY: Point(enters=MIDDLE, leaves=LATER),
}
# Of boxes that tell segments with SYN from others, and one direction from the other.
SEGMENTS = {"SYN": "syn_ack=false others=false", "SYN|ACK": "syn=false others=false", "behind the handshake": "syn=false syn_ack=false"}
DIRECTIONS = {"to the server": "direction=from_opener", "to the client": "direction=to_opener"}
POINTS_OF_OPTIONS = POINTS | {name: Point(more) for name, more in (SEGMENTS | DIRECTIONS).items()} | {
    f"behind the handshake {name}": Point(f"{SEGMENTS['behind the handshake']} {more}") for name, more in DIRECTIONS.items()
} | {f"{FROM_MIDDLE} {name}": Point(more, begins=MIDDLE) for name, more in DIRECTIONS.items()}
POINTS_OF_KIND = {"strip_options": POINTS_OF_OPTIONS, "drop_options": POINTS_OF_OPTIONS, "inject_reset": {ALWAYS: POINTS[ALWAYS]},
                  "alter_payload": POINTS | {name: Point(more) for name, more in DIRECTIONS.items()}}


@dataclasses.dataclass(frozen=True)
class Case(Named):
    """One row."""

    box: str
    point: str
    paths: str
    pair: str
    kind: str = "transfer"

    @property
    def middlebox(self) -> Middlebox:
        return BOXES[self.box]

    @property
    def at(self) -> Point:
        return POINTS_OF_KIND.get(self.middlebox.kind, POINTS)[self.point]

    @property
    def makes_sense(self) -> bool:
        """Not where a box can have nothing to do, or no TCP would live."""
        box, at = self.middlebox, self.at
        if self.paths not in box.paths or box.points and self.point not in box.points:
            return False
        if box.kind == "coalesce" and (self.kind, self.paths) == ("echo", ONE):
            return False  # Its segments are full, or alone.
        if box.kind == "shift_sequence" and not at.handshake:
            return False  # It leaves alone what began without it.
        if box.remembers and self.paths in (ONE, BOTH) and (at.leaves or box.kind == "nat" and not at.handshake):
            return False
        if box.kind == "drop_options" and self.paths != SECOND:
            # All of a connection that speaks it is dropped, and no handshake can show it.
            behind = not at.handshake or self.point.startswith("behind")
            return not behind or at.leaves != "" or self.paths == FIRST and not at.handshake
        return True

    @property
    def right(self) -> tuple[str, ...]:
        """Outcomes that are right."""
        box = self.middlebox
        # What is found before there is a second subflow makes the connection TCP, which brings what the box has made of the data.
        early = self.paths == FIRST and self.at.handshake and ALTERED in box.may
        return (EXACT, *(box.may if self.paths == ONE else box.may_on_both if self.paths == BOTH else (ALTERED,) if early else ()))


@dataclasses.dataclass(frozen=True)
class Known:
    """What Linux 6.12 makes of a box otherwise: `outcomes` besides those that are right, at points that begin with `points`. The row `shown`, Linux
    beside Linux, must come to one of them; other rows with a Linux end may. `alone`: weft ends all the same."""

    why: str
    boxes: tuple[str, ...]
    paths: tuple[str, ...]
    outcomes: tuple[str, ...]
    shown: Case
    points: str = ""
    alone: bool = False

    def holds(self, case: Case) -> bool:
        return case.box in self.boxes and case.paths in self.paths and case.point.startswith(self.points) and "linux" in case.hosts


LINUX = (
    Known("it waits for ever when options go missing in a connection that runs", ("strips",), (ONE, BOTH), (HUNG, RESET),
          Case("strips", FROM_MIDDLE, ONE, LINUX_LINUX), "from the middle"),
    Known("the same, for a while", ("strips",), (ONE, BOTH), (HUNG, RESET), Case("strips", MIDDLE_ONLY, ONE, LINUX_LINUX), MIDDLE_ONLY),
    Known("what a box joins to a segment without the option of its own comes twice, or in the wrong place", ("joins",), TWO_PATHS, (ALTERED, HUNG, RESET),
          Case("joins", ALWAYS, BOTH, LINUX_LINUX, "echo")),
    Known("a client waits for ever when its server, which cannot place what a box has joined, goes on as TCP", ("joins",), (ONE,), (HUNG,),
          Case("joins", ALWAYS, ONE, LINUX_LINUX, "small")),
    Known("it finds that the checksum is wrong, and neither goes on as TCP nor ends", ("alters", "lengthens", "shortens"), (ONE, FIRST, BOTH),
          (HUNG, RESET, ALTERED), Case("alters", ALWAYS, ONE, LINUX_LINUX)),
    Known("who reads waits for ever when the only subflow is reset", ("resets both", "resets the client", "resets the server"), (ONE,), (HUNG,),
          Case("resets both", ALWAYS, ONE, LINUX_LINUX), alone=True),
    Known("where both paths are cut smaller in a connection that runs, it resets the connection, and its peer does not hear of it", ("splits",), (BOTH,),
          (HUNG, RESET), Case("splits", FROM_MIDDLE, BOTH, LINUX_LINUX, "both"), FROM_MIDDLE),
    Known("the same, for a while", ("splits",), (BOTH,), (HUNG, RESET), Case("splits", MIDDLE_ONLY, BOTH, LINUX_LINUX, "both"), MIDDLE_ONLY),
    # The last SYN of Linux comes a second later, when the server has just forgotten: its timers are up to a fiftieth late, and weft's are not.
    Known("its server holds on to a request, and to the options of its answer, for as long as a client sends SYNs", ("drops", "drops unknown"),
          (ONE, *TWO_PATHS), (HUNG,), Case("drops", "SYN|ACK", ONE, WEFT_LINUX), "SYN|ACK"),
    Known("the same, where all of its answers are dropped", ("drops", "drops unknown"), (ONE, *TWO_PATHS), (HUNG,),
          Case("drops", "to the client", ONE, WEFT_LINUX), "to the client"),
)


def cases() -> list[Case]:
    every = [Case(name, point, where, pair, kind) for name, box in BOXES.items()
             for point, where, pair, kind in itertools.product(POINTS_OF_KIND.get(box.kind, POINTS), box.paths, sim.PAIRS, box.talks)]
    return [case for case in every if case.makes_sense]


# Beside Linux in the short form.
SHORT_BESIDE_LINUX = (
    Case("strips", "SYN|ACK", ONE, WEFT_LINUX), Case("strips", "SYN|ACK", ONE, LINUX_WEFT), Case("strips", FROM_MIDDLE, SECOND, WEFT_LINUX),
    Case("drops", "SYN", ONE, LINUX_WEFT), Case("resets both", ALWAYS, FIRST, LINUX_WEFT), Case("resets both", ALWAYS, SECOND, WEFT_LINUX),
    Case("translates", ALWAYS, BOTH, LINUX_WEFT), Case("lengthens", ALWAYS, SECOND, WEFT_LINUX), Case("strips", FROM_MIDDLE, ONE, LINUX_LINUX),
)


# On both paths, in the short form.
SHORT_ON_BOTH = (Case("alters", "to the client", BOTH, WEFT_WEFT), Case("lengthens", "to the client", BOTH, WEFT_WEFT))


def short(case: Case) -> bool:
    """In the short form: each box at each point between two of weft's, with one path, and on the second of two; always and in the middle on the first."""
    if case.pair != WEFT_WEFT:
        return case in SHORT_BESIDE_LINUX
    where = {ONE: True, FIRST: case.point in (ALWAYS, FROM_MIDDLE), SECOND: case.point != MIDDLE_ONLY or case.middlebox.remembers, BOTH: case in SHORT_ON_BOTH}
    return where[case.paths] and case.kind == case.middlebox.talks[0] and case.box not in ("drops unknown", "shortens", "resets the client", "resets the server")


# Addresses: the client's, the router's on either side, and the server's, of each path.


def address(path: int, which: str) -> str:
    return {"a": "10.{}.1.1", "near": "10.{}.1.254", "far": "10.{}.2.254", "b": "10.{}.2.1"}[which].format(path + 1)


def entering(case: Case) -> list[str]:
    """The words that put the box into its router."""
    box, at = case.middlebox, case.at
    words = box.words.replace(box.asks, "") if at.begins else box.words
    if box.kind == "nat":
        return [f"add box {words}", "insert box:from_wire interfaces:upper ether:lower", "insert box:from_node ether:lower interfaces:upper"]
    return [f"add box {words} {at.more}".rstrip(), "insert box interfaces:upper ether:lower"]


def box_events(case: Case) -> str:
    text, at = "", case.at
    for number, router in enumerate(("r", "r2")):
        if router not in ROUTERS[case.paths]:
            continue
        more = ["set box.outside eth1", f"set box.address {address(number, 'far')}"] if case.middlebox.kind == "nat" else []
        text += events({"at": at.enters, "node": router, "control": [*entering(case), *more]})
        if at.begins:
            parameter, _, value = case.middlebox.asks.partition("=")
            text += events({"at": at.begins, "node": router, "control": [f"set box.{parameter} {value}"]})
        if at.leaves:
            text += events({"at": at.leaves, "node": router, "control": ["extract box"]})
    return text


def scenario(case: Case) -> str:
    text, setup = keys(duration=f"{SECONDS}s"), ""
    routers = ("r",) if case.paths == ONE else ("r", "r2")
    for (name, role), host in zip(sim.NODES.items(), case.hosts, strict=True):
        given = {f"eth{number}": f"{address(number, name)}/24" for number in range(len(routers))}
        announced = [f"{address(1, name)} dev eth1 signal"] if role == "server" and len(routers) > 1 else []
        if host == "linux":
            setup += program(f"paths-{name}", name, "sh", "-ec", "; ".join([LIMITS, *(f"ip mptcp endpoint add {of}" for of in announced)]))
        parameters = {"mptcp.path_manager": "kernel", "mptcp.endpoints": announced}
        text += section(f"nodes.{name}", **sim.node(host, case.middlebox.checksum, parameters=parameters, addresses=given, forward=False))
    for number, router in enumerate(routers):
        text += section(f"nodes.{router}", addresses={f"eth{side}": f"{address(number, of)}/24" for side, of in enumerate(("near", "far"))})
        for near in (["a", router], [router, "b"]):
            text += section(f"wires.{near[0]}-{near[1]}", between=near, **WIRE)
    client, server = case.hosts
    text += setup + sim.programs(case.kind, (protocol(client), protocol(server)), "v4", address(0, "b"), expect="any") + sim.looks(case.hosts, SECONDS)
    text += box_events(case)
    return text + events(*({"at": f"{SECONDS - 1}s", "node": router, "control": [f"replace {sim.REPLACED} {sim.REPLACED}"]} for router in routers))


def box_counters(out: Path) -> collections.Counter:
    """What the boxes have counted."""
    found: collections.Counter = collections.Counter()
    for row in map(json.loads, (out / sim.GENERATIONS).read_text().splitlines()):
        if row["node"] in ("r", "r2") and row["block"] == "box":
            found.update(row["counters"])
    return found


def outcome(case: Case, result: sim.Result) -> tuple[str, str]:
    """What became of the transfer, and what is said of it."""
    ended = {row["name"]: row for row in result.summary["programs"] if row["name"] in ("client", "server")}
    roles = dict(zip(("client", "server"), case.hosts, strict=True))
    if still := [f"{role} ({host})" for role, host in roles.items() if ended[role]["status"] is None]:
        return HUNG, f"{' and '.join(still)} did not end"
    client, server = result.reports(case.kind)
    assert client is not None
    endings = [talk["ended"] for talk in [*client, *server]]
    if any(ending != "end" for ending in endings):
        return RESET, ", ".join(endings)
    to_server, to_client = client[0]["sent"] == server[0]["received"], server[0]["sent"] == client[0]["received"]
    if to_server and to_client:
        return EXACT, judge.expect_ends(case.kind, client, server)
    return ALTERED, " and ".join(host for host, exact in zip(case.hosts, (to_client, to_server), strict=True) if not exact) + " got other bytes"


def spoken(result: sim.Result) -> str:
    fell = any(result.counters[name].get(counter) for name in sim.NODES for counter in counters.FALLBACKS)
    both = all(result.counters[name].get(counter) for name, role in sim.NODES.items() for counter in counters.SPOKEN[role])
    return SPOKEN if both and not fell else PLAIN


def expect_right(case: Case, found: str, said: str) -> str:
    """Failure unless it is right, or what Linux does; what is said of that."""
    known = next((of for of in LINUX if of.holds(case)), None)
    if known and case == known.shown and found not in known.outcomes:
        raise Failure(f"{found}: Linux does it right now, and the table of what it does not says: {known.why}")
    if found in case.right:
        return ""
    # Other bytes are Linux's fault where Linux got them, and a wait is where Linux waits alone.
    weft_too = "weft" in said and (found == ALTERED or found == HUNG and known is not None and known.alone)
    if known is None or found not in known.outcomes or weft_too:
        raise Failure(f"{found}: {said}")
    return f" (as Linux beside Linux in {known.shown.name}: {known.why})"


def row(case: Case) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        result = sim.run(folder, scenario(case), case.hosts)
        found, said = outcome(case, result)
        boxes = box_counters(folder / "out")
        did, counted = boxes[case.middlebox.acts], {name: counters.moved(of) for name, of in result.counters.items()}
        if not did and (case.pair, found) == (LINUX_LINUX, EXACT):
            return "Linux sends nothing that this box is for"
        if did < case.middlebox.acts_min:
            raise Failure(f"the box did nothing, or too little: {dict(boxes)}; {found}: {said}; {counted}")
        try:
            why = expect_right(case, found, said)
        except Failure as failure:
            raise Failure(f"{failure}; {counted}") from None
        became = spoken(result)
        if not why and case.middlebox.becomes not in (EITHER, became):
            raise Failure(f"{found}, as {became}: {counted}")
        return f"{found}, as {became}; {said}; {did} {case.middlebox.acts.lower()}{why}"

    return body


def by_itself(folder: Path) -> str:
    """A client whose addresses nobody has named, behind routers: its second one reaches the server's second, which is announced, and not the first."""
    case = Case("splits", ALWAYS, SECOND, WEFT_WEFT)
    result = sim.run(folder, scenario(case).replace(value({"mptcp.path_manager": "kernel"})[2:-2], value({"mptcp.path_manager": "all"})[2:-2]), case.hosts)
    counters.expect_joined(f"the server; the client counts {counters.moved(result.counters['a'])}", result.counters["b"])
    return judge.expect_ends(case.kind, *result.reports(case.kind))


def rows() -> dict[str, Callable[[Path], str]]:
    every = cases()
    found = {f"box/{case.name}": row(case) for case in (every if EVERYTHING else filter(short, every))}
    return found | {f"routers/{WEFT_WEFT}": by_itself}
