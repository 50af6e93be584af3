"""Tasks beside each other: what fits runs together, what needs something waits for it, what cannot begin is named."""

from __future__ import annotations

import graphlib
import threading
import unittest

from harness.schedule import Task, run_all

# A watchdog.
SECONDS_MAX = 20


class Schedule(unittest.TestCase):
    def setUp(self) -> None:
        self.order: list[str] = []

    def task(self, name: str, good: bool = True, **more) -> Task:
        def body() -> bool:
            self.order.append(name)
            return good

        return Task(name, body, **more)

    def test_the_longest_begins_first(self) -> None:
        run_all([self.task("short", seconds=1), self.task("long", seconds=9), self.task("middle", seconds=5)], room=1)
        self.assertEqual(self.order, ["long", "middle", "short"])

    def test_what_fits_runs_together_and_more_does_not(self) -> None:
        here, most, lock, together = set(), [0], threading.Lock(), threading.Barrier(2)

        def task(name: str) -> Task:
            def body() -> bool:
                with lock:
                    here.add(name)
                    most[0] = max(most[0], len(here))
                # Two wait for each other: they do run beside one another.
                together.wait(SECONDS_MAX)
                with lock:
                    here.discard(name)
                return True

            return Task(name, body, load=0.5)

        run_all([task(name) for name in "abcd"], room=1.2)
        self.assertEqual(most[0], 2)

    def test_what_is_more_than_the_room_runs_alone(self) -> None:
        run_all([self.task("large", load=8, seconds=9), self.task("small")], room=2)
        self.assertEqual(self.order, ["large", "small"])

    def test_needs_come_first_and_the_last_last(self) -> None:
        run_all([self.task("last", seconds=99, last=True), self.task("second", seconds=9, needs=frozenset({"first"})), self.task("first")], room=9)
        self.assertEqual(self.order, ["first", "second", "last"])

    def test_what_needs_a_failure_never_begins(self) -> None:
        never = run_all([self.task("broken", good=False), self.task("needs", needs=frozenset({"broken"})),
                         self.task("through", needs=frozenset({"needs"})), self.task("other")], room=1)
        self.assertEqual((sorted(self.order), never), (["broken", "other"], ["needs", "through"]))

    def test_needs_in_a_circle_and_unknown_ones_are_refused(self) -> None:
        with self.assertRaises(graphlib.CycleError):
            run_all([self.task("a", needs=frozenset({"b"})), self.task("b", needs=frozenset({"a"}))], room=1)
        with self.assertRaises(KeyError):
            run_all([self.task("a", needs=frozenset({"nothing"}))], room=1)
        self.assertEqual(self.order, [])

    def test_what_a_body_raises_is_raised(self) -> None:
        def body() -> bool:
            raise ValueError("as planted")

        with self.assertRaisesRegex(ValueError, "as planted"):
            run_all([Task("bad", body, seconds=9), self.task("other")], room=1)
        self.assertEqual(self.order, [])


if __name__ == "__main__":
    unittest.main()
