//! Queues of interfaces: put in, replaced and taken away by orders of `interfaces`; bounds; what happens when the interface goes.

use serde_json::json;
use weft_core::control::{End, Message, Show, Value};
use weft_core::table::{Interface, LinkType};
use weft_core::{ControlError, ErrorKind, Instant, InterfaceIndex, Mode, Op, Reason, Selector};
use weft_node::{Node, Stack};

fn node(mode: Mode) -> Node {
    let engine = if mode == Mode::Inline { "inline" } else { "queued" };
    Node::new(&Stack::parse("a", &format!("[node]\nname = \"a\"\nengine = \"{engine}\"\n")).unwrap(), 1).unwrap()
}

fn interface(node: &mut Node, name: &str) -> u32 {
    let interface = Interface {
        index: InterfaceIndex::NONE,
        name: name.to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
        carrier: true,
        link: LinkType::Ethernet,
        group: 0,
        gso_max_bytes: 0,
        checksum_offload: false,
        backend: "wire:x".to_owned(),
    };
    node.add_interface(Instant::ZERO, &interface).unwrap().0
}

fn control(node: &mut Node, op: Op) -> Result<Value, ControlError> {
    let now = node.engine().now();
    node.control(now, &Message { serial: 1, op }).result
}

fn exec(node: &mut Node, procedure: &str, arguments: Value) -> Result<Value, ControlError> {
    let op = Op::Exec { target: Selector::parse("interfaces"), procedure: procedure.to_owned(), arguments };
    control(node, op).map(|value| value["interfaces"].clone())
}

/// A request, and what comes of it.
fn queue(node: &mut Node, arguments: Value) -> Result<Value, ControlError> {
    let request = exec(node, "queue", arguments)?;
    exec(node, "queue_outcome", request)
}

fn counter(node: &Node, name: &str) -> u64 {
    let graph = node.engine().graph();
    let id = graph.find("interfaces").unwrap();
    let at = graph.kind(id).unwrap().counters.iter().position(|row| row.name == name).unwrap();
    graph.block(id).unwrap().counters()[at]
}

