"""libuv's own tests (of Debian's sources): event loop, streams, datagrams, pipes, signals, threads, processes and files, in C."""

from __future__ import annotations

import re

from harness import paths

from . import debian
from .suite import FAILED, PASSED, SKIPPED, TIMEOUT, Ended, Suite, run

SAID = re.compile(r"^(ok|not ok) 1 - (\S+)(.*)$", re.M)


def verdicts(unit: str, ended: Ended) -> dict[str, str]:
    """Its test protocol has one line. A test that ran out of its own time says so there."""
    if ended.status is None:
        return {unit: TIMEOUT}
    said = SAID.search(ended.text)
    if not said or said[1] == "not ok" or ended.status:
        return {unit: FAILED}
    return {unit: SKIPPED if "# SKIP" in said[3] else PASSED}


def suite() -> Suite:
    source, version = debian.unpacked("libuv1")
    build = source.with_name(f"build-{version}")
    binary = build / "uv_run_tests"
    if not binary.exists():
        run([paths.tool("cmake"), "-S", str(source), "-B", str(build), "-DBUILD_TESTING=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"], source)
        run([paths.tool("cmake"), "--build", str(build), "--target", "uv_run_tests"], source)
    # Names, with those of their helpers on lines that begin with white space.
    units = tuple(sorted(set(re.findall(r"^(\w+)$", run([str(binary), "--list"], build, UV_RUN_AS_ROOT="1"), re.M))))
    return Suite(
        name="libuv",
        what=f"libuv {version}",
        units=units,
        command=lambda unit: [str(binary), unit],
        verdicts=verdicts,
        laid={"test/fixtures": source / "test" / "fixtures"},
        # Its limits are those of an idle machine: 2,500 sockets of watcher_cross_stop take 3 s of a processor below --strict.
        variables={"UV_RUN_AS_ROOT": "1", "UV_TEST_TIMEOUT_MULTIPLIER": "10"},
    )


def suites() -> dict:
    return {"libuv": suite}
