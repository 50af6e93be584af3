//! ICMPv6: echo, errors both ways, limits.

use crate::graph6;
use graph6::*;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::icmpv6::Message;
use weft_wire::ipv6::Header;

#[test]
fn echo_requests_are_answered_from_where_they_were_sent_to() {
    let mut node = Node::new();
    let payload: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let group = ip("ff02::1");
    for (src, dst, from) in [
        (PEER_IP, OUR_IP, OUR_IP),
        (FAR_IP, OUR_IP, OUR_IP),
        (PEER_LINK_IP, OUR_LINK_IP, OUR_LINK_IP),
        // RFC 4443 §4.2: to a group, from an address of the interface.
        (PEER_LINK_IP, group, OUR_LINK_IP),
        (PEER_IP, group, OUR_IP),
    ] {
        let out = node.receive(&ping(src, dst, &payload));
        let (ip, message, echoed) = parse_icmp(&out[0]);
        assert_eq!((ip.src, ip.dst, message), (from, src, Message::EchoReply { identifier: 0x1234, sequence: 7 }), "{src} to {dst}");
        assert_eq!(echoed, payload);
    }
    assert_eq!((node.counter("icmp6", "InEchos"), node.counter("icmp6", "OutEchoReplies")), (5, 5));
    assert!(node.receive(&ping(Ipv6Addr::UNSPECIFIED, OUR_IP, b"x")).is_empty(), "nobody could hear the answer");
    node.set("icmp6", "echo_multicast", false.into());
    assert!(node.receive(&ping(PEER_IP, group, b"x")).is_empty());
    node.set("icmp6", "echo", false.into());
    assert!(node.receive(&ping(PEER_IP, OUR_IP, b"x")).is_empty());
    let mut spoiled = ping(PEER_IP, OUR_IP, b"x");
    *spoiled.last_mut().unwrap() ^= 1;
    node.receive(&spoiled);
    assert_eq!((node.counter("icmp6", "InCsumErrors"), node.drops("icmp6", Reason::BadChecksum)), (1, 1));
}

#[test]
fn each_kind_of_message_finds_its_reader() {
    let mut node = Node::new();
    for kind in [1u8, 2, 3, 4, 100, 127, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 143, 200] {
        let body = icmp(PEER_IP, OUR_IP, Message::Other { kind, code: 0, rest: [0; 4] }, &[0; 40]);
        assert!(node.receive(&from_peer(Header { hop_limit: 255, ..header(PEER_IP, OUR_IP, Protocol::ICMPV6) }, &body)).is_empty());
    }
    let types = |node: &mut Node, block| node.seen(block).iter().map(|frame| frame.head()[0]).collect::<Vec<u8>>();
    assert_eq!(types(&mut node, "nd"), [133, 134, 135, 136, 137]);
    assert_eq!(types(&mut node, "mld"), [130, 131, 132, 143]);
    assert_eq!(types(&mut node, "ping"), [1, 2, 3, 4, 100, 127, 129, 138, 200]);
}

/// A datagram of ours as the peer saw it, with `extensions` of 8 bytes in front of UDP.
fn our_datagram(next: Protocol, extensions: &[u8]) -> Vec<u8> {
    packet(header(OUR_IP, PEER_IP, next), &[extensions, &udp_segment(OUR_IP, PEER_IP, b"payload")].concat())
}

fn told(node: &mut Node, message: Message, quoted: &[u8]) -> Option<(IcmpErrorKind, IpAddr, u16)> {
    let body = icmp(PEER_IP, OUR_IP, message, quoted);
    assert!(node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::ICMPV6), &body)).is_empty());
    node.seen("ping");
    let error = node.seen("sockets").pop()?;
    Some((error.meta().error.unwrap().kind, error.meta().dst, error.meta().src_port))
}

#[test]
fn errors_reach_the_socket_that_sent_the_packet() {
    let mut node = Node::new();
    let unreachable = |code| Message::DestinationUnreachable { code };
    let plain = our_datagram(Protocol::UDP, &[]);
    for (message, kind) in [
        (unreachable(0), IcmpErrorKind::NetUnreachable),
        (unreachable(1), IcmpErrorKind::Prohibited),
        (unreachable(2), IcmpErrorKind::HostUnreachable),
        (unreachable(3), IcmpErrorKind::HostUnreachable),
        (unreachable(4), IcmpErrorKind::PortUnreachable),
        (unreachable(5), IcmpErrorKind::Prohibited),
        (unreachable(6), IcmpErrorKind::Prohibited),
        (Message::PacketTooBig { mtu: 1300 }, IcmpErrorKind::TooBig { mtu: 1300 }),
        (Message::TimeExceeded { code: 0 }, IcmpErrorKind::TtlExceeded),
        (Message::TimeExceeded { code: 1 }, IcmpErrorKind::ReassemblyTimeout),
        (Message::ParameterProblem { code: 1, pointer: 6 }, IcmpErrorKind::ParameterProblem { pointer: 6 }),
    ] {
        assert_eq!(told(&mut node, message, &plain), Some((kind, PEER_IP.into(), 2000)), "{message:?}");
    }
    assert_eq!(told(&mut node, unreachable(7), &plain), None);
    // Behind extension headers, an atomic fragment's among them.
    let behind = our_datagram(Protocol::DESTINATION_OPTIONS, &[44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 9]);
    assert!(told(&mut node, unreachable(4), &behind).is_some());
    let later = our_datagram(Protocol::FRAGMENT, &[17, 0, 1, 0, 0, 0, 0, 9]);
    assert_eq!(told(&mut node, unreachable(4), &later), None, "a later fragment has no ports");
    let anothers = packet(header(FAR_IP, PEER_IP, Protocol::UDP), &udp_segment(FAR_IP, PEER_IP, b"x"));
    assert_eq!(told(&mut node, unreachable(4), &anothers), None);
    assert_eq!(node.drops("icmp6", Reason::NotForUs), 1);
    assert_eq!(told(&mut node, unreachable(4), &plain[..30]), None);
    assert_eq!(told(&mut node, unreachable(4), &plain[..44]), None, "cut in the middle of the ports");
}

