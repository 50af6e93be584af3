//! Routes of IPv4 with several next hops: which of them a packet takes, what becomes of them when interfaces go, and how many there may be.

use crate::common;
use common::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weft_blocks::ip::ip4::HOPS_MAX;
use weft_core::table::{RouteRow, Traffic};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::{Protocol, ipv4};

const FAR: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);

const fn mac(of: u8) -> Mac {
    Mac([2, 0, 0, 0, 9, of])
}

/// eth0 (10.0.0.1) with the neighbours .2, .3 and .4, eth1 (10.1.0.1) with .5.
fn node() -> Node {
    let mut node = Node::bare(Mode::Inline);
    for (name, address) in [("eth0", "10.0.0.1/24"), ("eth1", "10.1.0.1/24")] {
        node.exec("interfaces", "add", json!({"name": name, "mac": OUR_MAC.to_string()})).unwrap();
        node.exec("ip4", "address_add", json!({"interface": name, "address": address})).unwrap();
    }
    neighbours(&mut node);
    node.set("ip4", "forward", true.into());
    node.set("ip4", "send_redirects", false.into());
    node.set("sockets", "listening", false.into());
    node
}

fn neighbours(node: &mut Node) {
    for (interface, address, of) in [("eth0", "10.0.0.2", 2), ("eth0", "10.0.0.3", 3), ("eth0", "10.0.0.4", 4), ("eth1", "10.1.0.5", 5)] {
        node.exec("arp", "add", json!({"interface": interface, "address": address, "mac": mac(of).to_string()})).unwrap();
    }
}

fn hops(node: &mut Node, list: &[(&str, u32)]) {
    let hops: Vec<Value> = list.iter().map(|(gateway, weight)| json!({"gateway": gateway, "weight": weight})).collect();
    node.exec("ip4", "route_add", json!({"destination": "10.7.0.0/16", "nexthops": hops, "place": "replace"})).unwrap();
}

/// The last byte of the gateway that a datagram of this node goes to; none: nothing was sent.
fn sent(node: &mut Node, source: Ipv4Addr, source_port: u16, destination: Ipv4Addr) -> Option<u8> {
    node.send(b"x", source, source_port, destination, 53).first().map(|frame| frame[5])
}

/// The same of one that is sent on.
fn forwarded(node: &mut Node, source: Ipv4Addr, source_port: u16, destination: Ipv4Addr) -> Option<u8> {
    let packet = from_peer(header(source, destination, Protocol::UDP), &udp_segment(source, source_port, destination, 53, b"x"));
    node.receive(&packet).first().map(|frame| frame[5])
}

fn far(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FAR.to_bits() + number)
}

fn shares(taken: impl Iterator<Item = Option<u8>>) -> BTreeMap<u8, u32> {
    taken.fold(BTreeMap::new(), |mut shares, gateway| {
        *shares.entry(gateway.unwrap()).or_default() += 1;
        shares
    })
}

