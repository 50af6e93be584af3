"""`make test-egress`: unmodified programs of a user without capabilities go out through passt, over both families. The short form: curl.

FULL=1: all of them; then all rows again on the queued and on the threaded engine, and with programs in the loader (--strict).
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import paths, results, user, weft
from harness.environment import Environment, run_main
from harness.processes import PATIENCE, Failure
from programs import more_rows, rows as table  # noqa: F401  rows register themselves
from programs.shared import NAME, SERVERS, Family, Shared, prepare
from programs.stage import want_equal
from virtual.shared import is_wanted

from . import leases
from .stage import FAMILIES, Names, Outside, networks, passt_of

HERE = Path(__file__).parent
FULL = bool(os.environ.get("FULL"))
# Rows of the table of programs whose server has no business with weft. Not python-asyncio: Debian 12's passt stops where more than a window is on its way to
# who has half-closed (docs/decisions/030).
PROGRAMS = ("curl-http", "curl-https", "curl-upload", "ssh-scp", "http3", "wget", "go-static", "node")
SHORT = ("curl-http",)
TUNSETIFF, IFF_TUN, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x1, 0x2, 0x1000, 0x4000
# What weft says of a command that it cannot do.
REFUSED = 2
# A watchdog.
SECONDS_MAX = 60 * PATIENCE

Body = Callable[[Environment, Shared, Family], str]


def of_table(name: str, env: Environment, shared: Shared, family: Family) -> str:
    """A row of the table of programs, its client going out."""
    row = table.ROWS[name + ("-6" if family.version == 6 else "")]
    stage = Outside(env, shared, family)
    row.body(stage)
    stage.finish()
    return ""


def websocket(env: Environment, shared: Shared, family: Family) -> str:
    stage = Outside(env, shared, family)
    python, script = str(paths.venv_python()), str(HERE / "websocket.py")
    stage.start_server("websocket", [python, script, "serve", stage.server.address, "8090"], 8090)
    want_equal("messages", stage.run_client("talk", [python, script, "talk", stage.server.host, "8090"]), "7\n")
    stage.finish()
    return "seven sizes"


def git(env: Environment, shared: Shared, family: Family) -> str:
    """A clone over git's own protocol, with all of its objects."""
    stage = Outside(env, shared, family)
    origin = env.folder / "origin"
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a"}
    env.run("git-init", ["git", "init", "--quiet", str(origin)])
    (origin / "large").write_bytes(shared.large.path.read_bytes())
    env.run("git-add", ["git", "-C", str(origin), "add", "large"])
    env.run("git-commit", ["git", "-C", str(origin), "commit", "--quiet", "--message=one"], **identity)
    words = ["git", "daemon", f"--listen={stage.server.address}", "--reuseaddr", "--export-all", f"--base-path={env.folder}"]
    daemon = stage.start_server("git-daemon", words, 9418)
    stage.run_client("git-clone", ["git", "clone", "--quiet", f"git://{stage.server.host}/origin", str(env.folder / "clone")])
    want_equal("sum of what was cloned", table.sha256_of(env.folder / "clone/large"), shared.large.sha256)
    daemon.stop()
    stage.finish()
    return ""


def names(env: Environment, shared: Shared, family: Family) -> str:
    """Names are asked of the host's own name server, and what they stand for is reached."""
    stage = Names(env, shared, family)
    stage.serve_names()
    table.web_server(stage, 8080)
    table.fetched(stage, "curl", [*_curl(), "--output", str(env.folder / "fetched"), f"http://{NAME}:8080/{shared.small.name}"], shared.small)
    said = stage.run_client("resolv", ["cat", "/etc/resolv.conf"])
    want_equal("what programs ask", said, "nameserver 10.77.0.3\n")
    return ""


def _curl() -> list[str]:
    return [paths.tool("curl"), *table.CURL]


def host(env: Environment, shared: Shared, family: Family) -> str:
    """The gateway's address is the user's own machine: a server on its loopback is reached there."""
    stage = Outside(env, shared, family)
    loopback, gateway = ("127.0.0.1", "10.77.0.1") if family.version == 4 else ("::1", "[fd77::1]")
    env.wait_listening(env.start("web", [paths.PYTHON, str(SERVERS / "web.py"), loopback, "8080", str(shared.www)], stage.near), 8080)
    table.fetched(stage, "curl", [*_curl(), "--output", str(env.folder / "fetched"), f"http://{gateway}:8080/{shared.small.name}"], shared.small)
    return ""


