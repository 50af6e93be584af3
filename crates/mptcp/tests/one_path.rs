//! Connections over one path: both roles, and what is left where one side, or a box on the way, does not speak Multipath TCP.

use crate::support;

use support::common::pair::Wire;
use support::common::{OnWire, encode, pattern};
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::Flags;
use weft_wire::tcp::mptcp::{Capable, Keys, Message};

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
    // All data has a mapping, which goes with its first segment: and few of them have one.
    for node in 0..2 {
        let data = || log.iter().filter(|(_, from, on_wire)| *from == node && !on_wire.payload.is_empty());
        let start = data().map(|(_, _, on_wire)| on_wire.segment.seq).next().unwrap();
        let (mut mapped_to, mut without) = (0, 0);
        for (_, _, on_wire) in data() {
            let offset = u64::try_from(on_wire.segment.seq - start).unwrap();
            let mapping = |message: &Message| match message {
                Message::Dss(dss) => dss.mapping.map(|mapping| u64::from(mapping.subflow_seq) - 1 + u64::from(mapping.len)),
                Message::Capable(Capable { keys: Keys::WithData { data_len, .. }, .. }) => Some(u64::from(*data_len)),
                _ => None,
            };
            let end = options(on_wire).iter().find_map(mapping);
            mapped_to = mapped_to.max(end.unwrap_or(0));
            without += usize::from(end.is_none());
            assert!(offset + on_wire.payload.len() as u64 <= mapped_to, "{node} {offset} {mapped_to}");
        }
        assert!(without > 20, "{node} {without} of {}", data().count());
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

/// An acknowledgment of data has 8 bytes where the peer sends data, too: what it takes comes off the segments, and is not a segment behind each.
#[test]
fn data_both_ways_leaves_no_small_segments() {
    for checksum in [false, true] {
        let mut pair = pair(1, Wire { rate: 20_000_000, ..Wire::default() }, [true, true]);
        pair.nodes.iter_mut().for_each(|node| drop(node.tell("mptcp", "checksum", checksum.into()).unwrap()));
        exchange(&mut pair);
        let log = pair.log.take().unwrap();
        for node in 0..2 {
            let sizes: Vec<usize> = log.iter().filter(|(_, from, _)| *from == node).map(|(_, _, on_wire)| on_wire.payload.len()).collect();
            let (small, all) =
                (sizes.iter().filter(|size| (1..100).contains(*size)).count(), sizes.iter().filter(|size| **size > 0).count());
            assert!(all > 100 && small <= 3, "checksum {checksum}, node {node}: {small} of {all} are small");
        }
        no_errors(&mut pair);
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

/// A repetition is taken where it ends behind the last acknowledgment, for its own may be lost (`tcp_sequence` in Linux's net/ipv4/tcp_input.c).
#[test]
fn what_is_sent_again_before_it_is_acknowledged_contradicts_nothing() {
    for wants_checksum in [false, true] {
        let mut pair = pair(1, Wire { delay: Duration::from_millis(1), ..Wire::default() }, [true, true]);
        pair.nodes.iter_mut().for_each(|node| drop(node.tell("mptcp", "checksum", wants_checksum.into()).unwrap()));
        connect(&mut pair);
        pair.nodes[0].call(1, StreamCall::Set(StreamOption::Nodelay(true)));
        pair.run_for(Duration::from_millis(500));
        let child = pair.accepted().unwrap();
        // The acknowledgment of one has left, that of the next is delayed.
        pair.nodes[1].call(child.0, StreamCall::Set(StreamOption::Quickack(Some(false))));
        let (mut again, mut writes) = (None, 1);
        for _ in 0..40 {
            pair.nodes[0].write(1, pattern(100));
            pair.run_for(Duration::from_millis(10));
            writes += 1;
            let log = pair.log.as_ref().unwrap();
            let data: Vec<&OnWire> =
                log.iter().filter(|(_, from, sent)| *from == 0 && !sent.payload.is_empty()).map(|(.., sent)| sent).collect();
            let acked = log.iter().rev().find(|(_, from, _)| *from == 1).unwrap().2.segment.ack;
            if let [.., before, last] = data[..]
                && acked == before.segment.seq + 100
            {
                let mut segment = before.segment.clone();
                segment.options.timestamps = last.segment.options.timestamps;
                let bytes = encode(&segment, &before.payload, before.src, before.dst);
                again = Some(OnWire { segment, bytes, ..before.clone() });
                break;
            }
        }
        pair.nodes[1].inject(&again.unwrap());
        pair.nodes[0].write(1, pattern(100));
        pair.run_for(Duration::from_millis(10));
        assert_eq!(counter(&mut pair.nodes[1], Counter::DSSNotMatching), 0);
        assert_eq!(pair.app(1, |app, _| app.flow(child).received.len()), 100 * writes);
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

/// As it does for TCP, however fast the program reads: `tcp_grow_window` in Linux's net/ipv4/tcp_input.c, which each subflow's window obeys.
#[test]
fn the_window_opens_with_the_data_that_comes() {
    const MSS: u64 = 1460;
    let mut pair = pair(1, Wire::default(), [true, true]);
    connect(&mut pair);
    pair.nodes[0].write(1, pattern(BYTES));
    pair.run_for(Duration::from_secs(20));
    let log = pair.log.take().unwrap();
    let scale = log.iter().find_map(|(_, from, sent)| sent.segment.options.window_scale.filter(|_| *from == 1)).unwrap();
    let (mut came, mut last) = (0, 0);
    for (_, from, sent) in log.iter().filter(|(_, _, sent)| !sent.segment.flags.contains(Flags::SYN)) {
        if *from == 0 {
            came += u64::from(!sent.payload.is_empty());
            continue;
        }
        last = u64::from(sent.segment.window) << scale;
        assert!(last <= 65536 + 2 * MSS * came + (1 << scale), "{last} after {came} segments");
    }
    assert!(last > 65536 + MSS * came, "{last} after {came} segments");
}
