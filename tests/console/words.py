"""Every command, with good and bad arguments: each line is answered by one line of JSON, an error by one that says so."""

from __future__ import annotations

import json
from typing import Any, Callable

from harness.processes import Failure

from .stack import Stack

Answer = Any
Check = Callable[[Answer], bool]


def changes(*lines: str) -> Check:
    """What changed, a text each."""
    return lambda answer: answer == list(lines)


def error(*parts: str) -> Check:
    """Refused, for a reason that holds these parts."""
    return lambda answer: isinstance(answer, dict) and list(answer) == ["error"] and all(part in answer["error"] for part in parts)


def rows(*keys: str) -> Check:
    """A table whose rows (some, unless there are no keys) have these keys."""
    return lambda answer: isinstance(answer, list) and bool(answer or not keys) and all(set(keys) <= set(row) for row in answer)


def value(block: str, name: str, wanted: Answer) -> Check:
    return lambda answer: answer == {block: {name: wanted}}


INSERTED = "insert wan ether:lower interfaces:upper: ether:lower -> wan:in, wan:out -> interfaces:upper"

OWN: list[tuple[str, Check]] = [
    ("get tcp.mss", value("tcp", "mss", 0)),
    ("get tcp", lambda answer: answer["tcp"]["mss"] == 0),
    ("get 'ip?.forward'", lambda answer: answer == {"ip4": {"forward": False}, "ip6": {"forward": False}}),
    ("get tpc.mss", error("no block named 'tpc'", "did you mean 'tcp'?")),
    ("get tcp.", error("get: 'tcp.' names no block and parameter")),
    ("set tcp.mss 536", changes("set tcp.mss 536")),
    ("set tcp.mss much", error("tcp.mss", "no whole number")),
    ("set tcp.mss", error("set: the value is missing")),
    ("exec ip4 route_add destination=10.9.0.0/16 interface=lo", lambda answer: answer == {"ip4": None}),
    ("exec ip4 route_add destination=10.9.0.1/16 interface=lo", error("ip4 route_add", "bits set")),
    ("exec arp flsuh", error("block 'arp' has no procedure 'flsuh'", "did you mean 'flush'?")),
    ("exec tcp", error("exec: the procedure is missing")),
    ("add wan delay delay=20ms", changes("add wan delay")),
    ("add wan delay", error("'wan' exists already")),
    ("add x dealy", error("no kind of block named 'dealy'", "did you mean 'delay'?")),
    ("add 'a b' delay", error("'a b' is no name")),
    ("insert wan ether:lower interfaces:upper", changes(INSERTED)),
    ("insert wan ether:lower interfaces:upper", error("there is no edge from ether:lower to interfaces:upper")),
    ("insert wan ether:lowr interfaces", error("block 'ether' has no output port 'lowr'")),
    ("replace wan counter --drop-state", changes("replace wan counter")),
    ("replace wan sockets", error("wan")),
    ("load none.wasm", error("there is no such file")),
    ("load", error("load: the file is missing")),
    ("unload counter", error("cannot unload 'counter': it is built in")),
    ("unload none", error("there is no kind of block named 'none'")),
    ("unload", error("unload: the kind is missing")),
    ("extract wan", changes("extract wan: ether:lower -> interfaces:upper")),
    ("extract ip4", error("ip4", "only a block with one leaves an edge behind")),
    ("bind wan:out interfaces:upper", changes("bind wan:out interfaces:upper")),
    ("bind wan:out ip4:lower", error("wan:out is bound to interfaces:upper already")),
    ("bind tcp:upper ip4:lower", error("tcp:upper")),
    ("unbind wan", changes("unbind wan:out interfaces:upper")),
    ("unbind wan", error("there is no edge from wan to anywhere")),
    ("delete wan", changes("delete wan")),
    ("delete wan", error("there is no block named 'wan'")),
    ("snapshot", error("snapshot: the file is missing")),
    ("snapshot a b", error("snapshot: 'b' is one word too many")),
    ("snapshot none/a", error("there is no such file or folder")),
    ("restore", error("restore: the file is missing")),
    ("restore none", error("there is no such file or folder")),
    ("pause", changes("pause")),
    ("pause", changes()),
    ("unpause", changes("unpause: 0 frames go on")),
    ("unpause now", error("unpause: 'now' is one word too many")),
    ("show blocks", rows("name", "kind", "frames", "parameters")),
    ("show edges", rows("from", "output", "to", "input", "carries")),
    ("show interfaces", rows("name", "mtu")),
    ("show addresses", rows("address")),
    ("show routes", rows("destination")),
    ("show neighbours", rows()),
    ("show groups", rows()),
    ("show sockets", rows()),
    ("show mptcp", rows()),
    ("show counters", rows("block", "frames", "counters")),
    ("show drops", rows()),
    ("show calls", rows()),
    ("show published", rows()),
    ("show nothing", error("show: 'nothing' is nothing that can be shown")),
    ("subscribe nobody", error("no block named 'nobody'")),
    ("help isnert", error("there is no command 'isnert'")),
    ("isnert", error("there is no command 'isnert'; did you mean 'insert'?")),
    ("add 'x", error("is open")),
    ("link a b", error("there is no command 'link'")),
]

