"""Pictures with matplotlib that go with weft's own: the colours of Okabe and Ito, and axes with units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, Union

from .errors import WeftError
from .result import Result, library
from .sweeps import half_interval

# Okabe and Ito (2008), in the order of weft's pictures; their yellow is too light for lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

# Of lines beyond those.
STYLES = ("-", (0, (6, 4)), (0, (2, 2.5)), (0, (12, 3)))

# How far apart the points of all lines stand over a text of the axis; texts are 1 apart.
SHIFT = 0.4

# Most lines that have a name: as many as look different.
NAMED_MAX = len(COLOURS) * len(STYLES)

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1024.0, "KiB"), (1.0, "B"))
# Ends of names of columns: what a value of theirs is worth in the first unit, and the units.
_ENDS = (("_bits_per_second", 1.0, _RATES), ("_ns", 1e-9, _TIMES), ("_us", 1e-6, _TIMES), ("_s", 1.0, _TIMES), ("_bytes", 1.0, _BYTES))
# What is drawn: series, column, title, and the unit where the name does not say it.
_SERIES = {
    "throughput": ("wires", "throughput_bits_per_second", "throughput", ""),
    "queue": ("wires", "queue_frames", "queue", "frames"),
    "cwnd": ("connections", "cwnd_segments", "congestion window", "segments"),
    "srtt": ("connections", "srtt_us", "smoothed round-trip time", ""),
}


def unit(column: str, largest: float) -> tuple[float, str]:
    """What values of a column are multiplied with, and the unit that they have then: the largest of which there is one at least."""
    for end, worth, units in _ENDS:
        if column.endswith(end):
            size, name = next((of for of in units if largest * worth >= of[0]), units[-1])
            return worth / size, name
    return 1.0, ""


def _name(column: str) -> str:
    """A column without the unit that ends its name."""
    return next((column[:-len(end)] for end, _, _ in _ENDS if column.endswith(end)), column)


def _look(number: int) -> dict[str, Any]:
    """Colour and dashes of a line."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)], "linewidth": 1.2}


def series(result: Result, what: str = "throughput", ax: Any = None, only: Optional[Union[str, Iterable[str]]] = None) -> Any:
    """Draws a series of a run over virtual time: its lines, or `only` those that are called so, or whose wire or node is."""
    if what not in _SERIES:
        raise WeftError(f"there is no plot '{what}': one of {', '.join(_SERIES)}")
    name, column, title, its_unit = _SERIES[what]
    rows = result.series(name, as_="dicts")
    quiet = _quiet(rows) if name == "connections" else set()
    lines: dict[str, tuple[list[float], list[float]]] = {}
    groups: dict[str, str] = {}
    for row in rows:
        label = _label(row)
        if row[column] is not None and label not in quiet:
            groups[label] = row["wire"] if "wire" in row else row["node"]
            times, values = lines.setdefault(label, ([], []))
            times.append(row["time_ns"] / 1e9)
            values.append(float(row[column]))
    shown = {label: line for label, line in lines.items() if any(line[1])}
    if only is not None:
        is_wanted = _matcher([only] if isinstance(only, str) else list(only))
        there = list(dict.fromkeys([*(groups[label] for label in shown), *shown]))
        shown = {label: line for label, line in shown.items() if is_wanted(label) or is_wanted(groups[label])}
        if not shown:
            raise WeftError(f"no line of {what} is called {only!r}; there are: {', '.join(there) or 'none'}")
    factor, text = unit(column, max((max(line[1]) for line in shown.values()), default=0.0))
    ax = _axes(ax, list(shown))
    for number, (label, (times, values)) in enumerate(shown.items()):
        ax.plot(times, [value * factor for value in values], label=label, **_look(number))
    _dress(ax, "time in s", f"{title} in {its_unit or text}", len(shown))
    return ax


def _label(row: Mapping[str, Any]) -> str:
    """The name of the line that a sample is of."""
    return str(row["direction"]) if "direction" in row else f"{row['node']} {row['local']} > {row['remote']}"


