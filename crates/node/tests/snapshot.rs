//! A node's state as bytes: taken and put back at one moment it changes nothing that leaves the node, into another node of the same shape it brings tables
//! and timers, and what does not fit is refused with nothing changed.

use crate::common;

use common::{AF_INET, Fate, Pair, SOCK_DGRAM, SOCK_STREAM, address};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_core::control::Message;
use weft_core::snapshot::digest;
use weft_core::{Bytes, Rng, Snapshot, SnapshotError, TimeKind, Value, command};
use weft_socket::SocketId;

/// Who sent what.
type Frames = Vec<(usize, Vec<u8>)>;
type Log = Rc<RefCell<Frames>>;

/// Two nodes on a wire that loses one frame in forty, and writes all of them down.
fn lossy(engine: &str) -> (Pair, Log) {
    let log = Log::default();
    let (seen, mut rng) = (log.clone(), Rng::for_name(4, "wire"));
    let wire = move |side: usize, frame: &weft_core::Frame| {
        seen.borrow_mut().push((side, frame.to_vec()));
        if rng.chance(0.025) { Fate::Lose } else { Fate::Pass }
    };
    (Pair::on_engine(engine, 0, "").with_wire(Duration::from_millis(8), wire), log)
}

fn taken(pair: &mut Pair, side: usize) -> Vec<u8> {
    let now = pair.now;
    pair.nodes[side].snapshot(now, TimeKind::Virtual).unwrap().to_bytes().unwrap()
}

fn restored(pair: &mut Pair, side: usize, bytes: &[u8], own: bool) -> Result<Vec<String>, SnapshotError> {
    let now = pair.now;
    let result = pair.nodes[side].restore(now, &Snapshot::from_bytes(bytes)?, own);
    pair.settle();
    result
}

fn tell(pair: &mut Pair, side: usize, line: &str) -> Value {
    let (now, op) = (pair.now, command::parse(line).unwrap().unwrap());
    let result = pair.nodes[side].control(now, &Message { serial: 1, op }).result;
    pair.settle();
    result.unwrap()
}

fn show(pair: &mut Pair, side: usize, what: &str) -> Value {
    let (now, op) = (pair.now, command::parse(&format!("show {what}")).unwrap().unwrap());
    pair.nodes[side].control(now, &Message { serial: 1, op }).result.unwrap()
}

fn socket(pair: &mut Pair, side: usize, kind: i32, port: u16) -> SocketId {
    pair.call(side, |sockets, cx| {
        let socket = sockets.socket(AF_INET, kind, 0, cx)?;
        sockets.bind(socket, &address(side as u8 + 1, port), cx).map(|()| socket)
    })
    .unwrap()
}

/// A connection from node 0 to node 1, and what accepted it.
fn connected(pair: &mut Pair) -> (SocketId, SocketId) {
    let listener = socket(pair, 1, SOCK_STREAM, 80);
    pair.call(1, |sockets, cx| sockets.listen(listener, 5, cx)).unwrap();
    let client = socket(pair, 0, SOCK_STREAM, 0);
    let _ = pair.call(0, |sockets, cx| sockets.connect(client, &address(2, 80), cx));
    pass(pair, Duration::from_secs(4));
    (client, pair.call(1, |sockets, cx| sockets.accept(listener, cx)).unwrap())
}

fn pass(pair: &mut Pair, span: Duration) {
    let end = pair.now + span;
    while pair.now < end && pair.step(end.since(pair.now)) {}
}

/// What arrived, and every frame that crossed the wire, with a snapshot taken and put back now and then, or not.
fn transfer(engine: &str, round_trips: bool) -> (Vec<u8>, Frames, usize) {
    let (mut pair, log) = lossy(engine);
    let (client, server) = connected(&mut pair);
    let (mut rng, mut count) = (Rng::for_name(3, "round trips"), 0);
    let (mut sent, mut arrived) = (0usize, Vec::new());
    let total = 400_000;
    for _ in 0..20_000 {
        if sent < total {
            let piece = Bytes::from((sent..(sent + 9000).min(total)).map(|at| (at / 7) as u8).collect::<Vec<u8>>());
            sent += pair.call(0, |sockets, cx| sockets.send(client, piece, 0, None, &[], cx)).unwrap_or(0);
        }
        let data = pair.call(1, |sockets, cx| sockets.receive(server, 100_000, 0, cx));
        arrived.extend(data.into_iter().flat_map(|received| received.data.iter().flat_map(|bytes| bytes.to_vec()).collect::<Vec<u8>>()));
        if arrived.len() == total {
            break;
        }
        pair.step(Duration::from_secs(1));
        if round_trips && rng.chance(0.4) {
            let side = rng.below(2) as usize;
            let bytes = taken(&mut pair, side);
            assert_eq!(restored(&mut pair, side, &bytes, true).unwrap().len(), 1);
            let (was, is) = (Snapshot::from_bytes(&bytes).unwrap(), Snapshot::from_bytes(&taken(&mut pair, side)).unwrap());
            for (was, is) in was.blocks.iter().zip(&is.blocks) {
                assert!(was == is, "{} has become another", was.0);
            }
            count += 1;
        }
    }
    let frames = log.borrow().clone();
    (arrived, frames, count)
}

