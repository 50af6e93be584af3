"""Interfaces that a message, an address, a bind and an option name at a time; IPv6 addresses by ioctl(2). With two interfaces of its own."""

import ctypes
import errno
import itertools
import socket
import struct
import subprocess
import time

from answers import runs, said

libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
SOL_IPV6 = 41
IPV6_PKTINFO = 50
SO_BINDTOIFINDEX = 62
NOBODY = 99


def ip(*words):
    return subprocess.run(["ip", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def interface(number):
    """One with nothing behind it: a dummy, or, where the kernel has none, an end of a cable. Its index."""
    name = f"x{number}"
    if ip("link", "add", name, "type", "dummy"):
        ip("link", "add", name, "type", "veth", "peer", "name", f"y{number}")
        ip("link", "set", f"y{number}", "up")
    ip("link", "set", name, "up")
    for address in (f"fe80::a{number}", "fe80::c0", f"fd09:{number}::1"):
        assert not ip("-6", "addr", "add", f"{address}/64", "dev", name, "nodad"), address
    for peer in ("fe80::99", f"fd09:{number}::99"):
        assert not ip("neigh", "add", peer, "lladdr", "02:00:00:00:00:99", "dev", name), peer
    return socket.if_nametoindex(name)


INDEX = {"-": 0, "x0": interface(0), "x1": interface(1), "none": NOBODY}
ECHO = struct.pack("!BBHHH", 128, 0, 0, 1, 1)
KINDS = {"udp": (socket.SOCK_DGRAM, 0, 9999), "raw": (socket.SOCK_RAW, 253, 0), "ping": (socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6, 0)}
SOURCES = ("::", "fe80::a0", "fe80::c0", "fe80::77", "::1", "fd09::1", "fd09:0::77", "ff02::1")


def sent(s, to, port, scope, source, index):
    control = [] if source is None else [(SOL_IPV6, IPV6_PKTINFO, socket.inet_pton(socket.AF_INET6, source) + struct.pack("=I", INDEX[index]))]
    return said(lambda: s.sendmsg([ECHO], control, 0, (to, port, 0, INDEX[scope])))


def messages():
    """What IPV6_PKTINFO comes to beside everything else that names an interface."""
    for kind, (what, protocol, port) in KINDS.items():
        ways = itertools.product(("fe80::99", "fd09::99", "ff02::99"), INDEX, ("-", "x0"), ("-", "x0"), ("-", "x1"))
        for to, scope, bound, sticky, preferred in ways:
            s = socket.socket(socket.AF_INET6, what, protocol)
            s.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, INDEX[bound]) if bound != "-" else None
            s.setsockopt(SOL_IPV6, IPV6_PKTINFO, bytes(16) + struct.pack("=I", INDEX[sticky])) if sticky != "-" else None
            # IPV6_UNICAST_IF, IPV6_MULTICAST_IF; a socket that is bound takes no other.
            said(lambda: s.setsockopt(SOL_IPV6, 76, struct.pack("!I", INDEX[preferred])))
            said(lambda: s.setsockopt(SOL_IPV6, 17, INDEX[preferred]))
            answers = [("plain", sent(s, to, port, scope, None, "-"))]
            elsewhere = []
            for source, index in itertools.product(SOURCES, INDEX):
                # From an address of the node's own by an interface that has no route there.
                settled = [one for one in (index, bound, sticky if kind != "raw" else "-", preferred) if one != "-"]
                by = settled[0] if settled else "-"
                no_route = to == "fd09::99" and by == "x1" and source in ("fe80::c0", "fd09::1") or source == "::1" and index == "-"
                (elsewhere if no_route else answers).append((f"{source}%{index}", sent(s, to, port, scope, source, index)))
            here = f"{kind} to {to}%{scope} bound {bound} sticky {sticky} preferred {preferred}"
            print(here, runs(answers))
            for way, answer in elsewhere:
                print(here, "elsewhere", way, answer)
            s.close()


def binds():
    for kind, (what, protocol, _) in {**KINDS, "tcp": (socket.SOCK_STREAM, 0, 0)}.items():
        for bound in ("-", "x0", "x1"):

            def one(address, scope):
                s = socket.socket(socket.AF_INET6, what, protocol)
                s.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, INDEX[bound]) if bound != "-" else None
                return said(lambda: s.bind((address, 0, 0, INDEX[scope])) or 0)

            print(f"{kind} bind, bound {bound}:", runs((f"{source}%{scope}", one(source, scope)) for source in SOURCES for scope in INDEX))


