//! IPv4 in the default graph: checks, routes, addresses.

use crate::common;
use common::*;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use weft_blocks::ip::ip4::ADDRESSES_MAX;
use weft_core::state::{Reader, Writer};
use weft_core::table::{Address, AddressKind, Family, RouteAnswer, RouteKind};
use weft_core::*;
use weft_wire::ethernet::{EtherType, Mac};
use weft_wire::{Protocol, ipv4};

const fn ip(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

fn route(node: &Node, destination: Ipv4Addr) -> Option<RouteAnswer> {
    route_from(node, destination, None, None)
}

fn route_from(node: &Node, destination: Ipv4Addr, source: Option<Ipv4Addr>, interface: Option<u32>) -> Option<RouteAnswer> {
    let query = Query::Route {
        destination: destination.into(),
        source: source.map(Into::into),
        interface: interface.map(InterfaceIndex),
        traffic: weft_core::table::Traffic::default(),
    };
    match node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now) {
        Answer::Route(answer) => Some(answer),
        _ => None,
    }
}

/// A UDP datagram with a header changed by `change` after its checksum was computed (and computed again if `sum`).
fn spoiled(change: impl FnOnce(&mut Vec<u8>), sum: bool) -> Vec<u8> {
    let mut packet = ip_packet(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, 1, OUR_IP, 2, b"hello"));
    change(&mut packet);
    if sum {
        let header_len = usize::from(packet[0] & 15) * 4;
        packet[10..12].fill(0);
        let sum = weft_wire::checksum::of(&packet[..header_len.min(packet.len())]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    ethernet(OUR_MAC, PEER_MAC, EtherType::IPV4, &packet)
}

#[test]
fn every_bad_header_has_its_own_reason() {
    let mut node = Node::with_peer();
    node.receive(&spoiled(|packet| packet[0] = 0x65, true));
    node.receive(&spoiled(|packet| packet[0] = 0x44, true));
    node.receive(&spoiled(|packet| packet[2..4].copy_from_slice(&19u16.to_be_bytes()), true));
    node.receive(&spoiled(|packet| packet[2..4].copy_from_slice(&500u16.to_be_bytes()), true));
    node.receive(&spoiled(|packet| packet[8] ^= 1, false));
    node.receive(&spoiled(|packet| packet.truncate(15), false));
    node.receive(&spoiled(|packet| packet[6] = 0x20, true));
    let drops = ["ip4 truncated 2", "ip4 bad-version 1", "ip4 bad-header-length 1", "ip4 bad-total-length 1", "ip4 bad-checksum 1"];
    assert_eq!(node.all_drops(), drops);
    assert_eq!((node.counter("ip4", "InReceives"), node.counter("ip4", "InDelivers")), (7, 0));
    assert_eq!((node.counter("ip4", "ReasmReqds"), node.counter("ip4", "InHdrErrors")), (1, 4));
    node.receive(&spoiled(|_| {}, true));
    assert_eq!(node.seen("sockets").len(), 1);
}

#[test]
fn martians_and_packets_for_others_are_dropped() {
    let mut node = Node::with_peer();
    let from = |src: Ipv4Addr, dst: Ipv4Addr| from_peer(header(src, dst, Protocol::UDP), &udp_segment(src, 1, dst, 2, b"x"));
    let martians = [
        (ip(224, 0, 0, 1), OUR_IP),
        (Ipv4Addr::BROADCAST, OUR_IP),
        (Ipv4Addr::LOCALHOST, OUR_IP),
        (PEER_IP, Ipv4Addr::LOCALHOST),
        (ip(0, 1, 2, 3), OUR_IP),
        (Ipv4Addr::UNSPECIFIED, OUR_IP),
        (OUR_IP, OUR_IP),
    ];
    for (src, dst) in martians {
        assert!(node.receive(&from(src, dst)).is_empty(), "{src} -> {dst}");
    }
    assert_eq!(node.drops("ip4", Reason::MartianSource), 7);
    for dst in [ip(10, 0, 0, 9), ip(192, 0, 2, 1), ip(224, 0, 0, 9), Ipv4Addr::UNSPECIFIED] {
        assert!(node.receive(&from(PEER_IP, dst)).is_empty());
    }
    assert_eq!((node.drops("ip4", Reason::NotForUs), node.counter("ip4", "InAddrErrors")), (4, 11));
    // What a DHCP server hears and says.
    for (src, dst) in [(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST), (PEER_IP, BROADCAST_IP), (PEER_IP, ip(224, 0, 0, 1))] {
        node.receive(&from(src, dst));
    }
    assert_eq!(node.seen("sockets").len(), 3);
    assert_eq!((node.counter("ip4", "InBcastPkts"), node.counter("ip4", "InMcastPkts")), (2, 1));
}

#[test]
fn options_are_read_source_routes_refused_and_malformed_ones_reported() {
    let mut node = Node::with_peer();
    let with = |options: &[u8]| {
        let header = ipv4::Header { options: ipv4::Options::from_bytes(options).unwrap(), ..header(PEER_IP, OUR_IP, Protocol::UDP) };
        from_peer(header, &udp_segment(PEER_IP, 1, OUR_IP, 2, b"x"))
    };
    node.receive(&with(&[1, 7, 7, 4, 0, 0, 0, 0]));
    assert_eq!(node.seen("sockets")[0].to_vec(), b"x", "record route is let through");
    assert!(node.receive(&with(&[131, 7, 4, 10, 0, 0, 9])).is_empty());
    assert_eq!(node.drops("ip4", Reason::BadOption), 1);
    let out = node.receive(&with(&[1, 1, 7, 44]));
    let (_, ip, payload) = parse_ip(&out[0]);
    assert_eq!((ip.protocol, payload[0], payload[1], payload[4]), (Protocol::ICMP, 12, 0, 22), "the pointer is the wrong option");
}

#[test]
fn padding_is_cut_and_the_transport_sees_the_addresses() {
    let mut node = Node::with_peer();
    let mut frame = spoiled(|packet| packet[1] = 0x2a, true);
    frame.extend_from_slice(&[0xee; 20]);
    node.receive(&frame);
    let seen = node.seen("sockets").remove(0);
    let meta = seen.meta();
    assert_eq!(seen.to_vec(), b"hello");
    assert_eq!((meta.src, meta.dst, meta.src_port, meta.dst_port), (PEER_IP.into(), OUR_IP.into(), 1, 2));
    assert_eq!((meta.ttl, meta.tos, meta.interface, meta.direction), (64, 0x2a, ETH0, Direction::Ingress));
}

#[test]
fn sent_packets_have_a_right_header_and_the_chosen_source_in_the_checksum() {
    let mut node = Node::with_peer();
    let out = node.send(b"hello", Ipv4Addr::UNSPECIFIED, 1000, PEER_IP, 53);
    let (ether, ip, payload) = parse_ip(&out[0]);
    assert_eq!((ether.dst, ether.src, ip.src, ip.dst, ip.ttl), (PEER_MAC, OUR_MAC, OUR_IP, PEER_IP, 64));
    assert_eq!(payload, udp_segment(OUR_IP, 1000, PEER_IP, 53, b"hello"));
    let mut frame = datagram(b"hello", OUR_IP, 1000, PEER_IP, 53);
    (frame.meta_mut().dont_fragment, frame.meta_mut().ttl, frame.meta_mut().tos) = (true, 9, 0xb8);
    let (_, ip, _) = parse_ip(&node.send_frame(frame)[0]);
    assert_eq!((ip.identification, ip.dont_fragment, ip.ttl, ip.tos), (0, true, 9, 0xb8), "atomic packets need no identification");
    let id = |node: &mut Node| parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).1.identification;
    let first = id(&mut node);
    assert_eq!(id(&mut node), first.wrapping_add(1));
    node.set("ip4", "default_ttl", 32.into());
    assert_eq!(parse_ip(&node.send(b"x", OUR_IP, 1, PEER_IP, 2)[0]).1.ttl, 32);
}

