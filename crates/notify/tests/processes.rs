//! Processes, threads and descriptors: what programs do with sockets besides reading and writing.

mod support;

use support::Host;

#[test]
fn a_forking_server_shares_its_listener_and_children_end_connections() {
    let mut host = Host::new();
    let out = host.python(
        r#"
import socket, os, sys
s = socket.socket(); s.bind(("127.0.0.1", 9000)); s.listen(20)
workers = []
for w in range(3):
    pid = os.fork()
    if pid == 0:
        while True:
            c, _ = s.accept()
            if os.fork() == 0:
                d = c.recv(100)
                if d == b"stop": os._exit(7)
                c.sendall(d.upper()); os._exit(0)
            c.close()
    workers.append(pid)
for i in range(30):
    c = socket.create_connection(("127.0.0.1", 9000))
    c.sendall(b"hello %d" % i)
    got = b""
    while True:
        d = c.recv(100)
        if not d: break
        got += d
    assert got == b"HELLO %d" % i, got
for w in workers: os.kill(w, 9); os.waitpid(w, 0)
print("done")
"#,
    );
    assert_eq!(out.trim(), "done");
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn duplicates_and_passed_descriptors_are_the_same_socket() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, os, array
s = socket.socket(); s.bind(("127.0.0.1", 9001)); s.listen()
c = socket.create_connection(("127.0.0.1", 9001)); a, _ = s.accept()
d = socket.socket(fileno=os.dup(c.fileno()))
c.close()
d.sendall(b"1"); assert a.recv(1) == b"1"
x, y = socket.socketpair()
if os.fork() == 0:
    x.close()
    _, fds, _, _ = socket.recv_fds(y, 10, 1)
    e = socket.socket(fileno=fds[0])
    assert e.getpeername() == ("127.0.0.1", 9001)
    e.sendall(b"2"); e.shutdown(socket.SHUT_WR)
    y.close(); os._exit(0)
socket.send_fds(x, [b"!"], [d.fileno()])
d.close(); y.close()
assert a.recv(1) == b"2" and a.recv(1) == b""
os.wait()
"#,
    );
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn sockets_survive_exec_and_threads_share_them() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, subprocess, sys, threading
s = socket.socket(); s.bind(("127.0.0.1", 9002)); s.listen()
c = socket.create_connection(("127.0.0.1", 9002)); a, _ = s.accept()
code = "import socket,sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(b'from exec'); print(s.getpeername()[1])"
out = subprocess.run([sys.executable, "-c", code, str(c.fileno())], pass_fds=[c.fileno()], capture_output=True, text=True)
assert out.stdout.strip() == "9002", out
assert a.recv(100) == b"from exec"
got = []
ts = [threading.Thread(target=lambda: got.append(s.accept()[0])) for i in range(5)]
for t in ts: t.start()
cs = [socket.create_connection(("127.0.0.1", 9002)) for t in ts]
for t in ts: t.join()
assert len(got) == 5
"#,
    );
}

#[test]
fn unix_sockets_and_other_descriptors_are_left_alone() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, os, tempfile, array, fcntl, termios, struct
p = tempfile.mkdtemp() + "/s"
s = socket.socket(socket.AF_UNIX); s.bind(p); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect(p); a, _ = s.accept()
r, w = os.pipe()
socket.send_fds(c, [b"x"], [r]); _, fds, _, _ = socket.recv_fds(a, 10, 1)
os.write(w, b"through"); assert os.read(fds[0], 10) == b"through"
assert s.getsockname() == p
n = bytearray(4); os.write(w, b"abc"); fcntl.ioctl(r, termios.FIONREAD, n); assert struct.unpack("i", n) == (3,)
d, e = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); d.send(b"y"); assert e.recvfrom(10)[0] == b"y"
try: os.fdopen(99).read()
except OSError: pass
import errno, ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.listen(99, 1) == -1 and ctypes.get_errno() == errno.EBADF
assert libc.listen(r, 1) == -1 and ctypes.get_errno() == errno.ENOTSOCK
os.unlink(p)
"#,
    );
}

#[test]
fn garbage_pointers_are_efault_and_the_supervisor_lives_on() {
    let mut host = Host::new();
    host.python(
        r#"
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) for x in a])
    return ctypes.get_errno() if r == -1 else 0
s = socket.socket(); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
bad = [8, -1, 1 << 62, 0x7fffffffffff]
for fd in (s.fileno(), u.fileno()):
    for p in bad:
        assert call(49, fd, p, 16) == errno.EFAULT
        assert call(42, fd, p, 16) == errno.EFAULT
        assert call(51, fd, p, p) == errno.EFAULT
        assert call(54, fd, 1, 2, p, 4) == errno.EFAULT
        assert call(55, fd, 1, 3, p, p) == errno.EFAULT
        assert call(46, fd, p, 0) == errno.EFAULT
        assert call(47, fd, p, 0) == errno.EFAULT
        assert call(16, fd, 0x8912, p) == errno.EFAULT
    assert call(49, fd, 8, -1) == errno.EINVAL
    assert call(49, fd, 8, 129) == errno.EINVAL
    assert call(54, fd, 1, 2, 8, -1) == errno.EINVAL
