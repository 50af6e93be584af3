"""A stack that ends under its programs: nobody may take that for the end of the data. And what weft switched on in the host ends with it.

Each row runs `lost.c` once: a program with a socket for each way to wait. What it says is compared with a table; of streams the table is what Linux
says of a connection that its peer resets, which a row of its own asks the kernel.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Callable

from harness import paths, user, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Failure, Process

from . import killed

HERE = Path(__file__).parent
PORT = 6000
# A watchdog.
SECONDS_MAX = 60
HALF = "1000"

# What Linux says of a stream that its peer resets: that it has ended only where the peer had said so before.
STREAMS = {
    "read": "ECONNRESET", "recv": "ECONNRESET", "recv-all": "ECONNRESET", "recvmsg": "ECONNRESET", "recvfrom": "ECONNRESET",
    "nonblocking": "ECONNRESET", "poll": "INERRHUP ECONNRESET", "select": "ECONNRESET", "epoll": "INERRHUP ECONNRESET",
    "epoll-edge": "INERRHUP ECONNRESET", "queued": f"{HALF} ECONNRESET", "shut": "ECONNRESET", "whole": f"{HALF} end",
    "whole-written": f"{HALF} end", "write": "ECONNRESET", "sendmsg": "ECONNRESET", "child": "ECONNRESET", "passed": "ECONNRESET",
    "namespaces": "ECONNRESET",
}
# By stand-ins: streams as Linux; of the rest what is not Linux' affair, as nobody ever loses a network stack there.
NOTIFY = {
    **STREAMS,
    "accept": "ENETDOWN", "accept-poll": "ENETDOWN", "connect": "ENETDOWN", "connect-poll": "woken ECONNRESET", "udp-read": "ECONNRESET",
    "udp-recvfrom": "ENETDOWN", "udp-poll": "INERRHUP ECONNRESET", "udp-errors": "ECONNRESET EAGAIN", "raw": "ECONNRESET", "netlink": "ECONNRESET",
    "socket": "ENETDOWN",
    # A write that was told how much it could take has told its error with that.
    "write": "ECONNRESET|EPIPE", "sendmsg": "ECONNRESET|EPIPE",
}
# The loader knows nothing but that there is no stack: also where the end of the data had come, and was not read.
STRICT = {**dict.fromkeys(NOTIFY, "ENETDOWN"), "poll": "INERRHUP ENETDOWN", "udp-poll": "INERRHUP ENETDOWN", "connect-poll": "woken ENETDOWN",
          "udp-errors": "ENETDOWN ENETDOWN"}
# How weft may end.
ENDS = ("kill -9", "kill -9 of its group", "SIGSEGV", "SIGTERM", "ctrl-C", "weft down")


ENGINES = ("inline", "queued", "threaded")


def cases(full: bool) -> list[tuple[str, Callable[..., str], str, bool, bool, str]]:
    """Rows: name, body, how weft ends, strict, as a normal user, engine. The short form has each way once, and each adapter, user and engine with the
    hardest."""
    short = [("kill -9", False, False, "inline"), ("kill -9", True, False, "inline"), ("kill -9", False, True, "inline"),
             ("kill -9", False, False, "queued"), ("kill -9", True, False, "threaded"), ("kill -9", False, False, "threaded"),
             ("SIGSEGV", False, False, "inline"), ("SIGTERM", False, False, "queued"), ("weft down", True, False, "queued"),
             ("weft down", False, False, "threaded")]
    every = [(how, strict, as_user, engine) for how in ENDS for strict in (False, True) for as_user in (False, True) for engine in ENGINES]
    daemons = [("daemon", stack, *case) for case in (every if full else short)]
    own = [("own", own_stack, how, strict, as_user, engine) for how in ("kill -9", "weft down") for strict in (False, True)
           for as_user in (False, True) for engine in ENGINES]
    return daemons + (own if full else [one for one in own if one[2:] in (("kill -9", False, True, "inline"), ("weft down", False, False, "inline"))])


def build(env: Environment) -> str:
    output = env.folder / "lost"
    env.run("cc", [paths.tool("cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", str(output), str(HERE / "lost.c"), "-lpthread"])
    output.chmod(0o755)
    return str(output)


def _compare(said: str, wanted: dict[str, str]) -> str:
    """All that is wrong, each socket of both families."""
    found = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    wrong = []
    for name, allowed in wanted.items():
        for one in [name] if name == "socket" else [f"{name}/4", f"{name}/6"]:
            words = found.get(one, "nothing: it still waits")
            if words not in allowed.split("|"):
                wrong.append(f"{one}: {words} instead of {allowed}")
    if wrong:
        raise Failure("; ".join(wrong))
    return f"{len(found)} sockets were told"


def linux(env: Environment, lost: str) -> str:
    """The oracle: two kernels, and a peer that resets all connections."""
    here, there = env.namespace("here"), env.namespace("there")
    for namespace in (here, there):
        namespace.enable_ipv6()
    veth((here, "v0"), (there, "v1"))
    for namespace, device, number in ((here, "v0", 2), (there, "v1", 1)):
        namespace.ip("address", "add", f"10.77.0.{number}/24", "dev", device)
        namespace.ip("address", "add", f"fd77::{number}/64", "dev", device, "nodad")
    server = env.start("serve", [lost, "serve", str(PORT)], there)
    server.wait_for_line("serving")
    program = env.start("hold", [lost, "hold", weft.HOST, weft.HOST6, str(PORT)], here, WAYS=" ".join(STREAMS))
    program.wait_for_line("ready", SECONDS_MAX)
    os.kill(server.pid, signal.SIGUSR1)
    program.wait_for_line("done", SECONDS_MAX)
    server.stop()
    return _compare(program.stdout, STREAMS)


def _end(process: Process, how: str, down: Callable[[], object]) -> None:
    """Ends weft in one of the ways, and waits for that."""
    if how == "weft down":
        down()
    elif how == "kill -9 of its group":
        process.kill_group(signal.SIGKILL)
    elif how == "ctrl-C":
        process.kill_group(signal.SIGINT)
    else:
        os.kill(process.pid, {"kill -9": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGTERM": signal.SIGTERM}[how])
    if how == "SIGSEGV":
        # Rust's handler takes the first for an overflow of the stack, and has the fault come again, which this one does not.
        while process.running:
            os.kill(process.pid, signal.SIGSEGV)
            time.sleep(0.01)
    process.wait(SECONDS_MAX)


# Both families on one interface.
STACK = f"""
[[interface]]
name = "weft0"
backend = "tap:weft0"
host_address = ["{weft.HOST}/24", "{weft.HOST6}/64"]
[[address]]
interface = "weft0"
address = "{weft.STACK}/24"
[[address]]
interface = "weft0"
address = "{weft.STACK6}/64"
"""


def _stack_words(env: Environment, engine: str) -> tuple[str, ...]:
    path = env.folder / "stack.toml"
    path.write_text(STACK)
    return "--stack", str(path), "--engine", engine


def _folder_of(env: Environment, as_user: bool) -> Path:
    """Where that user may make a control socket."""
    folder = env.folder / "own"
    folder.mkdir()
    if as_user:
        os.chown(folder, user.ID, user.ID)
    return folder


def stack(env: Environment, lost: str, how: str, strict: bool, as_user: bool, engine: str) -> str:
    """A daemon ends in one of the ways, and everybody on it is told."""
    kernel, program = env.namespace("s"), env.namespace("p")
    kernel.enable_ipv6()
    _folder_of(env, as_user)
    before = user.words() if as_user else []
    daemon = weft.Daemon(env, kernel, name="own/weft", extra=_stack_words(env, engine), before=tuple(before))
    server = env.start("serve", [lost, "serve", str(PORT)], daemon.host_side)
    server.wait_for_line("serving")
    options = ["--strict"] if strict and not weft.strict_words() else []
    holder = env.start("hold", [lost, "hold", weft.HOST, weft.HOST6, str(PORT)], [*program.prefix, *before, *daemon.run_words(*options)])
    holder.wait_for_line("ready", SECONDS_MAX)
    _end(daemon.process, how, lambda: env.run("weft-down", [*before, weft.binary(), "down", "--control", str(daemon.control)], kernel))
    said = _told(holder, strict or bool(weft.strict_words()))
    server.stop()
    return said


def own_stack(env: Environment, lost: str, how: str, strict: bool, as_user: bool, engine: str) -> str:
    """The same for `weft run` without a daemon, which is parent and stack in one."""
    kernel, go = env.namespace("s"), env.folder / "go"
    kernel.enable_ipv6()
    folder = _folder_of(env, as_user)
    before = user.words() if as_user else []
    script = f"until [ -e {go} ]; do sleep 0.02; done; exec {lost} hold {weft.HOST} {weft.HOST6} {PORT}"
    words = [*before, weft.binary(), "run", *(["--strict"] if strict else []), *_stack_words(env, engine), "--", "sh", "-c", script]
    run = env.start("hold", words, kernel, XDG_RUNTIME_DIR=str(folder))
    there: list[list[str]] = []

    def has_host_side() -> bool:
        there[:] = [words for words in [weft.host_side(run.pid, kernel)] if words is not None]
        return bool(there)

    run.wait_for(has_host_side, "showing the host's side of its stack")
    server = env.start("serve", [lost, "serve", str(PORT)], there[0])
    server.wait_for_line("serving")
    go.touch()
    run.wait_for_line("ready", SECONDS_MAX)
    if how == "kill -9":
        os.kill(run.pid, signal.SIGKILL)
    else:
        env.run("weft-down", [*before, weft.binary(), "down", "--control", str(folder / f"weft/run-{run.pid}")], kernel)
    said = _told(run, strict)
    server.stop()
    return said


def _told(holder: Process, strict: bool) -> str:
    """Waits until all sockets of `lost hold` were told, and compares. The process may be the one that was killed, so its output counts."""
    deadline = time.monotonic() + SECONDS_MAX
    while "\ndone" not in holder.stdout and time.monotonic() < deadline:
        time.sleep(0.02)
    return _compare(holder.stdout, STRICT if strict else NOTIFY)


# One call, when told to. What it fails with.
IN_HAND = '''
import errno, os, socket, sys, time
go, which, host = sys.argv[1:]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
tcp = socket.socket()
calls = {
    "socket": socket.socket, "setsockopt": lambda: tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    "getsockopt": lambda: tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), "bind": lambda: tcp.bind(("0.0.0.0", 7000)),
    "connect": lambda: tcp.connect((host, 9)), "sendto": lambda: udp.sendto(b"x", (host, 9)), "recvfrom": lambda: udp.recvfrom(9, socket.MSG_DONTWAIT),
    "getsockname": lambda: tcp.getsockname(), "listen": lambda: tcp.listen(),
}
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.01)
try:
    print("said", calls[which]())
except OSError as error:
    print("said", errno.errorcode[error.errno])
'''
IN_HAND_CALLS = ("socket", "sendto", "setsockopt")
MORE_IN_HAND_CALLS = ("getsockopt", "bind", "connect", "recvfrom", "getsockname", "listen")


# seccomp_unotify(2): a call comes; its answer, or a descriptor as its answer.
RECEIVED = re.compile(r"^ioctl\(.*SECCOMP_IOCTL_NOTIF_RECV.*\) = 0$")
ANSWERED = re.compile(r"^ioctl\(.*SECCOMP_IOCTL_NOTIF_(SEND|ADDFD).*\) = \d+$")
# A system call of weft's that has nothing to do with the program's may come in between, or before: what did not end where it was to shows how many came.
TRIES = 10


def _moments(log: str) -> list[tuple[str, str]]:
    """The system calls that weft made from the moment in which it had the program's call, each with what makes strace kill weft in it."""
    lines = log.splitlines()
    first = next(number for number, line in enumerate(lines) if RECEIVED.match(line))
    last = next(number for number, line in enumerate(lines) if ANSWERED.match(line))
    names = [line.partition("(")[0] for line in lines]
    when = [f"inject={names[number]}:signal=KILL:when={names[:number + 1].count(names[number])}" for number in range(first + 1, last + 1)]
    return list(zip(lines[first + 1:], when))


