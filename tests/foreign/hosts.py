"""One unit of a suite on one host: natively, in real time on weft, or in a node; and how it ended.

Natively it has a network namespace with nothing but its loopback, as weft's stacks have no interface either. On real hosts it has process numbers of
its own, too, so that nothing outlives it, and a /tmp of its own, as a node has.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from pathlib import Path

from harness import paths
from harness.environment import Environment
from harness.processes import Failure, Process
from hosts.place import LINUX, LINUX_SET_UP, NODE, STACK, STRICT
from virtual import shared

from .suite import Ended, Suite, folder

# As many descriptors as a node's programs begin with, and a new folder with what was laid out for the unit. The last line says how it ended: a node of
# which nothing is due any more has no other way to say that it did not.
BODY = 'ulimit -Sn 1024; mkdir "$TMPDIR"; LAID cd "$1"; shift; "$@"; status=$?; echo; echo "ended with status $status"'
STATUS = re.compile(r"^ended with status (\d+)$", re.M)
# One process number space for each unit: with the first of it everything ends. The shell is that first one, which has other rules for signals.
ALONE = ["--pid", "--fork", "--kill-child", "--mount-proc"]
STAY = 'mount -t tmpfs tmpfs /tmp; "$@"; exit $?'
WORK = Path("/tmp/work")
BYTES_MAX = 4 << 20


class Hosts:
    """A folder in which units run; not below /tmp, which is another one for each of them."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.folder = folder("runs", str(os.getpid()))
        self.weft = shutil.copy2(str(paths.weft_binary()), self.folder / "weft")
        self.stack = self.folder / "stack.toml"
        self.stack.write_text(STACK)
        self._runs = itertools.count(1)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, host: str, suite: Suite, unit: str) -> Ended:
        """Each run has a folder of its own, which goes with it."""
        home = self.folder / f"run-{next(self._runs)}"
        home.mkdir()
        try:
            return self._run(home, host, suite, unit)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _run(self, home: Path, host: str, suite: Suite, unit: str) -> Ended:
        laid = "".join(f'mkdir -p "$(dirname {WORK / name})"; cp -r {source} {WORK / name}; ' for name, source in suite.laid.items())
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(WORK), "TMPDIR": str(WORK), "LC_ALL": "C.UTF-8", **suite.variables}
        words = [*shared.USUAL_SIGNALS, "-i", *(f"{name}={value}" for name, value in variables.items())]
        words += ["sh", "-c", BODY.replace("LAID", laid), "sh", str(suite.folder or WORK), *suite.command(unit)]
        seconds = suite.seconds_max * (2 if host == NODE else 1)
        if host == NODE:
            file = home / "scenario.toml"
            file.write_text(shared.keys(duration="7200s") + shared.section("nodes.a") + shared.program("unit", "a", *words, expect="any"))
            started = [str(self.weft), "sim", str(file), "--json", "--out", str(home / "results")]
        else:
            alone = [paths.tool("unshare"), *ALONE, *(["--net"] if host == LINUX else []), "sh", "-c", STAY, "sh"]
            more = ["sh", "-ec", LINUX_SET_UP, "sh"] if host == LINUX else [
                str(self.weft), "run", *(["--strict"] if host == STRICT else []), "--stack", str(self.stack), "--"]
            started = [*alone, *more, *words]
        process = Process(host, started, home, self.env.variables(XDG_RUNTIME_DIR=str(home)))
        try:
            process.wait(seconds)
        except Failure:
            pass
        finally:
            process.stop(grace_s=1)
        said = home / "results" / "programs" / "unit" if host == NODE else home
        text = "".join(read(said / name) for name in (("stdout", "stderr") if host == NODE else (f"{host}.out", f"{host}.err")))
        status = STATUS.findall(text)
        if not status and host == NODE:
            text += read(home / f"{host}.err")
        return Ended(int(status[-1]) if status else None, text)


def read(path: Path) -> str:
    """The end of a file that may be large, or not there."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - BYTES_MAX))
        return file.read().decode(errors="replace")
