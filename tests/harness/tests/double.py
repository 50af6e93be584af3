#!/usr/bin/python3
"""A double of `weft` that is the kernel in disguise: lets the harness test its weft mode without weft.

Its "stack" is a network namespace behind a veth pair called weft0; programs run inside it, started by the daemon for
`run`, which hands over its descriptors. `unbind` takes the interfaces down. Where the daemon may not make interfaces it
moves into a user and network namespace of its own, as weft does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

REFERENCE_BRIDGE = Path(__file__).resolve().parents[2] / "interop" / "reference_bridge.py"


def ip(*words: str, namespace: int | None = None) -> None:
    subprocess.run([*(enter(namespace) if namespace else []), "ip", *words], check=True)


def enter(pid: int) -> list[str]:
    return ["nsenter", f"--target={pid}", "--net", "--"]


def up(control: str, mss: str | None) -> None:
    if "WEFT_DOUBLE_INSIDE" not in os.environ and not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        os.environ["WEFT_DOUBLE_INSIDE"] = "1"
        print("weft: no TAP here; in a namespace of its own instead", file=sys.stderr, flush=True)
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", sys.executable, __file__, *sys.argv[1:]])
    # cat holds the namespace and ends with this process, however that ends.
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo there; exec cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    holder.stdout.readline()
    ip("link", "set", "lo", "up")
    ip("link", "add", "weft0", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
    ip("address", "add", "10.77.0.1/24", "dev", "weft0")
    ip("link", "set", "weft0", "up")
    inside = holder.pid
    ip("link", "set", "lo", "up", namespace=inside)
    ip("address", "add", "10.77.0.2/24", "dev", "eth0", namespace=inside)
    ip("link", "set", "eth0", "up", namespace=inside)
    if mss:
        ip("route", "replace", "10.77.0.0/24", "dev", "eth0", "advmss", mss, namespace=inside)
    for namespace, name in ((None, "weft0"), (inside, "eth0")):
        offloads = [word for name_ in ("tx", "tso", "gso", "gro") for word in (name_, "off")]
        subprocess.run([*(enter(namespace) if namespace else []), "ethtool", "-K", name, *offloads], check=True,
                       stdout=subprocess.DEVNULL)
    ip("route", "add", "default", "via", "10.77.0.1", namespace=inside)
    signal.signal(signal.SIGTERM, stop)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(control)
    listener.listen(64)
    print(f"ready control={control}", flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, inside), daemon=True).start()


groups: set[int] = set()


def stop(*_: object) -> None:
    """What still runs on the stack ends with it."""
    for group in list(groups):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(0)


def serve(connection: socket.socket, inside: int) -> None:
    """Runs one command on descriptors and in the folder of whoever asks; ends it when that one goes."""
    request, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    order = json.loads(request)
    if order["argv"] == ["down"]:
        connection.sendall(b"0")
        stop()
    stdin, stdout, stderr = descriptors
    # A resolv.conf that works on this stack, as weft gives its programs one.
    resolv = Path(tempfile.gettempdir(), "double-resolv.conf")
    resolv.write_text("nameserver 10.77.0.1\n")
    script = f'mount --bind {resolv} /etc/resolv.conf && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", *order["argv"]]
    program = subprocess.Popen([*enter(inside), *words], stdin=stdin, stdout=stdout, stderr=stderr,
                               cwd=order["cwd"], env=order["environment"], start_new_session=True)
    groups.add(program.pid)
    for descriptor in descriptors:
        os.close(descriptor)

    def end_with_asker() -> None:
        try:
            connection.recv(1)
        except OSError:
            pass
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)

    threading.Thread(target=end_with_asker, daemon=True).start()
    status = program.wait()
    try:
        connection.sendall(str(status if status >= 0 else 128 - status).encode())
    except OSError:
        pass
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def ask(control: str, argv: list[str]) -> int:
    """Has the daemon run `argv` inside its stack's namespace; the exit status."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(control)
    order = json.dumps({"argv": argv, "cwd": os.getcwd(), "environment": dict(os.environ)})
    socket.send_fds(connection, [order.encode()], [0, 1, 2])
    return int(connection.recv(16) or b"255")


def show_sockets() -> None:
    rows = []
    for protocol, state, name in (("tcp", "0A", "LISTEN"), ("udp", "07", "UNCONN")):
        for suffix in ("", "6"):
            try:
                lines = Path(f"/proc/self/net/{protocol}{suffix}").read_text().splitlines()[1:]
            except OSError:
                continue
            for line in lines:
                fields = line.split()
                if fields[3] == state:
                    port = int(fields[1].rsplit(":")[-1], 16)
                    rows.append({"proto": protocol, "state": name, "local": f"*:{port}"})
    print(json.dumps(rows))


def show_counters() -> None:
    lines = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines()]
    for names, values in zip(lines[::2], lines[1::2]):
        for name, value in zip(names[1:], values[1:]):
            print(names[0].rstrip(":").lower(), re.sub("(?<!^)([A-Z])", r"_\1", name).lower(), value)


def bridge(words: list[str]) -> None:
    interfaces = [word.removeprefix("packet:") for word in words if word.startswith("packet:")]
    options = dict(zip(words[::2], words[1::2]))
    for interface in interfaces:
        subprocess.run(["ethtool", "-K", interface, "gro", "off"], check=True)
    os.execv(sys.executable, [
        sys.executable, str(REFERENCE_BRIDGE), *interfaces, options["--rate"].removesuffix("mbit"),
        options.get("--loss", "0"), options.get("--delay", "0ms").removesuffix("ms"), options.get("--seed", "1"),
    ])


def main(verb: str, *words: str) -> None:
    if verb == "bridge":
        return bridge(list(words))
    control = words[words.index("--control") + 1]
    mss = next((word.removeprefix("tcp.mss=") for word in words if word.startswith("tcp.mss=")), None)
    if verb == "up":
        return up(control, mss)
    if verb == "run":
        sys.exit(ask(control, list(words[words.index("--") + 1:])))
    elif verb == "down":
        sys.exit(ask(control, ["down"]))
    elif verb in ("bind", "unbind"):
        state = "up" if verb == "bind" else "down"
        sys.exit(ask(control, ["sh", "-c", f"ip link set eth0 {state}; ip link set lo {state}"]))
    elif verb == "show":
        # Again, inside the stack's namespace, where /proc/self/net is the stack's.
        sys.exit(ask(control, [sys.executable, __file__, "inside", words[0]]))
    else:
        sys.exit(f"the double does not know {verb} {words}")


if sys.argv[1] == "inside":
    {"sockets": show_sockets, "counters": show_counters}[sys.argv[2]]()
else:
    main(*sys.argv[1:])
