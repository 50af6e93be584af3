"""A member of a cluster that elects a leader, as Raft does (Ongaro and Ousterhout, USENIX ATC 2014, §5.2): elect.py NAME PEER...

Whoever hears of no leader for a drawn time asks the others for their votes. All draw from a number that this program takes from the time since boot and
its process id. So members with equal ones ask at once, always, and each votes for itself.
"""

import os
import random
import selectors
import socket
import sys
import time

PORT = 7000
drawn = random.Random(time.monotonic_ns() * 65536 + os.getpid())
name, peers = sys.argv[1], sys.argv[2:]
talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talk.bind(("0.0.0.0", PORT))
talk.setblocking(False)
waits = selectors.DefaultSelector()
waits.register(talk, selectors.EVENT_READ)
begun = time.monotonic()
term, voted, votes, leader, known = 0, None, set(), None, None


def patience() -> float:
    return time.monotonic() + 0.15 + drawn.randrange(150) / 1000


def tell(word: str, *to: str) -> None:
    for peer in to:
        talk.sendto(f"{word} {term} {name}".encode(), (peer, PORT))


next_at = patience()
while time.monotonic() < begun + 20:
    if known and time.monotonic() > known + 2:
        print("leader", leader)
        sys.exit(0)
    if waits.select(max(0.0, next_at - time.monotonic())):
        try:
            words, _ = talk.recvfrom(100)
        except OSError:
            continue
        word, other_term, other = words.decode().split()
        if int(other_term) > term:
            term, voted, votes, leader = int(other_term), None, set(), None
        if int(other_term) < term:
            continue
        if word == "vote" and voted in (None, other):
            voted, next_at = other, patience()
            tell("yes", other)
        elif word == "yes":
            votes.add(other)
            if leader is None and len(votes) > (len(peers) + 1) // 2:
                leader, known, next_at = name, known or time.monotonic(), time.monotonic()
        elif word == "lead":
            leader, known, next_at = other, known or time.monotonic(), patience()
    elif leader == name:
        tell("lead", *peers)
        next_at = time.monotonic() + 0.05
    else:
        term, voted, votes, leader, next_at = term + 1, name, {name}, None, patience()
        tell("vote", *peers)
print("nobody leads after", term, "terms")
sys.exit(1)
