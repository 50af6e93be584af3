"""Programs with rights of their files, in namespaces, with filters and tracers: each line is what was asked, how, and the answer.

It has to be root, as it becomes somebody else.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

from saying import call, folder, libc, said, works

SOMEBODY = 65534
UTS, PID, USERS, NETWORK, MOUNTS = 0x04000000, 0x20000000, 0x10000000, 0x40000000, 0x00020000
FILES = 0x400
AT_RANDOM = 25


def copy(program: str, mode: int, name: str) -> str:
    """The program under another name, of root's, with these rights."""
    path = f"{folder()}/{name}"
    shutil.copyfile(shutil.which(program), path)
    os.chmod(path, mode)
    return path


def as_somebody(*command: str) -> str:
    """What a program says that a user without rights starts."""
    def become() -> None:
        os.setgroups([])
        os.setresgid(SOMEBODY, SOMEBODY, SOMEBODY)
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
    return subprocess.run(command, preexec_fn=become, capture_output=True, text=True, cwd="/").stdout.strip()


def executed(path: str) -> None:
    """Executes it as somebody, in this process: the error is execve's."""
    os.setgroups([])
    os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
    pid = os.posix_spawn(path, [path], {})
    os.waitpid(pid, 0)


def rights() -> None:
    whose = copy("id", 0o4755, "whose")
    said("rights of a file", "set-user-id", lambda: f"runs as {as_somebody(whose, '-u')}")
    group = copy("id", 0o2755, "group")
    said("rights of a file", "set-group-id", lambda: f"runs as {as_somebody(group, '-g')}")
    able = copy("cat", 0o755, "able")
    # Version 2, effective; permitted: CAP_NET_BIND_SERVICE.
    said("rights of a file", "a capability", lambda: capable(able, struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)))
    hidden = copy("true", 0o711, "hidden")
    said("unreadable", "a program of its own", lambda: executed(hidden))
    # Beside this script: of the machine that the host runs on.
    said("unreadable", "the machine's", lambda: executed(f"{os.path.dirname(os.path.abspath(sys.argv[0]))}/unreadable"))
    plain = copy("true", 0o755, "plain")
    said("readable", "a program", lambda: executed(plain))


def capable(path: str, value: bytes) -> str:
    os.setxattr(path, "security.capability", value)
    said = as_somebody(path, "/proc/self/status")
    return next(line.split()[1] for line in said.splitlines() if line.startswith("CapEff"))


def filters() -> None:
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
    said("filters", "seccomp, a filter", lambda: works(lambda: (call(157, 38, 1, 0, 0, 0), call(317, 1, 0, program))))
    said("filters", "seccomp, by prctl", lambda: works(lambda: (call(157, 38, 1, 0, 0, 0), call(157, 22, 2, program))))
    said("filters", "ptrace", traced)
    said("tracer", "after the first stop", lambda: traced_on(0))
    said("filters", "PR_SET_TSC", lambda: works(lambda: call(157, 26, 2, 0, 0, 0)))
    selector = ctypes.create_string_buffer(1)
    said("filters", "Syscall User Dispatch", lambda: works(lambda: call(157, 59, 1, 0, 0, selector)))
    said("filters", "subreaper", lambda: works(lambda: call(157, 36, 1, 0, 0, 0)))
    said("filters", "ARCH_SET_GS", lambda: works(lambda: call(158, 0x1001, 4096)))


def traced() -> str:
    """A child that is traced stops at its signal."""
    pid = os.fork()
    if not pid:
        if libc.ptrace(0, 0, 0, 0):
            os._exit(ctypes.get_errno())
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "works"
    return errno.errorcode.get(os.WEXITSTATUS(status), "does nothing")


def traced_on(handed_on: int) -> str:
    """What a child that is traced does next, when its tracer withholds the signal that it stopped at."""
    pid = os.fork()
    if not pid:
        if libc.ptrace(0, 0, 0, 0):
            os._exit(ctypes.get_errno())
        os.kill(os.getpid(), signal.SIGUSR1)
        os.getppid()
        os._exit(0)
    _, status = os.waitpid(pid, os.WUNTRACED)
    # Its own stops, and those that somebody else has it make: the first after SIGUSR1 is what counts.
    stops = 0
    while os.WIFSTOPPED(status) and stops < 100 and os.WSTOPSIG(status) != signal.SIGUSR1:
        # PTRACE_CONT, with the signal.
        libc.ptrace(7, pid, 0, os.WSTOPSIG(status))
        _, status = os.waitpid(pid, os.WUNTRACED)
        stops += 1
    if not os.WIFSTOPPED(status):
        return errno.errorcode.get(os.WEXITSTATUS(status), "ends")
    libc.ptrace(7, pid, 0, handed_on)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return signal.Signals(os.WSTOPSIG(status)).name
    return "ends"


