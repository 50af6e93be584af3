"""Runs, and what they left."""

from __future__ import annotations

import copy
import gc
import json
import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import weft
from harness import paths
from harness.processes import PATIENCE, Failure
from virtual.shared import expect, weft_command
from weft import Expect, Node, Program, Wire, World

from .objects import refused


def lossy(**more) -> World:
    """A transfer over a wire that loses."""
    world = World(nodes={"a": Node(), "b": Node()}, wires={"ab": Wire(["a", "b"], delay="5ms", rate="10mbit", loss=0.02)}, **more)
    world.programs["sink"] = Program("b", builtin="tcp-sink", port=5001)
    world.programs["send"] = Program("a", builtin="tcp-send", to="b:5001", bytes=100_000)
    return world


def result(folder: Path) -> str:
    """A Result says what `weft sim --out` says, and what programs wrote."""
    world = lossy()
    world.programs["told"] = Program("a", command=["sh", "-c", "echo out; echo err >&2; exit 3"], start="1s", expect=3)
    got = world.run(seed=4, out=folder / "out", record=True)
    (folder / "s.toml").write_text(world.to_toml())
    told = json.loads(weft_command(folder, "sim", "s.toml", "--seed", "4", "--json").stdout)
    expect("summary", {**got.summary, "scenario": ""}, {**told, "scenario": ""})
    expect("verdict, hash and seed", (got.passed, got.hash, got.seed), (True, told["hash"], 4))
    expect("record", weft_command(folder, "hash", "out").stdout.split()[-1], told["hash"])
    one, sink = got.programs["told"], got.programs["sink"]
    expect("a program", (one.stdout, one.stderr, one.start_s, one.end_s >= 1, one.node), ("out\n", "err\n", 1.0, True, "a"))
    expect("figures", (sink.figures["received_bytes"], sink.status), (100_000, None))
    expect("expectations", [row.passed for row in got.expectations], [True, True, True])
    expect("another", world.run(seed=5).hash == got.hash, False)
    expect("set", world.run(seed=4, set={"wires.ab.loss": 0.0, "nodes.*.parameters.tcp.congestion": "reno"}).hash == got.hash, False)
    expect("threads", world.run(seed=4, threads=2).hash, got.hash)
    gone = world.run().folder
    expect("results that nobody holds", gone.exists(), False)
    return got.hash


def expectations(folder: Path) -> str:
    """Those that fail are named with a command that repeats it: of a file, of a world in a folder, and of one without."""
    world = lossy(expect=[Expect("sink", goodput_min="9.5mbit")])
    expect("without check", (world.run(check=False).passed, len(world.run(check=False).expectations)), (False, 3))
    worlds = [world, World.from_toml(world.to_toml(), folder), World.from_file(world.save(folder / "saved.toml"))]
    worlds[0].folder = worlds[0].path = None
    for number, one in enumerate(worlds):
        try:
            one.run(seed=7, set={"wires.ab.loss": 0.05})
            raise Failure(f"world {number} has failed, and nobody has said so")
        except weft.ExpectationError as error:
            text, repeats = str(error), str(error).splitlines()[-1].partition("to repeat it: ")[2]
            expect("result", error.result.passed, False)
        if "1 of 3 expectations failed, seed 7: sink: goodput_bits_per_second is at least 9500000" not in text:
            raise Failure(text)
        words = shlex.split(repeats)
        done = subprocess.run([os.environ["WEFT_BIN"], *words[1:]], capture_output=True, text=True, cwd="/")
        if done.returncode != 1 or text.splitlines()[0].partition("seed 7: ")[2] not in done.stderr:
            raise Failure(f"{repeats}: {done.stderr}")
    _reasons()
    return repeats


def _reasons() -> None:
    """A program that is not there, one that says why, and a run that took too long."""
    world = World(nodes={"a": Node()}, programs={"p": Program("a", command=["pyhton3", "x"]), "q": Program("a", command=["sh", "-c", "seq 20 >&2; exit 3"])})
    refused(world.run, weft.ExpectationError, "p ends with exit status 0: it ended with exit status 127\n")
    refused(world.run, weft.ExpectationError, "p (exit status 127):\n  weft: cannot execute pyhton3: No such file")
    refused(world.run, weft.ExpectationError, "q (exit status 3):\n  11\n  12\n")
    world.programs = {"p": Program("a", command=["sh", "-c", "while :; do :; done"]), "q": Program("a", command=["true"], start="500s")}
    refused(lambda: world.run(wall_limit="1s"), weft.ExpectationError, "2 of 2 expectations failed, seed 1:\n  the wall limit of 1s was over: the run was ended after ")