def in_hand(env: Environment, call: str) -> str:
    """weft ends before each of the system calls that it makes from the moment in which it has a program's call to that in which it has answered."""
    moments = _moments(_traced(env, call, "learn", "")[0])
    for number, (line, inject) in enumerate(moments):
        for again in range(TRIES):
            log, said = _traced(env, call, f"{number}-{again}", inject)
            ended = log.splitlines()
            answered = any(map(ANSWERED.match, ended))
            if said != "ENETDOWN" and not answered:
                raise Failure(f"weft ended before {line}, and the program said {said!r} instead of 'ENETDOWN': {log}")
            if any(map(RECEIVED.match, ended)) and not answered:
                break
            if answered and number < len(learned := _moments(log)):
                inject = learned[number][1]
        else:
            raise Failure(f"weft never ended before {line}: {log}")
    return f"ENETDOWN, at each of {len(moments)} moments"


def _traced(env: Environment, call: str, name: str, inject: str) -> tuple[str, str]:
    """What weft did until it was killed, there or in the end, and what the program's call came to."""
    kernel, program, go = env.namespace(f"s{name}"), env.namespace(f"p{name}"), env.folder / f"go-{name}"
    daemon = weft.Daemon(env, kernel, name=f"weft-{name}")
    asker = env.start(f"asker-{name}", [*program.prefix, *daemon.run_words(), paths.PYTHON, "-c", IN_HAND, str(go), call, weft.HOST])
    asker.wait_for_line("ready", SECONDS_MAX)
    tracer = env.start(f"strace-{name}", [paths.tool("strace"), "-p", str(daemon.process.pid), *(["-e", "trace=all", "-e", inject] if inject else [])])
    tracer.wait_for(lambda: "attached" in tracer.stderr, "attached to weft")
    go.touch()
    asker.wait(SECONDS_MAX)
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait(SECONDS_MAX)
    tracer.wait(SECONDS_MAX)
    return tracer.stderr, asker.stdout.partition("said ")[2].strip()


