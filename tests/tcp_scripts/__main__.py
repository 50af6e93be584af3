"""TCP frame by frame: scripts say what goes in and what comes out, and Linux and weft are seen to do just that, over IPv4 and IPv6.

    python3 -m tcp_scripts [WORDS…]

Words select scripts by their names. HOSTS=linux,strict,notify: those; the short form leaves notify out, FULL=1 has all. RECORD=1 writes down what Linux
does into the files of scripts/ that say nothing yet, or something else. SHOW=1 prints every play. What differs on weft stands in differences.toml.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time

from harness import paths, results
from harness.environment import Environment, run_main
from harness.processes import Failure

from . import differences, language, recording
from .frames import BadScript
from .language import Script
from .place import HOSTS, NOTIFY, Place
from .play import Play

# Plays beside each other: they sleep more than they compute.
AT_ONCE = 48
# What differs this often differs; once may be chance, on a machine that has other work.
TRIES = 3
FAMILIES = {"IPv4": False, "IPv6": True}


async def played(place: Place, script: Script, six: bool) -> str:
    """What differs from the script; nothing: all is as it says."""
    said = ""
    for _ in range(TRIES):
        try:
            done = await Play(place, script, six).run()
        except (BadScript, asyncio.TimeoutError) as error:
            said = str(error) or "no answer in time"
            continue
        if os.environ.get("SHOW"):
            print(f"{place.host}, {script.name}:\n  " + "\n  ".join(line for one in done for line in one.lines()), flush=True)
        first = next((at for at, one in enumerate(done) if one.differs(six)), None)
        if first is None:
            return ""
        said = differing(done, first, six)
    return said


def differing(done: list, first: int, six: bool) -> str:
    """The first step that differs, with the one before, and what the script says there."""
    lines = [f"    {line}" for one in done[max(first - 1, 0):first] for line in one.lines()]
    for one in done[first:first + 2]:
        lines += [f"    {line}" for line in one.lines()]
        if one.differs(six):
            wanted = "" if one.step.result in (None, "ok") else f" = {language.of_family(one.step.result, six)}"
            lines += [f"  script: {one.step.text}{wanted}", *(f"  script: > {language.of_family(text, six)}" for text in one.step.frames)]
    return "\n".join(lines)


async def one_place(env: Environment, host: str, number: int, scripts: list[Script], recorder: results.Recorder, room: asyncio.Semaphore) -> None:
    place = Place(env, host, scripts[0].settings)
    try:
        await place.start(f"{host}{number}")
    except Failure as failure:
        for script in scripts:
            recorder.add(results.Row(f"{script.name}/{host}", results.FAILED, 0, str(failure)))
        return

    async def one(script: Script, family: str) -> None:
        async with room:
            started = time.monotonic()
            wrong = differences.judged(script.name, family, host, await played(place, script, FAMILIES[family]))
            outcome = results.FAILED if wrong else results.PASSED
            recorder.add(results.Row(f"{script.name}/{family}/{host}", outcome, time.monotonic() - started, wrong))

    try:
        await asyncio.gather(*(one(script, family) for script in scripts for family in script.families))
    finally:
        await place.stop()


def places(scripts: list[Script]) -> list[list[Script]]:
    """Scripts by the settings that they want of their stack."""
    found: dict[tuple, list[Script]] = {}
    for script in scripts:
        found.setdefault(script.place, []).append(script)
    return list(found.values())


async def check(env: Environment, hosts: list[str], scripts: list[Script], recorder: results.Recorder) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    for host in hosts:
        await asyncio.gather(*(one_place(env, host, number, group, recorder, room) for number, group in enumerate(places(scripts))))


def hurry() -> None:
    """The far end computes for seconds, and much of it is about milliseconds: it goes before what has the processors for minutes. Root may say so;
    others have more scripts played twice. Stacks and programs stay as they are: some wait for each other without sleeping."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def main() -> int:
    hurry()
    scripts = [script for script in language.all_scripts() if not sys.argv[1:] or any(word in script.name for word in sys.argv[1:])]
    recorder = results.Recorder(quiet=True)
    with Environment("scripts") as env:
        if os.environ.get("RECORD"):
            return asyncio.run(recording.record(env, places(scripts)))
        differences.check([script.name for script in language.all_scripts()])
        short = [host for host in HOSTS if host != NOTIFY or os.environ.get("FULL")]
        hosts = os.environ["HOSTS"].split(",") if os.environ.get("HOSTS") else short
        asyncio.run(check(env, hosts, scripts, recorder))
    return recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None:
        print("run make build, or set WEFT_BIN")
        sys.exit(1)
    sys.exit(run_main(main))
