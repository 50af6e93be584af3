"""Blocks of users' own that fail: isolated, named, and their path closed or bypassed as told; a native object of another interface version.

Each is a C source, as somebody would write it, in a world of two nodes whose datagrams pass it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

INCLUDE = paths.ROOT / "crates" / "plugin" / "include"
SECONDS_MAX = 120
MILLION = 1_000_000
# Datagrams before the block is put in, and behind.
BEFORE, BEHIND = 50, 50

HEAD = r'''
#include "weft-block.h"
WEFT_BLOCK("name = \"bad\"\nversion = \"1\"\nsummary = \"fails\"\n[[input]]\nname = \"in\"\ncarries = \"any\"\ndoc = \"d\"\n[[output]]\nname = \"out\"\ncarries = \"any\"\ndoc = \"d\"\n")
static int one;
void *weft_block_new(void) { return &one; }
'''

# Of an older interface: all of its functions, and no number.
CONSTRUCTOR = r'''
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) { close(open("SAID", O_CREAT | O_WRONLY, 0600)); for (;;) pause(); }
unsigned weft_block_interface(void) { return 1; }
void weft_block_host(const void *host) { (void)host; }
const char *weft_block_manifest(void) { return ""; }
void *weft_block_new(void) { return 0; }
void weft_block_process(void) {}
'''

# What the block does with a vector, and what is said of it. The first two frames it treats well, so that it fails while traffic flows.
CASES: dict[str, tuple[str, str]] = {
    "trap": ("__builtin_trap();", "it trapped: "),
    "outside its memory": ("*(volatile uint32_t *)0xfffffff0u = 1;", "it trapped: "),
    "endless loop": ("for (volatile int i = 0;; i++) {}", "it used up its fuel of 20000000 in one call"),
    "endless allocation": ("for (;;) __builtin_wasm_memory_grow(0, 16);", "it wanted more than 16777216 bytes of memory"),
    "nonsense verdict/port": ("frames[at].verdict = WEFT_FORWARD(200);", "it gave the verdict 'through port 200', and it has 1 outputs"),
    "nonsense verdict/reason": ("frames[at].verdict = WEFT_DROP(0);", "it gave the verdict 'dropped for reason 0', and it has 0 reasons"),
    "nonsense verdict/number": ("frames[at].verdict = 0x7fffffffu;", "it gave the verdict 0x7fffffff, which is none"),
    "nonsense verdict/none": ("frames[at].verdict = 0xffffffffu;", "it gave no verdict"),
    "nonsense length": ("frames[at].length = 4000000000u; frames[at].edited = WEFT_EDITED_BYTES;", "it wrote 4000000000 bytes where "),
}

BODY = r'''
void weft_block_process(void *self, uint32_t input, weft_frame *frames, uint32_t count) {
    (void)self; (void)input;
    for (uint32_t at = 0; at < count; at++) {
        frames[at].verdict = WEFT_FORWARD(0);
        if (one++ >= 2) { DO }
    }
}
'''

WORLD = '''
duration = "2s"
blocks_may_fail = true
[nodes.a]
[nodes.b]
[wires.w]
between = ["a", "b"]
[programs.sink]
node = "b"
builtin = "udp-sink"
port = 9000
[programs.send]
node = "a"
builtin = "udp-cbr"
to = "b:9000"
rate = "800kbit"
size = 1000
count = COUNT
[[events]]
at = "495ms"
node = "a"
control = ["load bad.wasm", "add guard bad on_failure=POLICY", "insert guard ip4:lower arp:upper"]
'''


def wasm(folder: Path, body: str) -> None:
    (folder / "bad.c").write_text(HEAD + BODY.replace("DO", body))
    compiled(folder, paths.tool("clang"), "--target=wasm32", "-O1", "-nostdlib", "-Wl,--no-entry", "-o", "bad.wasm", "bad.c")


def compiled(folder: Path, *words: str) -> None:
    done = subprocess.run([*words, "-I", str(INCLUDE)], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode != 0:
        raise Failure(f"{words[0]}: {done.stderr[-1500:]}")


def isolated(case: str, policy: str) -> str:
    body, why = CASES[case]
    with tempfile.TemporaryDirectory(prefix="weft-block-") as made:
        folder = Path(made)
        wasm(folder, body)
        (folder / "world.toml").write_text(WORLD.replace("COUNT", str(BEFORE + BEHIND)).replace("POLICY", policy))
        runs = [_run(folder, "sim", "world.toml", "--json") for _ in range(2)]
        hashes = {json.loads(run.stdout)["hash"] for run in runs}
        if len(hashes) != 1:
            raise Failure(f"two runs come to {hashes}")
        summary = json.loads(runs[0].stdout)
        received = next(row["figures"]["received"] for row in summary["programs"] if row["name"] == "sink")
        wanted = BEFORE + (BEHIND if policy == "bypass" else 2)
        if received != wanted:
            raise Failure(f"{received} datagrams arrived, expected {wanted}: {runs[0].stderr}")
        said = [line for line in runs[0].stderr.splitlines() if "guard" in line]
        if len(said) != 1 or why not in said[0] or "block guard (bad 1+" not in said[0]:
            raise Failure(f"expected once: block guard … has failed: {why}…; found: {runs[0].stderr}")
        strict = _run(folder, "sim", "world.toml", "--set", "blocks_may_fail=false", status=1)
        if "not as expected: block 'guard' of 'a' does not fail" not in strict.stderr:
            raise Failure(f"where it may not fail: {strict.stderr}")
        return said[0].strip()


def wrong_version(_: str = "") -> str:
    """Both numbers are named, natively and as WebAssembly, and the stack that asks for it does not come up."""
    said = []
    with tempfile.TemporaryDirectory(prefix="weft-block-") as made:
        folder = Path(made)
        header = (INCLUDE / "weft-block.h").read_text()
        if "#define WEFT_BLOCK_INTERFACE 1\n" not in header:
            raise Failure("weft-block.h does not define WEFT_BLOCK_INTERFACE as 1")
        (folder / "weft-block.h").write_text(header.replace("#define WEFT_BLOCK_INTERFACE 1\n", "#define WEFT_BLOCK_INTERFACE 7\n"))
        (folder / "bad.c").write_text(HEAD + BODY.replace("DO", ""))
        for name, words in (("bad.so", (paths.tool("cc"), "-shared", "-fPIC")),
                            ("bad.wasm", (paths.tool("clang"), "--target=wasm32", "-O1", "-nostdlib", "-Wl,--no-entry"))):
            compiled(folder, *words, "-o", name, "bad.c")
            (folder / "stack.toml").write_text(f'[graph]\nload = ["{name}"]\n')
            done = _run(folder, "check", "stack.toml", status=2)
            if "built for version 7 of the block interface, this weft has 1" not in done.stderr or "stack.toml:2" not in done.stderr:
                raise Failure(f"{name}: {done.stderr}")
            said.append(done.stderr.splitlines()[0])
    return said[0]


def not_run(_: str = "") -> str:
    """Nothing of an object runs that is no block of this interface: its constructor would leave a file behind and never end. A module of a
    million functions is refused for its size. In both worlds."""
    said = []
    with tempfile.TemporaryDirectory(prefix="weft-block-") as made:
        folder = Path(made)
        (folder / "bad.c").write_text(CONSTRUCTOR.replace("SAID", str(folder / "said")))
        compiled(folder, paths.tool("cc"), "-shared", "-fPIC", "-o", "bad.so", "bad.c")
        (folder / "bad.wasm").write_bytes(million_functions())
        (folder / "world.toml").write_text('duration = "1s"\n[nodes.a]\n[[events]]\nat = "1ms"\nnode = "a"\ncontrol = ["load FILE"]\n')
        world = (folder / "world.toml").read_text()
        for name, why in (("bad.so", "it has no weft_block_interface_number: build it anew"), ("bad.wasm", "the limit of 10000 functions")):
            (folder / "stack.toml").write_text(f'[graph]\nload = ["{name}"]\n')
            (folder / "world.toml").write_text(world.replace("FILE", name))
            for words in (("check", "stack.toml"), ("sim", "world.toml")):
                done = _run(folder, *words, status=2)
                if why not in done.stderr:
                    raise Failure(f"{' '.join(words)}: expected '{why}', found {done.stderr}")
            said.append(done.stderr.splitlines()[0].strip())
        if (folder / "said").exists():
            raise Failure("the object's constructor has run")
    return "; ".join(said)


def million_functions() -> bytes:
    """The smallest module with so many."""
    def number(value: int) -> bytes:
        low, rest = value & 0x7F, value >> 7
        return bytes([low | 0x80]) + number(rest) if rest else bytes([low])

    def section(kind: int, count: int, one: bytes) -> bytes:
        content = number(count) + one * count
        return bytes([kind]) + number(len(content)) + content

    return (b"\0asm\1\0\0\0" + section(1, 1, b"\x60\0\0") + section(3, MILLION, b"\0") + section(10, MILLION, b"\2\0\x0b"))


def _run(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([weft.binary(), *words], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failure(f"weft {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done
