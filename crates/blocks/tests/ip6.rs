//! IPv6: checks, extension headers, addresses, routes, forwarding.

use crate::graph6;
use graph6::*;
use serde_json::json;
use std::net::{IpAddr, Ipv6Addr};
use weft_core::table::{Address, AddressKind, AddressState, Family, Route, RouteKind};
use weft_core::*;
use weft_wire::Protocol;
use weft_wire::icmpv6::Message;
use weft_wire::ipv6::Header;

fn payloads(node: &mut Node) -> Vec<Vec<u8>> {
    node.seen("sockets").iter().map(Frame::to_vec).collect()
}

fn kind(node: &Node, address: Ipv6Addr) -> AddressKind {
    let block = node.engine.graph().block(node.id("ip6")).unwrap();
    match block.query(&Query::AddressKind(address.into()), node.now) {
        Answer::AddressKind(kind) => kind,
        other => panic!("{other:?}"),
    }
}

fn addresses(node: &Node) -> Vec<Address> {
    match node.engine.graph().block(node.id("ip6")).unwrap().query(&Query::Addresses, node.now) {
        Answer::Addresses(list) => list,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_datagram_reaches_its_socket_with_its_metadata() {
    let mut node = Node::new();
    let header = Header { traffic_class: 0x2a, hop_limit: 3, ..header(PEER_IP, OUR_IP, Protocol::UDP) };
    let mut bytes = from_peer(header, &udp_segment(PEER_IP, OUR_IP, b"hello"));
    bytes.extend_from_slice(&[0xee; 20]);
    node.receive(&bytes);
    let seen = node.seen("sockets").remove(0);
    let meta = seen.meta();
    assert_eq!(seen.to_vec(), b"hello", "padding is cut");
    assert_eq!((meta.src, meta.dst, meta.src_port, meta.dst_port), (PEER_IP.into(), OUR_IP.into(), 2000, 1000));
    assert_eq!((meta.tos, meta.ttl, meta.interface), (0x2a, 3, ETH0));
    assert_eq!((node.counter("ip6", "InReceives"), node.counter("ip6", "InDelivers")), (1, 1));
}

#[test]
fn every_bad_header_has_its_own_reason() {
    let mut node = Node::new();
    let good = packet(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"hello"));
    let mut spoiled = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        node.receive(&ethernet(OUR_MAC, PEER_MAC, &bytes));
    };
    spoiled(|packet| packet[0] = 0x45);
    spoiled(|packet| packet.truncate(39));
    spoiled(|packet| packet[4..6].copy_from_slice(&14u16.to_be_bytes()));
    assert_eq!((node.drops("ip6", Reason::BadVersion), node.drops("ip6", Reason::Truncated)), (1, 2));
    assert_eq!((node.counter("ip6", "InHdrErrors"), node.counter("ip6", "InTruncatedPkts")), (1, 2));
    let mut wrong_sum = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"hello"));
    *wrong_sum.last_mut().unwrap() ^= 1;
    node.receive(&wrong_sum);
    // RFC 8200 §8.1: no checksum is none, but for a socket that takes such (RFC 6935): sockets hear of it, and decide.
    let mut no_sum = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"hello"));
    no_sum[14 + 40 + 6..14 + 40 + 8].fill(0);
    node.receive(&no_sum);
    let absent = node.seen("sockets").iter().filter(|frame| frame.meta().checksum == Checksum::Absent).count();
    assert_eq!((node.drops("udp", Reason::BadChecksum), absent), (1, 1));
}

#[test]
fn martians_and_packets_for_others_are_dropped() {
    let mut node = Node::new();
    let from = |src: Ipv6Addr, dst: Ipv6Addr| from_peer(header(src, dst, Protocol::UDP), &udp_segment(src, dst, b"x"));
    for (src, dst) in [
        (ip("ff02::1"), OUR_IP),
        (Ipv6Addr::LOCALHOST, OUR_IP),
        (PEER_IP, Ipv6Addr::LOCALHOST),
        (ip("::ffff:10.0.0.2"), OUR_IP),
        (PEER_IP, ip("ff01::1")),
        (PEER_IP, ip("ff00::1")),
    ] {
        assert!(node.receive(&from(src, dst)).is_empty(), "{src} -> {dst}");
    }
    assert_eq!((node.drops("ip6", Reason::MartianSource), node.counter("ip6", "InHdrErrors")), (6, 6));
    for dst in [ip("fd77::9"), FAR_IP, ip("ff02::9"), ip("fe80::9"), Ipv6Addr::UNSPECIFIED, ip("ff02::1:ff00:9")] {
        assert!(node.receive(&from(PEER_IP, dst)).is_empty());
    }
    assert_eq!((node.drops("ip6", Reason::NotForUs), node.counter("ip6", "InAddrErrors")), (6, 6));
    for dst in [OUR_IP, OUR_LINK_IP, ip("ff02::1"), ip("ff02::1:ff00:1")] {
        node.receive(&from(PEER_LINK_IP, dst));
    }
    assert_eq!((payloads(&mut node).len(), node.counter("ip6", "InMcastPkts")), (4, 2));
}

