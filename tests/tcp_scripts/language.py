"""Scripts: what goes into a stack and what is expected out of it, step by step.

A file of scripts/ has many. Each begins with `== NAME`, then lines of its own:

    # what it shows
    sysctl NAME VALUE         a setting of the stack, by Linux's name below net.ipv4
    only IPv4                 or IPv6: it says nothing about the other family
    windows                   the windows of all frames are looked at, not only those of SYNs and closed ones
    at once                   acknowledgments come as soon as they can, and not after a round trip
    with NAME = VALUE …       one script for each value, which stands for {NAME}; {expressions} of numbers are worked out

and then steps, each with what it brings:

    passive [win N] [<options>]     a connection that the far end opened (mss 1000, sackok, wscale 8; window 1000)
    active [win N] [<options>]      one that the program opened
    CALL WORDS… = RESULT            a call of the program's (program.py); without RESULT it is "ok". `listener` before it: on the listener
    < SEGMENT                       a frame goes in (frames.py)
    < icmp ERROR [mtu N] of SEQ     an ICMP error goes in, about the last segment that began at SEQ
    wait 300ms                      time passes
    await N                         until so many frames have come out
    anew                            the stack's next SYN begins another connection: its numbers count from there
    > SEGMENT [@200ms]              a frame comes out, about so long after what stands before it

A word `a|b` of what comes out is a over IPv4 and b over IPv6.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from harness.processes import PATIENCE

from .frames import BadScript

HERE = Path(__file__).parent / "scripts"
CALLS = (
    "socket listen accept bind connect send sendto fill recv drain set get getkey linger control shutdown close poll outq inq unsent atmark info").split()
_TIME = re.compile(r" @(\d+)ms$")
# A time that is said counts as met between these: machines that test are busy ones.
EARLY, LATE, LATE_MS = 0.7, 1.6, 100
# What says no time comes at once: sooner than the shortest delayed acknowledgment (40 ms).
AT_ONCE_MS = 38 * PATIENCE


@dataclasses.dataclass
class Step:
    """One thing that is done, what it says, and the frames that follow."""

    words: list[str]
    text: str
    # None: nothing to say.
    result: str | None = None
    frames: list[str] = dataclasses.field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.words[1] if self.words[0] == "listener" else self.words[0]

    @property
    def is_call(self) -> bool:
        return self.kind in CALLS

    @property
    def socket(self) -> str:
        return "listener" if self.words[0] == "listener" or self.kind == "listen" else "connection"

    @property
    def arguments(self) -> list[str]:
        return self.words[2:] if self.words[0] == "listener" else self.words[1:]


@dataclasses.dataclass
class Script:
    name: str
    file: str
    about: str = ""
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    windows: bool = False
    round_trip: bool = True
    families: tuple[str, ...] = ("IPv4", "IPv6")
    steps: list[Step] = dataclasses.field(default_factory=list)
    # Lines are worked out from values: what is recorded cannot be put in their place.
    made: bool = False

    @property
    def place(self) -> tuple[tuple[str, str], ...]:
        """Scripts of one place run beside each other on one stack."""
        return tuple(sorted(self.settings.items()))


def worked_out(text: str, values: dict[str, int | str]) -> str:
    """With {expressions} replaced by what they come to."""
    def one(match: re.Match[str]) -> str:
        try:
            # Scripts are part of the tests.
            return str(eval(match[1], {"__builtins__": {}, "min": min, "max": max}, values))
        except Exception as error:
            raise BadScript(f"{match[0]}: {error}") from None
    return re.sub(r"\{([^}]*)\}", one, text)


def number_or_word(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def parsed(name: str, file: str, lines: list[str], values: dict[str, int | str]) -> Script:
    script = Script(name, file, made=any("{" in line for line in lines))
    for line in lines:
        text = worked_out(line.strip(), values)
        if not text or text.startswith("with "):
            continue
        head, _, rest = text.partition(" ")
        if head == "#":
            script.about = f"{script.about} {rest}".strip()
        elif head == "sysctl":
            setting, _, value = rest.partition(" ")
            script.settings[setting] = value
        elif head == "only":
            script.families = (rest,)
        elif text == "at once":
            script.round_trip = False
        elif text == "windows":
            script.windows = True
        elif head == ">":
            if not script.steps:
                raise BadScript(f"{name}: a frame before anything was done: {text}")
            script.steps[-1].frames.append(rest)
        else:
            script.steps.append(step(name, text))
    if not script.steps:
        raise BadScript(f"{name}: nothing is done")
    return script


def step(name: str, text: str) -> Step:
    done, marked, result = text.partition(" = ")
    made = Step(done.split(), done)
    if made.kind not in (*CALLS, "<", "wait", "await", "anew", "passive", "active"):
        raise BadScript(f"{name}: what is this: {text}")
    if made.is_call:
        made.result = result if marked else "ok"
    return made


def read(path: Path) -> list[Script]:
    """The scripts of a file, those with values once for each."""
    scripts, parts = [], re.split(r"^== (.*)$", path.read_text(), flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = body.splitlines()
        combinations: list[dict[str, int | str]] = [{}]
        for line in lines:
            if line.startswith("with "):
                key, _, given = line.removeprefix("with ").partition(" = ")
                combinations = [{**one, key.strip(): number_or_word(value)} for one in combinations for value in given.split()]
        for values in combinations:
            full = "/".join([path.stem, name.strip(), *(f"{key} {value}" for key, value in values.items())])
            scripts.append(parsed(full, path.name, lines, values))
    return scripts


def all_scripts() -> list[Script]:
    scripts = [script for path in sorted(HERE.glob("*.txt")) for script in read(path)]
    names = [script.name for script in scripts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise BadScript(f"two scripts of one name: {sorted(twice)}")
    return scripts


def of_family(text: str, six: bool) -> str:
    """With the words of one family."""
    return re.sub(r"([^\s,<>|=]+)\|([^\s,<>|]+)", lambda match: match[2] if six else match[1], text)


def merged(four: str, six: str) -> str | None:
    """One line for both families; None: they differ in more than single words."""
    if four == six:
        return four
    ours, theirs = re.split(r"([\s,<>=]+)", four), re.split(r"([\s,<>=]+)", six)
    if len(ours) != len(theirs):
        return None
    return "".join(one if one == other else f"{one}|{other}" for one, other in zip(ours, theirs))


def same_frame(expected: str, seen: str, milliseconds: float) -> bool:
    """Is this the frame that is expected, and about when it is?"""
    if match := _TIME.search(expected):
        wanted = int(match[1])
        if not wanted * EARLY <= milliseconds <= wanted * LATE + LATE_MS:
            return False
    elif milliseconds > AT_ONCE_MS:
        return False
    return _TIME.sub("", expected) == seen
