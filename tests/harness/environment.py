"""An environment: namespaces, a folder and processes that live and die together.

    with Environment("demo") as env:
        kernel, program = env.namespace("kernel"), env.namespace("program")
        server = env.start("server", ["nginx", …], kernel)
        env.wait_listening(server, 8080)

Whatever happens inside, the processes end, the namespaces and the folder go. A process that survives the end of its
process group is a leak and raises Failure, because a daemon that nobody can stop is a fault of weft.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

from . import namespaces
from .namespaces import Namespace
from .processes import Failure, Process, listening

MARK = "WEFT_HARNESS"
# A process that was killed may still be dying; one that was not does not go by itself.
DYING_SECONDS_MAX = 1.0
_numbers = itertools.count(1)


def run_main(main: Callable[[], int], user_namespace: bool = True) -> int:
    """Runs a test's main: as root of something (unless it wants to be a normal user), swept before, with SIGTERM as an
    orderly end, checked for leaks after."""
    if user_namespace:
        namespaces.enter_user_namespace()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("MAKEFLAGS", None)
    for name in namespaces.sweep():
        print(f"removed what an earlier run left: {name}", flush=True)
    before = Snapshot.take()
    try:
        status = main()
    except Failure as failure:
        print(f"failed: {failure}", flush=True)
        status = 1
    left = before.new_since()
    if left:
        print("failed: left behind:\n  " + "\n  ".join(left), flush=True)
        return 1
    return status


class Environment:
    """See the module. `keep` (or WEFT_KEEP=1) leaves the folder with all outputs for a person to read."""

    def __init__(self, name: str = "env") -> None:
        self.id = f"weft-{os.getpid()}-{next(_numbers)}"
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.id}-"))
        # A program that drops its privileges must still reach its files.
        self.folder.chmod(0o755)
        self.processes: list[Process] = []
        self.namespaces: list[Namespace] = []
        self._process_numbers = itertools.count(1)

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, Failure):
            # Read the last lines now: stopping the processes adds noise and removing the folder loses them.
            error.args = (f"{error}\n{self.describe()}",)
        left = self.close()
        if left and error is None:
            raise Failure(f"{self.name}: processes survived the end of their group:\n" + "\n".join(left))

    def namespace(self, name: str) -> Namespace:
        namespace = Namespace(f"{self.id}-{name}")
        self.namespaces.append(namespace)
        return namespace

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of every process: nothing of the caller's but PATH and what says how to look on, so that no proxy and no locale leaks
        in."""
        base = {
            "PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
            "HOME": str(self.folder), "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder),
            "LC_ALL": "C.UTF-8", MARK: self.id, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("RUST_BACKTRACE", "RUST_LOG", "WEFT_LOG", "LLVM_PROFILE_FILE"):
            if name in os.environ:
                base[name] = os.environ[name]
        return {**base, **more}

    def start(self, name: str, argv: list[str], namespace: Namespace | list[str] | None = None,
              stdin: Path | None = None, **variables: str) -> Process:
        """Starts a process; `namespace` is a Namespace or the words that lead into one."""
        prefix = namespace.prefix if isinstance(namespace, Namespace) else (namespace or [])
        number = next(self._process_numbers)
        process = Process(f"{number:02}-{name}", [*prefix, *argv], self.folder, self.variables(**variables),
                          stdin=stdin)
        self.processes.append(process)
        return process

    def run(self, name: str, argv: list[str], namespace: Namespace | list[str] | None = None, timeout_s: float = 30,
            stdin: Path | None = None, **variables: str) -> str:
        """Runs a process to its end; its standard output, or Failure for a status other than 0 or the watchdog."""
        process = self.start(name, argv, namespace, stdin, **variables)
        try:
            status = process.wait(timeout_s)
        except Failure:
            process.stop(grace_s=0.5)
            raise
        if status != 0:
            raise Failure(f"{name} ended with status {status}: {' '.join(argv)[:200]}")
        return process.stdout

    def wait_listening(self, process: Process, port: int, protocol: str = "tcp", timeout_s: float = 15) -> None:
        """Waits until a native server listens: seen in the kernel's table, since a probe would be a connection."""
        process.wait_for(lambda: listening(process.pid, port, protocol), f"listening on {protocol} {port}", timeout_s)

    def describe(self) -> str:
        """The last lines of every process, the youngest last."""
        return "\n".join(process.describe() for process in self.processes)

    def close(self) -> list[str]:
        """Ends everything. Returns what outlived the end of its process group (and kills that too)."""
        for process in reversed(self.processes):
            process.stop()
        left = []
        for namespace in self.namespaces:
            pids = remaining(namespace)
            left += [f"{pid} {command(pid)}" for pid in pids]
            namespaces.kill_all(pids)
        for namespace in self.namespaces:
            namespace.remove()
        if os.environ.get("WEFT_KEEP"):
            print(f"kept: {self.folder}", flush=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return left


def remaining(namespace: Namespace) -> list[int]:
    """Who is still there, once those that were killed have had time to die."""
    deadline = time.monotonic() + DYING_SECONDS_MAX
    while (pids := namespace.pids()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return pids


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return "?"


class Snapshot:
    """What this process's tests could leave behind: namespaces, mounts, marked processes, interfaces, folders.

    Only things that carry the prefix of this process count, since other tests may run on the machine at the same time;
    interfaces of the surrounding namespace count when their name is weft's.
    """

    def __init__(self, items: set[str]) -> None:
        self._items = items

    @classmethod
    def take(cls) -> Snapshot:
        own = f"weft-{os.getpid()}-"
        items: set[str] = set()
        if namespaces.FOLDER.is_dir():
            items |= {f"namespace {path.name}" for path in namespaces.FOLDER.iterdir() if path.name.startswith(own)}
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            if own in line:
                items.add(f"mount {line.split()[4]}")
        items |= {f"folder {path}" for path in Path(tempfile.gettempdir()).glob(own + "*")}
        items |= {f"interface {name}" for name in os.listdir("/sys/class/net") if name.startswith("weft")}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid() and _marked(int(entry), own):
                items.add(f"process {entry} {command(int(entry))}")
        return cls(items)

    def new_since(self) -> list[str]:
        """What is there now and was not then."""
        ignored = "folder" if os.environ.get("WEFT_KEEP") else "\0"
        return sorted(item for item in Snapshot.take()._items - self._items if not item.startswith(ignored))


def _marked(pid: int, own: str) -> bool:
    try:
        return f"{MARK}={own}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