def files(folder: Path) -> str:
    """Files that were collected, of two nodes; captures; pictures."""
    world = lossy(capture=["eth0"], sample="10ms")
    world.capture = True
    world.nodes["a"].collect = ["/srv/**"]
    world.programs["w"] = Program("a", command=["sh", "-c", "printf '\\377' > /srv/x; mkdir /srv/d; echo y > /srv/d/y; ln -s x /srv/l"])
    world.programs["v"] = Program("b", command=["sh", "-c", "echo z > /out"], collect=["/out"])
    got = world.run()
    expect("files", got.files, {"a": {"/srv/x": b"\xff", "/srv/d/y": b"y\n"}, "b": {"/out": b"z\n"}})
    expect("texts", (got.text("a", "/srv/x"), got.text("b", "/out")), ("\ufffd", "z\n"))
    refused(lambda: got.text("a", "/out"), weft.WeftError, "of node 'a' there is no file /out; there are: /srv/d/y, /srv/x")
    refused(lambda: got.text("c", "/out"), weft.WeftError, "of node 'c' there is no file /out; there are: none")
    expect("captures", [path.name for path in got.captures], ["a-eth0.pcapng", "b-eth0.pcapng"])
    expect("pictures", sorted(got.pictures), ["cwnd", "queue", "srtt", "throughput", "topology"])
    expect("none", lossy().run().files, {})
    return "three files, two captures, five pictures"


def series(folder: Path) -> str:
    """The same table in each library, and in none."""
    got = lossy(sample="10ms").run(out=folder / "out")
    for name in ("wires", "connections"):
        rows = got.series(name, "dicts")
        expect("rows", len(rows) > 20, True)
        expect("polars", got.series(name, "polars").to_dicts(), [{key: value if value is not None or key != "remote" else "" for key, value in row.items()} for row in rows])
        expect("pyarrow", got.series(name, "pyarrow").to_pylist(), got.series(name, "polars").to_dicts())
        expect("pandas", got.series(name).shape, (len(rows), len(rows[0])))
        expect("pandas by name", list(got.series(name, "pandas").columns), list(rows[0]))
    expect("shortcuts", (len(got.wires("dicts")), len(got.connections("polars"))), (len(got.series("wires", "dicts")), len(rows)))
    refused(lambda: got.series("subflows"), weft.WeftError, "there is no series 'subflows'; there are: connections, wires")
    silent = World(sample="100ms", duration="1s", nodes={"a": Node(), "b": Node()}, wires={"ab": Wire(["a", "b"])}).run()
    for name in weft.result.LIBRARIES:
        columns = getattr(table := silent.connections(name), "column_names", None) or table.columns
        expect(f"columns without connections, {name}", list(columns), list(rows[0]))
    refused(lambda: lossy().run().wires(), weft.WeftError, "give the world sample")
    refused(lambda: got.wires("excel"), ValueError, "no 'excel'")
    return f"{len(rows)} rows of connections"


def beside(folder: Path) -> str:
    """Scripts beside a world are found, and programs find nothing else there; two at a time do no harm."""
    (folder / "s.py").write_text("import os\nprint(sorted(os.listdir('.')))\n")
    world = World(nodes={"a": Node()}, programs={"p": Program("a", command=["python3", "-B", "s.py"])}, folder=folder)
    got = world.run()
    expect("what it lists", got.programs["p"].stdout, "['s.py']\n")
    with multiprocessing.get_context("fork").Pool(4) as pool:
        hashes = pool.map(_hash_of, [world] * 12)
    expect("hashes of twelve at a time", set(hashes), {got.hash})
    expect("what is left", [path.name for path in folder.iterdir()], ["s.py"])
    expect("its own file", World.from_file(world.save(folder / "own.toml")).run().programs["p"].stdout, "['own.toml', 's.py']\n")
    other = World.from_toml(world.to_toml(), folder / "none")
    refused(other.run, weft.ScenarioError, f"--beside: there is no folder {folder}/none")
    repeated(folder)
    return got.hash


