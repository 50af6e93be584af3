//! How long a graph stands still while it is changed: tcp is replaced by its own kind with 10,000 connections, 1,000 of them with 64 KiB in flight;
//! a counter is put into an edge of that node and taken out again.
//!
//! `--json` prints rows for `make bench`. What was in flight must arrive afterwards, or there are no rows.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{AF_INET, Pair, SOCK_STREAM, address};
use std::time::{Duration, Instant as Wall};
use weft_core::{Bytes, End, Message, Op};
use weft_socket::{Errno, SocketId};

const CONNECTIONS: usize = 10_000;
const BUSY: usize = 1_000;
const IN_FLIGHT: usize = 64 * 1024;
/// Connections that are opened before the server accepts: below the longest accept queue.
const AT_A_TIME: usize = 1_000;
const SOL_SOCKET: i32 = 1;
const SO_SNDBUF: i32 = 7;
const REPLACEMENTS: usize = 15;
const CHANGES: usize = 200;
/// The longest pauses, milliseconds.
const REPLACE_MS_MAX: f64 = 20.0;
const CHANGE_US_MAX: f64 = 100.0;

fn connect(pair: &mut Pair) -> Vec<[SocketId; 2]> {
    // The first finds the neighbour: no more than some wait for that.
    pair.connect();
    let listener = pair.call(1, |sockets, cx| {
        let listener = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).expect("a socket");
        sockets.bind(listener, &address(2, 81), cx).expect("a free port");
        sockets.listen(listener, AT_A_TIME as i32 + 1, cx).expect("it listens");
        listener
    });
    let mut connected = Vec::new();
    while connected.len() < CONNECTIONS {
        let clients: Vec<SocketId> = (0..AT_A_TIME)
            .map(|_| {
                pair.call(0, |sockets, cx| {
                    let client = sockets.socket(AF_INET, SOCK_STREAM, 0, cx).expect("a socket");
                    assert_eq!(sockets.connect(client, &address(2, 81), cx), Err(Errno::EINPROGRESS));
                    client
                })
            })
            .collect();
        pair.pass(Duration::from_millis(500));
        // Accepted in the order in which they were opened: the wire keeps it.
        connected.extend(clients.into_iter().map(|client| {
            let server = pair.call(1, |sockets, cx| sockets.accept(listener, cx)).expect("it is in the accept queue");
            [client, server]
        }));
    }
    connected
}

fn send(pair: &mut Pair, client: SocketId, bytes: usize) {
    let data = Bytes::from(vec![0x5a; bytes]);
    let sent = pair.call(0, |sockets, cx| sockets.send(client, data, 0, None, &[], cx));
    assert_eq!(sent, Ok(bytes), "the send buffer takes it");
}

/// How many bytes there are to read.
fn receive(pair: &mut Pair, server: SocketId) -> usize {
    let mut bytes = 0;
    while let Ok(got) = pair.call(1, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx)) {
        bytes += got.len();
    }
    bytes
}

/// Every busy connection sends so much; returns when all of it has arrived.
fn transfer(pair: &mut Pair, busy: &[[SocketId; 2]], bytes: usize) {
    busy.iter().for_each(|[client, _]| send(pair, *client, bytes));
    arrive(pair, busy, bytes);
}

fn arrive(pair: &mut Pair, busy: &[[SocketId; 2]], bytes: usize) {
    let mut missing = busy.len() * bytes;
    for _ in 0..100 {
        pair.pass(Duration::from_millis(50));
        missing -= busy.iter().map(|[_, server]| receive(pair, *server)).sum::<usize>();
        if missing == 0 {
            return;
        }
    }
    panic!("{missing} bytes have not arrived");
}

/// Microseconds that the node is busy with a change.
fn change(pair: &mut Pair, op: Op) -> f64 {
    let (now, message) = (pair.now, Message { serial: 1, op });
    let start = Wall::now();
    let reply = pair.nodes[0].control(now, &message);
    let micros = start.elapsed().as_nanos() as f64 / 1000.0;
    reply.result.expect("the change is made");
    micros
}

fn replace() -> Op {
    Op::Replace { name: "tcp".to_owned(), kind: "tcp".to_owned(), parameters: Default::default(), drop_state: false }
}

/// Bytes that the node's connections have sent and that are not acknowledged.
fn in_flight(pair: &mut Pair) -> u64 {
    let now = pair.now;
    let rows = pair.nodes[0].control(now, &Message { serial: 1, op: Op::List(weft_core::Table::Flows) }).result.expect("it is a question");
    let unacked = |row: &weft_core::Value| row["unacked"].as_u64().unwrap_or(0);
    rows.as_array().map_or(0, |rows| rows.iter().map(unacked).sum())
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(20), |_, _| common::Fate::Pass);
    let connected = connect(&mut pair);
    let busy = &connected[..BUSY];
    for [client, _] in busy {
        let room = (2 * IN_FLIGHT as i32).to_ne_bytes();
        pair.call(0, |sockets, cx| sockets.set_option(*client, SOL_SOCKET, SO_SNDBUF, &room, cx)).expect("room to send");
    }
    // The congestion windows grow until all of it is in flight at once.
    for _ in 0..6 {
        transfer(&mut pair, busy, IN_FLIGHT);
    }
    let mut pauses = Vec::new();
    for _ in 0..REPLACEMENTS {
        busy.iter().for_each(|[client, _]| send(&mut pair, *client, IN_FLIGHT));
        pair.settle();
        let segments = in_flight(&mut pair);
        assert!(segments as usize >= BUSY * (IN_FLIGHT / 1460), "{segments} segments are in flight");
        pauses.push(change(&mut pair, replace()) / 1000.0);
        arrive(&mut pair, busy, IN_FLIGHT);
    }
    let end = End::parse;
    change(&mut pair, Op::Add { name: "c".to_owned(), kind: "counter".to_owned(), parameters: Default::default() });
    let (mut inserts, mut extracts) = (Vec::new(), Vec::new());
    for _ in 0..CHANGES {
        inserts.push(change(&mut pair, Op::Insert { block: end("c"), from: end("tcp:ip4"), to: end("ip4:upper") }));
        extracts.push(change(&mut pair, Op::Extract { block: "c".to_owned() }));
    }
    let rows = [
        ("replace of tcp with 10,000 connections, 64 MiB in flight", median(pauses.clone()), "ms", Some(REPLACE_MS_MAX)),
        ("  the longest", worst(&pauses), "ms", None),
        ("insert of a block in that node", median(inserts), "us", Some(CHANGE_US_MAX)),
        ("extract of a block in that node", median(extracts), "us", Some(CHANGE_US_MAX)),
    ];
    if json {
        let row = |(name, value, unit, needed): &(&str, f64, &str, Option<f64>)| serde_json::json!({"name": name, "value": value, "unit": unit, "needed": needed, "met": needed.map(|needed| *value <= needed)});
        println!("{}", serde_json::Value::from(rows.iter().map(row).collect::<Vec<_>>()));
    } else {
        rows.iter().for_each(|(name, value, unit, needed)| println!("{name:<60} {value:8.2} {unit}  {needed:?}"));
    }
}
