"""Every artefact of dist/ in a fresh root of Debian: one command installs it, everything works there, one hash everywhere, and nothing stays."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import paths, roots, user
from harness.processes import Failure
from package import place
from virtual.shared import SECONDS_MAX, expect

# Debian's own packages in a root: what a wheel wants, and what a session would have.
PACKAGES = "python3,python3-venv,python3-tomli-w,iproute2"
OLD, NEW = "bookworm", "trixie"
DIST = f"{roots.WORK}/dist"
# Both kinds of traffic that need nothing of the system, and a Linux kernel as a node where there is one.
WORLD = """
seed = 7
[nodes.a]
[nodes.b]
[wires.ab]
between = ["a", "b"]
rate = "10mbit"
delay = "5ms"
loss = 0.01
[programs.sink]
node = "b"
builtin = "tcp-sink"
port = 5001
[programs.send]
node = "a"
builtin = "tcp-send"
to = "b:5001"
bytes = 1000000
"""
KERNEL = WORLD.replace("[nodes.b]", '[nodes.b]\nkind = "linux"').replace('builtin = "tcp-sink"\nport = 5001', 'command = ["sleep", "1"]').replace(
    '[programs.send]\nnode = "a"\nbuiltin = "tcp-send"\nto = "b:5001"\nbytes = 1000000\n', '[programs.ping]\nnode = "a"\nbuiltin = "ping"\nto = "b"\ncount = 3\n')
# A server and a client on one stack of weft's: Perl is part of every Debian.
TALK = """use IO::Socket::INET;
my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => '10.77.0.2', LocalPort => 7777) or die "listen: $!";
if (!fork) { my $c = IO::Socket::INET->new(PeerAddr => '10.77.0.2', PeerPort => 7777) or die "connect: $!"; print $c "through weft\\n"; exit 0 }
my $c = $l->accept; print scalar <$c>; wait;
"""
# What pytest asks for, and the package as it is imported.
PLUG_IN = """import importlib.metadata as of, weft
print(*(point.value for point in of.entry_points(group="pytest11") if point.name == "weft"))
print(of.version("weft-net"), of.distribution("weft-net").read_text("INSTALLER"))
"""
# What systems note about what was installed, wherever it came from, and what programs write into a home.
NOTES = ("var/lib/dpkg/", "var/log/", "var/cache/", "var/lib/apt/", "etc/ld.so.cache", "mnt/", "tmp/", "run/", "root/", "home/", "proc/", "dev/")


@dataclasses.dataclass(frozen=True)
class Artefact:
    """How it comes into a root, and out of it again."""

    name: str
    release: str
    install: str
    remove: str
    # Where it is then.
    prefix: str = "/usr"
    kernels: bool = True
    zsh: str = "share/zsh/site-functions/_weft"
    # The interpreter that has the package, what it has to be told for that, and who has put it there.
    python: str = "/usr/bin/python3"
    python_path: str = ""
    installer: str = "apt"


DEB = ("apt-get install -qq -y --no-install-recommends {dist}/weft-net_*.deb {dist}/weft-net-dev_*.deb {dist}/weft-kernel_*.deb",
       "apt-get purge -qq -y weft-net weft-net-dev weft-kernel")
RPM = ("cd / && for rpm in {dist}/*.rpm; do rpm2cpio $rpm | cpio --quiet -idm; done",
       "cd / && for rpm in {dist}/*.rpm; do rpm2cpio $rpm | cpio --quiet -t | while read f; do rm -f $f; done; done")
ARTEFACTS = (
    Artefact("deb", OLD, *DEB, zsh="share/zsh/vendor-completions/_weft"),
    Artefact("deb", NEW, *DEB, zsh="share/zsh/vendor-completions/_weft"),
    Artefact("rpm", OLD, *RPM, python_path="/usr/share/weft/python", installer="rpm"),
    Artefact("tarball", OLD, "cd /root && tar -xzf {dist}/weft-net-*-x86_64-linux.tar.gz && ./weft-net-*/install.sh && rm -rf weft-net-*",
             "sh /usr/local/share/weft/uninstall.sh", "/usr/local", kernels=False,
             python_path="/usr/local/share/weft/python", installer="install.sh"),
    Artefact("wheel", OLD, "python3 -m venv /opt/weft && /opt/weft/bin/pip install -q --no-index {dist}/*.whl", "rm -rf /opt/weft", "/opt/weft",
             python="/opt/weft/bin/python3", installer="pip"),
    Artefact("wheel", NEW, "python3 -m venv /opt/weft && /opt/weft/bin/pip install -q --no-index {dist}/*.whl", "rm -rf /opt/weft", "/opt/weft",
             python="/opt/weft/bin/python3", installer="pip"),
)


@functools.lru_cache(maxsize=None)
def shelf() -> Path:
    """Roots that nothing has been installed into; they last as long as the tests."""
    folder = Path(tempfile.mkdtemp(prefix="weft-roots-", dir="/var/tmp"))
    import atexit
    atexit.register(shutil.rmtree, folder, True)
    return folder


@functools.lru_cache(maxsize=None)
def fresh(release: str) -> Path:
    if os.geteuid() != 0:
        raise paths.MissingTool("debootstrap wants to be root; runs as root")
    return roots.unpacked(release, PACKAGES, shelf() / release)


class Root:
    """A fresh root with an artefact in it."""

    def __init__(self, artefact: Artefact, folder: Path) -> None:
        self.artefact, self.folder = artefact, folder
        folder.chmod(0o755)
        self.image = folder / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", str(fresh(artefact.release)), str(self.image)], check=True)
        (folder / "dist").mkdir()
        for path in place.DIST.iterdir():
            shutil.copy2(path, folder / "dist")
        self.weft = f"{artefact.prefix}/bin/weft"

    def run(self, *words: str, status: int = 0, as_user: bool = False) -> str:
        inside = [*(user.words() if as_user else []), "env", "HOME=/tmp", *words]
        done = subprocess.run([*roots.enter(self.image, self.folder, "--net"), *inside], capture_output=True, text=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode != status:
            raise Failure(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-2500:]}")
        return done.stdout

    def shell(self, text: str) -> str:
        return self.run("sh", "-ec", text.format(dist=DIST))

    def unpack_rpms(self) -> None:
        """rpm2cpio is no part of a small Debian: this machine's runs over the root."""
        for path in sorted((self.folder / "dist").glob("*.rpm")):
            unpacked = subprocess.run([paths.tool("rpm2cpio"), str(path)], capture_output=True, check=True).stdout
            subprocess.run([paths.tool("cpio"), "--quiet", "-idm"], cwd=self.image, input=unpacked, check=True)
            listed = subprocess.run([paths.tool("cpio"), "--quiet", "-t"], input=unpacked, capture_output=True, check=True).stdout.decode()
            self.came = [*getattr(self, "came", []), *listed.split("\n")]

    def install(self) -> None:
        if self.artefact.name == "rpm":
            self.unpack_rpms()
        else:
            self.shell(self.artefact.install)

    def remove(self) -> None:
        if self.artefact.name == "rpm":
            for name in filter(None, self.came):
                (self.image / name).unlink(missing_ok=True)
        else:
            self.shell(self.artefact.remove)

    def files(self) -> set[str]:
        found = {str(path.relative_to(self.image)) for path in self.image.rglob("*") if path.is_symlink() or not path.is_dir()}
        return {name for name in found if not name.startswith(NOTES) and not name.endswith(".pyc")}

    def folders(self) -> set[str]:
        """What was there before has to stay, empty or not; programs look into some of these by links."""
        return {f"{name}/" for name in (str(path.relative_to(self.image)) for path in self.image.rglob("*") if path.is_dir()) if not f"{name}/".startswith(NOTES)}


