//! Ways that take the least time: `routes = "delay"`.
//!
//! Only propagation counts, as the wires have it when the world begins. Of ways that take as long that with fewer wires wins, then that over the nodes
//! that come first in the order of names. A network that a node is on itself is reached there, however long its wire is.

use super::draft::{NodeDraft, WireDraft};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A node and the place of one of its interfaces.
pub(super) type End = (usize, usize);
/// What of two ways is less: the time, wires, and where the other end stands in the order of names.
type Cost = (Duration, u32, usize);

/// Which node is how far from which others.
pub(super) struct Map {
    /// The other ends of the wires of each node, with the place of the interface there, the place of the own one, and how long it takes.
    wires: Vec<Vec<(End, usize, Duration)>>,
    /// Where each node stands in the order of names.
    order: Vec<usize>,
}

impl Map {
    pub fn new(nodes: &[NodeDraft], wires: &[WireDraft]) -> Map {
        let mut all = vec![Vec::new(); nodes.len()];
        let place = |(node, name): &(usize, String)| nodes[*node].interfaces.iter().position(|known| known.name == *name);
        for wire in wires {
            let [left, right] = &wire.plan.ends;
            let (Some(a), Some(b)) = (place(left), place(right)) else { continue };
            all[left.0].push(((right.0, b), a, wire.plan.directions[0].delay));
            all[right.0].push(((left.0, a), b, wire.plan.directions[1].delay));
        }
        let mut names: Vec<usize> = (0..nodes.len()).collect();
        names.sort_by(|a, b| nodes[*a].name.cmp(&nodes[*b].name));
        let mut order = vec![0; nodes.len()];
        names.iter().enumerate().for_each(|(place, node)| order[*node] = place);
        Map { wires: all, order }
    }

    /// The first router on the way to each node that a way leads to which begins at one of these interfaces of `start`, and what the way costs. None for
    /// the router: nobody is in between but switches.
    pub fn ways(&self, start: usize, first: &[usize], nodes: &[NodeDraft]) -> BTreeMap<usize, (Cost, End)> {
        let mut found: BTreeMap<usize, (Cost, End)> = BTreeMap::new();
        let mut done: BTreeSet<usize> = BTreeSet::from([start]);
        let mut next: BTreeSet<(Cost, usize)> = BTreeSet::new();
        let mut from = Some((start, (Duration::ZERO, 0, 0), None));
        while let Some((node, (time, wires, _), router)) = from.take() {
            for (end, own, delay) in &self.wires[node] {
                if done.contains(&end.0) || node == start && !first.contains(own) {
                    continue;
                }
                let cost = (time + *delay, wires + 1, self.order[end.0]);
                // Behind switches the first router is the one that they lead to.
                let via = router.unwrap_or(*end);
                if found.get(&end.0).is_none_or(|(known, _)| cost < *known) {
                    if let Some((old, _)) = found.insert(end.0, (cost, via)) {
                        next.remove(&(old, end.0));
                    }
                    next.insert((cost, end.0));
                }
            }
            while let Some((cost, node)) = next.pop_first() {
                done.insert(node);
                let Some((_, via)) = found.get(&node).copied() else { continue };
                if nodes[node].is_switch() {
                    // Who is behind it is the first router, unless there was one before.
                    from = Some((node, cost, Some(via).filter(|(router, _)| !nodes[*router].is_switch())));
                    break;
                }
                if nodes[node].forwards() {
                    from = Some((node, cost, Some(via)));
                    break;
                }
            }
        }
        found
    }
}
