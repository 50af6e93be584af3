"""Every way that is known to look past virtual time, one by one: doors.c tries them and prints what it saw.

Two runs say the same, though the second one comes later, beside other work, and from a shell with other limits, another umask, niceness, scheduler and
ignored signals; and whatever tells a time tells the virtual one. Natively nearly all of them fail: there the real clock shows.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .shared import SECONDS_MAX, compiled, keys, program, section

SOURCE = Path(__file__).parent / "doors.c"
NS = 10**9
# Row, and how its lines begin. A line belongs to the first that fits.
FAMILIES: dict[str, tuple[str, ...]] = {
    "vsyscall page": ("vsyscall",),
    "clock_gettime by call, every clock": ("clock by call",),
    "vDSO": ("clock by vDSO", "gettimeofday:", "time:", "getcpu by vDSO"),
    "gettimeofday, time": ("gettimeofday by call", "time by call", "time at the end"),
    "adjtimex": ("adjtimex", "clock_adjtime"),
    "rdtsc, rdtscp": ("rdtsc",),
    "futex, select, poll timeouts": ("futex", "select", "poll"),
    "timers": ("timerfd", "alarm"),
    "rusage, times": ("getrusage", "wait4", "times:"),
    "sysinfo": ("sysinfo",),
    "rseq, getcpu, affinity": ("rseq", "getcpu:", "affinity", "membarrier"),
    "perf_event_open": ("perf_event_open",),
    "/proc/uptime": ("/proc/uptime",),
    "/proc/stat": ("/proc/stat", "/proc/loadavg", "/proc/meminfo", "/proc/vmstat"),
    "/proc/PID/stat": ("/proc/self/stat", "/proc/1/", "/proc/self/task/2/stat", "/proc/thread-self/stat"),
    "/proc/PID/sched": ("/proc/self/sched", "/proc/thread-self/sched", "/proc/self/task/2/sched", "/proc/self/autogroup"),
    "/proc/timer_list and what is like it": ("/proc/timer_list", "/proc/interrupts", "/proc/softirqs", "/proc/schedstat", "/proc/sched_debug", "/proc/driver/rtc", "/proc/pressure"),
    "/proc/PID/maps": ("/proc/self/maps", "/proc/self/smaps", "/proc/self/numa_maps"),
    "/proc/PID/fdinfo": ("/proc/self/fdinfo",),
    "/proc/net": ("/proc/net",),
    "/proc/sys": ("/proc/sys",),
    "/proc/PID": ("/proc/self", "/proc/thread-self"),
    "/proc": ("/proc/",),
    "/dev and /sys": ("/dev/rtc", "/dev/hwrng", "/dev/mem", "/dev/kmsg", "/dev/cpu", "/dev/ptp", "/dev/hpet", "/sys/", "/dev/shm", "/dev/pts"),
    "randomness": ("/dev/random", "AT_RANDOM"),
    "file timestamps": ("new file", "touched file", "node's folder", "process's folder", "memory file", "pipe"),
    "inode numbers, handles, generations": ("generation", "name_to_handle_at", "statfs", "kcmp"),
    "inotify": ("inotify",),
    "order in a folder": ("order in a folder",),
    "links of descriptors by other paths": ("link by another path",),
    "the kernel's vDSO and vvar": ("clock in pages",),
    "dates that programs set": ("date",),
    "unix names, cookies, identities": ("unix ", "identity of"),
    "unix sockets": ("cookie of a unix", "SO_TIMESTAMPNS of a unix"),
    "SO_TIMESTAMP, ports": ("SO_TIMESTAMPNS:", "cookie of a socket", "port of a socket"),
    "System V shared memory": ("shared memory",),
    "addresses (ASLR)": ("addresses", "auxiliary"),
    "uname": ("uname",),
    "numbers of processes": ("numbers",),
    "what weft was started with": ("umask", "nice", "scheduler", "limit", "prctl", "signals", "folder", "environment"),
    "refused": ("io_uring", "keyctl"),
    "rdrand": ("rdrand",),
}
# Natively the same twice, too, and without a time.
SAME_NATIVELY = {"perf_event_open", "adjtimex", "rseq, getcpu, affinity", "sysinfo", "timers", "/dev and /sys", "order in a folder", "uname", "refused", "rdrand", "/proc/sys", "dates that programs set"}
# Another start than the first time: what is inherited.
OTHERWISE = "umask 077; ulimit -s 4096; ulimit -n 4000; ulimit -f 4000000; trap '' HUP; cd /var; export STRAY=1; echo 37 > /proc/self/coredump_filter; exec nice -n 5 chrt -b 0 setarch -R \"$@\" 2> /dev/null"
# Ten times of a second in which the program is certain to end.
TIME_MAX = 10 * NS


def families(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {row: [] for row in FAMILIES}
    for line in text.splitlines():
        row = next((row for row, starts in FAMILIES.items() if line.startswith(starts)), None)
        if row is None:
            raise Failure(f"a line of doors.c belongs to no row: {line}")
        found[row].append(line)
    return found


def shown(lines: list[str], other: list[str]) -> str:
    """What gives the real clock, chance or the host away; empty: nothing."""
    if not lines:
        return "nothing was tried"
    for one, two in zip(lines, other):
        if one != two:
            return f"{one[:400]}\nand then\n{two[:400]}"
    if len(lines) != len(other):
        return f"{len(lines)} lines, then {len(other)}"
    for line in lines:
        name, _, what = line.partition(": time ")
        if what and not 0 <= int(what) <= TIME_MAX:
            return f"{name} tells {int(what)} ns since the node's boot"
    return ""


def virtual(folder: Path, binary: Path, command: Path, *before: str) -> str:
    (folder / "doors.toml").write_text(keys(duration="60s", boot="0s") + section("nodes.a") + program("doors", "a", str(command)))
    out = folder / "out"
    done = subprocess.run([*before, str(binary), "sim", str(folder / "doors.toml"), "--out", str(out)], capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"exit status {done.returncode}\n{done.stderr[-1500:]}")
    return (out / "programs" / "doors" / "stdout").read_text()


class Doors:
    """Both runs, made when the first row asks."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder, self.binary = folder, binary
        self.found: list[dict[str, list[str]]] = []

    def build(self) -> Path:
        return compiled(SOURCE, self.folder / "doors")

    def runs(self) -> list[dict[str, list[str]]]:
        if self.found:
            return self.found
        command = self.build()
        first = virtual(self.folder, self.binary, command)
        busy = [subprocess.Popen([paths.PYTHON, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        try:
            time.sleep(1)
            second = virtual(self.folder, self.binary, command, "sh", "-euc", OTHERWISE, "sh")
        finally:
            for process in busy:
                process.kill()
                process.wait()
        self.found = [families(first), families(second)]
        return self.found

    def closed(self, row: str) -> str:
        one, two = self.runs()
        if seen := shown(one[row], two[row]):
            raise Failure(seen)
        if row == "rdrand":
            return self.rdrand(one[row])
        return f"{len(one[row])} ways"

    @staticmethod
    def rdrand(lines: list[str]) -> str:
        """Hidden where the processor lets CPUID fault; else nobody can hide it (docs/compatibility.md, `clocks`)."""
        faults = " cpuid_fault" in Path("/proc/cpuinfo").read_text()
        if faults and not lines[0].endswith(": 0 0"):
            raise Failure(lines[0])
        return "hidden" if faults else "shown: this processor does not let CPUID fault"

    def natively(self) -> str:
        """Without weft the rows fail."""
        command, found = self.build(), []
        for before in ([], ["sh", "-euc", OTHERWISE, "sh"]):
            # It leaves files in /tmp: one of its own.
            own = [paths.tool("unshare"), "--user", "--map-root-user", "--mount", "sh", "-euc", 'mount -t tmpfs tmp /tmp; exec "$@"', "sh"]
            done = subprocess.run([*before, *own, str(command)], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
            found.append(families(done.stdout))
        open_ = {row for row in FAMILIES if shown(found[0][row], found[1][row])}
        if missing := set(FAMILIES) - SAME_NATIVELY - open_:
            raise Failure(f"these would not notice: {sorted(missing)}")
        return f"{len(open_)} of {len(FAMILIES)} would fail"

    def rows(self) -> dict[str, Callable[[Path], str]]:
        rows: dict[str, Callable[[Path], str]] = {f"door/{row}": (lambda _, row=row: self.closed(row)) for row in FAMILIES}
        rows["doors without weft"] = lambda _: self.natively()
        return rows
