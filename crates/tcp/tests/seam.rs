//! Who stands between sockets and tcp: a block that numbers the stream in a TCP option of its own, with an extension inside each connection.

use crate::common;

use common::numbered::{Lane, Numbered};
use common::pair::{Pair, Wire};
use common::{Node, OnWire, pattern};
use indexmap::IndexMap;
use weft_core::*;
use weft_wire::tcp::Flags;

const BYTES: usize = 200_000;
const FLOW: FlowId = FlowId(1);

/// A pair with the block in both nodes, or in some.
fn pair(seed: u64, wire: Wire, inserted: [bool; 2]) -> Pair {
    let mut pair = Pair::new(seed, wire, &[]);
    for (node, _) in inserted.into_iter().enumerate().filter(|(_, inserted)| *inserted) {
        pair.nodes[node].insert_between();
    }
    pair.log = Some(Vec::new());
    pair
}

fn bad_wire() -> Wire {
    Wire { loss: 0.02, reorder: 0.05, late: Duration::from_millis(4), duplicate: 0.01, rate: 20_000_000, queue: 60_000, ..Wire::default() }
}

/// Both send so much, and close; `each` is done at every step.
fn exchange(pair: &mut Pair, mut each: impl FnMut(&mut Pair)) {
    pair.connect(StreamOptions::default());
    pair.nodes[1].app(|app, _| app.reply = Some(pattern(BYTES)));
    pair.nodes[0].write(1, pattern(BYTES));
    let until = pair.now + Duration::from_secs(120);
    pair.run(until, |pair| {
        each(pair);
        let accepted = pair.accepted();
        let had = |pair: &mut Pair, node: usize, flow| pair.app(node, |app, _| app.flow(flow).received.len());
        had(pair, 0, FLOW) == BYTES && accepted.is_some_and(|child| had(pair, 1, child) == BYTES)
    });
    // Acknowledgments that were delayed.
    pair.run_for(Duration::from_secs(1));
    let child = pair.accepted().unwrap();
    assert!(pair.app(0, |app, _| app.flow(FLOW).received == pattern(BYTES)));
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(BYTES)));
}

fn lanes(pair: &mut Pair) -> [Lane; 2] {
    let child = pair.accepted().unwrap();
    [pair.nodes[0].between().lanes[&FLOW].clone(), pair.nodes[1].between().lanes[&child].clone()]
}

#[test]
fn numbers_cross_a_bad_wire_and_each_side_hears_how_much_the_other_has() {
    for seed in 0..8 {
        let mut pair = pair(seed, bad_wire(), [true, true]);
        exchange(&mut pair, |_| {});
        assert!(pair.wires.iter().all(|wire| wire.lost > 0));
        for lane in lanes(&mut pair) {
            assert!(lane.wrong.is_empty(), "seed {seed}: {:?}", lane.wrong.first());
            assert_eq!((lane.sent, lane.received, lane.heard), (BYTES as u64, BYTES as u64, BYTES as u64), "seed {seed}");
            assert!(lane.agreed && !lane.fell_back);
        }
    }
}

/// Segments without data that a node has sent.
fn bare(pair: &Pair, node: usize) -> usize {
    let log = pair.log.as_ref().unwrap();
    log.iter()
        .filter(|(_, from, on_wire)| *from == node && on_wire.payload.is_empty() && !on_wire.segment.flags.contains(Flags::SYN))
        .count()
}

#[test]
fn what_the_peer_is_told_rides_on_the_acknowledgments_that_tcp_sends_anyway() {
    let run = |inserted: bool| {
        // The same segment size.
        let mut pair = pair(1, Wire::default(), [inserted; 2]);
        let options = StreamOptions { mss_max: if inserted { 1220 } else { 1200 }, ..StreamOptions::default() };
        pair.connect(options);
        pair.nodes[0].write(1, pattern(BYTES));
        pair.run_for(Duration::from_secs(10));
        let child = pair.accepted().unwrap();
        assert!(pair.app(1, |app, _| app.flow(child).received == pattern(BYTES)));
        pair
    };
    let (with, without) = (run(true), run(false));
    // Mappings end where no segment would, so that there are more segments, and an acknowledgment for two.
    let more = BYTES / 4096 + 1;
    let (with, without) = (bare(&with, 1), bare(&without, 1));
    assert!(with <= without + more / 2 + 2, "{with} acknowledgments, and {without} without");
}

