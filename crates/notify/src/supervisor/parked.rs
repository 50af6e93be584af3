//! Calls that wait for a worker: parked, because a page of their program's memory may be missing ([`crate::remote`]).
//!
//! - A parked call holds its file, as a held one does, until it goes on or nobody waits for it any more.
//! - **A signal cancels a parked call, and the thread makes it again**: it takes up what is parked, so that one stuck page is one errand however often a
//!   timer ticks, and what was received meanwhile is not received twice. Linux does not even notice such a signal before the page is there.
//! - A process tree has at most [`TREE_MAX`] errands at a time, so that those of one leave workers for the others. Up to [`WAITING_MAX`] calls more wait
//!   for one of them to come back. What is beyond, and what waits while none has come back for [`STUCK`], is refused with ENOBUFS, and `weft show calls`
//!   counts it.

use crate::call::{Call, Outcome};
use crate::caretaker::ledger::Noted;
use crate::sys::Errno;
use crate::workers::Job;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Most errands of one process tree at a time.
pub const TREE_MAX: usize = 64;
/// Most calls of one process tree that wait for one of its errands to come back.
pub const WAITING_MAX: usize = 4096;
/// A tree none of whose errands has come back for so long is stuck. Whoever brings the pages may be starved for a second by other programs.
pub const STUCK: Duration = Duration::from_secs(10);

/// What a parked call has come to.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It goes on when the worker is back: from its beginning where this is [`weft_intercept::memory::LATER`], else with this.
    Answer(Result<Outcome, Errno>),
    /// Its answer was missed; the memory that tells it from another call is being read.
    Missed(Result<i64, Errno>),
}

/// A call that waits for a worker.
#[derive(Debug)]
pub(crate) struct Parked {
    pub call: Call,
    pub stage: Stage,
    /// The file that it was made on.
    pub end: Option<OwnedFd>,
    /// A signal came before the worker: to be written when the thread makes the call again.
    pub unwritten: Option<Job>,
    /// It has no worker yet, as its tree has as many as it may: what for, and since when.
    pub waits: Option<(Job, Instant)>,
    /// For weft's caretaker: nobody else could answer it.
    pub noted: Option<Noted>,
}

/// What becomes of one more call of a tree that has so many with workers and so many that wait for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Worker,
    Waits,
    None,
}

impl Place {
    pub fn beside(out: usize, waiting: usize) -> Place {
        match (out, waiting) {
            (..TREE_MAX, 0) => Place::Worker,
            (_, ..WAITING_MAX) => Place::Waits,
            _ => Place::None,
        }
    }
}

/// All parked calls, by the number of their errand.
#[derive(Debug, Default)]
pub(crate) struct ParkedCalls {
    pub calls: BTreeMap<u64, Parked>,
    pub next: u64,
    /// When the last errand of a tree came back.
    pub came_back: BTreeMap<usize, Instant>,
}

impl ParkedCalls {
    /// How many calls of a tree have a worker, and how many wait for one.
    pub fn count(&self, tree: usize) -> (usize, usize) {
        let of_tree = self.calls.values().filter(|parked| parked.call.tree == tree);
        of_tree.fold((0, 0), |(out, waiting), parked| if parked.waits.is_some() { (out, waiting + 1) } else { (out + 1, waiting) })
    }

    /// The calls of a tree that wait for a worker, the oldest first.
    pub fn waiting(&self, tree: usize) -> impl Iterator<Item = u64> {
        self.calls.iter().filter(move |(_, parked)| parked.call.tree == tree && parked.waits.is_some()).map(|(number, _)| *number)
    }

    /// The trees of calls that wait.
    pub fn trees_that_wait(&self) -> BTreeSet<usize> {
        self.calls.values().filter(|parked| parked.waits.is_some()).map(|parked| parked.call.tree).collect()
    }

    /// Those that wait while none of their tree's errands comes back.
    pub fn stuck(&self, now: Instant) -> Vec<u64> {
        let long_ago = |at: Instant| now.saturating_duration_since(at) >= STUCK;
        let is_stuck = |parked: &Parked| {
            let since = parked.waits.as_ref().map(|(_, since)| *since);
            since.is_some_and(long_ago) && self.came_back.get(&parked.call.tree).copied().is_none_or(long_ago)
        };
        self.calls.iter().filter(|(_, parked)| is_stuck(parked)).map(|(number, _)| *number).collect()
    }

    pub fn calls_of_tree(&self, tree: usize) -> impl Iterator<Item = &Call> {
        self.calls.values().map(|parked| &parked.call).filter(move |call| call.tree == tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_workers_and_its_queue_and_no_more() {
        let places = [(0, 0), (TREE_MAX - 1, 0), (TREE_MAX, 0), (0, 1), (TREE_MAX, WAITING_MAX - 1), (TREE_MAX, WAITING_MAX)];
        let found = places.map(|(out, waiting)| Place::beside(out, waiting));
        // Who has waited goes first, though a worker is free.
        assert_eq!(found, [Place::Worker, Place::Worker, Place::Waits, Place::Waits, Place::Waits, Place::None]);
    }
}
