"""A thread or a process waits, another does something: on each host what the call comes to on Linux, or a row of docs/compatibility.md.

`waiting/` has the matrix, `waits.toml` the cells that differ. A cell that differs is asked six times, by itself and on both hosts: chance is no judgement.
Short form: threads over IPv4, processes over IPv6. FULL=1: both over both, twenty times beside busy loops, in turns as root and as a user. WRITE=1 writes
docs/waits.md.
"""

from __future__ import annotations

import dataclasses
import os
import re
import threading

from harness import differences as tables
from harness import paths
from harness.lint.pages import wrap
from harness.processes import PATIENCE, Failure

from .place import HERE, LINUX, NODE, NOTIFY, ROOT, STRICT, WEFT, WHO, Place

FULL = bool(os.environ.get("FULL"))
FORMS = [("4", "thread"), ("6", "process")] + ([("6", "thread"), ("4", "process")] if FULL else [])
REPEATS = 20 if FULL else 1
# How long a call may take that has what it waits for, in milliseconds.
PATIENCE_MS = 100 * PATIENCE * (10 if FULL else 1)
ASKED = 6
TABLE = HERE / "waits.toml"
PAGE = paths.ROOT / "docs" / "waits.md"
Cells = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Difference:
    """An entry of waits.toml."""

    id: str
    hosts: tuple[str, ...]
    cells: re.Pattern[str]
    linux: re.Pattern[str]
    weft: re.Pattern[str]
    by_chance: bool

    def explains(self, host: str, cell: str, linux: str, weft: str) -> bool:
        what, _, call = cell.partition(" ")
        name, _, who = what.split("/")
        return (host in self.hosts and bool(self.cells.fullmatch(f"{name}/{who} {call}"))
                and bool(self.linux.fullmatch(linux)) and bool(self.weft.fullmatch(weft)))


def differences() -> list[Difference]:
    return [Difference(entry["id"], tuple(entry["hosts"]), *(re.compile(entry[key]) for key in ("cells", "linux", "weft")),
                       entry.get("by_chance", False))
            for entry in tables.entries(TABLE)]


def parse(text: str) -> Cells:
    return dict(re.findall(r"^(\S+/\S+/\S+ \S+, \S+): (.*)$", text, re.M))


class Matrix:
    """What each host said; Linux is asked once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.table = differences()
        self._linux: Cells = {}
        self._asking = threading.Lock()

    def linux(self) -> Cells:
        with self._asking:
            if not self._linux:
                self._linux = self.ask(LINUX, ROOT)
        return self._linux

    def ask(self, host: str, who: str, *cell: str) -> Cells:
        """All cells, or one."""
        program = self.place.compiled("waiting/waits.c")
        words = [[program, str(PATIENCE_MS), *cell]] if cell else [[program, str(PATIENCE_MS), "-", "-", "-", *form] for form in FORMS]
        script = "; ".join(" ".join(f"'{word}'" for word in command) for command in words)
        text = self.place.run(host, who, ["sh", "-c", script]).text
        if host == LINUX and (failed := re.findall("^set-up failed.*$", text, re.M)):
            raise Failure(f"{len(failed)} cells could not be set up on Linux: {failed[0]}")
        return parse(text)

    def again(self, host: str, who: str, cell: str) -> tuple[str, str]:
        """A cell by itself, on Linux and there."""
        what, _, call = cell.partition(" ")
        name, number, waiter = what.split("/")
        call, _, cause = call.partition(", ")
        words = (name, call, cause, "4" if number == "-" else number, waiter)
        return tuple(self.ask(one, as_whom, *words).get(cell, "nothing") for one, as_whom in ((LINUX, ROOT), (host, who)))

    def explained(self, host: str, cell: str, linux: str, weft: str) -> str | None:
        return next((one.id for one in self.table if one.explains(host, cell, linux, weft)), None)

    def check(self, host: str, who: str) -> tuple[str, set[str]]:
        """Failure, or how many cells; and the rows that were needed."""
        linux, weft = self.linux(), self.ask(host, who)
        used, wrong, again = set(), [], 0
        for cell, wanted in linux.items():
            found = weft.get(cell, "nothing")
            if found == wanted:
                continue
            row = self.explained(host, cell, wanted, found)
            again += row is None
            for _ in range(ASKED):
                if row or wanted == found:
                    break
                # Of Linux, too, it may have been chance, and then it is not asked for again by the next that compares.
                linux[cell], found = self.again(host, who, cell)
                wanted = linux[cell]
                row = self.explained(host, cell, wanted, found)
            if row:
                used.add(row)
            elif wanted != found:
                wrong.append(f"{cell}: {wanted} on Linux, here {found}")
        if wrong:
            raise Failure(f"{len(wrong)} of {len(linux)} cells differ and stand in no row:\n" + "\n".join(wrong[:60]))
        return f"{len(linux)} cells, {again} asked again, {len(used)} rows of docs/compatibility.md", used

    def host(self, host: str) -> str:
        """A host, and that each entry for it is needed."""
        needed: set[str] = set()
        said = ""
        for number in range(REPEATS):
            said, used = self.check(host, WHO[number % 2])
            needed |= used
            if FULL:
                print(f"    {host}, {number + 1} of {REPEATS}, as {WHO[number % 2]}: {said}", flush=True)
        if idle := {one.id for one in self.table if host in one.hosts and not one.by_chance} - needed:
            raise Failure(f"no cell of {host} needs these rows any more: {', '.join(sorted(idle))}")
        return said

    def page(self) -> str:
        """Writes docs/waits.md, or says whether it has all cells."""
        text = written(self.linux(), self.table)
        if os.environ.get("WRITE"):
            PAGE.write_text(text)
        there = set(re.findall(r"^\| `(\S+)` \|", PAGE.read_text(), re.M))
        if there != set(re.findall(r"^\| `(\S+)` \|", text, re.M)):
            raise Failure("docs/waits.md has other causes than waiting/waits.c: WRITE=1 make test-waits")
        return f"{len(there)} causes"


INTRODUCTION = """# What a waiting call comes to

