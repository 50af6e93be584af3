"""How the scripts of options.py say what calls came to, in few words; and bodies side by side."""

import ctypes
import errno
import os
import sys


def said(call):
    """What it gives, or the name of its errno."""
    try:
        return call()
    except TimeoutError as error:
        return "ETIMEDOUT" if error.errno else "TIMEOUT"
    except OSError as error:
        return errno.errorcode.get(error.errno, error.errno)


def coded(result):
    """What a function of C gave, or the name of its errno."""
    return errno.errorcode[ctypes.get_errno()] if result < 0 else result


def full(s, piece=10_000):
    """Sends pieces of so many bytes until nothing more is taken, and says how many bytes that were. The socket does not wait from then on."""
    s.setblocking(False)
    count = 0
    try:
        while True:
            count += s.send(b"x" * piece)
    except BlockingIOError:
        return count


def runs(pairs):
    """The same answer of neighbours once: `0..3: EINVAL, 4..5000: 0`."""
    out = []
    for what, answer in pairs:
        if out and out[-1][2] == answer:
            out[-1][1] = what
        else:
            out.append([what, what, answer])
    return ", ".join(f"{first}: {answer}" if first == last else f"{first}..{last}: {answer}" for first, last, answer in out)


def side_by_side(*bodies):
    """Each in a process of its own, as they mostly wait; what they print comes in their order."""
    started = []
    for body in bodies:
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(into, 1)
            for fd in (out, into, *(before for _, before in started)):
                os.close(fd)
            body()
            sys.stdout.flush()
            os._exit(0)
        os.close(into)
        started.append((pid, out))
    for pid, out in started:
        with open(out) as lines:
            print(lines.read(), end="", flush=True)
        os.waitpid(pid, 0)
