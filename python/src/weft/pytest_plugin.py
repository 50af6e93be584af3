"""The plug-in for pytest: worlds as fixtures, each seed a test, and `*.weft.toml` files as tests.

    @pytest.mark.weft(scenario="download.toml", seeds="1..20")
    def test_download(weft_result):
        assert weft_result.programs["fetch"].figures["received_bytes"] == 3_000_000

`--weft-seeds 50` runs each of these with the seeds 1 to 50, `--weft-seeds 7..9` with 7, 8 and 9. An expectation of a scenario that fails is a
failure of its test, which says the expectation, the seed, and the command that repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

import pytest

from .errors import ExpectationError, WeftError
from .result import Result
from .sweeps import _numbers
from .world import World

SUFFIX = ".weft.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """--weft-seeds"""
    group = parser.getgroup("weft", "scenarios of weft")
    group.addoption("--weft-seeds", metavar="N|A..B", help="run tests with scenarios once for each seed from 1 to N, or from A to B")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and a wrong --weft-seeds."""
    config.addinivalue_line("markers", "weft(scenario, seeds): the scenario of weft_world, beside the test, and the seeds of its runs")
    try:
        _chosen(config)
    except ValueError as error:
        raise pytest.UsageError(f"--weft-seeds: {error}") from None


def _chosen(config: pytest.Config) -> Optional[list[Optional[int]]]:
    """The seeds of the command line."""
    text: Optional[str] = config.getoption("--weft-seeds", default=None)
    if text is None:
        return None
    return _numbers(f"1..{text}" if text.isdigit() else text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each seed."""
    if "weft_seed" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("weft")
    seeds = _chosen(metafunc.config)
    if seeds is None:
        seeds = _numbers(mark.kwargs.get("seeds") if mark else None)
    metafunc.parametrize("weft_seed", seeds, ids=lambda seed: "own-seed" if seed is None else f"seed-{seed}", scope="function")


@pytest.fixture
def weft_seed() -> Optional[int]:
    """The seed of this run; None is the scenario's own."""
    return None


@pytest.fixture
def weft_world(request: pytest.FixtureRequest, weft_seed: Optional[int]) -> World:
    """The world of the marker's scenario, with this run's seed; without a scenario an empty one, beside the test."""
    mark = request.node.get_closest_marker("weft")
    name = mark.kwargs.get("scenario") if mark else None
    folder = Path(request.path).parent
    world = World(folder=folder) if name is None else World.from_file(folder / name)
    if weft_seed is not None:
        world.seed = weft_seed
    return world


@pytest.fixture
def weft_run(tmp_path: Path) -> Callable[..., Result]:
    """Runs a world, as `World.run` does, with its results below tmp_path."""
    count = iter(range(1, 1 << 30))

    def run(world: World, **options: Any) -> Result:
        return world.run(**{"out": tmp_path / f"weft-{next(count)}", "progress": False, **options})

    return run


@pytest.fixture
def weft_result(weft_world: World, weft_run: Callable[..., Result], weft_seed: Optional[int]) -> Result:
    """What came of a run of weft_world, all of whose expectations held."""
    # The scenario's own file where only the seed is another: the command that repeats it is shorter.
    saved = World.from_file(weft_world.path) if weft_world.path is not None else None
    if saved is not None and weft_seed is not None:
        saved.seed = weft_seed
        if saved == weft_world:
            return weft_run(World.from_file(weft_world.path or ""), seed=weft_seed)
    return weft_run(weft_world)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """What failed, without the lines of this package."""
    outcome: Any = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, WeftError):
        report = outcome.get_result()
        report.longrepr = f"{_place(call.excinfo)}{_told(call.excinfo.value)}"


def _place(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The line of the test that ran it, if there is one."""
    ours = Path(__file__).parent
    lines = [entry for entry in excinfo.traceback if ours not in Path(entry.path).parents and "_pytest" not in str(entry.path) and "pluggy" not in str(entry.path)]
    return f"{lines[-1].path}:{lines[-1].lineno + 1}: {str(lines[-1].statement).strip()}\n" if lines else ""


def _told(error: BaseException) -> str:
    """The error, and the last lines of the programs that failed."""
    text = str(error)
    if isinstance(error, ExpectationError):
        for program in error.result.programs.values():
            if program.stderr.strip() and program.status not in (None, "0", "exit status 0"):
                text += f"\n{program.name} ({program.status}):\n  " + "\n  ".join(program.stderr.strip().splitlines()[-10:])
    return text


class ScenarioFile(pytest.File):
    """A scenario whose name ends with .weft.toml."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each seed."""
        for seed in _chosen(self.config) or [None]:
            yield ScenarioItem.from_parent(self, name="run" if seed is None else f"seed-{seed}", seed=seed)


class ScenarioItem(pytest.Item):
    """A run of it."""

    def __init__(self, *, seed: Optional[int], **more: Any) -> None:
        super().__init__(**more)
        self._seed = seed

    def runtest(self) -> None:
        """Runs it; what is not as expected is an error."""
        World.from_file(self.path).run(seed=self._seed, progress=False)

    def reportinfo(self) -> tuple[Path, Optional[int], str]:
        """Its name in reports."""
        return self.path, None, f"{self.path.name}: {self.name}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Optional[Union[ScenarioFile, pytest.Collector]]:
    """Scenarios are tests."""
    return ScenarioFile.from_parent(parent, path=file_path) if file_path.name.endswith(SUFFIX) else None
