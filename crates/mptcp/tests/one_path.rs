//! Connections over one path: both roles, and what is left where one side, or a box on the way, does not speak Multipath TCP.

#[path = "../../tcp/tests/common/mod.rs"]
mod common;

use common::pair::{Pair, Wire};
use common::{Node, OnWire, pattern};
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::Flags;
use weft_wire::tcp::mptcp::{Keys, Message};

const BYTES: usize = 200_000;
const FLOW: FlowId = FlowId(1);

fn node(name: &str) -> Node {
    let tcp = BlockRow {
        kind: weft_tcp::ROW.kind,
        make: |config| Ok(Box::new(weft_tcp::TcpBlock::with_extensions(config, weft_mptcp::EXTENSIONS)?)),
    };
    Node::with_rows(name, &[], &[tcp, weft_mptcp::ROW])
}

/// A pair with the block in both nodes, or in some.
fn pair(seed: u64, wire: Wire, inserted: [bool; 2]) -> Pair {
    let mut pair = Pair::of([node("client"), node("server")], seed, wire);
    for (node, _) in inserted.into_iter().enumerate().filter(|(_, inserted)| *inserted) {
        pair.nodes[node].insert("mptcp");
    }
    pair.log = Some(Vec::new());
    pair
}

fn bad_wire() -> Wire {
    Wire { loss: 0.02, reorder: 0.05, late: Duration::from_millis(4), duplicate: 0.01, rate: 20_000_000, queue: 60_000, ..Wire::default() }
}

/// Both send so much, and close.
fn exchange(pair: &mut Pair) {
    pair.connect(StreamOptions::default());
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.nodes[0].app(|app, _| app.flow(FLOW).shutdown_after = true);
    pair.nodes[0].write(1, pattern(BYTES));
    let until = pair.now + Duration::from_secs(120);
    pair.run(until, |pair| {
        let accepted = pair.accepted();
        let over =
            |pair: &mut Pair, node: usize, flow| pair.app(node, |app, _| app.flow(flow).events.iter().any(|event| event == "halfclosed"));
        over(pair, 0, FLOW) && accepted.is_some_and(|child| over(pair, 1, child))
    });
    pair.run_for(Duration::from_secs(200));
    let child = pair.accepted().unwrap();
    for (node, flow) in [(0, FLOW), (1, child)] {
        let (received, events, released) = pair.app(node, |app, _| {
            let flow = app.flow(flow);
            (flow.received.len(), flow.events.clone(), flow.released)
        });
        assert_eq!(received, BYTES, "{node} {events:?} {:?}", counters(&mut pair.nodes[1]));
        let wrong = pair.app(node, |app, _| app.flow(flow).received.iter().zip(pattern(BYTES)).position(|(a, b)| *a != b));
        assert_eq!(wrong, None, "{node} {events:?} {:?}", [0, 1].map(|side| counters(&mut pair.nodes[side])));
        assert!(released, "{node} {events:?}");
        assert!(events.iter().any(|event| event == "halfclosed"), "{events:?}");
        assert!(!events.iter().any(|event| event.starts_with("failed")), "{events:?}");
    }
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2]);
}

fn counter(node: &mut Node, counter: Counter) -> u64 {
    let id = node.engine.graph().find("mptcp").unwrap();
    node.engine.graph().block(id).unwrap().counters()[counter as usize]
}

fn population(node: &mut Node) -> u64 {
    let id = node.engine.graph().find("mptcp").unwrap();
    node.engine
        .with(node.now, id, |block, _| block.as_any_mut().downcast_mut::<weft_mptcp::MptcpBlock>().unwrap().population() as u64)
        .unwrap()
}

fn options(on_wire: &OnWire) -> Vec<Message> {
    on_wire.segment.options.mptcp().map(Result::unwrap).collect()
}

/// Errors, and fall-backs, of which there may be none.
const ERRORS: &[Counter] = &[
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

#[test]
fn both_sides_speak_it_from_the_handshake_to_the_end() {
    let mut pair = pair(1, Wire::default(), [true, true]);
    exchange(&mut pair);
    let log = pair.log.take().unwrap();
    // RFC 8684 §3.1: a SYN without a key, the answer with the server's, then both.
    let keys = |message: &Message| match message {
        Message::Capable(capable) => Some(capable.keys),
        _ => None,
    };
    let first: Vec<Keys> = log.iter().filter_map(|(_, _, on_wire)| options(on_wire).iter().find_map(keys)).take(3).collect();
    let [Keys::None, Keys::Sender(server), Keys::Both { sender: _, receiver }] = first[..] else { panic!("{first:?}") };
    assert_eq!(server, receiver);
    // All segments with data have a mapping, or are the first.
    for (_, _, on_wire) in log.iter().filter(|(_, _, on_wire)| !on_wire.payload.is_empty()) {
        let mapped = |message: &Message| matches!(message, Message::Dss(dss) if dss.mapping.is_some() && dss.ack.is_some());
        assert!(options(on_wire).iter().any(|message| mapped(message) || keys(message).is_some()), "{on_wire:?}");
    }
    // DATA_FIN from both, before the subflow's FIN.
    for node in 0..2 {
        let is_end = |on_wire: &OnWire| options(on_wire).iter().any(|message| matches!(message, Message::Dss(dss) if dss.fin));
        let from = |wanted: &dyn Fn(&OnWire) -> bool| log.iter().position(|(_, from, on_wire)| *from == node && wanted(on_wire)).unwrap();
        assert!(from(&is_end) < from(&|on_wire| on_wire.segment.flags.contains(Flags::FIN)));
    }
    for node in &mut pair.nodes {
        ERRORS.iter().for_each(|error| assert_eq!(counter(node, *error), 0, "{error:?}"));
        assert_eq!(population(node), 0);
    }
}

#[test]
fn a_bad_wire_changes_nothing() {
    for seed in 0..16 {
        let mut pair = pair(seed, bad_wire(), [true, true]);
        exchange(&mut pair);
        assert!(pair.wires.iter().all(|wire| wire.lost > 0));
        for node in &mut pair.nodes {
            ERRORS.iter().for_each(|error| assert_eq!(counter(node, *error), 0, "seed {seed} {error:?}"));
        }
    }
}

#[test]
fn where_one_side_does_not_speak_it_the_connection_is_plain() {
    for inserted in [[true, false], [false, true]] {
        let mut pair = pair(3, bad_wire(), inserted);
        exchange(&mut pair);
        let log = pair.log.take().unwrap();
        let said = |on_wire: &OnWire| on_wire.segment.options.mptcp().count();
        assert!(log.iter().all(|(_, _, on_wire)| on_wire.segment.flags.contains(Flags::SYN) || said(on_wire) == 0));
    }
}

/// Counters that are not zero.
fn counters(node: &mut Node) -> Vec<(&'static str, u64)> {
    let Some(id) = node.engine.graph().find("mptcp") else { return Vec::new() };
    let values = node.engine.graph().block(id).unwrap().counters();
    weft_mptcp::counters::ROWS.iter().zip(values).filter(|(_, value)| **value > 0).map(|(row, value)| (row.name, *value)).collect()
}
