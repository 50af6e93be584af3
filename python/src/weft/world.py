"""A world: nodes, wires, programs and events, and what must come of it."""

from __future__ import annotations

import contextlib
import operator
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Optional, Union

from . import _command, _html, _place, _toml
from ._held import Held
from ._section import Section
from .errors import ExpectationError, ScenarioError, WeftError
from .result import Origin, ProgramResult, Result
from .scenario import Clock, Event, Expect, Node, Program, Template, Twin, Ways, Wire

PathLike = Union[str, "os.PathLike[str]"]

# Of results that nobody named a folder for.
RESULTS = "weft-python-results-"
SEED_MAX = (1 << 64) - 1
# Most programs whose standard error an ExpectationError tells, and most lines of each.
SAID_MAX, SAID_LINES_MAX = 5, 10


@dataclass(repr=False)
class World(Section):
    """A scenario. The order of nodes, wires and programs is kept: automatic addresses depend on it."""

    seed: Optional[int] = None
    """Of all randomness; default 1."""
    duration: Optional[str] = None
    """Virtual time, such as "10s"; without it the run ends when its programs have ended."""
    start: Optional[datetime] = None
    """What the wall clock says at the beginning."""
    sample: Optional[str] = None
    """How often series are sampled, such as "10ms"; default never."""
    capture: Optional[Union[bool, list[str]]] = None
    """Write what passes interfaces to captures: all, or those of these names."""
    boot: Optional[str] = None
    """For how long nodes have been up when the world begins; by default the seed draws it for each. A node may have its own."""
    clock: Optional[Clock] = None
    """How wrong the clocks of nodes are. What a node's own says goes before it."""
    ipv6: Optional[bool] = None
    """Give IPv6 addresses, too."""
    ipv4: Optional[bool] = None
    """Give IPv4 addresses; default true."""
    routes: Optional[Ways] = None
    """Which ways nodes' first routes take: over as few wires as can be ("hops", the default), in as little time ("delay"), or "none" at all."""
    blocks_may_fail: Optional[bool] = None
    """A loaded block that fails does not make the run one that failed."""
    network: Optional[str] = None
    """Where addresses are taken from, such as "10.0.0.0/8"."""
    nodes: dict[str, Node] = field(default_factory=dict)
    """Nodes by name."""
    wires: dict[str, Wire] = field(default_factory=dict)
    """Wires by name."""
    templates: dict[str, Template] = field(default_factory=dict)
    """Templates by the name that their nodes begin with."""
    programs: dict[str, Program] = field(default_factory=dict)
    """Programs by name."""
    events: list[Event] = field(default_factory=list)
    """What happens meanwhile."""
    expect: list[Expect] = field(default_factory=list)
    """What must come of it."""
    twins: list[Twin] = field(default_factory=list)
    """Variants for `weft twin`."""
    folder: Optional[PathLike] = field(default=None, metadata={"own": True}, compare=False)
    """The folder beside whose files the scenario stands: scripts, configurations. None: there are none."""
    path: Optional[Path] = field(default=None, metadata={"own": True}, compare=False)
    """The file that it was read from, if any."""

    @classmethod
    def from_file(cls, path: PathLike) -> World:
        """Reads a scenario. Files beside it stay beside it."""
        file = Path(path).absolute()
        try:
            text = _text(file)
        except OSError as error:
            raise ScenarioError(f"{path}: {error.strerror}") from None
        try:
            world = cls.from_toml(text, file.parent)
        except ScenarioError as error:
            raise type(error)(f"{path}: {error}") from None
        world.path = file
        return world

    @classmethod
    def from_toml(cls, text: str, folder: Optional[PathLike] = None) -> World:
        """Reads a scenario from a text, as if it stood in `folder`."""
        world = cls.from_data(_toml.read(text))
        world.folder = folder
        return world

    def to_data(self) -> dict[str, Any]:
        """The scenario as tables."""
        return {key: value for key, value in super().to_data().items() if value not in ({}, [])}

    def to_toml(self) -> str:
        """The scenario as a text."""
        return _toml.write(self.to_data())

    def save(self, path: PathLike) -> Path:
        """Writes the scenario into a file, and knows it as its own from then on."""
        file = Path(path).absolute()
        file.write_bytes(self.to_toml().encode())
        self.folder, self.path = file.parent, file
        return file

    @contextlib.contextmanager
    def placed(self) -> Iterator[list[str]]:
        """Words of `weft sim` for the scenario: the file that it was read from, if nothing has changed, or another, and where its files are."""
        if self.path is not None and self._is_as_saved(self.path):
            yield [str(self.path)]
            return
        text = self.to_toml()
        path = _place.kept(text)
        with _place.told_by_path(path, text):
            yield [str(path), *self._beside()]

    def _beside(self) -> list[str]:
        return [] if self.folder is None else ["--beside", str(Path(self.folder).absolute())]

    def _is_as_saved(self, path: Path) -> bool:
        try:
            return _toml.read(_text(path)) == self.to_data()
        except (OSError, ScenarioError):
            return False

    def run(self, seed: Optional[int] = None, out: Optional[PathLike] = None, threads: Optional[int] = None, record: bool = False,
            check: bool = True, *, set: Optional[Mapping[str, Any]] = None, calls: bool = False, keep_disks: bool = False,
            wall_limit: Optional[str] = None, progress: Optional[bool] = None) -> Result:
        """Runs it in virtual time.

        `out` is the folder of results; without it they are in one that goes with the `Result`. `set` has values over the scenario's, by
        their paths: {"wires.access.loss": 0.02}. `record`, `calls`, `keep_disks` and `wall_limit` (real time, such as "60s") are options
        of `weft sim`. A wrong scenario is a `ScenarioError`. With `check`, expectations that fail are an `ExpectationError`.
        """
        # Its folder goes when nobody holds the result any more.
        held = None if out is not None else Held(RESULTS)
        folder = Path(held.folder if held else out or "").absolute()
        words = _words(seed, threads, set, [("--record=full", record), ("--calls", calls), ("--keep-disks", keep_disks)])
        words += [] if wall_limit is None else [f"--wall-limit={wall_limit}"]
        with self.placed() as scenario:
            done = _command.run(["sim", *scenario, "--out", str(folder), *words], progress)
            _command.checked(done, (0, 1, _command.WALL_LIMIT))
        result = Result(folder, held=held, messages=done.stderr)
        sets = [f" --set {shlex.quote(f'{key}={_toml.value(item)}')}" for key, item in (set or {}).items()]
        limit = [] if wall_limit is None else [f" --wall-limit={shlex.quote(wall_limit)}"]
        text = None if scenario == [str(self.path)] else self.to_toml()
        result._origin = Origin(shlex.join(scenario), text, "".join(sets + limit))
        if check and not result.passed:
            raise _failed(result, done.status == _command.WALL_LIMIT)
        return result

    def check(self, set: Optional[Mapping[str, Any]] = None) -> None:
        """Reads it as `weft sim --check` does: ScenarioError says what is wrong, or which program or script is not there."""
        with self.placed() as scenario:
            _command.checked(_command.run(["sim", *scenario, "--check", *_words(None, None, set, [])], False), (0,))

    def topology(self) -> str:
        """A picture of nodes and wires with their rates and delays, as SVG, without running it. A wrong scenario is a ScenarioError."""
        with self.placed() as scenario, tempfile.TemporaryDirectory(prefix="weft-topology-") as folder:
            picture = Path(folder, "topology.svg")
            # What its programs need is not asked: 2 is also the status of one that is not there.
            done = _command.run(["sim", *scenario, "--check", "--topology", str(picture)], False)
            if not picture.exists():
                _command.checked(done, (0,))
            return picture.read_text(encoding="utf-8")

    def __repr__(self) -> str:
        parts = [(len(self.nodes), "nodes"), (len(self.templates), "templates"), (len(self.wires), "wires"), (len(self.programs), "programs")]
        return f"<World: {', '.join(f'{count} {what}' for count, what in parts if count or what != 'templates')}>"

    def _repr_html_(self) -> str:
        """The topology, and tables of nodes, wires and programs, for notebooks. A world that is not sound has the tables, and says why."""
        try:
            drawn = _html.picture(self.topology())
        except WeftError as error:
            drawn = _html.told(str(error))
        return drawn + _html.world(self.to_data())


