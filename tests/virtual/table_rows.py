"""The rows of table.py: what tests/programs runs in real time, and programs that only run here.

See table.py for what a row is.
"""

from __future__ import annotations

import csv
import json
import hashlib

from harness import paths
from programs import more_rows, rows
from programs.rows import CURL, URLLIB, want_bytes
from programs.shared import IPV4, IPV6, NAME, File
from programs.stage import want, want_equal

from .table import Check, Said, World, row

# What some programs find out about files is not the same for root and for a user, or twice.
DIFFERENT = "files that are the same for root and users, and whose numbers are the same always"


def web_server(w: World, port: int, tls: bool = False) -> None:
    files = [w.shared.certificate, w.shared.key] if tls else []
    w.serve(paths.PYTHON, w.files.servers / "web.py", w.server, port, w.shared.www, *files)


def sums(*files: File, of: str = "client") -> Check:
    """The program printed these files' sums, one a line, and nothing else."""
    wanted = [file.sha256 for file in files]
    return lambda said: want_equal(f"sums that {of} printed", [line.split()[0] for line in said(of).splitlines()], wanted)


def words(*given: object) -> str:
    """Words as the shell wants them."""
    return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in given)


@row
def curl_http(w: World) -> Check:
    web_server(w, 8000)
    w.shell(f"curl {words(*CURL)} -o /tmp/x http://{w.host}:8000/large.bin; sha256sum < /tmp/x")
    return sums(w.shared.large)


@row
def curl_https(w: World) -> Check:
    web_server(w, 8443, tls=True)
    w.shell(f"curl {words(*CURL, '--cacert', w.shared.authority)} -o /tmp/x https://{w.host}:8443/large.bin; sha256sum < /tmp/x")
    return sums(w.shared.large)


@row
def curl_upload(w: World) -> Check:
    web_server(w, 8000)
    w.call("curl", *CURL, "--upload-file", w.shared.large.path, f"http://{w.host}:8000/upload")
    return lambda said: want_equal("sum that the server made of the upload", said(), w.shared.large.sha256)


@row
def wget(w: World) -> Check:
    web_server(w, 8000)
    base = f"http://{w.host}:8000"
    w.shell(f"cd /tmp; wget --no-proxy --tries=1 --timeout=20 --no-verbose {base}/large.bin {base}/small.bin; sha256sum large.bin small.bin")
    return sums(w.shared.large, w.shared.small)


@row
def python_http(w: World) -> Check:
    w.serve(paths.PYTHON, "-m", "http.server", "--directory", w.shared.www, "--bind", w.server, "8001")
    files = (w.shared.small, w.shared.large, w.shared.small)
    w.call(paths.PYTHON, "-c", URLLIB, f"{w.host}:8001", *(file.name for file in files))
    return sums(*files)


@row
def python_asyncio(w: World) -> Check:
    script = w.files.servers / "aio_echo.py"
    w.serve(paths.PYTHON, script, "serve", w.server, "8002")
    w.call(paths.PYTHON, script, "echo", w.server, "8002", "20", "150000")
    return lambda said: want_equal("echoes that came back equal", said().strip(), "20")


@row
def python_ssl(w: World) -> Check:
    script, shared = w.files.servers / "tls_sum.py", w.shared
    w.serve(paths.PYTHON, script, "serve", w.server, "8003", shared.certificate, shared.key)
    w.call(paths.PYTHON, script, "send", w.server, "8003", shared.authority, shared.large.path)
    return lambda said: want_equal("sum and TLS version", said().split(), [shared.large.sha256, "TLSv1.3"])


@row
def go_static(w: World) -> Check:
    shared = w.shared
    w.serve(shared.go, "serve", f"{w.host}:8004", shared.small.path)
    w.call(shared.go, "fetch", f"http://{w.host}:8004", "16", shared.small.path)
    return lambda said: want_equal("sums of 16 goroutines", said().splitlines(), [f"{shared.small.sha256} {shared.small.sha256}"] * 16)


