"""CPython's own tests inside a node, beside the same natively: the same verdict for every test, but for exceptions listed with their reasons.

    python3 -m virtual cpython           ONLY=socket chooses modules

The native half runs in a network namespace with nothing but a loopback, as the node has nothing but a wire that leads nowhere.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import fnmatch
import os
import subprocess
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import paths, results, weft
from harness.environment import Environment
from harness.processes import PATIENCE, Failure

from .shared import USUAL_SIGNALS

MODULES = ("test_select", "test_epoll", "test_selectors", "test_time", "test_threading", "test_signal", "test_ssl", "test_socket", "test_asyncio",
           "test_subprocess")
EXCEPTIONS = Path(__file__).with_name("cpython.toml")
SECONDS_MAX = 900 * PATIENCE
MODULES_AT_ONCE = 2

SCENARIO = """
duration = "7200s"
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
[programs.test]
node = "a"
command = ["sh", "-c", '''COMMAND''']
expect = "any"
"""
# A folder of its own for the tests' files; what they say goes to standard error, the verdicts to standard output.
COMMAND = "mkdir FOLDER; cd FOLDER; PYTHON -m test -v MORE --junit-xml FOLDER/verdicts.xml MODULE >&2; cat FOLDER/verdicts.xml"


@dataclasses.dataclass(frozen=True)
class Exception_:
    """Tests (module and a pattern of their names) that differ, and why. `left_out`: they are not run in the node, because the module would not end."""

    module: str
    tests: tuple[str, ...]
    reason: str
    left_out: bool = False


def exceptions() -> list[Exception_]:
    rows = tomllib.loads(EXCEPTIONS.read_text())["exception"]
    return [Exception_(row["module"], tuple(row["tests"]), row["reason"], row.get("left_out", False)) for row in rows]


def verdicts(text: str) -> dict[str, str]:
    """Verdict by test, from the report of `--junit-xml`."""
    found: dict[str, str] = {}
    start = text.find("<?xml")
    if start < 0:
        start = text.find("<testsuites")
    if start < 0:
        raise Failure("no report of verdicts")
    for case in ElementTree.fromstring(text[start:]).iter("testcase"):
        words = [child.tag for child in case]
        verdict = next((word for word in ("error", "failure", "skipped") if word in words), "passed")
        found[case.get("name", "").rsplit(" ", 1)[0]] = "failed" if verdict in ("error", "failure") else verdict
    return found


def command(module: str, folder: str) -> str:
    left_out = [pattern for one in exceptions() if one.left_out and one.module == module for pattern in one.tests]
    more = " ".join(f'--ignore "{pattern}"' for pattern in left_out)
    return COMMAND.replace("FOLDER", folder).replace("PYTHON", paths.PYTHON).replace("MORE", more).replace("MODULE", module)


def natively(env: Environment, module: str) -> dict[str, str]:
    namespace = env.namespace(module.replace("_", "")[-8:])
    namespace.enable_ipv6()
    namespace.ip("link", "set", "lo", "up")
    # One of them sets the machine's clock, if it may.
    may_not = [paths.tool("setpriv"), "--bounding-set=-sys_time", "--inh-caps=-all"]
    # A shell starts what runs in its background with SIGINT ignored; a node's programs never are.
    may_not += USUAL_SIGNALS
    # As many descriptors as a node's programs begin with.
    script = f'ulimit -Sn 1024; {command(module, f"{env.folder}/{module}")}'
    return verdicts(env.run(module, [*may_not, "sh", "-c", script], namespace, SECONDS_MAX))


def in_a_node(env: Environment, module: str) -> tuple[dict[str, str], str]:
    file, out = env.folder / f"{module}.toml", env.folder / f"{module}.out"
    file.write_text(SCENARIO.replace("COMMAND", command(module, "/tmp/tests")))
    try:
        done = subprocess.run([weft.binary(), "sim", str(file), "--out", str(out)], capture_output=True, text=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise Failure(f"no end after {SECONDS_MAX} s") from error
    said = out / "programs" / "test"
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}\n{done.stderr[-1500:]}")
    return verdicts((said / "stdout").read_text()), (said / "stderr").read_text(errors="replace")


def compare(env: Environment, module: str) -> str:
    listed = [one for one in exceptions() if one.module == module]
    native = natively(env, module)
    found, said = in_a_node(env, module)
    unlike = {name: (verdict, found.get(name, "not run")) for name, verdict in native.items() if found.get(name, "not run") != verdict}
    names = lambda one: [name for name in unlike if any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in one.tests)]  # noqa: E731
    explained = {name for one in listed for name in names(one)}
    new = {name: pair for name, pair in unlike.items() if name not in explained}
    if new:
        lines = [f"{name}: natively {one}, in the node {other}" for name, (one, other) in sorted(new.items())]
        raise Failure("\n".join(lines[:60]) + f"\n{said[-int(os.environ.get('TAIL', 300)):]}")
    gone = [one for one in listed if not one.left_out and not names(one)]
    if gone:
        raise Failure(f"exceptions that are none any more: {[one.tests for one in gone]}")
    return f"{len(native)} tests, {len(explained)} exceptions"


def main() -> int:
    wanted = os.environ.get("ONLY", "").replace(",", " ").split()
    chosen = [module for module in MODULES if not wanted or any(word in module for word in wanted)]
    recorder = results.Recorder()
    with Environment("cpython") as env, concurrent.futures.ThreadPoolExecutor(MODULES_AT_ONCE) as pool:

        def run(module: str) -> results.Row:
            started = time.monotonic()
            try:
                outcome, reason = results.PASSED, compare(env, module)
            except Failure as failure:
                outcome, reason = results.FAILED, str(failure)
            return results.Row(module, outcome, time.monotonic() - started, reason)

        for row in pool.map(run, chosen):
            recorder.add(row)
    return recorder.finish()
