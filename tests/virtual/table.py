"""The table of programs in virtual time: each row is a generated scenario of unmodified programs.

    python3 -m virtual programs          ONLY=word,word selects rows by name; FULL=1 adds what takes long

A row runs twice, as root on one thread and as an unprivileged user on two, and must come to one hash; what its programs said is
checked as in the real-time form (tests/programs). A canary runs it once more with the wire losing everything: it must fail.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable

from harness import paths, results, same_host, user, weft
from harness.environment import Environment
from harness.processes import PATIENCE, Failure
from programs.shared import IPV4, IPV6, SERVERS, Family, Shared, prepare

from .shared import where

FULL = bool(os.environ.get("FULL"))
SECONDS_MAX = 240 * PATIENCE
# Certificates hold from the moment of their making: the worlds begin on the next day.
TOMORROW = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)).date().isoformat()
# Most worlds wait for their own programs: one more than a small machine has processors costs nothing.
ROWS_AT_ONCE = 2


@dataclasses.dataclass
class Files:
    """What the rows read: the files of the real-time table, and copies of what an unprivileged user may not reach in the checkout."""

    shared: Shared
    folder: Path
    servers: Path
    packages: Path

    @property
    def ssh_keys(self) -> dict[str, str]:
        """As files of a node: their owner there is its root, and nobody outside has to read them."""
        shared = self.shared
        return {"/etc/weft-host-key": shared.ssh_host_key.read_text(), "/etc/weft-user-key": shared.ssh_key.read_text(),
                "/etc/weft-user-key.pub": shared.ssh_key.with_suffix(".pub").read_text()}


class World:
    """The scenario of a row: a client and a server on one wire, perhaps with a router between them.

        client, .2 ── wire "near" ── server, .1          client, .2 ── "near" ── router ── "far" ── server

    In a ring, client and server are joined by a third wire, "side".
    """

    def __init__(self, files: Files, family: Family, router: bool, ring: bool = False) -> None:
        self.files, self.shared, self.family, self.router, self.ring = files, files.shared, family, router or ring, ring
        self.near = "10.77.0.254" if family is IPV4 else "fd77::fe"
        self.client = family.stack
        self.server = family.host if not self.router else ("10.78.0.1" if family is IPV4 else "fd78::1")
        self.sections: list[str] = []
        # A program of the server gives the client its address.
        self.leased = False
        self.own_files: dict[str, dict[str, str]] = {}
        self.lines: dict[str, list[str]] = {}
        self.duration = "40s"
        # Nodes that are Linux kernels.
        self.linux: frozenset[str] = frozenset()

    @property
    def host(self) -> str:
        """The server's address as a URL wants it."""
        return f"[{self.server}]" if self.family is IPV6 else self.server

    def own(self, node: str, **files: str) -> None:
        """Gives a node files; `own("server", **{"/etc/x": "text"})`."""
        self.own_files.setdefault(node, {}).update(files)

    def program(self, name: str, node: str, *command: str, start: str = "0s", expect: str | int = 0, **variables: str) -> None:
        lines = [f"[programs.{name}]", f'node = "{node}"', f"command = {json.dumps(list(map(str, command)))}",
                 f'start = "{start}"', f"expect = {json.dumps(expect)}"]
        variables = {"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        lines.append("environment = { " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in variables.items()) + " }")
        self.sections.append("\n".join(lines))

    def serve(self, *command: str, name: str = "server", **more) -> None:
        """A server; it is expected to go on running."""
        self.program(name, "server", *command, expect="running", **more)

    def call(self, *command: str, name: str = "client", start: str = "2s", **more) -> None:
        """A client; it is expected to end well."""
        self.program(name, "client", *command, start=start, **more)

    def shell(self, script: str, **more) -> None:
        """A client that is a few commands of a shell; the first that fails ends it."""
        self.call("bash", "-euc", "set -o pipefail\n" + script, **more)

    def text(self) -> str:
        bits = self.family.bits
        far_side = "10.78.0.254" if self.family is IPV4 else "fd78::fe"
        addresses = {"client": {"eth0": self.client}, "server": {"eth0": self.server}}
        if self.router:
            addresses["router"] = {"eth0": self.near, "eth1": far_side}
        if self.ring:
            side = "10.79.0." if self.family is IPV4 else "fd79::"
            addresses["client"]["eth1"], addresses["server"]["eth1"] = f"{side}1", f"{side}2"
        lines = [f'duration = "{self.duration}"', f"start = {TOMORROW}T00:00:00Z"]
        for node, interfaces in addresses.items():
            given = ", ".join(f'{name} = "{address}/{bits}"' for name, address in interfaces.items())
            how = "dhcp = true" if self.leased and node == "client" else f"addresses = {{ {given} }}"
            lines += [f"[nodes.{node}]", how, *self.lines.get(node, [])]
            lines += ['kind = "linux"'] if node in self.linux else []
            if files := self.own_files.get(node):
                lines.append("files = { " + ", ".join(f"{json.dumps(path)} = {json.dumps(text)}" for path, text in files.items()) + " }")
        wires = [("near", "client", "router"), ("far", "router", "server")] if self.router else [("near", "client", "server")]
        if self.ring:
            wires.append(("side", "client", "server"))
        for name, one, other in wires:
            lines += [f"[wires.{name}]", f'between = ["{one}", "{other}"]', 'rate = "100mbit"', 'delay = "1ms"']
        return "\n".join([*lines, *self.sections]) + "\n"


class Said:
    """What the programs of a run said."""

    def __init__(self, out: Path) -> None:
        self._out = out

    def __call__(self, program: str = "client") -> str:
        return (self._out / "programs" / program / "stdout").read_text()

    def error(self, program: str = "client") -> str:
        return (self._out / "programs" / program / "stderr").read_text()


Check = Callable[[Said], None]
Body = Callable[[World], Check]


@dataclasses.dataclass(frozen=True)
class Row:
    body: Body
    family: Family = IPV4
    router: bool = False
    ring: bool = False
    # What of the scenario's text a canary replaces by what; None: it makes the wire lose everything.
    canary: tuple[str, str] | None = None
    # Why it has no canary.
    alone: str = ""
    full_only: bool = False
    # What it waits for before it can run; empty: it runs.
    awaits: str = ""


ROWS: dict[str, Row] = {}


def row(body: Body | None = None, families: tuple[Family, ...] = (IPV4, IPV6), **more) -> Callable:
    """Registers a row, once for each IP version: `nc` and `nc-6`."""
    if body is None:
        return lambda body: row(body, families, **more)
    for family in families:
        ROWS[body.__name__.replace("_", "-") + ("-6" if family is IPV6 else "")] = Row(body, family, **more)
    return body


class Runner:
    """Runs rows with a binary and in a folder that every user can read."""

    def __init__(self, files: Files, linux: frozenset[str] = frozenset(), label: str = "", runs: int = 2) -> None:
        self.files, self.linux, self.label, self.runs = files, linux, label, runs
        self.binary = files.folder / "weft"

    def scenario(self, row: Row) -> tuple[str, Check]:
        world = World(self.files, row.family, row.router, row.ring)
        world.linux = self.linux
        check = row.body(world)
        return world.text(), check

    def run(self, name: str, way: str, text: str, *words: str, as_user: bool = False) -> tuple[str, Path]:
        """The hash and the results; Failure when the run fails."""
        folder = self.files.folder / (name + self.label)
        file, out = folder / "scenario.toml", folder / way
        folder.mkdir(exist_ok=True)
        file.write_text(text)
        # There when a row is asked again.
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        out.chmod(0o777)
        command = [str(self.binary), "sim", str(file), "--json", "--out", str(out), *words]
        if as_user:
            command = [*user.words(), *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/")
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{way}: no end after {SECONDS_MAX} s of wall time") from error
        if done.returncode != 0:
            raise Failure(f"{way}: exit status {done.returncode}\n{done.stderr[-1500:]}\n{errors(out)}")
        summary = json.loads(done.stdout)
        if summary["not_reproducible"]:
            raise Failure(f"{way}: {summary['not_reproducible']}")
        return summary["hash"], out

    def row(self, name: str) -> str:
        """Its check, and one hash as root on one thread and as a user on two, in turns."""
        text, check = self.scenario(ROWS[name])
        first, out = self.run(name, "first", text)
        self.check(check, out)
        for number in range(1, self.runs):
            as_user = number % 2 == 1
            again, other = self.run(name, f"again-{number}", text, "--threads", str(1 + as_user), as_user=as_user and os.geteuid() == 0)
            if first != again:
                raise Failure(f"{first}, and in run {number + 1} {again}: {where(out, other)}")
            shutil.rmtree(other)
        return first

    def canary(self, name: str) -> str:
        """It must fail."""
        row = ROWS[name]
        text, check = self.scenario(row)
        words = ["--set", "wires.near.loss=1.0"]
        if row.canary:
            words = []
            if row.canary[0] not in text:
                raise Failure(f"the canary finds no {row.canary[0]!r} in the scenario")
            text = text.replace(*row.canary)
        try:
            _, out = self.run(name, "canary", text, *words)
            self.check(check, out)
        except Failure as failure:
            return str(failure).splitlines()[0]
        raise Failure("the row still passes: it does not show that anything went over the wire")

    @staticmethod
    def check(check: Check, out: Path) -> None:
        try:
            check(Said(out))
        except Failure as failure:
            raise Failure(f"{failure}\n{errors(out)}") from failure
        except (ValueError, OSError, KeyError, IndexError, StopIteration) as error:
            raise Failure(f"the result does not parse: {type(error).__name__}: {error}\n{errors(out)}") from error


def errors(out: Path) -> str:
    """The last that each program said, and who still waits for what."""
    said = [f"{path.parent.name}/{path.name}: {path.read_text(errors='replace')[-700:]}"
            for path in sorted(out.glob("programs/*/std*")) if path.stat().st_size]
    return "\n".join(said)


def prepare_files(env: Environment) -> Files:
    shared = prepare(env)
    servers, packages = env.folder / "servers", env.folder / "packages"
    shutil.copytree(SERVERS, servers)
    subprocess.run([paths.tool("javac"), "-d", str(servers), str(servers / "Crowd.java")], check=True)
    (found,) = paths.venv_python().parents[1].glob("lib/python3*/site-packages")
    shutil.copytree(found, packages, ignore=shutil.ignore_patterns("__pycache__", "pip", "setuptools"))
    subprocess.run(["chmod", "-R", "a+rX", str(servers), str(packages)], check=True)
    shutil.copy2(weft.binary(), env.folder / "weft")
    return Files(shared, env.folder, servers, packages)


def case(name: str, body: Callable[[], str]) -> results.Row:
    started = time.monotonic()
    try:
        outcome, reason = results.PASSED, same_host.ask(body)
    except Failure as failure:
        outcome, reason = results.FAILED, str(failure)
    except Exception as error:  # a fault of the harness: a failure of this row only
        outcome, reason = results.FAILED, f"{type(error).__name__}: {error}"
    return results.Row(name, outcome, time.monotonic() - started, reason)


def main() -> int:
    from . import table_rows  # noqa: F401  its rows register themselves

    wanted = os.environ.get("ONLY", "").replace(",", " ").split()
    chosen = [name for name, row in ROWS.items() if not row.awaits and (FULL or not row.full_only) and (not wanted or any(word in name for word in wanted))]
    recorder = results.Recorder()
    # A node has a /tmp of its own: what programs are to find lies elsewhere.
    tempfile.tempdir = "/var/tmp"
    with Environment("programs-sim") as env:
        runner = Runner(prepare_files(env))
        cases = [(name, lambda name=name: runner.row(name)) for name in chosen]
        cases += [(f"{name}/canary", lambda name=name: runner.canary(name)) for name in chosen if not ROWS[name].alone]
        with concurrent.futures.ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
            for found in pool.map(lambda pair: case(*pair), cases):
                recorder.add(found)
    return recorder.finish()
