"""One program on four hosts: Linux itself, `weft run`, `weft run --strict`, and a node of a simulated world; as root and as a normal user.

Natively it runs in a network namespace with nothing but its loopback, and weft's stacks have no interface either: a program talks to itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from harness import paths, same_host, user
from harness.environment import Environment
from harness.processes import Failure, Process
from virtual import shared

HERE = Path(__file__).parent
LINUX, NOTIFY, STRICT, NODE = HOSTS = ("linux", "notify", "strict", "node")
WEFT = HOSTS[1:]
ROOT, USER = WHO = ("root", "user")
# Nothing but the loopback.
STACK = '[node]\nname = "hosts"\ninterfaces = "none"\n'
ENGINES = ("inline", "queued", "threaded")
FULL = bool(os.environ.get("FULL"))
SECONDS_MAX = 1200 if FULL else 300
# What makes a network namespace like them: its loopback, and ICMP datagram sockets for everybody (which a mapped user cannot say).
# A program manages the paths of Multipath TCP.
BY_PROGRAM = "echo 1 >/proc/sys/net/mptcp/pm_type; "
LINUX_SET_UP = 'ip link set lo up; (echo "0 2147483647" >/proc/sys/net/ipv4/ping_group_range) 2>/dev/null || true; exec "$@"'


@dataclasses.dataclass(frozen=True)
class Said:
    """What a program wrote; of a node also the world's hash."""

    text: str
    hash: str = ""

    def lines(self) -> list[str]:
        return self.text.splitlines()


class Place:
    """A folder that root and a normal user reach, with weft and the programs in it."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.weft = shutil.copy2(str(paths.weft_binary()), env.folder / "weft")
        for engine in ENGINES:
            (env.folder / f"{engine}.toml").write_text(f'{STACK}engine = "{engine}"\n')
        self._runs = itertools.count(1)
        # Rows run beside each other: what one has copied or made, no other replaces while it runs.
        self._making = threading.Lock()
        self._stopped = False
        # By itself: Python lists the folder of a script, and in this one there is more with each run.
        self.programs = env.folder / "programs"
        self.programs.mkdir()

    def stop(self) -> None:
        """Ends what runs; nothing more is started."""
        self._stopped = True
        self.env.close()

    def _start(self, name: str, words: list[str], **variables: str) -> Process:
        if self._stopped:
            raise Failure("stopped")
        return self.env.start(name, words, **variables)

    def compiled(self, source: str) -> str:
        """The program of a C file of this folder."""
        with self._making:
            return str(shared.compiled(HERE / source, self.programs / Path(source).stem, "-Wextra"))

    def script(self, source: str) -> list[str]:
        """The command of a Python file of this folder."""
        script = self.programs / source
        with self._making:
            if not script.exists():
                shutil.copy2(HERE / source, script)
        return [paths.PYTHON, str(script)]

    def text(self, source: str, module: str) -> list[str]:
        """The command of a Python file of this folder that imports one other, without either as a file."""
        run = "import sys, types; one = sys.modules[sys.argv[1]] = types.ModuleType(sys.argv[1]); exec(sys.argv[2], vars(one)); exec(sys.argv[3])"
        return [paths.PYTHON, "-c", run, module, (HERE / f"{module}.py").read_text(), (HERE / source).read_text()]

    def start(self, host: str, who: str, command: list[str], tag: str = "", before: tuple[str, ...] = (), multipath: str = "") -> Process:
        """Starts it on Linux or on a stack in real time. `before`: what starts whoever starts it. `multipath`: with Multipath TCP, which Linux
        has, and this path manager."""
        as_user = who == USER
        become = user.words() if host == LINUX else user.words_with_fuse()
        words = [*(become if as_user and os.geteuid() == 0 else []), *before]
        if host == LINUX:
            alone = [paths.tool("unshare"), "--net", *(["--user", "--map-root-user"] if as_user or os.geteuid() else [])]
            words += [*alone, "sh", "-ec", (BY_PROGRAM if multipath == "userspace" else "") + LINUX_SET_UP, "sh"]
        else:
            words += [self.weft, "run", *(["--strict"] if host == STRICT else []), *multipath_words(multipath), "--stack", str(self.env.folder / f"{engine_of(host, who)}.toml"), "--"]
        return self._start(f"{host}-{who}{tag}", [*words, *command], XDG_RUNTIME_DIR=str(self._home()))

    def run(self, host: str, who: str, command: list[str], may_tell: str = "", before: Sequence[str] = (), multipath: str = "") -> Said:
        """Runs it to its end; a status other than 0 is a Failure. A node may say that it is not reproducible if that is in what it says. `before`: what
        starts the program, or where that is in a node, weft."""
        if host == NODE:
            return self._in_a_node(who, command, may_tell, before, multipath)
        process = self.start(host, who, [*before, *command], multipath=multipath)
        if status := process.wait(SECONDS_MAX):
            raise Failure(f"{host}, {who}: exit status {status}: {failed(process.stdout, process.stderr)}")
        return Said(process.stdout)

    def _home(self) -> Path:
        """A new folder that everybody may write."""
        home = self.env.folder / f"home-{next(self._runs)}"
        home.mkdir()
        home.chmod(0o777)
        return home

    def _in_a_node(self, who: str, command: list[str], may_tell: str, before: Sequence[str], multipath: str) -> Said:
        """As a user on two threads, so that both come to one hash only where neither matters."""
        out = self._home()
        # Beside the program: other folders below /tmp are not the node's.
        file = self.env.folder / f"{out.name}.toml"
        file.write_text(shared.keys(duration="7200s") + shared.section("nodes.a", **node_words(multipath)) + shared.program("body", "a", *command))
        words = [*before, self.weft, "sim", str(file), "--json", "--out", str(out / "results")]
        if who == USER:
            words = [*(user.words() if os.geteuid() == 0 else []), *words, "--threads", "2"]
        process = self._start(f"node-{who}", words)
        status = process.wait(SECONDS_MAX)
        written = out / "results" / "programs" / "body" / "stdout"
        text = written.read_text() if written.exists() else ""
        if status:
            raise Failure(f"node, {who}: exit status {status}: {failed(text, process.stderr)}")
        summary = json.loads(process.stdout)
        if told := [one for one in summary["not_reproducible"] if not may_tell or may_tell not in one]:
            raise Failure(f"node, {who}: {told}")
        return Said(text, summary["hash"])


def multipath_words(manager: str) -> list[str]:
    """Words of `weft run` for Multipath TCP with this path manager."""
    return ["--mptcp", "--set", f"mptcp.path_manager={manager}"] if manager else []


def node_words(manager: str) -> dict:
    """The same of a node; how its programs set it is another test's business."""
    return {"mptcp": True, "parameters": {"mptcp.path_manager": manager}} if manager else {}