for p in bad: assert call(44, u.fileno(), p, 10, 0, p, 16) == errno.EFAULT
import struct
b = ctypes.create_string_buffer(struct.pack("QIIQQQQQ", 0, 0, 0, 8, 2000, 0, 0, 0))
assert call(46, u.fileno(), ctypes.addressof(b), 0) == errno.EMSGSIZE
b = ctypes.create_string_buffer(struct.pack("QIIQQQQQ", 0, 0, 0, 8, 5, 8, 1 << 60, 0))
assert call(46, u.fileno(), ctypes.addressof(b), 0) in (errno.EFAULT, errno.ENOBUFS)
import os
junk = os.urandom(64)
for i in range(200): n.send(os.urandom(i))
"#,
    );
    assert_eq!(host.run(&["true"]).code, 0);
}

#[test]
fn a_program_killed_while_its_call_waits_leaves_nothing() {
    let mut host = Host::new();
    let mut program =
        host.start(&["python3", "-c", "import socket\ns=socket.socket();s.bind(('127.0.0.1',9003));s.listen();print('ready');s.accept()"]);
    host.until_output(&mut program, "ready");
    host.until("the accept waits", |host| host.supervisor.calls().rows().iter().any(|row| row.call == "accept4" && row.counts.held == 1));
    program.kill(libc::SIGKILL);
    assert_eq!(host.finish(program).code, 128 + libc::SIGKILL);
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0 && host.supervisor.trees() == 0);
}

#[test]
fn programs_of_two_trees_meet_and_pass_sockets_to_each_other() {
    let mut host = Host::new();
    let path = std::env::temp_dir().join(format!("weft-pass-{}", std::process::id()));
    let path = path.to_str().unwrap();
    let mut a = host.start(&["python3", "-c", &format!(
        "import socket\ns=socket.socket();s.bind(('127.0.0.1',9004));s.listen()\nu=socket.socket(socket.AF_UNIX);u.bind('{path}');u.listen()\nprint('ready')\nc,_=u.accept()\nsocket.send_fds(c,[b'x'],[s.fileno()])\ns.close()\nc.recv(1)"
    )]);
    host.until_output(&mut a, "ready");
    let ended = host.run(&["python3", "-c", &format!(
        "import socket\nu=socket.socket(socket.AF_UNIX);u.connect('{path}')\n_,f,_,_=socket.recv_fds(u,10,1)\ns=socket.socket(fileno=f[0])\nc=socket.create_connection(('127.0.0.1',9004))\na,_=s.accept()\nc.sendall(b'hi');print(a.recv(10))"
    )]);
    assert_eq!((ended.code, ended.output.trim()), (0, "b'hi'"));
    assert_eq!(host.finish(a).code, 0);
    std::fs::remove_file(path).unwrap();
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}

#[test]
fn a_program_may_have_filters_of_its_own_but_no_second_listener() {
    let mut host = Host::new();
    host.python(
        r#"
import ctypes, struct, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
# allow everything but getppid, which fails with EXDEV
code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 110) + struct.pack("HBBI", 6, 0, 0, 0x50000 | errno.EXDEV) + struct.pack("HBBI", 6, 0, 0, 0x7fff0000)
buf = ctypes.create_string_buffer(code)
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(buf)))
assert libc.syscall(317, 1, 8, prog) == -1 and ctypes.get_errno() == errno.EBUSY, ctypes.get_errno()
assert libc.syscall(317, 1, 0, prog) == 0
assert libc.syscall(110) == -1 and ctypes.get_errno() == errno.EXDEV
s = socket.socket(); s.bind(("127.0.0.1", 9005)); s.listen()
c = socket.create_connection(("127.0.0.1", 9005)); c.sendall(b"x"); assert s.accept()[0].recv(1) == b"x"
"#,
    );
}

#[test]
fn what_is_not_supported_fails_and_is_counted() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, errno, ctypes
def refused(*a):
    try: socket.socket(*a)
    except OSError as e: return e.errno
assert refused(socket.AF_INET6, socket.SOCK_STREAM, 262) == errno.EPROTONOSUPPORT
assert refused(socket.AF_PACKET, socket.SOCK_RAW, 3) == errno.EPERM
assert refused(socket.AF_INET, socket.SOCK_RAW, 1) is None
assert refused(socket.AF_NETLINK, socket.SOCK_RAW, 16) is None
assert refused(socket.AF_NETLINK, socket.SOCK_RAW, 15) == errno.EPROTONOSUPPORT
assert refused(40, socket.SOCK_STREAM) == errno.EAFNOSUPPORT
assert refused(43, socket.SOCK_STREAM) == errno.EAFNOSUPPORT
libc = ctypes.CDLL(None, use_errno=True)
p = ctypes.create_string_buffer(120)
assert libc.syscall(425, 8, p) == -1 and ctypes.get_errno() == errno.ENOSYS
assert libc.syscall(0x40000000 | 41, 2, 1, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
"#,
    );
    let rows = host.supervisor.calls().unsupported_rows();
    for request in [
        "socket(AF_INET6, type 1, protocol 262)",
        "socket(AF_PACKET, type 3, protocol 3)",
        "socket(family 43, type 1, protocol 0)",
        "io_uring_setup",
    ] {
        assert!(rows.iter().any(|row| row.request == request), "{request} is missing in {rows:?}");
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_an_error() {
    use weft_notify::spawn::{Command, SpawnError};
    let error = Command::new(["/does/not/exist"]).unwrap().spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Execute { errno: weft_intercept::Errno::ENOENT, .. }), "{error}");
}

