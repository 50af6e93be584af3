"""`make test-results`: what a run leaves: files of nodes, tables of sweeps, JUnit; and what it needs: what lies beside a scenario."""

from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from harness import paths, weft
from harness.processes import Failure

from . import doctor, refusals
from .shared import builtin, compiled, events, expect, keys, pair, program, run_rows, section, sim, weft_command
from .told import expects

REFUSED = 2


def left(folder: Path) -> list[str]:
    """Files below, by their paths."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Files that programs have written.

WRITES = "mkdir /srv/out && echo one > /srv/out/one.txt && echo junit > /out.xml && echo t > /tmp/t.txt && echo h > ~/h.txt && ln -s /etc/passwd /srv/out/link"


def collected(folder: Path) -> str:
    """Patterns of a node and of a program; what is the host's is not taken, and what an earlier run left goes."""
    text = pair(a={"collect": ["/srv/**", "/etc/*"]}) + program("p", "a", "sh", "-ec", f"{WRITES}; echo x >> /etc/hosts", collect=["/out.xml", "/tmp/*.txt"])
    sim(folder, text + program("q", "b", "sh", "-c", "echo > /srv/q"), "--out", str(folder / "out"))
    expect("files", left(folder / "out" / "files"), ["a/etc/hosts", "a/out.xml", "a/srv/out/one.txt", "a/tmp/t.txt"])
    expect("contents", (folder / "out/files/a/srv/out/one.txt").read_text(), "one\n")
    listed = {row["path"]: row for row in json.loads((folder / "out/files.json").read_text())["a"]["files"]}
    expect("a link is told, and not made", listed["/srv/out/link"], {"path": "/srv/out/link", "link": "/etc/passwd"})
    sim(folder, pair() + program("p", "a", "true"), "--out", str(folder / "out"))
    if (folder / "out/files").exists() or (folder / "out/files.json").exists():
        raise Failure("files of the run before are there")
    return "four files of two patterns each"


def everything(folder: Path) -> str:
    """--keep-disks: all that programs wrote, wherever, and nothing of the host's; no result is another for it."""
    text = pair() + program("p", "a", "sh", "-ec", f"{WRITES}; echo x > /var/lib/x; echo y > /usr/y; echo z > /opt/z")
    kept = sim(folder, text, "--out", str(folder / "out"), "--keep-disks")
    expect("hash", sim(folder, text)["hash"], kept["hash"])
    wanted = {"a/out.xml", "a/srv/out/one.txt", "a/tmp/t.txt", "a/root/h.txt", "a/var/lib/x", "a/usr/y", "a/opt/z"}
    found = set(left(folder / "out" / "files"))
    # What every node has of its own beside: its names.
    if not wanted <= found or len(found - wanted) > 12 or any(not name.startswith(("a/etc/", "a/run/")) for name in found - wanted):
        raise Failure(f"{sorted(found)}")
    return f"{len(wanted)} written, {len(found) - len(wanted)} of every node's own"


def of_a_crash(folder: Path) -> str:
    """A node that crashes leaves what it had, also what lay in memory; one that boots again, what it has at the end."""
    script = "echo $$ > /srv/life; echo t > /tmp/early; sleep 1; echo late > /srv/late; sleep 100"
    text = keys(duration="4s") + pair(a={"collect": ["/srv/**", "/tmp/**"]}) + program("p", "a", "sh", "-c", script, expect="any")
    sim(folder, text + events({"at": "500ms", "crash": "a"}), "--out", str(folder / "crash"))
    expect("crashed", left(folder / "crash/files"), ["a/srv/life", "a/tmp/early"])
    sim(folder, text + events({"at": "1500ms", "crash": "a"}, {"at": "2s", "restart": "a"}), "--out", str(folder / "again"))
    expect("restarted", left(folder / "again/files"), ["a/srv/late", "a/srv/life", "a/tmp/early"])
    return "crashed, and restarted"


