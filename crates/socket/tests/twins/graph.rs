//! The default graph of a node with nothing but its loopback, for the model's side of the twins.

use super::model::Model;
use weft_core::{BlockTable, End, Mode, Op};

const BLOCKS: &[&str] =
    &["interfaces", "ether", "loopback", "arp", "ip4", "icmp4", "igmp", "loopback6", "nd", "ip6", "icmp6", "mld", "udp", "tcp", "sockets"];

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
    "ether:ip6 ip6:lower",
    "nd:lower ether:upper",
    "nd:failed icmp6:error",
    "ip6:lower nd:upper",
    "ip6:loopback loopback6:in",
    "loopback6:out ip6:lower",
    "ip6:tcp tcp:lower",
    "ip6:udp udp:lower",
    "ip6:icmp icmp6:lower",
    "ip6:error icmp6:error",
    "icmp6:lower ip6:upper",
    "icmp6:nd nd:icmp",
    "icmp6:mld mld:lower",
    "mld:lower nd:upper",
    "icmp6:other sockets:error",
    "icmp6:tcp tcp:error",
    "icmp6:udp udp:error",
    "icmp6:sockets sockets:icmp",
    "sockets:unreachable6 icmp6:error",
    "tcp:ip6 ip6:upper",
    "udp:ip6 ip6:upper",
    "ip6:raw sockets:raw",
    "sockets:ip6 ip6:upper",
    "sockets:packet6 ip6:packet",
    "icmp4:sockets sockets:icmp",
    "icmp4:other sockets:error",
    "ip4:igmp igmp:lower",
    "igmp:lower arp:upper",
    "ip4:raw sockets:raw",
    "sockets:ip4 ip4:upper",
    "sockets:packet ip4:packet",
];

/// [`model`] with a second interface: `weft9`, number 2, on which nobody answers.
#[allow(dead_code)] // only one of the programs that share this file has a use for it
pub fn with_link(mode: Mode) -> Model {
    let mut model = model(mode);
    let mut exec = |block: &str, procedure: &str, arguments: serde_json::Value| {
        let target = weft_core::Selector::parse(block);
        let op = Op::Exec { target, procedure: procedure.to_owned(), arguments };
        let reply = model.engine.control(weft_core::Instant::ZERO, &weft_core::Message { serial: 1, op });
        reply.result.unwrap_or_else(|error| panic!("{block} {procedure}: {error:?}"));
    };
    exec("interfaces", "add", serde_json::json!({"name": "weft9", "index": 2}));
    exec("ip4", "address_add", serde_json::json!({"interface": "weft9", "address": "10.55.0.1/24"}));
    for address in ["fe80::5/64", "2001:db8:5::1/64"] {
        exec("ip6", "address_add", serde_json::json!({"interface": "weft9", "address": address, "dad": false}));
    }
    model
}

/// The sockets on the real blocks, in either mode of engine.
pub fn model(mode: Mode) -> Model {
    let mut rows = weft_blocks::table::rows();
    rows.push(weft_tcp::ROW);
    rows.push(weft_socket::ROW);
    let add = |name: &&str| {
        let kind = if *name == "loopback6" { "loopback" } else { name };
        Op::Add { name: (*name).to_owned(), kind: kind.to_owned(), parameters: Default::default() }
    };
    let bind = |edge: &&str| {
        let (from, to) = edge.split_once(' ').expect("two ends");
        Op::Bind { from: End::parse(from), to: End::parse(to) }
    };
    let ops: Vec<Op> = BLOCKS.iter().map(add).chain(EDGES.iter().map(bind)).collect();
    Model::with(mode, BlockTable::new(rows), &ops)
}