def _text(path: Path) -> str:
    """A scenario as weft reads it: UTF-8, with a mark of the byte order or without, and with the ends of lines that it has."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{path}: line {line} is no UTF-8: save the file as UTF-8") from None


def _failed(result: Result, is_cut: bool) -> ExpectationError:
    """What was not so, why the run ended early, what programs that failed said last, and the command that repeats it."""
    failed = [row for row in result.expectations if not row.passed]
    lines = [f"{result.summary['end']}: the run was ended after {result.end_s} s of virtual time"] if is_cut and "end" in result.summary else []
    lines += [f"{row.expected}: {row.failure}" for row in failed]
    # What fits into the first line stands in it: summaries show no other.
    gap = " " if len(lines) == 1 else "\n  "
    text = gap.join([f"{len(failed)} of {len(result.expectations)} expectations failed, seed {result.seed}:", *lines])
    named = {row.expected.split(" ")[0].rstrip(":") for row in failed}
    said = [_said(one) for one in result.programs.values() if one.name in named or one.status not in (None, "0", "exit status 0")]
    said = [text for text in said if text]
    more = [f"{len(said) - SAID_MAX} more programs that failed have written to standard error"] if len(said) > SAID_MAX else []
    return ExpectationError("\n".join([text, *said[:SAID_MAX], *more, f"to repeat it: {result._command()}"]), result)


def _said(program: ProgramResult) -> str:
    """The last lines of a program's standard error, or nothing."""
    try:
        lines = program.stderr.strip().splitlines()[-SAID_LINES_MAX:]
    except WeftError:
        return ""
    return "\n  ".join([f"{program.name} ({program.status or 'runs on'}):", *lines]) if lines else ""


def _words(seed: Optional[int], threads: Optional[int], set: Optional[Mapping[str, Any]], flags: list[tuple[str, bool]]) -> list[str]:
    """Options of `weft sim`."""
    words = [word for word, is_wanted in flags if is_wanted]
    if seed is not None:
        if not is_whole(seed, 0, SEED_MAX):
            raise ValueError(f"{seed!r} is no seed: write a whole number from 0 to {SEED_MAX}, such as seed=7")
        words += ["--seed", str(seed)]
    words += thread_words(threads)
    for key, item in (set or {}).items():
        if item is None:
            raise ValueError(f"set: {key} is None, which TOML does not know: leave it out of `set`, or change the world")
        words += ["--set", f"{key}={_toml.value(item)}"]
    return words


def thread_words(threads: Optional[int]) -> list[str]:
    """The option for threads."""
    if threads is None:
        return []
    if not is_whole(threads, 1):
        raise ValueError(f"threads={threads!r}: a whole number from 1 on, or None for what weft takes by itself")
    return ["--threads", str(threads)]


def is_whole(value: Any, least: int, most: Optional[int] = None) -> bool:
    """Is it a whole number between these, of Python or of numpy?"""
    try:
        number = operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool) and least <= number and (most is None or number <= most)
