"""Sections of a scenario as dataclasses: TOML's tables become objects, and objects tables.

A field that is None is a key that is not there. A field whose name ends with `_` is the key without it: `from_` is `from`.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Optional, TypeVar, Union

from .errors import ScenarioError, UnknownKey

S = TypeVar("S", bound="Section")


_KEYS: dict[str, dict[str, tuple[str, Any]]] = {}


def keys(section: type[Section]) -> dict[str, tuple[str, Any]]:
    """Keys of TOML, and the field and the type of each."""
    name = section.__qualname__
    if name not in _KEYS:
        _KEYS[name] = _keys(section)
    return _KEYS[name]


def _keys(section: type[Section]) -> dict[str, tuple[str, Any]]:
    hints = typing.get_type_hints(section)
    fields = (field for field in dataclasses.fields(section) if not field.metadata.get("own"))
    return {field.name.rstrip("_"): (field.name, hints[field.name]) for field in fields}


@dataclasses.dataclass
class Section:
    """A table of a scenario."""

    def __setattr__(self, name: str, value: Any) -> None:
        names = [field.name for field in dataclasses.fields(self)]
        if name not in names:
            raise _unknown(name, type(self).__name__, names)
        super().__setattr__(name, value)

    @classmethod
    def from_data(cls: type[S], data: Any, place: str = "") -> S:
        """The object of a table, as `tomllib` reads it. `place` is the table's path, for errors."""
        where = place or "the scenario"
        if not isinstance(data, Mapping):
            raise ScenarioError(f"{where}: this is no table but {_said(data)}")
        known = keys(cls)
        for key in data:
            if key not in known:
                raise _unknown(key, where, list(known))
        given = {known[key][0]: _read(value, known[key][1], f"{place}.{key}".lstrip(".")) for key, value in data.items()}
        try:
            return cls(**given)
        except TypeError as error:
            missing = [key for key, (name, _) in known.items() if f"'{name}'" in str(error)]
            raise ScenarioError(f"{where}: there is no {' and no '.join(missing) or error}") from None

    def to_data(self) -> dict[str, Any]:
        """The table, for a writer of TOML."""
        pairs = ((key, getattr(self, name)) for key, (name, _) in keys(type(self)).items())
        return {key: _write(value) for key, value in pairs if value is not None}


def _unknown(key: str, place: str, known: list[str]) -> UnknownKey:
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean '{near[0]}'?" if near else "`weft help scenario` lists what a scenario may hold"
    return UnknownKey(f"{place}: there is no key '{key}'; {hint}")


def _said(value: Any) -> str:
    return f"the text '{value}'" if isinstance(value, str) else repr(value)


def _write(value: Any) -> Any:
    if isinstance(value, Section):
        return value.to_data()
    if isinstance(value, Mapping):
        return {key: _write(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_write(item) for item in value]
    return value


def _read(value: Any, hint: Any, place: str) -> Any:
    """A value of TOML as a field of this type holds it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is Union:
        return _read_one_of(value, [part for part in parts if part is not type(None)], place)
    if origin is list and isinstance(value, list):
        return [_read(item, parts[0], f"{place}.{number}") for number, item in enumerate(value, 1)]
    if origin is dict and isinstance(value, Mapping):
        return {key: _read(item, parts[1], f"{place}.{key}") for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint.from_data(value, place)
    if not _fits(value, hint):
        raise ScenarioError(f"{place}: this is {_said(value)}; {_wanted(hint)}")
    return value


def _read_one_of(value: Any, hints: list[Any], place: str) -> Any:
    fitting = [hint for hint in hints if _fits(value, hint)]
    if fitting or len(hints) == 1:
        return _read(value, (fitting or hints)[0], place)
    raise ScenarioError(f"{place}: this is {_said(value)}; {' or '.join(_wanted(hint) for hint in hints)}")


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is Literal:
        return value in typing.get_args(hint)
    if hint is Any:
        return True
    if origin is list:
        return isinstance(value, list)
    if origin is dict or isinstance(hint, type) and issubclass(hint, Section):
        return isinstance(value, Mapping)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", datetime: "a date with a time"}


def _wanted(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return f"it is one of {', '.join(map(str, typing.get_args(hint)))}"
    name: Optional[str] = _NAMES.get(hint)
    return f"{name or ('a list' if typing.get_origin(hint) is list else 'a table')} is expected"
