"""Pages of docs/architecture and docs/decisions: each rule can fail, and a page that keeps to all of them has no finding."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness import paths
from harness.lint import architecture, hygiene
from harness.tests.test_lint import InFolder

PICTURE = "![what it shows](page.svg)\n"
PAGE = f"# A page\n\nA page says one thing.\n\n{PICTURE}\n## A part\n\n- It has items,\n  which go on.\n- Short ones.\n"
DECISION = "# A decision\n\n" + "\n".join(f"## {part}\n\nText.\n" for part in architecture.DECISION_PARTS)


class Pages(InFolder):
    def page(self, text: str, name: str = "page.md") -> list[str]:
        self.write(f"{architecture.PAGES}/page.dot", "digraph page {}")
        path = self.write(f"{architecture.PAGES}/{name}", text)
        return architecture.check([path], self.folder)

    def test_a_page_that_keeps_to_the_rules_has_no_finding(self) -> None:
        self.assertEqual(self.page(PAGE), [])

    def test_a_long_line_is_found(self) -> None:
        self.assertIn("line 13 has more than 120", self.page(f"{PAGE}\n{'word ' * 24}word.\n")[0])

    def test_200_words_without_a_heading_are_found(self) -> None:
        sentence = "Ten words stand in this sentence, and no more do.\n"
        self.assertEqual(self.page(PAGE + "\n## More\n\n" + sentence * 20), [])
        self.assertIn("210 words below 'More'", self.page(PAGE + "\n## More\n\n" + sentence * 21)[0])
        self.assertEqual(self.page(PAGE + "\n## More\n\n" + sentence * 20 + "\n### And more\n\n" + sentence * 20), [])

    def test_words_before_the_first_heading_count(self) -> None:
        self.assertIn("the page's beginning", self.page("A sentence of five words.\n" * 41 + PAGE)[0])

    def test_long_sentences_are_found(self) -> None:
        self.assertIn("26.0 words a sentence", self.page("# A page\n\n" + "word\n" * 25 + f"word.\n\n{PICTURE}")[0])
        self.assertEqual(self.page("# A page\n\n" + "word\n" * 24 + f"word.\n\n{PICTURE}"), [])

    def test_a_missing_picture_is_found(self) -> None:
        self.assertIn("no picture", self.page(PAGE.replace(PICTURE, ""))[0])

    def test_a_picture_that_nothing_draws_is_found(self) -> None:
        self.assertIn("other.svg has no other.dot", self.page(PAGE.replace("page.svg", "other.svg"))[0])

    def test_the_glossary_needs_no_picture_but_all_else(self) -> None:
        self.assertEqual(self.page(PAGE.replace(PICTURE, ""), "glossary.md"), [])
        self.assertIn("more than 120", self.page(f"{'word ' * 24}word.\n", "glossary.md")[0])

    def test_exceptions_are_pages_that_there_are(self) -> None:
        for name in architecture.WITHOUT_PICTURE:
            self.assertTrue((paths.ROOT / architecture.PAGES / name).is_file(), name)

    def test_pages_for_readers_keep_to_the_same_rules_without_a_picture(self) -> None:
        good, bad = PAGE.replace(PICTURE, ""), f"{PAGE}\n{'word ' * 24}word.\n"
        for pattern in architecture.FOR_READERS:
            page = self.write(pattern.replace("*", "any"), good)
            self.assertEqual(architecture.check([page], self.folder), [], pattern)
            page.write_text(bad)
            self.assertIn("more than 120", architecture.check([page], self.folder)[0], pattern)

    def test_pages_for_readers_are_there(self) -> None:
        for pattern in architecture.FOR_READERS:
            self.assertTrue(list(paths.ROOT.glob(pattern)), pattern)

    def test_pages_elsewhere_are_nobodys_business(self) -> None:
        path = self.write("docs/other.md", "word " * 300)
        self.assertEqual(architecture.check([path], self.folder), [])


class Counting(unittest.TestCase):
    def test_code_tables_headings_and_targets_of_links_are_no_words(self) -> None:
        text = "# Six words in a heading here\n\n[two words](a%20b.md)\n\n```text\na b c\n```\n\n| a | b |\n\n- `one` – two\n"
        self.assertEqual(architecture.words_below_headings(text), [("the page's beginning", 0), ("Six words in a heading here", 4)])

    def test_a_picture_is_no_sentence(self) -> None:
        self.assertEqual(architecture.words_per_sentence(f"# A page\n\n{PICTURE}\nTwo words.\n"), 2)

    def test_a_comment_in_code_is_no_heading(self) -> None:
        self.assertEqual(architecture.words_below_headings("```sh\n# a comment\n```\n"), [("the page's beginning", 0)])

    def test_each_item_ends_a_sentence_and_goes_on_over_lines(self) -> None:
        self.assertEqual(architecture.words_per_sentence("Four words stand here:\n\n- two words\n- four words\n  are here\n"), 10 / 3)

    def test_points_within_a_sentence_end_none(self) -> None:
        self.assertEqual(architecture.words_per_sentence("See `a. b` and 1.5 of lib.rs (RFC 9293 §3.10). **Two words.**\n"), (10 + 2) / 2)


class Decisions(InFolder):
    def decision(self, text: str, name: str = "001-a-decision.md", table: str = "| 001 | [A decision](001-a-decision.md) |") -> list[str]:
        files = [self.write(f"{architecture.DECISIONS}/README.md", table), self.write(f"{architecture.DECISIONS}/{name}", text)]
        return architecture.check(files, self.folder)

    def test_a_decision_that_keeps_to_the_rules_has_no_finding(self) -> None:
        self.assertEqual(self.decision(DECISION), [])

    def test_a_missing_part_is_found(self) -> None:
        self.assertIn("its parts are Context, Decision, Reasons, In the code", self.decision(DECISION.replace("## Rejected\n", ""))[0])

    def test_a_long_page_is_found(self) -> None:
        self.assertIn("41 lines, more than 40", self.decision(DECISION + "Text.\n" * (41 - len(DECISION.splitlines())))[0])

    def test_a_name_without_a_number_is_found(self) -> None:
        findings = self.decision(DECISION, "a-decision.md", "[A decision](a-decision.md)")
        self.assertIn("not NNN-name.md", findings[0])

    def test_a_page_without_a_row_is_found(self) -> None:
        self.assertIn("no row in README.md", self.decision(DECISION, table="none")[0])


class Now(unittest.TestCase):
    def test_the_pages_of_now_are_seen(self) -> None:
        files = hygiene.tracked_files()
        seen = [path for path in files if path.parent == Path(paths.ROOT, architecture.PAGES) and path.suffix == ".md"]
        self.assertGreater(len(seen), 8)
        self.assertEqual(architecture.check(files), [])


if __name__ == "__main__":
    unittest.main()
