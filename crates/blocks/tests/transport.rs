//! UDP and ICMP errors in the default graph.

use crate::common;
use common::*;
use std::net::Ipv4Addr;
use weft_core::*;
use weft_wire::icmpv4::{self, Message};
use weft_wire::{Protocol, ipv4, udp};

fn to_us(segment: &[u8]) -> Vec<u8> {
    from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), segment)
}

#[test]
fn datagrams_come_up_and_bad_ones_are_counted() {
    let mut node = Node::with_peer();
    let good = udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello");
    node.receive(&to_us(&good));
    // RFC 768: a checksum of zero means none.
    let mut none = good.clone();
    none[6..8].fill(0);
    node.receive(&to_us(&none));
    // The IP packet may be longer than the datagram.
    node.receive(&to_us(&[good.clone(), vec![9; 7]].concat()));
    assert_eq!(node.seen("sockets").iter().map(Frame::to_vec).collect::<Vec<_>>(), [b"hello"; 3]);
    let mut bad = good.clone();
    bad[9] ^= 1;
    node.receive(&to_us(&bad));
    let length = |length: u16| [&good[..4], &length.to_be_bytes(), &good[6..]].concat();
    node.receive(&to_us(&length(7)));
    node.receive(&to_us(&length(200)));
    node.receive(&to_us(&good[..6]));
    assert_eq!(node.all_drops(), ["udp truncated 2", "udp bad-total-length 1", "udp bad-checksum 1"]);
    assert_eq!((node.counter("udp", "InDatagrams"), node.counter("udp", "InErrors"), node.counter("udp", "InCsumErrors")), (3, 4, 1));
}

#[test]
fn trusted_checksums_are_not_computed_and_zero_is_sent_as_ones() {
    let mut node = Node::with_peer();
    let mut wrong = to_us(&udp_segment(PEER_IP, 1000, OUR_IP, 53, b"hello"));
    *wrong.last_mut().unwrap() ^= 1;
    for checksum in [Checksum::Valid, Checksum::Partial { offset: 6 }] {
        let mut frame = Frame::ingress(&wrong);
        frame.meta_mut().checksum = checksum;
        node.receive_frame(frame);
    }
    assert_eq!(node.seen("sockets").len(), 2);
    // Every payload of two bytes is tried until one sums to zero.
    let zero = (0..=u16::MAX).map(u16::to_be_bytes).find(|payload| {
        let plain = udp_segment(OUR_IP, 1, PEER_IP, 2, payload);
        plain[6..8] == [0xff, 0xff]
    });
    let out = node.send(&zero.unwrap(), OUR_IP, 1, PEER_IP, 2);
    assert_eq!(parse_ip(&out[0]).2[6..8], [0xff, 0xff], "RFC 768: transmitted as all ones");
}

#[test]
fn a_datagram_without_a_socket_is_answered_as_linux_does() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    let packet = ip_packet(
        ipv4::Header { tos: 0x10, ..header(PEER_IP, OUR_IP, Protocol::UDP) },
        &udp_segment(PEER_IP, 1000, OUR_IP, 53, &[7; 1000]),
    );
    let frame = ethernet(OUR_MAC, PEER_MAC, weft_wire::ethernet::EtherType::IPV4, &packet);
    let out = node.receive(&frame);
    let (_, ip, payload) = parse_ip(&out[0]);
    assert_eq!((out.len(), ip.src, ip.dst, ip.protocol, ip.tos), (1, OUR_IP, PEER_IP, Protocol::ICMP, 0xd0));
    assert_eq!(ip.total_len, 576, "as much of the packet as fits 576 bytes");
    assert!(icmpv4::verify_checksum(&payload));
    assert_eq!(Message::parse(&payload).unwrap().0, Message::DestinationUnreachable { code: 3, mtu: 0 });
    assert_eq!(payload[8..], packet[..548]);
    assert_eq!(node.drops("icmp4", Reason::NoPort), 1);
}

