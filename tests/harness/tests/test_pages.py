"""What a page of commands says is understood as it is written, what comes out otherwise is found, and the gallery has every example."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from harness import paths
from harness.lint import hygiene
from harness.processes import Failure
from pages import __main__ as pages
from pages import blocks
from pages.session import Session

PAGE = """# Title

Save this as `dir/world.toml`:

```toml
seed = 1
```

## A part

```console
$ one \\
    --more
said
…
$ two            # a remark
> and on
```

<!-- not run: it wants a network -->
```sh
curl x
```

<!-- picture: out/a.svg -->
![what it shows](pictures/a.svg)

```python
print("never run")
```

```text
$ no command
```
"""


class Blocks(unittest.TestCase):
    def setUp(self) -> None:
        self.parts = list(blocks.parse(PAGE))

    def test_a_file_is_its_text(self) -> None:
        self.assertEqual((self.parts[0].file, self.parts[0].text, self.parts[0].commands), ("dir/world.toml", "seed = 1\n", ()))

    def test_commands_have_what_is_shown_behind_them(self) -> None:
        one, two = self.parts[1].commands
        self.assertEqual((one.text, one.shown), ("one \\\n    --more", ("said", "…")))
        self.assertEqual((two.text, two.shown), ("two            # a remark\nand on", ()))
        self.assertEqual(self.parts[1].heading, "A part")

    def test_what_is_not_run_says_why(self) -> None:
        self.assertEqual((self.parts[2].not_run, self.parts[2].commands[0].text), ("it wants a network", "curl x"))

    def test_a_picture_names_what_it_is(self) -> None:
        self.assertEqual((self.parts[3].made, self.parts[3].shown, self.parts[3].of_programs), ("out/a.svg", "pictures/a.svg", False))

    def test_what_only_root_may(self) -> None:
        found = blocks.parse(f"```sh\na\n```\n<!-- as root -->\n{PAGE}\n<!-- as any user -->\n```sh\nb\n```\n")
        self.assertEqual([part.as_root for part in found if isinstance(part, blocks.Block) and part.commands], [False, True, True, False])

    def test_text_is_no_command(self) -> None:
        self.assertEqual(self.parts[5].commands, ())

    def test_code_that_is_no_file_and_pictures_without_a_comment_are_found(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".md") as page:
            page.write(PAGE)
            page.flush()
            self.assertIn("line 28", pages.unsaid(Path(page.name))[0])
            page.write("<!-- picture: b.svg -->\n\n![b](b.svg)\n")
            page.flush()
            self.assertIn("line 35: a comment names a picture", pages.unsaid(Path(page.name))[0])

    def test_background_commands(self) -> None:
        self.assertTrue(blocks.Command("weft up &   # stays").stays)
        self.assertFalse(blocks.Command("a && b").stays)


class Shown(unittest.TestCase):
    def test_columns_and_empty_lines_do_not_matter(self) -> None:
        self.assertTrue(blocks.agrees((" a    b",), "\na b\n\n"))

    def test_an_ellipsis_is_any_text_of_a_line_or_any_lines(self) -> None:
        self.assertTrue(blocks.agrees(("a … c",), "a whatever c\n"))
        self.assertFalse(blocks.agrees(("a … c",), "a\nc\n"))
        self.assertTrue(blocks.agrees(("…", "end"), "1\n2\nend\n"))
        self.assertTrue(blocks.agrees(("…", "end"), "end\n"))

    def test_other_text_missing_lines_and_more_lines_are_found(self) -> None:
        self.assertFalse(blocks.agrees(("a",), "b\n"))
        self.assertFalse(blocks.agrees(("a", "b"), "a\n"))
        self.assertFalse(blocks.agrees(("a",), "a\nb\n"))


class InASession(unittest.TestCase):
    def setUp(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="weft-lint-")) / "weft"
        folder.mkdir()
        self.session = Session(folder, [])
        self.addCleanup(self.session.__exit__)

    def test_a_shell_goes_on_from_command_to_command(self) -> None:
        for text, shown in (("word=there", ()), ("echo $word", ("there",)), ("cat", ()), ("sleep 100 &", ()), ("(sleep 0.1; echo late) &", ("late",))):
            self.session.run(blocks.Command(text, shown))

    def test_a_failure_is_found(self) -> None:
        with self.assertRaisesRegex(Failure, "ends with 1"):
            self.session.run(blocks.Command("false"))

    def test_another_output_is_found(self) -> None:
        with self.assertRaisesRegex(Failure, "is shown with\nthis\nand says\nthat"):
            self.session.run(blocks.Command("echo that", ("this",)))

    def test_it_is_in_a_network_of_its_own(self) -> None:
        self.session.run(blocks.Command("ip -o link | wc -l", ("1",)))


class Gallery(unittest.TestCase):
    def test_every_example_is_in_the_gallery_or_on_the_page_of_its_folder(self) -> None:
        gallery = (paths.ROOT / "docs/gallery.md").read_text()
        for path in hygiene.tracked_files():
            if path.suffix == ".toml" and path.is_relative_to(paths.ROOT / "examples") | path.is_relative_to(paths.ROOT / "docs/examples"):
                beside = path.parent / "README.md"
                self.assertTrue(path.name in gallery or beside.is_file() and path.name in beside.read_text(), path)
