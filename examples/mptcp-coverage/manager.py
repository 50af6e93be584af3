"""A path manager in user space at both ends (net.mptcp.pm_type = 1): this program and its like at the server say to the kernel what is announced, and which subflows there are.

    python3 manager.py run CLIENT SERVER CLIENT6 SERVER6
    python3 manager.py announce|remove|create|destroy|flags|dump|get TOKEN [id=1] [local=ADDRESS] [lport=PORT] [remote=ADDRESS] [rport=PORT] [flags=N] [dev=N]
"""

import socket
import sys
import time

from mptcp import (ANNOUNCE, CREATE, DESTROY, DUMP, GET_ADDR, LOC_ID, PORT, REMOTE, REMOVE, SET_FLAGS, TOKEN, ADD_ADDR, BACKUP, FULLMESH, SIGNAL, Manager, ask, attempt, connect, counters,
                   endpoint, remote, say, sh, sysctl, token, u8, u32)

COMMANDS = {"announce": ANNOUNCE, "remove": REMOVE, "create": CREATE, "destroy": DESTROY, "flags": SET_FLAGS, "dump": GET_ADDR, "get": GET_ADDR}


def command(manager: Manager, verb: str, of: int | None, **words) -> object:
    """One of the commands, whose attributes are those that have words."""
    parts = [u32(TOKEN, of)] if of is not None else []
    if verb == "remove":
        parts += [u8(LOC_ID, int(words["id"]))] if "id" in words else []
    elif verb != "dump":
        number = {key: int(words[word]) for key, word in (("id", "id"), ("port", "lport"), ("flags", "flags"), ("device", "dev")) if word in words}
        parts += [endpoint(address=words.get("local", ""), **number)] if "local" in words or number else []
        parts += [endpoint(REMOTE, words["remote"], port=int(words.get("rport", 0)))] if "remote" in words else []
    return manager.attempt(f"{verb} {words}", COMMANDS[verb], *parts, **({"flags": DUMP} if verb == "dump" else {}))


def subflows() -> list[list[str]]:
    """Local and remote address of each subflow."""
    said = sh("ss -HtnO state established sport != :5001 and dport != :5001").partition(" ")[2]
    return [line.split()[2:4] for line in said.splitlines() if len(line.split()) > 3]


def parted(of: str) -> tuple[str, str]:
    address, _, port = of.rpartition(":")
    return address.partition("%")[0].strip("[]"), port


def mistakes(manager: Manager, sock: socket.socket, here: str, there: str) -> None:
    """What is refused: things missing, tokens of nobody, flags and families that do not go together."""
    of, other = token(sock), "fd99::1" if "." in here else "10.99.0.1"
    for verb in ("announce", "remove", "create", "destroy", "flags", "dump", "get"):
        for whose in (None, 1, of):
            command(manager, verb, whose)
            command(manager, verb, whose, id=9, local=here, remote=there)
    for verb, words in (("announce", {"local": here, "id": 0, "flags": SIGNAL}), ("announce", {"local": here, "id": 3}),
                        ("create", {"local": here, "id": 3, "flags": SIGNAL, "remote": there, "rport": PORT}),
                        ("create", {"local": here, "id": 3, "remote": other, "rport": PORT}), ("create", {"local": "10.77.0.1", "id": 4, "remote": there, "rport": PORT}),
                        ("destroy", {"local": here, "lport": 1, "remote": other, "rport": 2}), ("destroy", {"local": here, "lport": 1, "remote": there, "rport": 2}),
                        ("destroy", {"local": here, "remote": there}), ("flags", {"local": here, "remote": there, "rport": 1}), ("flags", {"id": 1, "remote": there}),
                        ("remove", {"id": 99}), ("get", {"id": 99})):
        command(manager, verb, of, **words)