#[test]
fn groups_are_heard_where_they_are_wanted() {
    let mut node = Node::configured(Node::bare(true));
    let frame = from_peer(header(PEER_IP, WANTED_GROUP, Protocol::UDP), &udp_segment(PEER_IP, WANTED_GROUP, b"to all"));
    node.receive(&frame);
    assert_eq!(payloads(&mut node), [b"to all"]);
    let other = ip("ff05::78");
    node.receive(&from_peer(header(PEER_IP, other, Protocol::UDP), &udp_segment(PEER_IP, other, b"x")));
    assert!(payloads(&mut node).is_empty());
}

/// An extension header of 8 bytes with these options.
fn options(next: u8, options: &[u8; 6]) -> Vec<u8> {
    [&[next, 0][..], options].concat()
}

#[test]
fn the_upper_layer_is_found_behind_extension_headers() {
    let mut node = Node::new();
    let (hop, destination, routing) = (Protocol::HOP_BY_HOP, Protocol::DESTINATION_OPTIONS, Protocol::ROUTING);
    let skip = [0x1e, 2, 7, 7, 1, 0];
    let done_routing = [17, 0, 0, 0, 0, 0, 0, 0];
    let atomic = [17, 0, 0, 6, 1, 2, 3, 4];
    let mut long = vec![17, 31];
    long.extend_from_slice(&[0x1e, 252]);
    long.resize(256, 7);
    for (next, extensions) in [
        (hop, options(17, &[5, 2, 0, 0, 1, 0])),
        (destination, options(17, &skip)),
        (routing, done_routing.to_vec()),
        (Protocol::FRAGMENT, atomic.to_vec()),
        (hop, [options(60, &skip), options(43, &skip), [60, 0, 0, 0, 0, 0, 0, 0].to_vec(), options(44, &skip), atomic.to_vec()].concat()),
        (destination, long),
    ] {
        assert!(node.receive(&behind(PEER_IP, OUR_IP, next, &extensions)).is_empty(), "{extensions:x?}");
        assert_eq!(payloads(&mut node), [b"hello"], "{extensions:x?}");
    }
    // RFC 8200 §4.7: nothing follows.
    assert!(node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::NO_NEXT_HEADER), b"ignored")).is_empty());
}

#[test]
fn what_is_wrong_with_extension_headers_is_told_as_it_should_be() {
    let mut node = Node::new();
    node.set("icmp6", "target_interval", "0ns".into());
    let report = options(17, &[0, 0, 0x9e, 2, 7, 7]);
    let unless_group = options(17, &[0xde, 2, 7, 7, 1, 0]);
    let discard = options(17, &[0x5e, 2, 7, 7, 1, 0]);
    let routing = |kind: u8| [17, 2, kind, 1, 0, 0, 0, 0].into_iter().chain([0; 16]).collect::<Vec<u8>>();
    let problem = |code, pointer| Some(Message::ParameterProblem { code, pointer });
    let group = ip("ff02::1");
    for (dst, next, extensions, expected) in [
        (OUR_IP, 0, report.clone(), problem(2, 44)),
        (OUR_IP, 60, report.clone(), problem(2, 44)),
        (group, 60, report.clone(), problem(2, 44)),
        (OUR_IP, 60, unless_group.clone(), problem(2, 42)),
        (group, 60, unless_group, None),
        (OUR_IP, 60, discard, None),
        // RFC 5095: type 0 is as any type that nobody knows.
        (OUR_IP, 43, routing(0), problem(0, 42)),
        (OUR_IP, 43, routing(9), problem(0, 42)),
        (group, 43, routing(9), None),
        // Hop-by-hop options anywhere but in front, and protocols that nobody serves.
        (OUR_IP, 60, [options(0, &[1, 4, 0, 0, 0, 0]), options(17, &[1, 4, 0, 0, 0, 0])].concat(), problem(1, 40)),
        (OUR_IP, 99, vec![], problem(1, 6)),
        (OUR_IP, 60, options(99, &[1, 4, 0, 0, 0, 0]), problem(1, 40)),
        // More than the packet has.
        (OUR_IP, 60, vec![17, 9, 1, 4, 0, 0, 0, 0], None),
    ] {
        let frame = behind(PEER_IP, dst, Protocol(next), &extensions);
        let out = node.receive(&frame);
        match (&out[..], expected) {
            ([], None) => {}
            ([only], Some(expected)) => {
                let (ip, message, quoted) = parse_icmp(only);
                assert_eq!((message, ip.dst), (expected, PEER_IP), "about {next}, {extensions:x?} to {dst}");
                assert_eq!(quoted, frame[14..], "all of it is quoted");
            }
            (out, expected) => panic!("{expected:?} about {next}, {extensions:x?} to {dst}, not {out:x?}"),
        }
        assert!(payloads(&mut node).is_empty());
    }
    // An endless chain.
    node.receive(&behind(PEER_IP, OUR_IP, Protocol(60), &options(60, &[1, 4, 0, 0, 0, 0]).repeat(40)));
    assert_eq!(node.drops("ip6", Reason::BadHeaderLength), 1);
}

