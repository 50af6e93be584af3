"""Unmodified programs over packet sockets, in worlds: DHCP clients on interfaces without an address, arping, what scapy sends and sniffs, and those that read from rings: tcpdump, tshark, dumpcap,
nmap, hping3 and arp-scan; and lldpd and IS-IS, which speak without IP."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import paths
from harness.processes import PATIENCE, Failure
from virtual.runs import Runs
from virtual.shared import keys, program, section

# A lease, what the interface has then, and whether somebody answers.
CLIENTS = {
    "udhcpc": ("udhcpc -f -q -n -i eth0", "lease of 192.168.50."),
    "dhclient": ("dhclient -1 -v eth0", "bound to 192.168.50."),
    # Its processes share a socket, and each filters it in its own way.
    "dhcpcd": ("dhcpcd -4 -B -1 -L eth0", "leased 192.168.50."),
}
AFTER = "ip -4 -o addr show eth0; ping -c 1 192.168.50.1 | grep received; arping -c 2 -I eth0 192.168.50.1 | grep response"
SCAPY = """
from scapy.all import ARP, IP, TCP, AsyncSniffer, Ether, conf, send, sendp, sniff, sr1, srp
conf.verb = 0
answer = sr1(IP(dst="10.0.0.2") / TCP(dport=80, sport=4444, flags="S"), timeout=2)
print("a port that listens:", answer.sprintf("%TCP.flags%"))
answer = sr1(IP(dst="10.0.0.2") / TCP(dport=81, sport=4445, flags="S"), timeout=2)
print("one that does not:", answer.sprintf("%TCP.flags%"))
found, lost = srp(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=["10.0.0.2", "10.0.0.3"]), iface="eth0", timeout=2)
print("who has:", [reply[ARP].psrc for _, reply in found], [asked[ARP].pdst for asked in lost])
hears = AsyncSniffer(iface="eth0", filter=None, count=2, timeout=5)
hears.start()
import time; time.sleep(0.1)
sendp(Ether(dst="02:00:00:00:00:99") / IP(src="1.2.3.4", dst="5.6.7.8") / b"mine", iface="eth0")
send(IP(src="10.0.0.77", dst="10.0.0.2") / TCP(dport=80, flags="S"))
hears.join()
print("heard:", [frame.sprintf("%IP.src% > %IP.dst%") for frame in hears.results if IP in frame])
"""


def lan(**clients: str) -> str:
    """A server on a switch, and hosts without an address."""
    text = keys(duration="60s") + section("nodes.srv", addresses={"eth0": "192.168.50.1/24"}) + section("nodes.lan", kind="switch") + section("wires.srv", between=["srv", "lan"], delay="1ms")
    for name, command in clients.items():
        text += section(f"nodes.{name}", addresses={"eth0": []}) + section(f"wires.{name}", between=[name, "lan"], delay="1ms") \
            + program(name, name, "sh", "-c", f"{command} 2>&1; {AFTER}", start="2s", expect="any")
    return text


# The server of ISC reads frames, too: who asks has no address that it could answer to.
ISC = program("dhcpd", "srv", "sh", "-c", "echo 'subnet 192.168.50.0 netmask 255.255.255.0 { range 192.168.50.50 192.168.50.99; }' > /tmp/dhcpd.conf; : > /tmp/leases; "
              "exec dhcpd -d -f -cf /tmp/dhcpd.conf -lf /tmp/leases -pf /tmp/dhcpd.pid eth0", expect="running")
SERVER = program("dnsmasq", "srv", "dnsmasq", "-d", "--port=0", "--dhcp-range=192.168.50.50,192.168.50.99,1h", "--user=root", "--no-resolv", expect="running")


def dhcp(runs: Runs, server: str = SERVER) -> str:
    """Each client gets an address of its own from the server, and is there for others; as a user and on two threads, with one hash."""
    text = lan(**{name: command for name, (command, _) in CLIENTS.items()}) + server
    found, out = runs.run(text)
    addresses = []
    for name, (_, says) in CLIENTS.items():
        said = (out / "programs" / name / "stdout").read_text()
        for part in (says, "inet 192.168.50.", " 1 received", "Received 2 response"):
            if part not in said:
                raise Failure(f"{name}: {part!r} is not in\n{said}")
        addresses.append(said.split("inet ")[1].split("/")[0])
    if len(set(addresses)) != len(CLIENTS):
        raise Failure(f"{addresses}")
    for how in ({"shortcuts": False}, *([{"as_user": True}] if os.geteuid() == 0 else [])):
        if runs.run(text, "--threads", "2", **how)[0] != found:
            raise Failure(f"another hash {how}")
    return f"{', '.join(addresses)}; {found}"


def nobody(runs: Runs) -> str:
    """Without a server there is no lease: it is no other that gave it."""
    _, out = runs.run(lan(udhcpc=CLIENTS["udhcpc"][0]))
    said = (out / "programs" / "udhcpc" / "stdout").read_text()
    if "no lease, failing" not in said or "inet " in said:
        raise Failure(said)
    return "no lease"


def scapy(runs: Runs) -> str:
    """What scapy sends is answered, and what it sniffs is what went over the wire."""
    text = keys(duration="30s") + section("nodes.a") + section("nodes.b") + section("wires.w", between=["a", "b"], delay="1ms") \
        + program("web", "b", "python3", "-m", "http.server", "80", expect="running") + program("scapy", "a", "/usr/bin/python3", "-c", SCAPY, start="1s")
    _, out = runs.run(text)
    said = (out / "programs" / "scapy" / "stdout").read_text()
    wanted = "a port that listens: SA\none that does not: RA\nwho has: ['10.0.0.2'] ['10.0.0.3']\nheard: ['1.2.3.4 > 5.6.7.8', '10.0.0.77 > 10.0.0.2']\n"
    if said != wanted:
        raise Failure(f"{said}\nexpected:\n{wanted}")
    return "three answers, two heard"


def of_two(*programs: str, **top: str) -> str:
    """Two nodes on a wire, with a web server on b; programs of a begin later than it."""
    return keys(duration="30s", **top) + section("nodes.a") + section("nodes.b") + section("wires.w", between=["a", "b"], delay="1ms") \
        + program("web", "b", "python3", "-m", "http.server", "80", expect="running") + "".join(programs)


def shell(name: str, node: str, command: str, start: str = "2s") -> str:
    return program(name, node, "sh", "-c", f"exec 2>&1; {command}", start=start)


def said_by(runs: Runs, text: str, name: str, *ways: str) -> tuple[str, str]:
    """What a program says, and the hash, which is one with calls ahead and without, and on two threads."""
    found, out = runs.run(text, *ways)
    said = (out / "programs" / name / "stdout").read_text()
    for how in ({"shortcuts": False}, *([{"as_user": True}] if os.geteuid() == 0 else [])):
        if runs.run(text, "--threads", "2", *ways, **how)[0] != found:
            raise Failure(f"another hash {how}")
    return said, found


def contains(said: str, *parts: str) -> None:
    for part in parts:
        if part not in said:
            raise Failure(f"{part!r} is not in\n{said}")


PINGS = "ping -c 3 10.0.0.2"


def tcpdump(runs: Runs) -> str:
    """tcpdump, and what it writes: the frames of the wire, with the times at which they passed. The canary: with another expression it finds none of them."""
    text = of_two(shell("ping", "a", PINGS, "3s"), shell("tcpdump", "a", "tcpdump -n -i eth0 -c 6 icmp"))
    said, hash_ = said_by(runs, text, "tcpdump")
    contains(said, "ICMP echo request", "seq 3, length 64", "6 packets captured", "0 packets dropped by kernel")
    if "Kernel filter failed" in said:
        raise Failure(said)
    _, out = runs.run(of_two(shell("ping", "a", PINGS, "3s"), shell("tcpdump", "a", "timeout --preserve-status 10 tcpdump -n -i eth0 tcp")))
    contains((out / "programs" / "tcpdump" / "stdout").read_text(), "0 packets captured")
    return f"6 packets; {hash_}"


def cooked(runs: Runs) -> str:
    """tcpdump of all interfaces: its expression is run over headers that its socket does not show (SKF_LL_OFF), and asks for what is beside the frame."""
    text = of_two(shell("ping", "a", PINGS, "3s"), shell("tcpdump", "a", "timeout --preserve-status 10 tcpdump -n -e -i any arp and inbound"))
    said, hash_ = said_by(runs, text, "tcpdump")
    contains(said, "eth0  In", "Reply 10.0.0.2 is-at")
    if "who-has 10.0.0.2" in said or "Kernel filter failed" in said:
        raise Failure(said)
    return f"what came in; {hash_}"


def wireshark(runs: Runs) -> str:
    """dumpcap writes a file that tshark reads, and tshark shows what passes while it does."""
    text = of_two(shell("fetch", "a", "curl -s -o page http://10.0.0.2/ && echo fetched", "3s"), shell("dumpcap", "a", "dumpcap -q -i eth0 -a duration:10 -w kept.pcapng -f 'tcp port 80'; tshark -r kept.pcapng -Y http"),
                  shell("tshark", "b", "tshark -n -l -i eth0 -a duration:10 -f 'tcp port 80' -Y http.request"))
    said, hash_ = said_by(runs, text, "dumpcap")
    contains(said, "GET / HTTP/1.1", "200 OK")
    _, out = runs.run(text)
    contains((out / "programs" / "tshark" / "stdout").read_text(), "GET / HTTP/1.1")
    return hash_


def nmap(runs: Runs) -> str:
    """nmap finds the port that listens, and the hosts that are there. The canary: a port whose server ends is closed."""
    text = of_two(shell("nmap", "a", "nmap -n -sS -p 79-81 10.0.0.2; nmap -n -sn 10.0.0.1-4"))
    said, hash_ = said_by(runs, text, "nmap")
    contains(said, "79/tcp closed", "80/tcp open", "81/tcp closed", "4 IP addresses (2 hosts up)", "MAC Address: 02:")
    _, out = runs.run(text.replace('"80"', '"8080"'))
    contains((out / "programs" / "nmap" / "stdout").read_text(), "80/tcp closed")
    return f"one of three ports; {hash_}"


def hping(runs: Runs) -> str:
    """hping3 sends by a raw socket and hears by a ring."""
    text = of_two(shell("hping", "a", "hping3 -S -p 80 -c 2 10.0.0.2; hping3 -S -p 81 -c 2 10.0.0.2; hping3 --icmp -c 2 10.0.0.2; hping3 -S -p 80 -c 2 10.0.0.3 || echo nobody"))
    said, hash_ = said_by(runs, text, "hping")
    contains(said, "sport=80 flags=SA seq=1", "sport=81 flags=RA seq=1", "icmp_seq=1", "0 packets received, 100% packet loss", "nobody")
    return hash_


def arp_scan(runs: Runs) -> str:
    """arp-scan sends and hears by libpcap. It finds who is there, and nobody else."""
    said, hash_ = said_by(runs, of_two(shell("scan", "a", "arp-scan -I eth0 10.0.0.0/29")), "scan")
    contains(said, "10.0.0.2\t02:", "8 hosts scanned", "1 responded")
    return f"one of eight; {hash_}"


def lldp(runs: Runs) -> str:
    """Two hosts get to know each other, and who says nothing stays unknown."""
    client = runs.folder / "lldpcli"
    try:
        shutil.copy("/usr/sbin/lldpcli", client)
    except PermissionError:
        raise paths.MissingTool("/usr/sbin/lldpcli may be read by root and the group adm only") from None
    client.chmod(0o755)

    def world(*names: str) -> str:
        daemons = (program(f"lldpd-{name}", name, "sh", "-c", f"exec 2>&1; exec lldpd -d -L {client} -u /tmp/lldpd.sock -O /dev/null", expect="running") for name in names)
        return of_two(*daemons, *(shell(f"ask-{name}", name, f"{client} -u /tmp/lldpd.sock resume; sleep 20; {client} -u /tmp/lldpd.sock show neighbors") for name in names))

    said, hash_ = said_by(runs, world("a", "b"), "ask-a")
    contains(said, "via: LLDP", "SysName:      b", "MgmtIP:       10.0.0.2", "PortDescr:    eth0")
    _, out = runs.run(world("a"))
    said = (out / "programs" / "ask-a" / "stdout").read_text()
    if "SysName" in said:
        raise Failure(said)
    return hash_


def isis(runs: Runs) -> str:
    """IS-IS of FRR, whose packets have no IP: two routers are neighbours, and have one database. Of different areas they are strangers."""
    def world(*areas: str) -> str:
        text = keys(duration="60s") + "".join(section(f"nodes.r{at}") for at in (1, 2)) + section("wires.w", between=["r1", "r2"], delay="1ms")
        for at, area in enumerate(areas, 1):
            config = f"hostname r{at}\\nrouter isis x\\n net {area}.0000.0000.000{at}.00\\n is-type level-1\\ninterface eth0\\n ip router isis x\\n"
            daemon = f"-z /tmp/f/z.sock --vty_socket /tmp/f -u frr -g frr --log stdout -i /tmp/f"
            text += program(f"isis{at}", f"r{at}", "sh", "-c", f"exec 2>&1; mkdir /tmp/f; chmod 777 /tmp/f; cd /tmp/f; printf '{config}' > isis.conf; : > zebra.conf; "
                            f"/usr/lib/frr/zebra -f zebra.conf {daemon}/zebra.pid & sleep 1; exec /usr/lib/frr/isisd -f isis.conf {daemon}/isisd.pid", expect="running")
        return text + shell("ask", "r2", "vtysh --vty_socket /tmp/f -c 'show isis neighbor' -c 'show isis database'", "40s")

    said, hash_ = said_by(runs, world("49.0001", "49.0001"), "ask")
    contains(said, " r1                  eth0        1  Up", "r1.00-00", "r2.00-00", "3 LSPs")
    _, out = runs.run(world("49.0001", "49.0002"))
    said = (out / "programs" / "ask" / "stdout").read_text()
    if " Up" in said or "r1.00-00" in said:
        raise Failure(said)
    return hash_


LISTED = """
import socket, subprocess
kept = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)), socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)]
kept[0].bind(("eth0", 3))
print(open("/proc/net/packet").read(), end="")
print(subprocess.run(["ss", "-0", "-n", "-H"], capture_output=True, text=True).stdout, end="")
"""


def listed(runs: Runs) -> str:
    """/proc/net/packet and `ss -0`, which reads it."""
    _, out = runs.run(of_two(program("lists", "a", "/usr/bin/python3", "-c", LISTED, start="2s")))
    said = (out / "programs" / "lists" / "stdout").read_text()
    lines = [line.split() for line in said.splitlines()]
    if [line[1:6] for line in lines[1:3]] != [["3", "3", "0003", "2", "1"], ["2", "2", "0000", "0", "0"]] or [line[0] for line in lines[3:]] != ["p_raw", "p_dgr"] or lines[3][3] != "*:eth0":
        raise Failure(said)
    return "two sockets"


RIGHTS = """
import errno, os, socket
os.setgid(1000), os.setuid(1000)
for family, kind, protocol in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58), (socket.AF_INET, socket.SOCK_RAW, 0), (socket.AF_PACKET, socket.SOCK_RAW, 0), (socket.AF_INET, socket.SOCK_DGRAM, 0)):
    try:
        print(socket.socket(family, kind, protocol).fileno() > 0)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