# A server in an event loop and one that waits, and what else a program has: unix sockets.
LATER = """
import errno, select, socket, sys, threading
def said(call):
    try: return call() and "did it"
    except OSError as error: return errno.errorcode[error.errno]
loop, waits = (socket.create_server(("0.0.0.0", int(sys.argv[1]) + n)) for n in (0, 1))
loop.setblocking(False)
accepting = threading.Thread(target=lambda: print("waits:", said(waits.accept), flush=True))
accepting.start()
print("ready", flush=True)
accepting.join()
select.select([loop], [], [])
once = said(loop.accept)
print("loop:", once, "and then ready" if select.select([loop], [], [], 0)[0] else "and then quiet", said(loop.accept))
print("new:", said(socket.socket))
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [0])
print("passed:", socket.recv_fds(other, 1, 1)[0])
own = socket.socket(socket.AF_UNIX)
own.bind("")
own.listen()
client = socket.socket(socket.AF_UNIX)
client.connect(own.getsockname())
print("unix:", said(own.accept))
print("done", flush=True)
"""
LATER_SAYS = "waits: ENETDOWN|loop: ENETDOWN and then quiet EAGAIN|new: ENETDOWN|passed: b'x'|unix: did it|done"


def later(env: Environment, how: str) -> str:
    """Who goes on without its stack is told so once, and is not woken for ever; what needs no stack works. Nobody stays behind it."""
    kernel, program = env.namespace("s"), env.namespace("p")
    daemon = weft.Daemon(env, kernel)
    server = env.start("server", [paths.PYTHON, "-c", LATER, str(PORT)], [*program.prefix, *daemon.run_words()])
    server.wait_for_line("ready", SECONDS_MAX)
    _end(daemon.process, how, daemon.down)
    server.wait_for_line("done", SECONDS_MAX)
    said = "|".join(server.stdout.splitlines()[1:])
    if said != LATER_SAYS:
        raise Failure(f"it said {said!r} instead of {LATER_SAYS!r}: {server.stderr}")
    server.wait(SECONDS_MAX)
    _until(lambda: not kernel.pids(), lambda: f"processes {kernel.pids()}")
    return "told once"


