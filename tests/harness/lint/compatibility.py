"""docs/compatibility.md: each row has an id of its own and a proof, and what a proof names is there.

The last cell of a row, "asserted by", has proofs in code, and words beside them:

- twins: the twins' table, adapter-differences.toml, has the row's id (`make test-twins` wants each of its lines to differ);
- `FILE::TEST`: one test of a crate, in a file or folder of that name. A name that ends with … is the only one that begins so;
- `make TARGET: ROW`: a row of that target, or with … all that begin so; `make TARGET`: the target's own table has the row's id.

Only what `make test` runs counts: no test that is ignored by default, no target that is not in_ci. Rows of the table of iproute2 are scripts of
tests/iproute2, which fail when they do not differ. Items of the list "Around the program" are rows, too: an id, and "Proof:" at their end.

One of the proofs asks both sides, Linux and weft, by one body: the twins, a target of BOTH_SIDES, or a part of one. Rows of ONE_SIDE have none, and a
reason each; none may stand there that has a proof of both sides, or is gone.

docs/compatibility-before.md says what became of the rows that there were before the rule, and why: none may be lost without a word.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

from .. import paths
from . import Skip

DOCUMENT = "docs/compatibility.md"
PROOFS = "asserted by"
SCRIPTS = "script"
# The one list whose items are rows.
LIST = "Around the program"
TWINS = "twins"
# Rows that have no proof yet. None may be added, and one that has a proof may not stay.
WITHOUT: frozenset[str] = frozenset()
# What runs one body natively and on weft, and compares: whole targets, rows of others by how they begin, and files of Rust tests.
BOTH_SIDES = frozenset({"test-rows", "test-waits", "test-options", "test-descriptors", "test-iproute2", "test-tcp-scripts"})
ROWS_OF_BOTH_SIDES = {
    "test-clocks": ("linux/",), "test-determinism": ("as natively/", "answers/"), "test-packets": ("refusals", "loops"),
    "test-faults": ("late pages/", "stack lost/"), "test-valgrind": ("sanitizer/leaks",)}
FILES_OF_BOTH_SIDES = frozenset({"differences"})
# Rows whose proofs show weft's side alone, and why.
ONE_SIDE: dict[str, str] = {
    "not-looked-into": "about weft's right to look into a process",
    "weft-in-weft": "about weft itself",
    "made-unreadable": "about weft's right to look into a process",
    "no-boundary": "about what weft does not keep apart",
    "masqueraded": "weft's own masquerading",
    "leased-unprobed": "weft's own DHCP client",
    "linux-nodes": "about weft's own words",
    "disk": "Linux' side is a crash of the machine",
    "pipes": "Linux' side is what a machine's other users do",
    "mounts": "about weft's own setting",
    "hosts-settings": "about weft's own mounts, where there is no /dev/fuse",
    "stuck": "Linux' side is a wait without an end",
    "host-limits": "Linux' side is what a machine's other users do",
    "host-descriptors": "about weft's own limit of descriptors",
    "exec": "about weft's own command",
    "own-blocks": "about weft's own blocks",
    "mptcp-receive-buffer": "Linux' side is a bound that no socket option tells (mptcp_rcv_space_adjust)",
}
# What became of the rows of that commit, the last one without the rule.
BEFORE = "docs/compatibility-before.md"
SINCE = "c3a0e3123a53017a3fec9698b489f333f338cde4"
# How rows begin that had no id then, and say something else now.
NAMED = {
    "changing interfaces, routes, ARP by ioctl": "no-interface-ioctl",
    "on INET (and PACKET, …) sockets that the program got from outside, as a standard stream or over a unix socket: every call but plain reads and writes":
        "hosts-sockets",
    "`/proc/net/*`, `/proc/sys/net/*` and `/sys/class/net` are still the host's": "hosts-proc-net",
    "`/proc/sys/net` is read-only": "hosts-settings",
    "**weft keeps programs from reaching the host's network by accident.": "no-boundary",
}

_CODE = re.compile(r"`([^`]+)`")
_CELL = re.compile(r"(?<!\\)\|")
_ID = re.compile(r"`([a-z0-9-]+)`")
_ITEM = re.compile(r"- (?:`([a-z0-9-]+)`: )?(.*?)(?: Proof: (.*))?")
_BRACKETS = re.compile(r" \((?:below: )?`[^`]+`\)")
_MAKE = re.compile(r"make ([a-z0-9-]+)(?:: (.+))?")
_TEST = re.compile(r"((?:[a-z0-9_]+::)+)([a-z0-9_]*)(…?)")
_RUST_TEST = re.compile(r"#\[test\]\s*((?:#\[[^\]]*\]\s*|//[^\n]*\n\s*)*)(?:pub )?fn (\w+)")
_RECIPE = re.compile(r"\$\(PYTHON\) -m (\w+)(?: ([a-z-]+))?")


@dataclasses.dataclass(frozen=True)
class Row:
    """A difference: what the page says of it, and its proofs."""

    id: str
    section: str
    said: tuple[str, ...]
    proofs: str
    line: int


def rows(text: str) -> tuple[list[Row], list[str]]:
    """The rows of the page, and tables that have no column for proofs."""
    found, findings, section = [], [], ""
    for first, block in _blocks(text):
        if block[0].startswith("#"):
            section = block[0].lstrip("# ")
        elif block[0].startswith("|"):
            header = _cells(block[0])
            if header[-1] != PROOFS and header[0] != SCRIPTS:
                findings.append(f"{DOCUMENT}:{first}: a table without a column {PROOFS!r}")
            found += [_row(section, header, _cells(line), first + number) for number, line in enumerate(block) if number > 1]
        elif block[0].startswith("- ") and section == LIST:
            id, said, proofs = _ITEM.fullmatch(" ".join(line.strip() for line in block)).groups(default="")
            found.append(Row(id, section, (said,), proofs, first))
    return found, findings


def _row(section: str, header: list[str], cells: list[str], line: int) -> Row:
    id = _ID.fullmatch(cells[0])
    name = id.group(1) if id else ""
    said = cells[1 if id else 0:]
    if header[0] == SCRIPTS:
        return Row(name, section, tuple(said), f"`make test-iproute2: {name}`", line)
    proven = header[-1] == PROOFS and len(cells) == len(header)
    return Row(name, section, tuple(said[:-1] if proven else said), said[-1] if proven else "", line)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _CELL.split(line.strip())[1:-1]]


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Headings, tables and items with the number of their first line."""
    block: list[str] = []
    first = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        goes_on = block and (line.startswith("|") if block[0].startswith("|") else line.startswith("  ") and block[0].startswith("- "))
        if goes_on:
            block.append(line)
            continue
        if block:
            yield first, block
        block, first = ([line] if line.startswith(("#", "|", "- ")) else []), number