def iperf3(w: World, *options: str, seconds: str = "0.3") -> None:
    w.program("server", "server", "iperf3", "--server", "--one-off", "--port", "5201", "--bind", w.server, "--forceflush", expect="any")
    w.call("iperf3", "--client", w.server, "--port", "5201", "--time", "1", "--json", *options)


def end_of(said: Said) -> dict:
    result = json.loads(said())
    want("error" not in result, f"iperf3: {result.get('error')}")
    return result["end"]


@row
def iperf3_tcp(w: World) -> Check:
    iperf3(w)
    return lambda said: want_bytes(end_of(said))


@row
def iperf3_reverse(w: World) -> Check:
    iperf3(w, "--reverse")
    return lambda said: want_bytes(end_of(said))


@row
def iperf3_parallel(w: World) -> Check:
    iperf3(w, "--parallel", "8")
    return lambda said: want_bytes(end_of(said), streams=8)


@row
def iperf3_udp(w: World) -> Check:
    iperf3(w, "--udp", "--bitrate", "20M", "--length", "1400")

    def check(said: Said) -> None:
        found = end_of(said)["sum"]
        want(found["packets"] > 1700, f"only {found['packets']} datagrams")
        want_equal("lost datagrams", found["lost_packets"], 0)
    return check


@row
def nc(w: World) -> Check:
    w.program("server", "server", "sh", "-c", f"nc -l -n {w.server} 8005 | sha256sum")
    w.shell(f"nc -n -N -w 20 {w.server} 8005 < {w.shared.large.path}")
    return sums(w.shared.large, of="server")


@row
def redis(w: World) -> Check:
    w.serve("redis-server", "--port", "6379", "--bind", w.server, "--save", "", "--appendonly", "no", "--daemonize", "no",
            "--protected-mode", "no", "--dir", "/tmp")
    to = f"-h {w.server} -p 6379"
    # Where nobody answers it goes on asking for ever.
    w.shell(f"timeout 0.7 redis-benchmark {to} -n 400 -c 20 -q --csv -t set,get,lpush,lrange_100; redis-cli {to} llen mylist; "
            f"redis-cli {to} get key:__rand_int__")

    def check(said: Said) -> None:
        *table, length, value = said().splitlines()
        rates = {line["test"].split(" ")[0]: float(line["rps"]) for line in csv.DictReader(table)}
        want({"SET", "GET", "LPUSH", "LRANGE_100"} <= set(rates) and all(rate > 0 for rate in rates.values()), f"rates: {rates}")
        # 400 pushes of LPUSH and 400 that LRANGE makes first.
        want_equal("length of the list, and the value set", (length, value), ("800", "VXK"))
    return check


@row
def nginx_wrk(w: World) -> Check:
    w.own("server", **{"/etc/nginx-weft.conf": rows.NGINX.format(folder="/tmp", host=w.host, www=w.shared.www)})
    w.serve("nginx", "-p", "/tmp", "-c", "/etc/nginx-weft.conf", "-e", "stderr")
    base = f"http://{w.host}:8080"
    w.shell(f"curl {words(*CURL)} -o /tmp/x {base}/large.bin; sha256sum < /tmp/x; "
            f"wrk --threads 2 --connections 16 --duration 1s {base}/small.bin")

    def check(said: Said) -> None:
        want_equal("sum", said().split()[0], w.shared.large.sha256)
        want("Non-2xx" not in said() and "Socket errors" not in said(), "wrk saw errors")
        requests = int(next(line.split()[0] for line in said().splitlines() if "requests in" in line))
        want(requests >= 20, f"only {requests} requests")
    return check


def dnsmasq(w: World) -> None:
    w.serve("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=", "--no-resolv",
            "--no-hosts", "--log-facility=-", f"--listen-address={w.server}", "--bind-interfaces",
            f"--host-record={NAME},192.0.2.77,2001:db8::77", "--txt-record=text.weft.test,woven")


