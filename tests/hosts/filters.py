"""Reading the filter of a group: getsockopt of IP_MSFILTER and MCAST_MSFILTER, which look at what the program has in the place for the value."""

import ctypes
import itertools
import mmap
import socket
import struct

from answers import coded, said

libc = ctypes.CDLL(None, use_errno=True)
libc.getsockopt.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
SOL_IP, SOL_IPV6 = 0, 41
IP_MSFILTER, JOIN, BLOCK, UNBLOCK, JOIN_SOURCE, LEAVE_SOURCE, MSFILTER = 41, 42, 43, 44, 46, 47, 48
EXCLUDE, INCLUDE = 0, 1
LO = 1
ROOM = 20_000
KINDS = {
    "udp": (socket.SOCK_DGRAM, lambda family: 0),
    "tcp": (socket.SOCK_STREAM, lambda family: 0),
    "raw": (socket.SOCK_RAW, lambda family: 253),
    "ping": (socket.SOCK_DGRAM, lambda family: socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6),
}
FAMILIES = {
    socket.AF_INET: (SOL_IP, "239.1.2.3", [f"10.0.0.{last}" for last in range(1, 11)], "127.0.0.1"),
    socket.AF_INET6: (SOL_IPV6, "ff05::77", [f"fd00::{last:x}" for last in range(1, 65)], "::1"),
}


def storage(address):
    """`struct sockaddr_storage`."""
    if ":" in address:
        return struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, socket.inet_pton(socket.AF_INET6, address), 0).ljust(128, b"\0")
    return struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(address)).ljust(128, b"\0")


def requested(group, interface=LO, source=None):
    """`struct group_req`, `struct group_source_req`."""
    return struct.pack("=I4x", interface) + storage(group) + (storage(source) if source else b"")


def filtered(group, mode, sources, count=None, interface=LO):
    """`struct group_filter`."""
    head = struct.pack("=II", mode, len(sources) if count is None else count)
    return requested(group, interface) + head + b"".join(map(storage, sources))


def old(group, interface, mode, sources, count=None):
    """`struct ip_msfilter`."""
    head = socket.inet_aton(group) + socket.inet_aton(interface) + struct.pack("=II", mode, len(sources) if count is None else count)
    return head + b"".join(map(socket.inet_aton, sources))


def read(s, level, name, value, length=None):
    """What getsockopt(2) comes to: the length told, and what of the place has changed, up to its last byte that has."""
    place = ctypes.create_string_buffer(value + b"\xee" * (ROOM - len(value)), ROOM)
    told = ctypes.c_int(ROOM if length is None else length)
    result = coded(libc.getsockopt(s.fileno(), level, name, place, ctypes.byref(told)))
    changed = place.raw.rstrip(b"\xee")
    return result, told.value, len(changed), "as it was" if changed == value.rstrip(b"\xee") else packed(changed)


def packed(data):
    """Bytes with runs of zeros as their number."""
    parts = [f"<{len(list(run))}>" if zero else bytes(run).hex() for zero, run in itertools.groupby(data, lambda byte: byte == 0)]
    return " ".join(parts)


def counts(s, level, group, most):
    """By room for no source, for fewer than there are, for as many, for more."""
    for count in (0, 1, 2, most, most + 1, 0xFFFFFFFF):
        print("  new", count, *read(s, level, MSFILTER, filtered(group, 7, [], count)))
        if level == SOL_IP:
            print("  old", count, *read(s, level, IP_MSFILTER, old(group, "127.0.0.1", 7, [], count)))


def filters(family, kind):
    level, group, sources, own = FAMILIES[family]
    what, protocol = KINDS[kind]
    s = socket.socket(family, what, protocol(family))
    here = f"{kind} {level}"
    print(here, "no member", *read(s, level, MSFILTER, filtered(group, 7, [], 3)))
    print(here, "joins", said(lambda: s.setsockopt(level, JOIN, requested(group))))
    counts(s, level, group, len(sources))
    steps = {
        "blocks": (BLOCK, requested(group, LO, sources[2])),
        "blocks another": (BLOCK, requested(group, LO, sources[0])),
        "unblocks": (UNBLOCK, requested(group, LO, sources[2])),
        "sets all": (MSFILTER, filtered(group, INCLUDE, sources)),
        "takes one out": (LEAVE_SOURCE, requested(group, LO, sources[1])),
        "sets none": (MSFILTER, filtered(group, EXCLUDE, [])),
        "sets one": (MSFILTER, filtered(group, INCLUDE, sources[5:6])),
        "takes the last out": (LEAVE_SOURCE, requested(group, LO, sources[5])),
        "joins by a source": (JOIN_SOURCE, requested(group, LO, sources[3])),
    }
    for step, (name, value) in steps.items():
        print(here, step, said(lambda: s.setsockopt(level, name, value)))
        counts(s, level, group, len(sources))
    print(here, "another interface", *read(s, level, MSFILTER, filtered(group, 7, [], 3, 0)), *read(s, level, MSFILTER, filtered(group, 7, [], 3, 99)))
    print(here, "another group", *read(s, level, MSFILTER, filtered("ff05::78" if ":" in group else "239.1.2.4", 7, [], 3)))
    print(here, "no group", *read(s, level, MSFILTER, filtered(own, 7, [], 3)))
    other = FAMILIES[socket.AF_INET if family == socket.AF_INET6 else socket.AF_INET6]
    print(here, "another family", *read(s, level, MSFILTER, filtered(other[1], 7, [], 3)))
    print(here, "another level", *read(s, other[0], MSFILTER, filtered(other[1], 7, [], 3)))
    for length in (-1, 0, 4, 143, 144, 145, 272):
        print(here, "length", length, *read(s, level, MSFILTER, filtered(group, 7, [], 3), length))
    if level == SOL_IP:
        for interface in ("0.0.0.0", "127.0.0.1", "10.0.0.9"):
            print(here, "old by", interface, *read(s, level, IP_MSFILTER, old(group, interface, 7, [], 3)))
        print(here, "old no group", *read(s, level, IP_MSFILTER, old("10.1.1.1", "127.0.0.1", 7, [], 3)))
        for length in (-1, 0, 4, 15, 16, 17):
            print(here, "old length", length, *read(s, level, IP_MSFILTER, old(group, "127.0.0.1", 7, [], 3), length))
    memory(s, level, group, here)
    s.close()


def memory(s, level, group, here):
    """Places that are not there, or end too early."""
    length = lambda: ctypes.byref(ctypes.c_int(ROOM))
    print(here, "nowhere", *(coded(libc.getsockopt(s.fileno(), level, name, at, length())) for name in (IP_MSFILTER, MSFILTER) for at in (None, 8)))
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as pages:
        start = ctypes.addressof(place := ctypes.c_char.from_buffer(pages))
        libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0)
        for room in (143, 144, 145, 271, 272):
            at = start + mmap.PAGESIZE - room
            ctypes.memmove(at, filtered(group, 7, [], 3), min(room, 144))
            print(here, "room", room, coded(libc.getsockopt(s.fileno(), level, MSFILTER, ctypes.c_void_p(at), length())))
        libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 3)
        del place


for family in FAMILIES:
    for kind in KINDS:
        filters(family, kind)
