"""weft killed under load, and programs killed under weft."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Failure, Process
from load.stage import FIRST_PORT, PORTS, Stage, Tools

HERE = Path(__file__).parent
# A watchdog.
SECONDS_MAX = 30
CONNECTIONS = 50
AGAIN = 50
# What a connection may die of: never an end of stream.
DEATHS = ("ECONNRESET", "EPIPE", "ENOSYS")

# Each way to die with what Linux's other end sees; the kernel itself is asked, too.
CASES = {
    "quiet": "0 bytes and the end",
    "unread": "ECONNRESET",
    "written": "{sent} bytes and the end",
    "shut": "0 bytes and the end, then EPIPE",
    "listening": "ECONNRESET, then ECONNREFUSED",
}


def traces(namespace: Namespace) -> list[str]:
    """What a weft could leave in a namespace: its rules, its interfaces."""
    tables = namespace.shell(f"{paths.tool('nft')} list tables").splitlines()
    links = re.findall(r"^\d+: (weft[^:@]*)", namespace.ip("link", "show"), re.MULTILINE)
    return [f"nftables {table}" for table in tables] + [f"interface {link}" for link in links]


def wait_until_clean(namespace: Namespace) -> None:
    """The kernel takes devices and tables of a process that died down in its own time."""
    deadline = time.monotonic() + SECONDS_MAX
    while left := traces(namespace):
        if time.monotonic() > deadline:
            raise Failure("weft left behind: " + ", ".join(left))
        time.sleep(0.05)


def death_of(client: Process) -> str:
    """What a client of `crowd` says it died of; it must have learnt that its stack is gone."""
    status = client.wait(SECONDS_MAX)
    last = (client.stdout.splitlines() or [""])[-1]
    if status != 1 or not any(death in last for death in DEATHS):
        raise Failure(f"{client.name} ended with status {status} and '{last}', not by one of {', '.join(DEATHS)}")
    return last.removeprefix("error: ")


def daemon_under_load(env: Environment, tools: Tools) -> str:
    stage = Stage(env, tools, {})
    servers = [stage.serve("client"), stage.serve("server")]
    inside = stage.client("client", "talk", str(CONNECTIONS), "0")
    outside = stage.client("server", "talk", str(CONNECTIONS), "0")
    for client in (inside, outside):
        client.wait_for_line("open")
    if not traces(stage.kernel):
        raise Failure("there is no TAP to be seen: the check sees nothing")
    os.kill(stage.daemon.process.pid, signal.SIGKILL)
    death = death_of(inside)
    wait_until_clean(stage.kernel)
    for process in (outside, *servers):
        process.stop()
    # The same name of the TAP, the same control socket, whose file the dead one left.
    stage.daemon = weft.Daemon(env, stage.kernel, name="weft")
    for role in ("server", "client"):
        server = stage.serve(role)
        stage.run_client(role, "short", str(AGAIN))
        stage.end_server(server)
    return f"the program under it: {death}; no table, no interface left; started again, {2 * AGAIN} connections"


def daemon_with_guard_and_nat(env: Environment, tools: Tools) -> str:
    """The tables that weft makes: masquerading of a TAP, the guard of a packet socket."""
    said = []
    for kind in ("nat", "guard"):
        namespace, other = env.namespace(kind), env.namespace(f"{kind}-peer")
        veth((namespace, "v0"), (other, "v1"))
        namespace.ip("address", "add", "192.0.2.1/24", "dev", "v0")
        if kind == "nat":
            extra: tuple[str, ...] = ("--nat",)
        else:
            text = "\n".join(['[[interface]]', 'name = "eth0"', 'backend = "packet:v0"', '[[address]]', 'interface = "eth0"',
                              'address = "192.0.2.2/24"', ""])
            path = env.folder / "guard.toml"
            path.write_text(text)
            extra = ("--stack", str(path))
        for attempt in ("first", "again"):
            daemon = weft.Daemon(env, namespace, name=kind, extra=extra)
            tables = [trace for trace in traces(namespace) if trace.startswith("nftables")]
            if len(tables) != 1:
                raise Failure(f"{attempt}: wanted one table of {kind}, found {tables}")
            os.kill(daemon.process.pid, signal.SIGKILL)
            daemon.process.wait(SECONDS_MAX)
            wait_until_clean(namespace)
        said.append(f"{kind}: {tables[0]}")
    return "gone with weft: " + "; ".join(said)


def stack_of_its_own(env: Environment, tools: Tools) -> str:
    """`weft run` without a daemon is program's parent and stack in one."""
    namespace, go = env.namespace("s"), env.folder / "go"
    talk = f"{tools.crowd} talk {weft.HOST} {FIRST_PORT} {PORTS} {CONNECTIONS} 0"
    script = f"until [ -e {go} ]; do sleep 0.02; done; exec {talk}"
    weft_run = env.start("weft-run", [weft.binary(), "run", "--tap", "weft7", "--", "sh", "-c", script], namespace)
    # The host's side of the TAP, where the server is to be, comes with weft.
    weft_run.wait_for(lambda: "weft7" in namespace.ip("link", "show"), "showing its TAP")
    server = env.start("serve", [tools.crowd, "serve", str(FIRST_PORT), str(PORTS)], namespace)
    server.wait_for_line("serving")
    go.touch()
    weft_run.wait_for_line("open")
    deadline = time.monotonic() + SECONDS_MAX
    programs = [pid for pid in namespace.pids() if pid not in (weft_run.pid, server.pid)]
    if not programs:
        raise Failure("there is no program under weft run")
    os.kill(weft_run.pid, signal.SIGKILL)
    weft_run.wait(SECONDS_MAX)
    while any(Path(f"/proc/{pid}").exists() for pid in programs):
        if time.monotonic() > deadline:
            raise Failure(f"the program outlived its stack by {SECONDS_MAX} s")
        time.sleep(0.02)
    wait_until_clean(namespace)
    last = (weft_run.stdout.splitlines() or [""])[-1]
    return f"the program: {last.removeprefix('error: ')}"


