//! A node that drops what comes in, through ether → forward → forward → drop; for benchmarks.

use weft_core::control::Show;
use weft_core::table::{Interface, LinkType};
use weft_core::{Instant, InterfaceIndex, Message, Op};
use weft_node::{Node, Stack};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

const GRAPH: &str = r#"
[node]
graph = "empty"
engine = "ENGINE"
[block.interfaces]
[block.ether]
[block.one]
kind = "forward"
[block.two]
kind = "forward"
[block.drop]
[graph]
edges = ["interfaces:upper -> ether:lower", "ether:lower -> interfaces:upper", "ether:ip6 -> ether:upper", "ether:ip4 -> one:in", "one:out -> two:in", "two:out -> drop:in"]
"#;

/// The stack file.
pub fn stack(engine: &str) -> Stack {
    Stack::parse("drop", &GRAPH.replace("ENGINE", engine)).expect("the stack is sound")
}

/// Gives a node its interface.
pub fn node(mut node: Node) -> (Node, InterfaceIndex) {
    let interface = Interface {
        index: InterfaceIndex::NONE,
        name: "in".to_owned(),
        mac: MAC,
        mtu: 1500,
        up: true,
        carrier: true,
        link: LinkType::Ethernet,
        group: 0,
        gso_max_bytes: 0,
        checksum_offload: false,
        backend: "memory:in".to_owned(),
    };
    let index = node.add_interface(Instant::ZERO, &interface).expect("the interface is added");
    (node, index)
}

/// A frame for it.
pub fn bytes() -> [u8; 60] {
    let mut bytes = [0u8; 60];
    bytes[..6].copy_from_slice(&MAC);
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    bytes
}

/// How many frames have come to the drop block and ended there.
pub fn dropped(node: &mut Node) -> u64 {
    let rows = node.control(Instant::ZERO, &Message { serial: 1, op: Op::Show(Show::Drops) }).result.expect("drops can be shown");
    rows.as_array()
        .into_iter()
        .flatten()
        .filter(|row| row["block"] == "drop" && row["reason"] == "discarded")
        .filter_map(|row| row["frames"].as_u64())
        .sum()
}
