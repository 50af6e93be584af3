//! Routes of IPv6 with several next hops: siblings that join and leave one by one, and which of them a packet takes.

use crate::graph6;
use graph6::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use weft_blocks::ip::ip6::HOPS_MAX;
use weft_core::table::{Flow, RouteRow, Traffic};
use weft_core::*;

const FAR: &str = "fd99::/64";

fn rows(node: &Node) -> Vec<RouteRow> {
    match node.engine.graph().block(node.id("ip6")).unwrap().query(&Query::Routes, node.now) {
        Answer::Routes(rows) => rows.into_iter().filter(|row| row.route.destination == ip("fd99::")).collect(),
        other => panic!("{other:?}"),
    }
}

/// The last byte of each gateway, by route.
fn gateways(node: &Node) -> Vec<Vec<u8>> {
    let last = |gateway: Option<IpAddr>| match gateway {
        Some(IpAddr::V6(gateway)) => gateway.octets()[15],
        _ => 0,
    };
    rows(node).iter().map(|row| row.each().map(|route| last(route.gateway)).collect()).collect()
}

fn add(node: &mut Node, gateways: &[&str], place: &str) -> Result<Value, ControlError> {
    let hops: Vec<Value> = gateways.iter().map(|gateway| json!({"gateway": gateway})).collect();
    node.exec("ip6", "route_add", json!({"destination": FAR, "nexthops": hops, "place": place}))
}

