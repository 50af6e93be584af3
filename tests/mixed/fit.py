"""What this machine, and this user, can have."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.namespaces import in_user_namespace

DEVICE = Path("/dev/net/tun")


class Unfit(Exception):
    """There can be no such stack here."""


def check(backend: str, as_user: bool) -> None:
    """Unfit, with the reason, where there can be none. `backend` is how its URL begins."""
    if as_user and in_user_namespace():
        raise Unfit("make runs as a normal user, who cannot be another one")
    if not as_user and not backend.startswith("packet:") and not os.access(DEVICE, os.R_OK | os.W_OK):
        raise Unfit("/dev/net/tun cannot be opened")
    if as_user and backend.startswith("tun:") and not DEVICE.stat().st_mode & stat.S_IWOTH:
        raise Unfit("/dev/net/tun is root's alone")
