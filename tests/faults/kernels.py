"""Linux kernels as nodes when something goes wrong: one is killed or panics, weft is, the host refuses ptrace; and builds that cannot be, or are ended."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

SECONDS_MAX = 60
FOLDERS = Path("/dev/shm")
WORLD = """duration = "100000s"
[nodes.a]
kind = "linux"
SYSCTLS
[nodes.b]
[wires.ab]
between = ["a", "b"]
delay = "1ms"
[programs.work]
node = "a"
command = ["python3", "-c", '''
import time
COMMAND
while True: time.sleep(0.001)
''']
"""
# What a build asks for before it unpacks sources; its own doing is none of these rows.
TOOLS = ("make", "gcc", "flex", "bison", "bc", "patch", "xz", "strip")


def wait_until(what: str, done) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        if time.monotonic() > deadline:
            raise Failure(f"not within {SECONDS_MAX} s: {what}")
        time.sleep(0.02)


def expect(what: str, got, wanted) -> None:
    if got != wanted:
        raise Failure(f"{what}: {got!r}, expected {wanted!r}")


class Run:
    """`weft sim` of a world that goes on for ever."""

    def __init__(self, folder: Path, command: str = "pass", sysctls: str = "", prepare=None) -> None:
        (folder / "w.toml").write_text(WORLD.replace("COMMAND", command).replace("SYSCTLS", sysctls))
        self.errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen([weft.binary(), "sim", str(folder / "w.toml")], stdout=subprocess.DEVNULL, stderr=self.errors,
                                        stdin=subprocess.DEVNULL, preexec_fn=prepare)

    def folders(self) -> list[Path]:
        return list(FOLDERS.glob(f"weft-kernel-{self.process.pid}-*"))

    def processes(self) -> list[int]:
        """The kernels' and those of their programs: they run in the kernels' folders."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"/weft-kernel-{self.process.pid}-" in os.readlink(entry / "cwd"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def begin(self) -> list[int]:
        """The kernel, its process 1 and a program are there."""
        wait_until("three processes of a kernel", lambda: len(self.processes()) >= 3 or self.process.poll() is not None)
        return sorted(self.processes())

    def end(self) -> tuple[int, str]:
        """Its status and what it says; nothing is left of it."""
        status = self.process.wait(SECONDS_MAX)
        wait_until("nothing is left", lambda: not self.processes() and not self.folders())
        self.errors.seek(0)
        return status, self.errors.read()


def fails(run: Run, *words: str) -> str:
    """The run ends as not expected, and names the node and what is wrong. Returns what it says."""
    status, said = run.end()
    expect("status", status, 1)
    if not all(word in said for word in ("node 'a'", *words)):
        raise Failure(said)
    return said


def kernel_killed(folder: Path) -> str:
    """The run ends, and names the node."""
    run = Run(folder)
    os.kill(run.begin()[0], signal.SIGKILL)
    said = fails(run, "ended by signal 9")
    return next(line for line in said.splitlines() if "signal 9" in line)


def weft_killed(folder: Path) -> str:
    """No process of the kernel's and none of its programs' stays, and no file."""
    run = Run(folder)
    count = len(run.begin())
    expect("folders", len(run.folders()), 1)
    run.process.kill()
    run.end()
    return f"{count} processes ended"


def weft_ended(folder: Path) -> str:
    """SIGTERM: as for any run, 128 + 15."""
    run = Run(folder)
    run.begin()
    run.process.terminate()
    status, _ = run.end()
    expect("status", status, 128 + signal.SIGTERM)
    return "nothing is left"


