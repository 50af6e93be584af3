//! Rules of IPv4: which packets they are for, in what order they are asked, how many there may be, and what a successor takes over.

use crate::common;
use common::*;
use serde_json::json;
use std::net::Ipv4Addr;
use weft_blocks::ip::ip4::RULES_MAX;
use weft_core::table::{RouteKind, Rule, RuleAction, RuleRow, TABLE_MAIN, Traffic};
use weft_core::*;
use weft_wire::ethernet::Mac;
use weft_wire::{Protocol, ipv4};

const FAR: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// The gateways 10.0.0.2, .3 and .4, by where the tables main, 100 and 101 lead.
const GATEWAYS: [u8; 3] = [2, 3, 4];

const fn mac(of: u8) -> Mac {
    Mac([2, 0, 0, 0, 9, of])
}

/// eth0 and eth1, and a default route in each of three tables.
fn node() -> Node {
    let mut node = Node::bare(Mode::Inline);
    for (name, address) in [("eth0", "10.0.0.1/24"), ("eth1", "10.1.0.1/24")] {
        node.exec("interfaces", "add", json!({"name": name, "mac": OUR_MAC.to_string()})).unwrap();
        node.exec("ip4", "address_add", json!({"interface": name, "address": address})).unwrap();
    }
    for (gateway, table) in GATEWAYS.into_iter().zip([TABLE_MAIN, 100, 101]) {
        let address = format!("10.0.0.{gateway}");
        node.exec("arp", "add", json!({"interface": "eth0", "address": address, "mac": mac(gateway).to_string()})).unwrap();
        node.exec("ip4", "route_add", json!({"destination": "default", "gateway": address, "table": table})).unwrap();
    }
    node.set("ip4", "forward", true.into());
    node.set("sockets", "listening", false.into());
    node
}

fn rule(node: &mut Node, arguments: Value) {
    node.exec("ip4", "rule_add", arguments).unwrap();
}

/// The last byte of the gateway that the frame goes to; none: nothing was sent.
fn gateway(sent: &[Vec<u8>]) -> Option<u8> {
    sent.first().map(|frame| frame[5])
}

/// A datagram to port 53 is sent with something of its own.
fn sent(node: &mut Node, change: impl FnOnce(&mut Meta)) -> Option<u8> {
    let mut frame = datagram(b"hello", Ipv4Addr::UNSPECIFIED, 1000, FAR, 53);
    change(frame.meta_mut());
    gateway(&node.send_frame(frame))
}

#[test]
fn the_first_rule_that_fits_says_in_which_table() {
    let mut node = node();
    assert_eq!(sent(&mut node, |_| ()), Some(2));
    rule(&mut node, json!({"fwmark": 7, "table": 100}));
    assert_eq!((sent(&mut node, |meta| meta.mark = 7), sent(&mut node, |meta| meta.mark = 8)), (Some(3), Some(2)));
    rule(&mut node, json!({"fwmark": 8, "fwmask": 8, "table": 101}));
    assert_eq!((sent(&mut node, |meta| meta.mark = 7), sent(&mut node, |meta| meta.mark = 0xc)), (Some(3), Some(4)));
    rule(&mut node, json!({"tos": 16, "table": 100}));
    assert_eq!(
        (sent(&mut node, |meta| meta.tos = 16 | 2), sent(&mut node, |meta| meta.tos = 20)),
        (Some(3), Some(2)),
        "ECN does not count"
    );
    rule(&mut node, json!({"ipproto": 17, "sport": "900-1000", "dport": 53, "table": 101, "to": "10.7.0.0/16"}));
    assert_eq!((sent(&mut node, |_| ()), sent(&mut node, |meta| meta.src_port = 1001)), (Some(4), Some(2)));
    // Of the later one is asked first.
    rule(&mut node, json!({"from": "10.1.0.0/24", "table": 100}));
    let from = |meta: &mut Meta| meta.src = Ipv4Addr::new(10, 1, 0, 1).into();
    assert_eq!((sent(&mut node, from), sent(&mut node, |_| ())), (Some(3), Some(4)), "whose source is not chosen yet comes from nowhere");
    rule(&mut node, json!({"oif": "eth0", "table": TABLE_MAIN}));
    assert_eq!((sent(&mut node, |meta| meta.interface = ETH0), sent(&mut node, |_| ())), (Some(2), Some(4)));
    rule(&mut node, json!({"not": true, "to": "10.8.0.0/16", "action": "goto", "target": 32_766}));
    assert_eq!(sent(&mut node, from), Some(2));
    node.exec("ip4", "rule_delete", json!({"action": "goto", "target": 32_766})).unwrap();
    assert_eq!(sent(&mut node, from), Some(3));
}

