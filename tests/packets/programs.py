"""Unmodified programs over packet sockets, in worlds: DHCP clients on interfaces without an address, arping, and what scapy sends and sniffs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from harness.processes import Failure
from virtual.runs import Runs
from virtual.shared import keys, program, section

# A lease, what the interface has then, and whether somebody answers.
CLIENTS = {
    "udhcpc": ("udhcpc -f -q -n -i eth0", "lease of 192.168.50."),
    "dhclient": ("dhclient -1 -v eth0", "bound to 192.168.50."),
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


SERVER = program("dnsmasq", "srv", "dnsmasq", "-d", "--port=0", "--dhcp-range=192.168.50.50,192.168.50.99,1h", "--user=root", "--no-resolv", expect="running")


def dhcp(runs: Runs) -> str:
    """Each client gets an address of its own from dnsmasq, and is there for others; as a user and on two threads, with one hash."""
    text = lan(**{name: command for name, (command, _) in CLIENTS.items()}) + SERVER
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


def rows(runs: Runs) -> dict[str, Callable[[Path], str]]:
    return {"programs/dhcp": lambda _: dhcp(runs), "programs/dhcp without a server": lambda _: nobody(runs), "programs/scapy": lambda _: scapy(runs)}
