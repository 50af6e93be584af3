//! The kernel is the oracle: what Linux answered to the frames of `linux/make.py`, weft answers too, byte for byte but for the
//! identification of IPv4 packets and the header checksum over it.

use crate::common;
use common::*;
use weft_core::Value;

/// Where weft deliberately does not do as Linux does, and why.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "udp to a closed port from broadcast",
        "RFC 1122 §3.2.2: no error about a packet whose source does not define a single host; Linux sends one",
    ),
    (
        "echo from the network's broadcast",
        "RFC 1122 §3.2.1.3: a broadcast address MUST NOT be a source; Linux refuses it only with rp_filter",
    ),
];

/// The frame without what may differ.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if frame[12..14] == [8, 0] {
        parse_ip(&frame);
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

fn weft_answers(sent: &[u8]) -> Vec<Vec<u8>> {
    let mut node = Node::with_peer();
    node.set("sockets", "listening", false.into());
    node.receive(sent).iter().map(|frame| normalised(frame)).collect()
}

#[test]
fn weft_answers_as_linux_does() {
    let golden: Value = serde_json::from_str(include_str!("linux/replies.json")).unwrap();
    let rows = golden["frames"].as_array().unwrap();
    assert!(rows.len() > 60);
    let mut answered = 0;
    for row in rows {
        let name = row["name"].as_str().unwrap();
        let replies: Vec<_> = row["replies"].as_array().unwrap().iter().map(|reply| normalised(&hex(reply.as_str().unwrap()))).collect();
        let ours = weft_answers(&hex(row["sent"].as_str().unwrap()));
        match DIFFERENT.iter().find(|(of, _)| *of == name) {
            Some((_, why)) => assert_ne!(ours, replies, "{name} is no difference any more: {why}"),
            None => assert_eq!(ours, replies, "{name}"),
        }
        answered += replies.len();
    }
    assert!(answered > 20, "Linux answered {answered}");
}
