//! Rules of IPv6: what is sent, and what is sent on.

use crate::graph6;
use graph6::*;
use serde_json::json;
use std::net::Ipv6Addr;
use weft_core::table::{RouteAnswer, RouteKind, Traffic};
use weft_core::*;
use weft_wire::Protocol;

const PEER: &str = "fd77::2";
const FAR: &str = "fd99::1";

fn ask(node: &Node, source: Option<&str>, traffic: Traffic) -> Option<RouteAnswer> {
    let source = source.map(|source| ip(source).into());
    let query = Query::Route { destination: ip(FAR).into(), source, interface: None, traffic };
    match node.engine.graph().block(node.id("ip6")).unwrap().query(&query, node.now) {
        Answer::Route(answer) => Some(answer),
        _ => None,
    }
}

fn next_hop(answer: Option<RouteAnswer>) -> Ipv6Addr {
    match answer.map(|answer| answer.next_hop) {
        Some(std::net::IpAddr::V6(ip)) => ip,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rules_say_in_which_table() {
    let mut node = Node::router();
    node.exec("ip6", "route_add", json!({"destination": "default", "gateway": "fd88::fe", "table": 100})).unwrap();
    let marked = Traffic { mark: 7, ..Traffic::default() };
    assert_eq!(next_hop(ask(&node, None, marked)), ip("fd77::fe"));
    node.exec("ip6", "rule_add", json!({"fwmark": 7, "table": 100})).unwrap();
    assert_eq!([marked, Traffic::default()].map(|traffic| next_hop(ask(&node, None, traffic))), [ip("fd88::fe"), ip("fd77::fe")]);
    node.exec("ip6", "rule_add", json!({"from": "fd88::/64", "table": 100})).unwrap();
    assert_eq!(next_hop(ask(&node, Some("fd88::1"), Traffic::default())), ip("fd88::fe"));
    assert_eq!(next_hop(ask(&node, Some("fd77::1"), Traffic::default())), ip("fd77::fe"));
    node.exec("ip6", "rule_add", json!({"action": "prohibit", "fwmark": 8})).unwrap();
    assert_eq!(ask(&node, None, Traffic { mark: 8, ..Traffic::default() }).unwrap().kind, RouteKind::Prohibit);
    node.exec("ip6", "rule_add", json!({"action": "unreachable", "fwmark": 9})).unwrap();
    assert_eq!(ask(&node, None, Traffic { mark: 9, ..Traffic::default() }), None);
    let before = node.exec("ip6", "rules", Value::Null).unwrap();
    let op = Op::Replace { name: "ip6".to_owned(), kind: "ip6".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert_eq!(node.exec("ip6", "rules", Value::Null).unwrap(), before);
    assert_eq!(next_hop(ask(&node, None, marked)), ip("fd88::fe"));
}

#[test]
fn what_is_sent_on_goes_by_where_it_comes_in_and_by_its_ports() {
    let mut node = Node::router();
    node.exec("ip6", "rule_add", json!({"action": "prohibit", "iif": "eth0", "ipproto": 17, "sport": 2000, "dport": "900-1000"})).unwrap();
    let sent_on = |node: &mut Node| {
        node.receive(&from_peer(header(ip(PEER), ip(FAR), Protocol::UDP), &udp_segment(ip(PEER), ip(FAR), b"x")));
        node.counter("ip6", "OutForwDatagrams")
    };
    assert_eq!(sent_on(&mut node), 0);
    node.exec("ip6", "rule_delete", json!({"iif": "eth0"})).unwrap();
    assert_eq!(sent_on(&mut node), 1);
    node.exec("ip6", "rule_add", json!({"action": "blackhole", "iif": "eth1"})).unwrap();
    assert_eq!(sent_on(&mut node), 2);
    node.exec("ip6", "rule_add", json!({"action": "blackhole", "from": "fd77::2"})).unwrap();
    assert_eq!(sent_on(&mut node), 2);
}
