"""Rows of docs/compatibility.md, asked on Linux and on each host of weft's: rows.toml has both columns of each line that differs, and no other may.

A script prints `what | how | answer` for each thing that it tries. An entry of rows.toml is a row of the page: all its lines say natively what
`linux` has and on its hosts what `weft` has, and one of them differs. So a row that is no longer true fails, and so does one that says too much.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
from typing import Callable

from harness import differences, paths
from harness.processes import Failure

from . import outside
from .place import HERE, LINUX, NODE, NOTIFY, ROOT, STRICT, USER, Place

TABLE = HERE / "rows.toml"
# What is not usual, for what it starts.
SHELL = ("nice", "-n", "5", "sh", "-c", "umask 077; ulimit -S -s 4096; ulimit -S -c 1000; trap '' USR1; exec \"$@\"", "sh")
# What a node says of a program that wants more threads than there can be.
THREADS_TOLD = "fork met a limit of the host"
# Each script with the hosts on which it runs, and as whom. executing.py becomes somebody else, which only root may; threads.py and crowds.py take
# long.
BOTH = (ROOT, USER)
# Scripts that are handed over as text: a node has no file of theirs.
AS_TEXT = ("disks.py",)
SCRIPTS: dict[str, dict[str, tuple[str, ...]]] = {
    "lacking.py": {NOTIFY: BOTH, STRICT: BOTH, NODE: BOTH},
    "executing.py": {NOTIFY: (ROOT,), STRICT: (ROOT,), NODE: BOTH},
    "signalled.py": {NOTIFY: (ROOT,), STRICT: (ROOT,), NODE: BOTH},
    "streaming.py": {NOTIFY: (ROOT,), STRICT: (ROOT,), NODE: (ROOT,)},
    "threads.py": {STRICT: (ROOT,), NODE: (ROOT,)},
    "crowds.py": {STRICT: (ROOT,)},
    "ordinary.py": {NOTIFY: BOTH, STRICT: (ROOT,), NODE: BOTH},
    "later.py": {NOTIFY: BOTH, STRICT: (ROOT,), NODE: BOTH},
    "disks.py": {NODE: BOTH},
    "machine.py": {NODE: BOTH},
    "started.py": {NODE: BOTH},
    "around.py": {NOTIFY: BOTH},
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A row of the page on some hosts: its lines, and what they say natively and there."""

    id: str
    hosts: tuple[str, ...]
    lines: re.Pattern[str]
    linux: re.Pattern[str]
    weft: re.Pattern[str]
    whos: tuple[str, ...] = BOTH
    may_be_equal: bool = False

    def holds(self, host: str, who: str, line: str) -> bool:
        return host in self.hosts and who in self.whos and bool(self.lines.fullmatch(line))


def entries() -> list[Entry]:
    return [Entry(one["id"], tuple(one["hosts"]), *(re.compile(one[key]) for key in ("lines", "linux", "weft")), tuple(one.get("as", BOTH)),
                  one.get("may_be_equal", False))
            for one in differences.entries(TABLE)]


def answers(text: str) -> dict[str, str]:
    """`what | how` with its answer."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        asked, separator, answer = line.rpartition(" | ")
        if not separator or asked in found:
            raise Failure(f"a line that says nothing, or says it twice: {line!r}")
        found[asked] = answer
    return found


class Rows:
    """The scripts' answers, natively once each."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.table = entries()
        place.script("saying.py")
        place.script("threads.py")
        place.script("streaming.py")
        unreadable = shutil.copyfile(paths.tool("true"), place.programs / "unreadable")
        unreadable.chmod(0o711)
        shutil.copyfile(paths.tool("id"), set_user_id := place.programs / "set-user-id")
        set_user_id.chmod(0o4755)
        self.linux = functools.cache(lambda script: self.ask(script, LINUX, ROOT))

    def ask(self, script: str, host: str, who: str) -> dict[str, str]:
        may_tell = THREADS_TOLD if script == "threads.py" else ""
        command = self.place.text(script, "saying") if script in AS_TEXT else [*self.place.script(script), str(self.place.weft)]
        before = SHELL if script == "started.py" else ()
        return answers(self.place.run(host, who, command, may_tell, before).text)

    def check(self, script: str, host: str, who: str) -> str:
        """Each line as Linux says it, or as its entry does."""
        linux, weft = self.linux(script), self.ask(script, host, who)
        if linux.keys() != weft.keys():
            raise Failure(f"other lines than on Linux: {sorted(linux.keys() ^ weft.keys())}")
        wrong, matched, differ = [], set(), set()
        for line, native in linux.items():
            here = weft[line]
            found = [one for one in self.table if one.holds(host, who, line)]
            if not found and here != native:
                wrong.append(f"{line}: {native} on Linux, here {here}, and no row says so")
            for one in found:
                matched.add(one)
                if not one.linux.fullmatch(native) or not one.weft.fullmatch(here):
                    wrong.append(f"{line}: {native} on Linux, here {here}; `{one.id}` says {one.linux.pattern} and {one.weft.pattern}")
                if here != native:
                    differ.add(one)
        wrong += [f"`{one.id}` is not true any more: no line of {one.lines.pattern} differs" for one in matched - differ if not one.may_be_equal]
        if wrong:
            raise Failure("\n".join(wrong))
        return f"{len(linux)} lines, {len({one.id for one in matched})} rows of docs/compatibility.md"

    def needed(self) -> str:
        """No entry is about lines that no script has."""
        lines = [line for script in SCRIPTS for line in self.linux(script)]
        if idle := {one.id for one in self.table if not any(one.lines.fullmatch(line) for line in lines)}:
            raise Failure(f"no script has a line for {', '.join(sorted(idle))}")
        return f"{len(self.table)} entries"


def as_root(body: Callable[[], str]) -> str:
    """Runs it where both hosts can be asked: a normal user's Linux refuses much of what weft has not."""
    if os.geteuid():
        raise paths.MissingTool("only root may ask Linux for sockets, namespaces and filters of every kind; runs as root")
    return body()


def rows(place: Place) -> dict[str, Callable[[], str]]:
    all_rows = Rows(place)
    found = {f"{host}/{who}/{script.removesuffix('.py')}": (lambda script=script, host=host, who=who: all_rows.check(script, host, who))
             for script, hosts in SCRIPTS.items() for host, whos in hosts.items() for who in whos}
    found |= outside.rows(place) | {"each entry is about a line": all_rows.needed}
    return {name: (lambda body=body: as_root(body)) for name, body in found.items()}