#[test]
fn rules_refuse_and_routes_are_suppressed() {
    let mut node = node();
    rule(&mut node, json!({"action": "blackhole", "fwmark": 1}));
    rule(&mut node, json!({"action": "unreachable", "fwmark": 2}));
    rule(&mut node, json!({"action": "prohibit", "fwmark": 3}));
    rule(&mut node, json!({"action": "nop", "fwmark": 4}));
    let marks = [1, 2, 3, 4].map(|mark| sent(&mut node, |meta| meta.mark = mark));
    assert_eq!(marks, [None, None, None, Some(2)]);
    assert_eq!(node.counter("ip4", "OutNoRoutes"), 1, "the unreachable one");
    // The main table without its default route, then another, as VPNs do.
    rule(&mut node, json!({"not": true, "fwmark": 9, "table": 100}));
    rule(&mut node, json!({"table": TABLE_MAIN, "suppress_prefixlength": 0}));
    assert_eq!((sent(&mut node, |_| ()), sent(&mut node, |meta| meta.mark = 9)), (Some(3), Some(2)));
    node.exec("ip4", "route_add", json!({"destination": "10.7.0.0/16", "gateway": "10.0.0.4"})).unwrap();
    assert_eq!(sent(&mut node, |_| ()), Some(4), "a longer prefix counts");
    node.exec("ip4", "rule_delete", json!({"suppress_prefixlength": 0})).unwrap();
    node.exec("ip4", "route_delete", json!({"destination": "10.7.0.0/16"})).unwrap();
    rule(&mut node, json!({"table": 101, "suppress_ifgroup": 0}));
    assert_eq!(sent(&mut node, |_| ()), Some(3), "eth0 is in group 0");
}

#[test]
fn packets_for_others_go_by_where_they_come_in() {
    let mut node = node();
    let source = Ipv4Addr::new(10, 0, 0, 9);
    let forwarded = |node: &mut Node, dport: u16, fragment: bool| {
        let header = ipv4::Header { more_fragments: fragment, ..header(source, FAR, Protocol::UDP) };
        gateway(&node.receive(&from_peer(header, &udp_segment(source, 7, FAR, dport, b"x"))))
    };
    node.set("ip4", "send_redirects", false.into());
    rule(&mut node, json!({"iif": "eth1", "table": 101}));
    rule(&mut node, json!({"iif": "lo", "table": 101}));
    assert_eq!((forwarded(&mut node, 9, false), sent(&mut node, |_| ())), (Some(2), Some(4)));
    rule(&mut node, json!({"iif": "eth0", "from": "10.0.0.9", "table": 100}));
    assert_eq!((forwarded(&mut node, 9, false), sent(&mut node, |_| ())), (Some(3), Some(4)));
    rule(&mut node, json!({"ipproto": 17, "dport": 9, "table": TABLE_MAIN}));
    assert_eq!([forwarded(&mut node, 9, false), forwarded(&mut node, 10, false)], [Some(2), Some(3)]);
    assert_eq!(forwarded(&mut node, 9, true), Some(3), "a fragment has no ports");
    // A rule for an interface that there is not is for nobody, until there is.
    rule(&mut node, json!({"iif": "eth9", "action": "prohibit"}));
    assert_eq!(forwarded(&mut node, 10, false), Some(3));
    let rows: Vec<RuleRow> = serde_json::from_value(node.exec("ip4", "rules", Value::Null).unwrap()).unwrap();
    assert_eq!(rows.iter().filter(|row| row.input_absent).count(), 1);
    node.exec("interfaces", "set", json!({"name": "eth0", "up": false})).unwrap();
    node.exec("interfaces", "set", json!({"name": "eth0", "new_name": "eth9", "up": true})).unwrap();
    let rows: Vec<RuleRow> = serde_json::from_value(node.exec("ip4", "rules", Value::Null).unwrap()).unwrap();
    let absent: Vec<_> = rows.iter().filter(|row| row.input_absent).filter_map(|row| row.rule.input.as_deref()).collect();
    assert_eq!(absent, ["eth0"]);
}