def rust_tests(root: Path) -> list[tuple[frozenset[str], str]]:
    """Tests of the crates that `cargo test` runs, each with the parts of its file's path."""
    found: list[tuple[frozenset[str], str]] = []
    for file in sorted((root / "crates").rglob("*.rs")):
        where = file.relative_to(root).with_suffix("").parts
        found += [(frozenset([*where, "tests"]), test.group(2))
                  for test in _RUST_TEST.finditer(file.read_text()) if "ignore" not in test.group(1)]
    return found


class Proofs:
    """What there is that a proof can name."""

    def __init__(self, root: Path = paths.ROOT) -> None:
        self.root = root
        self.twins = {one["id"] for one in tomllib.loads((root / "tests/twins/adapter-differences.toml").read_text())["difference"]}
        self.targets = {row["name"]: row["in_ci"] for row in tomllib.loads((root / "tests/targets.toml").read_text())["target"]}
        self.makefile = (root / "Makefile").read_text()
        self.tests = rust_tests(root)

    def wrong(self, row: Row) -> list[str]:
        """What is wrong with the proofs of a row."""
        named = _CODE.findall(row.proofs)
        findings = [finding for proof in named if (finding := self._wrong(row.id, proof))]
        if row.proofs.startswith(TWINS):
            if row.id not in self.twins:
                findings.append("the twins' table has no such id")
        elif not named:
            findings.append("no proof")
        return findings

    def both_sides(self, row: Row) -> bool:
        """Does one of them ask Linux and weft by one body?"""
        return row.proofs.startswith(TWINS) or any(map(self._both_sides, _CODE.findall(row.proofs)))

    def _both_sides(self, proof: str) -> bool:
        if made := _MAKE.fullmatch(proof):
            target, name = made.group(1), made.group(2) or ""
            return target in BOTH_SIDES or name.startswith(ROWS_OF_BOTH_SIDES.get(target, ()) or "\0")
        test = _TEST.fullmatch(proof)
        return bool(test) and not FILES_OF_BOTH_SIDES.isdisjoint(test.group(1).split("::"))

    def _wrong(self, id: str, proof: str) -> str:
        if made := _MAKE.fullmatch(proof):
            return self._target(id, *made.groups())
        if test := _TEST.fullmatch(proof):
            return self._test(proof, *test.groups())
        return f"`{proof}` is no proof: `FILE::TEST`, `make TARGET: ROW` or `make TARGET`"

    def _test(self, proof: str, modules: str, name: str, begins: str) -> str:
        where = set(modules.split("::")) - {""}
        found = [test for parts, test in self.tests if where <= parts and (test.startswith(name) if begins else test == name)]
        return "" if len(found) == 1 else f"`{proof}` names {len(found)} tests that `cargo test` runs"

    def _target(self, id: str, target: str, name: str | None) -> str:
        if not self.targets.get(target):
            return f"`make {target}` is not a target that `make test` runs"
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", self.makefile, re.M)
        modules = _RECIPE.findall(recipe.group(1)) if recipe else []
        if name is None:
            # A module of several targets has the table of each under its name.
            text = "".join(self._text(module, f"{part or '*'}.*") for module, part in modules)
            return "" if re.search(rf"""["'`\s]{id}["'`:\s]""", text) else f"`make {target}` has no table with this id"
        text = "".join(self._text(module, "*") for module, _ in modules)
        # Rows of Python functions are called as these are, with dashes.
        missing = [part for part in re.split(r"[/…]", name)
                   if part and not any(re.search(rf"(?<![\w-]){re.escape(one)}", text) for one in (part, part.replace("-", "_")))]
        return f"`make {target}` has no row {name}: {', '.join(missing)} stands nowhere in it" if missing else ""

    def _text(self, module: str, pattern: str) -> str:
        folder = self.root / "tests" / module
        return "\n".join(file.read_text(errors="replace") for file in sorted(folder.glob(pattern)) if file.is_file())


