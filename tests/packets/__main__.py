"""`make test-packets`: packet sockets. body.py (with rings.py) does the same on the kernel, in a network namespace with a pair of interfaces, and in a node of a world; the lines must be the same. And programs that need
such sockets (programs.py).

ONLY= chooses rows by words of their names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import paths, weft
from harness.environment import run_main
from harness.processes import PATIENCE, Failure
from virtual.runs import Runs
from virtual.shared import USUAL_SIGNALS, keys, program, run_rows, section

from . import carriers, programs

BODY = Path(__file__).with_name("body.py")
CASES = ("refusals", "hears", "sends", "reads", "lost", "polls", "downs", "loops", "sizes", "maps", "frames", "cuts", "blocks", "transmits", "tags", "local", "groups", "offloads")
ALONE = ("loops", "sizes", "maps", "local", "groups")
SECONDS_MAX = 60 * PATIENCE
RIGHTS = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
# A namespace with eth0, whose other end is eth0 of a second one, where the peer is.
NATIVE = """
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
sysctl -qw net.ipv6.conf.lo.disable_ipv6=0
ip link set lo up
ip link add eth0 type veth peer name other
unshare --net sh -euc 'sysctl -qw net.ipv6.conf.default.disable_ipv6=1; until ip link show other >/dev/null 2>&1; do sleep 0.05; done
ip link set other name eth0; ip link set eth0 up; exec python3 "$1" peer' sh "$1" &
peer=$!
trap 'kill $peer' EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link set other netns $peer
ip link set eth0 up
python3 "$1" "$2"
"""


@contextlib.contextmanager
def world(runs: Runs) -> Iterator[str]:
    """Two nodes on a wire; the body is to be named."""
    yield keys(duration="30s") + section("nodes.a") + section("nodes.b") + section("wires.w", between=["a", "b"], delay="1ms") \
        + program("peer", "b", "python3", str(BODY), "peer", expect="running")


def natively(case: str) -> list[str]:
    command = [paths.tool("unshare"), *RIGHTS, "--net", "--pid", "--fork", "--mount-proc", "--kill-child", *USUAL_SIGNALS, "sh", "-euc", NATIVE, "sh", str(BODY), case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"natively: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.splitlines()


def same(runs: Runs, case: str) -> str:
    with world(runs) as text:
        _, out = runs.run(text + program("body", "a", "python3", str(BODY), case, start="1s"))
    return alike(natively(case), (out / "programs" / "body" / "stdout").read_text().splitlines())


def alike(native: list[str], other: list[str]) -> str:
    differ = [f"natively  {one!r}\nhere      {two!r}" for one, two in zip(native, other) if one != two]
    if not native or native != other:
        raise Failure("\n".join([*differ[:20], f"{len(native)} lines natively, {len(other)} here"]))
    return f"{len(native)} lines"


def strict(runs: Runs, case: str) -> str:
    """A case that needs nobody else, with --strict on a stack that has nothing but lo."""
    command = [paths.tool("unshare"), *RIGHTS, "--net", str(runs.folder / "weft"), "run", "--strict", "--", "python3", str(BODY), case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"{done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return alike(natively(case), done.stdout.splitlines())


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="weft-packets-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy2(weft.binary(), folder / "weft")
        runs = Runs(folder)
        rows = {f"socket/{case}": (lambda _, case=case: same(runs, case)) for case in CASES}
        rows |= {f"strict/{case}": (lambda _, case=case: strict(runs, case)) for case in ALONE}
        rows |= programs.rows(runs)
        rows |= carriers.rows(runs)
        return run_rows(rows, directory="/var/tmp")


if __name__ == "__main__":
    sys.exit(run_main(main))
