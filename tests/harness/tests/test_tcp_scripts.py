"""Scripts of TCP are played again where a busy machine made them late, and only there."""

from __future__ import annotations

import asyncio
import unittest
from collections import Counter

from tcp_scripts import __main__ as scripts


class Fake:
    """A turn that goes well where at most `bears` are played beside each other."""

    beside = 0
    played: Counter = Counter()

    def __init__(self, bears: int) -> None:
        self.bears, self.wrong = bears, ""

    async def play(self) -> None:
        Fake.beside += 1
        Fake.played[self.bears] += 1
        for _ in range(3):
            await asyncio.sleep(0)
            if Fake.beside > self.bears:
                self.wrong = "late"
                break
        else:
            self.wrong = ""
        await asyncio.sleep(0)
        Fake.beside -= 1


def outcome(turns: list[Fake]) -> tuple[int, Counter]:
    """How many stay wrong, and how often turns of each kind were played."""
    Fake.played = Counter()
    asyncio.run(scripts.play_all(turns))
    return sum(bool(turn.wrong) for turn in turns), Fake.played


class Rounds(unittest.TestCase):
    def test_what_load_made_late_is_played_again_however_much_it_is(self) -> None:
        wrong, played = outcome([Fake(6) for _ in range(500)] + [Fake(1) for _ in range(20)])
        self.assertEqual(wrong, 0)
        self.assertLess(played[6], 1100)

    def test_what_is_wrong_stays_wrong(self) -> None:
        few, played = outcome([Fake(0) for _ in range(10)])
        self.assertEqual((few, played[0]), (10, 10 * len(scripts.ROUNDS)))
        many, played = outcome([Fake(0) for _ in range(100)] + [Fake(48) for _ in range(900)])
        self.assertEqual((many, played[0]), (100, 200))