def rights(runs: Runs) -> str:
    """Who is not root and has no capability gets no raw socket and no packet socket."""
    _, out = runs.run(of_two(program("asks", "a", "/usr/bin/python3", "-c", RIGHTS, start="2s")))
    said = (out / "programs" / "asks" / "stdout").read_text().split()
    if said != ["EPERM", "EPERM", "EPROTONOSUPPORT", "EPERM", "True"]:
        raise Failure(f"{said}")
    return " ".join(said)


SPINS = """
import ctypes, socket, struct, time
library = ctypes.CDLL(None)
library.mmap.restype, library.mmap.argtypes = ctypes.c_ssize_t, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
one.setsockopt(263, 10, 1)
one.setsockopt(263, 5, struct.pack("4I", 4096, 4, 2048, 8))
one.bind(("eth0", 0x806))
words = (ctypes.c_uint32 * 4096).from_address(library.mmap(None, 16384, 3, 1, one.fileno(), 0))
looks = 0
while not words[0] and looks < 100000:
    looks += 1
began, times = time.monotonic(), 0
while not words[0]:
    time.monotonic()
    times += 1
print(looks, words[0], words[1], times, time.monotonic() - began)
"""


def spins(runs: Runs) -> str:
    """Who looks at a ring again and again, without a call that waits, finds a frame when it has come, and each time at the same look."""
    text = of_two(program("spins", "a", "/usr/bin/python3", "-c", SPINS, start="3s"), program("ping", "b", "ping", "-c", "1", "10.0.0.1", start="3100ms"))
    said, hash_ = said_by(runs, text, "spins")
    looks, status, length, times, _ = said.split()
    if (looks, status, length) != ("100000", "1", "42") or int(times) < 1000:
        raise Failure(said)
    return f"after {times} looks; {hash_}"


