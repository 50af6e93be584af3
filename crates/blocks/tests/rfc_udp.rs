//! UDP as the RFCs want it (768, 1122 §4.1): frames in, frames out. `docs/rfc/` names these tests.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::icmpv4::{Message, unreachable};
use weft_wire::{Protocol, udp};

fn to_us(segment: &[u8]) -> Vec<u8> {
    from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), segment)
}

#[test]
fn a_changed_bit_in_a_datagram_is_dropped_without_a_word() {
    let mut node = Node::with_peer();
    // Nobody listens: what is not dropped would be answered.
    node.set("sockets", "listening", false.into());
    let segment = udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello, world");
    for bit in 0..segment.len() * 8 {
        let mut spoiled = segment.clone();
        spoiled[bit / 8] ^= 0x80 >> (bit % 8);
        assert!(node.receive(&to_us(&spoiled)).is_empty(), "bit {bit}");
    }
    assert_eq!(node.counter("udp", "InErrors"), segment.len() as u64 * 8);
    assert_eq!(node.receive(&to_us(&segment)).len(), 1);
}

#[test]
fn the_checksum_covers_the_addresses() {
    let mut node = Node::with_peer();
    // The IP header is right, but the datagram was meant for, or by, somebody else.
    for (src, dst) in [(PEER_IP, Ipv4Addr::new(10, 0, 0, 9)), (Ipv4Addr::new(10, 0, 0, 3), OUR_IP)] {
        assert!(node.receive(&to_us(&udp_segment(src, 1, dst, 2, b"hello"))).is_empty());
    }
    assert!(node.seen("sockets").is_empty());
    assert_eq!(node.drops("udp", Reason::BadChecksum), 2);
}

#[test]
fn a_datagram_without_a_checksum_is_taken_and_none_is_sent() {
    let mut node = Node::with_peer();
    let mut segment = udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello");
    segment[6..8].fill(0);
    node.receive(&to_us(&segment));
    assert_eq!(node.seen("sockets")[0].to_vec(), b"hello");
    // Every payload of two bytes: the checksum is always there, and right.
    for payload in (0..=u16::MAX).step_by(7).map(u16::to_be_bytes) {
        let (_, _, sent) = parse_ip(&node.send(&payload, OUR_IP, 1, PEER_IP, 2)[0]);
        assert_eq!(sent, udp_segment(OUR_IP, 1, PEER_IP, 2, &payload));
        assert_ne!(sent[6..8], [0, 0]);
    }
}

#[test]
fn a_length_shorter_than_the_packet_cuts_and_a_longer_one_is_dropped() {
    let mut node = Node::with_peer();
    let segment = udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello");
    node.receive(&to_us(&[&segment[..], b"behind it"].concat()));
    assert_eq!(node.seen("sockets")[0].to_vec(), b"hello");
    for length in [0u16, 7, 14, 65_535] {
        let mut wrong = segment.clone();
        wrong[4..6].copy_from_slice(&length.to_be_bytes());
        // With and without a checksum: the length alone is enough.
        for checksum in [[wrong[6], wrong[7]], [0, 0]] {
            wrong[6..8].copy_from_slice(&checksum);
            assert!(node.receive(&to_us(&wrong)).is_empty());
        }
    }
    assert!(node.seen("sockets").is_empty());
    assert_eq!(node.counter("udp", "InErrors"), 8);
}

#[test]
fn a_port_that_nobody_has_is_answered_and_the_answer_reaches_the_application_of_the_other_side() {
    let (mut near, mut far) = (Node::with_peer(), Node::bare(Mode::Inline));
    far.exec("interfaces", "add", json!({"name": "eth0", "mac": PEER_MAC.to_string()})).unwrap();
    far.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.2/24"})).unwrap();
    far.exec("arp", "add", json!({"interface": "eth0", "address": OUR_IP.to_string(), "mac": OUR_MAC.to_string()})).unwrap();
    far.set("sockets", "listening", false.into());
    // -> near: datagram to port 53.  <- far: port unreachable.
    let sent = near.send(b"anybody?", OUR_IP, 1000, PEER_IP, 53);
    let answer = far.receive(&sent[0]);
    assert_eq!(Message::parse(&parse_ip(&answer[0]).2).unwrap().0, Message::DestinationUnreachable { code: unreachable::PORT, mtu: 0 });
    near.receive(&answer[0]);
    let told = near.seen("sockets");
    let meta = told[0].meta();
    let expected = IcmpError { kind: IcmpErrorKind::PortUnreachable, from: PEER_IP.into() };
    assert_eq!((told.len(), meta.error, meta.src_port, meta.dst_port), (1, Some(expected), 1000, 53));
    // With a listener it is delivered, with the address and port to answer.
    far.set("sockets", "listening", true.into());
    far.receive(&near.send(b"anybody?", OUR_IP, 1000, PEER_IP, 53)[0]);
    let seen = far.seen("sockets");
    let meta = seen[0].meta();
    assert_eq!((seen[0].to_vec(), meta.src, meta.src_port), (b"anybody?".to_vec(), OUR_IP.into(), 1000));
    assert_eq!((meta.dst, meta.dst_port, meta.interface), (PEER_IP.into(), 53, ETH0));
}

#[test]
fn the_application_chooses_source_ttl_and_type_of_service_or_leaves_it_to_ip() {
    let mut node = Node::with_peer();
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "198.51.100.5/32"})).unwrap();
    for (wanted, sent) in
        [(Ipv4Addr::UNSPECIFIED, OUR_IP), (OUR_IP, OUR_IP), (Ipv4Addr::new(198, 51, 100, 5), Ipv4Addr::new(198, 51, 100, 5))]
    {
        let mut frame = datagram(b"x", wanted, 1, PEER_IP, 2);
        (frame.meta_mut().ttl, frame.meta_mut().tos) = (7, 0x28);
        let (_, ip, segment) = parse_ip(&node.send_frame(frame)[0]);
        assert_eq!((ip.src, ip.ttl, ip.tos), (sent, 7, 0x28));
        assert_eq!(segment, udp_segment(sent, 1, PEER_IP, 2, b"x"), "the checksum is over the address that was chosen");
    }
}

#[test]
fn ports_may_be_any_and_data_may_be_none() {
    let mut node = Node::with_peer();
    for (src_port, dst_port) in [(0, 1), (0, 65_535), (65_535, 1)] {
        node.receive(&to_us(&udp_segment(PEER_IP, src_port, OUR_IP, dst_port, b"")));
        let seen = node.seen("sockets");
        assert_eq!((seen[0].len(), seen[0].meta().src_port, seen[0].meta().dst_port), (0, src_port, dst_port));
        let sent = node.send(b"", OUR_IP, src_port, PEER_IP, dst_port);
        assert_eq!(parse_ip(&sent[0]).2.len(), udp::LEN);
    }
}
