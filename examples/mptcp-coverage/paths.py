"""The kernel's path manager, set up by `ip mptcp`: endpoints of all kinds at both ends, changed while connections use them, and wires that fail below."""

import socket
import sys
import threading
import time

from mptcp import (ADD_ADDR, ADDR, DEL_ADDR, DUMP, FULLMESH, GET_ADDR, ID, SET_FLAGS, SET_LIMITS, SIGNAL, SUBFLOW, SUBFLOWS, Manager, ask, attempt, attribute, connect, counters, endpoint,
                   remote, say, sh, sysctl, transfer, u32)

HERE, THERE, HERE6, THERE6 = sys.argv[1:]
# Addresses of the second and third wire, by those of the first.
OTHERS = [HERE.replace(".0.1", f".{number}.1") for number in (1, 2)]
OTHERS6 = [HERE6.replace(":1::", f":{number}::") for number in (2, 3)]
# No frame leaves by an interface any more, and again.
CUT = "nft add table inet cut; nft add chain inet cut out '{{ type filter hook output priority 0; }}'; nft add rule inet cut out oifname {} drop"
MEND = "nft delete table inet cut"


def ip(words: str) -> None:
    said = sh(f"ip mptcp {words}")
    say(f"ip mptcp {words} -> {said}")


def there(words: str) -> None:
    remote(THERE, f"ip mptcp {words}")


def routes() -> None:
    """With IPv6 no host answers for the address of another interface: what leaves by the second and third needs a way."""
    for number in (1, 2):
        sh(f"ip -6 route add fd77:0:0:1::/64 via fd77:0:0:{number + 1}::2 dev eth{number} metric 2000")


def exactly(sock: socket.socket, size: int) -> int:
    got = 0
    while got < size and (more := len(sock.recv(size - got))):
        got += more
    return got


def limits(subflows: int, accepted: int) -> None:
    for body in (ip, there):
        body("endpoint flush")
        body(f"limits set subflow {subflows} add_addr_accepted {accepted}")


def subflows() -> str:
    return " ".join(sorted(line.split()[2] + ">" + line.split()[3] for line in sh("ss -Htn state established dport != :5001").splitlines() if len(line.split()) > 3))


def while_open(to: str, *actions, seconds: float = 0.3) -> None:
    """Does these things one after another while a connection is open and carries something."""
    with connect(to) as sock:
        sock.sendall(b"echo\nx")
        time.sleep(seconds)
        say("subflows", subflows())
        for action in actions:
            action()
            sock.sendall(b"y" * 20000)
            time.sleep(seconds)
            say("subflows", subflows())
        sock.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
    time.sleep(0.2)


def from_here(to: str, mine: list[str]) -> None:
    """Subflows that the client begins: added, made backups, taken away, all of them flushed."""
    limits(4, 4)
    ip(f"endpoint add {mine[0]} dev eth1 subflow")
    while_open(to, lambda: ip(f"endpoint change {mine[0]} backup"), lambda: ip(f"endpoint change {mine[0]} nobackup"), lambda: ip(f"endpoint add {mine[1]} subflow backup id 9"),
               lambda: ip("endpoint change id 9 fullmesh"), lambda: ip("endpoint change id 9 nofullmesh"), lambda: ip("endpoint delete id 1"), lambda: ip("endpoint show id 9"),
               lambda: ip("endpoint flush"), lambda: ip(f"endpoint add {mine[0]} subflow"))
    ip("endpoint flush")
    ip(f"endpoint add {HERE6 if ':' in to else HERE} subflow backup id 7")
    ip(f"endpoint add {mine[0]} subflow id 8")
    while_open(to, lambda: ip("endpoint delete id 7"), lambda: ip(f"endpoint add {HERE6 if ':' in to else HERE} subflow id 7"), lambda: ip(f"endpoint delete id 0 {HERE6 if ':' in to else HERE}"))


