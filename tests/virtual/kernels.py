"""Linux kernels as nodes of virtual worlds: `make test-kernel`. Skipped where no kernel has been built (`weft kernel build`)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from harness import paths, results, user, weft
from harness.environment import Environment
from harness.busy import busy_loops
from harness.processes import Failure

from . import releases, table, table_rows  # noqa: F401  its rows register themselves
from .shared import SECONDS_MAX, compiled, expect, keys, program, run_rows, section, weft_command

FULL = bool(os.environ.get("FULL"))
# Runs of each scenario that must come to one hash.
RUNS = 10 if FULL else 2
# weft, where every user can run it: main puts it here.
BINARIES: list[Path] = []
LINUX = {"kind": "linux"}
SOURCE = "/usr/share/common-licenses"
# What a ping over two kernels takes: twice the delay, and an Ethernet frame of 98 bytes at 100 Mbit/s each way.
DELAY_NS, FRAME_NS = 10_000_000, 98 * 8 * 10


def kernel(folder: Path) -> None:
    """Is there a kernel?"""
    if not json.loads(weft_command(folder, "kernel", "list", "--json").stdout):
        raise paths.MissingTool("no Linux kernel has been built: `weft kernel build` takes a few minutes")


def world(folder: Path, text: str, *words: str) -> tuple[dict, dict[str, str]]:
    """The summary of a run, and what its programs wrote. It runs several times, as root on one thread and as a user on two in turns: one hash."""
    kernel(folder)
    (folder / "w.toml").write_text(text)
    folder.chmod(0o755)
    out = folder / "out"
    summary = json.loads(weft_command(folder, "sim", "w.toml", "--json", "--out", str(out), *words).stdout)
    for number in range(1, RUNS):
        as_user = number % 2 == 1
        command = [*(user.words() if as_user and os.geteuid() == 0 else []), str(BINARIES[0]), "sim", str(folder / "w.toml"), "--json", *words]
        command += [] if "--threads" in words else ["--threads", str(1 + as_user)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/")
        if done.returncode:
            raise Failure(f"run {number + 1}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        expect(f"hash of run {number + 1}", json.loads(done.stdout)["hash"], summary["hash"])
    return summary, {row["name"]: (out / "programs" / row["name"] / "stdout").read_text() for row in summary["programs"]}


def linux_pair(a: dict, b: dict) -> str:
    return section("nodes.a", **a) + section("nodes.b", **b) + section("wires.ab", between=["a", "b"], rate="100mbit", delay="10ms")


def ping(a: dict, b: dict) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        text = keys(duration="5s") + linux_pair(a, b) + program("ping", "a", "ping", "-n", "-c", "3", "-i", "0.2", "b", start="2s")
        _, wrote = world(folder, text, "--set", "capture=true")
        expect("answers", wrote["ping"].count("bytes from"), 3)
        # On the wire, to the nanosecond: what goes in at one end comes out at the other.
        tshark = [paths.tool("tshark"), "-r", str(folder / "out" / "captures" / "a-eth0.pcapng"), "-Y", "icmp", "-T", "fields", "-e", "frame.time_epoch"]
        times = [int(line.replace(".", "")) for line in subprocess.run(tshark, capture_output=True, text=True, check=True).stdout.split()]
        gap = times[-1] - times[-2]
        expect("the last round trip in ns", gap, 2 * DELAY_NS + 2 * FRAME_NS)
        return f"{gap} ns"

    return body


def transfer(a: dict, b: dict) -> Callable[[Path], str]:
    """http in both directions, with what is at both ends compared byte for byte."""
    def body(folder: Path) -> str:
        fetch = "curl -sS http://{}/GPL-3 | sha256sum; sha256sum < " + SOURCE + "/GPL-3"
        text = keys(duration="20s") + linux_pair(a, b)
        for here, there in (("a", "b"), ("b", "a")):
            text += program(f"server-{here}", here, "python3", "-m", "http.server", "80", expect="running", directory=SOURCE)
            text += program(f"fetch-{here}", here, "sh", "-c", fetch.format(there), start="2s")
        _, wrote = world(folder, text)
        for name in ("fetch-a", "fetch-b"):
            got, wanted = wrote[name].split("\n")[:2]
            expect(name, got, wanted)
        return "byte-exact"

    return body


FORWARDING = keys(duration="10s") + section("nodes.a", **LINUX) + section("nodes.r", **LINUX) + section("nodes.b") + \
    section("wires.ar", between=["a", "r"], rate="100mbit", delay="5ms") + section("wires.rb", between=["r", "b"], delay="5ms") + \
    program("server", "b", "python3", "-m", "http.server", "80", expect="running", directory=SOURCE) + \
    program("fetch", "a", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{time_total}", "http://b/GPL-3", start="2s") + \
    program("random", "a", "sh", "-c", "head -c 16 /dev/urandom | sha256sum; date; cat /proc/sys/kernel/random/boot_id", start="1s")


def one_hash(folder: Path) -> str:
    seen = {}
    for threads in ("1", "2", "1"):
        summary, wrote = world(folder, FORWARDING, "--threads", threads)
        seen[summary["hash"], tuple(sorted(wrote.items()))] = threads
    expect("outcomes", len(seen), 1)
    other, _ = world(folder, FORWARDING, "--set", "seed=2")
    expect("another seed, another hash", (other["hash"],) in {key[:1] for key in seen}, False)
    return next(iter(seen))[0]


TWINS = keys(duration="6s", sample="20ms", capture=True) + section("nodes.a") + section("nodes.b") + \
    section("wires.ab", between=["a", "b"], rate="10mbit", delay="10ms") + \
    program("server", "a", "sh", "-c", "head -c 500000 /dev/zero > /srv/x; exec python3 -m http.server 80 --directory /srv", expect="running") + \
    program("fetch", "b", "curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", "http://a/x", start="2s") + \
    "[[expect]]\nprogram = 'fetch'\noutput = '500000'\n" + \
    "[[twins]]\nname = 'planted'\nlinux = ['*']\nset = ['wires.ab.lose=[60]']\n"


def planted_difference(folder: Path) -> str:
    """Of two Linux variants that differ by one lost frame, the frame is found; and one variant is like itself."""
    kernel(folder)
    (folder / "w.toml").write_text(TWINS)
    out = folder / "out"
    told = json.loads(weft_command(folder, "twin", "w.toml", "--json", "--out", str(out), "--variants", "planted,linux", "--tolerance", "0ns", "--windows").stdout)
    [found] = [row["difference"] for row in told["first_differences"]]
    expect("where", (found["node"], found["interface"]), ("b", "eth0"))
    # The sixtieth frame that a sends is the one that b misses.
    fields = ["-T", "fields", "-e", "tcp.seq", "-e", "tcp.len"]
    capture = str(out / "linux" / "captures" / "a-eth0.pcapng")
    tshark = [paths.tool("tshark"), "-r", capture, "-Y", "frame.packet_flags_direction == 2", *fields]
    seq, length = subprocess.run(tshark, capture_output=True, text=True, check=True).stdout.splitlines()[59].split("\t")
    expect("the frame that is missed", f"seq {seq} " in found["linux"]["frame"] and f"len {length} " in found["linux"]["frame"], True)
    expect("what came instead", f"seq {int(seq) + int(length)} " in found["planted"]["frame"], True)
    return found["linux"]["frame"]


def twins(name: str, *variants: str) -> Callable[[Path], str]:
    def body(folder: Path) -> str:
        kernel(folder)
        out = folder / "out"
        told = json.loads(weft_command(folder, "twin", str(paths.ROOT / "examples" / "twin" / name), "--json", "--out", str(out)).stdout)
        expect("variants", sorted(told["hashes"]), sorted(variants))
        goodput = max((row for row in told["table"] if row["figure"] == "goodput_mbit_per_second"), key=lambda row: row["linux"])
        for figure in ("cwnd_mean_segments", "rtt_mean_ms", "segments"):
            row = next(row for row in told["table"] if row["figure"] == figure and row["of"] == goodput["of"])
            expect(figure, [variant for variant in variants if not row[variant]], [])
        expect("plots", [kind for kind in ("svg", "png", "pdf") if (out / f"twin.{kind}").stat().st_size < 10_000], [])
        return ", ".join(f"{variant} {goodput[variant]} Mbit/s" for variant in variants)

    return body


ROWS = {
    "ping/linux-linux": ping(LINUX, LINUX),
    "ping/linux-weft": ping(LINUX, {}),
    "ping/weft-linux": ping({}, LINUX),
    "http/linux-linux": transfer(LINUX, LINUX),
    "http/linux-weft": transfer(LINUX, {}),
    "forwarding, one hash": one_hash,
    "twin/planted difference": planted_difference,
    "twin/download": twins("download.toml", "weft", "linux-sends", "weft-sends", "linux"),
    "twin/lossy": twins("lossy.toml", "weft", "linux"),
}


MPTCP_SERVER = """
import hashlib, socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as s:
    s.bind(("", 5000)); s.listen()
    c, _ = s.accept()
    h, n = hashlib.sha256(), 0
    while b := c.recv(1 << 16):
        h.update(b); n += len(b)
    print(n, h.hexdigest())
