"""Snapshots that are not what `weft snapshot` wrote for this node: each is refused in words, and the node goes on as it was."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Callable

from console.stack import Stack
from harness.processes import Failure

# magic, format, length; the checksum at the end.
FORMAT_AT, LENGTH_AT, BODY_AT, SUM_BYTES = 8, 12, 20, 16
LARGEST = 1 << 30
ROUTE = "10.8.0.0/16"


def cut(length: Callable[[int], int]) -> Callable[[bytes], bytes]:
    return lambda data: data[:length(len(data))]


def flipped(at: Callable[[int], int]) -> Callable[[bytes], bytes]:
    def body(data: bytes) -> bytes:
        place = at(len(data))
        return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1:]
    return body


def put(at: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value + data[at + len(value):]


# What is done to a sound file, and what is said then.
FILES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (cut(lambda _: 0), "it is cut short: 0 of "),
    "cut in the magic": (cut(lambda _: 5), "it is cut short: 5 of "),
    "cut in the format": (cut(lambda _: FORMAT_AT + 2), "it is cut short: 10 of "),
    "cut in the length": (cut(lambda _: LENGTH_AT + 3), "it is cut short: 15 of "),
    "cut behind the head": (cut(lambda _: BODY_AT), "it is cut short: 20 of "),
    "cut in the middle": (cut(lambda size: size // 2), "it is cut short: "),
    "cut in the checksum": (cut(lambda size: size - 7), "it is cut short: "),
    "the last byte missing": (cut(lambda size: size - 1), "it is cut short: "),
    "a byte too many": (lambda data: data + b"\0", "1 bytes too many follow it"),
    "a bit of the magic": (flipped(lambda _: 0), "this is no snapshot of weft's"),
    "a bit of a block": (flipped(lambda size: size // 2), "it is damaged: its checksum is another"),
    "a bit of the checksum": (flipped(lambda size: size - 1), "it is damaged: its checksum is another"),
    "another format": (put(FORMAT_AT, struct.pack("<I", 2)), "it has format 2, this weft reads format 1"),
    "a length beyond bounds": (put(LENGTH_AT, struct.pack("<Q", 1 << 62)), f"more than the {LARGEST} that a snapshot may have"),
    "a stack file": (lambda _: b'[node]\nname = "a"\n', "this is no snapshot of weft's"),
    "as text": (lambda data: data.replace(b"\r\n", b"\n"), "this is no snapshot of weft's"),
}


def routes(stack: Stack) -> str:
    """All but the one to its link-local address, which is there when a second has shown that nobody else has that address (RFC 4862 5.4)."""
    lines = stack.said("show", "routes").stdout.splitlines()
    return "\n".join(line for line in lines if line.split()[:2] != ["local", "local"] or " fe80::" not in line)


def refused(stack: Stack, *words: str) -> str:
    done = stack.said(*words)
    if done.returncode == 0 or not done.stderr.startswith("weft: cannot "):
        raise Failure(f"weft {' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stderr.strip()


def done(stack: Stack, *words: str) -> str:
    did = stack.said(*words)
    if did.returncode != 0:
        raise Failure(f"weft {' '.join(words)}: {did.stderr}")
    return did.stdout.strip()


def goes_on(stack: Stack, before: str) -> None:
    """Nothing has changed, and changes are taken."""
    if routes(stack) != before:
        raise Failure(f"the routes are others:\n{before}\n{routes(stack)}")
    done(stack, "add", "probe", "counter")
    done(stack, "delete", "probe")
    if stack.daemon.poll() is not None:
        raise Failure("the stack has ended")


def with_route(stack: Stack) -> tuple[Path, str]:
    """A sound snapshot of a node that then becomes another, and the routes of that."""
    done(stack, "exec", "ip4", "address_add", "interface=weft0", "address=10.9.9.2", "prefix_bits=24")
    sound = stack.folder / "sound.snapshot"
    done(stack, "snapshot", "sound.snapshot")
    if oct(sound.stat().st_mode & 0o7777) != "0o600":
        raise Failure(f"mode {oct(sound.stat().st_mode)}")
    done(stack, "exec", "ip4", "route_add", f"destination={ROUTE}", "gateway=10.9.9.9")
    return sound, routes(stack)


def files(_: str = "") -> str:
    """Every kind of damage; at last the sound file is restored, so that it is not the file's place that is wrong."""
    with tempfile.TemporaryDirectory(prefix="weft-snapshots-") as made, Stack(Path(made)) as stack:
        sound, before = with_route(stack)
        data = sound.read_bytes()
        for name, (change, why) in FILES.items():
            (stack.folder / "bad").write_bytes(change(data))
            said = refused(stack, "restore", "bad")
            if why not in said or "cannot restore" not in said:
                raise Failure(f"{name}: {said}")
            goes_on(stack, before)
        if not done(stack, "restore", "sound.snapshot").startswith("restore: ") or ROUTE in routes(stack) or ROUTE not in before:
            raise Failure(f"the sound one changes nothing: {routes(stack)}")
        return f"{len(FILES)} kinds of damage to {len(data)} bytes"


