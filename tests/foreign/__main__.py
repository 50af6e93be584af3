"""Test suites of others, which nobody has tuned to weft: each test by itself, natively and on weft, and the same verdict or a row of docs/compatibility.md.

    python3 -m foreign [SUITE…|HOST…]

Words choose suites (parts of their names) and hosts. UNITS=a,b: only these units, by regular expressions of whole names; then no entry has to be needed.
WRITE=1 writes docs/foreign-suites.md. SHOW=1 prints what lost tests said.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import sys
from collections import Counter

from harness import paths, results
from harness.environment import Environment, run_main
from harness.processes import Failure
from hosts.place import LINUX, WEFT

from . import differences, golang, libuv, nodejs, page
from .differences import Difference, Verdicts
from .hosts import Hosts
from .suite import FAILED, PASSED, SKIPPED, TIMEOUT, Suite

SUITES = golang.suites() | libuv.suites() | nodejs.suites()
# Beside each other: most wait for most of their time.
AT_ONCE = 3
# A test that fails natively is asked so many times, and so is one that differs: by itself, on both. A busy machine is no judgement.
ASKED = 3
SHOWN = 40


class Comparison:
    """One suite: what it comes to natively, and what of that is lost on each host."""

    def __init__(self, hosts: Hosts, suite: Suite, pool: concurrent.futures.Executor, table: list[Difference]) -> None:
        self.hosts, self.suite, self.pool = hosts, suite, pool
        self.table = [one for one in table if one.suite == suite.name]
        wanted = [re.compile(word) for word in os.environ.get("UNITS", "").split(",") if word]
        self.units = [unit for unit in suite.units if not wanted or any(one.fullmatch(unit) for one in wanted)]
        self.whole = not wanted
        self.native: dict[str, Verdicts] = {}
        # Tests by host that are lost, with the row that explains it.
        self.lost: dict[str, dict[str, str]] = {}

    def ask(self, host: str, unit: str) -> Verdicts:
        ended = self.hosts.run(host, self.suite, unit)
        found = self.suite.verdicts(unit, ended)
        if os.environ.get("SHOW") and any(verdict in (FAILED, TIMEOUT) for verdict in found.values()):
            print(f"--- {host}, {unit}: {found}\n{ended.text[-3000:]}", flush=True)
        return found

    def natively(self) -> str:
        def settled(unit: str) -> Verdicts:
            for _ in range(ASKED):
                found = self.ask(LINUX, unit)
                if all(verdict in (PASSED, SKIPPED) for verdict in found.values()):
                    break
            return found

        self.native = dict(zip(self.units, self.pool.map(settled, self.units), strict=True))
        return told(self.verdicts())

    def verdicts(self) -> Verdicts:
        """Of all units together."""
        return {test: verdict for verdicts in self.native.values() for test, verdict in verdicts.items()}

    def row(self, host: str, test: str) -> str | None:
        return next((one.id for one in self.table if one.explains(self.suite.name, host, test)), None)

    def unit(self, host: str, unit: str) -> dict[str, tuple[str, str]]:
        """What is lost of a unit. What no row explains is asked again, here and natively, since chance explains it perhaps."""
        lost = differences.lost(self.native[unit], self.ask(host, unit))
        for _ in range(ASKED - 1):
            if all(self.row(host, test) for test in lost):
                break
            lost = differences.lost(self.ask(LINUX, unit), self.ask(host, unit))
        return lost

    def on(self, host: str) -> str:
        if not self.native:
            raise Failure("there are no native verdicts to compare with")
        lost: dict[str, tuple[str, str]] = {}
        for found in self.pool.map(lambda unit: self.unit(host, unit), self.units):
            lost |= found
        rows = {test: self.row(host, test) for test in lost}
        self.lost[host] = {test: row for test, row in rows.items() if row}
        if new := {test: pair for test, pair in lost.items() if not rows[test]}:
            lines = [f"{test}: {one} natively, here {other}" for test, (one, other) in sorted(new.items())]
            raise Failure(f"{len(lines)} tests are lost and stand in no row:\n" + "\n".join(lines[:SHOWN]))
        passed = {test for test, verdict in self.verdicts().items() if verdict == PASSED}
        idle = [one for one in self.table if self.whole and host in one.hosts and not one.by_chance
                and any(one.tests.fullmatch(test) for test in passed) and not any(one.tests.fullmatch(test) for test in lost)]
        if idle:
            raise Failure("nothing needs these entries any more: " + "; ".join(f"{one.id}, {one.tests.pattern}" for one in idle))
        return f"{len(passed)} tests that pass natively, {len(lost)} of them differ, in rows"


def told(verdicts: Verdicts) -> str:
    count = Counter(verdicts.values())
    return f"{count[PASSED]} passed, {count[SKIPPED]} skipped, {count[FAILED] + count[TIMEOUT]} not compared"


def main() -> int:
    words = sys.argv[1:]
    wanted_hosts = [host for host in WEFT if host in words] or list(WEFT)
    wanted = [word for word in words if word not in WEFT]
    chosen = {name: make for name, make in SUITES.items() if not wanted or any(word in name for word in wanted)}
    recorder = results.Recorder()

    def row(name: str, body) -> bool:
        return recorder.add_said(results.judged(name, body))

    with Environment("foreign") as env, Hosts(env) as hosts, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        table, done = differences.load(), []

        def natively(make) -> str:
            one = Comparison(hosts, make(), pool, table)
            said = one.natively()
            done.append(one)
            return said

        for name, make in chosen.items():
            if row(f"{name}/linux", lambda make=make: natively(make)):
                for host in wanted_hosts:
                    row(f"{name}/{host}", lambda host=host: done[-1].on(host))
        if len(chosen) == len(SUITES) and len(wanted_hosts) == len(WEFT) and not os.environ.get("UNITS"):
            row("page", lambda: page.check(done, table))
    return recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print("run make build, or set WEFT_BIN")
        sys.exit(1)
    # Natively a unit has namespaces around it, which wants root of something.
    sys.exit(run_main(main))
