"""One body, three hosts: the twin bodies of crates/socket through the notify adapter, beside the host kernel.

    python3 -m twins [--show]

`cargo test -p weft-socket` runs the same bodies on the kernel and on the model in memory, where no difference is allowed. Here
`socket-twins` runs them natively in an empty network namespace and under `weft run` on a stack with nothing but its loopback, as root and
as a normal user, with both ways to move data: sendmsg and recvmsg, which the adapter answers, and send and recv, which run natively on the
stand-in. Exactly the lines that adapter-differences.toml lists may differ. `--show` prints the lines that do.

With STRICT=1 under `weft run --strict`, where no difference may be left but that of rights.

Short form: the bodies of IPv4; with ENGINE=queued or threaded as root only. FULL=1: the same over IPv6 and with mapped addresses too, those of IPv6's
own, and as a normal user on every engine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import paths, results, user
from harness.environment import Environment, run_main
from harness.namespaces import in_user_namespace
from harness.processes import Failure
from harness.weft import engine_words, strict_words

from . import compare

HERE = Path(__file__).parent
TABLE = HERE / "adapter-differences.toml"
# With STRICT=1 (`weft run --strict`) the model answers every call: only these rows of the table remain.
STRICT_IDS = ("privileges",)
DOCUMENT = paths.ROOT / "docs" / "compatibility.md"
WATCHDOG_S = 400
# Each slice of the bodies has a stack and a namespace of its own: in one, bodies beside each other would share multicast groups.
SLICES = 8
STACK = '# Nothing but the loopback.\n[node]\nname = "twins"\ninterfaces = "none"\n'
# How often both hosts run before a difference counts: both in real time, so on a busy machine something may come later than a body waits, and between threads
# frames come in portions that chance decides (what UDP_GRO joins, whether an acknowledgment is back already). What is wrong is so each time.
ATTEMPTS = 3
# On another engine than the usual one only in full.
AS_USER_TOO = not os.environ.get("ENGINE") or bool(os.environ.get("FULL"))
OPTIONS = {"message": ["--patient"], "plain": ["--patient", "--plain"]}


def twins_binary() -> Path:
    """The example `socket-twins` that was built, or the one TWINS_BIN names."""
    chosen = os.environ.get("TWINS_BIN")
    path = Path(chosen) if chosen else paths.built() / "examples" / "socket-twins"
    if not path.exists():
        raise Failure(f"no {path}: run make test-twins, or set TWINS_BIN")
    return path


def transcripts(env: Environment, variant: str) -> tuple[compare.Transcripts, compare.Transcripts]:
    """Linux's and weft's."""
    # Under weft everybody may have ICMP datagram sockets; here the group 0, which is all that a user namespace knows.
    script = 'ip link set lo up; echo 0 0 > /proc/sys/net/ipv4/ping_group_range; exec "$@"'
    native = [paths.tool("unshare"), "--net", "--", "sh", "-ec", script, "sh"]
    if os.geteuid() != 0:
        native[1:1] = ["--user", "--map-root-user"]
    stack = env.folder / "stack.toml"
    stack.write_text(STACK)
    weft = [str(paths.weft_binary()), "run", *engine_words(), *strict_words(), "--stack", str(stack), "--"]
    everything = ["--everything"] if os.environ.get("FULL") else []
    processes = {}
    for number in range(SLICES):
        program = [str(twins_binary()), "--slice", f"{number}/{SLICES}", *OPTIONS[variant], *everything]
        for host, words in (("linux", native), ("weft", weft)):
            processes[host, number] = env.start(f"{host}-{number}", [*words, *program])
    for (host, number), process in processes.items():
        if status := process.wait(WATCHDOG_S):
            raise Failure(f"{host}, slice {number}: socket-twins ended with status {status}: {process.stderr.strip()[-300:]}")
    linux, weft = ({body: lines for number in range(SLICES) for body, lines in compare.parse(processes[host, number].stdout).items()}
                   for host in ("linux", "weft"))
    return linux, weft


def run_variant(who: str, variant: str, show: bool) -> list[results.Row]:
    """A row for each topic."""
    started = time.monotonic()
    table = [row for row in compare.read_table(TABLE) if not strict_words() or row.id in STRICT_IDS]
    by_chance: list[dict[str, list[str]]] = []
    try:
        # Only what differs every time.
        while not by_chance or (len(by_chance) < ATTEMPTS and any(by_chance[-1].values())):
            with Environment(f"twins-{variant}") as env:
                linux, weft = transcripts(env, variant)
            by_chance.append(compare.check(who, variant, linux, weft, table))
    except Failure as failure:
        return [results.Row(f"{who}/{variant}", results.FAILED, time.monotonic() - started, str(failure))]
    if show:
        rewrites = [difference.rewrite for difference in table if difference.rewrite]
        for body in linux:
            for line in compare.differing(linux[body], weft.get(body, []), rewrites):
                print(f"{variant} {body}: {line}")
    by_topic: dict[str, list[str]] = defaultdict(list)
    for body, lines in by_chance[-1].items():
        by_topic[body.partition("/")[0]] += [f"{body}: {line}" for line in lines if all(line in found.get(body, ()) for found in by_chance)]
    seconds = time.monotonic() - started
    return [results.Row(f"{who}/{variant}/{topic}", results.FAILED if by_topic[topic] else results.PASSED, seconds, "\n".join(by_topic[topic]))
            for topic in sorted({*(body.partition("/")[0] for body in linux), *by_topic})]


def run_as_user() -> int:
    """This program again as a throw-away user, with copies in a place that it can read."""
    with Environment("user") as env:
        for folder in ("tests/harness", "tests/twins", "docs"):
            shutil.copytree(paths.ROOT / folder, env.folder / folder, ignore=shutil.ignore_patterns("__pycache__"))
        home = env.folder / "home"
        home.mkdir()
        variables = env.variables(PYTHONPATH=str(env.folder / "tests"), TMPDIR="/tmp", TWINS_USER="1", FULL=os.environ.get("FULL", ""),
                                  STRICT=os.environ.get("STRICT", ""), ENGINE=os.environ.get("ENGINE", ""),
                                  WEFT_BIN=str(shutil.copy2(str(paths.weft_binary()), env.folder / "weft")),
                                  TWINS_BIN=str(shutil.copy2(twins_binary(), env.folder / "socket-twins")))
        if record := os.environ.get("WEFT_RESULTS"):
            variables["WEFT_RESULTS"] = str(home / "results")
        subprocess.run(["chmod", "-R", "a+rX", str(env.folder)], check=True)
        os.chown(home, user.ID, user.ID)
        variables.update(HOME=str(home), XDG_RUNTIME_DIR=str(home))
        sys.stdout.flush()
        run = subprocess.run([*user.words(), paths.PYTHON, "-m", "twins"], env=variables, cwd=home, stdin=subprocess.DEVNULL, timeout=3 * WATCHDOG_S)
        if record and (home / "results").exists():
            with open(record, "a") as file:
                file.write((home / "results").read_text())
        return run.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="twins")
    parser.add_argument("--show", action="store_true", help="print every line that differs")
    options = parser.parse_args()
    recorder = results.Recorder()
    if paths.weft_binary() is None:
        recorder.add(results.Row("weft", results.FAILED, 0.0, "no weft binary: run make build, or set WEFT_BIN"))
        return recorder.finish()
    root = os.geteuid() == 0 and not in_user_namespace()
    who = "root" if root else "user"
    if root or not os.environ.get("TWINS_USER"):
        wrong = compare.check_ids(DOCUMENT.read_text(), compare.read_table(TABLE))
        recorder.add(results.Row("ids", results.FAILED if wrong else results.PASSED, 0.0, "\n".join(wrong)))
    # They pause most of the time, so they run side by side.
    with ThreadPoolExecutor() as pool:
        as_user = pool.submit(run_as_user) if root and AS_USER_TOO else None
        for rows in pool.map(lambda variant: run_variant(who, variant, options.show), compare.VARIANTS):
            for row in rows:
                recorder.add(row)
    status = recorder.finish()
    return 1 if as_user and as_user.result() != 0 else status


if __name__ == "__main__":
    # As a normal user the program under weft has no namespace around it: that is what a normal user has.
    sys.exit(run_main(main, user_namespace=False))
