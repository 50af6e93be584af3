//! The default graph of a node with nothing but its loopback, for the model's side of the twins.

// The file and not the crate: `node` depends on this one.
#[path = "../../../node/src/default_graph.rs"]
mod default_graph;

use super::model::Model;
use default_graph::{BLOCKS, EDGES};
use std::any::Any;
use weft_core::{Answer, Block, BlockRow, BlockTable, End, Instant, Kind, Mode, MultipathNode, Op, Query, Table};

/// Says that the node has Multipath TCP, so that sockets may ask for it. Their connections are plain.
struct Multipath;
static MULTIPATH: Kind = Kind { name: "multipath", owns: &[Table::Multipath], ..Kind::EMPTY };

impl Block for Multipath {
    fn kind(&self) -> &'static Kind {
        &MULTIPATH
    }
    fn query(&self, query: &Query, _: Instant) -> Answer {
        match query {
            Query::Multipath => Answer::Multipath(Box::new(MultipathNode { enabled: true, ..MultipathNode::default() })),
            _ => Answer::None,
        }
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

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
    rows.push(BlockRow { kind: &MULTIPATH, make: |_| Ok(Box::new(Multipath)) });
    let add = |(name, kind): &(&str, &str)| Op::Add { name: (*name).to_owned(), kind: (*kind).to_owned(), parameters: Default::default() };
    let bind = |(from, to): &(&str, &str)| Op::Bind { from: End::parse(from), to: End::parse(to) };
    let ops: Vec<Op> = BLOCKS.iter().chain(&[("multipath", "multipath")]).map(add).chain(EDGES.iter().map(bind)).collect();
    Model::with(mode, BlockTable::new(rows), &ops)
}