# A connection whose one descriptor lies unread in a unix socket while it is lost, and is read then; and a server that resets when told to.
UNSEEN = """
import errno, os, socket, sys, time
stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))
stream.send(b"x")
stream.recv(1)
one, other = socket.socketpair()
socket.send_fds(one, [b"x"], [stream.fileno()])
stream.close()
print("ready", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
fd = socket.recv_fds(other, 1, 1)[1][0]
try:
    print("unseen:", os.read(fd, 10) or "the end", flush=True)
except OSError as error:
    print("unseen:", errno.errorcode[error.errno], flush=True)
"""
RESETTING = """
import os, socket, struct, sys, time
listener = socket.create_server(("", int(sys.argv[1])))
print("serving", flush=True)
client, _ = listener.accept()
client.recv(1)
client.send(b"y")
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
client.close()
print("reset", flush=True)
"""
UNSEEN_SAYS = {"Linux": "ECONNRESET", "notify": "the end", "strict": "the end"}


def unseen(env: Environment, adapter: str) -> str:
    """A descriptor that nobody holds while its connection is lost (docs/compatibility.md, `lost-unseen`): on Linux its peer resets it."""
    kernel, program = env.namespace("s"), env.namespace("p")
    lost, reset = env.folder / "lost", env.folder / "reset"
    if adapter == "Linux":
        veth((program, "v0"), (kernel, "v1"))
        program.ip("address", "add", f"{weft.STACK}/24", "dev", "v0")
        kernel.ip("address", "add", f"{weft.HOST}/24", "dev", "v1")
        words, side = list(program.prefix), kernel
    else:
        daemon = weft.Daemon(env, kernel)
        words = [*program.prefix, *daemon.run_words(*(["--strict"] if adapter == "strict" and not weft.strict_words() else []))]
        side = daemon.host_side
    server = env.start("server", [paths.PYTHON, "-c", RESETTING, str(PORT), str(reset)], side)
    server.wait_for_line("serving")
    holder = env.start("holder", [paths.PYTHON, "-c", UNSEEN, weft.HOST, str(PORT), str(lost)], words)
    holder.wait_for_line("ready", SECONDS_MAX)
    if adapter == "Linux":
        reset.touch()
        server.wait_for_line("reset")
    else:
        _end(daemon.process, "kill -9", daemon.down)
    lost.touch()
    said = holder.wait_for_line("unseen:", SECONDS_MAX).partition(": ")[2]
    if said != UNSEEN_SAYS[adapter]:
        raise Failure(f"it read {said} instead of {UNSEEN_SAYS[adapter]}")
    return said


