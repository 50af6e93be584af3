"""A bridge of two interfaces with rate, delay and loss: the stand-in for `weft bridge` when the harness tests itself.

    reference_bridge.py IF1 IF2 RATE_MBIT LOSS DELAY_MS SEED

It wants interfaces without segmentation offload (it does not cut frames). Many kernels lack the netem queue
discipline, so it cannot be left to `tc`.
"""

from __future__ import annotations

import collections
import random
import select
import socket
import sys
import time

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
QUEUE_SECONDS_MAX = 0.05
FRAME_OVERHEAD_BYTES = 24  # preamble, check sequence and gap of an Ethernet


class Direction:
    """Frames from one interface to the other: serialised at the rate, delivered after the delay, some lost."""

    def __init__(self, source: socket.socket, sink: socket.socket, rate_bits: float, loss: float, delay: float,
                 seed: int) -> None:
        self.source, self._sink = source, sink
        self._rate_bits, self._loss, self._delay = rate_bits, loss, delay
        self._random = random.Random(seed)
        self._free_at = 0.0
        self._queue: collections.deque[tuple[float, bytes]] = collections.deque()

    def take(self, now: float) -> None:
        while True:
            try:
                frame = self.source.recv(65536)
            except BlockingIOError:
                return
            start = max(now, self._free_at)
            if start - now > QUEUE_SECONDS_MAX or self._random.random() < self._loss:
                continue
            self._free_at = start + (len(frame) + FRAME_OVERHEAD_BYTES) * 8 / self._rate_bits
            self._queue.append((self._free_at + self._delay, frame))

    def deliver(self, now: float) -> float | None:
        """Sends what is due; the time of the next frame."""
        while self._queue:
            due, frame = self._queue[0]
            if due > now:
                return due
            self._queue.popleft()
            try:
                self._sink.send(frame)
            except OSError:
                pass
        return None


def attach(name: str) -> socket.socket:
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    packet.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    packet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    packet.bind((name, 0))
    packet.setblocking(False)
    return packet


def main(first: str, second: str, rate_mbit: str, loss: str, delay_ms: str, seed: str) -> None:
    a, b = attach(first), attach(second)
    settings = (float(rate_mbit) * 1e6, float(loss), float(delay_ms) / 1e3)
    directions = [Direction(a, b, *settings, int(seed)), Direction(b, a, *settings, int(seed) + 1)]
    poll = select.poll()
    poll.register(a, select.POLLIN)
    poll.register(b, select.POLLIN)
    print("ready", flush=True)
    wait = 1.0
    while True:
        poll.poll(max(0.0, wait) * 1000)
        now = time.monotonic()
        dues = []
        for direction in directions:
            direction.take(now)
            if (due := direction.deliver(now)) is not None:
                dues.append(due)
        wait = min(dues) - time.monotonic() if dues else 1.0


main(*sys.argv[1:])
