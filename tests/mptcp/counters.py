"""Counters of Multipath TCP, which Linux and weft call by the same names: what must move, what may not, and how nstat prints them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.processes import Failure

NSTAT = ["nstat", "-asz", "MPTcp*"]
PREFIX = "MPTcpExt"

# They say that Multipath TCP was spoken, by the end of the connection.
SPOKEN = {"server": ("MPCapableSYNRX", "MPCapableACKRX"), "client": ("MPCapableSYNTX", "MPCapableSYNACKRX")}
# A further subflow was opened, at the end that accepted the connection.
JOINED = ("MPJoinSynRx", "MPJoinAckRx")

# A connection that became plain TCP.
FALLBACKS = (
    "MPCapableFallbackACK", "MPCapableFallbackSYNACK", "MPCapableSYNTXDrop", "MPCapableSYNTXDisabled", "MPCapableDataFallback",
    "MPFallbackTokenInit", "MD5SigFallback", "DssFallback", "SimultConnectFallback", "DSSCorruptionFallback", "InfiniteMapTx",
    "InfiniteMapRx", "Blackhole",
)
# A peer that does what it may not, or something that a box on the way would have had to do.
ERRORS = (
    "DSSNotMatching", "DSSCorruptionReset", "DSSNoMatchTCP", "DataCsumErr", "NoDSSInWindow", "FallbackFailed", "MPFailTx", "MPFailRx",
    "MPJoinNoTokenFound", "MPJoinSynAckHMacFailure", "MPJoinAckHMacFailure", "MPJoinRejected", "MPJoinSynTxCreatSkErr",
    "MPJoinSynTxBindErr", "MPJoinSynTxConnectErr", "MismatchPortSynRx", "MismatchPortAckRx", "AddAddrTxDrop", "EchoAddTxDrop",
    "AddAddrDrop", "RmAddrDrop", "RmAddrTxDrop", "BadOptions", "TablesFull", "WordsUnread",
)
# Of weft's other blocks: a segment that is longer, with its options, than the wire takes.
OF_OTHER_BLOCKS = ("FragFails",)
# Right only where something is reset.
RESETS = ("MPRstTx", "MPRstRx", "MPFastcloseTx", "MPFastcloseRx")
# Linux on a wire that duplicates and loses: a copy of ADD_ADDR that comes before its worker has looked at the first (mptcp_pm_add_addr_received), and an echo
# for which there is no room beside SACK (mptcp_pm_add_addr_signal; over IPv6 it is 20 bytes); the peer announces again.
OF_A_BAD_WIRE = ("AddAddrDrop", "EchoAddTxDrop")
# Connections that are still there.
LEFT = "MPCurrEstab"

Counters = Mapping[str, int]


def excused(host: str, lossy: bool) -> tuple[str, ...]:
    """Errors that are none at this end of this wire."""
    return OF_A_BAD_WIRE if host == "linux" and lossy else ()


def parsed(text: str) -> dict[str, int]:
    """What nstat has printed, without the prefix."""
    rows = [line.split() for line in text.splitlines() if line.startswith(PREFIX)]
    return {row[0].removeprefix(PREFIX): int(row[1]) for row in rows}


def moved(counters: Counters) -> dict[str, int]:
    return {name: count for name, count in counters.items() if count}


def of_block(block: str, counters: Counters) -> Counters:
    """Those of a block of weft that are looked at: all of mptcp, and of others what is an error here."""
    return counters if block == "mptcp" else {name: count for name, count in counters.items() if name in OF_OTHER_BLOCKS}


def expect_spoken(who: str, counters: Counters, role: str, connections: int) -> None:
    """Each of the connections began with Multipath TCP at this end."""
    if any(counters.get(name, 0) < connections for name in SPOKEN[role]):
        raise Failure(f"{who}: not {connections} of {' and '.join(SPOKEN[role])}: {moved(counters)}")


def expect_joined(who: str, counters: Counters) -> None:
    if not all(counters.get(name, 0) for name in JOINED):
        raise Failure(f"{who}: no {' and '.join(JOINED)}: {moved(counters)}")


def expect_sound(who: str, counters: Counters, resets: bool = False, but: tuple[str, ...] = ()) -> None:
    """Nothing that counts as an error, or as a fall-back to TCP; `resets`: these are right."""
    names = {*FALLBACKS, *ERRORS, *OF_OTHER_BLOCKS, LEFT, *(() if resets else RESETS)} - set(but)
    if wrong := {name: count for name, count in moved(counters).items() if name in names}:
        raise Failure(f"{who}: {wrong} of {moved(counters)}")