#[test]
fn packet_too_big_changes_the_path_mtu_of_what_we_sent_only() {
    let mut node = Node::new();
    let mtu = |node: &Node, to| node.route(to, None, None).unwrap().mtu;
    let anothers = packet(header(FAR_IP, PEER_IP, Protocol::UDP), &udp_segment(FAR_IP, PEER_IP, b"x"));
    told(&mut node, Message::PacketTooBig { mtu: 1300 }, &anothers);
    assert_eq!(mtu(&node, PEER_IP), 1500);
    told(&mut node, Message::PacketTooBig { mtu: 1300 }, &our_datagram(Protocol::UDP, &[]));
    assert_eq!((mtu(&node, PEER_IP), mtu(&node, FAR_IP)), (1300, 1500));
}

#[test]
fn errors_are_sent_where_rfc_4443_allows_them() {
    let mut node = Node::new();
    node.set("icmp6", "target_interval", "0ns".into());
    let mut complain = |kind, header: Header, payload: &[u8], change: &dyn Fn(&mut Meta)| {
        let mut frame = Frame::ingress(&packet(header, payload));
        let meta = frame.meta_mut();
        meta.interface = ETH0;
        meta.error = Some(IcmpError { kind, from: OUR_IP.into() });
        change(meta);
        node.inject("sockets", 6, frame).first().map(|bytes| parse_icmp(bytes))
    };
    let port = IcmpErrorKind::PortUnreachable;
    let datagram = udp_segment(PEER_IP, OUR_IP, &[7; 2000]);
    let plain = header(PEER_IP, OUR_IP, Protocol::UDP);
    let same = |_: &mut Meta| {};
    let (ip6, message, quoted) = complain(port, plain, &datagram, &same).unwrap();
    assert_eq!((ip6.src, ip6.dst, message), (OUR_IP, PEER_IP, Message::DestinationUnreachable { code: 4 }));
    assert_eq!(quoted.len(), 1280 - 48, "RFC 4443 §2.4 (c)");
    let group = header(PEER_IP, ip("ff02::1"), Protocol::UDP);
    assert!(complain(port, group, &datagram, &same).is_none());
    let too_big = complain(IcmpErrorKind::TooBig { mtu: 1280 }, group, &datagram, &same);
    assert!(too_big.is_some_and(|(ip6, _, _)| ip6.src == OUR_IP), "but packet too big is sent about groups' packets too");
    let by_all: &dyn Fn(&mut Meta) = &|meta| meta.dst_mac = weft_wire::ethernet::Mac([0x33, 0x33, 0, 0, 0, 1]);
    assert!(complain(port, plain, &datagram, by_all).is_none());
    for source in [Ipv6Addr::UNSPECIFIED, ip("ff02::1")] {
        assert!(complain(port, header(source, OUR_IP, Protocol::UDP), &datagram, &same).is_none(), "{source}");
    }
    let about = |kind: u8| icmp(PEER_IP, OUR_IP, Message::Other { kind, code: 0, rest: [0; 4] }, &[]);
    let icmp6 = header(PEER_IP, OUR_IP, Protocol::ICMPV6);
    for (kind, answered) in [(1, false), (127, false), (137, false), (128, true), (200, true)] {
        assert_eq!(complain(port, icmp6, &about(kind), &same).is_some(), answered, "about type {kind}");
    }
    let behind = [&[58, 0, 1, 4, 0, 0, 0, 0][..], &about(1)].concat();
    assert!(complain(port, header(PEER_IP, OUR_IP, Protocol::DESTINATION_OPTIONS), &behind, &same).is_none(), "behind options too");
    assert_eq!(node.counter("icmp6", "OutForbidden"), 8);
}

#[test]
fn a_link_local_sender_hears_of_its_error_on_its_link() {
    let mut node = Node::router();
    let frame = from_peer(header(PEER_LINK_IP, OUR_LINK_IP, Protocol(99)), b"x");
    let (ip6, _, _) = parse_icmp(&node.receive(&frame)[0]);
    assert_eq!((ip6.src, ip6.dst), (OUR_LINK_IP, PEER_LINK_IP));
    let mut on_eth1 = Frame::ingress(&ethernet(
        weft_wire::ethernet::Mac([2, 0, 0, 0, 1, 1]),
        PEER_MAC,
        &packet(header(PEER_LINK_IP, ip("fe80::ff:fe00:101"), Protocol(99)), b"x"),
    ));
    on_eth1.meta_mut().interface = ETH1;
    let out = node.receive_frame(on_eth1);
    assert_eq!(parse(&out[0]).0.src.0[4], 1, "out of eth1");
}

#[test]
fn errors_are_limited_but_packet_too_big_is_not() {
    let mut node = Node::router();
    let unserved = from_peer(header(PEER_IP, OUR_IP, Protocol(99)), b"x");
    let sent = (0..20).map(|_| node.receive(&unserved).len()).sum::<usize>();
    assert_eq!((sent, node.counter("icmp6", "OutRateLimitHost")), (6, 14));
    node.advance(Duration::from_secs(1));
    assert_eq!(node.receive(&unserved).len(), 1);
    let large = from_peer(header(PEER_IP, ip("fd88::5"), Protocol::UDP), &udp_segment(PEER_IP, ip("fd88::5"), &[0; 1400]));
    assert_eq!((0..20).map(|_| node.receive(&large).len()).sum::<usize>(), 20);
}
