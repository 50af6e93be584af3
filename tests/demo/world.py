"""The demo in virtual time: three nodes and a router, python's web server, three curls; two runs, one hash.

Needs no privilege: started as root, the runs are a throw-away user's, with a copy of the binary in a place that it can read, and one
more run as root must come to the same hash.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import paths, results, same_host, user
from harness.processes import Failure
from virtual.exact import difference

from . import acts

SCENARIO = paths.ROOT / "docs" / "examples" / "web.toml"
SECONDS_MAX = 300


def run(folder: Path, name: str, *words: str, as_user: bool) -> tuple[dict, Path, str]:
    """The summary of a run, its results and what it printed for people."""
    out = folder / name
    # There when it is asked again.
    shutil.rmtree(out, ignore_errors=True)
    command = [str(folder / "weft"), "sim", str(folder / SCENARIO.name), "--out", str(out), *words]
    if as_user and os.geteuid() == 0:
        command = [*user.words(), *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"weft sim ended with status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return json.loads((out / "summary.json").read_text()), out, done.stdout + done.stderr


def show(folder: Path) -> str:
    acts.heading("Three nodes and a router in virtual time: a web server and three curls, as a normal user")
    acts.shell(f"weft sim docs/examples/{SCENARIO.name} --out target/demo")
    started = time.monotonic()
    summary, out, said = run(folder, "one", as_user=True)
    wall = time.monotonic() - started
    for line in said.splitlines():
        acts.say(line[:140])
    for program in summary["programs"]:
        ended = f"{program['end_ns'] / 1e9:.9f} s, {program['status']}" if program["end_ns"] else f"runs on ({program['waits']})"
        acts.say(f"{program['name']:<6} on {program['node']:<7} from {program['start_ns'] / 1e9:.3f} s to {ended}")
    acts.say(f"{summary['end_ns'] / 1e9:.3f} s of virtual time in {wall:.2f} s")
    again, other, _ = run(folder, "two", "--threads", "2", as_user=True)
    if again["hash"] != summary["hash"]:
        raise Failure(f"two runs, two hashes: {summary['hash']} and {again['hash']}")
    difference(out, other)
    acts.say(f"once more, on two threads: hash {again['hash']}, and every file of the results is the same")
    if os.geteuid() == 0:
        root, _, _ = run(folder, "three", as_user=False)
        if root["hash"] != summary["hash"]:
            raise Failure(f"as root the hash is {root['hash']}, as a user {summary['hash']}")
        acts.say(f"and as root:               hash {root['hash']}")
    kept = paths.output_dir() / "demo"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(out, kept)
    for what, pattern in (("pictures", "pictures/*"), ("captures", "captures/*"), ("what programs wrote", "programs/*/stdout")):
        found = sorted(kept.glob(pattern))
        if not found:
            raise Failure(f"there are no {what} in the results")
        acts.say(f"{what}: {', '.join(str(path.relative_to(paths.ROOT)) for path in found)}")
    return summary["hash"]


def main() -> int:
    binary = paths.weft_binary()
    if binary is None:
        print("failed: no weft binary: run make build")
        return 1
    recorder = results.Recorder(quiet=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-world-") as name:
        folder = Path(name)
        shutil.copy2(binary, folder / "weft")
        shutil.copy2(SCENARIO, folder)
        folder.chmod(0o777)
        (folder / "weft").chmod(0o755)
        try:
            recorder.add(results.Row("virtual world", results.PASSED, time.monotonic() - started, same_host.ask(lambda: show(folder))))
        except Failure as failure:
            recorder.add(results.Row("virtual world", results.FAILED, time.monotonic() - started, str(failure)))
    print()
    return recorder.finish()


if __name__ == "__main__":
    sys.exit(main())