# One hash, wherever it was come to.
HASHES: dict[str, tuple[str, str]] = {}


def same_hash(root: Root, name: str, text: str) -> str:
    (root.folder / f"{name}.toml").write_text(text)
    got = json.loads(root.run(root.weft, "sim", f"{roots.WORK}/{name}.toml", "--json", as_user=True))["hash"]
    where, first = HASHES.setdefault(name, (f"{root.artefact.name}/{root.artefact.release}", got))
    if got != first:
        raise Failure(f"{name}: {got}, and {first} in {where}")
    return got


def works(root: Root) -> str:
    """All that somebody does with it on the first day."""
    artefact = root.artefact
    expect("version", root.run(root.weft, "--version").split()[1], place.version())
    for as_user in (False, True):
        told = {row["ability"]: row for row in json.loads(root.run(root.weft, "doctor", "--json", as_user=as_user))["abilities"]}
        for name in ("virtual time: built-in traffic", "virtual time: programs", "real time: weft run"):
            expect(f"doctor{' as a user' if as_user else ''}: {name}", (told[name]["works"], told[name]["said"]), (True, None))
    said = same_hash(root, "world", WORLD)
    (root.folder / "talk.pl").write_text(TALK)
    expect("weft run", root.run(root.weft, "run", "--", "perl", f"{roots.WORK}/talk.pl"), "through weft\n")
    expect("weft run as a user", root.run(root.weft, "run", "--", "perl", f"{roots.WORK}/talk.pl", as_user=True), "through weft\n")
    if artefact.kernels:
        listed = [kernel["name"] for kernel in json.loads(root.run(root.weft, "kernel", "list", "--json"))]
        expect("kernels", listed, ["6.1", "6.12"])
        said += f", with a kernel {same_hash(root, 'kernel', KERNEL)}"
    for name, names in {"man1/weft.1.gz": "weft-sim(1)", "man5/weft-scenario.5.gz": "weft-twin(1)", "man5/weft-stack.5.gz": "weft-up(1)"}.items():
        page = root.image / artefact.prefix.lstrip("/") / "share/man" / name
        text = subprocess.run([paths.tool("man"), "-l", str(page)], capture_output=True, text=True, timeout=SECONDS_MAX, env={"MANWIDTH": "80", "PATH": os.environ["PATH"]})
        if text.returncode or names not in text.stdout:
            raise Failure(f"man {name}: {text.stdout[:400]}{text.stderr}")
    asks = "COMP_WORDS=(weft sn) COMP_CWORD=1 COMP_LINE='weft sn' COMP_POINT=7; _weft weft sn weft; echo ${COMPREPLY[*]}"
    completed = root.run("bash", "-c", f"PATH={artefact.prefix}/bin:$PATH; . {artefact.prefix}/share/bash-completion/completions/weft; {asks}")
    expect("completion", completed.strip(), "snapshot")
    root.shell(f"cp -r {artefact.prefix}/share/weft /tmp/examples; cd /tmp/examples; "
               f"{root.weft} sim docs/examples/dumbbell.toml --out dumbbell; rm -r /tmp/examples")
    found = root.run("env", f"PYTHONPATH={artefact.python_path}", artefact.python, "-c", PLUG_IN)
    expect("the plug-in of pytest, and who has installed it", found.split(), ["weft.pytest_plugin", place.version(), artefact.installer])
    named_schemas(root.image / artefact.prefix.lstrip("/") / "share/weft")
    if not (root.image / artefact.prefix.lstrip("/") / artefact.zsh).is_file():
        raise Failure(f"no {artefact.zsh}")
    return said


