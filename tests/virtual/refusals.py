"""Rows of `make test-results`: odd names, files, settings and times lose no result, lead nowhere else, and are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from harness import weft
from harness.processes import Failure

from .shared import SECONDS_MAX, builtin, events, expect, keys, pair, program, section, sim, weft_command

REFUSED = 2
ODD_FILES = """
import os
import signal
os.makedirs(b"/out/x\\xff"); open(b"/out/x\\xff/y", "w").write("1"); os.symlink(b"\\xff", "/out/link")
os.mkdir("/deep"); os.chdir("/deep")
for _ in range(25):
    os.mkdir("n" * 200); os.chdir("n" * 200)
open("f", "w").write("x")
"""


def told(folder: Path, *words: str, status: int) -> str:
    return weft_command(folder, *words, status=status).stderr


def has(text: str, *wanted: str) -> None:
    if missing := [one for one in wanted if one not in text]:
        raise Failure(f"{missing} is not in: {text}")


def odd_names(folder: Path) -> str:
    """Names that are no UTF-8, and a path that is too long below the results: the rest is there."""
    text = section("nodes.a") + program("p", "a", "python3", "-c", ODD_FILES, collect=["/out/**", "/deep/**"])
    sim(folder, text, "--out", str(folder / "out"))
    index = json.loads((folder / "out/files.json").read_text())["a"]
    expect("files", ([row["path"] for row in index["files"]], index["left_out"]), (["/out/link", "/out/x\ufffd/y"], 1))
    expect("hash", len(json.loads((folder / "out/summary.json").read_text())["hash"]), 32)
    return "one file left out"


def old_disk(folder: Path) -> str:
    """What was on a disk that the node has no more stays; of the same path the newer file."""
    once = "mkdir -p /out; [ $(date +%s) -gt 1893456001 ] || echo one > /out/x; sleep 0.3; date +%s > /out/y; sleep 10"
    text = keys(duration="5s") + section("nodes.a", collect=["/out/**"]) + program("p", "a", "sh", "-c", once, expect="any")
    sim(folder, text + events({"at": "1s", "crash": "a"}, {"at": "3s", "restart": "a", "fresh_disk": True}), "--out", str(folder / "out"))
    files = folder / "out/files/a/out"
    expect("files", ((files / "x").read_text(), (files / "y").read_text()), ("one\n", "1893456003\n"))
    return "of both disks"


def names(folder: Path) -> str:
    """No name of a program or a wire is a path, and no pattern joins a node to itself."""
    (folder / "scenario.toml").write_text("")
    for number, text in enumerate((
        section("nodes.a") + '[programs."../../esc"]\nnode = "a"\nbuiltin = "ping"\nto = "a"\n',
        pair() + '[wires."q\\"q"]\nbetween = ["a", "b"]\n',
        section("nodes.a") + section("nodes.ab") + section("wires.w", between=["a", "a*"]),
    )):
        (folder / "wrong.toml").write_text(text)
        has(told(folder, "sim", "wrong.toml", "--check", status=REFUSED), ("no name of a program", "no name of a wire", "both ends of the wire")[number], "help:")
    return "three"


def others_words(folder: Path) -> str:
    """What Shadow and Mininet call otherwise leads to weft's word."""
    wanted = {"latency": "`delay`", "packet_loss": "`loss`", "bw": "`rate`", "stop_time": "`duration`"}
    for word, ours in wanted.items():
        text = f"{word} = 1\n{pair()}" if word == "stop_time" else pair(**{word: 1})
        (folder / "wrong.toml").write_text(text)
        has(told(folder, "sim", "wrong.toml", "--check", status=REFUSED), f"unknown field `{word}`", ours)
    (folder / "wrong.toml").write_text(f'[general]\nstop_time = "10s"\n{pair()}')
    has(told(folder, "sim", "wrong.toml", "--check", status=REFUSED), "unknown field `general`", "the keys at the top of the file")
    return f"{len(wanted) + 1} words"


