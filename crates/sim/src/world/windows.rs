//! How far groups may run ahead of each other: see [`crate::group`].

use super::World;
use crate::wire::Direction;
use std::time::Duration;

impl World {
    /// The least time between two groups of each cluster; none: there is no wire between any.
    pub(super) fn look_aheads(&self) -> Vec<Option<Duration>> {
        let mut least: Vec<Option<Duration>> = Vec::new();
        for (wire, ports) in self.plan.wires.iter().zip(&self.ports) {
            let ends = [wire.ends[0].0, wire.ends[1].0];
            let group = self.places[ends[0]].group;
            if group == self.places[ends[1]].group && ends[0] != ends[1] {
                continue;
            }
            let cluster = self.clusters.get(group as usize).map_or(0, |cluster| *cluster as usize);
            least.resize(least.len().max(cluster + 1), None);
            for (end, port) in ends.into_iter().zip(ports) {
                let port = self.cell(end).and_then(|cell| cell.core.ports.get(*port as usize));
                let span = port.map_or(Duration::ZERO, |port| Direction::look_ahead(port.out.plan()));
                least[cluster] = Some(least[cluster].map_or(span, |least| least.min(span)));
            }
        }
        least
    }
}