@row
def dig(w: World) -> Check:
    dnsmasq(w)
    ask = f"dig @{w.server} +short +time=2 +tries=2 +nocookie"
    w.shell(f"{ask} {NAME} A; {ask} {NAME} AAAA; {ask} +tcp text.weft.test TXT")
    return lambda said: want_equal("A and AAAA over UDP, TXT over TCP", said().splitlines(), ["192.0.2.77", "2001:db8::77", '"woven"'])


@row(families=(IPV4,))
def dhcp(w: World) -> Check:
    """The client's address and its way out are dnsmasq's; the lease is renewed twice, and lasts."""
    w.leased, w.duration = True, "60s"
    w.serve("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=", "--no-resolv", "--no-hosts", "--port=0",
            "--log-facility=-", "--log-dhcp", "--interface=eth0", "--bind-interfaces", "--no-ping", "--dhcp-leasefile=/tmp/leases",
            "--dhcp-range=10.77.0.50,10.77.0.59,255.255.255.0,2m", "--dhcp-option=option:T1,10", "--dhcp-option=option:T2,20", name="leases")
    beyond = "192.0.2.1"
    w.program("beyond", "server", "ip", "address", "add", f"{beyond}/32", "dev", "lo")
    w.serve(paths.PYTHON, w.files.servers / "web.py", "0.0.0.0", "8000", w.shared.www)
    fetch = f"curl {words(*CURL)} http://{beyond}:8000/small.bin | sha256sum"
    w.shell(f"{fetch}; sleep 25; ip -4 -oneline address show dev eth0; ip route show default; {fetch}", start="8s")

    def check(said: Said) -> None:
        first, address, route, last = said().splitlines()
        want_equal("sums", [first.split()[0], last.split()[0]], [w.shared.small.sha256] * 2)
        want("inet 10.77.0.5" in address and "dynamic" in address and " brd 10.77.0.255 " in address, address)
        want(route.startswith("default via 10.77.0.1 dev eth0 proto dhcp src 10.77.0.5") and "metric 1002" in route, route)
        told = said("leases") + said.error("leases")
        want(told.count("DHCPACK") >= 3 and told.count("DHCPDISCOVER") <= 2, told[-2000:])
    return check


@row
def getent(w: World) -> Check:
    dnsmasq(w)
    w.own("client", **{"/etc/resolv.conf": f"nameserver {w.server}\noptions timeout:2 attempts:2\n"})
    w.call("getent", f"ahostsv{w.family.version}", NAME)

    def check(said: Said) -> None:
        lines = [line.split() for line in said().splitlines()]
        want_equal("addresses", {line[0] for line in lines}, {"192.0.2.77" if w.family is IPV4 else "2001:db8::77"})
        want_equal("socket types", {line[1] for line in lines}, {"STREAM", "DGRAM", "RAW"})
    return check


@row
def bash_jobs(w: World) -> Check:
    web_server(w, 8000)
    w.call("bash", "-c", rows.BASH, "bash", w.server, w.host)
    return lambda said: want_equal("sums of five fetches", said().splitlines(), [f"{w.shared.small.sha256}  -"] * 5)


@row
def forking_server(w: World) -> Check:
    w.serve(w.shared.fork_server, w.server, "8006")
    w.call(paths.PYTHON, "-c", rows.FORKED_CLIENT, w.server, "8006", w.shared.small.path)
    data = w.shared.small.path.read_bytes()
    wanted = [hashlib.sha256(data[: len(data) - number]).hexdigest() for number in range(8)]
    return lambda said: want_equal("sums that the children made", said().split(), wanted)


@row
def node(w: World) -> Check:
    script, shared = w.files.servers / "web.mjs", w.shared
    w.serve("node", script, "serve", w.server, "8007", shared.small.path)
    w.call("node", script, "fetch", f"http://{w.host}:8007", "8", shared.large.path)
    return sums(*[shared.small] * 8, shared.large)


