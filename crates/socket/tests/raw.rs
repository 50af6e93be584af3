//! Bounds of raw sockets, ICMP sockets and error queues, each with its counter, and what a node is told of them. On the graph of a node.

use crate::graph;
use crate::language;
use crate::model;

use language::Host;
use model::Model;
use weft_core::{Message, Mode, Op, Show};
use weft_socket::{Errno, Poll, abi, address};

fn counter(model: &mut Model, block: &str, name: &str) -> u64 {
    let reply = model.engine.control(weft_core::Instant::ZERO, &Message { serial: 1, op: Op::Show(Show::Counters) });
    let rows = reply.result.expect("counters");
    let found = rows.as_array().and_then(|rows| rows.iter().find(|row| row["block"] == block)).expect("the block's row").clone();
    found["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

fn to(text: &str) -> Vec<u8> {
    address::to_bytes(text.parse().expect("an address"))
}

#[test]
fn packets_are_wanted_from_the_first_socket_of_a_protocol_to_the_last() {
    let mut model = graph::model(Mode::Inline);
    // Sends packets of protocol 200 without wanting any.
    let sender = model.socket(2, 3, 255).expect("a raw socket");
    let packet = [0x45, 0, 0, 21, 1, 1, 0, 0, 64, 200, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 7];
    let send = |model: &mut Model| model.send(sender, &packet, 0, Some(&to("127.0.0.1:0")), &[]).expect("it is sent");
    send(&mut model);
    assert_eq!(counter(&mut model, "sockets", "raw_in"), 0);
    assert_eq!(counter(&mut model, "ip4", "InUnknownProtos"), 1);
    let (first, second) = (model.socket(2, 3, 200).expect("a raw socket"), model.socket(2, 3, 200).expect("a raw socket"));
    send(&mut model);
    assert_eq!(counter(&mut model, "sockets", "raw_in"), 1);
    assert_eq!(model.receive(first, 100, 0).expect("a packet").data, model.receive(second, 100, 0).expect("a packet").data);
    model.close(first);
    send(&mut model);
    assert_eq!(model.receive(second, 100, 0).expect("a packet").count, packet.len());
    model.close(second);
    send(&mut model);
    assert_eq!(counter(&mut model, "sockets", "raw_in"), 2);
    assert_eq!(counter(&mut model, "ip4", "InUnknownProtos"), 2);
}

#[test]
fn a_full_receive_buffer_loses_packets_and_counts_them() {
    let mut model = graph::model(Mode::Inline);
    let (reader, writer) = (model.socket(2, 3, 200).expect("a raw socket"), model.socket(2, 3, 255).expect("a raw socket"));
    model.set(reader, abi::SOL_SOCKET, abi::SO_RCVBUF, &1i32.to_ne_bytes()).expect("SO_RCVBUF");
    let mut packet = vec![0x45, 0, 0, 0, 1, 1, 0, 0, 64, 200, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
    packet.resize(1000, 7);
    for _ in 0..50 {
        model.send(writer, &packet, 0, Some(&to("127.0.0.1:0")), &[]).expect("it is sent");
    }
    let mut read = 0;
    while model.receive(reader, 2000, 0).is_ok() {
        read += 1;
    }
    assert!((1..5).contains(&read), "{read} packets");
    assert_eq!(counter(&mut model, "sockets", "RcvbufErrors"), 50 - read);
}

#[test]
fn an_error_queue_is_bounded_and_counts_what_it_lost() {
    let mut model = graph::model(Mode::Inline);
    let s = model.socket(2, 2, 0).expect("a socket");
    model.set(s, abi::SOL_IP, abi::IP_RECVERR, &1i32.to_ne_bytes()).expect("IP_RECVERR");
    for _ in 0..400 {
        // The error of the last one stands in the way of every other.
        let _ = model.send(s, b"lost", 0, Some(&to("127.0.0.1:9")), &[]);
        model.get(s, abi::SOL_SOCKET, abi::SO_ERROR, 4).expect("SO_ERROR");
    }
    assert!(model.poll(s).contains(Poll::ERR));
    let mut entries = 0;
    while model.receive(s, 100, abi::MSG_ERRQUEUE).is_ok() {
        entries += 1;
    }
    let (queued, lost) = (counter(&mut model, "sockets", "errors_queued"), counter(&mut model, "sockets", "errors_lost"));
    // As many as the receive buffer of 212,992 bytes has room for, of 768 bytes each.
    assert_eq!((entries, queued, lost), (277, 277, 123));
    assert!(!model.poll(s).contains(Poll::ERR));
}

#[test]
fn a_received_time_is_told_where_only_this_is_asked_for() {
    let mut model = graph::model(Mode::Inline);
    let (a, b) = (model.socket(2, 2, 0).expect("a socket"), model.socket(2, 2, 0).expect("a socket"));
    model.bind(a, &to("127.0.0.1:9000")).expect("bind");
    let flags = (abi::TIMESTAMPING_RX_SOFTWARE | abi::TIMESTAMPING_SOFTWARE).to_ne_bytes();
    model.set(a, abi::SOL_SOCKET, abi::SO_TIMESTAMPING_OLD, &flags).expect("SO_TIMESTAMPING");
    model.send(b, b"x", 0, Some(&to("127.0.0.1:9000")), &[]).expect("it is sent");
    let control = model.receive(a, 10, 0).expect("a datagram").control;
    // struct cmsghdr, struct scm_timestamping: the model's second 1, and no time of hardware.
    assert_eq!(control.len(), 16 + 48);
    assert_eq!(control[8..16], [[1, 0, 0, 0], [37, 0, 0, 0]].concat());
    assert_eq!(control[16..24], 1u64.to_ne_bytes());
    assert!(control[32..].iter().all(|byte| *byte == 0));
}

#[test]
fn memberships_are_bounded_over_ipv6_too() {
    let mut model = graph::model(Mode::Inline);
    let s = model.socket(10, 2, 0).expect("a socket");
    let mut joined = 0;
    for group in 0..2000u16 {
        let mut request = vec![0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        request.extend(group.to_be_bytes());
        request.extend(1u32.to_ne_bytes());
        match model.set(s, abi::SOL_IPV6, abi::IPV6_ADD_MEMBERSHIP, &request) {
            Ok(()) => joined += 1,
            Err(error) => assert_eq!(error, Errno::ENOMEM),
        }
    }
    assert_eq!(joined, 1024);
    model.close(s);
}
