#!/usr/bin/env python3
"""Makes the captures of this folder. See README.md. Run as root."""

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
A, R, B = "weft-wire-a", "weft-wire-r", "weft-wire-b"
LIBC = ctypes.CDLL(None, use_errno=True)
MPTCP = 262


def sh(command):
    subprocess.run(command, shell=True, check=True)


def ns(name, command):
    sh(f"ip netns exec {name} {command}")


@contextlib.contextmanager
def inside(name):
    """Sockets made in here belong to the namespace `name`."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    target = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if LIBC.setns(target, 0):
        raise OSError(ctypes.get_errno(), "setns")
    try:
        yield
    finally:
        LIBC.setns(home, 0)
        os.close(home)
        os.close(target)


@contextlib.contextmanager
def capture(name, file, interface="eth0", filter=""):
    """Captures in namespace `name` while the body runs."""
    path = os.path.join(HERE, file)
    command = f"ip netns exec {name} tcpdump -q -U --immediate-mode -s 0 -i {interface} -w {path} {filter}"
    process = subprocess.Popen(command.split(), stderr=subprocess.PIPE)
    process.stderr.readline()  # "listening on"
    yield
    time.sleep(0.3)
    process.terminate()
    process.wait()
    sh(f"chmod 644 {path}; ls -l {path}; tcpdump -qnr {path} 2>/dev/null | wc -l")


def sock(name, family, kind, protocol=0):
    with inside(name):
        s = socket.socket(family, kind, protocol)
    s.settimeout(3)
    return s


def make_world():
    """a (eth0) - (eth0) r (eth1) - (eth0) b; the wire to b has a smaller MTU."""
    for name in (A, R, B):
        sh(f"ip netns add {name}")
        ns(name, "ip link set lo up")
    sh(f"ip link add eth0 netns {A} address 02:00:00:00:00:0a type veth peer name eth0 netns {R} address 02:00:00:00:00:01")
    sh(f"ip link add eth0 netns {B} address 02:00:00:00:00:0b type veth peer name eth1 netns {R} address 02:00:00:00:00:02")
    for name, interface in ((A, "eth0"), (R, "eth0"), (R, "eth1"), (B, "eth0")):
        # Real checksums and real segments on the wire.
        ns(name, f"ethtool -K {interface} tx off rx off gso off tso off gro off >/dev/null")
        ns(name, f"sysctl -qw net.ipv6.conf.{interface}.accept_ra=2")
    ns(R, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")


def address_world():
    ns(A, "ip addr add 10.0.1.10/24 dev eth0")
    ns(R, "ip addr add 10.0.1.1/24 dev eth0")
    ns(R, "ip addr add 10.0.2.1/24 dev eth1")
    ns(B, "ip addr add 10.0.2.10/24 dev eth0")
    ns(A, "ip addr add fd00:1::10/64 dev eth0")
    ns(R, "ip addr add fd00:1::1/64 dev eth0")
    ns(R, "ip addr add fd00:2::1/64 dev eth1")
    ns(B, "ip addr add fd00:2::10/64 dev eth0")
    ns(A, "ip route add default via 10.0.1.1")
    ns(B, "ip route add default via 10.0.2.1")
    ns(A, "ip -6 route add default via fd00:1::1")
    ns(B, "ip -6 route add default via fd00:2::1")


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total >> 16) + (total & 0xFFFF)
    return ~total & 0xFFFF


def icmp4(kind, code, rest, payload=b""):
    head = struct.pack("!BBH", kind, code, 0) + rest + payload
    return head[:2] + struct.pack("!H", checksum(head)) + head[4:]


def attempt(action):
    """Errors such as 'no route' and timeouts are what some of these packets are for."""
    try:
        return action()
    except OSError as error:
        print("   ", error)


def start_interfaces():
    """Duplicate address detection, MLD reports, router solicitations."""
    ns(R, "ip link set eth0 up")
    ns(R, "ip link set eth1 up")
    with capture(R, "nd-mld.pcap"):
        ns(B, "ip link set eth0 up mtu 1280")
        ns(R, "ip link set eth1 mtu 1280")
        ns(A, "ip link set eth0 up")
        time.sleep(2)
        address_world()
        time.sleep(2.5)
        raw = sock(R, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, struct.pack("@i", index(R, "eth0")))
        prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 14400, 0) + socket.inet_pton(socket.AF_INET6, "fd00:9::")
        mac = bytes([1, 1, 2, 0, 0, 0, 0, 1])
        mtu = struct.pack("!BBHI", 5, 1, 0, 1400)
        dns = struct.pack("!BBHI", 25, 3, 0, 600) + socket.inet_pton(socket.AF_INET6, "fd00:1::53")
        advert = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix + mac + mtu + dns
        raw.sendto(advert, ("ff02::1", 0))
        time.sleep(1.5)
        member = sock(A, socket.AF_INET6, socket.SOCK_DGRAM)
        group = socket.inet_pton(socket.AF_INET6, "ff05::1:3") + struct.pack("@i", index(A, "eth0"))
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
        source_group = struct.pack("@I4x", index(A, "eth0")) + sockaddr6("ff05::1:4") + sockaddr6("fd00:2::99")
        member.setsockopt(socket.IPPROTO_IPV6, 46, source_group)  # MCAST_JOIN_SOURCE_GROUP
        time.sleep(1.5)
        hop_by_hop = bytes([0, 0, 5, 2, 0, 0, 1, 0])  # router alert: MLD; PadN
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, hop_by_hop)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
        raw.sendto(struct.pack("!BBHHH", 130, 0, 0, 100, 0) + bytes(16) + bytes([2, 125, 0, 0]), ("ff02::1", 0))
        time.sleep(0.6)
        ns(A, "sysctl -qw net.ipv6.conf.eth0.force_mld_version=1")
        group = socket.inet_pton(socket.AF_INET6, "ff05::1:5") + struct.pack("@i", index(A, "eth0"))
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
        time.sleep(0.5)
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_LEAVE_GROUP, group)
        time.sleep(0.3)
        ns(A, "sysctl -qw net.ipv6.conf.eth0.force_mld_version=0")
        member.close()
        time.sleep(0.5)


def sockaddr6(address):
    return struct.pack("@HHI", socket.AF_INET6, 0, 0) + socket.inet_pton(socket.AF_INET6, address) + bytes(4 + 100)


def index(name, interface):
    with inside(name):
        return socket.if_nametoindex(interface)


def ping4():
    """ARP, echo, fragments, options, errors."""
    ns(A, "ip neigh flush all")
    ns(R, "ip neigh flush all")
    with capture(A, "arp-icmpv4.pcap", filter="not ip6"):
        raw = sock(A, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        for sequence in range(2):
            raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, sequence), bytes(range(56))), ("10.0.2.10", 0))
            raw.recv(2000)
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 2), bytes(2999)), ("10.0.1.1", 0))
        raw.recv(5000)
        raw.sendto(icmp4(13, 0, struct.pack("!HH", 77, 3), struct.pack("!III", 1000, 0, 0)), ("10.0.1.1", 0))
        attempt(lambda: raw.recv(2000))
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([7, 15, 4] + 12 * [0] + [0]))
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 4), b"route"), ("10.0.2.10", 0))
        raw.recv(2000)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([68, 20, 5, 1] + 16 * [0]))
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 5), b"time"), ("10.0.2.10", 0))
        raw.recv(2000)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"")
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 6), b"too far"), ("10.0.2.10", 0))
        raw.recv(2000)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 64)
        raw.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: DO
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 7), bytes(1400)), ("10.0.2.10", 0))
        raw.recv(2000)
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 8), b"nobody"), ("10.0.2.77", 0))
        attempt(lambda: raw.recv(2000))
        ns(A, "ip route add 10.0.3.0/24 via 10.0.1.1")
        ns(R, "ip route add 10.0.3.0/24 via 10.0.1.77")
        ns(R, "ip neigh replace 10.0.1.77 lladdr 02:00:00:00:00:77 dev eth0")
        raw.sendto(icmp4(8, 0, struct.pack("!HH", 77, 9), b"redirect"), ("10.0.3.1", 0))
        attempt(lambda: raw.recv(2000))
        udp = sock(A, socket.AF_INET, socket.SOCK_DGRAM)
        for size in (0, 1, 200):
            udp.sendto(bytes(size), ("10.0.2.10", 4999))
        attempt(lambda: udp.connect(("10.0.1.1", 4999)))
        udp.send(b"nobody listens")
        attempt(lambda: udp.recv(100))
        server = sock(B, socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("10.0.2.10", 5001))
        client = sock(A, socket.AF_INET, socket.SOCK_DGRAM)
        client.sendto(b"ping", ("10.0.2.10", 5001))
        data, peer = server.recvfrom(100)
        server.sendto(data * 3, peer)
        client.recv(100)


def ping6():
    """Neighbour discovery, echo, fragments, hop-by-hop and routing headers, errors."""
    ns(A, "ip -6 neigh flush all")
    with capture(A, "ipv6.pcap", filter="ip6"):
        raw = sock(A, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        # Only echo replies and errors come up.
        raw.setsockopt(socket.IPPROTO_ICMPV6, 1, struct.pack("@8I", 0xFFFFFFE1, *([0xFFFFFFFF] * 3), 0xFFFFFFFF & ~(1 << 1), *([0xFFFFFFFF] * 3)))

        def ask(sequence, payload, target):
            raw.sendto(struct.pack("!BBHHH", 128, 0, 0, 78, sequence) + payload, (target, 0))
            attempt(lambda: raw.recv(4000))

        for sequence in range(2):
            ask(sequence, bytes(range(56)), "fd00:2::10")
        ask(2, bytes(3000), "fd00:1::1")
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 1)
        ask(3, b"too far", "fd00:2::10")
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 64)
        ask(4, bytes(1400), "fd00:2::10")
        ask(5, b"no route", "2001:db8::1")
        raw.settimeout(0.3)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
        ask(6, b"destination options", "fd00:2::10")
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, b"")
        # An unknown option of the kind "discard and report".
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 0x9E, 4, 1, 2, 3, 4]))
        ask(7, b"unknown option", "fd00:2::10")
        udp = sock(A, socket.AF_INET6, socket.SOCK_DGRAM)
        udp.connect(("fd00:1::1", 4999))
        udp.send(b"nobody listens")
        attempt(lambda: udp.recv(100))
        server = sock(B, socket.AF_INET6, socket.SOCK_STREAM)
        server.bind(("fd00:2::10", 5002))
        server.listen(1)
        client = sock(A, socket.AF_INET6, socket.SOCK_STREAM)
        client.connect(("fd00:2::10", 5002))
        accepted, _ = server.accept()
        client.send(b"hello over IPv6")
        accepted.recv(100)
        accepted.close()
        client.close()


def igmp():
    with capture(A, "igmp.pcap", filter="igmp"):
        member = sock(A, socket.AF_INET, socket.SOCK_DGRAM)

        def change(option, group):
            request = socket.inet_aton(group) + socket.inet_aton("10.0.1.10")
            member.setsockopt(socket.IPPROTO_IP, option, request)

        change(socket.IP_ADD_MEMBERSHIP, "239.1.2.3")
        # IP_ADD_SOURCE_MEMBERSHIP: group, interface, source.
        for source in ("10.0.2.99", "10.0.2.98"):
            request = socket.inet_aton("239.1.2.4") + socket.inet_aton("10.0.1.10") + socket.inet_aton(source)
            member.setsockopt(socket.IPPROTO_IP, 39, request)
        time.sleep(1.5)
        raw = sock(R, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([148, 4, 0, 0]))
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.0.1.1"))

        def query(kind, code, group, tail):
            raw.sendto(icmp4(kind, code, socket.inet_aton(group), tail), ("224.0.0.1", 0))
            time.sleep(0.8)

        query(0x11, 5, "0.0.0.0", bytes([2, 125, 0, 0]))
        query(0x11, 5, "239.1.2.4", bytes([2, 125, 0, 1]) + socket.inet_aton("10.0.2.99"))
        change(socket.IP_DROP_MEMBERSHIP, "239.1.2.3")
        time.sleep(0.8)
        for version, group in ((2, "239.1.2.5"), (1, "239.1.2.6")):
            ns(A, f"sysctl -qw net.ipv4.conf.eth0.force_igmp_version={version}")
            change(socket.IP_ADD_MEMBERSHIP, group)
            time.sleep(0.5)
            query(0x11, 5 if version == 2 else 0, "0.0.0.0", b"")
            change(socket.IP_DROP_MEMBERSHIP, group)
            time.sleep(0.5)
        ns(A, "sysctl -qw net.ipv4.conf.eth0.force_igmp_version=0")


def pump(accepted, total):
    while total > 0:
        data = accepted.recv(65536)
        if not data:
            break
        total -= len(data)


def tcp_sack():
    """Every fifth segment is lost behind the capture: SACK, D-SACK, retransmissions."""
    ns(B, "nft add table inet loss")
    ns(B, "nft add chain inet loss in '{ type filter hook input priority 0; }'")
    with capture(B, "tcp-sack.pcap", filter="tcp"):
        server = sock(B, socket.AF_INET, socket.SOCK_STREAM)
        server.bind(("10.0.2.10", 5000))
        server.listen(1)
        client = sock(A, socket.AF_INET, socket.SOCK_STREAM)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 500)
        client.connect(("10.0.2.10", 5000))
        accepted, _ = server.accept()
        ns(B, "nft add rule inet loss in tcp dport 5000 numgen inc mod 5 3 drop")
        total = 30000
        reader = threading.Thread(target=pump, args=(accepted, total))
        reader.start()
        client.sendall(bytes(i & 0xFF for i in range(total)))
        reader.join()
        client.send(b"!", socket.MSG_OOB)
        time.sleep(0.3)
        client.close()
        accepted.close()
        ns(B, "nft delete table inet loss")
        time.sleep(0.5)


def tcp_fast_open():
    for name in (A, B):
        ns(name, "sysctl -qw net.ipv4.tcp_fastopen=3")
    with capture(A, "tcp-fast-open.pcap", filter="tcp"):
        server = sock(B, socket.AF_INET, socket.SOCK_STREAM)
        server.bind(("10.0.2.10", 5003))
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
        server.listen(5)
        for _ in range(2):
            client = sock(A, socket.AF_INET, socket.SOCK_STREAM)
            client.settimeout(None)
            client.sendto(b"early", socket.MSG_FASTOPEN, ("10.0.2.10", 5003))
            accepted, _ = server.accept()
            accepted.recv(100)
            accepted.close()
            client.close()
        # Without timestamps, window scaling and SACK; and a port nobody listens on.
        ns(A, "sysctl -qw net.ipv4.tcp_timestamps=0")
        client = sock(A, socket.AF_INET, socket.SOCK_STREAM)
        client.connect(("10.0.2.10", 5003))
        client.close()
        ns(A, "sysctl -qw net.ipv4.tcp_sack=0 net.ipv4.tcp_window_scaling=0")
        client = sock(A, socket.AF_INET, socket.SOCK_STREAM)
        client.connect(("10.0.2.10", 5003))
        client.close()
        attempt(lambda: sock(A, socket.AF_INET, socket.SOCK_STREAM).connect(("10.0.2.10", 5998)))
        ns(A, "sysctl -qw net.ipv4.tcp_timestamps=1 net.ipv4.tcp_sack=1 net.ipv4.tcp_window_scaling=1")


def mptcp(file, checksums):
    """Two subflows: MP_CAPABLE, MP_JOIN, DSS, ADD_ADDR, REMOVE_ADDR, MP_PRIO, MP_FASTCLOSE."""
    for name in (A, B):
        ns(name, f"sysctl -qw net.mptcp.checksum_enabled={checksums}")
        ns(name, "ip mptcp limits set subflow 4 add_addr_accepted 4")
    ns(A, "ip mptcp endpoint flush")
    ns(B, "ip mptcp endpoint flush")
    ns(A, "ip mptcp endpoint add 10.0.1.11 id 5 dev eth0 subflow")
    ns(B, "ip mptcp endpoint add 10.0.2.11 id 6 dev eth0 signal")
    with capture(A, file, filter="tcp"):
        server = sock(B, socket.AF_INET, socket.SOCK_STREAM, MPTCP)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("0.0.0.0", 5004 + checksums))
        server.listen(5)
        for abort in (False, True):
            client = sock(A, socket.AF_INET, socket.SOCK_STREAM, MPTCP)
            client.connect(("10.0.2.10", 5004 + checksums))
            accepted, _ = server.accept()
            client.sendall(b"request" * 20)
            accepted.recv(1000)
            time.sleep(0.5)
            reader = threading.Thread(target=pump, args=(client, 3600))
            reader.start()
            accepted.sendall(bytes(3600))
            reader.join()
            if not abort:
                ns(B, "ip mptcp endpoint add fd00:2::11 id 8 signal")
                ns(B, "ip mptcp endpoint add 10.0.2.12 id 9 port 6000 signal")
                time.sleep(0.5)
                ns(A, "ip mptcp endpoint change id 5 backup")
                time.sleep(0.3)
                ns(A, "ip mptcp endpoint delete id 5")
                ns(B, "ip mptcp endpoint delete id 6")
                time.sleep(0.5)
            else:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
            client.close()
            time.sleep(0.3)
            accepted.close()
            time.sleep(0.5)
        # A join for a token nobody has: reset, with MP_TCPRST.
        raw = sock(A, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        options = struct.pack("!BBBBII", 30, 12, 0x10, 3, 0xDEADBEEF, 0x01020304)
        segment = struct.pack("!HHIIBBHHH", 6999, 5004 + checksums, 1000, 0, 8 << 4, 2, 65535, 0, 0) + options
        pseudo = socket.inet_aton("10.0.1.10") + socket.inet_aton("10.0.2.10") + struct.pack("!HH", 6, len(segment))
        segment = segment[:16] + struct.pack("!H", checksum(pseudo + segment)) + segment[18:]
        raw.sendto(segment, ("10.0.2.10", 0))
        time.sleep(0.3)


def vlan():
    """The kernel here has no 802.1Q device: tagged frames made by hand."""
    with capture(A, "vlan.pcap", filter="vlan"):
        raw = sock(A, socket.AF_PACKET, socket.SOCK_RAW)
        raw.bind(("eth0", 0))
        macs = bytes.fromhex("020000000001" "02000000000a")
        arp = bytes.fromhex("0001080006040001" "02000000000a" "0a00010a" "000000000000" "0a000101")
        raw.send(macs + bytes.fromhex("8100" "b02a" "0806") + arp)
        raw.send(macs + bytes.fromhex("8100" "0fff" "8100" "2001" "0806") + arp)


def main():
    try:
        make_world()
        start_interfaces()
        ns(A, "ip addr add 10.0.1.11/24 dev eth0")
        ns(B, "ip addr add 10.0.2.11/24 dev eth0")
        ns(B, "ip addr add 10.0.2.12/24 dev eth0")
        ping4()
        ping6()
        igmp()
        tcp_sack()
        tcp_fast_open()
        mptcp("mptcp.pcap", 0)
        mptcp("mptcp-checksum.pcap", 1)
        vlan()
    finally:
        for name in (A, R, B):
            subprocess.run(f"ip netns del {name}", shell=True)


main()
