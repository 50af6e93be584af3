"""Runs the demo as root and as a normal user (started as root: both; else the second only).

The normal user's half is this program again under a user id that owns nothing, with a copy of the demo and of the
binary in a place it can read. MODE=native shows the harness without weft.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

from harness import paths, results, user
from harness.environment import Environment, run_main
from harness.processes import Failure

from . import acts, stacks

NATIVE = os.environ.get("MODE") == "native"


def show(who: str) -> None:
    """All acts, as whoever runs this."""
    stack_class = stacks.NativeStack if NATIVE else stacks.WeftStack
    acts.heading(f"A Linux web server, and curl on weft's own TCP/IP ({who})")
    with Environment("demo") as env:
        acts.shell("weft up &")
        stand = acts.Stand(env, stack_class)
        for line in stand.stack.said:
            acts.say(line[:98])
        acts.fetch(stand)
        acts.heading("Whose TCP was it? Cut the edge from tcp to ip4 in the middle of a transfer")
        acts.cut_and_mend(stand)
        acts.heading("The kernel around curl saw nothing of it")
        acts.silent_kernel(stand)
        acts.shell("weft down")
        stand.stack.down()
    acts.heading("And a parameter of weft's tcp is what the other side sees")
    with Environment("demo-mss") as env:
        acts.small_segments(env, stack_class)


def show_as_user() -> None:
    """The same in a process of a throw-away user."""
    with Environment("user") as env:
        tests = env.folder / "tests"
        for package in ("harness", "demo"):
            shutil.copytree(paths.TESTS / package, tests / package, ignore=shutil.ignore_patterns("__pycache__"))
        variables = env.variables(PYTHONPATH=str(tests), TMPDIR="/tmp", WEFT_DEMO_USER="1")
        binary = paths.weft_binary()
        if binary is not None:
            variables["WEFT_BIN"] = str(shutil.copy2(binary, env.folder / "weft"))
        subprocess.run(["chmod", "-R", "a+rX", str(env.folder)], check=True)
        home = env.folder / "home"
        home.mkdir()
        os.chown(home, user.ID, user.ID)
        variables.update(HOME=str(home), XDG_RUNTIME_DIR=str(home))
        sys.stdout.flush()
        run = subprocess.run([*user.words(), paths.PYTHON, "-m", "demo"], env=variables, cwd=home, stdin=subprocess.DEVNULL, timeout=300)
        if run.returncode != 0:
            raise Failure(f"the demo as a normal user ended with status {run.returncode}")


def main() -> int:
    if not NATIVE and paths.weft_binary() is None:
        print("failed: no weft binary: run make build, or MODE=native")
        return 1
    if os.environ.get("WEFT_DEMO_USER"):
        show("as a normal user")
        return 0
    recorder = results.Recorder(quiet=True)
    root = os.geteuid() == 0
    halves = [("as root", lambda: show("as root")), ("as a normal user", show_as_user)] if root else \
        [("as a normal user", lambda: show("as a normal user"))]
    if not root:
        recorder.add(results.Row("as root", results.SKIPPED, reason="make runs as a normal user"))
    if NATIVE:
        halves = [("native", lambda: show("native: kernel against kernel"))]
    for name, half in halves:
        started = time.monotonic()
        try:
            half()
            recorder.add(results.Row(name, results.PASSED, time.monotonic() - started))
        except Failure as failure:
            recorder.add(results.Row(name, results.FAILED, time.monotonic() - started, str(failure)))
    print()
    return recorder.finish()


if __name__ == "__main__":
    # weft has to do without a namespace around it: that is what a normal user has.
    sys.exit(run_main(main, user_namespace=NATIVE))
