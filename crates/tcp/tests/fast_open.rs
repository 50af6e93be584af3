//! Fast Open (RFC 7413) between two nodes: data on the SYN and behind the SYN|ACK, what becomes of it when it is lost or not wanted, and the
//! bounds of a server.

use crate::common;

use common::pair::{Pair, Wire};
use common::{OnWire, encode, pattern};
use weft_core::*;
use weft_tcp::counters::Counter as Count;
use weft_wire::tcp::{Flags, Segment, Seq};

const DELAY: Duration = Duration::from_millis(50);

fn pair(parameters: &[(&str, Value)]) -> Pair {
    let mut pair = Pair::new(3, Wire { delay: DELAY, ..Wire::default() }, parameters);
    let options = StreamOptions { fast_open_queue: 5, ..StreamOptions::default() };
    pair.nodes[1].listen(1, "10.0.0.2:80", 16, options);
    pair
}

fn connect(pair: &mut Pair, flow: u64, data: &Bytes) {
    let (local, remote) = (format!("10.0.0.1:{}", 5000 + flow).parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    pair.nodes[0].call(flow, StreamCall::ConnectWith { local, remote, options: Box::default(), data: data.clone(), extension: None });
}

fn room(pair: &Pair) -> Option<u32> {
    let (local, remote) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let query = Query::FastOpen { local, remote, no_cookie: false, mtu: 1500 };
    match pair.nodes[0].engine.graph().block(pair.nodes[0].tcp).unwrap().query(&query, pair.now) {
        Answer::FastOpen(room) => room,
        other => panic!("{other:?}"),
    }
}

/// A connection that brings a cookie along, and its end.
fn with_cookie(parameters: &[(&str, Value)]) -> Pair {
    let mut pair = pair(parameters);
    assert_eq!(room(&pair), Some(0));
    connect(&mut pair, 90, &Bytes::new());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[0].events(90), ["established"]);
    assert_eq!(room(&pair), Some(1460 - 40));
    pair.app(1, |app, _| app.accepted.clear());
    pair
}

fn on() -> Vec<(&'static str, Value)> {
    vec![("fastopen", 3.into())]
}

#[test]
fn request_and_answer_take_one_round_trip() {
    let mut pair = with_cookie(&on());
    pair.app(1, |app, _| app.reply = Some(pattern(5_000)));
    let request = pattern(1_000);
    let start = pair.now;
    pair.log = Some(Vec::new());
    connect(&mut pair, 1, &request);
    pair.run_for(DELAY + Duration::from_millis(1));
    // Half a round trip: the program has the request and has answered.
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == request));
    assert_eq!(pair.nodes[1].info(child.0).state, 3, "SYN-RECEIVED");
    pair.run_for(DELAY);
    assert!(pair.now - start < DELAY * 2 + Duration::from_millis(3));
    assert!(pair.app(0, |app, _| app.flow(FlowId(1)).received == pattern(5_000)));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[0].events(1), ["established", "halfclosed"]);
    let log = pair.log.take().unwrap();
    let (syn, syn_ack) = (&log[0].2, &log[1].2);
    assert_eq!((syn.segment.flags, syn.payload.len()), (Flags::SYN, 1_000));
    assert_eq!(syn_ack.segment.flags, Flags::SYN | Flags::ACK);
    assert_eq!(syn_ack.segment.ack, syn.segment.seq + 1_001);
    assert_eq!(pair.nodes[0].counter(Count::TCPFastOpenActive), 1);
    assert_eq!(pair.nodes[1].counter(Count::TCPFastOpenPassive), 1);
    assert_eq!(pair.nodes[0].counter(Count::RetransSegs) + pair.nodes[1].counter(Count::RetransSegs), 0);
}

#[test]
fn what_does_not_fit_the_syn_follows_it() {
    let mut pair = with_cookie(&on());
    let data = pattern(10_000);
    pair.log = Some(Vec::new());
    connect(&mut pair, 1, &data);
    pair.run_for(Duration::from_secs(1));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == data));
    assert_eq!(pair.log.unwrap()[0].2.payload.len(), 1_420);
}

#[test]
fn a_server_that_does_not_want_it_gets_the_data_behind_the_handshake() {
    let mut pair = with_cookie(&on());
    pair.nodes[1].set("fastopen", 1.into()).unwrap();
    connect(&mut pair, 1, &pattern(3_000));
    pair.run_for(Duration::from_secs(1));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(3_000)));
    assert_eq!(pair.nodes[0].counter(Count::TCPFastOpenActiveFail), 1);
    // And clients may be switched off.
    pair.nodes[0].set("fastopen", 0.into()).unwrap();
    assert_eq!(room(&pair), None);
}

#[test]
fn a_syn_with_data_that_is_lost_is_repeated_plainly_and_not_tried_again_for_a_minute() {
    let mut pair = with_cookie(&on());
    pair.filter = Some(Box::new(|from, on_wire: &OnWire| from == 1 || on_wire.segment.options.fast_open.is_none()));
    let start = pair.now;
    connect(&mut pair, 1, &pattern(3_000));
    pair.run_for(Duration::from_secs(3));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(3_000)));
    assert_eq!(pair.nodes[0].counter(Count::TCPSynRetrans), 1);
    assert_eq!(room(&pair), Some(0));
    pair.run_for(start + Duration::from_secs(70) - pair.now);
    assert_eq!(room(&pair), Some(1420));
}

