"""libweft from C: the header compiles as C99 and as C++, and the example moves data between two nodes in one process.

Short form: 64 MB. FULL=1: 1 GB, and once more under AddressSanitizer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import paths, results
from harness.processes import Failure
from package import stage
from package.binary import Built

CAPI = paths.ROOT / "crates" / "capi"
HEADER = CAPI / "include" / "weft.h"
EXAMPLE = CAPI / "examples" / "two_nodes.c"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
# A watchdog.
SECONDS_MAX = 600


def run(words: list[str], **options) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def header(words: list[str]) -> str:
    """Compiles the header alone: what it needs it includes."""
    run([*words, *STRICT, "-fsyntax-only", str(HEADER)])
    return " ".join(words[:2])


def installed(folder: Path) -> Path:
    """The library as packages and `make install` put it below a PREFIX."""
    prefix, built = folder / "prefix", paths.built()
    if not prefix.exists():
        stage.library(Built(built / "weft", built / "libweft.so", built / "libweft.a", ()), prefix)
    return prefix


def flags_of(prefix: Path, static: bool) -> list[str]:
    """What pkg-config says a program needs."""
    words = [paths.tool("pkg-config"), "--cflags", "--libs", *(["--static"] if static else []), "weft"]
    said = run(words, env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}).split()
    return ["-l:libweft.a" if static and word == "-lweft" else word for word in said]


def example(folder: Path, megabytes: int, sanitizer: bool, shared: bool) -> str:
    """Builds the example against the static or the shared library, and runs it."""
    prefix = installed(folder)
    program = folder / f"two_nodes{'-asan' if sanitizer else ''}{'-shared' if shared else ''}"
    flags = ["-fsanitize=address", "-g"] if sanitizer else []
    link = [*flags_of(prefix, not shared), *([f"-Wl,-rpath,{prefix / 'lib'}"] if shared else [])]
    run([paths.tool("gcc"), "-O2", "-std=gnu11", *STRICT, *flags, str(EXAMPLE), "-o", str(program), *link])
    if shared and "libweft.so.0" not in run([paths.tool("objdump"), "-p", str(program)]):
        raise Failure("the program does not ask for libweft.so.0: any libweft.so would do")
    return run([str(program), str(megabytes)], env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"}).strip()


def refuses(folder: Path) -> str:
    """A program that does not use the library as it must gets errnos and messages, not crashes."""
    source = CAPI / "examples" / "mistakes.c"
    program = folder / "mistakes"
    run([paths.tool("gcc"), "-O1", "-std=gnu11", *STRICT, str(source), "-o", str(program), *flags_of(installed(folder), static=True)])
    return run([str(program)]).strip()


def main() -> int:
    full = bool(os.environ.get("FULL"))
    recorder = results.Recorder()

    def row(name: str, body) -> None:
        started = time.monotonic()
        try:
            outcome, reason = results.PASSED, body()
        except Failure as failure:
            outcome, reason = results.FAILED, str(failure)
        recorder.add(results.Row(name, outcome, time.monotonic() - started, reason))

    with tempfile.TemporaryDirectory(prefix="weft-capi-") as name:
        folder = Path(name)
        row("header/c99", lambda: header([paths.tool("gcc"), "-std=c99", "-D_GNU_SOURCE", "-x", "c"]))
        row("header/c++11", lambda: header([paths.tool("g++"), "-std=c++11", "-x", "c++"]))
        row("example/static", lambda: example(folder, 1000 if full else 64, False, False))
        row("example/shared", lambda: example(folder, 8, False, True))
        row("mistakes", lambda: refuses(folder))
        if full:
            row("example/address sanitizer", lambda: example(folder, 1000, True, False))
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
