"""`python3 -m virtual chain`, `coverage`, `gdb`, `memory`, `determinism`, `errors`, `exact` and `tools`."""

import sys

from virtual import chain, coverage, debugger, determinism, errors, exact, memory, tools

TARGETS = {"chain": chain.main, "coverage": coverage.main, "gdb": debugger.main, "memory": memory.main, "determinism": determinism.main, "errors": errors.main, "exact": exact.main, "tools": tools.main}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m virtual {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
