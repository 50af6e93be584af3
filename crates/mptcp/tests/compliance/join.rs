//! MP_JOIN (§3.2).

use super::*;

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

/// A pair whose server keeps nothing of a SYN.
fn by_cookies() -> Pair {
    let mut pair = joining();
    pair.nodes[1].tell("tcp", "syncookies", 2.into()).unwrap();
    pair
}

#[test]
fn a_join_that_is_answered_by_a_cookie_ends_as_any_other() {
    let mut pair = by_cookies();
    exchange(&mut pair);
    no_errors(&mut pair);
    let server = &mut pair.nodes[1];
    assert_eq!((counter(server, Counter::MPJoinSynRx), counter(server, Counter::MPJoinAckRx)), (1, 1), "{:?}", counters(server));
    assert!(share(&pair, 0) > 0.1 && share(&pair, 1) > 0.1);
}

#[test]
fn the_third_segment_is_said_again_until_the_fourth_comes() {
    // Where the server keeps nothing, nothing else brings it.
    for (mut pair, lost, side) in [(by_cookies(), 3, 0), (joining(), 3, 1), (joining(), 3, 0)] {
        let mut count = 0;
        pair.filter = Some(Box::new(move |from, on_wire| {
            let wanted = from == side && is_second(on_wire) && !is_syn(on_wire);
            count += usize::from(wanted);
            !wanted || count > lost
        }));
        connect(&mut pair);
        pair.run_for(Duration::from_millis(300));
        pair.nodes[0].write(1, pattern(100));
        pair.run_for(Duration::from_secs(20));
        let confirmed = connections(&mut pair.nodes[0])[0]["paths"][1]["confirmed"].as_bool();
        assert_eq!(confirmed, Some(true), "{side} {:?}", connections(&mut pair.nodes[0]));
        // Then it is said no more.
        let thirds = joins(&pair).iter().filter(|join| matches!(join, Join::Ack { .. })).count();
        pair.run_for(Duration::from_secs(500));
        assert_eq!(joins(&pair).iter().filter(|join| matches!(join, Join::Ack { .. })).count(), thirds);
    }
}

#[test]
fn the_answer_by_cookie_to_a_syn_that_comes_again_has_the_same_nonce() {
    let mut pair = by_cookies();
    let mut answers = 0;
    // The first two are lost.
    pair.filter = Some(Box::new(move |from, on_wire| {
        let answer = from == 1 && is_second(on_wire) && is_syn(on_wire);
        answers += usize::from(answer);
        !answer || answers > 2
    }));
    connect(&mut pair);
    pair.run_for(Duration::from_millis(300));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_secs(10));
    let nonces: Vec<u32> =
        joins(&pair).iter().filter_map(|join| if let Join::SynAck { nonce, .. } = join { Some(*nonce) } else { None }).collect();
    assert!(nonces.len() == 3 && nonces.iter().all(|nonce| *nonce == nonces[0]), "{nonces:?}");
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinAckRx), 1);
}

#[test]
fn joins_by_cookie_take_room_for_so_many_and_the_oldest_goes() {
    let mut pair = by_cookies();
    let forged = Rc::new(RefCell::new(None));
    let seen = forged.clone();
    let held = Rc::new(RefCell::new(true));
    let holds = held.clone();
    // The acknowledgments that end the client's join are lost, until others have come between.
    pair.filter = Some(Box::new(move |from, on_wire| {
        let of_join = from == 0 && is_second(on_wire);
        if of_join && is_syn(on_wire) && seen.borrow().is_none() {
            *seen.borrow_mut() = Some(on_wire.clone());
        }
        !(of_join && !is_syn(on_wire) && *holds.borrow())
    }));
    connect(&mut pair);
    pair.run_for(Duration::from_millis(300));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_millis(200));
    let on_wire = forged.borrow().clone().unwrap();
    for port in 0..1024 {
        let src = std::net::SocketAddr::new(on_wire.src.ip(), 5000 + port);
        let segment = Segment { src_port: 5000 + port, ..on_wire.segment.clone() };
        let bytes = support::common::encode(&segment, &[], src, on_wire.dst);
        pair.nodes[1].inject(&OnWire { segment, src, bytes, ..on_wire.clone() });
    }
    *held.borrow_mut() = false;
    pair.run_for(Duration::from_secs(10));
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinSynRx), 1025);
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinAckRx), 0);
    assert!(resets(&pair, 1).contains(&reset_reason::RESOURCES), "{:?}", resets(&pair, 1));
}

#[test]
fn a_join_reaches_its_connection_at_any_listener_that_shares_the_port() {
    // Which of several is asked about a SYN is a matter of its addresses: with eight of them it is another one, most of the time.
    let mut pair = joining();
    for flow in 2..9 {
        pair.nodes[1].listen(flow, "0.0.0.0:80", 16, StreamOptions::default());
    }
    exchange(&mut pair);
    no_errors(&mut pair);
    let server = &mut pair.nodes[1];
    assert_eq!((counter(server, Counter::MPJoinNoTokenFound), counter(server, Counter::MPJoinAckRx)), (0, 1), "{:?}", counters(server));
}

#[test]
fn a_listener_that_comes_later_is_one_to_join_at() {
    let mut pair = joining();
    pair.nodes[0].tell("mptcp", "endpoints", Value::Array(Vec::new())).unwrap();
    connect(&mut pair);
    pair.run_for(Duration::from_millis(300));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_millis(300));
    // The one that has accepted the connection is gone, and another one is there.
    pair.nodes[1].call(1, StreamCall::Close { unread: false, linger: None });
    pair.run_for(Duration::from_millis(10));
    pair.nodes[1].listen(2, "0.0.0.0:80", 16, StreamOptions::default());
    pair.nodes[0].tell("mptcp", "endpoints", ["10.0.1.1 subflow"].as_slice().into()).unwrap();
    pair.run_for(Duration::from_secs(1));
    assert_eq!(counter(&mut pair.nodes[1], Counter::MPJoinAckRx), 1, "{:?}", counters(&mut pair.nodes[1]));
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
