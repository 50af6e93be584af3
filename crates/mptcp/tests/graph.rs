//! The block is put in and taken out under connections that run.

use crate::support;

use support::common::pair::{Pair, Wire};
use support::common::pattern;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;

fn extract(pair: &mut Pair, side: usize) {
    let node = &mut pair.nodes[side];
    let op = Op::Extract { block: "mptcp".to_owned() };
    node.engine.control(node.now, &Message { serial: 9, op }).result.unwrap();
}

/// Does the block stand between the program and tcp?
fn stands(pair: &Pair, side: usize) -> bool {
    let graph = pair.nodes[side].engine.graph();
    let (app, port) = (graph.find("app").unwrap(), OutPort(0));
    graph.edges().any(|(from, out, to, _)| (from, out) == (app, port) && Some(to) == graph.find("mptcp"))
}

fn received(pair: &mut Pair, side: usize, flow: FlowId) -> usize {
    pair.app(side, |app, _| app.flow(flow).received.len())
}

fn said(pair: &mut Pair) -> usize {
    pair.log.iter().flatten().map(|(_, _, on_wire)| on_wire.segment.options.mptcp().count()).sum()
}

#[test]
fn it_is_inserted_under_plain_connections_and_those_that_follow_have_it() {
    let mut pair = pair(1, bad_wire(), [false, false]);
    connect(&mut pair);
    pair.nodes[0].write(1, pattern(100_000));
    pair.run_for(Duration::from_millis(100));
    pair.nodes.iter_mut().for_each(|node| node.insert("mptcp"));
    pair.run_for(Duration::from_secs(10));
    let child = pair.accepted().unwrap();
    assert_eq!((received(&mut pair, 1, child), said(&mut pair)), (100_000, 0));
    // The listener was there before the block: sockets tell of theirs again.
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    pair.nodes[0].connect(2, "10.0.0.1:1235", "10.0.0.2:80", StreamOptions::default());
    pair.nodes[0].write(2, pattern(50_000));
    pair.run_for(Duration::from_secs(10));
    let child = pair.app(1, |app, _| app.accepted[1]);
    assert_eq!(received(&mut pair, 1, child), 50_000);
    assert!(said(&mut pair) > 0 && counter(&mut pair.nodes[1], Counter::MPCapableACKRX) == 1);
}

#[test]
fn it_is_extracted_when_the_connections_that_it_has_are_over() {
    for side in 0..2 {
        let mut pair = pair(2, Wire { rate: 5_000_000, ..bad_wire() }, [true, true]);
        pair.more.push([bad_wire(), bad_wire()]);
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        connect(&mut pair);
        pair.nodes[0].write(1, pattern(150_000));
        pair.run_for(Duration::from_millis(150));
        extract(&mut pair, side);
        assert!(stands(&pair, side), "it has a connection");
        // What begins now is plain, and what runs goes on over both paths.
        pair.nodes[0].connect(2, "10.0.0.1:1235", "10.0.0.2:80", StreamOptions::default());
        pair.nodes[0].write(2, pattern(50_000));
        pair.run_for(Duration::from_secs(20));
        let [first, second] = pair.app(1, |app, _| [app.accepted[0], app.accepted[1]]);
        assert_eq!((received(&mut pair, 1, first), received(&mut pair, 1, second)), (150_000, 50_000));
        assert_eq!((connections(&mut pair.nodes[0]).len(), connections(&mut pair.nodes[1]).len()), (1, 1));
        for (node, flow) in [(0, FlowId(1)), (1, first)] {
            pair.nodes[node].call(flow.0, StreamCall::Close { unread: false, linger: None });
        }
        pair.run_for(Duration::from_secs(100));
        assert!(!stands(&pair, side), "nothing needs it");
        // The second still runs, without it.
        pair.nodes[0].write(2, pattern(10_000));
        pair.run_for(Duration::from_secs(2));
        assert_eq!(received(&mut pair, 1, second), 60_000);
        // And so does what begins.
        let before = said(&mut pair);
        pair.nodes[0].connect(3, "10.0.0.1:1236", "10.0.0.2:80", StreamOptions::default());
        pair.nodes[0].write(3, pattern(20_000));
        pair.run_for(Duration::from_secs(10));
        let third = pair.app(1, |app, _| app.accepted[2]);
        assert_eq!(received(&mut pair, 1, third), 20_000);
        // Of a client that still has it the SYN says so.
        assert!(said(&mut pair) - before <= side);
        // Once more.
        let op = Op::Insert { block: End::parse("mptcp"), from: End::parse("app:tcp"), to: End::parse("tcp:upper") };
        let node = &mut pair.nodes[side];
        node.engine.control(node.now, &Message { serial: 9, op }).result.unwrap();
    }
}

#[test]
fn without_connections_it_is_extracted_at_once_and_a_handshake_that_goes_on_is_plain() {
    let mut pair = pair(3, Wire::default(), [true, true]);
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions::default());
    // The SYN has come, and its answer is on its way.
    pair.run_for(Duration::from_millis(15));
    extract(&mut pair, 1);
    assert!(!stands(&pair, 1));
    pair.nodes[0].write(1, pattern(30_000));
    pair.run_for(Duration::from_secs(10));
    let child = pair.accepted().unwrap();
    assert_eq!(received(&mut pair, 1, child), 30_000);
}

#[test]
fn it_is_switched_off_and_on_at_either_end_and_what_begins_is_what_it_says_then() {
    for (side, listens_while_off) in [(0, false), (1, false), (1, true)] {
        let mut pair = pair(4, Wire::default(), [true, true]);
        let mut port = 1234_u16;
        let mut says = |pair: &mut Pair, on: bool| {
            pair.nodes[side].tell("mptcp", "enabled", on.into()).unwrap();
            if port == 1234 {
                pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
            }
            port += 1;
            let (flow, before) = (u64::from(port), counter(&mut pair.nodes[1], Counter::MPCapableACKRX));
            pair.nodes[0].connect(flow, &format!("10.0.0.1:{port}"), "10.0.0.2:80", StreamOptions::default());
            pair.nodes[0].write(flow, pattern(5_000));
            pair.run_for(Duration::from_secs(2));
            let child = pair.app(1, |app, _| *app.accepted.last().unwrap());
            assert_eq!(received(pair, 1, child), 5_000);
            counter(&mut pair.nodes[1], Counter::MPCapableACKRX) - before
        };
        let begins = !listens_while_off;
        let spoken = [begins, !begins, begins, !begins].map(|on| says(&mut pair, on));
        let wanted = [begins, !begins, begins, !begins].map(u64::from);
        assert_eq!(spoken, wanted, "at side {side}, listens while off: {listens_while_off}");
    }
}