"""
MPTCP_CLIENT = """
import hashlib, socket, subprocess
data = bytes(i * i % 251 for i in range(3000000))
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as s:
    s.connect(("10.0.0.2", 5000))
    s.sendall(data)
    print(len(data), hashlib.sha256(data).hexdigest())
    print(subprocess.run(["ss", "-Mni"], capture_output=True, text=True).stdout)
"""


def mptcp(folder: Path) -> str:
    """The kernel's own Multipath TCP over two wires, set up by `ip mptcp`: both carry data, and it arrives as it was sent."""
    wire = {"between": ["a", "b"], "rate": "10mbit", "delay": "10ms"}
    text = keys(duration="8s") + section("nodes.a", **LINUX) + section("nodes.b", **LINUX) + section("wires.one", **wire) + section("wires.two", **wire)
    for node, script in (("a", "ip mptcp limits set subflow 2 add_addr_accepted 2"),
                         ("b", "ip mptcp limits set subflow 2; ip mptcp endpoint add 10.0.1.2 dev eth1 signal")):
        text += program(f"setup-{node}", node, "sh", "-ec", script, start="1s")
    text += program("server", "b", "python3", "-c", MPTCP_SERVER, start="1500ms") + program("client", "a", "python3", "-c", MPTCP_CLIENT, start="2s")
    summary, wrote = world(folder, text)
    expect("what arrived", wrote["server"].split(), wrote["client"].split()[:2])
    carried = [wire["directions"][0]["bytes"] for wire in summary["wires"]]
    expect("both wires carry a fair part", all(bytes > 600_000 for bytes in carried), True)
    return f"{carried} bytes"


