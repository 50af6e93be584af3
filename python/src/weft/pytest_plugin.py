"""The plug-in for pytest: worlds as fixtures, each seed a test, and `*.weft.toml` files as tests.

    @pytest.mark.weft(scenario="download.toml", seeds="1..20")
    def test_download(weft_result):
        assert weft_result.programs["fetch"].figures["received_bytes"] == 3_000_000

The mark takes a scenario, and `seed=7` or `seeds`: "1..20", a list, or a number N for 1 to N. `--weft-seeds 50` runs each of these with the seeds 1 to
50, `--weft-seeds 7..9` with 7, 8 and 9. An expectation of a scenario that fails is a failure of its test, which says the expectation, the seed, and the
command that repeats it. Where a test fails otherwise, its report has such a command for each run of `weft_run` and `weft_result`, in JUnit, too.
`wall_limit="60s"` in the mark ends runs that take longer by the clock on the wall.
"""

from __future__ import annotations

import difflib
import os
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

import pytest

from .errors import ExpectationError, WeftError
from .result import Result
from .sweeps import _numbers
from .world import SEED_MAX, World, is_whole

SUFFIX = ".weft.toml"
ARGUMENTS = ("scenario", "seeds", "seed", "wall_limit")
# Of a test: what its runs came to, the expectation that failed before its body, and that its body has begun.
_RUNS: pytest.StashKey[list[Result]] = pytest.StashKey()
_FAILED: pytest.StashKey[Optional[ExpectationError]] = pytest.StashKey()
_BEGUN: pytest.StashKey[bool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """--weft-seeds"""
    group = parser.getgroup("weft", "scenarios of weft")
    group.addoption("--weft-seeds", metavar="N|A..B", help="run tests with scenarios once for each seed from 1 to N, or from A to B")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and a wrong --weft-seeds. pytest's cache is made now, and not at the end: programs that list the folder find the same in the first
    session as in each that follows."""
    cache = getattr(config, "cache", None)
    if cache is not None:
        cache.mkdir("weft")
    config.addinivalue_line("markers", "weft(scenario, *, seeds, seed, wall_limit): the scenario of weft_world, beside the test, and the seeds of its "
                                       "runs: \"A..B\", a list, N for 1 to N, or one seed; a run ends after wall_limit, such as \"60s\"")
    try:
        _chosen(config)
    except ValueError as error:
        raise pytest.UsageError(f"--weft-seeds: {error}") from None


def _chosen(config: pytest.Config) -> Optional[list[Optional[int]]]:
    """The seeds of the command line."""
    text: Optional[str] = config.getoption("--weft-seeds", default=None)
    return None if text is None else _numbers(text)


def _marked(node: pytest.Item) -> tuple[Optional[str], list[Optional[int]]]:
    """Scenario and seeds of a test's mark; ValueError says what is wrong with it."""
    mark = node.get_closest_marker("weft")
    if mark is None:
        return None, [None]
    for name in mark.kwargs:
        if name not in ARGUMENTS:
            near = difflib.get_close_matches(name, ARGUMENTS, 1)
            raise ValueError(f"there is no argument '{name}'; " + (f"did you mean '{near[0]}'?" if near else f"there are {', '.join(ARGUMENTS)}"))
    given = dict(mark.kwargs)
    if len(mark.args) > 1 or mark.args and "scenario" in given:
        raise ValueError("it takes one scenario; seeds have their name: seeds=\"1..20\"")
    scenario = mark.args[0] if mark.args else given.get("scenario")
    if not isinstance(scenario, (str, os.PathLike, type(None))):
        raise ValueError(f"{scenario!r} is no scenario: write the name of a file beside the test")
    if not isinstance(given.get("wall_limit"), (str, type(None))):
        raise ValueError(f"{given['wall_limit']!r} is no time: write wall_limit=\"60s\"")
    seed, seeds = given.get("seed"), given.get("seeds")
    if seed is not None and seeds is not None:
        raise ValueError("it takes seed or seeds, not both")
    if seed is not None and not is_whole(seed, 0, SEED_MAX):
        raise ValueError(f"{seed!r} is no seed: write a number such as seed=7")
    return (None if scenario is None else os.fspath(scenario)), ([seed] if seeds is None else _numbers(seeds))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each seed."""
    if "weft_seed" not in metafunc.fixturenames:
        return
    try:
        seeds = _chosen(metafunc.config) or _marked(metafunc.definition)[1]
    except ValueError:
        # The test says it when it runs: others do not wait for it.
        seeds = [None]
    metafunc.parametrize("weft_seed", seeds, ids=lambda seed: "own-seed" if seed is None else f"seed-{seed}", scope="function")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A mark that is wrong is an error of its test, which may have run before (plug-ins repeat tests that fail)."""
    item.stash[_FAILED], item.stash[_BEGUN] = None, False
    try:
        _marked(item)
    except ValueError as error:
        file, line, _ = item.location
        pytest.fail(f"{file}:{(line or 0) + 1}: @pytest.mark.weft: {error}", pytrace=False)


@pytest.fixture
def weft_seed() -> Optional[int]:
    """The seed of this run; None is the scenario's own."""
    return None


@pytest.fixture
def weft_world(request: pytest.FixtureRequest, weft_seed: Optional[int]) -> World:
    """The world of the marker's scenario, with this run's seed; without a scenario an empty one, beside the test."""
    name, _ = _marked(request.node)
    folder = Path(request.path).parent
    world = World(folder=folder) if name is None else World.from_file(folder / name)
    if weft_seed is not None:
        world.seed = weft_seed
    return world


@pytest.fixture
def weft_run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Result]]:
    """Runs a world, as `World.run` does, with its results below tmp_path."""
    runs = request.node.stash.setdefault(_RUNS, [])
    count = iter(range(1, 1 << 30))
    mark = request.node.get_closest_marker("weft")
    limit = {} if mark is None else {"wall_limit": mark.kwargs.get("wall_limit")}

    def run(world: World, **options: Any) -> Result:
        try:
            result = world.run(**{"out": tmp_path / f"weft-{next(count)}", "progress": False, **limit, **options})
        except ExpectationError as error:
            runs.append(error.result)
            raise
        runs.append(result)
        return result

    yield run
    # Results that nobody named a folder for go with the test.
    runs.clear()