A thread waits in a call, another one does something. `make test-waits` asks Linux, `weft run`, `weft run --strict` and a
node, for each call and each cause, over IPv4 and IPv6, by a thread and by another process. Below is what Linux says to a
thread over IPv4 (written by `WRITE=1 make test-waits` on Linux {release}).

*waits* means that the cause does not end the call; `> 8` is what it comes to when there is something for it afterwards,
and *waits on* that nothing was. `a part` is some of what was to be sent. A raised letter says where weft differs: ⁿ with
notify, ˢ below `--strict`, ᵛ in a node. The rows of [compatibility.md](compatibility.md) that say how are below each table.
"""
MARKS = {NOTIFY: "ⁿ", STRICT: "ˢ", NODE: "ᵛ"}


def written(linux: Cells, table: list[Difference]) -> str:
    """The page: a table for each object, its causes down and its calls across."""
    text = INTRODUCTION.format(release=".".join(os.uname().release.split(".")[:2]))
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for cell, said in linux.items():
        what, _, call = cell.partition(" ")
        name, number, who = what.split("/")
        call, _, cause = call.partition(", ")
        if who == "thread" and number != "6":
            tables.setdefault(name, {}).setdefault(cause, {})[call] = said
    for name, causes in sorted(tables.items()):
        calls = sorted({call for row in causes.values() for call in row})
        ids: set[str] = set()
        text += f"\n## {name}\n\n| cause | {' | '.join(calls)} |\n|{'---|' * (len(calls) + 1)}\n"
        for cause, row in sorted(causes.items()):
            shown = []
            for call in calls:
                said = row.get(call, "")
                marks = ""
                for host in WEFT:
                    found = [one.id for one in table if host in one.hosts and one.cells.fullmatch(f"{name}/thread {call}, {cause}")
                             and one.linux.fullmatch(said)]
                    marks += MARKS[host] if found else ""
                    ids |= set(found)
                shown.append(said.replace("waits, then ", "> ").replace("|", " ").replace(", before that", "") + marks)
            text += f"| `{cause}` | {' | '.join(shown)} |\n"
        if ids:
            text += "\nRows: " + ", ".join(f"`{one}`" for one in sorted(ids)) + ".\n"
    return wrap(text)


def rows(place: Place) -> dict:
    matrix = Matrix(place)
    found = {host: (lambda host=host: matrix.host(host)) for host in WEFT}
    return found | {"page": matrix.page}
