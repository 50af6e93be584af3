"""More rows of the table: node, ssh, FTP, HTTP/3, ping, traceroute, and what a program sees of the node.

See rows.py for what a row is.
"""

from __future__ import annotations

import json
import os
import shutil

from harness import paths
from harness.paths import tool

from .rows import CURL, fetched, row, sha256_of
from .shared import IPV4, IPV6, SERVERS
from .stage import PingStage, RouterStage, Stage, StoppedStage, TwoStacksStage, want, want_equal


@row
def node(stage: Stage) -> None:
    """node's own http: eight fetches at once and an upload."""
    shared, script = stage.shared, str(SERVERS / "web.mjs")
    stage.start_server("node-server", [tool("node"), script, "serve", stage.server.address, "8007",
                                       str(shared.small.path)], 8007)
    lines = stage.run_client("node", [tool("node"), script, "fetch", f"http://{stage.server.host}:8007", "8",
                                      str(shared.large.path)]).splitlines()
    want_equal("sums", lines, [shared.small.sha256] * 8 + [shared.large.sha256])


SSHD = """
Port 2222
ListenAddress {address}
HostKey {host_key}
AuthorizedKeysFile {user_key}.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
UseDNS no
Subsystem sftp internal-sftp
"""


@row(needs_root="sshd sets groups, which root of a user namespace may not; runs as root")
def ssh_scp(stage: Stage) -> None:
    """A command over ssh, then scp both ways: 100 MB in the full form, 16 MB in the short one."""
    shared, folder = stage.shared, stage.env.folder
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where sshd's unprivileged child lives; Debian makes it at boot
    (folder / "sshd.conf").write_text(SSHD.format(address=stage.server.address, host_key=shared.ssh_host_key,
                                                  user_key=shared.ssh_key))
    stage.start_server("sshd", [tool("sshd"), "-D", "-e", "-f", str(folder / "sshd.conf")], 2222)
    options = ["-F", "none", "-i", str(shared.ssh_key), "-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes",
               "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=20", "-o", "LogLevel=ERROR"]
    command = "echo from $SSH_CONNECTION; cat | sha256sum"
    lines = stage.run_client("ssh", [tool("ssh"), *options, "-p", "2222", f"root@{stage.server.address}", command],
                             stdin=shared.small.path).splitlines()
    want_equal("sum that the far side made", lines[-1].split()[0], shared.small.sha256)
    want(stage.server.address in lines[0].split(), f"SSH_CONNECTION: {lines[0]!r}")
    remote = f"root@{stage.server.host}:"
    for source, target, name in ((str(shared.huge.path), f"{remote}{folder}/there", "there"),
                                 (f"{remote}{shared.huge.path}", "here", "here")):
        stage.run_client("scp", [tool("scp"), *options, "-P", "2222", source, target])
        want_equal(f"sha256 of what scp copied {name}", sha256_of(folder / name), shared.huge.sha256)


@row
def ftp(stage: Stage) -> None:
    """Passive and active transfers: in the active one the server connects back to the client."""
    folder, file = stage.env.folder, stage.shared.large
    home = folder / "ftp"
    home.mkdir()
    shutil.copy(file.path, home)
    stage.start_server("ftpd", [paths.PYTHON, str(SERVERS / "ftpd.py"), stage.server.address, "2121", str(home)], 2121)
    base = f"ftp://{stage.server.host}:2121/"
    user = ["--user", "weft:test"]
    fetched(stage, "curl", [tool("curl"), *CURL, *user, "-o", "passive", f"{base}large.bin"], file, "passive")
    fetched(stage, "curl", [tool("curl"), *CURL, *user, "--ftp-port", "-", "-o", "active", f"{base}large.bin"], file,
            "active")
    stage.run_client("curl", [tool("curl"), *CURL, *user, "--ftp-port", "-", "-T", str(file.path), f"{base}uploaded"])
    want_equal("sha256 of the upload", sha256_of(home / "uploaded"), file.sha256)
    stage.run_client("lftp", [tool("lftp"), "-c", f"set net:max-retries 1; set net:timeout 10; set ftp:ssl-allow no; "
                              f"open -u weft,test {base}; mirror -P 3 . mirrored"])
    want_equal("sha256 of what lftp mirrored", sha256_of(folder / "mirrored" / "uploaded"), file.sha256)


@row
def http3(stage: Stage) -> None:
    """aioquic: QUIC in user space over UDP, a megabyte each way."""
    shared, script = stage.shared, str(SERVERS / "http3.py")
    python = str(paths.venv_python())
    stage.start_server("http3-server", [python, script, "serve", stage.server.address, "4433", str(shared.certificate),
                                        str(shared.key), str(shared.small.path)], 4433, "udp")
    lines = stage.run_client("http3", [python, script, "fetch", stage.server.address, "4433", str(shared.authority),
                                       "4", str(shared.small.path)]).splitlines()
    want_equal("sums of four fetches and of the upload as the server saw it", lines, [shared.small.sha256] * 5)


@row
def udp_fragments(stage: Stage) -> None:
    """Datagrams up to the largest of IPv4, there and back: what the link does not take goes in fragments, made and put together on both sides."""
    script, sizes = str(SERVERS / "udp_echo.py"), ["1472", "1473", "9000", "65507"]
    stage.start_server("udp-echo", [paths.PYTHON, script, "serve", stage.server.address, "7007"], 7007, "udp")
    output = stage.run_client("udp-client", [paths.PYTHON, script, "echo", stage.server.address, "7007", *sizes])
    want_equal("sizes that came back equal", output.split(), sizes)


