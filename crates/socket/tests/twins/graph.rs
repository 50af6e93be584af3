//! The default graph of a node with nothing but its loopback, for the model's side of the twins.

use super::model::Model;
use weft_core::{BlockTable, End, Mode, Op};

const BLOCKS: &[&str] = &["interfaces", "ether", "loopback", "arp", "ip4", "icmp4", "udp", "tcp", "sockets", "igmp", "six"];

/// The edges of docs/architecture.md.
const EDGES: &[&str] = &[
    "interfaces:upper ether:lower",
    "ether:lower interfaces:upper",
    "ether:ip4 ip4:lower",
    "ether:arp arp:lower",
    "arp:lower ether:upper",
    "ip4:lower arp:upper",
    "ip4:loopback loopback:in",
    "loopback:out ip4:lower",
    "ip4:tcp tcp:lower",
    "ip4:udp udp:lower",
    "ip4:icmp icmp4:lower",
    "tcp:ip4 ip4:upper",
    "udp:ip4 ip4:upper",
    "icmp4:lower ip4:upper",
    "ip4:error icmp4:error",
    "arp:failed icmp4:error",
    "sockets:unreachable icmp4:error",
    "icmp4:tcp tcp:error",
    "icmp4:udp udp:error",
    "udp:upper sockets:udp",
    "udp:error sockets:error",
    "sockets:udp udp:upper",
    "tcp:upper sockets:tcp",
    "sockets:tcp tcp:upper",
    "tcp:ip6 six:upper",
    "udp:ip6 six:upper",
    "six:tcp tcp:lower",
    "six:udp udp:lower",
    "sockets:unreachable6 six:unreachable",
    "six:error sockets:error",
    "icmp4:sockets sockets:icmp",
    "icmp4:other sockets:error",
    "ip4:igmp igmp:lower",
    "igmp:lower arp:upper",
    "ip4:raw sockets:raw",
    "sockets:ip4 ip4:upper",
    "sockets:packet ip4:packet",
];

/// The sockets on the real blocks, in either mode of engine.
pub fn model(mode: Mode) -> Model {
    let mut rows = weft_blocks::table::rows();
    rows.push(weft_tcp::ROW);
    rows.push(weft_socket::ROW);
    rows.push(super::six::ROW);
    let add = |name: &&str| Op::Add { name: (*name).to_owned(), kind: (*name).to_owned(), parameters: Default::default() };
    let bind = |edge: &&str| {
        let (from, to) = edge.split_once(' ').expect("two ends");
        Op::Bind { from: End::parse(from), to: End::parse(to) }
    };
    let ops: Vec<Op> = BLOCKS.iter().map(add).chain(EDGES.iter().map(bind)).collect();
    Model::with(mode, BlockTable::new(rows), &ops)
}
