"""What a run left."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

from . import _html, _place
from ._held import Held
from .errors import MissingLibrary, WeftError

# In the order in which they are taken where nobody says which.
LIBRARIES = ("pandas", "polars", "pyarrow")


# What a summary has at least, and each of its rows.
_SUMMARY: dict[str, type] = {"hash": str, "passed": bool, "seed": int, "end_ns": int, "expectations": list, "programs": list}
_ROWS = {"expectations": {"expected", "failure"}, "programs": {"name", "node", "command", "status", "start_ns", "end_ns", "figures"}}


def library(name: str, what: str) -> Any:
    """A module that is not needed otherwise."""
    try:
        return importlib.import_module(name)
    except ImportError:
        extra = {"distributed": "dask"}.get(name.split(".")[0], name.split(".")[0])
        raise MissingLibrary(f"{what} needs {name}: pip install 'weft-net[{extra}]'") from None


def first_library() -> Optional[str]:
    """The first library for tables that is installed."""
    return next((name for name in LIBRARIES if importlib.util.find_spec(name) is not None), None)


@dataclass(frozen=True)
class Expectation:
    """Something that was expected of a run."""

    expected: str
    """What, in words."""
    failure: Optional[str]
    """What was so instead; None if it was as expected."""

    @property
    def passed(self) -> bool:
        """Was it so?"""
        return self.failure is None


@dataclass(frozen=True)
class ProgramResult:
    """What came of a program."""

    name: str
    """Its name; of a copy with its node: load@leaf1."""
    node: str
    """Name of its node."""
    command: str
    """What ran."""
    status: Optional[str]
    """How it ended; None: it runs on."""
    start_ns: Optional[int]
    """Virtual time at which it started last, in nanoseconds; None: never."""
    end_ns: Optional[int]
    """Virtual time at which it ended, in nanoseconds; None: it runs on."""
    figures: Mapping[str, int]
    """What it reports: their units are the ends of their names."""
    folder: Path
    """Its folder of the results."""
    held: object = field(default=None, repr=False, compare=False)
    """What keeps a folder that goes with its result."""

    @property
    def stdout(self) -> str:
        """What it wrote to standard output."""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """What it wrote to standard error."""
        return self._read("stderr").decode(errors="replace")

    @property
    def stdout_bytes(self) -> bytes:
        """Standard output as it is."""
        return self._read("stdout")

    def _read(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise WeftError(f"{self.folder / name} cannot be read: {error.strerror}") from None

    @property
    def start_s(self) -> Optional[float]:
        """Virtual time at which it started last, in seconds."""
        return None if self.start_ns is None else self.start_ns / 1e9

    @property
    def end_s(self) -> Optional[float]:
        """Virtual time at which it ended, in seconds."""
        return None if self.end_ns is None else self.end_ns / 1e9


@dataclass(frozen=True)
class Origin:
    """What a result is of, for the command that repeats the run."""

    scenario: str
    """Its words of `weft sim`."""
    text: Optional[str]
    """What the scenario says, where it has no file of its own."""
    options: str
    """Of the command."""


class Result:
    """A folder of results, of `World.run` or of `weft sim --out`."""

    def __init__(self, folder: Path, held: Optional[Held] = None, messages: str = "") -> None:
        self.folder = Path(folder)
        """Where the files are. Without `out` they go when nobody holds the result any more, in the process that ran it; where it
        was pickled, so that another process may have it, they stay."""
        self.messages = messages
        """What weft told on standard error."""
        self._held = held
        self._origin: Optional[Origin] = None
        self.summary: dict[str, Any] = _summary(self.folder)
        """What summary.json says."""

    def keep(self) -> Path:
        """The folder, which stays from now on."""
        if self._held is not None:
            self._held.keep()
            self._held = None
        return self.folder

    def _command(self) -> str:
        """The command that repeats the run. Of a scenario without a file of its own, what it names is there again from now on."""
        origin = self._origin
        assert origin is not None, "a world that ran has left it"
        if origin.text is not None:
            _place.kept(origin.text)
        return f"weft sim {origin.scenario} --seed {self.seed}{origin.options}"

    @property
    def passed(self) -> bool:
        """Was everything as expected?"""
        return bool(self.summary["passed"])

    @property
    def hash(self) -> str:
        """The hash of the run, 32 digits."""
        return str(self.summary["hash"])

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.summary["seed"])

    @property
    def end_s(self) -> float:
        """Virtual time at which it ended, in seconds."""
        return int(self.summary["end_ns"]) / 1e9

    @property
    def expectations(self) -> list[Expectation]:
        """What was expected, and whether it was so."""
        return [Expectation(row["expected"], row["failure"]) for row in self.summary["expectations"]]

    @cached_property
    def programs(self) -> dict[str, ProgramResult]:
        """Programs by name, in the scenario's order."""
        return {row["name"]: self._program(row) for row in self.summary["programs"]}

    def _program(self, row: dict[str, Any]) -> ProgramResult:
        folder = self.folder / "programs" / row["name"]
        return ProgramResult(row["name"], row["node"], row["command"], row["status"], row["start_ns"], row["end_ns"], row["figures"] or {}, folder, self._held)

    def series(self, name: str, as_: Optional[str] = None) -> Any:
        """A series over time ("wires", "connections", "subflows") as a table of "pandas", "polars" or "pyarrow", or as "dicts".

        Without `as_` it is of the first that is installed. Columns end with their units; `time_ns` is virtual time in nanoseconds.
        """
        file = self.folder / "series" / f"{name}.csv"
        if not file.exists():
            there = sorted(path.stem for path in (self.folder / "series").glob("*.csv"))
            hint = f"there are: {', '.join(there)}" if there else "give the world sample = \"10ms\""
            raise WeftError(f"there is no series '{name}'; {hint}")
        chosen = as_ or first_library() or "dicts"
        if chosen not in (*LIBRARIES, "dicts"):
            raise ValueError(f"a series is no '{chosen}': one of {', '.join(LIBRARIES)} and dicts")
        return _dicts(file) if chosen == "dicts" else _table(file, chosen)

    def connections(self, as_: Optional[str] = None) -> Any:
        """The series of TCP connections: a row a connection and sample."""
        return self.series("connections", as_)

    def wires(self, as_: Optional[str] = None) -> Any:
        """The series of wires: a row a wire, direction and sample."""
        return self.series("wires", as_)

    @cached_property
    def files(self) -> dict[str, dict[str, bytes]]:
        """What `collect` took: bytes by node, and by path in the node. `text` has them as a text."""
        path = self.folder / "files.json"
        listed = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {node: {row["path"]: (self.folder / "files" / node / row["path"].lstrip("/")).read_bytes()
                       for row in of["files"] if "link" not in row and (self.folder / "files" / node / row["path"].lstrip("/")).is_file()}
                for node, of in listed.items()}

    def text(self, node: str, path: str) -> str:
        """A file of a node that `collect` took, as a text."""
        there = self.files.get(node, {})
        if path not in there:
            raise WeftError(f"of node '{node}' there is no file {path}; there are: {', '.join(there) or 'none'}")
        return there[path].decode(errors="replace")

    @property
    def captures(self) -> list[Path]:
        """Captures, NODE-INTERFACE.pcapng."""
        return sorted((self.folder / "captures").glob("*.pcapng"))

    @property
    def pictures(self) -> dict[str, Path]:
        """Pictures (SVG) by name: topology, throughput …; PNG and PDF lie beside."""
        return {path.stem: path for path in sorted((self.folder / "pictures").glob("*.svg"))}

    def plot(self, what: str = "throughput", ax: Any = None, *, only: Optional[Union[str, Iterable[str]]] = None) -> Any:
        """Draws "throughput", "queue", "cwnd" or "srtt" over time with matplotlib, and returns the axes.

        `only` chooses lines: names of wires or nodes, or lines as the legend has them, with * for any part: only="bottleneck", only=["a>*"].
        Connections that only receive have no line in "cwnd" and "srtt".
        """
        from . import plots

        return plots.series(self, what, ax, only)

    def __repr__(self) -> str:
        return f"<Result: {self._verdict()}, seed {self.seed}, hash {self.hash}>"

    def _verdict(self) -> str:
        failed = sum(not row.passed for row in self.expectations)
        return f"{failed} of {len(self.expectations)} expectations failed" if failed else "as expected"

    def _repr_html_(self) -> str:
        """Verdict, hash, topology and programs, for notebooks."""
        drawn = self.pictures.get("topology")
        failed = [(row.expected, row.failure) for row in self.expectations if not row.passed]
        programs = [(one.name, one.node, one.start_s, one.end_s, one.status or "runs on", ", ".join(f"{key} = {value}" for key, value in one.figures.items()))
                    for one in self.programs.values()]
        return (f"<p><b>{self._verdict()}</b>, seed {self.seed}, {self.end_s} s of virtual time, hash <code>{self.hash}</code></p>"
                + (_html.picture(drawn.read_text(encoding="utf-8")) if drawn else "")
                + _html.table("Failed", ("expected", "instead"), failed)
                + _html.table("Programs", ("name", "node", "start in s", "end in s", "status", "figures"), programs))


