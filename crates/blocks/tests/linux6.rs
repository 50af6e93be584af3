//! The kernel is the oracle: what Linux answered to the frames of `linux/six.py`, weft answers too, byte for byte but for flow labels.

use crate::graph6;
use graph6::*;
use serde_json::{Value, json};
use weft_core::*;

/// Where weft deliberately does not do as Linux does, and why.
const DIFFERENT: &[(&str, &str)] = &[];

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// The frame without its flow label.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    parse(&frame);
    frame[15] &= 0xf0;
    frame[16..18].fill(0);
    frame
}

/// What a node without sockets answers on eth0.
fn weft_answers(mut node: Node, sent: &[u8]) -> Vec<Vec<u8>> {
    node.set("icmp6", "target_interval", "0ns".into());
    let mut out = node.receive(sent);
    // What sockets complain about: they drop what has no checksum.
    let refused = |frame: &Frame| frame.meta().error.is_none() && frame.meta().checksum != Checksum::Absent;
    for mut frame in node.seen("sockets").into_iter().filter(refused) {
        let at = frame.meta().network_at;
        frame.rewind(at);
        let from = frame.meta().dst;
        frame.meta_mut().error = Some(IcmpError { kind: IcmpErrorKind::PortUnreachable, from });
        out.extend(node.inject("sockets", 6, frame));
    }
    // What was forwarded left through eth1, whose address ends in 01:01.
    out.iter().filter(|frame| frame[6..12] == OUR_MAC.0).map(|frame| normalised(frame)).collect()
}

fn host() -> Node {
    let mut node = Node::new();
    node.exec("ip6", "route_delete", json!({"destination": "default"})).unwrap();
    node.exec("ip6", "route_add", json!({"destination": "2001:db8::/32", "gateway": "fd77::fe"})).unwrap();
    node
}

fn router() -> Node {
    let mut node = Node::router();
    node.exec("ip6", "route_delete", json!({"destination": "default"})).unwrap();
    for (prefix, kind) in [("fd90::/64", "prohibit"), ("fd91::/64", "unreachable"), ("fd92::/64", "blackhole")] {
        node.exec("ip6", "route_add", json!({"destination": prefix, "kind": kind})).unwrap();
    }
    node
}

#[test]
fn weft_answers_as_linux_does() {
    let golden: Value = serde_json::from_str(include_str!("linux/six.json")).unwrap();
    let mut answered = 0;
    for (which, make) in [("host", host as fn() -> Node), ("router", router)] {
        for row in golden[which].as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            let replies: Vec<_> =
                row["replies"].as_array().unwrap().iter().map(|reply| normalised(&hex(reply.as_str().unwrap()))).collect();
            let ours = weft_answers(make(), &hex(row["sent"].as_str().unwrap()));
            match DIFFERENT.iter().find(|(of, _)| *of == name) {
                Some((_, why)) => assert_ne!(ours, replies, "{name} is no difference any more: {why}"),
                None => assert_eq!(ours, replies, "{which}: {name}"),
            }
            answered += replies.len();
        }
    }
    assert!(answered > 40, "Linux answered {answered}");
}