fn rows(node: &Node) -> Vec<RouteRow> {
    match node.engine.graph().block(node.id("ip4")).unwrap().query(&Query::Routes, node.now) {
        Answer::Routes(rows) => rows.into_iter().filter(|row| row.route.destination == Ipv4Addr::new(10, 7, 0, 0)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn flows_share_the_hops_by_their_weights_and_keep_to_them() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.0.0.3", 3), ("10.1.0.5", 4)]);
    let near = |number: u32| Ipv4Addr::new(10, 0, 0, 100 + (number % 50) as u8);
    let all = |node: &mut Node| (0..4000).map(|number| forwarded(node, near(number), 7, far(number))).collect::<Vec<_>>();
    let first = all(&mut node);
    let found = shares(first.iter().copied());
    // Binomial: 500, 1500 and 2000, with standard deviations of 21, 31 and 32.
    for (gateway, expected) in [(2, 500), (3, 1500), (5, 2000)] {
        assert!(found[&gateway].abs_diff(expected) < 130, "{found:?}");
    }
    assert_eq!(all(&mut node), first, "a flow stays");
    // Ports do not count, answers take the way of what they answer to.
    for number in 0..200 {
        assert_eq!(forwarded(&mut node, near(number), 9, far(number)), first[number as usize]);
    }
    node.exec("ip4", "route_add", json!({"destination": "10.6.0.0/16", "gateway": "10.0.0.4"})).unwrap();
    assert_eq!(all(&mut node), first, "and another route does not move it");
}

#[test]
fn what_a_flow_is_says_the_policy() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.0.0.3", 1)]);
    let by_port = |node: &mut Node| shares((1000..1400).map(|port| forwarded(node, PEER_IP, port, FAR)));
    assert_eq!(by_port(&mut node).len(), 1);
    node.set("ip4", "multipath_hash_policy", 1.into());
    let found = by_port(&mut node);
    assert!(found.len() == 2 && found[&2].abs_diff(200) < 60, "{found:?}");
    let own = shares((1000..1400).map(|port| sent(&mut node, Ipv4Addr::UNSPECIFIED, port, FAR)));
    assert!(own.len() == 2 && own[&2].abs_diff(200) < 60, "of this node's own, too: {own:?}");
    // Of a fragment nobody knows the ports.
    let fragments = shares((1000..1100).map(|port| {
        let header = ipv4::Header { more_fragments: true, ..header(PEER_IP, FAR, Protocol::UDP) };
        node.receive(&from_peer(header, &udp_segment(PEER_IP, port, FAR, 53, b"x"))).first().map(|frame| frame[5])
    }));
    assert_eq!(fragments.len(), 1);
}

#[test]
fn an_icmp_error_takes_the_way_of_the_flow_that_it_is_about() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.0.0.3", 1)]);
    let host = |number: u32| Ipv4Addr::new(10, 0, 0, 100 + (number % 100) as u8);
    let mut moved = 0;
    for number in 0..60 {
        let flow = forwarded(&mut node, host(number), 7, far(number));
        // Somebody else on the way, 10.0.0.99, tells the sender of a packet from there to here.
        let about = ip_packet(header(far(number), host(number), Protocol::UDP), &udp_segment(far(number), 53, host(number), 7, b"x"));
        let message = |kind: u8| [&[kind, 1, 0, 0, 0, 0, 0, 0][..], &about].concat();
        let router = Ipv4Addr::new(10, 0, 0, 99);
        let mut error = |kind: u8| {
            let packet = from_peer(header(router, far(number), Protocol::ICMP), &checked(message(kind)));
            node.receive(&packet).first().map(|frame| frame[5])
        };
        assert_eq!(error(3), flow, "flow {number}");
        moved += u32::from(error(0) != flow);
    }
    assert!(moved > 10, "what is no error goes by its own addresses: {moved}");
}

fn checked(mut message: Vec<u8>) -> Vec<u8> {
    let sum = weft_wire::checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

#[test]
fn a_source_or_an_interface_that_was_chosen_says_the_hop() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.1.0.5", 1)]);
    for number in 0..40 {
        assert_eq!(sent(&mut node, OUR_IP, 7, far(number)), Some(2), "fib_select_multipath: nh_saddr");
        assert_eq!(sent(&mut node, Ipv4Addr::new(10, 1, 0, 1), 7, far(number)), Some(5));
        let mut bound = datagram(b"x", Ipv4Addr::UNSPECIFIED, 7, far(number), 53);
        bound.meta_mut().interface = InterfaceIndex(3);
        assert_eq!(node.send_frame(bound).first().map(|frame| frame[5]), Some(5));
    }
    assert_eq!(shares((0..200).map(|number| sent(&mut node, Ipv4Addr::UNSPECIFIED, 7, far(number)))).len(), 2);
}