def from_there(to: str, theirs: list[str], mine: list[str]) -> None:
    """Addresses that the server tells of, with a port and without."""
    limits(8, 8)
    there(f"endpoint add {theirs[0]} signal")
    ip(f"endpoint add {mine[0]} subflow fullmesh")
    while_open(to, lambda: there(f"endpoint add {theirs[1]} port 5555 signal"), lambda: ip("endpoint"), lambda: there("endpoint delete id 1"), lambda: there("endpoint flush"),
               lambda: there(f"endpoint add {theirs[0]} signal subflow"), lambda: there(f"endpoint change {theirs[0]} backup"))
    limits(8, 8)
    there(f"endpoint add {theirs[0]} signal port 5556")
    ip(f"endpoint add {mine[0]} signal")
    while_open(to, lambda: ip(f"endpoint add {mine[1]} signal"), lambda: there(f"endpoint delete id 1 {theirs[0]}"), lambda: ip("endpoint delete id 1"), lambda: ip("endpoint flush"))
    limits(8, 8)
    there(f"endpoint add {THERE6 if ':' in to else THERE} signal")
    there(f"endpoint add {theirs[0]} signal")
    while_open(to, lambda: there(f"endpoint delete id 0 {THERE6 if ':' in to else THERE}"), lambda: there("endpoint delete id 1"), lambda: there("endpoint flush"))
    limits(8, 0)
    there(f"endpoint add {theirs[0]} signal")
    there(f"endpoint add {theirs[1]} signal")
    while_open(to, lambda: ip("limits set add_addr_accepted 2"))


def mesh(to: str, theirs: list[str], mine: list[str]) -> None:
    """Everybody with everybody, and not with the address that the connection began with."""
    limits(8, 8)
    for address in mine:
        ip(f"endpoint add {address} subflow fullmesh")
    for address in theirs:
        there(f"endpoint add {address} signal")
    while_open(to, lambda: ip("endpoint change id 1 nofullmesh"), lambda: ip("endpoint change id 1 fullmesh"), lambda: ip("endpoint change id 2 backup fullmesh"))
    remote(THERE, "sysctl -w net.mptcp.allow_join_initial_addr_port=0")
    while_open(to)
    limits(4, 0)
    ip(f"endpoint add {mine[0]} subflow")
    there(f"endpoint add {theirs[0]} signal")
    while_open(to)
    limits(4, 0)
    ip(f"endpoint add {mine[0]} subflow fullmesh")
    there(f"endpoint add {theirs[0]} signal")
    while_open(to)
    remote(THERE, "sysctl -w net.mptcp.allow_join_initial_addr_port=1")


def implicit(to: str, theirs: list[str], mine: list[str]) -> None:
    """An address that nobody named, since the route chose it, and that is named later."""
    limits(4, 4)
    there(f"endpoint add {theirs[0]} signal")
    while_open(to, lambda: ip("endpoint"), lambda: ip(f"endpoint add {mine[0]} subflow id 3"), lambda: ip(f"endpoint add {mine[0]} subflow"), lambda: ip("endpoint delete id 1"))
    limits(0, 0)
    there(f"endpoint add {theirs[0]} signal")
    ip(f"endpoint add {mine[0]} subflow")
    while_open(to)