@row
def ssh_scp(w: World) -> Check:
    shared = w.shared
    config = more_rows.SSHD.format(address=w.server, host_key="/run/weft-host-key", user_key="/etc/weft-user-key")
    w.own("server", **w.files.ssh_keys, **{"/etc/weft-sshd.conf": config})
    w.own("client", **w.files.ssh_keys)
    w.serve("sh", "-euc", "mkdir -p /run/sshd; install -m 600 /etc/weft-host-key /run/weft-host-key; exec /usr/sbin/sshd -D -e -f /etc/weft-sshd.conf")
    options = words("-F", "none", "-i", "/tmp/key", *(f"-o{option}" for option in (
        "StrictHostKeyChecking=no", "BatchMode=yes", "UserKnownHostsFile=/dev/null", "ConnectTimeout=20", "LogLevel=ERROR")))
    large = shared.large
    w.shell(f"""
install -m 600 /etc/weft-user-key /tmp/key
ssh {options} -p 2222 root@{w.server} 'echo $SSH_CONNECTION; cat | sha256sum' < {shared.small.path}
scp {options} -P 2222 {large.path} root@{w.host}:/tmp/there
ssh -n {options} -p 2222 root@{w.server} sha256sum /tmp/there
scp {options} -P 2222 root@{w.host}:{large.path} /tmp/here
sha256sum /tmp/here
""")

    def check(said: Said) -> None:
        first, *more = said().splitlines()
        want(w.server in first.split(), f"SSH_CONNECTION: {first!r}")
        want_equal("sums", [line.split()[0] for line in more], [shared.small.sha256, large.sha256, large.sha256])
    return check


@row
def ftp(w: World) -> Check:
    file = w.shared.large
    base = f"ftp://{w.host}:2121/"
    w.serve("sh", "-euc", f"mkdir /tmp/ftp; cp {file.path} /tmp/ftp; exec {paths.PYTHON} {w.files.servers}/ftpd.py {w.server} 2121 /tmp/ftp")
    curl = f"curl {words(*CURL)} --user weft:test"
    w.shell(f"""
cd /tmp
{curl} -o passive {base}large.bin
{curl} --ftp-port - -o active {base}large.bin
{curl} --ftp-port - -T {file.path} {base}uploaded
lftp -c 'set net:max-retries 1; set net:timeout 10; set ftp:ssl-allow no; open -u weft,test {base}; mirror -P 3 . mirrored'
sha256sum passive active mirrored/uploaded
""")
    return sums(file, file, file)


@row
def http3(w: World) -> Check:
    script, shared = w.files.servers / "http3.py", w.shared
    path = {"PYTHONPATH": str(w.files.packages)}
    w.serve(paths.PYTHON, script, "serve", w.server, "4433", shared.certificate, shared.key, shared.small.path, **path)
    w.call(paths.PYTHON, script, "fetch", w.server, "4433", shared.authority, "4", shared.small.path, **path)
    return sums(*[shared.small] * 5)


@row
def udp_fragments(w: World) -> Check:
    script, sizes = w.files.servers / "udp_echo.py", ["1472", "1473", "9000", "65507"]
    w.serve(paths.PYTHON, script, "serve", w.server, "7007")
    w.call(paths.PYTHON, script, "echo", w.server, "7007", *sizes)
    return lambda said: want_equal("sizes that came back equal", said().split(), sizes)


@row
def ping(w: World) -> Check:
    ask = f"ping -{w.family.version} -n -c 3 -i 0.2 -W 5 {w.server}"
    w.shell(f"{ask} -s 56; {ask} -s 4000")

    def check(said: Said) -> None:
        want_equal("complete answers", said().count("3 packets transmitted, 3 received, 0% packet loss"), 2)
        want_equal("answers with their hop limit", said().count("ttl=64"), 6)
    return check


REFUSED = "import socket, sys\ntry: socket.create_connection((sys.argv[1], 9), 10)\nexcept OSError as e: print(type(e).__name__)"


@row(router=True)
def ping_unreachable(w: World) -> Check:
    """What is not there is told: an error comes back instead of silence, of a host and of a port."""
    nobody = w.server[:-1] + "9"
    w.shell(f"! ping -{w.family.version} -n -c 1 -W 9 {nobody}; {paths.PYTHON} -c {words(REFUSED)} {w.server}")

    def check(said: Said) -> None:
        want(f"From {w.near} " in said() and "nreachable" in said(), f"the router did not say that {nobody} is not there:\n{said()}")
        want_equal("a port where nobody listens", said().splitlines()[-1], "ConnectionRefusedError")
    return check


