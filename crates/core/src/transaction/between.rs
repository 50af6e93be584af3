//! Blocks between two that speak by stream messages: they stand in both edges.

use super::{Output, Planner};
use crate::block::{BlockId, Carries, InPort, Kind};
use crate::control::{ControlError, End};
use crate::graph::Edge;

impl Planner<'_> {
    /// What an output carries.
    pub(super) fn carries(&self, (block, out): Output) -> Option<Carries> {
        self.plan.shape.blocks.get(&block).and_then(|(_, kind)| kind.outputs.get(usize::from(out.0))).map(|port| port.carries)
    }

    /// Puts a block between two that speak by stream messages, which go both ways: into both edges. Its ports `upper` lead to the one that asks, its
    /// ports `lower` to the one whose own are called `upper`.
    pub(super) fn insert_between(&mut self, block: &End, (key, edge): (Output, Edge), kind: &'static Kind) -> Result<(), ControlError> {
        let (id, _) = self.find(&block.block)?;
        let ((a, _), (b, _)) = (key, edge);
        let back: Vec<_> =
            self.plan.shape.edges.iter().filter(|((from, _), (to, _))| *from == b && *to == a).map(|(k, e)| (*k, *e)).collect();
        let back: Vec<_> = back.into_iter().filter(|(key, _)| self.carries(*key) == Some(Carries::Stream)).collect();
        let ports = ["upper", "lower"].map(|name| Some((kind.input(name)?, kind.output(name)?)));
        let ([(back_key, back_edge)], [Some(upper), Some(lower)]) = (&back[..], ports) else {
            return Err(ControlError::AmbiguousPort {
                from: block.to_string(),
                to: block.to_string(),
                candidates: "a stream goes both ways, and wants ports `upper` and `lower`; bind its ports one by one".to_owned(),
            });
        };
        let is_down = self.input_name(edge) == Some("upper");
        let (down, up) = if is_down { ((key, edge), (*back_key, *back_edge)) } else { ((*back_key, *back_edge), (key, edge)) };
        for out in [upper.1, lower.1] {
            if let Some((taken, _)) = self.plan.shape.edges.get(&(id, out)) {
                return Err(ControlError::PortTaken { from: block.to_string(), to: self.plan.end_name(*taken, "") });
            }
        }
        let made = [(down.0, (id, upper.0)), ((id, lower.1), down.1), (up.0, (id, lower.0)), ((id, upper.1), up.1)];
        let names: Vec<String> = made.iter().map(|(key, edge)| self.edge_name(*key, *edge)).collect();
        self.plan.shape.edges.extend(made);
        self.plan.edges_changed = true;
        self.plan.summary.push(format!("insert {block}: {}", names.join(", ")));
        Ok(())
    }

    fn input_name(&self, (block, input): Edge) -> Option<&'static str> {
        self.plan.shape.blocks.get(&block).and_then(|(_, kind)| kind.inputs.get(usize::from(input.0))).map(|port| port.name)
    }

    /// Takes a block out from between two that speak by stream messages.
    pub(super) fn extract_between(&mut self, id: BlockId, name: &str, kind: &'static Kind) -> Option<()> {
        if self.slots.block(id).is_some_and(|block| block.lingers()) {
            // It takes nothing new, and orders this itself as soon as nothing needs it.
            self.plan.retired.push(id);
            self.plan.summary.push(format!("extract {name}: when what goes through it has ended; nothing new does"));
            return Some(());
        }
        let edges = &self.plan.shape.edges;
        let ports = ["upper", "lower"].map(|name| Some((kind.input(name)?, kind.output(name)?)));
        let [Some(upper), Some(lower)] = ports else { return None };
        let into = |port: InPort| edges.iter().filter(move |(_, edge)| **edge == (id, port)).map(|(key, _)| *key).collect::<Vec<Output>>();
        let ([above], [below]) = (&into(upper.0)[..], &into(lower.0)[..]) else { return None };
        let (to_above, to_below) = (*edges.get(&(id, upper.1))?, *edges.get(&(id, lower.1))?);
        let made = [(*above, to_below), (*below, to_above)];
        let names: Vec<String> = made.iter().map(|(key, edge)| self.edge_name(*key, *edge)).collect();
        self.plan.shape.edges.remove(&(id, upper.1));
        self.plan.shape.edges.remove(&(id, lower.1));
        self.plan.shape.edges.extend(made);
        self.plan.edges_changed = true;
        self.plan.summary.push(format!("extract {name}: {}", names.join(", ")));
        Some(())
    }
}
