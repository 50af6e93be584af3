"""Types into a program that gives every key back: a JSON object says when each was typed, in s, and how long it took.

    typist.py SECONDS PROGRAM [ARGUMENT …]
"""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
import tty

EVERY_S = 0.1
# When worlds begin, unless they say otherwise: 2030-01-01.
START = 1893456000


def now() -> float:
    return time.time() - START


def main(seconds: float, command: list[str]) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    tty.setraw(terminal)
    # What it says first: that the session is there.
    said = b""
    while not said.endswith(b"ready\n"):
        said += os.read(terminal, 100)
    begun, count, typed, took = now(), int(seconds / EVERY_S), [], []
    while len(took) < count:
        due = begun + len(typed) * EVERY_S if len(typed) < count else None
        if due is not None and now() >= due:
            typed.append(now())
            os.write(terminal, b"x")
        elif select.select([terminal], [], [], due and due - now())[0]:
            came = os.read(terminal, 1000)
            took += [now() - at for at in typed[len(took):len(took) + len(came)]]
    print(json.dumps({"typed": typed, "took": took}))
    os.write(terminal, b"\x04")


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