#[test]
fn the_link_local_address_comes_with_the_interface_and_goes_with_it() {
    let mut node = Node::bare(false);
    assert_eq!(addresses(&node).len(), 1, "::1");
    node.exec("interfaces", "add", json!({"name": "eth0", "mac": OUR_MAC.to_string()})).unwrap();
    let list = addresses(&node);
    let expected = Address { dynamic: true, ..Address::permanent(ETH0, OUR_LINK_IP.into(), 64) };
    assert_eq!(list[1..], [expected]);
    let routes = node.list(Table::Routes(Family::V6));
    assert_eq!((routes[0]["destination"].as_str(), routes[0]["metric"].as_u64()), (Some("fe80::/64"), Some(256)));
    node.exec("ip6", "address_delete", json!({"interface": "eth0", "address": OUR_LINK_IP.to_string()})).unwrap();
    node.exec("interfaces", "set", json!({"name": "eth0", "mtu": 1400})).unwrap();
    assert_eq!(addresses(&node).len(), 1, "who takes it away does not get it again");
    node.exec("interfaces", "set", json!({"name": "eth0", "up": false})).unwrap();
    node.exec("interfaces", "set", json!({"name": "eth0", "up": true})).unwrap();
    assert_eq!(addresses(&node).len(), 2, "but with the interface");
    node.exec("interfaces", "set", json!({"name": "eth0", "up": false})).unwrap();
    assert_eq!((addresses(&node).len(), node.list(Table::Routes(Family::V6)).len()), (1, 1));
    node.exec("interfaces", "set", json!({"name": "eth0", "up": true})).unwrap();
    node.exec("ip6", "address_add", json!({"interface": "eth0", "address": "fd77::1/64"})).unwrap();
    node.exec("interfaces", "remove", json!({"name": "eth0"})).unwrap();
    assert_eq!((addresses(&node).len(), node.list(Table::Routes(Family::V6)).len()), (1, 1));
    node.exec("interfaces", "add", json!({"name": "narrow", "mac": OUR_MAC.to_string(), "mtu": 1279})).unwrap();
    assert_eq!(addresses(&node).len(), 1, "RFC 8200 §5: links have an MTU of 1280 or more");
    assert!(node.refused("address_add", json!({"interface": "narrow", "address": "fd77::1/64"})).text.contains("1280"));
}

#[test]
fn tentative_addresses_wait_for_whoever_detects_duplicates() {
    let mut node = Node::configured(Node::bare(true));
    assert!(addresses(&node)[1..].iter().all(|address| address.state == AddressState::Tentative));
    let to_us = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"x"));
    node.receive(&to_us);
    assert_eq!((node.drops("ip6", Reason::NotForUs), kind(&node, OUR_IP)), (1, AddressKind::Other));
    assert!(node.send(b"x", OUR_IP, PEER_IP).is_empty(), "nor sent from");
    assert_eq!(node.seen("sockets")[0].meta().error.unwrap().kind, IcmpErrorKind::NetUnreachable);
    // But a solicitation for it reaches nd.
    let group = ip("ff02::1:ff00:1");
    let solicitation = Message::Other { kind: 135, code: 0, rest: [0; 4] };
    let body = icmp(Ipv6Addr::UNSPECIFIED, group, solicitation, &OUR_IP.octets());
    node.receive(&from_peer(Header { hop_limit: 255, ..header(Ipv6Addr::UNSPECIFIED, group, Protocol::ICMPV6) }, &body));
    let seen = node.seen("nd");
    assert_eq!((seen.len(), seen[0].meta().ttl, seen[0].meta().dst), (1, 255, IpAddr::V6(group)));
    let mut address = addresses(&node).into_iter().find(|address| address.address == IpAddr::V6(OUR_IP)).unwrap();
    address.state = AddressState::Preferred;
    node.tell(Change::AddAddress(address));
    node.receive(&to_us);
    assert_eq!((payloads(&mut node).len(), kind(&node, OUR_IP)), (1, AddressKind::Local(ETH0)));
    address.state = AddressState::Duplicated;
    node.tell(Change::AddAddress(address));
    assert_eq!(kind(&node, OUR_IP), AddressKind::Other);
    // Somebody who knows better.
    node.exec("ip6", "address_add", json!({"interface": "eth0", "address": "fd77::77/64", "dad": false})).unwrap();
    assert_eq!(kind(&node, ip("fd77::77")), AddressKind::Local(ETH0));
}

