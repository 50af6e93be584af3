//! What RFC 8684 asks for, one test each; `docs/rfc/8684.md` says which is whose. A box on the way puts the wrong thing where that is needed.

mod support;

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

// §3.1 MP_CAPABLE

#[test]
fn every_connection_has_keys_of_its_own_with_tokens_of_their_own() {
    let mut pair = one();
    pair.nodes[1].listen(1, "0.0.0.0:80", 64, StreamOptions::default());
    for at in 0..30u64 {
        pair.nodes[0].connect(10 + at, &format!("10.0.0.1:{}", 2000 + at), "10.0.0.2:80", StreamOptions::default());
    }
    pair.run_for(Duration::from_secs(2));
    let mut tokens = BTreeMap::new();
    for (_, _, capable) in capables(&pair) {
        if let Keys::Both { sender, receiver } = capable.keys {
            *tokens.entry(Key(sender).token()).or_insert(0) += 1;
            *tokens.entry(Key(receiver).token()).or_insert(0) += 1;
        }
    }
    assert_eq!(tokens.len(), 60);
    assert!(tokens.values().all(|count| *count == 1));
}

#[test]
fn a_later_version_is_answered_with_version_1() {
    let mut pair = one();
    alter(&mut pair, 0, |on_wire, message| match message {
        Option30::Capable(capable) if is_syn(on_wire) => Some(Option30::Capable(Capable { version: 2, ..capable })),
        other => Some(other),
    });
    exchange(&mut pair);
    assert!(capables(&pair).iter().any(|(from, on_wire, capable)| *from == 1 && is_syn(on_wire) && capable.version == 1));
    no_errors(&mut pair);
}

#[test]
fn versions_that_it_does_not_speak_make_it_plain_tcp() {
    for (side, version) in [(0, 0), (1, 0), (1, 2)] {
        let mut pair = one();
        alter(&mut pair, side, move |on_wire, message| match message {
            Option30::Capable(capable) if is_syn(on_wire) => Some(Option30::Capable(Capable { version, ..capable })),
            other => Some(other),
        });
        exchange(&mut pair);
        is_plain(&mut pair);
    }
}

#[test]
fn flags_that_it_does_not_know_how_to_meet_make_it_plain_tcp() {
    for side in [0, 1] {
        for flags in [CapableFlags::empty(), CapableFlags::HMAC_SHA256 | CapableFlags::EXTENSION] {
            let mut pair = one();
            alter(&mut pair, side, move |on_wire, message| match message {
                Option30::Capable(capable) if is_syn(on_wire) => Some(Option30::Capable(Capable { flags, ..capable })),
                other => Some(other),
            });
            exchange(&mut pair);
            is_plain(&mut pair);
        }
    }
}

#[test]
fn checksums_go_with_all_data_of_both_if_either_side_asks_and_else_with_none() {
    for asks in [None, Some(0), Some(1)] {
        let mut pair = joining();
        if let Some(side) = asks {
            pair.nodes[side].tell("mptcp", "checksum", true.into()).unwrap();
        }
        exchange(&mut pair);
        let mappings = mappings(&pair);
        assert!(mappings.len() > 100);
        assert!(mappings.iter().all(|(_, _, mapping, _)| mapping.checksum.is_some() == asks.is_some()), "{asks:?}");
        for (_, _, capable) in capables(&pair) {
            if let Keys::WithData { checksum, .. } = capable.keys {
                assert_eq!(checksum.is_some(), asks.is_some());
            }
        }
        no_errors(&mut pair);
    }
}

#[test]
fn the_first_data_of_the_client_has_both_keys_and_its_length() {
    let mut pair = one();
    exchange(&mut pair);
    let (client, server) = keys(&pair);
    let (_, on_wire, first) = capables(&pair).into_iter().find(|(_, on_wire, _)| !on_wire.payload.is_empty()).unwrap();
    let Keys::WithData { sender, receiver, data_len, .. } = first.keys else { panic!("{first:?}") };
    assert_eq!((Key(sender), Key(receiver)), (client, server));
    // The mapping is that of the frame, which may become several segments.
    assert!(usize::from(data_len) >= on_wire.payload.len() && usize::from(data_len) % on_wire.payload.len() == 0);
}

#[test]
fn numbers_of_data_begin_behind_what_the_keys_say() {
    let mut pair = one();
    exchange(&mut pair);
    let (client, server) = keys(&pair);
    for (side, key) in [(0, client), (1, server)] {
        let of = mappings(&pair).into_iter().filter(|(from, _, mapping, _)| *from == side && mapping.subflow_seq > 0);
        for (_, _, mapping, _) in of {
            // One subflow: the distances are the same.
            assert_eq!(full(mapping.seq).wrapping_sub(key.first()), u64::from(mapping.subflow_seq) - 1);
        }
    }
}

