"""The direction of dependency between the crates, as docs/architecture/README.md draws it.

An arrow `a ← b` there means that b may depend on a, directly or through what stands between. A crate that the drawing
does not name is an error: a new crate takes its place on purpose. Dev-dependencies are free, a test may stand above
what it tests.
"""

from __future__ import annotations

# (what may be depended on, by whom): the drawing, read from left to right.
ARROWS: list[tuple[set[str], set[str]]] = [
    ({"wire"}, {"core"}),
    ({"core"}, {"blocks", "tcp", "socket", "netlink", "backend", "plugin"}),
    ({"tcp"}, {"mptcp"}),
    ({"blocks", "tcp", "mptcp", "socket", "netlink"}, {"node"}),
    ({"socket", "netlink", "loader"}, {"intercept"}),
    ({"intercept"}, {"notify", "process"}),
    ({"node", "backend", "notify", "process", "plugin"}, {"host", "sim", "capi"}),
    ({"sim"}, {"kernel"}),
    ({"host", "sim", "kernel"}, {"cli"}),
]

CRATES = {name for lower, upper in ARROWS for name in lower | upper}

# What `node` is made of: state machines without clock, thread, descriptor or environment.
PURE = ("wire", "core", "blocks", "tcp", "mptcp", "socket", "netlink", "node")

# Crates whose work is with the kernel, memory or foreign code; everywhere else unsafe code is forbidden.
UNSAFE = {"backend", "intercept", "notify", "process", "loader", "kernel", "plugin", "capi"}


def allowed_below(name: str) -> set[str]:
    """Every crate that `name` may depend on."""
    below: set[str] = set()
    pending = [name]
    while pending:
        upper = pending.pop()
        for lower, uppers in ARROWS:
            if upper in uppers:
                pending.extend(lower - below)
                below |= lower
    return below


def short_name(package: str) -> str:
    return package.removeprefix("weft-")


def check(metadata: dict) -> list[str]:
    """Findings in the output of `cargo metadata`."""
    packages = {package["name"]: package for package in metadata["packages"]}
    findings = []
    for package in packages.values():
        name = short_name(package["name"])
        if name not in CRATES:
            findings.append(f"crate {name} has no place in harness/lint/dependencies.py and docs/architecture/README.md")
            continue
        for dependency in package["dependencies"]:
            if dependency["name"] not in packages or dependency["kind"] == "dev":
                continue
            below = short_name(dependency["name"])
            if below not in allowed_below(name):
                findings.append(f"crate {name} depends on {below}, against the direction of dependency")
    return findings
