"""Runs every lint and prints one row per lint. LOWER=1 writes what has fallen into ratchet.toml first."""

from __future__ import annotations

import os
import sys
import time
import tomllib
from typing import Callable

from .. import paths, results
from . import Skip, architecture, cargo, circles, clones, commits, compatibility, dependencies, hygiene, outside, pages, ratchet, rfcs, unsafe_code


def main() -> int:
    recorder = results.Recorder()

    def row(name: str, check: Callable[[], list[str]]) -> None:
        started = time.monotonic()
        try:
            findings = [finding.replace(f"{paths.ROOT}/", "") for finding in check()]
            outcome, reason = results.FAILED if findings else results.PASSED, "\n".join(findings)
        except Skip as skip:
            outcome, reason = results.SKIPPED, str(skip)
        except paths.MissingTool as missing:
            outcome, reason = results.FAILED, str(missing)
        recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))

    def sizes() -> list[str]:
        failures, warnings = hygiene.check_sizes(files)
        for warning in warnings:
            print(f"  warning: {warning.replace(f'{paths.ROOT}/', '')}", flush=True)
        return failures

    def may_only_fall(section: str, today: dict[str, int], advice: str) -> list[str]:
        if os.environ.get("LOWER"):
            ratchet.lower(section, today)
        return ratchet.check(section, today, advice)

    def module_circles() -> list[str]:
        largest, everything = circles.count(files)
        return (may_only_fall(circles.LARGEST, largest, circles.ADVICE)
                + may_only_fall(circles.FILES, everything, circles.ADVICE))

    files = hygiene.tracked_files()
    metadata = paths.cargo_metadata()
    manifest = tomllib.loads((paths.ROOT / "Cargo.toml").read_text())
    row("fmt", cargo.check_format)
    row("dependency direction", lambda: dependencies.check(metadata))
    row("unsafe code", lambda: unsafe_code.check(metadata) + unsafe_code.check_workspace(manifest))
    row("file sizes", sizes)
    row("nothing left for later, no path of one machine", lambda: hygiene.check_text(files))
    row("links", lambda: hygiene.check_links(files))
    row("tables of what to add", lambda: hygiene.check_to_add(files))
    row("rows of the page of differences, each with a proof", compatibility.check)
    row("rows that the page of differences had", compatibility.check_before)
    row("tests that the pages of RFCs name", rfcs.check)
    row("no errno in the text of an error", lambda: hygiene.check_errnos(files))
    row("clones", lambda: clones.check(files))
    row("circles of modules", module_circles)
    row("long lines of pages", lambda: may_only_fall(pages.SECTION, pages.count(files), pages.ADVICE))
    row("pages that have changed", lambda: pages.check_changed(pages.count(files), pages.changed()))
    row("pages of the architecture", lambda: architecture.check(files))
    row("commit messages", commits.check)
    row("crates from outside", outside.check_crates)
    row("advisories", outside.check_advisories)
    row("unused dependencies", outside.check_unused)
    row("clippy", cargo.check_clippy)
    row("forbidden calls", lambda: cargo.check_forbidden_calls(cargo.pure_packages(metadata)))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
