"""Sweeps: equal to single runs, and on Dask equal to those on this machine, whoever dies meanwhile."""

from __future__ import annotations

import csv
import logging
import os
import signal
import threading
import time
from pathlib import Path

import numpy
import pandas
import weft
from distributed import Client, LocalCluster
from harness.processes import PATIENCE, Failure
from virtual.shared import expect
from weft import Program, World
from weft.sweeps import student_t

from .objects import refused
from .ran import lossy

GRID = {"wires.ab.loss": [0.0, 0.01, 0.03], "nodes.*.parameters.tcp.congestion": ["cubic", "reno", "bbr"]}


def single(folder: Path) -> str:
    """Each row is what a run alone says; columns are those of weft's table; a sweep that was stopped goes on."""
    world, grid = lossy(), {"wires.ab.loss": [0.0, 0.05], "nodes.*.parameters.tcp.congestion": ["cubic", "reno"], "programs.send.start": ["0ms", "1s"]}
    table = weft.sweep(world, [3, 4, 9], grid, out=folder / "out")
    expect("rows", len(table), 24)
    for row in table.to_dict("records")[::5]:
        alone = world.run(seed=row["seed"], set={key: row[key] for key in grid})
        expect("hash and verdict", (row["hash"], row["passed"], row["end_ns"]), (alone.hash, alone.passed, alone.summary["end_ns"]))
        expect("figure", row["sink.received_bytes"], alone.programs["sink"].figures["received_bytes"])
    expect("settings as they were given", sorted(set(table["wires.ab.loss"])), [0.0, 0.05])
    with (folder / "out/3..4/runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expect("columns", list(table.columns), [name for name in rows[0] if name != "scenario"])
    with (folder / "out/runs.csv").open(newline="") as file:
        of_all = list(csv.DictReader(file))
    expect("one table of all", [(row["seed"], row["hash"]) for row in of_all], [(str(row["seed"]), row["hash"]) for row in table.to_dict("records")])
    expect("its columns", list(of_all[0]), list(rows[0]))
    log = folder / "out/9..9/runs.jsonl"
    before = log.read_text().splitlines(keepends=True)
    log.write_text("".join(before[:4]))
    expect("again", weft.sweep(world, [3, 4, 9], grid, out=folder / "out").equals(table), True)
    # With the time that they took then.
    expect("what was there", set(before[:4]) <= set(log.read_text().splitlines(keepends=True)), True)
    expect("range and text", weft.sweep(world, range(1, 4)).equals(weft.sweep(world, "1..3")), True)
    expect("the first three", [weft.sweep(world, seeds)["seed"].tolist() for seeds in ("3", 3, numpy.int64(3), numpy.array([1, 2, 3]))], [[1, 2, 3]] * 4)
    expect("its own seed", weft.sweep(world)["seed"].tolist(), [1])
    for call, kind, says in ((lambda: weft.sweep(world, grid={"wires.no.loss": [1]}), weft.ScenarioError, "nothing called 'no'"), (lambda: weft.sweep(world, "1-3"), ValueError, "write it as 1..30"),
                             (lambda: weft.sweep(world, "1..99999999999"), ValueError, "more than 1000000 seeds"), (lambda: weft.sweep(world, [-1]), ValueError, "-1 is no seed: write"), (lambda: weft.sweep(world, [3, 4, 3]), ValueError, "the seed 3 stands there twice"),
                             (lambda: weft.sweep(world, 0), ValueError, "0 are no seeds: write"), (lambda: weft.sweep(world, [True]), ValueError, "True is no seed"),
                             (lambda: weft.sweep(world, threads=0), ValueError, "threads=0: a whole number from 1 on"), (lambda: weft.sweep(world, [1.5]), ValueError, "1.5 is no seed"),
                             (lambda: weft.sweep(world, grid={"wires.ab.loss": [None, 0.1]}), ValueError, "wires.ab.loss has None"),
                             (lambda: weft.sweep(world, grid={"wires.ab.loss": [[None]]}), ValueError, "None is no value"),
                             (lambda: world.run(seed=-1), ValueError, "-1 is no seed"), (lambda: world.run(seed=1 << 64), ValueError, "is no seed"), (lambda: world.run(threads=-1), ValueError, "threads=-1"),
                             (lambda: world.run(set={"seed": None}), ValueError, "set: seed is None"), (lambda: world.run(wall_limit="-1s"), weft.ScenarioError, "-1s"),
                             (lambda: weft.sweep(world, []), ValueError, "no seed"), (lambda: weft.sweep(world, grid={"seed": "12"}), ValueError, "no list"),
                             (lambda: weft.sweep(world, grid={"wires.ab.loss": 0.1}), ValueError, "write {\"wires.ab.loss\": [0.0, 0.01]}"),
                             (lambda: weft.sweep(world, grid={"seed": [1, 1]}), ValueError, "a value twice")):
        refused(call, kind, says)
    return "24 runs"


def resumed(folder: Path) -> str:
    """What ran with another scenario, or with other files that it names, is not taken for this one's; resume=False runs all again, without what was there."""
    (folder / "s.py").write_text("print(1)\n")
    world = World(nodes={"a": weft.Node()}, programs={"p": Program("a", command=["python3", "-B", "s.py"])}, folder=folder)
    first, log = weft.sweep(world, "1..2", out=folder / "out"), folder / "out/runs.jsonl"
    expect("again", weft.sweep(world, "1..2", out=folder / "out").equals(first), True)
    for change in (lambda: (folder / "s.py").write_text("print(2)\n"), lambda: world.programs.update(q=Program("a", command=["true"]))):
        change()
        refused(lambda: weft.sweep(world, "1..2", out=folder / "out"), weft.ScenarioError, "resume=False")
        again = weft.sweep(world, "1..2", out=folder / "out", resume=False)
        expect("another", again["hash"].tolist() == first["hash"].tolist(), False)
        expect("runs there", len(log.read_text().splitlines()), 3)
        first = again
    return "two changes"


def texts(folder: Path) -> str:
    """Values that are texts with commas, lists and tables come as they are."""
    world = lossy()
    world.programs["say"] = Program("a", command=["sh", "-c", "true"], environment={})
    grid = {"programs.say.command": [["echo", "a,b"], ["echo", "c"]], "programs.say.stdin": ["x, \"y\"", "07:32", "true"], "wires.ab.gilbert": [{"to_bad": 0.1, "to_good": 0.5}]}
    world.wires["ab"].loss = None
    table = weft.sweep(world, "1..1", grid)
    expect("rows", len(table), 6)
    expect("one of them", table["hash"][4], world.run(seed=1, set={key: table[key][4] for key in grid}).hash)
    return "six points"


def statistics(folder: Path) -> str:
    """Student's t is that of tables; means and intervals are those of the numbers."""
    for freedom, wanted in ((1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (10, 2.2281), (29, 2.0452), (30, 2.0423), (100, 1.9840), (1000, 1.9623)):
        expect(f"t of {freedom}", round(student_t(freedom), 4), wanted)
    rows = [{"k": key, "seed": seed, "hash": "", "passed": True, "end_ns": 1, "p.x_ns": value} for key, values in (("a", (10, 14, 12, 12)), ("b", (5, None))) for seed, value in enumerate(values)]
    found = weft.summary(pandas.DataFrame(rows), by=["k"])
    one, two = (found[(found["k"] == key) & (found["figure"] == "p.x_ns")].to_dict("records")[0] for key in "ab")
    expect("mean", (one["mean"], one["runs"], one["min"], one["max"], two["mean"], two["runs"]), (12.0, 4, 10.0, 14.0, 5.0, 1))
    expect("interval", round(one["ci95"], 5), round(3.182446 * (2 / 3) ** 0.5, 5))
    expect("of one run", two["ci95"] is None or two["ci95"] != two["ci95"], True)
    expect("without by", weft.summary(weft.sweep(lossy(), "1..3"))["runs"].tolist()[0], 3)
    return "ten quantiles"


SERVER = "import helper, os\nprint(helper.WORD, open('data/x.txt').read(), sorted(os.listdir('.')))\n"


def with_files(folder: Path) -> World:
    """A world whose program reads what lies beside it, and a scenario that takes a while."""
    (folder / "data").mkdir()
    (folder / "data/x.txt").write_text("data")
    (folder / "helper.py").write_text("WORD = 'helped'\n")
    (folder / "s.py").write_text(SERVER)
    (folder / "link").symlink_to("data/x.txt")
    world = World.from_toml(lossy().to_toml(), folder)
    world.programs["send"].bytes = 1_000_000
    world.programs["script"] = Program("a", command=["python3", "-B", "s.py"])
    world.expect.append(weft.Expect("script", output="helped data"))
    return world


def killed(folder: Path) -> str:
    """3 × 3 settings and seeds on Dask, with a worker killed amid them: row by row the table of the sweep on this machine."""
    seeds = range(10 if os.environ.get("FULL") else 4)
    world = with_files(folder)
    wanted = weft.sweep(world, seeds, GRID)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL, local_directory=str(folder.parent)) as cluster, Client(cluster) as client:
        before = sorted(client.run(os.getpid).values())
        done: list[int] = []
        killer = threading.Thread(target=_kill_amid, args=(client, before[0], len(wanted), done))
        killer.start()
        found = weft.sweep(world, seeds, GRID, client=client)
        killer.join()
        if not done or not 0 < done[0] < len(wanted):
            raise Failure(f"{done} of {len(wanted)} runs when the worker was killed: the row shows nothing")
        _other_workers(client, before)
        expect("rows", (len(found), found.duplicated([*GRID, "seed"]).any()), (9 * len(seeds), False))
        pandas.testing.assert_frame_equal(found, wanted)
        expect("passed", found["passed"].all(), True)
        _refusals(client, folder)
    return f"{len(found)} rows; killed after {done[0]}"


def _kill_amid(client: Client, pid: int, runs: int, done: list[int]) -> None:
    """Kills a worker once a fifth of the runs is there."""
    until = time.monotonic() + 120 * PATIENCE
    while time.monotonic() < until:
        count = len({key for keys in client.has_what().values() for key in keys if key.startswith("_run")})
        if count >= runs // 5:
            done.append(count)
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def _other_workers(client: Client, before: list[int]) -> None:
    """Dask has made another in its place."""
    client.wait_for_workers(2, timeout=60 * PATIENCE)
    if (after := sorted(client.run(os.getpid).values())) == before:
        raise Failure(f"the workers are {after}, as before")


def _refusals(client: Client, folder: Path) -> None:
    """What a worker says comes back."""
    world = lossy()
    world.nodes["a"].root = str(folder / "no-root")
    refused(lambda: weft.sweep(world, client=client), weft.ScenarioError, f"there is no folder {folder}/no-root on the worker")
    world.nodes["a"].root, world.wires["ab"].rate = None, "x"
    refused(lambda: weft.sweep(world, client=client), weft.ScenarioError, "'x' is no rate")
    refused(lambda: weft.sweep(world, client=client, out=folder), ValueError, "out and threads")
    (folder / "large").write_bytes(b"")
    os.truncate(folder / "large", 65 << 20)
    world = World(nodes={"a": weft.Node()}, folder=folder)
    refused(lambda: weft.sweep(world, client=client), weft.ScenarioError, "holds more than 64 MiB")


ROWS = {"sweep/single runs": single, "sweep/resumed": resumed, "sweep/texts": texts, "sweep/statistics": statistics, "dask/a worker killed": killed}
