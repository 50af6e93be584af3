"""`make test-gdb`: gdb and a world. A breakpoint that holds for one node only, and what `tools/gdb/weft.py` knows about the rest.

Virtual time stands still while somebody looks: two sessions say the same. No session may call a function of the program that it looks at.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

from .shared import SECONDS_MAX, compiled, difference, expect, keys, program, run_rows, section, tcp, weft_command

FULL = bool(os.environ.get("FULL"))
WORLD = section("nodes.client") + section("nodes.router") + section("nodes.server")
WORLD += section("wires.cr", between=["client", "router"], delay="1ms") + section("wires.rs", between=["router", "server"], rate="100mbit", delay="2ms")
WORLD += tcp("client", "server", bytes=100_000)

# Called for every segment that TCP sends, on every node. What a node has is asked for while all texts are Rust's, and while they are C's.
SESSION = """
set pagination off
set confirm off
set width 0
set may-call-functions off
python
def frames():
    # The innermost may be those of functions that the compiler has put in place.
    frame = gdb.selected_frame()
    while frame is not None:
        yield frame.name()
        frame = frame.older() if frame.type() == gdb.INLINE_FRAME else None
def place():
    # With line tables alone functions have no modules.
    for name in ("weft_tcp::connection::headers::write_header", "write_header"):
        try:
            gdb.decode_line(name)
            return name
        except gdb.error:
            pass
gdb.execute(f'break {place()} if $weft_on(b"server")')
end
run
python print("stop", *frames())
weft where
weft sockets
continue
python print("stop", *frames())
weft where
weft nodes
delete
python
answers = []
for language, literal in ("rust", 'b"server"'), ("rust", 'b"client"'), ("c", '"server"'), ("c", '"serve"'), ("auto", 'b"server"'):
    gdb.execute(f"set language {language}")
    answers.append(int(gdb.parse_and_eval(f"$weft_on({literal})")))