# Sends zeros for ever, without saying how many: only the end of the connection is the end.
SERVER = """
import socket, sys
listener = socket.create_server(("", int(sys.argv[1])))
print("serving", flush=True)
client, _ = listener.accept()
client.recv(65536)
client.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n")
try:
    while True:
        client.sendall(bytes(65536))
except OSError:
    pass
"""


def download(env: Environment, how: str, strict: bool) -> str:
    """The example: curl must not take what came of a file until then for all of it."""
    kernel, program, file = env.namespace("s"), env.namespace("p"), env.folder / "file"
    daemon = weft.Daemon(env, kernel)
    server = env.start("serve", [paths.PYTHON, "-c", SERVER, str(PORT)], daemon.host_side)
    server.wait_for_line("serving")
    options = ["--strict"] if strict else []
    words = [paths.tool("curl"), "--silent", "--show-error", "--output", str(file), f"http://{weft.HOST}:{PORT}/"]
    curl = env.start("curl", words, [*program.prefix, *daemon.run_words(*options)])
    curl.wait_for(lambda: file.exists() and file.stat().st_size > 1 << 20, "downloading", SECONDS_MAX)
    _end(daemon.process, how, daemon.down)
    status = curl.wait(SECONDS_MAX)
    server.stop()
    error = next((line for line in curl.stderr.splitlines() if line.startswith("curl:")), "")
    # curl(1): 56, failure in receiving network data.
    if status != 56:
        raise Failure(f"curl ended with status {status} after {file.stat().st_size} bytes, saying: {curl.stderr.strip()}")
    return error


CLIENT = """
import errno, socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
client.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
got = 0
try:
    while data := client.recv(1 << 20):
        if got < 1 << 20 <= got + len(data):
            print("downloading", flush=True)
        got += len(data)
    print("saw the end")
except OSError as error:
    print("saw", errno.errorcode[error.errno])
"""


def published(env: Environment, how: str) -> str:
    """A client of the host's kernel, whose connection is led into the stack, is in the same place as curl above."""
    kernel, program = env.namespace("s"), env.namespace("p")
    daemon = weft.Daemon(env, kernel, extra=("--publish", f"{PORT + 1}:{PORT}"))
    server = env.start("serve", [paths.PYTHON, "-c", SERVER, str(PORT)], [*program.prefix, *daemon.run_words()])
    server.wait_for_line("serving")
    client = env.start("client", [paths.PYTHON, "-c", CLIENT, str(PORT + 1)], kernel)
    client.wait_for_line("downloading", SECONDS_MAX)
    _end(daemon.process, how, daemon.down)
    saw = client.wait_for_line("saw", SECONDS_MAX)
    if saw != "saw ECONNRESET":
        raise Failure(f"the client of a published port {saw}")
    server.stop()
    return saw


