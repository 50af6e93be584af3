"""A signal during a call that waits, of a socket with a time limit and without one: does the call end, or does it begin again after the handler?

Each case has a process of its own, and a child of that which signals it, and later gives it what it waits for.
"""

import ctypes
import functools
import os
import signal
import socket
import struct
import time

from answers import coded, side_by_side

libc = ctypes.CDLL(None, use_errno=True)
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
SA_RESTART, SA_ONSTACK = 0x10000000, 0x08000000
PAUSE_S = 0.2
# Until a call has begun to wait. To be asleep does not say so: a call that a supervisor has yet to take is asleep, too.
BEGIN_S = 1.5
ALT_STACK_BYTES = 65536
NAME_BYTES = 128


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class Header(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint),
        ("vectors", ctypes.POINTER(Vector)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Several(ctypes.Structure):
    _fields_ = [("header", Header), ("bytes", ctypes.c_uint)]


class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_uint8 * 128), ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p)]


class Stack(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("bytes", ctypes.c_size_t)]


buffer = ctypes.create_string_buffer(65536)
name = ctypes.create_string_buffer(NAME_BYTES)
name_bytes = ctypes.c_int(NAME_BYTES)
vector = Vector(ctypes.addressof(buffer), 64)
one = Several(Header(ctypes.addressof(name), NAME_BYTES, ctypes.pointer(vector), 1))
limit = ctypes.create_string_buffer(struct.pack("qq", 20, 0))


def stream(family):
    """Who waits for bytes of a stream, and how it gets some."""
    kind, host = FAMILIES[family]
    listener = socket.create_server((host, 0), family=kind)
    a = socket.create_connection(listener.getsockname()[:2])
    b, _ = listener.accept()
    return a, lambda: b.send(b"x")


def datagrams(family):
    kind, host = FAMILIES[family]
    a, b = socket.socket(kind, socket.SOCK_DGRAM), socket.socket(kind, socket.SOCK_DGRAM)
    a.bind((host, 0))
    return a, lambda: b.sendto(b"x", a.getsockname())


def netlink(_):
    """What it waits for it is told by the kernel, as it has asked."""
    a = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    a.bind((0, 0))
    return a, lambda: a.sendto(struct.pack("=IHHII", 16, 1, 4, 1, 0), (0, 0))


def listener(family):
    kind, host = FAMILIES[family]
    a = socket.create_server((host, 0), family=kind)
    return a, lambda: socket.create_connection(a.getsockname()[:2])


def caller(family):
    """Whose connection there is no room for, until somebody is accepted."""
    kind, host = FAMILIES[family]
    full = socket.socket(kind)
    full.bind((host, 0))
    full.listen(0)
    before = []
    for _ in range(3):
        one = socket.socket(kind)
        one.setblocking(False)
        one.connect_ex(full.getsockname())
        before.append(one)
    time.sleep(PAUSE_S)
    a = socket.socket(kind)
    port = socket.htons(full.getsockname()[1])
    name.raw = struct.pack("=HHI16sI", kind, port, 0 if kind == socket.AF_INET6 else 0x0100007F, b"\0" * 15 + b"\1", 0).ljust(NAME_BYTES, b"\0")
    a.keeps = before
    return a, lambda: [full.accept() for _ in range(2)]


def sender(family):
    """Whose peer does not read. It has sent until nothing more was taken for a while."""
    kind, host = FAMILIES[family]
    listener = socket.create_server((host, 0), family=kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    a = Kept(kind)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    a.connect(listener.getsockname())
    b, _ = listener.accept()
    a.setblocking(False)
    idle = 0
    while idle < 4:
        try:
            a.send(b"x" * 4096)
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.1)
    a.setblocking(True)
    b.settimeout(PAUSE_S)

    def reads():
        try:
            while b.recv(65536):
                pass
        except TimeoutError:
            pass

    return a, reads


class Kept(socket.socket):
    keeps = None