print("languages", *answers)
end
python gdb.execute(f'tbreak {place()} if $weft_on(b"client") && $weft_time() > 10000000')
continue
weft where
continue
"""
BREAK_AT = """
set pagination off
set confirm off
set may-call-functions off
run
weft where
continue
"""


# A program of the scenario: what it holds is known from its symbols alone.
COUNTS = """
#include <stdio.h>
#include <time.h>
struct turn { int number; const char *name; };
__attribute__((noinline)) int add(struct turn *turn, int sum) { return sum + turn->number; }
int main(void)
{
    int sum = 0;
    for (int n = 1; n <= 5; n++) {
        struct turn turn = {n, "turn"};
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, 0);
        sum = add(&turn, sum);
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("sum %d at %ld.%09ld\\n", sum, now.tv_sec, now.tv_nsec);
    return 0;
}
"""
# Time passes outside (more than the ten seconds after which a program that makes no call is interrupted) and none inside.
PROGRAM_SESSION = """
set may-call-functions off
break add if turn->number == 3
continue
backtrace
print *turn
print sum
weft where
shell sleep SECONDS
weft where
finish
delete
weft libraries
tbreak clock_gettime
continue
weft where
continue
"""


def session(folder: Path, script: str, *words: str) -> list[str]:
    (folder / "world.toml").write_text(WORLD)
    (folder / "script").write_text(script)
    command = [paths.tool("gdb"), "-nx", "-batch", "-x", str(paths.ROOT / "tools" / "gdb" / "weft.py"), "-x", "script", "--args", weft.binary(), "sim",
               "world.toml", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    return (done.stdout + done.stderr).splitlines()


def says(lines: list[str], pattern: str) -> list[str]:
    return [line for line in lines if re.search(pattern, line)]


def one_node_only(folder: Path) -> str:
    """It stops twice in a function of TCP on the node "server", though the others call it as well; then once on another, after a time."""
    sessions = [session(folder, SESSION) for _ in range(2)]
    for lines in sessions:
        text = "\n".join(lines)
        if len(says(lines, r"^stop .*write_header")) != 2:
            raise Failure(f"it does not stop twice:\n{text[-3000:]}")
        places = says(lines, r"^node \w+ at [\d.]+ s$")
        nodes = [line.split()[1] for line in places]
        expect("nodes", nodes, ["server", "server", "client"])
        expect("in each language", says(lines, "^languages "), ["languages 1 0 1 0 1"])
        times = [float(line.split()[3]) for line in places]
        if not 0.003 <= times[0] <= times[1] or times[2] <= 0.01:
            raise Failure(f"times: {times}")
        if not says(lines, r"tcp .*LISTEN.*:5001") or not all(says(lines, rf"^{node} .* events$") for node in ("client", "router", "server")):
            raise Failure(f"`weft sockets` or `weft nodes` says something else:\n{text[-3000:]}")
        if says(lines, "may-call-functions is off"):
            raise Failure(f"something calls a function of the program:\n{text[-3000:]}")
        if not says(lines, r"^hash [0-9a-f]{32}$"):
            raise Failure(f"the run does not end:\n{text[-3000:]}")
    kept = [says(lines, r"^(stop|node|hash|server|client|router) ") for lines in sessions]
    expect("second session", kept[1], kept[0])
    return "; ".join(says(sessions[0], r"^node "))


def same_hash(folder: Path) -> str:
    """Who is looked at comes to the same hash as who is not."""
    (folder / "world.toml").write_text(WORLD)
    plain = weft_command(folder, "sim", "world.toml").stdout
    watched = says(session(folder, SESSION), "^hash ")
    expect("hash", watched, [line for line in plain.splitlines() if line.startswith("hash ")])
    return watched[0]


def break_at(folder: Path) -> str:
    """`--break-at` stops in gdb before the first event at that time."""
    lines = session(folder, BREAK_AT, "--break-at", "5ms")
    places = says(lines, r"^node \w+ at [\d.]+ s$")
    if len(places) != 1 or not 0.005 <= float(places[0].split()[3]) < 0.01 or not says(lines, "^hash ") or not says(lines, "SIGTRAP"):
        raise Failure("\n".join(lines)[-3000:])
    return places[0]


def counts(folder: Path, flags: tuple[str, ...]) -> str:
    """The scenario of a C program."""
    # Root's nodes are nobody outside.
    folder.chmod(0o755)
    (folder / "counts.c").write_text(COUNTS)
    return keys(boot="0s") + WORLD + program("counts", "client", str(compiled(folder / "counts.c", folder / "counts", "-O0", "-g", *flags)), start="10ms")


def watched_program(folder: Path, *flags: str) -> str:
    """`--gdb`: a breakpoint in a program of the scenario, its variables; time stands still, and the hash is the one without gdb."""
    (folder / "world.toml").write_text(counts(folder, flags))
    plain = weft_command(folder, "sim", "world.toml", "--out", "plain").stdout
    if "counts: sum 15 at 1." not in plain:
        raise Failure(plain)
    (folder / "script").write_text(PROGRAM_SESSION.replace("SECONDS", "12" if FULL else "1"))
    done = weft_command(folder, "sim", "world.toml", "--out", "watched", "--gdb", "client/counts", "--gdb-script", "script")
    lines = done.stdout.splitlines()
    text = "\n".join(lines) + done.stderr
    places = says(lines, r"^node client at [\d.]+ s$")
    if len(places) != 3 or places[0] != places[1] or not places[0].split()[3].startswith("0.04"):
        raise Failure(f"places: {places}\n{text[-3000:]}")
    for pattern in (r"^#0 +add \(turn=0x[0-9a-f]+, sum=3\) at .*counts\.c", r"^#1 .* main \(\) at ", r'= \{number = 3, name = .* "turn"\}', r"^\$2 = 3$", r"^Value returned is .* = 6$",
                    r"libc\.so", r"clock_gettime", "exited normally"):
        if not says(lines, pattern):
            raise Failure(f"gdb does not say {pattern}:\n{text[-3000:]}")
    expect("hash", says(lines, "^hash "), says(plain.splitlines(), "^hash "))
    difference(folder / "plain", folder / "watched")
    return places[0]


def nobody(folder: Path) -> str:
    """A program that is not there is named, and those that are."""
    (folder / "world.toml").write_text(counts(folder, ()))
    said = weft_command(folder, "sim", "world.toml", "--gdb", "client/nobody", status=2).stderr
    if "client/nobody" not in said or "client/counts" not in said:
        raise Failure(said)
    return said.splitlines()[0]


def main() -> int:
    return run_rows({"one node only, twice the same": one_node_only, "one hash": same_hash, "--break-at": break_at, "--gdb": watched_program,
                     "--gdb, not position-independent": lambda folder: watched_program(folder, "-no-pie"), "--gdb, no such program": nobody}, directory="/var/tmp")
