"""`python3 -m virtual bench`, `chain`, `determinism`, `errors`, `exact` and `tools`."""

import sys

from virtual import bench, chain, determinism, errors, exact, tools

TARGETS = {"bench": bench.main, "chain": chain.main, "determinism": determinism.main, "errors": errors.main, "exact": exact.main, "tools": tools.main}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m virtual {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
