"""What is done to a node while traffic flows, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator

CONGESTION = ("bbr", "reno", "cubic")
# Edges into which a counter is put. Frames pass each of them in both families, or in both directions.
EDGES = ("ether:lower interfaces:upper", "interfaces:upper ether:lower", "tcp:ip4 ip4:upper", "ip4:lower arp:upper", "ether:ip6 ip6:lower")
REPLACED = ("ether", "ip4", "tcp", "sockets", "ip6", "interfaces", "tcp", "arp", "ether", "nd", "ip4", "udp", "tcp", "icmp4", "ip6", "icmp6")


def endless() -> Iterator[list[str]]:
    """Changes of one node, each to be made as a whole. Blocks are replaced; counters come and go; the congestion control becomes another."""
    number = 0
    while True:
        for at, block in enumerate(REPLACED):
            number += 1
            if at % 4 == 0:
                yield [f"add c{number} counter", f"insert c{number} {EDGES[number // 4 % len(EDGES)]}"]
            yield [f"replace {block} {block}"]
            if at % 4 == 0:
                yield [f"extract c{number}", f"delete c{number}"]
            if at % 5 == 0:
                yield [f"replace tcp tcp congestion={CONGESTION[number // 5 % len(CONGESTION)]}"]
