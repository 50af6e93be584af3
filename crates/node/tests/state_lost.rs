//! TCP goes, or begins anew, while programs use it: they hear of it, nothing of it stays, and listeners listen again.

use crate::common;

use common::{AF_INET, Pair, SOCK_STREAM, address};
use std::time::Duration;
use weft_core::control::{End, Message, Op};
use weft_core::{Bytes, Value};
use weft_socket::{Errno, Poll, SocketId, SocketState};

fn operate(pair: &mut Pair, side: usize, op: Op) -> Value {
    let now = pair.now;
    let result = pair.nodes[side].control(now, &Message { serial: 1, op }).result.unwrap();
    pair.settle();
    result
}

fn rows(pair: &mut Pair, side: usize) -> Vec<(String, u64)> {
    let rows = operate(pair, side, Op::Show(weft_core::control::Show::Sockets));
    let row = |row: &Value| (row["state"].as_str().unwrap().to_owned(), row["inode"].as_u64().unwrap());
    rows.as_array().unwrap().iter().map(row).collect()
}

fn forget() -> Op {
    Op::Replace { name: "tcp".to_owned(), kind: "tcp".to_owned(), parameters: Default::default(), drop_state: true }
}

fn delete() -> Op {
    Op::Delete { name: "tcp".to_owned() }
}

/// TCP in its place again, as `weft apply` of the same stack brings it.
fn add() -> Op {
    let bind = |from: &str, to: &str| Op::Bind { from: End::parse(from), to: End::parse(to) };
    let edges = [
        ("sockets:tcp", "tcp:upper"),
        ("tcp:upper", "sockets:tcp"),
        ("tcp:ip4", "ip4:upper"),
        ("ip4:tcp", "tcp:lower"),
        ("icmp4:tcp", "tcp:error"),
    ];
    let add = Op::Add { name: "tcp".to_owned(), kind: "tcp".to_owned(), parameters: Default::default() };
    Op::All(std::iter::once(add).chain(edges.map(|(from, to)| bind(from, to))).collect())
}

fn connecting(pair: &mut Pair) -> SocketId {
    pair.call(0, |sockets, cx| {
        let s = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
        assert_eq!(sockets.connect(s, &address(2, 80), cx), Err(Errno::EINPROGRESS));
        s
    })
}

/// A sender whose buffer is full, a receiver with unread bytes, a listener with two that wait, one of them closed by its peer, and one in TIME-WAIT.
struct Busy {
    pair: Pair,
    client: SocketId,
    server: SocketId,
    listener: SocketId,
    queued: SocketId,
}

fn busy(engine: &str) -> Busy {
    let mut pair = Pair::on_engine(engine, 0, "");
    pair.pass(Duration::from_secs(3));
    let listener = pair.call(1, |sockets, cx| {
        let s = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
        sockets.bind(s, &address(2, 80), cx).unwrap();
        sockets.listen(s, 5, cx).unwrap();
        s
    });
    let mut connected = || {
        let client = connecting(&mut pair);
        pair.pass(Duration::from_millis(100));
        (client, pair.call(1, |sockets, cx| sockets.accept(listener, cx)).unwrap())
    };
    let (client, server) = connected();
    let (short, other) = connected();
    pair.call(0, |sockets, cx| sockets.close(short, cx));
    pair.call(1, |sockets, cx| sockets.close(other, cx));
    while pair.call(0, |sockets, cx| sockets.send(client, Bytes::from(vec![7; 1 << 16]), 0, None, &[], cx)).is_ok() {
        pair.pass(Duration::from_millis(20));
    }
    let queued = connecting(&mut pair);
    pair.pass(Duration::from_millis(100));
    let closed = connecting(&mut pair);
    pair.call(0, |sockets, cx| sockets.close(closed, cx));
    assert!(rows(&mut pair, 0).contains(&("TIME-WAIT".to_owned(), 0)), "{:?}", rows(&mut pair, 0));
    (0..2).for_each(|side| drop(pair.call(side, |sockets, _| sockets.take_changed())));
    Busy { pair, client, server, listener, queued }
}

