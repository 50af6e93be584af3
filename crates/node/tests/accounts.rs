//! What is counted as dropped was dropped, and nothing else.

use crate::common;

use common::{AF_INET, Pair, SOCK_DGRAM, address};
use weft_core::Bytes;
use weft_core::control::{Message, Op, Show, Value};

#[test]
fn datagrams_that_are_delivered_are_no_drops() {
    let mut pair = Pair::new(0, "");
    let [sender, receiver] = [0, 1].map(|side| pair.call(side, |sockets, cx| sockets.socket(AF_INET, SOCK_DGRAM, 0, cx).unwrap()));
    pair.call(1, |sockets, cx| sockets.bind(receiver, &address(2, 53), cx).unwrap());
    let send = |pair: &mut Pair, port: u16| {
        pair.call(0, |sockets, cx| sockets.send(sender, Bytes::from_static(b"x"), 0, Some(&address(2, port)), &[], cx).unwrap());
        pair.settle();
    };
    for _ in 0..20 {
        send(&mut pair, 53);
        assert_eq!(pair.call(1, |sockets, cx| sockets.receive(receiver, 100, 0, cx)).unwrap().len(), 1);
    }
    assert_eq!(drops(&mut pair), 0);
    // A full buffer is one: SO_RCVBUF's least is 2304 bytes.
    pair.call(1, |sockets, cx| sockets.set_option(receiver, 1, 8, &1_i32.to_ne_bytes(), cx).unwrap());
    for _ in 0..20 {
        send(&mut pair, 53);
    }
    let held = std::iter::from_fn(|| pair.call(1, |sockets, cx| sockets.receive(receiver, 100, 0, cx)).ok()).count() as u64;
    assert!(held < 20);
    assert_eq!(drops(&mut pair), 20 - held);
}

fn drops(pair: &mut Pair) -> u64 {
    let now = pair.now;
    let Ok(Value::Array(rows)) = pair.nodes[1].control(now, &Message { serial: 1, op: Op::Show(Show::Drops) }).result else {
        panic!("no rows")
    };
    rows.iter().filter(|row| row["block"] == "sockets").filter_map(|row| row["frames"].as_u64()).sum()
}