#[test]
fn nothing_that_is_inherited_leads_past_the_stack() {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // A socket of the host's that would survive an exec, and one end of a pipe that should.
    let foreign = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let keep = |fd: i32| {
        // SAFETY: duplicates a descriptor that is open; the copy belongs to nobody else.
        unsafe { OwnedFd::from_raw_fd(libc::fcntl(fd, libc::F_DUPFD, 100)) }
    };
    let (foreign, (pipe, _writer)) = (keep(foreign.as_raw_fd()), std::io::pipe().unwrap());
    let pipe = keep(pipe.as_raw_fd());
    let mut host = Host::new();
    let out = host.python(&format!(
        r#"
import os, fcntl, errno
def is_open(fd):
    try: os.fstat(fd); return True
    except OSError: return False
print(is_open({}), is_open({}))
try:
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, 0x400454ca, b"\0" * 16 + b"\x02\x10" + b"\0" * 22)
    print("an interface of the host's")
except OSError as error: print(error.errno in (errno.EPERM, errno.ENOENT, errno.EACCES))
"#,
        foreign.as_raw_fd(),
        pipe.as_raw_fd()
    ));
    assert_eq!(out.trim(), "False True\nTrue");
}

#[test]
fn a_socket_of_the_hosts_network_that_comes_from_outside_is_refused_and_counted() {
    let mut host = Host::new();
    // A connection on the loopback of this machine, as standard input and over a unix socket.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut inside = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (outside, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut inside, b"hello").unwrap();
    let script = r#"
import os, socket, errno
def attempt(f, *a):
    try: return f(*a)
    except OSError as e: return errno.errorcode[e.errno]
s = socket.socket(fileno=os.dup(0), family=socket.AF_INET, type=socket.SOCK_STREAM, proto=0)
print(os.read(0, 10), attempt(s.getpeername), attempt(s.setsockopt, 6, 1, 1), attempt(s.sendmsg, [b"x"]), attempt(s.connect, ("127.0.0.1", 9)))
a, b = socket.socketpair(); a.sendmsg([b"x"]); print(b.recvmsg(1)[0])
"#;
    let program = host.start_with(&["python3", "-c", script], |command| {
        command.descriptor(0, outside.try_clone().unwrap().into());
    });
    let ended = host.finish(program);
    assert_eq!(ended.output, "b'hello' EPERM EPERM EPERM EPERM\nb'x'\n");
    let rows = host.supervisor.calls().unsupported_rows();
    // Python itself asks for the name too.
    for call in ["getpeername", "setsockopt", "sendmsg", "connect"] {
        assert!(rows.iter().any(|row| row.request == format!("{call} on a socket of the host's (family 2)")), "{rows:?}");
    }
}

#[test]
fn what_linux_refuses_as_well_is_not_counted_as_lacking() {
    let mut host = Host::new();
    let program = host.start(&["python3", "-c", include_str!("scripts/refused_ioctls.py")]);
    assert_eq!(host.finish(program).output, "ENOTTY ENOTTY ENOTTY EINVAL ENOENT EINVAL ENOTSUP ");
    let rows = host.supervisor.calls().unsupported_rows();
    let counted: Vec<&str> = rows.iter().map(|row| row.request.as_str()).filter(|request| request.starts_with("ioctl")).collect();
    assert_eq!(counted, ["ioctl 0x89b1"]);
}

#[test]
fn a_descriptor_that_only_an_orphan_has_is_found() {
    let mut host = Host::new();
    // The grandchild makes no call that is trapped; when its connection is reset, its end must be borrowed to show that.
    let script = r#"
import os, socket, struct, time, sys
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname()); a, _ = s.accept()
r, w = os.pipe(); gr, gw = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        a.close(); s.close(); os.close(gw); os.read(gr, 1)
        try: out = repr(os.read(c.fileno(), 1))
        except OSError as e: out = e.__class__.__name__
        os.write(w, out.encode()); os._exit(0)
    os._exit(0)
os.wait(); c.close()
os.write(gw, b"g"); time.sleep(0.3)
a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); a.close()
print(os.read(r, 100).decode())
"#;
    assert_eq!(host.python(script), "ConnectionResetError\n");
}
