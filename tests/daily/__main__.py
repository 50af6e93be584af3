"""`make test-daily`: what people have open all day, over weft: browsers with windows and their own sandboxes, videos, a large file, voice, a remote desktop, mail; and a virtual
machine that shares a network with a stack.

Each row runs as a user who goes out through passt, as root on a TAP, and on the kernel, the oracle. Pictures of the windows come to target/daily.
ONLY= chooses rows by words of their names. FULL=1: ten minutes of voice, 700 MB, videos of three minutes; else a short form of each.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable

from harness import results
from harness.environment import Environment, run_main
from harness.processes import Failure
from programs import more_rows, rows as table  # noqa: F401  rows register themselves
from programs.shared import Shared, prepare
from programs.stage import Stage
from virtual.shared import is_wanted

from . import browsers, machine, voice, windows
from .places import PLACES

BROWSERS = ("chromium", "firefox")
Body = Callable[[Stage, str], str]


def ssh(stage: Stage, row: str) -> str:
    table.ROWS["ssh-scp"].body(stage)
    stage.finish()
    return ""


def bodies() -> dict[str, Body]:
    jobs = {"pages": browsers.pages, "download": browsers.download, "videos": browsers.videos}
    found: dict[str, Body] = {}
    for job, body in jobs.items():
        for name in BROWSERS:
            found[f"{job}/{name}"] = lambda stage, row, body=body, name=name: body(stage, name, row)
    return found | {"ssh": ssh, "vnc": windows.vnc, "mail": windows.mail}


def in_a_place(name: str, place: str, body: Body, shared: Shared) -> str:
    with Environment(f"{name}-{place}".replace("/", "-")) as env:
        return body(PLACES[place](env, shared), f"{name}/{place}")


def voices(shared: Shared) -> str:
    """Behind passt nobody can call back, so this is on a TAP, and on the kernel at the same time."""
    with Environment("voice-root") as one, Environment("voice-kernel") as other:
        return voice.call({place: PLACES[place](env, shared) for place, env in (("root", one), ("kernel", other))})


def main() -> int:
    recorder = results.Recorder()
    with Environment("shared") as env:
        shared = prepare(env)
        rows = {f"{name}/{place}": functools.partial(in_a_place, name, place, body, shared) for name, body in bodies().items() for place in PLACES}
        rows["voice"] = functools.partial(voices, shared)
        rows["virtual machine"] = functools.partial(machine.virtual_machine, shared)
        for name, body in rows.items():
            if is_wanted(name):
                recorder.add(results.judged(name, body, (Failure, OSError, subprocess.SubprocessError)))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(run_main(main))