def managed(manager: Manager, here: str, there: str, mine: str, theirs: str) -> None:
    """One connection, and all that can be done to it from this end and the other."""
    sock = connect(there)
    of, its = token(sock), int(ask(sock, "token"))
    sock.sendall(b"echo\nx")
    time.sleep(0.1)

    def do(verb: str, **words) -> None:
        command(manager, verb, of, **words)
        follow()

    def server(verb: str, words: str) -> None:
        remote(there, f"python3 /opt/mptcp/manager.py {verb} {its} {words}")
        follow()

    def follow() -> None:
        sock.sendall(b"y" * 3000)
        time.sleep(0.15)
        say("subflows", subflows())

    do("announce", local=mine, id=5, flags=SIGNAL)
    do("announce", local=mine, id=5, flags=SIGNAL)
    do("announce", local=mine, id=6, flags=SIGNAL)
    do("announce", local=mine, lport=5566, id=7, flags=SIGNAL, dev=3)
    do("create", local=mine, id=5, remote=there, rport=PORT)
    do("create", local=mine, id=8, remote=there, rport=PORT, flags=BACKUP)
    server("announce", f"id=3 local={theirs} flags=1")
    do("create", local=mine, id=5, remote=theirs, rport=PORT, dev=3)
    do("dump")
    do("get", id=5)
    for flags in (BACKUP, 0):
        for local, remote_ in subflows():
            local, remote_ = parted(local), parted(remote_)
            do("flags", local=local[0], lport=local[1], remote=remote_[0], rport=remote_[1], **({"flags": flags} if flags else {}))
            do("flags", local=local[0], remote=remote_[0], **({"flags": flags} if flags else {}))
    for local, remote_ in subflows():
        if parted(local)[0] == mine:
            local, remote_ = parted(local), parted(remote_)
            do("destroy", local=local[0], lport=local[1], remote=remote_[0], rport=remote_[1])
    server("create", f"id=4 local={theirs} remote={mine} rport={PORT}")
    server("remove", "id=3")
    server("dump", "")
    do("create", local=mine, id=5, remote=there, rport=PORT)
    do("remove", id=5)
    do("create", local=mine, id=9, remote=there, rport=PORT)
    mistakes(manager, sock, here, there)
    do("remove", id=0)
    do("remove", id=0)
    sock.settimeout(2)
    attempt("still", lambda: len(sock.recv(100000)))
    sock.close()


def mapped(manager: Manager, there: str, mine: str) -> None:
    """IPv4 by a socket of IPv6: addresses of both kinds."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 262) as sock:
        sock.connect(("::ffff:" + there, PORT))
        sock.sendall(b"echo\nx")
        time.sleep(0.1)
        for local in (mine, "::ffff:" + mine):
            command(manager, "create", token(sock), local=local, id=3, remote=there, rport=PORT)
            time.sleep(0.1)
            for known, remote_ in subflows():
                known, remote_ = parted(known), parted(remote_)
                for far in (there, "::ffff:" + there):
                    command(manager, "destroy", token(sock), local=local, lport=known[1], remote=far, rport=remote_[1])


def kernels(manager: Manager, here: str, there: str) -> None:
    """With the kernel's own path manager the commands of the other kind are refused."""
    sysctl("net.mptcp.pm_type", 0)
    manager.attempt("endpoint", ADD_ADDR, endpoint(address=here, flags=FULLMESH | 2))
    with connect(there) as sock:
        mistakes(manager, sock, here, there)
    sysctl("net.mptcp.pm_type", 1)
    sysctl("net.mptcp.pm_type", 9)


def main() -> None:
    manager = Manager()
    verb, *words = sys.argv[1:]
    if verb != "run":
        command(manager, verb, int(words[0]), **dict(word.split("=") for word in words[1:]))
        return
    here, there, here6, there6 = words
    sh("ip -6 route add fd77:0:0:1::/64 via fd77:0:0:2::2 dev eth1 metric 2000")
    managed(manager, here, there, here.replace(".0.1", ".1.1"), there.replace(".0.2", ".1.2"))
    managed(manager, here6, there6, here6.replace(":1::", ":2::"), there6.replace(":1::", ":2::"))
    mapped(manager, there, here.replace(".0.1", ".1.1"))
    kernels(manager, here, there)
    remote(there, "grep MPTcp /proc/net/netstat")
    counters()


main()
