#!/usr/bin/env python3
"""Asks this machine's Linux (`ip route get`) which way packets go, and writes routes.json: the configuration, the questions, the answers.

Needs root and `ip`. Two network namespaces, joined by veth pairs, are made and removed; no packet is sent.
"""

import json
import platform
import subprocess
from pathlib import Path

KERNEL, PEER = "weft-routes-k", "weft-routes-p"
ADDRESSES = [("eth0", "10.0.0.1/24"), ("eth0", "10.0.0.5/24"), ("eth1", "192.168.7.1/24"), ("eth1", "172.31.0.2/31"), ("eth1", "10.7.7.7/32")]
ROUTES = [
    {"destination": "default", "gateway": "10.0.0.254"},
    {"destination": "172.16.0.0/12", "gateway": "192.168.7.9"},
    {"destination": "172.16.1.0/24", "gateway": "10.0.0.3", "metric": 10},
    {"destination": "172.16.1.0/24", "gateway": "192.168.7.8", "metric": 5, "source": "10.0.0.1", "mtu": 1400},
    {"destination": "172.16.1.128/25", "interface": "eth0", "source": "10.0.0.5"},
    {"destination": "172.16.9.0/24", "kind": "blackhole"},
    {"destination": "172.16.8.0/24", "kind": "unreachable"},
    {"destination": "172.16.7.0/24", "kind": "prohibit"},
    {"destination": "203.0.113.5", "interface": "eth1"},
    {"destination": "198.51.100.0/24", "interface": "eth1", "source": "10.7.7.7"},
]
DESTINATIONS = """
    10.0.0.1 10.0.0.5 10.0.0.2 10.0.0.255 10.0.0.0 10.0.1.1 192.168.7.1 192.168.7.200 192.168.7.255 172.31.0.2 172.31.0.3 10.7.7.7
    127.0.0.1 127.3.2.1 172.16.0.1 172.20.0.1 172.16.1.1 172.16.1.200 172.16.9.1 172.16.8.1 172.16.7.1 172.32.0.1
    203.0.113.5 203.0.113.6 198.51.100.1 8.8.8.8 224.0.0.1 239.1.2.3 255.255.255.255 0.0.0.0
""".split()
SOURCES = [None, "10.0.0.1", "10.0.0.5", "192.168.7.1", "127.0.0.1"]
INTERFACES = [None, "eth0", "eth1", "lo"]


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def ask(destination: str, source: str | None, interface: str | None) -> dict:
    command = ["ip", "-j", "route", "get", destination]
    command += ["from", source] if source else []
    command += ["oif", interface] if interface else []
    done = subprocess.run(["ip", "netns", "exec", KERNEL, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    question = {"destination": destination, "source": source, "interface": interface}
    if done.returncode != 0:
        return question | {"error": done.stderr.strip().removeprefix("RTNETLINK answers: ")}
    answer = json.loads(done.stdout)[0]
    return question | {
        "kind": answer.get("type", "unicast"), "dev": answer["dev"], "gateway": answer.get("gateway"),
        "src": answer.get("prefsrc") or source,
    }


def main() -> None:
    for name in (KERNEL, PEER):
        run("ip", "netns", "add", name)
    try:
        for device in ("eth0", "eth1"):
            run("ip", "link", "add", device, "netns", KERNEL, "type", "veth", "peer", "name", device, "netns", PEER)
            run("ip", "-n", PEER, "link", "set", device, "up")
            run("ip", "-n", KERNEL, "link", "set", device, "up")
        run("ip", "-n", KERNEL, "link", "set", "lo", "up")
        for device, address in ADDRESSES:
            run("ip", "-n", KERNEL, "address", "add", address, "dev", device, "broadcast", "+")
        for route in ROUTES:
            words = [route.get("kind", "unicast"), route["destination"]]
            for key, word in (("gateway", "via"), ("interface", "dev"), ("source", "src"), ("metric", "metric"), ("mtu", "mtu")):
                words += [word, str(route[key])] if key in route else []
            run("ip", "-n", KERNEL, "route", "add", *words)
        rows = [ask(d, s, i) for d in DESTINATIONS for s in SOURCES for i in INTERFACES]
    finally:
        for name in (KERNEL, PEER):
            run("ip", "netns", "delete", name)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    head = json.dumps({"kernel": platform.release(), "addresses": ADDRESSES, "routes": ROUTES})[:-1]
    Path(__file__).with_name("routes.json").write_text(f'{head}, "answers": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
