"""Descriptors of all kinds, passed on, duplicated, inherited, taken through execve and closed by many processes at once: what comes through each is its own.

`descriptors.c` says what it does; it checks itself, and its lines are the same on every host. `epolls.py` changes an epoll in another process than the one
that made it.
"""

from __future__ import annotations

import os

from harness.processes import Failure

from .place import NODE, NOTIFY, ROOT, STRICT, WEFT, Place, same_everywhere

FULL = bool(os.environ.get("FULL"))
# Processes that make descriptors, as many that keep them, and what each does.
WORKERS, ROUNDS = ("16", "150") if FULL else ("12", "60")
SEEDS = range(1, 21) if FULL else range(1, 3)
# docs/compatibility.md, `epoll-elsewhere`: not in a node.
ELSEWHERE = "epoll"


def command(place: Place, seed: int, *left_out: str) -> list[str]:
    return [place.compiled("descriptors.c"), WORKERS, ROUNDS, str(seed), *left_out]


def own(place: Place, host: str, seed: int) -> str:
    return same_everywhere(place, command(place, seed, *([ELSEWHERE] if host == NODE else [])), (host,))


def elsewhere(place: Place) -> str:
    """The row is true: with epolls of kernel descriptors a node differs, and in nothing else."""
    try:
        said = place.run(NODE, ROOT, command(place, 1)).text
    except Failure as failure:
        said = str(failure)
    wrong = [line for line in said.splitlines() if " of " in line and line.startswith("worker ")]
    if not any("look of epoll " in line for line in wrong):
        raise Failure("an epoll of kernel descriptors works in another process: take epoll-elsewhere out of docs/compatibility.md")
    return f"{len(wrong)} lines differ"


def rows(place: Place) -> dict:
    found = {f"{host}/{seed}": (lambda host=host, seed=seed: own(place, host, seed)) for host in (NOTIFY, STRICT, NODE) for seed in SEEDS}
    found |= {f"{host}/epolls": (lambda host=host: same_everywhere(place, place.script("epolls.py"), (host,))) for host in WEFT}
    return found | {"node/epoll-elsewhere": lambda: elsewhere(place)}
