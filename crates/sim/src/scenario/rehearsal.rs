//! What nodes are told, tried on nodes in memory when the scenario is loaded: what can be known to be wrong then is an error at its line.
//!
//! A node in memory has the same graph, but no interfaces and no traffic. So what depends on a block's state (whether it can be taken over, what a procedure
//! says to its arguments) shows when the scenario runs.

use super::source::Source;
use crate::plan::{Action, NodeKind, Plan};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_core::{ControlError, Instant, Message, Op, Selector};
use weft_node::{Node, StackError};

/// The nodes that were told something, as they are after that.
#[derive(Default)]
pub(super) struct Rehearsal {
    nodes: BTreeMap<usize, Node>,
}

impl Rehearsal {
    /// Does what an event does, as far as graphs are concerned. `lines` are where it says what the node is told.
    pub fn act(
        &mut self,
        source: &Source<'_>,
        plan: &Plan,
        at: Instant,
        action: &Action,
        lines: &[Range<usize>],
    ) -> Result<(), StackError> {
        let (node, op) = match action {
            Action::Control { node, op } => (*node, op),
            Action::Crash { node } | Action::Restart { node, .. } => {
                self.nodes.remove(node);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let first = lines.first().cloned().unwrap_or_default();
        let of = plan.nodes.get(node);
        let name = of.map_or("?", |node| node.name.as_str());
        if matches!(of.map(|node| &node.kind), Some(NodeKind::Guest(_))) {
            let help = "let a program do it: command = [\"sysctl\", \"-w\", …], or ip, tc, nft";
            return Err(source.error(first, format!("'{name}' is a Linux kernel: weft's words are not its"), help));
        }
        let Some(NodeKind::Host(stack)) = of.map(|node| &node.kind) else {
            return Err(source.error(first, format!("'{name}' has no stack: it is a switch"), "tell a host"));
        };
        let told = match self.nodes.entry(node) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(Node::new(stack, 0)?),
        };
        let ops = if let Op::All(ops) = op { &ops[..] } else { std::slice::from_ref(op) };
        let tried = match ops {
            [Op::Exec { target: Selector::Name(block), procedure, .. }] => {
                known(told, block, procedure).map_err(|error| (usize::from(matches!(error, ControlError::NoProcedure { .. })), error))
            }
            [op] if !op.is_change() => Ok(()),
            ops => told.prepare(ops),
        };
        if let Err((which, error)) = tried {
            let span = lines.get(which).unwrap_or(&first);
            return Err(source.error(span.clone(), format!("node '{name}': {error}"), help(&error)));
        }
        if op.is_change() {
            let done = told.control(at, &Message { serial: 0, op: op.clone() });
            done.result.map_err(|error| source.error(first, format!("node '{name}': {error}"), help(&error)))?;
        }
        Ok(())
    }
}

/// Has the node a block with this procedure?
fn known(node: &Node, block: &str, procedure: &str) -> Result<(), ControlError> {
    let graph = node.engine().graph();
    let Some(kind) = graph.find(block).and_then(|id| graph.kind(id)) else {
        let known = graph.ids().map(|id| graph.name(id)).collect::<Vec<_>>().join(", ");
        return Err(ControlError::NoBlock { name: block.to_owned(), known });
    };
    match kind.procedures.iter().any(|row| row.name == procedure) {
        true => Ok(()),
        false => Err(kind.no_procedure(block, procedure)),
    }
}

fn help(error: &ControlError) -> &'static str {
    match error {
        ControlError::NotLoaded { .. } => {
            "a name that does not begin with / is looked for beside the scenario; `weft new block NAME` begins a block and says how it is built"
        }
        ControlError::NoKind { .. } => "`weft help blocks` lists the kinds",
        ControlError::NoParameter { .. } | ControlError::BadValue { .. } | ControlError::NoProcedure { .. } => {
            "`weft help block KIND` lists parameters and procedures"
        }
        ControlError::NoPort { .. } | ControlError::TypeMismatch { .. } | ControlError::AmbiguousPort { .. } => {
            "`weft help block KIND` lists the ports and what they carry"
        }
        _ => "commands of an event see what those before them and earlier events have made of the node's graph",
    }
}
