"""`python3 -m virtual` and the name of a target."""

import sys

from virtual import bench, chain, clocks, coverage, cpython, debugger, determinism, errors, exact, fidelity, kernel_bench, kernels, memory, results, table, tools, twins, worlds

TARGETS = {
    "bench": bench.main,
    "bench-kernel": kernel_bench.main,
    "chain": chain.main,
    "clocks": clocks.main,
    "coverage": coverage.main,
    "cpython": cpython.main,
    "determinism": determinism.main,
    "errors": errors.main,
    "exact": exact.main,
    "gdb": debugger.main,
    "kernel": kernels.main,
    "fidelity": fidelity.main,
    "memory": memory.main,
    "programs": table.main,
    "results": results.main,
    "tools": tools.main,
    "twins": twins.main,
    "worlds": worlds.main,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python3 -m virtual {'|'.join(TARGETS)}")
    sys.exit(TARGETS[sys.argv[1]]())
