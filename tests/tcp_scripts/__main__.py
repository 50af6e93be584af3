"""TCP frame by frame: scripts say what goes in and what comes out, and Linux and weft are seen to do just that, over IPv4 and IPv6.

    python3 -m tcp_scripts [WORDS…]

Words select scripts by their names. HOSTS=linux,strict,notify: those; the short form leaves notify out, FULL=1 has all. RECORD=1 writes down what Linux
does into the files of scripts/ that say nothing yet, or something else. SHOW=1 prints every play. What differs on weft stands in differences.toml.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
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

# Plays beside each other: they sleep more than they compute. What differs may be chance, on a machine that has other work: it is played again with ever
# fewer beside it.
ROUNDS = (48, 6, 1, 1, 1, 1)
# Where so many differ, and a calmer round mended less than half of them, it is no chance, and nobody waits for more rounds.
AGAIN_MAX = 60
FAMILIES = {"IPv4": False, "IPv6": True}


async def played(place: Place, script: Script, six: bool) -> str:
    """What differs from the script; nothing: all is as it says."""
    try:
        done = await Play(place, script, six).run()
    except (BadScript, asyncio.TimeoutError) as error:
        return str(error) or "no answer in time"
    if os.environ.get("SHOW"):
        print(f"{place.host}, {script.name}:\n  " + "\n  ".join(line for one in done for line in one.lines()), flush=True)
    first = next((at for at, one in enumerate(done) if one.differs(six)), None)
    return "" if first is None else differing(done, first, six)


def differing(done: list, first: int, six: bool) -> str:
    """The first step that differs, with the one before, and what the script says there."""
    lines = [f"    {line}" for one in done[max(first - 1, 0):first] for line in one.lines()]
    for one in done[first:first + 2]:
        lines += [f"    {line}" for line in one.lines()]
        if one.differs(six):
            wanted = "" if one.step.result in (None, "ok") else f" = {language.of_family(one.step.result, six)}"
            lines += [f"  script: {one.step.text}{wanted}", *(f"  script: > {language.of_family(text, six)}" for text in one.step.frames)]
    return "\n".join(lines)


@dataclasses.dataclass
class Turn:
    """A script over one family, and how it went."""

    place: Place
    script: Script
    family: str
    wrong: str = ""
    seconds: float = 0.0

    async def play(self) -> None:
        started = time.monotonic()
        said = await played(self.place, self.script, FAMILIES[self.family])
        self.wrong = differences.judged(self.script.name, self.family, self.place.host, said)
        self.seconds += time.monotonic() - started


async def play_all(turns: list[Turn]) -> None:
    """Plays all beside each other; what differs then is played again, in ever calmer rounds."""
    left = turns
    for number, at_once in enumerate(ROUNDS):
        room = asyncio.Semaphore(at_once)

        async def one(turn: Turn, room: asyncio.Semaphore = room) -> None:
            async with room:
                await turn.play()

        await asyncio.gather(*map(one, left))
        before, left = len(left), [turn for turn in left if turn.wrong]
        if not left or number and len(left) > max(AGAIN_MAX, before / 2):
            break


async def begun(place: Place, tag: str) -> str:
    """Starts a place; says why not."""
    try:
        await place.start(tag)
    except Failure as failure:
        return str(failure) or "it did not start"
    return ""


async def on_host(env: Environment, host: str, groups: list[list[Script]], recorder: results.Recorder) -> None:
    """Plays all scripts on stacks of their own kind, and writes down how each went."""
    places_of = [(Place(env, host, scripts[0].settings), scripts) for scripts in groups]
    failures = await asyncio.gather(*(begun(place, f"{host}{number}") for number, (place, _) in enumerate(places_of)))
    turns = []
    for (place, scripts), failure in zip(places_of, failures, strict=True):
        if failure:
            for script in scripts:
                recorder.add(results.Row(f"{script.name}/{host}", results.FAILED, 0, failure))
        else:
            turns += [Turn(place, script, family) for script in scripts for family in script.families]

    try:
        await play_all(turns)
    finally:
        for (place, _), failure in zip(places_of, failures, strict=True):
            if not failure:
                await place.stop()
    for turn in turns:
        outcome = results.FAILED if turn.wrong else results.PASSED
        recorder.add(results.Row(f"{turn.script.name}/{turn.family}/{host}", outcome, turn.seconds, turn.wrong))


def places(scripts: list[Script]) -> list[list[Script]]:
    """Scripts by the settings that they want of their stack."""
    found: dict[tuple, list[Script]] = {}
    for script in scripts:
        found.setdefault(script.place, []).append(script)
    return list(found.values())


async def check(env: Environment, hosts: list[str], scripts: list[Script], recorder: results.Recorder) -> None:
    for host in hosts:
        await on_host(env, host, places(scripts), recorder)


def hurry() -> None:
    """The far end goes before everything else that computes, as stacks and programs nearly do. Root may say so; others have more scripts played twice."""
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
