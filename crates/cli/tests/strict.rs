//! `weft run --strict`: programs in real time by the loader, on a stack whose interface leads nowhere.

mod support;

use support::Place;

/// Programs by the loader.
trait Strict {
    /// Runs a program to its end: exit status, output, errors.
    fn strict(&self, program: &[&str]) -> (Option<i32>, String, String);
    /// What a script in python prints, which must end well.
    fn python(&self, script: &str) -> String;
}

impl Strict for Place {
    fn strict(&self, program: &[&str]) -> (Option<i32>, String, String) {
        self.said(&[&["run", "--strict", "--stack", "stack.toml", "--"], program].concat())
    }

    fn python(&self, script: &str) -> String {
        let (code, output, error) = self.strict(&["/usr/bin/python3", "-c", script]);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{output}");
        output
    }
}

#[test]
fn exit_status_pipelines_and_signals_are_the_hosts() {
    let place = Place::new("status");
    let (code, output, _) = place.strict(&["sh", "-c", "echo one two | wc -w; (exit 4); echo $?; exit 3"]);
    assert_eq!((code, output.as_str()), (Some(3), "2\n4"));
    assert_eq!(place.strict(&["bash", "-c", "trap 'echo caught' USR1; kill -USR1 $$; kill -TERM $$"]).0, Some(128 + 15));
    let (code, _, error) = place.strict(&["no-such-program"]);
    assert_eq!(code, Some(127), "{error}");
}

/// No number of the loader's is given out, whatever the limit; below 1,024 there is no place for them.
#[test]
fn descriptors_beyond_the_loaders_work() {
    let place = Place::new("descriptors");
    let script = r"
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (1500, 1500))
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(1100)]
for one in sockets: one.bind(('127.0.0.1', 0)); one.sendto(b'x', one.getsockname())
print(all(one.recv(1) == b'x' for one in sockets), len({one.fileno() for one in sockets} & set(range(1019, 1024))))";
    assert_eq!(place.python(script).trim(), "True 0");
    let with_limit = |limit: &str, program: &str| {
        let script = format!("ulimit -n {limit}; exec \"$0\" run --strict --stack stack.toml -- {program}");
        place.shell(&script)
    };
    assert_eq!(with_limit("1024", "echo done"), (Some(0), "done".to_owned(), String::new()));
    let (code, _, error) = with_limit("1020", "echo done");
    assert!(code != Some(0) && error.contains("the hard limit of descriptors is 1020, and `--strict` wants 1024"), "{error}");
}

/// As on Linux and through the notify adapter (`a_filter_is_read_back_by_instructions`).
#[test]
fn a_filter_is_read_back_by_instructions() {
    let script = r#"
import ctypes, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
pass_all = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 65535), 8)
s.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", 1, ctypes.addressof(pass_all)))
libc = ctypes.CDLL(None)
for room in 0, 1, 8, 100:
    out, length = ctypes.create_string_buffer(32), ctypes.c_uint32(room)
    print(libc.getsockopt(s.fileno(), 1, 26, out, ctypes.byref(length)), length.value, out.raw[0], end=" ")
"#;
    assert_eq!(Place::new("filter").python(script), "0 1 0 0 1 6 0 1 6 0 1 6");
}

#[test]
fn a_signal_interrupts_a_call_that_waits_and_no_other() {
    let script = r#"
import signal, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
class Out(Exception): pass
def on(*_): raise Out
signal.signal(signal.SIGALRM, on)
try: signal.setitimer(signal.ITIMER_REAL, 0.1); s.recv(1)
except Out: print("interrupted")
signal.signal(signal.SIGALRM, lambda *_: s.sendto(b"x", s.getsockname()))
signal.setitimer(signal.ITIMER_REAL, 0.1)
print(s.recv(1))
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
signal.signal(signal.SIGALRM, lambda *_: None)
for i in range(3000): s.sendto(b"%d" % i, s.getsockname()); assert s.recv(9) == b"%d" % i
signal.setitimer(signal.ITIMER_REAL, 0)
print("whole")
"#;
    assert_eq!(Place::new("signals").python(script), "interrupted\nb'x'\nwhole");
}

