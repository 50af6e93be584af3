//! ADD_ADDR and REMOVE_ADDR (§3.4).

use super::*;

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

/// A server whose second address is announced with another port.
fn at_a_port() -> Pair {
    two(2, wires(), &[], &["10.0.1.2 signal id 9 port 8080"])
}

/// Counters of a side.
fn each<const N: usize>(pair: &mut Pair, side: usize, wanted: [Counter; N]) -> [u64; N] {
    wanted.map(|of| counter(&mut pair.nodes[side], of))
}

#[test]
fn a_port_that_is_announced_is_listened_at_and_joined() {
    let mut pair = at_a_port();
    exchange(&mut pair);
    no_errors(&mut pair);
    let server = [Counter::MPJoinPortSynRx, Counter::MPJoinPortAckRx, Counter::MismatchPortSynRx];
    assert_eq!(each(&mut pair, 1, server), [1, 1, 0]);
    assert_eq!(each(&mut pair, 0, [Counter::MPJoinPortSynAckRx]), [1]);
    assert!(share(&pair, 0) > 0.1 && share(&pair, 1) > 0.1);
    let answers =
        joins(&pair).into_iter().find_map(|join| if let Join::SynAck { address_id, .. } = join { Some(address_id) } else { None });
    assert_eq!(answers, Some(9));
}

#[test]
fn at_an_announced_port_nothing_begins() {
    for multipath in [true, false] {
        let mut pair = at_a_port();
        if !multipath {
            pair.nodes[0].tell("mptcp", "enabled", false.into()).unwrap();
        }
        pair.nodes[0].connect(1, "10.0.1.1:1234", "10.0.1.2:8080", StreamOptions::default());
        pair.run_for(Duration::from_secs(1));
        let events = pair.app(0, |app, _| app.flow(FLOW).events.clone());
        assert!(events.iter().any(|event| event.starts_with("failed")), "{events:?}");
        assert_eq!(each(&mut pair, 1, [Counter::MPCapableEndpAttempt]), [1]);
    }
}

#[test]
fn at_a_port_that_was_not_announced_nobody_joins() {
    let mut pair = announcing();
    alter(&mut pair, 1, |_, message| (!matches!(message, Option30::AddAddr(_))).then_some(message));
    pair.nodes[1].listen(2, "0.0.0.0:8080", 16, StreamOptions::default());
    connect(&mut pair);
    pair.run_for(Duration::from_millis(200));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_millis(200));
    let (client, server) = keys(&pair);
    let (address, port) = ("10.0.1.2".parse().unwrap(), Some(8080));
    let add = AddAddr { address_id: 9, address, port, hmac: Some(address_hmac(server, client, 9, address, port)) };
    add_once(&mut pair, 1, 1, Option30::AddAddr(add));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_secs(2));
    assert_eq!(each(&mut pair, 1, [Counter::MismatchPortSynRx, Counter::MPJoinAckRx]), [1, 0]);
    assert_eq!(resets(&pair, 1), [reset_reason::PROHIBITED]);
}

#[test]
fn a_program_that_listens_at_an_announced_port_takes_the_joins_there_and_its_own_connections() {
    let mut pair = at_a_port();
    pair.nodes[1].listen(2, "0.0.0.0:8080", 16, StreamOptions::default());
    exchange(&mut pair);
    pair.nodes[0].connect(2, "10.0.1.1:1234", "10.0.1.2:8080", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(each(&mut pair, 1, [Counter::MPJoinPortAckRx, Counter::MPCapableEndpAttempt, Counter::MPCapableSYNRX]), [1, 0, 2]);
    // When it has gone, the block listens again.
    pair.nodes[1].call(2, StreamCall::Close { unread: false, linger: None });
    pair.run_for(Duration::from_millis(10));
    pair.nodes[0].connect(3, "10.0.1.1:1235", "10.0.1.2:8080", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(each(&mut pair, 1, [Counter::MPCapableEndpAttempt]), [1]);
}

#[test]
fn a_port_that_is_no_longer_announced_is_not_listened_at() {
    for (parameter, value) in [("endpoints", Value::Array(Vec::new())), ("enabled", false.into())] {
        is_not_listened_at_after(parameter, value);
    }
}

fn is_not_listened_at_after(parameter: &str, value: Value) {
    let mut pair = at_a_port();
    pair.nodes[1].tell("mptcp", parameter, value).unwrap();
    pair.nodes[0].connect(1, "10.0.1.1:1234", "10.0.1.2:8080", StreamOptions::default());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(each(&mut pair, 1, [Counter::MPCapableEndpAttempt]), [0]);
    let events = pair.app(0, |app, _| app.flow(FLOW).events.clone());
    assert!(events.iter().any(|event| event.starts_with("failed")), "{events:?}");
    assert_eq!(pair.nodes[1].population(), (0, 0, 0));
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
fn what_is_announced_again_is_echoed_again_and_not_dropped() {
    let mut pair = announcing();
    connect(&mut pair);
    pair.run_for(Duration::from_secs(1));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_millis(500));
    let [add] = announcements(&pair, 1)[..] else { panic!() };
    assert_eq!(announcements(&pair, 0).len(), 1);
    add_once(&mut pair, 1, 1, Option30::AddAddr(add));
    pair.nodes[0].write(1, pattern(100));
    pair.run_for(Duration::from_secs(2));
    assert_eq!(announcements(&pair, 0).len(), 2);
    let [dropped, joins] = [Counter::AddAddrDrop, Counter::MPJoinSynTx].map(|of| counter(&mut pair.nodes[0], of));
    assert_eq!((dropped, joins), (0, 1));
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
