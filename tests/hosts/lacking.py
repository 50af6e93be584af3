"""Calls that a host of weft's has not, or only in part: each line is what was asked, how, and the answer."""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct

from saying import call, folder, libc, said, works

# Each with its number and the first of its arguments; the others are 0.
WHOLE_CALLS = {
    "syslog": (103, -1), "ustat": (136, 0), "sysfs": (139, 9), "modify_ldt": (154, 0), "quotactl": (179, -1),
    "io_setup": (206, 0), "io_destroy": (207, 0), "io_getevents": (208, 0), "io_submit": (209, 0), "io_cancel": (210, 0), "io_pgetevents": (333, 0),
    "remap_file_pages": (216, 1), "restart_syscall": (219,), "add_key": (248, 0), "request_key": (249, 0), "keyctl": (250, -1),
    "migrate_pages": (256, -1), "perf_event_open": (298, 0), "fanotify_init": (300, -1), "fanotify_mark": (301, -1, -1),
    "open_by_handle_at": (304, -1, 0), "bpf": (321, -1), "quotactl_fd": (443, -1), "landlock_create_ruleset": (444, 0, 0, -1), "landlock_add_rule": (445, -1),
    "memfd_secret": (447, -1), "process_mrelease": (448, -1, -1), "set_mempolicy_home_node": (450, 0, 0, 0, -1), "cachestat": (451, -1),
    "futex_wake": (454, 0, 0, 0, -1), "futex_wait": (455, 0, 0, 0, -1), "futex_requeue": (456, 0, -1), "statmount": (457, 0), "listmount": (458, 0),
    "lsm_get_self_attr": (459, 0), "lsm_list_modules": (461, 0, 0, -1), "mseal": (462, 1),
    "userfaultfd": (323, -1), "pidfd_getfd": (438, -1, -1, -1), "mbind": (237, 0, 0, -1), "kcmp": (312, -1),
    "membarrier": (324, -1), "name_to_handle_at": (303, -1), "rseq": (334, 0),
}
# Linux looks at the arguments of these before it asks who makes them.
FOR_EVERYBODY = ("userfaultfd", "pidfd_getfd")
# Others than root may be refused by a setting.
FOR_ROOT = ("bpf",)
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}


def sockets() -> None:
    for name, (family, _) in FAMILIES.items():
        said("udp-lite", f"a socket over IPv{name}", lambda: works(lambda: socket.socket(family, socket.SOCK_DGRAM, 136)))
        said("protocol", f"MPTCP over IPv{name}", lambda: works(lambda: socket.socket(family, socket.SOCK_STREAM, 262)))
        said("option", f"one that nobody knows over IPv{name}", lambda: socket.socket(family).setsockopt(socket.SOL_SOCKET, 9999, 1))
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        said("packet socket", f"of type {kind:d}", lambda: works(lambda: socket.socket(17, kind, socket.htons(3))))
    for name, family, kind in (("AF_VSOCK", 40, socket.SOCK_STREAM), ("AF_CAN", 29, socket.SOCK_RAW), ("AF_TIPC", 30, socket.SOCK_DGRAM),
                               ("AF_ALG", 38, socket.SOCK_SEQPACKET), ("AF_BLUETOOTH", 31, socket.SOCK_SEQPACKET)):
        said("family", name, lambda: works(lambda: socket.socket(family, kind, 0)))
    for name, protocol in (("ROUTE", 0), ("SOCK_DIAG", 4), ("XFRM", 6), ("NETFILTER", 12), ("KOBJECT_UEVENT", 15), ("GENERIC", 16)):
        said("netlink", name, lambda: works(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)))
    for name, family in (("AF_INET", 2), ("AF_UNIX", 1), ("AF_NETLINK", 16), ("AF_PACKET", 17)):
        said("sock_diag", name, lambda: diagnosed(family))
    pair = lambda family, kind: works(lambda: libc_pair(family, kind))
    for name, family in (("AF_INET", 2), ("AF_INET6", 10), ("AF_NETLINK", 16), ("AF_VSOCK", 40)):
        said("socketpair", name, lambda: pair(family, socket.SOCK_DGRAM))
    for name, (family, _) in FAMILIES.items():
        said("filter", f"a filter that asks for the kernel's ancillary data over IPv{name}", lambda: attach(family, 0xFFFFF000))
        said("filter", f"SO_ATTACH_BPF over IPv{name}", lambda: attach_bpf(family))