#[test]
fn lifetimes_end() {
    let mut node = Node::new();
    let slaac = ip("2001:db8:5::1");
    let at = |secs: u64| Some(Instant::from_millis(secs * 1000));
    let address = Address { preferred_until: at(10), valid_until: at(20), dynamic: true, ..Address::permanent(ETH0, slaac.into(), 64) };
    node.tell(Change::AddAddress(address));
    assert_eq!(node.route(FAR_IP, None, None).unwrap().source, IpAddr::V6(slaac));
    assert!(node.list(Table::Routes(Family::V6)).iter().all(|row| row["destination"] != "2001:db8:5::/64"), "its prefix is nd's business");
    node.advance(Duration::from_millis(10_000));
    assert_eq!(addresses(&node).last().unwrap().state, AddressState::Deprecated);
    assert_eq!(node.route(FAR_IP, None, None).unwrap().source, IpAddr::V6(OUR_IP), "RFC 6724 rule 3");
    assert!(node.route(FAR_IP, Some(slaac), None).is_some(), "old connections go on");
    // Renewed in time.
    node.tell(Change::AddAddress(Address { preferred_until: at(15), valid_until: at(30), ..address }));
    node.advance(Duration::from_millis(10_000));
    assert_eq!((node.now, addresses(&node).last().unwrap().state), (Instant::from_millis(20_000), AddressState::Deprecated));
    node.advance(Duration::from_millis(10_000));
    assert_eq!((kind(&node, slaac), node.route(FAR_IP, Some(slaac), None)), (AddressKind::Other, None));
}

#[test]
fn routes_lead_by_prefix_metric_and_interface() {
    let mut node = Node::router();
    let next = |node: &Node, to: &str| node.route(ip(to), None, None).map(|answer| (answer.next_hop, answer.interface.0, answer.source));
    let gives = |hop: &str, interface, source: Ipv6Addr| Some((IpAddr::V6(ip(hop)), interface, IpAddr::V6(source)));
    assert_eq!(next(&node, "fd77::9"), gives("fd77::9", 2, OUR_IP));
    assert_eq!(next(&node, "fd88::9"), gives("fd88::9", 3, ip("fd88::1")));
    assert_eq!(next(&node, "2001:db8::9"), gives("fd77::fe", 2, OUR_IP));
    node.exec("ip6", "route_add", json!({"destination": "2001:db8::/32", "gateway": "fe80::9", "interface": "eth1"})).unwrap();
    node.exec("ip6", "route_add", json!({"destination": "2001:db8::/32", "gateway": "fd77::8", "metric": 5})).unwrap();
    assert_eq!(next(&node, "2001:db8::9"), gives("fd77::8", 2, OUR_IP), "the lower metric");
    assert_eq!(node.route(FAR_IP, None, Some(3)).unwrap().next_hop, IpAddr::V6(ip("fe80::9")), "but not for whoever is bound to eth1");
    node.exec("ip6", "route_add", json!({"destination": "2001:db8:0:1::/64", "kind": "unreachable"})).unwrap();
    assert_eq!(node.route(ip("2001:db8:0:1::5"), None, None).unwrap().kind, RouteKind::Unreachable);
    assert_eq!(node.route(OUR_IP, None, None).unwrap().kind, RouteKind::Local);
    assert_eq!(node.route(Ipv6Addr::LOCALHOST, None, None).unwrap().source, IpAddr::V6(Ipv6Addr::LOCALHOST));
    assert_eq!(node.route(FAR_IP, Some(PEER_IP), None), None, "another's address");
    assert_eq!(node.route(FAR_IP, Some(Ipv6Addr::LOCALHOST), None), None, "::1 stays inside");
    assert_eq!(node.route(ip("fe80::9"), Some(OUR_LINK_IP), None).unwrap().interface, ETH0, "the source says which link");
    let eth1_link = ip("fe80::ff:fe00:101");
    assert_eq!(node.route(ip("fe80::9"), None, Some(3)).unwrap().source, IpAddr::V6(eth1_link));
    assert_eq!(node.route(ip("fe80::9"), Some(OUR_LINK_IP), Some(3)), None, "a link-local source is of its link");
    assert_eq!(node.route(ip("ff02::5"), None, Some(3)).unwrap().source, IpAddr::V6(eth1_link));
    node.exec("ip6", "route_delete", json!({"destination": "2001:db8::/32", "metric": 5})).unwrap();
    assert_eq!(next(&node, "2001:db8::9"), gives("fe80::9", 3, ip("fd88::1")));
    node.exec("interfaces", "set", json!({"name": "eth1", "up": false})).unwrap();
    assert_eq!(next(&node, "2001:db8::9"), gives("fd77::fe", 2, OUR_IP), "what is down leads nowhere");
}

