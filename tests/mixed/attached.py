"""Interfaces that are added to a running stack and taken away again: frames pass, and nothing stays.

A stack comes up with nothing but its loopback. An interface is added behind each backend on each engine, the flows of [flows.py](flows.py) pass over it,
and it is taken away, by weft's own word and by a program's `ip link del`. `weft apply` does the same for the interfaces of stack files. What cannot be is
refused in words, and leaves everything as it was.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

from harness import paths, user, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Failure

from . import fit

BARE = '[node]\nname = "bare"\ninterfaces = "none"\n'
# crates/host/src/attach.rs
PORTS_MAX = 1024
FILES_MAX = 4096
HOST_ADDRESSES = f"host_address={weft.HOST}/{weft.PREFIX_LENGTH},{weft.HOST6}/{weft.PREFIX_LENGTH6}"
WATCHDOG_S = 60


class Bare:
    """A stack without interfaces in namespace S, its programs in P, and perhaps a veth pair to K."""

    def __init__(self, env: Environment, engine: str = "inline", as_user: bool = False, text: str = BARE) -> None:
        self.env = env
        self.s, self.p = env.namespace("s"), env.namespace("p")
        self.s.enable_ipv6()
        self.words = user.words() if as_user else []
        os.chown(env.folder, user.ID if as_user else 0, -1)
        file = env.folder / "bare.toml"
        file.write_text(text)
        extra = ("--stack", str(file), "--engine", engine)
        self.daemon = weft.Daemon(env, self.s, extra=extra, before=[*self.words, paths.tool("prlimit"), f"--nofile={FILES_MAX}"])
        self.program = [*self.p.prefix, *self.words, *self.daemon.run_words()]

    def said(self, *words: str) -> subprocess.CompletedProcess:
        """What `weft WORDS` says, whatever its status."""
        command = [*self.s.prefix, *self.words, weft.binary(), *words, "--control", str(self.daemon.control)]
        return subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG_S, cwd=self.env.folder, env=self.env.variables())

    def do(self, *words: str) -> str:
        done = self.said(*words)
        if done.returncode != 0:
            raise Failure(f"weft {' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def add(self, *arguments: str, name: str = weft.TAP) -> dict:
        return json.loads(self.do("exec", "interfaces", "add", f"name={name}", *arguments, "--json"))

    def give_addresses(self, name: str = weft.TAP) -> None:
        self.do("exec", "ip4", "address_add", f"interface={name}", f"address={weft.STACK}/{weft.PREFIX_LENGTH}")
        self.do("exec", "ip6", "address_add", f"interface={name}", f"address={weft.STACK6}/{weft.PREFIX_LENGTH6}", "dad=false")

    def names(self) -> list[str]:
        """The stack's interfaces, as its programs see them."""
        rows = json.loads(self.env.run("ip", [*self.program, paths.tool("ip"), "-json", "link"]))
        return sorted(row["ifname"] for row in rows)

    def devices(self) -> list[str]:
        """The interfaces of namespace S."""
        return sorted(row["ifname"] for row in json.loads(self.s.ip("-json", "link")))

    def guards(self) -> list[str]:
        out = self.env.run("nft", [paths.tool("nft"), "list", "tables"], self.s)
        return [line for line in out.splitlines() if "weft-guard" in line]

    def want_nothing_left(self, devices: list[str]) -> None:
        """What there is when an interface has gone: the loopback, and of the host what was there before."""
        if self.names() != ["lo"] or self.devices() != devices or self.guards():
            raise Failure(f"left: {self.names()} in the stack, {self.devices()} in its namespace, guards {self.guards()}")
        if not self.daemon.process.running:
            raise Failure(f"the daemon ended with status {self.daemon.process.status}")


def packet_peer(env: Environment, bare: Bare) -> Namespace:
    """A kernel behind a veth pair."""
    kernel = env.namespace("k")
    kernel.enable_ipv6()
    veth((kernel, "peer0"), (bare.s, "host0"))
    kernel.ip("address", "add", f"{weft.HOST}/{weft.PREFIX_LENGTH}", "dev", "peer0")
    kernel.ip("address", "add", f"{weft.HOST6}/{weft.PREFIX_LENGTH6}", "dev", "peer0", "nodad")
    return kernel


