"""What people see: plots, notebooks; and what mypy sees."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import matplotlib.pyplot
import weft
from harness import paths
from harness.processes import PATIENCE, Failure
from pages import blocks
from virtual.shared import expect

from .objects import refused
from .ran import lossy
from .tested import pytest_said

NOTEBOOKS = paths.ROOT / "examples" / "notebooks"
SECONDS_MAX = 300 * PATIENCE


def plots(folder: Path) -> str:
    """Lines, units and error bars are those of the numbers."""
    world = lossy(sample="10ms")
    world.wires["ab"].loss = None
    got = world.run()
    labels = {}
    for what in ("throughput", "queue", "cwnd", "srtt"):
        axes = got.plot(what)
        labels[what] = axes.get_ylabel()
        expect(f"lines of {what}", len(axes.get_lines()) > 0, True)
        axes.figure.savefig(folder / f"{what}.png")
    expect("labels", list(labels.values()), ["throughput in Mbit/s", "queue in frames", "congestion window in segments", "smoothed round-trip time in ms"])
    largest = max(max(line.get_ydata()) for line in got.plot("throughput").get_lines())
    expect("throughput", round(largest, 6), round(max(row["throughput_bits_per_second"] for row in got.wires("dicts")) / 1e6, 6))
    expect("colour", got.plot("queue").get_lines()[0].get_color(), "#0072b2")
    many = weft.World.from_toml("duration = '100ms'\nsample = '10ms'\n[templates.s]\nkind = 'star'\ncount = 5\n[programs.p]\nnode = 's*'\nbuiltin = 'ping'\nto = 's1'")
    looks = [(line.get_color(), line.get_linestyle()) for line in many.run(check=False).plot("throughput").get_lines()]
    expect("looks of many lines", (len(looks) > 7, len(set(looks))), (True, len(looks)))
    everything, one = got.plot("throughput"), got.plot("throughput", only="a>*")
    names = [line.get_label() for line in everything.get_lines()]
    expect("one direction", [line.get_label() for line in one.get_lines()], [name for name in names if name.startswith("a")])
    expect("a wire", [line.get_label() for line in got.plot("throughput", only=["ab"]).get_lines()], names)
    refused(lambda: got.plot("throughput", only="x*"), weft.WeftError, "no line of throughput is called 'x*'; there are: ab, ")
    for what in ("cwnd", "srtt"):
        expect(f"who sends, in {what}", {line.get_label().split()[0] for line in got.plot(what).get_lines()}, {"a"})
    everything.figure.draw_without_rendering()
    expect("the legend is beside", everything.get_legend().get_window_extent().x0 >= everything.get_window_extent().x1, True)
    expect("and within the picture", everything.get_legend().get_window_extent().x1 <= everything.figure.bbox.x1, True)
    table = weft.sweep(lossy(), "1..4", {"wires.ab.loss": [0.0, 0.05], "nodes.*.parameters.tcp.congestion": ["cubic", "reno"]})
    axes = weft.plot_sweep(table, x="wires.ab.loss", y="sink.goodput_bits_per_second", hue="nodes.*.parameters.tcp.congestion")
    means = weft.summary(table, ["wires.ab.loss", "nodes.*.parameters.tcp.congestion"])
    means = means[means["figure"] == "sink.goodput_bits_per_second"]
    wanted = means[means["nodes.*.parameters.tcp.congestion"] == "cubic"].sort_values("wires.ab.loss")
    bars = axes.containers[0]
    expect("means", [round(float(y), 6) for y in bars.lines[0].get_ydata()], [round(mean / 1e6, 6) for mean in wanted["mean"]])
    half = [round(float(part[1][1] - part[0][1]) / 2, 6) for part in bars.lines[2][0].get_segments()]
    expect("error bars", half, [round(value / 1e6, 6) for value in wanted["ci95"]])
    legend = axes.get_legend()
    expect("axes", (axes.get_xlabel(), axes.get_ylabel()), ("ab.loss", "sink.goodput in Mbit/s"))
    expect("legend", (legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]), ("tcp.congestion", ["cubic", "reno"]))
    names = weft.plot_sweep(table, x="nodes.*.parameters.tcp.congestion", y="end_ns")
    expect("texts", [text.get_text() for text in names.get_xticklabels()], ["cubic", "reno"])
    both = weft.plot_sweep(table, x="nodes.*.parameters.tcp.congestion", y="end_ns", hue="wires.ab.loss")
    points = [bars.lines[0] for bars in both.containers]
    expect("points without lines over texts", [line.get_linestyle() for line in points], ["None", "None"])
    expect("beside each other", [[round(float(x), 3) for x in line.get_xdata()] for line in points], [[-0.1, 0.9], [0.1, 1.1]])
    refused(lambda: weft.plot_sweep(table, x="loss", y="end_ns"), weft.WeftError, "no column 'loss'")
    refused(lambda: got.plot("x"), weft.WeftError, "no plot 'x': one of throughput")
    matplotlib.pyplot.close("all")
    return "four series, two sweeps"


PICTURE = '<img style="max-width:100%" alt="topology" src="data:image/svg+xml;base64,'


def shown(folder: Path) -> str:
    """What notebooks show of worlds and results."""
    world = lossy(expect=[weft.Expect("sink", goodput_min="1gbit")])
    world.programs["<script>"] = weft.Program("a", command=["echo", "<b>"])
    text = world._repr_html_()
    for part in ("<caption>Nodes", "a – b", "delay = 5ms", "tcp-send", "&lt;script&gt;", "echo &lt;b&gt;"):
        expect(part, part in text, True)
    expect("repr", repr(lossy()), "<World: 2 nodes, 1 wires, 2 programs>")
    drawn = lossy().topology()
    for part in ("<svg", ">a<", ">b<", "5 ms"):
        expect(part, part in drawn, True)
    expect("a world's picture", PICTURE in lossy()._repr_html_(), True)
    unsound = lossy()
    unsound.wires["ab"].delay = "soon"
    expect("a world that is wrong", ("no time span" in unsound._repr_html_(), PICTURE in unsound._repr_html_()), (True, False))
    got = lossy(expect=[weft.Expect("sink", goodput_min="1gbit")]).run(check=False)
    for part in ("1 of 3 expectations failed", got.hash, "<caption>Failed", "received_bytes = 100000", "runs on", PICTURE):
        expect(part, part in got._repr_html_(), True)
    expect("repr of a result", repr(lossy().run()).startswith("<Result: as expected, seed 1, hash "), True)
    return "worlds and results"


def progress(folder: Path) -> str:
    """weft's line on how it gets on comes to who wants it, and errors are the same."""
    script = "import sys, weft\nworld = weft.World.from_file(sys.argv[1])\nresult = world.run(progress=True)\nprint(result.messages.count('virtual time in'))"
    lossy().save(folder / "s.toml")
    done = subprocess.run([paths.output_dir() / "venv/bin/python3", "-c", script, folder / "s.toml"], capture_output=True, text=True)
    expect("told", ("of virtual time in" in done.stderr, done.stdout), (True, "1\n"))
    return "told"


