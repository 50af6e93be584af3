"""The scenarios of determinism.py: unmodified programs of many kinds, each with something that chance or the real clock could reach."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from harness import paths
from harness.processes import Failure

from .shared import SECONDS_MAX, events, pair, program, section


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
p = subprocess.Popen(['sleep', '100']); signal.pidfd_send_signal(os.pidfd_open(p.pid), signal.SIGTERM); print(p.wait())
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


REDIS = two_nodes(
    program("server", "b", "redis-server", "--port", "6379", "--bind", "0.0.0.0", "--save", "", "--appendonly", "no", "--protected-mode", "no", "--dir", "/tmp",
            expect="running"),
    program("client", "a", "bash", "-euc", """
redis-benchmark -h b -n 1000 -c 10 -P 16 -q --csv -t set,get,lpush,lrange_100
for n in $(seq 200); do echo "SET key:$n $RANDOM"; done | redis-cli -h b --pipe
redis-cli -h b eval "return redis.call('time')[1] .. #redis.call('keys', '*')" 0; redis-cli -h b info server | grep -E 'run_id|uptime_in|process_id'
""", start="1s"))

NGINX_CONF = """daemon off; user root; worker_processes 2; pid /tmp/nginx.pid; error_log stderr; events { }
http { access_log /tmp/log; client_body_temp_path /tmp/b; proxy_temp_path /tmp/p; fastcgi_temp_path /tmp/f; uwsgi_temp_path /tmp/u; scgi_temp_path /tmp/s;
  sendfile on; server { listen 80; root /tmp/www; } }
"""
NGINX = section("nodes.web", files={"/etc/nginx-weft.conf": NGINX_CONF}) + "".join(
    section(f"nodes.c{n}") + section(f"wires.w{n}", between=["web", f"c{n}"], rate="50mbit", delay=f"{n}ms", loss=0.01) for n in range(3))
NGINX += program("nginx", "web", "bash", "-euc", "mkdir /tmp/www; head -c 200000 /dev/urandom > /tmp/www/x; exec nginx -p /tmp -c /etc/nginx-weft.conf -e stderr", expect="running")
NGINX += "".join(program(f"curls{n}", f"c{n}", "bash", "-c", """
for n in 1 2 3; do curl -s -D - http://web/x -o /tmp/x$n & done; wait; sha256sum /tmp/x?; curl -s -w '%{time_total} %{size_download}\\n' -o /dev/null http://web/x
""", start="1s") for n in range(3))

SSHD_CONF = """Port 22
HostKey /run/host
AuthorizedKeysFile /run/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
UseDNS no
Subsystem sftp internal-sftp
"""
# Its keys are of this world's making: what is random comes from the seed.
SSH = section("nodes.a") + section("nodes.b", files={"/etc/weft-sshd.conf": SSHD_CONF}) + section("wires.ab", between=["a", "b"], rate="100mbit", delay="2ms")
SSH += program("sshd", "b", "sh", "-euc", """
mkdir -p /run/sshd; for key in host user; do ssh-keygen -q -t ed25519 -N '' -C weft -f /run/$key; done; cat /run/host.pub; nc -l -N 9 < /run/user
exec /usr/sbin/sshd -D -e -f /etc/weft-sshd.conf
""", expect="running")
SSH += program("ssh", "a", "bash", "-euc", """
umask 77; nc -d b 9 > /tmp/key; sleep 0.5; head -c 300000 /dev/urandom > /tmp/file
options="-F none -i /tmp/key -oStrictHostKeyChecking=no -oBatchMode=yes -oUserKnownHostsFile=/tmp/known -oLogLevel=ERROR"
ssh $options root@b 'echo $SSH_CONNECTION $$; sha256sum; date +%s.%N' < /tmp/file; scp $options /tmp/file root@b:/tmp/there; ssh -n $options root@b sha256sum /tmp/there
""", start="2s")

ROUTER = section("nodes.a") + section("nodes.r", forward=True) + section("nodes.b") + section("wires.ar", between=["a", "r"], delay="3ms", loss=0.2, jitter="1ms")
ROUTER += section("wires.rb", between=["r", "b"], delay="7ms", loss=0.1, reorder=0.1)
ROUTER += program("ping", "a", "bash", "-c", """
ping -c 20 -i 0.2 -W 1 b; ping -6 -q -c 10 -i 0.2 -W 1 b; traceroute -n -q 3 -w 1 -m 4 b; traceroute -n -I -q 2 -w 1 -m 4 b; fping -C 5 -p 100 b; ip -s link show eth0; exit 0
""")

SWITCH = section("nodes.s", kind="switch") + "".join(
    section(f"nodes.n{n}") + section(f"wires.w{n}", between=["s", f"n{n}"], rate="100mbit", delay=f"{n + 1}ms", loss=0.05) for n in range(4))
SWITCH += "".join(python(f"member{n}", f"n{n}", """
import socket, struct, sys, time, select, random
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('', 5007))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack('4s4s', socket.inet_aton('239.1.2.3'), socket.inet_aton(socket.gethostbyname(socket.gethostname()))))
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(socket.gethostbyname(socket.gethostname()))); said = socket.gethostname(); heard = []; end = time.monotonic() + 2; at = time.monotonic()
while time.monotonic() < end:
    if time.monotonic() >= at: s.sendto(f'{said} {random.randrange(1000)}'.encode(), ('239.1.2.3', 5007)); at += random.uniform(0.05, 0.2)
    if select.select([s], [], [], max(0, at - time.monotonic()))[0]: data, (who, _) = s.recvfrom(100); heard.append((data.decode(), who, time.time_ns()))