#[test]
fn rules_are_bounded_and_refusals_are_counted() {
    let mut node = node();
    for number in 3..RULES_MAX as u32 {
        rule(&mut node, json!({"fwmark": number, "table": 100, "priority": 1000}));
    }
    let refused = node.exec("ip4", "rule_add", json!({"table": 100}));
    assert!(matches!(refused, Err(ControlError::Limit { max, .. }) if max == RULES_MAX as u64), "{refused:?}");
    assert_eq!(node.counter("ip4", "RulesRefused"), 1);
    assert_eq!(sent(&mut node, |meta| meta.mark = RULES_MAX as u32 - 1), Some(3), "the last one is asked, too");
    node.exec("ip4", "rule_delete", json!({"fwmark": 3})).unwrap();
    rule(&mut node, json!({"table": 100}));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut node = node();
    let before = node.exec("ip4", "rules", Value::Null).unwrap();
    for (arguments, why) in [
        (json!({"tos": 0x11}), "ECN bits"),
        (json!({"tos": 0x20}), "Invalid tos"),
        (json!({"action": "goto"}), "Missing goto target"),
        (json!({"action": "goto", "target": 5, "priority": 5}), "Backward goto"),
        (json!({"action": "jump"}), "none of"),
        (json!({"sport": "0-5"}), "Invalid sport range"),
        (json!({"dport": "7-6"}), "Invalid dport range"),
        (json!({"dport": "65535"}), "Invalid dport range"),
        (json!({"from": "fd00::/8"}), "no prefix of this family"),
        (json!({"from": "10.0.0.0/33"}), "no prefix of this family"),
        (json!({"iif": "a name that is too long"}), "more than 15 bytes"),
        (json!({"colour": "blue"}), "no argument"),
        (json!({"table": TABLE_MAIN, "priority": 32_766, "alone": true, "protocol": 2}), "there is such a rule with priority 32766"),
    ] {
        let error = node.exec("ip4", "rule_add", arguments.clone()).unwrap_err();
        let kind = if arguments.get("alone").is_some() { ErrorKind::Exists } else { ErrorKind::Invalid };
        assert_eq!(error.kind(), kind, "{arguments}: {error}");
        assert!(error.to_string().contains(why), "{arguments}: {error}");
    }
    assert_eq!(node.exec("ip4", "rule_delete", json!({"priority": 77})).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(node.exec("ip4", "rule_delete", json!({"priority": 0})).unwrap_err().to_string().contains("its rule stays"));
    assert_eq!(node.exec("ip4", "rules", Value::Null).unwrap(), before);
}

#[test]
fn a_successor_has_the_rules() {
    let mut node = node();
    rule(&mut node, json!({"fwmark": 7, "iif": "lo", "table": 100, "sport": "1-2000"}));
    let before = node.exec("ip4", "rules", Value::Null).unwrap();
    let op = Op::Replace { name: "ip4".to_owned(), kind: "ip4".to_owned(), parameters: Default::default(), drop_state: false };
    node.control(op).unwrap();
    assert_eq!(node.exec("ip4", "rules", Value::Null).unwrap(), before);
    assert_eq!((sent(&mut node, |meta| meta.mark = 7), sent(&mut node, |_| ())), (Some(3), Some(2)));
}

#[test]
fn an_alert_tells_of_each_change() {
    let mut node = node();
    node.engine.take_alerts();
    rule(&mut node, json!({"from": "10.3.0.0/16", "table": 100}));
    node.exec("ip4", "rule_delete", json!({"table": 100})).unwrap();
    let told: Vec<_> = node.engine.take_alerts().into_iter().filter(|alert| alert.name == "rule").map(|alert| alert.value).collect();
    assert_eq!(told.iter().map(|alert| alert["event"].as_str().unwrap()).collect::<Vec<_>>(), ["added", "deleted"]);
    let row: RuleRow = serde_json::from_value(told[0].clone()).unwrap();
    let source = Some((Ipv4Addr::new(10, 3, 0, 0).into(), 16));
    assert_eq!(row.rule, Rule { source, ..Rule::all(32_765, RuleAction::Table(100)) });
}

#[test]
fn questions_go_by_rules() {
    let mut node = node();
    rule(&mut node, json!({"fwmark": 7, "table": 100}));
    rule(&mut node, json!({"fwmark": 8, "action": "prohibit"}));
    let ask = |mark: u32, destination: Ipv4Addr| {
        let traffic = Traffic { mark, ..Traffic::default() };
        let query = Query::Route { destination: destination.into(), source: None, interface: None, traffic };
        match node.engine.graph().block(node.id("ip4")).unwrap().query(&query, node.now) {
            Answer::Route(answer) => (answer.kind, answer.next_hop.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(7, FAR), (RouteKind::Unicast, "10.0.0.3".to_owned()));
    assert_eq!(ask(0, FAR), (RouteKind::Unicast, "10.0.0.2".to_owned()));
    assert_eq!(ask(8, FAR).0, RouteKind::Prohibit);
    assert_eq!(ask(8, OUR_IP).0, RouteKind::Local, "the table local comes first");
}
