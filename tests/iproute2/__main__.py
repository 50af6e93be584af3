"""Scripts of `ip`, `ss` and `tc`, run unmodified on three hosts: the host kernel, weft in real time, weft in virtual time.

    python3 -m iproute2 [--show] [NAME…]

scripts.txt has the scripts. Natively each runs in a network namespace of its own, on one end of a veth pair whose other end is in a second one; under `weft
run` on a stack of its own; in virtual time all of them in one world, each on a node of its own, as `sh script`. In all three places the interface is weft0, number
2, with one MAC address, and up. Standard output, standard error and exit status of every command are compared.

What is taken out of both sides before (`normal`):

- the other end of the veth pair: `@if3`, `link-netnsid 0`, and their JSON fields;
- lifetimes count down: seconds are rounded up to tens;
- counters of `-s` on weft0: the kernel sends multicast of its own. Those of lo stay;
- what ip says of names in /run/netns that others take away meanwhile;
- references of queues (`refcnt`), which are as many as the device has transmit queues; handles of queues that nobody chose, for which the kernel counts on for the
  whole machine: they are numbered as they come, from 8001;
- neighbours and connections are listed in the order of a hash: sorted, line by line within one command; ages and references of `-s`.

In the namespace IPv6 addresses are usable at once (accept_dad=0, as dad_transmits=0 on weft).

What the kernel and weft do by a timer may come late on a busy machine: a script that does not compare in real time as it should is run again on both, up to three
times, and counts when it never does.

A script that differs is a row of the table in docs/compatibility.md ("iproute2"), with the reason. One that differs without a row fails, and so does a row whose
script does not differ. A row whose reason begins with "not compared" is about what the kernel at hand may not have: its script says the same in real and in
virtual time. `--show` prints the differences.

The test can fail: a script with one answer exchanged must differ (`canary`).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import paths, results
from harness.environment import Environment, run_main
from harness.processes import Failure
from harness.weft import binary

HERE = Path(__file__).parent
DOCUMENT = paths.ROOT / "docs" / "compatibility.md"
MAC = "02:00:00:00:00:0a"
SCRIPT_SECONDS_MAX = 60
WORLD_SECONDS_MAX = 1200
ATTEMPTS_MAX = 3
REAL, VIRTUAL = "real", "virtual"
# The two with each other.
NEITHER = "real and virtual"

STACK = f"""[node]
name = "twin"
[[interface]]
name = "weft0"
backend = "BACKEND"
mac = "{MAC}"
[block.nd]
dad_transmits = 0
router_solicitations = 0
"""
# Scripts whose names begin so are about Multipath TCP, which the kernel has.
MULTIPATH = "mptcp"
# A program manages paths: net.mptcp.pm_type, which in real time is the host's.
BY_PROGRAM = "mptcp-mptcpd-sspi"
BY_PROGRAM_PARAMETERS = '\n[block.mptcp]\npath_manager = "userspace"\n'


# Natively. $1: the script. The other end lives in a namespace that ends with this shell.
NATIVE = f"""
unshare -n sleep 300 & other=$!
trap 'kill $other' EXIT
for i in 1 2 3 4 5 6 7 8 9; do [ /proc/$other/ns/net -ef /proc/self/ns/net ] || break; sleep 0.1; done
for f in all default; do
  echo 0 > /proc/sys/net/ipv6/conf/$f/accept_dad
  echo 0 > /proc/sys/net/ipv6/conf/$f/accept_ra
done
ip link set lo up
ip link add weft0 index 2 address {MAC} type veth peer name other netns $other
nsenter --net=/proc/$other/ns/net ip link set other up
ip link set weft0 up
# The carrier, and the link-local address of it, come a moment later; what is told of them a moment after that.
for i in $(seq 50); do
  ip link show weft0 | grep -q 'state UP' && ip -6 route | grep -q '^fe80::/64 dev weft0' && ! ip addr show tentative | grep -q inet6 && break
  sleep 0.05
