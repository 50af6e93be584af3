"""The comparison of the twins: what is not in the table is found out, and so is what is in it and not so."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from twins import __main__ as twins
from twins import compare

LINUX = {"a/one": ["poll S -> OUT|WRNORM", "recv S 1 -> ENOTCONN"], "a/two": ["send S -> all"]}
WEFT = {"a/one": ["poll S -> OUT|WRNORM|WRBAND", "recv S 1 -> EINVAL"], "a/two": ["send S -> all"]}
TABLE = """
[[difference]]
id = "wrband"
linux = "x"
weft = "x"
why = "x"
rewrite = { step = "poll ", from = "WRNORM$", to = "WRNORM|WRBAND" }
[[difference]]
id = "errno"
linux = "x"
weft = "x"
why = "x"
[difference.plain]
"a/one" = ["2 recv S 1 -> ENOTCONN => EINVAL"]
"""


def table(text: str = TABLE) -> list[compare.Difference]:
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        return compare.read_table(Path(file.name))


def check(linux=LINUX, weft=WEFT, text: str = TABLE, variant: str = "plain", who: str = "root") -> dict[str, list[str]]:
    return compare.check(who, variant, linux, weft, table(text))


class Compare(unittest.TestCase):
    def test_exactly_the_differences_of_the_table_pass(self) -> None:
        self.assertEqual(check(), {})

    def test_a_difference_that_is_not_listed_is_found(self) -> None:
        self.assertEqual(list(check(weft={**WEFT, "a/two": ["send S -> part"]})), ["a/two"])
        self.assertEqual(list(check(variant="message")), ["a/one"], "what is listed for send and recv holds for them only")

    def test_a_listed_difference_that_is_none_is_found(self) -> None:
        same = {**WEFT, "a/one": [WEFT["a/one"][0], LINUX["a/one"][1]]}
        self.assertEqual(list(check(weft=same)), ["a/one"])
        self.assertEqual(list(check(text=TABLE.replace("a/one", "a/none"))), ["a/none", "a/one"])

    def test_a_listed_line_explains_one_line_with_one_result(self) -> None:
        for wrong in ("1 recv S 1 -> ENOTCONN => EINVAL", "2 recv S 1 -> ENOTCONN => 0"):
            text = TABLE.replace("2 recv S 1 -> ENOTCONN => EINVAL", wrong)
            self.assertEqual(len(check(text=text)["a/one"]), 2, wrong)

    def test_a_rewrite_is_demanded_and_not_only_allowed(self) -> None:
        self.assertEqual(list(check(weft={**WEFT, "a/one": [LINUX["a/one"][0], WEFT["a/one"][1]]})), ["a/one"])
        self.assertEqual(list(check({"a/two": LINUX["a/two"]}, {"a/two": WEFT["a/two"]}, TABLE.split("[[difference]]\nid = \"errno")[0])),
                         ["wrband"])

    def test_missing_bodies_and_lines_are_found(self) -> None:
        self.assertEqual(list(check(weft={"a/one": WEFT["a/one"]})), ["a/two"])
        self.assertEqual(list(check(weft={**WEFT, "a/two": []})), ["a/two"])

    def test_what_holds_for_users_does_not_hold_for_root(self) -> None:
        text = TABLE.replace('id = "errno"', 'id = "errno"\nonly = "user"')
        self.assertEqual(check(text=text, who="user"), {})
        self.assertEqual(list(check(text=text)), ["a/one"])

    def test_an_entry_without_a_reason_or_a_line_is_refused(self) -> None:
        for text in (TABLE.replace('why = "x"', ""), TABLE.split("[difference.plain]")[0], TABLE.replace("wrband", "errno")):
            with self.assertRaises(ValueError):
                table(text)

    def test_the_document_and_the_table_have_the_same_ids(self) -> None:
        row = "| `{}` | what | a | b | {} |\n"
        both = row.format("wrband", "twins") + row.format("errno", "twins, `other`")
        self.assertEqual(compare.check_ids(both + row.format("more", "`other`"), table()), [])
        self.assertEqual(len(compare.check_ids(both + row.format("more", "twins"), table())), 1)
        self.assertEqual(len(compare.check_ids(row.format("wrband", "twins"), table())), 1)

    def test_the_ids_of_the_repository_agree(self) -> None:
        self.assertEqual(compare.check_ids(twins.DOCUMENT.read_text(), compare.read_table(twins.TABLE)), [])
