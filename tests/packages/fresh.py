"""The wheel in a fresh environment of Python, without an index: the command, the package, the plug-in, pages and completions; and nothing stays."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure
from package import metadata, place, stage, wheels
from virtual.shared import SECONDS_MAX, expect

# A world of objects, run by the command of the environment.
SCRIPT = """
from weft import Node, Program, Wire, World
world = World(nodes={"a": Node(), "b": Node()}, wires={"ab": Wire(["a", "b"], rate="10mbit", delay="5ms")}, programs={
    "sink": Program("b", builtin="tcp-sink", port=5001), "send": Program("a", builtin="tcp-send", to="b:5001", bytes=100_000)})
print(world.run(seed=1).hash)
"""
# What pip leaves when everything has gone: its own, and folders.
VENV_WORDS = ("-m", "venv")


def run(words: list[str], wanted: int = 0, **options) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, **options)
    if done.returncode != wanted:
        raise Failure(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def of_this_weft(folder: Path) -> Path:
    """A wheel of the weft that is tested. It is no package for others: it wants a glibc as new as this machine's."""
    stripped = folder / "weft"
    run(["strip", "-o", str(stripped), weft.binary()])
    return wheels.command(stripped, "py3-none-linux_x86_64", folder / "dist")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.suffix != ".pyc"}


def wheel(folder: Path) -> str:
    """Installed by one command, used, and removed."""
    made = of_this_weft(folder)
    environment = folder / "environment"
    run([paths.PYTHON, *VENV_WORDS, str(environment)])
    before = files(environment)
    pip = [str(environment / "bin/pip"), "--disable-pip-version-check"]
    # What it depends on comes from the environment of the tests, as a folder: there is no index.
    needed = folder / "needed"
    for name in ("tomli_w",):
        shutil.copytree(site(place.VENV) / name, needed / name)
    run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(made)])
    clean = {key: value for key, value in os.environ.items() if key not in ("WEFT_BIN", "PYTHONPATH", "VIRTUAL_ENV")}
    # The command of the environment is found without activating it.
    variables = {**clean, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(needed), "HOME": str(folder)}
    python = str(environment / "bin/python")
    expect("version", run([str(environment / "bin/weft"), "--version"], env=variables).split()[1], place.version())
    told = run([python, "-c", SCRIPT], env=variables).strip()
    expect("which command", run([python, "-c", "from weft import _command; print(_command.binary())"], env=variables).strip(), str(environment / "bin/weft"))
    there = files(environment)
    wanted = {to for name, to in stage.COMPLETIONS.items()} | {"share/man/man1/weft.1.gz", "share/man/man5/weft-stack.5.gz", "share/weft/schema/scenario.schema.json",
                                                               "share/weft/examples/twin/download.toml", "share/weft/docs/examples/web.toml", "share/weft/tools/gdb/weft.py", "share/doc/weft-net/copyright"}
    if missing := {name for name in wanted if name not in there}:
        raise Failure(f"not installed: {sorted(missing)}")
    same_metadata(site(environment) / metadata.folder())
    run([*pip, "uninstall", "--quiet", "--yes", "weft-net"])
    expect("what is left", files(environment) - before, set())
    return f"hash {told}, {made.stat().st_size / 1e6:.1f} MB"


def same_metadata(of_the_wheel: Path) -> None:
    """Other packages say the same of the Python package as the wheel, which hatchling has made."""
    ours = metadata.files("somebody")
    expect("entry_points.txt", ours["entry_points.txt"].strip(), (of_the_wheel / "entry_points.txt").read_text().strip())
    one, other = (email.message_from_string(text) for text in (ours["METADATA"], (of_the_wheel / "METADATA").read_text()))
    # Its version is the newest that whoever wrote it knows.
    for message in (one, other):
        del message["Metadata-Version"]
    expect("METADATA", one.items(), other.items())
    expect("its text", one.get_payload(), other.get_payload())


def site(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def install(folder: Path) -> str:
    """`make install` into a PREFIX below DESTDIR: the command runs from there, pkg-config says where the library will be, and make uninstall takes all away."""
    variables = {"PREFIX": "/opt/weft", "DESTDIR": str(folder)}
    run(["make", "--silent", "-C", str(paths.ROOT), "install"], env={**os.environ, **variables, "WEFT_PREPARED": "1"})
    prefix = folder / "opt/weft"
    expect("version", run([str(prefix / "bin/weft"), "--version"]).split()[1], place.version())
    flags = run(["pkg-config", "--libs", "--cflags", "weft"], env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}).split()
    expect("pkg-config", flags, ["-I/opt/weft/include", "-L/opt/weft/lib", "-lweft"])
    many = len(files(prefix))
    run(["make", "--silent", "-C", str(paths.ROOT), "uninstall"], env={**os.environ, **variables, "WEFT_PREPARED": "1"})
    expect("what is left", (files(folder), prefix.exists()), (set(), False))
    return f"{many} files"


