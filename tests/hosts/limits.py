"""Limits of memory: what a program sets is what it and others are told, what it gets, and what the programs have that it executes."""

import ctypes
import errno
import mmap
import os
import resource
import subprocess
import sys

from answers import coded, said

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
GETRLIMIT, SETRLIMIT, PRLIMIT64 = 97, 160, 302
NO_SUCH_PROCESS = 1 << 22
NOWHERE = 8
FOREVER = resource.RLIM_INFINITY
MIB = 1 << 20
LIMITS = {
    "AS": (resource.RLIMIT_AS, (600 * MIB, 1000 * MIB, 1024_000_000, 3000 * MIB)),
    "DATA": (resource.RLIMIT_DATA, (200 * MIB, 300 * MIB, 300_000_000, 2000 * MIB)),
    "STACK": (resource.RLIMIT_STACK, (MIB, 8 * MIB, 3_000_000, 64 * MIB)),
}
SAYS = "import os, resource, sys; print(resource.getrlimit(int(sys.argv[1])), flush=True)"


def in_a_child(body):
    """What it says in a process of its own."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(into, str(said(body)).encode())
        os._exit(0)
    os.close(into)
    text = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    os.close(out)
    os.waitpid(pid, 0)
    return text


def mapped(size):
    try:
        mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "mapped"


def told(which, soft, hard):
    """By each call."""
    resource.setrlimit(which, (soft, hard))
    return resource.getrlimit(which), resource.prlimit(0, which), resource.prlimit(os.getpid(), which)


def before(which, soft, hard):
    """What is told when it is changed."""
    resource.setrlimit(which, (soft, hard))
    return resource.prlimit(0, which, (soft // 2, hard)), resource.prlimit(os.getpid(), which, (soft, hard)), resource.getrlimit(which)


def executed(which, soft, hard):
    resource.setrlimit(which, (soft, hard))
    return subprocess.run([sys.executable, "-ISc", SAYS, str(int(which))], capture_output=True, text=True).stdout.strip()


def from_a_shell(which, soft, hard):
    resource.setrlimit(which, (soft, hard))
    letter = {resource.RLIMIT_AS: "v", resource.RLIMIT_DATA: "d", resource.RLIMIT_STACK: "s"}[which]
    script = f"ulimit -{letter}; ulimit -S -{letter} {soft // 2048}; ulimit -{letter}; ls -d /"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    return done.stdout.split(), done.stderr, done.returncode


def of_another(which, soft, hard):
    """Somebody else sets it, and asks."""
    out, into = os.pipe()
    go, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(go, 1)
        os.write(into, str(resource.getrlimit(which)).encode())
        os._exit(0)
    resource.prlimit(pid, which, (soft, hard))
    answers = resource.prlimit(pid, which)
    os.write(tell, b"1")
    text = os.read(out, 99).decode()
    os.waitpid(pid, 0)
    return answers, text


def gets(which, soft, hard):
    """Half of it, and more than it."""
    resource.setrlimit(which, (soft, hard))
    return mapped(soft // 2), mapped(soft + MIB)


def shown(which, soft, hard):
    """In /proc/self/limits; and whether the program has less than that by its own count."""
    resource.setrlimit(which, (soft, hard))
    name = {resource.RLIMIT_AS: "Max address space", resource.RLIMIT_DATA: "Max data size"}[which]
    [limits] = [line[len(name):].split() for line in open("/proc/self/limits") if line.startswith(name)]
    wanted = [str(limit) if limit != FOREVER else "unlimited" for limit in (soft, hard)]
    told = "as set" if limits[:2] == wanted else "more" if int(limits[0]) > soft else "less"
    [kib] = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize:")]
    return f"{told}, {'less' if 1024 * kib < soft else 'more'} is used" if which == resource.RLIMIT_AS else told


def words(*values):
    return ctypes.addressof(kept(ctypes.c_uint64 * len(values), *values))


def kept(kind, *values):
    one = kind(*values)
    memory.append(one)
    return one


def errors(which, soft, hard):
    room = words(0, 0)
    return [
        coded(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(word) for word in rest)))
        for number, *rest in (
            (GETRLIMIT, which, 0), (GETRLIMIT, which, NOWHERE), (GETRLIMIT, 99, room), (GETRLIMIT, 99, 0), (SETRLIMIT, which, 0), (SETRLIMIT, which, NOWHERE),
            (SETRLIMIT, 99, words(1, 1)), (SETRLIMIT, 99, 0), (SETRLIMIT, which, words(soft, soft - 1)), (PRLIMIT64, 0, which, NOWHERE, room),
            (PRLIMIT64, 0, which, 0, NOWHERE), (PRLIMIT64, 0, which, 0, 0), (PRLIMIT64, 0, 99, 0, 0), (PRLIMIT64, NO_SUCH_PROCESS, which, 0, room),
            (PRLIMIT64, -1, which, 0, room), (PRLIMIT64, 0, which, words(hard, soft), room), (SETRLIMIT, 99, NOWHERE),
            (PRLIMIT64, NO_SUCH_PROCESS, which, NOWHERE, 0), (PRLIMIT64, NO_SUCH_PROCESS, 99, 0, 0), (PRLIMIT64, NO_SUCH_PROCESS, 99, words(2, 1), 0),
        )
    ]


memory: list[object] = []
for name, (which, sizes) in LIMITS.items():
    for soft in sizes:
        for hard in (FOREVER, 2 * soft):
            for body in (told, before, executed, from_a_shell, of_another):
                print(name, soft, hard, body.__name__.replace("_", " "), "|", in_a_child(lambda: body(which, soft, hard)), flush=True)
            if name != "STACK":
                for body in (gets, shown):
                    print(name, soft, hard, body.__name__, "|", in_a_child(lambda: body(which, soft, hard)), flush=True)
    print(name, "no limit |", in_a_child(lambda: told(which, FOREVER, FOREVER) and mapped(64 * MIB)), flush=True)
    print(name, "errors |", in_a_child(lambda: errors(which, sizes[0], sizes[1])), flush=True)
