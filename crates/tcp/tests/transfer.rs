//! Two TCP blocks exchange data over wires of every kind, byte for byte.

use crate::common;

use common::pair::{Pair, Wire};
use common::pattern;
use weft_core::*;
use weft_tcp::counters::Counter as Count;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Sends `length` bytes from client to server, ends both sides, and returns the time it took.
fn transfer(pair: &mut Pair, length: usize, limit: Duration) -> Duration {
    let data = pattern(length);
    pair.connect(StreamOptions::default());
    pair.app(0, |app, _| {
        app.flow(FlowId(1)).unsent.push_back(data.clone());
        app.flow(FlowId(1)).shutdown_after = true;
    });
    let (start, until) = (pair.now, pair.now + limit);
    let done = pair.run(until, |pair| {
        pair.accepted().is_some_and(|child| pair.app(1, |app, _| app.flow(child).events.iter().any(|event| event == "halfclosed")))
    });
    let child = pair.accepted().expect("accepted");
    let received = pair.app(1, |app, _| std::mem::take(&mut app.flow(child).received));
    assert!(done, "{} of {length} bytes at {:?}: {:?}", received.len(), pair.now, pair.nodes[0].info(1));
    assert!(received == data, "the stream was changed");
    let took = pair.now - start;
    pair.nodes[1].call(child.0, StreamCall::Close { unread: false, linger: None });
    pair.nodes[0].call(1, StreamCall::Close { unread: false, linger: None });
    let until = pair.now + Duration::from_secs(2000);
    pair.run(until, |pair| {
        let client = pair.app(0, |app, _| app.flow(FlowId(1)).released);
        client && pair.app(1, |app, _| app.flow(child).released)
    });
    assert!(pair.app(0, |app, _| app.flow(FlowId(1)).released), "client: {:?}", pair.nodes[0].events(1));
    assert!(pair.app(1, |app, _| app.flow(child).released), "server: {:?}", pair.nodes[1].events(child.0));
    took
}

#[test]
fn data_arrives_over_a_clean_wire_and_the_flow_ends_in_time_wait() {
    let mut pair = Pair::new(1, Wire::default(), &[]);
    transfer(&mut pair, 1_000_000, Duration::from_secs(20));
    assert_eq!(pair.nodes[0].events(1), ["established", "sendqueueempty", "halfclosed", "timewait", "released"]);
    assert_eq!(pair.nodes[0].counter(Count::RetransSegs), 0);
    assert_eq!(pair.nodes[0].population(), (0, 0, 0));
    assert_eq!(pair.nodes[1].population(), (0, 0, 0));
}

#[test]
fn data_survives_loss() {
    for control in ["cubic", "reno"] {
        for loss in [0.01, 0.05, 0.2] {
            let wire = Wire { loss, ..Wire::default() };
            let mut pair = Pair::new(3, wire, &[("congestion", control.into())]);
            let length = if loss > 0.1 { 300_000 } else { 2_000_000 };
            transfer(&mut pair, length, Duration::from_secs(3600));
            assert!(pair.nodes[0].counter(Count::RetransSegs) > 0, "{control} {loss}");
        }
    }
}

#[test]
fn data_survives_reordering_and_duplication() {
    let wire = Wire { reorder: 0.1, late: millis(7), duplicate: 0.05, ..Wire::default() };
    let mut pair = Pair::new(5, wire, &[]);
    transfer(&mut pair, 3_000_000, Duration::from_secs(600));
    assert!(pair.nodes[1].counter(Count::TCPDSACKOldSent) > 0);
    assert!(pair.nodes[0].counter(Count::TCPSACKReorder) > 0);
}

#[test]
fn data_survives_loss_without_sack_and_timestamps() {
    let wire = Wire { loss: 0.03, ..Wire::default() };
    let mut pair = Pair::new(8, wire, &[("sack", false.into()), ("timestamps", false.into()), ("window_scaling", false.into())]);
    transfer(&mut pair, 1_000_000, Duration::from_secs(3600));
}