#[test]
fn errors_are_not_sent_where_rfc_1122_forbids_them() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    // To a broadcast address, as a link-layer broadcast.
    let segment = |src, dst| udp_segment(src, 1, dst, 2, b"x");
    node.receive(&from_peer(header(PEER_IP, BROADCAST_IP, Protocol::UDP), &segment(PEER_IP, BROADCAST_IP)));
    let packet = ip_packet(header(PEER_IP, OUR_IP, Protocol::UDP), &segment(PEER_IP, OUR_IP));
    node.receive(&ethernet(weft_wire::ethernet::Mac::BROADCAST, PEER_MAC, weft_wire::ethernet::EtherType::IPV4, &packet));
    assert_eq!(node.counter("icmp4", "OutForbidden"), 2);
    // About an ICMP error.
    let error = icmp(Message::TimeExceeded { code: 0 }, &packet);
    let mut frame = Frame::ingress(&ip_packet(header(PEER_IP, OUR_IP, Protocol::ICMP), &error));
    frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::HostUnreachable, from: PEER_IP.into() });
    let sockets = node.id("sockets");
    node.engine.inject(node.now, sockets, InPort(3), [frame]);
    assert_eq!((node.counter("icmp4", "OutForbidden"), node.wire().len()), (3, 0));
}

#[test]
fn errors_are_rate_limited_for_each_target_but_not_over_the_loopback() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    let frame = to_us(&udp_segment(PEER_IP, 1000, OUR_IP, 53, b"x"));
    let sent: usize = (0..20).map(|_| node.receive(&frame).len()).sum();
    assert_eq!((sent, node.counter("icmp4", "OutRateLimitHost"), node.drops("icmp4", Reason::RateLimited)), (6, 14, 14));
    node.advance(Duration::from_secs(1));
    assert_eq!((node.receive(&frame).len(), node.receive(&frame).len()), (1, 0));
    for _ in 0..100 {
        node.send(b"x", Ipv4Addr::UNSPECIFIED, 1, Ipv4Addr::LOCALHOST, 2);
    }
    let errors = node.seen("sockets");
    assert_eq!(errors.len(), 100);
    let meta = errors[0].meta();
    assert_eq!((meta.error.unwrap().kind, meta.src_port, meta.dst_port), (IcmpErrorKind::PortUnreachable, 1, 2));
    assert_eq!(meta.error.unwrap().from, std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
}

#[test]
fn received_errors_reach_the_transport_with_their_meaning() {
    let mut node = Node::with_peer();
    let sent = parse_ip(&node.send(b"hello", OUR_IP, 1000, PEER_IP, 53)[0]);
    let quoted = ip_packet(sent.1.clone(), &sent.2);
    let cases = [
        (Message::DestinationUnreachable { code: 0, mtu: 0 }, IcmpErrorKind::NetUnreachable),
        (Message::DestinationUnreachable { code: 11, mtu: 0 }, IcmpErrorKind::NetUnreachable),
        (Message::DestinationUnreachable { code: 1, mtu: 0 }, IcmpErrorKind::HostUnreachable),
        (Message::DestinationUnreachable { code: 2, mtu: 0 }, IcmpErrorKind::ProtocolUnreachable),
        (Message::DestinationUnreachable { code: 3, mtu: 0 }, IcmpErrorKind::PortUnreachable),
        (Message::DestinationUnreachable { code: 4, mtu: 1280 }, IcmpErrorKind::TooBig { mtu: 1280 }),
        (Message::DestinationUnreachable { code: 5, mtu: 0 }, IcmpErrorKind::SourceRouteFailed),
        (Message::DestinationUnreachable { code: 10, mtu: 0 }, IcmpErrorKind::Prohibited),
        (Message::DestinationUnreachable { code: 13, mtu: 0 }, IcmpErrorKind::Prohibited),
        (Message::TimeExceeded { code: 0 }, IcmpErrorKind::TtlExceeded),
        (Message::TimeExceeded { code: 1 }, IcmpErrorKind::ReassemblyTimeout),
        (Message::ParameterProblem { code: 0, pointer: 20 }, IcmpErrorKind::ParameterProblem { pointer: 20 }),
    ];
    let router = Ipv4Addr::new(10, 0, 0, 254);
    for (message, kind) in cases {
        // RFC 792 quotes the header and 64 bits: enough for the ports.
        node.receive(&from_peer(header(router, OUR_IP, Protocol::ICMP), &icmp(message, &quoted[..28])));
        let errors = node.seen("sockets");
        let meta = errors[0].meta();
        assert_eq!((errors.len(), meta.error), (1, Some(IcmpError { kind, from: router.into() })), "{message:?}");
        assert_eq!((meta.src, meta.src_port, meta.dst, meta.dst_port), (OUR_IP.into(), 1000, PEER_IP.into(), 53));
        assert_eq!(errors[0].to_vec(), quoted[..28]);
    }
    // TCP's go to tcp.
    let tcp = ip_packet(header(OUR_IP, PEER_IP, Protocol::TCP), &[1; 8]);
    node.receive(&from_peer(header(router, OUR_IP, Protocol::ICMP), &icmp(Message::TimeExceeded { code: 0 }, &tcp)));
    assert_eq!(node.seen("tcp")[0].to_vec(), tcp);
    // Bogus ones go nowhere: an unknown code, a quote too short, a packet that we did not send, a redirect.
    let foreign = ip_packet(header(PEER_IP, OUR_IP, Protocol::UDP), &[0; 8]);
    for (message, quote) in [
        (Message::DestinationUnreachable { code: 77, mtu: 0 }, &quoted[..]),
        (Message::DestinationUnreachable { code: 3, mtu: 0 }, &quoted[..19]),
        (Message::DestinationUnreachable { code: 3, mtu: 0 }, &quoted[..24]),
        (Message::DestinationUnreachable { code: 3, mtu: 0 }, &foreign[..]),
        (Message::Redirect { code: 1, gateway: PEER_IP }, &quoted[..]),
    ] {
        node.receive(&from_peer(header(router, OUR_IP, Protocol::ICMP), &icmp(message, quote)));
    }
    assert!(node.seen("sockets").is_empty());
    assert_eq!(node.counter("icmp4", "InRedirects"), 1);
}