@row
def fping(w: World) -> Check:
    w.call("fping", f"-{w.family.version}", "-C", "3", "-p", "100", "-t", "5000", w.server)
    return lambda said: want_equal("answers", said().count("bytes,"), 3)


@row(router=True)
def traceroute(w: World) -> Check:
    """UDP to unlikely ports, ICMP echo, TCP: through a router, which must show as the first hop."""
    methods = ("", "-I", "-T -p 9")
    w.shell("; ".join(f"traceroute -{w.family.version} -n -q 1 -w 3 -m 4 {method} {w.server}; echo" for method in methods))

    def check(said: Said) -> None:
        found = [more_rows.hops(part) for part in said().rstrip().split("\n\n")]
        want_equal("hops of UDP, ICMP and TCP", found, [[w.near, w.server]] * 3)
    return check


@row(router=True, canary=('2/', '9/'))
def ip_addr(w: World) -> Check:
    """iproute, libc and Python see the node's interfaces, addresses and routes, and no others."""
    family = "inet" if w.family is IPV4 else "inet6"
    names = "import json, socket; print(json.dumps(socket.if_nameindex()))"
    w.shell(f"ip -json addr; echo; ip -json -{w.family.version} route; echo; {paths.PYTHON} -c '{names}'")

    def check(said: Said) -> None:
        links, routes, indexes = [json.loads(line) for line in said().splitlines() if line.strip()]
        want_equal("names", sorted(link["ifname"] for link in links), ["eth0", "lo"])
        link = next(link for link in links if link["ifname"] == "eth0")
        want("UP" in link["flags"] and link["mtu"] == 1500, f"flags and MTU: {link}")
        found = [(row["family"], row["local"], row["prefixlen"]) for row in link["addr_info"]]
        want((family, w.client, w.family.bits) in found, f"addresses: {found}")
        want(w.near in [route.get("gateway") for route in routes], f"routes: {routes}")
        want_equal("if_nameindex", sorted(name for _, name in indexes), ["eth0", "lo"])
    return check


@row
def git_clone(w: World) -> Check:
    """Over http, as git serves it without a program of its own: from files."""
    w.serve("sh", "-euc", f"""
export HOME=/tmp GIT_CONFIG_NOSYSTEM=1; cd /tmp; git init -q -b main work; cd work
git config user.name weft; git config user.email weft@weft.test
for n in $(seq 20); do seq $n 1000 > file$n; git add .; git commit -q -m "commit $n"; done
cp {w.shared.small.path} small.bin; git add .; git commit -q -m last; git tag v1
cd ..; git clone -q --bare work repository.git; cd repository.git; git update-server-info; git rev-parse HEAD
exec {paths.PYTHON} -m http.server --directory /tmp --bind {w.server} 8001
""")
    w.shell(f"""
export HOME=/tmp; cd /tmp; git clone -q http://{w.host}:8001/repository.git; cd repository
git rev-parse v1; git log --oneline | wc -l; sha256sum < small.bin; git fsck --full 2>/dev/null; git status --porcelain
""")

    def check(said: Said) -> None:
        lines = said().splitlines()
        want_equal("tip, commits, sum", lines, [said("server").split()[0], "21", f"{w.shared.small.sha256}  -"])
    return check


SQLITE = """
import sqlite3, sys, os, time
for child in range(4):
    if os.fork() == 0:
        db = sqlite3.connect('/tmp/db', timeout=30)
        for n in range(25):
            with db: db.execute('insert into t values (?, ?)', (child, n))
        os._exit(0)
for _ in range(4): os.wait()
"""


