"""Many runs of a world: seeds, and a grid of settings; and what they come to in the mean."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import json
import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional, Union

from . import _command, _toml
from .errors import WeftError
from .result import library
from .world import SEED_MAX, PathLike, World, is_whole, thread_words

Seeds = Union[str, int, Iterable[int]]
Grid = Mapping[str, Sequence[Any]]
Row = dict[str, Any]

# Columns of a run that are no figures.
ABOUT = ("seed", "hash", "passed", "end_ns")
CONFIDENCE = 0.95
# As many as weft takes.
RUNS_MAX = 1_000_000
HOW_SEEDS = "write \"1..20\", a list of whole numbers from 0 on, or 20 for the first twenty"


def sweep(world: World, seeds: Optional[Seeds] = None, grid: Optional[Grid] = None, client: Any = None, out: Optional[PathLike] = None,
          threads: Optional[int] = None, progress: Optional[bool] = None, *, resume: bool = True) -> Any:
    """Runs a world with each seed and each value of a grid, and returns a table with a row a run.

    `seeds` are numbers, "1..30" (both included), or 30 for the first thirty; without them it is the scenario's own seed. `grid` has
    values by their paths: {"wires.access.loss": [0.0, 0.01]}; each meets each of the others. Columns: the grid's keys, `seed`, `hash`,
    `passed`, `end_ns` (virtual time in nanoseconds), and `PROGRAM.FIGURE` for each figure, whose unit ends its name. It is a DataFrame
    of pandas, or a list of dicts where pandas is not installed.

    Without `client` it is one `weft sim` for each range of seeds, on as many `threads` as there are cores. `out` is the folder of its
    tables: of seeds that do not follow each other ([1, 2, 3, 5]) a folder for each range ("1..3", "5..5"), and one runs.csv of all. The
    same sweep goes on there where it was stopped, if scenario, files that it names and weft have not changed: else it is a
    ScenarioError, and with `resume=False` what is there goes, and all run again. Files that the scenario does not name, such as modules
    of a script, are not looked at.

    With a `client` of Dask each run is a task, and the scenario and the files beside it go along. Nothing is left then to go on from.
    """
    lists = _lists(grid or {})
    points = _points(lists)
    if client is not None:
        if out is not None or threads is not None:
            raise ValueError("out and threads are for sweeps on this machine: with a client, the table is what comes back")
        from . import _dask

        found = _dask.runs(world, _numbers(seeds), [words for words, _ in points], client)
    else:
        found = _local(world, _numbers(seeds), lists, out, threads, progress, resume)
    return _frame(_rows(points, found, list(lists)))


def summary(table: Any, by: Sequence[str] = ()) -> Any:
    """Mean and 95 % confidence interval of each figure, for each value of the columns `by`.

    Columns: `by`, `figure`, `runs` (that have it), `mean`, `ci95` (half of the interval, by Student's t; None from one run), `min`, `max`.
    """
    rows = table if isinstance(table, list) else table.to_dict("records")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    names = list(rows[0]) if rows else []
    # Settings stand before the seed, figures behind the end.
    figures = names[names.index("end_ns"):] if "end_ns" in names else []
    found = []
    for values, group in groups.items():
        for figure in figures:
            numbers = [float(row[figure]) for row in group if not _is_missing(row[figure])]
            if numbers:
                found.append({**dict(zip(by, values)), "figure": figure, "runs": len(numbers), **_statistics(numbers)})
    return _frame(found)


def _statistics(numbers: list[float]) -> Row:
    mean = math.fsum(numbers) / len(numbers)
    return {"mean": mean, "ci95": half_interval(numbers), "min": min(numbers), "max": max(numbers)}


def half_interval(numbers: Sequence[float]) -> Optional[float]:
    """Half of the 95 % confidence interval of the mean, by Student's t; None for less than two numbers."""
    count = len(numbers)
    if count < 2:
        return None
    mean = math.fsum(numbers) / count
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
    return student_t(count - 1) * math.sqrt(variance / count)


@lru_cache(maxsize=None)
def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The number that |t| exceeds with probability 1 - confidence."""
    low, high = 0.0, 1.0
    while _beyond(high, freedom) > 1 - confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def _beyond(t: float, freedom: int) -> float:
    """The probability of |T| > t: sums of Abramowitz and Stegun (1964), 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2:
        term, total = cosine, 0.0
        for number in range(1, freedom, 2):
            total += term
            term *= cosine * cosine * (number + 1) / (number + 2)
        return 1 - 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for number in range(0, freedom, 2):
        total += term
        term *= cosine * cosine * (number + 1) / (number + 2)
    return 1 - sine * total


def _lists(grid: Grid) -> dict[str, list[Any]]:
    """Every key with its values, whatever gives them one by one."""
    lists = {}
    for key, values in grid.items():
        each = [] if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable) else list(values)
        if not each:
            raise ValueError(f"grid: {key} has no list of values: write {{\"{key}\": [0.0, 0.01]}}")
        lists[key] = each
    return lists


def _points(grid: Grid) -> list[tuple[list[str], list[Any]]]:
    """Each point as words of --grid, and as its values; the last key changes first."""
    for key, values in grid.items():
        if any(value is None for value in values):
            raise ValueError(f"grid: {key} has None, which TOML does not know: write the value that holds where the key is not given")
        if len(set(map(_toml.value, values))) < len(values):
            raise ValueError(f"grid: {key} has a value twice")
    texts = [[(f"{key}={_toml.value(value)}", value) for value in values] for key, values in grid.items()]
    return [([text for text, _ in point], [value for _, value in point]) for point in itertools.product(*texts)]


