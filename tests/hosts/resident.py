"""Pages that are to stay in memory: what mlock, mlock2 and mlockall come to, and that this locks what is the program's alone."""

import ctypes
import errno
import mmap
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
MLOCK2, CURRENT, FUTURE, ONFAULT = 325, 1, 2, 4
PAGE, READ, WRITE, NONE = 4096, 1, 2, 0
# A user may lock 8 MiB of this machine; of a node's programs, which are root, each may lock what there is.
IS_ROOT = os.geteuid() == 0
libc.mmap.restype = ctypes.c_void_p


def said(done):
    return errno.errorcode[ctypes.get_errno()] if done else done


def mapped(pages, protection=READ | WRITE):
    return libc.mmap(None, ctypes.c_size_t(pages * PAGE), protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)


def at(address):
    return ctypes.c_void_p(address)


def locked_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmLck"))


some, closed = mapped(4), mapped(1, NONE)
gap = mapped(3)
libc.munmap(at(gap + PAGE), ctypes.c_size_t(PAGE))
for name, lock in (("mlock", lambda start, bytes: libc.mlock(at(start), ctypes.c_size_t(bytes))),
                   ("mlock2", lambda start, bytes: libc.syscall(MLOCK2, at(start), ctypes.c_size_t(bytes), 0)),
                   ("on fault", lambda start, bytes: libc.syscall(MLOCK2, at(start), ctypes.c_size_t(bytes), 1))):
    print(name, *(said(lock(*range)) for range in ((some, PAGE), (some + 5, 2 * PAGE), (some, 0), (0, 0), (closed, PAGE), (gap, 3 * PAGE), (gap + PAGE, 1), (0, PAGE),
                                                   (some, 2**64 - 1), (some, 2**63))))
print("flags", said(libc.syscall(MLOCK2, at(some), ctypes.c_size_t(PAGE), 2)))
print("munlock", said(libc.munlock(at(some), ctypes.c_size_t(4 * PAGE))), said(libc.munlock(at(gap), ctypes.c_size_t(3 * PAGE))))
large = mapped(4096)
print("16 MiB", said(libc.mlock(at(large), ctypes.c_size_t(4096 * PAGE))) if IS_ROOT else 0)
for flags in (0, ONFAULT, 8, CURRENT | 8, CURRENT, FUTURE, CURRENT | FUTURE, CURRENT | ONFAULT, FUTURE | ONFAULT, CURRENT | FUTURE | ONFAULT):
    done = libc.mlockall(flags)
    # More than a user may lock, who has more than that mapped.
    is_users = not IS_ROOT and flags & CURRENT and not flags & 8
    print("mlockall", flags, 0 if is_users else said(done), locked_bytes() < 500 << 20)
    if done == 0:
        mapped(1)
print("munlockall", said(libc.munlockall()), locked_bytes())
print("written", ctypes.memset(some, 7, 4 * PAGE) == some)
sys.stdout.flush()
child = os.fork()
if child == 0:
    print("a child", said(libc.mlock(at(some), ctypes.c_size_t(PAGE))), flush=True)
    os._exit(0)
os.waitpid(child, 0)
