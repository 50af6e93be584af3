"""Go's own tests, of the installed toolchain: one static binary for each package, with its own poller and raw system calls."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness import paths

from .suite import FAILED, PASSED, SKIPPED, TIMEOUT, Ended, Suite, folder, run

PACKAGES = ("net", "net/http", "os", "os/exec", "os/signal", "syscall", "internal/poll")
WORDS = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
SAID = re.compile(r"--- (PASS|FAIL|SKIP): (\S+)")


def verdicts(unit: str, ended: Ended) -> dict[str, str]:
    """Of the test and each of its parts; the test's own is the process's where it says none."""
    said = {name: WORDS[word] for word, name in SAID.findall(ended.text)}
    if ended.status is None:
        said[unit] = TIMEOUT
    elif ended.status or unit not in said:
        said[unit] = FAILED
    return said


def suite(package: str) -> Suite:
    go = paths.tool("go")
    variables = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(folder("go")), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local",
        "GOCACHE": os.environ.get("GOCACHE", str(paths.output_dir() / "go-cache")), "GOFLAGS": "-mod=mod",
    }
    root, version = run([go, "env", "GOROOT", "GOVERSION"], folder("go"), **variables).split()
    source = Path(root) / "src" / package
    binary = folder("go", version) / f"{package.replace('/', '-')}.test"
    if not binary.exists():
        run([go, "test", "-c", "-o", str(binary), package], source, **variables)
    units = tuple(re.findall(r"^Test\S+", run([str(binary), "-test.list", "^Test"], source), re.M))
    return Suite(
        name=f"go-{package.replace('/', '-')}",
        what=f"the package `{package}` of {version.replace('go', 'Go ')}",
        units=units,
        # Parts in the order in which they stand, one at a time: a part that waits for others is not ours to judge.
        command=lambda unit: [str(binary), "-test.v", f"-test.run=^{unit}$", "-test.short"],
        verdicts=verdicts,
        folder=source,
    )


def suites() -> dict:
    return {f"go-{package.replace('/', '-')}": (lambda package=package: suite(package)) for package in PACKAGES}
