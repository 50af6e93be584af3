//! A graph that is taken apart while programs use it: who holds what is gone learns it, and what is put in its place works.

use crate::common;

use common::{AF_INET, Pair, SOCK_STREAM, address};
use std::time::Duration;
use weft_core::control::{End, Message, Op};
use weft_core::{Bytes, Table, Value};
use weft_node::EDGES;
use weft_socket::{Errno, SocketState};

fn control(pair: &mut Pair, side: usize, op: Op) -> Value {
    let now = pair.now;
    let value = pair.nodes[side].control(now, &Message { serial: 1, op }).result.unwrap();
    pair.settle();
    value
}

/// Deletes a block of the default graph and makes a new one with the same edges.
fn renew(pair: &mut Pair, side: usize, name: &str) {
    control(pair, side, Op::Delete { name: name.to_owned() });
    let mut ops = vec![Op::Add { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default() }];
    let of = |end: &str| End::parse(end).block == name;
    let edges = EDGES.iter().filter(|(from, to)| of(from) || of(to));
    ops.extend(edges.map(|(from, to)| Op::Bind { from: End::parse(from), to: End::parse(to) }));
    control(pair, side, Op::All(ops));
}

fn flows(pair: &mut Pair, side: usize) -> Vec<Value> {
    control(pair, side, Op::List(Table::Flows)).as_array().unwrap().clone()
}

#[test]
fn sockets_that_are_made_anew_work_and_know_nothing_of_the_old_ones() {
    let mut pair = Pair::new(0, "");
    let (client, server) = pair.connect();
    let before = pair.nodes[1].sockets_changes();
    control(&mut pair, 1, Op::Delete { name: "sockets".to_owned() });
    assert!(pair.nodes[1].sockets(pair.now, |_, _| ()).is_none());
    assert_eq!(pair.nodes[1].sockets_changes(), before + 1);
    let ops = vec![Op::Add { name: "sockets".to_owned(), kind: "sockets".to_owned(), parameters: Default::default() }];
    let edges = EDGES.iter().filter(|(from, to)| from.starts_with("sockets:") || to.starts_with("sockets:"));
    let bind = edges.map(|(from, to)| Op::Bind { from: End::parse(from), to: End::parse(to) });
    control(&mut pair, 1, Op::All(ops.into_iter().chain(bind).collect()));
    assert_eq!(pair.nodes[1].sockets_changes(), before + 2);
    // The old connection belongs to nobody now; data for it resets it.
    let sent = pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"for whom?"), 0, None, &[], cx));
    assert_eq!(sent, Ok(9));
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.call(0, |sockets, cx| sockets.receive(client, 10, 0, cx).err()), Some(Errno::ECONNRESET));
    // A socket in the same slot has another name.
    let fresh = pair.call(1, |sockets, cx| (0..4).map(|_| sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap()).collect::<Vec<_>>());
    assert!(!fresh.contains(&server));
    assert_eq!(pair.call(1, |sockets, _| sockets.state(server)), None);
    pair.call(1, |sockets, cx| fresh.iter().for_each(|socket| sockets.close(*socket, cx)));
    // The old listener goes with the first who knocks; then the port is free for a new one.
    let knock = pair.call(0, |sockets, cx| {
        let socket = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).unwrap();
        let _ = sockets.connect(socket, &address(2, 80), cx);
        socket
    });
    pair.pass(Duration::from_secs(1));
    assert_ne!(pair.call(0, |sockets, _| sockets.state(knock)), Some(SocketState::Connected));
    assert_eq!(flows(&mut pair, 1), Vec::<Value>::new());
    pair.connect();
}

#[test]
fn a_transport_that_is_made_anew_aborts_what_it_does_not_know() {
    let mut pair = Pair::new(0, "");
    let (client, server) = pair.connect();
    renew(&mut pair, 1, "tcp");
    let sent = pair.call(1, |sockets, cx| sockets.send(server, Bytes::from_static(b"lost"), 0, None, &[], cx));
    assert_eq!(sent, Err(Errno::ECONNABORTED), "the program hears of it before it sends");
    assert_eq!(pair.call(1, |sockets, cx| sockets.receive(server, 10, 0, cx).map(|got| got.len())), Ok(0));
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"also lost"), 0, None, &[], cx)).unwrap();
    pair.pass(Duration::from_secs(1));
    assert_eq!(pair.call(0, |sockets, cx| sockets.receive(client, 10, 0, cx).err()), Some(Errno::ECONNRESET));
}

