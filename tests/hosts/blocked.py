"""Signals that somebody sends, those of faults and SIGSYS among them: blocked, unblocked later, waited for, taken over, with and without a handler.

Each case has a process of its own, which says how it went, or by what it ended.
"""

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

from answers import said

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
FAULTS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP]
NUMBERS = [*FAULTS, signal.SIGSYS, signal.SIGUSR1]
SIGQUEUEINFO, TGSIGQUEUEINFO, TGKILL = 129, 297, 234
SIGPENDING, SIGTIMEDWAIT, SIGSUSPEND, SIGNALFD4 = 127, 128, 130, 289
PPOLL, PSELECT6, EPOLL_PWAIT, EPOLL_PWAIT2 = 271, 270, 281, 441


def call(number, *words):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def ended(body) -> str:
    """What a process says that runs this, and what ended it."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            words = str(said(body))
        except BaseException as error:
            words = repr(error)
        os.write(into, words.encode())
        os._exit(0)
    os.close(into)
    text = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    os.close(out)
    status = os.waitpid(pid, 0)[1]
    return f"{text} {signal.Signals(os.WTERMSIG(status)).name}".strip() if os.WIFSIGNALED(status) else text


def by_child(number) -> None:
    """A child sends it and ends: by then it is there."""
    me = os.getpid()
    pid = os.fork()
    if not pid:
        os.kill(me, number)
        os._exit(0)
    os.waitpid(pid, 0)


def queued(number, call_number, *to) -> None:
    """With a value, as sigqueue(3) and pthread_sigqueue(3): SI_QUEUE, whose it is, the value."""
    info = ctypes.create_string_buffer(struct.pack("<iiiiIIq", number, 0, -1, 0, os.getpid(), os.getuid(), 4711).ljust(128, b"\0"))
    call(call_number, *to, number, ctypes.addressof(info))


SENDERS = {
    "kill": lambda number: os.kill(os.getpid(), number),
    "tgkill": lambda number: call(TGKILL, os.getpid(), threading.get_native_id(), number),
    "raise": signal.raise_signal,
    "sigqueue": lambda number: queued(number, SIGQUEUEINFO, os.getpid()),
    "pthread_sigqueue": lambda number: queued(number, TGSIGQUEUEINFO, os.getpid(), threading.get_native_id()),
    "a child": by_child,
}
ran: list[int] = []


def handles(number, *_) -> None:
    ran.append(number)


DISPOSITIONS = {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN, "handler": handles}


def blocks(number) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])


def unblocks(number) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])


def pends(number) -> str:
    return "waits" if number in signal.sigpending() else "is gone"


def sent(number, send, disposition) -> str:
    signal.signal(number, disposition)
    send(number)
    return f"handled {len(ran)}"


def sent_while_blocked(number, send, disposition) -> str:
    """Twice, which is as once; then it is unblocked."""
    signal.signal(number, disposition)
    blocks(number)
    send(number)
    send(number)
    told = f"{pends(number)}, handled {len(ran)}"
    shown = number in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.write(1, f"        {told}, blocked {shown}\n".encode())
    unblocks(number)
    return f"then {pends(number)}, handled {len(ran)}"


def dispositions() -> None:
    for number in NUMBERS:
        for which, disposition in DISPOSITIONS.items():
            for how, send in SENDERS.items():
                print(number.name, which, "by", how, "|", ended(lambda: sent(number, send, disposition)), flush=True)
                print(number.name, which, "by", how, "blocked |", ended(lambda: sent_while_blocked(number, send, disposition)), flush=True)


def waited(number, send) -> str:
    blocks(number)
    send(number)
    found = signal.sigtimedwait([number], 0)
    # Kernels do not agree about SI_TKILL here.
    return f"{found.si_signo} code {found.si_code if found.si_code != -6 else 0} of {'itself' if found.si_pid == os.getpid() else 'another'}, then {pends(number)}"


def waited_in_vain(number) -> str:
    blocks(number)
    return str(signal.sigtimedwait([number], 0))


def waited_long(number) -> str:
    """It comes while somebody waits for it."""
    blocks(number)
    threading.Timer(0.1, lambda: os.kill(os.getpid(), number)).start()
    return str(signal.sigtimedwait([number], 20).si_signo)


def suspended(number) -> str:
    """sigsuspend(2), with everything open, of one that is there already."""
    signal.signal(number, handles)
    blocks(number)
    os.kill(os.getpid(), number)
    mask = ctypes.c_ulong(0)
    try:
        call(130, ctypes.addressof(mask), 8)
    except OSError as error:
        return f"{errno.errorcode[error.errno]}, handled {len(ran)}, blocked {number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}"


def polled(number, later: bool, with_socket: bool) -> str:
    """ppoll(2) with everything open: of one that is there, or that comes."""
    signal.signal(number, handles)
    blocks(number)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    pid = 0
    if later:
        me = os.getpid()
        pid = os.fork()
        if not pid:
            time.sleep(0.2)
            os.kill(me, number)
            os._exit(0)
    else:
        os.kill(os.getpid(), number)
    one = ctypes.create_string_buffer(struct.pack("ihh", s.fileno() if with_socket else -1, select.POLLIN, 0))
    mask, limit = ctypes.c_ulong(0), ctypes.create_string_buffer(struct.pack("qq", 20, 0))
    try:
        found = call(271, ctypes.addressof(one), 1, ctypes.addressof(limit), ctypes.addressof(mask), 8)
    except OSError as error:
        found = errno.errorcode[error.errno]
    if pid:
        os.waitpid(pid, 0)
    return f"{found}, handled {len(ran)}, blocked {number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}"


def inherited(number) -> str:
    """A child has the mask, and not what waits."""
    blocks(number)
    os.kill(os.getpid(), number)
    return ended(lambda: f"child: {pends(number)}, blocked {number in signal.pthread_sigmask(signal.SIG_BLOCK, [])}") + f", parent: {pends(number)}"


def executed(number) -> None:
    """Another image has both."""
    blocks(number)
    os.kill(os.getpid(), number)
    shows = f"import signal; print({int(number)} in signal.sigpending(), {int(number)} in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    os.execv(sys.executable, [sys.executable, "-ISc", shows])


def started_blocked(number) -> str:
    """It is sent to another image that has it blocked from the beginning, and unblocks it."""
    blocks(number)
    out, into = os.pipe()
    body = ("import os, signal; n = int(os.sys.argv[1]); os.kill(os.getpid(), n); print(n in signal.sigpending(), flush=True);"
            "signal.pthread_sigmask(signal.SIG_UNBLOCK, [n]); print('still here', flush=True)")
    pid = os.fork()
    if not pid:
        os.dup2(into, 1)
        os.execv(sys.executable, [sys.executable, "-ISc", body, str(int(number))])
    os.close(into)
    text = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    status = os.waitpid(pid, 0)[1]
    return f"{text.strip()} {signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status}"


def other_thread(number, opens: bool) -> str:
    """It is sent to the process while the first thread has it blocked, and another has it open or unblocks it later."""
    signal.signal(number, handles)
    ready, go = threading.Event(), threading.Event()
    found: list[str] = []

    def other() -> None:
        if not opens:
            blocks(number)
        ready.set()
        go.wait()
        if not opens:
            found.append(pends(number))
            unblocks(number)
        # What this thread has got, the first one's Python runs.
        time.sleep(0.05)
        found.append(pends(number))

    one = threading.Thread(target=other)
    one.start()
    ready.wait()
    blocks(number)
    os.kill(os.getpid(), number)
    go.set()
    one.join()
    time.sleep(0)
    return f"{found}, handled {len(ran)}"


def bad_addresses(number) -> str:
    """What lies nowhere is EFAULT, whatever is blocked."""
    blocks(number)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    t.bind(("127.0.0.1", 0))
    s.connect(t.getsockname())
    room = ctypes.create_string_buffer(64)
    length = ctypes.c_int(64)
    at = ctypes.addressof(room)
    told = [said(lambda: call(*one)) for one in (
        (51, s.fileno(), 8, ctypes.addressof(length)), (51, s.fileno(), at, 8), (51, s.fileno(), at, ctypes.addressof(length)), (1, s.fileno(), 8, 5),
        (44, s.fileno(), 8, 5, 0, 0, 0), (44, s.fileno(), at, 5, 0, 8, 16), (54, s.fileno(), 1, 2, 8, 4), (46, s.fileno(), 8, 0), (7, 8, 1, 0),
        (14, 0, 8, 0, 8), (13, 10, 8, 0, 8), (44, s.fileno(), at, 60, 0, 0, 0), (45, t.fileno(), 8, 60, 0, 0, 0))]
    return str(told)


def faulted(number) -> None:
    """A fault of its own ends the process, blocked or not; SIGUSR1 has none."""
    blocks(number)
    signal.signal(number, handles)
    ctypes.string_at(8)


def much_data(number) -> str:
    """Data of many pages goes both ways, with the signal blocked."""
    blocks(number)
    server = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(server.getsockname())
    other = server.accept()[0]
    data = bytes(range(256)) * 700
    thread = threading.Thread(target=one.sendall, args=(data,))
    thread.start()
    got = b""
    while len(got) < len(data):
        got += other.recv(50_000)
    thread.join()
    return str(got == data)


def interrupted(number, restarts: bool, over: str) -> str:
    """A wait at a descriptor while it comes: ended, or gone on with."""
    signal.signal(number, handles)
    signal.siginterrupt(number, not restarts)
    if over == "a socket":
        s, t = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("127.0.0.1", 0))
        t.connect(s.getsockname())
        out, write = s.fileno(), lambda: t.send(b"x")
    else:
        out, into = os.pipe()
        write = lambda: os.write(into, b"x")
    me = os.getpid()
    pid = os.fork()
    if not pid:
        time.sleep(0.2)
        os.kill(me, number)
        time.sleep(0.2)
        write()
        os._exit(0)
    room = ctypes.create_string_buffer(8)
    found = said(lambda: call(0, out, ctypes.addressof(room), 8))
    os.waitpid(pid, 0)
    return f"{found}, handled {len(ran)}"


def by_signalfd(number) -> str:
    """What waits is read from a descriptor."""
    blocks(number)
    mask = ctypes.c_ulong(1 << (number - 1))
    # signalfd4: SFD_NONBLOCK
    fd = call(289, -1, ctypes.addressof(mask), 8, 0o4000)
    os.kill(os.getpid(), number)
    return str(struct.unpack_from("I", os.read(fd, 128))[0])


def while_polling(number, disposition) -> str:
    """It is of no interest, blocked or ignored, and ends no wait: not even poll(2), which is not restarted."""
    if disposition is None:
        blocks(number)
    else:
        signal.signal(number, disposition)
    me = os.getpid()
    pid = os.fork()
    if not pid:
        time.sleep(0.1)
        os.kill(me, number)
        os._exit(0)
    found = said(lambda: call(7, 0, 0, 300))
    os.waitpid(pid, 0)
    return str(found)


def taken_by_another(number) -> str:
    """Both threads have it blocked, and the second waits for it."""
    blocks(number)
    found: list[object] = []
    one = threading.Thread(target=lambda: found.append(signal.sigtimedwait([number], 1)))
    one.start()
    time.sleep(0.2)
    os.kill(os.getpid(), number)
    one.join()
    return f"{'taken' if found[0] else 'not taken'}, {pends(number)}"


def asked_wrongly(number) -> str:
    """rt_sigtimedwait(2) and rt_sigpending(2) that are asked wrongly take nothing, and tell as much as they are asked for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    by_child(number)
    at = ctypes.addressof
    mask, short = (ctypes.create_string_buffer(struct.pack("Q", 1 << number - 1)) for _ in range(2))
    none, before = (ctypes.create_string_buffer(struct.pack("qq", 0, nanoseconds)) for nanoseconds in (0, -1))
    out = []
    for words in ((8, 0, at(none), 8), (at(mask), 0, at(before), 8), (at(mask), 0, 8, 8), (at(mask), 0, at(none), 4), (at(mask), 0, at(none), 16)):
        out.append((said(lambda: call(SIGTIMEDWAIT, *words)), number in signal.sigpending()))
    for size in (0, 3, 4, 8, 9):
        ctypes.memset(short, 0xAA, 8)
        out.append((size, said(lambda: call(SIGPENDING, at(short), size)), short.raw[:8].hex()))
    return f"{out} {said(lambda: call(SIGTIMEDWAIT, at(mask), 0, at(none), 8))}"