#[test]
fn unknown_protocols_are_answered_and_tcp_gets_its_segments() {
    let mut node = Node::with_peer();
    node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::TCP), &[5; 20]));
    let segment = node.seen("tcp").remove(0);
    let mut whole = segment.clone();
    whole.rewind(segment.meta().network_at);
    assert_eq!((segment.to_vec(), whole.len()), (vec![5; 20], 40), "the IP header can be quoted");
    let out = node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::GRE), &[5; 20]));
    let (_, _, payload) = parse_ip(&out[0]);
    assert_eq!((payload[0], payload[1], payload[8..].len()), (3, 2, 40));
    assert_eq!(node.counter("ip4", "InUnknownProtos"), 1);
}

#[test]
fn large_datagrams_go_down_whole_and_come_up_one_by_one() {
    let mut node = Node::new();
    let payload: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
    let mut large = datagram(&payload, OUR_IP, 7, Ipv4Addr::LOCALHOST, 8);
    large.meta_mut().gso = Some(Gso { segment_bytes: 1000, kind: GsoKind::Udp });
    node.send_frame(large);
    let seen: Vec<_> = node.seen("sockets").iter().map(Frame::to_vec).collect();
    assert_eq!(seen, payload.chunks(1000).map(<[u8]>::to_vec).collect::<Vec<_>>());
    assert_eq!((node.counter("udp", "OutDatagrams"), node.counter("udp", "InDatagrams")), (3, 3));
    // On a wire they are datagrams of their own, each with its own lengths and checksum.
    let mut node = Node::with_peer();
    let mut large = datagram(&payload, OUR_IP, 7, PEER_IP, 8);
    large.meta_mut().gso = Some(Gso { segment_bytes: 1000, kind: GsoKind::Udp });
    let (sockets, interfaces) = (node.id("sockets"), node.id("interfaces"));
    node.engine.inject(node.now, sockets, InPort(2), [large]);
    let mut cut = Vec::new();
    offload::cut(node.take(interfaces).remove(0), offload::CutChecksums::Complete, &mut cut);
    let parts: Vec<_> = cut.iter().map(|frame| parse_ip(&frame.to_vec()).2).collect();
    let expected: Vec<_> = payload.chunks(1000).map(|part| udp_segment(OUR_IP, 7, PEER_IP, 8, part)).collect();
    assert_eq!(parts, expected);
    assert_eq!(udp::LEN + 1000, parts[0].len());
}

#[test]
fn payloads_that_no_packet_can_carry_are_refused() {
    let mut node = Node::new();
    node.send(&vec![0; 65_507], OUR_IP, 1, Ipv4Addr::LOCALHOST, 2);
    assert_eq!(node.seen("sockets")[0].len(), 65_507);
    node.send(&vec![0; 65_508], OUR_IP, 1, Ipv4Addr::LOCALHOST, 2);
    assert_eq!((node.drops("udp", Reason::TooBig), node.counter("udp", "OutErrors")), (1, 1));
}
