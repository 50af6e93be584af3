"""Processes and threads that share their descriptors, their working directory and their parent, or no longer do: clone(2) with these flags, and unshare(2)."""

import ctypes
import errno
import os
import select
import signal
import socket
import tempfile
import threading

from answers import said

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
CLONE, UNSHARE, CLONE3, CLOSE_RANGE = 56, 272, 435, 436
VM, FS, FILES, SIGHAND, VFORK, PARENT, THREAD, SYSVSEM = 0x100, 0x200, 0x400, 0x800, 0x4000, 0x8000, 0x10000, 0x40000
FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}


def call(number, *words):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def child(flags, body) -> int:
    """A process made by clone(2) with these flags; it ends with the errno of what fails."""
    pid = call(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid:
        return pid
    status = 0
    try:
        body()
    except OSError as error:
        status = error.errno
    finally:
        os._exit(status)


def ended(pid) -> str:
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else errno.errorcode.get(os.WEXITSTATUS(status), "done")


def is_open(fd) -> bool:
    return said(lambda: os.fstat(fd) and True) is True


def kinds(family, host) -> dict:
    """What a descriptor can be, and what shows that it is that."""
    def stream():
        server = socket.create_server((host, 0), family=family)
        one = socket.create_connection(server.getsockname()[:2])
        other = server.accept()[0]
        server.close()
        other.send(b"x")
        select.select([one], [], [], 5)
        return one.detach(), other.detach()

    def datagram():
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.bind((host, 0))
        s.connect(s.getsockname())
        s.send(b"x")
        # Below `weft run` it comes a moment later.
        select.select([s], [], [], 5)
        return (s.detach(),)

    def pipe():
        out, into = os.pipe()
        os.write(into, b"x")
        return out, into

    def local():
        one, other = socket.socketpair()
        other.send(b"x")
        return one.detach(), other.detach()

    return {"stream": stream, "datagram": datagram, "pipe": pipe, "unix": local, "file": lambda: (os.open(os.sys.executable, os.O_RDONLY),)}


def reads(fd) -> str:
    return "reads" if select.select([fd], [], [], 5)[0] and os.read(fd, 1) else "reads nothing"


def descriptors() -> None:
    """One process makes, closes or replaces what another uses."""
    for name, (family, host) in FAMILIES.items():
        for kind, make in kinds(family, host).items():
            for flags in (0, FILES, FILES | FS):
                # The child makes it, and the maker reads it: the same number in both.
                free = os.dup(0)
                os.close(free)
                pid = child(flags, make)
                how = ended(pid)
                print("made by a child", name, kind, hex(flags), how, is_open(free), said(lambda: reads(free)) if flags else said(lambda: os.read(free, 1)))
                for fd in range(free, free + 4):
                    said(lambda: os.close(fd))
                # The child closes it.
                ends = make()
                pid = child(flags, lambda: os.close(ends[0]))
                print("closed by a child", name, kind, hex(flags), ended(pid), [is_open(fd) for fd in ends], said(lambda: reads(ends[0])))
                for fd in ends:
                    said(lambda: os.close(fd))
                # The child puts it in another's place, which was looked at before.
                ends, file = make(), os.open("/dev/null", os.O_RDONLY)
                os.read(file, 1)
                pid = child(flags, lambda: os.dup2(ends[0], file))
                print("replaced by a child", name, kind, hex(flags), ended(pid), said(lambda: os.read(file, 1) != b""))
                for fd in (*ends, file):
                    said(lambda: os.close(fd))
                # The maker makes it while the child runs, which reads it then.
                told, tell = os.pipe()

                def later() -> None:
                    fd = int(os.read(told, 16))
                    reads(fd)

                pid = child(flags, later)
                ends = make()
                os.write(tell, str(ends[0]).encode())
                print("made by the maker", name, kind, hex(flags), ended(pid))
                for fd in (*ends, told, tell):
                    said(lambda: os.close(fd))


def epolls() -> None:
    """An epoll with a socket, which both processes have: who closes its number, and who waits there."""
    for name, (family, host) in FAMILIES.items():
        for flags in (0, FILES):
            s = socket.socket(family, socket.SOCK_DGRAM)
            s.bind((host, 0))
            epoll = select.epoll()
            epoll.register(s.fileno(), select.EPOLLIN)
            pid = child(flags, lambda: s.sendto(b"x", s.getsockname()))
            print("epoll", name, hex(flags), ended(pid), [events for _, events in epoll.poll(5)], s.recv(9), epoll.poll(0))
            other = os.dup(epoll.fileno())
            pid = child(flags, lambda: os.close(other))
            s.sendto(b"y", s.getsockname())
            print("epoll, a duplicate closed", name, hex(flags), ended(pid), [events for _, events in epoll.poll(5)], is_open(other))
            pid = child(flags, lambda: (epoll.poll(5) and s.recv(9), s.sendto(b"z", s.getsockname())))
            print("epoll in a child", name, hex(flags), ended(pid), s.recv(9))
            said(lambda: os.close(other))


def folders() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for flags in (0, FS, FS | FILES):
            os.chdir("/")
            os.umask(0o22)
            pid = child(flags, lambda: (os.chdir(folder), os.umask(0o77)))
            print("folder", hex(flags), ended(pid), os.getcwd() == folder, oct(os.umask(0o22)))
        os.chdir("/")

        def alone() -> None:
            call(UNSHARE, FS)
            os.chdir(folder)

        print("folder, unshared", ended(child(FS, alone)), os.getcwd())


def parents() -> None:
    """CLONE_PARENT: the new process is its maker's sister."""
    for flags in (PARENT, PARENT | FILES, PARENT | FS):
        out, into = os.pipe()

        def makes() -> None:
            me = os.getppid()
            pid = call(CLONE, flags | signal.SIGUSR1, 0, 0, 0, 0)
            if not pid:
                os.write(into, b"%d %d\n" % (os.getpid(), os.getppid() == me))
                os._exit(7)
            os.write(into, b"wait %s\n" % str(said(lambda: os.waitpid(pid, 0))).encode())

        print("parent", hex(flags), ended(child(0, makes)), end=" ")
        text = b""
        while text.count(b"\n") < 2:
            text += os.read(out, 99)
        lines = sorted(text.decode().split("\n"))
        number, same = lines[1].split()
        print(lines[2], "the maker's parent" if same == "1" else "another", os.waitstatus_to_exitcode(os.waitpid(int(number), 0)[1]))
    print("parent and a thread", said(lambda: call(CLONE, PARENT | THREAD, 0, 0, 0, 0)), said(lambda: call(CLONE, THREAD | VM, 0, 0, 0, 0)), said(lambda: call(CLONE, SIGHAND, 0, 0, 0, 0)))
    words = (ctypes.c_ulong * 11)(PARENT, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    print("clone3 with a parent and a signal", said(lambda: call(CLONE3, ctypes.addressof(words), 64)))


def unshared() -> None:
    """A thread that has descriptors of its own: by unshare(2) and close_range(2), in the first thread and in another."""
    ways = {"unshare": lambda: call(UNSHARE, FILES), "close_range": lambda: call(CLOSE_RANGE, 900, 910, 2), "not at all": lambda: None}
    for name, (family, host) in FAMILIES.items():
        for kind, make in kinds(family, host).items():
            for way, separate in ways.items():
                for first in (True, False):
                    def body() -> None:
                        ends, file = make(), os.open("/dev/null", os.O_RDONLY)
                        os.read(file, 1)
                        is_separate, is_done, found = threading.Event(), threading.Event(), []

                        def changes() -> None:
                            separate()
                            is_separate.set()
                            os.dup2(ends[0], file)
                            os.close(ends[0])
                            found.append(said(lambda: len(os.read(file, 1))))
                            is_done.set()

                        def looks() -> None:
                            is_separate.wait()
                            is_done.wait()
                            found.append((said(lambda: len(os.read(file, 1))), is_open(ends[0]), said(lambda: len(os.read(ends[0], 1))) if way != "not at all" else 0))

                        # What has been read by one cannot be read by the other: look at what blocks without waiting.
                        for fd in ends:
                            os.set_blocking(fd, False)
                        other = threading.Thread(target=looks if first else changes)
                        other.start()
                        (changes if first else looks)()
                        other.join()
                        os.write(1, f"unshared | {name} {kind} {way} {'first' if first else 'another'} | {found}\n".encode())
                    if how := ended(child(0, body)):
                        print("unshared", name, kind, way, first, how, flush=True)


def refusals() -> None:
    for flags in (0, FS, FILES, SYSVSEM, FS | FILES | SYSVSEM, 1, VM, THREAD, SIGHAND, PARENT, 1 << 40):
        print("unshare", hex(flags), said(lambda: call(UNSHARE, flags)))


for part in (descriptors, epolls, folders, parents, unshared, refusals):
    part()
    os.sys.stdout.flush()
