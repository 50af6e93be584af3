"""How the scripts of rows.py say what a call came to: what was asked, how, and the answer."""

import atexit
import ctypes
import errno
import os
import shutil
import signal
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
_FOLDERS: list[str] = []
_MAKER = os.getpid()


def folder() -> str:
    """A folder that everybody reaches, and that is gone afterwards."""
    if not _FOLDERS:
        _FOLDERS.append(tempfile.mkdtemp())
        os.chmod(_FOLDERS[0], 0o755)
        atexit.register(lambda: os.getpid() == _MAKER and shutil.rmtree(_FOLDERS[0]))
    return _FOLDERS[0]


def said(what: str, how: str, ask) -> None:
    """Prints what `ask` comes to, in a process of its own: what it changes ends with that."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            found = ask()
            words = "works" if found is None else str(found)
        except OSError as error:
            # Python knows EOPNOTSUPP by its other name.
            words = errno.errorcode.get(error.errno, str(error)).replace("ENOTSUP", "EOPNOTSUPP")
        os.write(into, words.encode())
        os._exit(0)
    os.close(into)
    words = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    os.close(out)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        words += f" {signal.Signals(os.WTERMSIG(status)).name}"
    print(what, how, words.strip(), sep=" | ", flush=True)


def call(number: int, *arguments) -> int:
    """A system call by its number; an OSError where it fails."""
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) if isinstance(one, int) else one for one in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def works(ask) -> None:
    """Calls it: whatever it gives is good."""
    ask()
