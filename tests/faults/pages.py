"""Programs whose pages come late, below the arguments of their calls: nobody else waits for them.

pages.c makes every call that reads or writes memory, each once for each of its pages, in pages that somebody answers for: a handler of
userfaultfd, a FUSE server. The answer comes when another program has had a whole transfer on the same stack. What each call came to
must be what it is natively.
"""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

from harness import weft
from harness.environment import Environment
from harness.namespaces import Namespace
from harness.processes import Failure
from load.stage import build

HERE = Path(__file__).parent
# A watchdog: all of it takes a tenth of a second.
SECONDS_MAX = 40
KINDS = ("missing", "protected", "race", "fuse")
FAMILIES, ENGINES = (4, 6), ("inline", "queued", "threaded")
STUCK = 3
# Of a process tree at a time, and calls beside each other: more than that, and more than may wait.
WORKERS, MANY, CROWD = 64, 300, 4400
# More than a process tree may have errands. Below --strict a call that is stuck is not interrupted, as in the kernel.
TICKS = 100
NEEDS_ROOT = "userfaultfd(2) for the kernel's accesses, and /dev/fuse, are root's; runs as root"


def cases(full: bool) -> list[tuple[str, bool, int, str]]:
    """Rows: kind, strict, family, engine. The short form has each kind below each adapter over each family, and each engine with each adapter."""
    every = [(kind, strict, family, engine) for kind in KINDS for strict in (False, True) for family in FAMILIES for engine in ENGINES]
    short = [(kind, strict, family, "inline" if family == FAMILIES[0] else ENGINES[1 + (number + strict) % 2])
             for number, kind in enumerate(KINDS) for strict in (False, True) for family in FAMILIES]
    return every if full else short


def built(env: Environment) -> str:
    return build(env, "pages", HERE)


def late(env: Environment, pages: str, kind: str, strict: bool, family: int, engine: str) -> str:
    namespace = env.namespace("s")
    namespace.enable_ipv6()
    native = _run(env, pages, kind, family, namespace, "native", [])
    daemon = weft.Daemon(env, namespace, extra=("--engine", engine))
    under = _run(env, pages, kind, family, namespace, "weft", daemon.run_words(*(["--strict"] if strict else [])))
    if under != native:
        both = [f"natively {one!r}, under weft {other!r}" for one, other in zip(native, under) if one != other]
        raise Failure("; ".join(both) or f"{len(native)} lines natively, {len(under)} under weft")
    daemon.down()
    return f"{len(native)} calls, a transfer during each"


def _run(env: Environment, pages: str, kind: str, family: int, namespace: Namespace, name: str, words: list[str]) -> list[str]:
    """What every call came to."""
    go, done = env.folder / f"{name}-go", env.folder / f"{name}-done"
    os.mkfifo(go)
    os.mkfifo(done)
    other = env.start(f"{name}-other", [*words, pages, "other", str(go), str(done)], namespace, FAMILY=str(family))
    slow = env.start(f"{name}-slow", [*words, pages, "slow", kind, str(go), str(done)], namespace, FAMILY=str(family))
    if status := slow.wait(SECONDS_MAX):
        raise Failure(f"the program with late pages ended with status {status}")
    if status := other.wait(SECONDS_MAX):
        raise Failure(f"the other program ended with status {status}")
    return slow.stdout.splitlines()


def stuck(env: Environment, pages: str, strict: bool) -> str:
    """Pages that never come: nobody waits for them but their program, which can be killed, and which signals reach."""
    namespace = env.namespace("s")
    daemon = weft.Daemon(env, namespace)
    words = daemon.run_words(*(["--strict"] if strict else []))
    programs = [env.start(f"stuck-{number}", [*words, pages, "stuck", "0" if strict else str(TICKS)], namespace) for number in range(STUCK)]
    inner = [int(program.wait_for_line("interrupted ", SECONDS_MAX).split()[-1]) for program in programs]
    env.run("transfer", [*words, pages, "transfer"], namespace, SECONDS_MAX)
    for program, pid in zip(programs, inner):
        os.kill(pid, signal.SIGKILL)
        program.wait(SECONDS_MAX)
    env.run("transfer-again", [*words, pages, "transfer"], namespace, SECONDS_MAX)
    daemon.down()
    return f"{STUCK} programs stuck for good, killed"


def many(env: Environment, pages: str, strict: bool) -> str:
    """More calls at a time than a tree has workers: they wait for one, as those that have one wait for their page."""
    namespace = env.namespace("s")
    native = env.run("native", [pages, "many", str(MANY), "0"], namespace, SECONDS_MAX)
    daemon = weft.Daemon(env, namespace)
    under = env.run("weft", [*daemon.run_words(*(["--strict"] if strict else [])), pages, "many", str(MANY), "0"], namespace, SECONDS_MAX)
    if native != f"{MANY} of {MANY}, 0 refused\n" or under != native:
        raise Failure(f"natively {native!r}, under weft {under!r}")
    daemon.down()
    return f"{MANY} calls, each in memory whose page comes late"


def none_comes(env: Environment, pages: str, threads: int) -> str:
    """What waits for a worker is refused where none comes back, however many wait; so is at once what is more than may wait."""
    namespace = env.namespace("s")
    daemon = weft.Daemon(env, namespace)
    said = env.run("many", [*daemon.run_words(), pages, "many", str(threads), str(threads - WORKERS)], namespace, SECONDS_MAX)
    if said != f"0 of {threads}, {threads - WORKERS} refused\n":
        raise Failure(f"{said!r}")
    env.run("transfer", [*daemon.run_words(), pages, "transfer"], namespace, SECONDS_MAX)
    daemon.down()
    return f"{WORKERS} of {threads} calls wait on"


def stack_lost(env: Environment, pages: str, how: str) -> str:
    """A stack that ends while its workers have a call, which no signal interrupts: nobody else could answer it."""
    namespace = env.namespace("s")
    daemon = weft.Daemon(env, namespace)
    program = env.start("stuck", [*daemon.run_words(), pages, "stuck", "0"], namespace)
    program.wait_for_line("interrupted ", SECONDS_MAX)
    os.kill(daemon.process.pid, signal.Signals[how])
    daemon.process.wait(SECONDS_MAX)
    program.wait(SECONDS_MAX)
    wanted = f"failed: the page came: {os.strerror(errno.ENETDOWN)}"
    if wanted not in program.stdout.splitlines():
        raise Failure(f"the program said {program.stdout!r} instead of {wanted!r}")
    return "the call fails with ENETDOWN"
