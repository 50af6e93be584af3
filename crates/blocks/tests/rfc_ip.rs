//! IPv4 as the RFCs want it (791, 919, 922, 1112, 1122 §3, 1191, 3168, 6864): frames in, frames out. `docs/rfc/` names these tests.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_core::table::Family;
use weft_core::*;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::icmpv4::Message;
use weft_wire::{Protocol, ipv4};

const GATEWAY_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

const fn ip(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// A datagram for port 2.
fn datagram_packet(header: ipv4::Header) -> Vec<u8> {
    let segment = udp_segment(header.src, 1, header.dst, 2, b"hello");
    from_peer(header, &segment)
}

fn datagram_from(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    datagram_packet(header(src, dst, Protocol::UDP))
}

fn with_options(src: Ipv4Addr, dst: Ipv4Addr, options: &[u8]) -> ipv4::Header {
    ipv4::Header { options: ipv4::Options::from_bytes(options).unwrap(), ..header(src, dst, Protocol::UDP) }
}

/// Whom the node asks for by ARP when it sends a datagram there.
fn asked_for(node: &mut Node, dst: Ipv4Addr) -> Option<Ipv4Addr> {
    node.send(b"x", Ipv4Addr::UNSPECIFIED, 1, dst, 2).first().map(|frame| parse_arp(frame).1.target_ip)
}

#[test]
fn a_changed_bit_in_the_header_is_dropped_without_a_word() {
    let mut node = Node::with_peer();
    // Nobody listens: what is not dropped would be answered.
    node.set("sockets", "listening", false.into());
    let packet = datagram_from(PEER_IP, OUR_IP);
    for bit in 0..ipv4::HEADER_LEN * 8 {
        let mut spoiled = packet.clone();
        spoiled[14 + bit / 8] ^= 0x80 >> (bit % 8);
        assert!(node.receive(&spoiled).is_empty(), "bit {bit}");
    }
    assert_eq!(node.counter("ip4", "InDelivers"), 0);
    assert_eq!(node.receive(&packet).len(), 1, "the packet itself is answered: port unreachable");
}

#[test]
fn impossible_sources_are_dropped_without_a_word() {
    let sources = [
        Ipv4Addr::BROADCAST,
        BROADCAST_IP,
        ip(224, 0, 0, 1),
        ip(239, 1, 2, 3),
        Ipv4Addr::LOCALHOST,
        ip(127, 255, 0, 1),
        Ipv4Addr::UNSPECIFIED,
        ip(0, 0, 0, 7),
        OUR_IP,
    ];
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    for src in sources {
        let echo = ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &ping(src, OUR_IP, b"hello"));
        let segment = from_peer(header(src, OUR_IP, Protocol::TCP), &[0; 20]);
        let unknown = from_peer(header(src, OUR_IP, Protocol::GRE), &[0; 20]);
        let malformed = datagram_packet(with_options(src, OUR_IP, &[1, 1, 7, 44]));
        for frame in [datagram_from(src, OUR_IP), echo, segment, unknown, malformed] {
            assert!(node.receive(&frame).is_empty(), "from {src}");
        }
    }
    assert!(node.seen("tcp").is_empty() && node.seen("sockets").is_empty());
    assert_eq!(node.all_drops(), ["ip4 martian-source 45"]);
}

#[test]
fn packets_for_others_are_dropped_without_a_word() {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    for dst in [ip(10, 0, 0, 9), ip(192, 0, 2, 1), ip(10, 0, 1, 255), ip(239, 1, 2, 3), Ipv4Addr::UNSPECIFIED] {
        let unknown = from_peer(header(PEER_IP, dst, Protocol::GRE), &[0; 20]);
        let malformed = datagram_packet(with_options(PEER_IP, dst, &[1, 1, 7, 44]));
        let echo = ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &ping(PEER_IP, dst, b"hello"));
        for frame in [datagram_from(PEER_IP, dst), unknown, malformed, echo] {
            assert!(node.receive(&frame).is_empty(), "to {dst}");
        }
    }
    assert_eq!(node.all_drops(), ["ip4 not-for-us 20"]);
}

