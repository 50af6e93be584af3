"""TOML: the reader of Python where it has one, and values for `--set` and `--grid`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import tomli_w

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .errors import ScenarioError


def read(text: str, name: str = "the scenario") -> dict[str, Any]:
    """The tables of a text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}: {error}") from None


def write(data: Mapping[str, Any]) -> str:
    """The text of tables."""
    return tomli_w.dumps(data)


def value(given: Any) -> str:
    """A value in one line, as `--set` and `--grid` read it. Texts stand in quotes where they would be something else."""
    if isinstance(given, str) and _is_plain(given):
        return given
    return _inline(given)


def _inline(given: Any) -> str:
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{_inline(str(key))} = {_inline(item)}" for key, item in given.items()) + "}"
    if isinstance(given, (list, tuple)):
        return "[" + ", ".join(map(_inline, given)) + "]"
    if hasattr(given, "item"):  # a number of numpy
        given = given.item()
    return tomli_w.dumps({"x": given})[len("x = "):].rstrip("\n")


def _is_plain(text: str) -> bool:
    if not text or text != text.strip() or any(letter in text for letter in ",[]{}\"'\n#"):
        return False
    try:
        tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        return True
    return False
