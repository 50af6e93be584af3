"""Where a benchmark's program and its peer run: on weft's stack over its TAP, or kernel to kernel over a veth pair."""

from __future__ import annotations

import dataclasses
import itertools

from .. import paths, weft
from ..environment import Environment
from ..namespaces import Namespace, veth

VETH_PEER, VETH_PROGRAM = "10.78.0.1", "10.78.0.2"

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Place:
    """`program` and `peer` are the words that run a command on either side. The peer is always the host's kernel."""

    program: list[str]
    peer: list[str]
    program_address: str
    peer_address: str
    daemon: weft.Daemon | None = None


def stack(env: Environment, offload: bool = True, extra: str = "") -> Place:
    """Programs on a stack of weft's behind a TAP. `extra` is appended to its stack file."""
    number = next(_numbers)
    host, program = env.namespace(f"host{number}"), env.namespace(f"program{number}")
    file = env.folder / f"stack-{number}.toml"
    file.write_text(weft.stack_file(
        "bench", [(weft.TAP, f"{weft.STACK}/{weft.PREFIX_LENGTH}")], host_side=f"{weft.HOST}/{weft.PREFIX_LENGTH}",
        interface_lines=() if offload else ("offload = false",)) + extra)
    daemon = weft.Daemon(env, host, name=f"weft-{number}", extra=("--stack", str(file)))
    return Place([*program.prefix, *daemon.run_words()], daemon.host_side, weft.STACK, weft.HOST, daemon)


def kernel(env: Environment, offload: bool = True, name: str = "kernel") -> Place:
    """Kernel to kernel over a veth pair."""
    a, b = env.namespace(f"{name}-a"), env.namespace(f"{name}-b")
    veth((a, "eth0"), (b, "eth0"))
    for namespace, address in ((a, VETH_PEER), (b, VETH_PROGRAM)):
        namespace.ip("address", "add", f"{address}/24", "dev", "eth0")
        if not offload:
            plain(namespace, "eth0")
    return Place(b.prefix, a.prefix, VETH_PROGRAM, VETH_PEER)


def plain(namespace: Namespace, interface: str) -> None:
    """Takes from an interface what a TAP without offload does not have: the kernel cuts and sums before it hands frames over."""
    namespace.shell(f"{paths.tool('ethtool')} -K {interface} tso off tx off")