def diagnosed(family: int) -> None:
    """Asks SOCK_DIAG for all sockets of a family."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
    # SOCK_DIAG_BY_FAMILY; NLM_F_REQUEST | NLM_F_DUMP. Of each family the request begins with its number and a protocol; what is to be shown is all.
    body = struct.pack("BBHIII", family, 255 if family == socket.AF_NETLINK else 0, 0, 0xFFFFFFFF, 0, 1) + bytes(48)
    s.send(struct.pack("IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
    answer = s.recv(1 << 16)
    kind = struct.unpack_from("H", answer, 4)[0]
    if kind == 2 and (number := struct.unpack_from("i", answer, 16)[0]):
        raise OSError(-number, "")


def names() -> None:
    """Abstract names of unix sockets."""
    for length in (104, 105, 107):
        name = b"\0" + (f"{os.getpid():08}" * 14)[:length].encode()
        said("abstract name", f"{length} bytes", lambda: socket.socket(socket.AF_UNIX).bind(name))

    def own() -> str:
        """What it is called that binds to no name."""
        one = socket.socket(socket.AF_UNIX)
        one.bind("")
        return one.getsockname().decode().lstrip("\0")

    said("abstract name", "without one", lambda: "drawn" if own() > "00010" else "counted")


def libc_pair(family: int, kind: int) -> None:
    if libc.socketpair(family, kind, 0, ctypes.create_string_buffer(8)):
        raise OSError(ctypes.get_errno(), "")


def attach(family: int, at: int) -> None:
    """A classic filter of two instructions: load a word from there, and take everything."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 0x20, 0, 0, at) + struct.pack("HBBI", 0x06, 0, 0, 0xFFFF))
    program = struct.pack("HxxxxxxQ", 2, ctypes.addressof(code))
    socket.socket(family, socket.SOCK_DGRAM).setsockopt(socket.SOL_SOCKET, 26, program)