def congestion(control: str, ecn: bool = False) -> Callable[[Path], str]:
    """iperf3 with one of the kernel's controls: its own report names it, and the rate is the wire's."""
    def body(folder: Path) -> str:
        sysctls = {"net.ipv4.tcp_congestion_control": control, "net.ipv4.tcp_ecn": "1" if ecn else "0"}
        queue = {"queue": "codel", "ecn": True, "target": "500us", "interval": "5ms"} if ecn else {}
        text = keys(duration="9s") + section("nodes.a", **LINUX, sysctls=sysctls) + section("nodes.b", **LINUX, sysctls=sysctls) + \
            section("wires.ab", between=["a", "b"], rate="20mbit", delay="5ms", **queue) + \
            program("server", "b", "iperf3", "-s", "-1", start="1s", expect="any") + program("client", "a", "iperf3", "-c", "b", "-t", "3", "-J", start="2s")
        summary, wrote = world(folder, text)
        report = json.loads(wrote["client"])["end"]
        expect("control", report["sender_tcp_congestion"], control)
        rate = report["sum_received"]["bits_per_second"]
        expect(f"{rate} bit/s", 15e6 < rate < 20e6, True)
        marked = summary["wires"][0]["directions"][0]["marked"]
        expect(f"{marked} marked frames", marked > 20, ecn)
        return f"{rate / 1e6:.2f} Mbit/s, {marked} marked"

    return body


NFT = """table ip nat {
  chain after {
    type nat hook postrouting priority srcnat
    oifname eth1 masquerade
  }
}
"""


