//! Connections over one path: both roles, and what is left where one side, or a box on the way, does not speak Multipath TCP.

mod support;

use support::common::OnWire;
use support::common::pair::Wire;
use support::*;
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