/// A socket whose last descriptor is closed while a call waits at it stays; the stack's process waits, too, and does not look at it without end.
#[test]
fn nobody_computes_while_a_close_lingers_or_a_call_holds_a_socket() {
    let script = r#"
import os, socket, struct, threading, time
def used(): return sum(map(int, open(f"/proc/{os.getppid()}/stat").read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
l = socket.create_server(("127.0.0.1", 0))
def pair():
    a = socket.create_connection(l.getsockname())
    return a, l.accept()[0]
a, b = pair()
a.setblocking(False)
try:
    while True: a.send(bytes(10_000))
except BlockingIOError: pass
a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2))
before, began = used(), time.monotonic()
a.close()
print(time.monotonic() - began >= 2, used() - before < 1)
a, b = pair()
got = []
t = threading.Thread(target=lambda: got.append(a.recv(9)))
t.start()
time.sleep(0.2)
os.close(a.fileno())
before = used()
time.sleep(2)
print(used() - before < 1)
b.send(b"at last")
t.join()
a.detach()
print(got, b.recv(9))
"#;
    assert_eq!(Place::new("rests").python(script), "True True\nTrue\n[b'at last'] b''");
}

#[test]
fn the_length_of_a_tee_is_no_socket() {
    let script = r#"
import ctypes, os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); os.dup2(s.fileno(), 9)
(r, w), (to, into) = os.pipe(), os.pipe()
os.write(w, b"0123456789")
tee = ctypes.CDLL(None).tee
print(tee(r, into, 9, 0), tee(r, into, 8, 0), tee(9, into, 8, 0), os.read(to, 20))
"#;
    assert_eq!(Place::new("tee").python(script), "9 8 -1 b'01234567801234567'");
}

#[test]
fn sockets_and_pipes_are_waited_for_together() {
    let script = r#"
import os, select, socket, threading
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
r, w = os.pipe()
def later(f): threading.Timer(0.1, f).start()
send = lambda: s.sendto(b"x", s.getsockname())
write = lambda: os.write(w, b"y")
def empty():
    for fd, take in ((s.fileno(), lambda: s.recv(9)), (r, lambda: os.read(r, 9))):
        if select.select([fd], [], [], 0)[0]: take()
def ready(found): print(sorted("socket" if fd == s.fileno() else "pipe" for fd in found)); empty()
for act in (send, write):
    later(act); ready([getattr(fd, "fileno", lambda: fd)() for fd in select.select([s, r], [], [])[0]])
    p = select.poll(); p.register(s, 1); p.register(r, 1)
    later(act); ready([fd for fd, _ in p.poll()])
    for edge in (0, select.EPOLLET):
        e = select.epoll(); e.register(s, 1 | edge); e.register(r, 1 | edge)
        assert e.poll(0) == []
        later(act); ready([fd for fd, _ in e.poll(5)])
        assert e.poll(0.01) == []
e = select.epoll(); e.register(s, 1 | select.EPOLLONESHOT); send(); assert len(e.poll(1)) == 1; assert e.poll(0.01) == []
e.modify(s, 1); assert len(e.poll(1)) == 1; e.unregister(s); assert e.poll(0.01) == []
"#;
    let expected = [["['socket']"; 4], ["['pipe']"; 4]].concat().join("\n");
    assert_eq!(Place::new("polls").python(script), expected);
}