#[test]
fn hops_are_dead_while_their_interface_is_down_and_the_route_goes_with_the_last() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.1.0.5", 1)]);
    let taken = |node: &mut Node| shares((0..100).map(|number| sent(node, Ipv4Addr::UNSPECIFIED, 7, far(number))));
    let dead = |node: &Node| rows(node).iter().map(|row| row.hops.iter().map(|hop| hop.dead).collect::<Vec<_>>()).collect::<Vec<_>>();
    let set = |node: &mut Node, name: &str, up: bool| {
        node.exec("interfaces", "set", json!({"name": name, "up": up})).unwrap();
        node.exec("ip4", "interface_set", json!({"interface": name, "up": up})).unwrap();
        neighbours(node);
    };
    assert_eq!(taken(&mut node).len(), 2);
    set(&mut node, "eth1", false);
    assert_eq!((taken(&mut node), dead(&node)), (BTreeMap::from([(2, 100)]), vec![vec![false, true]]));
    set(&mut node, "eth1", true);
    assert_eq!((taken(&mut node).len(), dead(&node)), (2, vec![vec![false, false]]));
    // The last address of an interface is as good as the interface.
    node.exec("ip4", "address_delete", json!({"interface": "eth0", "address": "10.0.0.1"})).unwrap();
    assert_eq!((taken(&mut node), dead(&node)), (BTreeMap::from([(5, 100)]), vec![vec![true, false]]));
    node.exec("ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.1/24"})).unwrap();
    assert_eq!(dead(&node), [[false, false]]);
    set(&mut node, "eth0", false);
    set(&mut node, "eth1", false);
    assert_eq!(dead(&node), [[false; 0]; 0]);
    // An interface that is no more takes the whole route.
    for name in ["eth0", "eth1"] {
        set(&mut node, name, true);
    }
    hops(&mut node, &[("10.0.0.2", 1), ("10.1.0.5", 1)]);
    node.exec("interfaces", "remove", json!({"name": "eth1"})).unwrap();
    assert_eq!(rows(&node), []);
}