def repeated(folder: Path) -> None:
    """The command that repeats a run stays true, whatever ran since."""
    world = lossy(expect=[Expect("sink", goodput_min="20mbit")], folder=folder)
    errors = []
    for world.seed in (7, 8):
        try:
            world.run()
        except weft.ExpectationError as error:
            errors.append(error)
    for error in errors:
        words = shlex.split(str(error).rsplit("to repeat it: ", 1)[1])
        done = subprocess.run([os.environ["WEFT_BIN"], *words[1:], "--json"], capture_output=True, text=True)
        expect("hash of the command", (done.returncode, json.loads(done.stdout)["hash"]), (1, error.result.hash))


def kept(folder: Path) -> str:
    """Worlds without a file are in the user's cache, which has a bound, or where there is none among temporary files."""
    script = """
import sys, os
from pathlib import Path
from weft import _place
_place.KEPT_MAX = 3
path = _place.kept(sys.argv[1])
assert path.read_text() == sys.argv[1] and path == _place.kept(sys.argv[1])
print(path)
"""
    def place(text: str, **variables: str) -> Path:
        command = [paths.output_dir() / "venv/bin/python3", "-c", script, text]
        said = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
        return Path(said.stdout.strip())

    cache = folder / "cache"
    (cache / "weft/worlds").mkdir(parents=True)
    (cache / "weft/worlds/somebodys").mkdir()
    files = []
    for number in range(6):
        files.append(place(f"text {number}", XDG_CACHE_HOME=str(cache)))
        os.utime(files[-1].parent, (time.time() - 1000 + number,) * 2)
    # The third process found three, and each that follows takes away what is beyond them before it writes its own.
    expect("which are left", [file.exists() for file in files], [False, False, True, True, True, True])
    shutil.rmtree(files[2].parent)
    os.utime(files[-1].parent, (time.time() - 31 * 86_400,) * 2)
    place("text 0", XDG_CACHE_HOME=str(cache))
    expect("one that is old", files[-1].exists(), False)
    expect("what is not weft's", (cache / "weft/worlds/somebodys").exists(), True)
    (folder / "file").write_text("")
    temporary = place("text", XDG_CACHE_HOME=str(folder / "file"), TMPDIR=str(folder))
    expect("without a cache", temporary.parent.parent, folder / f"weft-worlds-{os.getuid()}")
    return f"{len(files)} worlds"


def _hash_of(world: World) -> str:
    return world.run().hash


def bare(folder: Path) -> str:
    """With no library but a writer of TOML: a run, its series, a sweep; and what is said where one is needed."""
    script = """
import sys
for name in ("pandas", "polars", "pyarrow", "matplotlib", "dask", "distributed", "pytest", "numpy"): sys.modules[name] = None
import weft
world = weft.World.from_file(sys.argv[1])
world.sample = "10ms"
result = world.run()
assert len(result.wires()) > 20 and type(result.wires()) is list
table = weft.sweep(world, seeds="1..2", grid={"wires.ab.loss": [0, 0.1]})
assert [(row["wires.ab.loss"], row["seed"]) for row in table] == [(0, 1), (0, 2), (0.1, 1), (0.1, 2)], table
assert weft.summary(table, ["wires.ab.loss"])[0]["runs"] == 2
for call, says in ((result.plot, "pip install 'weft-net[matplotlib]'"), (lambda: result.wires("pandas"), "weft-net[pandas]"), (lambda: weft.sweep(world, client=1), "weft-net[dask]")):
    try: call()
    except weft.MissingLibrary as error: assert says in str(error), error
    else: raise AssertionError(says)
print("fine")
"""
    lossy().save(folder / "s.toml")
    done = subprocess.run([paths.output_dir() / "venv/bin/python3", "-c", script, folder / "s.toml"], capture_output=True, text=True)
    expect(done.stderr[-1500:], done.stdout, "fine\n")
    return "nothing of theirs is needed"


def interrupted(folder: Path) -> str:
    """Somebody who presses ctrl-C ends weft, too, and finds no file in the folder."""
    script = "import sys, weft\nworld = weft.World.from_file(sys.argv[1])\nworld.seed = 2\nworld.run()"
    world = lossy(duration="10000000s")
    world.programs["send"].duration, world.programs["send"].bytes = "9999999s", None
    world.save(folder / "s.toml")
    process, pid = _started(script, folder / "s.toml")
    time.sleep(0.3)
    _ended_by(process, pid, signal.SIGINT)
    expect("what is left", [path.name for path in folder.iterdir()], ["s.toml"])
    return "weft has ended"