def listens() -> None:
    """A filter that tells another process of calls: SECCOMP_FILTER_FLAG_NEW_LISTENER."""
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
    call(157, 38, 1, 0, 0, 0)
    works(lambda: call(317, 1, 8, program))


def interfaces() -> None:
    """Requests that change interfaces, routes and neighbours."""
    def asked(number: int, argument: bytes) -> None:
        fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), number, argument)

    def request(value: bytes) -> bytes:
        return (b"lo".ljust(16, b"\0") + value).ljust(40, b"\0")

    address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("192.0.2.1"))
    route = (bytes(8) + struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("198.51.100.0")) + bytes(16)
             + struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("255.255.255.0")) + struct.pack("H", 1)).ljust(120, b"\0")
    name = ctypes.create_string_buffer(b"lo")
    route = route[:88] + struct.pack("Q", ctypes.addressof(name)) + route[96:]
    said("interface", "SIOCSIFMTU", lambda: asked(0x8922, request(struct.pack("i", 60000))))
    said("interface", "SIOCSIFADDR", lambda: asked(0x8916, request(address)))
    said("interface", "SIOCSIFMAP", lambda: asked(0x8971, request(bytes(24))))
    said("interface", "SIOCADDRT", lambda: asked(0x890B, route))
    said("interface", "SIOCDELRT", lambda: asked(0x890C, route))
    # RTF_UP, RTF_WINDOW
    metric = route[:56] + struct.pack("H", 0x81) + route[58:104] + struct.pack("Q", 5000) + route[112:]
    said("interface", "SIOCADDRT with a window", lambda: asked(0x890B, metric))
    neighbour = address + struct.pack("H14si", 1, bytes(14), 2) + bytes(16) + b"lo".ljust(16, b"\0")
    said("interface", "SIOCSARP", lambda: asked(0x8955, neighbour))


def peers() -> None:
    """Who the other end of a unix socket is, which has become somebody else since."""
    def peer() -> str:
        one, other = socket.socketpair()
        os.setresuid(SOMEBODY, SOMEBODY, 0)
        return struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]

    said("peer", "SO_PEERCRED", peer)


def spaces() -> None:
    for name, flag in (("UTS", UTS), ("mounts", MOUNTS), ("network", NETWORK), ("users", USERS), ("processes", PID)):
        said("namespaces", f"unshare {name}", lambda: works(lambda: call(272, flag)))
        said("namespaces", f"clone {name}", lambda: cloned(flag))
    said("namespaces", "setns", lambda: works(lambda: call(308, os.open("/proc/self/ns/uts", os.O_RDONLY), 0)))
    said("namespaces", "mount", mounted)
    said("capabilities", "ambient", ambient)
    said("namespaces", "clone CLONE_NEWTIME", timed)
    said("clone", "CLONE_FILES without CLONE_VM", lambda: cloned(FILES))


def mounted() -> None:
    """In a namespace of its own, where it may have one: nobody else sees it."""
    if libc.unshare(MOUNTS) == 0:
        libc.mount(b"none", b"/", None, 0x44000, None)
    if libc.mount(b"tmpfs", folder().encode(), b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "")


def ambient() -> None:
    """CAP_NET_RAW is to stay through execve, whoever the program becomes (PR_CAP_AMBIENT_RAISE); for that it must be inheritable."""
    header, sets = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0)), ctypes.create_string_buffer(24)
    call(125, header, sets)
    effective, permitted, inheritable, *others = struct.unpack("6I", sets.raw)
    call(126, header, ctypes.create_string_buffer(struct.pack("6I", effective, permitted, inheritable | 1 << 13, *others)))
    call(157, 47, 2, 13, 0, 0)