fn is_aborted(pair: &mut Pair, side: usize, s: SocketId) {
    let (changed, poll, state) = pair.call(side, |sockets, _| (sockets.take_changed(), sockets.readiness(s), sockets.state(s)));
    assert!(changed.contains(&s), "whoever waits for it looks again");
    assert!(poll.contains(Poll::ERR) && poll.contains(Poll::HUP) && poll.contains(Poll::IN) && poll.contains(Poll::OUT), "{poll:?}");
    assert_eq!(state, Some(SocketState::Failed));
    assert_eq!(pair.call(side, |sockets, _| sockets.pending_error(s)), Some(Errno::ECONNABORTED));
}

#[test]
fn who_used_a_tcp_that_forgets_is_told_and_a_listener_listens_again() {
    for engine in ["inline", "queued"] {
        let Busy { mut pair, client, server, listener, queued } = busy(engine);
        operate(&mut pair, 0, forget());
        is_aborted(&mut pair, 0, client);
        let send = |pair: &mut Pair| pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"x"), 0, None, &[], cx));
        assert_eq!([send(&mut pair), send(&mut pair)], [Err(Errno::ECONNABORTED), Err(Errno::EPIPE)]);
        assert_eq!(rows(&mut pair, 0).iter().filter(|(_, inode)| *inode == 0).count(), 0, "what nobody holds is gone");
        for s in [client, queued] {
            pair.call(0, |sockets, cx| sockets.close(s, cx));
        }
        assert_eq!(rows(&mut pair, 0), []);

        operate(&mut pair, 1, forget());
        is_aborted(&mut pair, 1, server);
        let unread = pair.call(1, |sockets, cx| sockets.receive(server, 1 << 30, 0, cx)).unwrap();
        assert!(unread.len() > 10_000, "what had come can still be read");
        let last = pair.call(1, |sockets, cx| sockets.receive(server, 100, 0, cx).map(|got| got.len()));
        assert_eq!(last, Err(Errno::ECONNABORTED));
        // Two wait that nobody accepted: they are accepted, and are aborted.
        for _ in 0..2 {
            let dead = pair.call(1, |sockets, cx| sockets.accept(listener, cx)).unwrap();
            assert_eq!(pair.call(1, |sockets, _| sockets.state(dead)), Some(SocketState::Failed));
            pair.call(1, |sockets, cx| sockets.close(dead, cx));
        }
        pair.call(1, |sockets, cx| sockets.close(server, cx));
        assert_eq!(rows(&mut pair, 1).len(), 1);
        for _ in 0..10 {
            let again = connecting(&mut pair);
            pair.pass(Duration::from_secs(2));
            let server = pair.call(1, |sockets, cx| sockets.accept(listener, cx)).unwrap();
            assert_eq!(pair.call(0, |sockets, _| sockets.state(again)), Some(SocketState::Connected));
            pair.call(1, |sockets, cx| sockets.close(server, cx));
            pair.call(0, |sockets, cx| sockets.close(again, cx));
        }
    }
}

#[test]
fn without_a_tcp_nothing_waits_for_ever_and_a_new_one_serves_the_listener() {
    for engine in ["inline", "queued"] {
        let Busy { mut pair, client, server, listener, .. } = busy(engine);
        (0..2).for_each(|side| drop(operate(&mut pair, side, delete())));
        is_aborted(&mut pair, 0, client);
        is_aborted(&mut pair, 1, server);
        let failed = pair.call(0, |sockets, cx| {
            let s = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
            (s, sockets.connect(s, &address(2, 80), cx))
        });
        assert_eq!(failed.1, Err(Errno::ENETDOWN), "nobody would answer");
        // Closed sockets of programs are free, those of nobody were at once.
        pair.call(0, |sockets, cx| sockets.close(client, cx));
        assert!(rows(&mut pair, 0).iter().all(|(state, inode)| *inode != 0 && state == "UNCONN"), "{:?}", rows(&mut pair, 0));
        pair.pass(Duration::from_secs(5));
        (0..2).for_each(|side| drop(operate(&mut pair, side, add())));
        while let Ok(dead) = pair.call(1, |sockets, cx| sockets.accept(listener, cx)) {
            pair.call(1, |sockets, cx| sockets.close(dead, cx));
        }
        let again = connecting(&mut pair);
        pair.pass(Duration::from_secs(2));
        assert_eq!(pair.call(0, |sockets, _| sockets.state(again)), Some(SocketState::Connected));
        assert!(pair.call(1, |sockets, cx| sockets.accept(listener, cx)).is_ok());
    }
}