#[test]
fn the_longest_prefix_wins_then_the_lowest_metric() {
    let mut node = Node::new();
    node.exec("interfaces", "add", json!({"name": "eth1", "mtu": 9000, "gso_max_bytes": 60000})).unwrap();
    node.exec("ip4", "address_add", json!({"interface": "eth1", "address": "192.168.7.1/24"})).unwrap();
    for arguments in [
        json!({"destination": "172.16.0.0/12", "gateway": "192.168.7.9"}),
        json!({"destination": "172.16.1.0/24", "gateway": "10.0.0.3", "metric": 10}),
        json!({"destination": "172.16.1.0/24", "gateway": "192.168.7.8", "metric": 5, "source": "10.0.0.1", "mtu": 1400}),
        json!({"destination": "172.16.9.0/24", "kind": "blackhole"}),
        json!({"destination": "172.16.8.0/24", "kind": "unreachable"}),
        json!({"destination": "203.0.113.5", "interface": "eth1"}),
    ] {
        node.exec("ip4", "route_add", arguments).unwrap();
    }
    let answer = route(&node, ip(172, 16, 200, 1)).unwrap();
    assert_eq!(
        (answer.interface, answer.next_hop, answer.source),
        (InterfaceIndex(3), ip(192, 168, 7, 9).into(), ip(192, 168, 7, 1).into())
    );
    assert_eq!((answer.mtu, answer.gso_max_bytes, answer.kind), (9000, 60000, RouteKind::Unicast));
    let answer = route(&node, ip(172, 16, 1, 1)).unwrap();
    assert_eq!((answer.next_hop, answer.source, answer.mtu), (ip(192, 168, 7, 8).into(), OUR_IP.into(), 1400));
    assert_eq!(route_from(&node, ip(172, 16, 1, 1), None, Some(2)).unwrap().next_hop, IpAddr::V4(ip(10, 0, 0, 3)), "bound to eth0");
    assert_eq!(route(&node, ip(203, 0, 113, 5)).unwrap().next_hop, IpAddr::V4(ip(203, 0, 113, 5)), "on the link");
    assert_eq!(route(&node, ip(8, 8, 8, 8)).unwrap().next_hop, IpAddr::V4(ip(10, 0, 0, 254)));
    assert_eq!(route(&node, ip(172, 16, 9, 1)).unwrap().kind, RouteKind::Blackhole);
    // An interface that is down takes its routes out of play, and the next best is used.
    let before = answer.generation;
    node.exec("interfaces", "set", json!({"name": "eth1", "up": false})).unwrap();
    let answer = route(&node, ip(172, 16, 1, 1)).unwrap();
    assert_eq!(answer.next_hop, IpAddr::V4(ip(10, 0, 0, 3)));
    assert_ne!(answer.generation, before);
}

