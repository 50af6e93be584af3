//! ICMP as the RFCs want it (792, 1122 §3.2.2, 1812 §4.3.2, 6633): frames in, frames out. `docs/rfc/` names these tests.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::icmpv4::{self, Message, kind, unreachable};
use weft_wire::{Protocol, ipv4};

const GATEWAY_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
/// An option that says that it is longer than the header.
const MALFORMED: [u8; 4] = [1, 1, 7, 44];

const fn ip(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// A message to us, from the gateway.
fn from_gateway(message: &[u8]) -> Vec<u8> {
    from_peer(header(GATEWAY_IP, OUR_IP, Protocol::ICMP), message)
}

fn malformed(header: ipv4::Header) -> ipv4::Header {
    ipv4::Header { options: ipv4::Options::from_bytes(&MALFORMED).unwrap(), ..header }
}

/// Type and code of the ICMP message in a frame.
fn type_and_code(frame: &[u8]) -> (u8, u8) {
    let (_, ip, message) = parse_ip(frame);
    assert_eq!(ip.protocol, Protocol::ICMP);
    assert!(icmpv4::verify_checksum(&message));
    (message[0], message[1])
}

/// A datagram that the node sent to the peer, as a packet that an error can quote.
fn sent_datagram(node: &mut Node) -> Vec<u8> {
    node.send(b"hello", OUR_IP, 1000, PEER_IP, 53)[0][14..].to_vec()
}

#[test]
fn an_echo_returns_all_data_from_the_address_that_was_asked() {
    let mut node = Node::with_peer();
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "198.51.100.5/32"})).unwrap();
    for dst in [OUR_IP, ip(198, 51, 100, 5)] {
        for length in [0, 1, 2, 55, 56, 300, 1471, 1472] {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let request = ping(PEER_IP, dst, &data);
            let out = node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &request));
            let (ether, ip, reply) = parse_ip(&out[0]);
            assert_eq!((out.len(), ether.dst, ip.src, ip.dst), (1, PEER_MAC, dst, PEER_IP));
            assert!(icmpv4::verify_checksum(&reply));
            assert_eq!((reply[..2].to_vec(), &reply[4..]), (vec![0, 0], &request[24..]), "identifier, sequence number and data");
        }
    }
}

#[test]
fn an_echo_reply_of_a_request_of_ours_is_not_answered() {
    let mut node = Node::with_peer();
    assert!(node.receive(&from_gateway(&icmp(Message::EchoReply { identifier: 1, sequence: 1 }, b"hello"))).is_empty());
    assert_eq!(node.counter("icmp4", "InEchoReps"), 1);
    // We ping ourselves, at an address of the loopback: the reply has the address that was asked.
    let mut request = Frame::egress();
    request.extend(&icmp(Message::EchoRequest { identifier: 1, sequence: 1 }, b"hello"));
    (request.meta_mut().dst, request.meta_mut().protocol) = (ip(127, 0, 0, 9).into(), Protocol::ICMP);
    let ip4 = node.id("ip4");
    node.engine.inject(node.now, ip4, InPort(1), [request]);
    node.settle();
    assert_eq!((node.counter("icmp4", "InEchos"), node.counter("icmp4", "InEchoReps"), node.wire().len()), (1, 2, 0));
    assert!(node.all_drops().is_empty());
}

#[test]
fn messages_of_any_other_type_are_discarded_without_a_word() {
    let mut node = Node::with_peer();
    let quoted = sent_datagram(&mut node);
    let errors = [kind::DESTINATION_UNREACHABLE, kind::TIME_EXCEEDED, kind::PARAMETER_PROBLEM];
    for kind in (0..=255).filter(|kind| *kind != kind::ECHO_REQUEST && !errors.contains(kind)) {
        for code in [0, 1, 255] {
            if (kind, code) == (kind::TIMESTAMP_REQUEST, 0) {
                continue;
            }
            let message = icmp(Message::Other { kind, code, rest: [0; 4] }, &quoted);
            assert!(node.receive(&from_gateway(&message)).is_empty(), "type {kind} code {code}");
        }
    }
    assert!(node.seen("sockets").is_empty() && node.all_drops().is_empty());
}

