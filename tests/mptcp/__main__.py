"""`python3 -m mptcp` and the name of a target."""

import sys

from harness.environment import run_main

from mptcp import changes, interop, sim

TARGETS = {"sim": lambda: sim.main(changes.rows()), "interop": lambda: run_main(interop.main)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m mptcp {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
