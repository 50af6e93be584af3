//! Calls that programs answer for the controller: what comes of them is what would have come of it, and where it is not, the run says so.

use crate::world::{Ran, World, alone};
use std::time::Duration;
use weft_core::Instant;

/// Reads what there is in small pieces, without waiting, and sends it back.
const SERVER: &str = "
import socket, select
s = socket.create_server(('0.0.0.0', 7)); c, _ = s.accept(); c.setblocking(False)
p = select.poll(); p.register(c, select.POLLIN)
pieces = total = empty = 0
while True:
    p.poll()
    whole, over = b'', False
    while True:
        try: d = c.recv(7)
        except BlockingIOError: empty += 1; break
        if not d: over = True; break
        whole += d; pieces += 1
    total += len(whole)
    if over: break
    c.setblocking(True); c.sendall(whole.upper()); c.setblocking(False)
print(pieces, total, empty)
";

/// Sends messages, now and then more than a mirror shows; reads the answers in pieces of every size.
const CLIENT: &str = "
import socket, time
c = socket.create_connection(('10.0.0.2', 7))
left = 0
for n in range(60):
    m = bytes([97 + n % 26]) * (9000 if n % 20 == 19 else 1 + 37 * n % 400)
    c.sendall(m)
    if n % 3 == 0: time.sleep(0.0005)
    got = b''
    while len(got) < len(m): got += c.recv(min(1 + n * n, len(m) - len(got)))
    assert got == m.upper()
    c.setblocking(False)
    try: c.recv(1); print('more')
    except BlockingIOError: left += 1
    c.setblocking(True)
print(left)
";

struct Came {
    ran: Vec<Ran>,
    records: Vec<Vec<String>>,
    traces: Vec<u64>,
    answered: Vec<u64>,
    wrong: Vec<String>,
}

fn pair(ahead: bool, rash: bool, server: &str, client: &str) -> Came {
    let mut world = World::tuned(3, 2, |config| config.ahead = ahead);
    world.hosts[1].outer.rash = rash;
    let ends = [
        (1, world.start(1, Instant::ZERO, &["/usr/bin/python3", "-c", server])),
        (0, world.start(0, Instant::from_millis(500), &["/usr/bin/python3", "-c", client])),
    ];
    world.run(&ends, Duration::from_secs(1000));
    Came {
        ran: ends.iter().map(|(host, pid)| world.ran(*host, *pid)).collect(),
        records: world.hosts.iter_mut().map(|host| std::mem::take(&mut host.outer.record)).collect(),
        traces: world.hosts.iter().map(|host| host.tree.trace()).collect(),
        answered: world.hosts.iter().map(|host| host.tree.answered_ahead()).collect(),
        wrong: world.hosts.iter().flat_map(|host| host.tree.preempted().iter().chain(host.tree.doubts()).cloned()).collect(),
    }
}

#[test]
fn streams_that_are_read_ahead_say_what_they_would_have_said() {
    alone(|| {
        let (with, without) = (pair(true, false, SERVER, CLIENT), pair(false, false, SERVER, CLIENT));
        assert_eq!((with.ran[1].output.as_str(), with.ran[1].error.as_str()), ("60\n", ""));
        let said: Vec<u64> = with.ran[0].output.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(said[0] > 3 * said[2] && said[1] > 27_000 && said[2] >= 60, "{said:?}");
        assert!(with.wrong.is_empty(), "{:?}", with.wrong);
        // Calls, results, bytes that were read, and times.
        assert_eq!((&with.ran, &with.records, &with.traces), (&without.ran, &without.records, &without.traces));
        assert_eq!(without.answered, [0, 0]);
        // All that the server reads in pieces but the first of each batch, and that there is no more.
        assert!(with.answered[1] > said[0] / 2, "{:?} of {said:?}", with.answered);
        assert!(with.answered[0] > 60, "{:?}", with.answered);
    });
}

#[test]
fn an_answer_that_was_wrong_is_told() {
    // The world grants more time than it may: the program goes on being told that there is nothing.
    let server = "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 7)); s.setblocking(False)
while time.monotonic() < 2:
    try: print(s.recv(100)); break
    except BlockingIOError: time.sleep(0.0001)
";
    let client = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.0.0.2', 7)); s.send(b'news')
";
    alone(|| {
        let good = pair(true, false, server, client);
        assert_eq!((good.ran[0].output.as_str(), good.wrong.len()), ("b'news'\n", 0));
        assert!(good.answered[1] > 1000, "{:?}", good.answered);
        let bad = pair(true, true, server, client);
        assert!(bad.wrong.iter().any(|line| line.contains("told something wrong")), "{:?} {:?}", bad.wrong, bad.ran[0]);
    });
}