def sweep_interrupted(folder: Path) -> str:
    """Ctrl-C ends a sweep that has more to say than a pipe holds; and weft does not outlive a Python that was killed."""
    script = "import sys, weft\nweft.sweep(weft.World.from_file(sys.argv[1]), seeds='1..100000', out=sys.argv[2], progress=False)"
    lossy().save(folder / "s.toml")
    for number, how in enumerate((signal.SIGINT, signal.SIGKILL, signal.SIGTERM)):
        process, pid = _started(script, folder / "s.toml", folder / f"out{number}")
        log = folder / f"out{number}" / "runs.jsonl"
        # As JSON more than a pipe's 64 KiB.
        _until(lambda log=log: log.exists() and log.stat().st_size > 200_000, "no runs")
        _ended_by(process, pid, how)
    return "weft has ended three times"


def _started(script: str, *words: object) -> tuple[subprocess.Popen[str], int]:
    """Python with a script, and the weft that it runs."""
    process = subprocess.Popen([paths.output_dir() / "venv/bin/python3", "-c", script, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found: list[int] = []

    def is_weft(pid: str) -> bool:
        try:
            return "sim" in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def is_there() -> bool:
        found[:] = [int(word) for word in children.read_text().split() if is_weft(word)]
        return bool(found)

    _until(is_there, "no weft")
    return process, found[0]


def _ended_by(process: subprocess.Popen[str], pid: int, how: signal.Signals) -> None:
    """A signal ends Python, and weft with it."""
    process.send_signal(how)
    _, error = process.communicate(timeout=60 * PATIENCE)
    expect("how it ended", "KeyboardInterrupt" in error, how == signal.SIGINT)
    _until(lambda: not _lives(pid), f"weft is there after {how.name}")


def _lives(pid: int) -> bool:
    """Nobody waits for a child of somebody who was killed, perhaps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + 60 * PATIENCE
    while not holds():
        if time.monotonic() > until:
            raise Failure(otherwise)
        time.sleep(0.02)


def processes(folder: Path) -> str:
    """Results of worker processes have their folders, and a child takes away none of its parent's."""
    world = lossy()
    world.programs["told"] = Program("a", command=["echo", "out"])
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        found = list(pool.map(_run_of, [world] * 3))
        failed = lossy(expect=[Expect("sink", goodput_min="1gbit")])
        refused(lambda: list(pool.map(_run_of, [failed])), weft.ExpectationError, "1 of 3 expectations failed, seed 1")
    expect("output", [one.programs["told"].stdout for one in found], ["out\n"] * 3)
    got = world.run()
    if (child := os.fork()) == 0:
        del got
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    expect("after children", got.programs["told"].stdout, "out\n")
    twin = copy.deepcopy(got)
    place = got.folder
    del got
    gc.collect()
    expect("a copy holds it", twin.programs["told"].stdout, "out\n")
    del twin
    gc.collect()
    expect("nobody holds it", place.exists(), False)
    script = "import os, sys, weft\nresult = weft.World.from_file(sys.argv[1]).run()\nif os.fork() == 0: sys.exit()\nos.wait()\nprint(result.programs['told'].stdout)"
    world.save(folder / "s.toml")
    done = subprocess.run([paths.output_dir() / "venv/bin/python3", "-c", script, folder / "s.toml"], capture_output=True, text=True)
    expect("after a child that exits", (done.stdout, done.stderr), ("out\n\n", ""))
    for one in found:
        shutil.rmtree(one.folder)
    refused(lambda: found[0].programs["told"].stdout, weft.WeftError, "stdout cannot be read: No such file")
    return "three results of two workers"


def _run_of(world: World) -> weft.Result:
    return world.run()


def real_time(folder: Path) -> str:
    """weft.Stack, in a namespace that ends with it."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [paths.tool("unshare"), *rights, "--net", "--", paths.output_dir() / "venv/bin/python3", Path(__file__).with_name("on_a_stack.py")]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300 * PATIENCE)
    expect(done.stderr[-2000:], done.stdout, "fine\n")
    return "up, changed, and down"


ROWS = {"run/result": result, "run/expectations": expectations, "run/files": files, "run/series": series, "run/beside": beside, "run/kept": kept, "run/bare": bare,
        "run/interrupted": interrupted, "run/processes": processes, "run/sweep interrupted": sweep_interrupted, "run/real time": real_time}