def shapes(_: str = "") -> str:
    with tempfile.TemporaryDirectory(prefix="weft-snapshots-") as made, Stack(Path(made)) as stack:
        _, before = with_route(stack)
        done(stack, "add", "seen", "counter")
        text = refused(stack, "restore", "sound.snapshot")
        if "block 'seen' (kind counter) is in the node, and not in the snapshot" not in text:
            raise Failure(text)
        done(stack, "snapshot", "more.snapshot")
        done(stack, "delete", "seen")
        text = refused(stack, "restore", "more.snapshot")
        if "block 'seen' (kind counter) is in the snapshot, and the node has none of that name" not in text:
            raise Failure(text)
        done(stack, "add", "seen", "forward")
        text = refused(stack, "restore", "more.snapshot")
        if "block 'seen' is of kind counter in the snapshot, and of kind forward in the node" not in text:
            raise Failure(text)
        done(stack, "delete", "seen")
        goes_on(stack, before)
        return text


def places(_: str = "") -> str:
    """Files that are none, that are too large, and that may not be read or written."""
    with tempfile.TemporaryDirectory(prefix="weft-snapshots-") as made, Stack(Path(made)) as stack:
        _, before = with_route(stack)
        folder = stack.folder
        os.mkfifo(folder / "fifo")
        (folder / "large").touch()
        os.truncate(folder / "large", LARGEST + 1)
        cases = [(("restore", "none"), "there is no such file or folder"), (("restore", "."), "it is no file"), (("restore", "fifo"), "it is no file"),
                 (("restore", "/dev/zero"), "it is no file"), (("restore", "large"), f"more than the {LARGEST}"),
                 (("snapshot", "none/a"), "there is no such file or folder"), (("snapshot", "/dev/null"), "something is there that is no file"),
                 (("snapshot", "fifo"), "something is there that is no file"), (("snapshot", "/proc/weft.snapshot"), "")]
        for words, why in cases:
            said = refused(stack, *words)
            if why not in said:
                raise Failure(f"{words}: {said}")
            goes_on(stack, before)
        left = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
        if left:
            raise Failure(f"left behind: {left}")
        return f"{len(cases)} refused"


def attached(_: str = "") -> str:
    """A program is on the stack: it is named, and keeps what it has."""
    program = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 7)); s.listen(); print('ready', flush=True); input(); print(s.getsockname()[1])"
    with tempfile.TemporaryDirectory(prefix="weft-snapshots-") as made, Stack(Path(made)) as stack:
        _, before = with_route(stack)
        running = subprocess.Popen(stack.command("run", "--control", "weft/control", "python3", "-ISc", program), cwd=stack.folder, env=stack.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert running.stdout and running.stdin
        if running.stdout.readline() != "ready\n":
            raise Failure("the program does not come up")
        done(stack, "snapshot", "busy.snapshot")
        said = refused(stack, "restore", "sound.snapshot")
        if "1 program attached (1 socket of theirs): in real time a node can go back to earlier state only while nobody uses it" not in said:
            raise Failure(said)
        goes_on(stack, before)
        told, _ = running.communicate("\n", timeout=60)
        if told != "7\n" or running.returncode != 0:
            raise Failure(f"the program: {told!r}, status {running.returncode}")
        # It is gone, and its socket is in the other one.
        other = refused(stack, "restore", "busy.snapshot")
        if "it has 1 sockets of programs that are not here, the first of them tcp 127.0.0.1:7" not in other:
            raise Failure(other)
        done(stack, "restore", "sound.snapshot")
        return said


ROWS = {"snapshot/files": files, "snapshot/shapes": shapes, "snapshot/places": places, "snapshot/programs attached": attached}
