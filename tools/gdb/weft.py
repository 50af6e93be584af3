"""What gdb can ask a world of `weft sim` for. No debugging information is needed but names.

    gdb -x tools/gdb/weft.py --args weft sim SCENARIO

    $weft_node()      the node that runs in this thread
    $weft_on(b"NAME") does this node run? break write_header if $weft_on(b"server")
    $weft_time()      its virtual time in nanoseconds: break FUNCTION if $weft_time() > 2000000000
    weft nodes        every node, its virtual time, its events so far
    weft sockets      the sockets of every node, as they were before the event that it is at
    weft where        node and time in one line

The command of the packages has no names: install weft-net-dbgsym, or put weft.debug beside it.
Release builds know functions by their last name (`break write_header`) and by place (`break transmit.rs:40`).
A text is written b"…": gdb has Rust's "…" only after the program has given it memory for it (a call of malloc). Nothing here calls a function of the program.
All stacks of a world live in one process, so that one debugger sees all of them. With `--threads 1` (the default) one thread runs all nodes.
"""

import re

import gdb

# Memory is read and nothing is called: a call changes the program, and gdb 13 cannot make one on processors with AMX.
# crates/sim/src/debug.rs. `Text`: address, length. `Lane`: name (a text), time; aligned to 64 bytes.
LANE_BYTES = 64
# `Row`: name (a text), time, events, sockets (a text).
ROW_BYTES = 48
WORD_BYTES = 8


def address(name):
    """Where a variable of crates/sim/src/debug.rs is, by what is known without debugging information; None: there is none, or nothing runs yet."""
    if gdb.selected_thread() is None:
        return None
    if name not in _addresses:
        told = gdb.execute(f"info variables -q weft_sim::debug::{name}", to_string=True)
        found = re.search(rf"^0x([0-9a-f]+)\s+weft_sim::debug::{name}\b", told, re.MULTILINE)
        if not found:
            return None
        _addresses[name] = int(found.group(1), 16)
    return _addresses[name]


_addresses = {}


def word(at):
    return int.from_bytes(gdb.selected_inferior().read_memory(at, WORD_BYTES).tobytes(), "little")


def lane():
    """The lane of the selected thread, or of the only one."""
    lanes = address("LANES")
    if lanes is None:
        return None
    thread = gdb.selected_thread()
    named = re.fullmatch(r"weft-lane-(\d+)", (thread and thread.name) or "")
    return lanes + LANE_BYTES * (int(named.group(1)) % 64 if named else 0)


def text_at(at):
    """What a `Text` shows."""
    where, length = word(at), word(at + WORD_BYTES)
    return gdb.selected_inferior().read_memory(where, length).tobytes().decode(errors="replace") if length else ""


def node():
    at = lane()
    return text_at(at) if at else ""


def time():
    at = lane()
    return word(at + 2 * WORD_BYTES) if at else 0


def rows():
    """Of each node: name, time, events, sockets."""
    table = address("NODES")
    first = word(table) if table else 0
    if not first:
        raise gdb.GdbError("no world runs here: start `weft sim SCENARIO`")
    for number in range(word(table + WORD_BYTES)):
        at = first + ROW_BYTES * number
        yield text_at(at), word(at + 2 * WORD_BYTES), word(at + 3 * WORD_BYTES), text_at(at + 4 * WORD_BYTES)


def seconds(nanos):
    return f"{nanos // 10**9}.{nanos % 10**9:09d} s"


class Node(gdb.Function):
    """The node that runs in this thread; empty before the world has begun."""

    def __init__(self):
        super().__init__("weft_node")

    def invoke(self):
        return node()


class On(gdb.Function):
    """Is this the node that runs in this thread?"""

    def __init__(self):
        super().__init__("weft_on")

    def invoke(self, name):
        if name.type.code == gdb.TYPE_CODE_STRUCT:
            # A &str of Rust's.
            at, length = int(name["data_ptr"]), int(name["length"])
            wanted = gdb.selected_inferior().read_memory(at, length).tobytes().decode(errors="replace")
        elif name.type.code in (gdb.TYPE_CODE_ARRAY, gdb.TYPE_CODE_STRING):
            # Bytes of Rust's, which are no array before they are made one; a text of C's with a zero at its end.
            last = name.type.range()[1]
            array = name.cast(name.type.target().array(last))
            wanted = bytes(int(array[index]) % 256 for index in range(last + 1)).rstrip(b"\0").decode(errors="replace")
        else:
            wanted = name.string()
        return node() == wanted


class Time(gdb.Function):
    """The virtual time of the node that runs in this thread, in nanoseconds."""

    def __init__(self):
        super().__init__("weft_time")

    def invoke(self):
        return time()


class Weft(gdb.Command):
    """weft nodes | weft sockets | weft where"""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_DATA, prefix=True)


class Where(gdb.Command):
    """Which node runs in this thread, and what time it is there."""

    def __init__(self):
        super().__init__("weft where", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        print(f"node {node() or '(none)'} at {seconds(time())}")


class Nodes(gdb.Command):
    """Every node, its virtual time, and how many events it has had."""

    def __init__(self):
        super().__init__("weft nodes", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for name, at, events, _ in rows():
            print(f"{name:24} {seconds(at):>22} {events:>10} events")


class Sockets(gdb.Command):
    """The sockets of every node, as they were before the event that it is at."""

    def __init__(self):
        super().__init__("weft sockets", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        for name, at, _, sockets in rows():
            if sockets:
                print(f"{name} at {seconds(at)}:\n{sockets.rstrip()}")


Node()
On()
Time()
Weft()
Where()
Nodes()
Sockets()
# A world is stopped with it by `--break-at`.
gdb.execute("handle SIGTRAP stop print nopass", to_string=True)
