"""What the two ends say of their connections: did everything arrive, and did it end as it should?"""

from __future__ import annotations

import json

from harness.processes import Failure

from . import cases, ends

# What client and server have sent over each connection; nothing: what they draw, which only has to be the same at both.
BYTES = {
    "transfer": (ends.OUT_BYTES, ends.BACK_BYTES),
    "long": (ends.LONG_BYTES, 0),
    "both": (ends.BACK_BYTES, ends.BACK_BYTES),
    "unread": (ends.UNREAD_BYTES, 0),
    "slow": (ends.SLOW_BYTES, 0),
    "killed-unread": (1, ends.UNREAD_BYTES),
}
# How they end where one end is taken from the other: client and server. No word is there of a client that is killed.
ENDINGS = {
    "unread": ("ECONNRESET", "end"),
    "killed": ("", "end"),
    "killed-unread": ("", "ECONNRESET"),
}
KILLED = tuple(kind for kind, (client, _) in ENDINGS.items() if not client)
RESETS = ("unread", "killed-unread")
# What is sent is not what is received there.
CUT = ("unread", *KILLED)

Report = list[dict]


def report(text: str, who: str) -> Report:
    """The last line that an end has printed."""
    try:
        return json.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failure(f"{who} did not come to its end; it printed {text[-200:]!r}") from None


def expect_ends(kind: str, client: Report | None, server: Report) -> str:
    """Failure unless all bytes of all connections came as they were sent; how much it was."""
    wanted = ENDINGS.get(kind, ("end", "end"))
    for who, found, ended in (("client", client, wanted[0]), ("server", server, wanted[1])):
        if found is not None and (wrong := [talk for talk in found if talk["ended"] != ended]):
            raise Failure(f"{who}: {len(wrong)} of {len(found)} connections ended otherwise than by {ended}: {wrong[0]}")
    for side, found in enumerate((client, server)):
        if found is not None and kind in BYTES and any(talk["sent"][0] != BYTES[kind][side] for talk in found):
            raise Failure(f"not {BYTES[kind][side]} bytes were sent: {found}")
    if client is not None and kind not in CUT:
        there = sorted((talk["sent"], talk["received"]) for talk in client)
        here = sorted((talk["received"], talk["sent"]) for talk in server)
        if there != here:
            raise Failure(f"sent and received differ: {[pair for pair in zip(there, here) if pair[0] != pair[1]][:2]}")
    received = sum(talk["received"][0] for talk in [*(client or []), *server])
    if not received:
        raise Failure("nothing was received")
    return f"{received / 1e6:.1f} MB"


def expect_both(carried: list[int], goodput_mbit: float, rate_mbit: float, gain_min: float, share_min: float = cases.SHARE_MIN) -> str:
    """Both paths carry a fair part, and together more than one of them could."""
    shares = [of / sum(carried) for of in carried]
    said = f"{goodput_mbit:.1f} Mbit/s of {len(carried)} × {rate_mbit}, shares " + " and ".join(f"{share:.2f}" for share in shares)
    if min(shares) < share_min or goodput_mbit < gain_min * rate_mbit:
        raise Failure(said)
    return said


def goodput_mbit(server: Report) -> float:
    return ends.LONG_BYTES * 8 / server[0]["seconds"] / 1e6


def shares(found: list[float]) -> str:
    return " and ".join(f"{share:.2f}" for share in found)
