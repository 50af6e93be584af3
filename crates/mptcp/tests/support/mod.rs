//! What the tests of this crate share: pairs of nodes that have the block.
#![allow(dead_code)] // each test file uses its own part

#[path = "../../../tcp/tests/common/mod.rs"]
pub mod common;

use common::pair::{Pair, Wire};
use common::{Node, OnWire, pattern};
use indexmap::IndexMap;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::mptcp::Message as Option30;

pub const BYTES: usize = 200_000;
pub const FLOW: FlowId = FlowId(1);

pub fn node(name: &str) -> Node {
    node_with(name, &[])
}

/// With more kinds of block.
pub fn node_with(name: &str, more: &[BlockRow]) -> Node {
    let tcp = BlockRow {
        kind: weft_tcp::ROW.kind,
        make: |config| Ok(Box::new(weft_tcp::TcpBlock::with_extensions(config, weft_mptcp::EXTENSIONS)?)),
    };
    let rows: Vec<BlockRow> = [tcp, weft_mptcp::ROW].into_iter().chain(more.iter().copied()).collect();
    Node::with_rows(name, &[], &rows)
}

/// A pair with the block in both nodes, or in some.
pub fn pair(seed: u64, wire: Wire, inserted: [bool; 2]) -> Pair {
    pair_of([node("client"), node("server")], seed, wire, inserted)
}

/// The same, of these nodes.
pub fn pair_of(nodes: [Node; 2], seed: u64, wire: Wire, inserted: [bool; 2]) -> Pair {
    let mut pair = Pair::of(nodes, seed, wire);
    for (node, _) in inserted.into_iter().enumerate().filter(|(_, inserted)| *inserted) {
        let own: Vec<String> = (0..3).map(|wire| format!("10.0.{wire}.{}", node + 1)).collect();
        pair.nodes[node].exec_below("addresses", own);
        pair.nodes[node].insert("mptcp");
        pair.nodes[node].tell("mptcp", "path_manager", "kernel".into()).unwrap();
    }
    pair.log = Some(Vec::new());
    pair
}

pub fn bad_wire() -> Wire {
    Wire { loss: 0.02, reorder: 0.05, late: Duration::from_millis(4), duplicate: 0.01, rate: 20_000_000, queue: 60_000, ..Wire::default() }
}

/// Both send so much, and close.
pub fn exchange(pair: &mut Pair) {
    exchange_and(pair, |_| {});
}

/// The client connects to the server's port 80, which listens at every address.
pub fn connect(pair: &mut Pair) {
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions::default());
}

/// The same; `each` is done at every step.
pub fn exchange_and(pair: &mut Pair, each: impl FnMut(&mut Pair)) {
    exchange_with(pair, each, 0);
}

/// The same, where so many bytes come as others.
pub fn exchange_with(pair: &mut Pair, mut each: impl FnMut(&mut Pair), changed: usize) {
    connect(pair);
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.nodes[0].app(|app, _| app.flow(FLOW).shutdown_after = true);
    pair.nodes[0].write(1, pattern(BYTES));
    let until = pair.now + Duration::from_secs(120);
    pair.run(until, |pair| {
        each(pair);
        let accepted = pair.accepted();
        let over =
            |pair: &mut Pair, node: usize, flow| pair.app(node, |app, _| app.flow(flow).events.iter().any(|event| event == "halfclosed"));
        over(pair, 0, FLOW) && accepted.is_some_and(|child| over(pair, 1, child))
    });
    pair.filter = None;
    pair.run_for(Duration::from_secs(200));
    let child = pair.accepted().unwrap();
    for (node, flow) in [(0, FLOW), (1, child)] {
        let (received, events, released) = pair.app(node, |app, _| {
            let flow = app.flow(flow);
            (flow.received.len(), flow.events.clone(), flow.released)
        });
        assert_eq!(received, BYTES, "{node} {events:?} {:?}", counters(&mut pair.nodes[1]));
        let wrong: Vec<usize> = pair.app(node, |app, _| {
            let both = app.flow(flow).received.iter().zip(pattern(BYTES)).enumerate();
            both.filter(|(_, (a, b))| **a != *b).map(|(at, _)| at).collect()
        });
        assert!(wrong.len() <= changed, "{node} {:?} {events:?} {:?}", wrong.first(), [0, 1].map(|side| counters(&mut pair.nodes[side])));
        assert!(released, "{node} {events:?} {:?}", pair.nodes.each_mut().map(connections));
        assert!(events.iter().any(|event| event == "halfclosed"), "{events:?}");
        assert!(!events.iter().any(|event| event.starts_with("failed")), "{events:?}");
    }
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2]);
}