socket.socket = Kept
CALLS = {
    "recvfrom": lambda fd: libc.recvfrom(fd, buffer, 64, 0, name, ctypes.byref(name_bytes)),
    "recvfrom of all": lambda fd: libc.recvfrom(fd, buffer, 1, socket.MSG_WAITALL, name, ctypes.byref(name_bytes)),
    "recvmsg": lambda fd: libc.recvmsg(fd, ctypes.byref(one.header), 0),
    "recvmmsg": lambda fd: libc.recvmmsg(fd, ctypes.byref(one), 1, 0, None),
    "recvmmsg for some time": lambda fd: libc.recvmmsg(fd, ctypes.byref(one), 1, 0, limit),
    "read": lambda fd: libc.read(fd, buffer, 64),
    "accept": lambda fd: libc.accept(fd, None, None),
    "accept4": lambda fd: libc.accept4(fd, name, ctypes.byref(name_bytes), 0),
    "connect": lambda fd: libc.connect(fd, name, 28),
    "send": lambda fd: libc.send(fd, buffer, 1, socket.MSG_OOB),
}
RECEIVES = ["recvfrom", "recvfrom of all", "recvmsg", "recvmmsg", "recvmmsg for some time", "read"]
CASES = [
    (stream, "46", RECEIVES),
    (datagrams, "46", RECEIVES),
    (netlink, "-", RECEIVES),
    (listener, "46", ["accept", "accept4"]),
    (caller, "46", ["connect"]),
    (sender, "46", ["send"]),
]
handler_of = ctypes.CFUNCTYPE(None, ctypes.c_int)


def told(result):
    """What a call came to; of a new descriptor that it is one."""
    code = coded(result)
    return "some" if isinstance(code, int) and code > 0 else code


def handled_by(handler, flags):
    """In the moment of the signal, as no handler of Python's is."""
    function = handler_of(handler)
    action = Action(ctypes.cast(function, ctypes.c_void_p).value, flags=flags)
    libc.sigaction(signal.SIGUSR1, ctypes.byref(action), None)
    return function


def asleep(pid) -> None:
    """Until it waits; what it has to do before that may take a while on a busy machine."""
    state = ""
    while state != "S":
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
        time.sleep(0.01)


def alone(kind, family, call, limited, flags, how):
    a, gives = kind(family)
    fd = a.fileno()
    if limited:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            a.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 20, 0))
    ran = []

    def handler(_):
        # The same call, from another place in the stack; what it says is not the interrupted one's.
        saved = ctypes.get_errno()
        os.write(began, b"h")
        ran.append(told(again()) if how == "calls" else "handled")
        ctypes.set_errno(saved)

    def again():
        return CALLS[call](fd)

    kept = handled_by(handler, flags)
    if flags & SA_ONSTACK:
        stack = ctypes.create_string_buffer(ALT_STACK_BYTES)
        libc.sigaltstack(ctypes.byref(Stack(ctypes.addressof(stack), 0, ALT_STACK_BYTES)), None)
    me = os.getpid()
    begins, began = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(begins, 1)
        time.sleep(BEGIN_S)
        asleep(me)
        if how == "stops":
            os.kill(me, signal.SIGSTOP)
            time.sleep(PAUSE_S)
            os.kill(me, signal.SIGCONT)
        else:
            os.kill(me, signal.SIGUSR1)
            os.read(begins, 1)
        # Before it has ended, or begun again, it would take what comes, on Linux, too.
        asleep(me)
        # More than is waited for: on a busy machine one call may take what two were given. Its sockets are left until the end.
        while True:
            time.sleep(PAUSE_S)
            gives()
    os.write(began, b"x")
    first = told(again())
    # The next one is the program's own.
    second = told(again())
    who = f"{kind.__name__}{family.strip('-')} {call}" + (" with a limit" if limited else "")
    what = "restarts" if flags & SA_RESTART else "ends"
    print(who, "|", how, what + (" on another stack" if flags & SA_ONSTACK else ""), "|", first, second, *ran)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(begins), os.close(began)
    del kept


def case(*words):
    return functools.partial(alone, *words)


for kind, families, calls in CASES:
    bodies = []
    for limited in (False, True):
        bodies += [case(kind, family, call, limited, flags, "signal") for family in families for call in calls for flags in (0, SA_RESTART)]
        if kind in (stream, datagrams):
            bodies += [case(kind, family, "recvfrom", limited, flags, "calls") for family in families for flags in (0, SA_RESTART)]
        bodies += [case(kind, family, calls[0], limited, SA_RESTART, "stops") for family in families]
        bodies += [case(kind, family, calls[0], limited, flags | SA_ONSTACK, "signal") for family in families for flags in (0, SA_RESTART)]
    side_by_side(*bodies)
