"""One scenario, one hash: unmodified programs in virtual time, again and again, on one thread and on two, as root and as a user, under load.

And the hash is honest: one bit of a payload, a nanosecond of a delay, a draw of the random numbers, a call's result each make another.
FULL=1 runs each scenario twenty times.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import paths, weft
from harness.processes import Failure

from .shared import SECONDS_MAX, difference, pair, program, run_rows, where

THROW_AWAY_ID = "64321"
FULL = bool(os.environ.get("FULL"))

def two_nodes(*programs: str, **wire) -> str:
    return pair(rate="100mbit", **{"delay": "5ms", **wire}) + "".join(programs)


def python(name: str, node: str, body: str, **more: str) -> str:
    return program(name, node, "python3", "-c", body, **more)


LOSS = two_nodes(
    program("web", "b", "sh", "-c", "head -c 300000 /dev/urandom > /tmp/x; exec python3 -m http.server 80 --directory /tmp", expect="running"),
    program("curl", "a", "sh", "-c", "curl -s http://b/x | sha256sum", start="1s"),
    loss=0.02)

THREADS = two_nodes(python("threads", "a", """
import threading, time, queue
results, q = [], queue.Queue()
lock = threading.Lock()
def work(n):
    for i in range(20):
        with lock: results.append((n, i, time.monotonic_ns()))
        time.sleep(0.001 * (n % 3))
        q.put(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(results), results[::7], [q.get() for _ in range(160)])
"""))

ASYNCIO = two_nodes(
    python("server", "b", """
import asyncio, random
async def serve(reader, writer):
    while line := await reader.readline():
        await asyncio.sleep(random.random() / 100)
        writer.write(line.upper()); await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, '0.0.0.0', 7000)
    await server.serve_forever()
asyncio.run(main())
""", expect="running"),
    python("clients", "a", """
import asyncio, time
async def one(n):
    reader, writer = await asyncio.open_connection('b', 7000)
    for i in range(5):
        writer.write(b'%d %d\\n' % (n, i)); print(n, i, await reader.readline(), time.time_ns())
    writer.close()
async def main(): await asyncio.gather(*[one(n) for n in range(10)])
asyncio.run(main())
""", start="1s"))

PIPELINES = two_nodes(program("bash", "a", "bash", "-c", """
set -o pipefail
for i in $(seq 5); do seq 1000 | shuf --random-source=/dev/urandom | sort -n | awk '{ s += $1 } END { print s }'; done
find /etc -maxdepth 1 -name 'host*' | sort | xargs cat | tee /tmp/x | wc -c
(sleep 0.2; echo late) & (sleep 0.1; echo early) & wait; echo $RANDOM $RANDOM $$ $!
yes | head -n 10000 | sha256sum; mkfifo /tmp/p; (echo through > /tmp/p) & cat /tmp/p; wait; date +%s.%N; mktemp
"""))

SIGNALS = two_nodes(python("signals", "a", """
import os, signal, time, subprocess
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(('alarm', time.monotonic_ns())))
signal.signal(signal.SIGCHLD, lambda *_: seen.append(('child', time.monotonic_ns())))
signal.signal(signal.SIGUSR1, lambda *_: seen.append(('usr1', time.monotonic_ns())))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.003)
children = [subprocess.Popen(['sh', '-c', f'sleep 0.0{n}; kill -USR1 {os.getpid()}; exit {n}']) for n in range(1, 6)]
print([c.wait() for c in children])
signal.setitimer(signal.ITIMER_REAL, 0)
p = subprocess.Popen(['sleep', '100']); p.terminate(); print(p.wait()); p = subprocess.Popen(['sleep', '100']); p.kill(); print(p.wait())
print(seen)
"""))

TIMERS = two_nodes(python("timers", "a", """
import select, socket, time, threading
for span in (0, 1e-6, 1e-3, 0.5): t = time.monotonic_ns(); time.sleep(span); print('sleep', time.monotonic_ns() - t)
a, b = socket.socketpair(); e = select.epoll(); e.register(a, select.EPOLLIN)
for wait in (0, 0.001, 0.25): t = time.monotonic_ns(); print(e.poll(wait), time.monotonic_ns() - t)
t = time.monotonic_ns(); print(select.select([a], [], [], 0.1), time.monotonic_ns() - t)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(0.05)
try: u.recv(10)
except TimeoutError: print('timeout', time.monotonic_ns())
c = threading.Condition()
with c: print(c.wait(0.02), time.monotonic_ns())
n = 0
end = time.monotonic() + 0.001
while time.monotonic() < end: n += 1
print('looked', n, time.process_time_ns(), time.thread_time_ns())
"""))

RANDOM = two_nodes(python("random", "a", """
import os, random, secrets, uuid, hashlib, tempfile
print(os.urandom(16).hex(), random.random(), secrets.token_hex(8), uuid.uuid4(), hash('x'), tempfile.mkdtemp(), os.getpid())
print(hashlib.sha256(open('/dev/urandom', 'rb').read(100000)).hexdigest(), {str(n) for n in range(20)}, id(object()))
if os.fork() == 0: print(random.random(), os.urandom(4).hex(), flush=True); os._exit(0)
os.wait(); print(random.random(), os.urandom(4).hex())
"""))

FORKS = two_nodes(program("storm", "a", "bash", "-c", """
f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & wait; else echo $BASHPID; fi; }
f 5; for i in $(seq 40); do (exit $((i % 7))) & done; for i in $(jobs -p); do wait $i; echo -n "$? "; done; echo
"""), python("pool", "b", """
import concurrent.futures, multiprocessing, os
with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context('fork')) as pool:
    print(list(pool.map(pow, range(30), [3] * 30)))