def timed() -> None:
    """A child made by clone3(2), whose CLONE_NEWTIME clone(2) takes for a signal."""
    arguments = struct.pack("8Q", 0x80, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    before = os.readlink("/proc/self/ns/time")
    pid = call(435, ctypes.create_string_buffer(arguments), len(arguments))
    if not pid:
        os._exit(os.readlink("/proc/self/ns/time") == before)
    if os.waitpid(pid, 0)[1]:
        raise OSError(errno.EDOM, "the child has its maker's")


def cloned(flag: int) -> None:
    """A child made by clone(2) itself, which ends at once."""
    pid = call(56, flag | signal.SIGCHLD, 0, 0, 0, 0)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def addresses() -> None:
    program = "import ctypes; print(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)"
    found = {subprocess.run([sys.executable, "-ISc", program], capture_output=True, text=True).stdout for _ in range(4)}
    said("addresses", "where four processes have libc", lambda: "the same place" if len(found) == 1 else "several places")
    libc.getauxval.restype = ctypes.c_ulong
    page = mmap.mmap(-1, mmap.PAGESIZE)
    lies = {"on the stack": (libc.getauxval(ctypes.c_ulong(AT_RANDOM)), 1 << 20), "in a mapping": (ctypes.addressof(ctypes.c_char.from_buffer(page)), 1 << 28)}
    for where, (at, most) in lies.items():
        def taken() -> str:
            out, into = os.pipe()
            os.write(into, b"abc")
            return "is read" if libc.read(out, ctypes.c_void_p(at), ctypes.c_size_t(most)) == 3 else errno.errorcode[ctypes.get_errno()]
        said("addresses", f"a pipe, with room for {most >> 20} MiB {where}", taken)


def objects() -> None:
    """Semaphores, queues and memory that are root's alone, as somebody finds them."""
    def used(ask) -> None:
        os.setgroups([])
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
        works(ask)

    name = f"owned-{os.getpid()}".encode()
    semaphores, queue, memory = call(64, 0, 1, 0o600), call(68, 0, 0o600), call(29, 0, 4096, 0o600)
    fd = call(240, name, os.O_RDWR | os.O_CREAT, 0o600, None)
    said("whose", "a semaphore", lambda: used(lambda: call(66, semaphores, 0, 12, 0)))
    said("whose", "a message queue", lambda: used(lambda: call(69, queue, ctypes.create_string_buffer(struct.pack("q", 1)), 0, 0)))
    said("whose", "shared memory", lambda: used(lambda: call(30, memory, 0, 0)))
    said("whose", "a message queue of POSIX", lambda: used(lambda: call(240, name, os.O_RDWR, 0, None)))
    call(66, semaphores, 0, 0, 0)
    call(71, queue, 0, 0)
    call(31, memory, 0, 0)
    call(241, name)
    os.close(fd)


def same_domain() -> None:
    """As it is called already: nobody notices."""
    name = ctypes.create_string_buffer(65)
    libc.getdomainname(name, 65)
    works(lambda: call(171, name, len(name.value)))


def names() -> None:
    said("name", "sethostname", lambda: socket.sethostname(socket.gethostname()))
    said("name", "setdomainname", same_domain)


def netlinks() -> None:
    """Whom a user without rights may send to over netlink."""
    def asks(ask) -> None:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as other, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
            other.bind((0, 0))
            os.setgroups([])
            os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
            ask(s, other.getsockname()[0])

    # RTM_GETLINK of lo.
    request = struct.pack("=IHHIIBBHiII", 32, 18, 5, 7, 0, 0, 0, 0, 1, 0, 0)
    for whom, name in (("the kernel", lambda number: (0, 0)), ("a program", lambda number: (number, 0)), ("a group", lambda number: (0, 1))):
        said("netlink of somebody", f"connect to {whom}", lambda: asks(lambda s, number: s.connect(name(number))))
        said("netlink of somebody", f"sendto {whom}", lambda: asks(lambda s, number: works(lambda: s.sendto(request, name(number)))))
        said("netlink of somebody", f"sendmsg to {whom}", lambda: asks(lambda s, number: works(lambda: s.sendmsg([request], [], 0, name(number)))))


rights()
names()
netlinks()
filters()
said("filters", "seccomp with a listener", listens)
interfaces()
peers()
objects()
spaces()
addresses()