def failed(said: str, wrong: str) -> str:
    """What a program wrote that failed: the error first, for only the first lines of it all are printed."""
    return f"{wrong.strip()[-1500:]}\n{said[-1500:]}".strip()


def engine_of(host: str, who: str) -> str:
    """Root's stack runs inline, a user's on another engine; the full form gives that one to the other adapter."""
    if who == ROOT:
        return "inline"
    return "threaded" if (host == STRICT) != FULL else "queued"


def differing(one: Said, other: Said) -> str:
    """The lines in which they differ, whatever the order."""
    missing, more = sorted(set(one.lines()) - set(other.lines())), sorted(set(other.lines()) - set(one.lines()))
    return "\n".join([*(f"- {line}" for line in missing), *(f"+ {line}" for line in more)])


def same_everywhere(place: Place, command: list[str], hosts: tuple[str, ...] = WEFT, whos: tuple[str, ...] = WHO) -> str:
    """What Linux says is said on each host, as root and as a user, and the node has one hash."""
    linux = place.run(LINUX, ROOT, command)
    if not linux.text:
        raise Failure("on Linux it says nothing")
    for host in hosts:
        said = [same_host.ask(lambda who=who, host=host: place.run(host, who, command)) for who in whos]
        for who, one in zip(whos, said, strict=True):
            if wrong := differing(linux, one):
                raise Failure(f"{host}, {who}: beside Linux\n{wrong}")
        if len({one.hash for one in said}) != 1:
            raise Failure(f"node: as root {said[0].hash}, as a user on two threads {said[1].hash}")
    return f"{len(linux.lines())} lines, the same on {len(hosts)} hosts"