@row(families=(IPV4,), alone="nothing of it goes over a wire")
def sqlite(w: World) -> Check:
    """The shell, and four processes that lock one another out of a database."""
    w.shell(f"""
sqlite3 /tmp/db 'create table t (child integer, n integer); create index i on t (n)'
{paths.PYTHON} -c {words(SQLITE)}
sqlite3 /tmp/db 'pragma integrity_check; select count(*), sum(n), count(distinct child) from t; explain query plan select * from t where n = 3'
sqlite3 /tmp/db .dump | sqlite3 /tmp/copy; sqlite3 /tmp/copy 'select count(*) from t'
""", start="0s")

    def check(said: Said) -> None:
        lines = said().splitlines()
        want_equal("integrity, rows, rows of the copy", [lines[0], lines[1], lines[-1]], ["ok", "100|1200|4", "100"])
    return check


@row(families=(IPV4,))
def two_controls(w: World) -> Check:
    """A congestion control per node, as programs see it."""
    w.lines["client"] = ['parameters = { "tcp.congestion" = "reno" }']
    w.serve(w.shared.fork_server, w.server, "8006")
    w.call(paths.PYTHON, "-c", more_rows.CONTROL, w.server, "8006", w.shared.large.path)
    return lambda said: want_equal("control, sum and address", said().split(), ["reno", w.shared.large.sha256, w.client])


@row
def iperf2(w: World) -> Check:
    """The older iperf: threads, and a duration that it sleeps through."""
    v6 = ["-V"] if w.family is IPV6 else []
    w.serve("iperf", "-s", "-p", "5001", "-B", w.server, *v6)
    w.call("iperf", "-c", w.server, "-p", "5001", "-t", "1", "-y", "C", *v6)

    def check(said: Said) -> None:
        moved = int(said().strip().split(",")[7])
        # 100 Mbit/s for a second, and what it had written by then: at most a send buffer (tcp_wmem).
        want(8_000_000 < moved < 12_500_000 + (4 << 20), f"{moved} bytes")
    return check


PG_HBA = "host all all all trust\nlocal all all trust\n"


