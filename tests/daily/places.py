"""Where a row runs: as a user who goes out through passt, as root on a TAP, and beside them on the kernel, the oracle of each row."""

from __future__ import annotations

import functools
from collections.abc import Callable

from egress.stage import Outside
from harness.environment import Environment
from programs.shared import Shared
from programs.stage import Stage

PLACES: dict[str, Callable[[Environment, Shared], Stage]] = {
    "user": Outside,
    "root": functools.partial(Stage, role="client", native=False, canary=False),
    "kernel": functools.partial(Stage, role="client", native=True, canary=False),
}
