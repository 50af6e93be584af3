//! Stream sockets of unmodified programs.

mod support;

use support::Host;

const SERVER: &str = r#"
import socket
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000)); s.listen(5)
print("ready")
c, a = s.accept()
assert a[0] == "127.0.0.1", a
total = 0
while True:
    d = c.recv(65536)
    if not d: break
    total += len(d)
c.sendall(b"got %d" % total)
c.close()
print("served", total)
"#;

#[test]
fn a_blocking_client_and_server_exchange_data_and_half_close() {
    let mut host = Host::new();
    let mut server = host.start(&["python3", "-c", SERVER]);
    host.until_output(&mut server, "ready");
    let client = host.python(
        r#"
import socket
c = socket.create_connection(("127.0.0.1", 8000))
assert c.getpeername() == ("127.0.0.1", 8000)
c.sendall(b"x" * 3000000)
c.shutdown(socket.SHUT_WR)
print(c.recv(100).decode(), c.recv(100))
"#,
    );
    assert_eq!(client.trim(), "got 3000000 b''");
    let server = host.finish(server);
    assert!(server.output.contains("served 3000000"), "{}", server.output);
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn a_refused_connection_is_told_to_blocking_and_to_polling_programs() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, select, errno
c = socket.socket()
assert c.connect_ex(("127.0.0.1", 9)) == errno.ECONNREFUSED
# the same descriptor may be tried again
assert c.connect_ex(("127.0.0.1", 9)) == errno.ECONNREFUSED
n = socket.socket(); n.setblocking(False)
r = n.connect_ex(("127.0.0.1", 9))
if r == errno.EINPROGRESS:
    p = select.poll(); p.register(n, select.POLLOUT)
    (fd, ev), = p.poll(5000)
    assert ev & (select.POLLERR | select.POLLHUP), ev
    assert n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert n.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
else:
    assert r == errno.ECONNREFUSED, r
"#,
    );
}

#[test]
fn a_failed_descriptor_can_listen_for_nothing_but_connect_again() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, errno, threading, os
c = socket.socket()
assert c.connect_ex(("127.0.0.1", 8000)) == errno.ECONNREFUSED
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen()
assert c.connect_ex(("127.0.0.1", 8000)) == 0
a, _ = s.accept()
c.sendall(b"again"); assert a.recv(10) == b"again"
"#,
    );
}

#[test]
fn asyncio_serves_many_clients() {
    let mut host = Host::new();
    let out = host.python(
        r#"
import asyncio
async def serve(r, w):
    d = await r.read(100000)
    w.write(d[::-1]); await w.drain(); w.close()
async def ask(i):
    r, w = await asyncio.open_connection("127.0.0.1", 8001)
    w.write(b"%05d" % i * 2000); w.write_eof()
    d = await r.read(); w.close()
    return d == (b"%05d" % i * 2000)[::-1]
async def main():
    s = await asyncio.start_server(serve, "127.0.0.1", 8001)
    print(sum(await asyncio.gather(*(ask(i) for i in range(100)))))
asyncio.run(main())
"#,
    );
    assert_eq!(out.trim(), "100");
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn a_reset_shows_as_one_and_queued_data_comes_first() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, struct, time
s = socket.socket(); s.bind(("127.0.0.1", 8002)); s.listen()
c = socket.create_connection(("127.0.0.1", 8002)); a, _ = s.accept()
c.sendall(b"last words")
a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
c.settimeout(5)
a.close()
try:
    c.recv(1); raise SystemExit("no reset")
except ConnectionResetError: pass
assert c.recv(1) == b""
# closing with unread data resets too
c = socket.create_connection(("127.0.0.1", 8002)); a, _ = s.accept()
a.sendall(b"answer"); c.sendall(b"unread"); time.sleep(0.2); a.close()
c.settimeout(5)
got = b""
try:
    while True:
        d = c.recv(100)
        if not d: raise SystemExit("an end of stream after %r" % got)
        got += d
except ConnectionResetError: pass
"#,
    );
}

