//! The machines of a world, in their places: by thread, group and number in the group.

use crate::arrange::lane_of;
use crate::cell::{Cell, Machine, Place};
use crate::group::Lane;
use weft_core::Instant;

/// All machines.
pub(super) struct Cells {
    pub lanes: Vec<Lane>,
    /// Where each node of the plan is.
    places: Vec<Place>,
    /// The cluster of each group.
    clusters: Vec<u32>,
}

impl Cells {
    pub fn new(lanes: Vec<Lane>, places: Vec<Place>, clusters: Vec<u32>) -> Cells {
        Cells { lanes, places, clusters }
    }

    /// The machine of a node of the plan.
    pub fn get(&self, node: usize) -> Option<&Cell> {
        let place = self.places.get(node)?;
        let lanes = self.lanes.len() as u32;
        self.lanes.get((place.group % lanes) as usize)?.groups.get((place.group / lanes) as usize)?.cells.get(place.cell as usize)
    }

    pub fn get_mut(&mut self, node: usize) -> Option<&mut Cell> {
        let place = self.places.get(node)?;
        let lanes = self.lanes.len() as u32;
        let lane = self.lanes.get_mut((place.group % lanes) as usize)?;
        lane.groups.get_mut((place.group / lanes) as usize)?.cells.get_mut(place.cell as usize)
    }

    /// All of them, in the order of the plan.
    pub fn in_order(&self) -> impl Iterator<Item = &Cell> {
        (0..self.places.len()).filter_map(|node| self.get(node))
    }

    /// All of them, thread by thread.
    pub fn all(&self) -> impl Iterator<Item = &Cell> {
        self.lanes.iter().flat_map(|lane| &lane.groups).flat_map(|group| &group.cells)
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        self.lanes.iter_mut().flat_map(|lane| &mut lane.groups).flat_map(|group| &mut group.cells)
    }

    /// On which thread a node runs.
    pub fn lane_of(&self, node: usize) -> usize {
        lane_of(&self.places, node, self.lanes.len())
    }

    pub fn group_of(&self, node: usize) -> u32 {
        self.places[node].group
    }

    pub fn cluster_of(&self, group: u32) -> usize {
        self.clusters.get(group as usize).map_or(0, |cluster| *cluster as usize)
    }

    /// The latest present of any machine.
    pub fn latest(&self) -> Option<Instant> {
        self.all().map(|cell| cell.core.now).max()
    }

    /// A machine that cannot go on, and why: the first by name.
    pub fn broken(&self) -> Option<String> {
        let failed = self.in_order().filter_map(|cell| Some((cell.core.now, &cell.core.name, cell.core.failed.as_ref()?)));
        failed.min().map(|(at, name, why)| format!("node '{name}' at {at}: {why}"))
    }

    /// Has no node blocks that came from files, which may hold more than memory?
    pub fn are_mere_memory(&self) -> bool {
        self.all().all(|cell| match &cell.machine {
            Machine::Host(node) => node.engine().kinds().loaded().next().is_none(),
            Machine::Guest(_) => false,
            Machine::Switch(_) | Machine::Off => true,
        })
    }
}