@row(families=(IPV4,))
def postgres_pgbench(w: World) -> Check:
    """A server that forks a process per connection and shares memory with it, as its own user; four clients in two threads."""
    binaries = paths.postgres()
    w.own("server", **{"/etc/weft-hba.conf": PG_HBA})
    server = f"""
export PATH={binaries}:$PATH LC_ALL=C.UTF-8
initdb -D /tmp/data -A trust -U postgres --no-sync > /tmp/log
exec postgres -D /tmp/data -c listen_addresses={w.server} -c unix_socket_directories=/tmp -c hba_file=/etc/weft-hba.conf -c fsync=off -c max_connections=20
"""
    w.serve("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "sh", "-euc", server)
    to = f"-h {w.server} -U postgres"
    w.shell(f"""
export PATH={binaries}:$PATH
for n in $(seq 60); do pg_isready -q {to} && break; sleep 1; done
pgbench {to} -q -i -s 1 postgres 2>/dev/null
pgbench {to} -n -c 4 -j 2 -t 25 postgres 2>/dev/null
psql {to} -At -c 'select count(*), (select count(*) from pgbench_accounts) from pgbench_history' postgres
psql {to} -At -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)' postgres
""")
    w.duration = "120s"

    def check(said: Said) -> None:
        want("number of transactions actually processed: 100/100" in said(), "pgbench did not do its 100 transactions")
        want("number of failed transactions: 0" in said(), "transactions failed")
        want_equal("rows of the history and accounts; are the sums equal?", said().splitlines()[-2:], ["100|100000", "t"])
    return check


BIRD = """
router id {id};
protocol device {{ scan time 5; }}
protocol static {{ {channel}; route {prefix} blackhole; }}
protocol bgp {{ local {local} as {own}; neighbor {peer} as {other}; hold time 9; connect delay time 1; {channel} {{ import all; export all; }}; }}
"""


@row
def bird(w: World) -> Check:
    """Two routers tell one another their routes over BGP."""
    prefixes = ("192.0.2.0/24", "198.51.100.0/24") if w.family is IPV4 else ("2001:db8:1::/48", "2001:db8:2::/48")
    channel = f"ipv{w.family.version}"
    ends = [("client", w.client, w.server, 65001, 65002, prefixes[0]), ("server", w.server, w.client, 65002, 65001, prefixes[1])]
    for number, (node, local, peer, own, other, prefix) in enumerate(ends, 1):
        text = BIRD.format(id=f"10.0.0.{number}", channel=channel, prefix=prefix, local=local, peer=peer, own=own, other=other)
        w.own(node, **{"/etc/weft-bird.conf": text})
        wait = "sleep 20; birdc -s /tmp/ctl show route; birdc -s /tmp/ctl show protocols"
        start = "/usr/sbin/bird -c /etc/weft-bird.conf -s /tmp/ctl -P /tmp/pid"
        w.program(node, node, "sh", "-euc", f"{start}; {wait}; birdc -s /tmp/ctl down; sleep 1")

    def check(said: Said) -> None:
        for node, learned, peer in (("client", prefixes[1], 65002), ("server", prefixes[0], 65001)):
            line = next((line for line in said(node).splitlines() if line.startswith(learned)), "")
            want("unicast" in line or "blackhole" in line, f"{node} has no route to {learned}:\n{said(node)}")
            want(f"AS{peer}" in line, f"{node}'s route does not come from AS {peer}: {line}")
            want("Established" in said(node), f"{node} has no session")
    return check


OSPF = """
router id {id};
protocol device {{ scan time 1; }}
protocol static {{ {channel}; route {prefix} blackhole; }}
protocol ospf {version} {{
    {channel} {{ import all; export where source = RTS_STATIC; }};
    area 0 {{ interface "eth*" {{ type broadcast; hello 1; dead count 4; wait 4; }}; }};
}}
"""


@row(ring=True, canary=('down = "side"', 'down = "near"'))
def bird_ospf(w: World) -> Check:
    """Three routers in a ring, raw sockets and multicast: they tell one another their routes; when a wire fails, they go the other way."""
    ipv4 = w.family is IPV4
    prefixes = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24") if ipv4 else ("2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48")
    ask = "birdc -s /tmp/ctl show route; birdc -s /tmp/ctl show ospf neighbors; echo ===="
    for number, (node, prefix) in enumerate(zip(("client", "router", "server"), prefixes), 1):
        text = OSPF.format(id=f"10.0.0.{number}", prefix=prefix, channel=f"ipv{w.family.version}", version="v2" if ipv4 else "v3")
        w.own(node, **{"/etc/weft-bird.conf": text})
        w.program(node, node, "sh", "-euc", "/usr/sbin/bird -c /etc/weft-bird.conf -s /tmp/ctl -P /tmp/pid; "
                                            f"sleep 19; {ask}; sleep 14; {ask}; birdc -s /tmp/ctl down; sleep 1")
    w.sections.append('[[events]]\nat = "20s"\ndown = "side"')

    def check(said: Said) -> None:
        before, after, _ = said().split("====\n")
        want_equal("routers that the client sees", [before.count("Full/"), after.count("Full/")], [2, 1])
        for where, out, metric in ((before, "eth1", 10), (after, "eth0", 20)):
            lines = where.splitlines()
            found = next((number for number, line in enumerate(lines) if line.startswith(prefixes[2])), None)
            want(found is not None, f"no route to {prefixes[2]}:\n{where}")
            want(f"(150/{metric}/" in lines[found] and lines[found + 1].endswith(out), f"the route is not over {out}:\n{where}")
            want(any(line.startswith(prefixes[1]) for line in lines), f"no route to {prefixes[1]}:\n{where}")
    return check


@row
def java(w: World) -> Check:
    """A thread for each of 24 connections on both sides, the last of them over a selector."""
    count, data = 24, w.shared.small.path.read_bytes()
    run = ("java", "-cp", w.files.servers, "Crowd")
    w.serve(*run, "serve", w.server, "8020", w.shared.small.path)
    w.call(*run, "fetch", w.server, "8020", count, start="5s")
    return lambda said: want_equal("sums", said().split(), [hashlib.sha256(data[number:]).hexdigest() for number in range(count)])