def check(root: Path = paths.ROOT, without: frozenset[str] = WITHOUT, one_side: Collection[str] | None = ONE_SIDE) -> list[str]:
    """Findings about the page's rows and their proofs. `one_side`: None looks at that in no row."""
    all_rows, findings = rows((root / DOCUMENT).read_text())
    proofs = Proofs(root)
    seen: set[tuple[str, bool]] = set()
    open_ids, of_one_side = set(), set()
    for row in all_rows:
        place = f"{DOCUMENT}:{row.line}: {row.id or row.said[0][:40]}"
        # Scripts of iproute2 have names of their own.
        key = (row.id, row.section == "iproute2")
        if not row.id:
            findings.append(f"{place}: a row without an id")
        elif key in seen:
            findings.append(f"{place}: the id stands twice")
        seen.add(key)
        wrong = proofs.wrong(row)
        if wrong and row.id in without:
            open_ids.add(row.id)
        else:
            findings += [f"{place}: {finding}" for finding in wrong]
            if one_side is not None and not wrong and not proofs.both_sides(row):
                of_one_side.add(row.id)
                if row.id not in one_side:
                    findings.append(f"{place}: its proofs show weft's side alone; one body asks Linux, too, or ONE_SIDE says why not")
    findings += [f"{DOCUMENT}: {id} has a proof of both sides, or is gone: take it out of ONE_SIDE" for id in sorted(set(one_side or ()) - of_one_side)]
    return findings + [f"{DOCUMENT}: {id} has a proof, or is gone: take it out of the list of rows without" for id in sorted(without - open_ids)]