#[test]
fn refusals_speak() {
    let mut node = Node::new();
    let mut refused = |procedure: &str, arguments| node.refused(procedure, arguments);
    for (procedure, arguments, kind, text) in [
        ("address_add", json!({"interface": "eth0", "address": "fd77::1/64"}), ErrorKind::Exists, "has fd77::1 already"),
        ("address_add", json!({"interface": "eth0", "address": "ff02::1/64"}), ErrorKind::Invalid, "cannot be a host's address"),
        ("address_add", json!({"interface": "eth0", "address": "10.0.0.1/24"}), ErrorKind::Invalid, "no IPv6 prefix"),
        ("address_delete", json!({"interface": "eth0", "address": "fd77::5"}), ErrorKind::AddressNotAvailable, "does not have fd77::5"),
        ("route_add", json!({"destination": "fd99::1/64", "interface": "eth0"}), ErrorKind::Invalid, "fd99:: is the network"),
        ("route_add", json!({"destination": "fd99::/64", "gateway": "fe80::1"}), ErrorKind::Invalid, "say on which interface"),
        ("route_add", json!({"destination": "fd99::/64", "gateway": "fd66::1"}), ErrorKind::HostUnreachable, "on no network"),
        ("route_add", json!({"destination": "fd99::/64", "gateway": "fd77::1"}), ErrorKind::Invalid, "own address"),
        ("route_add", json!({"destination": "fd99::/64"}), ErrorKind::NoDevice, "needs an interface or a gateway"),
        (
            "route_add",
            json!({"destination": "fd99::/64", "interface": "eth0", "source": "fd77::9"}),
            ErrorKind::Invalid,
            "none of this node's",
        ),
        ("route_add", json!({"destination": "default", "gateway": "fd77::fe"}), ErrorKind::Exists, "such a route to default"),
        ("route_delete", json!({"destination": "fd99::/64"}), ErrorKind::NoMatch, "no route to fd99::/64 fits"),
    ] {
        let why = refused(procedure, arguments.clone());
        assert_eq!(why.kind.unwrap_or(ErrorKind::Invalid), kind, "{procedure} {arguments}: {why}");
        assert!(why.text.contains(text), "{procedure} {arguments}: {why}");
    }
}

#[test]
fn packets_are_sent_with_chosen_source_flow_label_and_hop_limit() {
    let mut node = Node::new();
    let out = node.send(b"hello", Ipv6Addr::UNSPECIFIED, FAR_IP);
    let (ether, sent, payload) = parse(&out[0]);
    assert_eq!((ether.dst.0[5], sent.src, sent.dst, sent.hop_limit), (0xfe, OUR_IP, FAR_IP, 64));
    let sum = weft_wire::checksum::pseudo_v6(sent.src, sent.dst, 17, payload.len() as u32).add_bytes(&payload).fold();
    assert_eq!(sum, 0xffff, "the chosen source is in the checksum");
    let label = |node: &mut Node, to: Ipv6Addr| parse(&node.send(b"x", Ipv6Addr::UNSPECIFIED, to)[0]).1.flow_label;
    assert_eq!(label(&mut node, FAR_IP), sent.flow_label, "one flow, one label");
    assert_ne!(label(&mut node, PEER_IP), sent.flow_label);
    assert_ne!(sent.flow_label, 0);
    let out = node.send(b"x", Ipv6Addr::UNSPECIFIED, ip("ff02::5"));
    let (ether, sent, _) = parse(&out[0]);
    assert_eq!((ether.dst.0, sent.src, sent.hop_limit), ([0x33, 0x33, 0, 0, 0, 5], OUR_LINK_IP, 1));
    node.tell(Change::LinkParameters { interface: ETH0, mtu: Some(1300), hop_limit: Some(9) });
    assert_eq!(parse(&node.send(b"x", Ipv6Addr::UNSPECIFIED, FAR_IP)[0]).1.hop_limit, 9);
    assert_eq!(node.route(FAR_IP, None, None).unwrap().mtu, 1300);
    node.tell(Change::LinkParameters { interface: ETH0, mtu: Some(1279), hop_limit: None });
    assert_eq!(node.route(FAR_IP, None, None).unwrap().mtu, 1500, "RFC 4861 §6.3.4");
}