def nat(folder: Path) -> str:
    """A kernel in the middle masquerades: the server sees its address, which alone it has a route to."""
    text = keys(duration="8s") + section("nodes.a", **LINUX) + section("nodes.r", **LINUX, files={"/etc/weft.nft": NFT}) + section("nodes.b") + \
        section("wires.ar", between=["a", "r"], rate="100mbit", delay="1ms") + section("wires.rb", between=["r", "b"], rate="100mbit", delay="1ms") + \
        program("nft", "r", "nft", "-f", "/etc/weft.nft", start="1s") + \
        program("server", "b", "python3", "-u", "-m", "http.server", "80", expect="running", directory=SOURCE) + \
        program("fetch", "a", "curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", "http://b/GPL-3", start="2s")
    _, wrote = world(folder, text)
    expect("bytes", int(wrote["fetch"]), (Path(SOURCE) / "GPL-3").stat().st_size)
    seen = (folder / "out" / "programs" / "server" / "stderr").read_text().split()[0]
    expect("the client, as the server sees it", seen, "10.0.1.1")
    return seen


ROWS |= {
    "mptcp/two wires": mptcp,
    "control/bbr": congestion("bbr"),
    "control/cubic": congestion("cubic"),
    "control/dctcp with ecn": congestion("dctcp", ecn=True),
    "nat/nft": nat,
}
GDB = """set pagination off
break inet_csk_accept
commands
silent
printf "stopped %lld\\n", *(long long *)&time_travel_time
bt 1
continue
end
break tcp_write_timer_handler
commands
silent
printf "stopped %lld\\n", *(long long *)&time_travel_time
bt 1
continue
end
continue
"""


def built(folder: Path, *words: str, version: str = "6.12") -> str:
    """The name of a kernel that was built so: `debug`, `coverage`."""
    known = {row["name"] for row in json.loads(weft_command(folder, "kernel", "list", "--json").stdout)}
    name = "+".join([version, *words])
    if name not in known:
        raise paths.MissingTool(f"no kernel {name} has been built: weft kernel build --version {version} " + " ".join(f"--{word}" for word in words))
    return name


def gdb(folder: Path) -> str:
    """A breakpoint in the kernel of one node, where two run: it stops there at the same times in every session, and the run comes to its hash."""
    kernel(folder)
    fetch = program("server", "b", "python3", "-m", "http.server", "80", expect="any", directory=SOURCE) + \
        program("fetch", "a", "curl", "-sS", "-o", "/dev/null", "http://b/GPL-3", start="2s")
    # Half of what the server sends is lost: its timer goes off.
    (folder / "w.toml").write_text(keys(duration="120s") + linux_pair(LINUX, LINUX).replace("delay = ", "back = { loss = 0.5 }\ndelay = ") + fetch)
    (folder / "script").write_text(GDB)
    plain = json.loads(weft_command(folder, "sim", "w.toml", "--json").stdout)["hash"]
    stops = {}
    for node in ("b", "b", "a"):
        done = weft_command(folder, "sim", "w.toml", "--gdb", node, "--gdb-script", "script")
        said = [line for line in done.stdout.splitlines() if line.startswith(("stopped", "#"))]
        expect(f"hash, {node} under gdb", f"hash {plain}" in done.stdout, True)
        if node in stops:
            expect("the second session", said, stops[node])
        stops[node] = said
    said = {node: " ".join(lines) for node, lines in stops.items()}
    expect("it accepts", "inet_csk_accept" in said["b"], True)
    expect("its timer goes off", "tcp_write_timer_handler" in said["b"], True)
    expect("the other kernel accepts", "inet_csk_accept" in said["a"], False)
    wrong = weft_command(folder, "sim", "w.toml", "--gdb", "c", status=2).stderr
    expect("help", "b" in wrong and "no kernel 'c'" in wrong, True)
    return stops["b"][0]


def console(folder: Path) -> str:
    """What the kernel says is among the results, from its first line to what it says while it runs."""
    text = keys(duration="4s") + linux_pair(LINUX, LINUX) + program("says", "a", "sh", "-c", "echo 'a word of its own' > /dev/kmsg", start="2s")
    world(folder, text)
    said = (folder / "out" / "kernels" / "a" / "console").read_text()
    expect("first", said.splitlines()[0].startswith("Linux version 6.12"), True)
    expect("while it runs", "a word of its own" in said, True)
    expect("nothing of the host", "/dev/shm" in said, False)
    return f"{len(said.splitlines())} lines"