#[test]
fn a_round_trip_changes_no_frame() {
    for engine in ["inline", "queued"] {
        let (expected, frames, _) = transfer(engine, false);
        assert_eq!(expected.len(), 400_000);
        let (arrived, same, count) = transfer(engine, true);
        assert!(count > 50, "{count} round trips");
        assert!(arrived == expected && same == frames, "{} frames, without round trips {}", same.len(), frames.len());
    }
}

#[test]
fn another_node_of_the_same_shape_takes_tables_over() {
    let (mut pair, _) = lossy("inline");
    tell(&mut pair, 0, "exec ip4 route_add destination=10.8.0.0/16 gateway=10.0.0.2");
    tell(&mut pair, 0, "exec arp add interface=eth0 address=10.0.0.9 mac=02:00:00:00:00:09");
    pass(&mut pair, Duration::from_secs(5));
    let bytes = taken(&mut pair, 0);
    let count = Snapshot::from_bytes(&bytes).unwrap().blocks.len();
    let wanted = ["routes", "addresses"].map(|what| show(&mut pair, 0, what));
    let (mut other, _) = lossy("queued");
    assert_ne!(show(&mut other, 0, "routes"), wanted[0]);
    assert_eq!(restored(&mut other, 0, &bytes, false).unwrap(), [format!("restore: {count} blocks")]);
    assert_eq!(["routes", "addresses"].map(|what| show(&mut other, 0, what)), wanted);
    assert!(show(&mut other, 0, "neighbours").to_string().contains("10.0.0.9"));
    // It goes on: a connection is made through what was restored.
    connected(&mut other);
}

#[test]
fn a_connection_that_nobody_holds_goes_on_elsewhere() {
    let (mut pair, _) = lossy("inline");
    let (client, _) = connected(&mut pair);
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from(vec![5; 300_000]), 0, None, &[], cx)).unwrap();
    pair.call(0, |sockets, cx| sockets.close(client, cx));
    let closing = show(&mut pair, 0, "sockets");
    assert!(closing.to_string().contains("CLOSING"), "{closing}");
    let bytes = taken(&mut pair, 0);
    let (mut other, log) = lossy("inline");
    restored(&mut other, 0, &bytes, false).unwrap();
    assert_eq!(show(&mut other, 0, "sockets"), closing);
    log.borrow_mut().clear();
    pass(&mut other, Duration::from_secs(120));
    // The peer that it had is not there: what it sends again is answered by a reset.
    assert_eq!(show(&mut other, 0, "sockets"), Value::Array(Vec::new()));
    assert!(!log.borrow().is_empty());
}

