"""Answers with --json beside docs/answers.schema.json: of every command, while there is something of everything to be shown."""

from __future__ import annotations

import copy
import json
import socket
import subprocess
from typing import Any

import jsonschema

from harness import paths
from harness.processes import Failure

from .stack import Stack

SCHEMA = paths.ROOT / "docs" / "answers.schema.json"
TABLES = ["blocks", "edges", "interfaces", "addresses", "routes", "neighbours", "groups", "sockets", "counters", "drops", "generations",
          "calls", "published"]
# What there is besides the stack itself: neighbours, a drop, a block that has ended, a port of the host's that leads in.
LINES = [
    ("exec interfaces set name=weft0 up=true", "results"),
    ("exec ip4 address_add interface=weft0 address=10.9.9.2 prefix_bits=24", "results"),
    ("exec arp add interface=weft0 address=10.9.9.9 mac=02:00:00:00:00:09", "results"),
    ("exec ip4 route_add destination=10.8.0.0/16 gateway=10.9.9.9", "results"),
    ("add wan counter", "changes"),
    ("replace wan counter", "changes"),
    ("delete wan", "changes"),
    ("snapshot schema.snapshot", "changes"),
    ("restore schema.snapshot", "changes"),
    ("restore none", "error"),
    ("pause", "changes"),
    ("unpause", "changes"),
    ("get tcp", "parameters"),
    ("get 'ip?.forward'", "parameters"),
    ("set tcp.mss 536", "changes"),
    ("set tcp.mss much", "error"),
    ("isnert", "error"),
    ("unbind tcp ip4", "changes"),
]
# A listener, a connection that nothing of gets through to, and a datagram socket.
PROGRAM = """
import socket, sys
listener, datagrams, caller = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket()
listener.bind(("127.0.0.1", 7)); listener.listen()
datagrams.bind(("", 99))
caller.setblocking(False); caller.connect_ex(("127.0.0.1", 7))
print("ready", flush=True)
sys.stdin.read()
"""


def validator(name: str) -> jsonschema.Draft202012Validator:
    whole = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator({"$defs": whole["$defs"], "$ref": f"#/$defs/{name}"})


def follows(name: str, answer: Any) -> None:
    error = next(validator(name).iter_errors(answer), None)
    if error is not None:
        raise Failure(f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message}")


def damaged(rows: list[dict]) -> list[list[dict]]:
    """Tables that do not follow the schema: a field more, one less, one of another type."""
    more, less, other = (copy.deepcopy(rows) for _ in range(3))
    more[0]["nobody said so"] = 1
    first = next(iter(less[0]))
    del less[0][first]
    other[0][first] = []
    return [more, less, other]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def of_tables(beside: Stack) -> str:
    folder = beside.folder / "published"
    folder.mkdir()
    with Stack(folder, "--publish", f"127.0.0.1:{free_port()}:7") as stack:
        return in_stack(stack)


def in_stack(stack: Stack) -> str:
    lines = "".join(f"{line}\n" for line, _ in LINES)
    answers = [json.loads(line) for line in stack.said("console", "--json", text=lines).stdout.splitlines()]
    if len(answers) != len(LINES):
        raise Failure(f"{len(LINES)} lines got {len(answers)} answers")
    for (_, name), answer in zip(LINES, answers):
        follows(name, answer)
    command = stack.command("run", "--", "/usr/bin/python3", "-c", PROGRAM)
    with subprocess.Popen(command, cwd=stack.folder, env=stack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        if program.stdout.readline() != "ready\n":
            raise Failure("the program did not come up")
        shown = {name: json.loads(stack.said("show", name, "--json").stdout) for name in TABLES}
        program.communicate("")
    for name, rows in shown.items():
        follows(name, rows)
        if not rows:
            raise Failure(f"{name}: there is nothing to be looked at")
        for wrong in damaged(rows):
            if validator(name).is_valid(wrong):
                raise Failure(f"{name}: what is wrong follows the schema: {wrong[0]}")
    return f"{len(LINES)} answers and {len(TABLES)} tables of {sum(map(len, shown.values()))} rows"
