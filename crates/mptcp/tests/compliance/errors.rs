//! Fall-back and errors (§3.7, §3.8).

use super::*;

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
