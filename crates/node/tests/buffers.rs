//! What is told of a connection's buffers: as much as TCP made of them, and as much as is in them.

use crate::common;

use common::Pair;
use std::time::Duration;
use weft_core::control::{Message, Op, Show};
use weft_core::{Bytes, Value};
use weft_socket::SocketId;

const SOL_SOCKET: i32 = 1;
const SO_RCVBUF: i32 = 8;
const SO_MEMINFO: i32 = 55;

/// RECV_Q and SEND_Q of the connection's row.
fn queues(pair: &mut Pair, side: usize) -> (u64, u64) {
    let now = pair.now;
    let rows = pair.nodes[side].control(now, &Message { serial: 1, op: Op::Show(Show::Sockets) }).result.unwrap();
    let row: &Value = rows.as_array().unwrap().iter().find(|row| row["state"] == "ESTAB").unwrap();
    (row["recv_q"].as_u64().unwrap(), row["send_q"].as_u64().unwrap())
}

fn words(pair: &mut Pair, side: usize, s: SocketId, name: i32) -> Vec<u32> {
    let bytes = pair.call(side, |sockets, cx| sockets.get_option(s, SOL_SOCKET, name, 64, cx)).unwrap();
    bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_send_queue_holds_what_is_not_acknowledged() {
    let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(20), |_, _| common::Fate::Pass);
    let (client, _) = pair.connect();
    pair.pass(Duration::from_secs(1));
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from(vec![1; 81]), 0, None, &[], cx)).unwrap();
    assert_eq!((queues(&mut pair, 0), words(&mut pair, 0, client, SO_MEMINFO)[5]), ((0, 81), 81));
    pair.pass(Duration::from_secs(1));
    assert_eq!((queues(&mut pair, 0), words(&mut pair, 0, client, SO_MEMINFO)[5]), ((0, 0), 0), "acknowledged");
    assert_eq!(queues(&mut pair, 1), (81, 0));
}

#[test]
fn a_receive_buffer_is_told_as_it_has_grown() {
    let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(20), |_, _| common::Fate::Pass);
    let (client, server) = pair.connect();
    assert_eq!(words(&mut pair, 1, server, SO_RCVBUF), [131_072]);
    pair.transfer((client, server), &Bytes::from(vec![7; 1 << 16]), 20 << 20, |_| {});
    let grown = words(&mut pair, 1, server, SO_RCVBUF)[0];
    assert!(grown > 500_000, "{grown}");
    assert_eq!(words(&mut pair, 1, server, SO_MEMINFO)[1], grown);
}