#[test]
fn a_node_hears_itself_and_the_groups_that_it_sends_to() {
    let mut node = Node::configured(Node::bare(true));
    node.exec("ip6", "address_add", json!({"interface": "eth0", "address": "fd77::77/64", "dad": false})).unwrap();
    assert!(node.send(b"me", Ipv6Addr::UNSPECIFIED, ip("fd77::77")).is_empty());
    let seen = node.seen("sockets");
    assert_eq!((seen[0].to_vec(), seen[0].meta().src), (b"me".to_vec(), IpAddr::V6(ip("fd77::77"))));
    assert_eq!(node.send(b"all", Ipv6Addr::UNSPECIFIED, WANTED_GROUP).len(), 1);
    assert_eq!(payloads(&mut node), [b"all"]);
    assert_eq!(node.send(b"others", Ipv6Addr::UNSPECIFIED, ip("ff05::99")).len(), 1);
    assert!(payloads(&mut node).is_empty(), "nobody here wants it");
    assert!(node.send(b"inside", Ipv6Addr::UNSPECIFIED, ip("ff01::1")).is_empty(), "interface-local groups do not leave");
    assert_eq!(payloads(&mut node), [b"inside"]);
}

#[test]
fn what_cannot_be_sent_is_told_to_its_sender() {
    let mut node = Node::new();
    node.exec("ip6", "route_add", json!({"destination": "2001:db8:1::/48", "kind": "prohibit"})).unwrap();
    node.exec("ip6", "route_add", json!({"destination": "2001:db8:2::/48", "kind": "blackhole"})).unwrap();
    let error = |node: &mut Node, payload: &[u8], to: &str| {
        let mut frame = datagram(payload, OUR_IP, ip(to));
        frame.meta_mut().dont_fragment = true;
        assert!(node.inject("sockets", 3, frame).is_empty());
        node.seen("sockets").first().map(|frame| (frame.meta().error.unwrap().kind, frame.meta().src_port, frame.meta().dst))
    };
    let to = |text: &str| IpAddr::V6(ip(text));
    assert_eq!(error(&mut node, b"x", "2001:db8:1::1"), Some((IcmpErrorKind::Prohibited, 1000, to("2001:db8:1::1"))));
    assert_eq!(error(&mut node, b"x", "2001:db8:2::1"), None);
    assert_eq!(error(&mut node, &[0; 1453], "fd77::2"), Some((IcmpErrorKind::TooBig { mtu: 1500 }, 1000, to("fd77::2"))));
    node.exec("ip6", "route_delete", json!({"destination": "default"})).unwrap();
    assert_eq!(error(&mut node, b"x", "2001:db8::1"), Some((IcmpErrorKind::NetUnreachable, 1000, to("2001:db8::1"))));
}

#[test]
fn path_mtus_and_redirects_are_learned_within_reason() {
    let mut node = Node::new();
    let mtu = |node: &Node| node.route(FAR_IP, None, None).unwrap().mtu;
    let told = |mtu| Change::PathMtu { destination: FAR_IP.into(), mtu };
    let before = node.route(FAR_IP, None, None).unwrap().generation;
    for (value, then) in [(1501, 1500), (1279, 1500), (1400, 1400), (1450, 1400), (1280, 1280)] {
        node.tell(told(value));
        assert_eq!(mtu(&node), then, "after {value}");
    }
    assert_ne!(node.route(FAR_IP, None, None).unwrap().generation, before);
    assert_eq!(node.route(ip("2001:db8::a"), None, None).unwrap().mtu, 1500, "of another destination");
    assert_eq!(node.counter("ip6", "ChangesRefused"), 3);
    node.advance(Duration::from_secs(601));
    assert_eq!(mtu(&node), 1500, "RFC 8201 §4: ten minutes");
    let redirect = |gateway: &str, from: &str| Change::Redirect {
        destination: FAR_IP.into(),
        gateway: ip(gateway).into(),
        interface: ETH0,
        from: ip(from).into(),
    };
    let hop = |node: &Node| node.route(FAR_IP, None, None).unwrap().next_hop;
    node.tell(redirect("fe80::7", "fe80::6"));
    assert_eq!(hop(&node), IpAddr::V6(ip("fd77::fe")), "only the current first hop may say so");
    node.tell(redirect("fe80::7", "fd77::fe"));
    assert_eq!(hop(&node), IpAddr::V6(ip("fe80::7")));
    node.tell(Change::DeleteRoute(Route {
        destination: Ipv6Addr::UNSPECIFIED.into(),
        prefix_bits: 0,
        gateway: Some(ip("fd77::fe").into()),
        interface: ETH0,
        source: None,
        metric: 1024,
        mtu: None,
        kind: RouteKind::Unicast,
        ..Route::PLAIN
    }));
    assert_eq!(node.route(FAR_IP, None, None), None);
}

