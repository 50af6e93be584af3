"""`make test-crates`: cargo test of the whole workspace, one row per test binary's test."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time

from . import paths, results

_RUNNING = re.compile(r"^\s*(?:Running (?:unittests )?(\S+) \(\S*/([^/)]+)\)|Doc-tests (\S+))")
_SAID = re.compile(r"^---- (.+?) stdout ----$")
# A block of code in a doc comment, and what may stand behind its fence where rustdoc makes a test of it.
_FENCE = re.compile(r"^\s*//[/!]\s*```(\S*)")
_TESTED = ("", "rust", "should_panic", "no_run", "compile_fail")
_TEST = re.compile(r"^test (.+?) \.\.\. (ok|FAILED|ignored)(?:, (.*))?$")


def parse(lines: list[str]) -> list[results.Row]:
    """Rows of the output of `cargo test`, failed ones with what they printed. Doc tests that are `ignore` by design are no skips: they are not tests."""
    # By the whole name of the binary and the test: several crates have binaries of one name.
    rows: dict[tuple[str, str], results.Row] = {}
    whole, binary, speaks = "?", "?", ("", "")
    for line in lines:
        if header := _RUNNING.match(line):
            whole = header[2] or header[3]
            binary = re.sub(r"-[0-9a-f]{16}$", "", header[2]) if header[2] else f"doc {header[3]}"
        elif test := _TEST.match(line):
            name, key = f"{binary}::{test[1]}", (whole, test[1])
            if test[2] == "ok":
                rows[key] = results.Row(name, results.PASSED)
            elif test[2] == "FAILED":
                rows[key] = results.Row(name, results.FAILED)
            elif not binary.startswith("doc "):
                rows[key] = results.Row(name, results.SKIPPED, reason=test[3] or "#[ignore] without a reason")
        elif said := _SAID.match(line):
            speaks = (whole, said[1])
        elif line.startswith("failures:"):
            speaks = ("", "")
        elif speaks in rows and line.strip():
            rows[speaks] = dataclasses.replace(rows[speaks], reason=f"{rows[speaks].reason}{line.rstrip()}\n")
    return list(rows.values())


def doc_tests(text: str) -> int:
    """How many tests rustdoc makes of a source."""
    count, inside = 0, False
    for line in text.splitlines():
        if fence := _FENCE.match(line):
            words = fence[1].split(",")
            count += not inside and all(word in _TESTED for word in words)
            inside = not inside
        elif not line.lstrip().startswith(("///", "//!")):
            inside = False
    return count


def crates_with_doc_tests() -> list[str]:
    """rustdoc reads a whole crate for a test, and for none: those that have any."""
    found = set()
    for path in (paths.ROOT / "crates").glob("*/src/**/*.rs"):
        if doc_tests(path.read_text()):
            found.add(path.relative_to(paths.ROOT / "crates").parts[0])
    return [f"weft-{name}" for name in sorted(found)]


def main() -> int:
    # FULL also runs the tests that are #[ignore]d because they take long; never doc tests, whose `ignore` says that
    # they are no tests, and never `write_…`, which renew files of the repository and are run by hand.
    ignored = ["--", "--include-ignored", "--skip", "write_"] if os.environ.get("FULL") else []
    recorder = results.Recorder(quiet=True)
    selections = [["--workspace", "--lib", "--bins", "--tests", *ignored]]
    if named := crates_with_doc_tests():
        selections.append(["--doc", *(word for name in named for word in ("--package", name))])
    for selection in selections:
        status, lines, seconds = _cargo_test(selection)
        rows = parse(lines)
        for row in rows:
            recorder.add(row)
        if status != 0 and not any(row.outcome == results.FAILED for row in rows):
            name = "cargo test " + " ".join(selection)
            recorder.add(results.Row(name, results.FAILED, seconds, f"exit status {status}"))
    return recorder.finish()


def _cargo_test(selection: list[str]) -> tuple[int, list[str], float]:
    """Exit status, output and seconds of `cargo test`; what is not a passing test is shown as it comes."""
    started = time.monotonic()
    process = subprocess.Popen(
        ["cargo", "test", "--profile", paths.CHECKED, "--no-fail-fast", *selection],
        cwd=paths.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if not line.startswith(("test ", "\n", "running ")) or "FAILED" in line:
            print(line, end="", flush=True)
    return process.wait(), lines, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
