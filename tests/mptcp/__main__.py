"""`python3 -m mptcp` and the name of a target."""

import sys
import tempfile

from harness.environment import run_main
from virtual.shared import run_rows

from mptcp import bench, boxes, changes, coverage, examples, flaps, gateways, interop, loopback, own_addresses, programs, refused, sim

# Most worlds wait for their own programs.
BOXES_AT_ONCE = 2


def test() -> int:
    """Both, whatever comes of the first."""
    # A node has a /tmp of its own: what its programs are to find lies elsewhere.
    tempfile.tempdir = "/var/tmp"
    return max(run_rows(boxes.rows() | examples.real_rows(), at_once=BOXES_AT_ONCE), programs.main())


TARGETS = {"bench": lambda: run_main(bench.main), "test": lambda: run_main(test), "sim": lambda: sim.main(changes.rows() | refused.rows() | loopback.rows() | gateways.rows() | flaps.rows() | examples.rows()),
           "interop": lambda: run_main(lambda: interop.main(own_addresses.groups())), "coverage": coverage.main}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m mptcp {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
