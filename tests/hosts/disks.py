"""What a node makes of the host's folders: each line is what was asked, how, and the answer.

Natively it has a mount namespace of its own, with a layer over each folder that it writes to: nothing is changed on the machine. In a node it is asked
as text (rows.py): a node that is given files has folders of its own from the beginning, and shows no difference.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import tempfile

from saying import libc, said

MOUNTS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
# The first is changed by the node's own programs, the second by hardly any.
FOLDERS = ("/var", "/usr")
NODE = "a"
SYS_GETDENTS64 = 217


def own() -> None:
    """A layer over each folder, which is gone with the process. In a node each is the node's own, and nobody mounts."""
    if os.uname().nodename == NODE:
        return
    if libc.unshare(MOUNTS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "")
    below = tempfile.mkdtemp()
    if libc.mount(b"tmpfs", below.encode(), b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "")
    for folder in FOLDERS:
        parts = [f"{below}{folder}{kind}" for kind in ("-upper", "-work")]
        for part in parts:
            os.mkdir(part)
        options = f"lowerdir={folder},upperdir={parts[0]},workdir={parts[1]}"
        if libc.mount(b"overlay", folder.encode(), b"overlay", 0, options.encode()):
            raise OSError(ctypes.get_errno(), "")


class Before:
    """A folder as it is before anybody has written there: what leads to it is the same afterwards."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.below = next(entry.path for entry in sorted(os.scandir(folder), key=lambda entry: entry.name) if entry.is_dir(follow_symlinks=False))
        self.numbers = [os.stat(path).st_ino for path in (folder, self.below)]
        self.first = os.open(folder, os.O_RDONLY)
        self.second = os.dup(self.first)
        self.file, self.locked = self._readable()
        fcntl.flock(self.locked, fcntl.LOCK_SH)
        self.ends = socket.socketpair()
        socket.send_fds(self.ends[0], [b"x"], [os.open(folder, os.O_RDONLY)])

    def _readable(self) -> tuple[str, int]:
        """A file below it, opened."""
        for path, _, names in os.walk(self.folder):
            for name in names:
                file = os.path.join(path, name)
                if os.path.isfile(file) and not os.path.islink(file) and os.access(file, os.R_OK):
                    return file, os.open(file, os.O_RDONLY)
        raise FileNotFoundError(self.folder)

    def write(self) -> None:
        with open(f"{self.folder}/weft-wrote", "w") as file:
            file.write("x")

    def number(self, at: int) -> str:
        return "the same" if os.stat((self.folder, self.below)[at]).st_ino == self.numbers[at] else "another"

    def seen(self) -> str:
        return str("weft-wrote" in os.listdir(self.first))

    def position(self) -> str:
        """Two descriptors of one open(2), of which one is read to its end."""
        while libc.syscall(SYS_GETDENTS64, self.first, ctypes.create_string_buffer(4096), 4096) > 0:
            pass
        return "shared" if os.lseek(self.second, 0, os.SEEK_CUR) == os.lseek(self.first, 0, os.SEEK_CUR) != 0 else "apart"

    def lock(self) -> str:
        """Who opened the file before has it locked; does somebody else get the lock who opens it now?"""
        try:
            fcntl.flock(os.open(self.file, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
            return "is free"
        except BlockingIOError:
            return "is held"

    def passed(self) -> str:
        """One that was on its way in a socket."""
        return str("weft-wrote" in os.listdir(socket.recv_fds(self.ends[1], 1, 1)[1][0]))


def duplicate_locks(file: str) -> str:
    """flock(2) of one file by two descriptors, as the kernel has it: alone, together, and what fcntl(2) says of it."""
    one, other = os.open(file, os.O_RDONLY), os.open(file, os.O_RDONLY)
    words = []
    for first, second in ((fcntl.LOCK_SH, fcntl.LOCK_SH), (fcntl.LOCK_SH, fcntl.LOCK_EX), (fcntl.LOCK_EX, fcntl.LOCK_EX)):
        fcntl.flock(one, first)
        try:
            fcntl.flock(other, second | fcntl.LOCK_NB)
            words.append("both")
        except BlockingIOError:
            words.append("one")
        fcntl.flock(one, fcntl.LOCK_UN)
        fcntl.flock(other, fcntl.LOCK_UN)
    fcntl.flock(one, fcntl.LOCK_EX)
    # F_OFD_GETLK of the whole file.
    asked = struct.unpack("hhqqi", fcntl.fcntl(other, 36, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))[:28])
    return " ".join([*words, "free" if asked[0] == fcntl.F_UNLCK else "locked"])


def elsewhere(file: str) -> str:
    """A lock of a file of the machine's, which another process has: another open file, and the same machine."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(out)
        fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX)
        os.write(into, b"x")
        signal.pause()
    os.close(into)
    os.read(out, 1)
    try:
        fcntl.flock(os.open(file, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "gets it"
    except BlockingIOError:
        return "waits"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def named(name: str) -> str:
    """What /etc/hosts has of a name; name servers are not asked."""
    found = subprocess.run(["getent", "-s", "files", "ahosts", name], capture_output=True, text=True)
    return " ".join(sorted({line.split()[0] for line in found.stdout.splitlines()})) or "nobody"


if __name__ == "__main__":
    own()
    for folder in FOLDERS:
        before = Before(folder)
        before.write()
        said(f"folder {folder}", "its number", lambda: before.number(0))
        said(f"folder {folder}", "the number of one below", lambda: before.number(1))
        said(f"folder {folder}", "what was open has what is written", before.seen)
        said(f"folder {folder}", "the position of a duplicate", before.position)
        said(f"folder {folder}", "the lock of a file below", before.lock)
        said(f"folder {folder}", "what was on its way has what is written", before.passed)
    for file in ("/usr/bin/env", "/usr/lib"):
        said("flock", f"{file}, two descriptors", lambda file=file: duplicate_locks(file))
        said("flock", f"{file}, another process", lambda file=file: elsewhere(file))
    said("flock", "a device, two descriptors", lambda: duplicate_locks("/dev/zero"))
    for name in (NODE, "nobody-has-this-name"):
        said("hosts file", name, lambda name=name: named(name))