fn why(result: Result<Vec<String>, SnapshotError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn sockets_must_be_those_that_programs_hold() {
    let (mut pair, _) = lossy("inline");
    let one = socket(&mut pair, 0, SOCK_DGRAM, 5000);
    let with_one = taken(&mut pair, 0);
    let foreign = why(restored(&mut pair, 0, &with_one, false));
    let held = "programs hold 1 socket of this node, which would not be theirs any more: udp 10.0.0.1:5000 (peer 0.0.0.0:*); close them";
    assert!(foreign.starts_with(held), "{foreign}");
    let two = socket(&mut pair, 0, SOCK_DGRAM, 5001);
    let foreign = why(restored(&mut pair, 0, &with_one, false));
    assert!(foreign.contains("hold 2 sockets") && foreign.contains("5000 (peer 0.0.0.0:*), udp 10.0.0.1:5001"), "{foreign}");
    let later = why(restored(&mut pair, 0, &with_one, true));
    assert!(later.contains("udp 10.0.0.1:5001") && later.contains("was opened after"), "{later}");
    pair.call(0, |sockets, cx| sockets.close(two, cx));
    restored(&mut pair, 0, &with_one, true).unwrap();
    pair.call(0, |sockets, cx| sockets.close(one, cx));
    let gone = why(restored(&mut pair, 0, &with_one, true));
    assert!(gone.contains("udp 10.0.0.1:5000") && gone.contains("is not there any more"), "{gone}");
    let not_here = why(restored(&mut pair, 0, &with_one, false));
    assert!(not_here.starts_with("it has 1 sockets of programs that are not here"), "{not_here}");
}

#[test]
fn whoever_waits_for_a_socket_hears_that_it_is_another() {
    let (mut pair, _) = lossy("inline");
    let (client, server) = connected(&mut pair);
    let before = taken(&mut pair, 1);
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from_static(b"data"), 0, None, &[], cx)).unwrap();
    pass(&mut pair, Duration::from_secs(1));
    pair.call(1, |sockets, _| sockets.take_changed());
    let full = taken(&mut pair, 1);
    restored(&mut pair, 1, &full, true).unwrap();
    assert_eq!(pair.call(1, |sockets, _| sockets.take_changed()), []);
    restored(&mut pair, 1, &before, true).unwrap();
    assert_eq!(pair.call(1, |sockets, _| sockets.take_changed()).last(), Some(&server), "there is nothing to read any more");
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_changes() {
    let (mut pair, _) = lossy("inline");
    connected(&mut pair);
    let bytes = taken(&mut pair, 0);
    let sound = Snapshot::from_bytes(&bytes).unwrap();
    let mut refused = |change: &dyn Fn(&mut Snapshot)| {
        let mut other = sound.clone();
        change(&mut other);
        let why = why(restored(&mut pair, 0, &other.to_bytes().unwrap(), true));
        assert_eq!(digest(&taken(&mut pair, 0)), digest(&bytes), "{why}");
        why
    };
    let at = |name: &str| sound.blocks.iter().position(|(of, _)| of == name).unwrap();
    let (arp, tcp) = (at("arp"), at("tcp"));
    assert_eq!(
        refused(&|other| drop(other.blocks.remove(arp))),
        "block 'arp' (kind arp) is in the node, and not in the snapshot: bring the graph to the shape that it had (`weft apply`)"
    );
    assert!(
        refused(&|other| other.blocks[arp].0 = "arm".to_owned())
            .starts_with("block 'arm' (kind arp) is in the snapshot, and the node has none")
    );
    let tee = refused(&|other| other.blocks[arp].1.kind = "tee".to_owned());
    assert!(tee.starts_with("block 'arp' is of kind tee in the snapshot, and of kind arp in the node"), "{tee}");
    assert_eq!(refused(&|other| other.blocks[tcp].1.version = 77), "block 'tcp': state of tcp has version 77, this build reads 8");
    let damaged = refused(&|other| other.blocks[tcp].1.bytes[40] ^= 4);
    assert_eq!(damaged, "block 'tcp': state of tcp is damaged: its checksum is another");
    // The last block by name is refused as well as the first: all had been prepared by then.
    let last = sound.blocks.len() - 1;
    let version = refused(&|other| other.blocks[last].1.version = 99);
    assert!(version.contains("99"), "{version}");
}

/// Bytes that are changed at random, with checksums that fit and others: refused or taken, without a panic; refused ones change nothing.
#[test]
fn random_bytes_do_no_harm() {
    let (mut pair, _) = lossy("inline");
    connected(&mut pair);
    socket(&mut pair, 0, SOCK_DGRAM, 5000);
    let sound = Snapshot::from_bytes(&taken(&mut pair, 0)).unwrap();
    let (mut rng, mut refused, mut taken_over) = (Rng::for_name(6, "mutations"), 0, 0);
    for _ in 0..3000 {
        let before = digest(&taken(&mut pair, 0));
        let mut other = sound.clone();
        let block = rng.below(other.blocks.len() as u64) as usize;
        let (name, state) = &mut other.blocks[block];
        let sealed = name == "tcp" || name == "sockets";
        for _ in 0..=rng.below(2) {
            if !state.bytes.is_empty() {
                let at = rng.below(state.bytes.len() as u64) as usize;
                state.bytes[at] = rng.u32() as u8;
            }
        }
        if rng.chance(0.5) && sealed {
            reseal(&mut state.bytes);
        }
        match restored(&mut pair, 0, &other.to_bytes().unwrap(), true) {
            Ok(_) => {
                taken_over += 1;
                restored(&mut pair, 0, &sound.to_bytes().unwrap(), true).unwrap();
            }
            Err(_) => {
                refused += 1;
                assert_eq!(digest(&taken(&mut pair, 0)), before);
            }
        }
    }
    assert!(refused > 500 && taken_over > 100, "{refused} refused, {taken_over} taken");
}

fn reseal(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() - 8);
    let sum = xxhash_rust::xxh3::xxh3_64(bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
}
