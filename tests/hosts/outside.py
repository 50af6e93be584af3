"""What lies between a node and its host (docs/compatibility.md, "Between the node and the host"): once with weft between, and once without.

As root: it takes a TAP, and rules of the host's.
"""

from __future__ import annotations

import json
import time
from typing import Callable

from harness import paths
from harness.namespaces import veth
from harness.processes import Failure

from .place import HERE, STACK, Place

PORT, PUBLISHED = 5300, 5301
# A watchdog: weft forgets a sender after 60 s.
FORGOTTEN_SECONDS_MAX = 400
# The name servers of a host, and what its programs have of them on a stack with --nat: without those on the host's loopback, or the stack's gateway.
RESOLVERS = {
    "nameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver ::1\nnameserver 2001:db8::53\n": "nameserver 192.0.2.53\nnameserver 2001:db8::53\n",
    "nameserver 192.0.2.53\n": "nameserver 192.0.2.53\n",
    "nameserver 127.0.0.53\n": "nameserver 10.77.0.1\n",
}


def resolv_conf(place: Place) -> str:
    """What a program reads in /etc/resolv.conf, beside what the host has there."""
    host, beyond = place.env.namespace("host"), place.env.namespace("beyond")
    veth((host, "near"), (beyond, "far"))
    host.ip("address", "add", "10.8.0.2/24", "dev", "near")
    for number, (there, wanted) in enumerate(RESOLVERS.items()):
        file = place.env.folder / f"resolv-{number}"
        file.write_text(there)
        inside = [*host.prefix, paths.tool("unshare"), "--mount", "--propagation", "private", "sh", "-ec",
                  'mount --bind "$1" /etc/resolv.conf; shift; exec "$@"', "sh", str(file)]
        for what, words, expected in (("Linux", [], there), ("weft", [place.weft, "run", "--nat", "--"], wanted)):
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


def rows(place: Place) -> dict[str, Callable[[], str]]:
    return {"outside/resolv.conf under --nat": lambda: resolv_conf(place), "outside/a sender that is silent": lambda: silent(place)}
