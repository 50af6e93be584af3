"""What comes from files: any of twenty graphs becomes any other, and FINS' two files become a stack that works."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

from console.stack import STACK, Stack
from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure

GRAPHS = 20
PLACES = (("ether:lower", "interfaces:upper"), ("interfaces:upper", "ether:lower"), ("tcp:ip4", "ip4:upper"), ("ip4:udp", "udp:lower"), ("icmp6:lower", "ip6:upper"))
TOOLS = (("counter", ""), ("delay", 'delay = "20ms"'), ("loss", "probability = 0.5"), ("rate", 'rate = "5mbit"'), ("forward", ""), ("filter", 'link = "ip"'))
SETTINGS = ('congestion = "reno"\n', 'congestion = "bbr"\nsack = false\n', "[block.ip4]\nforward = true\n", '[block.arp]\nreachable_time = "7s"\n', "")
FINS = Path(__file__).parent / "fins"


def graph(number: int) -> str:
    """A stack file that no other number has."""
    source = random.Random(number)
    text, inserts, places = STACK + f"[block.tcp]\nmss = {500 + number}\n{source.choice(SETTINGS)}", [], list(PLACES)
    for tool in range(source.randrange(6)):
        kind, parameters = source.choice(TOOLS)
        text += f'[block.t{tool}]\nkind = "{kind}"\n{parameters}\n'
        at = source.randrange(len(places))
        before, after = places[at]
        inserts.append(f'"t{tool} {before} {after}"')
        places[at] = (before, f"t{tool}:in")
        places.append((f"t{tool}:out", after))
    return text + f"[graph]\ninsert = [{', '.join(inserts)}]\n"


def applied() -> str:
    """The running graph is brought from each of twenty to each other; the file that was applied last has nothing more to change."""
    with tempfile.TemporaryDirectory(prefix="weft-apply-") as folder, Stack(Path(folder)) as stack:
        for number in range(GRAPHS):
            (stack.folder / f"{number}.toml").write_text(graph(number))
        count = 0

        def apply(number: int) -> None:
            for words, wanted in (((), True), (("--dry-run",), False)):
                done = stack.said("apply", f"{number}.toml", *words)
                if done.returncode != 0 or ("(nothing to change)" in done.stdout) == wanted:
                    raise Failure(f"graph {number} {words}: status {done.returncode}\n{done.stdout}{done.stderr}")

        apply(0)
        for one in range(GRAPHS):
            # Every other one from it, and back to it.
            for other in range(one + 1, GRAPHS):
                for number in (other, one):
                    apply(number)
                    count += 1
            if one + 1 < GRAPHS:
                apply(one + 1)
        return f"{count} pairs of {GRAPHS} graphs"


def fins(env: Environment) -> str:
    """The two files are converted; the stack comes up on the interface that they name, and answers, its logger on the way."""
    home, peer = env.namespace("fins"), env.namespace("peer")
    veth((home, "eth0"), (peer, "eth1"))
    peer.ip("address", "add", "192.0.2.1/24", "dev", "eth1")
    file = env.folder / "fins.toml"
    words = [weft.binary(), "import", "fins", str(FINS / "stack.cfg"), str(FINS / "envi.cfg"), "--out", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode != 0 or done.stderr:
        raise Failure(f"status {done.returncode}: {done.stderr}")
    daemon = weft.Daemon(env, home, name="fins", extra=("--stack", str(file)))
    env.run("ping", [paths.tool("ping"), "-c", "3", "-i", "0.2", "-W", "5", "192.0.2.3"], peer)
    frames = {row["block"]: row["frames"] for row in daemon.show("counters")}
    if frames["logger_1"] < 3 or daemon.show("interfaces")[-1]["mac"] != "02:00:00:00:00:17":
        raise Failure(f"{frames} {daemon.show('interfaces')}")
    refused = subprocess.run(words[:3] + [words[4], words[3]], capture_output=True, text=True, timeout=30)
    if refused.returncode != 2 or "envi.cfg:1: stack is missing: this is no stack.cfg\nhelp: " not in refused.stderr:
        raise Failure(f"the files exchanged: status {refused.returncode}: {refused.stderr}")
    daemon.down()
    return f"{frames['logger_1']} frames through the logger"


def fins_row() -> str:
    with Environment("fins") as env:
        return fins(env)
