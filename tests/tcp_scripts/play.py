"""Plays one script against a stack: makes its calls, puts its frames in, and writes down what came out."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time

from harness.processes import PATIENCE

from . import language
from .frames import BadScript, Packet, Side, icmp_error, words_of
from .language import Script, Step
from .place import Place

# How long what is expected may take to come.
FRAME_SECONDS_MAX = 2.5 * PATIENCE
# How long a program asks again where weft stands beside it and not below it (row `beside` of docs/compatibility.md).
BESIDE_SECONDS_MAX = 2.0 * PATIENCE
OPTIONS, WINDOW = "<mss 1000,sackok,nop,wscale 8>", 1000
# The round trip: every acknowledgment of something new comes so late. Longer than what delays an acknowledgment (40 ms), and than what a busy machine adds.
ROUND_TRIP_SECONDS = 0.08
# The same after blocks: most of what is acknowledged then went out twice. A retransmission acknowledged sooner than the shortest round trip ever seen
# counts as superfluous for RACK: were all trips equal, a millisecond of noise would decide.
REPAIR_SECONDS = 0.1
BEHIND_SECONDS = 0.01
# What is recorded may come a tick of the kernel's later.
TICK_SECONDS = 0.006
# What else comes of the last step: as long as a delayed acknowledgment takes.
END_SECONDS = 0.06
# Frames later than this carry their time when they are recorded.
SHOWN_MS = 25
MTU = 1500
# What may be asked again without changing anything.
OBSERVERS = ("poll", "outq", "inq", "unsent", "info", "get", "atmark")


@dataclasses.dataclass
class Done:
    """A step as it went."""

    step: Step
    result: str | None
    # Text of frames, with the milliseconds since what stood before.
    frames: list[tuple[str, float]]

    def differs(self, six: bool) -> bool:
        wanted = [language.of_family(text, six) for text in self.step.frames]
        if self.step.result is not None and language.of_family(self.step.result, six) != self.result:
            return True
        pairs = zip(wanted, self.frames, strict=False)
        return len(wanted) != len(self.frames) or not all(language.same_frame(one, text, late) for one, (text, late) in pairs)

    def lines(self) -> list[str]:
        said = "" if self.result in (None, "ok") else f" = {self.result}"
        return [self.step.text + said, *(f"> {text}{shown_time(late)}" for text, late in self.frames)]


def shown_time(milliseconds: float) -> str:
    return f" @{round(milliseconds)}ms" if milliseconds >= SHOWN_MS else ""


class Play:
    def __init__(self, place: Place, script: Script, six: bool, recording: bool = False) -> None:
        self.place, self.script, self.six, self.recording = place, script, six, recording
        self.link = place.link(six)
        self.side = Side(self.link.stack, self.link.peer, MTU)
        self.side.peer_port = 8080
        self.side.stack_port = self.link.port
        self.side.clock = lambda: int((time.monotonic() - self.began) * 1000) + 1000
        self.began = time.monotonic()
        # The most that the stack has been told that the far end has.
        self.acknowledged = 0
        # Blocks have come that tell of what is in flight.
        self.reported = False
        self.done: list[Done] = []

    async def run(self) -> list[Done]:
        await self.call("begin", "", [[self.link.stack, self.link.port], [self.link.peer, self.side.peer_port]])
        try:
            for step in self.script.steps:
                await self.step(step)
            # What comes unasked at the end belongs to the last step.
            ended = time.monotonic()
            await asyncio.sleep(END_SECONDS)
            self.done[-1].frames += self.arrived(ended)
            return self.done
        finally:
            await self.call("end", "", [])
            self.link.close()

    async def call(self, call: str, socket: str, words: list) -> str:
        return await self.place.call(self.link.key, socket, call, words)

    async def step(self, step: Step) -> None:
        started = time.monotonic()
        match step.kind:
            case "passive" | "active":
                await self.opened(step)
                self.done.append(Done(step, None, []))
                return
            case "anew":
                self.side.stack_isn = None
                self.done.append(Done(step, None, []))
                return
            case "wait":
                await asyncio.sleep(int(step.arguments[0].removesuffix("ms")) / 1000)
            case "<":
                text = step.text.removeprefix("< ")
                await self.travel(text)
                started = time.monotonic()
                self.put(text)
        result = await self.called(step) if step.is_call else None
        await self.place.settled()
        if self.recording:
            await asyncio.sleep(TICK_SECONDS)
        frames: list[tuple[str, float]] = []
        wanted = len(step.frames)
        if step.kind == "await":
            wanted = int(step.arguments[0])
        elif self.recording:
            wanted = 0
        deadline = time.monotonic() + FRAME_SECONDS_MAX
        while True:
            more = self.arrived(started)
            frames += more
            if more:
                started = self.last
            if len(frames) >= wanted or not await self.link.arrival(deadline):
                break
        self.done.append(Done(step, result, frames))

    async def called(self, step: Step) -> str:
        deadline = time.monotonic() + BESIDE_SECONDS_MAX
        wanted = language.of_family(step.result or "ok", self.six)
        counted = 0
        while True:
            said = await self.call(step.kind, step.socket, step.arguments)
            if step.kind == "drain" and said.isdigit():
                counted += int(said)
                said = str(counted)
            again = self.place.beside and said != wanted and (step.kind in OBSERVERS or step.kind == "drain" and said.isdigit() or said == "EAGAIN")
            if not again or time.monotonic() > deadline:
                return said
            await asyncio.sleep(0.005)

    def arrived(self, since: float) -> list[tuple[str, float]]:
        """The frames that have come, as scripts write them, each with its distance from what was before."""
        shown = []
        self.last = since
        while self.link.frames:
            at, seen = self.link.frames.popleft()
            self.side.learn(seen)
            shown.append((self.side.shown(seen, self.script.windows), (at - self.last) * 1000))
            self.last = at
        return shown

    async def travel(self, text: str) -> None:
        """Lets a round trip pass before the stack hears of what it has sent."""
        if text.startswith("icmp ") or not self.script.round_trip:
            return
        words = words_of(text)
        acknowledged = words.fields.get("ack", self.acknowledged)
        advances = acknowledged > self.acknowledged
        if advances or any(word.startswith("sack ") for word in words.options):
            self.acknowledged = max(acknowledged, self.acknowledged)
            # Blocks about one flight come close behind each other: a tail probe is due after two round trips.
            seconds = BEHIND_SECONDS if self.reported else ROUND_TRIP_SECONDS
            await asyncio.sleep(REPAIR_SECONDS if self.reported and advances else seconds)
            self.reported = not advances

    def put(self, text: str) -> None:
        if not text.startswith("icmp "):
            return self.place.put(self.side.build(text))
        words = text.split()
        mtu = int(words[words.index("mtu") + 1]) if "mtu" in words else 0
        quoted = self.side.sent.get(int(words[words.index("of") + 1]))
        if quoted is None:
            raise BadScript(f"{self.script.name}: nothing was sent that this could be about: {text}")
        self.place.put(icmp_error(words[1], mtu, self.link.peer, quoted))

    async def opened(self, step: Step) -> None:
        """A connection, without a look at how it came about: the scripts of opening do that."""
        words = step.text.partition("<")
        options = words[1] + words[2] or OPTIONS
        given = words[0].split()
        window = int(given[given.index("win") + 1]) if "win" in given else WINDOW
        if "ts" in given and not words[1]:
            options = "<mss 1000,sackok,TS,nop,wscale 8>"
        last = f". 1:1 ack 1 win {window}"
        if stamped := re.search(r"TS (\d+)", options):
            last += f" <nop,nop,TS {int(stamped[1]) + 1} last>"
        if step.kind == "passive":
            await self.must("listen", "listener")
            self.put(f"S 0:0 win {65535} {options}")
            await self.one()
            await self.travel(last)
            self.put(last)
            await self.place.settled()
            await self.must("accept", "connection")
        else:
            said = await self.call("connect", "connection", [])
            if said != "EINPROGRESS":
                raise BadScript(f"{self.script.name}: connect: {said}")
            await self.one()
            answer = f"S. 0:0 ack 1 win {65535} {options}"
            await self.travel(answer)
            self.put(answer)
            await self.one()
            # The window of a SYN is not scaled: this one says what it is.
            self.put(last)
            await self.place.settled()
        self.arrived(time.monotonic())

    async def must(self, call: str, socket: str) -> None:
        deadline = time.monotonic() + BESIDE_SECONDS_MAX
        while (said := await self.call(call, socket, [])) != "ok":
            if said != "EAGAIN" or not self.place.beside or time.monotonic() > deadline:
                raise BadScript(f"{self.script.name}: {call}: {said}")
            await asyncio.sleep(0.005)

    async def one(self) -> Packet:
        """The next frame, which nobody looks at."""
        deadline = time.monotonic() + FRAME_SECONDS_MAX
        while not self.link.frames:
            if not await self.link.arrival(deadline):
                raise BadScript(f"{self.script.name}: no frame came while the connection opened")
        _, seen = self.link.frames.popleft()
        self.side.learn(seen)
        return seen