def came_and_went(flows, backend: str, engine: str, as_user: bool = False) -> str:
    """`flows(env, program, peer)` lets flows pass between two places, and says so."""
    fit.check(backend, as_user)
    with Environment(f"attached-{backend.partition(':')[0]}-{engine}") as env:
        bare = Bare(env, engine, as_user)
        peer: list[str] = bare.s.prefix
        arguments = [f"backend={backend}{weft.TAP}", HOST_ADDRESSES]
        if backend == "packet:":
            peer = packet_peer(env, bare).prefix
            arguments = ["backend=packet:host0"]
        before = bare.devices()
        answer = bare.add(*arguments)["interfaces"]
        there = before if as_user or backend == "packet:" else sorted([*before, weft.TAP])
        if bare.names() != ["lo", weft.TAP] or bare.devices() != there:
            raise Failure(f"it was added as {answer}, and the stack has {bare.names()}, its namespace {bare.devices()}")
        if backend == "packet:" and len(bare.guards()) != 1:
            raise Failure(f"guards: {bare.guards()}")
        bare.give_addresses()
        if as_user:
            if "nsenter" not in answer.get("notice", ""):
                raise Failure(f"the answer does not say where the host's side is: {answer}")
            peer = [*bare.words, *bare.daemon.host_side]
        said = flows(env, bare, peer)
        bare.do("exec", "interfaces", "remove", f"name={weft.TAP}")
        bare.want_nothing_left(before)
        # Its name is free again, and a program may take it away, too.
        again = bare.add(*arguments)["interfaces"]
        if again["index"] <= answer["index"]:
            raise Failure(f"the number {again['index']} is used again")
        env.run("ip-link-del", [*bare.program, paths.tool("ip"), "link", "del", weft.TAP])
        bare.want_nothing_left(before)
        return said


def apply_text(*interfaces: tuple[str, str, str]) -> str:
    """A stack file with these: name, address of the stack and of the host's side."""
    text = '[node]\nname = "bare"\n'
    for name, stack, host in interfaces:
        text += f'[[interface]]\nname = "{name}"\nbackend = "tap:{name}"\nhost_address = "{host}/24"\n'
        text += f'[[address]]\ninterface = "{name}"\naddress = "{stack}/24"\n'
        text += f'[[route]]\ndestination = "192.168.{name[-1]}.0/24"\ngateway = "{host}"\n'
    # Which leads elsewhere when the first one is another.
    text += f'[[route]]\ndestination = "default"\ngateway = "{interfaces[0][2]}"\n'
    return text


ONE, TWO, THREE = ("t1", "10.81.0.2", "10.81.0.1"), ("t2", "10.82.0.2", "10.82.0.1"), ("t3", "10.83.0.2", "10.83.0.1")


