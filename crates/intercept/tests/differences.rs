//! The table of docs/compatibility.md, row by row: the same script on the host's kernel (in a network namespace of its own) and under the
//! notify adapter, and exactly the difference that the row names.

mod support;

use support::Host;

/// Put before every script: a connected pair.
const PRELUDE: &str = r#"
import socket, os, select, errno, struct, time, fcntl, ctypes, signal
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
def pair():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
    c = socket.create_connection(s.getsockname()); a, _ = s.accept()
    c.settimeout(5); a.settimeout(5)
    return c, a
def attempt(f, *a):
    try: return f(*a)
    except OSError as e: return errno.errorcode[e.errno]
def events(s, mask, wait=300):
    p = select.poll(); p.register(s, mask)
    names = [(1, "IN"), (4, "OUT"), (8, "ERR"), (16, "HUP"), (0x2000, "RDHUP")]
    return "|".join(n for f, e in p.poll(wait) for b, n in names if e & b)
RST = struct.pack("ii", 1, 0)
"#;

/// Runs a script both ways; what it prints must be exactly this.
fn row(script: &str, kernel: &str, weft: &str) {
    let script = format!("{PRELUDE}{script}");
    let native = std::process::Command::new("unshare")
        .args(["-rn", "sh", "-c", "ip link set lo up && exec python3 -c \"$0\"", &script])
        .output()
        .expect("unshare");
    let said = format!("{}{}", String::from_utf8_lossy(&native.stdout), String::from_utf8_lossy(&native.stderr));
    assert_eq!(said.trim(), kernel, "on the kernel");
    let mut host = Host::new();
    let ended = host.run(&["python3", "-c", &script]);
    assert_eq!(ended.output.trim(), weft, "under weft");
}

#[test]
fn errno_of_an_unconnected_socket() {
    row("s = socket.socket(); print(attempt(s.recv, 1), attempt(s.send, b'x'))", "ENOTCONN EPIPE", "EINVAL ENOTCONN");
}

#[test]
fn errno_of_a_native_read_after_failure() {
    let script = r#"
s = socket.socket(); s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]; s.close(); time.sleep(0.5)
n = socket.socket(); n.setblocking(False); attempt(n.connect, ("127.0.0.1", port)); events(n, 4)
print(attempt(n.recv, 1))
"#;
    row(script, "ECONNREFUSED", "ECONNRESET");
}

#[test]
fn first_write_after_a_reset() {
    let script = r#"
c, a = pair(); a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST); a.close(); time.sleep(0.3)
print(attempt(c.send, b"x"), attempt(c.send, b"x"))
"#;
    row(script, "ECONNRESET EPIPE", "EPIPE EPIPE");
}

#[test]
fn low_water_mark_in_poll() {
    let script = r#"
c, a = pair(); a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 10)
c.send(b"12345"); print(events(a, 1) or "nothing")
"#;
    row(script, "nothing", "IN");
}

#[test]
fn refusal_of_a_connected_datagram_socket_in_a_native_read() {
    let script = r#"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(("127.0.0.1", 9)); u.settimeout(5)
u.send(b"x"); time.sleep(0.3); print(attempt(u.recv, 10))
u.send(b"x"); time.sleep(0.3); print(attempt(u.recvfrom, 10))
"#;
    row(script, "ECONNREFUSED\nECONNREFUSED", "b''\nECONNREFUSED");
}

#[test]
fn poll_for_an_error_of_a_datagram_socket() {
    let script = r#"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(("127.0.0.1", 9)); u.send(b"x")
print(events(u, 1, 5000))
"#;
    row(script, "ERR", "IN");
}

#[test]
fn an_oversized_datagram_written_natively_is_lost_instead_of_refused() {
    let script = r#"
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.connect(("127.0.0.1", 9))
print(attempt(u.send, b"x" * 66000), attempt(u.sendto, b"x" * 65508, ("127.0.0.1", 9)))
"#;
    row(script, "EMSGSIZE EMSGSIZE", "66000 EMSGSIZE");
}

#[test]
fn a_duplicate_of_a_descriptor_whose_connect_failed_does_not_follow_the_next_attempt() {
    let script = r#"
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 0)); port = s.getsockname()[1]; s.close(); time.sleep(0.5)
c = socket.socket(); d = socket.socket(fileno=os.dup(c.fileno()))
print(attempt(c.connect, ("127.0.0.1", port)))
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", port)); s.listen()
print(attempt(c.connect, ("127.0.0.1", port)))
print(attempt(d.send, b"x"), attempt(c.send, b"x"))
"#;
    row(script, "ECONNREFUSED\nNone\n1 1", "ECONNREFUSED\nNone\nEPIPE 1");
}