def _numbers(seeds: Optional[Seeds]) -> list[Optional[int]]:
    """Seeds as numbers, in their order; None is the scenario's own."""
    if seeds is None:
        return [None]
    if isinstance(seeds, str) and seeds.isdigit() or is_whole(seeds, 1):
        seeds = f"1..{seeds}"
    if isinstance(seeds, str):
        first, points, last = seeds.partition("..")
        if not (points and first.isdigit() and last.isdigit() and int(first) <= int(last)):
            raise ValueError(f"'{seeds}' is no range of seeds: write it as 1..30")
        if int(last) - int(first) >= RUNS_MAX:
            raise ValueError(f"'{seeds}' are more than {RUNS_MAX} seeds")
        return list(range(int(first), int(last) + 1))
    if not isinstance(seeds, Iterable):
        raise ValueError(f"{seeds!r} are no seeds: {HOW_SEEDS}")
    given = list(seeds)
    wrong = [seed for seed in given if not is_whole(seed, 0, SEED_MAX)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no seed: {HOW_SEEDS}")
    numbers: list[Optional[int]] = [operator.index(seed) for seed in given]
    if not numbers:
        raise ValueError("there is no seed")
    if len(set(numbers)) < len(numbers):
        twice = next(seed for number, seed in enumerate(numbers) if seed in numbers[:number])
        raise ValueError(f"the seed {twice} stands there twice: it would be the same run")
    return numbers


def _ranges(seeds: Sequence[Optional[int]]) -> list[Optional[str]]:
    """Seeds as weft takes them: A..B, one after the other."""
    ranges: list[list[int]] = []
    for seed in seeds:
        if seed is None:
            return [None]
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return [f"{of[0]}..{of[-1]}" for of in ranges]


def _local(world: World, seeds: list[Optional[int]], grid: Grid, out: Optional[PathLike], threads: Optional[int],
           progress: Optional[bool], resume: bool) -> list[Row]:
    words = thread_words(threads)
    for key, values in grid.items():
        words += ["--grid", f"{key}={','.join(map(_toml.value, values))}"]
    ranges = _ranges(seeds)
    found: list[Row] = []
    with world.placed() as scenario:
        for of in ranges:
            results = [] if out is None else ["--out", str(Path(out).absolute() / (of if len(ranges) > 1 and of else "")), *(["--resume"] if resume else [])]
            found += runs(scenario[0], of, [*scenario[1:], *words, *results], progress)
    if out is not None and len(ranges) > 1:
        _write_all(Path(out), [str(of) for of in ranges], list(grid))
    return found


def _write_all(out: Path, parts: Sequence[str], keys: list[str]) -> None:
    """One runs.csv of those of all ranges: point by point, as weft writes it for one range."""
    rows: list[dict[str, str]] = []
    for part in parts:
        with (out / part / "runs.csv").open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    places = {point: number for number, point in enumerate(dict.fromkeys(tuple(row[key] for key in keys) for row in rows))}
    rows.sort(key=lambda row: places[tuple(row[key] for key in keys)])
    head = ["scenario", *keys, *ABOUT]
    with (out / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*head, *sorted({name for row in rows for name in row} - set(head))], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    # By this weft knows later that the table is of a sweep, and may go.
    summary = {"scenario": rows[0]["scenario"] if rows else "", "end": "every run has ended"}
    (out / "summary.json").write_text(json.dumps(summary) + "\n", encoding="utf-8")


def runs(file: str, seeds: Optional[str], words: list[str], progress: Optional[bool] = None) -> list[Row]:
    """The runs of a sweep by `weft sim`: as many as it has seeds and points. Those that fail are runs, too."""
    # Without a grid, the scenario's own seed is no sweep.
    if seeds is None and "--grid" not in words:
        seeds = _own_seed(file)
    given = [] if seeds is None else ["--seeds", seeds]
    # By its name alone: --resume knows it again wherever it stands.
    done = _command.run(["sim", os.path.basename(file), *given, *words, "--json"], progress, os.path.dirname(file))
    _command.checked(done, (0, 1))
    found: list[Row] = json.loads(done.stdout)["runs"]
    return found


def _own_seed(file: str) -> str:
    seed = World.from_file(file).seed
    return f"{1 if seed is None else seed}..{1 if seed is None else seed}"


def _rows(points: list[tuple[list[str], list[Any]]], found: list[Row], keys: list[str]) -> list[Row]:
    """Rows point by point, in the order of the seeds."""
    by_point: dict[tuple[str, ...], list[Row]] = {}
    for run in found:
        by_point.setdefault(tuple(sorted(f"{key}={text}" for key, text in run["set"].items())), []).append(run)
    figures = sorted({figure for run in found for figure in run["figures"]})
    rows = []
    for words, values in points:
        of_point = by_point.get(tuple(sorted(words)))
        if of_point is None:
            raise WeftError(f"no run has come back for {' '.join(words) or 'the scenario'}")
        for run in of_point:
            about = {name: run[name] for name in ABOUT}
            rows.append({**dict(zip(keys, values)), **about, **{name: run["figures"].get(name) for name in figures}})
    return rows


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _frame(rows: list[Row]) -> Any:
    if importlib.util.find_spec("pandas") is None:
        return rows
    return library("pandas", "a DataFrame").DataFrame(rows)