def _quiet(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Connections that only receive, which have the window that they began with: none where all are so."""
    windows: dict[str, set[Any]] = {}
    for row in rows:
        windows.setdefault(_label(row), set()).add(row["cwnd_segments"])
    quiet = {label for label, values in windows.items() if len(values - {None}) < 2}
    return quiet if len(quiet) < len(windows) else set()


def _matcher(names: Sequence[str]) -> Callable[[str], bool]:
    """Is a text one of these names? * stands for any part of one, ? for a character; brackets are those of addresses."""
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL) for name in names]
    return lambda text: any(pattern.fullmatch(text) for pattern in patterns)


def plot_sweep(table: Any, x: str, y: str, hue: Optional[str] = None, ax: Any = None) -> Any:
    """Draws the mean of a figure `y` over a setting `x`, a line for each value of `hue`, with 95 % confidence intervals as error bars.

    `table` is what `sweep` returns. Settings that are texts stand side by side. Returns the axes.
    """
    rows = table if isinstance(table, list) else table.to_dict("records")
    for name in (name for name in (x, y, hue) if name is not None and (not rows or name not in rows[0])):
        raise WeftError(f"the table has no column '{name}'; it has {', '.join(map(str, rows[0] if rows else ()))}")
    rows = [row for row in rows if row[y] is not None and row[y] == row[y]]
    factor, text = unit(y, max((float(row[y]) for row in rows), default=0.0))
    places, marks = _places([row[x] for row in rows])
    groups = list(dict.fromkeys(row[hue] for row in rows)) if hue else [None]
    ax = _axes(ax, list(map(str, groups)) if hue else [])
    for number, group in enumerate(groups):
        mine = [row for row in rows if hue is None or row[hue] == group]
        values = {place: [float(row[y]) * factor for row in mine if places(row[x]) == place] for place in sorted({places(row[x]) for row in mine})}
        means = [sum(of) / len(of) for of in values.values()]
        bars = [half_interval(of) or 0.0 for of in values.values()]
        # Between texts there is nothing: points, beside those of the other lines.
        shift = SHIFT * (number - (len(groups) - 1) / 2) / len(groups) if marks else 0.0
        look = {**_look(number), "linestyle": "none"} if marks else _look(number)
        ax.errorbar([place + shift for place in values], means, yerr=bars, marker="o", capsize=3, label=str(group), **look)
    if marks:
        ax.set_xticks(range(len(marks)), marks)
        ax.set_xlim(-0.5, len(marks) - 0.5)
    _dress(ax, _setting(x), f"{_name(y)} in {text}" if text else y, len(groups) if hue else 0)
    if hue and ax.get_legend() is not None:
        ax.get_legend().set_title(_setting(hue), prop={"size": "small"})
    return ax


def _setting(path: str) -> str:
    """What a setting is called in a picture: of the path of a parameter its block and name, of another its last two words."""
    words = path.split(".")
    return ".".join(words[words.index("parameters") + 1:] if "parameters" in words[:-1] else words[-2:])


def _places(values: Sequence[Any]) -> tuple[Callable[[Any], float], list[str]]:
    """Where values stand on an axis, and their texts where they are no numbers."""
    if all(isinstance(value, (int, float)) for value in values):
        return float, []
    names = list(dict.fromkeys(str(value) for value in values))
    return (lambda value: float(names.index(str(value)))), names


def _axes(ax: Any, labels: Sequence[str]) -> Any:
    """The given axes, or some with room for these names beside them."""
    if ax is not None:
        return ax
    width = 6 + 0.075 * max(map(len, labels), default=0)
    height = max(4.0, 0.6 + 0.18 * min(len(labels), NAMED_MAX + 1))
    return library("matplotlib.pyplot", "a plot").subplots(figsize=(width, height), layout="constrained")[1]


def _dress(ax: Any, x: str, y: str, lines: int) -> None:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_ylim(bottom=0)
    ax.grid(color="#e4e4e4", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if lines:
        handles, labels = ax.get_legend_handles_labels()
        if len(labels) > NAMED_MAX:
            handles, labels = handles[:NAMED_MAX + 1], [*labels[:NAMED_MAX], f"… {len(labels) - NAMED_MAX} more"]
        # Beside the lines, where it hides none.
        ax.legend(handles, labels, frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
