"""One scenario, one hash: unmodified programs in virtual time, again and again, on one thread and on two, as root and as a user, under load.

And the hash is honest: one bit of a payload, a nanosecond of a delay, a draw of the random numbers, a call's result each make another.
FULL=1 runs each scenario twenty times and more, under load and with a debug build of weft as well, and on another Debian release (releases.py).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import paths, seeds, user, weft
from harness.busy import busy_loops
from harness.processes import Failure

from . import answers, place, worlds
from .alike import SOURCES, Alike
from .doors import Doors
from .releases import elsewhere
from .runs import Runs
from .scenarios import IN_ANY_RELEASE, LOSS, SCENARIOS, SETTINGS, SETTINGS_SAID, go_scenario, python, two_nodes
from .shared import compiled, difference, expect, keys, program, run_rows, section, weft_command, where
from .waits import waits

FULL = bool(os.environ.get("FULL"))



def same(runs: Runs, text: str) -> str:
    """As often as it is run, however it is run."""
    ways: list[tuple[str, dict]] = [("1", {}), ("2", {})] * (9 if FULL else 1)
    # Calls that programs answer for the controller, and those that get past the kernel, come to the same as those that do not.
    ways.append(("1", {"shortcuts": False}))
    if os.geteuid() == 0:
        ways.append(("1", {"as_user": True}))
    if FULL:
        ways += [("1", {"debug": True}), ("2", {"debug": True}), ("1", {"busy": True}), ("2", {"busy": True})]
    first, kept = runs.run(text)
    for threads, how in ways:
        with busy_loops() if how.get("busy") else contextlib.nullcontext():
            found, out = runs.run(text, "--threads", threads, **{key: value for key, value in how.items() if key != "busy"})
        if found != first:
            raise Failure(f"{first} and, with {threads} threads {how or ''}, {found}: {where(kept, out)}")
        difference(kept, out)
    return f"{first}, {len(ways) + 1} runs"


def debug_build(folder: Path) -> None:
    """Beside weft, the same without optimisation and with every assertion."""
    done = subprocess.run(["cargo", "build", "--quiet", "--package", "weft-cli"], cwd=paths.ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(done.stderr[-1500:])
    shutil.copy2(paths.target_dir() / "debug" / "weft", folder / "weft-debug")


def under_load(runs: Runs) -> str:
    """Other work on every processor changes nothing."""
    quiet, _ = runs.run(LOSS)
    with busy_loops():
        loaded, _ = runs.run(LOSS, "--threads", "2")
    if quiet != loaded:
        raise Failure(f"{quiet} alone, {loaded} under load")
    return quiet


def honest(runs: Runs) -> str:
    """What differs by the least that can be has another hash."""
    body = "import socket; s = socket.create_connection(('b', 9)); s.send(b'DATA'); s.close(); EXTRA"
    base = two_nodes(program("sink", "b", "python3", "-c", "import socket; s = socket.create_server(('', 9)); c, _ = s.accept(); print(c.recv(99))"),
                python("send", "a", body, start="1s"))
    plain = base.replace("EXTRA", "pass")
    changes = {
        "as it is": plain,
        "one bit of a payload": plain.replace("DATA", "DATE"),
        "a nanosecond of a delay": plain.replace('delay = "5ms"', 'delay = "5000001ns"'),
        "a draw of random numbers": base.replace("EXTRA", "import os; os.urandom(1)"),
        "another seed": "seed = 2\n" + plain,
        "a call's result": base.replace("EXTRA", "import os; os.getppid()"),
        "a nanosecond of a start": plain.replace('start = "1s"', 'start = "1000000001ns"'),
    }
    hashes = {}
    for what, text in changes.items():
        found, _ = runs.run(text)
        if found in hashes:
            raise Failure(f"{what}: the hash is that of '{hashes[found]}'")
        hashes[found] = what
    if runs.run(plain)[0] not in hashes:
        raise Failure("the first of them has another hash now")
    return f"{len(hashes)} hashes"


def settings(runs: Runs) -> str:
    """What programs set under /proc/sys/net is the node's own, and is shown again; what no parameter stands for is refused, with a row of calls."""
    _, out = runs.run(SETTINGS)
    said = (out / "programs" / "settings" / "stdout").read_text().replace("\t", " ")
    expect("what was said", said.splitlines(), SETTINGS_SAID.splitlines())
    refused = [row["request"] for row in json.loads((out / "calls.json").read_text())["unsupported"] if row["request"].startswith("/proc/sys/net/")]
    # The one that can only be read is not opened.
    expect("refused", len(refused), 4)
    return f"{len(refused)} refused"


