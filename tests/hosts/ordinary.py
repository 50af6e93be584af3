"""What rows of docs/compatibility.md say that only weft's side was asked for: each line is what was asked, how, and the answer."""

import ctypes
import fcntl
import os
import socket
import stat
import struct
import subprocess
import threading
import time

from saying import folder, said
from streaming import FAMILIES, datagrams, streams

MIB = 1 << 20
MSG_MORE = 0x8000
SO_TIMESTAMPING = 37
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


def slowly(one: socket.socket, other: socket.socket, send) -> str:
    """How much of 8 MiB a blocking call says that it has sent to somebody who reads all the time."""
    bytes_read = 0

    def read() -> None:
        nonlocal bytes_read
        while piece := other.recv(MIB):
            bytes_read += len(piece)

    reader = threading.Thread(target=read)
    reader.start()
    sent = send(one, bytes(8 * MIB))
    one.shutdown(socket.SHUT_WR)
    reader.join()
    return f"{'all' if sent == 8 * MIB else 'a part'}, {'as many' if bytes_read == sent else f'{bytes_read} of {sent}'} came"


SENDS = {
    "send": lambda one, data: one.send(data),
    "send with MSG_MORE": lambda one, data: one.send(data, MSG_MORE),
    "sendmsg of two buffers": lambda one, data: one.sendmsg([data[:MIB], data[MIB:]]),
    "sendmsg with control messages": lambda one, data: one.sendmsg([data], [(socket.SOL_SOCKET, SO_TIMESTAMPING, struct.pack("I", 0))]),
}


def fills(family: int, host: str) -> str:
    """Does a sender that does not wait find no room, where nobody reads?"""
    one, other = datagrams(family, host)
    one.setblocking(False)
    try:
        for _ in range(20000):
            one.send(bytes(100))
    except BlockingIOError:
        return "EAGAIN"
    return "all are taken"


def makes_an_interface() -> None:
    """A TUN device, which goes with the descriptor."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"weftproof%d", IFF_TUN | IFF_NO_PI))


def computes() -> str:
    """Is a loop without a call seen by the clock of the processor?"""
    before = time.process_time_ns()
    sum(range(10_000_000))
    return "takes time" if time.process_time_ns() - before > 10_000_000 else "takes none"


def file_of(number: int) -> str:
    mode = os.fstat(number).st_mode
    kind = "file" if stat.S_ISREG(mode) else "pipe" if stat.S_ISFIFO(mode) else "device"
    return kind + (", appended to" if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND else "")


def shares_memory() -> str:
    """vfork(2) of libc: what the child writes the maker reads, and it goes on when the child has ended."""
    code = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(void) { volatile int seen = 0; pid_t pid = vfork(); if (!pid) { seen = 7; usleep(1000); seen = 8; _exit(0); } printf("%d\n", seen); }
"""
    program = f"{folder()}/shares"
    subprocess.run(["cc", "-w", "-x", "c", "-o", program, "-"], input=code, text=True, check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


def text_differs() -> str:
    """Is a call that is made often still what the file has? getppid of libc, after many calls."""
    libc = ctypes.CDLL(None)
    at = ctypes.cast(libc.getppid, ctypes.c_void_p).value or 0
    before = ctypes.string_at(at, 16)
    for _ in range(5000):
        libc.getppid()
    return "as it was" if ctypes.string_at(at, 16) == before else "another"


if __name__ == "__main__":
    for name, (family, host) in FAMILIES.items():
        for how, send in SENDS.items():
            said(f"stream{name} to a reader", how, lambda family=family, host=host, send=send: slowly(*streams(family, host), send))
        said(f"datagrams{name} that nobody reads", "send", lambda family=family, host=host: fills(family, host))
    said("/dev/net/tun", "TUNSETIFF", makes_an_interface)
    said("a loop without a call", "process_time", computes)
    for number in (0, 1):
        said("standard file", str(number), lambda number=number: file_of(number))
    said("vfork", "memory", shares_memory)
    said("getppid's text", "5,000 calls", text_differs)
