//! Boxes on the way, at every point of a connection: what the programs send arrives, as Multipath TCP or as TCP, and nothing hangs.

use crate::support;

use support::common::pair::{Pair, Wire};
use support::common::{OnWire, pattern};
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::Flags;

fn is_second(on_wire: &OnWire) -> bool {
    [on_wire.src, on_wire.dst].iter().any(|end| end.to_string().starts_with("10.0.1."))
}

/// Takes MPTCP's options out.
fn strip(on_wire: &mut OnWire) {
    let kept: Vec<(u8, Vec<u8>)> =
        on_wire.segment.options.others().filter(|(kind, _)| *kind != 30).map(|(kind, data)| (kind, data.to_vec())).collect();
    on_wire.segment.options.others = Default::default();
    kept.iter().for_each(|(kind, data)| on_wire.segment.options.push_other(*kind, data).unwrap());
}

fn wire() -> Wire {
    Wire { loss: 0.005, rate: 10_000_000, queue: 60_000, ..Wire::default() }
}

fn with_checksums(pair: &mut Pair) {
    pair.nodes.iter_mut().for_each(|node| drop(node.tell("mptcp", "checksum", true.into()).unwrap()));
}

#[test]
fn options_are_taken_out_at_every_point_of_the_handshake_and_both_ways_after_it() {
    // Which segments lose them: by side, by step.
    type Point = fn(usize, &OnWire, u32) -> bool;
    let points: [(&str, Point); 9] = [
        ("SYN", |from, on_wire, _| from == 0 && on_wire.segment.flags.contains(Flags::SYN)),
        ("SYN|ACK", |from, on_wire, _| from == 1 && on_wire.segment.flags.contains(Flags::SYN)),
        ("all but SYN, from the client", |from, on_wire, _| from == 0 && !on_wire.segment.flags.contains(Flags::SYN)),
        ("all but SYN, from the server", |from, on_wire, _| from == 1 && !on_wire.segment.flags.contains(Flags::SYN)),
        ("all but SYN", |_, on_wire, _| !on_wire.segment.flags.contains(Flags::SYN)),
        ("data from the client", |from, on_wire, _| from == 0 && !on_wire.payload.is_empty()),
        ("data from the server", |from, on_wire, _| from == 1 && !on_wire.payload.is_empty()),
        ("all", |_, _, _| true),
        ("all after 40 segments", |_, _, number| number > 40),
    ];
    for (name, point) in points {
        for seed in 0..6 {
            for checksum in [false, true] {
                let mut pair = pair(seed, wire(), [true, true]);
                if checksum {
                    with_checksums(&mut pair);
                }
                let mut number = 0;
                pair.alter = Some(Box::new(move |from, on_wire| {
                    number += 1;
                    if point(from, on_wire, number) {
                        strip(on_wire);
                    }
                }));
                println!("{name}, seed {seed}, checksum {checksum}");
                exchange(&mut pair);
            }
        }
    }
}

/// One side sends, and when that has ended, the other.
fn in_turns(pair: &mut Pair) {
    connect(pair);
    pair.nodes[0].app(|app, _| app.flow(FLOW).shutdown_after = true);
    pair.nodes[0].write(1, pattern(BYTES));
    let has_ended = |pair: &mut Pair, node: usize, flow| {
        pair.app(node, |app, _| app.flow(flow).received.len() == BYTES && app.flow(flow).events.iter().any(|event| event == "halfclosed"))
    };
    let until = pair.now + Duration::from_secs(60);
    let child = |pair: &mut Pair| pair.accepted().unwrap();
    assert!(
        pair.run(until, |pair| pair.accepted().is_some_and(|flow| has_ended(pair, 1, flow))),
        "{:?}",
        pair.nodes.each_mut().map(counters)
    );
    let flow = child(pair);
    pair.nodes[1].app(|app, _| app.flow(flow).shutdown_after = true);
    pair.nodes[1].write(flow.0, pattern(BYTES));
    assert!(pair.run(until, |pair| has_ended(pair, 0, FLOW)), "{:?}", pair.nodes.each_mut().map(counters));
    pair.run_for(Duration::from_secs(200));
    for (node, flow) in [(0, FLOW), (1, flow)] {
        assert!(pair.app(node, |app, _| app.flow(flow).received == pattern(BYTES)), "{node}");
    }
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2]);
}

#[test]
fn options_that_vanish_while_one_side_sends_make_it_plain_tcp() {
    for sides in [&[0][..], &[1], &[0, 1]] {
        for (seed, after) in [(1, 20), (2, 60), (3, 150), (4, 260), (5, 400)] {
            for checksum in [false, true] {
                let mut pair = pair(seed, wire(), [true, true]);
                if checksum {
                    with_checksums(&mut pair);
                }
                let mut number = 0;
                pair.alter = Some(Box::new(move |from, on_wire| {
                    number += 1;
                    if number > after && sides.contains(&from) {
                        strip(on_wire);
                    }
                }));
                println!("from {sides:?}, after {after} segments, checksum {checksum}");
                in_turns(&mut pair);
            }
        }
    }
}