/// What waits for a neighbour's address when the block is replaced is lost as on a wire, but not to the connection's account of what is below it:
/// otherwise it would wait for ever for these frames to leave.
#[test]
fn frames_that_wait_in_a_replaced_block_do_not_stop_their_connection() {
    for (family, name) in [(AF_INET, "arp"), (common::AF_INET6, "nd")] {
        let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(1), |_, _| common::Fate::Pass);
        pair.pass(Duration::from_secs(3));
        let to = match family {
            AF_INET => address(2, 80),
            _ => common::address6("fd77::2".parse().unwrap(), 80, 0),
        };
        let ends = pair.connect_to(family, &to);
        let flush = Op::Exec { target: weft_core::Selector::parse(name), procedure: "flush".to_owned(), arguments: serde_json::json!({}) };
        control(&mut pair, 0, flush);
        let data = Bytes::from(vec![7; 100_000]);
        let sent = pair.call(0, |sockets, cx| sockets.send(ends.0, data.clone(), 0, None, &[], cx)).unwrap();
        let replace = Op::Replace { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default(), drop_state: false };
        control(&mut pair, 0, replace);
        let mut received = 0;
        for _ in 0..1000 {
            let got = pair.call(1, |sockets, cx| sockets.receive(ends.1, 1 << 20, 0, cx));
            received += got.map_or(0, |got| got.data.iter().map(|slice| slice.len()).sum::<usize>());
            pair.pass(Duration::from_millis(100));
        }
        assert!(sent > 20_000);
        assert_eq!(received, sent, "through {name}");
    }
}

/// Segments that this node's own IP refuses come back with the error: they are no longer below their connection, which else would never send again.
#[test]
fn segments_that_no_route_takes_do_not_stop_their_connection() {
    for (family, name, destination) in [(AF_INET, "ip4", "10.0.0.2/32"), (common::AF_INET6, "ip6", "fd77::2/128")] {
        let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(1), |_, _| common::Fate::Pass);
        pair.pass(Duration::from_secs(3));
        let to = match family {
            AF_INET => address(2, 80),
            _ => common::address6("fd77::2".parse().unwrap(), 80, 0),
        };
        let ends = pair.connect_to(family, &to);
        let exec = |pair: &mut Pair, procedure: &str, arguments| {
            let target = weft_core::Selector::parse(name);
            control(pair, 0, Op::Exec { target, procedure: procedure.to_owned(), arguments })
        };
        exec(&mut pair, "route_add", serde_json::json!({"destination": destination, "kind": "unreachable"}));
        let data = Bytes::from(vec![7; 100_000]);
        let sent = pair.call(0, |sockets, cx| sockets.send(ends.0, data.clone(), 0, None, &[], cx)).unwrap();
        pair.pass(Duration::from_secs(2));
        exec(&mut pair, "route_delete", serde_json::json!({"destination": destination}));
        let mut received = 0;
        for _ in 0..100 {
            let got = pair.call(1, |sockets, cx| sockets.receive(ends.1, 1 << 20, 0, cx));
            received += got.map_or(0, |got| got.data.iter().map(|slice| slice.len()).sum::<usize>());
            pair.pass(Duration::from_millis(100));
        }
        assert!(sent > 20_000);
        assert_eq!(received, sent, "over {name}");
    }
}

#[test]
fn memory_that_is_given_back_was_nobodys() {
    for engine in ["inline", "queued"] {
        let mut pair = Pair::on_engine(engine, 0, "");
        let listed = |pair: &mut Pair| [flows(pair, 0), flows(pair, 1)];
        let first: Vec<_> = (1000..1050).map(|port| pair.connect_to(AF_INET, &address(2, port))).collect();
        // One stays, in the middle of the tables.
        let kept = first[20];
        for (client, server) in first.iter().filter(|both| **both != kept) {
            pair.call(0, |sockets, cx| sockets.close(*client, cx));
            pair.call(1, |sockets, cx| sockets.close(*server, cx));
        }
        pair.pass(Duration::from_secs(120));
        let before = listed(&mut pair);
        let now = pair.now;
        pair.nodes.iter_mut().for_each(|node| node.give_back_memory(now));
        assert_eq!(listed(&mut pair), before, "{engine}");
        let second: Vec<_> = (2000..2100).map(|port| pair.connect_to(AF_INET, &address(2, port))).collect();
        for (client, server) in first.iter().filter(|both| **both != kept) {
            assert!(second.iter().all(|(other, another)| other != client && another != server), "{engine}: an id was given out twice");
            assert_eq!(pair.call(0, |sockets, _| sockets.state(*client)), None, "{engine}");
            assert_eq!(pair.call(1, |sockets, _| sockets.state(*server)), None, "{engine}");
        }
        for both in [kept, second[0], second[99]] {
            let mut got = 0;
            pair.transfer(both, &Bytes::from(vec![7; 1000]), 100_000, |bytes| got += bytes.len());
            assert_eq!(got, 100_000, "{engine}");
        }
    }
}