#[test]
fn a_queue_comes_in_front_of_its_interface_and_goes_in_one_step() {
    for mode in [Mode::Inline, Mode::Queued] {
        let mut node = node(mode);
        let index = interface(&mut node, "eth0");
        let put = json!({"event": "put", "name": "eth0", "kind": "tbf", "parameters": {"rate": 1_000_000}});
        assert_eq!(
            queue(&mut node, put.clone()).unwrap(),
            json!([
                "add qdisc.2 tbf",
                "insert qdisc.2 ether:lower interfaces:upper: ether:lower -> qdisc.2:in, qdisc.2:out -> interfaces:upper"
            ])
        );
        let obeyed = node.take_obeyed();
        assert_eq!(
            obeyed.iter().map(|order| (order.block.as_str(), order.op.is_question())).collect::<Vec<_>>(),
            [("interfaces", true), ("interfaces", true), ("interfaces", false)]
        );
        let parameter = |node: &mut Node, name: &str| {
            let op = Op::Get { target: Selector::parse("qdisc.2"), name: Some(name.to_owned()) };
            control(node, op).map(|value| value["qdisc.2"].clone())
        };
        assert_eq!((parameter(&mut node, "handle").unwrap(), parameter(&mut node, "interface").unwrap()), (0x8001.into(), index.into()));
        queue(&mut node, json!({"event": "change", "name": "eth0", "parameters": {"rate": 2_000_000, "limit_bytes": 7}})).unwrap();
        assert_eq!((parameter(&mut node, "rate").unwrap(), parameter(&mut node, "limit_bytes").unwrap()), ("2mbit".into(), 7.into()));
        let wrong =
            queue(&mut node, json!({"event": "change", "name": "eth0", "parameters": {"rate": 3_000_000, "limit": 7}})).unwrap_err();
        assert!(wrong.to_string().starts_with("block 'qdisc.2' has no parameter 'limit'"), "{wrong}");
        assert_eq!(parameter(&mut node, "rate").unwrap(), Value::from("2mbit"), "all or nothing");
        queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "netem", "handle": 7})).unwrap();
        assert_eq!(parameter(&mut node, "handle").unwrap(), Value::from(7));
        let alerts: Vec<Value> = node.take_alerts().into_iter().filter(|alert| alert.name == "queue").map(|alert| alert.value).collect();
        assert_eq!(alerts.iter().map(|told| told["event"].as_str().unwrap()).collect::<Vec<_>>(), ["put", "changed", "put"]);
        assert_eq!((&alerts[2]["old"]["kind"], &alerts[2]["queue"]["kind"]), (&json!("tbf"), &json!("netem")));
        queue(&mut node, json!({"event": "delete", "name": "eth0"})).unwrap();
        let error = queue(&mut node, json!({"event": "delete", "name": "eth0"})).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!([counter(&node, "QueuesPut"), counter(&node, "QueuesDeleted"), counter(&node, "QueuesRefused")], [2, 1, 2]);
        let edges = control(&mut node, Op::Show(Show::Edges)).unwrap();
        assert!(edges.as_array().unwrap().iter().any(|edge| edge["from"] == "ether" && edge["to"] == "interfaces"), "{edges}");
        assert!(exec(&mut node, "queue_outcome", json!({"request": 1})).is_err(), "asked for once");
        let of_lo = exec(&mut node, "queue", json!({"event": "put", "name": "lo", "kind": "fifo"})).unwrap_err();
        assert_eq!(of_lo.kind(), ErrorKind::Unsupported, "{of_lo}");
        for bad in [
            json!({}),
            json!({"event": "no", "name": "eth0"}),
            json!({"event": "put", "name": "eth0", "kind": "tee"}),
            json!({"event": "put", "name": "nope", "kind": "tbf"}),
            json!({"event": "put", "name": "eth0", "kind": "tbf", "parameters": 3}),
            json!({"event": "put", "name": "eth0", "kind": "tbf", "handle": 70_000}),
        ] {
            assert!(exec(&mut node, "queue", bad.clone()).is_err(), "{bad}");
        }
    }
}

fn row(node: &mut Node, block: &str) -> Value {
    let rows = control(node, Op::Show(Show::Blocks)).unwrap();
    rows.as_array().unwrap().iter().find(|row| row["name"] == block).cloned().unwrap_or_default()
}

#[test]
fn a_new_queue_has_nothing_of_the_one_before_it() {
    let mut node = node(Mode::Inline);
    interface(&mut node, "eth0");
    let odd = json!({"rate": 1_000_000, "overhead_bytes": 99});
    queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "tbf", "parameters": odd})).unwrap();
    queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "netem", "parameters": {"limit": 7, "loss": 0.03, "reorder": 0.25}}))
        .unwrap();
    let netem = row(&mut node, "qdisc.2")["parameters"].clone();
    assert_eq!((&netem["rate"], &netem["limit"], &netem["loss"]), (&json!("0bit"), &json!(7), &json!(0.03)));
    queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "netem", "handle": 6})).unwrap();
    let netem = row(&mut node, "qdisc.2")["parameters"].clone();
    assert_eq!((&netem["limit"], &netem["loss"], &netem["reorder"]), (&json!(1000), &json!(0.0), &json!(0.0)));
    assert_eq!((&netem["handle"], &netem["interface"]), (&json!(6), &json!(2)));
}

#[test]
fn a_queue_that_somebody_took_out_of_its_edge_is_put_in_again_or_deleted() {
    for event in ["put", "delete"] {
        let mut node = node(Mode::Inline);
        interface(&mut node, "eth0");
        queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "fifo"})).unwrap();
        control(&mut node, Op::Extract { block: "qdisc.2".to_owned() }).unwrap();
        queue(&mut node, json!({"event": event, "name": "eth0", "kind": "netem"})).unwrap();
        let there = row(&mut node, "qdisc.2");
        let edges = control(&mut node, Op::Show(Show::Edges)).unwrap();
        let leads = |from: &str| edges.as_array().unwrap().iter().any(|edge| edge["from"] == from && edge["to"] == "interfaces");
        assert_eq!((there["kind"] == "netem", leads("qdisc.2"), leads("ether")), (event == "put", event == "put", event == "delete"));
    }
}