#[test]
fn every_form_of_a_destination_that_is_ours_is_accepted() {
    let mut node = Node::with_peer();
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "198.51.100.5/30"})).unwrap();
    let ours = [OUR_IP, ip(198, 51, 100, 5), Ipv4Addr::BROADCAST, BROADCAST_IP, ip(198, 51, 100, 7), ip(224, 0, 0, 1)];
    for dst in ours {
        node.receive(&datagram_from(PEER_IP, dst));
        let seen = node.seen("sockets");
        // RFC 1122 §4.1.3.5: the application is told which of the addresses it was.
        assert_eq!((seen.len(), seen[0].meta().dst), (1, dst.into()));
    }
    // RFC 1122 §3.3.6's obsolete broadcast with zeros is the network's own address to Linux, and to this node.
    assert!(node.receive(&datagram_from(PEER_IP, ip(10, 0, 0, 0))).is_empty() && node.seen("sockets").is_empty());
}

#[test]
fn a_packet_for_the_address_of_another_interface_is_taken() {
    // RFC 1122 §3.3.4.2's weak end system model, as Linux's.
    let mut node = Node::with_peer();
    node.exec("interfaces", "add", json!({"name": "eth1", "mac": "02:00:00:00:00:03"})).unwrap();
    node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "198.51.100.5/30"})).unwrap();
    node.receive(&datagram_from(PEER_IP, ip(198, 51, 100, 5)));
    let seen = node.seen("sockets");
    assert_eq!((seen.len(), seen[0].meta().interface), (1, ETH0), "the application is told where it came in");
}

#[test]
fn packets_that_arrive_with_their_last_hop_are_received() {
    let mut node = Node::with_peer();
    for ttl in [0, 1, 2, 255] {
        node.receive(&datagram_packet(ipv4::Header { ttl, ..header(PEER_IP, OUR_IP, Protocol::UDP) }));
        assert_eq!(node.seen("sockets")[0].meta().ttl, ttl, "the application can see it");
    }
    assert!(node.wire().is_empty());
}

#[test]
fn no_packet_is_sent_without_hops_and_answers_do_not_copy_them() {
    let mut node = Node::with_peer();
    for (wanted, sent) in [(0, 64), (1, 1), (2, 2), (255, 255)] {
        let mut frame = datagram(b"x", OUR_IP, 1, PEER_IP, 2);
        frame.meta_mut().ttl = wanted;
        assert_eq!(parse_ip(&node.send_frame(frame)[0]).1.ttl, sent);
    }
    let echo = from_peer(ipv4::Header { ttl: 1, ..header(PEER_IP, OUR_IP, Protocol::ICMP) }, &ping(PEER_IP, OUR_IP, b"hello")[20..]);
    assert_eq!(parse_ip(&node.receive(&echo)[0]).1.ttl, 64);
}

#[test]
fn type_of_service_and_ecn_pass_unchanged_both_ways() {
    let mut node = Node::with_peer();
    for tos in 0..=255 {
        let mut frame = datagram(b"x", OUR_IP, 1, PEER_IP, 2);
        frame.meta_mut().tos = tos;
        assert_eq!(parse_ip(&node.send_frame(frame)[0]).1.tos, tos);
        let received = ipv4::Header { tos, ..header(PEER_IP, OUR_IP, Protocol::TCP) };
        node.receive(&from_peer(received, &[0; 20]));
        assert_eq!(node.seen("tcp")[0].meta().tos, tos);
        // Linux icmp_echo answers with the request's.
        let echo = from_peer(ipv4::Header { tos, ..header(PEER_IP, OUR_IP, Protocol::ICMP) }, &ping(PEER_IP, OUR_IP, b"x")[20..]);
        assert_eq!(parse_ip(&node.receive(&echo)[0]).1.tos, tos);
    }
}