#[test]
fn a_source_quench_changes_nothing_and_none_is_ever_sent() {
    let mut node = Node::with_peer();
    for protocol in [Protocol::UDP, Protocol::TCP] {
        let quoted = ip_packet(header(OUR_IP, PEER_IP, protocol), &[0, 1, 0, 2, 0, 9, 0, 0]);
        let quench = icmp(Message::Other { kind: 4, code: 0, rest: [0; 4] }, &quoted);
        assert!(node.receive(&from_gateway(&quench)).is_empty());
    }
    assert!(node.seen("tcp").is_empty() && node.seen("sockets").is_empty());
    // Overload is where RFC 792 would send one: here, a neighbour's queue.
    node.set("arp", "pending_frames_max", 1.into());
    for number in 0..5 {
        let frames = node.send(&[number], OUR_IP, 1, ip(10, 0, 0, 3), 2);
        assert!(frames.iter().all(|frame| parse_arp(frame).1.target_ip == ip(10, 0, 0, 3)));
    }
    assert_eq!(node.drops("arp", Reason::NeighbourPendingFull), 4);
}

#[test]
fn a_timestamp_request_is_answered_with_the_time_if_it_is_known() {
    let mut node = Node::with_peer();
    node.now = Instant::from_millis(5000);
    let asked = icmpv4::Timestamps { identifier: 7, sequence: 9, originate: 1234, receive: 1, transmit: 2 };
    let request = |dst, payload: &[u8]| from_peer(header(PEER_IP, dst, Protocol::ICMP), &icmp(Message::TimestampRequest(asked), payload));
    let answer = |node: &mut Node| {
        let (_, ip, message) = parse_ip(&node.receive(&request(OUR_IP, b"more"))[0]);
        assert!(icmpv4::verify_checksum(&message));
        assert_eq!((ip.src, ip.dst, message.len()), (OUR_IP, PEER_IP, icmpv4::TIMESTAMP_LEN));
        match Message::parse(&message).unwrap().0 {
            Message::TimestampReply(times) => times,
            other => panic!("{other:?}"),
        }
    };
    let told = icmpv4::Timestamps { receive: 0x8000_0000 | 5000, transmit: 0x8000_0000 | 5000, ..asked };
    assert_eq!(answer(&mut node), told, "nobody said when the node booted: a time with the high bit");
    // Booted one second before midnight.
    node.set("icmp4", "boot_time", ((86_400_u64 * 3 - 1) * 1_000_000_000).into());
    assert_eq!(answer(&mut node), icmpv4::Timestamps { receive: 4000, transmit: 4000, ..asked });
    assert!(node.receive(&request(BROADCAST_IP, b"")).is_empty());
    assert_eq!((node.counter("icmp4", "OutTimestampReps"), node.counter("icmp4", "InTimestamps")), (2, 3));
}

#[test]
fn every_error_about_a_datagram_reaches_the_application_with_its_ports() {
    let mut node = Node::with_peer();
    let quoted = sent_datagram(&mut node);
    let codes = (0..16).map(|code| Message::DestinationUnreachable { code, mtu: 1300 });
    let others = [Message::TimeExceeded { code: 0 }, Message::TimeExceeded { code: 1 }, Message::ParameterProblem { code: 0, pointer: 8 }];
    for message in codes.chain(others) {
        // Quotes of the header and 64 bits (RFC 792), and of all.
        for quote in [&quoted[..28], &quoted[..]] {
            assert!(node.receive(&from_gateway(&icmp(message, quote))).is_empty());
            let told = node.seen("sockets");
            let meta = told[0].meta();
            assert_eq!((told.len(), meta.src_port, meta.dst_port, meta.dst), (1, 1000, 53, PEER_IP.into()), "{message:?}");
            assert_eq!(meta.error.unwrap().from, GATEWAY_IP);
        }
    }
}

#[test]
fn errors_say_what_is_wrong_with_their_type_and_code() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    let udp = udp_segment(PEER_IP, 1, OUR_IP, 2, b"hello");
    let unknown = node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::GRE), &[0; 8]));
    assert_eq!(type_and_code(&unknown[0]), (kind::DESTINATION_UNREACHABLE, unreachable::PROTOCOL));
    let closed = node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp));
    assert_eq!(type_and_code(&closed[0]), (kind::DESTINATION_UNREACHABLE, unreachable::PORT));
    let option = node.receive(&from_peer(malformed(header(PEER_IP, OUR_IP, Protocol::UDP)), &udp));
    assert_eq!((type_and_code(&option[0]), parse_ip(&option[0]).2[4]), ((kind::PARAMETER_PROBLEM, 0), 22));
}