#[test]
fn next_hops_are_bounded_and_refusals_are_counted() {
    let mut node = node();
    let list = |count: usize| json!({"destination": "10.7.0.0/16", "nexthops": vec![json!({"gateway": "10.0.0.2"}); count]});
    let refused = node.exec("ip4", "route_add", list(HOPS_MAX + 1));
    assert!(matches!(refused, Err(ControlError::Limit { max, .. }) if max == HOPS_MAX as u64), "{refused:?}");
    assert_eq!((node.counter("ip4", "RoutesRefused"), rows(&node).len()), (1, 0));
    node.exec("ip4", "route_add", list(HOPS_MAX)).unwrap();
    assert_eq!((rows(&node)[0].hops.len(), sent(&mut node, OUR_IP, 7, FAR)), (HOPS_MAX, Some(2)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut node = node();
    let one = || json!([{"gateway": "10.0.0.2"}, {"gateway": "10.0.0.3"}]);
    for (arguments, why) in [
        (json!({"nexthops": []}), "no list such as"),
        (json!({"nexthops": ["10.0.0.2"]}), "no list such as"),
        (json!({"nexthops": "10.0.0.2"}), "no list such as"),
        (json!({"nexthops": [{"gateway": "10.0.0.2", "colour": 1}]}), "no argument 'colour'"),
        (json!({"nexthops": [{"gateway": "10.0.0.2", "weight": 0}]}), "no whole number from 1 to 256"),
        (json!({"nexthops": [{"gateway": "10.0.0.2", "weight": 257}]}), "no whole number from 1 to 256"),
        (json!({"nexthops": [{"gateway": "fd00::2"}]}), "no IPv4 address"),
        (json!({"nexthops": [{"gateway": "10.0.0.2"}, {"gateway": "10.99.0.2"}]}), "10.99.0.2 is on no network"),
        (json!({"nexthops": [{"gateway": "10.0.0.2"}, {}]}), "needs an interface or a gateway"),
        (json!({"nexthops": one(), "gateway": "10.0.0.2"}), "gateway is said of each of the next hops"),
        (json!({"nexthops": one(), "interface": "eth0"}), "interface is said of each of the next hops"),
        (json!({"nexthops": one(), "kind": "throw"}), "a route that sends nothing on has no next hops"),
        (json!({"kind": "catch"}), "none of: unicast, local, blackhole, unreachable, prohibit, throw"),
    ] {
        let mut arguments = arguments;
        arguments["destination"] = "10.7.0.0/16".into();
        let error = node.exec("ip4", "route_add", arguments.clone()).unwrap_err().to_string();
        assert!(error.contains(why), "{arguments}: {error}");
    }
    assert_eq!(rows(&node), []);
}

#[test]
fn a_successor_has_the_hops_and_flows_stay_on_them() {
    let mut node = node();
    hops(&mut node, &[("10.0.0.2", 1), ("10.0.0.3", 3), ("10.1.0.5", 2)]);
    node.exec("ip4", "interface_set", json!({"interface": "eth1", "up": false})).unwrap();
    let taken = |node: &mut Node| (0..200).map(|number| sent(node, Ipv4Addr::UNSPECIFIED, 7, far(number))).collect::<Vec<_>>();
    let before = (rows(&node), taken(&mut node));
    assert_eq!(before.0[0].hops.iter().map(|hop| (hop.weight, hop.dead)).collect::<Vec<_>>(), [(1, false), (3, false), (2, true)]);
    let op = Op::Replace { name: "ip4".to_owned(), kind: "ip4".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert_eq!((rows(&node), taken(&mut node)), before);
}

#[test]
fn an_alert_tells_of_the_hops() {
    let mut node = node();
    node.engine.take_alerts();
    hops(&mut node, &[("10.0.0.2", 1), ("10.0.0.3", 3)]);
    node.exec("ip4", "route_delete", json!({"destination": "10.7.0.0/16", "nexthops": [{"gateway": "10.0.0.2"}]})).unwrap_err();
    node.exec("ip4", "route_delete", json!({"destination": "10.7.0.0/16", "gateway": "10.0.0.3"})).unwrap_err();
    node.exec("ip4", "route_delete", json!({"destination": "10.7.0.0/16", "gateway": "10.0.0.2"})).unwrap();
    let told: Vec<Value> = node.engine.take_alerts().into_iter().filter(|alert| alert.name == "route").map(|alert| alert.value).collect();
    assert_eq!(told.iter().map(|alert| alert["event"].as_str().unwrap()).collect::<Vec<_>>(), ["added", "deleted"]);
    for alert in told {
        let hops: Vec<_> =
            alert["nexthops"].as_array().unwrap().iter().map(|hop| (hop["gateway"].clone(), hop["weight"].clone())).collect();
        assert_eq!(hops, [("10.0.0.2".into(), 1.into()), ("10.0.0.3".into(), 3.into())]);
    }
}

#[test]
fn a_throw_route_ends_the_look_up_in_its_table_alone() {
    let mut node = node();
    for (destination, gateway, table) in [("default", "10.0.0.2", 254), ("10.7.0.0/16", "10.0.0.3", 253), ("10.0.0.0/8", "10.0.0.4", 100)] {
        node.exec("ip4", "route_add", json!({"destination": destination, "gateway": gateway, "table": table})).unwrap();
    }
    node.exec("ip4", "route_add", json!({"destination": "10.7.0.0/16", "kind": "throw"})).unwrap();
    assert_eq!((sent(&mut node, OUR_IP, 7, FAR), sent(&mut node, OUR_IP, 7, Ipv4Addr::new(10, 8, 0, 1))), (Some(3), Some(2)));
    node.exec("ip4", "route_add", json!({"destination": "10.7.0.0/24", "kind": "throw", "table": 100})).unwrap();
    node.exec("ip4", "rule_add", json!({"to": "10.7.0.0/16", "table": 100})).unwrap();
    assert_eq!((sent(&mut node, OUR_IP, 7, FAR), sent(&mut node, OUR_IP, 7, Ipv4Addr::new(10, 7, 1, 1))), (Some(3), Some(4)));
    node.exec("ip4", "route_delete", json!({"destination": "10.7.0.0/16", "table": 253})).unwrap();
    let before = node.counter("ip4", "OutNoRoutes");
    assert_eq!((sent(&mut node, OUR_IP, 7, FAR), node.counter("ip4", "OutNoRoutes")), (None, before + 1));
    let query = Query::Route { destination: FAR.into(), source: None, interface: None, traffic: Traffic::default() };
    assert!(matches!(node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now), Answer::None));
}
