"""What programs ask of sockets and descriptors beside data: each script prints the same on every host, but for lines that stand in a row.

A script is a twin body in Python: it talks to itself over the loopback and prints what each call comes to. `options.toml` has the lines that differ,
with the row of docs/compatibility.md.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading

from harness import differences as tables
from harness import paths, same_host
from harness.processes import Failure

from .place import FULL, HERE, LINUX, ROOT, STRICT, USER, WEFT, WHO, Place

SCRIPTS = (
    "splices.py",
    "lengths.py",
    "edges.py",
    "controls.py",
    "ioctls.py",
    "records.py",
    "netlinks.py",
    "peers.py",
    "tries.py",
    "binds.py",
    "ports.py",
    "again.py",
    "woken.py",
    "lingers.py",
    "grown.py",
    "times.py",
    "scopes.py",
    "ends.py",
    "sizes.py",
    "layouts.py",
    "blocked.py",
    "queues.py",
    "shares.py",
    "dates.py",
    "closes.py",
    "firsts.py",
    "lites.py",
    "rings.py",
    "clones.py",
    "filters.py",
    "wholes.py",
    "forks.py",
    "excepts.py",
    "limits.py",
    "tasks.py",
    "floors.py",
    "written.py",
    "deaths.py",
    "resident.py",
    "restarts.py",
    "shuts.py",
    "thrown.py",
    "corners.py",
    "setters.py",
    "dissolved.py",
    "nothings.py",
    "states.py",
    "filecalls.py",
    "multipath.py",
    "managers.py",
    "subflows.py",
)
# Those about Multipath TCP: on a stack that has it, with this path manager.
MULTIPATH = {"multipath.py": "all", "managers.py": "userspace", "subflows.py": "userspace"}
TABLE = HERE / "options.toml"
SHOWN = 20
# What weft's loader takes of a limit of memory, at most.
LOADER_BYTES_MAX = 3 << 30


@dataclasses.dataclass(frozen=True)
class Difference:
    """An entry of options.toml: a line that Linux says, and what is said there, whole lines both."""

    id: str
    script: str
    hosts: tuple[str, ...]
    linux: re.Pattern[str]
    weft: str

    def wanted(self, line: str) -> str | None:
        """What a host says in place of this line."""
        found = self.linux.fullmatch(line)
        return found.expand(self.weft) if found else None


def differences() -> list[Difference]:
    return [
        Difference(entry["id"], entry["script"], tuple(entry["hosts"]), re.compile(entry["linux"]), entry["weft"])
        for entry in tables.entries(TABLE)
    ]


def replaced(linux: list[str], table: list[Difference]) -> list[str]:
    """What Linux says, as it is said on a host with these differences. Each must be needed."""
    needed: set[Difference] = set()
    out = []
    for line in linux:
        one, text = next(((one, text) for one in table if (text := one.wanted(line)) not in (None, line)), (None, line))
        out.append(text)
        needed |= {one} if one else set()
    if idle := [one for one in table if one not in needed]:
        raise Failure(f"Linux says nothing that these are about: {'; '.join(f'{one.id} {one.linux.pattern}' for one in idle)}")
    return out


class Scripts:
    """What each script says on Linux, which is asked once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.place.script("answers.py")
        self.place.script("generic.py")
        self._linux: dict[str, list[str]] = {}
        # A script runs once at a time: through notify and below --strict its abstract unix names are this machine's.
        self._one = {script: threading.Lock() for script in SCRIPTS}

    def linux(self, script: str) -> list[str]:
        if script not in self._linux:
            self._linux[script] = self.place.run(LINUX, ROOT, self.place.script(script), multipath=MULTIPATH.get(script, "")).lines()
        return self._linux[script]

    def body(self, script: str, host: str) -> str:
        """The script's lines there, as root and as a user; in the short form as one of them, and over the hosts as both."""
        with self._one[script]:
            return self._body(script, host)

    def _body(self, script: str, host: str) -> str:
        table = [one for one in differences() if one.script == script and host in one.hosts]
        linux = self.linux(script)
        wanted = replaced(linux, table)
        command = self.place.script(script)
        turn = SCRIPTS.index(script) + WEFT.index(host)
        for who in WHO if FULL else [WHO[turn % len(WHO)]]:
            found = same_host.ask(lambda who=who: self.place.run(host, who, command, multipath=MULTIPATH.get(script, ""))).lines()
            if found != wanted:
                wrong = [f"{one!r}\n    here {other!r}" for one, other in zip(wanted, found) if one != other]
                raise Failure(f"{host}, {who}: {len(found)} lines of {len(wanted)}, {len(wrong)} differ:\n" + "\n".join(wrong[:SHOWN]))
        differ = sum(one != other for one, other in zip(linux, wanted, strict=True))
        return f"{len(wanted)} lines, {differ} of them in rows"


def started_with(place: Place) -> str:
    """Below --strict a program has the soft limits of memory that weft was started with, and no higher hard ones; a user's are lower (strict-limits)."""
    soft, hard = 4_000_000_000, 8_000_000_000
    names = ("AS", "DATA")
    says = "import resource; print(*(word for name in ('AS', 'DATA') for word in resource.getrlimit(getattr(resource, 'RLIMIT_' + name))))"
    before = (paths.tool("prlimit"), *(f"--{name.lower()}={soft}:{hard}" for name in names))
    for host, who in itertools.product((LINUX, STRICT), WHO):
        process = place.start(host, who, [paths.PYTHON, "-ISc", says], before=before)
        if status := process.wait(60):
            raise Failure(f"{host}, {who}: exit status {status}: {process.stderr[-1500:]}")
        found = [int(word) for word in process.stdout.split()]
        softs, hards = found[::2], found[1::2]
        less = [hard - one for one in hards]
        allowed = range(1) if host == LINUX else range(1, LOADER_BYTES_MAX) if who == USER else range(LOADER_BYTES_MAX)
        if softs != [soft] * len(names) or not all(one in allowed for one in less):
            raise Failure(f"{host}, {who}: {found}")
    return "as set, and a user's hard limits less what the loader takes"


def rows(place: Place) -> dict:
    scripts = Scripts(place)
    return {"strict/started with limits": lambda: started_with(place)} | {
        f"{host}/{script.removesuffix('.py')}": (lambda host=host, script=script: scripts.body(script, host)) for host in WEFT for script in SCRIPTS
    }