#[test]
fn options_that_nobody_knows_are_ignored_and_all_are_there_for_the_transport() {
    let mut node = Node::with_peer();
    // Security, stream identifier, timestamp, record route, router alert, one that does not exist; an end of the list and garbage behind it.
    // The destination writes itself into what is recorded (Linux __ip_options_compile), without a boot time as a non-standard time.
    let [a, b, c, d] = OUR_IP.octets();
    let all: [(&[u8], &[u8]); 7] = [
        (&[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (&[136, 4, 0, 9], &[136, 4, 0, 9]),
        (&[68, 8, 5, 0, 0, 0, 0, 0], &[68, 8, 9, 0, 128, 0, 0, 0]),
        (&[7, 7, 4, 0, 0, 0, 0], &[7, 7, 8, a, b, c, d, 0]),
        (&[148, 4, 0, 0], &[148, 4, 0, 0]),
        (&[99, 6, 1, 2, 3, 4], &[99, 6, 1, 2, 3, 4, 0, 0]),
        (&[1, 0, 131, 200], &[1, 0, 0, 0]),
    ];
    for (options, arrived) in all {
        let header = with_options(PEER_IP, OUR_IP, options);
        node.receive(&datagram_packet(header.clone()));
        let mut seen = node.seen("sockets").remove(0);
        assert_eq!(seen.to_vec(), b"hello", "{options:?}");
        let at = seen.meta().network_at;
        seen.rewind(at);
        assert_eq!(ipv4::Header::parse(seen.head()).unwrap().0.options.as_bytes(), arrived);
    }
}

#[test]
fn the_identification_of_atomic_packets_is_ignored_and_sent_as_zero() {
    let mut node = Node::with_peer();
    for identification in [7, 7, 0, 7] {
        let atomic = ipv4::Header { identification, dont_fragment: true, ..header(PEER_IP, OUR_IP, Protocol::UDP) };
        node.receive(&datagram_packet(atomic));
    }
    assert_eq!(node.seen("sockets").len(), 4, "a number that comes again is no duplicate");
    for _ in 0..3 {
        let mut frame = datagram(b"x", OUR_IP, 1, PEER_IP, 2);
        frame.meta_mut().dont_fragment = true;
        assert_eq!(parse_ip(&node.send_frame(frame)[0]).1.identification, 0);
    }
}

#[test]
fn identifications_of_one_pair_and_protocol_come_again_only_after_all_others() {
    let mut node = Node::with_peer();
    let mut taken = vec![false; 65_536];
    for _ in 0..65_536 {
        let (_, ip, _) = parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]);
        assert!(!std::mem::replace(&mut taken[usize::from(ip.identification)], true));
    }
}

#[test]
fn a_large_frame_takes_an_identification_for_each_of_its_packets() {
    let mut node = Node::with_peer();
    let (sockets, interfaces) = (node.id("sockets"), node.id("interfaces"));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut large = datagram(&[0; 2500], OUR_IP, 1, PEER_IP, 2);
        large.meta_mut().gso = Some(Gso { segment_bytes: 1000, kind: GsoKind::Udp });
        node.engine.inject(node.now, sockets, InPort(2), [large]);
        let mut cut = Vec::new();
        offload::cut(node.take(interfaces).remove(0), offload::CutChecksums::Complete, &mut cut);
        ids.extend(cut.iter().map(|frame| parse_ip(&frame.to_vec()).1.identification));
    }
    let expected: Vec<u16> = (0..6).map(|number| ids[0].wrapping_add(number)).collect();
    assert_eq!(ids, expected);
}

#[test]
fn nothing_is_sent_from_an_address_that_is_not_ours() {
    let mut node = Node::with_peer();
    for src in [ip(192, 0, 2, 1), PEER_IP, BROADCAST_IP, Ipv4Addr::BROADCAST, ip(224, 0, 0, 1), ip(0, 0, 0, 7)] {
        assert!(node.send(b"x", src, 1, PEER_IP, 2).is_empty(), "{src}");
        assert!(node.send(b"x", src, 1, BROADCAST_IP, 2).is_empty(), "{src}");
        assert!(node.send(b"x", src, 1, ip(224, 0, 0, 1), 2).is_empty(), "{src}");
    }
    assert_eq!(node.counter("ip4", "OutNoRoutes"), 18);
    // An address that was ours a moment ago is not any more, though its network can still be reached.
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.5/24"})).unwrap();
    assert_eq!(node.send(b"x", ip(10, 0, 0, 5), 1, PEER_IP, 2).len(), 1);
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.5"})).unwrap();
    assert!(node.send(b"x", ip(10, 0, 0, 5), 1, PEER_IP, 2).is_empty());
}

#[test]
fn loopback_addresses_never_appear_on_a_wire() {
    let mut node = Node::with_peer();
    let own = [Ipv4Addr::LOCALHOST, ip(127, 9, 9, 9), OUR_IP];
    for dst in own {
        assert!(node.send(b"x", Ipv4Addr::UNSPECIFIED, 1, dst, 2).is_empty());
    }
    assert_eq!(node.seen("sockets").len(), own.len());
    for dst in [PEER_IP, ip(192, 0, 2, 1), BROADCAST_IP, Ipv4Addr::BROADCAST, ip(224, 0, 0, 1)] {
        assert!(node.send(b"x", Ipv4Addr::LOCALHOST, 1, dst, 2).is_empty(), "to {dst}");
    }
    for (src, dst) in [(PEER_IP, Ipv4Addr::LOCALHOST), (Ipv4Addr::LOCALHOST, OUR_IP)] {
        assert!(node.receive(&datagram_from(src, dst)).is_empty());
    }
    // A limited broadcast or group goes where its source address is: round the loopback. The rest was refused.
    let seen = node.seen("sockets");
    let (refused, inside): (Vec<_>, Vec<_>) = seen.iter().partition(|frame| frame.meta().error.is_some());
    assert_eq!((refused.len(), inside.iter().all(|frame| frame.meta().interface == InterfaceIndex::LOOPBACK)), (3, true));
}

