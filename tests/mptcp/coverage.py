"""`make coverage-mptcp`: what of crates/mptcp worlds and running stacks reach by themselves, file by file.

No unit test runs: the rows of these targets do, with a weft that counts its lines, and each of them must pass. The shares that are wanted are those
that four scenarios reach of Linux's net/mptcp (examples/mptcp-coverage). Table 4 of "Direct Code Execution" (CoNEXT 2013) has 68.0 and 85.9 %.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import coverage
from harness.processes import Failure
from virtual.shared import run_rows

LINES_MIN, FUNCTIONS_MIN = 92.5, 96.6
SECONDS_MAX = 3000
# What runs: the words of `python3 -m`, and of which rows.
RUNS = {
    "boxes and programs": (("mptcp", "test"), ""),
    "beside Linux and itself": (("mptcp", "sim"), ""),
    "on real interfaces": (("mptcp", "interop"), ""),
    "replaced, inserted, restored": (("live",), "multipath"),
    "sockets, and programs that manage paths": (("hosts", "options", "multipath", "managers", "subflows"), ""),
    "ip mptcp, ss, nstat, mptcpd": (("iproute2",), "mptcp"),
}


def run(program: Path, profiles: Path, words: tuple[str, ...], only: str) -> str:
    # A file for each process would take gigabytes: those of one program add to few.
    environment = {**os.environ, "WEFT_BIN": str(program), "LLVM_PROFILE_FILE": str(profiles / "%4m.profraw"), "ONLY": only}
    done = subprocess.run([sys.executable, "-m", *words], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode:
        failed = [line for line in done.stdout.splitlines() if not line.startswith("  passed")]
        raise Failure("\n".join([f"exit status {done.returncode}", *failed[:20], done.stderr[-1000:]]))
    return done.stdout.strip().splitlines()[-1]


def judge(program: Path, profiles: Path) -> str:
    merged = coverage.merge(profiles.glob("*.profraw"), profiles)
    found = coverage.of_crate(coverage.read(program, merged), "mptcp")
    print(*("    never ran: " + place for place in coverage.unreached(program, merged, "mptcp")), sep="\n")
    if found.lines_share < LINES_MIN or found.functions_share < FUNCTIONS_MIN:
        raise Failure(f"{found}: less than {LINES_MIN} and {FUNCTIONS_MIN} %")
    return str(found)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="weft-coverage-", dir="/var/tmp") as name:
        folder = Path(name)
        program, profiles = folder / "weft", folder / "profiles"
        profiles.mkdir()
        # Some stacks are not root's.
        profiles.chmod(0o777)

        def build(_: Path) -> str:
            # The next build makes another one of its name.
            shutil.copy(coverage.build("--package", "weft-cli", "--bin", "weft") / "weft", program)
            return ""

        rows = {"build": build}
        rows |= {f"runs/{label}": lambda _, words=words, only=only: run(program, profiles, words, only) for label, (words, only) in RUNS.items()}
        return run_rows(rows | {"coverage/mptcp": lambda _: judge(program, profiles)})
