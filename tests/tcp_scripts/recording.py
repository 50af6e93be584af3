"""What Linux does, written into the files of scripts/: for whoever writes a script, who then reads it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from harness.environment import Environment

from . import language
from .frames import BadScript
from .language import HERE, Script
from .place import LINUX, Place
from .play import Done, Play

_TIME = re.compile(r" @\d+ms$")
# What chance decides is no script: it shows in one of so many plays.
PLAYS = 3


async def record(env: Environment, groups: list[list[Script]]) -> int:
    """Plays every script whose lines stand as they are, and puts what came into its place: where all plays say the same."""
    room, bodies, failed = asyncio.Semaphore(12), {}, []

    async def one(place: Place, script: Script) -> None:
        async with room:
            try:
                plays = {family: [await Play(place, script, family == "IPv6", recording=True).run() for _ in range(PLAYS)] for family in script.families}
                bodies[script.name] = body(script, plays)
            except (BadScript, asyncio.TimeoutError) as error:
                failed.append(script.name)
                print(f"{script.name}: {error}")

    for number, scripts in enumerate(groups):
        place = Place(env, LINUX, scripts[0].settings)
        await place.start(f"record{number}")
        await asyncio.gather(*(one(place, script) for script in scripts if not script.made))
        await place.stop()
    for path in sorted(HERE.glob("*.txt")):
        written(path, bodies)
    return 1 if failed else 0


def body(script: Script, plays: dict[str, list[list[Done]]]) -> list[str]:
    """The lines of all plays."""
    texts = {family: [[line for step in play for line in step.lines()] for play in several] for family, several in plays.items()}
    for family, several in texts.items():
        bare = [[_TIME.sub("", line) for line in play] for play in several]
        if other := next((play for play in bare if play != bare[0]), None):
            raise BadScript(f"{family} differs from itself:\n  " + "\n  ".join(differing(bare[0], other)))
    ours, theirs = (texts[family][0] for family in (script.families[0], script.families[-1]))
    both = [language.merged(_TIME.sub("", one), _TIME.sub("", other)) for one, other in zip(ours, theirs, strict=False)]
    if len(ours) != len(theirs) or None in both:
        raise BadScript("IPv4 and IPv6 differ:\n  " + "\n  ".join(differing(ours, theirs)))
    return [text + "".join(_TIME.findall(line)) for text, line in zip(both, ours, strict=True)]


def differing(ours: list[str], theirs: list[str]) -> list[str]:
    first = next((at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), min(len(ours), len(theirs)))
    return [*ours[max(first - 2, 0):first], *(f"- {line}" for line in ours[first:first + 3]), *(f"+ {line}" for line in theirs[first:first + 3])]


def written(path: Path, bodies: dict[str, list[str]]) -> None:
    """The file with what was recorded; lines before the first step stay."""
    parts = re.split(r"^(== .*)$", path.read_text(), flags=re.MULTILINE)
    for at in range(1, len(parts), 2):
        name = f"{path.stem}/{parts[at].removeprefix('== ').strip()}"
        if name in bodies:
            head = [line for line in parts[at + 1].splitlines() if re.match(r"(#|sysctl|windows|only|at once)", line)]
            parts[at + 1] = "\n".join(["", *head, *bodies[name], "", ""])
    path.write_text("".join(parts).rstrip("\n") + "\n")