MAPPINGS = """
#include <stdio.h>
#include <sys/mman.h>
int main(void) {
    for (int pages = 1; pages <= 16; pages *= 4)
        printf("%p\\n", mmap(NULL, pages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
"""
# Below 2 MiB that are kept for the loader, whatever it takes of them.
MAPPINGS_SAID = ["0x7ffff7dff000", "0x7ffff7dfb000", "0x7ffff7deb000"]


def mappings(runs: Runs) -> str:
    """The kernel finds room for a program where no build of weft has any part in it."""
    (runs.folder / "mappings.c").write_text(MAPPINGS)
    command = compiled(runs.folder / "mappings.c", runs.folder / "mappings", "-static")
    text = section("nodes.a") + program("p", "a", str(command))
    for how in ({}, {"shortcuts": False}) + (({"as_user": True},) if os.geteuid() == 0 else ()):
        _, out = runs.run(text, **how)
        expect(f"addresses {how}", (out / "programs" / "p" / "stdout").read_text().split(), MAPPINGS_SAID)
    return " ".join(MAPPINGS_SAID)


def pipes_of_one_user(runs: Runs) -> str:
    """Whoever runs weft has more pipes than the host gives a user room for: the run says that it may not repeat. A user whom nothing else here is."""
    if os.geteuid() != 0:
        raise paths.MissingTool("only root may be a user of the test's own; runs as root")
    pages, own = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text()), str(user.ID + 1)
    if not 0 < pages <= 65536:
        raise paths.MissingTool(f"fs.pipe-user-pages-soft is {pages}, which a test does not reach; runs with the kernel's default")
    # 16 pages each; the next one gets less.
    pipes = pages // 16 + 1
    body = f"import os, resource; resource.setrlimit(7, ({2 * pipes + 100},) * 2); pipes = [os.pipe() for _ in range({pipes})]"
    try:
        runs.run(section("nodes.a") + program("pipes", "a", "python3", "-c", body),
                 before=[paths.tool("setpriv"), f"--reuid={own}", f"--regid={own}", "--clear-groups", "--inh-caps=-all"])
    except Failure as failure:
        if "pipe met a limit of the host" in str(failure):
            return str(failure)
        raise
    raise Failure("nothing was said of it")


def with_mounts(runs: Runs) -> str:
    """What is mounted below the host's /etc and /var, as in containers and beside snaps, changes nothing: nodes have their names there, and write."""
    if os.geteuid() != 0:
        raise paths.MissingTool("only root may mount; runs as root")
    place = runs.folder / "mounted here"
    place.mkdir()
    mounts = 'mount -t tmpfs weft "$1"; mount --bind /etc/hosts /etc/hosts; mount --bind /etc/passwd /etc/passwd; shift; exec "$@"'
    inside = [paths.tool("unshare"), "--mount", "--propagation", "private", "sh", "-euc", mounts, "sh", str(place)]
    text = two_nodes(program("writes", "a", "sh", "-euc", """
echo log > /var/log/weft; echo new > /etc/weft; cat /var/log/weft /etc/weft /etc/hosts; getent hosts b; sed -i s/root/toor/ /etc/passwd; head -n 1 /etc/passwd
ls /etc /var; mkdir -p /var/lib/weft /var/tmp/weft; ls -a /var/tmp/weft; awk 'BEGIN { print 2 + 3 }'
"""))
    found = {where: runs.run(text, before=before)[0] for where, before in (("without", []), ("with", inside))}
    found["with, as a user"] = runs.run(text, before=inside, as_user=True)[0]
    if len(set(found.values())) != 1:
        raise Failure(f"{found}")
    return found["with"]


