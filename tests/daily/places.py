"""Where a row runs: as a user who goes out through passt, as root on a TAP, and beside them on the kernel, the oracle of each row."""

from __future__ import annotations

from collections.abc import Callable

from egress.stage import Outside
from harness.environment import Environment
from programs.shared import Shared
from programs.stage import Stage


def user(env: Environment, shared: Shared) -> Stage:
    return Outside(env, shared)


def root(env: Environment, shared: Shared) -> Stage:
    return Stage(env, shared, "client", native=False, canary=False)


def kernel(env: Environment, shared: Shared) -> Stage:
    return Stage(env, shared, "client", native=True, canary=False)


PLACES: dict[str, Callable[[Environment, Shared], Stage]] = {"user": user, "root": root, "kernel": kernel}
