"""Two hosts' transcripts of the twin bodies, and the differences that are allowed between them.

A transcript is what `socket-twins` prints: `== topic/name`, then one line a step, `step -> result`. The table of differences,
adapter-differences.toml, lists for each row of docs/compatibility.md which lines of which bodies it explains:

    [[difference]]
    id = "…"                        the row's
    linux = "…"                     what Linux does
    weft = "…"                      what the notify adapter does
    why = "…"
    only = "user"                   optional: holds only for a program without privilege ("root": only with)
    rewrite = { step = "poll ", from = "…", to = "…" }      optional: Linux's results of these steps, rewritten, are what is expected

    [difference.message]            bodies run with sendmsg and recvmsg;  [difference.plain]: with send and recv
    "states/dissolved" = ["11 poll S -> Linux's result => weft's result"]      the number counts the body's lines from 1

Everything is exact both ways: a difference that is not listed is a failure, and so is a listed one that is none. A body in another form
(`states-ipv6/dissolved`, `states-mapped/dissolved`) differs in the lines, and to the results, in which its IPv4 form does, unless the
table has lines of its own for it.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

VARIANTS = ("message", "plain")
Transcripts = dict[str, list[str]]


@dataclasses.dataclass(frozen=True)
class Rewrite:
    """How all results of a kind of step differ."""

    step: str
    pattern: re.Pattern[str]
    to: str

    def apply(self, line: str) -> str:
        step, arrow, result = line.partition(" -> ")
        return step + arrow + self.pattern.sub(self.to, result) if step.startswith(self.step) else line


@dataclasses.dataclass(frozen=True)
class Difference:
    """One entry of the table."""

    id: str
    rewrite: Rewrite | None
    # "root", "user", or empty for both
    only: str
    # variant → body → lines
    lines: dict[str, dict[str, list[str]]]


def parse(text: str) -> Transcripts:
    """Transcripts by body."""
    found: Transcripts = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("== "):
            lines = found.setdefault(line[3:], [])
        elif lines is not None:
            lines.append(line)
    return found


def read_table(path: Path) -> list[Difference]:
    """The table; ValueError when an entry lacks something."""
    found = []
    for entry in tomllib.loads(path.read_text())["difference"]:
        for key in ("id", "linux", "weft", "why"):
            if not entry.get(key):
                raise ValueError(f"{path.name}: {entry.get('id', '?')} has no '{key}'")
        rewrite = entry.get("rewrite")
        found.append(Difference(
            entry["id"],
            Rewrite(rewrite["step"], re.compile(rewrite["from"]), rewrite["to"]) if rewrite else None,
            entry.get("only", ""),
            {variant: entry.get(variant, {}) for variant in VARIANTS},
        ))
    ids = [difference.id for difference in found]
    if len(set(ids)) != len(ids):
        raise ValueError(f"{path.name}: an id is there twice")
    for difference in found:
        if difference.rewrite is None and not any(difference.lines.values()):
            raise ValueError(f"{path.name}: {difference.id} explains no line")
    return found


def differing(linux: list[str], weft: list[str], rewrites: list[Rewrite]) -> list[str]:
    """The lines of a body that differ, as the table writes them."""
    found = []
    for number in range(max(len(linux), len(weft))):
        one = linux[number] if number < len(linux) else "(nothing)"
        other = weft[number] if number < len(weft) else "(nothing)"
        expected = one
        for rewrite in rewrites:
            expected = rewrite.apply(expected)
        if expected != other:
            step = one.partition(" -> ")[0]
            result = other.removeprefix(f"{step} -> ")
            found.append(f"{number + 1} {one} => {result}")
    return found


FORMS = ("-ipv6", "-mapped")


def of_ipv4(body: str) -> str | None:
    """The body of which this one is another form; None: it is none."""
    topic, _, name = body.partition("/")
    return next((f"{topic.removesuffix(form)}/{name}" for form in FORMS if topic.endswith(form)), None)


def essence(line: str) -> str:
    """A difference without its step, addresses as in the IPv4 form: the same for all forms of a body."""
    number, _, rest = line.partition(" ")
    results = rest.partition(" -> ")[2]
    for form, ipv4 in (("[::1]:", "127.0.0.1:"), ("[::]:", "0.0.0.0:"), ("[::ffff:", ""), ("]:", ":")):
        results = results.replace(form, ipv4)
    return f"{number} {results}"


def compare_form(body: str, found: list[str], listed: list[tuple[str, str]]) -> list[str]:
    """What is wrong with a form whose IPv4 body has the `listed` differences (with their ids)."""
    theirs, ours = {essence(line) for line, _ in listed}, {essence(line) for line in found}
    wrong = [f"not in the table for {of_ipv4(body)}: {line}" for line in found if essence(line) not in theirs]
    return wrong + [f"{id} lists it for {of_ipv4(body)}, but it is not so: {line}" for line, id in listed if essence(line) not in ours]


def check(who: str, variant: str, linux: Transcripts, weft: Transcripts, table: list[Difference]) -> dict[str, list[str]]:
    """What is wrong, by body (and `id` for a rewrite that never applied), when `who` ran the bodies in this variant."""
    table = [difference for difference in table if difference.only in ("", who)]
    rewrites = [difference.rewrite for difference in table if difference.rewrite]
    wrong: dict[str, list[str]] = {}
    forms = any(of_ipv4(body) for body in linux)
    # The short form runs neither other forms nor the topics of IPv6's own.
    topics = {body.partition("/")[0] for body in linux}
    listed_bodies = {body for d in table for body in d.lines[variant] if forms or body.partition("/")[0] in topics}
    for body in sorted({*linux, *weft, *listed_bodies}):
        if body not in linux or body not in weft:
            wrong[body] = ["there is no such body" if body not in {*linux, *weft} else "only one host ran it"]
            continue
        found = differing(linux[body], weft[body], rewrites)
        base = of_ipv4(body)
        if base and body not in listed_bodies:
            wrong[body] = compare_form(body, found, [(line, d.id) for d in table for line in d.lines[variant].get(base, [])])
            continue
        listed = [(line, difference.id) for difference in table for line in difference.lines[variant].get(body, [])]
        wrong[body] = [f"not in the table: {line}" for line in found if line not in [line for line, _ in listed]]
        wrong[body] += [f"{id} lists it, but it is not so: {line}" for line, id in listed if line not in found]
        if len({line for line, _ in listed}) != len(listed):
            wrong[body].append("a line is listed twice")
    for difference in table:
        rewrite = difference.rewrite
        if rewrite and not any(rewrite.apply(line) != line for lines in linux.values() for line in lines):
            wrong[difference.id] = ["its rewrite applies to no line"]
    return {body: lines for body, lines in wrong.items() if lines}


_ROW = re.compile(r"^\| `([a-z0-9-]+)` \|(.*)\|$")


def documented_ids(text: str) -> set[str]:
    """The ids of docs/compatibility.md's rows that name the twins as their assertion."""
    rows = (_ROW.match(line) for line in text.splitlines())
    return {row[1] for row in rows if row and row[2].rpartition("|")[2].strip().startswith("twins")}


def check_ids(document: str, table: list[Difference]) -> list[str]:
    """Where the document and the table disagree."""
    documented, listed = documented_ids(document), {difference.id for difference in table}
    return [f"{id}: in docs/compatibility.md, but not in the table" for id in sorted(documented - listed)] + \
        [f"{id}: in the table, but no row of docs/compatibility.md says 'twins'" for id in sorted(listed - documented)]
