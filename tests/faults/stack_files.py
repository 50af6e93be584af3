"""Stack files that are wrong, each with the message that its author reads: file, line, what, what to do.

`stack-files/NAME.toml` is the file, `NAME.txt` what `weft check NAME.toml` says. A line that ends with … stands for all that begin so:
such lines list what there is, which grows. What cannot be kept as text is made here.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import weft
from harness.processes import Failure

FOLDER = Path(__file__).parent / "stack-files"
REFUSED = 2
SECONDS_MAX = 60
MIB = 1 << 20

# Name, content (None: there is no such file), message.
MADE: list[tuple[str, bytes | None, str]] = [
    ("missing", None, "weft: cannot read the stack file missing.toml: No such file or directory (os error 2)\n"
     "help: name an existing TOML file; `weft help stack` shows what to write into one\n"),
    ("binary", b"\x7fELF\x02\x01\x01\x00\n" + bytes(range(256)), "weft: binary.toml:3: the byte 0x80 is no text (UTF-8)\n"
     "help: a stack file is TOML; is this another kind of file?\n"),
    ("control-characters", b"\x7fELF\x02\x1b[31m\n", "weft: control-characters.toml:1: key with no value, expected `=`\n…"),
    ("not-text", b"[node]\nname = \"\xff\"\n", "weft: not-text.toml:2: the byte 0xff is no text (UTF-8)\n"
     "help: a stack file is TOML; is this another kind of file?\n"),
    ("huge", b"# nothing\n" * (MIB // 10 + 1), f"weft: huge.toml: larger than {MIB} bytes, which is no stack file\n"
     "help: a stack file is TOML of some lines; is this another kind of file?\n"),
]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def check(name: str) -> str:
    """A file of the folder; what it says, or Failure where that is something else."""
    expected = (FOLDER / f"{name}.txt").read_text()
    _compare(name, expected, _run(["check", f"{name}.toml"], FOLDER))
    if ":" not in expected.splitlines()[0].removeprefix("weft: ") or "help: " not in expected:
        raise Failure("the expected message names no place, or not what to do")
    return expected.splitlines()[0]


def check_made(folder: Path, name: str, content: bytes | None, expected: str) -> str:
    if content is not None:
        (folder / f"{name}.toml").write_bytes(content)
    _compare(name, expected, _run(["check", f"{name}.toml"], folder))
    # The commands that would use it say the same, and do nothing.
    _compare(name, expected, _run(["up", "--stack", f"{name}.toml", "--control", str(folder / "control")], folder))
    if (folder / "control").exists():
        raise Failure("weft up made a control socket for a stack that is wrong")
    return expected.splitlines()[0]


def empty(folder: Path) -> str:
    """Nothing is left out of an empty file that must be there: it is the default stack."""
    (folder / "empty.toml").write_text("")
    run = _run(["check", "empty.toml"], folder)
    if run.returncode != 0 or not run.stdout.startswith("empty.toml: node 'weft', ") or "\n  weft0 (tap:weft0): addresses 10.77.0.2/24,fd77::2/64\n" not in run.stdout:
        raise Failure(f"status {run.returncode}: {run.stdout}{run.stderr}")
    return run.stdout.splitlines()[0]


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([weft.binary(), *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)


def _compare(name: str, expected: str, run: subprocess.CompletedProcess[str]) -> None:
    wanted, found = expected.splitlines(), run.stderr.splitlines()
    if any(ord(character) < ord(" ") for line in found for character in line):
        raise Failure(f"{name}: the message carries control characters to the terminal: {run.stderr!r}")
    if wanted and wanted[-1] == "…":
        wanted = wanted[:-1]
        found = found[:len(wanted)]
    same = len(wanted) == len(found) and all(_fits(line, other) for line, other in zip(wanted, found))
    if run.returncode != REFUSED or not same or run.stdout:
        raise Failure(f"{name}: status {run.returncode}, wanted:\n{expected}\nfound:\n{run.stdout}{run.stderr}")


def _fits(wanted: str, found: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("…") else found == wanted
