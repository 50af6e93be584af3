"""Coverage of weft's own source: programs with counters in them, and what their profiles say."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Iterable

from . import paths
from .processes import Failure

BUILD_SECONDS_MAX = 3000


def host() -> str:
    words = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.split()
    return words[words.index("host:") + 1]


def build(*words: str) -> Path:
    """`cargo build` with counters in weft's own crates; returns the folder of what was built."""
    # A target directory of its own would build every dependency again; a wrapper's name is part of the names of what it makes.
    environment = {**os.environ, "RUSTC_WORKSPACE_WRAPPER": str(paths.TESTS / "harness" / "wrappers" / "with-counters")}
    done = subprocess.run(["cargo", "build", "--quiet", "--profile", paths.CHECKED, *words], cwd=paths.ROOT, env=environment,
                          stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"cargo build: exit status {done.returncode}")
    return paths.target_dir() / paths.CHECKED


def llvm(tool: str) -> str:
    """A tool of the compiler that wrote the profile."""
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    path = Path(root) / "lib" / "rustlib" / host() / "bin" / tool
    if not path.exists():
        raise Failure(f"{path} is missing: run `rustup component add llvm-tools`")
    return str(path)


@dataclasses.dataclass(frozen=True)
class File:
    """What there is in a source file, and how much of it ran."""

    lines: int
    lines_ran: int
    functions: int
    functions_ran: int

    @property
    def lines_share(self) -> float:
        """Per cent."""
        return 100 * self.lines_ran / max(self.lines, 1)

    @property
    def functions_share(self) -> float:
        return 100 * self.functions_ran / max(self.functions, 1)

    def __add__(self, other: File) -> File:
        return File(*(mine + its for mine, its in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def __str__(self) -> str:
        return f"{self.lines_share:.1f} % of {self.lines} lines, {self.functions_share:.1f} % of {self.functions} functions"


def exported(program: Path, merged: Path, *words: str) -> dict:
    """What llvm-cov knows of all files, of which a program is made."""
    done = subprocess.run([llvm("llvm-cov"), "export", f"-instr-profile={merged}", str(program), *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["data"][0]


def unreached(program: Path, merged: Path, crate: str) -> list[str]:
    """Functions and closures of a crate that never ran in any of their instances: where each begins."""
    ran: dict[tuple[str, int], bool] = {}
    for function in exported(program, merged)["functions"]:
        place = function["filenames"][0].removeprefix(f"{paths.ROOT}/"), function["regions"][0][0]
        if place[0].startswith(f"crates/{crate}/src/"):
            ran[place] = ran.get(place, False) or function["count"] > 0
    return [f"{path}:{line}" for (path, line), did in sorted(ran.items()) if not did]


def merge(profiles: Iterable[Path], folder: Path) -> Path:
    merged = folder / "merged.profdata"
    subprocess.run([llvm("llvm-profdata"), "merge", "-sparse", *map(str, profiles), "-o", str(merged)], check=True)
    return merged


def read(program: Path, merged: Path) -> dict[str, File]:
    """Each source file of weft, by its path in the repository."""
    out = {}
    for file in exported(program, merged, "-summary-only")["files"]:
        _, found, tail = file["filename"].partition("crates/")
        if found and ".cargo" not in file["filename"]:
            lines, functions = file["summary"]["lines"], file["summary"]["functions"]
            out["crates/" + tail] = File(lines["count"], lines["covered"], functions["count"], functions["covered"])
    return out


def of_crate(files: dict[str, File], crate: str) -> File:
    """Prints a crate's files, those with the most lines that did not run first, and returns their sum."""
    chosen = {path: file for path, file in files.items() if path.startswith(f"crates/{crate}/src/") and "/tests" not in path and not path.endswith("/fuzzing.rs")}
    if not chosen:
        raise Failure("none of its files is in the program")
    for path, file in sorted(chosen.items(), key=lambda row: row[1].lines_ran - row[1].lines):
        print(f"    {file.lines_share:5.1f} % of {file.lines:5} lines  {file.functions_share:5.1f} % of {file.functions:4} functions  {path}")
    return sum(chosen.values(), File(0, 0, 0, 0))