#[test]
fn syns_that_get_no_answer_lose_the_option_at_last() {
    let mut pair = one();
    pair.filter = Some(Box::new(|_, on_wire| !is_syn(on_wire) || options(on_wire).is_empty()));
    exchange(&mut pair);
    let syns: Vec<bool> = pair
        .log
        .iter()
        .flatten()
        .filter(|(_, from, on_wire)| *from == 0 && is_syn(on_wire))
        .map(|(_, _, on_wire)| options(on_wire).is_empty())
        .collect();
    assert_eq!(syns, [false, false, false, true]);
}

#[test]
fn a_peer_that_denies_it_gets_no_subflow_to_its_first_address_but_to_others() {
    for others in [false, true] {
        let announced: &[&str] = if others { &["10.0.1.2 signal id 9"] } else { &[] };
        let mut pair = two(1, wires(), &["10.0.1.1 subflow"], announced);
        alter(&mut pair, 1, |on_wire, message| match message {
            Option30::Capable(capable) if is_syn(on_wire) => {
                Some(Option30::Capable(Capable { flags: capable.flags | CapableFlags::DENY_JOIN_ID0, ..capable }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        let log = pair.log.iter().flatten();
        let to: Vec<String> = log
            .filter(|(_, from, on_wire)| {
                *from == 0 && is_syn(on_wire) && options(on_wire).iter().any(|one| matches!(one, Option30::Join(_)))
            })
            .map(|(_, _, on_wire)| on_wire.dst.ip().to_string())
            .collect();
        assert!(to.iter().all(|to| to == "10.0.1.2") && to.is_empty() != others, "{to:?}");
    }
}

// §3.2 MP_JOIN

#[test]
fn a_join_has_the_peers_token_and_the_hmacs_that_both_keys_and_nonces_give() {
    let mut pair = joining();
    exchange(&mut pair);
    let (client, server) = keys(&pair);
    let [Join::Syn { token, nonce, .. }, Join::SynAck { hmac, nonce: answer, .. }, Join::Ack { hmac: proof }, ..] = joins(&pair)[..] else {
        panic!("{:?}", joins(&pair))
    };
    assert_eq!(token, server.token());
    assert_eq!(hmac, leftmost_64(&join_hmac(server, client, answer, nonce)));
    assert_eq!(proof, leftmost_160(&join_hmac(client, server, nonce, answer)));
    assert_ne!(nonce, answer);
}

/// Reasons of the resets that a side has sent.
fn resets(pair: &Pair, side: usize) -> Vec<u8> {
    let of = |(from, on_wire, message): (usize, OnWire, Option30)| match message {
        Option30::Reset { reason, .. } if from == side && on_wire.segment.flags.contains(Flags::RST) => Some(reason),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}

#[test]
fn a_join_of_an_unknown_token_is_reset_with_a_reason() {
    let mut pair = joining();
    alter(&mut pair, 0, |_, message| match message {
        Option30::Join(Join::Syn { backup, address_id, token, nonce }) => {
            Some(Option30::Join(Join::Syn { backup, address_id, token: token ^ 1, nonce }))
        }
        other => Some(other),
    });
    exchange(&mut pair);
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinNoTokenFound), 1);
    assert_eq!(resets(&pair, 1), [reset_reason::MPTCP]);
    assert_eq!(share(&pair, 0), 0.0);
}

#[test]
fn an_answer_to_a_join_with_a_wrong_hmac_is_reset_and_the_connection_goes_on() {
    let mut pair = joining();
    alter(&mut pair, 1, |_, message| match message {
        Option30::Join(Join::SynAck { backup, address_id, hmac, nonce }) => {
            Some(Option30::Join(Join::SynAck { backup, address_id, hmac: hmac ^ 1 << 63, nonce }))
        }
        other => Some(other),
    });
    exchange(&mut pair);
    assert_eq!(counter(&mut pair.nodes[0], Counter::MPJoinSynAckHMacFailure), 1);
    assert_eq!(resets(&pair, 0), [reset_reason::MPTCP]);
    assert_eq!((share(&pair, 0), share(&pair, 1)), (0.0, 0.0));
}

#[test]
fn the_last_segment_of_a_join_with_a_wrong_hmac_is_reset_and_the_connection_goes_on() {
    let mut pair = joining();
    alter(&mut pair, 0, |_, message| match message {
        Option30::Join(Join::Ack { mut hmac }) => {
            hmac[19] ^= 1;
            Some(Option30::Join(Join::Ack { hmac }))
        }
        other => Some(other),
    });
    exchange(&mut pair);
    assert!(counter(&mut pair.nodes[1], Counter::MPJoinAckHMacFailure) > 0);
    assert_eq!(resets(&pair, 1)[0], reset_reason::MPTCP);
    assert_eq!((share(&pair, 0), share(&pair, 1)), (0.0, 0.0));
}

#[test]
fn a_join_whose_answers_lack_the_option_is_reset_and_the_connection_goes_on() {
    for (side, syn) in [(1, true), (0, false)] {
        let mut pair = joining();
        alter(&mut pair, side, move |on_wire, message| (!is_second(on_wire) || is_syn(on_wire) != syn).then_some(message));
        exchange(&mut pair);
        assert!(!resets(&pair, 1 - side).is_empty());
        assert_eq!((share(&pair, 0), share(&pair, 1)), (0.0, 0.0), "{side}");
    }
}

#[test]
fn a_join_that_is_refused_by_a_limit_is_reset_with_a_reason() {
    let mut pair = joining();
    pair.nodes[1].tell("mptcp", "subflows", 0.into()).unwrap();
    exchange(&mut pair);
    assert_eq!(resets(&pair, 1), [reset_reason::PROHIBITED]);
}

#[test]
fn a_subflow_that_joins_carries_no_data_before_the_fourth_segment_has_come() {
    for drops in [0, 3] {
        let mut pair = joining();
        let mut dropped = 0;
        pair.filter = Some(Box::new(move |from, on_wire| {
            let fourth = from == 1 && is_second(on_wire) && !is_syn(on_wire);
            dropped += usize::from(fourth);
            !fourth || dropped > drops
        }));
        exchange_and(&mut pair, |_| {});
        let second = |side: usize, wanted: fn(&OnWire) -> bool| {
            let mut log = pair.log.iter().flatten();
            log.find(|(_, from, on_wire)| *from == side && is_second(on_wire) && wanted(on_wire)).map(|(at, _, _)| *at).unwrap()
        };
        let fourth = second(1, |on_wire| !is_syn(on_wire));
        let data = second(0, |on_wire| !on_wire.payload.is_empty());
        assert!(data >= fourth + Duration::from_millis(30), "{data:?} {fourth:?}");
    }
}

#[test]
fn joins_that_end_in_nothing_leave_room_for_those_that_come() {
    let mut pair = joining();
    // Somebody who has seen the token begins joins, and never ends them.
    let forged = Rc::new(RefCell::new(None));
    let seen = forged.clone();
    pair.filter = Some(Box::new(move |from, on_wire| {
        let join = from == 0 && is_second(on_wire) && is_syn(on_wire);
        if join && seen.borrow().is_none() {
            *seen.borrow_mut() = Some(on_wire.clone());
            return false;
        }
        true
    }));
    let mut done = false;
    exchange_and(&mut pair, |pair| {
        if let Some(on_wire) = forged.borrow().as_ref().filter(|_| !done) {
            for port in 0..20 {
                let src = std::net::SocketAddr::new(on_wire.src.ip(), 5000 + port);
                let segment = Segment { src_port: 5000 + port, ..on_wire.segment.clone() };
                let bytes = support::common::encode(&segment, &[], src, on_wire.dst);
                pair.nodes[1].inject(&OnWire { segment, src, bytes, ..on_wire.clone() });
            }
            done = true;
        }
    });
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinSynRx), 21);
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinAckRx), 1, "{:?}", counters(&mut pair.nodes[1]));
}

