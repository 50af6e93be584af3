"""Addresses from a DHCP server: Debian's dnsmasq on a network of its own (packet:), and passt's.

    weft on packet:up0 ─ veth ─ down0, dnsmasq; servers at an address behind it
"""

from __future__ import annotations

import json
import shlex
import subprocess

from harness import paths, user, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import PATIENCE, Failure, Process
from programs import rows as table
from programs.shared import BEYOND, NAME, SERVERS, Family, Shared
from programs.stage import want, want_equal

from .stage import Outside

ROUTER, FIRST, LAST = "203.0.113.1", "203.0.113.50", "203.0.113.59"
STACK = """
[node]
name = "leased"
[[interface]]
name = "eth0"
backend = "{backend}"
dhcp = true
"""
# What weft says of a command that it cannot do.
REFUSED = 2
# A watchdog.
SECONDS_MAX = 60 * PATIENCE


def _network(env: Environment) -> tuple[Namespace, Namespace]:
    """A machine without an address, and the network that it is on."""
    near, beyond = env.namespace("u"), env.namespace("b")
    veth((near, "up0"), (beyond, "down0"))
    beyond.ip("address", "add", f"{ROUTER}/24", "dev", "down0")
    beyond.ip("address", "add", f"{BEYOND}/32", "dev", "lo")
    return near, beyond


def _serve_leases(env: Environment, beyond: Namespace) -> Process:
    """dnsmasq gives addresses, itself as router and name server, and a smaller MTU."""
    leases = env.folder / "dnsmasq.leases"
    words = [
        paths.tool("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=", "--no-resolv", "--no-hosts",
        "--log-facility=-", "--log-dhcp", "--interface=down0", "--bind-interfaces", "--no-ping", f"--dhcp-leasefile={leases}",
        f"--dhcp-range={FIRST},{LAST},255.255.255.0,10m", "--dhcp-option=option:mtu,1400", "--domain=weft.test", f"--host-record={NAME},{BEYOND}",
    ]
    server = env.start("dnsmasq", words, beyond)
    env.wait_listening(server, 67, "udp")
    return server


def dnsmasq(env: Environment, shared: Shared, family: Family) -> str:
    """The address, the way out and the name server are dnsmasq's; it is told the node's name, and that the lease is over."""
    near, beyond = _network(env)
    server = _serve_leases(env, beyond)
    env.wait_listening(env.start("web", [paths.PYTHON, str(SERVERS / "web.py"), BEYOND, "8080", str(shared.www)], beyond), 8080)
    file, fetched = env.folder / "stack.toml", env.folder / "fetched"
    file.write_text(STACK.format(backend="packet:up0"))
    # A name without dots: the domain is the lease's, too.
    url = f"http://{NAME.removesuffix('.weft.test')}:8080/{shared.small.name}"
    curl = shlex.join([paths.tool("curl"), *table.CURL, "--output", str(fetched), url])
    script = f'{curl}; "$0" exec dhcp leases --json; "$0" show interfaces --json; cat /etc/resolv.conf'
    said = env.run("weft", [*weft.run_words(), "--stack", str(file), "--", "sh", "-ec", script, weft.binary()], near)
    want_equal("sum", table.sha256_of(fetched), shared.small.sha256)
    leases, interfaces, *resolv_conf = said.splitlines()
    want_equal("what programs ask", resolv_conf, ["search weft.test", f"nameserver {ROUTER}"])
    (lease,) = json.loads(leases)["dhcp"]
    want_equal("lease", [lease[key] for key in ("interface", "state", "server", "router")], ["eth0", "BOUND", ROUTER, ROUTER])
    want(lease["address"].startswith("203.0.113.5") and lease["address"].endswith("/24"), f"address {lease['address']}")
    want_equal("MTU", [row["mtu"] for row in json.loads(interfaces) if row["name"] == "eth0"], [1400])
    want("client provides name: leased" in server.stderr, "the node's name is not told")
    server.wait_for(lambda: "DHCPRELEASE" in server.stderr, "the lease to be given back", SECONDS_MAX)
    return ""


ADDED = """
"$0" exec interfaces add name=eth0 backend=packet:up0 dhcp=true
until "$0" exec dhcp leases --json | grep -q BOUND; do sleep 0.05; done
"$@"
"$0" exec interfaces remove name=eth0
"$0" exec dhcp leases --json
"""


def added(env: Environment, shared: Shared, family: Family) -> str:
    """An interface that comes while the stack runs asks, too; its lease goes with it."""
    near, beyond = _network(env)
    _serve_leases(env, beyond)
    env.wait_listening(env.start("web", [paths.PYTHON, str(SERVERS / "web.py"), BEYOND, "8080", str(shared.www)], beyond), 8080)
    file, fetched = env.folder / "stack.toml", env.folder / "fetched"
    file.write_text('[node]\ninterfaces = "none"\n')
    curl = [paths.tool("curl"), *table.CURL, "--output", str(fetched), f"http://{BEYOND}:8080/{shared.small.name}"]
    said = env.run("weft", [*weft.run_words(), "--stack", str(file), "--", "sh", "-ec", ADDED, weft.binary(), *curl], near)
    want_equal("sum", table.sha256_of(fetched), shared.small.sha256)
    want_equal("leases at the end", json.loads(said.splitlines()[-1]), {"dhcp": []})
    return ""


def passt(env: Environment, shared: Shared, family: Family) -> str:
    """passt answers to the very address that it offers, and has no other for anybody."""
    stage = Outside(env, shared, family)
    file = env.folder / "stack.toml"
    file.write_text(STACK.format(backend="passt:"))
    words = [*stage.near.prefix, *user.words(), *weft.run_words(), "--stack", str(file), "--capture", str(stage.capture), "--"]
    stage.client = stage.program = type(stage.client)(words, "", True)
    table.web_server(stage, 8080)
    curl = [paths.tool("curl"), *table.CURL]
    table.fetched(stage, "curl", [*curl, "--output", str(env.folder / "fetched"), f"http://{stage.server.host}:8080/{shared.small.name}"], shared.small)
    stage.finish()
    return ""


def silence(env: Environment, shared: Shared, family: Family) -> str:
    """Where nobody answers, the message names the interface and what is behind it."""
    near, _ = _network(env)
    file = env.folder / "stack.toml"
    file.write_text(STACK.format(backend="packet:up0"))
    words = [*near.prefix, *weft.run_words(), "--stack", str(file), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    wanted = "interface eth0: no DHCP server has answered"
    if done.returncode != REFUSED or wanted not in done.stderr or "packet:up0" not in done.stderr:
        raise Failure(f"exit status {done.returncode}: {done.stderr}")
    return ""