WARNS = """
import socket
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
for _ in range(3):
    try:
        one.setsockopt(socket.SOL_SOCKET, 50, 1)
    except OSError as error:
        print(error.errno)
"""


def warns(runs: Runs) -> str:
    """What is refused still is told once."""
    file = runs.folder / "warns.toml"
    file.write_text(keys(duration="5s") + section("nodes.a") + program("asks", "a", "/usr/bin/python3", "-c", WARNS))
    done = subprocess.run([str(runs.folder / "weft"), "sim", str(file)], capture_output=True, text=True, timeout=60 * PATIENCE, stdin=subprocess.DEVNULL, cwd="/")
    lines = [line for line in done.stderr.splitlines() if "WARN" in line]
    if len(lines) != 1 or "setsockopt SO_ATTACH_BPF" not in lines[0]:
        raise Failure(f"{done.stdout}{done.stderr}")
    return lines[0].strip()


CAPTURE = "timeout --preserve-status 3 tcpdump -n -l -i lo -c 2 udp port {} 2>&1 & sleep 1; python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"127.0.0.1\", 9000)); s.connect((\"127.0.0.1\", 9000)); s.send(b\"x\"); s.send(b\"x\")'; wait"


def strict(runs: Runs) -> str:
    """tcpdump below --strict sees what passes on the stack's lo, and nothing that does not."""
    for port, found in ((9000, "127.0.0.1.9000 > 127.0.0.1.9000: UDP, length 1"), (9001, "0 packets captured")):
        command = [paths.tool("unshare"), *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", str(runs.folder / "weft"), "run", "--strict", "--", "sh", "-c", CAPTURE.format(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * PATIENCE, stdin=subprocess.DEVNULL)
        contains(done.stdout + done.stderr, found)
    return "one port of two"


def rows(runs: Runs) -> dict[str, Callable[[Path], str]]:
    all_ = {"dhcp": dhcp, "dhcp from isc-dhcp-server": lambda runs: dhcp(runs, ISC), "dhcp without a server": nobody, "scapy": scapy, "tcpdump": tcpdump, "tcpdump of all interfaces": cooked, "wireshark": wireshark, "nmap": nmap, "hping": hping, "arp-scan": arp_scan, "lldpd": lldp, "isis": isis, "spins": spins, "warns": warns, "tables": listed, "rights": rights, "tcpdump with --strict": strict}
    return {f"programs/{name}": (lambda _, row=row: row(runs)) for name, row in all_.items()}
