//! Carriers that come and go: what is counted, what is sent, and what of it a handed-over block still knows.

use serde_json::json;
use weft_core::control::{Message, Value};
use weft_core::table::{Interface, LinkType, Table};
use weft_core::{ControlError, ErrorKind, Frame, Instant, InterfaceIndex, Op, Reason, Selector};
use weft_node::{Node, Stack};

const NOW: Instant = Instant::from_millis(1);

fn node(carrier: bool) -> Node {
    let stack = "[node]\nname = \"a\"\n[[interface]]\nname = \"eth0\"\nbackend = \"wire:x\"\n\
                 [[address]]\ninterface = \"eth0\"\naddress = \"10.0.0.1/24\"\n";
    let stack = Stack::parse("a", stack).unwrap();
    let mut node = Node::new(&stack, 1).unwrap();
    let interface = Interface {
        index: InterfaceIndex::NONE,
        name: "eth0".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        carrier,
        link: LinkType::Ethernet,
        group: 0,
        gso_max_bytes: 0,
        checksum_offload: false,
        backend: "wire:x".to_owned(),
    };
    node.add_interface(Instant::ZERO, &interface).unwrap();
    node.configure(Instant::ZERO, &stack).unwrap();
    node
}

fn control(node: &mut Node, op: Op) -> Result<Value, ControlError> {
    node.control(NOW, &Message { serial: 1, op }).result
}

fn exec(node: &mut Node, block: &str, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
    control(node, Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments })
}

/// Carrier, and how often it came and went.
fn seen(node: &mut Node, name: &str) -> (bool, u64, u64) {
    let rows = control(node, Op::List(Table::Interfaces)).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    (row["carrier"].as_bool().unwrap(), row["carrier_ups"].as_u64().unwrap(), row["carrier_downs"].as_u64().unwrap())
}

#[test]
fn a_carrier_goes_with_the_other_end_and_with_the_interface_itself() {
    let mut node = node(true);
    assert_eq!((seen(&mut node, "eth0"), seen(&mut node, "lo")), ((true, 1, 1), (true, 0, 0)));
    node.set_carrier(NOW, "eth0", true).unwrap();
    assert_eq!(seen(&mut node, "eth0"), (true, 1, 1), "it was there");
    node.set_carrier(NOW, "eth0", false).unwrap();
    assert_eq!(seen(&mut node, "eth0"), (false, 1, 2));
    exec(&mut node, "interfaces", "set", json!({"name": "eth0", "up": false})).unwrap();
    node.set_carrier(NOW, "eth0", true).unwrap();
    assert_eq!(seen(&mut node, "eth0"), (false, 1, 2), "what is down has none");
    exec(&mut node, "interfaces", "set", json!({"name": "eth0", "up": true})).unwrap();
    assert_eq!(seen(&mut node, "eth0"), (true, 2, 2));
    exec(&mut node, "interfaces", "set", json!({"name": "eth0", "up": false})).unwrap();
    assert_eq!(seen(&mut node, "eth0"), (false, 2, 3));
    let missing = node.set_carrier(NOW, "eth7", false).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NoDevice);
}

#[test]
fn one_that_leads_nowhere_keeps_its_carrier() {
    let mut node = node(true);
    exec(&mut node, "interfaces", "add", json!({"name": "none0"})).unwrap();
    node.set_carrier(NOW, "none0", false).unwrap();
    exec(&mut node, "interfaces", "set", json!({"name": "none0", "up": false})).unwrap();
    assert_eq!(seen(&mut node, "none0"), (true, 0, 0));
}

#[test]
fn without_a_carrier_nothing_is_sent_and_ipv6_has_not_begun() {
    let mut dark = node(false);
    assert_eq!(seen(&mut dark, "eth0"), (false, 0, 1));
    let v6 = |node: &mut Node| control(node, Op::List(Table::Addresses(weft_core::table::Family::V6))).unwrap();
    let of_eth0 = |rows: Value| rows.as_array().unwrap().iter().filter(|row| row["interface_name"] == "eth0").count();
    assert_eq!(of_eth0(v6(&mut dark)), 0);
    // Who has 10.0.0.1?
    let mut asks = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 2], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[2, 0, 0, 0, 0, 2], &[10, 0, 0, 2]].concat();
    asks.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let ask = |node: &mut Node, now: Instant| {
        let mut frame = Frame::ingress(&asks);
        frame.meta_mut().interface = InterfaceIndex(2);
        node.receive(now, [frame]);
        node.take_transmit().count()
    };
    assert_eq!(ask(&mut dark, NOW), 0);
    let later = NOW + std::time::Duration::from_secs(5);
    dark.run(later);
    let graph = dark.engine().graph();
    let id = graph.find("interfaces").unwrap();
    let dropped = graph.drops(id).find(|(reason, _)| *reason == Reason::NoCarrier).map_or(0, |(_, count)| count);
    assert_eq!(dropped, 1);
    dark.set_carrier(later, "eth0", true).unwrap();
    assert!(ask(&mut dark, later) > 0);
    assert_eq!(of_eth0(v6(&mut dark)), 1);
    dark.set_carrier(later, "eth0", false).unwrap();
    assert_eq!(of_eth0(v6(&mut dark)), 1, "what has begun stays");
}