def published(env: Environment, shared: Shared, family: Family) -> str:
    """A port of the user's machine leads to a server under weft, from beyond."""
    stage = Outside(env, shared, family)
    own, there = ("10.77.0.2", "198.51.100.2") if family.version == 4 else ("fd77::2", "[2001:db8:1::2]")
    words = stage.going_out("--publish", "8081:8080")
    server = env.start("web", [*words, paths.PYTHON, str(SERVERS / "web.py"), own, "8080", str(shared.www)])
    env.wait_listening(server, 8081)
    out = env.folder / "fetched"
    env.run("curl", [*_curl(), "--retry", "20", "--retry-delay", "1", "--retry-all-errors", "--output", str(out), f"http://{there}:8081/{shared.small.name}"], stage.beyond)
    want_equal("sum", table.sha256_of(out), shared.small.sha256)
    return ""


def killed(env: Environment, shared: Shared, family: Family) -> str:
    """After SIGKILL neither weft nor passt nor a file is left."""
    stage = Outside(env, shared, family)
    program = env.start("weft", [*stage.going_out(), "sleep", "infinity"])
    program.wait_for(lambda: bool(passt_of(stage.near)), "passt", SECONDS_MAX)
    program.wait_for(lambda: any(_runs(pid, "sleep") for pid in stage.near.pids()), "the program", SECONDS_MAX)
    for pid in stage.near.pids():
        if _runs(pid, "weft"):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + SECONDS_MAX
    while passt_of(stage.near):
        if time.monotonic() > deadline:
            raise Failure("passt outlives weft")
        time.sleep(0.02)
    return ""