FINS: list[tuple[str, Check]] = [
    ("get tcp mss", value("tcp", "mss", 0)),
    ("get tcp mssss", error("no parameter 'mssss'")),
    ("set tcp mss 536", changes("set tcp.mss 536")),
    ("set tcp mss", error("set: ")),
    ("exec arp flush", lambda answer: answer == {"arp": None}),
    ("exec arp", error("exec: the procedure is missing")),
    ("load delay wan delay=20ms", changes("add wan delay")),
    ("load counter", changes("add counter counter")),
    ("load", error("load: write load KIND")),
    ("link wan counter", changes("bind wan:out counter:in")),
    ("link wan", error("link: the input is missing")),
    ("unlink wan", changes("unbind wan:out counter:in")),
    ("unlink wan", error("there is no edge from wan to anywhere")),
    ("replace counter counter", changes("replace counter counter")),
    ("replace counter", error("replace: the kind is missing")),
    ("unload wan", changes("delete wan")),
    ("unload wan", error("there is no block named 'wan'")),
    ("pause all", changes("pause")),
    ("pause tcp", error("'tcp' alone cannot be held")),
    ("unpause", changes("unpause: 0 frames go on")),
    ("listen nobody", error("no block named 'nobody'")),
    ("listen a b c", error("listen: write listen")),
    ("console type 9", error("console: write console type 1|2|3")),
    ("help lnik", error("there is no command 'lnik'")),
    ("insert counter ether:lower interfaces:upper", changes(INSERTED.replace("wan", "counter"))),
]

LANA: list[tuple[str, Check]] = [
    ("fbctl add c1 counter", changes("add c1 counter")),
    ("add f forward", changes("add f forward")),
    ("add f", error("add: the kind is missing")),
    ("fbctl bind f c1", changes("bind f:out c1:in")),
    ("rm f", error("f is bound: f:out -> c1:in; unbind it first")),
    ("unbind f c1", changes("unbind f:out c1:in")),
    ("rm f", changes("delete f")),
    ("rm", error("rm: write rm NAME")),
    ("set tcp mss=536", changes("set tcp.mss 536")),
    ("set tcp mss", error("set: ")),
    ("replace c1 counter", changes("replace c1 counter")),
    ("add c2 counter", changes("add c2 counter")),
    ("replace c1 c2", changes("delete c2", "replace c1 counter")),
    ("replace_drop c1 forward", changes("replace c1 forward")),
    ("replace_drop c1", error("replace_drop: write replace_drop NAME OTHER")),
    ("preload nothing", error("no kind of block named 'nothing'")),
    ("subscribe nobody", error("no block named 'nobody'")),
    ("vlink unhook weft0", lambda answer: list(answer) == ["interfaces"]),
    ("vlink hook weft0", lambda answer: list(answer) == ["interfaces"]),
    ("vlink hook eth9", error("interfaces set", "eth9")),
    ("vlink ethernet add v0 eth0 5", error("interfaces of its stack file")),
]

# What prints no JSON, or nothing: the console goes on after it.
SILENT = {"own": ["help", "help insert", "subscribe", "subscribe tcp", "unsubscribe", "# a remark", ""],
          "fins": ["help", "help link", "listen", "listen all all 1", "listen tcp", "listen tcp all 0", "console type 1", "set listener", "set console"],
          "lana": ["help", "preload counter", "subscribe tcp", "unsubscribe tcp"]}


def script(stack: Stack, name: str, table: list[tuple[str, Check]], *options: str) -> str:
    """The lines of a table as input that is no terminal."""
    done = stack.said("console", "--json", *options, text="".join(f"{line}\n" for line, _ in table))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(table):
        raise Failure(f"{len(table)} lines got {len(answers)} answers: {done.stdout}{done.stderr}")
    wrong = [f"{line}: {answer}" for (line, check), answer in zip(table, answers) if not check(answer)]
    if wrong:
        raise Failure("\n".join(wrong))
    if done.returncode != 2:
        raise Failure(f"lines were refused, and the status is {done.returncode}")
    quiet = stack.said("console", *options, text="\n".join([*SILENT[name], "quit", "set tcp.mss 9"]))
    if quiet.returncode != 0 or quiet.stderr or "set tcp.mss 9" in quiet.stdout.splitlines():
        raise Failure(f"{quiet.returncode}: {quiet.stdout}{quiet.stderr}")
    ended = stack.said("console", *options, text="shutdown\n")
    if ended.returncode != 0 or stack.daemon.wait(timeout=60) != 0:
        raise Failure(f"shutdown: {ended.stderr}")
    return f"{len(table)} lines, {sum(isinstance(answer, dict) and 'error' in answer for answer in answers)} of them refused"
