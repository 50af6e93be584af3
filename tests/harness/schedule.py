"""Tasks beside each other: each begins when what it needs is there and the processors have room for it.

A task's load is the number of processors that it keeps busy on average: most targets wait more than they compute, so
several fit on one processor. What takes longest begins first. A task that is more than the whole room runs by itself.
"""

from __future__ import annotations

import dataclasses
import graphlib
import queue
import threading
from collections.abc import Callable, Collection, Iterable


@dataclasses.dataclass(frozen=True)
class Task:
    """`body` runs in a thread of its own and says whether others may build on it. `seconds`: about how long it takes."""

    name: str
    body: Callable[[], bool]
    load: float = 1.0
    seconds: float = 0.0
    needs: frozenset[str] = frozenset()
    # Begins when all tasks without this mark have ended.
    last: bool = False


def run_all(tasks: Collection[Task], room: float) -> list[str]:
    """Runs the tasks, at most `room` processors' worth at a time. Returns the names of those that never began, because
    what they need failed. What a body raises is raised here, once those that run have ended; no other begins then.

    Raises graphlib.CycleError for tasks that need each other, and KeyError for a need that is no task."""
    waiting = {task.name: task for task in tasks}
    graphlib.TopologicalSorter({task.name: [waiting[need].name for need in task.needs] for task in tasks}).prepare()
    running: dict[str, Task] = {}
    succeeded: set[str] = set()
    never: list[str] = []
    ended: queue.SimpleQueue[tuple[str, bool, BaseException | None]] = queue.SimpleQueue()

    def begin(task: Task) -> None:
        def in_thread() -> None:
            try:
                ended.put((task.name, task.body(), None))
            except BaseException as error:  # for whoever waits below
                ended.put((task.name, False, error))

        running[task.name] = waiting.pop(task.name)
        threading.Thread(target=in_thread, name=task.name, daemon=True).start()

    raised: BaseException | None = None
    while waiting or running:
        while raised is None and (task := _next(waiting.values(), running.values(), succeeded, room)):
            begin(task)
        if not running:
            break
        name, good, error = ended.get()
        del running[name]
        raised = raised or error
        if good:
            succeeded.add(name)
        else:
            never += _drop_dependents(waiting, name)
    if raised is not None:
        raise raised
    return never


def _next(waiting: Iterable[Task], running: Collection[Task], succeeded: set[str], room: float) -> Task | None:
    """The longest task that may begin now."""
    waiting = list(waiting)
    others = any(not task.last for task in (*waiting, *running))
    used = sum(task.load for task in running)
    ready = [task for task in waiting
             if task.needs <= succeeded and not (task.last and others) and (used + task.load <= room or not running)]
    return max(ready, key=lambda task: task.seconds, default=None)


def _drop_dependents(waiting: dict[str, Task], failed: str) -> list[str]:
    """Takes away what needs `failed`, directly or through others."""
    gone = [failed]
    for name in gone:
        for task in [task for task in waiting.values() if name in task.needs]:
            del waiting[task.name]
            gone.append(task.name)
    return gone[1:]
