"""What is around a program: each line is what was asked, how, and the answer. Beside it lies a copy of `id`, which is set-user-id root."""

import os
import socket
import subprocess
import sys

from saying import said

NOBODY = 65534
# As getifaddrs says, by netlink.
INTERFACES = sorted(name for _, name in socket.if_nameindex())
TTL = "/proc/sys/net/ipv4/ip_default_ttl"


def setting() -> None:
    """A setting of the network is written, and stays as it is."""
    with open(TTL) as file:
        value = file.read()
    with open(TTL, "w") as file:
        file.write(value)


def names_in(path: str) -> str:
    """Is the interface of the program's network in such a file? Natively there is lo alone."""
    with open(path) as file:
        names = sorted(line.split(":")[0].strip() for line in file if ":" in line)
    return "the program's" if names == INTERFACES else f"others: {names}"


def set_user_id() -> str:
    """Whose rights it has when a normal user runs it."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setuid(NOBODY)
    program = os.path.join(os.path.dirname(sys.argv[0]), "set-user-id")
    found = subprocess.run([program, "-u"], capture_output=True, text=True).stdout.strip()
    return "root's" if found == "0" else "the user's" if found == str(os.getuid()) else found


if __name__ == "__main__":
    said("settings", "writing", setting)
    said("network", "/proc/net", lambda: names_in("/proc/net/dev"))
    said("network", "/proc/self/net", lambda: names_in("/proc/self/net/dev"))
    said("network", "a folder", lambda: os.readlink("/proc/net"))
    said("environment", "WEFT_CONTROL", lambda: "is there" if "WEFT_CONTROL" in os.environ else "is not")
    said("a set-user-id program", "its rights", set_user_id)