def masks_of(size, family) -> str:
    """What calls say that have a mask of their own, of so many bytes, with descriptors of the kernel's or a socket."""
    at = ctypes.addressof
    mask = ctypes.create_string_buffer(8)
    fd = os.pipe()[0] if family is None else socket.socket(family, socket.SOCK_DGRAM).detach()
    epoll = select.epoll()
    epoll.register(fd, select.EPOLLIN)
    events, entry = ctypes.create_string_buffer(120), ctypes.create_string_buffer(struct.pack("ihh", fd, select.POLLIN, 0))
    sets = ctypes.create_string_buffer(128)
    out = []
    for where in (at(mask), 0, 8):
        now = ctypes.create_string_buffer(struct.pack("qq", 0, 0))
        packed = ctypes.create_string_buffer(struct.pack("QQ", where, size))
        struct.pack_into("Q", sets, fd // 64 * 8, 1 << fd % 64)
        out += [
            said(lambda: call(PPOLL, at(entry), 1, at(now), where, size)),
            said(lambda: call(EPOLL_PWAIT, epoll.fileno(), at(events), 10, 0, where, size)),
            said(lambda: call(EPOLL_PWAIT2, epoll.fileno(), at(events), 10, at(now), where, size)),
            said(lambda: call(PSELECT6, fd + 1, at(sets), 0, 0, at(now), at(packed))),
        ]
        # With a mask that is right it would wait for ever.
        if size != 8 or where == 8:
            out.append(said(lambda: call(SIGSUSPEND, where, size)))
        made = said(lambda: call(SIGNALFD4, -1, where, size, 0))
        out.append("made" if isinstance(made, int) else made)
    out.append(said(lambda: call(SIGNALFD4, -1, 8, 8, 1)))
    out.append(said(lambda: call(SIGSUSPEND, 0, 8)))
    return f"{out}"


dispositions()
for size in (0, 4, 7, 8, 9, 16, 1 << 32 | 8):
    for family in (None, socket.AF_INET, socket.AF_INET6):
        print("masks of", size, family and family.name, "|", ended(lambda: masks_of(size, family)), flush=True)
for number in NUMBERS:
    print(number.name, "asked wrongly |", ended(lambda: asked_wrongly(number)), flush=True)
for number in NUMBERS:
    for how, send in SENDERS.items():
        print(number.name, "taken", how, "|", ended(lambda: waited(number, send)), flush=True)
    print(number.name, "taken in vain |", ended(lambda: waited_in_vain(number)), flush=True)
    print(number.name, "suspend |", ended(lambda: suspended(number)), flush=True)
    print(number.name, "fork |", ended(lambda: inherited(number)), flush=True)
    print(number.name, "signalfd |", ended(lambda: by_signalfd(number)), flush=True)
    print(number.name, "bad addresses |", ended(lambda: bad_addresses(number)), flush=True)
    print(number.name, "a fault while it is blocked |", ended(lambda: faulted(number)), flush=True)
    for with_socket in (False, True):
        print(number.name, "ppoll", with_socket, "|", ended(lambda: polled(number, False, with_socket)), flush=True)
# These wait for somebody who waits.
for number in (signal.SIGSEGV, signal.SIGSYS, signal.SIGUSR1):
    print(number.name, "waited for |", ended(lambda: waited_long(number)), flush=True)
    for with_socket in (False, True):
        print(number.name, "ppoll and then", with_socket, "|", ended(lambda: polled(number, True, with_socket)), flush=True)
    print(number.name, "exec |", flush=True)
    ended(lambda: executed(number))
    print(number.name, "exec, blocked |", ended(lambda: started_blocked(number)), flush=True)
    for opens in (False, True):
        print(number.name, "another thread", opens, "|", ended(lambda: other_thread(number, opens)), flush=True)
    print(number.name, "much data |", ended(lambda: much_data(number)), flush=True)
    for restarts in (False, True):
        for over in ("a socket", "a pipe"):
            print(number.name, "wait at", over, restarts, "|", ended(lambda: interrupted(number, restarts, over)), flush=True)
    for which, disposition in (("blocked", None), ("ignored", signal.SIG_IGN)):
        print(number.name, "poll while it is", which, "|", ended(lambda: while_polling(number, disposition)), flush=True)
    print(number.name, "taken by another thread |", ended(lambda: taken_by_another(number)), flush=True)
