"""TOML: the reader of Python where it has one, and values for `--set` and `--grid`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from .errors import MissingLibrary, ScenarioError

READER, WRITER = "tomllib" if sys.version_info >= (3, 11) else "tomli", "tomli_w"


def _library(name: str) -> Any:
    """Taken when it is needed: pytest loads the plug-in wherever this package is installed, and must not fail by it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.replace("_", "-")
        raise MissingLibrary(f"scenarios need {name}: pip install {package}, or python3-{package} of Debian, Ubuntu and Fedora") from None


def read(text: str, name: str = "the scenario") -> dict[str, Any]:
    """The tables of a text."""
    try:
        tables: dict[str, Any] = _library(READER).loads(text)
        return tables
    except ValueError as error:
        raise ScenarioError(f"{name}: {error}") from None


def write(data: Mapping[str, Any]) -> str:
    """The text of tables."""
    return str(_library(WRITER).dumps(data))


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
    return write({"x": given})[len("x = "):].rstrip("\n")


def _is_plain(text: str) -> bool:
    if not text or text != text.strip() or any(letter in text for letter in ",[]{}\"'\n#"):
        return False
    try:
        _library(READER).loads(f"x = {text}")
    except ValueError:
        return True
    return False
