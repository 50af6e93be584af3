"""What a program sees natively, it sees in virtual time: terminals, calls that wait in the kernel, signals that the kernel raises, descriptors that are none.

alike.c does it, a line each. The same lines must come natively and, several times with one hash, in virtual time.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure

from .shared import SECONDS_MAX, USUAL_SIGNALS, keys, program, section

SOURCE = Path(__file__).parent / "alike.c"
TIMES = 3


class Alike:
    """All runs, made when the first row asks."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder, self.binary = folder, binary
        self.found: list[dict[str, str]] = []

    def once(self, command: Path, number: int) -> tuple[str, str]:
        """What it said, and the hash."""
        file, out = self.folder / "alike.toml", self.folder / f"alike-{number}"
        file.write_text(keys(duration="100s") + section("nodes.a") + program("alike", "a", str(command)))
        done = subprocess.run([str(self.binary), "sim", str(file), "--json", "--out", str(out)], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failure(f"exit status {done.returncode}\n{done.stderr[-1500:]}")
        summary = json.loads(done.stdout)
        if summary["not_reproducible"]:
            raise Failure(f"{summary['not_reproducible']}")
        return (out / "programs" / "alike" / "stdout").read_text(), summary["hash"]

    def runs(self) -> list[dict[str, str]]:
        """Natively, then in virtual time."""
        if self.found:
            return self.found
        command = self.folder / "alike"
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-Wno-unused-result", "-o", str(command), str(SOURCE), "-pthread"], check=True, timeout=SECONDS_MAX)
        said = [subprocess.run([*USUAL_SIGNALS, str(command)], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, start_new_session=True).stdout]
        several = [self.once(command, number) for number in range(TIMES)]
        self.found = [dict(line.split(": ", 1) for line in text.splitlines()) for text in [*said, *(text for text, _ in several)]]
        if len({found for _, found in several}) != 1:
            raise Failure(f"{TIMES} runs, and their hashes are {[found for _, found in several]}")
        return self.found

    def same(self, part: str) -> str:
        native, *virtual = self.runs()
        for run in virtual:
            if run.get(part) != native[part]:
                raise Failure(f"natively {native[part]}\nin virtual time {run.get(part)}")
        return native[part]

    def rows(self) -> dict[str, Callable[[Path], str]]:
        parts = [line.split('{"')[1:] for line in SOURCE.read_text().partition("PARTS[] = {")[2].partition("};")[0].splitlines()]
        names = [piece.partition('"')[0] for line in parts for piece in line]
        return {f"as natively/{name}": (lambda _, name=name: self.same(name)) for name in names}
