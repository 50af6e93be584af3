"""What a program does natively, it does on every host of weft's: notify, --strict and a node, as root and as a normal user.

    python3 -m hosts descriptors|options|rows|waits [WORDS…]

Words select rows. Short form: few seeds. FULL=1: many.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from harness import paths, results
from harness.busy import busy_loops
from harness.environment import Environment, run_main

from . import descriptors, options, rows, waits
from .place import FULL, Place

TARGETS = {"descriptors": descriptors.rows, "options": options.rows, "rows": rows.rows, "waits": waits.rows}
# Their rows mostly wait: so many run beside each other.
AT_ONCE = {"options": 3, "waits": 3 if FULL else 1}
# Other work for the processors, meanwhile.
BUSY = {"waits": 4 if FULL else 0}


def main() -> int:
    target, *words = sys.argv[1:]
    recorder = results.Recorder()
    with Environment(target) as env, busy_loops(BUSY.get(target, 0)):
        place = Place(env)
        chosen = {name: body for name, body in TARGETS[target](place).items() if not words or any(word in name for word in words)}
        with ThreadPoolExecutor(AT_ONCE.get(target, 1)) as pool:
            try:
                for done in [pool.submit(lambda name=name, body=body: recorder.add_said(results.judged(name, body))) for name, body in chosen.items()]:
                    done.result()
            except BaseException:
                # Told to end (SIGTERM, ^C): the pool waits for its rows, and they for what they have started.
                pool.shutdown(wait=False, cancel_futures=True)
                place.stop()
                raise
    return recorder.finish()


if __name__ == "__main__":
    if paths.weft_binary() is None or len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        print(f"run make build, or set WEFT_BIN; and name one of {', '.join(TARGETS)}")
        sys.exit(1)
    # As a normal user the program under weft has no namespace around it: that is what a normal user has.
    sys.exit(run_main(main, user_namespace=False))