#[test]
fn a_connection_none_of_whose_acknowledgments_says_anything_is_ended() {
    for ways in [1, 2] {
        let mut pair = pair(1, wire(), [true, true]);
        pair.more.push([wire(), wire()]);
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        let clock = std::rc::Rc::new(std::cell::Cell::new(pair.now));
        let (now, begun) = (clock.clone(), pair.now + Duration::from_millis(300));
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == 1 && now.get() >= begun && (ways == 2 || is_second(on_wire)) {
                strip(on_wire);
            }
        }));
        connect(&mut pair);
        pair.nodes[0].write(1, pattern(10 * BYTES));
        pair.run(pair.now + Duration::from_secs(100), |pair| {
            clock.set(pair.now);
            false
        });
        let (child, silent) = (pair.accepted().unwrap(), counter(&mut pair.nodes[0], Counter::AllSilent));
        let ends = [(0, FLOW), (1, child)]
            .map(|(node, flow)| pair.app(node, |app, _| app.flow(flow).events.iter().any(|event| event.starts_with("failed"))));
        let received = pair.app(1, |app, _| app.flow(child).received.len());
        // With one way left everything arrives.
        assert_eq!((silent, ends, received == 10 * BYTES), if ways == 2 { (1, [true; 2], false) } else { (0, [false; 2], true) });
    }
}

#[test]
fn one_of_two_paths_loses_its_options() {
    for seed in 0..8 {
        let mut pair = pair(seed, wire(), [true, true]);
        pair.more.push([wire(), wire()]);
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        let begun = pair.now + Duration::from_millis(if seed % 2 == 0 { 0 } else { 120 });
        let clock = std::rc::Rc::new(std::cell::Cell::new(pair.now));
        let now = clock.clone();
        pair.alter = Some(Box::new(move |_, on_wire| {
            if is_second(on_wire) && now.get() >= begun {
                strip(on_wire);
            }
        }));
        exchange_and(&mut pair, |pair| clock.set(pair.now));
    }
}

#[test]
fn checksums_find_a_box_that_changes_data() {
    // With one path the programs get what the box made of it, as with TCP.
    for side in 0..2 {
        let mut pair = pair(1, Wire::default(), [true, true]);
        with_checksums(&mut pair);
        let mut number = 0;
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == side && on_wire.payload.len() > 100 {
                number += 1;
                if number == 30 {
                    on_wire.payload[50] ^= 1;
                }
            }
        }));
        exchange_with(&mut pair, |_| {}, 1);
        let found = &mut pair.nodes[1 - side];
        assert_eq!((counter(found, Counter::DataCsumErr), counter(found, Counter::MPFailTx)), (1, 1), "{side} {:?}", counters(found));
        assert_eq!(counter(&mut pair.nodes[side], Counter::MPFailRx), 1);
        assert_eq!(counter(&mut pair.nodes[side], Counter::InfiniteMapTx), 1);
    }
    // With two the path is given up, and the data is right.
    for seed in 0..8 {
        let mut pair = pair(seed, wire(), [true, true]);
        pair.more.push([wire(), wire()]);
        with_checksums(&mut pair);
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        pair.alter = Some(Box::new(move |_, on_wire| {
            if is_second(on_wire) && on_wire.payload.len() > 100 {
                // Added, not flipped: two flips in one mapping may come to the same sum.
                on_wire.payload[50] = on_wire.payload[50].wrapping_add(1);
            }
        }));
        exchange(&mut pair);
        let errors: u64 = pair.nodes.iter_mut().map(|node| counter(node, Counter::DataCsumErr)).sum();
        assert!(errors > 0);
    }
}

#[test]
fn checksums_that_are_right_change_nothing() {
    for seed in 0..8 {
        let mut pair = pair(seed, bad_wire(), [true, true]);
        pair.more.push([bad_wire(), bad_wire()]);
        pair.nodes[seed as usize % 2].tell("mptcp", "checksum", true.into()).unwrap();
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        exchange(&mut pair);
        for node in &mut pair.nodes {
            ERRORS.iter().for_each(|error| assert_eq!(counter(node, *error), 0, "{error:?} {:?}", counters(node)));
        }
    }
}

#[test]
fn ways_on_which_data_is_changed_are_not_tried_for_ever() {
    for side in 0..2 {
        let mut pair = pair(3, wire(), [true, true]);
        pair.more.push([wire(), wire()]);
        with_checksums(&mut pair);
        pair.nodes[0].tell("mptcp", "endpoints", vec!["10.0.1.1 subflow"].into()).unwrap();
        connect(&mut pair);
        pair.nodes[0].write(FLOW.0, pattern(100));
        pair.run_for(Duration::from_secs(2));
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == side && on_wire.payload.len() > 100 {
                on_wire.payload[50] = on_wire.payload[50].wrapping_add(1);
            }
        }));
        let child = pair.accepted().unwrap();
        pair.nodes[side].write([FLOW, child][side].0, pattern(BYTES));
        pair.run_for(Duration::from_secs(200));
        for (node, flow) in [(0, FLOW), (1, child)] {
            let events = pair.nodes[node].events(flow.0);
            assert!(
                events.iter().any(|event| event.starts_with("failed")),
                "{side} {node} {events:?} {:?}",
                pair.nodes.each_mut().map(counters)
            );
        }
        // The one that there was.
        assert_eq!(counter(&mut pair.nodes[0], Counter::MPJoinSynTx), 1, "{side}");
    }
}