def other_namespace(folder: Path) -> str:
    """A weft of another PID namespace sees no process of this one, and takes nothing away; what a killed one has left is taken away by whoever comes next."""
    run = Run(folder)
    run.begin()
    left = FOLDERS / f"weft-kernel-{run.process.pid}-0"
    left.mkdir()
    (folder / "other.toml").write_text(WORLD.replace("COMMAND", "raise SystemExit").replace("SYSCTLS", "").replace('"100000s"', '"1s"'))
    subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", weft.binary(), "sim", str(folder / "other.toml")], check=True, timeout=SECONDS_MAX,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    expect("what had no owner", left.exists(), False)
    expect("folders", len(run.folders()), 1)
    run.process.terminate()
    status, said = run.end()
    expect("status", (status, "cannot remove" in said), (128 + signal.SIGTERM, False))
    # Its folder is removed all the same: the run fails.
    run = Run(folder, "import sys; sys.exit(0)")
    run.begin()
    for place in run.folders():
        subprocess.run(["rm", "-rf", place], check=True)
    status, said = run.end()
    expect("status", status, 1)
    if "somebody has removed" not in said:
        raise Failure(said)
    return "nothing is taken away, and who loses a folder fails"


def panic(folder: Path) -> str:
    """A guest that panics: its last words say why. It fills its memory in large steps: in small ones python's own pages are taken away and read again, for
    minutes, before there is none left."""
    run = Run(folder, "x = [bytes([1]) * (64 << 20) for _ in range(9)]", 'sysctls = { "vm.panic_on_oom" = "2" }')
    said = fails(run, "Kernel panic", "panic_on_oom")
    return next(line.strip() for line in said.splitlines() if "panic" in line)


def planted(folder: Path) -> str:
    """A guest whose root puts a link to a file of the host's, or a fifo, where weft looks for what programs have written: the run ends, and nothing of the
    host's is in its results."""
    secret = folder / "secret"
    secret.write_text("nobody's business\n")
    secret.chmod(0o600)
    for make in (f"ln -s {secret}", "mkfifo"):
        source = f"import os; os.system('mount -t hostfs none /mnt -o node && rm /mnt/output.0; {make} /mnt/output.0'); raise SystemExit"
        run = Run(folder, source)
        said = fails(run, "'output.0' in its kernel's folder is no file")
        expect("the host's in what it says", "business" in said, False)
    return "refused"


def talkative(folder: Path) -> str:
    """A guest whose root writes without end where process 1 speaks: there is a bound to what weft hears."""
    run = Run(folder, "import os; os.system('mount -t hostfs none /mnt -o node && head -c 70000000 /dev/zero >> /mnt/status')")
    fails(run, "its process 1 has said more than 64 MiB")
    return "refused"


BOUND_ANEW = """duration = "30s"
[nodes.a]
kind = "linux"
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "10kbit"
[programs.work]
node = "a"
command = ["sh", "-c", '''
cd /sys/bus/virtio/drivers/virtio_net
ping -c 3 -i 0.002 -W 1 10.0.0.2 &
sleep 0.05
echo virtio0 > unbind && echo virtio0 > bind && ip link set eth0 up && ip address add 10.0.0.1/24 dev eth0 || exit 3
sleep 3
! dmesg | grep "is not a head" || exit 4
ping -c 2 -W 3 10.0.0.2
''']
start = "1s"
"""


def bound_anew(folder: Path) -> str:
    """A driver that is bound anew while frames of it are on the wire: nobody gives those back to its new queue, and it goes on."""
    (folder / "w.toml").write_text(BOUND_ANEW)
    done = subprocess.run([weft.binary(), "sim", str(folder / "w.toml")], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(done.stderr)
    return "it goes on"


# seccomp(2): ptrace(2) (call 101) is EPERM, all else as ever.
FILTER = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


def forbid_ptrace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in FILTER))
    about = struct.pack("HxxxxxxQ", len(FILTER), ctypes.addressof(program))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, about, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def no_ptrace(folder: Path) -> str:
    """Whoever may not trace cannot run a kernel, and is told that it is this."""
    run = Run(folder, prepare=forbid_ptrace)
    status, said = run.end()
    expect("ends badly", status in (1, 2), True)
    if "ptrace" not in said:
        raise Failure(said)
    return next(line.strip() for line in said.splitlines() if "ptrace" in line)


