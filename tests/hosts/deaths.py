"""Who waits at words of shared memory, while processes end that say nothing: the word's owner is among them or it is not."""

import ctypes
import errno
import itertools
import mmap
import os
import resource
import select
import signal
import struct
import sys
import threading
import time

from answers import side_by_side

libc = ctypes.CDLL(None, use_errno=True)
FUTEX, FUTEX_WAITV, WAIT, WAIT_BITSET, FUTEX_32 = 202, 449, 0, 9, 2
SHARED, ROBUST = 1, 1
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
memory = mmap.mmap(-1, 4096)
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
PLAIN, MUTEX, COUNTS = base, base + 64, base + 128


class Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Word(ctypes.Structure):
    _fields_ = (("value", ctypes.c_uint64), ("address", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32))


def soon(clock=None):
    seconds = 0.6 + (time.clock_gettime(clock) if clock is not None else 0)
    return ctypes.byref(Time(int(seconds), int(seconds % 1 * 10**9)))


def wait():
    return libc.syscall(FUTEX, ctypes.c_void_p(PLAIN), WAIT, 0, soon(), None, 0)


def wait_bitset():
    return libc.syscall(FUTEX, ctypes.c_void_p(PLAIN), WAIT_BITSET, 0, soon(time.CLOCK_MONOTONIC), None, 1)


def wait_several():
    words = (Word * 2)(Word(0, PLAIN + 4, FUTEX_32, 0), Word(0, PLAIN, FUTEX_32, 0))
    return libc.syscall(FUTEX_WAITV, words, 2, 0, soon(time.CLOCK_MONOTONIC), time.CLOCK_MONOTONIC)


def forked(body):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        body()
        sys.stdout.flush()
        os._exit(0)
    return child


def with_a_thread(body):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    body()


def rest():
    time.sleep(0.1)


def killed(body):
    """A process that is killed when it has done this."""
    done, says = os.pipe()
    child = forked(lambda: (body(), os.write(says, b"x"), time.sleep(100)))
    os.read(done, 1)
    os.close(done), os.close(says)
    rest()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def beside_a_thread(body):
    """A process that ends while another thread of its sleeps."""
    os.waitpid(forked(lambda: with_a_thread(lambda: (body(), rest()))), 0)


DEATHS = (killed, beside_a_thread)


def beside(call, death):
    """What a call comes to while a process ends that has nothing to do with it."""
    child = forked(lambda: print(call.__name__, death.__name__, call(), errno.errorcode.get(ctypes.get_errno())))
    rest()
    death(lambda: None)
    os.waitpid(child, 0)


side_by_side(*(lambda one=one: beside(*one) for one in itertools.product((wait, wait_bitset, wait_several), DEATHS)))

attributes = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(attributes)
libc.pthread_mutexattr_setpshared(attributes, SHARED)
libc.pthread_mutexattr_setrobust(attributes, ROBUST)
mutex = ctypes.c_void_p(MUTEX)


def locks():
    found = libc.pthread_mutex_lock(mutex)
    if found == errno.EOWNERDEAD:
        libc.pthread_mutex_consistent(mutex)
    memory[COUNTS - base + (1 if found == errno.EOWNERDEAD else 0 if found == 0 else 2)] += 1
    rest()
    libc.pthread_mutex_unlock(mutex)


for death in DEATHS:
    memory[COUNTS - base : COUNTS - base + 3] = bytes(3)
    libc.pthread_mutex_init(mutex, attributes)
    waiting = []

    def owner():
        libc.pthread_mutex_lock(mutex)
        memory[COUNTS - base + 3] = 1

    def look():
        while not memory[COUNTS - base + 3]:
            time.sleep(0.001)
        memory[COUNTS - base + 3] = 0
        waiting.extend(forked(locks) for _ in range(3))

    looks = threading.Thread(target=look)
    looks.start()
    death(owner)
    looks.join()
    for child in waiting:
        os.waitpid(child, 0)
    print("of three who wait for its lock:", *memory[COUNTS - base : COUNTS - base + 3], flush=True)


SET_ROBUST_LIST, LINK, HEAD, LOCK = 273, 512, 1024, 256


def waiter(value):
    """A process that waits for a word with this value, and where it tells what it got."""
    out, into = os.pipe()

    def waits():
        os.write(into, b"begins ")
        done = libc.syscall(FUTEX, ctypes.c_void_p(base + LOCK), WAIT, ctypes.c_uint(value), None, None, 0)
        os.write(into, b"woken" if done == 0 else errno.errorcode[ctypes.get_errno()].encode())

    child = forked(waits)
    os.close(into)
    os.read(out, 7)
    while sleeps_not(child):
        time.sleep(0.001)
    return child, out


def sleeps_not(child):
    with open(f"/proc/{child}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "S"


def got(child, out):
    """What it has got; who waits still, waits for ever."""
    if not select.select([out], [], [], 0)[0]:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = os.read(out, 99).decode() or "waits"
    os.close(out)
    return said


def its_list(where, inherits):
    """A robust list with the lock in it, or with the lock as what is being taken or given back."""
    listed = (base + LINK) | inherits
    struct.pack_into("=QqQ", memory, HEAD, listed if where == "listed" else base + HEAD, LOCK - LINK, listed if where == "pending" else 0)
    struct.pack_into("=Q", memory, LINK, base + HEAD)
    libc.syscall(SET_ROBUST_LIST, ctypes.c_void_p(base + HEAD), ctypes.c_size_t(24))


def execute():
    os.execv("/bin/true", ["true"])


WAYS = {"ends": lambda: os._exit(0), "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL), "faults": lambda: ctypes.string_at(8), "executes": execute}


def case(where, inherits, bits, owned, way):
    """What comes of one lock, in memory of its own."""
    global memory, base
    memory = mmap.mmap(-1, 4096)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    may_go, go = os.pipe()
    owner = forked(lambda: (os.read(may_go, 1), its_list(where, inherits), WAYS[way]()))
    value = bits | owner if owned else bits
    struct.pack_into("=I", memory, LOCK, value)
    waiting = [waiter(value) for _ in range(2)]
    rest()
    os.write(go, b"x")
    os.waitpid(owner, 0)
    time.sleep(0.5)
    marked = struct.unpack_from("=I", memory, LOCK)[0] >> 30
    print(where, "inheriting" * inherits, bits >> 30, "its own" if owned else "nobody's", way, *sorted(got(*one) for one in waiting), marked)


for where, inherits in itertools.product(("listed", "pending"), (0, 1)):
    cases = [(where, inherits, *one) for one in itertools.product((0, 1 << 31, 1 << 30), (True, False), WAYS)]
    side_by_side(*(lambda one=one: case(*one) for one in cases))