def attach_bpf(family: int) -> None:
    """An eBPF program of two instructions: the answer is 0."""
    code = ctypes.create_string_buffer(struct.pack("BBhi", 0xB7, 0, 0, 0) + struct.pack("BBhi", 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack("IIQQIIQI", 1, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0).ljust(120, b"\0")
    try:
        program = call(321, 5, ctypes.create_string_buffer(attributes), 120)
    except OSError:
        # Programs may not make one here: any number will do to ask for the option.
        program = 0
    socket.socket(family, socket.SOCK_DGRAM).setsockopt(socket.SOL_SOCKET, 50, program)


def tables() -> None:
    """Calls of other tables, and whole calls that are not there."""
    room = ctypes.create_string_buffer(256)
    said("ring", "io_uring_setup", lambda: works(lambda: call(425, 4, room)))
    said("queue", "semget", lambda: works(lambda: call(66, call(64, 0, 1, 0o1600), 0, 0)))
    said("queue", "msgget", lambda: works(lambda: call(71, call(68, 0, 0o1600), 0, 0)))
    said("queue", "mq_open", lambda: works(lambda: (call(240, b"compatibility", 0o102, 0o600, None), call(241, b"compatibility"))))
    said("x32", "socket", lambda: works(lambda: call(0x40000000 | 41, 2, 1, 0)))
    # getpid; socket(AF_INET, SOCK_STREAM, 0).
    said("i386", "getpid", lambda: "works" if (found := int_80(20)) == os.getpid() else errno.errorcode[-found])
    said("i386", "getpid from everywhere", everywhere)
    said("i386", "a program", small_program)
    said("i386", "SIOCGIFINDEX", compat_ioctl)
    said("i386", "socket", lambda: "works" if (found := int_80(359, 2, 1, 0)) >= 0 else errno.errorcode[-found])


def everywhere() -> str:
    """From many pages, whose place is the kernel's choice: the smallest gaps between what is there are filled first."""
    kept, answers = [], set()
    for _ in range(300):
        page, run = code_of(20)
        answers.add("works" if (found := run()) == os.getpid() else errno.errorcode[-found])
        kept.append((page, run))
    return " ".join(sorted(answers))


def compat_ioctl() -> None:
    """Asks an interface's number by the i386 table, which takes addresses of 32 bits."""
    # Below the program; MAP_FIXED_NOREPLACE.
    low = call(9, 0x200000, 4096, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100000, -1, 0)
    ctypes.memmove(low, b"lo".ljust(32, b"\0"), 32)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if (found := int_80(54, s.fileno(), 0x8933, low)) < 0:
        raise OSError(-found, "")


def int_80(number: int, first: int = 0, second: int = 0, third: int = 0) -> int:
    """A call of the i386 table, in code that is made here."""
    page, run = code_of(number, first, second, third)
    found = run()
    # Not before.
    del page
    return found


def code_of(number: int, first: int = 0, second: int = 0, third: int = 0) -> tuple:
    """A new page with code that makes such a call, and a function for it."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, number; mov ebx, first; mov ecx, second; mov edx, third; int 0x80; pop rbx; ret
    moves = zip((0xB8, 0xBB, 0xB9, 0xBA), (number, first, second, third))
    page.write(b"\x53" + b"".join(struct.pack("<BI", *one) for one in moves) + b"\xcd\x80\x5b\xc3")
    return page, ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))


def small_program() -> str:
    """Executes a program of the i386 kind that ends with status 7."""
    base, headers = 0x08048000, 52 + 32
    code = b"\xb8\x01\x00\x00\x00\xbb\x07\x00\x00\x00\xcd\x80"
    whole = headers + len(code)
    text = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, base + headers, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    text += struct.pack("<IIIIIIII", 1, 0, base, base, whole, whole, 5, 4096) + code
    file = f"{folder()}/small"
    with open(file, "wb") as into:
        into.write(text)
    os.chmod(file, 0o755)
    pid = os.fork()
    if not pid:
        try:
            os.execv(file, [file])
        except OSError as error:
            os._exit(100 + error.errno)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return "works" if code == 7 else errno.errorcode.get(code - 100, f"status {code}")


def whole_calls() -> None:
    """Is a call there? Each is asked for nothing, so that it does nothing; a kernel of before knows not all of them."""
    def is_there(name: str, number: int, arguments: tuple) -> str:
        is_meant = name in FOR_EVERYBODY or name in FOR_ROOT and os.geteuid() == 0
        refusals = (errno.ENOSYS, errno.EPERM) if is_meant else (errno.ENOSYS,)
        try:
            call(number, *arguments, *[0] * (6 - len(arguments)))
        except OSError as error:
            return errno.errorcode[error.errno] if error.errno in refusals else "there"
        return "there"

    for name, (number, *arguments) in WHOLE_CALLS.items():
        said("whole call", name, lambda: is_there(name, number, arguments))


def node() -> None:
    """What a node has one of."""
    said("processors", "sched_getaffinity", lambda: "one" if len(os.sched_getaffinity(0)) == 1 else "several")
    said("getcpu", "after sched_setaffinity", lambda: "the last one" if moved() else "another")


def numbers() -> None:
    """Numbers of descriptors and memory around what the loader has, and what a process has used."""
    for number in (1018, 1019, 1020, 1021, 1023):
        said("number", f"{number}", lambda: fcntl.fcntl(0, fcntl.F_DUPFD, number))
    said("low memory", "MAP_32BIT", lambda: works(lambda: mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)))
    said("used", "memory", lambda: "some" if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else "none")


def moved() -> bool:
    last = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {last})
    number = ctypes.c_uint()
    call(309, ctypes.byref(number), None, None)
    return number.value == last


def last() -> None:
    """What makes a descriptor when numbers for only so many are free."""
    def with_room(numbers: int, ask) -> str:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        for _ in range(numbers):
            os.close(taken.pop())
        words = str(ask(server))
        client.close()
        return words

    def accepted(server) -> str:
        """And again when there is room: a connection that could not be taken waits."""
        try:
            server.accept()
            return "works"
        except OSError as error:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            for fd in range(40, 44):
                os.close(fd)
            server.accept()
            return f"{errno.errorcode[error.errno]}, and works later"

    for numbers in (0, 1, 2):
        said("last numbers", f"socket with {numbers}", lambda: with_room(numbers, lambda _: works(socket.socket) or "works"))
        said("last numbers", f"accept with {numbers}", lambda: with_room(numbers, accepted))


def many() -> None:
    """More descriptors in one call than a node looks at."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    out, into = os.pipe()
    os.write(into, b"x")

    def polled(count: int) -> str:
        table = ctypes.create_string_buffer(struct.pack("ihh", out, select.POLLIN, 0) * count)
        return str(call(7, table, count, 0))

    for count in (2730, 2731):
        said("poll", f"{count} descriptors", lambda: polled(count))

    def epolled(count: int) -> str:
        epoll = select.epoll()
        for _ in range(count):
            epoll.register(os.dup(out), select.EPOLLIN)
        return str(len(epoll.poll(0, count)))

    for count in (2730, 2740):
        said("epoll", f"{count} pipes", lambda: epolled(count))

    def members(count: int) -> None:
        epoll = select.epoll()
        for _ in range(count):
            epoll.register(os.dup(out), 0)

    for count in (16384, 16385):
        said("members", f"{count}", lambda: members(count))


sockets()
names()
tables()
whole_calls()
node()
numbers()
last()
many()