def signalled(folder: Path) -> str:
    """A status of 128 and a signal's number is met by that signal, and by no other."""
    for status, outcome in ((143, 0), (137, 1)):
        (folder / "scenario.toml").write_text(section("nodes.a") + program("p", "a", "sh", "-c", "kill -TERM $$", expect=str(status)))
        weft_command(folder, "sim", "scenario.toml", status=outcome)
    return "143"


def late_event(folder: Path) -> str:
    """The run ends a second after the last event, and says that nobody was there for it."""
    (folder / "scenario.toml").write_text(pair() + program("p", "a", "sleep", "3") + events({"at": "20s", "down": "ab"}))
    done = weft_command(folder, "sim", "scenario.toml", "--json")
    expect("end", json.loads(done.stdout)["end_ns"], 21_000_000_000)
    has(done.stderr, "nothing came of the event at 20.000000000s")
    return "21 s"


def grids(folder: Path) -> str:
    """Values that stand there twice, seeds in a grid, and more runs than can be."""
    (folder / "scenario.toml").write_text(pair() + builtin("p", "a", "ping", to="b", count=1))
    wrong = {("--grid", "wires.ab.loss=0,0"): "twice", ("--grid", "seed=1,2"): "--seeds", ("--seeds", "1..1000001"): "1000000 are the most"}
    for words, why in wrong.items():
        has(told(folder, "sim", "scenario.toml", *words, status=REFUSED), why, "help:")
    return f"{len(wrong)} refused"


def foreign_results(folder: Path) -> str:
    """A summary.json that weft has not left stays, and a list of files that leads elsewhere removes nothing."""
    (folder / "scenario.toml").write_text(pair() + builtin("p", "a", "ping", to="b", count=1))
    mine, victim = folder / "mine", folder / "victim"
    mine.mkdir()
    victim.mkdir()
    (victim / "v").write_text("v")
    (mine / "summary.json").write_text("x")
    has(told(folder, "sim", "scenario.toml", "--out", "mine", status=REFUSED), "no run of weft has left")
    expect("contents", (mine / "summary.json").read_text(), "x")
    (mine / "summary.json").write_text('{"scenario": "s", "end": "e"}')
    (mine / "files.json").write_text(json.dumps({str(victim): {"files": [{"path": "/v"}]}, "..": {"files": [{"path": "/victim/v"}]}}))
    weft_command(folder, "sim", "scenario.toml", "--out", "mine")
    expect("elsewhere", (victim / "v").read_text(), "v")
    with open("/dev/full", "w") as full:
        done = subprocess.run([weft.binary(), "sim", "scenario.toml", "--json"], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX)
    expect("a full disk", (done.returncode, "No space left" in done.stderr), (REFUSED, True))
    return "three"


def test_folder(folder: Path) -> str:
    """A run that hangs, a FIFO, a link to nowhere and a broken file are each told; the others run; what failed is kept."""
    here = folder / "here"
    here.mkdir()
    (here / "good.toml").write_text(pair() + builtin("p", "a", "ping", to="b", count=1))
    (here / "spin.toml").write_text(section("nodes.a") + program("p", "a", "python3", "-c", "print('begun', flush=True)\nwhile True: pass"))
    (here / "none.toml").write_text(section("nodes.a", kind="linux", kernel="99.9") + program("p", "a", "true"))
    (here / "broken.toml").write_text("[nodes.a]\n[wires")
    (here / ".hidden.toml").write_text("[nodes.a]\n[wires")
    (here / "note.toml").write_text("x = 1\n")
    (here / "torn.toml").write_text("[node")
    os.mkfifo(here / "fifo.toml")
    (here / "link.toml").symlink_to("nowhere")
    done = weft_command(folder, "test", "here", "--wall-limit", "3s", "--junit", "junit.xml", "--out", "kept", status=1)
    has(done.stdout, "passed", "ends within 3 s of real time", "to repeat it: weft sim here/spin.toml --seed 1 --wall-limit 3s", "the world can be made")
    has(done.stderr, "cannot read here/fifo.toml", "cannot read here/link.toml", "left out, since there is no [nodes.NAME] in them: here/note.toml", "1 of 7 runs")
    suites = {suite.get("name"): suite for suite in ElementTree.parse(folder / "junit.xml").iter("testsuite")}
    expect("suites", len(suites), 7)
    spun = suites["here/spin.toml seed 1"]
    said, repeat = spun.findtext("system-out"), spun.find("properties/property")
    expect("what it wrote", (said, repeat is not None and repeat.get("value")), ("p: begun\n", "weft sim here/spin.toml --seed 1 --wall-limit 3s"))
    expect("kept", (folder / "kept/here-spin-seed-1/programs/p/stdout").read_text(), "begun\n")
    for place, word in ((here, "one"), (folder, "two")):
        (place / "bad.toml").write_text(section("nodes.a") + program("p", "a", "sh", "-c", f"echo {word}; exit 1"))
    weft_command(here, "test", "bad.toml", "../bad.toml", "--out", "both", status=1)
    expect("files of one name", [(here / "both" / name / "programs/p/stdout").read_text() for name in ("bad-seed-1", "bad-seed-1-2")], ["one\n", "two\n"])
    return "six of eight, and two of one name"