#[test]
fn hosts_of_this_network_can_be_sent_to_as_in_linux_but_not_heard() {
    // RFC 1122 §3.2.1.3 (b) forbids both; Linux takes 0.0.0.0/8, but for 0.0.0.0, as ordinary addresses.
    let mut node = Node::new();
    assert_eq!(asked_for(&mut node, ip(0, 1, 2, 3)), Some(GATEWAY_IP));
    assert!(node.receive(&datagram_from(ip(0, 1, 2, 3), OUR_IP)).is_empty());
    assert_eq!(node.drops("ip4", Reason::MartianSource), 1);
}

#[test]
fn reserved_addresses_are_ordinary_ones_as_in_linux() {
    let mut node = Node::new();
    let reserved = ip(240, 0, 0, 1);
    node.receive(&datagram_from(reserved, OUR_IP));
    assert_eq!(node.seen("sockets")[0].meta().src, reserved);
    assert_eq!(asked_for(&mut node, reserved), Some(GATEWAY_IP));
}

#[test]
fn the_network_is_reached_directly_and_everything_else_through_the_gateway() {
    let mut node = Node::new();
    assert_eq!(asked_for(&mut node, PEER_IP), Some(PEER_IP));
    assert_eq!(asked_for(&mut node, ip(10, 0, 1, 2)), Some(GATEWAY_IP));
    // A route to one host goes before the route to its network.
    node.exec("ip4", "route_add", json!({"destination": "10.0.0.77", "gateway": "10.0.0.3"})).unwrap();
    assert_eq!(asked_for(&mut node, ip(10, 0, 0, 77)), Some(ip(10, 0, 0, 3)));
    // "hosts operate correctly in a minimal network environment": without a gateway the network is still there.
    let mut node = Node::new();
    node.exec("ip4", "route_delete", json!({"destination": "default"})).unwrap();
    assert_eq!((asked_for(&mut node, PEER_IP), asked_for(&mut node, ip(10, 0, 1, 2))), (Some(PEER_IP), None));
    assert_eq!(node.seen("sockets")[0].meta().error.unwrap().kind, IcmpErrorKind::NetUnreachable);
}

#[test]
fn broadcasts_are_sent_to_all_and_never_through_a_gateway() {
    let mut node = Node::new();
    for dst in [Ipv4Addr::BROADCAST, BROADCAST_IP] {
        let (ether, ip, _) = parse_ip(&node.send(b"x", Ipv4Addr::UNSPECIFIED, 1, dst, 2)[0]);
        assert_eq!((ether.dst, ip.src, ip.dst), (Mac::BROADCAST, OUR_IP, dst));
    }
    // The broadcast of a network that is not ours is an address like any other: its last gateway knows.
    assert_eq!(asked_for(&mut node, ip(192, 0, 2, 255)), Some(GATEWAY_IP));
    // With an interface named, that one; every interface has its own network's.
    node.exec("interfaces", "add", json!({"name": "eth1", "mac": "02:00:00:00:00:03"})).unwrap();
    node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "198.51.100.5/30"})).unwrap();
    let through = |node: &mut Node, dst: Ipv4Addr, interface: u32| {
        let mut frame = datagram(b"x", Ipv4Addr::UNSPECIFIED, 1, dst, 2);
        frame.meta_mut().interface = InterfaceIndex(interface);
        node.send_frame(frame).first().map(|frame| parse_ip(frame)).map(|(ether, ip, _)| (ether.src, ether.dst, ip.src))
    };
    let eth1 = Some((Mac([2, 0, 0, 0, 0, 3]), Mac::BROADCAST, ip(198, 51, 100, 5)));
    assert_eq!(through(&mut node, Ipv4Addr::BROADCAST, 3), eth1);
    assert_eq!(through(&mut node, ip(198, 51, 100, 7), 0), eth1);
    assert_eq!(through(&mut node, Ipv4Addr::BROADCAST, 2), Some((OUR_MAC, Mac::BROADCAST, OUR_IP)));
}