# ---- programs killed under weft

def program(env: Environment, tools: Tools, case: str) -> str:
    stage = Stage(env, tools, {})
    under_weft = _end(stage, case, native=False)
    on_linux = _end(stage, case, native=True)
    if under_weft != on_linux:
        raise Failure(f"under weft the other end saw: {under_weft}; on Linux: {on_linux}")
    return f"as on Linux, the other end sees: {under_weft}"


def _end(stage: Stage, case: str, native: bool) -> str:
    """Kills the victim once it is ready; what its observer saw, with the number of sent bytes as a word."""
    side = "native" if native else "weft"
    # Natively both are on the kernel of S, over its loopback.
    words = stage.peer if native else [*stage.program.prefix, *stage.daemon.run_words()]
    address = "127.0.0.1" if native else weft.STACK if case == "listening" else weft.HOST
    port = str(FIRST_PORT + native)

    def start(role: str, where: list[str]) -> Process:
        return stage.env.start(f"{role}-{side}", [paths.PYTHON, str(HERE / "ends.py"), role, case, address, port], where)

    if case == "listening":
        victim = start("victim", words)
        victim.wait_for_line("ready")
        observer = start("observer", stage.peer)
        observer.wait_for_line("connected")
    else:
        observer = start("observer", stage.peer)
        observer.wait_for_line("listening")
        victim = start("victim", words)
        victim.wait_for_line("ready")
    sent = victim.stdout.split()[1] if len(victim.stdout.split()) > 1 else "0"
    os.kill(_innermost(victim.pid), signal.SIGKILL)
    victim.wait(SECONDS_MAX)
    line = observer.wait_for_line("saw", SECONDS_MAX).removeprefix("saw ")
    wanted = CASES[case].format(sent=sent)
    if line != wanted:
        raise Failure(f"{side}: the other end saw '{line}' instead of '{wanted}'")
    return line.replace(f"{sent} bytes", "all bytes") if case == "written" else line


def _innermost(pid: int) -> int:
    """The program under `weft run`: the last of a chain of only children."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid
