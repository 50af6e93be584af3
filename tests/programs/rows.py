"""The table: program × role × expected result.

Each function is a row; it runs for every role (client under weft, server under weft, both), in native mode as its own
oracle, and as a canary with the stack cut. A row checks a real result: a sum, a count, an answer.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import shlex
from typing import Callable

from harness import paths
from harness.namespaces import in_user_namespace
from harness.paths import tool

from .shared import IPV4, IPV6, NAME, SERVERS, Family, File
from .stage import ROLES, Stage, want, want_equal

Body = Callable[[Stage], None]


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table: its body, where it runs and in which roles."""

    body: Body
    family: Family = IPV4
    roles: tuple[str, ...] = ROLES
    stage: type[Stage] = Stage
    # Why it needs root of the machine rather than of a user namespace; empty: it does not.
    needs_root: str = ""
    # What it waits for before it can run under weft; empty: it runs.
    awaits: str = ""


ROWS: dict[str, Row] = {}


def row(body: Body | None = None, families: tuple[Family, ...] = (IPV4, IPV6), **more) -> Callable:
    """Registers a row, once for each IP version: `nc` and `nc-6`."""
    if body is None:
        return lambda body: row(body, families, **more)
    for family in families:
        name = body.__name__.replace("_", "-") + ("-6" if family is IPV6 else "")
        ROWS[name] = Row(body, family, **more)
    return body


