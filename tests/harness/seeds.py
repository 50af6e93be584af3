"""Numbers that decide what a test draws: the same ones in the short form, new ones in the full form, and those that SEED names.

A failure names its number, so that SEED= repeats it to the bit.
"""

from __future__ import annotations

import os
import random

# So large that two full runs hardly ever draw the same.
_NEW_MAX = 10**9


def seed(usual: int = 1) -> int:
    """Of one test."""
    if given := os.environ.get("SEED"):
        return int(given)
    return _drawn() if os.environ.get("FULL") else usual


def seeds(usual: range, in_full: int) -> range:
    """Of `in_full` tests in the full form, beginning with a number that is drawn."""
    if not os.environ.get("FULL"):
        return usual
    first = _drawn()
    return range(first, first + in_full)


def _drawn() -> int:
    return random.SystemRandom().randrange(1, _NEW_MAX)