def counted(folder: Path) -> str:
    """Lines that runs have reached, per file: of two results together more than of one."""
    name = built(folder, "coverage")
    nodes = linux_pair({"kind": "linux", "kernel": name}, {"kind": "linux", "kernel": name})
    server = program("server", "b", "python3", "-m", "http.server", "80", expect="any", directory=SOURCE)
    for way, more in (("ping", ""), ("http", server + program("fetch", "a", "curl", "-sS", "-o", "/dev/null", "http://b/GPL-3", start="2s"))):
        (folder / "w.toml").write_text(keys(duration="5s") + nodes + program("ping", "a", "ping", "-c", "1", "b", start="1s") + more)
        weft_command(folder, "sim", "w.toml", "--json", "--out", way)
    def of(path: str, *results_: str) -> dict[str, int]:
        told = json.loads(weft_command(folder, "kernel", "coverage", path, *results_, "--json").stdout)
        return {row["file"]: row["lines"]["reached"] for row in [*told["files"], told["all"]]}
    ping_, http, both = of("net/ipv4", "ping"), of("net/ipv4", "http"), of("net/ipv4", "ping", "http")
    file = "net/ipv4/tcp_input.c"
    expect("more by http", http[file] > 2 * ping_[file] and both[file] >= http[file], True)
    expect("a file", of(file, "http")[file], http[file])
    (folder / "empty").mkdir()
    expect("no counts", "has no counts of a kernel" in weft_command(folder, "kernel", "coverage", file, "empty", status=2).stderr, True)
    return f"{http[file]} lines of {file}"


def net_mptcp(folder: Path) -> str:
    """At most four scenarios reach 68 % of the lines of the kernel's Multipath TCP, and 86 % of its functions: table 4 of the paper on DCE."""
    built(folder, "coverage")
    example = paths.ROOT / "examples" / "mptcp-coverage"
    scenarios = sorted(str(path) for path in example.glob("*.toml"))
    expect("scenarios, at most four", len(scenarios) <= 4, True)
    command = [str(example / "table.py"), "--weft", weft.binary(), "--lines", "68", "--functions", "86", *scenarios]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failure(done.stdout + done.stderr)
    return f"{len(scenarios)} scenarios\n{done.stdout.rstrip()}"


def older(folder: Path) -> str:
    """A kernel from before the calendar that is shared memory: its clock goes by messages. Beside a newer one, byte-exact, and one hash."""
    old = {"kind": "linux", "kernel": built(folder, version="6.1")}
    said = [ping(old, old)(folder), transfer(old, LINUX)(folder)]
    text = keys(duration="3s") + linux_pair(old, LINUX) + program("release", "*", "uname", "-r", start="1s")
    _, wrote = world(folder, text)
    expect("releases", sorted(release[:4] for release in wrote.values()), ["6.1.", "6.12"])
    return ", ".join(said)


# What a node has of its own: below links of the host's (/bin), in folders that it has in memory, with the times of the scenario.
OWN = "start = 2031-02-03T04:05:06Z\n" + keys(duration="3s") + section("nodes.a", **LINUX, files={path: "1\n" for path in ("/bin/mine", "/tmp/x/y", "/tmp/z", "/run/r", "/srv/www/s")}) + \
    section("nodes.b", **LINUX) + section("wires.two", between=["a:eth1", "b:eth0"], delay="1ms") + section("wires.one", between=["a:eth0", "b:eth1"], delay="1ms") + \
    program("own", "a", "sh", "-c", "cat /bin/mine /tmp/x/y /tmp/z /run/r /srv/www/s; stat -c '%n %a %x %y %z' /etc /srv/www /srv/www/s /root /tmp; ls /sys/class/net | grep eth; ulimit -n; umask")


def own_files(folder: Path) -> str:
    """Nothing of when and from where weft was started is in what a node sees of its own files: neither the time, nor the umask, nor limits."""
    kernel(folder)
    (folder / "w.toml").write_text(OWN)
    folder.chmod(0o755)
    seen = set()
    for before in ("umask 022", "umask 077; ulimit -Sn 256", "umask 000; sleep 1.1"):
        command = f"{before}; exec {BINARIES[0]} sim {folder}/w.toml --json --out {folder}/out"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Failure(done.stderr[-2000:])
        seen.add((json.loads(done.stdout)["hash"], (folder / "out" / "programs" / "own" / "stdout").read_text()))
    expect("outcomes", len(seen), 1)
    [(_, wrote)] = seen
    lines = wrote.splitlines()
    expect("its files", lines[:5], ["1"] * 5)
    expect("times", {word for line in lines[5:8] for word in line.split() if word.startswith("20")}, {"2031-02-03"})
    expect("modes", [line.split()[1] for line in lines[5:10]], ["755", "755", "644", "700", "1777"])
    expect("interfaces", lines[10:12], ["eth0", "eth1"])
    return "one hash"


