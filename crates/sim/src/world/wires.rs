//! Wires between machines: where they end, what is done to them from outside, and how far they let the machines run ahead
//! of each other.

use super::cells::Cells;
use crate::cell::{Cell, Place, Port};
use crate::error::{WorldError, unsound};
use crate::plan::{DirectionPlan, Plan};
use crate::wire::{Direction, WireCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_core::{Instant, InterfaceIndex, Rng};

/// Node and port at both ends of each wire.
pub(super) struct Wires(Vec<[(usize, u32); 2]>);

impl Wires {
    /// Puts the wires between the ports.
    pub fn lay(
        plan: &Plan,
        places: &[Place],
        cells: &mut [Option<Cell>],
        interfaces: &[BTreeMap<String, InterfaceIndex>],
    ) -> Result<Wires, WorldError> {
        let mut taken: BTreeSet<(usize, &str)> = BTreeSet::new();
        let mut counts = vec![0u32; plan.nodes.len()];
        let mut ends = Vec::new();
        for wire in &plan.wires {
            let mut both = [(0, 0); 2];
            for (side, (node, interface)) in wire.ends.iter().enumerate() {
                let name = &plan.nodes[*node].name;
                if !interfaces[*node].contains_key(interface) {
                    let known: Vec<&str> = interfaces[*node].keys().map(String::as_str).collect();
                    let what = format!("wire '{}' ends at interface '{interface}', which node '{name}' does not have", wire.name);
                    return unsound(what, &format!("the node has: {}", known.join(", ")));
                }
                if !taken.insert((*node, interface)) {
                    let what = format!("two wires end at interface '{interface}' of node '{name}'");
                    return unsound(what, "put a switch between, or give the node another interface");
                }
                both[side] = (*node, counts[*node]);
                counts[*node] += 1;
            }
            ends.push(both);
        }
        for (number, (wire, both)) in plan.wires.iter().zip(&ends).enumerate() {
            for (this, other) in [(0, 1), (1, 0)] {
                let (node, interface) = &wire.ends[this];
                let rng = Rng::for_name(plan.seed, &format!("wire/{}/{this}", wire.name));
                let out = Direction::new(wire.directions[this].clone(), rng);
                let index = interfaces[*node][interface];
                let (to, to_port) = both[other];
                let port = Port::new(index, interface.clone(), (number as u32, wire.directions[other].carrier), out, (places[to], to_port));
                if let Some(Some(cell)) = cells.get_mut(*node) {
                    cell.core.ports.push(port);
                }
            }
        }
        Ok(Wires(ends))
    }

    /// Node and port at both ends of a wire.
    pub fn ends(&self, wire: usize) -> Option<[(usize, u32); 2]> {
        self.0.get(wire).copied()
    }

    /// A wire's directions become others.
    pub fn change(&self, cells: &mut Cells, now: Instant, wire: usize, directions: &[Option<Box<DirectionPlan>>; 2]) {
        let Some(ends) = self.ends(wire) else { return };
        for ((node, port), plan) in ends.into_iter().zip(directions) {
            let (Some(cell), Some(plan)) = (cells.get_mut(node), plan) else { continue };
            cell.core.now = cell.core.now.max(now);
            cell.core.with_wire(port as usize, |wire, dropped| wire.become_other(now, (**plan).clone(), dropped));
            cell.carry_on();
        }
        for ((node, port), plan) in ends.into_iter().rev().zip(directions) {
            let (Some(cell), Some(plan)) = (cells.get_mut(node), plan) else { continue };
            cell.core.set_noticed(port as usize, plan.carrier);
            cell.look_at_line(port as usize);
        }
    }

    /// A wire is cut, or joined again.
    pub fn set_carrier(&self, cells: &mut Cells, now: Instant, wire: usize, up: bool) {
        let Some(ends) = self.ends(wire) else { return };
        for (this, other) in [(0, 1), (1, 0)] {
            let (node, port) = ends[other];
            let lost = match cells.get_mut(node) {
                Some(cell) if !up => cell.core.lose_inbox(port as usize),
                _ => 0,
            };
            let (node, port) = ends[this];
            let Some(cell) = cells.get_mut(node) else { continue };
            cell.core.now = cell.core.now.max(now);
            cell.core.with_wire(port as usize, |wire, dropped| {
                wire.count_cut(lost);
                wire.set_up(up, dropped);
            });
            cell.carry_on();
        }
        // Both ends are cut before the first is told.
        for (node, port) in ends {
            if let Some(cell) = cells.get_mut(node) {
                cell.look_at_line(port as usize);
            }
        }
    }

    /// A machine lost its power, or has it again: who is at the other end of its wires sees it.
    pub fn set_power(&self, cells: &mut Cells, now: Instant, node: usize, on: bool) {
        for ends in self.0.iter().filter(|ends| ends.iter().any(|(end, _)| *end == node)) {
            for (other, port) in ends.iter().filter(|(end, _)| *end != node) {
                let Some(cell) = cells.get_mut(*other) else { continue };
                cell.core.now = cell.core.now.max(now);
                cell.core.set_power_there(*port as usize, on);
                cell.look_at_line(*port as usize);
            }
        }
    }

    /// Does a wire carry frames? Both of its directions are cut and joined together.
    pub fn is_up(&self, cells: &Cells, wire: usize) -> Option<bool> {
        let (node, port) = self.ends(wire)?[0];
        Some(cells.get(node)?.core.ports.get(port as usize)?.out.is_up())
    }

    /// What happened on a wire, from its first end to its second and back.
    pub fn counters(&self, cells: &Cells, wire: usize) -> Option<[WireCounters; 2]> {
        let ends = self.ends(wire)?;
        let of = |(node, port): (usize, u32)| Some(cells.get(node)?.core.ports.get(port as usize)?.out.counters());
        Some([of(ends[0])?, of(ends[1])?])
    }

    /// The least time between two groups of each cluster; none: there is no wire between any. See [`crate::group`].
    pub fn look_aheads(&self, cells: &Cells) -> Vec<Option<Duration>> {
        let mut least: Vec<Option<Duration>> = Vec::new();
        for ends in &self.0 {
            let [(a, _), (b, _)] = *ends;
            let group = cells.group_of(a);
            if group == cells.group_of(b) && a != b {
                continue;
            }
            let cluster = cells.cluster_of(group);
            least.resize(least.len().max(cluster + 1), None);
            for (node, port) in *ends {
                let port = cells.get(node).and_then(|cell| cell.core.ports.get(port as usize));
                let span = port.map_or(Duration::ZERO, |port| Direction::look_ahead(port.out.plan()));
                least[cluster] = Some(least[cluster].map_or(span, |least| least.min(span)));
            }
        }
        least
    }
}