#[test]
fn an_error_quotes_the_packet_as_it_came_and_up_to_576_bytes_of_it() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    node.set("icmp4", "target_interval", json!("0ns"));
    for length in [0, 1, 7, 8, 100, 519, 520, 521, 1000, 1472] {
        let packet = ip_packet(
            ipv4::Header { identification: 77, ttl: 3, dont_fragment: true, ..header(PEER_IP, OUR_IP, Protocol::UDP) },
            &udp_segment(PEER_IP, 1, OUR_IP, 2, &vec![length as u8; length]),
        );
        let out = node.receive(&ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &packet));
        let (_, ip, message) = parse_ip(&out[0]);
        assert_eq!(message[8..], packet[..packet.len().min(548)], "header and data are the packet's, unchanged");
        assert_eq!((ip.src, ip.dst, ip.ttl), (OUR_IP, PEER_IP, 64));
    }
}

#[test]
fn an_error_has_internetwork_control_precedence_and_comes_from_the_address_that_was_sent_to() {
    let mut node = Node::with_peer();
    node.set("icmp4", "target_interval", json!("0ns"));
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "198.51.100.5/32"})).unwrap();
    for tos in 0..=255u8 {
        let dst = ip(198, 51, 100, 5);
        let out = node.receive(&from_peer(ipv4::Header { tos, ..header(PEER_IP, dst, Protocol::GRE) }, &[0; 8]));
        node.advance(Duration::from_millis(1));
        let (_, ip, _) = parse_ip(&out[0]);
        // Precedence 6, and the packet's type of service (Linux RT_TOS).
        assert_eq!((ip.src, ip.tos >> 5, ip.tos & 0x1f), (dst, 6, tos & 0x1e));
    }
}

/// Three packets that would be answered with an error: of an unknown protocol, for a port without a socket, with a malformed option.
fn provocations(src: Ipv4Addr, dst: Ipv4Addr) -> [Vec<u8>; 3] {
    let udp = udp_segment(src, 1, dst, 2, b"hello");
    [
        ip_packet(header(src, dst, Protocol::GRE), &[0; 8]),
        ip_packet(header(src, dst, Protocol::UDP), &udp),
        ip_packet(malformed(header(src, dst, Protocol::UDP)), &udp),
    ]
}

#[test]
fn no_error_is_sent_about_what_many_may_have_received() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    let all = ip(224, 0, 0, 1);
    let answered = |node: &mut Node, mac: Mac, packets: &[Vec<u8>]| -> usize {
        packets.iter().map(|packet| node.receive(&ethernet(mac, PEER_MAC, EtherType::IPV4, packet)).len()).sum()
    };
    assert_eq!(answered(&mut node, OUR_MAC, &provocations(PEER_IP, OUR_IP)), 3, "each is answered when it comes to us alone");
    for dst in [Ipv4Addr::BROADCAST, BROADCAST_IP, all] {
        for mac in [OUR_MAC, Mac::BROADCAST, Mac::from_multicast_v4(all)] {
            assert_eq!(answered(&mut node, mac, &provocations(PEER_IP, dst)), 0, "to {dst} {mac}");
        }
        assert_eq!(answered(&mut node, Mac::BROADCAST, &provocations(Ipv4Addr::UNSPECIFIED, dst)[..2]), 0);
    }
    for mac in [Mac::BROADCAST, Mac::from_multicast_v4(all)] {
        assert_eq!(answered(&mut node, mac, &provocations(PEER_IP, OUR_IP)), 0, "to us, but on the link to {mac}");
    }
    assert_eq!(node.counter("icmp4", "OutForbidden"), 9 * 3 + 3 * 2 + 2 * 3);
}