def _summary(folder: Path) -> dict[str, Any]:
    """The summary of a run that has ended; WeftError says what is there instead."""
    path = folder / "summary.json"
    try:
        told = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise WeftError(f"{folder} holds no results of a run: there is no summary.json") from None
    except OSError as error:
        raise WeftError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise WeftError(f"{path} is damaged: {error}") from None
    if not isinstance(told, dict):
        raise WeftError(f"{path} is damaged: it is no summary of a run")
    if "runs" in told:
        raise WeftError(f"{folder} holds a sweep, of {_count(told['runs'])} runs: its table is runs.csv, and runs that failed are in folders of it")
    if "hash" not in told and isinstance(told.get("end"), str):
        raise WeftError(f"the run of {folder} has not ended: {told['end']}")
    missing = [name for name, kind in _SUMMARY.items() if not isinstance(told.get(name), kind)]
    for name, wanted in _ROWS.items():
        if name not in missing and not all(isinstance(row, dict) and wanted <= row.keys() for row in told[name]):
            missing.append(name)
    if missing:
        raise WeftError(f"{path} is damaged, or of another weft: there is no sound {' and no sound '.join(missing)}")
    return told


def _count(runs: object) -> object:
    return len(runs) if isinstance(runs, list) else "?"


def _table(file: Path, chosen: str) -> Any:
    """A table of a library: of Parquet, if it can read that, else of CSV."""
    module = library(chosen, "this table")
    parquet = file.with_suffix(".parquet")
    if chosen == "pyarrow":
        return library("pyarrow.parquet", "this table").read_table(parquet)
    if chosen == "polars" or importlib.util.find_spec("pyarrow") is not None:
        return module.read_parquet(parquet)
    # With its columns where it has no rows.
    with file.open(newline="", encoding="utf-8") as lines:
        columns = [name for name, _ in map(_exact, dict.fromkeys(next(csv.reader(lines)), "0").items())]
    return module.DataFrame(_dicts(file), columns=columns)


def _dicts(file: Path) -> list[dict[str, Any]]:
    """Rows of a CSV file, with the columns of the Parquet file: numbers are numbers, and what is empty is None."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [{name: _value(text) for name, text in map(_exact, row.items())} for row in csv.DictReader(lines)]


def _exact(cell: tuple[str, str]) -> tuple[str, str]:
    """Seconds with nine places as nanoseconds."""
    name, text = cell
    return ("time_ns", str(int(text.replace(".", "")))) if name == "time_s" else cell


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None