#[test]
fn local_broadcast_and_multicast_destinations() {
    let mut node = Node::new();
    let own = route(&node, OUR_IP).unwrap();
    assert_eq!((own.kind, own.interface, own.source, own.mtu), (RouteKind::Local, InterfaceIndex::LOOPBACK, OUR_IP.into(), 65_535));
    assert_eq!(route(&node, ip(127, 5, 5, 5)).unwrap().source, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(route(&node, Ipv4Addr::UNSPECIFIED).unwrap().next_hop, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let all = route(&node, BROADCAST_IP).unwrap();
    assert_eq!((all.kind, all.interface, all.source), (RouteKind::Broadcast, ETH0, OUR_IP.into()));
    assert_eq!(route(&node, Ipv4Addr::BROADCAST).unwrap().interface, ETH0);
    assert_eq!(route(&node, ip(224, 1, 1, 1)).unwrap().kind, RouteKind::Multicast);
    assert_eq!(route_from(&node, ip(8, 8, 8, 8), Some(ip(224, 0, 0, 1)), None), None);
    node.exec("ip4", "route_delete", json!({"destination": "default"})).unwrap();
    assert_eq!((route(&node, ip(8, 8, 8, 8)), route(&node, Ipv4Addr::BROADCAST)), (None, None));
    assert_eq!(route_from(&node, Ipv4Addr::BROADCAST, None, Some(2)).unwrap().interface, ETH0);
    assert_eq!(route_from(&node, ip(8, 8, 8, 8), None, Some(2)).unwrap().next_hop, IpAddr::V4(ip(8, 8, 8, 8)), "assumed on the link");
    let kind =
        |address: Ipv4Addr| match node.engine.graph().block(node.id("ip4")).unwrap().query(&Query::AddressKind(address.into()), node.now) {
            Answer::AddressKind(kind) => kind,
            other => panic!("{other:?}"),
        };
    assert_eq!((kind(OUR_IP), kind(BROADCAST_IP), kind(PEER_IP)), (AddressKind::Local(ETH0), AddressKind::Broadcast, AddressKind::Other));
}

#[test]
fn packets_to_ourselves_go_round_the_loopback() {
    for (src, dst) in [(Ipv4Addr::UNSPECIFIED, OUR_IP), (OUR_IP, Ipv4Addr::LOCALHOST), (Ipv4Addr::UNSPECIFIED, ip(127, 9, 9, 9))] {
        let mut node = Node::new();
        assert!(node.send(b"to myself", src, 7, dst, 8).is_empty());
        let seen = node.seen("sockets").remove(0);
        assert_eq!((seen.to_vec(), seen.meta().interface, seen.meta().dst), (b"to myself".to_vec(), InterfaceIndex::LOOPBACK, dst.into()));
        assert!(node.all_drops().is_empty(), "{:?}", node.all_drops());
    }
    let mut node = Node::new();
    // A broadcast is heard by the sender too.
    assert_eq!(node.send(b"all", Ipv4Addr::UNSPECIFIED, 7, BROADCAST_IP, 8).len(), 1);
    assert_eq!(node.seen("sockets").len(), 1);
}

#[test]
fn completions_are_reported_once_on_every_path() {
    let mut node = Node::with_peer();
    let sockets = node.id("sockets");
    let with = |payload: &[u8], dst, bytes| {
        let mut frame = datagram(payload, OUR_IP, 1, dst, 2);
        frame.meta_mut().completion = Some(Completion { block: sockets, token: 1, bytes });
        frame
    };
    node.send_frame(with(b"looped", OUR_IP, 1));
    assert_eq!(node.counter("sockets", "Completed"), 1, "the loopback completes on entry");
    node.exec("ip4", "route_add", json!({"destination": "203.0.113.0/24", "kind": "blackhole"})).unwrap();
    node.send_frame(with(b"lost", ip(203, 0, 113, 1), 10));
    assert_eq!(node.counter("sockets", "Completed"), 11, "dropped");
    node.exec("ip4", "route_add", json!({"destination": "198.51.100.0/24", "kind": "unreachable"})).unwrap();
    node.send_frame(with(b"x", ip(198, 51, 100, 1), 100));
    node.seen("sockets").into_iter().for_each(drop);
    let interfaces = node.id("interfaces");
    node.engine.inject(node.now, sockets, InPort(2), [with(b"x", PEER_IP, 1000)]);
    let out = node.take(interfaces).remove(0);
    let completion = out.meta().completion.unwrap();
    assert_eq!(node.counter("sockets", "Completed") / 1000, 0, "still below");
    node.engine.completed(node.now, completion);
    assert_eq!(node.counter("sockets", "Completed") / 1000, 1);
    // Of fragments, the last reports for all.
    node.engine.inject(node.now, sockets, InPort(2), [with(&[0; 4000], PEER_IP, 10_000)]);
    let completions: Vec<_> =
        node.take(interfaces).iter().map(|frame| frame.meta().completion.map(|completion| completion.bytes)).collect();
    assert_eq!(completions, [None, None, Some(10_000)]);
}

#[test]
fn packets_that_do_not_fit_are_refused_and_large_ones_pass() {
    let mut node = Node::with_peer();
    assert!(node.send(&[0; 65_508], OUR_IP, 1, PEER_IP, 2).is_empty());
    assert_eq!(node.send(&[0; 1472], OUR_IP, 1, PEER_IP, 2).len(), 1);
    assert_eq!(node.send(&[0; 1473], OUR_IP, 1, PEER_IP, 2).len(), 2);
    let mut frame = datagram(&[0; 1473], OUR_IP, 1000, PEER_IP, 53);
    frame.meta_mut().dont_fragment = true;
    assert!(node.send_frame(frame).is_empty());
    let error = node.seen("sockets").remove(0);
    assert_eq!(error.meta().error.unwrap().kind, IcmpErrorKind::TooBig { mtu: 1500 });
    assert_eq!((error.meta().src_port, error.meta().dst_port), (1000, 53));
    let mut large = datagram(&[0; 30_000], OUR_IP, 1, PEER_IP, 2);
    large.meta_mut().gso = Some(Gso { segment_bytes: 1472, kind: GsoKind::Udp });
    assert_eq!(node.send_frame(large)[0].len(), 30_000 + 42);
    let mut large = datagram(&[0; 30_000], OUR_IP, 1, PEER_IP, 2);
    // Segments that do not fit are cut from the large frame first, and then into two fragments each.
    large.meta_mut().gso = Some(Gso { segment_bytes: 1473, kind: GsoKind::Udp });
    let cut = node.send_frame(large);
    let headers: Vec<_> = cut.iter().map(|frame| parse_ip(frame).1).collect();
    assert_eq!(headers.len(), 20 * 2 + 1, "20 of 1473 bytes, one of the rest");
    assert!(headers[..40].chunks(2).all(|pair| pair[0].identification == pair[1].identification && pair[0].more_fragments));
    assert!(headers.windows(2).all(|pair| pair[1].identification.wrapping_sub(pair[0].identification) <= 1));
}

#[test]
fn no_route_and_prohibited_are_told_to_the_sender() {
    let mut node = Node::new();
    node.exec("ip4", "route_delete", json!({"destination": "default"})).unwrap();
    node.exec("ip4", "route_add", json!({"destination": "198.51.100.0/24", "kind": "prohibit"})).unwrap();
    node.send(b"x", OUR_IP, 1, ip(8, 8, 8, 8), 2);
    node.send(b"x", OUR_IP, 1, ip(198, 51, 100, 7), 2);
    let kinds: Vec<_> = node.seen("sockets").iter().map(|frame| frame.meta().error.unwrap().kind).collect();
    assert_eq!(kinds, [IcmpErrorKind::NetUnreachable, IcmpErrorKind::Prohibited]);
    assert_eq!(node.counter("ip4", "OutNoRoutes"), 1);
}

#[test]
fn the_route_cache_follows_changes() {
    let mut node = Node::with_peer();
    let hop = |node: &mut Node| node.send(b"x", OUR_IP, 1, ip(192, 0, 2, 1), 2).first().map(|frame| parse_arp(frame).1.target_ip);
    assert_eq!(hop(&mut node), Some(ip(10, 0, 0, 254)));
    node.exec("ip4", "route_add", json!({"destination": "192.0.2.0/24", "gateway": "10.0.0.7"})).unwrap();
    assert_eq!(hop(&mut node), Some(ip(10, 0, 0, 7)));
    let misses = node.counter("ip4", "RouteCacheMisses");
    hop(&mut node);
    assert_eq!(node.counter("ip4", "RouteCacheMisses"), misses);
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.1"})).unwrap();
    assert_eq!(hop(&mut node), None);
    let rows = node.list(Table::Routes(Family::V4));
    assert!(rows.iter().all(|row| row["interface"] != 2), "the last address takes all routes of its interface: {rows:?}");
}

#[test]
fn addresses_and_routes_are_refused_with_their_reasons() {
    let mut node = Node::new();
    let cases = [
        ("address_add", json!({"interface": "eth0", "address": "10.0.0.1/24"}), Refused::exists("the interface has 10.0.0.1 already")),
        ("address_add", json!({"interface": "eth9", "address": "10.0.0.1/24"}), Refused::no_device("there is no interface \"eth9\"")),
        ("address_add", json!({"interface": 2, "address": "224.0.0.1"}), Refused::invalid("224.0.0.1 cannot be a host's address")),
        (
            "address_add",
            json!({"interface": 2, "address": "10.0.0.300"}),
            "address: '10.0.0.300' is no IPv4 prefix such as \"192.0.2.0/24\"".into(),
        ),
        (
            "address_add",
            json!({"interface": 2, "adress": "10.0.0.3"}),
            "there is no argument 'adress'; it takes: interface, address, prefix_bits, peer, broadcast, scope, label, flags, metric, \
             valid_lft, preferred_lft, replace"
                .into(),
        ),
        (
            "address_delete",
            json!({"interface": 2, "address": "10.0.0.9"}),
            Refused::address_not_available("the interface does not have 10.0.0.9"),
        ),
        (
            "route_add",
            json!({"destination": "default", "gateway": "10.0.0.7"}),
            Refused::exists("there is a route to default with metric 0"),
        ),
        (
            "route_add",
            json!({"destination": "192.0.2.1/24", "gateway": "10.0.0.7"}),
            Refused::invalid("192.0.2.1/24 has bits set behind its prefix; 192.0.2.0 is the network"),
        ),
        (
            "route_add",
            json!({"destination": "192.0.2.0/24", "gateway": "8.8.8.8"}),
            Refused::new(ErrorKind::NetworkUnreachable, "the gateway 8.8.8.8 is on no network of an interface"),
        ),
        (
            "route_add",
            json!({"destination": "192.0.2.0/24", "gateway": "10.0.0.1"}),
            Refused::invalid("the gateway 10.0.0.1 is this node's own address"),
        ),
        ("route_add", json!({"destination": "192.0.2.0/24"}), Refused::no_device("a route needs an interface or a gateway")),
        (
            "route_add",
            json!({"destination": "192.0.2.0/24", "interface": 2, "source": "1.2.3.4"}),
            Refused::invalid("the source 1.2.3.4 is none of this node's addresses"),
        ),
        ("route_delete", json!({"destination": "192.0.2.0/24"}), Refused::new(ErrorKind::NoMatch, "no route to 192.0.2.0/24 fits")),
    ];
    for (procedure, arguments, why) in cases {
        let error = node.exec("ip4", procedure, arguments).unwrap_err();
        let (block, procedure) = ("ip4".to_owned(), procedure.to_owned());
        assert_eq!(error, ControlError::ExecFailed { block, procedure, why });
    }
    assert!(node.exec("ip4", "dance", json!({})).unwrap_err().to_string().contains("no procedure 'dance'"));
}

#[test]
fn deleting_the_first_address_of_a_network_promotes_the_next() {
    let mut node = Node::new();
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.5/24"})).unwrap();
    node.set("ip4", "promote_secondaries", json!(true));
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.1"})).unwrap();
    assert_eq!(route(&node, PEER_IP).unwrap().source, IpAddr::V4(ip(10, 0, 0, 5)));
    assert_eq!(route(&node, ip(8, 8, 8, 8)).unwrap().next_hop, IpAddr::V4(ip(10, 0, 0, 254)), "the default route stays");
    // As Linux is at first: with the first of a network go the others, which are told of before it.
    for address in ["10.0.0.6/24", "10.0.0.7/24", "10.0.0.8/25", "10.9.0.1/24"] {
        node.exec("ip4", "address_add", json!({"interface": "eth0", "address": address})).unwrap();
    }
    node.set("ip4", "promote_secondaries", json!(false));
    node.engine.take_alerts();
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.7"})).unwrap();
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.5"})).unwrap();
    let told: Vec<_> = node.engine.take_alerts().into_iter().filter(|alert| alert.name == "address").map(|alert| alert.value).collect();
    let told: Vec<_> = told.iter().map(|row| (row["address"].as_str().unwrap(), row["secondary"].as_bool().unwrap())).collect();
    assert_eq!(told, [("10.0.0.7", true), ("10.0.0.6", true), ("10.0.0.5", false)]);
    assert_eq!(node.list(Table::Addresses(Family::V4)).len(), 3, "127.0.0.1 and those of other networks stay");
}

#[test]
fn removing_an_interface_takes_its_addresses_routes_and_neighbours() {
    let mut node = Node::with_peer();
    node.exec("interfaces", "remove", json!({"name": "eth0"})).unwrap();
    assert_eq!(node.list(Table::Addresses(Family::V4)).len(), 1, "127.0.0.1 stays");
    assert!(node.list(Table::Neighbours(Family::V4)).is_empty());
    assert_eq!(route(&node, PEER_IP), None);
    let events: Vec<_> = node.engine.take_alerts().iter().map(|alert| format!("{} {}", alert.name, alert.value["event"])).collect();
    let deleted = [
        "changed \"set\"",
        "neighbour \"deleted\"",
        "address \"deleted\"",
        "route \"deleted\"",
        "route \"deleted\"",
        "changed \"removed\"",
    ];
    assert_eq!(events, [["neighbour \"set\""].as_slice(), &deleted].concat(), "the peer came, and went with the interface");
    let added = node.exec("interfaces", "add", json!({"name": "eth0"})).unwrap();
    assert_eq!(added["index"], 3, "numbers are never used again");
}

#[test]
fn interfaces_refuse_bad_names_and_keep_their_table() {
    let mut node = Node::new();
    for (arguments, kind, text) in [
        (json!({"name": "eth0"}), ErrorKind::Exists, "an interface named 'eth0' exists already"),
        (json!({"name": "a-name-of-16-byt"}), ErrorKind::Invalid, "'a-name-of-16-byt' is no interface name"),
        (json!({"name": "a/b"}), ErrorKind::Invalid, "'a/b' is no interface name"),
        (json!({"name": "x", "index": 2}), ErrorKind::Exists, "the number 2 belongs to 'eth0'"),
        (json!({"name": "x", "mac": "ff:ff:ff:ff:ff:ff"}), ErrorKind::AddressNotAvailable, "ff:ff:ff:ff:ff:ff is no station's address"),
        (json!({"name": "x", "mtu": 10}), ErrorKind::Invalid, "mtu: 10 is no whole number from 68 to 65535"),
        (json!({"name": "x", "link": "wood"}), ErrorKind::Invalid, "link: 'wood' is none of: ethernet, raw"),
        (json!({}), ErrorKind::Invalid, "name is missing"),
        // A world has opened what it says, or it is nothing.
        (json!({"name": "x", "backend": "tap:x"}), ErrorKind::Unsupported, "backend: nobody here opens 'tap:x'"),
    ] {
        let error = node.exec("interfaces", "add", arguments).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(matches!(&error, ControlError::ExecFailed { why, .. } if why.text.starts_with(text)), "{error}");
    }
    assert!(node.exec("interfaces", "remove", json!({"name": "lo"})).is_err());
    node.exec("interfaces", "set", json!({"name": "eth0", "new_name": "wan0", "mtu": 1300, "group": 4, "mac": "02:aa:00:00:00:01"}))
        .unwrap();
    let rows = node.list(Table::Interfaces);
    assert_eq!((&rows[1]["name"], &rows[1]["mtu"], &rows[1]["group"]), (&"wan0".into(), &1300.into(), &4.into()));
    assert_eq!(route(&node, PEER_IP).unwrap().mtu, 1300);
    let out = node.send(b"x", OUR_IP, 1, PEER_IP, 2);
    assert_eq!(parse_arp(&out[0]).0.src, Mac([2, 0xaa, 0, 0, 0, 1]), "ether and arp see the new address");
}

#[test]
fn addresses_and_routes_move_to_a_new_block() {
    let mut node = Node::with_peer();
    node.exec("interfaces", "add", json!({"name": "eth1", "index": 9, "mac": "02:00:00:00:00:09"})).unwrap();
    let tables = [Table::Interfaces, Table::Addresses(Family::V4), Table::Routes(Family::V4), Table::Neighbours(Family::V4)];
    let before: Vec<_> = tables.iter().map(|table| node.list(*table)).collect();
    for name in ["interfaces", "ip4", "arp"] {
        let replace = Op::Replace { name: name.to_owned(), kind: name.to_owned(), parameters: Default::default(), drop_state: false };
        node.control(replace).unwrap();
    }
    assert_eq!(tables.iter().map(|table| node.list(*table)).collect::<Vec<_>>(), before);
    assert_eq!(node.send(b"x", OUR_IP, 1, PEER_IP, 2).len(), 1);
    let before: Vec<_> = tables.iter().map(|table| node.list(*table)).collect();
    // State that does not follow the schema is refused, and the block stays as it was.
    for kind in ["interfaces", "ip4", "arp"] {
        let id = node.id(kind);
        let state = node.engine.graph().block(id).unwrap().export(node.now).unwrap();
        let cut = State { bytes: state.bytes[..state.bytes.len() / 2].to_vec(), ..state };
        let result = node.engine.with(node.now, id, |block, _| block.import(&cut, Instant::ZERO)).unwrap();
        assert!(matches!(result, Err(StateError::Damaged { .. })), "{kind}");
    }
    assert_eq!(tables.iter().map(|table| node.list(*table)).collect::<Vec<_>>(), before);
}

#[test]
fn the_network_of_a_local_route_is_the_nodes_also_in_a_new_block() {
    let mut node = Node::new();
    let inside = |node: &Node| {
        [ip(10, 8, 3, 4), ip(10, 8, 0, 0), ip(10, 8, 255, 255), ip(10, 9, 0, 1)].map(|to| route(node, to).unwrap().kind == RouteKind::Local)
    };
    let local = |metric: u32| json!({"destination": "10.8.0.0/16", "kind": "local", "interface": "lo", "table": 255, "metric": metric});
    assert_eq!(inside(&node), [false; 4]);
    for metric in [0, 7] {
        node.exec("ip4", "route_add", local(metric)).unwrap();
    }
    let source = route(&node, ip(10, 8, 3, 4)).unwrap().source;
    assert_eq!((inside(&node), source), ([true, true, true, false], ip(10, 8, 3, 4).into()));
    let replace = Op::Replace { name: "ip4".to_owned(), kind: "ip4".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(replace).unwrap();
    assert_eq!(inside(&node), [true, true, true, false]);
    // As long as one of the routes is there.
    for (metric, still) in [(7, true), (0, false)] {
        node.exec("ip4", "route_delete", local(metric)).unwrap();
        assert_eq!(inside(&node), [still, still, still, false]);
    }
    for (field, value) in [("interface", json!("eth0")), ("table", json!(254)), ("kind", json!("unicast")), ("gateway", json!(PEER_IP))] {
        let mut wrong = local(0);
        wrong[field] = value;
        assert_eq!(node.exec("ip4", "route_add", wrong).unwrap_err().kind(), ErrorKind::Unsupported, "{field}");
    }
}

/// Bytes of state in which nothing is.
fn with_nothing(now: Instant, version: u32) -> usize {
    Writer::new(now).finish("ip4", version).bytes.len()
}

#[test]
fn state_with_more_addresses_than_a_node_may_have_is_refused() {
    let mut node = Node::with_peer();
    let id = node.id("ip4");
    let state = node.engine.graph().block(id).unwrap().export(node.now).unwrap();
    let now = node.now;
    let (addresses, routes, raw): (Vec<Address>, Vec<table::RouteRow>, Vec<u8>) =
        Reader::new(&state, "ip4", state.version, now).unwrap().serialised().unwrap();
    // Behind the table stands what is kept as it is, then the number of buffers and the sum, which are written anew.
    let with = |addresses: &[Address], rest: &[u8]| {
        let mut out = Writer::new(now);
        out.serialised(&(addresses, &routes, &raw));
        rest.iter().for_each(|byte| out.byte(*byte));
        out.finish("ip4", state.version)
    };
    let tail = with_nothing(now, state.version);
    let rest = &state.bytes[with(&addresses, &[]).bytes.len() - tail..state.bytes.len() - tail];
    let mut import = |count: u32| {
        let addresses: Vec<Address> =
            (0..count).map(|nth| Address { address: Ipv4Addr::from(0x0a00_0001 + nth).into(), ..addresses[0] }).collect();
        let state = with(&addresses, rest);
        node.engine.with(node.now, id, |block, _| block.import(&state, now)).unwrap()
    };
    import(ADDRESSES_MAX as u32).unwrap();
    let refused = import(ADDRESSES_MAX as u32 + 1).unwrap_err().to_string();
    assert!(refused.contains("more addresses"), "{refused}");
}

/// What leaves ip4 through a port that leads to a counter, as frames.
fn tapped(node: &mut Node, port: &str) {
    let add = Op::Add { name: port.to_owned(), kind: "tcp".to_owned(), parameters: Default::default() };
    let bind = Op::Bind {
        from: weft_core::control::End::parse(&format!("ip4:{port}")),
        to: weft_core::control::End::parse(&format!("{port}:lower")),
    };
    node.control(Op::All(vec![add, bind])).unwrap();
}

fn tell(node: &mut Node, change: Change) {
    let (now, id) = (node.now, node.id("sockets"));
    node.engine.with(now, id, |_, cx| cx.tell(Table::Addresses(Family::V4), change));
}

#[test]
fn a_protocol_that_is_wanted_raw_is_copied_before_it_goes_to_its_transport() {
    let mut node = Node::with_peer();
    tapped(&mut node, "raw");
    let udp = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, 1, OUR_IP, 2, b"hello"));
    let gre = from_peer(header(PEER_IP, OUR_IP, Protocol::GRE), b"tunnel");
    node.receive(&udp);
    assert_eq!((node.seen("raw").len(), node.seen("sockets").len()), (0, 1));
    assert_eq!(parse_ip(&node.receive(&gre)[0]).2[..2], [3, 2], "nobody serves the protocol");
    for protocol in [Protocol::UDP, Protocol::GRE] {
        tell(&mut node, Change::WantRaw { protocol, wanted: true });
    }
    node.receive(&udp);
    let mut copy = node.seen("raw").remove(0);
    assert_eq!((copy.len(), node.seen("sockets").remove(0).to_vec()), (13, b"hello".to_vec()));
    let at = copy.meta().network_at;
    copy.rewind(at);
    assert_eq!(copy.to_vec(), udp[14..], "the header is still in front of it");
    assert!(node.receive(&gre).is_empty(), "now somebody does");
    assert_eq!(node.seen("raw").remove(0).to_vec(), b"tunnel");
    // Fragments are put together first.
    for (at, more_fragments) in [(0, true), (8, false)] {
        let header =
            ipv4::Header { more_fragments, fragment_offset: at as u16, identification: 5, ..header(PEER_IP, OUR_IP, Protocol::GRE) };
        node.receive(&from_peer(header, &b"a tunnel's frame"[at..at + 8]));
    }
    assert_eq!(node.seen("raw").iter().map(Frame::to_vec).collect::<Vec<_>>(), [b"a tunnel's frame"]);
    tell(&mut node, Change::WantRaw { protocol: Protocol::GRE, wanted: false });
    assert_eq!(node.receive(&gre).len(), 1);
    assert_eq!(node.counter("ip4", "RawCopies"), 3);
}

/// A program sends a packet with a header of its own to `dst`.
fn send_whole(node: &mut Node, dst: Ipv4Addr, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut frame = Frame::egress();
    frame.append(Bytes::copy_from_slice(packet));
    frame.meta_mut().dst = dst.into();
    let ip4 = node.id("ip4");
    node.engine.inject(node.now, ip4, InPort(2), [frame]);
    node.settle();
    node.wire()
}

#[test]
fn a_packet_with_a_header_of_its_own_gets_what_is_missing() {
    let mut node = Node::with_peer();
    let mut packet = ip_packet(ipv4::Header { ttl: 7, tos: 4, ..header(Ipv4Addr::UNSPECIFIED, PEER_IP, Protocol::GRE) }, b"payload");
    packet[2..4].fill(0xff);
    packet[10..12].fill(0xee);
    let (_, sent, payload) = parse_ip(&send_whole(&mut node, PEER_IP, &packet)[0]);
    assert_eq!((sent.src, sent.dst, sent.ttl, sent.tos, payload), (OUR_IP, PEER_IP, 7, 4, b"payload".to_vec()));
    assert_ne!(sent.identification, 0);
    // What is there stays: a source that is not ours, an identification; none where it must not be fragmented. Options pass.
    let foreign = ipv4::Header { identification: 99, ..header(foreign_source(), PEER_IP, Protocol::GRE) };
    let options = ipv4::Options::from_bytes(&[148, 4, 0, 0]).unwrap();
    let atomic = ipv4::Header { dont_fragment: true, options, ..header(foreign_source(), PEER_IP, Protocol::GRE) };
    let sent: Vec<_> = [foreign, atomic].map(|header| parse_ip(&send_whole(&mut node, PEER_IP, &ip_packet(header, b"x"))[0]).1).into();
    assert_eq!((sent[0].src, sent[0].identification, sent[1].identification, sent[1].options.len()), (foreign_source(), 99, 0, 4));
    // The destination of the call leads the way, not the header's; to ourselves it goes round the loopback.
    assert_eq!(
        parse_ip(&send_whole(&mut node, PEER_IP, &ip_packet(header(OUR_IP, ip(8, 8, 8, 8), Protocol::GRE), b"x"))[0]).0.dst,
        PEER_MAC
    );
    let own = ip_packet(header(OUR_IP, OUR_IP, Protocol::UDP), &udp_segment(OUR_IP, 1, OUR_IP, 2, b"me"));
    assert!(send_whole(&mut node, OUR_IP, &own).is_empty());
    assert_eq!(node.seen("sockets").remove(0).to_vec(), b"me");
    // Never fragmented; and what is no packet is not sent.
    assert!(send_whole(&mut node, PEER_IP, &ip_packet(header(OUR_IP, PEER_IP, Protocol::GRE), &[0; 1481])).is_empty());
    for bad in [&[][..], &[0x45; 12], &[0x65; 40], &[0x44; 40], &[0x4f; 40]] {
        assert!(send_whole(&mut node, PEER_IP, bad).is_empty());
    }
    assert_eq!((node.counter("ip4", "FragFails"), node.drops("ip4", Reason::BadPacket)), (1, 5));
}

const fn foreign_source() -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 99)
}

