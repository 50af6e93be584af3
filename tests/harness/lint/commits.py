"""Commit messages: a subject of 72 characters at most, and a body that says why.

Only commits since the rule came count, and no merges. A clone without that history cannot tell.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .. import paths
from . import Skip, pages

SUBJECT_MAX = 72

_TRAILER = re.compile(r"^[A-Z][a-z]+(-[a-z]+)+: ")


def check(since: str = pages.SINCE, root: Path = paths.ROOT) -> list[str]:
    """Findings in the messages of the commits that `since` does not have."""
    command = [*paths.GIT, "log", "--no-merges", "--format=%h%x00%s%x00%b%x01", f"{since}..HEAD"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace", timeout=60)
    if run.returncode != 0:
        raise Skip(f"{since[:8]} is not in this clone; fetch the whole history to have messages checked")
    findings = []
    for entry in run.stdout.split("\x01"):
        if not entry.strip():
            continue
        name, subject, body = entry.strip("\n").split("\0")
        if len(subject) > SUBJECT_MAX:
            findings.append(f"commit {name}: a subject of {len(subject)} characters, more than {SUBJECT_MAX}: {subject}")
        if not any(line.strip() and not _TRAILER.match(line) for line in body.splitlines()):
            findings.append(f"commit {name}: no body that says why: {subject}")
    return findings