def applied(engine: str) -> str:
    """Files with other interfaces, one after another: what is in both stays."""
    fit.check("tap:", as_user=False)
    with Environment(f"apply-{engine}") as env:
        bare = Bare(env, engine)

        def apply(*interfaces: tuple[str, str, str], text: str = "", words: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
            (env.folder / "next.toml").write_text(text or apply_text(*interfaces))
            return bare.said("apply", "next.toml", *words)

        def want(what: str, names: list[str], addresses: list[str]) -> None:
            rows = json.loads(env.run("ip", [*bare.program, paths.tool("ip"), "-json", "-4", "address"]))
            found = sorted(info["local"] for row in rows for info in row["addr_info"] if info["local"] != "127.0.0.1")
            if bare.names() != ["lo", *names] or bare.devices() != ["lo", *names] or found != addresses:
                raise Failure(f"after {what}: {bare.names()} in the stack, {bare.devices()} in its namespace, addresses {found}")

        planned = apply(ONE, TWO, words=("--dry-run",))
        if planned.stdout.splitlines() != [f"exec interfaces add name={name} backend=tap:{name}" for name in ("t1", "t2")]:
            raise Failure(f"what would be done: {planned.stdout}{planned.stderr}")
        want("a dry run", [], [])
        for what, interfaces in (("two came", (ONE, TWO)), ("one went, another came", (THREE, TWO)), ("nothing is to change", (THREE, TWO))):
            done = apply(*interfaces)
            if done.returncode != 0 or ("nothing to change" in done.stdout) != (what == "nothing is to change"):
                raise Failure(f"{what}: status {done.returncode}: {done.stdout}{done.stderr}")
            want(what, sorted(name for name, _, _ in interfaces), sorted(stack for _, stack, _ in interfaces))
            routes = json.loads(env.run("ip", [*bare.program, paths.tool("ip"), "-json", "route", "show", "default"]))
            if [route["gateway"] for route in routes] != [interfaces[0][2]]:
                raise Failure(f"after {what} the default route is {routes}")
            env.run("ping", [*bare.program, paths.tool("ping"), "-c", "1", interfaces[0][2]])
        names, addresses = ["t2", "t3"], [TWO[1], THREE[1]]
        # A program's route, which no file knows.
        bare.do("exec", "ip4", "route_add", "destination=192.168.9.0/24", "gateway=10.82.0.1")
        in_the_way = '[[route]]\ndestination = "192.168.9.0/24"\ngateway = "10.81.0.1"\n[block.tcp]\nmss = 600\n'
        taken = apply_text(THREE, TWO, ONE).replace("tap:t1", "packet:nowhere").replace('host_address = "10.81.0.1/24"\n', "")
        for what, text, said in (
            ("a device that is not there", taken, "interface 't1': cannot open packet:nowhere"),
            ("another device under one name", apply_text(THREE, TWO).replace("tap:t3", "tap:t4"), "interface 't3': it is there with another backend"),
            ("a graph that cannot be", apply_text(THREE, TWO, ONE) + '[block.tcp]\nmss = 70000\n', "mss"),
            ("a route that is there", apply_text(THREE, TWO, ONE) + in_the_way, "interface 't1': the route to 192.168.9.0/24: ip4 route_add: EEXIST"),
            ("a network of one that stays", apply_text(THREE, TWO, ("t1", "10.82.0.3", "10.82.0.9")), "the host has 10.82.0.1/24 on t2 already"),
            ("a network that the host has", apply_text(THREE, TWO, ("t1", "10.84.0.2", "10.84.0.1")), "the host has 10.84.0.1/24 on other0 already"),
        ):
            if "other0" in said:
                veth((bare.s, "other0"), (bare.p, "other1"))
                bare.s.ip("address", "add", "10.84.0.1/24", "dev", "other0")
            refused = apply(text=text)
            if refused.returncode == 0 or said not in refused.stderr:
                raise Failure(f"{what}: status {refused.returncode}: {refused.stdout}{refused.stderr}")
            if "other0" in said:
                bare.s.ip("link", "del", "other0")
            want(what, names, addresses)
            if (mss := bare.do("get", "tcp.mss").split()[-1]) != "0":
                raise Failure(f"after {what} tcp.mss is {mss}")
        if apply(text='[node]\nname = "bare"\n').returncode != 0:
            raise Failure("a file that says nothing of interfaces was refused")
        want("a file that says nothing of interfaces", names, addresses)
        if apply(text=BARE).returncode != 0:
            raise Failure("a file without interfaces was refused")
        want("a file without interfaces", [], [])
        return "interfaces of files come and go; what is refused changes nothing"


def refused() -> str:
    """What cannot be added, and what is said; nothing is there afterwards."""
    fit.check("tap:", as_user=False)
    with Environment("refused") as env:
        bare = Bare(env)
        bare.s.ip("tuntap", "add", "dev", "mine", "mode", "tun")
        bare.s.ip("link", "add", "plain0", "type", "veth", "peer", "name", "plain1")
        bare.add("backend=tap:taken", "host_address=10.86.0.1/24", name="there")
        env.run("dummy", [*bare.program, paths.tool("ip"), "link", "add", "idle0", "type", "dummy"])
        before, names = bare.devices(), bare.names()
        for arguments, said in (
            (("name=x", "backend=pigeon:x"), "interface 'x': backend: there is no kind of backend named 'pigeon'; write one of tap:NAME"),
            (("name=x", "backend=tap"), "interface 'x': backend: the backend 'tap' has no kind"),
            (("name=x", "backend=packet:nowhere"), "interface 'x': cannot open packet:nowhere"),
            (("name=x", "backend=tap:taken"), "interface 'x': EBUSY: the interface 'there' of this stack has tap:taken already"),
            (("name=x", "backend=tap:mine"), "interface 'x': cannot open tap:mine: creating the device: Invalid argument; an interface of this name exists"),
            (("name=x", "backend=tap:plain0"), "interface 'x': cannot open tap:plain0"),
            (("name=there", "backend=tap:y"), "EEXIST: an interface named 'there' exists already"),
            (("name=idle0", "backend=tap:y"), "EEXIST: an interface named 'idle0' exists already"),
            (("name=a/b", "backend=tap:y"), "EINVAL: 'a/b' is no interface name"),
            (("backend=tap:y",), "missing field `name`"),
            (("name=x", "backend=tap:y", "colour=red"), "unknown field `colour`"),
            (("name=x", "backend=tap:y", "mtu=9"), "mtu"),
            (("name=x", "backend=tap:y", "index=1"), "index: 1 is no number of an interface"),
            (("name=x", "backend=tap:y", "mac=01:00:00:00:00:01"), "interface 'x': mac: 01:00:00:00:00:01 is a multicast address"),
            (("name=x", "backend=tap:y", "host_address=10.1.2.3"), "interface 'x': host_address: '10.1.2.3' is no address with prefix length"),
            (("name=x", "backend=packet:plain0", "host_address=10.1.2.3/24"), "has no host's side that could get an address"),
            (("name=x", "backend=tap:y", "link=raw"), "the backend itself says what its frames begin with"),
            (("name=x", "backend=tap:y", "host_address=10.86.0.9/24"), "interface 'x': the host has 10.86.0.1/24 on taken already"),
        ):
            done = bare.said("exec", "interfaces", "add", *arguments)
            if done.returncode == 0 or said not in done.stderr:
                raise Failure(f"{arguments}: status {done.returncode}, wanted '{said}': {done.stdout}{done.stderr}")
            if bare.devices() != before or bare.names() != names:
                raise Failure(f"{arguments}: it left {bare.devices()} and {bare.names()}")
        for arguments, said in ((("name=x",), "ENODEV"), (("name=lo",), "EOPNOTSUPP: lo exists always")):
            done = bare.said("exec", "interfaces", "remove", *arguments)
            if done.returncode == 0 or said not in done.stderr:
                raise Failure(f"remove {arguments}: status {done.returncode}: {done.stdout}{done.stderr}")
        # Without a backend it leads nowhere, as it always did.
        bare.add(name="idle1")
        if bare.names() != sorted([*names, "idle1"]) or bare.devices() != before:
            raise Failure(f"{bare.names()}, {bare.devices()}")
        # That the host got the network of one that is there is no reason to refuse another.
        bare.s.ip("address", "add", "10.86.0.5/24", "dev", "plain0")
        bare.s.ip("link", "set", "plain0", "up")
        bare.add("backend=tap:other", "host_address=10.87.0.1/24", name="other")
        return "each refused in words, nothing left"


def nothing_behind() -> str:
    """What is sent through an interface with nothing behind it has left, as through Linux's dummy: its sender goes on."""
    with Environment("nothing-behind") as env:
        bare = Bare(env)
        ip = [*bare.program, paths.tool("ip")]
        env.run("link-add", [*ip, "link", "add", "idle0", "type", "dummy"])
        env.run("link-up", [*ip, "link", "set", "idle0", "up"])
        for address in ("10.85.0.1/24", "fd85::1/64"):
            env.run("address-add", [*ip, "address", "add", address, "dev", "idle0", *(["nodad"] if ":" in address else [])])
        # Nobody is there to be found.
        for address in ("10.85.0.9", "fd85::9"):
            env.run("neighbour", [*ip, "neighbour", "add", address, "lladdr", "02:00:00:00:00:09", "dev", "idle0", "nud", "permanent"])
        script = ("import socket\n"
                  "for family, address in ((socket.AF_INET, '10.85.0.9'), (socket.AF_INET6, 'fd85::9')):\n"
                  "    sender = socket.socket(family, socket.SOCK_DGRAM)\n"
                  "    for _ in range(1000):\n"
                  "        sender.sendto(bytes(1000), (address, 9))\n")
        env.run("sender", [*bare.program, paths.PYTHON, "-c", script], timeout_s=WATCHDOG_S)
        return "1000 datagrams of each family, several times what a socket may have under way"


def restored() -> str:
    """A stack that goes back to before an interface was closed has it again, down, and with nothing behind it."""
    fit.check("tap:", as_user=False)
    with Environment("restored") as env:
        bare = Bare(env)
        file = str(env.folder / "before")
        bare.add(f"backend=tap:{weft.TAP}")
        bare.do("snapshot", file)
        bare.do("exec", "interfaces", "remove", f"name={weft.TAP}")
        bare.do("restore", file)
        rows = json.loads(env.run("ip", [*bare.program, paths.tool("ip"), "-json", "link", "show", weft.TAP]))
        if "UP" in rows[0]["flags"] or bare.devices() != ["lo"]:
            raise Failure(f"{rows}, devices {bare.devices()}")
        bare.do("exec", "interfaces", "remove", f"name={weft.TAP}")
        # And the other way round: what came after the snapshot goes with it.
        bare.do("snapshot", file)
        bare.add(f"backend=tap:{weft.TAP}")
        bare.do("restore", file)
        bare.want_nothing_left(["lo"])
        return "down, and gone"


def as_many_as_there_may_be() -> str:
    """One more than fits is refused, and when one goes there is room again."""
    with Environment("many") as env, socket.socket(socket.AF_UNIX) as control:
        bare = Bare(env)
        control.connect(str(bare.daemon.control))
        lines = control.makefile("r")

        def ask(procedure: str, among_others: bool = False, **arguments: object) -> dict:
            op = {"exec": {"target": {"name": "interfaces"}, "procedure": procedure, "arguments": arguments}}
            op = {"all": [op]} if among_others else op
            control.sendall((json.dumps({"serial": 1, "ask": {"node": op}}) + "\n").encode())
            return json.loads(lines.readline())["answer"]["result"]

        answer = ask("add", among_others=True, name="x", backend="memory:x")
        if "Err" not in answer:
            raise Failure(f"as a part of a transaction, which is of the graph: {answer}")
        for number in range(PORTS_MAX):
            answer = ask("add", name=f"m{number}", backend=f"memory:m{number}")
            if "Ok" not in answer:
                raise Failure(f"interface {number}: {answer}")
        for _ in range(3):
            answer = ask("add", name="more", backend="memory:more")
            if str(PORTS_MAX) not in json.dumps(answer.get("Err", {})):
                raise Failure(f"one more than {PORTS_MAX}: {answer}")
        if "Ok" not in ask("remove", name="m7") or "Ok" not in ask("add", name="more", backend="memory:more"):
            raise Failure("when one has gone there is no room for another")
        files = len(os.listdir(f"/proc/{bare.daemon.process.pid}/fd"))
        return f"{PORTS_MAX}, and no more; {files} descriptors"


def rows(flows) -> list[tuple[str, object]]:
    """Name and body of each."""
    found: list[tuple[str, object]] = []
    for backend in ("tap:", "tun:", "packet:", "trace:tap:", "fault:seed=1:tap:"):
        for engine in ("inline", "queued", "threaded"):
            if engine == "inline" or backend in ("tap:", "tun:", "packet:"):
                name = f"attached/{backend.partition(':')[0]}/{engine}"
                found.append((f"{name}/root", lambda backend=backend, engine=engine: came_and_went(flows, backend, engine)))
    found.append(("attached/tap/inline/user", lambda: came_and_went(flows, "tap:", "inline", as_user=True)))
    found += [(f"apply/{engine}", lambda engine=engine: applied(engine)) for engine in ("inline", "queued", "threaded")]
    return [*found, ("attached/refused", refused), ("attached/restored", restored),
            ("attached/nothing behind it", nothing_behind), ("attached/as many as there may be", as_many_as_there_may_be)]
