"""`weft doctor`: what works here, as root and as a user; where user namespaces are off, and under a container's filter of system calls."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from harness import user, weft
from harness.processes import Failure

from .shared import compiled, expect

HERE = Path(__file__).parent
SECONDS_MAX = 300
# What weft is there for: it works wherever these tests run.
WORKS = ("virtual time: built-in traffic", "virtual time: programs", "real time: weft run")


def doctor(*words: str, before: tuple[str, ...] = (), status: int = 0) -> dict:
    done = subprocess.run([*before, weft.binary(), "doctor", "--json", *words], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"exit status {done.returncode} instead of {status}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return json.loads(done.stdout)


def of(told: dict, name: str) -> dict:
    return next(row for row in told["abilities"] if row["ability"] == name)


def here(_: Path) -> str:
    """On this machine what these tests show works, for root and for a user."""
    # What root tries makes a TAP device: in a network of its own.
    users = {"root": ("unshare", "--net"), "a user": tuple(user.words())} if os.geteuid() == 0 else {"the user": ()}
    for who, before in users.items():
        told = doctor(before=before)
        for name in WORKS:
            expect(f"{name}, as {who}", (of(told, name)["works"], of(told, name)["said"]), (True, None))
    text = subprocess.run([*users.popitem()[1], weft.binary(), "doctor"], capture_output=True, text=True, timeout=SECONDS_MAX, check=True).stdout
    if "works  virtual time: programs" not in text:
        raise Failure(text)
    return "works"


def namespaces_off(folder: Path) -> str:
    """A machine whose files say that user namespaces are off."""
    for path, text in (("proc/sys/user/max_user_namespaces", "0\n"), ("proc/self/status", "Uid:\t1000\t1000\nCapEff:\t0\nSeccomp:\t0\n"), ("dev/net/tun", "")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    row = of(doctor("--root", str(folder), status=1), "virtual time: programs")
    expect("works", row["works"], False)
    repairs = [obstacle["repair"] for obstacle in row["obstacles"] if obstacle["stops"]]
    expect("repair", repairs, ["sudo sysctl -w user.max_user_namespaces=15000"])
    return repairs[0]


def in_a_container(folder: Path) -> str:
    """Under the filter that Docker puts on processes: what it refuses fails, the reason is named, and other commands point here."""
    under = str(compiled(HERE / "container_filter.c", folder / "under"))
    before = (*user.words(), under) if os.geteuid() == 0 else (under,)
    folder.chmod(0o755)
    told = doctor(before=before, status=1)
    expect("built-in traffic", of(told, "virtual time: built-in traffic")["works"], True)
    row = of(told, "virtual time: programs")
    named = [obstacle["what"] for obstacle in row["obstacles"] if "filter" in obstacle["what"] and "seccomp" in obstacle["repair"]]
    if row["works"] or not row["said"] or len(named) != 1:
        raise Failure(f"{row}")
    (folder / "s.toml").write_text('[nodes.a]\n[programs.p]\nnode = "a"\ncommand = ["true"]\n')
    done = subprocess.run([*before, weft.binary(), "sim", folder / "s.toml"], capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode == 0 or "weft doctor" not in done.stderr:
        raise Failure(f"{done.returncode}: {done.stderr}")
    return row["said"].splitlines()[0][:80]


def few_descriptors(folder: Path) -> str:
    """Under hard limits of descriptors: 1,024 are enough for a node with a program; fewer are said, with what is needed and how to raise it."""
    (folder / "s.toml").write_text('[nodes.a]\n[programs.p]\nnode = "a"\ncommand = ["sh", "-c", "ulimit -n"]\n')
    hashes = set()
    for most, status in ((1023, 2), (1024, 0), (1100, 0), (4096, 0)):
        words = ["sh", "-c", f'ulimit -n {most}; exec "$@"', "sh", weft.binary()]
        done = subprocess.run([*words, "sim", folder / "s.toml"], capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != status:
            raise Failure(f"{most}: {done.returncode}, {done.stdout}{done.stderr}")
        if status and any(part not in done.stderr for part in ("the hard limit of descriptors is 1023", "wants 1024: raise it", "ulimit -Hn")):
            raise Failure(done.stderr)
        hashes |= {line for line in done.stdout.splitlines() if line.startswith("hash ")}
    expect("runs under other limits", len(hashes), 1)
    row = of(doctor("--no-trials", before=("sh", "-c", 'ulimit -n 512; exec "$@"', "sh"), status=1), "virtual time: programs")
    repairs = [obstacle["repair"] for obstacle in row["obstacles"] if obstacle["stops"] and "wants 1024" in obstacle["what"]]
    if row["works"] or len(repairs) != 1 or "ulimit -Hn" not in repairs[0]:
        raise Failure(f"{row}")
    return repairs[0]


ROWS = {"doctor/few descriptors": few_descriptors, "doctor/here": here, "doctor/namespaces off": namespaces_off, "doctor/in a container": in_a_container}