def scripts(folder: Path) -> str:
    """install.sh and uninstall.sh, with a small tree: what was there before stays, empty folders too; all that they made goes. They explain themselves."""
    tree, before = folder / "unpacked", {"there", "there/bin", "there/share", "there/share/man", "there/man"}
    stage.scripts(tree)
    stage.python(tree, "share/weft/python", "install.sh")
    for name in ("bin/weft", "lib/libweft.so.0", "share/man/man1/weft.1.gz"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
        (tree / name).chmod(0o755)
    (tree / "include").mkdir()
    (tree / "lib/pkgconfig").mkdir()
    shutil.copy2(place.FILES / "weft.pc", tree / "lib/pkgconfig")
    many = len(files(tree)) - 1
    for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"]):
        one = folder / shell[0]
        for name in ("there/bin", "there/share/man"):
            (one / name).mkdir(parents=True)
        (one / "there/man").symlink_to("share/man")
        for name in ("there", "it's  an Übungs & $HOME|ordner", "there"):
            target, uninstall = one / name, [*shell, str(one / name / "share/weft/uninstall.sh")]
            said = run([*shell, str(tree / "install.sh"), str(target)])
            # Once more: it takes the place of the first.
            expect("twice", run([*shell, str(tree / "install.sh"), str(target)]), said)
            expect("its line for PATH", run(["sh", "-c", f"{said.splitlines()[-1]}; command -v weft"], env={"PATH": "/usr/bin"}), f"{target}/bin/weft\n")
            asks = {**os.environ, "PKG_CONFIG_PATH": str(target / "lib/pkgconfig")}
            expect("pkg-config", run(["sh", "-c", "pkg-config --cflags weft | xargs -n1 echo"], env=asks), f"-I{target}/include\n")
            run([paths.PYTHON, "-m", "compileall", "-q", str(target / "share/weft/python")])
            run([*uninstall, "--keep"], 2)
            if "Removes what weft's install.sh" not in run([*uninstall, "--help"]) or not (target / "bin/weft").exists():
                raise Failure("uninstall.sh --help")
            expect("uninstall.sh", run(uninstall), f"removed {many} files of weft from {target}\n")
            expect("what is left", {str(path.relative_to(one)) for path in one.rglob("*")}, before)
        run([*shell, str(tree / "install.sh"), "--prefix=/opt"], 2)
        run([*shell, str(tree / "install.sh"), "/opt", "weft"], 2)
        if "./install.sh [PREFIX]" not in run([*shell, str(tree / "install.sh"), "--help"]):
            raise Failure("install.sh --help")
    return f"{many} files, by three shells"


def release(folder: Path) -> str:
    """A version, in a repository of its own: its number in each file, CHANGELOG's part, a commit and a tag; and what cannot be one."""
    clone = folder / "clone"
    for name in run([*paths.GIT, "-C", str(place.ROOT), "ls-files", "-z"]).split("\0"):
        if (place.ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(place.ROOT / name, clone / name)
    git = ["git", "-C", str(clone)]
    run([*git, "init", "--quiet"])
    for key, value in (("user.name", "nobody"), ("user.email", "nobody@example.org")):
        run([*git, "config", key, value])
    run([*git, "add", "."])
    run([*git, "commit", "--quiet", "--message", "As it is"])
    (clone / "target").mkdir()
    (clone / "target/venv").symlink_to(place.VENV)
    variables = {**os.environ, "PYTHONPATH": str(clone / "tools")}

    def made(number: str, status: int = 0) -> None:
        run([paths.PYTHON, "-m", "package.release", number], status, cwd=clone, env=variables)

    old = place.version()
    major, minor, patch = map(int, old.split("."))
    new = f"{major}.{minor + 1}.0"
    for number in ("", "next", old, f"{major}.{minor}.{patch - 1}"):
        made(number, 1)
    (clone / "README.md").write_text("changed")
    made(new, 1)
    run([*git, "checkout", "--quiet", "README.md"])
    made(new)
    # Nothing is new since.
    made(f"{major + 1}.0.0", 1)
    changed = run([*git, "show", "--format=", "--name-only", f"v{new}^{{commit}}"]).split()
    expect("changed", sorted(changed), ["CHANGELOG.md", "Cargo.lock", "Cargo.toml", "python/pyproject.toml"])
    expect("an annotated tag", run([*git, "cat-file", "-t", f"v{new}"]).strip(), "tag")
    expect("left", run([*git, "status", "--porcelain"]), "")
    for name in ("Cargo.toml", "python/pyproject.toml", "Cargo.lock"):
        expect(f"{name} has the number", f'version = "{new}"' in (clone / name).read_text(), True)
    expect("CHANGELOG.md has a part", f"## Unreleased\n\n## {new} – " in (clone / "CHANGELOG.md").read_text(), True)
    return f"{old} becomes {new}"


ROWS = {"release": release, "wheel/fresh environment": wheel, "make install": install, "install.sh": scripts}