#[test]
fn a_link_layer_broadcast_of_a_unicast_packet_is_taken_as_linux_does() {
    // RFC 1122 §3.3.6 would have it dropped (SHOULD); Linux has drop_unicast_in_l2_multicast for that, off by default.
    let mut node = Node::with_peer();
    let packet = ip_packet(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, 1, OUR_IP, 2, b"hello"));
    node.receive(&ethernet(Mac::BROADCAST, PEER_MAC, EtherType::IPV4, &packet));
    let seen = node.seen("sockets");
    assert_eq!((seen.len(), seen[0].meta().dst_mac), (1, Mac::BROADCAST), "the transports see how it came");
}

#[test]
fn groups_are_mapped_to_ethernet_and_stay_on_the_link() {
    let mut node = Node::new();
    for (group, mac) in [(ip(224, 0, 0, 251), [1, 0, 0x5e, 0, 0, 251]), (ip(239, 129, 2, 3), [1, 0, 0x5e, 1, 2, 3])] {
        let (ether, ip, _) = parse_ip(&node.send(b"x", OUR_IP, 1, group, 2)[0]);
        assert_eq!((ether.dst, ip.ttl), (Mac(mac), 1));
    }
    let mut frame = datagram(b"x", OUR_IP, 1, ip(239, 1, 2, 3), 2);
    frame.meta_mut().ttl = 9;
    assert_eq!(parse_ip(&node.send_frame(frame)[0]).1.ttl, 9);
    // Of the groups, only the one that every host is in comes up: there are no memberships yet.
    for (group, heard) in [(ip(224, 0, 0, 1), 1), (ip(224, 0, 0, 251), 0)] {
        let packet = ip_packet(header(PEER_IP, group, Protocol::UDP), &udp_segment(PEER_IP, 1, group, 2, b"hello"));
        node.receive(&ethernet(Mac::from_multicast_v4(group), PEER_MAC, EtherType::IPV4, &packet));
        assert_eq!(node.seen("sockets").len(), heard, "{group}");
    }
}

#[test]
fn fragmentation_needed_reaches_tcp_with_the_mtu_and_the_quoted_segment() {
    let mut node = Node::with_peer();
    let sent = ip_packet(ipv4::Header { dont_fragment: true, ..header(OUR_IP, PEER_IP, Protocol::TCP) }, &[1, 2, 3, 4, 5, 6, 7, 8]);
    // An old router says nothing: the largest common size below the packet's 28 bytes would be less than any link's.
    for (mtu, heard) in [(1400, 1400), (68, 68), (0, 68)] {
        let error = icmp(Message::DestinationUnreachable { code: 4, mtu }, &sent);
        assert!(node.receive(&from_peer(header(GATEWAY_IP, OUR_IP, Protocol::ICMP), &error)).is_empty());
        let told = node.seen("tcp").remove(0);
        let expected = IcmpError { kind: IcmpErrorKind::TooBig { mtu: heard }, from: GATEWAY_IP.into() };
        assert_eq!((told.meta().error, told.to_vec()), (Some(expected), sent.clone()));
    }
    // TCP asks IP for the largest packet of the way when it starts: the interface's, or the route's.
    node.exec("ip4", "route_add", json!({"destination": "192.0.2.0/24", "gateway": "10.0.0.3", "mtu": 1300})).unwrap();
    let mtu = |dst: Ipv4Addr| {
        let query = Query::Route { destination: dst.into(), source: None, interface: None, traffic: weft_core::table::Traffic::default() };
        match node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now) {
            Answer::Route(answer) => answer.mtu,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((mtu(PEER_IP), mtu(ip(192, 0, 2, 1))), (1500, 1300));
}

#[test]
fn every_packet_is_sent_with_the_dont_fragment_bit_that_its_transport_wants() {
    let mut node = Node::with_peer();
    for dont_fragment in [false, true] {
        let mut frame = datagram(b"x", OUR_IP, 1, PEER_IP, 2);
        frame.meta_mut().dont_fragment = dont_fragment;
        let (_, ip, _) = parse_ip(&node.send_frame(frame)[0]);
        assert_eq!((ip.dont_fragment, ip.more_fragments, ip.fragment_offset, ip.options.len()), (dont_fragment, false, 0, 0));
    }
}

#[test]
fn a_packet_that_comes_back_to_its_sender_through_the_loopback_may_be_as_large_as_ip_allows() {
    let mut node = Node::new();
    node.send(&[7; 65_507], OUR_IP, 1, OUR_IP, 2);
    assert_eq!(node.seen("sockets")[0].len(), 65_507);
    assert!(node.list(Table::Neighbours(Family::V4)).is_empty(), "nobody was asked for our own address");
}