def goodput_plot(folder: Path) -> str:
    """The plot of examples/mptcp/buffers.py, with Linux kernels, from its one command."""
    kernel(folder)
    python = sys.executable
    if subprocess.run([python, "-c", "import matplotlib"], capture_output=True).returncode:
        raise paths.MissingTool("no python3-matplotlib, which FULL=1 installs")
    words = ["--seeds", "2", "--sizes", "64"] if not FULL else []
    command = [python, str(PHONE / "buffers.py"), "--linux", "all", "--weft", str(BINARIES[0]), "--out", str(folder / "goodput"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise Failure(done.stderr[-2000:])
    expect("files", sorted(path.name for path in (folder / "goodput").iterdir()), ["buffers.csv", "buffers.png", "buffers.svg"])
    return "\n" + (folder / "goodput" / "buffers.csv").read_text().rstrip()


PHONE = paths.ROOT / "examples" / "mptcp"
PHONE_FILES = ("paths.toml", "flow.py", "wifi.trace", "lte.trace")
OFFLOADED_BYTES = 500_000


def offloads(folder: Path) -> str:
    """Large frames leave the kernel whole, and the wire carries them as it carries all others: cut, and with checksums that hold."""
    large = LINUX | {"large_frames": True}
    tail = "exec python3 -m http.server 80 --bind :: --directory /srv"
    text = keys(duration="12s", ipv6=True) + linux_pair(large, large) + \
        program("server", "b", "sh", "-c", f"head -c {OFFLOADED_BYTES} /dev/urandom > /srv/x; sha256sum < /srv/x; {tail}", expect="running")
    for at, family in (("2s", "-4"), ("5s", "-6")):
        text += program(f"fetch{family}", "a", "sh", "-c", f"curl -sS {family} http://b/x | sha256sum", start=at)
    text += program("frames", "b", "cat", "/sys/class/net/eth0/statistics/tx_packets", start="10s")
    summary, wrote = world(folder, text, "--set", "capture=true")
    wanted = wrote["server"].split("\n")[0]
    for family in ("-4", "-6"):
        expect(family, wrote[f"fetch{family}"].strip(), wanted)
    back = summary["wires"][0]["directions"][1]
    expect(f"{wrote['frames'].strip()} frames of the kernel's, {back['frames']} of the wire's", 2 * int(wrote["frames"]) < back["frames"], True)
    wrong = "frame.len > 1514 or ip.checksum.status == 0 or tcp.checksum.status == 0 or udp.checksum.status == 0 or icmpv6.checksum.status == 0"
    checks = [option for protocol in ("ip", "tcp", "udp") for option in ("-o", f"{protocol}.check_checksum:TRUE")]
    tshark = [paths.tool("tshark"), *checks, "-r", str(folder / "out" / "captures" / "a-eth0.pcapng")]
    counted_ = [len(subprocess.run([*tshark, "-Y", which], capture_output=True, text=True, check=True).stdout.splitlines()) for which in ("tcp", wrong)]
    expect("checksums and lengths", (counted_[0] > 600, counted_[1]), (True, 0))
    return f"{wrote['frames'].strip()} frames of the kernel's, {back['frames']} of the wire's"


def registers(folder: Path) -> str:
    """Floating-point registers are everybody's own on a Linux node as on weft's (patch 10 spares giving them back that have not changed)."""
    command = str(compiled(Path(__file__).with_name("registers.c"), folder / "registers"))
    text = keys(duration="20s") + section("nodes.a", **LINUX) + section("nodes.b") + section("wires.ab", between=["a", "b"], rate="100mbit")
    text += "".join(program(f"on-{node}", node, command, start="2s") for node in ("a", "b"))
    _, wrote = world(folder, text)
    expect("natively", subprocess.run([command], capture_output=True, text=True, timeout=SECONDS_MAX).stdout, "wrong 0, handled all\n")
    expect("on nodes", wrote, {f"on-{node}": "wrong 0, handled all\n" for node in ("a", "b")})
    return "one hash"


ROWS |= {"registers": registers, "older kernel": older, "offloads": offloads, "own files": own_files, "goodput plot": goodput_plot}
ROWS |= {"gdb": gdb, "console": console, "coverage": counted, "coverage/net mptcp": net_mptcp}


# How the phone sends, as in the columns of table 3, by protocol and address; and for how many seconds.
WAYS = {"MPTCP": ("262", "10.1.0.2"), "LTE": ("6", "10.2.0.2"), "Wi-Fi": ("6", "10.1.0.2")}
SEND_SECONDS = 20 if FULL else 4


class Phone:
    """examples/mptcp/paths.toml in one environment after another: its goodput, to the last digit, and the hash. In full in all ways, else by MPTCP.
    `kind`: of both hosts."""

    def __init__(self, folder: Path, kind: str = "linux") -> None:
        self.folder, self.kind = folder, kind
        folder.chmod(0o755)
        for name in PHONE_FILES:
            shutil.copy(PHONE / name, folder)
        self.table: dict[str, list[tuple[str, str]]] = {}

    def everywhere(self, environment: str, sim: Callable[..., tuple[dict, Path]]) -> None:
        """All ways in one environment; `sim` runs the scenario with words for `weft sim`, and comes back with the summary and the results."""
        self.table[environment] = []
        for way in WAYS if FULL else ["MPTCP"]:
            protocol, address = WAYS[way]
            ends = {"receive": ["server", protocol, "5000"], "send": ["client", protocol, address, "5000", "seconds", str(SEND_SECONDS)]}
            words = [f"nodes.{node}.kind={self.kind}" for node in ("phone", "server")]
            words += [f'programs.{name}.command={json.dumps(["python3", "/srv/flow.py", *end])}' for name, end in ends.items()]
            words += ["nodes.phone.mptcp=false", "nodes.server.mptcp=false"] if protocol == "6" else []
            summary, out = sim(*(word for each in words for word in ("--set", each)))
            said = json.loads((out / "programs" / "receive" / "stdout").read_text())
            self.table[environment].append((repr(said["bytes"] * 8 / said["seconds"]), summary["hash"]))

    def run(self, environment: str, before: list[str], *more: str) -> None:
        top = self.folder / environment.replace(" ", "-")
        top.mkdir()
        top.chmod(0o777)

        def sim(*words: str) -> tuple[dict, Path]:
            command = [*before, str(BINARIES[0]), "sim", str(self.folder / "paths.toml"), "--json", "--out", str(top / "out"), *words, *more]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, cwd="/")
            if done.returncode:
                raise Failure(f"{environment}: exit status {done.returncode}\n{done.stderr[-2000:]}")
            return json.loads(done.stdout), top / "out"

        self.everywhere(environment, sim)

    def elsewhere(self) -> None:
        """On another Debian release, over this machine's files; and here, over the same as a folder."""
        (self.folder / "release").mkdir()
        release = releases.Release(self.folder / "release")
        for name in PHONE_FILES:
            shutil.copy(self.folder / name, release.folder)
        for row in json.loads(weft_command(self.folder, "kernel", "list", "--json").stdout):
            made = release.folder / "kernels" / Path(row["path"]).parent.name
            made.mkdir(parents=True)
            for name in ("linux", "kernel.json"):
                shutil.copy2(Path(row["path"]).parent / name, made)
        text = (self.folder / "paths.toml").read_text()
        for name, there, root in (("a folder as root", False, str(release.machine())), (release.name, True, releases.MACHINE)):
            self.everywhere(name, lambda *words, there=there, root=root: (release.sim(text, there, root, *words), release.folder / "out"))

    def rows(self) -> str:
        lines = [f"{'bit/s':<20}" + "".join(f"{way:>20}" for way, _ in zip(WAYS, next(iter(self.table.values()))))]
        lines += [f"{name:<20}" + "".join(f"{goodput:>20}" for goodput, _ in of) + "  " + " ".join(hash_[:8] for _, hash_ in of) for name, of in self.table.items()]
        return "\n".join(lines)


def same_digits(folder: Path) -> str:
    """Goodput of a phone with Wi-Fi and LTE: the same digits and one hash in every environment, table 3 of the paper on DCE."""
    kernel(folder)
    phone = Phone(folder)
    phone.run("1 thread", [], "--threads", "1")
    phone.run("2 threads", [], "--threads", "2")
    phone.run("pinned to one CPU", [paths.tool("taskset"), "-c", str(min(os.sched_getaffinity(0)))], "--threads", "2")
    with busy_loops():
        phone.run("beside busy loops", [], "--threads", "2")
    if os.geteuid() == 0:
        phone.run("as a user", user.words(), "--threads", "1")
    if FULL and os.geteuid() == 0:
        phone.elsewhere()
    if any(of != phone.table["1 thread"] for of in phone.table.values()):
        raise Failure("not the same digits and hash:\n" + phone.rows())
    return f"in {len(phone.table)} environments\n{phone.rows()}"


ROWS |= {"a phone with Wi-Fi and LTE, the same digits": same_digits}
# Rows of the table of programs (table.py), with these nodes as Linux kernels: as root on one thread and as a user on two, one hash.
KINDS = {"linux-linux": frozenset({"client", "server", "router"}), "linux-weft": frozenset({"client"}), "weft-linux": frozenset({"server"})}
PROGRAMS_AT_ONCE = 2
PROGRAMS = ["curl-http", "iperf3-tcp", "udp-fragments", "ping", "ssh-scp", "dig"]


def is_wanted(name: str) -> bool:
    wanted = [word for word in os.environ.get("ONLY", "").split(",") if word]
    return not wanted or any(word in name for word in wanted)


def programs(env: Environment, cases: list[tuple[str, str]]) -> int:
    recorder = results.Recorder()
    try:
        kernel(env.folder)
    except paths.MissingTool as missing:
        for name, kind in cases:
            recorder.add(results.Row(f"{name}/{kind}", results.SKIPPED, 0, str(missing)))
        return recorder.finish()
    files = table.prepare_files(env)

    def row(case: tuple[str, str]) -> results.Row:
        name, kind = case
        return table.case(f"{name}/{kind}", lambda: table.Runner(files, KINDS[kind], kind, RUNS).row(name))

    # Of a kernel's boot and of a program's waits, much leaves a processor idle.
    with ThreadPoolExecutor(PROGRAMS_AT_ONCE) as pool:
        for done in pool.map(row, cases):
            recorder.add(done)
    return recorder.finish()


def all_but_notes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".gcno") and not Path(folder, name).is_dir()]