def _runs(pid: int, name: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    except OSError:
        return False


def no_passt(env: Environment, shared: Shared, family: Family) -> str:
    """Without passt the message names the package; without a route passt's own words come through."""
    near, _ = networks(env)
    near.ip("route", "flush", "default")
    near.ip("-6", "route", "flush", "default")
    for name, path, wanted in (("no program", "/nowhere", "install the package passt"), ("no route", "/usr/bin:/bin", "default route")):
        words = [*near.prefix, *user.words(), "env", f"PATH={path}", *weft.run_words(), "--internet", "--", "/bin/true"]
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
        if done.returncode != REFUSED or wanted not in done.stderr:
            raise Failure(f"{name}: exit status {done.returncode}: {done.stderr}")
    return "two messages"


STREAM = """
[[interface]]
name = "eth0"
backend = "stream:{path}"
mtu = 65520
[[address]]
interface = "eth0"
address = "10.77.0.2/24"
[[address]]
interface = "eth0"
address = "fd77::2/64"
[[route]]
destination = "default"
gateway = "10.77.0.1"
[[route]]
destination = "default"
gateway = "fd77::1"
[block.tcp]
rmem_max = 131072
"""


def stream(env: Environment, shared: Shared, family: Family) -> str:
    """A stack on a socket where somebody else listens, as a virtual machine does: here passt, started by hand."""
    stage = Outside(env, shared, family)
    path, file = env.folder / "socket", env.folder / "stack.toml"
    passt = [*stage.near.prefix, *user.words(), paths.tool("passt"), "--foreground", "--quiet", "--no-ra", "--socket", str(path)]
    for gateway in ("10.77.0.1", "fd77::1"):
        passt += ["--gateway", gateway]
    listens = env.start("passt", passt)
    listens.wait_for(path.exists, "its socket", SECONDS_MAX)
    file.write_text(STREAM.format(path=path))
    stage.client = stage.program = type(stage.client)([*stage.near.prefix, *user.words(), *weft.run_words(), "--stack", str(file), "--capture", str(stage.capture), "--"], "", True)
    table.web_server(stage, 8080)
    table.fetched(stage, "curl", [*_curl(), "--output", str(env.folder / "fetched"), f"http://{stage.server.host}:8080/{shared.large.name}"], shared.large)
    stage.finish()
    return ""


INHERITED = """
[[interface]]
name = "eth0"
backend = "fd:{number}"
[[address]]
interface = "eth0"
address = "{stack}/{bits}"
"""


def inherited(kind: int, env: Environment, shared: Shared, family: Family) -> str:
    """A TUN or TAP device that was opened by somebody with the right to: weft, a user's, gets the descriptor."""
    near = env.namespace("u")
    near.enable_ipv6()
    number = _in_namespace(near.path, lambda: _tun("t0", kind))
    near.ip("address", "add", f"{family.host}/{family.bits}", "dev", "t0", *(["nodad"] if family.version == 6 else []))
    near.ip("link", "set", "t0", "up")
    file = env.folder / "stack.toml"
    file.write_text(INHERITED.format(number=number, stack=family.stack, bits=family.bits))
    host = f"[{family.host}]" if family.version == 6 else family.host
    env.wait_listening(env.start("web", [paths.PYTHON, str(SERVERS / "web.py"), family.host, "8080", str(shared.www)], near), 8080)
    words = [*user.words(), *weft.run_words(), "--stack", str(file), "--", *_curl(), f"http://{host}:8080/{shared.large.name}"]
    done = subprocess.run(words, capture_output=True, pass_fds=[number], timeout=SECONDS_MAX, env=env.variables(), stdin=subprocess.DEVNULL)
    os.close(number)
    if done.returncode:
        raise Failure(done.stderr.decode(errors="replace"))
    want_equal("bytes", done.stdout == shared.large.path.read_bytes(), True)
    return ""


def _tun(name: str, flags: int) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    return descriptor


def _in_namespace(path: Path, body: Callable[[], int]) -> int:
    """Runs a body in a network namespace, in a process of its own, and takes the descriptor that it opens."""
    ours, theirs = socket.socketpair()
    if (pid := os.fork()) == 0:
        with open(path) as namespace:
            ctypes.CDLL(None).setns(namespace.fileno(), 0x40000000)
        socket.send_fds(theirs, [b"x"], [body()])
        os._exit(0)
    theirs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(pid, 0)
    ours.close()
    if not descriptors:
        raise Failure("no TUN device could be opened")
    return descriptors[0]


def bad_descriptors(env: Environment, shared: Shared, family: Family) -> str:
    """What is no such descriptor is refused in words."""
    file = env.folder / "stack.toml"
    for number, wanted in ((77, "Bad file number"), (0, "Bad file number"), (9, "which TUN device")):
        file.write_text(INHERITED.format(number=number, stack=family.stack, bits=family.bits))
        words = ["sh", "-c", 'exec 9</dev/null; exec "$@"', "sh", *weft.run_words(), "--stack", str(file), "--", "true"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        if done.returncode != REFUSED or wanted not in done.stderr:
            raise Failure(f"{number}: {done.returncode}: {done.stderr}")
    return "three"


KINDS = {"tap": IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, "tun": IFF_TUN | IFF_NO_PI | IFF_VNET_HDR, "bare tun": IFF_TUN | IFF_NO_PI, "bare tap": IFF_TAP | IFF_NO_PI}


def all_rows() -> dict[str, tuple[Body, Family]]:
    bodies: dict[str, Body] = {f"program/{name}": functools.partial(of_table, name) for name in (PROGRAMS if FULL else SHORT)}
    bodies |= {"kill -9": killed, "names": names, "host": host}
    bodies |= {f"fd/{name}": functools.partial(inherited, kind) for name, kind in KINDS.items() if FULL or name in ("tap", "bare tun")}
    if FULL:
        bodies |= {"program/websocket": websocket, "program/git": git, "published": published}
    found = {f"{name}/{family}": (body, of) for name, body in bodies.items() for family, of in FAMILIES.items()}
    # A passt that somebody else started sends all of IPv6 to the address that it has seen last, which may be the stack's link-local one.
    once = {"stream": stream, "without passt": no_passt, "fd/wrong": bad_descriptors}
    once |= {"dhcp/dnsmasq": leases.dnsmasq, "dhcp/added": leases.added, "dhcp/passt": leases.passt, "dhcp/silence": leases.silence}
    return found | {name: (body, FAMILIES["IPv4"]) for name, body in once.items()}


# In the full form every row runs so, too.
HOWS = ({"ENGINE": "queued"}, {"ENGINE": "threaded"}, {"STRICT": "1"}, {"ENGINE": "threaded", "STRICT": "1"})


def rows_of(shared: Shared, before: str) -> bool:
    """All rows once, as the environment says; whether one failed."""
    recorder = results.Recorder()
    for name, (body, family) in all_rows().items():
        if not is_wanted(before + name):
            continue

        def in_an_environment(body: Body = body, family: Family = family, name: str = name) -> str:
            with Environment(name.replace("/", "-").replace(" ", "-")) as own:
                return body(own, shared, family)

        recorder.add(results.judged(before + name, in_an_environment, (Failure, OSError, subprocess.SubprocessError)))
    return bool(recorder.finish())


def main() -> int:
    with Environment("shared") as env:
        shared = prepare(env)
        failed = rows_of(shared, "")
        for how in HOWS if FULL else ():
            os.environ |= how
            failed |= rows_of(shared, "strict/" if "STRICT" in how else "")
            for name in how:
                del os.environ[name]
    return int(failed)


if __name__ == "__main__":
    sys.exit(run_main(main))
