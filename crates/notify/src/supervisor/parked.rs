//! Calls that wait for a worker: parked, because a page of their program's memory may be missing ([`crate::remote`]).
//!
//! - A parked call holds its file, as a held one does, until it goes on or nobody waits for it any more.
//! - **A signal cancels a parked call, and the thread makes it again**: it takes up what is parked, so that one stuck page is one errand however often a
//!   timer ticks, and what was received meanwhile is not received twice. Linux does not even notice such a signal before the page is there.
//! - A process tree has at most [`TREE_MAX`] errands at a time, so that those of one leave workers for the others. What is beyond is refused with
//!   ENOBUFS, and `weft show calls` counts it.

use crate::call::{Call, Outcome};
use crate::caretaker::ledger::Noted;
use crate::sys::Errno;
use crate::workers::Job;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Most errands of one process tree at a time.
pub const TREE_MAX: usize = 64;

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
    /// For weft's caretaker: nobody else could answer it.
    pub noted: Option<Noted>,
}

/// All parked calls, by the number of their errand.
#[derive(Debug, Default)]
pub(crate) struct ParkedCalls {
    pub calls: BTreeMap<u64, Parked>,
    pub next: u64,
}

impl ParkedCalls {
    pub fn calls_of_tree(&self, tree: usize) -> impl Iterator<Item = &Call> {
        self.calls.values().map(|parked| &parked.call).filter(move |call| call.tree == tree)
    }
}
