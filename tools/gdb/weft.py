"""What gdb can ask a world of `weft sim` for. No debugging information is needed but names.

    gdb -x tools/gdb/weft.py --args weft sim SCENARIO

    $weft_node()      the node that runs in this thread
    $weft_on("NAME")  does this node run? break write_header if $weft_on("server")
    $weft_time()      its virtual time in nanoseconds: break FUNCTION if $weft_time() > 2000000000
    weft nodes        every node, its virtual time, its events so far
    weft sockets      the sockets of every node, as they were before the event that it is at
    weft where        node and time in one line

Release builds know functions by their last name (`break write_header`) and by place (`break transmit.rs:40`).
All stacks of a world live in one process, so that one debugger sees all of them. With `--threads 1` (the default) one thread runs all nodes.
"""

import re

import gdb

# crates/sim/src/debug.rs, `Lane`: name, its length, time; aligned to 64 bytes.
LANE_BYTES = 64
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


class Language:
    """Expressions are written in this language."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.before = gdb.parameter("language")
        gdb.execute(f"set language {self.name}", to_string=True)

    def __exit__(self, *_):
        gdb.execute(f"set language {self.before}", to_string=True)


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


def node():
    at = lane()
    name = word(at) if at else 0
    if not name:
        return ""
    return gdb.selected_inferior().read_memory(name, word(at + WORD_BYTES)).tobytes().decode(errors="replace")


def time():
    at = lane()
    return word(at + 2 * WORD_BYTES) if at else 0


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
        try:
            wanted = name.string()
        except gdb.error:
            # While Rust is the language a text in an expression is a &str.
            at, length = int(name["data_ptr"]), int(name["length"])
            wanted = gdb.selected_inferior().read_memory(at, length).tobytes().decode(errors="replace")
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


class Table(gdb.Command):
    """A table that the program prints itself, on its standard error."""

    def __init__(self, name, place, doc):
        self.__doc__, self.place = doc, place
        super().__init__(f"weft {name}", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        at = address("CALLS")
        if at is None:
            raise gdb.GdbError("no world runs here: start `weft sim SCENARIO`")
        with Language("c"):
            gdb.parse_and_eval(f"((void (*)(void)) {word(at + WORD_BYTES * self.place)})()")


Node()
On()
Time()
Weft()
Where()
Table("nodes", 0, "Every node, its virtual time, and how many events it has had.")
Table("sockets", 1, "The sockets of every node, as they were before the event that it is at.")
# A world is stopped with it by `--break-at`.
gdb.execute("handle SIGTRAP stop print nopass", to_string=True)