LISTED = """
import os
for place, folders, names in os.walk("."): print(place, folders, names)
print([(entry.name, entry.inode()) for entry in os.scandir("many")])
stream = os.open("many", os.O_RDONLY); print(os.listdir(stream)); os.close(stream)
"""


def listings(runs: Runs) -> str:
    """What lies in a folder comes in one order, whatever the file system and in which order it was made: scenario, mounts and root."""
    names = [f"name{number}" for number in range(700)]
    text = keys(duration="9s") + section("nodes.a") + "[nodes.a.mounts]\n" + '"/srv/many" = { from = "many" }\n' \
        + program("python", "a", "python3", "lists.py") + program("shell", "a", "sh", "-euc", "ls -fU ./many; find /srv/many; ls -l /srv/many | head", start="1s") \
        + program("removes", "a", "sh", "-euc", "cp -r ./many /srv/copy; rm -r /srv/copy; ls /srv", start="2s")
    found = {}
    with tempfile.TemporaryDirectory(prefix="weft-listings-", dir="/dev/shm") as memory:
        orders = {"as they are called": sorted, "backwards": lambda all: sorted(all, reverse=True), "by their ends": lambda all: sorted(all, key=lambda name: name[::-1])}
        for where, parent in (("on the disk", runs.folder), ("in memory", Path(memory))):
            parent.chmod(0o755)
            for how, ordered in orders.items():
                place = parent / f"listed {how}"
                (place / "many").mkdir(parents=True)
                for name in ordered([*names, "../lists.py", "../other", "../third"]):
                    (place / "many" / name).write_text(LISTED if name.endswith(".py") else name)
                (place / "s.toml").write_text(text)
                # Times of files are shown as they are.
                for path in [*place.rglob("*"), place]:
                    os.utime(path, (1e9, 1e9))
                out = place.parent / f"out {how}"
                summary = weft_command(place, "sim", "s.toml", "--out", str(out), "--json")
                found[f"{where}, {how}"] = json.loads(summary.stdout)["hash"]
                kept = kept if len(found) > 1 else out
                difference(kept, out)
    if len(set(found.values())) != 1:
        raise Failure(f"{found}")
    return next(iter(found.values()))


def main() -> int:
    # A node has a /tmp of its own: what programs are to find lies elsewhere.
    with tempfile.TemporaryDirectory(prefix="weft-determinism-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy2(weft.binary(), folder / "weft")
        runs = Runs(folder)
        goes = functools.cache(lambda: go_scenario(folder))
        rows = {label: (lambda _, text=text: same(runs, text)) for label, text in SCENARIOS.items()}
        rows["static Go"] = lambda _: same(runs, goes())
        if FULL:
            debug_build(folder)
            rows["another Debian release"] = lambda own: elsewhere(own, SCENARIOS | {"static Go": goes()}, IN_ANY_RELEASE)
        rows |= Doors(folder, folder / "weft").rows()
        for source in SOURCES:
            rows |= Alike(runs, source).rows()
        rows |= place.rows(runs)
        rows |= answers.rows(runs)
        rows |= worlds.rows(runs, seeds.seeds(worlds.SEEDS, worlds.SEEDS_FULL))
        rows["settings of a node"] = lambda _: settings(runs)
        rows["mappings"] = lambda _: mappings(runs)
        rows["pipes of one user"] = lambda _: pipes_of_one_user(runs)
        rows["every way to wait"] = waits
        rows["order of listings"] = lambda _: listings(runs)
        rows["mounts below the host's folders"] = lambda _: with_mounts(runs)
        rows["under load"] = lambda _: under_load(runs)
        rows["the hash is honest"] = lambda _: honest(runs)
        return run_rows(rows, directory="/var/tmp")