done
sleep 0.3
sh "$1"
"""


# ip(8) looks through all names in /run/netns, and says so when another test takes its own away meanwhile.
OTHERS_ENDED = "Error: Peer netns reference is invalid.\n"


def stack(name: str, backend: str) -> str:
    """The stack file of a script."""
    text = STACK.replace("BACKEND", backend)
    if name.startswith(MULTIPATH):
        text = text.replace("[node]\n", "[node]\nmptcp = true\n")
    return text + BY_PROGRAM_PARAMETERS if name == BY_PROGRAM else text


class Script:
    """Commands under a name."""

    def __init__(self, name: str, commands: list[str]) -> None:
        self.name = name
        self.commands = commands

    def text(self, folder: str) -> str:
        """As a shell script that says each command and how it ended."""
        lines = ["export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"T={folder}",
                 'r() { printf \'$ %s\\n\' "$1"; printf \'$ %s\\n\' "$1" >&2; eval "$1"; printf \'status %s\\n\' "$?"; }']
        return "\n".join(lines + [f"r {shlex.quote(command)}" for command in self.commands]) + "\n"


def read_scripts() -> list[Script]:
    scripts: list[Script] = []
    for line in (HERE / "scripts.txt").read_text().splitlines():
        if line.startswith("== "):
            scripts.append(Script(line[3:].strip(), []))
        elif line and not line.startswith("#"):
            scripts[-1].commands.append(line)
    return scripts


def listed() -> dict[str, tuple[str, str]]:
    """The rows of docs/compatibility.md: script, where it differs (real, virtual, both), why."""
    text = DOCUMENT.read_text()
    match = re.search(r"<!-- table: iproute2 -->\n(.*?)<!-- end -->", text, re.S)
    if match is None:
        raise Failure(f"{DOCUMENT.name} has no table between '<!-- table: iproute2 -->' and '<!-- end -->'")
    rows = {}
    for line in match.group(1).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) >= 3 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = (cells[1], cells[2])
    return rows


def normal(output: str) -> str:
    """See the module."""
    output = output.replace(OTHERS_ENDED, "")
    output = re.sub(r"@if\d+", "", output)
    output = re.sub(r" link-netnsid \d+", "", output)
    output = re.sub(r'"link_index":\d+,|"link_netnsid":\d+,|,"link_netnsid":\d+', "", output)
    output = re.sub(r"^(\S+) +(UP|DOWN|UNKNOWN) ", r"\1 \2 ", output, flags=re.M)
    output = re.sub(r"(valid_lft|preferred_lft) (\d+)sec", lambda m: f"{m[1]} {-(-int(m[2]) // 10) * 10}sec", output)
    output = re.sub(r'("(?:valid|preferred)_life_time":)(\d{1,9})\b', lambda m: f"{m[1]}{-(-int(m[2]) // 10) * 10}", output)
    output = re.sub(r'(\brefcnt |"refcnt":)\d+', r"\1N", output)
    handles: dict[str, str] = {}
    number = lambda m: m[1] + handles.setdefault(m[2], f"{0x8001 + len(handles):x}") + ":"
    output = re.sub(r'(qdisc \w+ |"handle":")(8[0-9a-f]{3}):', number, output)
    output = re.sub(r" ref \d+", "", re.sub(r"used \d+/\d+/\d+ ?probes \d+", "used", output))
    return "\n".join(line.rstrip() for part in _commands(output) for line in part)


def _commands(output: str):
    """The lines of each command, those of neighbours sorted, numbers of `-s` on weft0 taken out."""
    parts: list[list[str]] = [[]]
    for line in output.splitlines():
        if line.startswith("$ "):
            parts.append([])
        parts[-1].append(line)
    for lines in parts:
        command = lines[0] if lines else ""
        if re.match(r"\$ ip (-\S+ )*neigh", command):
            body = [_sorted_json(line) for line in lines[1:]]
            lines = [lines[0], *sorted(body, key=lambda line: (line.startswith("status "), line))]
        if "'ss'" in command:
            lines = [lines[0], *sorted(lines[1:])]
        if re.match(r"\$ tc .*-s .*weft0", command):
            lines = [re.sub(r"\b\d+", "N", line) if re.match(r" (Sent|backlog)", line) else line for line in lines]
        if re.match(r"\$ ip -s .*weft0", command):
            lines = [re.sub(r"\d+", "N", line) if re.match(r"\s+\d+ ", line) else line for line in lines]
            lines = [re.sub(r"\s+", " ", line) for line in lines]
        yield lines


def _sorted_json(line: str) -> str:
    if not line.startswith("[{"):
        return line
    return json.dumps(sorted(json.loads(line), key=lambda row: row["dst"]))


Outcome = dict[str, tuple[str, str]]


def run_one(env: Environment, words: list[str], folder: Path) -> tuple[str, str]:
    """Standard output and error of a command; Failure when it takes too long."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                               env=env.variables(), cwd=folder, start_new_session=True)
    try:
        out, error = process.communicate(timeout=SCRIPT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, error = process.communicate()
        raise Failure(f"{' '.join(words)} took more than {SCRIPT_SECONDS_MAX} s; it had said:\n{out}\n{error}") from None
    return normal(out), normal(error)


def natively(env: Environment, script: Script, attempt: int) -> tuple[str, str]:
    folder = env.folder / f"native{attempt}" / script.name
    folder.mkdir(parents=True)
    (folder / "script").write_text(script.text(str(folder)))
    (folder / "native").write_text(NATIVE)
    return run_one(env, [paths.tool("unshare"), "-n", "sh", str(folder / "native"), str(folder / "script")], folder)


def in_real_time(env: Environment, script: Script, attempt: int) -> tuple[str, str]:
    folder = env.folder / f"real{attempt}" / script.name
    folder.mkdir(parents=True)
    (folder / "script").write_text(script.text(str(folder)))
    (folder / "stack.toml").write_text(stack(script.name, "tap:weft0"))
    options = ["--strict"] if os.environ.get("STRICT") else []
    return run_one(env, [paths.tool("unshare"), "-n", binary(), "run", *options, "--stack", str(folder / "stack.toml"), "--", "sh",
                         str(folder / "script")], folder)


def in_virtual_time(env: Environment, scripts: list[Script]) -> Outcome:
    """All of them in one world."""
    folder = env.folder / "virtual"
    folder.mkdir()
    for name in ("stack", MULTIPATH):
        (folder / f"{name}.toml").write_text(stack(name, "wire:weft0"))
    text = ['seed = 1', 'duration = "60s"', "[nodes.lan]", 'kind = "switch"']
    for number, script in enumerate(scripts):
        text += [f"[nodes.n{number}]", f'stack = "{MULTIPATH if script.name.startswith(MULTIPATH) else "stack"}.toml"', "addresses = {}", f"files = {{ \"/srv/script\" = {json.dumps(script.text('/tmp'))} }}",
                 f"[wires.w{number}]", f'between = ["n{number}:weft0", "lan"]',
                 f"[programs.p{number}]", f'node = "n{number}"', 'command = ["sh", "/srv/script"]', 'expect = "any"']
    (folder / "world.toml").write_text("\n".join(text) + "\n")
    words = [binary(), "sim", str(folder / "world.toml"), "--out", str(folder / "out")]
    run = subprocess.run(words, capture_output=True, text=True, timeout=WORLD_SECONDS_MAX, env=env.variables(), cwd=folder)
    outcome = {}
    for number, script in enumerate(scripts):
        program = folder / "out" / "programs" / f"p{number}"
        try:
            outcome[script.name] = (normal((program / "stdout").read_text()), normal((program / "stderr").read_text()))
        except FileNotFoundError:
            raise Failure(f"the world did not run {script.name}: {run.stderr[-2000:]}") from None
    return outcome


def difference(native: tuple[str, str], weft: tuple[str, str], where: str) -> str:
    """Empty: none."""
    lines = []
    for stream, one, other in zip(("stdout", "stderr"), native, weft):
        lines += list(difflib.unified_diff(one.splitlines(), other.splitlines(), f"kernel {stream}", f"{where} {stream}", lineterm="", n=2))
    return "\n".join(lines)


def judge(recorder: results.Recorder, name: str, differences: dict[str, str], row: tuple[str, str] | None, seconds: float) -> None:
    """A row of results for a script: what differs must be listed, and what is listed must differ."""
    if NEITHER in differences:
        said = differences[NEITHER]
        recorder.add(results.Row(name, results.FAILED if said else results.PASSED, seconds, said or f"as listed: {row[1] if row else ''}"))
        return
    differs = {where for where, text in differences.items() if text}
    wanted = set() if row is None else {REAL, VIRTUAL} if row[0] == "both" else {row[0]}
    said = "\n".join(text for text in differences.values() if text)
    if differs == wanted:
        recorder.add(results.Row(name, results.PASSED, seconds, "" if row is None else f"differs, as listed: {row[1]}"))
    elif differs - wanted:
        recorder.add(results.Row(name, results.FAILED, seconds, said))
    else:
        recorder.add(results.Row(name, results.FAILED, seconds,
                                 f"docs/compatibility.md lists it as different ({row[0] if row else '-'}), but it differs in: {sorted(differs) or 'nothing'}"))


def canary(recorder: results.Recorder, native: Outcome) -> None:
    """One exchanged answer, one exchanged status and one word of an error are each seen."""
    out, error = native["link-mtu-errors"]
    changes = {
        "canary: an answer": (out.replace("mtu 1500", "mtu 1501", 1), error),
        "canary: a status": (out.replace("status 2", "status 0", 1), error),
        "canary: a sentence": (out, error.replace("less than", "below", 1)),
    }
    for name, changed in changes.items():
        seen = changed != (out, error) and difference((out, error), changed, REAL)
        recorder.add(results.Row(name, results.PASSED if seen else results.FAILED, 0, "" if seen else "an exchanged line is not seen"))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    recorder = results.Recorder()
    scripts = [script for script in read_scripts() if not options.names or script.name in options.names]
    rows = listed()
    names = [script.name for script in scripts]
    if len(set(names)) != len(names):
        raise Failure("two scripts have one name")
    unknown = set(rows) - set(names) if not options.names else set()
    if unknown:
        raise Failure(f"docs/compatibility.md lists scripts that there are not: {', '.join(sorted(unknown))}")
    with Environment("iproute2") as env:
        world = concurrent.futures.ThreadPoolExecutor(1).submit(in_virtual_time, env, scripts)
        native: Outcome = {}
        real: Outcome = {}
        took: dict[str, float] = {}

        def both(script: Script) -> None:
            """The kernel's timers may be late on a busy machine: what is not as expected is asked again, up to ATTEMPTS_MAX times."""
            started = time.monotonic()
            for attempt in range(ATTEMPTS_MAX):
                native[script.name] = natively(env, script, attempt)
                real[script.name] = in_real_time(env, script, attempt)
                row = rows.get(script.name)
                if row is not None and row[1].startswith("not compared"):
                    break
                if (native[script.name] != real[script.name]) == (row is not None and row[0] in ("both", REAL)):
                    break
            took[script.name] = time.monotonic() - started

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for done in concurrent.futures.as_completed([pool.submit(both, script) for script in scripts]):
                done.result()
        virtual = world.result()
        for script in scripts:
            name = script.name
            if name in rows and rows[name][1].startswith("not compared"):
                differences = {NEITHER: difference(real[name], virtual[name], VIRTUAL).replace("--- kernel", "--- real")}
            else:
                differences = {where: difference(native[name], weft[name], where) for where, weft in ((REAL, real), (VIRTUAL, virtual))}
            if options.show:
                print(f"== {name}", *filter(None, differences.values()), sep="\n", flush=True)
            judge(recorder, name, differences, rows.get(name), took[name])
        if not options.names:
            canary(recorder, native)
    return recorder.finish()


if __name__ == "__main__":
    if shutil.which("ip") is None:
        sys.exit("iproute2 is not installed")
    sys.exit(run_main(main))
