"""Link events as programs of a machine see them: carriers that come and go, and what `ip monitor`, `ip`, and /sys/class/net say after each.

    python3 links.py body SCRIPT BEGIN      does what the script says on eth0, and prints what is seen
    python3 links.py peer SCRIPT BEGIN      the machine at the other end: it puts its eth0 down and up
    python3 links.py peer-idle              the same without that

Both do step after step by the clock, STEP_S apart from BEGIN (seconds of CLOCK_MONOTONIC) on; 0: from now on. What the machine at the other end does may be done by others, too: the world cuts the wire.
"""

import fcntl
import os
import re
import select
import stat
import subprocess
import sys
import time

STEP_S = 0.5
# So much of a step passes before anybody looks.
SETTLE_S = 0.25
MAC = "02:00:00:00:00:0a"
PEER_MAC = "02:00:00:00:00:0b"
SYS = "/sys/class/net/eth0"
# What a veth has in other numbers than others, or nobody can compare.
COUNTS = ("carrier_changes", "carrier_down_count", "carrier_up_count")
LEFT_OUT = {"ifindex", "iflink", "uevent", "device", "napi_defer_hard_irqs", "threaded"}

SCRIPTS = {
    # peer down, peer up: of the interface at the other end. down, up: of this one. Else a command.
    "thirty": [
        "peer down", "peer up", "down", "up", "peer down", "down", "up", "peer up",
        "ping -q -c1 -W1 10.0.0.2", "peer down", "ip address add fd00:1::1/64 dev eth0", "ip address add 10.1.0.1/24 dev eth0", "peer up",
        "down", "peer down", "peer up", "up", "ip -6 route add fd09::/64 via fe80::9 dev eth0", "ip route add 10.9.0.0/16 via 10.0.0.2", "peer down",
        "ip route add 10.8.0.0/16 via 10.0.0.2", "ip -6 route add fd08::/64 via fe80::9 dev eth0", "ip route get 10.8.0.1", "ip route del 10.8.0.0/16",
        "peer up", "ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:07 dev eth0", "ping -q -c1 -W1 10.0.0.2", "peer down", "ip link set eth0 mtu 1400", "peer up",
        "ip link set eth0 multicast off", "peer down", "peer up", "down", "peer down", "up", "down", "peer up", "up",
        "peer down", "peer up", "peer down", "down", "peer up", "up", "ip link set eth0 down up", "peer down", "up", "ip address flush dev eth0", "peer up",
    ],
    "ignore": [
        "ip route add 10.9.0.0/16 via 10.0.0.2", "ip route add 10.9.0.0/16 dev lo metric 7", "sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1",
        "ip route get 10.9.0.1", "peer down", "ip route get 10.9.0.1", "ip route get 10.0.0.2", "peer up", "ip route get 10.9.0.1",
        "sysctl -qw net.ipv6.conf.all.ignore_routes_with_linkdown=1", "ip -6 route add fd09::/64 via fe80::9 dev eth0", "ip -6 route get fd09::1",
        "peer down", "ip -6 route get fd09::1", "ip route add 10.7.0.0/16 nexthop via 10.0.0.2 nexthop dev lo", "peer up", "peer down",
        "sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=0", "peer up",
    ],
    # write FILE TEXT: into a file of the interface.
    "files": [
        "write mtu 1300", "write mtu 60", "write mtu many", "write ifalias to the left", "write tx_queue_len 77", "write flags 0x1002", "write flags 0x1003",
        "write carrier 0", "write operstate up", "write address 02:00:00:00:00:0c", "write proto_down 1", "down", "write carrier 1", "write mtu 1500", "up", "write nothing 1",
    ],
}


def words(command: str) -> list[str]:
    return {"down": "ip link set eth0 down", "up": "ip link set eth0 up"}.get(command, command).split()


def write(file: str, text: str) -> str:
    """What comes of writing to a file of the interface."""
    try:
        at = os.open(os.path.join(SYS, file), os.O_WRONLY)
        try:
            return f"takes {os.write(at, text.encode())}"
        finally:
            os.close(at)
    except OSError as error:
        return error.strerror


def run(command: list[str]) -> str:
    if command[0] == "write":
        return write(command[1], " ".join(command[2:]))
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr + (f"ends with {done.returncode}\n" if done.returncode else "")


def alike(text: str) -> list[str]:
    """Without what is another number on another machine, or a veth's alone."""
    text = re.sub(r"^(\[[^]]*\])", "", text, flags=re.MULTILINE)
    text = re.sub(r"\b\d+: (\w+)(@\w+)?", r"\1", text)
    text = re.sub(r" link-netns(id)? [\w-]+", "", text)
    text = re.sub(r" used \d+/\d+/\d+| probes \d+", "", text)
    lines = [line.rstrip() for line in text.splitlines()]
    # An address of IPv6 is told of when it comes, and when it is known to be nobody else's, which here is the same moment.
    # ip(8) looks through all names in /run/netns, and says so when another test takes its own away meanwhile.
    lines = [line.replace(" tentative", "") for line in lines if "Peer netns reference is invalid" not in line]
    return [line for line in lines if line and "NOARP" not in line.split() and "127." not in line and "::1 dev lo" not in line]