def hostile_root(folder: Path) -> str:
    """Links of a tar lead nothing out of the folder."""
    outside, inside = folder / "outside", folder / "inside"
    (outside / "var").mkdir(parents=True)
    (outside / "machine-id").write_text("mine")
    inside.mkdir()
    (inside / "etc").symlink_to(outside)
    (inside / "var").symlink_to(outside / "var")
    subprocess.run(["tar", "-C", inside, "-cf", folder / "a:b.tar", "."], check=True)
    (folder / "root.toml").write_text('tar = "a:b.tar"\n')
    weft_command(folder, "root", "make", "root.toml", "--out", "root")
    expect("outside", ((outside / "machine-id").read_text(), list((outside / "var").iterdir())), ("mine", []))
    with tarfile.open(folder / "power.tar", "w") as tar:
        for name, kind, mode in (("bin", tarfile.DIRTYPE, 0o2755), ("bin/su", tarfile.REGTYPE, 0o6755), ("bin/null", tarfile.CHRTYPE, 0o666)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.devmajor, entry.devminor = kind, mode, 1, 3
            tar.addfile(entry)
    (folder / "power.toml").write_text('tar = "power.tar"\n')
    weft_command(folder, "root", "make", "power.toml", "--out", "power")
    found = {place.name: place.lstat().st_mode & 0o7777 for place in sorted((folder / "power").glob("bin/*"))}
    expect("set-ID bits and device nodes", found, {"su": 0o755})
    return "nothing is written, and nothing has power"


def interrupted_root(folder: Path) -> str:
    """Whoever interrupts `weft root make` leaves nothing of it: no folder, no program that makes one."""
    (folder / "bin").mkdir()
    (folder / "bin/mmdebstrap").write_text("#!/bin/sh\nfor folder; do :; done\necho $$ > pid.new\nmv pid.new pid\ntouch $folder/x\nexec sleep 1000\n")
    (folder / "bin/mmdebstrap").chmod(0o755)
    (folder / "root.toml").write_text('suite = "bookworm"\n')
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        (folder / "pid").unlink(missing_ok=True)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        made = subprocess.Popen([weft.binary(), "root", "make", "root.toml"], cwd=folder, env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)
        while not (folder / "pid").exists():
            time.sleep(0.01)
        made.send_signal(number)
        said = made.communicate()[1]
        expect("status", made.returncode, status)
        expect("said", said.splitlines()[-1], "weft: interrupted")
        expect("left", sorted(place.name for place in folder.iterdir()), ["bin", "pid", "root.toml"])
        expect("its program", Path("/proc", (folder / "pid").read_text().strip()).exists(), False)
    return "two signals"


ROWS: dict[str, Callable[[Path], str]] = {
    "odd/names of files": odd_names,
    "odd/old disk": old_disk,
    "odd/names": names,
    "odd/words of others": others_words,
    "odd/signalled": signalled,
    "odd/late event": late_event,
    "odd/grids": grids,
    "odd/results of others": foreign_results,
    "odd/folder of tests": test_folder,
    "odd/root": hostile_root,
    "odd/interrupted root": interrupted_root,
}
