"""What programs of a virtual world find is this machine's: a package that is installed meanwhile makes another hash.

A row that fails while the machine's files change is no judgement: it is asked again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from .processes import Failure

ATTEMPTS_MAX = 3
# Where packages leave traces, whoever installs them.
PLACES = (
    "/etc", "/etc/ld.so.cache", "/etc/passwd", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/python3/dist-packages",
    "/usr/share", "/usr/local/bin", "/usr/local/lib", "/var/lib/dpkg", "/var/lib/dpkg/info", "/var/lib/dpkg/status",
)

Answer = TypeVar("Answer")


def fingerprint(places: tuple[str, ...] = PLACES) -> tuple[tuple[int, int] | None, ...]:
    """Another one when files were added, removed or exchanged in these places."""
    def of(place: str) -> tuple[int, int] | None:
        try:
            found = os.stat(place)
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    return tuple(of(place) for place in places)


def ask(body: Callable[[], Answer], places: tuple[str, ...] = PLACES) -> Answer:
    """The body's answer; a Failure counts when the machine's files stood still meanwhile, or at the last attempt."""
    for _ in range(ATTEMPTS_MAX - 1):
        before = fingerprint(places)
        try:
            return body()
        except Failure as failure:
            if fingerprint(places) == before:
                raise
            print(f"    files of this machine changed meanwhile, asked again: {str(failure).splitlines()[0][:120]}", flush=True)
    return body()