def echo_requests(stage: Stage, name: str, *words: str) -> str:
    return stage.run_client(name, [tool(name), f"-{stage.family.version}", *words, stage.server.address])


@row(stage=PingStage)
def ping(stage: Stage) -> None:
    """iputils: ICMP datagram sockets under weft, raw ones where ping_group_range is empty. The second needs fragments."""
    for size in ("56", "4000"):
        output = echo_requests(stage, "ping", "-n", "-c", "3", "-i", "0.2", "-W", "5", "-s", size)
        want("3 packets transmitted, 3 received, 0% packet loss" in output, f"ping said:\n{output}")
        want("ttl=64" in output, f"no hop limit:\n{output}")


@row(stage=PingStage)
def fping(stage: Stage) -> None:
    """Raw sockets: fping takes an ICMP datagram socket only where it may have no raw one."""
    output = echo_requests(stage, "fping", "-C", "3", "-p", "100", "-t", "5000")
    want("3/3/0%" in output.replace(" ", "") or output.count("bytes,") == 3, f"fping said:\n{output}")


@row(stage=PingStage, roles=("client", "both"))
def ping_unreachable(stage: Stage) -> None:
    """What is not there is told: an error comes back instead of silence, by the error queue or a raw socket."""
    port = f"import socket; s = socket.create_connection(({stage.server.address!r}, 9), 10)"
    stage.run_client("ping", [tool("ping"), "-n", "-c", "1", "-W", "5", stage.server.address])
    output = stage.env.run("refused", [paths.PYTHON, "-c", f"try: {port}\nexcept OSError as e: print(type(e).__name__)"],
                           stage.client.words)
    want_equal("a port where nobody listens", output.strip(), "ConnectionRefusedError")


def hops(output: str) -> list[str]:
    """The addresses that traceroute printed, one a hop; * where nobody answered."""
    lines = [line.split() for line in output.splitlines()[1:]]
    return [next((word for word in line[1:] if "." in word and not word.endswith("ms") and word.count(".") == 3
                  or word.count(":") > 1), "*") for line in lines]


@row(stage=RouterStage, roles=("client", "server"), needs_root="two TAPs on a bridge need root; runs as root")
def traceroute(stage: Stage) -> None:
    """UDP to unlikely ports, ICMP echo, TCP: through a router, which must show as the first hop."""
    near, far = stage.router
    first = near if stage.role == "client" else far
    for method in ([], ["-I"], ["-T", "-p", "9"]):
        output = stage.run_client("traceroute", [tool("traceroute"), f"-{stage.family.version}", "-n", "-q", "1", "-w", "3",
                                                 "-m", "4", *method, stage.server.address])
        want_equal(f"hops of traceroute {' '.join(method)}", hops(output), [first, stage.server.address])


ADDRESSES = {IPV4: "inet", IPV6: "inet6"}


@row(stage=StoppedStage, roles=("client",), families=(IPV4, IPV6))
def ip_addr(stage: Stage) -> None:
    """iproute, libc and Python see the node's interfaces, addresses and routes, and no others."""
    ip = [tool("ip"), "-json"]
    name = "weft0" if stage.client.under_weft else "eth0"
    links = json.loads(stage.run_client("ip", [*ip, "addr"]))
    want_equal("names", sorted(link["ifname"] for link in links), sorted(["lo", name]))
    link = next(link for link in links if link["ifname"] == name)
    want("UP" in link["flags"] and link["mtu"] == 1500, f"flags and MTU of {name}: {link}")
    rows = [(row["family"], row["local"], row["prefixlen"]) for row in link["addr_info"]]
    wanted = (ADDRESSES[stage.family], stage.client.address, stage.family.bits)
    want(wanted in rows, f"addresses of {name}: {rows}")
    routes = json.loads(stage.run_client("ip", [*ip, f"-{stage.family.version}", "route"]))
    default = next((route.get("gateway") for route in routes if route["dst"] == "default"), None)
    want_equal("gateway", default, stage.family.host)
    lines = json.loads(stage.run_client("python", [paths.PYTHON, "-c",
                                                   "import json, socket; print(json.dumps(socket.if_nameindex()))"]))
    want_equal("if_nameindex", sorted(name for _, name in lines), sorted(["lo", name]))


CONTROL = """
import hashlib, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
data = open(sys.argv[3], "rb").read()
connection.sendall(data)
connection.shutdown(socket.SHUT_WR)
print(control, connection.makefile().read().split()[0], connection.getsockname()[0])
"""


@row(stage=TwoStacksStage, roles=("client",), families=(IPV4,), needs_root="two TAPs need root; runs as root")
def two_stacks(stage: TwoStacksStage) -> None:
    """Two programs at once, each on a stack of its own with its own congestion control."""
    stage.start_server("fork_server", [stage.shared.fork_server, "0.0.0.0", "8006"], 8006)
    file = stage.shared.huge
    argv = [paths.PYTHON, "-c", CONTROL]
    beside = stage.env.start("second", [*argv, "10.79.0.1", "8006", str(file.path)], stage.second.words)
    first = stage.run_client("first", [*argv, stage.server.address, "8006", str(file.path)])
    beside.wait(40)
    want_equal("control, sum and address of the first", first.split(), [stage.controls[0], file.sha256, stage.client.address])
    want_equal("of the second", beside.stdout.split(), [stage.controls[1], file.sha256, "10.79.0.2"])
