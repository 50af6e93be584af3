"""docs/foreign-suites.md: what each suite came to, and each loss with its row."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from harness import paths
from harness.lint.pages import wrap
from harness.processes import Failure
from hosts.place import NODE, NOTIFY, STRICT

from .differences import Difference, Verdicts
from .suite import PASSED, SKIPPED, Suite

PAGE = paths.ROOT / "docs" / "foreign-suites.md"
NAMES = {NOTIFY: "`weft run`", STRICT: "`--strict`", NODE: "a node"}
INTRODUCTION = """# Tests of others

Suites that nobody has tuned to weft: `make test-foreign` runs each of their tests by itself natively, under `weft run`,
`weft run --strict` and in a node, and wants the same verdict everywhere. Natively a test has a network namespace with
nothing but its loopback, as weft's stacks have no interface either; it runs as root. A test that fails natively is not
compared (it wants another host than that, or another version of what it tests), and neither is one that is skipped
there and passes on weft. What differs otherwise is lost, and stands below with its row of
[compatibility.md](compatibility.md).

This page is what `WRITE=1 make test-foreign` came to on Linux {release}.

## Verdicts

| suite | passed natively | skipped | not compared | lost under `weft run` | below `--strict` | in a node |
|---|---|---|---|---|---|---|
"""
LOSSES = """
## What is lost

Some are lost in some runs only (by chance).

| suite | tests | where | row | why |
|---|---|---|---|---|
"""


class Compared(Protocol):
    """A suite with what it came to."""

    suite: Suite
    lost: Mapping[str, Mapping[str, str]]

    def verdicts(self) -> Verdicts: ...


def written(done: Sequence[Compared], table: list[Difference]) -> str:
    text = INTRODUCTION.format(release=".".join(os.uname().release.split(".")[:2]))
    for one in done:
        verdicts = list(one.verdicts().values())
        passed, skipped = verdicts.count(PASSED), verdicts.count(SKIPPED)
        lost = " | ".join(str(len(one.lost.get(host, ()))) for host in (NOTIFY, STRICT, NODE))
        text += f"| `{one.suite.name}`: {one.suite.what} | {passed} | {skipped} | {len(verdicts) - passed - skipped} | {lost} |\n"
    text += LOSSES
    for entry in table:
        # What the run has shown, or the entry's own words where chance has not.
        tests = sorted({test for one in done for host in entry.hosts for test in one.lost.get(host, ()) if entry.explains(one.suite.name, host, test)})
        where = ", ".join(NAMES[host] for host in NAMES if host in entry.hosts)
        shown = ", ".join(f"`{test}`" for test in whole(tests)) or f"`{entry.tests.pattern}`".replace("|", "\\|")
        chance = " (by chance)" if entry.by_chance else ""
        text += f"| `{entry.suite}` | {shown}{chance} | {where} | `{entry.id}` | {entry.reason} |\n"
    return wrap(text)


def whole(tests: list[str]) -> list[str]:
    """Without the parts of tests that are there themselves."""
    return [test for test in tests if not any(test.startswith(f"{other}/") for other in tests)]


def entries(text: str) -> set[tuple[str, ...]]:
    """Suite, row and reason of each loss on the page."""
    return {(found[1], found[2], found[3]) for found in re.finditer(r"^\| `(\S+)` \| .* \| `([\w-]+)` \| (.*) \|$", text, re.M)}


def check(done: Sequence[Compared], table: list[Difference]) -> str:
    """Writes the page, or says whether it has all entries."""
    text = written(done, table)
    if os.environ.get("WRITE"):
        PAGE.write_text(text)
    if not PAGE.exists() or entries(PAGE.read_text()) != entries(text):
        raise Failure("docs/foreign-suites.md has other losses than differences.toml: WRITE=1 make test-foreign")
    return f"{len(table)} entries"