// §3.3 DSS

#[test]
fn a_byte_of_a_subflow_has_one_mapping_for_ever() {
    for seed in 0..4 {
        let bad = |wire: Wire| Wire { loss: 0.03, reorder: 0.05, late: Duration::from_millis(5), ..wire };
        let mut pair = two(seed, wires().map(bad), &["10.0.1.1 subflow"], &[]);
        exchange(&mut pair);
        let mut known: BTreeMap<(usize, u16, u16, u32), u64> = BTreeMap::new();
        let mut again = 0;
        for (from, on_wire, mapping, _) in mappings(&pair).into_iter().filter(|(_, _, mapping, _)| mapping.subflow_seq > 0) {
            for at in (0..u32::from(mapping.len)).step_by(100) {
                let flow = (from, on_wire.src.port(), on_wire.dst.port(), mapping.subflow_seq + at);
                let number = full(mapping.seq).wrapping_add(at.into());
                again += usize::from(known.contains_key(&flow));
                assert_eq!(*known.entry(flow).or_insert(number), number);
            }
        }
        assert!(again > 0);
    }
}

#[test]
fn acknowledgments_of_data_never_go_back() {
    let bad = |wire: Wire| Wire { loss: 0.02, reorder: 0.05, late: Duration::from_millis(5), ..wire };
    let mut pair = two(3, wires().map(bad), &["10.0.1.1 subflow"], &[]);
    exchange(&mut pair);
    let mut last: BTreeMap<(usize, u16, u16), u32> = BTreeMap::new();
    for (from, on_wire, message) in said(&pair) {
        if let Option30::Dss(Dss { ack: Some(ack), .. }) = message {
            let low = match ack {
                DataSeq::Short(low) => low,
                DataSeq::Long(long) => long as u32,
            };
            let known = last.entry((from, on_wire.src.port(), on_wire.dst.port())).or_insert(low);
            assert!(low.wrapping_sub(*known) as i32 >= 0);
            *known = low;
        }
    }
    assert_eq!(last.len(), 4);
}

