"""`python3 -m virtual exact` and `python3 -m virtual chain`."""

import sys

from virtual import chain, exact

TARGETS = {"chain": chain.main, "exact": exact.main}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m virtual {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