@pytest.fixture
def weft_result(request: pytest.FixtureRequest, weft_world: World, weft_run: Callable[..., Result], weft_seed: Optional[int]) -> Result:
    """What came of a run of weft_world. A test whose body runs has one all of whose expectations held."""
    try:
        return _result(weft_world, weft_run, weft_seed)
    except ExpectationError as error:
        if request.node.stash.get(_BEGUN, False):
            raise
        # In the place of the test's body it is a failure; here it would be an error of its preparation.
        request.node.stash[_FAILED] = error
        return error.result


def _result(world: World, run: Callable[..., Result], seed: Optional[int]) -> Result:
    # The scenario's own file where only the seed is another: the command that repeats it is shorter.
    saved = World.from_file(world.path) if world.path is not None else None
    if saved is not None and seed is not None:
        saved.seed = seed
        if saved == world:
            return run(World.from_file(world.path or ""), seed=seed)
    return run(world)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Before the body of a test: whose weft_result is not as expected has failed."""
    item.stash[_BEGUN] = True
    failed = item.stash.get(_FAILED, None)
    if failed is not None:
        raise failed


# Around all others: what is expected to fail has not failed.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """What failed, without the lines of this package, and how to repeat what ran."""
    outcome: Any = yield
    report = outcome.get_result()
    if call.excinfo is not None and isinstance(call.excinfo.value, WeftError):
        report.longrepr = f"{_place(call.excinfo)}{call.excinfo.value}"
    runs = item.stash.get(_RUNS, [])
    if report.failed and runs:
        said = str(report.longrepr)
        told = "\n".join(_run_told(result) for result in runs if result._command() not in said)
        if not told:
            return
        if hasattr(report.longrepr, "addsection"):
            # Of the failure itself: JUnit has that always, and sections of the report only where junit_logging says so.
            report.longrepr.addsection("weft", told, "-")
        elif isinstance(report.longrepr, str):
            report.longrepr += f"\n{told}"


def _run_told(result: Result) -> str:
    """A run, for the report of a test that failed."""
    return f"{result!r}\n  to repeat it: {result._command()}\n  results: {result.keep()}"


def _place(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """The line of the test that ran it, if there is one."""
    others = {Path(__file__).parent, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    lines = [entry for entry in excinfo.traceback if not others.intersection(Path(entry.path).parents)
             and "_pytest" not in str(entry.path) and "pluggy" not in str(entry.path)]
    return f"{lines[-1].path}:{lines[-1].lineno + 1}: {str(lines[-1].statement).strip()}\n" if lines else ""


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