#[test]
fn children_and_threads_share_sockets_and_the_last_close_counts() {
    let script = r#"
import os, socket, subprocess, sys, threading
l = socket.create_server(("127.0.0.1", 0)); a = l.getsockname()
def serve():
    for _ in range(20):
        c, _ = l.accept()
        if os.fork() == 0: c.sendall(c.recv(99).upper()); os._exit(0)
        c.close()
t = threading.Thread(target=serve); t.start()
answers = []
def ask(i):
    with socket.create_connection(a) as c: c.sendall(b"q%d" % i); answers.append(c.recv(99) + c.recv(99))
asking = [threading.Thread(target=ask, args=(i,)) for i in range(20)]
[one.start() for one in asking]; [one.join() for one in asking]; t.join()
print(sorted(answers) == sorted(b"Q%d" % i for i in range(20)))
l.set_inheritable(True)
code = "import socket; l = socket.socket(fileno=%d); print(l.getsockname() == %r)" % (l.fileno(), a)
subprocess.run([sys.executable, "-c", code], close_fds=False, check=True)
l.close()
try: socket.create_connection(a)
except ConnectionRefusedError: print("refused")
socket.create_server(a).close()
"#;
    assert_eq!(Place::new("children").python(script), "True\nTrue\nrefused");
}

#[test]
fn a_stack_that_ends_fails_calls_instead_of_holding_them() {
    let script = r#"
import os, socket, subprocess
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0))
subprocess.run([os.environ["WEFT"], "down", "--control", os.environ["WEFT_CONTROL"]], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try: s.recv(1)
except OSError as error: print(error.strerror)
"#;
    let place = Place::new("down");
    let weft = env!("CARGO_BIN_EXE_weft");
    let (code, output, error) = place.strict(&["env", &format!("WEFT={weft}"), "/usr/bin/python3", "-c", script]);
    assert_eq!((code, output.as_str()), (Some(0), "Network is down"), "{error}");
}

#[test]
fn what_is_accepted_without_being_told_its_address_is_closed() {
    let place = Place::new("accept-address");
    let script = include_str!("../../notify/tests/scripts/accept_address.py");
    let closed = "EFAULT b''\nEFAULT b''\nEINVAL b''";
    assert_eq!(place.python(script).trim(), closed);
    let native = std::process::Command::new("/usr/bin/python3").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&native.stdout).trim(), closed, "{}", String::from_utf8_lossy(&native.stderr));
}

#[test]
fn a_datagram_with_a_bad_page_is_not_sent_in_part() {
    let place = Place::new("datagram-page");
    let script = include_str!("../../notify/tests/scripts/datagram_page.py");
    let refused = "-1 EFAULT\n4 None\n4";
    assert_eq!(place.python(script).trim(), refused);
    let native = std::process::Command::new("/usr/bin/python3").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&native.stdout).trim(), refused, "{}", String::from_utf8_lossy(&native.stderr));
}

#[test]
fn messages_of_a_stream_leave_no_hole() {
    let place = Place::new("stream-messages");
    let script = include_str!("../../notify/tests/scripts/stream_messages.py");
    assert_eq!(place.python(script).trim(), "True True True\nTrue True True");
}

/// SIOCADDRT, SIOCDELRT, SIOCDARP, SIOCGIWNAME, and SIOCOUTQNSD, which is about the socket: none gets to the host's interfaces.
#[test]
fn requests_about_interfaces_are_answered_through_whatever_socket() {
    let script = r#"
import fcntl, os, socket
for one in socket.socket(socket.AF_UNIX), socket.socket(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0):
    for request in 0x890b, 0x890c, 0x8953, 0x8b01, 0x894b:
        try: fcntl.ioctl(one, request, bytearray(128)); print("answered", end=" ")
        except OSError as error: print(error.errno, end=" ")
    print()
"#;
    let (code, output, _) = Place::new("interfaces").strict(&["/usr/bin/python3", "-c", script]);
    assert_eq!((code, output.trim()), (Some(0), "25 25 25 19 25 \n97 97 96 19 answered \n25 25 25 19 25"));
}

#[test]
fn several_messages_of_a_blocking_stream_wait_for_room() {
    let script = include_str!("../../notify/tests/scripts/stream_messages_that_wait.py");
    let native = std::process::Command::new("/usr/bin/python3").args(["-c", script]).output().unwrap();
    let wanted = String::from_utf8_lossy(&native.stdout);
    assert_eq!(wanted.lines().count(), 5, "{}", String::from_utf8_lossy(&native.stderr));
    assert_eq!(Place::new("stream-messages-that-wait").python(script).trim(), wanted.trim());
}
