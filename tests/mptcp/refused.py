"""Rows of `make test-mptcp-sim`: endpoints, limits, schedulers and policies that make no sense. Each is refused with its place and what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure
from virtual.shared import events, keys, section, weft_command

# A parameter of mptcp, what it is set to, and words that the message must have.
VALUES = (
    ("endpoints", ["10.1.0.300 subflow"], "'10.1.0.300' is no address"),
    ("endpoints", ["10.1.0.1 dev"], "'dev' wants a value"),
    ("endpoints", ["10.1.0.1 port 0 signal"], "a port is a number from 1 to 65535"),
    ("endpoints", ["10.1.0.1 sideways"], "is none of dev, id, port, signal, subflow, backup, fullmesh"),
    ("endpoints", ["10.1.0.1 id 1 subflow", "10.2.0.1 id 1 subflow"], "the id is another's"),
    ("endpoints", ["10.1.0.1 subflow", "10.1.0.1 signal"], "the address is there already"),
    ("endpoints", [7], 'write each as a text: "10.0.0.1 subflow"'),
    ("endpoints", ["10.1.0.1 signal fullmesh"], "signal and fullmesh exclude each other"),
    ("endpoints", ["10.1.0.1 subflow port 80"], "a port goes with signal only"),
    ("prefer", ["group:many"], "a group is a number from 0 to 4294967295"),
    ("prefer", [""], "no name of an interface"),
    ("prefer", ["eth0", "eth0"], "is there twice"),
    ("quota", ["eth1"], 'write an interface and bytes: "wwan0 100MiB"'),
    ("quota", ["eth1 many"], "'many' is no number of bytes"),
    ("quota", ["group:x 1GB"], "a group is a number"),
    ("quota", [5], "write each as a text"),
    ("standby", "sometimes", "is none of: always, active, never"),
    ("scheduler", "fastest", "is none of: default, lowest-rtt"),
    ("path_manager", "mine", "is none of: all, kernel, ndiffports, userspace"),
    ("subflows", 9, "9 is out of range: 0 to 8"),
    ("subflows", -1, "-1 is out of range"),
    ("congestion", "warp", "is none of: tcp, cubic"),
    ("close_timeout", "-1s", "is out of range"),
    ("ndiffports", 0, "0 is out of range: 1 to 9"),
)

# Procedures of it on a node that runs.
ORDERS = (
    ("endpoint_add address=nonsense", "EINVAL: 'nonsense' is no address"),
    ("endpoint_add address=10.1.0.1 id=many", "EINVAL: 'id' is no such number"),
    ("endpoint_add address=10.1.0.1 signal=true fullmesh=true", "EINVAL: signal and fullmesh exclude each other"),
    ("endpoint_change address=10.1.0.1", "ENOENT: there is no endpoint of that id"),
    ("limits_set subflows=99", "EINVAL: 'subflows' is 8 at most"),
    ("path_announce", "EINVAL: no token"),
    ("path_announce token=5", "EINVAL: invalid token"),
)


def values(folder: Path) -> str:
    for name, value, words in VALUES:
        (folder / "w.toml").write_text(keys(duration="1s") + section("nodes.a", mptcp=True, parameters={f"mptcp.{name}": value}))
        said = weft_command(folder, "sim", "w.toml", status=2).stderr
        if any(part not in said for part in (f"w.toml:4: mptcp.{name}: ", words)):
            raise Failure(f"{name} = {value}: {said}")
    return f"{len(VALUES)} values"


def orders(folder: Path) -> str:
    for order, words in ORDERS:
        text = keys(duration="1s") + section("nodes.a", mptcp=True) + events({"at": "500ms", "node": "a", "control": [f"exec mptcp {order}"]})
        (folder / "w.toml").write_text(text)
        said = weft_command(folder, "sim", "w.toml", status=1).stderr
        if f"'a' is told exec mptcp {order}: " not in said or words not in said:
            raise Failure(f"{order}: {said}")
    return f"{len(ORDERS)} orders"


def rows() -> dict[str, Callable[[Path], str]]:
    return {"values that make no sense": values, "orders that make no sense": orders}
