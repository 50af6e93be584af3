"""The programs: built so that they run on old systems and come out the same wherever they are built, and what a debugger wants put apart."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

from . import place


# Of Cargo.toml.
PROFILE = "packaged"


@dataclasses.dataclass(frozen=True)
class Built:
    """What goes into packages."""

    command: Path
    shared: Path
    static: Path
    # What was taken off both; debuggers look for a file of this name.
    debug: tuple[Path, ...]


def _home() -> Path:
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def _environment() -> dict[str, str]:
    # No path of this machine in panics, debug information and what C compiles; the parts that need no libc are linked by the machine's own compiler.
    maps = [f"--remap-path-prefix={place.ROOT}=/weft", f"--remap-path-prefix={_home()}=/cargo"]
    return {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(maps),
        "CFLAGS": f"-ffile-prefix-map={_home()}=/cargo",
        "WEFT_FREESTANDING_LINKER": "cc",
        # Zig compiles what it brings of C once for all that share a cache, and names the folder in which it ran: by this name each folder is called alike.
        "PWD": "/proc/self/cwd",
        "ZIG_GLOBAL_CACHE_DIR": str(place.ROOT / "target" / "zig"),
        "PATH": f"{place.VENV / 'bin'}:{os.environ['PATH']}",
    }


def build() -> Built:
    """For old systems, through zig."""
    target = f"{place.TARGET}.{place.GLIBC}"
    place.run([place.tool("cargo-zigbuild"), "zigbuild", "--quiet", "--profile", PROFILE, "--target", target, "--package", "weft-cli", "--package", "weft-capi",
               "--bin", "weft", "--lib"], _environment())
    built, linked = place.ROOT / "target" / place.TARGET / PROFILE, place.WORK / "linked"
    shutil.rmtree(linked, ignore_errors=True)
    linked.mkdir(parents=True)
    for name in ("weft", "libweft.so", "libweft.a"):
        shutil.copy2(built / name, linked)
    for name in ("weft", "libweft.so"):
        _forget_folders(linked / name)
    return apart(linked, place.WORK / "programs")


def _forget_folders(program: Path) -> None:
    """Zig compiles what it brings of C where it is, and names that folder in the debug information, of which the program holds a checksum."""
    for folder, name in ((place.VENV.resolve(), "/zig"), (place.ROOT, "/weft")):
        place.run(["debugedit", f"--base-dir={folder}", f"--dest-dir={name}", program])


def apart(folder: Path, out: Path) -> Built:
    """The programs of a build, without what only a debugger wants, and that."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    debug = []
    for name in ("weft", "libweft.so"):
        stripped, symbols = out / name, out / f"{name}.debug"
        place.run(["objcopy", "--only-keep-debug", folder / name, symbols])
        place.run(["objcopy", "--strip-unneeded", f"--add-gnu-debuglink={symbols}", folder / name, stripped])
        debug.append(symbols)
    shutil.copy2(folder / "libweft.a", out)
    # What only rustc could link is four fifths of it.
    place.run(["objcopy", "--strip-debug", "--remove-section=.llvmbc", "--remove-section=.llvmcmd", "--enable-deterministic-archives", out / "libweft.a"])
    return Built(out / "weft", out / "libweft.so", out / "libweft.a", (debug[0], debug[1]))
