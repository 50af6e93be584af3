"""A virtual world of 60 s whose nodes are changed thousands of times, beside the same world that nobody touches."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import os
from pathlib import Path

from harness.processes import Failure
from virtual.shared import expect, keys, pair, program, section, sim, weft_command

from . import changes, frames

FULL = bool(os.environ.get("FULL"))
SECONDS = 60
RATE_MBIT = 20 if FULL else 8
FIRST_MS, EVERY_MS = 500, 15
PORT4, PORT6 = 8000, 7000
# The least that RFC 6298's timer can be here, as in Linux: TCP_RTO_MIN over the shortest round trip.
RTT_MS, RTO_MIN_MS = 20, 200
# What a change could do to a frame that it should not.
BY_CHANGES = {"not-bound", "block-gone", "paused", "refused", "stopped", "loop", "queue-full"}

# Says the digest of what it sends: as much as `bytes`, each block another.
SEND = """
import hashlib, socket, sys
total, digest = int(sys.argv[2]), hashlib.sha256()
stream = socket.create_connection((sys.argv[1], 7000))
for number in range(total // 65536):
    block = hashlib.sha256(str(number).encode()).digest() * 2048
    digest.update(block)
    stream.sendall(block)
stream.shutdown(socket.SHUT_WR)
print(digest.hexdigest(), stream.recv(100).decode(), flush=True)
"""
RECEIVE = """
import hashlib, socket
listener = socket.create_server(("::", 7000), family=socket.AF_INET6)
stream, _ = listener.accept()
digest = hashlib.sha256()
while data := stream.recv(1 << 16):
    digest.update(data)
stream.sendall(digest.hexdigest().encode())
stream.close()
"""


def world(size: int, lines: dict[int, list[tuple[str, list[str]]]], **wire) -> str:
    """curl fetches a file over IPv4, while a program pushes as much the other way over IPv6. `lines`: by milliseconds, changes of nodes."""
    wire = {"rate": f"{RATE_MBIT}mbit", "delay": f"{RTT_MS // 2}ms", "queue_packets": 60, "loss": 0.0005, **wire}
    text = keys(duration=f"{3 * SECONDS}s", capture=True, ipv6=True, sample="100ms") + pair(**wire)
    text = text.replace("[nodes.b]\n", section("nodes.b", mounts={"/data": {"from": "./data"}}))
    text += program("serve", "b", "python3", "-ISm", "http.server", str(PORT4), "--bind", "10.0.0.2", "--directory", "/data", expect="running")
    text += program("receive", "a", "python3", "-ISc", RECEIVE, expect="any")
    text += program("fetch", "a", "sh", "-c", f"curl -sS http://10.0.0.2:{PORT4}/bulk | sha256sum", start="300ms")
    text += program("push", "b", "python3", "-ISc", SEND, "fd77:0:0:1::1", str(size), start="300ms")
    for at, told in sorted(lines.items()):
        for node, control in told:
            text += "[[events]]\n" + keys(at=f"{at}ms", node=node, control=control)
    return text


def schedule() -> dict[int, list[tuple[str, list[str]]]]:
    """Both nodes in turn, each through all changes."""
    of = {"a": changes.endless(), "b": changes.endless()}
    times = range(FIRST_MS, SECONDS * 1000, EVERY_MS)
    return {at: [(node, next(of[node]))] for at, node in zip(times, itertools.cycle(of))}


def run(folder: Path, name: str, size: int, lines: dict, **wire) -> tuple[dict, Path]:
    out = folder / name
    return sim(folder, world(size, lines, **wire), "--out", str(out)), out


def sha_of(folder: Path, size: int) -> str:
    """The file that is fetched, and its digest."""
    digest = hashlib.sha256()
    (folder / "data").mkdir()
    with open(folder / "data" / "bulk", "wb") as file:
        for number in range(size // 65536):
            block = hashlib.sha512(str(number).encode()).digest() * 1024
            digest.update(block)
            file.write(block)
    # The host notes when a file was read first, and programs of a node see that: it has been read after it was written.
    written = (folder / "data" / "bulk").stat().st_mtime_ns
    os.utime(folder / "data" / "bulk", ns=(written, written - 10**9))
    return digest.hexdigest()


def judge_programs(out: Path, sha: str) -> None:
    """What arrived is what was sent."""
    fetched = (out / "programs" / "fetch" / "stdout").read_text().split()
    expect("digest of what curl fetched", fetched[:1], [sha])
    pushed = (out / "programs" / "push" / "stdout").read_text().split()
    if len(pushed) != 2 or pushed[0] != pushed[1]:
        raise Failure(f"digests of what was pushed and of what arrived: {pushed}")


def longest_gap_ms(out: Path) -> float:
    """The longest time without a data segment on the wire, of either flow, from its first to its last. Failure where something is reset."""
    worst = 0.0
    for port in (PORT4, PORT6):
        before = None
        for packet in frames.read(out / "captures" / "b-eth0.pcapng"):
            segment = frames.segment(packet.data)
            if segment is None or port not in (segment.source, segment.destination):
                continue
            if segment.flags & frames.RST:
                raise Failure(f"a reset of port {port} at {packet.at_ns / 1e9:.6f} s")
            # Bulk comes from b in both flows; curl's request is no part of it.
            if packet.outbound and segment.payload_bytes > 0:
                worst = max(worst, (packet.at_ns - before) / 1e6 if before is not None else 0.0)
                before = packet.at_ns
        if before is None:
            raise Failure(f"no data of port {port} on the wire")
    return worst


def generations(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "generations.jsonl").read_text().splitlines()]


def judge_generations(out: Path, flows_end_ns: int) -> str:
    """Every generation of a block on the way has seen frames, and their sum is what was on the wire."""
    rows = generations(out)
    for row in rows:
        if lost := BY_CHANGES & set(row["drops"]):
            raise Failure(f"{row['node']}: generation {row['generation']} of {row['block']} lost frames: {lost} {row['drops']}")
    on_the_way = [row for row in rows if row["block"] in ("ether", "ip4", "ip6", "tcp", "interfaces") or row["kind"] == "counter"]
    for row in on_the_way:
        lived = row["began_ns"] > FIRST_MS * 1_000_000 and row["ended_ns"] is not None and row["ended_ns"] < flows_end_ns
        # Shorter than a few frames take on this wire, there may be none.
        if lived and row["ended_ns"] - row["began_ns"] > 10_000_000 and (row["frames"] == 0 or not any(row["counters"].values())):
            raise Failure(f"{row['node']}: generation {row['generation']} of {row['block']} saw nothing: {row}")
    for node in ("a", "b"):
        arrived = sum(not packet.outbound for packet in frames.read(out / "captures" / f"{node}-eth0.pcapng"))
        ether = [row for row in rows if (row["node"], row["block"]) == (node, "ether")]
        up = sum(sum(count for name, count in row["counters"].items() if name != "OutFrames") for row in ether)
        down = sum(row["counters"]["OutFrames"] for row in ether)
        expect(f"frames that reached ether of {node}, all generations", up, arrived)
        through = sum(row["frames"] for row in rows if (row["node"], row["block"]) == (node, "interfaces"))
        expect(f"frames through interfaces of {node}, all generations", through, arrived + down)
    counted = collections.Counter(row["block"] if row["kind"] != "counter" else "counter" for row in rows)
    return ", ".join(f"{block} {counted[block]}" for block in ("tcp", "sockets", "ip4", "ip6", "ether", "counter"))


def end_of_flows(summary: dict) -> int:
    return min(row["end_ns"] for row in summary["programs"] if row["name"] in ("fetch", "push"))


def changed(folder: Path) -> str:
    """Sums equal, no reset, no stall above one RTO, and generations that add up; with one hash for two runs."""
    size = int(SECONDS * RATE_MBIT * 1e6 / 16 * 0.9) // 65536 * 65536
    sha = sha_of(folder, size)
    plain, plain_out = run(folder, "plain", size, {})
    judge_programs(plain_out, sha)
    plain_gap = longest_gap_ms(plain_out)
    lines = schedule()
    summary, out = run(folder, "changed", size, lines)
    judge_programs(out, sha)
    gap = longest_gap_ms(out)
    if gap > RTO_MIN_MS + RTT_MS:
        raise Failure(f"{gap:.1f} ms without data, more than an RTO; {plain_gap:.1f} ms without changes")
    told = judge_generations(out, end_of_flows(summary))
    ends = [end_of_flows(each) / 1e9 for each in (plain, summary)]
    expect("hash of a second run", sim(folder, world(size, lines), "--threads", "2")["hash"], summary["hash"])
    return (f"{len(lines)} changes while {2 * size >> 20} MiB passed in {ends[1]:.1f} s (without: {ends[0]:.1f}); longest gap {gap:.1f} ms"
            f" (without: {plain_gap:.1f}); generations: {told}")


def canary(folder: Path) -> str:
    """State that is dropped is noticed: the connections do not survive it."""
    size = 4 << 20
    sha = sha_of(folder, size)
    # It ends with an error of the programs; what is judged is what they say.
    lines = {2000: [("b", ["replace tcp tcp --drop-state"])]}
    (folder / "scenario.toml").write_text(world(size, lines))
    weft_command(folder, "sim", "scenario.toml", "--out", "out", status=1)
    try:
        judge_programs(folder / "out", sha)
        longest_gap_ms(folder / "out")
    except Failure as noticed:
        return str(noticed)
    raise Failure("a stack that forgot its connections passed")


ROWS = {"virtual/changed": changed, "virtual/canary": canary}
