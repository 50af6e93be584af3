//! MP_CAPABLE (§3.1).

use super::*;

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
    // The mapping is of all the data that there was: each of its segments says so until the peer has answered.
    let with_data: Vec<_> = capables(&pair).into_iter().filter(|(_, on_wire, _)| !on_wire.payload.is_empty()).collect();
    let said: Vec<u16> = with_data
        .iter()
        .map(|(_, _, capable)| {
            let Keys::WithData { sender, receiver, data_len, .. } = capable.keys else { panic!("{capable:?}") };
            assert_eq!((Key(sender), Key(receiver)), (client, server));
            data_len
        })
        .collect();
    let first = with_data[0].1.segment.seq;
    assert!(with_data.len() > 1 && said.iter().all(|len| *len == said[0]), "{said:?}");
    assert!(with_data.iter().all(|(_, on_wire, _)| on_wire.segment.seq - first < i32::from(said[0])));
}

#[test]
fn any_segment_of_the_first_data_ends_the_handshake() {
    let mut pair = one();
    // The acknowledgment of SYN|ACK is lost, and the first segment of data is.
    let mut lost = 0;
    pair.filter = Some(Box::new(move |from, on_wire| {
        let loses = from == 0 && !is_syn(on_wire) && lost < 2;
        lost += usize::from(loses);
        !loses
    }));
    exchange(&mut pair);
    let server = &mut pair.nodes[1];
    assert_eq!((counter(server, Counter::MPCapableACKRX), counter(server, Counter::MPCapableFallbackACK)), (1, 0));
    no_errors(&mut pair);
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
fn flag_c_goes_with_every_mp_capable_of_a_side_that_wants_no_subflow_to_its_first_address() {
    for side in [0, 1] {
        let mut pair = joining();
        pair.nodes[side].tell("mptcp", "allow_join_initial_address", false.into()).unwrap();
        exchange(&mut pair);
        no_errors(&mut pair);
        let capables = capables(&pair);
        let denies = |capable: &Capable| capable.flags.contains(CapableFlags::DENY_JOIN_ID0);
        assert!(capables.iter().any(|(from, ..)| *from == side));
        assert!(capables.iter().all(|(from, _, capable)| denies(capable) == (*from == side)), "{capables:?}");
        // The client opens them.
        assert_eq!(joins(&pair).is_empty(), side == 1);
    }
}

#[test]
fn listeners_that_are_there_hear_what_is_asked_for_from_now_on() {
    let mut pair = one();
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions::default());
    for (at, on) in [true, false].into_iter().enumerate() {
        pair.nodes[1].tell("mptcp", "allow_join_initial_address", (!on).into()).unwrap();
        pair.nodes[1].tell("mptcp", "checksum", on.into()).unwrap();
        pair.log = Some(Vec::new());
        pair.nodes[0].connect(10 + at as u64, &format!("10.0.0.1:{}", 2000 + at), "10.0.0.2:80", StreamOptions::default());
        pair.run_for(Duration::from_secs(1));
        let wanted = CapableFlags::DENY_JOIN_ID0 | CapableFlags::CHECKSUM;
        let said: Vec<CapableFlags> =
            capables(&pair).iter().filter(|(from, ..)| *from == 1).map(|(.., capable)| capable.flags & wanted).collect();
        assert_eq!(said, [if on { wanted } else { CapableFlags::empty() }]);
    }
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
