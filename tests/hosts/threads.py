"""How many threads there can be, in one process and in several, which use a socket: each line is what was asked, how, and the answer."""

import os
import resource
import signal
import socket
import threading
import time

from saying import said

threading.stack_size(1 << 16)
USED = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def started(count: int) -> tuple[int, int]:
    """So many threads beside this one, all there at a time: how many could be made, and how many of them could use the socket."""
    may_end, all_there = threading.Event(), threading.Semaphore(0)
    used: list[None] = []
    threads: list[threading.Thread] = []

    def use() -> None:
        try:
            USED.getsockname()
            used.append(None)
        except OSError:
            pass
        all_there.release()
        may_end.wait()

    try:
        for _ in range(count):
            thread = threading.Thread(target=use)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        # "can't start new thread": clone(2) said EAGAIN.
        pass
    for _ in threads:
        all_there.acquire()
    hold(len(threads))
    may_end.set()
    for thread in threads:
        thread.join()
    return len(threads), len(used)


hold = lambda made: None


def alone(count: int) -> str:
    made, used = started(count)
    return f"{made} are made, {used} of them use a socket"


def beside(processes: int, count: int) -> str:
    """The same in several processes at a time: how many threads could use the socket in all."""
    global hold
    reports, report = os.pipe()
    wait, end = os.pipe()

    def keep(made: int) -> None:
        os.write(report, b"x")
        os.read(wait, 1)

    children = []
    sums, sum_ = os.pipe()
    for number in range(processes):
        pid = os.fork()
        if not pid:
            os.close(end)
            hold = keep
            os.write(sum_, started(count)[1].to_bytes(4, "little"))
            os._exit(0)
        children.append(pid)
        # One after the other, so that it is the last that gets less.
        os.read(reports, 1)
    os.close(end)
    for pid in children:
        os.waitpid(pid, 0)
    return f"{sum(int.from_bytes(os.read(sums, 4), 'little') for _ in children)} use a socket"


def ended(processes: int, count: int) -> None:
    """Processes whose threads, which have used the socket, are ending when the process does: what they had is free afterwards."""
    for _ in range(processes):
        pid = os.fork()
        if not pid:
            # Python says of a thread that it is over before the kernel does.
            started(count)
            os._exit(0)
        os.waitpid(pid, 0)


def killed(processes: int, count: int) -> None:
    """Processes that are killed while their threads begin to use the socket, each a little later."""
    for number in range(processes):
        pid = os.fork()
        if not pid:
            while True:
                started(count)
        time.sleep(number * 0.0003)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# Below --strict each thread that uses a socket has a descriptor.
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
if __name__ == "__main__":
    ended(processes=100, count=20)
    killed(processes=100, count=4)
    for count in (2100, 8192):
        said("threads", f"{count} beside the first of a process", lambda: alone(count))