class Monitor:
    """`ip monitor`, and what it has said since somebody asked last."""

    def __init__(self) -> None:
        command = ["ip", "monitor", "link", "address", "route", "neigh"]
        self.ip = subprocess.Popen(command, stdout=subprocess.PIPE)
        fcntl.fcntl(self.ip.stdout, fcntl.F_SETFL, os.O_NONBLOCK)

    def said(self) -> list[str]:
        text = b""
        while select.select([self.ip.stdout], [], [], 0)[0]:
            more = os.read(self.ip.stdout.fileno(), 1 << 16)
            if not more:
                break
            text += more
        # What follows from addresses is in no message here, and who is told first of what goes together is nobody's promise.
        return sorted(line for line in alike(text.decode()) if " table local " not in line)


def files(begun: dict[str, int]) -> list[str]:
    """What the files of the interface show; counts from `begun` on."""
    lines = []
    for name in sorted(os.listdir(SYS)):
        path = os.path.join(SYS, name)
        if name in LEFT_OUT or os.path.isdir(path):
            continue
        try:
            with open(path) as file:
                text = file.read().strip()
            lines.append(f"{name} {int(text) - begun.setdefault(name, int(text))}" if name in COUNTS else f"{name} {text}")
        except OSError as error:
            lines.append(f"{name}: {error.strerror}")
    return lines


def tree() -> list[str]:
    """The folders, files and links of the interface, and who may write."""
    lines = [f"{path} -> {os.readlink(path)}" for path in (SYS, f"{SYS}/subsystem")]
    for folder, folders, names in os.walk(SYS + "/"):
        folders[:] = sorted(name for name in folders if name not in ("power", "tx-1", "rx-1") and not os.path.islink(os.path.join(folder, name)))
        lines += [f"{stat.filemode(os.stat(path).st_mode)} {path}" for path in (os.path.join(folder, name) for name in sorted(names)) if os.path.basename(path) not in LEFT_OUT]
    return lines


def show(what: str, lines: list[str]) -> None:
    print("\n".join([f"  {what}", *(f"    {line}" for line in lines)]), flush=True)


def look(monitor: Monitor, begun: dict[str, int]) -> None:
    show("monitor", monitor.said())
    show("link", alike(run(["ip", "-o", "link", "show", "eth0"])))
    show("route", alike(run(["ip", "route", "show", "table", "all"])))
    show("route6", alike(run(["ip", "-6", "route", "show"])))
    show("local6", alike(run(["ip", "-6", "route", "show", "table", "local"])))
    show("address", alike(run(["ip", "address", "show", "eth0"])))
    show("neigh", sorted(alike(run(["ip", "neigh"]))))
    show("sys", files(begun))


def without_dad() -> None:
    for name in ("all/accept_dad", "default/accept_dad", "eth0/accept_dad", "all/dad_transmits"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{name}", "w") as file:
                file.write("0")
        except OSError:
            pass


def steps(script: str, begin: float, act) -> None:
    begin = begin or time.monotonic() + STEP_S
    for number, step in enumerate(SCRIPTS[script], 1):
        time.sleep(max(0.0, begin + number * STEP_S - time.monotonic()))
        act(number, step)


def body(script: str, begin: float) -> None:
    without_dad()
    for command in ("ip link set eth0 down", f"ip link set eth0 address {MAC}", "ip address add 10.0.0.1/24 dev eth0",
                    "ip link set eth0 up"):
        run(command.split())
    time.sleep(0.3)
    monitor = Monitor()
    time.sleep(0.1)
    show("tree", tree())
    begun: dict[str, int] = {}
    look(monitor, begun)

    def act(number: int, step: str) -> None:
        said = [] if step.startswith("peer") else alike(run(words(step)))
        time.sleep(SETTLE_S)
        print(f"{number} {step}")
        show("said", [line for line in said if "ms" not in line])
        look(monitor, begun)

    steps(script, begin, act)
    monitor.ip.kill()


def idle(*_) -> None:
    without_dad()
    for command in (f"ip link set eth0 address {PEER_MAC}", "ip address add 10.0.0.2/24 dev eth0"):
        run(command.split())


def peer(script: str, begin: float) -> None:
    idle()

    def act(_: int, step: str) -> None:
        if step.startswith("peer"):
            run(["ip", "link", "set", "eth0", step.split()[1]])

    steps(script, begin, act)


if __name__ == "__main__":
    {"body": body, "peer": peer, "peer-idle": idle}[sys.argv[1]](sys.argv[2], float(sys.argv[3]))
