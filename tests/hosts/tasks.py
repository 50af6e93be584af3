"""What /proc says of the threads of a process: how many there are (by the links of the folder `task`), and who they are."""

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


def of(path, *names):
    """Lines of a status file."""
    with open(path + "/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    with open(path + "/stat") as file:
        stat = file.read()
    with open(path + "/comm") as file:
        return [lines[name] for name in names], stat[stat.index("(") : stat.index(")") + 1], file.read()


def rename(name):
    with open("/proc/thread-self/comm", "w") as file:
        file.write(name)


rename("first")
os.umask(0o027)
named, may_end = threading.Event(), threading.Event()


def second():
    rename("second one")
    own = threading.get_native_id()
    print("its own", *of("/proc/thread-self", "Name", "Umask"), of("/proc/thread-self", "Pid")[0] == [str(own)], flush=True)
    print("by its number", *of(f"/proc/{own}", "Name", "Umask"), flush=True)
    named.set()
    may_end.wait()


other = threading.Thread(target=second)
other.start()
named.wait()
print("the process's", *of("/proc/self", "Name", "Umask"), *of(f"/proc/{os.getpid()}", "Name"))
print("the first's", *of(f"/proc/self/task/{os.getpid()}", "Name"))
print("the second's", *of(f"/proc/self/task/{other.native_id}", "Name", "Umask"), of(f"/proc/self/task/{other.native_id}", "Pid")[0] == [str(other.native_id)])
os.umask(0o77)
print("changed", *of("/proc/self", "Umask"))
may_end.set()
other.join()