#[test]
fn numbers_of_both_lengths_are_taken() {
    for side in 0..2 {
        let mut pair = joining();
        alter(&mut pair, side, |_, message| match message {
            Option30::Dss(dss) => {
                let mapping = dss.mapping.map(|mapping| Mapping { seq: DataSeq::Short(full(mapping.seq) as u32), ..mapping });
                Some(Option30::Dss(Dss { mapping, ..dss }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        no_errors(&mut pair);
        // Whoever gets short numbers answers in kind, and whoever gets long ones in long ones.
        let long = |from: usize| {
            let acks = said(&pair).into_iter().filter_map(move |(side, _, message)| match message {
                Option30::Dss(Dss { ack: Some(ack), .. }) if side == from => Some(matches!(ack, DataSeq::Long(_))),
                _ => None,
            });
            acks.filter(|long| *long).count()
        };
        assert_eq!(long(1 - side), 0);
        assert!(long(side) > 50);
    }
}

#[test]
fn no_data_goes_beyond_the_window_of_the_connection() {
    let mut pair = two(5, wires(), &["10.0.1.1 subflow"], &[]);
    connect(&mut pair);
    pair.nodes[1].app(|app, _| app.holds = true);
    pair.nodes[0].write(1, pattern(2_000_000));
    pair.run_for(Duration::from_secs(60));
    let (client, _) = keys(&pair);
    let scale =
        pair.log.iter().flatten().find(|(_, from, on_wire)| *from == 1 && is_syn(on_wire)).unwrap().2.segment.options.window_scale.unwrap();
    let (mut edge, mut farthest) = (65_535_u64, 0);
    for (from, on_wire, message) in said(&pair) {
        match message {
            Option30::Dss(Dss { ack: Some(ack), .. }) if from == 1 => {
                let low = match ack {
                    DataSeq::Short(low) => low,
                    DataSeq::Long(long) => long as u32,
                };
                let at = u64::from(low.wrapping_sub(client.first() as u32));
                edge = edge.max(at + (u64::from(on_wire.segment.window) << scale));
            }
            Option30::Dss(Dss { mapping: Some(mapping), .. }) if from == 0 => {
                let end = full(mapping.seq).wrapping_sub(client.first()) + u64::from(mapping.len);
                assert!(end <= edge, "{end} {edge}");
                farthest = farthest.max(end);
            }
            _ => {}
        }
    }
    // It was the window that stopped it.
    assert!(farthest < 2_000_000 && farthest + 20_000 > edge, "{farthest} {edge}");
    assert!(share(&pair, 0) > 0.05);
}

#[test]
fn data_before_the_first_and_far_behind_the_window_is_dropped() {
    // Mappings that lie: the subflow has the data, the connection does not take it, and the sender says it again elsewhere.
    for by in [1_u64 << 40, (1_u64 << 40).wrapping_neg()] {
        let mut pair = joining();
        let mut chosen = None;
        alter(&mut pair, 0, move |on_wire, message| match message {
            Option30::Dss(Dss { ack, mapping: Some(mapping), fin }) if !on_wire.payload.is_empty() && is_second(on_wire) => {
                if mapping.subflow_seq > 5000 {
                    chosen.get_or_insert(mapping.subflow_seq);
                }
                let lies = chosen == Some(mapping.subflow_seq);
                let seq = if lies { DataSeq::Long(full(mapping.seq).wrapping_add(by)) } else { mapping.seq };
                Some(Option30::Dss(Dss { ack, mapping: Some(Mapping { seq, ..mapping }), fin }))
            }
            other => Some(other),
        });
        exchange(&mut pair);
        assert!(counter(&mut pair.nodes[1], Counter::NoDSSInWindow) > 0, "{:?}", counters(&mut pair.nodes[1]));
        let again = [Counter::MPTCPRetrans, Counter::OpportunisticTx].map(|one| counter(&mut pair.nodes[0], one));
        assert!(again.iter().sum::<u64>() > 0);
    }
}

#[test]
fn the_end_is_told_without_data_by_number_0_and_length_1() {
    let mut pair = one();
    exchange(&mut pair);
    for (side, key) in [(0, keys(&pair).0), (1, keys(&pair).1)] {
        let ends: Vec<Mapping> = mappings(&pair).into_iter().filter(|(from, _, _, fin)| *from == side && *fin).map(|one| one.2).collect();
        assert!(!ends.is_empty());
        assert!(ends.iter().all(|end| (end.subflow_seq, end.len, full(end.seq)) == (0, 1, key.first().wrapping_add(BYTES as u64))));
        let acknowledged = said(&pair).into_iter().any(|(from, _, message)| {
            let low = key.first().wrapping_add(BYTES as u64 + 1) as u32;
            from != side && matches!(message, Option30::Dss(Dss { ack: Some(DataSeq::Short(ack)), .. }) if ack == low)
                || matches!(message, Option30::Dss(Dss { ack: Some(DataSeq::Long(ack)), .. }) if ack as u32 == low)
        });
        assert!(acknowledged);
    }
}

#[test]
fn the_end_is_said_again_until_it_is_acknowledged_and_subflows_end_after_that() {
    let mut pair = joining();
    let mut lost = 0;
    pair.filter = Some(Box::new(move |_, on_wire| {
        let end = options(on_wire).iter().any(|message| matches!(message, Option30::Dss(Dss { fin: true, .. })));
        lost += usize::from(end);
        !end || lost > 4
    }));
    exchange(&mut pair);
    no_errors(&mut pair);
    for side in 0..2 {
        let log: Vec<_> = pair.log.iter().flatten().filter(|(_, from, _)| *from == side).collect();
        let end = |on_wire: &OnWire| options(on_wire).iter().any(|message| matches!(message, Option30::Dss(Dss { fin: true, .. })));
        let last_end = log.iter().rposition(|(_, _, on_wire)| end(on_wire)).unwrap();
        let first_fin = log.iter().position(|(_, _, on_wire)| on_wire.segment.flags.contains(Flags::FIN)).unwrap();
        assert!(last_end < first_fin);
    }
    assert!(mappings(&pair).iter().filter(|(_, _, _, fin)| *fin).count() > 4);
}

#[test]
fn an_end_that_comes_with_the_last_data_is_taken() {
    // weft says it alone; others put it on their last data.
    for checksum in [false, true] {
        let mut pair = one();
        pair.nodes[0].tell("mptcp", "checksum", checksum.into()).unwrap();
        let first = Rc::new(RefCell::new(0));
        alter(&mut pair, 0, move |on_wire, message| {
            if let Option30::Capable(Capable { keys: Keys::Both { sender, .. }, .. }) = message {
                *first.borrow_mut() = Key(sender).first();
            }
            match message {
                Option30::Dss(Dss { ack, mapping: Some(mapping), fin: false }) if !on_wire.payload.is_empty() => {
                    let end = full(mapping.seq).wrapping_add(mapping.len.into()).wrapping_sub(*first.borrow());
                    let is_last = end == BYTES as u64;
                    let len = mapping.len + u16::from(is_last);
                    // One more in what is summed.
                    let sum = mapping.checksum.map(|sum| if is_last { ones_less(sum) } else { sum });
                    Some(Option30::Dss(Dss { ack, mapping: Some(Mapping { len, checksum: sum, ..mapping }), fin: is_last }))
                }
                Option30::Dss(Dss { ack, fin: true, .. }) => Some(Option30::Dss(Dss { ack, mapping: None, fin: false })),
                other => Some(other),
            }
        });
        exchange(&mut pair);
        no_errors(&mut pair);
    }
}

/// A checksum whose sum has become one more.
fn ones_less(sum: u16) -> u16 {
    if sum == 0 { 0xfffe } else { sum - 1 }
}

#[test]
fn a_reset_of_one_subflow_does_not_end_the_connection() {
    let mut pair = joining();
    let mut number = 0;
    pair.alter = Some(Box::new(move |_, on_wire| {
        number += usize::from(is_second(on_wire) && !is_syn(on_wire));
        if number == 20 && is_second(on_wire) {
            number += 1;
            on_wire.segment.flags = Flags::RST | Flags::ACK;
            on_wire.segment.options.others = Default::default();
            on_wire.payload.clear();
        }
    }));
    exchange(&mut pair);
}

#[test]
fn a_subflow_that_the_peer_wants_as_a_backup_gets_no_more_data() {
    for says in [true, false] {
        let mut pair = joining();
        let told = Rc::new(RefCell::new(0));
        let count = told.clone();
        // The server says so on the second wire.
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == 1 && is_second(on_wire) && !is_syn(on_wire) && on_wire.payload.is_empty() {
                *count.borrow_mut() += 1;
                if *count.borrow() == 3 && says {
                    on_wire.segment.options.others = Default::default();
                    on_wire.segment.options.push_mptcp(&Option30::Prio { backup: true }).unwrap();
                }
            }
        }));
        let mut at = None;
        exchange_and(&mut pair, |pair| {
            if *told.borrow() >= 3 {
                at.get_or_insert(pair.now);
            }
        });
        assert_eq!(counter(&mut pair.nodes[0], Counter::MPPrioRx), u64::from(says));
        // What its tcp has already goes.
        let late = at.unwrap() + Duration::from_millis(400);
        let data =
            |(at, from, on_wire): &&(Instant, usize, OnWire)| *at > late && *from == 0 && is_second(on_wire) && !on_wire.payload.is_empty();
        let after = pair.log.iter().flatten().filter(data).count();
        assert_eq!(after == 0, says, "{after}");
    }
}

// §3.4 addresses

fn announcing() -> Pair {
    two(2, wires(), &[], &["10.0.1.2 signal id 9"])
}

fn announcements(pair: &Pair, side: usize) -> Vec<AddAddr> {
    let of = |(from, _, message)| match message {
        Option30::AddAddr(add) if from == side => Some(add),
        _ => None,
    };
    said(pair).into_iter().filter_map(of).collect()
}

#[test]
fn an_announcement_has_its_hmac_and_its_echo_says_the_same_without() {
    let mut pair = announcing();
    exchange(&mut pair);
    let (client, server) = keys(&pair);
    let [add] = announcements(&pair, 1)[..] else { panic!() };
    assert_eq!((add.address_id, add.address.to_string().as_str()), (9, "10.0.1.2"));
    assert_eq!(add.hmac, Some(address_hmac(server, client, 9, add.address, add.port)));
    assert_eq!(announcements(&pair, 0), [AddAddr { hmac: None, ..add }]);
}

#[test]
fn an_address_with_a_wrong_hmac_is_neither_used_nor_echoed() {
    let mut pair = announcing();
    alter(&mut pair, 1, |_, message| match message {
        Option30::AddAddr(add) => Some(Option30::AddAddr(AddAddr { hmac: add.hmac.map(|hmac| hmac ^ 1), ..add })),
        other => Some(other),
    });
    exchange(&mut pair);
    assert!(counter(&mut pair.nodes[0], Counter::AddAddrDrop) > 0);
    assert!(announcements(&pair, 0).is_empty() && joins(&pair).is_empty());
}

#[test]
fn an_address_is_announced_again_until_it_is_echoed_and_not_for_ever() {
    let mut pair = announcing();
    alter(&mut pair, 0, |_, message| (!matches!(message, Option30::AddAddr(_))).then_some(message));
    connect(&mut pair);
    pair.run_for(Duration::from_millis(200));
    pair.nodes[0].write(1, pattern(1000));
    pair.run_for(Duration::from_secs(1000));
    assert_eq!(announcements(&pair, 1).len(), 3);
}

#[test]
fn an_address_that_is_told_twice_is_not_joined_twice() {
    let mut pair = announcing();
    let mut seen = None;
    pair.alter = Some(Box::new(move |from, on_wire| {
        let bare = from == 1 && on_wire.payload.is_empty() && !is_syn(on_wire) && !is_second(on_wire);
        if let Some(add) = options(on_wire).into_iter().find(|message| matches!(message, Option30::AddAddr(_))).filter(|_| from == 1) {
            seen = Some(add);
        } else if let Some(add) = seen.as_ref().filter(|_| bare) {
            on_wire.segment.options.others = Default::default();
            on_wire.segment.options.push_mptcp(add).unwrap();
        }
    }));
    exchange(&mut pair);
    assert!(counter(&mut pair.nodes[0], Counter::AddAddr) > 3);
    assert_eq!(counter(&mut pair.nodes[0], Counter::MPJoinSynTx), 1);
}

#[test]
fn an_address_that_is_nobodys_is_echoed_and_not_joined() {
    for (address, port) in [("255.255.255.255", None), ("224.0.0.9", None), ("127.0.0.1", None), ("0.0.0.0", None), ("10.0.1.2", Some(0))] {
        let mut pair = announcing();
        connect(&mut pair);
        pair.run_for(Duration::from_secs(1));
        pair.nodes[0].write(1, pattern(100));
        pair.run_for(Duration::from_millis(5));
        let (client, server) = keys(&pair);
        let address: std::net::IpAddr = address.parse().unwrap();
        let hmac = Some(address_hmac(server, client, 77, address, port));
        let before = announcements(&pair, 0).len();
        let add = Option30::AddAddr(AddAddr { address_id: 77, address, port, hmac });
        let dropped = counter(&mut pair.nodes[0], Counter::AddAddrDrop);
        add_once(&mut pair, 1, 1, add);
        pair.run_for(Duration::from_secs(2));
        assert_eq!(counter(&mut pair.nodes[0], Counter::AddAddrDrop), dropped + 1);
        assert!(announcements(&pair, 0).len() > before);
        // The one that is somebody's is.
        assert!(counter(&mut pair.nodes[0], Counter::MPJoinSynTx) <= 1);
    }
}

#[test]
fn the_removal_of_an_address_that_nobody_knows_is_ignored() {
    let mut pair = joining();
    let ids = [77_u8, 200].into_iter().collect();
    add_once(&mut pair, 1, 10, Option30::RemoveAddr { ids });
    exchange(&mut pair);
    let client = &mut pair.nodes[0];
    assert_eq!((counter(client, Counter::RmAddr), counter(client, Counter::RmSubflow)), (1, 0));
    assert!(share(&pair, 0) > 0.1);
}

#[test]
fn the_removal_of_an_address_ends_the_subflows_that_go_there() {
    let mut pair = announcing();
    let ids = [9_u8].into_iter().collect();
    add_once(&mut pair, 1, 40, Option30::RemoveAddr { ids });
    exchange(&mut pair);
    assert_eq!(counter(&mut pair.nodes[0], Counter::RmSubflow), 1);
}

// §3.5 and §3.6: MP_FASTCLOSE, MP_TCPRST

#[test]
fn a_fast_close_with_a_wrong_key_is_ignored() {
    for side in 0..2 {
        let mut pair = joining();
        add_once(&mut pair, side, 10, Option30::FastClose { receiver_key: 0x1234 });
        exchange(&mut pair);
        assert_eq!(counter(&mut pair.nodes[1 - side], Counter::BadOptions), 1);
        assert_eq!(counter(&mut pair.nodes[1 - side], Counter::MPFastcloseRx), 0);
    }
}

#[test]
fn a_fast_close_has_the_receivers_key_and_resets_all_subflows_of_the_peer() {
    let mut pair = joining();
    connect(&mut pair);
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].write(1, pattern(500_000));
    pair.run_for(Duration::from_millis(500));
    pair.nodes[0].call(1, StreamCall::Abort);
    pair.run_for(Duration::from_secs(1));
    let (_, server) = keys(&pair);
    let closes: Vec<u64> = said(&pair)
        .into_iter()
        .filter_map(|(_, _, message)| match message {
            Option30::FastClose { receiver_key } => Some(receiver_key),
            _ => None,
        })
        .collect();
    assert!(closes.len() == 2 && closes.iter().all(|key| *key == server.0), "{closes:?}");
    let child = pair.accepted().unwrap();
    let events = pair.nodes[1].events(child.0);
    assert!(events.contains(&"failed reset".to_owned()) && events.last() == Some(&"released".to_owned()), "{events:?}");
    assert_eq!(pair.nodes.each_mut().map(population), [0, 0]);
}

#[test]
fn a_reason_of_a_reset_on_anything_but_a_reset_is_ignored() {
    let mut pair = joining();
    add_once(&mut pair, 1, 10, Option30::Reset { flags: Default::default(), reason: 3 });
    exchange(&mut pair);
    let client = &mut pair.nodes[0];
    assert_eq!((counter(client, Counter::BadOptions), counter(client, Counter::MPRstRx)), (1, 0));
    assert!(share(&pair, 0) > 0.1);
}

// §3.7 fall-back, §3.8 errors

#[test]
fn an_infinite_mapping_is_the_last_option_of_whoever_sends_it() {
    let mut pair = one();
    pair.nodes.iter_mut().for_each(|node| drop(node.tell("mptcp", "checksum", true.into()).unwrap()));
    let mut number = 0;
    pair.alter = Some(Box::new(move |from, on_wire| {
        if from == 0 && on_wire.payload.len() > 100 {
            number += 1;
            if number == 30 {
                on_wire.payload[50] ^= 1;
            }
        }
    }));
    exchange_with(&mut pair, |_| {}, 1);
    let log: Vec<&OnWire> = pair.log.iter().flatten().filter(|(_, from, _)| *from == 0).map(|(_, _, on_wire)| on_wire).collect();
    let infinite = |on_wire: &OnWire| {
        options(on_wire).iter().any(|message| matches!(message, Option30::Dss(Dss { mapping: Some(Mapping { len: 0, .. }), .. })))
    };
    let at = log.iter().position(|on_wire| infinite(on_wire)).unwrap();
    assert!(log[at + 1..].iter().any(|on_wire| !on_wire.payload.is_empty()));
    let after = log[at].segment.seq + 1;
    // The frame that says so may have become several segments.
    let new = log[at + 1..].iter().filter(|on_wire| !infinite(on_wire) && on_wire.segment.seq - after >= 0);
    let with: Vec<_> =
        new.filter(|on_wire| !options(on_wire).is_empty()).map(|on_wire| (on_wire.segment.flags, options(on_wire))).collect();
    assert!(with.is_empty(), "{with:?}");
}

#[test]
fn a_wrong_checksum_on_one_of_two_subflows_is_told_by_mp_fail_and_the_subflow_is_reset() {
    let mut pair = joining();
    pair.nodes[0].tell("mptcp", "checksum", true.into()).unwrap();
    let mut number = 0;
    pair.alter = Some(Box::new(move |from, on_wire| {
        if from == 0 && is_second(on_wire) && on_wire.payload.len() > 100 {
            number += 1;
            if number == 10 {
                on_wire.payload[50] ^= 1;
            }
        }
    }));
    exchange(&mut pair);
    let failed =
        |(from, on_wire, message): &(usize, OnWire, Option30)| *from == 1 && is_second(on_wire) && matches!(message, Option30::Fail { .. });
    assert_eq!(said(&pair).iter().filter(|one| failed(one)).count(), 1);
    assert!(resets(&pair, 1).contains(&reset_reason::MIDDLEBOX));
    let server = &mut pair.nodes[1];
    assert_eq!((counter(server, Counter::DataCsumErr), counter(server, Counter::DSSCorruptionReset)), (1, 1));
}

#[test]
fn a_connection_that_becomes_plain_tcp_ends_the_joins_that_it_has_begun() {
    let mut pair = joining();
    // Nobody answers the join; the first wire loses its options from some time on.
    pair.filter = Some(Box::new(|from, on_wire| from == 0 || !is_second(on_wire)));
    let mut number = 0;
    pair.alter = Some(Box::new(move |_, on_wire| {
        number += 1;
        if number > 60 && !is_second(on_wire) {
            rewrite(on_wire, |_| None);
        }
    }));
    exchange(&mut pair);
    let later = |(_, from, on_wire): &&(Instant, usize, OnWire)| *from == 0 && is_second(on_wire);
    let joins = pair.log.iter().flatten().filter(later).count();
    assert!((1..4).contains(&joins), "{joins}");
}

#[test]
fn options_of_unknown_subtypes_and_of_wrong_lengths_are_ignored() {
    for side in 0..2 {
        let mut pair = joining();
        let mut number = 0;
        pair.alter = Some(Box::new(move |from, on_wire| {
            if from == side && on_wire.payload.is_empty() && !is_syn(on_wire) {
                number += 1;
                let data: &[u8] = match number % 7 {
                    3 => &[0xf0, 1, 2, 3],
                    5 => &[0x20],
                    _ => return,
                };
                let _ = on_wire.segment.options.push_other(30, data);
            }
        }));
        exchange(&mut pair);
        assert!(counter(&mut pair.nodes[1 - side], Counter::BadOptions) > 3);
        assert!(share(&pair, 0) > 0.1);
    }
}

#[test]
fn a_join_and_a_capable_in_one_syn_are_neither() {
    let mut pair = one();
    pair.alter = Some(Box::new(|from, on_wire| {
        if from == 0 && is_syn(on_wire) {
            let join = Option30::Join(Join::Syn { backup: false, address_id: 1, token: 5, nonce: 6 });
            on_wire.segment.options.push_mptcp(&join).unwrap();
        }
    }));
    exchange(&mut pair);
    is_plain(&mut pair);
    assert_eq!(counter(&mut pair.nodes[0], Counter::MPCapableFallbackSYNACK), 1);
}