def asked(s, request, data):
    room = ctypes.create_string_buffer(data, 64) if isinstance(data, bytes) else data
    return errno.errorcode[ctypes.get_errno()] if libc.ioctl(s.fileno(), request, room) < 0 else 0


def requests():
    """SIOCSIFADDR, SIOCDIFADDR, SIOCSIFDSTADDR; `struct in6_ifreq`."""
    add, delete, peer, flags = 0x8916, 0x8936, 0x8918, 0x8934
    of = lambda address, bits, index: socket.inet_pton(socket.AF_INET6, address) + struct.pack("=Ii", bits, INDEX[index])
    there = lambda: "fd0b::1/64" in subprocess.run(["ip", "-6", "addr", "show", "dev", "x0"], capture_output=True, text=True).stdout
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_RAW):
        s = socket.socket(socket.AF_INET6, kind, 253 if kind == socket.SOCK_RAW else 0)
        print("added", asked(s, add, of("fd0b::1", 64, "x0")), there(), "again", asked(s, add, of("fd0b::1", 64, "x0")))
        for request in (add, delete, peer):
            wrong = [of("fd0b::2", 64, "none"), of("fd0b::2", 129, "x0"), of("fd0b::2", 129, "none")]
            wrong += [of("fd0b::1", 63, "x0")] if request == delete else []
            # A kernel with tunnels of its kind (CONFIG_IPV6_SIT) looks at what the last is given.
            wrong += [8, None] if request != peer else []
            print(hex(request), *(asked(s, request, one) for one in wrong))
        print("deleted", asked(s, delete, of("fd0b::1", 64, "x0")), there(), "again", asked(s, delete, of("fd0b::1", 64, "x0")))
    for what, s in (("inet", socket.socket(socket.AF_INET, socket.SOCK_DGRAM)), ("local", socket.socketpair()[0])):
        of_name = b"nothing".ljust(16, b"\0") + struct.pack("=H", socket.AF_INET) + bytes(14)
        print(what, *(f"{request:#x} {asked(s, request, of_name)} {asked(s, request, 8)}" for request in (add, delete, peer, flags)))
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    print("inet6", asked(s, flags, bytes(40)), asked(s, flags, 8))


def lacking():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    group = lambda address, index: socket.inet_pton(socket.AF_INET6, address) + struct.pack("=I", INDEX[index])
    for address, index in (("fd09::99", "x0"), ("fd09::99", "-"), ("fd0c::1", "x0"), ("fd09::1", "x0"), ("ff02::1", "x0")):
        answers = [said(lambda: s.setsockopt(SOL_IPV6, number, group(address, index)) or 0) for number in (27, 28)]
        print("anycast", address, index, *answers)
    for protocol in (253, 255):
        s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, protocol)
        print("router alert", protocol, said(lambda: s.setsockopt(SOL_IPV6, 22, 5) or 0))