""" ))

NODE = two_nodes(program("server", "b", "node", "-e", """
require('http').createServer((q, r) => setTimeout(() => r.end(q.url + Math.random()), 5)).listen(3000)
""", expect="running"), program("client", "a", "node", "-e", """
const http = require('http'); let left = 10
for (let n = 0; n < 10; n++) http.get('http://b:3000/' + n, r => r.on('data', d => console.log(String(d), Date.now(), --left)))
""", start="2s"))

UDP = two_nodes(
    python("answer", "b", """
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 9000))
while True: data, who = s.recvfrom(2000); s.sendto(data[::-1], who)
""", expect="running"),
    python("ask", "a", """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.1); s.connect(('b', 9000)); lost = 0
for n in range(200):
    t = time.monotonic_ns(); s.send(b'%d' % n * 20)
    try: print(s.recv(2000)[:4], time.monotonic_ns() - t)
    except TimeoutError: lost += 1
print('lost', lost)
""", start="500ms"), loss=0.05, jitter="1ms", duplicate=0.02, reorder=0.05)

GO = """package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { time.Sleep(3 * time.Millisecond); fmt.Fprintln(w, r.URL.Path) })
		panic(http.ListenAndServe(":8080", nil))
	}
	var group sync.WaitGroup
	lines := make([]string, 20)
	for n := range lines {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			answer, err := http.Get(fmt.Sprintf("http://b:8080/%d", n))
			if err != nil { panic(err) }
			body, _ := io.ReadAll(answer.Body)
			lines[n] = fmt.Sprintf("%s %d", body, time.Now().UnixNano())
		}(n)
	}
	group.Wait()
	fmt.Println(lines)
}
"""


def go_scenario(folder: Path) -> str:
    """A static Go program as client and server."""
    go = paths.tool("go")
    source = folder / "main.go"
    source.write_text(GO)
    built = subprocess.run([go, "build", "-o", str(folder / "goes"), str(source)], capture_output=True, text=True, timeout=SECONDS_MAX,
                           env={**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"})
    if built.returncode != 0:
        raise Failure(built.stderr[-1000:])
    # Not below /tmp: a node has a /tmp of its own.
    return two_nodes(program("server", "b", str(folder / "goes"), "serve", expect="running"), program("client", "a", str(folder / "goes"), start="1s"))


SCENARIOS = {
    "TCP with loss": LOSS, "python threads": THREADS, "asyncio": ASYNCIO, "bash pipelines": PIPELINES, "signals": SIGNALS,
    "timers": TIMERS, "random numbers": RANDOM, "fork storms": FORKS, "datagrams": UDP, "node": NODE,
}


class Runs:
    """Runs scenarios, with a binary and in a folder that every user can read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    def run(self, text: str, *words: str, as_user: bool = False, ahead: bool = True) -> tuple[str, Path]:
        """The hash and the results."""
        self.number += 1
        # The summary names the file.
        file, out = self.folder / "scenario.toml", self.folder / f"{self.number}"
        file.write_text(text)
        out.mkdir()
        out.chmod(0o777)
        command = [str(self.folder / "weft"), "sim", str(file), "--json", "--out", str(out), *words]
        if as_user:
            command = [paths.tool("setpriv"), f"--reuid={THROW_AWAY_ID}", f"--regid={THROW_AWAY_ID}", "--clear-groups", "--inh-caps=-all", *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/",
                              env={**os.environ, "WEFT_SIM_AHEAD": str(int(ahead))})
        if done.returncode != 0:
            errors = "".join(f"{path.parent.name}: {path.read_text()[-600:]}" for path in out.glob("programs/*/stderr"))
            raise Failure(f"exit status {done.returncode}\n{done.stderr[-1500:]}\n{errors}")
        summary = json.loads(done.stdout)
        if summary["not_reproducible"]:
            raise Failure(f"{summary['not_reproducible']}")
        return summary["hash"], out