#[test]
fn there_are_no_more_queues_than_a_node_may_have() {
    let mut node = node(Mode::Inline);
    let most = weft_blocks::link::interfaces::QUEUES_MAX;
    for number in 0..=most {
        interface(&mut node, &format!("eth{number}"));
        let result = queue(&mut node, json!({"event": "put", "name": format!("eth{number}"), "kind": "fifo"}));
        assert_eq!(result.is_ok(), number < most, "{number}: {result:?}");
        assert!(number < most || matches!(result, Err(ControlError::Limit { max, .. }) if max == most));
    }
    assert_eq!(counter(&node, "QueuesRefused"), 1);
    // Those of interfaces that go, go too: all of a group at once, each ordering its own end.
    for number in 0..most {
        exec(&mut node, "remove", json!({"name": format!("eth{number}")})).unwrap();
    }
    let blocks = control(&mut node, Op::Show(Show::Blocks)).unwrap();
    assert!(!blocks.as_array().unwrap().iter().any(|row| row["kind"] == "fifo"), "{blocks}");
    assert!(
        control(&mut node, Op::Show(Show::Edges))
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .any(|edge| edge["from"] == "ether" && edge["to"] == "interfaces")
    );
    queue(&mut node, json!({"event": "put", "name": format!("eth{most}"), "kind": "fifo"})).unwrap();
}

#[test]
fn a_graph_in_which_nobody_knows_where_it_belongs_is_left_alone() {
    let mut node = node(Mode::Inline);
    interface(&mut node, "eth0");
    let add = Op::Add { name: "other".to_owned(), kind: "forward".to_owned(), parameters: Default::default() };
    control(&mut node, Op::All(vec![add, Op::Bind { from: End::parse("other:out"), to: End::parse("interfaces:upper") }])).unwrap();
    let error = queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "tbf"})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains(": not one edge alone leads to interfaces:upper"), "{error}");
    assert_eq!(node.engine().graph().find("qdisc.2"), None);
}

#[test]
fn what_waits_for_an_interface_that_is_put_down_is_dropped_and_counted() {
    let mut node = node(Mode::Inline);
    let index = interface(&mut node, "eth0");
    queue(&mut node, json!({"event": "put", "name": "eth0", "kind": "netem", "parameters": {"delay": 1_000_000_000}})).unwrap();
    // What was sent before there was a queue.
    drop(node.take_transmit());
    exec_on(&mut node, "ip4", "address_add", json!({"interface": "eth0", "address": "10.0.0.1/24"}));
    // An ARP request for somebody: the first frame of a datagram to a neighbour.
    let sent = node.sockets(Instant::from_millis(1), |sockets, cx| {
        let s = sockets.socket(2, 2, 0, cx).unwrap();
        let to = [2, 0, 0x13, 0x88, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        sockets.send(s, weft_core::Bytes::from_static(b"hello"), 0, Some(&to), &[], cx)
    });
    assert!(sent.unwrap().is_ok());
    let waiting = |node: &Node| {
        let graph = node.engine().graph();
        let id = graph.find("qdisc.2").unwrap();
        (
            graph.block(id).unwrap().counters()[5],
            graph.drops(id).find(|(reason, _)| *reason == Reason::InterfaceDown).map_or(0, |(_, count)| count),
        )
    };
    let (frames, _) = waiting(&node);
    assert!(frames > 0);
    exec(&mut node, "set", json!({"index": index, "up": false})).unwrap();
    // Its goodbye came in before the queue heard of it, and ended with the others.
    let (left, dropped) = waiting(&node);
    assert!(left == 0 && dropped >= frames, "{left} {dropped}");
    assert!(!node.has_transmit());
}

fn exec_on(node: &mut Node, block: &str, procedure: &str, arguments: Value) {
    let op = Op::Exec { target: Selector::parse(block), procedure: procedure.to_owned(), arguments };
    control(node, op).unwrap();
}
