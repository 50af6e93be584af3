"""The acts of the demo. Each prints what a person wants to see and raises Failure when it is not so."""

from __future__ import annotations

import hashlib
import os
import random
import re
import sys
import time
from pathlib import Path

from harness import paths
from harness.environment import Environment
from harness.processes import Failure
from harness.weft import HOST, STACK

from .stacks import NativeStack, Stack

MB = 1_000_000
FILE_BYTES = 64 * MB
PORT = 8080
URL = f"http://{HOST}:{PORT}/file"
MSS = 536
# The transfer that is cut in the middle has to last long enough for that.
SLOW_BYTES_PER_S = 16 * MB
CUT_AT_BYTES = 8 * MB
STALL_SECONDS = 1.0

_NGINX = """
daemon off; user root; pid {folder}/nginx.pid; error_log stderr;
events {{}}
http {{
    access_log off; sendfile on;
    client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{ listen {address}:{port}; root {folder}/www; }}
}}
"""


def heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if _colours() else f"\n{text}", flush=True)


def _colours() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def shell(text: str) -> None:
    print(f"  $ {text}", flush=True)


def say(text: str) -> None:
    print(f"  {text}", flush=True)


class Stand:
    """A stack with a Linux web server on its host side."""

    def __init__(self, env: Environment, stack_class: type[Stack], settings: dict[str, str] | None = None) -> None:
        self.env = env
        self.stack = stack_class(env, settings or {})
        www = env.folder / "www"
        www.mkdir()
        data = random.Random(FILE_BYTES).randbytes(FILE_BYTES)
        (www / "file").write_bytes(data)
        self.sha256 = hashlib.sha256(data).hexdigest()
        (env.folder / "nginx.conf").write_text(_NGINX.format(folder=env.folder, address=HOST, port=PORT))
        server = env.start("nginx", [paths.tool("nginx"), "-p", str(env.folder), "-c", str(env.folder / "nginx.conf"),
                                     "-e", "stderr"], self.stack.host_words)
        env.wait_listening(server, PORT)

    @property
    def curl(self) -> list[str]:
        return [paths.tool("curl"), "--silent", "--show-error", "--fail", "--noproxy", "*"]

    @property
    def fetched(self) -> Path:
        return self.env.folder / "fetched"

    def check_sum(self) -> None:
        found = hashlib.sha256(self.fetched.read_bytes()).hexdigest()
        say(f"sha256 served   {self.sha256}")
        say(f"sha256 fetched  {found}")
        if found != self.sha256:
            raise Failure("the sums differ")


def fetch(stand: Stand) -> None:
    """64 MB, timed by curl itself."""
    shell(f"weft run -- curl -o fetched {URL}")
    speed = stand.env.run("curl", [*stand.curl, "-o", "fetched", "-w", "%{speed_download} %{time_total}", URL],
                          stand.stack.program_words, timeout_s=120)
    bytes_per_s, seconds = (float(word) for word in speed.split())
    say(f"{FILE_BYTES // MB} MB in {seconds:.2f} s: {bytes_per_s * 8 / 1e9:.2f} Gbit/s")
    stand.check_sum()
    shell("weft show counters")
    counters = stand.stack.tcp_counters()
    if not counters:
        raise Failure("the stack counted nothing of TCP")
    for line in counters[:16]:
        say("  " + line[:94])


def silent_kernel(stand: Stand) -> None:
    """The kernel of curl's namespace opened nothing. The counters of nstat, read where nstat reads them."""
    if isinstance(stand.stack, NativeStack):
        say("(native: the kernel of this namespace is the stack)")
        return
    counters = stand.stack.kernel_counters()
    names = ("TcpActiveOpens", "TcpOutSegs", "UdpOutDatagrams")
    say("the kernel of curl's namespace:  " + "  ".join(f"{name} {counters[name]}" for name in names))
    if any(counters[name] for name in names):
        raise Failure("the kernel of the program's namespace took part")


def cut_and_mend(stand: Stand) -> None:
    """Without its edge to ip4, tcp stalls; with it the same transfer goes on to the end."""
    stand.fetched.unlink(missing_ok=True)
    stand.fetched.touch()
    shell(f"weft run -- curl --limit-rate {SLOW_BYTES_PER_S // MB}M -o fetched {URL} &")
    curl = stand.env.start("slow-curl", [*stand.curl, "--limit-rate", str(SLOW_BYTES_PER_S), "-o", "fetched", URL],
                           stand.stack.program_words)
    curl.wait_for(lambda: stand.fetched.stat().st_size >= CUT_AT_BYTES, f"past {CUT_AT_BYTES} bytes", 30)
    shell(stand.stack.cut())
    stalled_at = _wait_until_still(stand)
    say(f"stalled at {stalled_at / MB:.1f} of {FILE_BYTES // MB} MB: nothing came for {STALL_SECONDS:g} s")
    if not curl.running:
        raise Failure("curl ended while its stack was cut")
    shell(stand.stack.mend())
    if status := curl.wait(60):
        raise Failure(f"curl ended with status {status} after the edge was bound again")
    say("resumed and finished")
    stand.check_sum()


def _wait_until_still(stand: Stand) -> int:
    """Waits until nothing comes any more; what was in flight and in buffers may still arrive first."""
    deadline = time.monotonic() + 20
    size, since = stand.fetched.stat().st_size, time.monotonic()
    while time.monotonic() - since < STALL_SECONDS:
        time.sleep(0.02)
        now = stand.fetched.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
        if size >= FILE_BYTES or time.monotonic() > deadline:
            raise Failure(f"the transfer went on to {size} bytes although its stack was cut")
    return size


def small_segments(env: Environment, stack_class: type[Stack]) -> None:
    """A parameter of weft's tcp shows in what the kernel's side captures."""
    shell(f"weft up --set tcp.mss={MSS}")
    stand = Stand(env, stack_class, {"tcp.mss": str(MSS)})
    shell("tests/demo/capture.py any &          (prints the SYNs that the web server's kernel sees)")
    capture = env.start("capture", [paths.PYTHON, str(Path(__file__).with_name("capture.py")), "any"],
                        stand.stack.host_words)
    capture.wait_for_line("capturing")
    shell(f"weft run -- curl --range 0-{MB - 1} -o fetched {URL}")
    env.run("curl", [*stand.curl, "-o", "fetched", "--range", f"0-{MB - 1}", URL], stand.stack.program_words, 60)
    line = capture.wait_for_line(f"{STACK}:")
    say(line)
    if not re.search(rf"^{re.escape(STACK)}:\d+ > {re.escape(HOST)}:{PORT}  SYN  .*\bmss {MSS}\b", line):
        raise Failure(f"the SYN does not carry MSS {MSS}: {line}")
    if stand.fetched.stat().st_size != MB:
        raise Failure(f"curl fetched {stand.fetched.stat().st_size} bytes, wanted {MB}")
