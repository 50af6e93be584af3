"""The site: what is not sound in it is found, and pages are staged so that their links lead where they lead in the repository."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from unittest import mock

from harness.lint import hygiene
from harness.tests.test_lint import InFolder
from website import links, place, stage


class Links(InFolder):
    def found(self, page: str) -> list[str]:
        self.write("other.html", '<h2 id="here">Here</h2>')
        self.write("index.html", page)
        return links.broken(self.folder)

    def test_links_that_lead_somewhere_are_no_findings(self) -> None:
        self.assertEqual(self.found('<a href="other.html#here">1</a><a href="#top" id="top">2</a><img src="other.html?v=1">'), [])

    def test_a_file_that_is_not_there_is_found(self) -> None:
        self.assertIn("nowhere.html leads nowhere", self.found('<a href="nowhere.html">1</a>')[0])
        self.assertIn("../index.html leads nowhere", self.found('<a href="../index.html">1</a>')[0])

    def test_a_place_that_is_not_there_is_found(self) -> None:
        self.assertIn("no such place", self.found('<a href="other.html#there">1</a>')[0])

    def test_what_a_page_needs_from_elsewhere_is_found(self) -> None:
        self.assertEqual(self.found('<a href="https://example.org/">1</a>'), [])
        self.assertIn("without a network", self.found('<script src="https://example.org/x.js"></script>')[0])


class Staged(InFolder):
    def page(self, text: str) -> str:
        for name in ("docs/page.md", "docs/file.toml", "with/README.md", "without/file"):
            self.write(name, text)
        with mock.patch.object(place, "ROOT", self.folder), mock.patch.object(place, "SOURCE", self.folder / "staged"):
            stage._page(Path("docs/page.md"))
        return (self.folder / "staged/docs/page.md").read_text()

    def test_a_link_to_a_folder_leads_to_its_page_or_is_words(self) -> None:
        self.assertEqual(self.page("[one](../with) and [two](../without/)"), "[one](../with/README.md) and two")

    def test_links_to_pages_and_elsewhere_stay(self) -> None:
        text = "[one](../with/README.md#a) [`two`](#b) [three](https://example.org/)"
        self.assertEqual(self.page(text), text)

    def test_a_file_that_is_linked_to_is_staged(self) -> None:
        self.page("![a picture of [it](../with)](file.toml)")
        self.assertTrue((self.folder / "staged/docs/file.toml").is_file())

    def test_a_star_is_a_name_and_no_folder(self) -> None:
        self.assertEqual(stage.fnmatched(["a/b", "a/b/c", "a+b"], "a/*"), ["a/b"])


class Navigation(unittest.TestCase):
    def test_pages_that_are_named_are_there(self) -> None:
        pages = [str(path.relative_to(place.ROOT).with_suffix("")) for path in hygiene.tracked_files(place.ROOT)
                 if path.suffix == ".md"]
        made = {part["page"] for part in stage.NAVIGATION["below"] if "title" in part}
        for name in stage._named():
            if not re.match("reference/", name) and name not in made:
                self.assertTrue(stage.fnmatched(pages, name), name)
