//! What a world is at a time: the plan, the machines and wires that it has come to, and what is needed to make a machine
//! anew. Whoever changes a world gets it as an argument.

use super::cells::Cells;
use super::wires::Wires;
use crate::actor::Actor;
use crate::collected::Collection;
use crate::life::ProgramState;
use crate::plan::Plan;
use crate::process::Common;
use crate::report::ProgramId;
use crate::snapshots::Kept;
use std::sync::Arc;
use weft_core::{Instant, Rng};
use weft_process::processor::Claim;

pub(super) struct State {
    pub plan: Plan,
    pub now: Instant,
    pub cells: Cells,
    pub wires: Wires,
    /// The programs of each node.
    pub programs: Vec<Vec<ProgramId>>,
    /// What is the same for the trees of processes of all nodes.
    pub common: Arc<Common>,
    /// What nodes draw from when they boot.
    pub boots: Vec<Rng>,
    /// Which processor each thread is pinned to, where there are unmodified programs.
    pub processors: Option<Claim>,
    /// The snapshots that its nodes have written.
    pub kept: Kept,
    /// What is taken out of nodes, where results are wanted.
    pub collection: Option<Collection>,
}

impl State {
    /// Now, or the latest present of any machine.
    pub fn latest(&self) -> Instant {
        self.cells.latest().unwrap_or(self.now).max(self.now)
    }

    /// When the last program that is waited for has ended; none: one runs, or the run has a duration of its own.
    pub fn all_have_ended(&self) -> Option<Instant> {
        let mut cores = self.cells.all().map(|cell| (cell.core.left, cell.core.last_end));
        let last = cores.try_fold(Instant::ZERO, |last, (left, end)| (left == 0).then_some(last.max(end)))?;
        (!self.plan.whole && last > Instant::ZERO).then_some(last)
    }

    /// Takes out of a node what is wanted of its files.
    pub fn collect(&mut self, node: usize) {
        if let (Some(collection), Some(plan), Some(cell)) = (&mut self.collection, self.plan.nodes.get(node), self.cells.get(node)) {
            collection.take(&self.plan, plan, cell);
        }
    }

    /// What came of a program so far.
    pub fn program(&self, program: usize) -> Option<&ProgramState> {
        let node = self.plan.programs.get(program)?.node;
        self.cells.get(node)?.core.programs.get(&ProgramId(program as u32))
    }

    /// Lets the actor that has a program do something, and gives it a turn.
    pub fn with_actor(&mut self, program: usize, f: impl FnOnce(&mut dyn Actor, ProgramId)) {
        let (now, id) = (self.now, ProgramId(program as u32));
        let Some(node) = self.plan.programs.get(program).map(|program| program.node) else { return };
        let Some(slot) = self.cells.get_mut(node).and_then(|cell| cell.actors.iter_mut().find(|slot| slot.programs.contains(&id))) else {
            return;
        };
        f(&mut *slot.actor, id);
        slot.next.at = slot.next.at.min(now);
    }
}
