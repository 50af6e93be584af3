"""A server that lends a lock for ten seconds of its own clock, and members that keep it for as long by theirs: lease.py serve | lease.py NAME SERVER.

A holder renews a second before he thinks that it is over, and rests for two minutes. Whoever asks while nobody holds it, by the server's clock, gets it: if the
other one believes at that time that it is his, both say so."""

import socket
import sys
import time

LEASE, EARLY, END = 10.0, 1.0, 120.0


def serve() -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", 7000))
    holder, until = "", 0.0
    while True:
        data, address = server.recvfrom(100)
        name, now = data.decode(), time.monotonic()
        if holder == name and now >= until:
            print(f"{name} comes {now - until:.3f} s late", flush=True)
        if holder in ("", name) or now >= until:
            holder, until = name, now + LEASE
        server.sendto(holder.encode(), address)


def member(name: str, server: str) -> None:
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asks.settimeout(1.0)
    end, until = time.monotonic() + END, 0.0
    while time.monotonic() < end:
        began = time.monotonic()
        asks.sendto(name.encode(), (server, 7000))
        try:
            holds = asks.recv(100).decode() == name
        except TimeoutError:
            continue
        if began < until and not holds:
            print(f"{name} has lost it {until - began:.3f} s before its time", flush=True)
        until = began + LEASE if holds else 0.0
        time.sleep(LEASE - EARLY if holds else 0.2)


if sys.argv[1] == "serve":
    serve()
else:
    member(*sys.argv[1:])