#[test]
fn no_error_is_sent_about_an_error_or_a_later_fragment() {
    let mut node = Node::with_peer();
    node.set("icmp4", "target_interval", json!("0ns"));
    let quoted = sent_datagram(&mut node);
    for kind in 0..=255 {
        let message = icmp(Message::Other { kind, code: 0, rest: [0; 4] }, &quoted);
        let out = node.receive(&from_peer(malformed(header(PEER_IP, OUR_IP, Protocol::ICMP)), &message));
        node.advance(Duration::from_millis(1));
        // Linux: nor about types above 18, which could be errors.
        let expected = usize::from(!matches!(kind, 3 | 4 | 5 | 11 | 12 | 19..));
        assert_eq!(out.len(), expected, "type {kind}");
    }
    assert!(node.seen("sockets").is_empty(), "a packet with a malformed option is not read any further");
    for (fragment_offset, answers) in [(0, 1), (8, 0), (65_528, 0)] {
        let fragment = ipv4::Header { fragment_offset, more_fragments: true, ..malformed(header(PEER_IP, OUR_IP, Protocol::UDP)) };
        assert_eq!(node.receive(&from_peer(fragment, &[0; 16])).len(), answers);
    }
}

#[test]
fn a_changed_bit_in_a_message_is_dropped_without_a_word() {
    let mut node = Node::with_peer();
    let request = from_peer(header(PEER_IP, OUR_IP, Protocol::ICMP), &ping(PEER_IP, OUR_IP, b"hello")[20..]);
    for bit in 34 * 8..request.len() * 8 {
        let mut spoiled = request.clone();
        spoiled[bit / 8] ^= 0x80 >> (bit % 8);
        assert!(node.receive(&spoiled).is_empty(), "bit {bit}");
    }
    assert_eq!(node.drops("icmp4", Reason::BadChecksum), 13 * 8);
    assert_eq!(node.receive(&request).len(), 1);
}

#[test]
fn an_error_that_cannot_be_about_a_packet_of_ours_is_ignored() {
    let mut node = Node::with_peer();
    let segment = udp_segment(OUR_IP, 1000, PEER_IP, 53, b"hello");
    let quotes = [
        ip_packet(header(PEER_IP, OUR_IP, Protocol::UDP), &segment),
        ip_packet(header(ip(192, 0, 2, 1), PEER_IP, Protocol::UDP), &segment),
        ip_packet(header(OUR_IP, BROADCAST_IP, Protocol::UDP), &segment),
        ip_packet(header(OUR_IP, PEER_IP, Protocol::UDP), &segment[..7]),
        ip_packet(header(OUR_IP, PEER_IP, Protocol::UDP), &segment)[..19].to_vec(),
        Vec::new(),
        vec![0xff; 60],
    ];
    for quote in &quotes {
        let error = icmp(Message::DestinationUnreachable { code: unreachable::PORT, mtu: 0 }, quote);
        assert!(node.receive(&from_gateway(&error)).is_empty());
    }
    // A protocol that nobody here speaks.
    let foreign = ip_packet(header(OUR_IP, PEER_IP, Protocol::GRE), &[0; 8]);
    node.receive(&from_gateway(&icmp(Message::TimeExceeded { code: 0 }, &foreign)));
    assert!(node.seen("sockets").is_empty() && node.seen("tcp").is_empty());
}

#[test]
fn raw_sockets_hear_of_packets_of_every_protocol() {
    let mut node = Node::with_peer();
    let end = |text: &str| weft_core::control::End::parse(text);
    node.control(Op::Bind { from: end("icmp4:other"), to: end("sockets:error") }).unwrap();
    for (protocol, tcp) in [(Protocol::TCP, 1), (Protocol::UDP, 0), (Protocol::GRE, 0), (Protocol::ICMP, 0)] {
        let quoted = ip_packet(header(OUR_IP, PEER_IP, protocol), &[0, 1, 0, 2, 0, 8, 0, 0]);
        node.receive(&from_gateway(&icmp(Message::TimeExceeded { code: 0 }, &quoted)));
        let told = node.seen("sockets");
        assert_eq!((told.len(), node.seen("tcp").len()), (1, tcp), "{protocol:?}");
        assert_eq!(told[0].meta().error.unwrap().kind, IcmpErrorKind::TtlExceeded);
    }
    assert!(node.all_drops().is_empty());
}
