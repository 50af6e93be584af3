"""Semaphores and message queues of System V, and message queues of POSIX: what each call comes to, who waits and goes on first, and what ends a wait."""

import atexit
import ctypes
import errno
import os
import select
import signal
import struct
import time

from answers import said

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SEMGET, SEMOP, SEMCTL, SEMTIMEDOP, MSGGET, MSGSND, MSGRCV, MSGCTL = 64, 65, 66, 220, 68, 69, 70, 71
MQ_OPEN, MQ_UNLINK, MQ_SEND, MQ_RECEIVE, MQ_NOTIFY, MQ_ATTR = 240, 241, 242, 243, 244, 245
RMID, SET, STAT, GETPID, GETVAL, GETALL, GETNCNT, GETZCNT, SETVAL, SETALL = 0, 1, 2, 11, 12, 13, 14, 15, 16, 17
NOWAIT, UNDO, CREATE, EXCLUSIVE = 0o4000, 0x1000, 0o1000, 0o2000
NOERROR, EXCEPT, COPY = 0o10000, 0o20000, 0o40000
MAKER = os.getpid()
made: list[tuple[int, int]] = []


@atexit.register
def remove() -> None:
    for number, which in made if os.getpid() == MAKER else []:
        libc.syscall(ctypes.c_long(number), ctypes.c_long(which), ctypes.c_long(0), ctypes.c_long(RMID if number == SEMCTL else 0), ctypes.c_long(0))


def call(number, *words):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def semaphores(*values) -> int:
    which = call(SEMGET, 0, len(values), 0o600)
    made.append((SEMCTL, which))
    for number, value in enumerate(values):
        call(SEMCTL, which, number, SETVAL, value)
    return which


def operate(which, *operations, limit=None):
    """Each operation is (number, change) or (number, change, flags)."""
    room = ctypes.create_string_buffer(b"".join(struct.pack("HhH", one[0], one[1], one[2] if len(one) > 2 else 0) for one in operations))
    if limit is None:
        return call(SEMOP, which, room, len(operations))
    return call(SEMTIMEDOP, which, room, len(operations), ctypes.create_string_buffer(struct.pack("qq", *limit)))


def values(which, count) -> list[int]:
    return [call(SEMCTL, which, number, GETVAL, 0) for number in range(count)]


def child(body) -> int:
    """A process that does this, and ends with status 0, or with the errno of a call that fails."""
    pid = os.fork()
    if not pid:
        status = 0
        try:
            body()
        except OSError as error:
            status = error.errno
        os._exit(status)
    return pid


