#!/usr/bin/env python3
"""Somebody types into an ssh session while its phone goes from Wi-Fi to LTE, back, and loses Wi-Fi: how long no key came back.

    ./handover.py [--seeds 10] [--linux server] [--out handover]

OUT/results is what the first seed left; its pictures/mptcp.svg shows which interface carried the session.
"""

import json
import statistics

from worlds import Mean, all_of, axes_of, options, parsed, run, table

# Seconds between which keys are typed; events of handover.toml are at 6, 11 and 16.
PARTS = {"Wi-Fi": (0, 5.8), "handover to LTE": (5.8, 10.8), "handover to Wi-Fi": (10.8, 15.8), "Wi-Fi is cut": (15.8, 99)}
# On Linux a program asks for Multipath TCP, or somebody for it.
SSHD = "mkdir -p /run/sshd; ssh-keygen -q -t ed25519 -N '' -f /run/key; exec mptcpize run /usr/sbin/sshd -D -e -f /etc/sshd"


def main() -> None:
    parser = options(__doc__, "handover", seeds=10)
    args = parsed(parser)
    sets = {"programs.sshd.command": ["sh", "-euc", SSHD]} if args.linux else {}

    def keys(_: str, seed: int) -> list[tuple[float, float]]:
        said = json.loads(run(args, "handover.toml", sets, seed, args.out / "results" if seed == 1 else None).said["type"])
        return list(zip(said["typed"], said["took"]))

    [sessions] = all_of(args, ["session"], keys).values()
    rows = []
    for part, (begin, end) in PARTS.items():
        of = [[took * 1000 for at, took in session if begin <= at < end] for session in sessions]
        rows.append((part, *(Mean(tuple(map(choose, of))) for choose in (statistics.median, max))))
    table(args, "handover", ("part", "usual key, ms", "longest silence, ms"), rows)
    axes_of(args, "handover", "an ssh session", "virtual time, s", "until a key came back, ms",
            lambda axes: axes.plot([at for at, _ in sessions[0]], [took * 1000 for _, took in sessions[0]], marker=".", linestyle=""))


if __name__ == "__main__":
    main()
