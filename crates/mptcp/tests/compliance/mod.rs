//! What RFC 8684 asks for, one test each; `docs/rfc/8684.md` says which is whose. A box on the way puts the wrong thing where that is needed.

mod addresses;
mod capable;
mod close;
mod data;
mod errors;
mod join;
use crate::support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use support::common::pair::{Pair, Wire};
use support::common::{OnWire, pattern};
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_mptcp::key::{Key, address_hmac, join_hmac, leftmost_64, leftmost_160};
use weft_wire::tcp::mptcp::{AddAddr, Capable, CapableFlags, DataSeq, Dss, Join, Keys, Mapping, Message as Option30, reset_reason};
use weft_wire::tcp::{Flags, Segment};

/// A path with one kind of change: what becomes of each option.
fn rewrite(on_wire: &mut OnWire, mut change: impl FnMut(Option30) -> Option<Option30>) {
    let kept: Vec<(u8, Vec<u8>)> = on_wire.segment.options.others().map(|(kind, data)| (kind, data.to_vec())).collect();
    on_wire.segment.options.others = Default::default();
    for (kind, data) in kept {
        match Option30::parse(&data).ok().filter(|_| kind == 30) {
            Some(message) => {
                if let Some(message) = change(message) {
                    on_wire.segment.options.push_mptcp(&message).unwrap();
                }
            }
            None => on_wire.segment.options.push_other(kind, &data).unwrap(),
        }
    }
}

fn is_second(on_wire: &OnWire) -> bool {
    [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with("10.0.1."))
}

fn is_syn(on_wire: &OnWire) -> bool {
    on_wire.segment.flags.contains(Flags::SYN)
}

/// Changes options that one side sends.
fn alter(pair: &mut Pair, side: usize, mut change: impl FnMut(&OnWire, Option30) -> Option<Option30> + 'static) {
    pair.alter = Some(Box::new(move |from, on_wire| {
        if from == side {
            let seen = on_wire.clone();
            rewrite(on_wire, |message| change(&seen, message));
        }
    }));
}

/// Puts an option on the segment of one side, without data, that has room for it and comes at this place.
fn add_once(pair: &mut Pair, side: usize, at: usize, message: Option30) {
    let mut number = 0;
    pair.alter = Some(Box::new(move |from, on_wire| {
        if from == side && !is_syn(on_wire) && on_wire.payload.is_empty() {
            number += 1;
            if number == at {
                on_wire.segment.options.others = Default::default();
                on_wire.segment.options.push_mptcp(&message).unwrap();
            }
        }
    }));
}

/// Options of what was logged, with side and segment.
fn said(pair: &Pair) -> Vec<(usize, OnWire, Option30)> {
    let log = pair.log.iter().flatten();
    log.flat_map(|(_, from, on_wire)| options(on_wire).into_iter().map(|message| (*from, on_wire.clone(), message))).collect()
}

fn capables(pair: &Pair) -> Vec<(usize, OnWire, Capable)> {
    let of = |(from, on_wire, message)| match message {
        Option30::Capable(capable) => Some((from, on_wire, capable)),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}

fn joins(pair: &Pair) -> Vec<Join> {
    let of = |(_, _, message)| match message {
        Option30::Join(join) => Some(join),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}

fn mappings(pair: &Pair) -> Vec<(usize, OnWire, Mapping, bool)> {
    let of = |(from, on_wire, message)| match message {
        Option30::Dss(Dss { mapping: Some(mapping), fin, .. }) => Some((from, on_wire, mapping, fin)),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}

/// The keys of a connection: the client's, the server's.
fn keys(pair: &Pair) -> (Key, Key) {
    let both = |(from, _, capable): (usize, OnWire, Capable)| match capable.keys {
        Keys::Both { sender, receiver } | Keys::WithData { sender, receiver, .. } if from == 0 => Some((Key(sender), Key(receiver))),
        _ => None,
    };
    capables(pair).into_iter().find_map(both).unwrap()
}

fn full(seq: DataSeq) -> u64 {
    match seq {
        DataSeq::Long(seq) => seq,
        DataSeq::Short(seq) => panic!("a short number: {seq}"),
    }
}

fn wires() -> [Wire; 2] {
    [slow(2_000_000, 10), slow(1_000_000, 30)]
}

fn one() -> Pair {
    pair(1, Wire::default(), [true, true])
}

fn joining() -> Pair {
    two(1, wires(), &["10.0.1.1 subflow"], &[])
}

fn is_plain(pair: &mut Pair) {
    let late = |on_wire: &OnWire| !is_syn(on_wire) && !on_wire.segment.flags.contains(Flags::RST);
    let with_data = |(_, on_wire, _): &(usize, OnWire, Option30)| late(on_wire) && !on_wire.payload.is_empty();
    assert!(!said(pair).iter().any(with_data), "{:?}", pair.nodes.each_mut().map(counters));
}

fn resets(pair: &Pair, side: usize) -> Vec<u8> {
    let of = |(from, on_wire, message): (usize, OnWire, Option30)| match message {
        Option30::Reset { reason, .. } if from == side && on_wire.segment.flags.contains(Flags::RST) => Some(reason),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}
