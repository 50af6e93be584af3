"""Times of what is received and sent, completions of MSG_ZEROCOPY, and ends of records (MSG_EOR), over UDP and TCP: what is told, in which form."""

import errno
import select
import socket
import struct
import threading

SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING, SO_ZEROCOPY = 29, 35, 37, 60
NEW = {SO_TIMESTAMP: 63, SO_TIMESTAMPNS: 64, SO_TIMESTAMPING: 65}
MSG_ZEROCOPY, MSG_EOR = 0x4000000, 0x80
TCP_INQ = 36
(
    TX_HARDWARE,
    TX_SOFTWARE,
    RX_HARDWARE,
    RX_SOFTWARE,
    SOFTWARE,
    SYS_HARDWARE,
    RAW_HARDWARE,
    OPT_ID,
    TX_SCHED,
    TX_ACK,
    OPT_CMSG,
    OPT_TSONLY,
    OPT_STATS,
    OPT_PKTINFO,
    OPT_TX_SWHW,
    BIND_PHC,
    OPT_ID_TCP,
) = (1 << bit for bit in range(17))
ORIGINS = {2: "icmp", 3: "icmp6", 4: "time", 5: "zerocopy"}


def said(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode.get(error.errno, "TIMEOUT")


def pair(family, host, kind):
    if kind == "tcp":
        listener = socket.create_server((host, 0), family=family)
        a = socket.create_connection(listener.getsockname()[:2])
        b, _ = listener.accept()
        listener.close()
    else:
        a, b = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
        b.bind((host, 0))
        a.connect(b.getsockname())
    return a, b


def extended(value):
    """`struct sock_extended_err`."""
    number, origin, kind, code, _, info, data = struct.unpack("=IBBBBII", value[:16])
    return f"{ORIGINS.get(origin, origin)} errno {number} type {kind} code {code} info {info} data {data}"


def shown(level, number, value):
    if level == socket.SOL_SOCKET and number in (SO_TIMESTAMP, SO_TIMESTAMPNS, *NEW.values(), SO_TIMESTAMPING):
        parts = struct.unpack(f"={len(value) // 8}q", value)
        # Which of the times is there, and none that makes no sense.
        limit = 10**6 if number in (SO_TIMESTAMP, NEW[SO_TIMESTAMP]) else 10**9
        return f"{number}: {['time' if seconds and 0 <= part < limit else part for seconds, part in zip(parts[::2], parts[1::2])]}"
    if (level, number) in ((socket.IPPROTO_IP, 11), (socket.IPPROTO_IPV6, 25)):
        return f"{level}/{number}: {extended(value)}"
    return f"{level}/{number}: {len(value)} bytes"


def news(s, flags=0, size=100):
    try:
        data, control, told, _ = s.recvmsg(size, 4096, flags)
    except OSError as error:
        return errno.errorcode.get(error.errno, "TIMEOUT")
    # Of what is sent back as it was sent, the headers below are the device's.
    return f"{len(data) if not flags & socket.MSG_ERRQUEUE or not data else 'packet'} {[shown(*one) for one in control]} {told:#x}"


def errors(s, at_least):
    """All that lies in the error queue, when so many have come. That of a stream is asked again and again: whether poll tells of it is a row of its own."""
    poll = select.poll()
    poll.register(s, 0)
    asked_at_most = 10_000
    out = []
    while len(out) < at_least and asked_at_most and (s.type == socket.SOCK_STREAM or poll.poll(5000)):
        asked_at_most -= 1
        select.select([], [], [], 0.001 if s.type == socket.SOCK_STREAM else 0)
        while (one := news(s, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)) != "EAGAIN":
            out.append(one)
    return [*out, "no more" if news(s, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT) == "EAGAIN" else "more"]


def by_number(family, host, kind):
    """Times of what is received, by each number, set before and after it came."""
    for name in (SO_TIMESTAMP, SO_TIMESTAMPNS, NEW[SO_TIMESTAMP], NEW[SO_TIMESTAMPNS]):
        a, b = pair(family, host, kind)
        print(kind, "by", name, said(lambda: b.setsockopt(1, name, 1)), *(b.getsockopt(1, one) for one in (29, 35, 63, 64)), end=" ")
        a.send(b"one")
        print(news(b), end=" ")
        a.send(b"two")
        b.recv(1, socket.MSG_PEEK)
        b.setsockopt(1, name, 0)
        print("off", news(b), *(b.getsockopt(1, one) for one in (29, 35, 63, 64)))
        a.close(), b.close()


def by_flags(family, host, kind):
    """Times of what is received, by SO_TIMESTAMPING."""
    for flags in (
        RX_SOFTWARE,
        SOFTWARE,
        RX_SOFTWARE | SOFTWARE,
        RX_SOFTWARE | SOFTWARE | OPT_CMSG,
        RX_HARDWARE | RAW_HARDWARE,
        RX_SOFTWARE | SOFTWARE | OPT_PKTINFO,
    ):
        for name in (SO_TIMESTAMPING, NEW[SO_TIMESTAMPING]):
            a, b = pair(family, host, kind)
            print(kind, "by", name, flags, said(lambda: b.setsockopt(1, name, flags)), said(lambda: b.getsockopt(1, name)), end=" ")
            a.send(b"one")
            # SOFTWARE alone shows what something else on the host had taken: chance.
            print(news(b) if flags != SOFTWARE else "")
            a.close(), b.close()
    a, b = pair(family, host, kind)
    b.setsockopt(1, SO_TIMESTAMP, 1), b.setsockopt(1, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)
    for data in (b"one", b"two", b"three"):
        a.send(data)
        b.recv(1, socket.MSG_PEEK)
    while kind == "tcp" and len(b.recv(11, socket.MSG_PEEK)) < 11:
        pass
    print(kind, "both", news(b, socket.MSG_PEEK, 4), news(b, 0, 4))
    a.close(), b.close()


def asked_wrongly(family, host, kind):
    a, b = pair(family, host, kind)
    for flags in (
        -1,
        0,
        1 << 17,
        1 << 18,
        1 << 19,
        1 << 20,
        OPT_STATS,
        OPT_STATS | OPT_TSONLY,
        OPT_ID,
        OPT_ID_TCP,
        OPT_ID | OPT_ID_TCP,
        BIND_PHC,
        TX_ACK,
        TX_SCHED,
        0x7FFF,
    ):
        print(kind, "flags", hex(flags), said(lambda: a.setsockopt(1, SO_TIMESTAMPING, flags)), said(lambda: a.getsockopt(1, SO_TIMESTAMPING)))
        said(lambda: a.setsockopt(1, SO_TIMESTAMPING, 0))
    for length in (0, 3, 4, 5, 8, 12):
        print(
            kind,
            "flags of",
            length,
            said(lambda: a.setsockopt(1, SO_TIMESTAMPING, struct.pack("=III", OPT_ID | TX_SOFTWARE, 0, 0)[:length])),
            said(lambda: a.getsockopt(1, SO_TIMESTAMPING, 8).hex()),
        )
    a.close(), b.close()
    if kind == "tcp":
        s = socket.socket(family, socket.SOCK_STREAM)
        print(
            "unconnected",
            said(lambda: s.setsockopt(1, SO_TIMESTAMPING, OPT_ID)),
            said(lambda: s.setsockopt(1, SO_TIMESTAMPING, TX_SOFTWARE)),
            said(lambda: s.setsockopt(1, SO_ZEROCOPY, 1)),
        )


def sent(family, host, kind):
    """Times of what is sent."""
    each = {TX_SCHED: 1, TX_SOFTWARE: 1} | ({TX_ACK: 1} if kind == "tcp" else {})
    for wanted in (TX_SOFTWARE, TX_SCHED, TX_ACK, TX_SCHED | TX_SOFTWARE, TX_SCHED | TX_SOFTWARE | TX_ACK):
        for more in (OPT_TSONLY, OPT_TSONLY | OPT_ID, OPT_TSONLY | OPT_ID | OPT_ID_TCP, OPT_ID, OPT_TSONLY | OPT_CMSG, OPT_TSONLY | OPT_STATS):
            a, b = pair(family, host, kind)
            print(kind, "sent", wanted, more, said(lambda: a.setsockopt(1, SO_TIMESTAMPING, wanted | SOFTWARE | more)), end=" ")
            count = sum(number for flag, number in each.items() if wanted & flag)
            for size in (1, 10, 1000):
                a.send(bytes(size))
                print(size, errors(a, count), end=" ")
                b.recv(2000)
            print(a.getsockopt(1, 4))
            a.close(), b.close()
    a, b = pair(family, host, kind)
    a.setsockopt(1, SO_TIMESTAMPING, SOFTWARE | OPT_TSONLY | OPT_ID)
    for value in (TX_SOFTWARE, TX_SCHED, 0, SOFTWARE, 1 << 30):
        print(
            kind,
            "by message",
            value,
            said(lambda: a.sendmsg([b"abc"], [(1, SO_TIMESTAMPING, struct.pack("=I", value))])),
            errors(a, 1 if value in (TX_SOFTWARE, TX_SCHED) else 0),
        )
    a.close(), b.close()


def quoted(family, host, kind):
    """How much of what was sent a time of it brings along."""
    a, b = pair(family, host, kind)
    for wanted in (TX_SCHED, TX_SOFTWARE, TX_ACK):
        a.setsockopt(1, SO_TIMESTAMPING, wanted | SOFTWARE)
        a.send(b"0123456789")
        b.recv(20)
        if kind == "udp" and wanted == TX_ACK:
            continue
        while not (data := said(lambda: a.recv(2000, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT))) or data == "EAGAIN":
            select.select([], [], [], 0.001)
        print(kind, "quotes for", wanted, len(data), data[-10:])
    a.close(), b.close()


def in_poll(family, host, kind):
    """What poll says while something lies in the error queue, and when it has been read."""
    a, b = pair(family, host, kind)
    a.setsockopt(1, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_TSONLY)
    poll = select.poll()
    poll.register(a, select.POLLIN)
    a.send(b"abc")
    b.recv(10)
    while news(a, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT | socket.MSG_PEEK) == "EAGAIN":
        select.select([], [], [], 0.001)
    # It was taken all the same.
    a.send(b"abc")
    b.recv(10)
    print(kind, "in poll", poll.poll(5000) == [(a.fileno(), select.POLLERR)], errors(a, 1), poll.poll(0))
    a.close(), b.close()


def zerocopy(family, host, kind):
    a, b = pair(family, host, kind)
    for value in (-1, 2, 1, 0):
        print(kind, "zerocopy", value, said(lambda: a.setsockopt(1, SO_ZEROCOPY, value)), a.getsockopt(1, SO_ZEROCOPY))
    print(kind, "without it", said(lambda: a.send(b"abc", MSG_ZEROCOPY)), errors(a, 0), b.recv(10))
    a.setsockopt(1, SO_ZEROCOPY, 1)
    for size in (1, 1000, 20000, 0, 7):
        print(kind, "zerocopy of", size, said(lambda: a.send(bytes(size), MSG_ZEROCOPY)), end=" ")
        got = 0
        while got < size:
            got += len(b.recv(1 << 16))
        print(errors(a, 0 if kind == "tcp" and not size else 1))
    print(kind, "error", a.getsockopt(1, 4))
    for size in (3, 4, 5):
        a.send(bytes(size), MSG_ZEROCOPY)
        b.recv(100)
    select.select([], [], [], 0.05)
    first = errors(a, 1)
    print(kind, "three sends", first[0] if len(first) == 2 else first)
    a.close(), b.close()


def ends(family, host, kind):
    """MSG_EOR: sends, and what receives say of it."""
    a, b = pair(family, host, kind)
    for data in (b"one", b"two", b"three"):
        a.send(data, MSG_EOR)
        b.recv(1, socket.MSG_PEEK)
    select.select([], [], [], 0.05)
    print(kind, "ends", news(b, 0, 100), news(b, socket.MSG_DONTWAIT, 100), news(b, socket.MSG_DONTWAIT, 100))
    a.send(b"four", MSG_EOR | socket.MSG_MORE)
    print(kind, "more", said(lambda: a.send(b"five", MSG_EOR)), len(b.recv(4, socket.MSG_WAITALL)))
    a.close(), b.close()


def unread_in_poll(family, host, kind):
    """A write while poll says that something lies in the error queue, and nobody has read it; and the same again."""
    a, b = pair(family, host, kind)
    a.setsockopt(1, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_TSONLY)
    poll = select.poll()
    poll.register(a, select.POLLIN)
    a.send(b"one")
    shown = poll.poll(5000) == [(a.fileno(), select.POLLERR)]
    print(kind, "write while unread", shown, said(lambda: a.send(b"two")), a.send(b"two"), b.recv(10), b.recv(10))
    a.close(), b.close()


def unread(family, host, kind):
    """How many of those that nobody reads are kept: SO_RCVBUF says it."""
    for buffer in (None, 2304):
        a, b = pair(family, host, kind)
        if buffer:
            a.setsockopt(1, socket.SO_RCVBUF, buffer)
        a.setsockopt(1, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_TSONLY)
        for _ in range(200):
            a.sendto(b"x", b.getsockname()) if kind == "udp" else a.send(b"x")
            b.recv(10)
        select.select([], [], [], 0.05)
        kept = len(errors(a, 1)) - 1
        print(kind, "unread", buffer, "all" if kept == 200 else "a part")
        a.close(), b.close()


def large(family, host, kind):
    """Times of one write that is larger than all buffers."""
    size = 4 << 20
    a, b = pair(family, host, kind)
    a.setsockopt(1, SO_TIMESTAMPING, TX_ACK | SOFTWARE | OPT_TSONLY | OPT_ID)

    def read() -> None:
        left = size
        while left:
            left -= len(b.recv(left))

    reader = threading.Thread(target=read)
    reader.start()
    print(kind, "large write", a.send(bytes(size)) == size, end=" ")
    reader.join()
    last, out = f"data {size - 1}'", []
    while not out or last not in out[-1]:
        # What was told is there at the latest when all has been read and acknowledged.
        out += errors(a, 1)[:-1]
    print("one time" if len(out) == 1 else "several times", "the last one of its last byte")
    a.close(), b.close()


def inherited(family, host, kind):
    """A connection tells what its listener did when the connection began, whatever became of that before accept(2)."""
    for level, number, name in ((socket.IPPROTO_TCP, TCP_INQ, "TCP_INQ"), (socket.SOL_SOCKET, SO_TIMESTAMP, "SO_TIMESTAMP")):
        for before, after in ((1, 1), (1, 0), (0, 1), (0, 0)):
            listener = socket.create_server((host, 0), family=family)
            listener.setsockopt(level, number, before)
            a = socket.create_connection(listener.getsockname()[:2])
            select.select([listener], [], [])
            listener.setsockopt(level, number, after)
            b, _ = listener.accept()
            a.send(b"inherited")
            select.select([b], [], [])
            # What is left to read is known when all of it has come.
            b.recv(9, socket.MSG_PEEK | socket.MSG_WAITALL)
            data, control, _, _ = b.recvmsg(4, 200)
            told = [(at, kind, value.hex() if kind == TCP_INQ else len(value)) for at, kind, value in control]
            print(kind, "inherited", name, before, after, b.getsockopt(level, number), data, told)
            listener.close(), a.close(), b.close()


# As long as somebody on the host wants times, everybody's packets have one: a switch that is thrown a moment after it was asked for.
wanted = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wanted.setsockopt(1, SO_TIMESTAMP, 1)
select.select([], [], [], 0.1)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for part in (by_number, by_flags, asked_wrongly, sent, quoted, in_poll, unread_in_poll, zerocopy, ends, unread):
        part(family, host, "udp")
    for part in (by_number, by_flags, asked_wrongly, sent, quoted, in_poll, zerocopy, ends, unread, large, inherited):
        part(family, host, "tcp")
