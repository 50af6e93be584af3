"""A user's machine and what lies beyond it.

    P: a user's programs under `weft run --internet` ··· passt ─ the kernel of the user's machine ─ veth ─ B: servers, natively

The user has no capability, no TAP and no namespace of its own. Servers are reached at addresses that only B has, by the user machine's default routes.
"""

from __future__ import annotations

import os
import shlex
import struct
from collections.abc import Mapping
from pathlib import Path

from harness import paths, user, weft
from harness.environment import Environment
from harness.namespaces import Namespace, veth
from harness.processes import Process
from programs.shared import BEYOND, BEYOND6, IPV4, IPV6, NAME, Family, Shared
from programs.stage import Site, Stage, want

UP, UP6, NEXT, NEXT6 = "198.51.100.2", "2001:db8:1::2", "198.51.100.1", "2001:db8:1::1"
# So many frames at least, both ways, whatever a row does.
FRAMES_MIN = 4
PCAPNG_ENHANCED_PACKET = 6


def networks(env: Environment) -> tuple[Namespace, Namespace]:
    """The user's machine and what is beyond, with addresses of both families and default routes."""
    near, beyond = env.namespace("u"), env.namespace("b")
    veth((near, "up0"), (beyond, "down0"))
    for namespace in (near, beyond):
        namespace.enable_ipv6()
    for namespace, device, address in ((near, "up0", f"{UP}/24"), (near, "up0", f"{UP6}/64"), (beyond, "down0", f"{NEXT}/24"), (beyond, "down0", f"{NEXT6}/64"),
                                       (beyond, "lo", f"{BEYOND}/32"), (beyond, "lo", f"{BEYOND6}/128")):
        namespace.ip("address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
    near.ip("route", "add", "default", "via", NEXT)
    near.ip("-6", "route", "add", "default", "via", NEXT6)
    return near, beyond


def holding(files: Mapping[str, Path]) -> list[str]:
    """Words that run a command where each of these paths holds another file."""
    mounts = "".join(f"mount --bind {shlex.quote(str(file))} {path}; " for path, file in files.items())
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", mounts + 'exec "$@"', "sh"]


def frames(capture: Path, family: Family) -> int:
    """Frames of a capture to and from the servers' address of this family."""
    wanted = bytes.fromhex("c0000201") if family is IPV4 else bytes.fromhex("20010db8000000000000000000000001")
    data, at, count = capture.read_bytes(), 0, 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from(">II", data, at)
        if kind == PCAPNG_ENHANCED_PACKET and wanted in data[at + 28:at + 28 + 54]:
            count += 1
        at += max(length, 12)
    return count


class Outside(Stage):
    """A stage whose client goes out; its server is beyond. A canary is no part of it: the capture says whose frames went."""

    def __init__(self, env: Environment, shared: Shared, family: Family = IPV4) -> None:
        self.env, self.shared, self.family = env, shared, family
        self.role, self.native, self._canary, self.was_cut = "client", False, False, False
        self.near, self.beyond = networks(env)
        self._daemon = None
        self.capture = env.folder / "out.pcapng"
        env.folder.chmod(0o777)
        # ssh reads a key that is the user's own, and nobody else's to read; root's ssh reads it as well.
        os.chown(shared.ssh_key, user.ID, user.ID)
        self.server = self.peer = Site(self.beyond.prefix, BEYOND if family is IPV4 else BEYOND6, False)
        self.client = self.program = Site(self.going_out("--capture", str(self.capture)), "", True)

    def going_out(self, *words: str) -> list[str]:
        """What a user puts before a program."""
        return [*self.near.prefix, *holding(self.files()), *user.words(), *weft.run_words(), "--internet", *words, "--"]

    def files(self) -> dict[str, Path]:
        """What the user's machine has in place of this one's files: it knows the user, as ssh and others want it."""
        file = self.env.folder / "passwd"
        if not file.exists():
            file.write_text(Path("/etc/passwd").read_text() + f"user:x:{user.ID}:{user.ID}::{self.env.folder}:/bin/sh\n")
        return {"/etc/passwd": file}

    def finish(self) -> None:
        count = frames(self.capture, self.family)
        want(count >= FRAMES_MIN, f"weft carried {count} frames: somebody else did the work")


class Names(Outside):
    """The same with a name server beyond, which the user's machine asks."""

    def files(self) -> dict[str, Path]:
        file = self.env.folder / "resolv.conf"
        file.write_text(f"nameserver {BEYOND}\n")
        return super().files() | {"/etc/resolv.conf": file}

    def serve_names(self) -> Process:
        address = BEYOND if self.family is IPV4 else BEYOND6
        words = [paths.tool("dnsmasq"), "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--user=root", "--bind-interfaces",
                 f"--listen-address={BEYOND}", f"--address=/{NAME}/{address}", "--pid-file="]
        return self.start_server("names", words, 53, "udp")


def passt_of(namespace: Namespace) -> list[int]:
    """The processes of passt in a namespace."""
    found = []
    for pid in namespace.pids():
        try:
            if Path(f"/proc/{pid}/comm").read_text().startswith("passt"):
                found.append(pid)
        except OSError:
            continue
    return found


FAMILIES = {"IPv4": IPV4, "IPv6": IPV6}