#[test]
fn groups_that_somebody_joined_are_heard_from_outside_and_from_ourselves() {
    let mut node = Node::with_peer();
    let (joined, other) = (ip(239, 1, 2, 3), ip(239, 9, 9, 9));
    let to = |group: Ipv4Addr| {
        let packet = ip_packet(header(PEER_IP, group, Protocol::UDP), &udp_segment(PEER_IP, 1, group, 2, b"hello"));
        ethernet(Mac::from_multicast_v4(group), PEER_MAC, EtherType::IPV4, &packet)
    };
    node.receive(&to(joined));
    assert_eq!(node.drops("ip4", Reason::NotForUs), 1, "no owner of groups, no groups");
    let igmp = |text: &str| weft_core::control::End::parse(text);
    let ops = vec![
        Op::Add { name: "igmp".to_owned(), kind: "igmp".to_owned(), parameters: Default::default() },
        Op::Bind { from: igmp("ip4:igmp"), to: igmp("igmp:lower") },
    ];
    node.control(Op::All(ops)).unwrap();
    let (now, id) = (node.now, node.id("sockets"));
    let filter = Some(SourceFilter::Exclude(Vec::new()));
    let change = Change::Group { interface: ETH0, group: joined.into(), holder: 1, filter };
    node.engine.with(now, id, |_, cx| cx.tell(Table::Groups(Family::V4), change));
    for group in [joined, other] {
        node.receive(&to(group));
    }
    assert_eq!(node.seen("sockets").iter().map(|frame| frame.meta().dst).collect::<Vec<_>>(), [std::net::IpAddr::V4(joined)]);
    // What we send to it we hear as if it had come in there, and it leaves.
    for (group, heard) in [(joined, 1), (other, 0)] {
        assert_eq!(node.send(b"mine", OUR_IP, 1, group, 2).len(), 1);
        let seen = node.seen("sockets");
        assert_eq!(seen.len(), heard);
        assert!(seen.iter().all(|frame| (frame.meta().interface, frame.to_vec()) == (ETH0, b"mine".to_vec())));
    }
    // IP_MULTICAST_LOOP off.
    let mut quiet = datagram(b"mine", OUR_IP, 1, joined, 2);
    quiet.meta_mut().no_loop = true;
    assert_eq!((node.send_frame(quiet).len(), node.seen("sockets").len()), (1, 0));
    // Messages of IGMP go to its block.
    let before = node.counter("ip4", "InDelivers");
    let query = ip_packet(header(PEER_IP, ip(224, 0, 0, 1), Protocol::IGMP), &[0x11, 100, 0xee, 0x9b, 0, 0, 0, 0]);
    node.receive(&ethernet(Mac::from_multicast_v4(ip(224, 0, 0, 1)), PEER_MAC, EtherType::IPV4, &query));
    assert_eq!((node.counter("ip4", "InDelivers") - before, node.counter("ip4", "InUnknownProtos")), (1, 0));
}