#[test]
fn waiting_calls_end_by_time_limits() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, struct, errno, time
s = socket.socket(); s.bind(("127.0.0.1", 8003)); s.listen()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300000))
t = time.time()
try: s.accept(); raise SystemExit("accepted")
except BlockingIOError: pass
assert 0.25 < time.time() - t < 5
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
u.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300000))
t = time.time()
try: u.recvfrom(10); raise SystemExit("received")
except BlockingIOError: pass
assert 0.25 < time.time() - t < 5
s.setblocking(False)
try: s.accept(); raise SystemExit("accepted")
except BlockingIOError: pass
"#,
    );
}

#[test]
fn signals_interrupt_waiting_calls_or_restart_them() {
    let mut host = Host::new();
    host.python(
        r#"
import ctypes, socket, signal, os, threading, time, errno
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket(); s.bind(("127.0.0.1", 8004)); s.listen()
hits = []
signal.signal(signal.SIGUSR1, lambda *a: hits.append(1))
def later(f):
    def run(): time.sleep(0.3); f()
    threading.Thread(target=run).start()
main = threading.main_thread().ident
# without SA_RESTART accept returns EINTR
signal.siginterrupt(signal.SIGUSR1, True)
later(lambda: signal.pthread_kill(main, signal.SIGUSR1))
assert libc.accept(s.fileno(), None, None) == -1 and ctypes.get_errno() == errno.EINTR, ctypes.get_errno()
# with it, the call goes on and returns the connection that comes afterwards
signal.siginterrupt(signal.SIGUSR1, False)
later(lambda: signal.pthread_kill(main, signal.SIGUSR1))
def connect(): time.sleep(0.6); globals().update(c=socket.create_connection(("127.0.0.1", 8004)))
threading.Thread(target=connect).start()
fd = libc.accept(s.fileno(), None, None)
assert fd >= 0, ctypes.get_errno()
time.sleep(0.2)
a = socket.socket(fileno=fd)
c.sendall(b"x"); assert a.recv(1) == b"x"
assert len(hits) >= 1
"#,
    );
    let calls = host.supervisor.calls().rows();
    let accept = calls.iter().find(|row| row.call == "accept").expect("accept was seen");
    assert_eq!((accept.counts.answered, accept.counts.held), (1, 3), "{calls:?}");
}

#[test]
fn a_listener_closes_its_port_and_is_readable_exactly_when_there_is_something() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, select, errno, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8005)); s.listen(); s.setblocking(False)
p = select.poll(); p.register(s, select.POLLIN)
assert p.poll(0) == []
cs = [socket.create_connection(("127.0.0.1", 8005)) for i in range(3)]
for i in range(3):
    assert p.poll(2000) == [(s.fileno(), select.POLLIN)], i
    s.accept()
assert p.poll(0) == []
s.close()
# the port is free at once
u = socket.socket(); u.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); u.bind(("127.0.0.1", 8005)); u.listen()
u.close()
time.sleep(0.6)
assert socket.socket().connect_ex(("127.0.0.1", 8005)) == errno.ECONNREFUSED
# a bound socket that was closed gives its port back
b = socket.socket(); b.bind(("127.0.0.1", 0)); port = b.getsockname()[1]; b.close()
b = socket.socket(); b.bind(("127.0.0.1", port))
"#,
    );
}

#[test]
fn options_names_and_queue_lengths_come_from_the_model() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, fcntl, struct, termios, time, errno
s = socket.socket(); s.bind(("127.0.0.1", 8006)); s.listen()
c = socket.create_connection(("127.0.0.1", 8006)); a, addr = s.accept()
assert addr == c.getsockname() and a.getsockname() == ("127.0.0.1", 8006)
c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
assert c.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
assert c.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_INET
assert c.family == socket.AF_INET
assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
assert len(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)) >= 104
c.sendall(b"12345")
time.sleep(0.2)
n = bytearray(4); fcntl.ioctl(a, termios.FIONREAD, n); assert struct.unpack("i", n) == (5,), n
assert a.recv(3, socket.MSG_PEEK) == b"123"
d, who = a.recvfrom(2); assert d == b"12" and a.recv(10) == b"345"
c.sendall(b"discard"); time.sleep(0.2)
assert a.recv(4, socket.MSG_TRUNC) is not None
assert a.recv(100) == b"ard"
try: c.setsockopt(socket.SOL_SOCKET, 9999, 1); raise SystemExit("accepted")
except OSError as e: assert e.errno == errno.ENOPROTOOPT
c.send(b"a", socket.MSG_MORE); c.send(b"b"); a.settimeout(3)
got = b""
while len(got) < 2: got += a.recv(10)
assert got == b"ab", got
c.sendmsg([b"c", b"d"]); assert a.recvmsg(10)[0] == b"cd"
"#,
    );
    let rows = host.supervisor.calls().unsupported_rows();
    assert!(rows.iter().any(|row| row.request == "setsockopt level 1 name 9999"), "{rows:?}");
}

