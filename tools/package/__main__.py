"""Makes packages:

    python3 -m package [KIND…]

Kinds: wheel, deb, rpm, tarball, oci, kernel; without a word all of them. What is made lies in dist/. For one commit it is the same to the byte wherever
and whenever it is made (SOURCE_DATE_EPOCH: another time than the commit's).
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import archives, binary, distributions, place, wheels

KINDS: dict[str, Callable[[binary.Built], list[Path]]] = {
    "wheel": lambda built: [wheels.command(built.command, place.WHEEL_TAG), *wheels.what_it_needs()],
    "deb": lambda built: [package.make("deb") for package in (
        distributions.command(built, "deb"), distributions.development(built, "deb"), distributions.debug(built))],
    "rpm": lambda built: [package.make("rpm") for package in (distributions.command(built, "rpm"), distributions.development(built, "rpm"))],
    "tarball": lambda built: [archives.tarball(built), archives.symbols(built)],
    "oci": lambda built: [archives.image(built)],
    "kernel": lambda _: [wheels.kernel(), *(distributions.kernel(format).make(format) for format in distributions.FORMATS)],
}


def told(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:8.1f} MB  {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}  {path.relative_to(place.ROOT)}"


def main() -> int:
    wanted = sys.argv[1:] or list(KINDS)
    if unknown := [kind for kind in wanted if kind not in KINDS]:
        print(f"no kind of package is called {', '.join(unknown)}: there are {', '.join(KINDS)}", file=sys.stderr)
        return 2
    place.DIST.mkdir(exist_ok=True)
    place.WORK.mkdir(parents=True, exist_ok=True)
    try:
        started = time.monotonic()
        print("the programs …", flush=True)
        built = binary.build()
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
        for kind in wanted:
            for path in KINDS[kind](built):
                print(told(path), flush=True)
    except place.Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