def build(folder: Path, *, path: str = "", sources: Path | None = None, disk: str = "", wait: bool = True):
    """`weft kernel build` with a cache of its own, and with these sources in place of the machine's: its status and what it says, or the process."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    script = 'set -e; [ -z "$SOURCES" ] || { mkdir -p /usr/src; mount --bind "$SOURCES" /usr/src; }; [ -z "$DISK" ] || mount -t tmpfs -o size=$DISK tmpfs "$CACHE"; '
    script += 'PATH="$TOOLS" "$WEFT" kernel build && s=0 || s=$?; ls -A "$CACHE" > "$LEFT"; exit $s' if wait else 'PATH="$TOOLS" exec "$WEFT" kernel build'
    environment = {"PATH": os.environ["PATH"], "TOOLS": path or os.environ["PATH"], "WEFT": weft.binary(), "WEFT_KERNELS": str(cache), "CACHE": str(cache), "DISK": disk,
                   "SOURCES": str(sources or ""), "LEFT": str(folder / "left"), "LC_ALL": "C", "HOME": str(folder)}
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [paths.tool("unshare"), "--mount", *user, "/bin/sh", "-c", script]
    if not wait:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX)
    expect("what is left in the cache", (folder / "left").read_text(), "")
    return done.returncode, done.stderr


def with_tools(folder: Path, **scripts: str) -> str:
    """A PATH in front of which programs stand that do nothing, or what is said."""
    tools = folder / "tools"
    tools.mkdir()
    for name in {*TOOLS, *scripts}:
        (tools / name).write_text("#!/bin/sh\n" + scripts.get(name, "exit 0") + "\n")
        (tools / name).chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def sources(folder: Path) -> Path:
    """An archive that is called as Debian's is, of eight megabytes that cannot be compressed."""
    made = folder / "src"
    (made / "linux-source-6.12").mkdir(parents=True)
    (made / "linux-source-6.12" / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 0\n")
    (made / "linux-source-6.12" / "big").write_bytes(os.urandom(8 << 20))
    archive = [paths.tool("tar"), "-cJf", "linux-source-6.12.tar.xz", "linux-source-6.12"]
    subprocess.run(archive, cwd=made, check=True, env={**os.environ, "XZ_OPT": "-0"})
    return made


def missing_packages(folder: Path) -> str:
    """Everything that is missing is named at once, with the packages that have it."""
    (folder / "src").mkdir()
    (folder / "none").mkdir()
    status, said = build(folder, path=f"{folder / 'none'}", sources=folder / "src")
    expect("status", status, 2)
    for word in ("make", "flex", "bison", "linux-source-6.12", "apt-get install"):
        if word not in said:
            raise Failure(said)
    return said.splitlines()[0]


def full_disk(folder: Path) -> str:
    """A cache that has no room for the sources."""
    status, said = build(folder, path=with_tools(folder, xz=f'exec {paths.tool("xz")} "$@"'), sources=sources(folder), disk="2m")
    expect("status", status, 2)
    if "has no room left" not in said:
        raise Failure(said)
    return next(line.strip() for line in said.splitlines() if "no room" in line)


def build_ended(folder: Path) -> str:
    """SIGTERM ends a build with all that it started; SIGKILL leaves a folder, which the next build takes away."""
    path, made = with_tools(folder, tar="sleep 1000"), sources(folder)
    cache = folder / "cache"
    for number, status in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        process = build(folder, path=path, sources=made, wait=False)
        wait_until("a build that has begun", lambda: list(cache.glob(".build-*")) or process.poll() is not None)
        os.kill(process.pid, number)
        expect("status", process.wait(SECONDS_MAX), status)
        expect("what is left", len(list(cache.iterdir())), int(number == signal.SIGKILL))
    subprocess.run(["pkill", "-f", "sleep 1000"], check=False)
    (folder / "tools" / "tar").write_text("#!/bin/sh\necho no; exit 1\n")
    status, said = build(folder, path=path, sources=made)
    expect("status of the next", (status, "tar failed" in said), (2, True))
    return "nothing is left"


# What a process in a kernel's place does (no_kernel.c has each), and what weft says of it; none: the world goes on to its end.
WAYS = {
    "loops": "its clock stands", "half a message": "half a message", "lives on": "has let go of its clock, and runs on", "does not read": "does not read what it is told",
    "cuts its calendar": None, "overfull queue": "more in it than it has entries", "half a device's message": "half a message", "chatters": "its clock stands",
    "empty frames": "a frame of 0 bytes", "deaf device": "does not read what it is told", "full socket": "does not read what it is told",
    "no socket": "Socket operation on non-socket", "slow": None, "changes its mind": None,
}


def no_kernel(folder: Path) -> str:
    """Whatever a process in a kernel's place says: the run ends by itself, names the node and what is wrong, and leaves nothing; who is only slow is waited for."""
    runs = {}
    for number, way in enumerate(WAYS, start=1):
        kernel = folder / "kernels" / f"way{number}"
        kernel.mkdir(parents=True)
        source = paths.ROOT / "tests" / "faults" / "no_kernel.c"
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-DWAY={number}", "-o", kernel / "linux", source], check=True)
        (kernel / "kernel.json").write_text(json.dumps({"name": f"way{number}", "release": "6.12.1", "key": f"way{number}", "hash": "0"}))
        wires = "" if way == "slow" else '[nodes.b]\n[wires.ab]\nbetween = ["a", "b"]\nrate = "100mbit"\n'
        world = folder / f"{number}.toml"
        world.write_text(f'duration = "20ms"\n[nodes.a]\nkind = "linux"\nkernel = "way{number}"\n{wires}')
        environment = {**os.environ, "WEFT_KERNELS": str(folder / "kernels")}
        runs[way] = subprocess.Popen([weft.binary(), "sim", str(world)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                     text=True, env=environment)
    wrong = []
    try:
        for way, process in runs.items():
            _, said = process.communicate(timeout=SECONDS_MAX)
            why = WAYS[way]
            holds = process.returncode == (0 if why is None else 1) and (why is None or why in said and "node 'a'" in said)
            wrong += [] if holds else [f"{way}: {process.returncode}, {said}"]
            if list(FOLDERS.glob(f"weft-kernel-{process.pid}-*")):
                wrong.append(f"{way}: its folder is left")
    finally:
        for process in runs.values():
            process.kill()
    if wrong:
        raise Failure("\n".join(wrong))
    return f"{len(runs)} ways"


def flood(folder: Path) -> str:
    """A guest whose root says much at once where process 1 speaks: it is read as fast as it comes."""
    run = Run(folder, "import os; os.system('mount -t hostfs none /mnt -o node'); open('/mnt/status', 'a').write('ready\\n' * 3000000 + 'nonsense\\n')")
    fails(run, "its process 1 says 'nonsense'")
    return "18 MB"


WITH_KERNEL = {"killed": kernel_killed, "weft killed": weft_killed, "weft ended": weft_ended, "other namespace": other_namespace, "panic": panic, "planted": planted, "talkative": talkative, "flood": flood, "bound anew": bound_anew, "no ptrace": no_ptrace}
WITHOUT_KERNEL = {"no kernel": no_kernel}
BUILDS = {"missing packages": missing_packages, "full disk": full_disk, "ended": build_ended}


def has_kernel() -> bool:
    return bool(json.loads(subprocess.run([weft.binary(), "kernel", "list", "--json"], capture_output=True, text=True, check=True).stdout))


def run(body) -> str:
    # The cache of kernels lies where every user can look, and a node has a /tmp of its own.
    with tempfile.TemporaryDirectory(prefix="weft-kernel-faults-", dir="/var/tmp") as folder:
        return body(Path(folder))