def too_large(folder: Path) -> str:
    """What is larger than all that is taken, or deeper, stays where it is, and is counted; the others come."""
    deep = "/".join(["/srv", *"d" * 70])
    script = f"truncate -s 5G /srv/large; echo kept > /srv/small; mkdir -p {deep}; echo lost > {deep}/file"
    (folder / "s.toml").write_text(keys(duration="1s") + pair(a={"collect": ["/srv/**"]}) + program("p", "a", "sh", "-c", script))
    said = weft_command(folder, "sim", "s.toml", "--out", "out").stderr
    expect("taken", left(folder / "out/files"), ["a/srv/small"])
    expect("counted", json.loads((folder / "out/files.json").read_text())["a"]["left_out"], 2)
    expect("told", "2 files or folders of nodes are not in" in said, True)
    return "told, and the others come"


def nothing_left(folder: Path) -> str:
    """A pattern that stands for nothing that programs have left is told with its nodes, and at a terminal that nothing is taken without a folder of results."""
    text = section("nodes.k", count=12, collect=["/srv", "/out.xml"]) + program("p", "k*", "sh", "-c", "echo > /srv/x; [ $(hostname) = k2 ] || echo > /out.xml")
    (folder / "s.toml").write_text(text)
    said = weft_command(folder, "sim", "s.toml", "--out", "out").stderr
    for line in ("on k1, k10, k11, k12, k2, k3, k4, k5, k6, k7 and 2 more is '/srv'; of a folder write '/FOLDER/**'", "on k2 is '/out.xml'"):
        expect(line, line in said, True)
    for key, is_told in (("collect = ['/out.xml']", True), ("capture = true", True), ("capture = false", False)):
        (folder / "s.toml").write_text(f"[nodes.a]\n{key}\n" + program("p", "a", "touch", "/out.xml"))
        ours, its = pty.openpty()
        subprocess.run([weft.binary(), "sim", "s.toml"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its, check=True, env={**os.environ, "TERM": "xterm"})
        os.close(its)
        expect(key, b"add --out DIR" in os.read(ours, 1 << 16), is_told)
        os.close(ours)
        expect(f"{key} --out", "collect" in weft_command(folder, "sim", "s.toml", "--out", "out").stderr, False)
    return "two patterns of twelve nodes, and two keys without a folder"


def threads(folder: Path) -> str:
    """As a user as well as root, on two threads as well as one: the same files."""
    text = keys(duration="2s") + "".join(
        section(f"nodes.n{number}", collect=["/srv/**"]) + program(f"p{number}", f"n{number}", "sh", "-c", "hostname > /srv/name; head -c 100000 /dev/urandom > /srv/random")
        for number in range(8)) + section("wires.w", between=["n0", "n1"])
    for count in ("1", "2"):
        sim(folder, text, "--threads", count, "--out", str(folder / count))
    one, two = ({name: (folder / count / "files" / name).read_bytes() for name in left(folder / count / "files")} for count in "12")
    expect("files", len(one), 16)
    if one != two:
        raise Failure("files differ")
    return "16 files"


# Sweeps.

LOSSY = pair(delay="5ms", rate="10mbit", loss=0.02) + builtin("sink", "b", "tcp-sink", port=5001) + builtin("send", "a", "tcp-send", to="b:5001", bytes=100_000)
GRID = ("--grid", "nodes.*.parameters.tcp.congestion=cubic,reno", "--grid", "wires.ab.loss=0.0,0.05", "--seeds", "1..3")


def grid(folder: Path) -> str:
    """A row a run, which is what the run alone says; numbers are numbers, and one file is as good as the other."""
    (folder / "s.toml").write_text(LOSSY)
    told = json.loads(weft_command(folder, "sim", "s.toml", *GRID, "--out", "out", "--json").stdout)
    with (folder / "out/runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expect("rows", len(rows), 12)
    expect("runs told", [run["hash"] for run in told["runs"]], [row["hash"] for row in rows])
    expect("settings told", told["runs"][-1]["set"], {"nodes.*.parameters.tcp.congestion": "reno", "wires.ab.loss": "0.05"})
    for row in (rows[0], rows[5], rows[11]):
        sets = (f"nodes.{node}.parameters.tcp.congestion={row['nodes.*.parameters.tcp.congestion']}" for node in "ab")
        words = [word for text in (*sets, f"wires.ab.loss={row['wires.ab.loss']}") for word in ("--set", text)]
        alone = json.loads(weft_command(folder, "sim", "s.toml", "--seed", row["seed"], *words, "--json").stdout)
        expect("hash", row["hash"], alone["hash"])
        sink = next(of["figures"] for of in alone["programs"] if of["name"] == "sink")
        expect("figure", int(row["sink.goodput_bits_per_second"]), sink["goodput_bits_per_second"])
    parquet = (folder / "out/runs.parquet").read_bytes()
    if parquet[:4] != b"PAR1" or parquet[-4:] != b"PAR1":
        raise Failure("runs.parquet is none")
    said = weft_command(folder, "sim", "s.toml", *GRID).stdout
    if "NODES.*.PARAMETERS.TCP.CONGESTION" not in said or said.count("sink.goodput ") != 4:
        raise Failure(said)
    for words, says in ((("--grid", "x"), "write it as"), (("--grid", "wires.no.loss=1"), "nothing called 'no'"), (("--grid", "wires.ab.loss=0.1,soon"), "soon"),
                        (("--resume", "--out", "x"), "are for --seeds and --grid"), (("--grid", "wires.ab.loss=0.1", "--pace", "1"), "cannot be used with")):
        if says not in (told := weft_command(folder, "sim", "s.toml", *words, status=REFUSED).stderr):
            raise Failure(f"{words}: {told}")
    return "12 runs"


def resumed(folder: Path) -> str:
    """kill -9 in the midst: --resume runs what is missing, and the table is that of a sweep that nobody stopped."""
    (folder / "s.toml").write_text(LOSSY.replace("100000", "3000000"))
    words = [weft.binary(), "sim", "s.toml", "--seeds", "1..12", "--out", "out", "--threads", "1"]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = folder / "out/runs.jsonl"
    until = time.monotonic() + 60
    while (not lines.exists() or lines.read_text().count("\n") < 4) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = lines.read_text().splitlines()
    if not 4 <= len(before) < 13:
        raise Failure(f"{len(before) - 1} of 12 runs when it was killed: the row shows nothing")
    lines.write_text(lines.read_text() + '{"set":[],"seed":99')
    weft_command(folder, *words[1:], "--resume")
    after = lines.read_text().splitlines()
    expect("runs", sorted(json.loads(line)["seed"] for line in after[1:]), list(range(1, 13)))
    # No run twice: those that were there have the time that they took.
    expect("those that were there", after[:len(before)], before)
    weft_command(folder, *words[1:6], "whole")
    for table in ("runs.csv", "runs.parquet"):
        if (folder / "out" / table).read_bytes() != (folder / "whole" / table).read_bytes():
            raise Failure(f"{table} is another")
    said = weft_command(folder, *words[1:], "--resume", "--set", "wires.ab.loss=0.01", status=REFUSED).stderr
    if "another scenario" not in said:
        raise Failure(said)
    return f"killed after {len(before) - 1} of 12"


def tested(folder: Path) -> str:
    """`weft test`: every scenario of a folder, one JUnit file with times; one that is broken or fails is told, and nothing else."""
    (folder / "suite/deep").mkdir(parents=True)
    ping = builtin("ping", "a", "ping", to="b", count=3)
    (folder / "suite/good.toml").write_text(pair(delay="10ms") + ping)
    (folder / "suite/deep/bad.toml").write_text(pair(delay="10ms") + ping + expects({"program": "ping", "figure": "replies", "min": 4}))
    (folder / "suite/broken.toml").write_text("[nodes.a]\nadresses = 1\n")
    (folder / "suite/stack.toml").write_text("[node]\nname = \"x\"\n")
    (folder / "suite/Cargo.toml").write_text("[package]\nname = \"x\"\n")
    done = weft_command(folder, "test", "suite", "--junit", "all.xml", status=1)
    if "1 of 3 runs as expected" not in done.stderr or "adresses" not in done.stderr or "ping: replies is at least 4" not in done.stdout:
        raise Failure(done.stdout + done.stderr)
    root = ElementTree.parse(folder / "all.xml").getroot()
    expect("totals", [root.get(name) for name in ("failures", "errors")], ["1", "1"])
    timed = [suite for suite in root.findall("testsuite") if suite.find("testcase").find("error") is None]
    expect("suites with a time", [float(suite.get("time")) > 0 and all(case.get("time") for case in suite.iter("testcase")) for suite in timed], [True, True])
    told = json.loads(weft_command(folder, "test", "suite/good.toml", "--seeds", "1..4", "--json").stdout)
    expect("seeds", [(run["seed"], run["passed"]) for run in told["runs"]], [(seed, True) for seed in range(1, 5)])
    (folder / "empty").mkdir()
    said = weft_command(folder, "test", "empty", status=REFUSED).stderr
    if "no scenario in empty" not in said:
        raise Failure(said)
    return "3 scenarios"


# What lies beside a scenario.

SERVER = "import helper, sys\nopen('written', 'w').write('x')\nprint(helper.WORD, open('data/x.txt').read().strip(), *sys.argv[1:])\n"


def beside(folder: Path) -> str:
    """Scripts with what they import and read, binary files and virtual environments, from two folders with one hash."""
    hashes = set()
    for place in ("one", "another/deep"):
        here = folder / place
        (here / "data").mkdir(parents=True)
        (here / "server.py").write_text(SERVER)
        (here / "helper.py").write_text("WORD = 'helped'\n")
        (here / "data/x.txt").write_text("data\n")
        (here / "run.sh").write_text("#!/bin/sh\nexec python3 -B server.py \"$@\"\n")
        (here / "run.sh").chmod(0o755)
        (here / "x.bin").write_bytes(b"\xff\xfe\x00\x01")
        (here / "node.conf").write_text("id={n} of {node}\n")
        text = section("nodes.k", count=2, files={"/srv/x": {"from": "x.bin"}, "/etc/k.conf": {"from": "node.conf", "expand": True}}) + section("wires.w", between=["k1", "k2"])
        text += program("script", "k*", "python3", "-B", "server.py", "{node}") + program("shell", "k1", "sh", "-c", "./run.sh 7")
        text += program("binary", "k2", "wc", "-c", "/srv/x") + program("conf", "k*", "cat", "/etc/k.conf", stagger="10ms", start="1s")
        text += expects(*({"program": name, "matches": f"(?m)^{line}$"} for name, line in (("script@k2", "helped data k2"), ("shell", "helped data 7"), ("binary", "4 /srv/x"),
                                                                                      ("conf@k1", "id=1 of k1"), ("conf@k2", "id=2 of k2"))))
        summary = sim(here, text, "--out", str(folder / "out"))
        hashes.add(summary["hash"])
        said = weft_command(here, "sim", "scenario.toml", "--out", "results").stderr
        expect("results beside a script are told of", "from which program 'script@k1' runs" in said, True)
        expect("and once they are there not", "from which program" in weft_command(here, "sim", "scenario.toml", "--out", "results").stderr, False)
        expect("written on the host", (here / "written").exists(), False)
        starts = {row["name"]: row["start_ns"] for row in summary["programs"]}
        expect("stagger", (starts["conf@k1"], starts["conf@k2"]), (1_000_000_000, 1_010_000_000))
    expect("hashes of two folders", len(hashes), 1)
    return "two folders, one hash"


def changed_meanwhile(folder: Path) -> str:
    """A file or folder of the host's that a program has opened or was begun from, and that is another when the world ends: the run says that it does not
    repeat, and names it."""
    for name in ("run.sh", "tool"):
        (folder / name).write_bytes(b"#!/bin/sh\n./tool 0\n" if name == "run.sh" else Path("/bin/sleep").read_bytes())
        (folder / name).chmod(0o755)
    (folder / "script.py").write_text("import time\nprint(open('data.txt').read(), flush=True)\nimport os; os.listdir('.')\ntime.sleep(2)\n")
    (folder / "data.txt").write_text("before")
    (folder / "s.toml").write_text(section("nodes.a") + program("p", "a", "python3", "-B", "script.py") + program("q", "a", "./run.sh"))
    words = [weft.binary(), "sim", "s.toml", "--json"]
    expect("nothing has changed", json.loads(weft_command(folder, *words[1:]).stdout)["not_reproducible"], [])
    slow = subprocess.Popen([*words[:-1], "--pace", "1.0"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while (line := slow.stdout.readline()) and "before" not in line:
        pass
    (folder / "data.txt").write_text("after")
    for name in ("run.sh", "tool"):
        os.utime(folder / name)
    _, errors = slow.communicate(timeout=60)
    told = [line for line in errors.splitlines() if "may not repeat" in line]
    for name in ("data.txt", "run.sh", "tool"):
        if not any(f"/scenario/{name} " in line for line in told):
            raise Failure(f"{name}: {errors}")
    return told[0][:80]


def environment(folder: Path) -> str:
    """A virtual environment below /tmp, named by its path and beside the scenario."""
    place = Path("/tmp", f"weft-venv-{os.getpid()}")
    subprocess.run([paths.PYTHON, "-m", "venv", "--without-pip", place], check=True, timeout=60)
    try:
        site = next(place.glob("lib/python*/site-packages"))
        (site / "mine.py").write_text("print('mine')\n")
        text = section("nodes.a") + program("p", "a", f"{place}/bin/python", "-B", "-m", "mine") + expects({"program": "p", "output": "mine"})
        sim(folder, text)
        expect("--check", weft_command(folder, "sim", "scenario.toml", "--check").stderr, "")
        place.rename(folder / "venv")
        sim(folder, section("nodes.a") + program("p", "a", "venv/bin/python", "-B", "-m", "mine") + expects({"program": "p", "output": "mine"}))
    finally:
        subprocess.run(["rm", "-rf", place], check=True)
    return "by its path, and beside"


def checked(folder: Path) -> str:
    """--check fails where running would miss something, and says what; a world that nobody ends is told of at once."""
    for words, says in ((("python3", "servr.py"), "there is no 'servr.py' for python3 to run"), (("nowhere",), "there is no 'nowhere'"), (("./run.sh",), "there is no"),
                        (("/tmp/none",), "there is no '/tmp/none'")):
        (folder / "s.toml").write_text(section("nodes.a") + program("p", "a", *words))
        done = weft_command(folder, "sim", "s.toml", "--check", status=REFUSED)
        if says not in done.stderr or "sound" in done.stdout:
            raise Failure(f"{words}: {done.stdout}{done.stderr}")
        expect("--json", len(json.loads(weft_command(folder, "sim", "s.toml", "--check", "--json", status=REFUSED).stdout)["missing"]), 1)
    (folder / "s.toml").write_text(pair() + builtin("echo", "b", "echo", port=7))
    said = weft_command(folder, "sim", "s.toml", "--check").stderr
    if "no program is expected to end" not in said:
        raise Failure(said)
    for key, says in (("collect = ['var']", "names no files"), ("collect = ['/a/[']", "names no files"), ("files = { '/x' = { from = 'none' } }", "cannot read 'none'")):
        (folder / "s.toml").write_text(f"[nodes.a]\n{key}\n")
        if says not in (said := weft_command(folder, "sim", "s.toml", "--check", status=REFUSED).stderr):
            raise Failure(f"{key}: {said}")
    (folder / "x.sh").write_text("#!/bin/sh\n")
    (folder / "s.toml").write_text(section("nodes.a") + program("p", "a", "./x.sh"))
    if "'./x.sh' is not executable" not in (said := weft_command(folder, "sim", "s.toml", "--check", status=REFUSED).stderr):
        raise Failure(said)
    (folder / "x.sh").chmod(0o755)
    weft_command(folder, "sim", "s.toml", "--check")
    for line, says in (("#!/bin/sh\r", "wants '/bin/sh\\r', which is not there: end its lines in"), ("#! /usr/bin/nope -x", "wants '/usr/bin/nope', which is not there")):
        (folder / "x.sh").write_bytes(line.encode() + b"\n")
        if says not in (said := weft_command(folder, "sim", "s.toml", "--check", status=REFUSED).stderr):
            raise Failure(said)
    return "seven that are missing"


def drawn(folder: Path) -> str:
    """--topology draws what a run would draw, without one, in each format; other names are refused."""
    (folder / "s.toml").write_text(pair(delay="5ms") + builtin("echo", "b", "echo", port=7))
    weft_command(folder, "sim", "s.toml", "--set", "duration=1s", "--out", "ran")
    for ending in ("svg", "png", "pdf"):
        weft_command(folder, "sim", "s.toml", "--check", "--topology", f"drawn.{ending}")
        expect(ending, (folder / f"drawn.{ending}").read_bytes() == (folder / "ran" / "pictures" / f"topology.{ending}").read_bytes(), True)
    for words, says in ((("s.toml", "--check", "--topology", "drawn.gif"), "end its name in .svg, .png or .pdf"),
                        (("s.toml", "--check", "--topology", "none/drawn.svg"), "cannot write 'none/drawn.svg'"),
                        (("s.toml", "--topology", "drawn.svg"), "--check")):
        if says not in (said := weft_command(folder, "sim", *words, status=REFUSED).stderr):
            raise Failure(f"{words}: {said}")
    return "three formats, to the byte"


ROOT = "tar = 'system.tar'\nremove = ['/usr/share/doc']\n"


LIST = """#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        struct dirent **names;
        int found = scandir(words[i], &names, 0, alphasort);
        for (int n = 0; n < found; n++) {
            char path[1000];
            struct stat about;
            snprintf(path, sizeof path, "%s/%s", words[i], names[n]->d_name);
            if (lstat(path, &about) == 0) printf("%s %o %ld %ld\\n", path, about.st_mode, (long)about.st_size, (long)about.st_mtime);
        }
    }
}
"""


def roots(folder: Path) -> str:
    """A tar file of a container as `/`: two folders made of it have one digest, which the results name, and one hash; a change is found."""
    digests, hashes = set(), set()
    # Programs of nodes run as nobody where root runs weft.
    folder.chmod(0o755)
    for place in ("one", "another/deep"):
        here = folder / place
        here.mkdir(parents=True)
        system_tar(here)
        (here / "lab.toml").write_text(ROOT)
        weft_command(here, "root", "make", "lab.toml")
        digests.add(json.loads((here / "lab.digest.json").read_text())["digest"])
        summary = sim(here, section("nodes.a", root="lab") + program("p", "a", "/bin/list", "/etc", "/usr", "/bin"))
        hashes.add(summary["hash"])
        expect("digest in the summary", {row["digest"] for row in summary["roots"]}, digests)
    expect("digests, and hashes", (len(digests), len(hashes)), (1, 1))
    if (here / "lab/usr/share/doc").exists():
        raise Failure("what was to be removed is there")
    weft_command(here, "root", "check", "lab")
    (here / "lab/etc/motd").write_text("changed")
    expect("told", "is not what it was made as" in weft_command(here, "root", "check", "lab", status=1).stderr, True)
    for text, says in (("", "one of suite and tar"), ("tar = 'none.tar'", "there is no file"), ("tar = 'system.tar'\nremove = ['../x']", "no path in the folder"),
                       ("suit = 'x'", "did you mean 'suite'"), ("suite = 'bookworm'\npackages = ['-x']", "no name of a package")):
        (here / "wrong.toml").write_text(text)
        said = weft_command(here, "root", "make", "wrong.toml", status=REFUSED).stderr
        if says not in said or (here / "wrong").exists():
            raise Failure(f"{text}: {said}")
    return f"digest {digests.pop()[:12]}"


def system_tar(here: Path) -> None:
    """A small system, as `docker export` writes it; times and order are those of the moment."""
    system = here / "system"
    for name in ("bin", "etc", "usr/share/doc", "dev", "var/log"):
        (system / name).mkdir(parents=True)
    (here / "list.c").write_text(LIST)
    compiled(here / "list.c", system / "bin/list", "-static")
    (system / "etc/motd").write_text("welcome")
    (system / "usr/share/doc/x").write_text("doc")
    (system / "var/log/made").write_text(str(time.time()))
    (system / "bin/sh").symlink_to("list")
    subprocess.run(["tar", "-C", system, "-cf", here / "system.tar", "."], check=True)


ROWS: dict[str, Callable[[Path], str]] = {
    "files/collected": collected,
    "files/nothing left": nothing_left,
    "files/everything": everything,
    "files/of a crash": of_a_crash,
    "files/too large": too_large,
    "files/threads": threads,
    "sweep/grid": grid,
    "sweep/resumed": resumed,
    "weft test": tested,
    "roots": roots,
    "beside/scripts": beside,
    "beside/environment": environment,
    "beside/changed": changed_meanwhile,
    "beside/checked": checked,
    "beside/drawn": drawn,
    **refusals.ROWS,
    **doctor.ROWS,
}


def main() -> int:
    return run_rows(ROWS, "/var/tmp", at_once=2)
