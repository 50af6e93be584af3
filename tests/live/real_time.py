"""Two stacks over a veth pair, in real time: blocks are replaced, put in and taken out while unmodified programs move bulk both ways.

The programs send until so many changes are made, so that no machine is too slow for the row. Delay and loss are blocks of the stacks.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import subprocess
import time

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure

from . import changes
from .virtual_worlds import BY_CHANGES

CHANGES = 8000 if os.environ.get("FULL") else 2000
# Twenty seconds of them at least.
EVERY_S = 0.01
# Not so short that on a busy machine no frame came in it.
LIVED_NS = 200_000_000
SECONDS_MAX = 120
ADDRESSES = {"a": ("10.66.0.1", "fd66::1"), "b": ("10.66.0.2", "fd66::2")}
PORT = 5001

# Both say digest and count of what they sent or got.
SEND = """
import hashlib, os, random, socket, sys
digest, source, count = hashlib.sha256(), random.Random(1), 0
stream = socket.create_connection((sys.argv[1], 5001))
while not os.path.exists(sys.argv[2]):
    data = source.randbytes(1 << 16)
    digest.update(data)
    stream.sendall(data)
    count += len(data)
stream.shutdown(socket.SHUT_WR)
stream.recv(1)
print(digest.hexdigest(), count)
"""
RECEIVE = """
import hashlib, socket, sys
listener = socket.create_server((sys.argv[1], 5001), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
stream, _ = listener.accept()
digest, count = hashlib.sha256(), 0
while data := stream.recv(1 << 16):
    digest.update(data)
    count += len(data)
stream.close()
print(digest.hexdigest(), count)
"""


def stack(name: str) -> str:
    four, six = ADDRESSES[name]
    lines = ["[node]", f'name = "{name}"', "[[interface]]", 'name = "eth0"', f'backend = "packet:v{name}"']
    for address in (f"{four}/24", f"{six}/64"):
        lines += ["[[address]]", 'interface = "eth0"', f'address = "{address}"']
    inserts = []
    for family, block in (("4", "arp"), ("6", "nd")):
        lines += [f"[block.far{family}]", 'kind = "delay"', 'delay = "5ms"', f"[block.leak{family}]", 'kind = "loss"', "probability = 0.0005",
                  f"[block.line{family}]", 'kind = "rate"', 'rate = "60mbit"']
        inserts += [f'"line{family} {block}:lower ether:upper"', f'"far{family} line{family} ether:upper"', f'"leak{family} far{family} ether:upper"']
    return "\n".join([*lines, "[graph]", f"insert = [{', '.join(inserts)}]", ""])


class Console:
    """`weft console` as a program uses it: a line, its answer."""

    def __init__(self, daemon: weft.Daemon, env: Environment) -> None:
        words = [weft.binary(), "console", "--json", "--control", str(daemon.control)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env.variables(), cwd=env.folder)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def ask(self, line: str):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the console has ended"}')
        if isinstance(answer, dict) and "error" in answer:
            raise Failure(f"{line}: {answer['error']}")
        return answer


def generations(consoles: dict[str, Console]) -> dict[str, list[dict]]:
    return {name: console.ask("show generations") for name, console in consoles.items()}


def judge(rows: list[dict], name: str) -> tuple[int, int]:
    """No frame ended by a change, no reset left or came, and who was there for a while has counted. How many lived so long, and of these saw something."""
    total = collections.Counter()
    for row in rows:
        if lost := BY_CHANGES & set(row["drops"]):
            raise Failure(f"{name}: generation {row['generation']} of {row['block']} lost frames: {lost}")
        if row["block"] == "tcp":
            total.update({counter: row["counters"].get(counter, 0) for counter in ("OutRsts", "EstabResets")})
    if any(total.values()):
        raise Failure(f"{name}: connections were reset: {dict(total)}")
    ways = ("ether", "interfaces", "tcp", "ip4", "ip6")
    lived = [row for row in rows if row["block"] in ways and row["ended_ns"] and row["ended_ns"] - row["began_ns"] > LIVED_NS]
    frames = collections.Counter()
    for row in rows:
        frames[row["block"]] += row["frames"]
    if not all(frames[block] for block in ways):
        raise Failure(f"{name}: {dict(frames)}")
    return len(lived), sum(row["frames"] > 0 and any(row["counters"].values()) for row in lived)


def changed(env: Environment) -> str:
    """Two stacks, two flows, thousands of changes."""
    homes = {name: env.namespace(name) for name in ADDRESSES}
    veth((homes["a"], "va"), (homes["b"], "vb"))
    daemons = {}
    for name, home in homes.items():
        file = env.folder / f"{name}.toml"
        file.write_text(stack(name))
        daemons[name] = weft.Daemon(env, home, name=name, extra=("--stack", str(file)))
    apart = env.namespace("programs")
    stop = env.folder / "stop"
    flows = []
    for sender, receiver, family in (("a", "b", 0), ("b", "a", 1)):
        address = ADDRESSES[receiver][family]
        server = env.start(f"receive-{receiver}", [*daemons[receiver].run_words(), paths.PYTHON, "-c", RECEIVE, address], apart)
        daemons[receiver].wait_listening(server, PORT)
        flows.append((env.start(f"send-{sender}", [*daemons[sender].run_words(), paths.PYTHON, "-c", SEND, address, str(stop)], apart), server))
    with Console(daemons["a"], env) as a, Console(daemons["b"], env) as b:
        consoles = {"a": a, "b": b}
        todo = {name: changes.endless() for name in consoles}
        began = generations(consoles)
        before = {name: {(row["block"], row["generation"]) for row in rows} for name, rows in began.items()}
        made = 0
        for name in itertools.cycle(consoles):
            for line in next(todo[name]):
                consoles[name].ask(line)
            made += 1
            time.sleep(EVERY_S)
            if made == CHANGES:
                break
        rows = generations(consoles)
        stop.touch()
        said = []
        for sender, server in flows:
            for process in (sender, server):
                if status := process.wait(SECONDS_MAX):
                    raise Failure(f"{process.name} ended with status {status}")
            if sender.stdout != server.stdout:
                raise Failure(f"sent {sender.stdout} received {server.stdout}")
            said.append(int(sender.stdout.split()[1]) >> 20)
        judged = [judge(rows[name], name) for name in consoles]
        new = sum((row["block"], row["generation"]) not in before[name] for name in consoles for row in rows[name])
    lived, saw = (sum(column) for column in zip(*judged))
    if saw < 0.98 * lived:
        raise Failure(f"of {lived} generations that lived longer than {LIVED_NS // 10**6} ms only {saw} saw frames")
    return f"{made} changes, {new} generations, while {said[0]} MiB passed one way and {said[1]} MiB the other; {saw} of {lived} generations saw frames"


def row() -> str:
    with Environment("live") as env:
        return changed(env)