def sha256_of(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def python_server(stage: Stage, script: str, port: int, *words: str) -> None:
    stage.start_server(script.removesuffix(".py"), [paths.PYTHON, str(SERVERS / script), *words], port)


def with_file(stage: Stage, place: str, text: str, script: str) -> list[str]:
    """Words that run `script` in a mount namespace of its own where `place` holds `text`."""
    file = stage.env.folder / place.rsplit("/", 1)[1]
    file.write_text(text)
    return [tool("unshare"), "--mount", "sh", "-c", f"mount --bind {shlex.quote(str(file))} {place} && exec {script}"]


def web_server(stage: Stage, port: int, tls: bool = False) -> None:
    files = [str(stage.shared.certificate), str(stage.shared.key)] if tls else []
    python_server(stage, "web.py", port, stage.server.address, str(port), str(stage.shared.www), *files)


def fetched(stage: Stage, client: str, argv: list[str], file: File, output: str = "fetched") -> None:
    """Runs a client that writes `output` and compares it with `file`."""
    stage.run_client(client, argv)
    want_equal(f"sha256 of what {client} fetched", sha256_of(stage.env.folder / output), file.sha256)


CURL = ["--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "30"]


@row
def curl_http(stage: Stage) -> None:
    web_server(stage, 8000)
    url = f"http://{stage.server.host}:8000/large.bin"
    fetched(stage, "curl", [tool("curl"), *CURL, "-o", "fetched", url], stage.shared.large)


@row
def curl_https(stage: Stage) -> None:
    web_server(stage, 8443, tls=True)
    url = f"https://{stage.server.host}:8443/large.bin"
    fetched(stage, "curl", [tool("curl"), *CURL, "--cacert", str(stage.shared.authority), "-o", "fetched", url],
            stage.shared.large)


@row
def curl_upload(stage: Stage) -> None:
    web_server(stage, 8000)
    file = stage.shared.large
    answer = stage.run_client("curl", [tool("curl"), *CURL, "--upload-file", str(file.path),
                                       f"http://{stage.server.host}:8000/upload"])
    want_equal("sha256 that the server made of the upload", answer, file.sha256)


@row
def wget(stage: Stage) -> None:
    web_server(stage, 8000)
    base = f"http://{stage.server.host}:8000"
    # Two files in one call: the second goes over the kept connection.
    fetched(stage, "wget", [tool("wget"), "--no-proxy", "--tries=1", "--timeout=20", "--no-verbose",
                            f"{base}/large.bin", f"{base}/small.bin"], stage.shared.large, "large.bin")
    want_equal("sha256 of the second file", sha256_of(stage.env.folder / "small.bin"), stage.shared.small.sha256)


URLLIB = """
import hashlib, sys, urllib.request
for name in sys.argv[2:]:
    with urllib.request.urlopen(f"http://{sys.argv[1]}/{name}", timeout=20) as answer:
        print(hashlib.sha256(answer.read()).hexdigest())
"""


@row
def python_http(stage: Stage) -> None:
    """http.server as Debian ships it, urllib as client."""
    address = stage.server.address
    # It looks up its own name when it binds; without an answer in /etc/hosts that waits for a name server.
    script = f"{paths.PYTHON} -m http.server --directory {stage.shared.www} --bind {address} 8001"
    stage.start_server("http.server", with_file(stage, "/etc/hosts", f"{address} {NAME}\n", script), 8001)
    files = (stage.shared.small, stage.shared.large, stage.shared.small)
    sums = stage.run_client("urllib", [paths.PYTHON, "-c", URLLIB, f"{stage.server.host}:8001",
                                       *(file.name for file in files)])
    want_equal("sums", sums.split(), [file.sha256 for file in files])


@row
def python_asyncio(stage: Stage) -> None:
    python_server(stage, "aio_echo.py", 8002, "serve", stage.server.address, "8002")
    equal = stage.run_client("aio_echo", [paths.PYTHON, str(SERVERS / "aio_echo.py"), "echo", stage.server.address,
                                          "8002", "20", "150000"])
    want_equal("echoes that came back equal", equal.strip(), "20")


@row
def python_ssl(stage: Stage) -> None:
    shared = stage.shared
    python_server(stage, "tls_sum.py", 8003, "serve", stage.server.address, "8003", str(shared.certificate),
                  str(shared.key))
    answer = stage.run_client("tls_sum", [paths.PYTHON, str(SERVERS / "tls_sum.py"), "send", stage.server.address,
                                          "8003", str(shared.authority), str(shared.large.path)])
    want_equal("sum and TLS version", answer.split(), [shared.large.sha256, "TLSv1.3"])


@row
def go_static(stage: Stage) -> None:
    shared = stage.shared
    stage.start_server("go", [shared.go, "serve", f"{stage.server.host}:8004", str(shared.small.path)], 8004)
    lines = stage.run_client("go", [shared.go, "fetch", f"http://{stage.server.host}:8004", "16",
                                    str(shared.small.path)]).splitlines()
    want_equal("sums of 16 goroutines", lines, [f"{shared.small.sha256} {shared.small.sha256}"] * 16)


def iperf3(stage: Stage, *options: str) -> dict:
    """Runs iperf3 for a second; its JSON result."""
    stage.start_server("iperf3-server", [tool("iperf3"), "--server", "--one-off", "--port", "5201", "--bind",
                                         stage.server.address, "--forceflush"], 5201)
    output = stage.run_client("iperf3", [tool("iperf3"), "--client", stage.server.address, "--port", "5201",
                                         "--time", "1", "--json", *options])
    result = json.loads(output)
    want("error" not in result, f"iperf3: {result.get('error')}")
    return result["end"]


def want_bytes(end: dict, streams: int = 1) -> None:
    """Each stream moved data, and the receiver did not count more than the sender sent."""
    want_equal("streams", len(end["streams"]), streams)
    for stream in end["streams"]:
        want(stream["receiver"]["bytes"] > 100_000, f"a stream received only {stream['receiver']['bytes']} bytes")
    sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
    want(0 < received <= sent, f"received {received} of {sent} bytes sent")


@row
def iperf3_tcp(stage: Stage) -> None:
    want_bytes(iperf3(stage))


@row
def iperf3_reverse(stage: Stage) -> None:
    want_bytes(iperf3(stage, "--reverse"))


@row
def iperf3_parallel(stage: Stage) -> None:
    want_bytes(iperf3(stage, "--parallel", "8"), streams=8)


@row
def iperf3_udp(stage: Stage) -> None:
    end = iperf3(stage, "--udp", "--bitrate", "2M", "--length", "1400")
    packets, lost = end["sum"]["packets"], end["sum"]["lost_packets"]
    want(packets > 100, f"only {packets} datagrams")
    # 2 Mbit/s without impairment: what comes while a loaded machine keeps iperf3 off its processors fits a socket's buffer, here as on Linux.
    want(0 <= lost <= packets // 20, f"{lost} of {packets} datagrams lost")


@row
def nc(stage: Stage) -> None:
    server = stage.start_server("nc-server", [tool("nc"), "-l", "-n", stage.server.address, "8005"], 8005)
    stage.run_client("nc", [tool("nc"), "-n", "-N", "-w", "20", stage.server.address, "8005"],
                     stdin=stage.shared.large.path)
    server.wait(10)
    want_equal("sha256 of what nc received", sha256_of(server.stdout_path), stage.shared.large.sha256)


@row
def redis(stage: Stage) -> None:
    stage.start_server("redis", [tool("redis-server"), "--port", "6379", "--bind", stage.server.address, "--save", "",
                                 "--appendonly", "no", "--daemonize", "no", "--protected-mode", "no",
                                 "--dir", str(stage.env.folder)], 6379)
    to = ["-h", stage.server.address, "-p", "6379"]
    output = stage.run_client("redis-benchmark", [tool("redis-benchmark"), *to, "-n", "2000", "-c", "20", "-q",
                                                  "--csv", "-t", "set,get,lpush,lrange_100"])
    rates = {line["test"].split(" ")[0]: float(line["rps"]) for line in csv.DictReader(output.splitlines())}
    want({"SET", "GET", "LPUSH", "LRANGE_100"} <= set(rates), f"tests of redis-benchmark: {sorted(rates)}")
    want(all(rate > 0 for rate in rates.values()), f"rates: {rates}")
    cli = [tool("redis-cli"), *to]
    # 2000 pushes of LPUSH and 2000 that LRANGE makes first.
    want_equal("length of the list", stage.run_client("redis-cli", [*cli, "llen", "mylist"]).strip(), "4000")
    want_equal("GET of the value set", stage.run_client("redis-cli", [*cli, "get", "key:__rand_int__"]).strip(), "VXK")


NGINX = """
daemon off;
user root;
worker_processes 2;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    sendfile on;
    server {{ listen {host}:8080; root {www}; }}
}}
"""


# wrk ends by the clock only, and on a busy machine a second is little: so often it is asked for so many requests.
WRK_RUNS_MAX = 20
WRK_REQUESTS_MIN = 20


@row
def nginx_wrk(stage: Stage) -> None:
    folder = stage.env.folder
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, host=stage.server.host, www=stage.shared.www))
    stage.start_server("nginx", [tool("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf"),
                                 "-e", "stderr"], 8080)
    base = f"http://{stage.server.host}:8080"
    fetched(stage, "curl", [tool("curl"), *CURL, "-o", "fetched", f"{base}/large.bin"], stage.shared.large)
    requests = 0
    for _ in range(WRK_RUNS_MAX):
        output = stage.run_client("wrk", [tool("wrk"), "--threads", "2", "--connections", "16", "--duration", "1s",
                                          f"{base}/small.bin"])
        want("Non-2xx" not in output and "Socket errors" not in output, f"wrk saw errors:\n{output}")
        requests += int(next(line.split()[0] for line in output.splitlines() if "requests in" in line))
        if requests >= WRK_REQUESTS_MIN:
            break
    want(requests >= WRK_REQUESTS_MIN, f"only {requests} requests in {WRK_RUNS_MAX} runs of wrk")


def dnsmasq(stage: Stage) -> None:
    address = stage.server.address
    # In a user namespace setgroups is forbidden; debug mode leaves the ids alone (and forks no child per TCP query).
    foreground = "--no-daemon" if in_user_namespace() else "--keep-in-foreground"
    stage.start_server("dnsmasq", [
        tool("dnsmasq"), foreground, "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=",
        "--no-resolv", "--no-hosts", "--log-facility=-", f"--listen-address={address}", "--bind-interfaces",
        f"--host-record={NAME},192.0.2.77,2001:db8::77", "--txt-record=text.weft.test,woven",
    ], 53, "udp")


@row
def dig(stage: Stage) -> None:
    dnsmasq(stage)
    ask = [tool("dig"), f"@{stage.server.address}", "+short", "+time=2", "+tries=2", "+nocookie"]
    want_equal("A over UDP", stage.run_client("dig", [*ask, NAME, "A"]).strip(), "192.0.2.77")
    want_equal("AAAA over UDP", stage.run_client("dig", [*ask, NAME, "AAAA"]).strip(), "2001:db8::77")
    want_equal("TXT over TCP", stage.run_client("dig", [*ask, "+tcp", "text.weft.test", "TXT"]).strip(), '"woven"')


@row
def getent(stage: Stage) -> None:
    """libc's resolver: reads /etc/resolv.conf, asks from an unconnected or connected UDP socket."""
    dnsmasq(stage)
    lookup = f"getent ahostsv{stage.family.version} {NAME}"
    if stage.client.under_weft and not stage.server.under_weft and stage.family is IPV4:
        # weft gives its programs a resolv.conf that works on its stack: it asks the host's side.
        words = lookup.split()
    else:
        resolv = f"nameserver {stage.server.address}\noptions timeout:2 attempts:2\n"
        words = with_file(stage, "/etc/resolv.conf", resolv, lookup)
    lines = stage.run_client("getent", words).splitlines()
    want_equal("addresses", {line.split()[0] for line in lines},
               {"192.0.2.77" if stage.family is IPV4 else "2001:db8::77"})
    want_equal("socket types", {line.split()[1] for line in lines}, {"STREAM", "DGRAM", "RAW"})


BASH = r"""
set -u
fetch() { curl --silent --show-error --fail --noproxy '*' --max-time 20 "http://$2:8000/small.bin" | sha256sum; }
for job in 1 2 3 4; do fetch "$@" & done
exec 3<>"/dev/tcp/$1/8000" || exit 1
printf 'GET /small.bin HTTP/1.0\r\n\r\n' >&3
sed '1,/^\r$/d' <&3 | sha256sum
exec 3>&-
wait
"""


@row
def bash_jobs(stage: Stage) -> None:
    """bash's own /dev/tcp beside background jobs that fork and exec curl."""
    web_server(stage, 8000)
    lines = stage.run_client("bash", ["bash", "-c", BASH, "bash", stage.server.address,
                                        stage.server.host]).splitlines()
    want_equal("sums of five fetches", lines, [f"{stage.shared.small.sha256}  -"] * 5)


FORKED_CLIENT = """
import socket, sys
data = open(sys.argv[3], "rb").read()
connections = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) for _ in range(8)]
for number, connection in enumerate(connections):
    connection.sendall(data[: len(data) - number])
    connection.shutdown(socket.SHUT_WR)
for connection in connections:
    print(connection.makefile().read().split()[0])
"""


@row
def forking_server(stage: Stage) -> None:
    """A child per connection with the connection as stdin and stdout; eight open at once, answered after half-close."""
    stage.start_server("fork_server", [stage.shared.fork_server, stage.server.address, "8006"], 8006)
    sums = stage.run_client("forked-client", [paths.PYTHON, "-c", FORKED_CLIENT, stage.server.address, "8006",
                                              str(stage.shared.small.path)])
    data = stage.shared.small.path.read_bytes()
    wanted = [hashlib.sha256(data[: len(data) - number]).hexdigest() for number in range(8)]
    want_equal("sums that the children made", sums.split(), wanted)
