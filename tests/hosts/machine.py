"""What a machine tells of itself, and a node of its own: each line is what was asked, how, and the answer."""

import ctypes
import os
import socket
import struct
import time

from saying import call, folder, said

SO_NETNS_COOKIE = 71
AT_FDCWD, NAME_TO_HANDLE_AT = -100, 303
ARCH_PRCTL, ARCH_MAP_VDSO_64 = 158, 0x2003
MEMORY_KIB = 1 << 20


def device() -> str:
    number = os.stat(folder()).st_dev
    return "0:1" if number == 1 else "another"


def blocks() -> str:
    about = os.statvfs("/")
    return "4 GiB, half full" if (about.f_blocks * about.f_frsize, about.f_bfree * 2) == (4 << 30, about.f_blocks) else "another"


def written() -> str:
    """When a file was written that is written some time after the program began."""
    time.sleep(0.05)
    before = time.time_ns()
    time.sleep(0.05)
    with open(f"{folder()}/written", "w") as file:
        file.write("x")
    return "the clock's" if os.stat(f"{folder()}/written").st_mtime_ns >= before else "earlier"


def was_set() -> str:
    """A time that the program sets."""
    open(f"{folder()}/set", "w").close()
    os.utime(f"{folder()}/set", ns=(1_000_000_001, 2_000_000_002))
    found = os.stat(f"{folder()}/set")
    return f"{found.st_atime_ns} {found.st_mtime_ns}"


def handle() -> str:
    room = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 8 + 128)
    call(NAME_TO_HANDLE_AT, AT_FDCWD, folder().encode(), room, ctypes.byref(ctypes.c_int()), 0)
    return "works"


def netns_cookie() -> str:
    cookie = struct.unpack("Q", socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8))[0]
    return "1" if cookie == 1 else "another"


def vdso() -> str:
    with open("/proc/self/maps") as file:
        return "mapped" if "[vdso]" in file.read() else "not mapped"


def memory() -> str:
    with open("/proc/meminfo") as file:
        return "1 GiB" if f"MemTotal: {MEMORY_KIB:14} kB\n" in file.read() else "another"


if __name__ == "__main__":
    said("file", "its device", device)
    said("file", "its file system", blocks)
    said("time of a file", "written", written)
    said("time of a file", "set", was_set)
    said("order", "name_to_handle_at", handle)
    said("order", "SO_NETNS_COOKIE", netns_cookie)
    said("vdso", "in maps", vdso)
    said("vdso", "ARCH_MAP_VDSO_64", lambda: call(ARCH_PRCTL, ARCH_MAP_VDSO_64, 0) and "works")
    said("memory", "MemTotal", memory)