def named_schemas(share: Path) -> None:
    """The first line of each example leads to the schema that lies beside the examples."""
    examples = sorted(path for folder in ("examples", "docs/examples") for path in (share / folder).rglob("*.toml"))
    for path in examples:
        words = path.read_text().split("\n", 1)[0].split()
        if words[:1] != ["#:schema"] or (path.parent / words[1]).resolve().parent != (share / "schema").resolve() or not (path.parent / words[1]).is_file():
            raise Failure(f"{path} names no schema: {words}")
    if missing := gallery() - {str(path.relative_to(share)) for path in examples}:
        raise Failure(f"the gallery runs what is not in share/weft: {sorted(missing)}")


def gallery() -> set[str]:
    """The files that commands of the gallery name."""
    return set(re.findall(r"^\$ weft \w+ (\S+\.toml)", (paths.ROOT / "docs/gallery.md").read_text(), re.MULTILINE))


def installed(artefact: Artefact, folder: Path) -> str:
    root = Root(artefact, folder)
    before, folders = root.files(), root.folders()
    root.install()
    said = works(root)
    root.remove()
    left = root.files() - before
    expect("what is left", sorted(left)[:10], [])
    expect("what has gone", sorted((before - root.files()) | (folders - root.folders()))[:10], [])
    return said


def all_rows() -> dict[str, Callable[[Path], str]]:
    return {f"{artefact.name}/{artefact.release}": functools.partial(installed, artefact) for artefact in ARTEFACTS}
