"""Random control messages: sound ones, ones about things that are not there, broken ones and noise. Each gets one answer, in order; the stack goes on.

Short form: 200,000. FULL=1: 1,000,000. SEED=N repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from console.stack import Stack
from harness import seeds
from harness.processes import Failure

MESSAGES = 1_000_000 if os.environ.get("FULL") else 200_000
# Written at once, so that many wait for their turn.
BATCH = 100
# After so many the graph is what it was, so that later ones still find something.
RESTORED_EVERY = 2_000
SECONDS_MAX = 600
# What a stack of this kind takes, and what it may have taken when it has answered all of them.
RSS_MIB_MAX = 200

BLOCKS = ("tcp", "ip4", "ip6", "ether", "sockets", "arp", "nd", "udp", "icmp4", "interfaces", "loopback")
NEW = ("one", "two", "three")
KINDS = ("counter", "delay", "loss", "filter", "tee", "rate", "logger", "forward", "drop", "blackhole", "tcp", "ip4", "sockets", "no-such")
PORTS = ("in", "out", "lower", "upper", "ip4", "tcp", "rejected", "copy", "wire", "", "no-such", None)
PARAMETERS = ("mss", "congestion", "delay", "probability", "rate", "program", "expression", "default_ttl", "forward", "interval", "link", "no-such", "")
PROCEDURES = ("add", "delete", "flush", "address_add", "address_delete", "route_add", "route_delete", "set", "reset", "memory", "paths", "control", "")
SHOWS = ("blocks", "edges", "counters", "drops", "interfaces", "addresses", "routes", "neighbours", "groups", "sockets", "no-such")
VALUES = (0, 1, -1, 2**63, 2**64 - 1, 1.5, 1e308, True, None, "", "20ms", "reno", "cubic", "eth9", "10.0.0.1/24", "::1", "x" * 5000, [], [1, [2]], {}, {"a": {}},
          "40 0 0 12,21 0 1 2048,6 0 0 65535,6 0 0 0", "\u0000", "ä", "100mbit", "fd00::/64")


class Source:
    """Messages from a number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def line(self, serial: int) -> tuple[bytes, bool]:
        """The message, and whether it is as it was written."""
        choice = self.random.random()
        text = json.dumps({"serial": serial, "ask": self.ask()}).encode()
        if choice < 0.85:
            return text, True
        if choice < 0.95:
            return self.damaged(text), False
        return bytes(byte for byte in self.random.randbytes(self.random.randrange(200)) if byte != 10), False

    def damaged(self, text: bytes) -> bytes:
        data = bytearray(text)
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(data))
            if self.random.random() < 0.3:
                del data[at:at + self.random.randrange(1, 30)]
            else:
                data[at:at + 1] = self.random.choice((b"}", b'"', b"{", b"[", b",", b"0", b"\xff", b"\x00", b"e"))
            data = data or bytearray(b"{")
        return bytes(data).replace(b"\n", b" ")

    def pick(self, *tables: tuple):
        return self.random.choice(self.random.choice(tables))

    def value(self):
        return self.random.choice(VALUES)

    def end(self) -> dict:
        return {"block": self.pick(BLOCKS, NEW), "port": self.random.choice(PORTS)}

    def parameters(self) -> dict:
        return {self.random.choice(PARAMETERS): self.value() for _ in range(self.random.randrange(3))}

    def target(self):
        name = self.pick(BLOCKS, NEW)
        return self.random.choice(({"name": name}, {"pattern": name[:1] + "*"}, {"group": 7}, {"name": "no-such"}, name, None))

    def ask(self):
        return self.random.choice(("hello", "calls", "published", {"join": {"program": "x"}}, {"no-such": 1})) if self.random.random() < 0.05 else {"node": self.operation()}

    def operation(self):
        name = self.random.choice(NEW) if self.random.random() < 0.9 else self.random.choice(BLOCKS)
        kind = self.random.choice(KINDS)
        operations = (
            lambda: {"get": {"target": self.target(), "name": self.random.choice(PARAMETERS)}},
            lambda: {"set": {"target": self.target(), "name": self.random.choice(PARAMETERS), "value": self.value()}},
            lambda: {"exec": {"target": self.target(), "procedure": self.random.choice(PROCEDURES), "arguments": self.random.choice((self.parameters(), self.value()))}},
            lambda: {"add": {"name": self.random.choice((name, name, "", "x" * 65, "a b")), "kind": kind, "parameters": self.parameters()}},
            lambda: {"delete": {"name": self.random.choice(NEW)}},
            lambda: {"bind": {"from": self.end(), "to": self.end()}},
            lambda: {"unbind": {"from": self.end(), "to": self.random.choice((None, self.end()))}},
            lambda: {"insert": {"block": self.end(), "from": self.end(), "to": self.end()}},
            lambda: {"extract": {"block": self.random.choice(NEW)}},
            lambda: {"replace": {"name": name, "kind": self.random.choice((name, kind)), "parameters": self.parameters(), "drop_state": self.random.random() < 0.5}},
            lambda: {"all": [self.operation() for _ in range(self.random.randrange(4))]},
            lambda: self.random.choice(("pause", "unpause")),
            lambda: {self.random.choice(("snapshot", "restore")): {"file": self.random.choice(("", "relative", "/proc", "/dev/null", "/no-such/file", "x" * 5000))}},
            lambda: {"list": self.random.choice(("interfaces", "sockets", "flows", "no-such", {"routes": "v4"}, {"neighbours": "v6"}))},
            lambda: {"show": self.random.choice(SHOWS)},
        )
        return self.random.choice(operations)()


