"""What can go wrong, said to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Result


class WeftError(Exception):
    """All errors of this package."""


class BinaryNotFound(WeftError):
    """There is no command `weft`, or it is too old."""


class ScenarioError(WeftError):
    """The scenario is wrong; the text says what, where, and what to do."""


class UnknownKey(ScenarioError):
    """A scenario has no such key; the text names the key and its place."""


class MissingLibrary(WeftError):
    """An optional library is not installed; the text says how to get it."""


class ExpectationError(WeftError):
    """A run did not come to what its scenario expects. `result` is all that the run left."""

    def __init__(self, message: str, result: Result) -> None:
        # Both are arguments: whoever unpickles it gives them.
        super().__init__(message, result)
        self.result = result

    def __str__(self) -> str:
        return str(self.args[0])
