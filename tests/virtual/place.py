"""The place of a node on its host: what root of a node may do with the host's files, a disk that outlives a crash, folders of the host's, and limits; each as root and as a user, with one hash
and what the programs must have said."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure

from .runs import Runs
from .shared import SECONDS_MAX, expect, keys, pair, program, section

# As root of a node: files that are the host's root's, changed, moved and given away; another user; a folder of a service.
ROOT = """
set -e
cp /etc/passwd /tmp/before
echo 'x:x:4711:4711::/:/bin/sh' >> /etc/passwd; tail -n 1 /etc/passwd
mv /etc/passwd /etc/passwd2; mv /etc/passwd2 /etc/passwd; head -n -1 /etc/passwd | cmp - /tmp/before && echo moved
chmod 600 /etc/group; stat -c '%a %u' /etc/group; chown 33:33 /etc/group; stat -c '%a %u %g' /etc/group
stat -c %i /etc/profile > /tmp/one; touch -d 2020-01-01 /etc/profile; stat -c %i /etc/profile | cmp - /tmp/one; stat -c %Y /etc/profile
ln /etc/issue /etc/issue2; rm /etc/issue; test -s /etc/issue2 && echo linked
install -d -o 33 /var/lib/new; stat -c %u /var/lib/new
chown -R 33 /var/lib/apt; stat -c %u /var/lib/apt/lists
head -c 6 /etc/shadow; echo; useradd --no-create-home somebody && getent passwd somebody | cut -d: -f1
su nobody -s /bin/sh -c 'id -un; touch /etc/mine 2>/dev/null || :'
touch /usr/bin/new 2>/dev/null || echo not in /usr
ls /etc/.weft* 2>/dev/null || echo nothing left
"""
ROOT_SAID = """x:x:4711:4711::/:/bin/sh
moved
600 0
600 33 33
1577836800
linked
33
33
root:*
somebody
nobody
nothing left
"""

LIFE = "for x in /srv /root /tmp /run /dev/shm /data; do cat $x/keep 2>/dev/null; done; stat -c %u /srv/theirs 2>/dev/null; stat -c %Y /srv /srv/keep 2>/dev/null; " \
    "mkdir -p /data; for x in /srv /root /tmp /run /dev/shm /data; do echo life >> $x/keep; done; touch /srv/theirs; chown 33 /srv/theirs; echo 'x' >> /etc/hosts; wc -l < /etc/hosts; sleep 100"


def event(at: str, **what) -> str:
    return f'[[events]]\nat = "{at}"\n' + keys(**what)


def disk(**again) -> str:
    return keys(duration="9s") + pair() + program("p", "a", "sh", "-c", LIFE, expect="running") \
        + event("2s", crash="a") + event("4s", restart="a", **again)


def said(out: Path, name: str) -> str:
    return (out / "programs" / name / "stdout").read_text()


def both(runs: Runs, text: str, name: str) -> str:
    """As root on one thread and as a user on two: one hash. What the program said."""
    first, out = runs.run(text)
    other, _ = runs.run(text, "--threads", "2", as_user=True)
    expect("as a user", other, first)
    return said(out, name)


def root(runs: Runs) -> str:
    lines = both(runs, section("nodes.a") + program("p", "a", "sh", "-c", ROOT), "p")
    # What is in /usr may be anybody's.
    expect("said", "".join(line for line in lines.splitlines(True) if line != "not in /usr\n"), ROOT_SAID)
    return f"{len(ROOT_SAID.splitlines())} things"


def survives(runs: Runs) -> str:
    # The second life only, or both: how much a program's earlier life shows is not asked here.
    kept = both(runs, disk(), "p").splitlines()
    for line in ("33", "1893456000"):
        if line not in kept:
            raise Failure(f"{line} is missing: {kept}")
    expect("files of the second life", kept.count("life"), 3)
    fresh = both(runs, disk(fresh_disk=True), "p").splitlines()
    expect("files on a fresh disk", fresh.count("life"), 0)
    return "three of six files were there again"


def redis(runs: Runs) -> str:
    """What redis has acknowledged is there after a crash."""
    server = ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "/var/lib", "--appendonly", "yes", "--appendfsync", "always"]
    text = keys(duration="9s") + pair() + program("server", "b", *server, expect="running") \
        + program("write", "a", "redis-cli", "-h", "b", "set", "n", "4711", start="1s") + program("read", "a", "redis-cli", "-h", "b", "get", "n", start="6s") \
        + event("2s", crash="b") + event("4s", restart="b")
    expect("read", both(runs, text, "read").strip(), "4711")
    return "4711"


def mounts(runs: Runs) -> str:
    data = runs.folder / "data"
    data.mkdir(exist_ok=True)
    (data / "x").write_text("of the host\n")
    data.chmod(0o755)
    look = "cat /data/x; touch /data/y 2>/dev/null || echo read-only"
    text = section("nodes.a", mounts={"/data": {"from": "./data"}}) + program("p", "a", "sh", "-c", look)
    expect("said", both(runs, text, "p"), "of the host\nread-only\n")
    return str(data)


def beside(binary: Path) -> str:
    """A script beside a scenario in /tmp is found."""
    with tempfile.TemporaryDirectory(prefix="weft-beside-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "library.py").write_text("def say(): print('found')\n")
        (folder / "script.py").write_text("import library\nlibrary.say()\n")
        (folder / "s.toml").write_text(section("nodes.a") + program("p", "a", "python3", "-B", str(folder / "script.py")))
        done = subprocess.run([str(binary), "sim", str(folder / "s.toml"), "--out", str(folder / "out")], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Failure(done.stdout[-500:] + done.stderr[-1500:])
        expect("said", said(folder / "out", "p"), "found\n")
    return "found"


def limits(runs: Runs) -> str:
    """What the shell allows does not show, and a limit that a program sets holds."""
    body = "import resource, os; print(resource.getrlimit(7)); resource.setrlimit(7, (10032, 524288)); print(resource.getrlimit(7)); resource.setrlimit(7, (40, 40))\n" \
        "files = []\ntry:\n    while len(files) < 99: files.append(os.open('/', 0))\nexcept OSError as error: print(error.errno)\nfor file in files: os.close(file)\n" \
        "print([line.split()[3:5] for line in open('/proc/self/limits') if 'open files' in line])"
    text = section("nodes.a") + program("p", "a", "python3", "-c", body)
    hash_, out = runs.run(text)
    expect("said", said(out, "p"), "(1024, 524288)\n(10032, 524288)\n24\n[['40', '40']]\n")
    binary, file = runs.folder / "weft", runs.folder / "limits.toml"
    file.write_text(text)
    done = subprocess.run(["sh", "-c", f"ulimit -n 4000; ulimit -s 4096; {binary} sim {file}"], capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL)
    if hash_ not in done.stdout:
        raise Failure(f"{hash_}, and with other limits\n{done.stdout}{done.stderr[-800:]}")
    return hash_


def rows(runs: Runs) -> dict[str, Callable[[Path], str]]:
    return {
        "root of a node": lambda _: root(runs),
        "disk": lambda _: survives(runs),
        "disk of redis": lambda _: redis(runs),
        "mounts": lambda _: mounts(runs),
        "beside the scenario": lambda _: beside(runs.folder / "weft"),
        "limits of a node": lambda _: limits(runs),
    }