class Conversation:
    """The control socket, spoken as it is."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(SECONDS_MAX)
        self.socket.connect(str(path))
        self.answers = self.socket.makefile("rb")

    def ask(self, ask) -> dict:
        self.socket.sendall(json.dumps({"serial": 1, "ask": ask}).encode() + b"\n")
        return self.answer()[1]

    def answer(self) -> tuple[int, dict]:
        line = self.answers.readline()
        if not line:
            raise Failure("the stack has ended, or closed the connection")
        said = json.loads(line)["answer"]
        return said["serial"], said["result"]

    def close(self) -> None:
        self.answers.close()
        self.socket.close()


def judge(serial: int, line: bytes, is_whole: bool, answer: tuple[int, dict]) -> str:
    """One answer, to this message, one of two kinds."""
    got, result = answer
    # What is no request has no serial that could come back: 0. A damaged one may have another.
    if set(result) not in ({"Ok"}, {"Err"}) or (is_whole and got not in (serial, 0)) or (got == 0 and "Ok" in result):
        raise Failure(f"message {serial} ({line[:200]!r}) was answered by {answer}")
    return next(iter(result))


def talk(stack: Stack, seed: int) -> str:
    source, control = Source(seed), Conversation(control_path(stack))
    shape = shape_of(control)
    counts = {"Ok": 0, "Err": 0}
    try:
        for first in range(0, MESSAGES, BATCH):
            lines = [(serial, *source.line(serial)) for serial in range(first + 2, first + 2 + BATCH)]
            data = b"".join(line + b"\n" for _, line, _ in lines)
            writer = threading.Thread(target=control.socket.sendall, args=(data,), daemon=True)
            writer.start()
            for serial, line, is_whole in lines:
                counts[judge(serial, line, is_whole, control.answer())] += 1
            writer.join()
            if first % RESTORED_EVERY == 0:
                restore(control, shape)
        restore(control, shape)
        if shape_of(control) != shape:
            raise Failure("the graph is not what it was")
    finally:
        control.close()
    if min(counts.values()) < MESSAGES // 50:
        raise Failure(f"most were of one kind: {counts}")
    rss = rss_mib(stack.daemon)
    if stack.daemon.poll() is not None or rss > RSS_MIB_MAX:
        raise Failure(f"status {stack.daemon.poll()}, {rss} MiB")
    return f"{MESSAGES} messages, one answer each: {counts['Ok']} done, {counts['Err']} refused; {rss} MiB"


def control_path(stack: Stack) -> Path:
    return stack.folder / "weft" / "control"


def shape_of(control: Conversation) -> dict:
    """Blocks and edges, as `apply` takes them."""
    blocks, edges = (control.ask({"node": {"show": what}})["Ok"] for what in ("blocks", "edges"))
    return {
        "blocks": {row["name"]: {"kind": row["kind"], "parameters": {key: value for key, value in row["parameters"].items() if key != "boot_time"}} for row in blocks},
        "edges": [{key: row[key] for key in ("from", "output", "to", "input")} for row in edges],
    }


def restore(control: Conversation, shape: dict) -> None:
    answer = control.ask({"apply": {"shape": shape, "dry_run": False}})
    if "Ok" not in answer:
        raise Failure(f"the graph cannot be restored: {answer}")


def rss_mib(process: subprocess.Popen) -> int:
    words = next(line.split() for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(words[1]) >> 10


def random_messages() -> str:
    seed = seeds.seed()
    with tempfile.TemporaryDirectory(prefix="weft-messages-") as folder, Stack(Path(folder)) as stack:
        return talk(stack, seed)
