"""The stacks that scripts are played against: the kernel's, and weft's under its two adapters. The far end is this process.

Natively a TUN device leads from the namespace of the program to here. weft's own TUN leads into a namespace that has no address, where a packet
socket takes what comes out and puts in what goes in. All scripts of one place run beside each other: each has an address of its own.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from harness import paths, weft
from harness.environment import Environment
from harness.namespaces import Namespace
from harness.processes import PATIENCE, Failure

from . import frames
from .frames import Packet

LINUX, STRICT, NOTIFY = HOSTS = ("linux", "strict", "notify")
HERE = Path(__file__).parent
STACK, STACK6 = "10.64.0.1", "fd64::1"
# Who asks whether everything has been dealt with.
ASKER = "10.127.255.254"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
CLONE_NEWNET, PACKET_OUTGOING = 0x40000000, 4
FRAME_BYTES_MAX = 1 << 16
ANSWER_SECONDS_MAX = 20 * PATIENCE
FRAMES_AT_ONCE_MAX = 64
# Stacks and programs have work for milliseconds, and much of it is about milliseconds: they go before what computes. Not by real-time priority: some wait for
# each other without sleeping.
FIRST = ("nice", "-n", "-20") if os.geteuid() == 0 else ()
# What the kernel is told, so that it is the Linux that weft follows and not the taste of one distribution.
USUAL = {
    "tcp_no_metrics_save": "1", "tcp_mtu_probing": "1", "tcp_rmem": "4096 131072 33554432",
    "tcp_wmem": "4096 16384 4194304", "tcp_ecn": "2", "tcp_fastopen": "1",
}
# Settings by Linux's name whose parameter of block tcp has another one, and how a value is written there.
RENAMED = {"congestion_control": "congestion", "max_syn_backlog": "syn_backlog", "min_snd_mss": "mss_min", "keepalive_intvl": "keepalive_interval",
           "early_retrans": "tail_loss_probe"}
SECONDS = {"keepalive_time", "keepalive_interval", "fin_timeout"}
FLAGS = {"sack", "dsack", "timestamps", "window_scaling", "slow_start_after_idle", "moderate_rcvbuf", "rfc1337", "frto", "tail_loss_probe"}


def parameters(settings: dict[str, str]) -> dict[str, str]:
    """Settings of Linux's as parameters of weft's."""
    found = {}
    for name, value in settings.items():
        bare = name.removeprefix("tcp_")
        if bare in ("rmem", "wmem"):
            found |= {f"tcp.{bare}_{which}": number for which, number in zip(("min", "default", "max"), value.split(), strict=True)}
            continue
        if bare in ("no_metrics_save",):
            continue
        known = RENAMED.get(bare, bare)
        if known in FLAGS:
            value = "true" if int(value) else "false"
        if known in SECONDS:
            value += "s"
        found[f"tcp.{known}"] = value
    return found


@contextlib.contextmanager
def inside(namespace: Namespace) -> Iterator[None]:
    """What is opened meanwhile belongs to that namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(namespace.path) as other:
        if libc.setns(other.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            if libc.setns(own.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")


class Link:
    """The way between one play and the stack."""

    def __init__(self, place: Place, key: str, stack: str, peer: str, port: int) -> None:
        self.place, self.key, self.stack, self.peer, self.port = place, key, stack, peer, port
        self.frames: collections.deque[tuple[float, Packet]] = collections.deque()
        self._came = asyncio.Event()

    def take(self, at: float, seen: Packet) -> None:
        self.frames.append((at, seen))
        self._came.set()

    async def arrival(self, deadline: float) -> bool:
        """Waits for a frame; False: none came in time."""
        while not self.frames:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), max(deadline - time.monotonic(), 0))
            except asyncio.TimeoutError:
                return False
        return True

    def close(self) -> None:
        self.place.links.pop(self.peer, None)