def again(env: Environment) -> str:
    """Whoever has waited for the end of a killed weft starts the next one at once, with the same device and port, and need not know of more."""
    kernel, times = env.namespace("s"), 10
    for number in range(times):
        daemon = weft.Daemon(env, kernel, name=f"{number}", extra=("--tap", "weft0", "--publish", f"{PORT}:{PORT}"))
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait(SECONDS_MAX)
    _until(lambda: not killed.traces(kernel), lambda: "left behind: " + ", ".join(killed.traces(kernel)))
    _until(lambda: not kernel.pids(), lambda: f"processes {kernel.pids()}")
    return f"{times} one after the other"


# ---- what weft switches on in the host

SETTINGS = "grep -sH . /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv[46]/conf/*/*forwarding || true"


def _settings(namespace: Namespace) -> dict[str, str]:
    """All settings about forwarding, but those of weft's own devices, which go with them."""
    lines = namespace.shell(SETTINGS).splitlines()
    return {path: value for path, value in (line.split(":") for line in lines) if "/weft" not in path}


def _tables(namespace: Namespace) -> list[str]:
    return re.findall(r"weft-nat-\d+", namespace.shell(f"{paths.tool('nft')} list tables"))


def _uplink(env: Environment) -> Namespace:
    """A host with a way out, which forwards nothing yet."""
    host, far = env.namespace("host"), env.namespace("far")
    host.enable_ipv6()
    veth((host, "v0"), (far, "v1"))
    host.ip("address", "add", "192.0.2.1/24", "dev", "v0")
    host.ip("address", "add", "2001:db8::1/64", "dev", "v0", "nodad")
    host.ip("route", "add", "default", "via", "192.0.2.2")
    host.ip("route", "add", "default", "via", "2001:db8::2")
    for setting in ("ipv4/conf/all/forwarding", "ipv4/conf/v0/forwarding"):
        host.sysctl(f"net.{setting.replace('/', '.')}", "0")
    return host


def _until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within {SECONDS_MAX} s: {what()}")
        time.sleep(0.02)


def _differences(before: dict[str, str], after: dict[str, str]) -> str:
    return ", ".join(f"{path} was {before.get(path)} and is {after.get(path)}" for path in sorted(before.keys() | after.keys())
                     if before.get(path) != after.get(path))


def forwarding(env: Environment, how: str) -> str:
    """What --nat switches on ends with weft, however that ends; what was on before stays on."""
    host = _uplink(env)
    host.sysctl("net.ipv6.conf.lo.forwarding", "1")
    before = _settings(host)
    daemon = weft.Daemon(env, host, extra=("--nat",))
    during = _settings(host)
    if not (changed := _differences(before, during)):
        raise Failure("--nat has switched nothing on: the row sees nothing")
    _end(daemon.process, how, daemon.down)
    _until(lambda: _settings(host) == before, lambda: _differences(before, _settings(host)))
    _until(lambda: not killed.traces(host), lambda: "left behind: " + ", ".join(killed.traces(host)))
    _until(lambda: not host.pids(), lambda: f"processes {host.pids()}")
    return f"{len(changed.split(','))} settings put back"


def two_forward(env: Environment, first: str, second: str) -> str:
    """Two stacks with --nat: what both need stays on until the second ends."""
    host = _uplink(env)
    before = _settings(host)
    one = weft.Daemon(env, host, name="one", extra=("--nat",))
    during = _settings(host)
    two = weft.Daemon(env, host, name="two", extra=("--nat",))
    if len(_tables(host)) != 2 or _settings(host) != during:
        raise Failure(f"two stacks have the tables {_tables(host)}, and {_differences(during, _settings(host))}")
    _end(one.process, first, one.down)
    # Settings are put back before the table goes.
    _until(lambda: len(_tables(host)) == 1, lambda: f"tables {_tables(host)}")
    if changed := _differences(during, _settings(host)):
        raise Failure(f"the second stack needs what the end of the first has changed: {changed}")
    _end(two.process, second, two.down)
    _until(lambda: _settings(host) == before, lambda: _differences(before, _settings(host)))
    return "on while one of them lives"
