"""Tables and pictures for notebooks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

# Most rows of one table.
ROWS_MAX = 50


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a title, or nothing where there are no rows."""
    lines = list(rows)
    if not lines:
        return ""
    cells = "".join(f"<tr>{''.join(f'<td style=text-align:left>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in lines[:ROWS_MAX])
    more = f"<tr><td>… {len(lines) - ROWS_MAX} more</td></tr>" if len(lines) > ROWS_MAX else ""
    names = "".join(f"<th style=text-align:left>{escape(name)}</th>" for name in head)
    return f"<table><caption>{escape(title)}</caption><tr>{names}</tr>{cells}{more}</table>"


def picture(svg: str) -> str:
    """A picture no wider than the page. As a file of its own: in the page itself, names of two pictures would meet."""
    coded = base64.b64encode(svg.encode()).decode()
    return f'<p><img style="max-width:100%" alt="topology" src="data:image/svg+xml;base64,{coded}"></p>'


def told(text: str) -> str:
    """Lines as they are."""
    return f"<pre>{escape(text)}</pre>"


def world(data: Mapping[str, Any]) -> str:
    """The tables of a scenario."""
    nodes = [(name, row.get("kind", "host"), _rest(row, "kind")) for name, row in data.get("nodes", {}).items()]
    templates = [(name, row["kind"], _rest(row, "kind")) for name, row in data.get("templates", {}).items()]
    wires = [(name, " – ".join(row.get("between", [])), _rest(row, "between")) for name, row in data.get("wires", {}).items()]
    programs = [(name, row["node"], " ".join(row["command"]) if "command" in row else row.get("builtin", ""), _rest(row, "node", "command", "builtin"))
                for name, row in data.get("programs", {}).items()]
    return (table("Nodes", ("name", "kind", "what else"), nodes) + table("Templates", ("name", "kind", "what else"), templates)
            + table("Wires", ("name", "between", "what else"), wires) + table("Programs", ("name", "node", "what runs", "what else"), programs))


def _rest(row: Mapping[str, Any], *but: str) -> str:
    return ", ".join(f"{key} = {value}" for key, value in row.items() if key not in but)
