//! Fast Open together with Multipath TCP (RFC 8684, appendix B): data of a SYN comes before the first data sequence number.

use crate::support;

use support::common::OnWire;
use support::common::pair::Pair;
use support::common::pattern;
use support::*;
use weft_core::*;
use weft_mptcp::counters::Counter;
use weft_wire::tcp::Flags;
use weft_wire::tcp::mptcp::{DataSeq, Dss, Keys, Message as Option30};

/// Clients and servers may, and need no cookie.
const WITHOUT_COOKIES: u64 = 519;
const CLIENT_ONLY: u64 = 5;

fn is_syn(on_wire: &OnWire) -> bool {
    on_wire.segment.flags.contains(Flags::SYN)
}

/// Two wires; the client sends so much with the SYN, and all in all BYTES, the server BYTES in answer.
fn opened(early: usize, server: u64, checksum: bool) -> Pair {
    let mut pair = two(3, [slow(5_000_000, 10), slow(5_000_000, 20)], &["10.0.1.1 subflow"], &[]);
    for (node, setting) in [(0, CLIENT_ONLY), (1, server)] {
        pair.nodes[node].tell("tcp", "fastopen", setting.into()).unwrap();
        pair.nodes[node].tell("mptcp", "checksum", checksum.into()).unwrap();
    }
    pair.nodes[1].listen(1, "0.0.0.0:80", 16, StreamOptions { fast_open_queue: 5, ..StreamOptions::default() });
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.nodes[0].app(|app, _| app.flow(FLOW).shutdown_after = true);
    let (local, remote) = ("10.0.0.1:1234".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    let data = pattern(BYTES).slice(..early);
    pair.nodes[0].call(1, StreamCall::ConnectWith { local, remote, options: Box::default(), data, extension: None });
    pair.nodes[0].write(1, pattern(BYTES).slice(early..));
    pair
}

/// Everything has arrived, once, and all is over.
fn is_whole(pair: &mut Pair, what: &str) {
    pair.run_for(Duration::from_secs(200));
    let child = pair.accepted().unwrap();
    for (node, flow) in [(0, FLOW), (1, child)] {
        let (received, events) = pair.app(node, |app, _| (app.flow(flow).received.clone(), app.flow(flow).events.clone()));
        let both = [0, 1].map(|side| counters(&mut pair.nodes[side]));
        assert!(received == pattern(BYTES), "{what}: {node} has {} bytes {events:?} {both:?}", received.len());
        assert!(events.iter().any(|event| event == "halfclosed"), "{what}: {events:?}");
        assert!(!events.iter().any(|event| event.starts_with("failed")), "{what}: {events:?}");
    }
    assert_eq!(pair.nodes.each_mut().map(|node| node.population()), [(0, 0, 0); 2], "{what}");
}

/// Which segment, and of which side.
type Lost = Option<(usize, fn(&OnWire) -> bool)>;

#[test]
fn data_of_a_syn_arrives_once_whatever_is_lost_and_whoever_takes_it() {
    // The SYN, its answer, the third segment, and the first data behind it.
    let lost: [Lost; 5] = [
        None,
        Some((0, is_syn)),
        Some((1, is_syn)),
        Some((0, |on_wire| !is_syn(on_wire) && on_wire.payload.is_empty())),
        Some((0, |on_wire| !is_syn(on_wire) && !on_wire.payload.is_empty())),
    ];
    for server in [WITHOUT_COOKIES, CLIENT_ONLY] {
        for (checksum, early) in [(false, 0), (false, 1), (false, 1000), (true, 1000), (false, 9000), (true, 9000)] {
            for (place, lost) in lost.iter().enumerate() {
                let mut pair = opened(early, server, checksum);
                if let Some((side, is_it)) = *lost {
                    let mut gone = false;
                    pair.filter = Some(Box::new(move |from, on_wire| {
                        let this = !gone && from == side && is_it(on_wire);
                        gone |= this;
                        !this
                    }));
                }
                let what = format!("fastopen {server}, checksum {checksum}, {early} bytes, lost {place}");
                is_whole(&mut pair, &what);
                no_errors(&mut pair);
                assert!(counter(&mut pair.nodes[1], Counter::MPJoinAckRx) == 1 && share(&pair, 0) > 0.05, "{what}");
            }
        }
    }
}

#[test]
fn it_has_no_mapping_and_what_follows_begins_with_the_first_number() {
    let mut pair = opened(1000, WITHOUT_COOKIES, false);
    is_whole(&mut pair, "");
    let log: Vec<&OnWire> = pair.log.iter().flatten().filter(|(_, from, _)| *from == 0).map(|(_, _, on_wire)| on_wire).collect();
    assert_eq!((log[0].segment.flags, log[0].payload.len()), (Flags::SYN, 1000));
    let keys = log.iter().flat_map(|on_wire| options(on_wire)).find_map(|message| match message {
        Option30::Capable(capable) => match capable.keys {
            Keys::Both { sender, .. } | Keys::WithData { sender, .. } => Some(weft_mptcp::key::Key(sender)),
            _ => None,
        },
        _ => None,
    });
    let first = keys.unwrap().first();
    // The farthest byte of the data: of BYTES the SYN's are not counted.
    let mapped = log.iter().flat_map(|on_wire| options(on_wire)).filter_map(|message| match message {
        Option30::Dss(Dss { mapping: Some(mapping), fin: false, .. }) => match mapping.seq {
            DataSeq::Long(seq) => Some((seq.wrapping_sub(first), u64::from(mapping.len))),
            DataSeq::Short(_) => None,
        },
        _ => None,
    });
    let farthest = mapped.filter(|(at, _)| *at < 1 << 32).map(|(at, bytes)| at + bytes).max();
    assert_eq!(farthest, Some(BYTES as u64 - 1000));
}

#[test]
fn a_server_that_has_the_data_of_a_syn_answers_when_the_handshake_is_over() {
    let mut pair = opened(1000, WITHOUT_COOKIES, false);
    pair.run_for(Duration::from_millis(15));
    let child = pair.accepted().unwrap();
    // Half a round trip: the program has what the SYN brought.
    assert_eq!(pair.app(1, |app, _| app.flow(child).received.len()), 1000);
    pair.run_for(Duration::from_millis(10));
    // A mapping without DATA_ACK would be right, and Linux takes it for a box on the way.
    assert_eq!(pair.app(0, |app, _| app.flow(FLOW).received.len()), 0);
    is_whole(&mut pair, "");
}

#[test]
fn a_peer_that_does_not_speak_multipath_tcp_takes_it_as_plain_tcp() {
    for server in [WITHOUT_COOKIES, CLIENT_ONLY] {
        for early in [0, 1, 1000, 9000] {
            let mut pair = opened(early, server, false);
            pair.alter = Some(Box::new(|_, on_wire| on_wire.segment.options.others = Default::default()));
            is_whole(&mut pair, &format!("{server} {early}"));
        }
    }
}

#[test]
fn options_that_are_lost_behind_the_handshake_make_it_plain() {
    // From the server's SYN|ACK on one way or the other, or from the third segment on.
    for (from, after) in [(1, 0), (0, 1), (1, 1)] {
        for early in [1, 1000, 9000] {
            let mut pair = opened(early, WITHOUT_COOKIES, false);
            let mut seen = 0;
            pair.alter = Some(Box::new(move |side, on_wire| {
                if side == from {
                    seen += 1;
                    if seen > after {
                        on_wire.segment.options.others = Default::default();
                    }
                }
            }));
            is_whole(&mut pair, &format!("side {from}, after {after}, {early} bytes"));
        }
    }
}