#[test]
fn room_tells_how_a_connection_does() {
    let mut pair = pair(3, Wire { rate: 5_000_000, ..Wire::default() }, [true, true]);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(100));
    let room = pair.nodes[0].between().lanes[&FLOW].room;
    // The announced 1460, less timestamps and the option.
    assert_eq!((room.mss_bytes, room.cwnd_bytes, room.may_send), (1428, 14_280, true));
    assert_eq!((room.free_bytes, room.in_flight_bytes, room.unsent_bytes), (14_280, 0, 0));
    assert!(room.rtt.is_some_and(|rtt| (20..21).contains(&rtt.as_millis())), "{room:?}");
    pair.nodes[0].write(1, pattern(100_000));
    let room = pair.nodes[0].between().lanes[&FLOW].room;
    assert!(room.in_flight_bytes + room.free_bytes == room.cwnd_bytes && room.in_flight_bytes > 0 && room.unsent_bytes > 0, "{room:?}");
    // The peer is gone.
    pair.filter = Some(Box::new(|_, _| false));
    pair.run_for(Duration::from_secs(20));
    let room = pair.nodes[0].between().lanes[&FLOW].room;
    assert!(room.timeouts >= 3 && room.lost_bytes > 0, "{room:?}");
    pair.nodes[0].call(1, StreamCall::Abort);
    let lane = pair.nodes[0].between().lanes[&FLOW].clone();
    assert_eq!((lane.room.may_send, lane.reset_by_peer), (false, Some(false)));
}

#[test]
fn where_one_side_does_not_know_it_the_connection_is_plain() {
    for inserted in [[true, false], [false, true]] {
        let mut pair = pair(4, bad_wire(), inserted);
        exchange(&mut pair, |_| {});
        let node = usize::from(inserted[1]);
        let flow = if inserted[0] { FLOW } else { pair.accepted().unwrap() };
        let lane = pair.nodes[node].between().lanes[&flow].clone();
        assert!(!lane.agreed && lane.rooms <= 1 && lane.fell_back == inserted[0], "{lane:?}");
    }
}

#[test]
fn an_option_that_is_lost_on_the_way_makes_it_plain() {
    // A box that answers for the server, and does not know the option.
    let mut pair = pair(5, Wire::default(), [true, true]);
    pair.nodes[1].listen(1, "10.0.0.2:80", 16, StreamOptions::default());
    pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions::default());
    let mut syn: Vec<OnWire> = pair.nodes[0].take_segments();
    syn[0].segment.options = weft_wire::tcp::Options { mss: syn[0].segment.options.mss, ..Default::default() };
    let (src, dst) = (syn[0].src, syn[0].dst);
    syn[0].bytes = common::encode(&syn[0].segment, &[], src, dst);
    pair.nodes[1].inject(&syn[0]);
    pair.nodes[0].write(1, pattern(5000));
    pair.run_for(Duration::from_secs(5));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(5000)));
    assert!(lanes(&mut pair).iter().all(|lane| !lane.agreed));
}

fn replace(node: &mut Node, name: &str, kind: &str) {
    let op = Op::Replace { name: name.to_owned(), kind: kind.to_owned(), parameters: IndexMap::new(), drop_state: false };
    node.engine.control(node.now, &Message { serial: 4, op }).result.unwrap();
}

#[test]
fn successors_of_tcp_and_of_the_block_go_on_to_the_bit() {
    for seed in 0..4 {
        let run = |replaced: bool| {
            let mut pair = pair(seed, bad_wire(), [true, true]);
            let mut rng = Rng::for_name(seed, "replacements");
            exchange(&mut pair, |pair| {
                if !replaced {
                    return;
                }
                let node = &mut pair.nodes[usize::from(rng.chance(0.5))];
                match rng.below(12) {
                    // As it is, and by way of bytes.
                    0 => replace(node, "tcp", "tcp"),
                    1 => {
                        replace(node, "tcp", "tcp-by-bytes");
                        replace(node, "tcp", "tcp");
                    }
                    2 => replace(node, "between", "between"),
                    _ => {}
                }
            });
            let lanes = format!("{:?}", lanes(&mut pair));
            let log = pair.log.take().unwrap();
            (log.into_iter().map(|(at, from, on_wire)| (at, from, on_wire.bytes)).collect::<Vec<_>>(), lanes)
        };
        let (still, replaced) = (run(false), run(true));
        for (at, (one, other)) in still.0.iter().zip(&replaced.0).enumerate() {
            assert!(one == other, "seed {seed}: segment {at} is another");
        }
        assert_eq!((still.0.len(), still.1), (replaced.0.len(), replaced.1));
    }
}