def mistakes() -> None:
    """What the path manager refuses."""
    limits(2, 2)
    for words in ("limits set subflow 99", "limits set add_addr_accepted 99", "endpoint add 10.0.1.1 signal fullmesh", "endpoint add 10.0.1.1 subflow port 4", "endpoint add 10.0.1.1 id 3",
                  "endpoint add 10.0.1.1 id 3", "endpoint add 10.0.2.1 id 3", "endpoint add 10.0.1.1", "endpoint delete id 77", "endpoint delete id 0", "endpoint delete id 0 10.9.9.9",
                  "endpoint show id 77", "endpoint show id 3", "endpoint change id 77 backup", "endpoint change 10.7.7.7 backup", "endpoint change id 3 fullmesh signal", "endpoint change id 3 signal",
                  "endpoint add 10.0.1.7 port 80 signal", "endpoint add ::ffff:10.0.2.1 signal", "endpoint add 10.0.1.1 dev nothing", "limits", "limits show", "endpoint"):
        ip(words)
    for number in range(9):
        ip(f"endpoint add 10.5.5.{number} subflow")
    ip("endpoint flush")
    manager = Manager()
    for what, command, parts in (
            ("nothing", ADD_ADDR, ()), ("no family", ADD_ADDR, (endpoint(id=3),)), ("family 7", ADD_ADDR, (attribute(ADDR | 0x8000, attribute(1, b"\7\0")),)),
            ("no address", ADD_ADDR, (attribute(ADDR | 0x8000, attribute(1, b"\2\0")),)), ("no address", ADD_ADDR, (attribute(ADDR | 0x8000, attribute(1, b"\12\0")),)),
            ("odd", ADD_ADDR, (attribute(ADDR | 0x8000, attribute(ID, b"")),)), ("flags", ADD_ADDR, (endpoint(address="10.0.1.1", flags=SIGNAL | FULLMESH),)),
            ("implicit", ADD_ADDR, (endpoint(address="10.0.1.1", flags=16),)), ("port", ADD_ADDR, (endpoint(address="10.0.1.1", flags=SUBFLOW, port=4),)),
            ("taken port", ADD_ADDR, (endpoint(address=HERE, flags=SIGNAL, port=6020),)), ("taken port", ADD_ADDR, (endpoint(address=HERE, flags=SIGNAL, port=6020),)),
            ("one", GET_ADDR, (endpoint(id=1),)), ("none", GET_ADDR, (endpoint(id=99),)), ("nothing", GET_ADDR, ()), ("no id", DEL_ADDR, (endpoint(),)), ("nothing", DEL_ADDR, ()),
            ("nothing", SET_FLAGS, ()), ("no id", SET_FLAGS, (endpoint(),)), ("unknown", SET_FLAGS, (endpoint(address="10.0.1.9"),)), ("nothing", SET_LIMITS, ()), ("much", SET_LIMITS, (u32(SUBFLOWS, 9),))):
        manager.attempt(what, command, *parts)
    manager.attempt("all", GET_ADDR, flags=DUMP)
    ip("endpoint flush")


def failing(to: str, mine: list[str], device: str = "eth1") -> None:
    """A large transfer over unequal wires, of which one goes away and comes again, at this end and in between."""
    limits(4, 4)
    for number, address in enumerate(mine):
        ip(f"endpoint add {address} dev eth{number + 1} subflow")
    sysctl("net.mptcp.stale_loss_cnt", 1)
    size = 2_500_000
    with connect(to) as sock:
        said = []
        thread = threading.Thread(target=lambda: said.append(transfer(sock, size)))
        thread.start()
        time.sleep(0.5)
        for command in (CUT.format(device), "", MEND, "tc qdisc add dev eth0 root netem loss 5%", "ip mptcp endpoint add 10.9.9.9 subflow", f"ip link set {device} down", f"ip link set {device} up",
                        "tc qdisc del dev eth0 root"):
            say(command, sh(command) if command else "")
            time.sleep(0.7)
        thread.join()
        routes()
        say("failing", said)
    with connect(to) as sock:
        sock.sendall(b"source 1000000\n")
        while sock.recv(1 << 16):
            pass


def backup(to: str, mine: list[str]) -> None:
    """Only a backup is left when the first wire carries nothing any more; and endpoints go while data are on their way."""
    limits(4, 4)
    ip(f"endpoint add {mine[0]} dev eth1 subflow backup")
    with connect(to) as sock:
        sock.sendall(b"echo\n")
        time.sleep(0.2)
        sh(CUT.format("eth0 tcp dport 5000"))
        sock.sendall(b"z" * 30_000)
        attempt("by the backup", exactly, sock, 30_000)
        sh(MEND)
        ip("endpoint flush")
        attempt("more", sock.sendall, b"z" * 1000)
        attempt("after it", exactly, sock, 1000)


def server_side(to: str) -> None:
    """The server is the one that begins to speak, and leaves while the client sends."""
    with connect(to) as sock:
        say("token", ask(sock, "token").isdigit())
        sock.sendall(b"source 300000\n")
        time.sleep(0.05)
        there("endpoint flush")
        time.sleep(0.5)


def main() -> None:
    routes()
    mistakes()
    for to, mine, theirs in ((THERE, OTHERS, [address[:-1] + "2" for address in OTHERS]), (THERE6, OTHERS6, [address[:-1] + "2" for address in OTHERS6])):
        for body, words in ((from_here, (mine,)), (from_there, (theirs, mine)), (mesh, (theirs, mine)), (implicit, (theirs, mine)), (failing, (mine,)), (backup, (mine,)), (server_side, ())):
            say(f"--- {body.__name__} {to}")
            attempt(body.__name__, body, to, *words)
    remote(THERE, "grep MPTcp /proc/net/netstat")
    counters()


main()