class Place:
    """A stack with a program on it."""

    def __init__(self, env: Environment, host: str, settings: dict[str, str]) -> None:
        self.env, self.host, self.settings = env, host, {**USUAL, **settings}
        # The stack runs beside the program, not inside its calls.
        self.beside = host == NOTIFY
        self.links: dict[str, Link] = {}
        self._numbers = itertools.count(1)
        self._echoes: dict[int, asyncio.Future] = {}
        self._echo_numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future] = {}
        self._answer_numbers = itertools.count(1)
        self._writer: asyncio.StreamWriter | None = None
        self._gone = False

    async def start(self, tag: str) -> None:
        self.namespace = self.env.namespace(tag)
        self._control = self.env.folder / f"{tag}.calls"
        connected = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_unix_server(lambda reader, writer: connected.set_result((reader, writer)), str(self._control))
        program = self.env.folder / "program.py"
        if not program.exists():
            shutil.copy2(HERE / "program.py", program)
        # Python without what nobody here needs: it starts for every place.
        command = [paths.PYTHON, "-I", "-S", str(program), str(self._control)]
        if self.host == LINUX:
            self._native()
            words = list(FIRST)
        else:
            words = self._weft(tag)
        self._program = self.env.start(f"{tag}-program", [*words, *command], self.namespace)
        asyncio.get_running_loop().add_reader(self.fd, self._readable)
        try:
            reader, self._writer = await asyncio.wait_for(connected, ANSWER_SECONDS_MAX)
        except asyncio.TimeoutError:
            raise Failure(f"{tag}: the program did not come: {self._program.describe()}") from None
        self._reading = asyncio.ensure_future(self._read_answers(reader))

    def _native(self) -> None:
        with inside(self.namespace):
            try:
                self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            except PermissionError:
                raise Failure("/dev/net/tun is not for this user: run it as root") from None
            fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("16sH14x", b"script", IFF_TUN | IFF_NO_PI))
        self.namespace.enable_ipv6()
        for name, value in self.settings.items():
            self.namespace.sysctl(f"net.ipv4.{name}", value)
        self.namespace.ip("addr", "add", f"{STACK}/10", "dev", "script")
        self.namespace.ip("addr", "add", f"{STACK6}/64", "dev", "script", "nodad")
        self.namespace.ip("link", "set", "script", "up", "txqueuelen", "10000")
        self._take = lambda: os.read(self.fd, FRAME_BYTES_MAX)
        self.put = lambda raw: os.write(self.fd, raw)

    def _weft(self, tag: str) -> list[str]:
        binary = weft.binary()
        stack = self.env.folder / f"{tag}.toml"
        stack.write_text(
            '[node]\nname = "scripts"\n[[interface]]\nname = "script"\nbackend = "tun:script"\nmtu = 1500\noffload = false\n'
            f'[[address]]\ninterface = "script"\naddress = "{STACK}/10"\n[[address]]\ninterface = "script"\naddress = "{STACK6}/64"\n')
        control = self.env.folder / f"{tag}.sock"
        options = [word for name, value in parameters(self.settings).items() for word in ("--set", f"{name}={value}")]
        daemon = self.env.start(f"{tag}-up", [*FIRST, binary, "up", "--stack", str(stack), "--control", str(control), *options], self.namespace)
        daemon.wait_for_line("ready control=")
        self.namespace.ip("link", "set", "script", "up", "txqueuelen", "10000")
        with inside(self.namespace):
            # All protocols: 0x0003.
            device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        device.bind(("script", 3))
        device.setblocking(False)
        device.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._device, self.fd = device, device.fileno()

        def take() -> bytes:
            while True:
                raw, (_, _, kind, *_) = device.recvfrom(FRAME_BYTES_MAX)
                if kind != PACKET_OUTGOING:
                    return raw

        self._take = take
        self.put = lambda raw: device.sendto(raw, ("script", 0x86DD if raw[0] >> 4 == 6 else 0x0800))
        return [*FIRST, binary, "run", *(["--strict"] if self.host == STRICT else []), "--control", str(control), "--"]

    def link(self, six: bool) -> Link:
        """Addresses and a port that no other play of this place has or had."""
        number = next(self._numbers)
        peer = f"fd64::64:{number:x}" if six else f"10.65.{number >> 8}.{number & 0xFF}"
        made = Link(self, f"{number}", STACK6 if six else STACK, peer, 2000 + number)
        self.links[peer] = made
        return made

    def _readable(self) -> None:
        for _ in range(FRAMES_AT_ONCE_MAX):
            try:
                raw = self._take()
            except BlockingIOError:
                return
            at, seen = time.monotonic(), frames.read(raw)
            if isinstance(seen, Packet):
                if link := self.links.get(seen.destination):
                    link.take(at, seen)
            elif seen is not None and (number := frames.echoed(seen)) in self._echoes:
                self._echoes.pop(number).set_result(None)

    async def settled(self) -> None:
        """Until the stack has dealt with everything that went in before."""
        number = next(self._echo_numbers)
        self._echoes[number] = answered = asyncio.get_running_loop().create_future()
        self.put(frames.echo(ASKER, STACK, number))
        await asyncio.wait_for(answered, ANSWER_SECONDS_MAX)

    async def call(self, play: str, name: str, call: str, words: list) -> str:
        if self._gone:
            raise Failure(f"the program on {self.host} has ended: {self._program.describe()}")
        number = next(self._answer_numbers)
        self._answers[number] = answered = asyncio.get_running_loop().create_future()
        request = {"id": number, "play": play, "socket": name, "call": call, "words": words}
        self._writer.write(json.dumps(request).encode() + b"\n")
        return await asyncio.wait_for(answered, ANSWER_SECONDS_MAX)

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            said = json.loads(line)
            if (answered := self._answers.pop(said["id"], None)) and not answered.done():
                answered.set_result(said["said"])
        self._gone = True
        for answered in self._answers.values():
            answered.cancel()

    async def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self.fd)
        self._reading.cancel()
        self._writer.close()
        self._server.close()
        if self.host == LINUX:
            os.close(self.fd)
        else:
            self._device.close()