#[test]
fn half_open_connections_and_listeners_keep_their_extensions() {
    let mut pair = pair(6, Wire::default(), [true, true]);
    pair.nodes[1].listen(1, "10.0.0.2:80", 16, StreamOptions::default());
    replace(&mut pair.nodes[1], "tcp", "tcp-by-bytes");
    pair.nodes[0].connect(1, "10.0.0.1:1234", "10.0.0.2:80", StreamOptions::default());
    // The SYN has come, its answer is on its way.
    pair.run_for(Duration::from_millis(15));
    replace(&mut pair.nodes[1], "tcp", "tcp");
    replace(&mut pair.nodes[0], "tcp", "tcp-by-bytes");
    pair.nodes[0].write(1, pattern(BYTES));
    pair.run_for(Duration::from_secs(5));
    let [client, server] = lanes(&mut pair);
    assert!(client.agreed && server.agreed);
    assert_eq!((client.heard, server.received), (BYTES as u64, BYTES as u64));
    // A listener's extension is talked to as well.
    let word = Bytes::from_static(b"12345678");
    let between = pair.nodes[1].engine.graph().find("between").unwrap();
    let now = pair.now;
    pair.nodes[1].engine.with(now, between, |_, cx| cx.send(OutPort(1), StreamMessage::Word { flow: FLOW, bytes: word })).unwrap();
    assert_eq!(pair.nodes[1].between().said_back, [b"12345678".to_vec()]);
}

#[test]
fn state_with_an_extension_that_a_block_does_not_know_is_refused() {
    let mut pair = pair(7, Wire::default(), [true, true]);
    pair.connect(StreamOptions::default());
    pair.run_for(Duration::from_millis(100));
    let now = pair.now;
    let state = pair.nodes[0].engine.graph().block(pair.nodes[0].tcp).unwrap().export(now).unwrap();
    let given: IndexMap<String, Value> = IndexMap::new();
    let mut config = weft_core::parameter::complete("tcp", weft_tcp::ROW.kind, &given, Rng::for_name(1, "tcp")).unwrap();
    let refused = (weft_tcp::ROW.make)(&mut config).unwrap().import(&state, now).unwrap_err();
    assert_eq!(refused.to_string(), "state of tcp is damaged: an extension of kind \"numbered\" is not known here");
    // And one that is asked for.
    for (extension, error) in [
        (State::none("nothing"), "Err(NoEntry)"),
        (State { bytes: vec![1], ..Numbered::default().state() }, "Err(Invalid)"),
        (State { version: 2, ..Numbered::default().state() }, "Err(Invalid)"),
    ] {
        let extension = Some(Box::new(extension));
        let (local, remote) = ("10.0.0.1:99".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let mut node = Node::new("alone", &[]);
        node.call(5, StreamCall::Connect { local, remote, options: Box::default(), extension: extension.clone() });
        node.call(6, StreamCall::Listen { local, dual_stack: false, backlog: 1, options: Box::default(), extension });
        for flow in [5, 6] {
            let (replies, events) =
                node.app(|app, _| (format!("{:?}", app.flow(FlowId(flow)).replies), app.flow(FlowId(flow)).events.clone()));
            assert_eq!((replies.as_str(), events), (format!("[{error}]").as_str(), vec!["released".to_owned()]));
        }
        assert!(node.take_frames().is_empty());
    }
}

#[test]
fn it_is_inserted_under_connections_that_go_on_as_they_were() {
    let mut pair = pair(8, Wire::default(), [false, false]);
    pair.connect(StreamOptions::default());
    pair.nodes[0].write(1, pattern(BYTES));
    pair.run_for(Duration::from_millis(50));
    pair.nodes.iter_mut().for_each(Node::insert_between);
    pair.run_for(Duration::from_secs(5));
    let child = pair.accepted().unwrap();
    assert!(pair.app(1, |app, _| app.flow(child).received == pattern(BYTES)));
    assert!(pair.nodes[0].between().lanes.is_empty());
}
