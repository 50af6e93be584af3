"""The reference: pages made from what the command says of itself, and a page that Sphinx fills from the Python package's docstrings."""

from __future__ import annotations

import json
import re
from pathlib import Path

from . import place

FOLDER = "reference"
# What stands around a manual page's text: name, section and date.
_AROUND = re.compile(r'<table class="(?:head|foot)">.*?</table>', re.DOTALL)
_HEADING = re.compile(r"<(/?)h([12])\b")
_SUMMARY = re.compile(r"^\.SH NAME\n(?:.*?) \\- (.*)$", re.MULTILINE)
PYTHON = """# Python

[The package's own page](../python/README.md) has examples. Here is each class and function, with its docstring.

```{eval-rst}
.. automodule:: weft
   :members:
   :undoc-members:
   :inherited-members: object, Exception, BaseException
```
"""
HELP = {
    "scenario": ("Scenarios", "What a scenario file may hold: `weft help scenario` prints the same."),
    "stack": ("Stack files", "What a stack file may hold: `weft help stack` prints the same."),
}


def write() -> None:
    """Every page of the reference that is made."""
    (place.SOURCE / FOLDER / "commands").mkdir(parents=True)
    _commands()
    for topic, (title, text) in HELP.items():
        _page(topic, f"# {title}\n\n{text}\n\n```toml\n{place.weft('help', topic)}```\n")
    blocks = [json.loads(place.weft("help", "block", row["block"], "--json")) for row in json.loads(place.weft("help", "blocks", "--json"))]
    _parameters(blocks)
    _counters(blocks)
    _page("python", PYTHON)


def _page(name: str, text: str) -> None:
    (place.SOURCE / FOLDER / f"{name}.md").write_text(text)


def _commands() -> None:
    """Manual pages, as they are installed."""
    rows = []
    for path in sorted((place.ROOT / "docs" / "man").iterdir()):
        name, section = path.stem, path.suffix[1:]
        title = name.replace("-", " ") if section == "1" else f"{name}({section})"
        _page(f"commands/{path.name}", f"# {title}\n\n```{{raw}} html\n{_html(path)}\n```\n")
        summary = _SUMMARY.search(path.read_text())
        rows.append(f"| [{title}](commands/{path.name}.md) | {_cell(_plain(summary[1]) if summary else '')} |")
    _page("commands", "# Commands\n\nEach is a manual page, too: `man weft-run`.\n\n| page | says |\n|---|---|\n" + "\n".join(rows) + "\n")


def _html(path: Path) -> str:
    text = _AROUND.sub("", place.output("mandoc", "-T", "html", "-O", "fragment", str(path)))
    # The page has a title of its own.
    return _HEADING.sub(lambda found: f"<{found[1]}h{int(found[2]) + 1}", text)


def _plain(roff: str) -> str:
    return re.sub(r"\\f[BIRP]", "", roff).replace("\\-", "-").replace("\\(aq", "'").replace("\\*(Aq", "'").replace("\\&", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _parameters(blocks: list[dict]) -> None:
    rows = [
        f"| [{block['name']}.{each['name']}](../docs/blocks/{block['name']}.md#parameters) | `{_cell(each['default'])}` | "
        f"{'yes' if each['live'] else 'no'} | {_cell(each['doc'])} |"
        for block in blocks for each in block["parameters"]
    ]
    text = "Of all blocks. `weft get NAME` reads one, `weft set NAME VALUE` sets it; a scenario's nodes have them in `parameters`.\nThe page of a block says which values a parameter takes."
    _page("parameters", f"# Parameters\n\n{text}\n\n| name | default | while it runs | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")


def _counters(blocks: list[dict]) -> None:
    rows = [
        f"| [{block['name']}](../docs/blocks/{block['name']}.md#counters) | `{each['name']}` | {_cell(each['text'])} |"
        for block in blocks for each in block["counters"]
    ]
    _page("counters", "# Counters\n\nOf all blocks. `weft show counters` prints those that have counted.\n\n| block | counter | counts |\n|---|---|---|\n" + "\n".join(rows) + "\n")