#[test]
fn what_routers_told_and_what_was_counted_goes_on_in_a_new_block() {
    let mut node = Node::new();
    let replace = |node: &mut Node| {
        node.control(Op::Replace { name: "ip6".to_owned(), kind: "ip6".to_owned(), parameters: Default::default(), drop_state: false })
            .unwrap()
    };
    node.tell(Change::PathMtu { destination: FAR_IP.into(), mtu: 1400 });
    node.tell(Change::Redirect { destination: FAR_IP.into(), gateway: ip("fe80::7").into(), interface: ETH0, from: ip("fd77::fe").into() });
    node.tell(Change::LinkParameters { interface: ETH0, mtu: None, hop_limit: Some(9) });
    node.exec("ip6", "address_delete", json!({"interface": "eth0", "address": OUR_LINK_IP.to_string()})).unwrap();
    node.send(b"x", OUR_IP, PEER_IP);
    node.advance(Duration::from_secs(300));
    let told = |node: &mut Node| {
        let route = node.route(FAR_IP, None, None).unwrap();
        let hops = parse(&node.send(b"x", OUR_IP, PEER_IP)[0]).1.hop_limit;
        (route.mtu, route.next_hop, hops, addresses(node))
    };
    let before = told(&mut node);
    assert_eq!((before.0, before.1, before.2), (1400, IpAddr::V6(ip("fe80::7")), 9));
    let sent = node.counter("ip6", "OutRequests");
    replace(&mut node);
    assert_eq!(
        (told(&mut node), node.counter("ip6", "OutRequests")),
        (before, sent + 1),
        "no link-local address comes again that somebody took away"
    );
    node.advance(Duration::from_secs(301));
    assert_eq!(node.route(FAR_IP, None, None).unwrap().mtu, 1500, "ten minutes from when it was told");
}

#[test]
fn raw_sockets_get_copies_and_send_whole_packets() {
    let mut node = Node::new();
    let wants = |number, wanted| Change::WantRaw { protocol: Protocol(number), wanted };
    let unknown = from_peer(header(PEER_IP, OUR_IP, Protocol(99)), b"ninety-nine");
    node.tell(wants(99, true));
    node.tell(wants(17, true));
    assert!(node.receive(&unknown).is_empty(), "the protocol counts as served");
    node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"both")));
    let seen = node.seen("raw");
    assert_eq!((seen[0].to_vec(), seen.len(), payloads(&mut node)), (b"ninety-nine".to_vec(), 2, vec![b"both".to_vec()]));
    let mut quoted = seen[1].clone();
    let at = quoted.meta().network_at;
    quoted.rewind(at);
    assert_eq!(quoted.head()[0] >> 4, 6);
    node.tell(wants(99, false));
    assert_eq!(node.receive(&unknown).len(), 1, "a parameter problem again");
    // IPV6_HDRINCL: as it is, with any source.
    let whole = packet(Header { flow_label: 7, hop_limit: 2, ..header(PEER_IP, FAR_IP, Protocol(99)) }, b"mine");
    let mut frame = Frame::egress();
    frame.extend(&whole);
    let out = node.inject("raw", 5, frame);
    assert_eq!(out[0][14..], whole);
    assert_eq!(out[0][..6], [2, 0, 0, 0, 0, 0xfe]);
}

#[test]
fn a_router_forwards_counts_hops_and_tells_what_it_cannot_do() {
    let mut node = Node::router();
    node.set("icmp6", "target_interval", "0ns".into());
    let there = ip("fd88::5");
    let send = |node: &mut Node, header: Header, bytes: usize| {
        let frame = from_peer(header, &udp_segment(header.src, header.dst, &vec![7; bytes]));
        (node.receive(&frame), frame)
    };
    let (out, frame) = send(&mut node, header(PEER_IP, there, Protocol::UDP), 5);
    let (ether, ip6, payload) = parse(&out[0]);
    assert_eq!((ether.src.0[4], ether.dst.0[5], ip6.hop_limit), (1, 5, 63));
    assert_eq!(payload, frame[54..]);
    let far_link = header(PEER_LINK_IP, there, Protocol::UDP);
    let unreachable = |code| Message::DestinationUnreachable { code };
    node.exec("ip6", "route_add", json!({"destination": "fd90::/64", "kind": "prohibit"})).unwrap();
    for (header, bytes, expected) in [
        (Header { hop_limit: 1, ..header(PEER_IP, there, Protocol::UDP) }, 5, Message::TimeExceeded { code: 0 }),
        (header(PEER_IP, there, Protocol::UDP), 1400, Message::PacketTooBig { mtu: 1400 }),
        (far_link, 5, unreachable(2)),
        (header(PEER_IP, ip("fd90::1"), Protocol::UDP), 5, unreachable(1)),
    ] {
        let (out, _) = send(&mut node, header, bytes);
        let (_, message, quoted) = parse_icmp(&out[0]);
        assert_eq!((message, quoted.len()), (expected, (48 + bytes).min(1232)), "about {header:?}");
    }
    for dst in [ip("fe80::77"), ip("ff05::7")] {
        assert!(send(&mut node, header(PEER_IP, dst, Protocol::UDP), 5).0.is_empty(), "{dst}");
    }
    assert!(send(&mut node, header(Ipv6Addr::UNSPECIFIED, there, Protocol::UDP), 5).0.is_empty());
    assert_eq!(node.counter("ip6", "OutForwDatagrams"), 1);
    // Options for every node on the way are looked at, those for the destination are not.
    let bad = options(17, &[0x9e, 4, 7, 7, 7, 7]);
    assert_eq!(node.receive(&behind(PEER_IP, there, Protocol(60), &bad)).len(), 1);
    assert_eq!(node.counter("ip6", "OutForwDatagrams"), 2);
    let out = node.receive(&behind(PEER_IP, there, Protocol(0), &bad));
    assert_eq!(parse_icmp(&out[0]).1, Message::ParameterProblem { code: 2, pointer: 42 });
    node.set("ip6", "forward", false.into());
    assert!(send(&mut node, header(PEER_IP, there, Protocol::UDP), 5).0.is_empty());
}

