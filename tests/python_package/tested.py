"""The plug-in for pytest, in projects of its users."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from harness import paths
from harness.processes import Failure
from virtual.shared import expect
from weft import Expect, World

from .ran import lossy

TESTS = '''
import pytest

@pytest.mark.weft(scenario="good.toml", seeds="1..3")
def test_good(weft_result):
    assert weft_result.programs["sink"].figures["received_bytes"] == 100_000

@pytest.mark.weft(scenario="bad.toml", seeds=[5])
def test_bad(weft_result):
    assert False, "not reached"

@pytest.mark.weft(scenario="good.toml")
def test_changed(weft_world, weft_run, weft_seed):
    weft_world.wires["ab"].loss = 0.3
    weft_world.duration = "1s"
    weft_run(weft_world)

def test_own(weft_world, weft_run):
    from weft import Node, Program
    weft_world.nodes["a"] = Node()
    weft_world.programs["p"] = Program("a", command=["sh", "script.sh"])
    assert weft_run(weft_world).programs["p"].stdout == "beside\\n"

@pytest.mark.weft(scenario="wrong.toml")
def test_wrong(weft_world):
    assert False, "not reached"
'''


MARKS = '''
import pytest, unittest

@pytest.mark.weft(scenario="good.toml", sed=5)
def test_unknown(weft_result): pass

@pytest.mark.weft(scenario="good.toml", seeds="one to five")
def test_no_range(weft_result): pass

@pytest.mark.weft("good.toml", "1..5")
def test_too_many(weft_result): pass

@pytest.mark.weft("good.toml", seed=True)
def test_no_seed(weft_result): pass

@pytest.mark.weft("good.toml", seed=4)
def test_one(weft_result): assert weft_result.seed == 4

@pytest.mark.weft("good.toml", seeds=2)
def test_first(weft_result): assert weft_result.seed in (1, 2)

@pytest.mark.weft("good.toml", seeds="2")
def test_text(weft_result): assert weft_result.seed in (1, 2)
'''

# What fails by itself, and who asks for a result in other ways.
OWN = '''
import pytest, unittest

@pytest.mark.weft("good.toml", seed=3)
def test_body(weft_result, weft_world, weft_run):
    weft_world.duration = "1s"
    weft_run(weft_world)
    weft_world.duration = "2s"
    assert weft_result.seed == 5

@pytest.mark.weft("bad.toml")
def test_late(request):
    request.getfixturevalue("weft_result")

@pytest.mark.weft("bad.toml")
@pytest.mark.usefixtures("weft_result")
class Case(unittest.TestCase):
    def test_of_unittest(self): assert False, "not reached"

@pytest.mark.xfail(strict=True)
@pytest.mark.weft("bad.toml")
def test_expected(weft_result): assert False, "not reached"
'''


def project(folder: Path) -> None:
    """A folder of tests and scenarios."""
    good = lossy()
    good.save(folder / "good.toml")
    good.save(folder / "whole.weft.toml")
    good.expect.append(Expect("sink", goodput_min="20mbit"))
    good.save(folder / "bad.toml")
    good.save(folder / "part.weft.toml")
    (folder / "wrong.toml").write_text("[nodes.a]\nadresses = 1\n")
    (folder / "script.sh").write_text("echo beside\n")
    (folder / "test_it.py").write_text(TESTS)


def pytest_said(folder: Path, *words: str, status: int, caches: bool = False) -> str:
    """What pytest prints."""
    words = (*words, *([] if caches else ["-p", "no:cacheprovider"]))
    command = [paths.output_dir() / "venv/bin/python3", "-m", "pytest", "-v", *words]
    # As people have it: Python, too, leaves what it has compiled.
    variables = {name: value for name, value in os.environ.items() if not caches or name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"pytest ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def failures(folder: Path) -> str:
    """Who fails says the expectation, the seed and a command that repeats it; nobody sees lines of the package."""
    project(folder)
    said = pytest_said(folder, status=1)
    for text in ("test_good[seed-1] PASSED", "test_good[seed-3] PASSED", "test_bad[seed-5] FAILED", "test_changed[own-seed] FAILED", "test_own[own-seed] PASSED", "test_wrong[own-seed] ERROR",
                 "whole.weft.toml::run PASSED", "part.weft.toml::run FAILED", "1 of 3 expectations failed, seed 5: sink: goodput_bits_per_second is at least 20000000",
                 "nodes.a: there is no key 'adresses'; did you mean 'addresses'?", "test_it.py:16: weft_run(weft_world)", "3 failed, 5 passed, 1 error"):
        if text not in said:
            raise Failure(f"{text!r} is not in\n{said}")
    if "src/weft" in said or "weft/world.py" in said or "not reached" in said:
        raise Failure(said)
    # Where CI is set pytest's summary at the end repeats the whole of each failure.
    commands = list(dict.fromkeys(re.findall(r"to repeat it: (weft .*)", said)))
    expect("commands", len(commands), 3)
    for command in commands:
        words = shlex.split(command)
        done = subprocess.run([os.environ["WEFT_BIN"], *words[1:]], capture_output=True, text=True, cwd="/")
        expect(command, (done.returncode, "not as expected" in done.stderr), (1, True))
    return commands[0].replace(str(folder), "…")


def seeds(folder: Path) -> str:
    """--weft-seeds, as a number and as a range; and without it, what the marker says."""
    project(folder)
    said = pytest_said(folder, "--weft-seeds", "5", "-k", "good or whole", status=0)
    expect("of a number", len(re.findall(r"(?:test_good\[|whole\.weft\.toml::)seed-[1-5]\]? PASSED", said)), 10)
    said = pytest_said(folder, "--weft-seeds", "7..8", "-k", "good", status=0)
    expect("of a range", re.findall(r"test_good\[(seed-\d+)\] PASSED", said), ["seed-7", "seed-8"])
    said = pytest_said(folder, "--weft-seeds", "many", status=4)
    if "--weft-seeds: 'many' is no range of seeds" not in said:
        raise Failure(said)
    expect("markers", "@pytest.mark.weft(scenario, *, seeds, seed, wall_limit)" in pytest_said(folder, "--markers", status=0), True)
    expect("files", sorted(path.name for path in folder.glob(".weft-*")), [])
    return "number and range"


def world_of_seed(folder: Path) -> str:
    """A test's world has the seed of its name."""
    World.from_toml("[nodes.a]").save(folder / "s.toml")
    (folder / "test_it.py").write_text("import pytest\n@pytest.mark.weft(scenario='s.toml', seeds='3..4')\ndef test_it(weft_world, weft_seed):\n    assert weft_world.seed == weft_seed >= 3\n")
    if "2 passed" not in (said := pytest_said(folder, status=0)):
        raise Failure(said)
    return "3 and 4"