def same(runs: Runs, text: str) -> str:
    """As often as it is run, however it is run."""
    ways: list[tuple[str, dict]] = [("1", {}), ("2", {})] * (10 if FULL else 2)
    # Calls that programs answer for the controller come to the same as those that they do not.
    ways.append(("1", {"ahead": False}))
    if os.geteuid() == 0:
        ways.append(("1", {"as_user": True}))
    first, kept = runs.run(text)
    for threads, how in ways:
        found, out = runs.run(text, "--threads", threads, **how)
        if found != first:
            raise Failure(f"{first} and, with {threads} threads {how or ''}, {found}: {where(kept, out)}")
        difference(kept, out)
    return f"{first}, {len(ways) + 1} runs"


def under_load(runs: Runs) -> str:
    """Other work on every processor changes nothing."""
    quiet, _ = runs.run(LOSS)
    busy = [subprocess.Popen([paths.PYTHON, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        loaded, _ = runs.run(LOSS, "--threads", "2")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    if quiet != loaded:
        raise Failure(f"{quiet} alone, {loaded} under load")
    return quiet


def honest(runs: Runs) -> str:
    """What differs by the least that can be has another hash."""
    body = "import socket; s = socket.create_connection(('b', 9)); s.send(b'DATA'); s.close(); EXTRA"
    base = two_nodes(program("sink", "b", "python3", "-c", "import socket; s = socket.create_server(('', 9)); c, _ = s.accept(); print(c.recv(99))"),
                python("send", "a", body, start="1s"))
    plain = base.replace("EXTRA", "pass")
    changes = {
        "as it is": plain,
        "one bit of a payload": plain.replace("DATA", "DATE"),
        "a nanosecond of a delay": plain.replace('delay = "5ms"', 'delay = "5000001ns"'),
        "a draw of random numbers": base.replace("EXTRA", "import os; os.urandom(1)"),
        "another seed": "seed = 2\n" + plain,
        "a call's result": base.replace("EXTRA", "import os; os.getppid()"),
        "a nanosecond of a start": plain.replace('start = "1s"', 'start = "1000000001ns"'),
    }
    hashes = {}
    for what, text in changes.items():
        found, _ = runs.run(text)
        if found in hashes:
            raise Failure(f"{what}: the hash is that of '{hashes[found]}'")
        hashes[found] = what
    if runs.run(plain)[0] not in hashes:
        raise Failure("the first of them has another hash now")
    return f"{len(hashes)} hashes"


def main() -> int:
    # A node has a /tmp of its own: what programs are to find lies elsewhere.
    with tempfile.TemporaryDirectory(prefix="weft-determinism-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy2(weft.binary(), folder / "weft")
        runs = Runs(folder)
        rows = {label: (lambda _, text=text: same(runs, text)) for label, text in SCENARIOS.items()}
        rows["static Go"] = lambda _: same(runs, go_scenario(folder))
        rows["under load"] = lambda _: under_load(runs)
        rows["the hash is honest"] = lambda _: honest(runs)
        return run_rows(rows)
