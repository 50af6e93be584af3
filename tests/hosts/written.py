"""Files of a process below /proc that programs write: what they take, what they show then, and what a child and a program that is executed have of it."""

import os
import subprocess
import sys
import threading


def put(path, text, flags=os.O_RDWR):
    """What a write comes to, and what is read then."""
    try:
        file = os.open(path, flags)
    except OSError as error:
        return error.strerror
    try:
        done = os.write(file, text)
    except OSError as error:
        done = error.strerror
    try:
        back = os.pread(file, 100, 0)
    except OSError as error:
        back = error.strerror
    os.close(file)
    with open(path) as again:
        return done, back, again.read()


TEXTS = {
    "oom_score_adj": (b"300", b"310\n", b" 320 ", b"0x14a", b"0520", b"+340", b"1001", b"-1001", b"x", b"", b"350 1", b"350\n\n", b"000000000351", b"0000000000352", b"99999999999", b"1000"),
    "oom_adj": (b"16", b"-18", b"x", b"15"),
    "coredump_filter": (b"0x7", b"3\n", b"0x1ff", b"0x3ff", b"010", b"zz", b" 3", b"-1", b"4294967296", b"3\n\n", b"+5", b"0x33"),
    "timerslack_ns": (b"1000", b"2000\n", b"0x10", b"x", b"-1", b"18446744073709551615", b"18446744073709551616", b"0"),
}
own = os.getpid()
for name, texts in TEXTS.items():
    for text in texts:
        print(name, text, put(f"/proc/self/{name}", text))
print("by number", put(f"/proc/{own}/coredump_filter", b"0x11"))
print("only written", put("/proc/self/coredump_filter", b"0x13", os.O_WRONLY))
print("only read", put("/proc/self/coredump_filter", b"0x13", os.O_RDONLY))
print("emptied", put("/proc/self/coredump_filter", b"0x15", os.O_RDWR | os.O_TRUNC))
with open("/proc/self/coredump_filter", "w") as file:
    file.write("0x17")
print("by the library", open("/proc/self/coredump_filter").read())
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
print("a thread's", put(f"/proc/self/task/{thread.native_id}/oom_score_adj", b"1000"))
done.set()
thread.join()
sys.stdout.flush()
child = os.fork()
if child == 0:
    print("a child's", [open(f"/proc/self/{name}").read() for name in TEXTS])
    print("and it has its own", put("/proc/self/coredump_filter", b"0x19"), flush=True)
    os._exit(0)
os.waitpid(child, 0)
may_end, ends = os.pipe()
child = os.fork()
if child == 0:
    os.close(ends)
    os.read(may_end, 1)
    os._exit(0)
file = os.open(f"/proc/{child}/coredump_filter", os.O_RDWR)
print("another's", os.pwrite(file, b"0x21", 0), os.pread(file, 100, 0), flush=True)
os.close(ends)
os.waitpid(child, 0)
next_one = os.fork()
if next_one == 0:
    os.close(may_end)
    for ask in (lambda: os.pread(file, 100, 0), lambda: os.pwrite(file, b"0x23", 0)):
        try:
            print("of a process that is gone", ask())
        except OSError as error:
            print("of a process that is gone", error.strerror)
    print("and not this one's", open("/proc/self/coredump_filter").read(), flush=True)
    os._exit(0)
os.waitpid(next_one, 0)
print("the parent's", open("/proc/self/coredump_filter").read(), flush=True)
subprocess.run(["cat", "/proc/self/coredump_filter", "/proc/self/oom_score_adj"])
