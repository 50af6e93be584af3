//! The supervisor runs out of descriptors. A file of its own, because the limit is the whole process's.

mod support;

use support::Host;

#[test]
fn without_descriptors_calls_fail_and_work_again_afterwards() {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    let host = Host::new();
    drop(host);
    // SAFETY: the kernel reads `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    // Whether an even or an odd number is left decides in which call there is none: the program's, or one of the supervisor's for it.
    for taken in 0..2 {
        let taken: Vec<_> = (0..taken).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        without_descriptors();
        drop(taken);
    }
}

fn without_descriptors() {
    let mut host = Host::new();
    host.python(
        r#"
import socket, errno
us = []
try:
    while len(us) < 1000: us.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    raise SystemExit("no limit")
except OSError as e: assert e.errno in (errno.ENFILE, errno.EMFILE), e
assert len(us) > 10
for u in us: u.close()
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen(100)
cs = []; accepted = []
try:
    while len(cs) < 1000:
        cs.append(socket.create_connection(("127.0.0.1", 8000))); accepted.append(s.accept()[0])
    raise SystemExit("no limit")
except OSError as e: assert e.errno in (errno.ENFILE, errno.EMFILE), e
for c in cs + accepted: c.close()
s.setblocking(False)
try:
    while True: s.accept()[0].close()
except BlockingIOError: pass
s.setblocking(True)
c = socket.create_connection(("127.0.0.1", 8000)); a, _ = s.accept(); c.sendall(b"x"); assert a.recv(1) == b"x"
"#,
    );
    assert!(host.supervisor.calls().out_of_descriptors > 0);
    host.until("all stand-ins closed", |host| host.supervisor.stand_ins() == 0);
}