UNCHANGED, CHANGED, REMOVED, NEW = "unchanged", "narrowed", "removed", "new"
# Says what was so before, too, and nobody knew: for people to say instead of "narrowed".
CORRECTED = "corrected"
ADVICE = "`PYTHONPATH=tests python3 -m harness.lint.compatibility` writes it, without the reasons"


def verdicts(before: str, now: str) -> dict[str, str]:
    """What became of each row of before, and those that are new; rows without an id have the one of the row that says the same now."""
    old, new = rows(before)[0], rows(now)[0]
    by_text = {(row.section, _plain(row.said)): row.id for row in new}
    names = {row.id: row for row in new}
    found = {}
    for row in old:
        id = row.id or by_text.get((row.section, _plain(row.said)), _named(row.said[0]))
        same = id in names and _plain(names[id].said) == _plain(row.said)
        found[id] = UNCHANGED if same else CHANGED if id in names else REMOVED
    return found | {row.id: NEW for row in new if row.id not in found}


def _named(said: str) -> str:
    """The id of a row that had none, or what it says if it has none now either."""
    return next((id for begins, id in NAMED.items() if said.startswith(begins)), said)


def _plain(said: tuple[str, ...]) -> str:
    """What it says, without names of tests and other rows in brackets, and however it is broken into lines."""
    return " ".join(_BRACKETS.sub("", " | ".join(said)).split())


def written(page: str) -> dict[str, tuple[str, str]]:
    """The rows of the page of before: what became of each, and why."""
    return {cells[0].strip("`"): (cells[1], cells[2]) for line in page.splitlines() if line.startswith("| `") and len(cells := _cells(line)) == 3}


def check_before(root: Path = paths.ROOT, since: str = SINCE) -> list[str]:
    """Findings where the page of before is not what git and the page of now say, or gives no reason."""
    found = verdicts(_before(root, since), (root / DOCUMENT).read_text())
    said = {id: (CHANGED if what == CORRECTED else what, why) for id, (what, why) in written((root / BEFORE).read_text()).items()}
    findings = [f"{BEFORE}: {id} is {found.get(id, 'nowhere')}, and the page says {said.get(id, ('nothing',))[0]}: {ADVICE}"
                for id in sorted(found.keys() | said.keys()) if found.get(id) != said.get(id, ("",))[0]]
    return findings + [f"{BEFORE}: {id} is {what}, and nothing says why" for id, (what, why) in said.items() if what != UNCHANGED and not why]


def _before(root: Path, since: str) -> str:
    run = subprocess.run([*paths.GIT, "show", f"{since}:{DOCUMENT}"], cwd=root, capture_output=True, text=True, timeout=60)
    if run.returncode != 0:
        raise Skip(f"{since} is not in this clone, so nobody knows which rows there were; fetch the whole history")
    return run.stdout


def write(root: Path = paths.ROOT, since: str = SINCE) -> None:
    """Writes the table of the page of before; reasons stay."""
    page = (root / BEFORE).read_text()
    reasons = written(page)
    found = verdicts(_before(root, since), (root / DOCUMENT).read_text())
    corrected = {id for id, (what, _) in reasons.items() if what == CORRECTED}
    lines = [f"| `{id}` | {CORRECTED if what == CHANGED and id in corrected else what} | {reasons.get(id, ('', ''))[1]} |" for id, what in found.items()]
    (root / BEFORE).write_text(page.partition("| row |")[0] + "\n".join(["| row | now | why |", "|---|---|---|", *lines]) + "\n")


if __name__ == "__main__":
    write()
