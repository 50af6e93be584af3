//! What is foreseen is what comes, and what is not sure is not foreseen.

use crate::common;

use common::{AF_INET6, Fate, Pair, address, address6};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use weft_core::control::{End, Message, Op};
use weft_core::{Bytes, Checksum, Frame, Instant, InterfaceIndex, offload};
use weft_socket::SocketId;

const SEGMENTS: usize = 8;

/// A connection, and what is on the wire to its server: so many segments, complete as wires carry them.
fn on_the_wire(family: i32) -> (Pair, SocketId, Vec<Frame>) {
    let seen = Rc::new(RefCell::new(None::<Vec<Frame>>));
    let tap = Rc::clone(&seen);
    let wire = move |side: usize, frame: &Frame| match (side, tap.borrow_mut().as_mut()) {
        (0, Some(kept)) => {
            let mut frame = frame.clone();
            offload::complete_checksum(&mut frame);
            kept.push(frame);
            Fate::Lose
        }
        _ => Fate::Pass,
    };
    let mut pair = Pair::new(0, "").with_wire(Duration::from_millis(1), wire);
    let to = if family == AF_INET6 { address6("fd77::2".parse().unwrap(), 80, 0) } else { address(2, 80) };
    let (client, server) = pair.connect_to(family, &to);
    pair.pass(Duration::from_secs(1));
    *seen.borrow_mut() = Some(Vec::new());
    let bytes: Vec<u8> = (0..=250).cycle().take(SEGMENTS * 1400).collect();
    pair.call(0, |sockets, cx| sockets.send(client, Bytes::from(bytes), 0, None, &[], cx)).unwrap();
    let frames = seen.borrow_mut().take().unwrap();
    assert!(frames.len() >= SEGMENTS);
    (pair, server, frames)
}

/// Bytes of each piece that is foreseen, with its time, and when the first comes that is not sure.
fn foreseen(pair: &Pair, server: SocketId, frames: &[Frame]) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
    let at = |index: usize| pair.now + Duration::from_micros(12 * (index as u64 + 1));
    let mut told = Vec::new();
    let coming = frames.iter().enumerate().map(|(index, frame)| (at(index), InterfaceIndex(2), frame));
    let unsure = pair.nodes[1].foresee(pair.now, coming, |socket, at, coming| {
        assert_eq!(socket, server);
        told.push((at.since(pair.now).as_micros() as u64 / 12 - 1, coming.pieces().flatten().copied().collect()));
        true
    });
    (told, unsure.map(|at: Instant| at.since(pair.now).as_micros() as u64 / 12 - 1))
}

#[test]
fn what_is_foreseen_is_what_each_frame_brings() {
    for family in [common::AF_INET, AF_INET6] {
        let (mut pair, server, frames) = on_the_wire(family);
        let (told, unsure) = foreseen(&pair, server, &frames);
        assert_eq!((told.len(), unsure), (frames.len(), None));
        for (frame, (_, bytes)) in frames.into_iter().zip(told) {
            let mut frame = frame;
            frame.meta_mut().interface = InterfaceIndex(2);
            let now = pair.now;
            pair.nodes[1].receive(now, [frame]);
            let got = pair.call(1, |sockets, cx| sockets.receive(server, 1 << 20, 0, cx)).unwrap();
            assert_eq!(got.data.iter().flatten().copied().collect::<Vec<u8>>(), bytes);
        }
    }
}

/// Changes one frame of several.
type Change = fn(&mut Vec<Frame>);

/// Changes a byte of a frame and keeps what is said of its checksum.
fn change(frame: &mut Frame, at: usize, with: impl FnOnce(u8) -> u8) {
    let byte = &mut frame.head_mut()[at];
    *byte = with(*byte);
}

#[test]
fn the_first_frame_that_is_not_plain_is_the_last_that_is_looked_at() {
    // Ethernet 14, IPv4 20: TCP's flags are byte 47, the sequence number ends at 41, the acknowledgment at 45.
    let changes: [(&str, Change); 13] = [
        ("one that is lost", |frames| drop(frames.remove(3))),
        ("one that comes twice", |frames| frames.insert(3, frames[2].clone())),
        ("another order", |frames| frames.swap(3, 4)),
        ("a checksum that nobody knows", |frames| frames[3].meta_mut().checksum = Checksum::Unknown),
        ("for another machine", |frames| change(&mut frames[3], 5, |byte| byte ^ 1)),
        ("with a VLAN tag", |frames| (frames[3].head_mut()[12], frames[3].head_mut()[13]) = (0x81, 0)),
        ("a fragment", |frames| change(&mut frames[3], 20, |byte| byte | 0x20)),
        ("a header that is not sound", |frames| change(&mut frames[3], 22, |byte| byte - 1)),
        ("another protocol", |frames| change(&mut frames[3], 23, |_| 17)),
        ("another port", |frames| change(&mut frames[3], 35, |byte| byte ^ 1)),
        ("the end", |frames| change(&mut frames[3], 47, |flags| flags | 1)),
        ("a reset", |frames| change(&mut frames[3], 47, |flags| flags | 4)),
        ("an acknowledgment of what was not sent", |frames| change(&mut frames[3], 43, |byte| byte.wrapping_add(1))),
    ];
    let (pair, server, frames) = on_the_wire(common::AF_INET);
    for (what, change) in changes {
        let mut frames = frames.clone();
        change(&mut frames);
        let (told, unsure) = foreseen(&pair, server, &frames);
        assert_eq!((told.len(), unsure), (3, Some(3)), "{what}");
    }
}

#[test]
fn nothing_is_foreseen_where_something_may_come_between() {
    let nothing = (Vec::new(), Some(0));
    let (mut pair, server, frames) = on_the_wire(common::AF_INET);
    let add = Op::Add { name: "tap".to_owned(), kind: "counter".to_owned(), parameters: Default::default() };
    let insert = Op::Insert { block: End::parse("tap"), from: End::parse("ether:ip4"), to: End::parse("ip4:lower") };
    let now = pair.now;
    pair.nodes[1].control(now, &Message { serial: 1, op: Op::All(vec![add, insert]) }).result.unwrap();
    assert_eq!(foreseen(&pair, server, &frames), nothing, "another block in the way");

    let (mut pair, server, frames) = on_the_wire(common::AF_INET);
    let timeout = [1_i64.to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
    pair.call(1, |sockets, cx| sockets.set_option(server, 1, 20, &timeout, cx)).unwrap();
    assert_eq!(foreseen(&pair, server, &frames), nothing, "a receive timeout");

    let (mut pair, server, frames) = on_the_wire(common::AF_INET);
    let now = pair.now;
    let mut later = frames[1].clone();
    later.meta_mut().interface = InterfaceIndex(2);
    pair.nodes[1].receive(now, [later]);
    assert_eq!(foreseen(&pair, server, &frames), nothing, "a gap");

    let (mut pair, server, frames) = on_the_wire(common::AF_INET);
    pair.call(1, |sockets, cx| sockets.close(server, cx));
    assert_eq!(foreseen(&pair, server, &frames), nothing, "nobody reads");
}
