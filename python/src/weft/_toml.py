"""TOML: the reader of Python where it has one, and values for `--set` and `--grid`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from .errors import MissingLibrary, ScenarioError

READER, WRITER = "tomllib" if sys.version_info >= (3, 11) else "tomli", "tomli_w"
# What weft reads as a time, and a reader of TOML 1.0 as nothing: 07:32 has no seconds.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt ])?\d\d:\d\d")
# A CR within a text: a character that is nobody's, in front of an LF.
_MARK = "\U0010fffd"
# Comments and texts, of which those of several lines matter.
_TEXTS = re.compile(r"""#[^\n]*|"{3}(?:\\.|[^\\])*?"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'""", re.DOTALL)
# In those with escapes: the end of a line that a backslash takes away with all that follow, an escape, and one that is part of the text.
_ENDS = re.compile(r"\\[ \t]*\r\n\s*|\\.|\r\n", re.DOTALL)


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
        if "\r\n" in text:
            with_ends: dict[str, Any] = _back(_library(READER).loads(_TEXTS.sub(_kept, text)))
            return with_ends
        tables: dict[str, Any] = _library(READER).loads(text)
        return tables
    except ValueError as error:
        raise ScenarioError(f"{name}: {error}") from None


def _kept(match: re.Match[str]) -> str:
    """Python's reader takes CR LF for LF within texts, too, and weft does not: the CR as something else, but where the end of a line is no part of the text."""
    found = match.group()
    if not found.startswith(('"""', "'''")):
        return found
    first = 5 if found.startswith("\r\n", 3) else 3
    if found[0] == "'":
        return found[:first] + found[first:].replace("\r\n", f"{_MARK}\n")
    return found[:first] + _ENDS.sub(lambda end: f"{_MARK}\n" if end.group() == "\r\n" else end.group(), found[first:])


def _back(given: Any) -> Any:
    if isinstance(given, str):
        return given.replace(f"{_MARK}\n", "\r\n")
    if isinstance(given, dict):
        return {_back(key): _back(item) for key, item in given.items()}
    return [_back(item) for item in given] if isinstance(given, list) else given


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
    try:
        return write({"x": given})[len("x = "):].rstrip("\n")
    except TypeError:
        raise ValueError(f"{given!r} is no value of a scenario: TOML has texts, numbers, true and false, dates, lists and tables") from None


def _is_plain(text: str) -> bool:
    if not text or text != text.strip() or _TIME.match(text) or any(letter in text for letter in ",[]{}\"'\n#"):
        return False
    try:
        _library(READER).loads(f"x = {text}")
    except ValueError:
        return True
    return False
