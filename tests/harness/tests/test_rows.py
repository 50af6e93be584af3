"""make test-rows can fail: a line that differs without a row, a row that is not true, one that is not true any more, one about no line."""

from __future__ import annotations

import re
import unittest

from harness.processes import Failure
from hosts import rows
from hosts.place import LINUX, NODE, NOTIFY, ROOT, USER


def entry(lines: str, linux: str, weft: str, **more: object) -> rows.Entry:
    return rows.Entry("some-row", (NODE,), re.compile(lines), re.compile(linux), re.compile(weft), **more)


class Planted(rows.Rows):
    """Rows whose scripts say what they are told."""

    def __init__(self, linux: str, weft: str, *table: rows.Entry) -> None:
        self.said = {True: linux, False: weft}
        self.table = list(table)
        self.linux = lambda script: self.ask(script, LINUX, ROOT)

    def ask(self, script: str, host: str, who: str) -> dict[str, str]:
        return rows.answers(self.said[host == LINUX])


class Rows(unittest.TestCase):
    ROW = entry(r"call \| .*", "works", "EPERM")

    def check(self, linux: str, weft: str, *table: rows.Entry, host: str = NODE, who: str = ROOT) -> str:
        return Planted(linux, weft, *table).check("", host, who)

    def fails(self, with_words: str, *words: object, **more: str) -> None:
        with self.assertRaisesRegex(Failure, with_words):
            self.check(*words, **more)

    def test_what_is_equal_or_in_a_row_passes(self) -> None:
        self.check("call | one | works", "call | one | works")
        self.check("call | one | works\nother | two | 1", "call | one | EPERM\nother | two | 1", self.ROW)

    def test_a_line_that_differs_without_a_row_is_found(self) -> None:
        self.fails("no row says so", "call | one | works", "call | one | EPERM")
        self.fails("no row says so", "call | one | works", "call | one | EPERM", self.ROW, host=NOTIFY)
        as_user = entry(r"call \| .*", "works", "EPERM", whos=(USER,))
        self.fails("no row says so", "call | one | works", "call | one | EPERM", as_user)

    def test_a_row_that_is_not_true_is_found(self) -> None:
        self.fails("`some-row` says works and EPERM", "call | one | works", "call | one | EINVAL", self.ROW)
        self.fails("`some-row` says works and EPERM", "call | one | ENOSYS", "call | one | EPERM", self.ROW)
        self.fails("`some-row` says", "call | one | works\ncall | two | works", "call | one | EPERM\ncall | two | works", self.ROW)

    def test_a_row_that_is_not_true_any_more_is_found(self) -> None:
        loose = entry(r"call \| .*", "works", "works|EPERM")
        self.fails("not true any more", "call | one | works", "call | one | works", loose)
        self.check("call | one | works", "call | one | works", entry(r"call \| .*", "works", "works|EPERM", may_be_equal=True))

    def test_other_lines_and_lines_that_say_nothing_are_found(self) -> None:
        self.fails("other lines than on Linux", "call | one | works", "call | two | works")
        self.fails("says nothing, or says it twice", "call", "call")
        self.fails("says nothing, or says it twice", "call | one | 1\ncall | one | 2", "")

    def test_an_entry_about_no_line_is_found(self) -> None:
        with self.assertRaisesRegex(Failure, "no script has a line for some-row"):
            Planted("other | one | works", "", self.ROW).needed()

    def test_every_entry_is_about_hosts_that_run_its_lines(self) -> None:
        hosts = {host for one in rows.SCRIPTS.values() for host in one}
        for one in rows.entries():
            self.assertLessEqual(set(one.hosts), hosts, one.id)


if __name__ == "__main__":
    unittest.main()