def for_everybody(env: Environment) -> None:
    """weft and the kernels where every user can run them: an unprivileged one has none of his own."""
    BINARIES.append(env.folder / "for-everybody")
    shutil.copy2(weft.binary(), BINARIES[0])
    if kernels := json.loads(weft_command(env.folder, "kernel", "list", "--json").stdout):
        top = env.folder / "kernels"
        for row in kernels:
            # Of one with sources, what runs need, and links to the rest.
            made, source = top / Path(row["path"]).parent.name, Path(row["path"]).parent
            made.mkdir(parents=True)
            for name in ("linux", "kernel.json"):
                shutil.copy2(source / name, made)
            for entry in source.iterdir():
                if entry.is_dir() and "coverage" in row["name"]:
                    # What was noted when it was compiled is looked for below the kernel's own folder.
                    shutil.copytree(entry, made / entry.name, symlinks=True, ignore=all_but_notes)
                elif not (made / entry.name).exists():
                    (made / entry.name).symlink_to(entry)
        subprocess.run(["chmod", "-R", "a+rX", str(top)], check=True)
        os.environ["WEFT_KERNELS"] = str(top)


def main() -> int:
    cases = [(name + suffix, kind) for name in PROGRAMS for suffix in ("", "-6") for kind in KINDS]
    cases = [(name, kind) for name, kind in cases if is_wanted(f"{name}/{kind}")]
    rows = {name: body for name, body in ROWS.items() if is_wanted(name)}
    # A node has a /tmp of its own: what programs are to find lies elsewhere.
    tempfile.tempdir = "/var/tmp"
    with Environment("kernel-programs") as env:
        for_everybody(env)
        return (run_rows(rows) if rows else 0) | (programs(env, cases) if cases else 0)