def marks(folder: Path) -> str:
    """A mark that is wrong is an error of its test alone, in one line; one seed, and a number of seeds."""
    project(folder)
    (folder / "test_it.py").write_text(MARKS)
    said = pytest_said(folder, "-k", "test_it", status=1)
    for text in ("test_it.py:4: @pytest.mark.weft: there is no argument 'sed'; did you mean 'seed'?", "test_it.py:7: @pytest.mark.weft: 'one to five' is no range of seeds: write it as 1..30",
                 "test_it.py:10: @pytest.mark.weft: it takes one scenario; seeds have their name: seeds=\"1..20\"", "test_it.py:13: @pytest.mark.weft: True is no seed: write a number",
                 "test_one[seed-4] PASSED", "test_first[seed-2] PASSED", "test_text[seed-2] PASSED", "5 passed, 2 deselected, 4 errors"):
        if text not in said:
            raise Failure(f"{text!r} is not in\n{said}")
    if "Traceback" in said or "pytest_plugin" in said:
        raise Failure(said)
    return "four are wrong"


def own(folder: Path) -> str:
    """A test that fails by itself has the commands and folders of its runs; whose result is not as expected has failed, however it asks for it."""
    project(folder)
    (folder / "test_it.py").write_text(OWN)
    junit = folder / "junit.xml"
    said = pytest_said(folder, "-k", "test_it", "--basetemp", str(folder / "kept"), "--junitxml", str(junit), status=1)
    told = [set(re.findall("to repeat it: (weft sim [^\n\"<&]*)", text)) for text in (junit.read_text(), said)]
    expect("commands in JUnit", told[0], told[1])
    for text in ("test_late FAILED", "test_of_unittest FAILED", "test_expected[own-seed] XFAIL", "--- weft ---", "3 failed, 2 deselected, 1 xfailed"):
        if text not in said:
            raise Failure(f"{text!r} is not in\n{said}")
    if "not reached" in said.replace('assert False, "not reached"', ""):
        raise Failure(said)
    part = said.partition("test_body")[2].partition("--- weft ---")[2].partition("____")[0]
    runs = re.findall(r"<Result: as expected, seed 3, hash (\w+)>\n  to repeat it: weft (.*)\n  results: (.*)", part)
    expect("runs", len(runs), 2)
    for digest, command, results in runs:
        done = subprocess.run([os.environ["WEFT_BIN"], *shlex.split(command), "--json"], capture_output=True, text=True, cwd="/")
        expect(command, json.loads(done.stdout)["hash"], digest)
        expect("results", json.loads(Path(results, "summary.json").read_text())["hash"], digest)
    return "two commands"