#[test]
fn a_lost_syn_ack_and_lost_data_behind_it_are_repeated() {
    for lost in 0..6usize {
        let mut pair = with_cookie(&on());
        pair.app(1, |app, _| app.reply = Some(pattern(40_000)));
        let mut seen = 0;
        pair.filter = Some(Box::new(move |from, _| {
            seen += usize::from(from == 1);
            from == 0 || seen != lost + 1
        }));
        connect(&mut pair, 1, &pattern(900));
        pair.run_for(Duration::from_secs(5));
        let child = pair.accepted().unwrap();
        assert!(pair.app(1, |app, _| app.flow(child).received == pattern(900)), "segment {lost}");
        assert!(pair.app(0, |app, _| app.flow(FlowId(1)).received == pattern(40_000)), "segment {lost}");
        assert_eq!(pair.app(1, |app, _| app.accepted.len()), 1);
    }
}

#[test]
fn a_wrong_cookie_gets_a_plain_handshake_and_the_right_one() {
    let mut pair = with_cookie(&on());
    // Other keys on the listener: what the client has is worth nothing.
    pair.nodes[1].call(1, StreamCall::Set(StreamOption::FastOpenKey(vec![7; 16])));
    for (flow, taken) in [(1, 0), (2, 1)] {
        connect(&mut pair, flow, &pattern(100));
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.nodes[1].counter(Count::TCPFastOpenPassive), taken);
    }
    assert_eq!(pair.nodes[1].counter(Count::TCPFastOpenPassiveFail), 1);
    // The older of two keys is good, and brings the newer's cookie.
    pair.nodes[1].call(1, StreamCall::Set(StreamOption::FastOpenKey([[8; 16], [7; 16]].concat())));
    connect(&mut pair, 3, &pattern(100));
    pair.run_for(Duration::from_secs(1));
    connect(&mut pair, 4, &pattern(100));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.nodes[1].counter(Count::TCPFastOpenPassive), 3);
    assert_eq!(pair.nodes[1].counter(Count::TCPFastOpenPassiveAltKey), 1);
    for child in pair.app(1, |app, _| app.accepted.clone()) {
        assert!(pair.app(1, |app, _| app.flow(child).received == pattern(100)));
    }
}

/// A SYN of the client's address with its cookie, from a port of its own.
fn forged(cookie_syn: &OnWire, port: u16) -> OnWire {
    let segment = Segment { src_port: port, seq: Seq(u32::from(port)), ..cookie_syn.segment.clone() };
    let src = std::net::SocketAddr::new(cookie_syn.src.ip(), port);
    let bytes = encode(&segment, &cookie_syn.payload, src, cookie_syn.dst);
    OnWire { segment, src, bytes, ..cookie_syn.clone() }
}

#[test]
fn early_connections_are_bounded_and_a_reset_one_holds_its_place_for_a_minute() {
    let mut pair = with_cookie(&on());
    pair.log = Some(Vec::new());
    connect(&mut pair, 1, &pattern(10));
    pair.run_for(Duration::from_secs(1));
    let syn = pair.log.take().unwrap()[0].2.clone();
    let server = &mut pair.nodes[1];
    let early = |server: &mut common::Node| server.counter(Count::TCPFastOpenPassive);
    for port in 1..=8 {
        server.inject(&forged(&syn, port));
    }
    // One came before, and its handshake has ended.
    assert_eq!(early(server), 6);
    assert_eq!(server.counter(Count::TCPFastOpenListenOverflow), 3);
    assert_eq!(server.population().1, 3, "the others are half open");
    server.take_frames();
    // A reset of one: the program hears of it, its place is not free.
    let rst = Segment { flags: Flags::RST, seq: Seq(1 + 1 + 10), options: Default::default(), ..forged(&syn, 1).segment };
    let bytes = encode(&rst, b"", forged(&syn, 1).src, syn.dst);
    server.inject(&OnWire { segment: rst, bytes, payload: Vec::new(), ..forged(&syn, 1) });
    let child = server.app(|app, _| app.accepted[1]);
    assert_eq!(server.events(child.0), ["failed reset", "released"]);
    server.inject(&forged(&syn, 20));
    assert_eq!(early(server), 6);
    pair.run_for(Duration::from_secs(70));
    // The forged ones were given up after their repetitions; the places are free again.
    let server = &mut pair.nodes[1];
    server.inject(&forged(&syn, 21));
    assert_eq!(early(server), 7);
}

#[test]
fn everything_ends_in_nothing() {
    let mut pair = with_cookie(&on());
    pair.wires[0].loss = 0.2;
    pair.wires[1].loss = 0.2;
    pair.app(1, |app, _| app.reply = Some(pattern(3_000)));
    for flow in 1..=60 {
        connect(&mut pair, flow, &pattern(2_000));
        pair.nodes[0].app(|app, _| app.flow(FlowId(flow)).shutdown_after = true);
        pair.run_for(Duration::from_millis(300));
    }
    pair.run_for(Duration::from_secs(120));
    let children = pair.app(1, |app, _| app.accepted.clone());
    assert_eq!(children.len(), 60);
    for flow in 1..=60 {
        assert!(pair.app(0, |app, _| app.flow(FlowId(flow)).received == pattern(3_000)), "{flow}: {:?}", pair.nodes[0].events(flow));
        pair.nodes[0].call(flow, StreamCall::Close { unread: false, linger: None });
    }
    for child in children {
        assert!(pair.app(1, |app, _| app.flow(child).received == pattern(2_000)));
        pair.nodes[1].call(child.0, StreamCall::Close { unread: false, linger: None });
    }
    assert!(pair.nodes[1].counter(Count::TCPFastOpenPassive) > 0);
    // A reset is not repeated: it has to arrive.
    pair.wires[0].loss = 0.0;
    pair.nodes[0].call(90, StreamCall::Abort);
    pair.run_for(Duration::from_secs(900));
    assert_eq!(pair.nodes[0].population(), (0, 0, 0));
    assert_eq!(pair.nodes[1].population(), (0, 0, 0));
}