def readme(folder: Path) -> str:
    """The examples of README.md, one after the other: those of a session, and those of a project's tests."""
    code = [block.text for block in blocks.read(paths.ROOT / "python" / "README.md") if block.language == "python"]
    known: dict = {}
    for block in code[:2]:
        exec(compile(block.replace("range(30)", "range(2)"), "README.md", "exec"), known)
    result, table = known["result"], known["table"]
    expect("first world", (result.passed, b"Directory listing" in result.files["client"]["/out"], len(table)), (True, True, 8))
    known["world"].wires["line"].rate = "100mbit"
    known["world"].save(folder / "download.toml")
    text = code[2].replace("1..20", "1..2").replace("1_000_000", "100")
    (folder / "test_it.py").write_text(f"import pytest\n{text}")
    expect("tests", "3 passed" in pytest_said(folder, status=0), True)
    matplotlib.pyplot.close("all")
    return f"{len(code)} blocks"


def types(folder: Path) -> str:
    """mypy --strict finds nothing, and finds what is planted."""
    site = Path(os.environ["WEFT_PYTHON_PACKAGE"]) / "weft"
    mypy = [paths.output_dir() / "venv/bin/python3", "-m", "mypy", "--strict", "--cache-dir", folder / "cache"]
    done = subprocess.run([*mypy, site], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise Failure(done.stdout)
    (folder / "user.py").write_text("import weft\nweft.Wire(['a', 'b'], rate=5)\nweft.World().run(sead=1)\nweft.Node(kind='router')\nreveal_type(weft.World().run().hash)\n")
    told = subprocess.run([*mypy, "user.py"], capture_output=True, text=True, cwd=folder).stdout
    for text in ('"rate" to "Wire" has incompatible type "int"', 'Unexpected keyword argument "sead"', '"kind" to "Node" has incompatible type', 'Revealed type is "str"', "Found 3 errors"):
        if text.replace("str", "builtins.str") not in told and text not in told:
            raise Failure(f"{text} is not in {told}")
    return done.stdout.strip()


def notebook(name: str):
    """A row that executes a notebook, whose last cell says what it found."""
    def row(folder: Path) -> str:
        import nbclient
        import nbformat

        book = nbformat.read(NOTEBOOKS / name, as_version=4)
        nbformat.validate(book)
        if any(cell.get("outputs") for cell in book.cells):
            raise Failure("it is committed with outputs")
        # Pictures are part of the page, whatever the other rows draw with.
        environment = {key: value for key, value in os.environ.items() if key != "MPLBACKEND"}
        client = nbclient.NotebookClient(book, timeout=SECONDS_MAX, resources={"metadata": {"path": str(NOTEBOOKS)}})
        client.execute(env=environment)
        outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
        tables, pictures = (sum(kind in output.get("data", {}) for output in outputs) for kind in ("text/html", "image/png"))
        if not tables or not pictures:
            raise Failure(json.dumps(outputs)[:2000])
        return f"{tables} tables, {pictures} pictures"

    return row


ROWS = {"looked at/plots": plots, "looked at/shown": shown, "looked at/progress": progress, "readme": readme, "types": types,
        **{f"notebooks/{name}": notebook(f"{name}.ipynb") for name in ("first-steps", "congestion", "dask")}}
