"""clone3(2): which arguments it takes, and how a child that it makes ends."""

import ctypes
import itertools
import os
import signal
import struct

from answers import coded

libc = ctypes.CDLL(None, use_errno=True)
CLONE3 = 435
FLAGS = {"none": 0, "a bit of the signal": 0x11, "CLONE_DETACHED": 0x400000, "CLONE_PARENT_SETTID": 0x100000}
SIGNALS = {"none": 0, "SIGCHLD": signal.SIGCHLD, "SIGUSR1": signal.SIGUSR1, "the last": 64, "none that there is": 65, "beyond a byte": 0x111}
STACKS = {"none": (0, 0), "without an end": (1 << 20, 0), "without a start": (0, 4096)}
# __WALL: whatever signal tells of it.
WALL = 0x40000000
word = ctypes.c_int(0)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(64, signal.SIG_IGN)


def cloned(flags, number, stack):
    """How the child ended, or the errno."""
    arguments = struct.pack("8Q", flags, 0, 0, ctypes.addressof(word), number, *stack, 0)
    found = libc.syscall(CLONE3, arguments, len(arguments))
    if found == 0:
        os._exit(7)
    return coded(found) if found < 0 else f"a child that ends with {os.waitstatus_to_exitcode(os.waitpid(found, WALL)[1])}"


for flags, number, stack in itertools.product(FLAGS, SIGNALS, STACKS):
    print(f"flags {flags}, signal {number}, stack {stack}: {cloned(FLAGS[flags], SIGNALS[number], STACKS[stack])}", flush=True)
