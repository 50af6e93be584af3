//! The same without privileges: the test runs itself again as another user.

mod support;

use std::os::unix::process::CommandExt;
use support::Host;

/// nobody
const USER: u32 = 65534;

/// Runs a test of this file as an ordinary user. True: this is that run.
fn as_user(test: &str) -> bool {
    // SAFETY: takes no pointers.
    if unsafe { libc::geteuid() } != 0 {
        return true;
    }
    // The target directory need not be readable for others: run a copy. Another process makes it: what this one has open for
    // writing, the child of another test has open too until it executes, and it is ETXTBSY until then.
    let copy = std::env::temp_dir().join(format!("weft-unprivileged-{}-{test}", std::process::id()));
    assert!(std::process::Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap().success());
    let output = std::process::Command::new(&copy)
        .args(["--exact", test, "--nocapture"])
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", "/")
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .output()
        .unwrap();
    std::fs::remove_file(&copy).unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

#[test]
fn sockets_work_and_the_resolv_conf_is_the_programs_own() {
    if !as_user("sockets_work_and_the_resolv_conf_is_the_programs_own") {
        return;
    }
    let mut host = Host::new();
    let script = r#"
import socket, os, threading
assert os.getuid() == 65534 and os.getgid() == 65534
assert open("/etc/resolv.conf").read() == "nameserver 10.77.0.1\n"
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen()
def serve():
    c, a = s.accept(); c.sendall(c.recv(100).upper()); c.close()
threading.Thread(target=serve).start()
c = socket.create_connection(("127.0.0.1", 8000)); c.sendall(b"hello"); print(c.recv(100))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 8000)); u.sendto(b"x", ("127.0.0.1", 8000)); print(u.recvfrom(10))
"#;
    let program = host.start_with(&["python3", "-c", script], |command| {
        command.resolv_conf("nameserver 10.77.0.1\n");
    });
    assert_eq!(program.resolv_conf(), Ok(()), "user namespaces are allowed here");
    let ended = host.finish(program);
    assert_eq!((ended.code, ended.output.as_str()), (0, "b'HELLO'\n(b'x', ('127.0.0.1', 8000))\n"));
    // A set-uid program runs, without the extra rights.
    let id = host.run(&["id", "-u"]);
    assert_eq!(id.output.trim(), "65534");
    assert_eq!(host.supervisor.calls().not_permitted, 0);
}

#[test]
fn a_process_that_may_not_be_looked_into_is_refused() {
    if !as_user("a_process_that_may_not_be_looked_into_is_refused") {
        return;
    }
    let mut host = Host::new();
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    let outside = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    // PR_SET_DUMPABLE 0, as ssh-agent does. Nobody can tell its unix sockets from one of the host's, which its standard input is.
    let script = format!(
        r#"
import ctypes, socket, tempfile, errno, fcntl, os, termios
libc = ctypes.CDLL(None, use_errno=True)
s = socket.socket(); u = socket.socket(socket.AF_UNIX); i = socket.socket(fileno=0, family=2, type=2, proto=0)
a, b = socket.socketpair(); r, w = os.pipe()
libc.prctl(4, 0, 0, 0, 0)
def refused(f, *a):
    try: f(*a)
    except OSError as e: return e.errno == errno.EPERM
assert refused(i.sendto, b"x", ("127.0.0.1", {}))
assert refused(s.connect, ("127.0.0.1", 80))
assert refused(u.bind, tempfile.mkdtemp() + "/s")
assert refused(fcntl.ioctl, u, 0x8922, b"lo" + bytes(38)) and refused(fcntl.ioctl, u, 0x8913, b"lo" + bytes(38))
a.send(b"plain"); assert b.recv(10) == b"plain"
os.write(w, b"abc"); n = bytearray(4); fcntl.ioctl(r, termios.FIONREAD, n); assert n[0] == 3
"#,
        receiver.local_addr().unwrap().port()
    );
    let program = host.start_with(&["python3", "-c", &script], |command| {
        command.descriptor(0, outside.try_clone().unwrap().into());
    });
    let ended = host.finish(program);
    assert_eq!((ended.code, ended.output.as_str()), (0, ""));
    assert!(receiver.recv(&mut [0; 10]).is_err(), "nothing has arrived on the host's network");
    assert!(host.supervisor.calls().not_permitted > 0);
}