def network_inside():
    """A network on lo: every address of it is the host's, for who binds and for who connects."""
    print("before", said(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("10.9.200.7", 0))))
    ip("addr", "add", "10.9.0.1/16", "dev", "lo")
    for host in ("10.9.0.1", "10.9.200.7", "10.9.0.0", "10.9.255.255", "10.10.0.1"):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        print("inside", host, "udp", said(lambda: udp.bind((host, 0)) or udp.getsockname()[0]), end=" ")
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        print("tcp", said(lambda: tcp.bind((host, 0)) or tcp.listen() or tcp.getsockname()[0]), end=" ")
        for kind, server in ((socket.SOCK_DGRAM, udp), (socket.SOCK_STREAM, tcp)):
            # Where nobody could bind nobody is asked.
            port = server.getsockname()[1]
            a = socket.socket(socket.AF_INET, kind)
            source = said(lambda: a.connect((host, port)) or a.getsockname()[0]) if port else "-"
            print(source, said(lambda: a.send(b"abc")) if source.startswith("10.") else "-", end=" ")
            a.close()
        print(udp.recv(10) if udp.getsockname()[1] and not host.endswith("255") else "-")
        udp.close(), tcp.close()
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    a.bind(("10.9.1.2", 0)), b.bind(("0.0.0.0", 0))
    print("from there", a.sendto(b"abc", ("10.9.3.4", b.getsockname()[1])), b.recvfrom(10)[1][0], said(lambda: a.sendto(b"abc", ("127.0.0.1", 9))))
    a.close(), b.close()
    ip("addr", "del", "10.9.0.1/16", "dev", "lo")
    print("after", said(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(("10.9.200.7", 0))))


def network6_inside():
    """A prefix on lo is a route like any other: who connects to another address of it is heard by nobody. One of type local is the host's."""
    ip("-6", "addr", "add", "fd19::1/64", "dev", "lo", "nodad")
    # addrconf_dad_work makes its route of type local, which may be some time later.
    for _ in range(500):
        if subprocess.run(["ip", "-6", "route", "get", "fd19::1"], capture_output=True, text=True).stdout.startswith("local"):
            break
        time.sleep(0.01)
    print("local route", ip("-6", "route", "add", "local", "fd1a::/64", "dev", "lo"), ip("route", "add", "local", "10.11.0.0/16", "dev", "lo"))
    for host in ("fd19::1", "fd19::5", "fd19::", "fd1a::1", "fd1a::", "fd1b::1", "10.11.0.1", "10.11.0.0", "10.11.255.255", "10.12.0.1"):
        family, anywhere = (socket.AF_INET6, "::") if ":" in host else (socket.AF_INET, "0.0.0.0")
        ear, a, raw = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_RAW, 253)
        ear.bind((anywhere, 0))
        named = said(lambda: socket.socket(family, socket.SOCK_DGRAM).bind((host, 0)))
        source = said(lambda: a.connect((host, ear.getsockname()[1])) or a.getsockname()[0])
        heard = said(lambda: a.send(b"abc")) if source[:1] in "f1" else "-"
        ear.settimeout(5 if not host.startswith("fd19") or host == "fd19::1" else 0.1)
        came = said(lambda: ear.recvfrom(10)[1][0]) if heard == 3 else "-"
        print("inside", host, named, source, heard, came, said(lambda: raw.sendto(b"abc", (host, 0))), end=" ")
        # Whoever listens anywhere is reached, and answers from there; where nobody listens it is refused.
        server, client = socket.socket(family, socket.SOCK_STREAM), socket.socket(family, socket.SOCK_STREAM)
        server.bind((anywhere, 0)), server.listen()
        if heard == 3 and came not in ("-", "TIMEOUT"):
            print(said(lambda: client.connect((host, server.getsockname()[1])) or server.accept()[0].getsockname()[0]), client.getpeername()[0], end=" ")
            print(said(lambda: socket.socket(family, socket.SOCK_STREAM).connect((host, 9))), end="")
        print()
        for one in (ear, a, raw, server, client):
            one.close()
    print("gone", ip("-6", "route", "del", "local", "fd1a::/64", "dev", "lo"), ip("route", "del", "local", "10.11.0.0/16", "dev", "lo"))
    ip("-6", "addr", "del", "fd19::1/64", "dev", "lo")
    for host in ("fd19::5", "fd1a::1", "10.11.0.1"):
        print("after", host, said(lambda: socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM).connect((host, 9))))


messages()
binds()
requests()
lacking()
network_inside()
network6_inside()