#[test]
fn the_state_survives_a_replacement() {
    let mut node = Node::router();
    node.tell(Change::WantRaw { protocol: Protocol(99), wanted: true });
    let (before, routes) = (addresses(&node), node.list(Table::Routes(Family::V6)));
    node.control(Op::Replace { name: "ip6".into(), kind: "ip6".into(), parameters: Default::default(), drop_state: false }).unwrap();
    assert_eq!((addresses(&node), node.list(Table::Routes(Family::V6))), (before, routes));
    assert!(node.receive(&from_peer(header(PEER_IP, OUR_IP, Protocol(99)), b"raw")).is_empty());
    assert_eq!(node.seen("raw").len(), 1);
}

#[test]
fn an_interface_without_ipv6_hears_and_sends_nothing_and_has_nothing() {
    let mut node = Node::new();
    let datagram = from_peer(header(PEER_IP, OUR_IP, Protocol::UDP), &udp_segment(PEER_IP, OUR_IP, b"hello"));
    let on = |node: &Node| addresses(node).iter().map(|address| address.interface).collect::<Vec<_>>();
    let disable = |node: &mut Node, name: &str, disable: bool| {
        node.exec("ip6", "interface_disable", json!({"interface": name, "disable": disable})).unwrap()
    };
    assert!(on(&node).contains(&ETH0) && node.route(PEER_IP, None, None).is_some());
    assert_eq!(disable(&mut node, "eth0", true), json!(true));
    assert!(!on(&node).contains(&ETH0) && node.route(PEER_IP, None, None).is_none());
    node.receive(&datagram);
    assert_eq!((payloads(&mut node).len(), node.drops("ip6", Reason::Ipv6Disabled), node.counter("ip6", "InDisabled")), (0, 1, 1));
    let add = json!({"interface": "eth0", "address": format!("{OUR_IP}/64"), "dad": false});
    let refused = node.refused("address_add", add.clone());
    assert_eq!((refused.kind, refused.text.as_str()), (Some(ErrorKind::Denied), "IPv6 is disabled on this device"));
    assert!(node.refused("route_add", json!({"destination": "fd99::/64", "interface": "eth0"})).to_string().contains("on nexthop device"));
    node.tell(Change::AddAddress(Address::permanent(ETH0, OUR_IP.into(), 64)));
    node.tell(Change::AddRoute(Route { destination: OUR_IP.into(), prefix_bits: 128, interface: ETH0, ..Route::PLAIN }));
    assert_eq!((on(&node).contains(&ETH0), node.counter("ip6", "ChangesRefused")), (false, 2));
    // A successor knows of it.
    let op = Op::Replace { name: "ip6".to_owned(), kind: "ip6".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert!(!on(&node).contains(&ETH0));
    assert_eq!(node.exec("ip6", "interface_disable", json!({"interface": "eth0"})).unwrap(), json!(true));
    assert_eq!(disable(&mut node, "eth0", false), json!(false));
    node.exec("ip6", "address_add", add).unwrap();
    node.receive(&datagram);
    assert_eq!(payloads(&mut node), [b"hello"]);
    // All, and what one says afterwards.
    node.set("ip6", "disable", json!(true));
    assert_eq!(
        (
            on(&node).len(),
            node.control(Op::Get { target: Selector::Name("ip6".to_owned()), name: Some("disable_new".to_owned()) }).unwrap()
        ),
        (0, json!({"ip6": true}))
    );
    disable(&mut node, "lo", false);
    assert_eq!(on(&node), [InterfaceIndex::LOOPBACK]);
    node.set("ip6", "disable", json!(false));
    assert!(on(&node).contains(&ETH0), "its link-local address is back");
}
