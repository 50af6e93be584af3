"""What lies between a node and its host (docs/compatibility.md, "Between the node and the host"): once with weft between, and once without.

As root: it takes a TAP, and rules of the host's.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Callable

from harness import paths
from harness.namespaces import veth
from harness.processes import Failure

from .place import HERE, LINUX, NOTIFY, STACK, STRICT, Place

PORT, PUBLISHED = 5300, 5301
# A watchdog: weft forgets a sender after 60 s.
FORGOTTEN_SECONDS_MAX = 400
# Descriptors of a program, and of weft.
LIMITED = (64, 256, 4000)
GIVEN = ("write and read", "getsockname", "setsockopt", "sendmsg", "connect")
# And of a stack of its own.
OWN_RESOLVER = "192.0.2.54"
# The name servers of a host, and what its programs have of them on a stack with --nat: without those on the host's loopback, or the stack's gateway.
RESOLVERS = {
    "nameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver ::1\nnameserver 2001:db8::53\n": "nameserver 192.0.2.53\nnameserver 2001:db8::53\n",
    "nameserver 192.0.2.53\n": "nameserver 192.0.2.53\n",
    "nameserver 127.0.0.53\n": "nameserver 10.77.0.1\n",
}


def resolv_conf(place: Place) -> str:
    """What a program reads in /etc/resolv.conf, beside what the host has there: without --nat it is the stack's own (`resolv-conf`)."""
    host, beyond = place.env.namespace("host"), place.env.namespace("beyond")
    veth((host, "near"), (beyond, "far"))
    host.ip("address", "add", "10.8.0.2/24", "dev", "near")
    own = place.env.folder / "resolver.toml"
    own.write_text(f'{STACK}nameservers = ["{OWN_RESOLVER}"]\n')
    for number, (there, wanted) in enumerate(RESOLVERS.items()):
        file = place.env.folder / f"resolv-{number}"
        file.write_text(there)
        inside = [*host.prefix, paths.tool("unshare"), "--mount", "--propagation", "private", "sh", "-ec",
                  'mount --bind "$1" /etc/resolv.conf; shift; exec "$@"', "sh", str(file)]
        alone = [place.weft, "run", "--stack", str(own), "--"]
        for what, words, expected in (("Linux", [], there), ("weft", [place.weft, "run", "--nat", "--"], wanted), ("a stack", alone, f"nameserver {OWN_RESOLVER}\n")):
            found = place.env.run(f"resolv-{what}", [*map(str, inside), *map(str, words), "cat", "/etc/resolv.conf"], timeout_s=60)
            if found != expected:
                raise Failure(f"{what}: of {there!r} a program sees {found!r} instead of {expected!r}")
    return f"{len(RESOLVERS)} files"


def silent(place: Place) -> str:
    """A sender that is silent until weft has forgotten it: the answer that comes then is lost. Without weft it arrives."""
    said = {weft: _late_answer(place, weft) for weft in (False, True)}
    if said != {False: "late", True: "again"}:
        raise Failure(f"what came first to a sender that was silent: natively {said[False]!r}, through a published port {said[True]!r}")
    return "the late answer comes natively, and is lost when the sender was forgotten"


def _late_answer(place: Place, weft: bool) -> str:
    """What comes first to a sender whose answer is late."""
    env = place.env
    host = env.namespace("published" if weft else "plain")
    folder = env.folder / ("published" if weft else "plain")
    folder.mkdir()
    serve = [paths.PYTHON, str(HERE / "late_server.py"), str(PORT)]
    port, forgotten = PORT, lambda: True
    if weft:
        stack = folder / "stack.toml"
        stack.write_text(STACK)
        control = folder / "control"
        up = env.start("up", [str(place.weft), "up", "--stack", str(stack), "--publish", f"{PUBLISHED}:{PORT}/udp", "--control", str(control)], host)
        up.wait_for_line("ready")
        server = env.start("server", [str(place.weft), "run", "--control", str(control), "--", *serve], host)
        port = PUBLISHED

        def forgotten() -> bool:
            # Asking takes a process each time.
            time.sleep(1)
            shown = env.run("show", [str(place.weft), "show", "published", "--control", str(control), "--json"], host)
            return [row["open"] for row in json.loads(shown)] == [0]
    else:
        server = env.start("server", serve, host)
    server.wait_for_line("serves")
    client = env.start("client", [paths.PYTHON, str(HERE / "late_client.py"), str(port), str(folder / "go")], host)
    client.wait_for_line("asked")
    server.wait_for_line("was asked")
    server.wait_for(forgotten, "forgotten", FORGOTTEN_SECONDS_MAX)
    (folder / "go").touch()
    if status := client.wait(60):
        raise Failure(f"the client ended with status {status}: {client.stderr}")
    return client.stdout.split()[-1]