SLOW = """
import pytest
from weft import Event, Node, Program

@pytest.mark.weft(wall_limit="1s")
def test_busy(weft_world, weft_run):
    weft_world.nodes = {"a": Node()}
    weft_world.programs = {"p": Program("a", command=["sh", "-c", "while :; do :; done"])}
    weft_run(weft_world)

@pytest.mark.weft(wall_limit=5)
def test_number(weft_world):
    pass

def test_wrong(weft_world, weft_run):
    weft_world.nodes = {"a": Node()}
    weft_world.events.append(Event(at="1s", crash="c"))
    weft_run(weft_world)
"""


def limits(folder: Path) -> str:
    """A mark's limit ends a run and is in the command that repeats it; a world that is wrong is told by the line that runs it."""
    (folder / "test_slow.py").write_text(SLOW)
    said = pytest_said(folder, status=1)
    for text in ("the wall limit of 1s was over", " --wall-limit=1s", "5 is no time: write wall_limit=", "test_slow.py:18: weft_run(weft_world)", "2 failed, 1 error"):
        if text not in said:
            raise Failure(f"{text!r} is not in\n{said}")
    return "one second"


# Programs that list the folder, of two worlds without a file of their own.
LISTS = """
import pytest
from weft import Node, Program

@pytest.mark.parametrize("number", [1, 2])
def test_lists(weft_world, weft_run, number):
    weft_world.nodes["a"] = Node()
    weft_world.programs["p"] = Program("a", command=["python3", "s.py", str(number)])
    assert not weft_run(weft_world).passed
"""


def lists(folder: Path) -> str:
    """Programs that list the folder find the same in the first session as in each that follows, and in the command that repeats a run."""
    (folder / "test_it.py").write_text(LISTS)
    (folder / "s.py").write_text("import os, sys\nprint(sorted(os.listdir('.')), sys.argv[1])\n")
    told = [pytest_said(folder, status=1, caches=True) for _ in range(2)]
    hashes, commands = ([list(dict.fromkeys(re.findall(text, said))) for said in told] for text in (r"hash ([0-9a-f]{32})", r"to repeat it: (weft .*)"))
    expect("two hashes, of both sessions", (len(hashes[0]), hashes[0], commands[0]), (2, hashes[1], commands[1]))
    for command, hash_ in zip(commands[1], hashes[1]):
        done = subprocess.run([os.environ["WEFT_BIN"], *shlex.split(command)[1:], "--json"], capture_output=True, text=True)
        expect("hash of the command", json.loads(done.stdout)["hash"], hash_)
    return ", ".join(hashes[0])


ROWS = {"pytest/lists": lists, "pytest/limits": limits, "pytest/marks": marks, "pytest/own failures": own, "pytest/failures": failures, "pytest/seeds": seeds, "pytest/world of a seed": world_of_seed}
