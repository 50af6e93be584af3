"""What becomes of the times of a file when they are set: each call, each time by itself, a value, now, or left as it is."""

import ctypes
import itertools
import os
import tempfile

from answers import coded

libc = ctypes.CDLL(None, use_errno=True)
NOW, OMIT = 0x3FFFFFFF, 0x3FFFFFFE
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = -100, 0x100, 0x1000
# Long ago, each by itself.
FIRST = {"read": (100, 1), "written": (200, 2)}
SECOND = {"read": (300, 3), "written": (400, 4)}
HOW = {"value": None, "now": (0, NOW), "kept": (0, OMIT)}


class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanos", ctypes.c_long)]


def times_of(path):
    found = os.stat(path, follow_symlinks=False)
    return {"read": divmod(found.st_atime_ns, 10**9), "written": divmod(found.st_mtime_ns, 10**9)}


def word(what, time, before):
    """Which one it is. Now is anything else: nobody knows when that was."""
    return "set" if time == SECOND[what] else "kept" if time == before[what] else "now"


def set_times(call, path, pair):
    times = (Time * 2)(*pair)
    if call == "path":
        return libc.utimensat(AT_FDCWD, path.encode(), times, 0)
    if call == "link":
        return libc.utimensat(AT_FDCWD, path.encode(), times, AT_SYMLINK_NOFOLLOW)
    fd = os.open(path, os.O_RDONLY)
    try:
        return libc.futimens(fd, times) if call == "descriptor" else libc.utimensat(fd, b"", times, AT_EMPTY_PATH)
    finally:
        os.close(fd)


with tempfile.TemporaryDirectory() as folder:
    for number, (call, before, read, written) in enumerate(itertools.product(("path", "link", "descriptor", "empty path"), ("new", "set"), HOW, HOW)):
        path = os.path.join(folder, str(number))
        if call == "link":
            os.symlink("nowhere", path)
        else:
            open(path, "w").close()
        if before == "set":
            set_times("link", path, (FIRST["read"], FIRST["written"]))
        known = times_of(path)
        came = coded(set_times(call, path, (HOW[read] or SECOND["read"], HOW[written] or SECOND["written"])))
        found = times_of(path)
        said = {what: word(what, found[what], known) for what in found}
        # A new file's times are of now.
        said = {what: "now" if before == "new" and how == "now" and answer == "kept" else answer for (what, answer), how in zip(said.items(), (read, written))}
        print(f"{call}, {before}, read {read}, written {written}: {came}, read {said['read']}, written {said['written']}")
    for what, path in (("nothing", os.path.join(folder, "nothing")), ("an empty path", "")):
        for read, written in itertools.product(HOW, HOW):
            print(what, read, written, coded(libc.utimensat(AT_FDCWD, path.encode(), (Time * 2)(HOW[read] or (1, 1), HOW[written] or (1, 1)), 0)))
