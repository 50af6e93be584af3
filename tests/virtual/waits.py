"""Every way to wait, in a node: each comes to what it comes to on Linux, after as many hundredths of a second ([waits.c]; waits.txt is what Linux 6.18 says).

Not run natively beside it: how late a machine is would decide. `cc -O1 -w -pthread waits.c && unshare -n sh -c 'ip link set lo up; ./a.out'` renews the file.
"""

from __future__ import annotations

from pathlib import Path

from harness.processes import Failure

from .shared import compiled, expect, keys, pair, program, weft_command

HERE = Path(__file__).parent
PARTS = {"sockets": "s", "exclusive": "e", "locks": "l", "clocks": "c", "processes": "o"}


def waits(folder: Path) -> str:
    """A node for each part, since a wait that does not end hides what follows."""
    # Root's nodes are nobody outside.
    folder.chmod(0o755)
    command = compiled(HERE / "waits.c", folder / "waits", "-w")
    text = keys(duration="60s") + pair()
    text += "".join(program(name, "a" if part in "slc" else "b", str(command), part, start=f"{10 * index}s") for index, (name, part) in enumerate(PARTS.items()))
    (folder / "scenario.toml").write_text(text)
    weft_command(folder, "sim", "scenario.toml", "--out", "out")
    found = [line for name in PARTS for line in (folder / "out" / "programs" / name / "stdout").read_text().splitlines()]
    wanted = (HERE / "waits.txt").read_text().splitlines()
    unlike = [f"found '{one}', Linux says '{other}'" for one, other in zip(found, wanted) if one != other]
    if unlike:
        raise Failure("\n".join(unlike[:40]))
    expect("lines", len(found), len(wanted))
    return f"{len(found)} lines"