/// Who gets a packet to fd99::`to` that says so much of itself.
fn taken(node: &Node, to: u16, source: Option<Ipv6Addr>, traffic: Traffic) -> u8 {
    let destination = IpAddr::V6(Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, to));
    let query = Query::Route { destination, source: source.map(IpAddr::V6), interface: None, traffic };
    match node.engine.graph().block(node.id("ip6")).unwrap().query(&query, node.now) {
        Answer::Route(answer) => match answer.next_hop {
            IpAddr::V6(ip) => ip.octets()[15],
            IpAddr::V4(_) => panic!(),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn siblings_join_and_leave_one_by_one() {
    let mut node = Node::router();
    let one = |gateway: &str, place: &str| json!({"destination": FAR, "gateway": gateway, "place": place});
    node.exec("ip6", "route_add", one("fd77::2", "alone")).unwrap();
    node.exec("ip6", "route_add", one("fd77::3", "last")).unwrap();
    node.exec("ip6", "route_add", one("fd77::4", "first")).unwrap();
    assert!(node.exec("ip6", "route_add", one("fd77::3", "last")).is_err());
    assert!(add(&mut node, &["fd77::5", "fd77::2"], "last").is_err(), "one of them is there: neither joins");
    add(&mut node, &["fd77::5", "fd77::6"], "last").unwrap();
    node.exec("ip6", "route_add", json!({"destination": FAR, "interface": "eth0", "place": "last"})).unwrap();
    assert_eq!(gateways(&node), [vec![2, 3, 4, 5, 6], vec![0]], "without a gateway it is another route");
    node.exec("ip6", "route_delete", json!({"destination": FAR, "gateway": "fd77::3"})).unwrap();
    let list = json!([{"gateway": "fd77::77"}, {"gateway": "fd77::5"}]);
    assert!(node.exec("ip6", "route_delete", json!({"destination": FAR, "nexthops": list})).is_err(), "one of the two is not there");
    assert_eq!(gateways(&node), [vec![2, 4, 6], vec![0]], "the other has gone");
    node.exec("ip6", "route_add", one("fd77::9", "replace")).unwrap();
    assert_eq!(gateways(&node), [vec![9], vec![0]]);
    add(&mut node, &["fd77::2", "fd77::3"], "last").unwrap();
    node.exec("ip6", "route_delete", json!({"destination": FAR})).unwrap();
    assert_eq!(gateways(&node), [vec![0]], "without a gateway all of them are meant");
}

#[test]
fn hops_join_up_to_a_bound_and_refusals_are_counted() {
    let mut node = Node::router();
    let names: Vec<String> = (0..HOPS_MAX).map(|number| format!("fd77::1:{number:x}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    add(&mut node, &names, "alone").unwrap();
    let refused = add(&mut node, &["fd77::2"], "last");
    assert!(matches!(refused, Err(ControlError::Limit { max, .. }) if max == HOPS_MAX as u64), "{refused:?}");
    assert_eq!((node.counter("ip6", "RoutesRefused"), rows(&node)[0].hops.len()), (1, HOPS_MAX));
    assert_eq!(add(&mut node, &["fd77::2", "fd77::2"], "replace").unwrap_err().kind(), ErrorKind::Exists, "one hop twice");
}

#[test]
fn flows_share_the_hops_by_what_they_are() {
    let mut node = Node::router();
    let hops = json!([{"gateway": "fd77::2", "weight": 1}, {"gateway": "fd77::3", "weight": 3}]);
    node.exec("ip6", "route_add", json!({"destination": FAR, "nexthops": hops})).unwrap();
    let mut shares: BTreeMap<u8, u32> = BTreeMap::new();
    for to in 0..2000 {
        *shares.entry(taken(&node, to, None, Traffic::default())).or_default() += 1;
    }
    // 500 are expected, with a standard deviation of 19.
    assert!(shares[&2].abs_diff(500) < 100, "{shares:?}");
    let of = |node: &Node, traffic: &dyn Fn(u16) -> Traffic| {
        (0..64).map(|number| taken(node, 1, None, traffic(number))).collect::<BTreeSet<u8>>().len()
    };
    let ports = |number: u16| Traffic { ports: (number, 53), protocol: 17, ..Traffic::default() };
    let labels = |number: u16| Traffic { label: number.into(), protocol: 17, ..Traffic::default() };
    assert_eq!((of(&node, &ports), of(&node, &labels)), (1, 2), "addresses, label and protocol");
    // An error is of the flow that it is about.
    let about = Flow { source: ip("fd99::1").into(), destination: ip("fd77::9").into(), label: 5, protocol: 6 };
    let error =
        |number: u16| Traffic { about: Some(about), label: number.into(), protocol: 58, input: InterfaceIndex(2), ..Traffic::default() };
    assert_eq!(of(&node, &error), 1);
    let flow = Traffic { label: 5, protocol: 6, input: InterfaceIndex(2), ..Traffic::default() };
    assert_eq!(taken(&node, 1, None, error(0)), taken(&node, 1, Some(ip("fd77::9")), flow), "both directions are one");
    node.set("ip6", "multipath_hash_policy", 1.into());
    assert_eq!((of(&node, &ports), of(&node, &labels)), (2, 1));
}

#[test]
fn packets_for_others_go_by_their_own_flow() {
    let mut node = Node::router();
    node.exec("ip6", "route_add", json!({"destination": FAR, "nexthops": [{"gateway": "fd88::fe"}, {"gateway": "fd88::fd"}]})).unwrap();
    let mut seen = BTreeSet::new();
    for label in 0..40 {
        let header = weft_wire::ipv6::Header { flow_label: label, ..header(ip("fd77::2"), ip("fd99::1"), weft_wire::Protocol::UDP) };
        let wire = node.receive(&from_peer(header, &udp_segment(ip("fd77::2"), ip("fd99::1"), b"x")));
        seen.insert(wire[0][5]);
        let again = node.receive(&from_peer(header, &udp_segment(ip("fd77::2"), ip("fd99::1"), b"x")));
        assert_eq!(again[0][5], wire[0][5], "label {label}");
    }
    assert_eq!(seen, BTreeSet::from([0xfd, 0xfe]));
}

#[test]
fn a_hop_is_dead_while_its_interface_is_down_and_leaves_with_it() {
    let mut node = Node::router();
    let hops = json!([{"gateway": "fd77::2"}, {"gateway": "fd88::3", "weight": 2}]);
    node.exec("ip6", "route_add", json!({"destination": FAR, "nexthops": hops})).unwrap();
    let seen = |node: &Node| (0..64).map(|to| taken(node, to, None, Traffic::default())).collect::<BTreeSet<u8>>();
    let set = |node: &mut Node, up: bool| {
        node.exec("interfaces", "set", json!({"name": "eth1", "up": up})).unwrap();
        node.exec("ip6", "interface_set", json!({"interface": "eth1", "up": up})).unwrap();
    };
    assert_eq!(seen(&node), BTreeSet::from([2, 3]));
    set(&mut node, false);
    assert_eq!((seen(&node), rows(&node)[0].hops[1].dead), (BTreeSet::from([2]), true));
    set(&mut node, true);
    assert_eq!(seen(&node), BTreeSet::from([2, 3]));
    let before = rows(&node);
    let op = Op::Replace { name: "ip6".to_owned(), kind: "ip6".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert_eq!(rows(&node), before, "a successor has them");
    node.exec("interfaces", "remove", json!({"name": "eth1"})).unwrap();
    assert_eq!(gateways(&node), [[2]], "its sibling stays");
}

#[test]
fn a_throw_route_ends_the_look_up_in_its_table_alone() {
    let mut node = Node::router();
    node.exec("ip6", "route_add", json!({"destination": FAR, "gateway": "fd77::7"})).unwrap();
    node.exec("ip6", "route_add", json!({"destination": "fd99::/96", "kind": "throw", "table": 100})).unwrap();
    node.exec("ip6", "route_add", json!({"destination": FAR, "gateway": "fd77::8", "table": 100})).unwrap();
    node.exec("ip6", "rule_add", json!({"to": FAR, "table": 100})).unwrap();
    assert_eq!(taken(&node, 1, None, Traffic::default()), 7);
    node.exec("ip6", "route_delete", json!({"destination": "fd99::/96", "kind": "throw", "table": 100})).unwrap();
    assert_eq!(taken(&node, 1, None, Traffic::default()), 8);
    node.exec("ip6", "route_add", json!({"destination": FAR, "kind": "throw", "place": "replace"})).unwrap();
    node.exec("ip6", "rule_delete", json!({"to": FAR})).unwrap();
    assert_eq!(node.route(ip("fd99::1"), None, None), None);
}