def ended(pid) -> str:
    status = os.waitpid(pid, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else errno.errorcode.get(os.WEXITSTATUS(status), "done")


def until(is_so) -> None:
    """Waits for what a child will do."""
    while not is_so():
        time.sleep(0.001)


def sleeps(pid) -> None:
    """Waits until it waits in a call."""
    until(lambda: open(f"/proc/{pid}/stat").read().rpartition(") ")[2][0] == "S")
    # It may have been asleep in another call.
    time.sleep(0.05)


def of_semaphores() -> None:
    s = semaphores(0, 5, 3)
    print("sem calls", said(lambda: call(SEMGET, 0, 0, 0o600)), said(lambda: call(SEMGET, 0, -1, 0o600)), said(lambda: call(SEMGET, 0, 100000, 0o600)))
    key = 0x77650000 + os.getpid()
    one = call(SEMGET, key, 2, 0o600 | CREATE | EXCLUSIVE)
    made.append((SEMCTL, one))
    print("sem keys", said(lambda: call(SEMGET, key, 2, 0o600 | CREATE | EXCLUSIVE)), call(SEMGET, key, 2, 0) == one, said(lambda: call(SEMGET, key, 3, 0)),
          said(lambda: call(SEMGET, key + 1, 1, 0)))
    call(SEMCTL, one, 0, RMID, 0)
    print("sem gone", said(lambda: call(SEMGET, key, 2, 0)), said(lambda: values(one, 1)), said(lambda: operate(one, (0, 1))), said(lambda: operate(-1, (0, 1))))
    tries = {
        "up": [(0, 1)], "down": [(1, -2)], "too far down": [(0, -9, NOWAIT)], "zero": [(1, 0, NOWAIT)], "is zero": [(0, -1), (0, 0)], "no such": [(3, 1)],
        "too high": [(0, 32767), (0, 32767)], "two": [(1, -1), (2, -1)], "second cannot": [(1, -1), (0, -9, NOWAIT)], "first cannot": [(0, -9, NOWAIT), (1, -1)],
        "only one may wait": [(1, -9, NOWAIT), (0, -1)], "its own up": [(0, 4), (0, -4, NOWAIT)], "undo up": [(2, 2, UNDO)], "undo down": [(2, -2, UNDO)],
    }
    for what, operations in tries.items():
        print("sem", what, said(lambda: operate(s, *operations)), values(s, 3))
    room = ctypes.create_string_buffer(6 * 600)
    print("sem counts", [said(lambda: call(SEMOP, s, room, count)) for count in (0, 501, 600)], said(lambda: call(SEMOP, s, 8, 1)), said(lambda: call(SEMOP, s, 8, 501)))
    print("sem times", [said(lambda: operate(s, (1, -99), limit=limit)) for limit in ((0, 0), (0, 1000), (0, -1), (0, 10**9), (-1, 0), (0, 50_000_000))],
          said(lambda: operate(s, (1, -99, NOWAIT), limit=(9, 0))), said(lambda: call(SEMTIMEDOP, s, room, 1, 8)), said(lambda: operate(s, (1, -1), limit=(9, 0))))
    began = time.monotonic()
    said(lambda: operate(s, (1, -99), limit=(0, 300_000_000)))
    print("sem waits as long as it says", time.monotonic() - began >= 0.3)
    every = (ctypes.c_ushort * 3)(7, 8, 9)
    print("sem all", call(SEMCTL, s, 0, SETALL, ctypes.addressof(every)), values(s, 3), said(lambda: call(SEMCTL, s, 0, SETVAL, 32768)), said(lambda: call(SEMCTL, s, 0, 99, 0)),
          said(lambda: call(SEMCTL, s, 3, GETVAL, 0)))
    about = ctypes.create_string_buffer(104)
    call(SEMCTL, s, 0, STAT, ctypes.addressof(about))
    # struct semid64_ds: mode at 20, sem_otime at 48, sem_ctime at 64, sem_nsems at 80.
    print("sem stat", oct(struct.unpack_from("I", about, 20)[0]), *(one != 0 for one in struct.unpack_from("q8xq", about, 48)), struct.unpack_from("Q", about, 80)[0],
          call(SEMCTL, s, 1, GETPID, 0) == os.getpid())
    listed = [line.split() for line in open("/proc/sysvipc/sem").read().splitlines()[1:]]
    print("sem list", [one[2:4] for one in listed if int(one[1]) == s])


def of_semaphores_that_wait() -> None:
    for what, operation, go in (("down", (0, -1), (0, 1)), ("zero", (0, 0), (0, -1))):
        # One after the other they come, and so they go.
        s = semaphores(0 if what == "down" else 3)
        out, into = os.pipe()
        count = GETNCNT if what == "down" else GETZCNT
        pids = []
        for index in range(4):
            def waits() -> None:
                operate(s, operation)
                os.write(into, b"%d" % index)
            pids.append(child(waits))
            until(lambda: call(SEMCTL, s, 0, count, 0) == index + 1)
        order = b""
        for _ in range(4 if what == "down" else 3):
            operate(s, go)
            order += os.read(out, 1) if what == "down" else b""
        while len(order) < 4:
            order += os.read(out, 4)
        print("sem wait", what, order if what == "down" else sorted(order), [ended(pid) for pid in pids], values(s, 1), call(SEMCTL, s, 0, count, 0))
    # Who waits has it before the call returns that gives it.
    s = semaphores(0)
    pid = child(lambda: operate(s, (0, -1)))
    until(lambda: call(SEMCTL, s, 0, GETNCNT, 0) == 1)
    operate(s, (0, 1))
    print("sem handed over", said(lambda: operate(s, (0, -1, NOWAIT))), ended(pid))
    # Two operations at once: neither is done before both can be.
    s = semaphores(0, 0)
    pid = child(lambda: operate(s, (0, -1), (1, -1)))
    until(lambda: call(SEMCTL, s, 0, GETNCNT, 0) == 1)
    operate(s, (0, 1))
    until(lambda: call(SEMCTL, s, 1, GETNCNT, 0) == 1)
    print("sem two", values(s, 2), call(SEMCTL, s, 0, GETNCNT, 0), call(SEMCTL, s, 1, GETNCNT, 0))
    operate(s, (1, 1))
    print("sem two", ended(pid), values(s, 2), call(SEMCTL, s, 0, GETPID, 0) == pid)
    two = (ctypes.c_ushort * 1)(2)
    for what, ends in (("SETVAL", lambda s: call(SEMCTL, s, 0, SETVAL, 3)), ("SETALL", lambda s: call(SEMCTL, s, 0, SETALL, ctypes.addressof(two))),
                       ("IPC_RMID", lambda s: call(SEMCTL, s, 0, RMID, 0))):
        s = semaphores(0)
        pid = child(lambda: operate(s, (0, -1)))
        until(lambda: call(SEMCTL, s, 0, GETNCNT, 0) == 1)
        ends(s)
        print("sem wait ended by", what, ended(pid), said(lambda: values(s, 1)))
    for restarts in (False, True):
        def interrupted() -> None:
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.siginterrupt(signal.SIGUSR1, not restarts)
            operate(s, (0, -1))
        s = semaphores(0)
        pid = child(interrupted)
        until(lambda: call(SEMCTL, s, 0, GETNCNT, 0) == 1)
        os.kill(pid, signal.SIGUSR1)
        print("sem wait interrupted", restarts, ended(pid), call(SEMCTL, s, 0, GETNCNT, 0))
    for what, ends in (("exit", lambda: None), ("SIGKILL", lambda: os.kill(os.getpid(), signal.SIGKILL))):
        s = semaphores(1)
        wait, go = os.pipe()
        taken, told = os.pipe()

        def holds() -> None:
            operate(s, (0, -1, UNDO))
            os.write(told, b"x")
            os.read(wait, 1)
            ends()

        holder = child(holds)
        os.read(taken, 1)
        pid = child(lambda: operate(s, (0, -1)))
        until(lambda: call(SEMCTL, s, 0, GETNCNT, 0) == 1)
        os.write(go, b"x")
        print("sem undone by", what, ended(holder), ended(pid), values(s, 1))


def queue() -> int:
    which = call(MSGGET, 0, 0o600)
    made.append((MSGCTL, which))
    return which


def send(which, kind, text, flags=0):
    return call(MSGSND, which, ctypes.create_string_buffer(struct.pack("q", kind) + text, 8 + len(text)), len(text), flags)


def receive(which, kind=0, flags=0, size=8192):
    room = ctypes.create_string_buffer(8 + size)
    got = call(MSGRCV, which, room, size, kind, flags)
    return struct.unpack_from("q", room)[0], room.raw[8 : 8 + got][:8], got


def of_messages() -> None:
    q = queue()
    print("msg calls", said(lambda: send(q, 0, b"x")), said(lambda: send(q, -1, b"x")), said(lambda: send(q, 1, b"x" * 8193)), said(lambda: receive(q, 0, NOWAIT)),
          said(lambda: receive(-1)), said(lambda: call(MSGSND, q, 8, 1, 0)), said(lambda: call(MSGRCV, q, 0, -1, 0, NOWAIT)))
    for kind, text in ((3, b"three"), (1, b"one"), (2, b"two"), (3, b"again"), (5, b"")):
        send(q, kind, text)
    for kind, flags in ((3, 0), (-2, 0), (1, EXCEPT), (7, NOWAIT), (0, COPY), (0, COPY | NOWAIT), (0, 0), (0, NOWAIT), (0, NOWAIT)):
        print("msg", kind, oct(flags), said(lambda: receive(q, kind, flags)))
    send(q, 1, b"long text")
    print("msg short", said(lambda: receive(q, 0, 0, 4)), said(lambda: receive(q, 0, NOERROR, 4)), said(lambda: receive(q, 0, NOWAIT)))
    count = 0
    while said(lambda: send(q, 1, b"x" * 1000, NOWAIT)) == 0:
        count += 1
    about = ctypes.create_string_buffer(120)
    call(MSGCTL, q, STAT, about)
    # struct msqid64_ds: three times at 48, bytes, messages and most bytes at 72, numbers of processes at 96.
    stime, rtime, ctime, *rest = struct.unpack_from("qqqQQQii", about, 48)
    print("msg full", count, [one != 0 for one in (stime, rtime, ctime)], rest[:3], [one == os.getpid() for one in rest[3:]])
    listed = [line.split() for line in open("/proc/sysvipc/msg").read().splitlines()[1:]]
    print("msg list", [one[2:5] for one in listed if int(one[1]) == q])
    pid = child(lambda: send(q, 9, b"y" * 1000))
    sleeps(pid)
    print("msg sender waits", receive(q)[0], ended(pid), call(MSGRCV, q, ctypes.create_string_buffer(9000), 8192, 9, NOWAIT))
    send(q, 1, b"z" * 1000)
    pid = child(lambda: send(q, 9, b"y" * 1000))
    sleeps(pid)
    struct.pack_into("Q", about, 88, 8000)
    shrunk = said(lambda: call(MSGCTL, q, SET, about))
    print("msg IPC_SET", shrunk)
    call(MSGCTL, q, RMID, 0)
    print("msg sender's queue is gone", ended(pid))
    # Of those that wait each gets what it waits for, before the call returns that sends it.
    q = queue()
    out, into = os.pipe()

    def waits(kind, name) -> None:
        os.write(into, name + receive(q, kind)[1])

    pids = []
    for kind, name in ((2, b"A"), (0, b"B"), (2, b"C")):
        pids.append(child(lambda: waits(kind, name)))
        sleeps(pids[-1])
    order = []
    for text in (b"1", b"2", b"3"):
        send(q, 2, text)
        order.append(os.read(out, 2))
    print("msg receivers wait", order, [ended(pid) for pid in pids])
    pid = child(lambda: receive(q))
    sleeps(pid)
    send(q, 1, b"x")
    print("msg handed over", said(lambda: receive(q, 0, NOWAIT)), ended(pid))
    for restarts in (False, True):
        def interrupted() -> None:
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.siginterrupt(signal.SIGUSR1, not restarts)
            receive(q)
        pid = child(interrupted)
        sleeps(pid)
        os.kill(pid, signal.SIGUSR1)
        print("msg wait interrupted", restarts, ended(pid))
    pid = child(lambda: receive(q))
    sleeps(pid)
    call(MSGCTL, q, RMID, 0)
    print("msg receiver's queue is gone", ended(pid), said(lambda: receive(q)))


def put(fd, text, priority=0, date=None):
    return call(MQ_SEND, fd, ctypes.create_string_buffer(text, len(text)), len(text), priority, date if date is None or isinstance(date, int) else until_date(date))


def take(fd, date=None, size=64):
    room, priority = ctypes.create_string_buffer(size), ctypes.c_uint()
    got = call(MQ_RECEIVE, fd, room, size, ctypes.byref(priority), date if date is None or isinstance(date, int) else until_date(date))
    return room.raw[:got], priority.value


def until_date(date):
    return ctypes.create_string_buffer(struct.pack("qq", *date))


def soon(seconds):
    at = time.time_ns() + int(seconds * 10**9)
    return at // 10**9, at % 10**9


def of_posix() -> None:
    name = f"weft-{os.getpid()}".encode()
    sizes = ctypes.create_string_buffer(struct.pack("8q", 0, 4, 64, 0, 0, 0, 0, 0))
    bad = ctypes.create_string_buffer(struct.pack("8q", 0, 0, 64, 0, 0, 0, 0, 0))
    print("mq calls", said(lambda: call(MQ_OPEN, name, os.O_RDWR, 0, None)), said(lambda: call(MQ_OPEN, name, os.O_RDWR | os.O_CREAT, 0o600, bad)),
          said(lambda: call(MQ_OPEN, b"", os.O_RDWR | os.O_CREAT, 0o600, sizes)), said(lambda: call(MQ_UNLINK, name)))
    fd = call(MQ_OPEN, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, sizes)
    reader = call(MQ_OPEN, name, os.O_RDONLY | os.O_NONBLOCK, 0, None)
    writer = call(MQ_OPEN, name, os.O_WRONLY | os.O_NONBLOCK, 0, None)
    print("mq again", said(lambda: call(MQ_OPEN, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, sizes)), said(lambda: put(reader, b"x")), said(lambda: take(writer)),
          said(lambda: put(fd, b"x" * 65)), said(lambda: take(fd, size=63)), said(lambda: put(fd, b"x", 40000)), said(lambda: put(0, b"x")), said(lambda: take(999)))

    def shows(*fds) -> list:
        poll = select.poll()
        for one in fds:
            poll.register(one, select.POLLIN | select.POLLOUT)
        return [events for _, events in sorted(poll.poll(0))]

    print("mq empty", shows(fd, reader), said(lambda: take(reader)))
    for text, priority in ((b"low", 1), (b"high", 9), (b"low too", 1), (b"none", 0)):
        put(fd, text, priority)
    print("mq full", shows(fd, writer), said(lambda: put(writer, b"x")), [said(lambda: put(fd, b"x", 0, date)) for date in ((0, 0), (-1, 0), (0, -1), (0, 10**9), soon(0.05))],
          said(lambda: put(fd, b"x", 0, 8)))
    about = ctypes.create_string_buffer(64)
    call(MQ_ATTR, fd, 0, about)
    print("mq attributes", struct.unpack_from("4q", about), os.read(fd, 200).split()[0])
    print("mq order", [take(fd) for _ in range(4)], [said(lambda: take(fd, date)) for date in ((0, 0), (-1, 0), (0, 10**9), soon(0.05))], said(lambda: take(fd, 8)))
    began = time.time()
    print("mq waits as long as it says", said(lambda: take(fd, soon(0.3))), time.time() - began >= 0.3)
    out, into = os.pipe()
    pids = []
    for name_of in (b"A", b"B"):
        pids.append(child(lambda: os.write(into, name_of + take(fd)[0])))
        sleeps(pids[-1])
    order = []
    for text in (b"1", b"2"):
        put(fd, text)
        order.append(os.read(out, 2))
    print("mq receivers wait", order, [ended(pid) for pid in pids])
    pid = child(lambda: take(fd))
    sleeps(pid)
    put(fd, b"x")
    print("mq handed over", said(lambda: take(reader)), ended(pid))
    for _ in range(4):
        put(fd, b"x")
    pid = child(lambda: put(fd, b"y", 7, soon(30)))
    sleeps(pid)
    print("mq sender waits", take(fd), ended(pid), take(fd))
    while shows(reader)[0] & select.POLLIN:
        take(fd)
    epoll = select.epoll()
    epoll.register(reader, select.EPOLLIN)
    pid = child(lambda: (time.sleep(0.1), put(fd, b"z")))
    print("mq epoll", [events for _, events in epoll.poll(20)], ended(pid), take(reader), epoll.poll(0))
    for restarts in (False, True):
        def interrupted() -> None:
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.siginterrupt(signal.SIGUSR1, not restarts)
            take(fd)
        pid = child(interrupted)
        sleeps(pid)
        os.kill(pid, signal.SIGUSR1)
        if restarts:
            sleeps(pid)
            put(fd, b"x")
        print("mq wait interrupted", restarts, ended(pid))
    none = ctypes.create_string_buffer(struct.pack("qii", 0, 0, 1).ljust(64, b"\0"))
    of_signal = ctypes.create_string_buffer(struct.pack("qii", 0, signal.SIGUSR1, 0).ljust(64, b"\0"))
    print("mq notify nothing", said(lambda: call(MQ_NOTIFY, fd, none)), said(lambda: call(MQ_NOTIFY, fd, none)), said(lambda: call(MQ_NOTIFY, fd, None)))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    told = said(lambda: call(MQ_NOTIFY, fd, of_signal))
    put(fd, b"x")
    print("mq notify by a signal", told, take(fd), "is sent" if signal.SIGUSR1 in signal.sigpending() else "is not sent")
    print("mq gone", call(MQ_UNLINK, name), said(lambda: call(MQ_OPEN, name, os.O_RDWR, 0, None)), said(lambda: put(fd, b"last")), said(lambda: take(reader)), os.close(fd), said(lambda: take(fd)))


of_semaphores()
of_semaphores_that_wait()
of_messages()
of_posix()