print(len(heard), heard)
""") for n in range(4))

JOBS = two_nodes(program("shell", "a", "bash", "-c", """
set -m; trap 'echo usr1 $SECONDS' USR1; trap 'echo child' CHLD; trap 'echo end $?' EXIT
(sleep 0.3; kill -USR1 $$) & sleep 1 & sleep 2 & jobs -l; kill -STOP %2; sleep 0.1; jobs; kill -CONT %2; sleep 0.1; jobs; kill %3; wait %2; echo $?; wait %3; echo $?; wait
timeout 0.2 sleep 5; echo $?; timeout -s KILL 0.2 bash -c 'trap "" TERM; while :; do sleep 0.05; done'; echo $?
coproc { while read -r line; do echo "<$line>"; done; }; echo to >&${COPROC[1]}; read -r answer <&${COPROC[0]}; echo $answer; kill $COPROC_PID
exec 9>/tmp/lock; (flock 9; echo first $BASHPID; sleep 0.2) & sleep 0.1; flock -w 1 9 && echo second $?; read -t 0.1 nothing < <(sleep 1); echo $?; printf '%(%F %T)T\\n' -1; time sleep 0.25; times; ps -ef
"""))

FILES = two_nodes(program("files", "a", "bash", "-euc", """
sqlite3 /tmp/db "create table t (n integer, r blob, at text); with recursive c(n) as (select 1 union all select n + 1 from c where n < 300) insert into t select n, randomblob(8), strftime('%f') from c"
for n in 1 2 3; do (for m in $(seq 10); do sqlite3 -cmd '.timeout 9000' /tmp/db "update t set n = n + random() % 7 where n % $n = 0"; done) & done; wait
sqlite3 /tmp/db 'pragma integrity_check; select sum(n), max(hex(r)), count(distinct at) from t' 'select random()'
cd $(mktemp -d); mkdir -p a/b; for n in $(seq 30); do echo $n > a/b/$n; done; ln a/b/1 a/hard; ln -s b/2 a/soft; tar cf - a | sha256sum; tar czf t.tgz a; stat -c '%n %i %s %Y %X %Z %h' t.tgz a/*; ls -lai --full-time a
find . -printf '%i %p %T@ %s\\n' | head -n 20; du -a a | head -n 5; df -i . | tail -n 1; touch -d '2001-02-03 04:05:06' a/hard; stat -c %y a/b/1; cp -a a c; diff -r a c; rm -r a; mkdir z; ls -U c/b; sync
"""))

PERL = two_nodes(
    program("perl", "b", "perl", "-MIO::Socket::INET", "-MTime::HiRes=time,sleep", "-e", """
my $s = IO::Socket::INET->new(LocalPort => 4000, Listen => 5, ReuseAddr => 1) or die; $SIG{CHLD} = 'IGNORE';
while (my $c = $s->accept) { if (!fork) { while (<$c>) { sleep rand 0.01; print $c scalar reverse($_), "\\n" } exit } close $c }
""", expect="running"),
    program("ask", "a", "perl", "-MIO::Socket::INET", "-MTime::HiRes=time,alarm", "-e", """
$SIG{ALRM} = sub { print 'alarm ', time, "\\n" }; alarm 0.03, 0.05; my %h = map { ($_ => rand) } 1 .. 30; print join(' ', keys %h), " $$ ", int(rand 1e9), "\\n";
for my $n (1 .. 5) { my $s = IO::Socket::INET->new('b:4000') or die $!; print $s "line $n $_\\n" for 1 .. 5; for (1 .. 5) { my $l = <$s>; chomp $l; print "$l ", time, ' ' } print "\\n" }
my @times = times; print "@times ", scalar(localtime), ' ', join(' ', (stat '/etc/hosts')[1, 7]), "\\n"
""", start="1s"))

IPERF = two_nodes(
    program("server", "b", "iperf3", "--server", "--port", "5201", expect="running"),
    program("client", "a", "bash", "-c", "for how in '' -R '-P 4' '-u -b 10M'; do iperf3 -c b -n 200K -i 0.1 $how; done; iperf3 --version | head -n 1", start="1s"),
    loss=0.005)

# Readers that wait for each piece: of a stream that comes whole, torn, twice and in another order, while one of them writes now and then.
STREAMS = two_nodes(
    python("reader", "b", """
import hashlib, os, socket, time
server = socket.create_server(('', 7000))
for sizes in (65536, 700, 3000):
    peer, _ = server.accept(); seen, pieces = hashlib.sha256(), []
    while piece := peer.recv(sizes):
        seen.update(piece); pieces.append((len(piece), time.monotonic_ns()))
        if len(pieces) % 50 == 0: peer.send(b'.' * (len(pieces) % 7 + 1))
        if len(pieces) % 90 == 0: time.sleep(0.003)
    print(sizes, len(pieces), seen.hexdigest(), pieces[::40], flush=True)
    peer.close()
"""), python("writer", "a", """
import os, socket
for count in (60, 30, 20):
    with socket.create_connection(('b', 7000)) as peer:
        for n in range(count): peer.sendall(os.urandom(1 + n * 977 % 30000))
        peer.shutdown(socket.SHUT_WR); answers = 0
        while piece := peer.recv(100): answers += len(piece)
        print(count, answers)
""", start="1s"), loss=0.002, duplicate=0.01, reorder=0.02, reorder_by="300us", corrupt=0.002, delay="3ms")

# Who has waited has its whole share of the processor: whom the other thread meets then depends on where shares end.
SHARES = two_nodes(python("reader", "b", """
import socket, threading, time
server = socket.create_server(('', 7000)); peer, _ = server.accept(); seen = []
def other():
    for n in range(60): time.sleep(0.0017); seen.append(('woke', time.monotonic_ns()))
thread = threading.Thread(target=other)
for round in range(2):
    while piece := peer.recv(9000):
        looks = [time.monotonic_ns() for _ in range(1100)]; seen.append((len(piece), looks[0], looks[-1]))
        if len(seen) > 8 and round == 0: break
    if round == 0: thread.start()
thread.join(); print(seen)
"""), python("sleeper", "a", """
import socket, time
with socket.create_connection(('b', 7000)) as peer:
    for n in range(60):
        peer.send(bytes(1448 * (n % 5 + 1))); time.sleep(0.0002 + n % 7 * 0.0001)
        print([time.monotonic_ns() for _ in range(300 + n * 20)][-1])
""", start="1s"))

# A timer that is due at the very instant at which a sleep begins ends it.
TIES = two_nodes(python("ties", "a", """
import signal, time
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic_ns()))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for n in range(3000): time.sleep((1 + n * 7919 % 13) / 1e6)
signal.setitimer(signal.ITIMER_REAL, 0); print(len(seen), seen)
"""))

# A reader that is told what comes runs further in a turn; what it and others beside it print is fetched when they end, whatever the turns were.
PRINTS = two_nodes(
    python("send", "a", """
import socket, time
s = socket.create_connection(('b', 5001))
for i in range(40): s.sendall(bytes([65 + i % 26]) * 100_000); time.sleep(0.01)
""", start="1s"),
    python("prints", "b", """
import socket, os
c, _ = socket.create_server(('', 5001)).accept()
while piece := c.recv(65536): os.write(1, piece); os.pwrite(2, b'%d\\n' % len(piece), 0)
"""),
    program("leaves", "b", "sh", "-c", "(for n in 1 2 3 4 5 6 7 8 9; do sleep 0.1; head -c 300000 /dev/zero; done) & sleep 0.5; echo gone", start="1s"),
    program("runs", "b", "sh", "-c", "while sleep 0.05; do head -c 100000 /dev/zero; done", start="1s", expect="running"))

# The clock is read without a call until the grant is reached, and with one there.
CLOCKS = two_nodes(
    python("polls", "a", """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(100):
    until = time.monotonic_ns() + 300_000
    while time.monotonic_ns() < until: time.time()
    s.sendto(b'x' * i, ('b', 9)); time.sleep(0.0003)
print(time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID))
""", start="1s"),
    python("beside", "b", """
import time
for i in range(300):
    until = time.time_ns() + 50_000
    while time.time_ns() < until: pass
    time.sleep(0.001)
print(time.monotonic_ns())
""", start="1s"))

# Reading opens the window of a peer on the same node, which sends more at the same instant: there is more than there was.
OWN_PEER = two_nodes(python("own", "a", """
import socket
server = socket.create_server(('', 0))
for size in (333, 1685, 4000):
    for room in (5000, 50000):
        here = socket.socket(); here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room); here.connect(server.getsockname()); there, _ = server.accept()
        there.setblocking(False); sent = 0
        try:
            while True: sent += there.send(bytes(65536))
        except BlockingIOError: there.close()
        pieces = []
        while piece := here.recv(size): pieces.append(len(piece))
        print(size, room, len(pieces), sum(pieces), [piece for piece in pieces if piece != size])
        assert sum(pieces) == sent, sent
"""))

SCENARIOS = {
    "TCP with loss": LOSS, "python threads": THREADS, "asyncio": ASYNCIO, "bash pipelines": PIPELINES, "signals": SIGNALS,
    "timers": TIMERS, "random numbers": RANDOM, "fork storms": FORKS, "datagrams": UDP, "node": NODE, "redis, pipelined": REDIS, "nginx and curls": NGINX, "ssh": SSH, "ping through a lossy router": ROUTER, "multicast on a switch": SWITCH,
    "job control": JOBS, "files": FILES, "perl": PERL, "iperf3": IPERF, "streams": STREAMS, "shares": SHARES, "ties": TIES,
    "much output": PRINTS, "clocks": CLOCKS,

    "job control": JOBS, "files": FILES, "perl": PERL, "iperf3": IPERF, "streams": STREAMS, "shares": SHARES, "ties": TIES, "a peer of its own": OWN_PEER,
}

# What a program may have at most: the same calls fail every time.
LIMITS = section("nodes.a", memory="64MiB", descriptors=64) + python("limits", "a", """
import ctypes, os, resource, socket
kept = []
try:
    while True: kept.append(bytearray(1 << 20))
except MemoryError: print('MemoryError', len(kept))
kept.clear()
for what in (lambda: os.open('/dev/null', 0), lambda: socket.socket().detach(), lambda: os.pipe()[0], lambda: os.dup(0)):
    made = []
    try:
        while True: made.append(what())
    except OSError as error: print(error.errno, len(made))
    os.closerange(3, 64)
print(resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_NOFILE), open('/proc/meminfo').readline().split(), os.sysconf('SC_PHYS_PAGES'))
for limit in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE):
    try: resource.setrlimit(limit, (1 << 40, 1 << 40)); print('raised')
    except (ValueError, OSError) as error: print('not raised')
libc = ctypes.CDLL(None, use_errno=True); libc.sbrk.restype = ctypes.c_long; print(libc.sbrk(100 << 20), ctypes.get_errno())
print([line.split() for line in open('/proc/self/limits') if 'data' in line or 'files' in line])
""")
SCENARIOS["limits"] = LIMITS

# Every middlebox, in two routers: what they change is changed, and a million bytes each way are what was sent. One that deals in sequence numbers goes into
# a router of its own; behind nat:to_node both directions have the addresses of the hosts.
def middleboxes(at: str, *boxes: str) -> list[str]:
    made = [f"add {box.split()[0]} {box}" for box in boxes]
    return made + [f"insert {box.split()[0]} {before.split()[0]} ether:lower" for box, before in zip(boxes, [at, *boxes])]


MIDDLEBOXES = "".join(section(f"nodes.{name}") for name in ("a", "r", "s", "b"))
MIDDLEBOXES += "".join(section(f"wires.{ends}", between=list(ends), rate="100mbit", delay="1ms", loss=0.003) for ends in ("ar", "rs", "sb"))
MIDDLEBOXES += events(
    {"at": "0s", "node": "r", "control": [
        "add nat nat outside=eth1 address=10.0.1.1", "insert nat:from_wire interfaces:upper ether:lower", "insert nat:from_node ether:lower interfaces:upper",
        *middleboxes("nat:to_node", "strip_options options=timestamps direction=from_opener", "drop_options options=254", "shift_sequence")]},
    {"at": "0s", "node": "s", "control": middleboxes("interfaces:upper", "alter_payload find=127 'replace=the router'", "split segment_bytes=700", "coalesce")})
MIDDLEBOXES += python("server", "b", """
import hashlib, socket
there, who = socket.create_server(('', 9)).accept()
print(who[0], there.recv(18, socket.MSG_WAITALL), flush=True)
there.sendall(b'127 heard')
got = hashlib.sha256()
for _ in range(1000): got.update(there.recv(1000, socket.MSG_WAITALL))
print(got.hexdigest(), flush=True)
there.sendall(bytes(at * 7 // 3 % 251 for at in range(1000000)))
assert got.digest() == hashlib.sha256(bytes(at * 5 // 3 % 251 for at in range(1000000))).digest()
""") + python("client", "a", """
import hashlib, socket
there = socket.create_connection(('b', 9))
there.sendall(b'from 127 on'); heard = there.recv(16, socket.MSG_WAITALL)
print(heard)
assert heard == b'the router heard'
there.sendall(bytes(at * 5 // 3 % 251 for at in range(1000000)))
got = hashlib.sha256()
for _ in range(1000): got.update(there.recv(1000, socket.MSG_WAITALL))
assert got.digest() == hashlib.sha256(bytes(at * 7 // 3 % 251 for at in range(1000000))).digest()
""", start="1s")
SCENARIOS["middleboxes"] = MIDDLEBOXES

# A terminal between two programs: what is typed is echoed by the kernel, by the shell, and once by a child of its.
SCENARIOS["a terminal"] = section("nodes.a") + program(
    "script", "a", "script", "-qec", "bash --norc -i", "/tmp/typescript",
    stdin="echo hello\nls /etc | head -3\ncat\ntyped to cat\n\x04for i in 1 2 3; do echo $i; done\nstty size\nexit\n", expect="any")

# What several programs write to a terminal comes to its master by a worker of the kernel's; what is read at once must not depend on when.
SCENARIOS["output of terminals"] = section("nodes.a") + program("reader", "a", "python3", "-c", """
import contextlib, os, pty, random, time
draw = random.Random(1)
for turn in range(20):
    child, terminal = pty.fork()
    if child == 0:
        os.execvp('sh', ['sh', '-c', 'read line; echo "<$line>"; sleep 0.01; stty size; (echo a; echo b) & wait; printf c; echo d; stty -onlcr; echo e; seq 40; exit 3'])
    os.write(terminal, b'some words\\nmore\\n')
    text = []
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, draw.randint(1, 100)):
            text.append(piece)
    print(text, os.waitpid(child, 0)[1], time.monotonic_ns())
    os.close(terminal)
""")

# The node's own settings under /proc/sys/net, and what it counts.
SETTINGS = two_nodes(
    program("web", "b", "python3", "-m", "http.server", "80", "--directory", "/etc", expect="running"),
    program("settings", "a", "bash", "-c", """
cd /proc/sys/net/ipv4; show() { cat tcp_congestion_control tcp_rmem ip_forward tcp_keepalive_time /proc/sys/net/ipv4/tcp_mem ip_local_port_range tcp_available_congestion_control; }
show; sysctl -q -w net.ipv4.tcp_congestion_control=reno net.ipv4.ip_forward=1 net.ipv4.tcp_rmem='5000 60000 700000' net.ipv4.tcp_keepalive_time=60 net.ipv4.ip_local_port_range='40000 40010'
show; python3 -c "
import socket
s = socket.create_connection(('b', 80)); print(s.getsockopt(6, 13, 4).decode(), s.getsockname()[1] // 20)"
echo cubic > tcp_congestion_control; cat tcp_congestion_control; for line in nonsense ''; do echo $line > tcp_congestion_control; echo $?; done; echo 5000 60000 800000 9 > tcp_rmem; echo $?; echo 6000 x > tcp_rmem; echo $?
echo 7 > tcp_available_congestion_control; echo $?; echo 1 > route/flush; echo $?; cat tcp_rmem; curl -s http://b/hostname
net=/proc/sys/net; put() { for pair; do echo ${pair#*=} > $net/${pair%=*}; done; }
put core/rmem_max=8388608 core/rmem_default=300000 core/wmem_max=1048576 core/wmem_default=200000 core/netdev_max_backlog=5000 core/default_qdisc=fq
put ipv4/neigh/default/gc_thresh1=1024 ipv4/neigh/default/gc_thresh2=2048 ipv4/neigh/default/gc_thresh3=4096
sysctl -w net.core.rmem_max=8388609 net.core.netdev_max_backlog=5001 net.ipv4.conf.eth0.forwarding=1 net.ipv6.conf.eth0.forwarding=0 net.core.nothing=1; sysctl net.core.wmem_max
cd $net/core; cat wmem_default; stat -c '%a %F %u' rmem_max /proc/sys/net/core/default_qdisc ../ipv4/conf/eth0 ./wmem_max; for name in rmem_max nothing; do test -w $name; echo $?; done; cat ./netdev_budget nothing
for name in core/rmem_max core/netdev_max_backlog core/default_qdisc ipv4/neigh/default/gc_thresh2 ipv4/neigh/default/gc_thresh3; do cat $net/$name; done
python3 -c "
import socket
for s, name in ((socket.socket(family, kind), name) for family, kind in ((2, 2), (16, 3)) for name in (socket.SO_RCVBUF, socket.SO_SNDBUF)):
    before = s.getsockopt(socket.SOL_SOCKET, name); s.setsockopt(socket.SOL_SOCKET, name, 20000000); print(before, s.getsockopt(socket.SOL_SOCKET, name))"
NSTAT_HISTORY=/tmp/history nstat -az | awk '/^(TcpActiveOpens|IpForwarding|IcmpInErrors|TcpExtTCPTimeouts|Ip6OutNoRoutes) / { print $1, $2 }' | sort
awk '/^Ip:/ { n++ } /^Ip:/ && n == 2 { print $2, $3, ($4 > 5) }' /proc/net/snmp
""", start="1s"))
SETTINGS_SAID = """cubic
4096 131072 33554432
0
7200
98304 131072 196608
32768 60999
reno cubic bbr lia olia balia wvegas
reno
5000 60000 700000
1
60
98304 131072 196608
40000 40010
reno cubic bbr lia olia balia wvegas
reno 2000
cubic
1
1
0
1
1
1
6000 60000 800000
b
net.core.rmem_max = 8388609
net.core.netdev_max_backlog = 5001
net.ipv4.conf.eth0.forwarding = 1
net.ipv6.conf.eth0.forwarding = 0
net.core.wmem_max = 1048576
200000
644 regular empty file 0
644 regular empty file 0
555 directory 0
644 regular empty file 0
0
1
300
8388609
5001
fq
2048
4096
300000 16777218
200000 2097152
300000 16777218
200000 2097152
IcmpInErrors 0
Ip6OutNoRoutes 0
TcpActiveOpens 2
TcpExtTCPTimeouts 0
1 64 1
"""
SCENARIOS["settings"] = SETTINGS

# What these need, a minimal system with python3, curl and openssl has.
IN_ANY_RELEASE = ("TCP with loss", "python threads", "asyncio", "bash pipelines", "signals", "timers", "random numbers", "fork storms", "datagrams", "multicast on a switch")
