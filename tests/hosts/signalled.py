"""Signals that the kernel sends, and what a stopped process waits for: each line is what was asked, how, and the answer."""

import fcntl
import os
import select
import signal
import socket
import struct
import termios
import time

from saying import folder, said

FAMILIES = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::1")}
FIOASYNC = 0x5452


def told(fd: int, poke, way: str, number: int = signal.SIGIO) -> str:
    """Whether something that is there for `fd` sends the signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    if number != signal.SIGIO:
        fcntl.fcntl(fd, fcntl.F_SETSIG, number)
    if way == "O_ASYNC":
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    else:
        fcntl.ioctl(fd, FIOASYNC, struct.pack("i", 1))
    poke()
    # The data is there, and then the signal would have been.
    select.select([fd], [], [])
    return "is sent" if signal.sigtimedwait([number], 0.2) else "is not sent"


def of_sockets() -> None:
    for name, (family, host) in FAMILIES.items():
        for way in ("O_ASYNC", "FIOASYNC"):
            def datagram() -> str:
                s = socket.socket(family, socket.SOCK_DGRAM)
                s.bind((host, 0))
                return told(s.fileno(), lambda: s.sendto(b"x", s.getsockname()), way)

            def stream() -> str:
                server = socket.create_server((host, 0), family=family)
                peer = socket.create_connection(server.getsockname()[:2])
                s = server.accept()[0]
                return told(s.fileno(), lambda: peer.send(b"x"), way)

            said("SIGIO of sockets", f"{way} of a datagram socket over IPv{name}", datagram)
            said("SIGIO of sockets", f"{way} of a stream over IPv{name}", stream)


def of_the_kernel() -> None:
    for way in ("O_ASYNC", "FIOASYNC"):
        def pipe() -> str:
            out, into = os.pipe()
            return told(out, lambda: os.write(into, b"x"), way)

        said("signals of the kernel", f"SIGIO by {way} of a pipe", pipe)

    def chosen() -> str:
        out, into = os.pipe()
        return told(out, lambda: os.write(into, b"x"), "O_ASYNC", signal.SIGUSR1)

    def terminal() -> str:
        master, slave = os.openpty()
        return told(master, lambda: os.write(slave, b"x"), "O_ASYNC")

    def watched() -> str:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
        fd = os.open(folder(), os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_CREATE)
        open(f"{folder()}/new", "w").close()
        return "is sent" if signal.sigtimedwait([signal.SIGIO], 0.2) else "is not sent"

    def leased() -> None:
        path = f"{folder()}/leased"
        open(path, "w").close()
        fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)

    said("signals of the kernel", "another signal, by F_SETSIG", chosen)
    said("signals of the kernel", "SIGIO of a terminal", terminal)
    said("signals of the kernel", "F_NOTIFY", watched)
    said("signals of the kernel", "F_SETLEASE", leased)


def while_blocked() -> None:
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS, signal.SIGUSR1):
        def sent() -> str:
            signal.pthread_sigmask(signal.SIG_BLOCK, [number])
            os.kill(os.getpid(), number)
            return "waits" if number in signal.sigpending() else "is gone"
        said("while it is blocked", number.name, sent)
    for number in (signal.SIGSYS, signal.SIGUSR1):
        def caught() -> str:
            ran = []
            signal.signal(number, lambda *_: ran.append(None))
            os.kill(os.getpid(), number)
            return "runs its handler" if ran else "is lost"
        said("with a handler", number.name, caught)


def stopped() -> None:
    """A process waits for two seconds, and stands still for one of them."""
    for name, wait in (("select", lambda: select.select([], [], [], 2)), ("poll", lambda: select.poll().poll(2000))):
        def took() -> str:
            pid = os.fork()
            if not pid:
                wait()
                os._exit(0)
            started = time.monotonic()
            time.sleep(0.2)
            os.kill(pid, signal.SIGSTOP)
            os.waitpid(pid, os.WUNTRACED)
            stands = time.monotonic()
            time.sleep(1)
            stood = time.monotonic() - stands
            os.kill(pid, signal.SIGCONT)
            os.waitpid(pid, 0)
            return "does not count" if time.monotonic() - started > 2 + stood / 2 else "counts"
        said("stands still", name, took)


def of_terminals() -> None:
    """What a terminal sends that hangs up, and that somebody writes to in the background."""
    def controlling() -> tuple[int, int]:
        os.setsid()
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        return master, slave

    def hangs_up() -> str:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        master, slave = controlling()
        os.close(master)
        return "is sent" if signal.sigtimedwait([signal.SIGHUP], 0.2) else "is not sent"

    def background() -> str:
        master, slave = controlling()
        settings = termios.tcgetattr(slave)
        settings[3] |= termios.TOSTOP
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            os.write(slave, b"x")
            os._exit(0)
        status = os.waitpid(pid, os.WUNTRACED)[1]
        if os.WIFSTOPPED(status):
            os.kill(pid, signal.SIGKILL)
            return "is sent" if os.WSTOPSIG(status) == signal.SIGTTOU else "another is sent"
        return "is not sent"

    said("terminals", "SIGHUP of one that hangs up", hangs_up)
    said("terminals", "SIGTTOU for writing in the background", background)


of_sockets()
of_the_kernel()
of_terminals()
while_blocked()
stopped()