#[test]
fn a_slow_reader_holds_the_writer_back_and_nothing_is_lost() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, threading, time, hashlib, random
s = socket.socket(); s.bind(("127.0.0.1", 8007)); s.listen()
c = socket.create_connection(("127.0.0.1", 8007)); a, _ = s.accept()
c.setblocking(False)
data = random.randbytes(1 << 20)
sent = 0
try:
    while True: sent += c.send(data[sent % len(data):][:70000])
except BlockingIOError: pass
assert sent < 64 << 20, sent
time.sleep(0.3)
first = sent
try:
    while True: sent += c.send(data[sent % len(data):][:70000])
except BlockingIOError: pass
c.setblocking(True); c.close()
got = 0; ok = True
while True:
    d = a.recv(random.choice([1, 100, 5000, 200000]))
    if not d: break
    at = got % len(data)
    ok &= (data + data)[at:at + len(d)] == d
    got += len(d)
assert ok and got == sent, (got, sent)
"#,
    );
}

#[test]
fn curl_fetches_from_python() {
    let mut host = Host::new();
    let directory = std::env::temp_dir().join(format!("weft-intercept-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("file"), vec![7_u8; 5_000_000]).unwrap();
    let mut server =
        host.start(&["python3", "-m", "http.server", "--bind", "127.0.0.1", "--directory", directory.to_str().unwrap(), "8080"]);
    host.until_output(&mut server, "Serving");
    let ended = host.run(&["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", "http://127.0.0.1:8080/file"]);
    assert_eq!((ended.code, ended.output.as_str()), (0, "200 5000000"));
    server.kill(libc::SIGTERM);
    assert_eq!(host.finish(server).code, 128 + libc::SIGTERM);
    std::fs::remove_dir_all(directory).unwrap();
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn urgent_data_keeps_its_place_and_its_signal() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, select, time
s = socket.socket(); s.bind(("127.0.0.1", 8010)); s.listen()
c = socket.create_connection(("127.0.0.1", 8010)); a, _ = s.accept()
c.sendall(b"before"); c.send(b"!", socket.MSG_OOB); c.sendall(b"after")
p = select.poll(); p.register(a, select.POLLPRI); assert p.poll(5000)
assert a.recv(1, socket.MSG_OOB) == b"!"
got = b""; a.settimeout(5)
while len(got) < 11: got += a.recv(100)
assert got == b"beforeafter", got
"#,
    );
}

#[test]
fn what_is_accepted_without_being_told_its_address_is_closed() {
    let mut host = Host::new();
    let script = include_str!("scripts/accept_address.py");
    let closed = "EFAULT b''\nEFAULT b''\nEINVAL b''";
    assert_eq!(host.python(script).trim(), closed);
    let native = std::process::Command::new("python3").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&native.stdout).trim(), closed, "{}", String::from_utf8_lossy(&native.stderr));
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn messages_of_a_stream_leave_no_hole() {
    let mut host = Host::new();
    let script = include_str!("scripts/stream_messages.py");
    let wanted = "True True True\nTrue True True";
    assert_eq!(host.python(script).trim(), wanted);
    let native = std::process::Command::new("python3").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&native.stdout).trim(), wanted, "{}", String::from_utf8_lossy(&native.stderr));
}

#[test]
fn messages_of_a_blocking_stream_may_be_cut_and_arrive_as_told() {
    let output = Host::new().python(include_str!("scripts/stream_messages_that_wait.py"));
    assert_eq!(output.lines().filter(|line| line.ends_with(" True")).count(), 5, "{output}");
}
