"""A full disk under a capture, and an interface that is removed under traffic."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import veth
from harness.processes import Failure
from load.stage import Stage, Tools

SECONDS_MAX = 30
DISK = "512k"
CONNECTIONS, BYTES = 10, 200_000
# A stack that waits for something that is gone would use a whole CPU.
WATCHED_SECONDS, BUSY_SECONDS_MAX = 2.0, 1.0
# pcapng: a section's header block begins the file; every block has its length in front and behind.
SECTION, ENHANCED_PACKET, BYTE_ORDER = 0x0A0D0D0A, 6, 0x1A2B3C4D


def full_disk(env: Environment, tools: Tools) -> str:
    disk = env.folder / "disk"
    disk.mkdir()
    subprocess.run([paths.tool("mount"), "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)], check=True, timeout=20)
    try:
        return _full_disk(env, tools, disk / "capture.pcapng")
    finally:
        # The daemon holds the file.
        for process in reversed(env.processes):
            process.stop()
        subprocess.run([paths.tool("umount"), str(disk)], check=True, timeout=20)


def _full_disk(env: Environment, tools: Tools, capture: Path) -> str:
    stage = Stage(env, tools, {}, extra=("--capture", str(capture)))
    for role in ("server", "client"):
        server = stage.serve(role)
        # Twice: while the disk fills up, and when it is full.
        for _ in range(2):
            stage.run_client(role, "talk", str(CONNECTIONS), str(BYTES))
        stage.end_server(server)
    warnings = [line for line in stage.daemon.process.stderr.splitlines() if str(capture) in line]
    if len(warnings) != 1 or "No space left" not in warnings[0]:
        raise Failure(f"wanted one warning about the full disk, found {warnings}")
    packets = packets_of(capture.read_bytes())
    if packets == 0:
        raise Failure("the capture holds no packet")
    stage.check_silent()
    return f"{4 * CONNECTIONS * BYTES // 1000} KB there and back over {DISK} of disk, one warning, {packets} whole packets in the file"


def packets_of(data: bytes) -> int:
    """Packets of a pcapng file that must consist of whole blocks."""
    at = packets = 0
    # A section says by its magic number in which order its bytes are.
    order = "<" if data[8:12] == struct.pack("<I", BYTE_ORDER) else ">"
    while at < len(data):
        kind, length = struct.unpack_from(f"{order}II", data, at) if at + 12 <= len(data) else (0, 0)
        if length < 12 or at + length > len(data) or struct.unpack_from(f"{order}I", data, at + length - 4)[0] != length:
            raise Failure(f"the capture has half a block at byte {at} of {len(data)}")
        if at == 0 and kind != SECTION:
            raise Failure(f"the capture begins with a block of type {kind:#x}")
        packets += kind == ENHANCED_PACKET
        at += length
    return packets


def interface_removed(env: Environment, tools: Tools, kind: str) -> str:
    """`ip link del` of the stack's only interface, with traffic both ways."""
    if kind == "tap":
        stage = Stage(env, tools, {})
    else:
        stage = Stage(env, tools, {}, extra=("--stack", str(_packet_stack(env))), prepare=_veth_to_itself)
    servers = [stage.serve("client"), stage.serve("server")]
    clients = [stage.client(role, "talk", str(CONNECTIONS), "0") for role in ("client", "server")]
    for client in clients:
        client.wait_for_line("open")
    stage.kernel.ip("link", "delete", weft.TAP)
    daemon = stage.daemon.process
    daemon.wait_for(lambda: f"interface {weft.TAP} is gone" in daemon.stderr, "saying that its interface is gone", SECONDS_MAX)
    row = next(row for row in stage.daemon.show("interfaces") if row["name"] == weft.TAP)
    if row["up"]:
        raise Failure(f"{weft.TAP} is gone and still up in weft show interfaces")
    _check_rest(stage)
    # Like a host whose cable is cut: connections live, new ones have no way.
    if not clients[0].running:
        raise Failure(f"the program ended: {clients[0].stdout}")
    refused = stage.client("client", "short", "1")
    if refused.wait(SECONDS_MAX) != 1 or "ENETUNREACH" not in refused.stdout:
        raise Failure(f"a new connection: '{refused.stdout.strip()}' instead of ENETUNREACH")
    if len(daemon.stderr.strip().splitlines()) > 2:
        raise Failure(f"weft says more than is needed:\n{daemon.stderr}")
    for process in (*clients, *servers):
        process.stop()
    stage.daemon.down()
    return "told once, down in the table, new connections ENETUNREACH, weft down ends with status 0"


def _check_rest(stage: Stage) -> None:
    """Nothing is left to do, so nothing is done: the clock of the daemon's CPU stands still, or nearly."""
    before = _cpu_seconds(stage.daemon.process.pid)
    time.sleep(WATCHED_SECONDS)
    used = _cpu_seconds(stage.daemon.process.pid) - before
    if used > BUSY_SECONDS_MAX:
        raise Failure(f"without its interface weft used {used:.1f} s of CPU in {WATCHED_SECONDS:.1f} s")


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    # Columns 14 and 15 of proc_pid_stat(5), in hundredths.
    return (int(fields[11]) + int(fields[12])) / 100


def _packet_stack(env: Environment) -> Path:
    path = env.folder / "packet.toml"
    path.write_text("\n".join([
        "[[interface]]", f'name = "{weft.TAP}"', f'backend = "packet:{weft.TAP}"', "[[address]]", f'interface = "{weft.TAP}"',
        f'address = "{weft.STACK}/{weft.PREFIX_LENGTH}"', "",
    ]))
    return path


def _veth_to_itself(stage: Stage) -> None:
    """A veth pair: one end is the stack's, the other, with the host's address, stands for the rest of the world."""
    veth((stage.kernel, weft.TAP), (stage.kernel, "host0"))
    stage.kernel.ip("address", "add", f"{weft.HOST}/{weft.PREFIX_LENGTH}", "dev", "host0")


