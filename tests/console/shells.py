"""What shells offer behind a half-written word: what the running stack and world have, and nothing, without a word, where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .stack import SECONDS_MAX, Stack

SCRIPTS = paths.ROOT / "docs/completions"
# As bash parts the words of a line, and calls what completes them. A trailing space begins a new word.
ASK = r"""
. "$1"
line=$2
COMP_LINE=$line COMP_POINT=${#line}
COMP_WORDS=() current=
rest=$line
while [[ $rest ]]; do
    if [[ $rest =~ ^[[:space:]]+ ]]; then
        rest=${rest:${#BASH_REMATCH}}
        [[ $rest ]] || COMP_WORDS+=("")
    elif [[ $rest =~ ^[=:]+ || $rest =~ ^[^[:space:]=:]+ ]]; then
        COMP_WORDS+=("$BASH_REMATCH")
        rest=${rest:${#BASH_REMATCH}}
    fi
done
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
current=${COMP_WORDS[COMP_CWORD]}
[[ $current == [=:] ]] && current=
_weft weft "$current" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
# A line, and what is offered: the first that is, or all with a bar between.
OF_STACK = {
    "weft set tcp.cong": "tcp.congestion",
    "weft set tcp.congestion b": "balia|bbr",
    "weft get ip4.forw": "ip4.forward|ip4.forward_from",
    "weft bind tcp:i": "ip4|ip6",
    "weft bind ether:": "arp|ip4|ip6|lower|other",
    "weft insert wan ether:lower interfaces:up": "upper",
    "weft add wan del": "delay",
    "weft add wan delay del": "delay=",
    "weft exec arp fl": "flush",
    "weft exec ar": "arp",
    "weft extract ud": "udp",
    "weft show pub": "published",
    "weft sn": "snapshot",
    "weft help ker": "kernel",
    "weft help kernel ": "build|coverage|list|remove",
    "weft help block ip4": "ip4",
    "weft help sc": "scenario",
    "weft new ": "block",
    "weft run --stack st": "stack.toml",
    "weft up --set tcp.ms": "tcp.mss|tcp.mss_min",
    "weft check wor": "world.toml",
    "weft sim world.toml --set wires.ab.de": "wires.ab.delay=",
    "weft sim world.toml --set nodes.al": "nodes.alice.",
    "weft sim world.toml --set=seed": "seed=",
}
OF_WORLD = {
    "weft exec al": "alice",
    "weft show blocks --node ": "alice|bob",
    "weft set --node bob tcp.cong": "tcp.congestion",
    "weft set --node=bob tcp.sack ": "false|true",
}
WORLD = 'duration = "100000s"\n[nodes.alice]\n[nodes.bob]\n[nodes.lan]\nkind = "switch"\n[wires.ab]\nbetween = ["alice", "lan"]\n' \
        '[wires.bb]\nbetween = ["bob", "lan"]\n[programs.p]\nnode = "alice"\nbuiltin = "udp-cbr"\nto = "bob:9"\nrate = "8kbit"\nexpect = "any"\n'


def offers(stack: Stack, line: str) -> list[str]:
    """What bash offers but for options; nothing may be said beside it."""
    path = f"{stack.folder}/bin:{os.environ['PATH']}"
    words = ["bash", "--norc", "-c", ASK, "bash", str(SCRIPTS / "weft.bash"), line]
    done = subprocess.run(words, cwd=stack.folder, env={**stack.environment, "PATH": path}, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode or done.stderr:
        raise Failure(f"{line!r}: {done.returncode}: {done.stderr}")
    return [word for word in done.stdout.split() if not word.startswith("--")]


def ready(stack: Stack) -> None:
    (stack.folder / "bin").mkdir()
    (stack.folder / "bin/weft").symlink_to(Path(str(paths.weft_binary())).resolve())
    (stack.folder / "world.toml").write_text(WORLD)


def check(stack: Stack, wanted: dict[str, str]) -> None:
    for line, offered in wanted.items():
        if (found := sorted(offers(stack, line))) != sorted(offered.split("|")):
            raise Failure(f"{line!r}: {found}, not {offered}")


def of_stack(stack: Stack) -> str:
    ready(stack)
    check(stack, OF_STACK)
    stack.daemon.kill()
    stack.daemon.wait()
    # The socket is there, and nobody behind it; then nothing is there.
    for line in ("weft set tcp.", "weft exec ar", "weft show blocks --node "):
        if found := offers(stack, line):
            raise Failure(f"{line!r} without a stack: {found}")
    return f"{len(OF_STACK)} lines, and nothing without a stack"


def of_world(stack: Stack) -> str:
    ready(stack)
    words = stack.command("sim", "world.toml", "--pace", "1.0")
    with subprocess.Popen(words, cwd=stack.folder, env=stack.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as world:
        assert world.stderr
        try:
            if "ready control=" not in (said := world.stderr.readline()):
                raise Failure(f"the world does not begin: {said!r}")
            check(stack, OF_WORLD)
        finally:
            world.kill()
    return f"{len(OF_WORLD)} lines"


def other_shells(stack: Stack) -> str:
    """zsh and fish, where they are: the script is sound, and what the shell's protocol asks is answered."""
    ready(stack)
    environment = {**stack.environment, "PATH": f"{stack.folder}/bin:{os.environ['PATH']}", "_CLAP_COMPLETE_INDEX": "2", "_CLAP_IFS": "\n"}
    for shell in ("zsh", "fish", "elvish"):
        words = [str(stack.folder / "bin/weft"), "--", "weft", "set", "tcp.cong"]
        done = subprocess.run(words, cwd=stack.folder, env={**environment, "WEFT_COMPLETE": shell}, capture_output=True, text=True, timeout=SECONDS_MAX)
        if "tcp.congestion" not in done.stdout or done.stderr or done.returncode:
            raise Failure(f"{shell}: {done.stdout!r} {done.stderr!r}")
    there = [shell for shell in ("zsh", "fish") if shutil.which(shell)]
    for shell in there:
        subprocess.run([shell, "-n", str(SCRIPTS / f"weft.{shell}")], check=True, capture_output=True, timeout=SECONDS_MAX)
    return f"answered: zsh, fish, elvish; read by {', '.join(there) or 'neither, which are not here'}"


ROWS = {"shells/stack": of_stack, "shells/world": of_world, "shells/others": other_shells}