def given(place: Place, family: socket.AddressFamily, address: str) -> str:
    """`hosts-sockets`: a socket of the network that weft was started in, as the program's standard input. Below --strict it is as on Linux."""
    host = place.env.namespace(f"given-{family:d}")
    host.ip("link", "set", "lo", "up")
    host.enable_ipv6()
    place.script("saying.py")
    program = place.script("given.py")
    said = {}
    for what, words in ((LINUX, []), (NOTIFY, [place.weft, "run"]), (STRICT, [place.weft, "run", "--strict"])):
        under = [*map(str, words), "--stack", str(place.env.folder / "inline.toml"), "--"] if words else []
        command = [*host.prefix, *program, str(int(family)), address, *under, *program, str(int(family))]
        said[what] = [line.rsplit(" | ", 1) for line in place.env.run(f"given-{family:d}-{what}", [*map(str, command)], timeout_s=60).splitlines()]
    for what, lines in said.items():
        for asked, answer in lines:
            wanted = "one" if "write" in asked else "EPERM" if what == NOTIFY else "works"
            if answer != wanted:
                raise Failure(f"{what}: {asked}: {answer} instead of {wanted}")
    if len({len(lines) for lines in said.values()}) != 1 or len(said[LINUX]) != len(GIVEN):
        raise Failure(f"other lines than {', '.join(GIVEN)}: {said}")
    return f"{len(GIVEN)} lines on {len(said)} hosts"


def published(place: Place) -> str:
    """`published-client`, `published-nobody`: a port of a server, and one of nobody's, natively and published by weft."""
    env, program = place.env, place.script("published.py")
    said = {}
    for weft in (False, True):
        host = env.namespace("ports-weft" if weft else "ports")
        host.ip("link", "set", "lo", "up")
        serve, port, nobody = [*program, str(PORT)], PORT, PORT + 1
        if weft:
            control = env.folder / "ports-control"
            port, nobody = PUBLISHED + 10, PUBLISHED + 11
            words = [str(place.weft), "up", "--stack", str(env.folder / "inline.toml"), "--control", str(control)]
            up = env.start("ports-up", [*words, "--publish", f"{port}:{PORT}", "--publish", f"{nobody}:{PORT + 1}"], host)
            up.wait_for_line("ready")
            serve = [str(place.weft), "run", "--control", str(control), "--", *serve]
        server = env.start("ports-server", serve, host)
        server.wait_for_line("serves")
        ask = lambda number: env.run(f"client-{number}", [*map(str, host.prefix), *program, str(number), "ask"], timeout_s=60).strip()
        said[weft] = (ask(port), ask(nobody))
    if said != {False: ("own address", "ECONNREFUSED"), True: ("another address", "ECONNRESET")}:
        raise Failure(f"of a server's port and one of nobody's: natively {said[False]}, published {said[True]}")
    return "a server sees the client's address, and a client that nobody is there, natively alone"


def limited(place: Place) -> str:
    """Sockets that are closed and opened again where all descriptors were taken, the program's or weft's."""
    program = place.script("limited.py")
    weft = [str(place.weft), "run", "--stack", str(place.env.folder / "inline.toml"), "--"]
    for numbers in LIMITED:
        limit = [paths.tool("prlimit"), f"--nofile={numbers}:{numbers}"]
        said = {what: place.env.run(f"limited-{numbers}-{what}", [*limit, *words, *program], timeout_s=60).strip()
                for what, words in ((LINUX, []), (NOTIFY, weft))}
        if set(said.values()) != {"all"}:
            raise Failure(f"of the sockets that were closed with {numbers} descriptors are there again: {said}")
    return f"{len(LIMITED)} limits"


def rows(place: Place) -> dict[str, Callable[[], str]]:
    return {
        "outside/resolv.conf under --nat": lambda: resolv_conf(place),
        "outside/a sender that is silent": lambda: silent(place),
        "outside/at the limit of descriptors": lambda: limited(place),
        "outside/published ports": lambda: published(place),
        "outside/a given socket over IPv4": lambda: given(place, socket.AF_INET, "127.0.0.1"),
        "outside/a given socket over IPv6": lambda: given(place, socket.AF_INET6, "::1"),
    }
