"""What gdb knows about a program that it runs in virtual time: `weft sim SCENARIO --gdb NODE/PROGRAM` loads this.

    $weft_time()      its node's virtual time in nanoseconds: break FUNCTION if $weft_time() > 2000000000
    $weft_node()      the name of its node
    weft where        both in one line
    weft libraries    reads the symbols of the shared libraries that are mapped by now (their paths are the node's)

The program itself is known from the beginning. Its system calls are signals (SIGSYS) that go to the loader, so stepping over one may end in the loader.
"""

import os
import re

import gdb

# crates/loader/src/abi.rs: where the page with the clock is, and the word `now` in it.
ARENA = 0x7EB0_0000_0000
NOW_AT = 8


def read(at, count):
    return gdb.selected_inferior().read_memory(at, count).tobytes()


def now():
    return int.from_bytes(read(ARENA + NOW_AT, 8), "little")


def node():
    with open(f"/proc/{gdb.selected_inferior().pid}/root/etc/hostname") as file:
        return file.read().strip()


class Time(gdb.Function):
    """The node's virtual time in nanoseconds."""

    def __init__(self):
        super().__init__("weft_time")

    def invoke(self):
        return now()


class Node(gdb.Function):
    """The name of the program's node."""

    def __init__(self):
        super().__init__("weft_node")

    def invoke(self):
        return node()


class Weft(gdb.Command):
    """weft where | weft libraries"""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_DATA, prefix=True)


class Where(gdb.Command):
    """The program's node, and what time it is there."""

    def __init__(self):
        super().__init__("weft where", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        nanos = now()
        print(f"node {node()} at {nanos // 10**9}.{nanos % 10**9:09d} s")


class Libraries(gdb.Command):
    """Reads the symbols of the shared libraries that are mapped by now."""

    def __init__(self):
        super().__init__("weft libraries", gdb.COMMAND_DATA)
        self.known = set()

    def invoke(self, argument, from_tty):
        pid = gdb.selected_inferior().pid
        own = os.environ.get("WEFT_GDB_PROGRAM", "")
        with open(f"/proc/{pid}/maps") as file:
            # address perms offset dev inode pathname; the first mapping of a file is its beginning.
            for line in file:
                found = re.match(r"([0-9a-f]+)-\S+ \S+ 0+ \S+ \d+ +(/\S+\.so\S*)$", line)
                if not found or found.group(2) in self.known or found.group(2) == own:
                    continue
                start, path = found.groups()
                self.known.add(path)
                there = f"/proc/{pid}/root{path}"
                if os.path.exists(there):
                    gdb.execute(f"add-symbol-file {there} -o 0x{start}", to_string=True)
                    print(f"0x{start} {path}")


Time()
Node()
Weft()
Where()
Libraries()
