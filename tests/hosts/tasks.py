"""st_nlink of /proc/PID/task: 2 and a folder for each thread, by which programs look whether they have one (Chromium does, before it has sandboxes)."""

import os
import threading

may_end = threading.Event()
proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)


def told():
    own = os.getpid()
    with_path = [os.stat(f"/proc/{which}/task{end}").st_nlink for which in ("self", own) for end in ("", "/")]
    beside = [os.stat(path, dir_fd=proc).st_nlink for path in ("self/task", "self/task/", f"{own}/task", "./self/task")]
    opened = os.open("/proc/self/task", os.O_RDONLY | os.O_DIRECTORY)
    by_number = os.fstat(opened).st_nlink
    os.close(opened)
    return with_path, beside, by_number, len(os.listdir("/proc/self/task"))


print("one", *told(), flush=True)
threads = []
for count in (1, 2, 3, 20):
    while len(threads) < count:
        threads.append(threading.Thread(target=may_end.wait))
        threads[-1].start()
    print(count, "beside it", *told(), flush=True)
child = os.fork()
if child == 0:
    print("a child", *told(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
may_end.set()