pub fn counter(node: &mut Node, counter: Counter) -> u64 {
    let id = node.engine.graph().find("mptcp").unwrap();
    node.engine.graph().block(id).unwrap().counters()[counter as usize]
}

pub fn population(node: &mut Node) -> u64 {
    connections(node).len() as u64
}

pub fn options(on_wire: &OnWire) -> Vec<Option30> {
    on_wire.segment.options.mptcp().map(Result::unwrap).collect()
}

/// Errors, and fall-backs, of which there may be none.
pub const ERRORS: &[Counter] = &[
    Counter::MPCapableFallbackACK,
    Counter::MPCapableFallbackSYNACK,
    Counter::DSSNotMatching,
    Counter::DSSNoMatchTCP,
    Counter::DataCsumErr,
    Counter::NoDSSInWindow,
    Counter::BadOptions,
    Counter::WordsUnread,
    Counter::MPCurrEstab,
];

/// Counters that are not zero.
pub fn counters(node: &mut Node) -> Vec<(&'static str, u64)> {
    let Some(id) = node.engine.graph().find("mptcp") else { return Vec::new() };
    let values = node.engine.graph().block(id).unwrap().counters();
    weft_mptcp::counters::ROWS.iter().zip(values).filter(|(_, value)| **value > 0).map(|(row, value)| (row.name, *value)).collect()
}

/// Puts a block of a kind in the place of the one that has its name.
pub fn replace(node: &mut Node, name: &str) {
    let op = Op::Replace { name: name.to_owned(), kind: name.to_owned(), parameters: IndexMap::new(), drop_state: false };
    node.engine.control(node.now, &Message { serial: 4, op }).result.unwrap();
}

/// What the block knows of its connections.
pub fn connections(node: &mut Node) -> Vec<Value> {
    let id = node.engine.graph().find("mptcp").unwrap();
    let value = node.engine.graph().block(id).unwrap().get("connections", node.now).unwrap();
    value.as_array().unwrap().clone()
}

/// A wire with so many bits a second, and a queue of 60 kB.
pub fn slow(rate: u64, delay_ms: u64) -> Wire {
    Wire { rate, delay: Duration::from_millis(delay_ms), queue: 60_000, ..Wire::default() }
}

/// A pair with two wires. The client has 10.0.0.1 and 10.0.1.1; the server 10.0.0.2, and 10.0.1.2 in `server`'s words.
pub fn two(seed: u64, wires: [Wire; 2], client: &[&str], server: &[&str]) -> Pair {
    two_of([node("client"), node("server")], seed, wires, client, server)
}

/// The same, of these nodes.
pub fn two_of(nodes: [Node; 2], seed: u64, wires: [Wire; 2], client: &[&str], server: &[&str]) -> Pair {
    let [first, second] = wires;
    let mut pair = pair_of(nodes, seed, first, [true, true]);
    pair.more.push([second.clone(), second]);
    pair.nodes[0].tell("mptcp", "endpoints", client.into()).unwrap();
    pair.nodes[1].tell("mptcp", "endpoints", server.into()).unwrap();
    pair
}

/// Nothing that must not be.
pub fn no_errors(pair: &mut Pair) {
    for node in &mut pair.nodes {
        ERRORS.iter().for_each(|error| assert_eq!(counter(node, *error), 0, "{error:?} {:?}", counters(node)));
    }
}

/// How much of the data went over the second wire, of all.
pub fn share(pair: &Pair, from: usize) -> f64 {
    let data = pair.log.iter().flatten().filter(|(_, side, on_wire)| *side == from && !on_wire.payload.is_empty());
    let second = |address: std::net::SocketAddr| address.to_string().starts_with("10.0.1.");
    let (mut all, mut there) = (0, 0);
    for (_, _, on_wire) in data {
        all += on_wire.payload.len();
        there += if second(on_wire.src) || second(on_wire.dst) { on_wire.payload.len() } else { 0 };
    }
    there as f64 / all as f64
}
