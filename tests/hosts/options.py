"""What programs ask of sockets and descriptors beside data: each script prints the same on every host, but for lines that stand in a row.

A script is a twin body in Python: it talks to itself over the loopback and prints what each call comes to.
"""

from __future__ import annotations

from harness.processes import Failure

from .place import LINUX, NOTIFY, ROOT, WEFT, WHO, Place

SCRIPTS = ("splices.py", "again.py", "lingers.py", "times.py")
# Lines that differ: of a script on a host, what Linux says and what is said there, with the row of docs/compatibility.md.
DIFFERENCES = {
    ("splices.py", NOTIFY): {"listener ENOTCONN": ("listener EINVAL", "unconnected-errno")},
    ("lingers.py", NOTIFY): {
        f"{address} {line}": (f"{address} {line.replace('True, less', 'False, less').replace('True less', 'False less').replace('to the limit', 'less')}", "linger")
        for address in ("127.0.0.1", "::1")
        for line in (
            "nobody reads: waits to the limit; all of it comes: True EOF",
            "the peer reads: waits until then: True, less; all of it comes: True EOF",
            "a signal comes: waits until then: True less; all of it comes: True EOF",
            "the peer resets: waits until then: True, less",
            "there is a duplicate: waits less; its close: waits to the limit",
            "dup2 in its place: waits to the limit",
            "behind a shutdown: waits to the limit",
        )
    },
}


def body(place: Place, script: str, host: str) -> str:
    """The script natively, with its differences, and there."""
    command = place.script(script)
    linux = place.run(LINUX, ROOT, command).lines()
    differs = DIFFERENCES.get((script, host), {})
    if idle := set(differs) - set(linux):
        raise Failure(f"Linux says none of {sorted(idle)}: take {sorted({differs[line][1] for line in idle})} away")
    wanted = [differs[line][0] if line in differs else line for line in linux]
    for who in WHO:
        found = place.run(host, who, command).lines()
        if found != wanted:
            wrong = [f"{one!r}, here {other!r}" for one, other in zip(wanted, found) if one != other]
            raise Failure(f"{host}, {who}: {len(found)} lines of {len(wanted)}; " + "; ".join(wrong[:10]))
    return f"{len(wanted)} lines, {len(differs)} of them in a row"


def rows(place: Place) -> dict:
    return {f"{host}/{script.removesuffix('.py')}": (lambda host=host, script=script: body(place, script, host)) for script in SCRIPTS for host in WEFT}
