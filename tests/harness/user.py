"""A normal user, whom root can be for a command: one that nobody else is."""

from __future__ import annotations

from . import paths

ID = 64321


def words() -> list[str]:
    """What root puts before a command."""
    return [paths.tool("setpriv"), f"--reuid={ID}", f"--regid={ID}", "--clear-groups", "--inh-caps=-all"]