#[test]
fn a_dissolved_connection_or_listener_can_be_used_again() {
    let script = r#"
c, a = pair()
libc = ctypes.CDLL(None, use_errno=True)
assert libc.connect(c.fileno(), b"\0" * 16, 16) == 0
print(attempt(a.recv, 1), attempt(c.recv, 1))
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); s.shutdown(socket.SHUT_RD); s.listen()
print(attempt(c.connect, s.getsockname()))
b, _ = s.accept(); c.sendall(b"again"); print(b.recv(10))
"#;
    row(script, "ECONNRESET ECONNRESET\nNone\nb'again'", "ECONNRESET ECONNRESET\nNone\nb'again'");
}

#[test]
fn several_messages_at_once_wait_for_the_first_only() {
    let script = r#"
libc = ctypes.CDLL(None, use_errno=True)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.connect(u.getsockname()); u.settimeout(None)
u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 0))
u.send(b"1"); time.sleep(0.2)
buf = ctypes.create_string_buffer(100); iov = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buf), 50))
one = struct.pack("QIxxxxQQQQIxxxxIxxxx", 0, 0, ctypes.addressof(iov), 1, 0, 0, 0, 0)
v = ctypes.create_string_buffer(one * 2)
t = time.monotonic(); n = libc.recvmmsg(u.fileno(), v, 2, 0, None)
print(n, "waited" if time.monotonic() - t > 0.5 else "at once")
"#;
    row(script, "1 waited", "1 at once");
}

#[test]
fn families_that_are_not_there() {
    let script = r#"
def make(*a):
    r = attempt(socket.socket, *a)
    return r if isinstance(r, str) else "made"
print(make(socket.AF_INET6, socket.SOCK_STREAM), make(socket.AF_PACKET, socket.SOCK_RAW, 3), make(socket.AF_NETLINK, socket.SOCK_RAW, 4), make(socket.AF_INET, socket.SOCK_RAW, 1))
"#;
    row(script, "made made made made", "EAFNOSUPPORT EPERM EPROTONOSUPPORT made");
    // Linux asks ping_group_range, which is empty in a new namespace; many systems open it.
    let ping = "print(type(attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM, 1)).__name__)";
    let ended = Host::new().run(&["python3", "-c", &format!("{PRELUDE}{ping}")]);
    assert_eq!(ended.output.trim(), "socket");
}

#[test]
fn a_native_write_without_a_destination_is_lost_instead_of_refused() {
    row(
        "u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(attempt(u.send, b'x'), attempt(u.sendmsg, [b'x']))",
        "EDESTADDRREQ EDESTADDRREQ",
        "1 EDESTADDRREQ",
    );
}

#[test]
fn what_does_not_differ() {
    let script = r#"
f = socket.socket(); print(events(f, 5))
c, a = pair()
print(events(c, 5)); a.send(b"x"); time.sleep(0.2); print(events(c, 5)); a.shutdown(socket.SHUT_WR); time.sleep(0.2); print(events(c, 0x2005))
print(c.recv(10), c.recv(10), attempt(c.send, b"y"), a.recv(10))
c.close(); print(a.recv(10))
c, a = pair(); a.shutdown(socket.SHUT_RDWR); print(c.recv(1), events(a, 0x2005))
print(attempt(a.send, b"x"))
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(attempt(s.connect, s.getsockname()), attempt(s.recv, 1) in ("ENOTCONN", "EINVAL"))
s.shutdown(socket.SHUT_RD); print(attempt(s.accept))
print(attempt(socket.socket().shutdown, 1), attempt(socket.socket().getpeername), attempt(socket.socket().accept), attempt(socket.socket().bind, ("192.0.2.1", 1)))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(attempt(u.sendmsg, [b"x"]), attempt(u.listen), attempt(u.accept), events(u, 5))
b = socket.socket(); b.bind(("127.0.0.1", 0)); e = socket.socket(); print(attempt(e.bind, b.getsockname()), attempt(b.bind, ("127.0.0.1", 0)))
c, a = pair(); c.send(b"abc"); a.settimeout(None); print(a.recv(2, socket.MSG_PEEK), a.recv(2), a.recv(1, socket.MSG_WAITALL), attempt(a.recv, 1, socket.MSG_DONTWAIT))
print(os.fstat(c.fileno()).st_mode & 0o170000 == 0o140000, c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
"#;
    let same = "OUT|HUP\nOUT\nIN|OUT\nIN|OUT|RDHUP\nb'x' b'' 1 b'y'\nb''\nb'' IN|OUT|HUP|RDHUP\nEPIPE\nEISCONN True\nEINVAL\nENOTCONN ENOTCONN EINVAL EADDRNOTAVAIL\nEDESTADDRREQ ENOTSUP ENOTSUP OUT\nEADDRINUSE EINVAL\nb'ab' b'ab' b'c' EAGAIN\nTrue 0";
    row(script, same, same);
}
