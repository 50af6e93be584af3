//! Calls that wait: held until their socket changes, their time is up, or a signal or the thread's end cancels them.
//!
//! A call that waits in Linux holds its file: a descriptor that another thread closes meanwhile goes on existing until the call returns (a
//! listener goes on listening for a blocked accept). So a held call keeps the program's end of its stand-in, borrowed, for as long.
//! Nobody reports that a held call was cancelled; so while there are any, they are looked at every [`liveness::PERIOD`].

use super::{Supervisor, Turn};
use crate::call::{Call, Outcome};
use crate::caretaker::ledger::{Ledger, Slots};
use crate::standin::stream::Phase;
use crate::standin::{Body, liveness};
use crate::sys::{self, Errno};
use crate::workers::Job;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub call: Call,
    pub stand_in: usize,
    deadline: Option<Instant>,
    /// The file that the call was made on; none where it could not be borrowed.
    end: Option<OwnedFd>,
    /// What it fails with if weft ends.
    pub at_end: Errno,
    /// Its place in the ledger.
    slot: u32,
}

/// All of them, by number and by time.
#[derive(Debug, Default)]
pub(crate) struct HeldCalls {
    calls: BTreeMap<u64, Held>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    /// For weft's caretaker.
    pub ledger: Option<Arc<Ledger>>,
    slots: Slots,
}

impl HeldCalls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }
    fn add(&mut self, held: Held) -> u64 {
        let id = self.next;
        self.next += 1;
        if let Some(deadline) = held.deadline {
            self.deadlines.insert((deadline, id));
        }
        self.calls.insert(id, held);
        id
    }
    pub fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.calls.remove(&id)?;
        if let Some(deadline) = held.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(ledger) = &self.ledger {
            ledger.let_go(held.slot);
        }
        self.slots.give_back(held.slot);
        Some(held)
    }
    /// Takes all of them.
    pub fn take_all(&mut self) -> Vec<Held> {
        let ids: Vec<u64> = self.calls.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
    pub fn of_tree(&self, tree: usize) -> Vec<u64> {
        self.calls.iter().filter(|(_, held)| held.call.tree == tree).map(|(id, _)| *id).collect()
    }
    pub fn calls_of_tree(&self, tree: usize) -> impl Iterator<Item = &Call> {
        self.calls.values().map(|held| &held.call).filter(move |call| call.tree == tree)
    }
    /// Takes those whose time is up, marked so.
    fn take_due(&mut self, now: Instant) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if let Some(held) = self.calls.get_mut(&id) {
                held.call.expired = true;
                held.deadline = None;
            }
            due.push(id);
        }
        due
    }
    /// When the next one's time is up.
    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// What a parked call has come to.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It goes on when the worker is back: from its beginning where this is [`crate::remote::LATER`], else with this.
    Answer(Result<Outcome, Errno>),
    /// Its answer was missed; the memory that tells it from another call is being read.
    Missed(Result<i64, Errno>),
}

/// A call that waits for a worker, see `parked.rs`.
#[derive(Debug)]
pub(crate) struct Parked {
    pub call: Call,
    pub stage: Stage,
    /// The file that it was made on.
    pub end: Option<OwnedFd>,
    /// A signal came before the worker: to be written when the thread makes the call again.
    pub unwritten: Option<Job>,
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

impl Supervisor {
    pub(super) fn hold(&mut self, mut call: Call, stand_in: usize, limit: Option<Duration>) {
        call.held = Some(stand_in);
        call.remote.forget_looks();
        let end = self.borrow(stand_in).ok();
        let is_connected = |body: &Body| matches!(body, Body::Stream(stream) if matches!(stream.phase, Phase::Connected));
        let connected = self.stand_ins.get(stand_in).is_some_and(|one| is_connected(&one.body));
        let at_end = Errno(if connected { libc::ECONNRESET } else { libc::ENETDOWN });
        let slot = self.held.slots.take();
        if let (Some(ledger), Some(listener)) = (&self.held.ledger, self.trees.get(call.tree)) {
            ledger.hold(slot, listener.as_fd().as_raw_fd(), call.id, at_end);
        }
        let deadline = limit.map(|limit| Instant::now() + limit);
        let id = self.held.add(Held { call, stand_in, deadline, end, at_end, slot });
        if let Some(one) = self.stand_ins.get_mut(stand_in) {
            one.held.push(id);
        }
        self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
    }

    pub(super) fn forget_held(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(id)?;
        if let Some(one) = self.stand_ins.get_mut(held.stand_in) {
            one.held.retain(|other| *other != id);
        }
        Some(held)
    }

    /// The program's end of a stand-in, as a call that waits there holds it.
    pub(super) fn end_of_held(&self, key: usize) -> Option<OwnedFd> {
        let held = self.stand_ins.get(key)?.held.iter().find_map(|id| self.held.calls.get(id)?.end.as_ref())?;
        held.try_clone().ok()
    }

    /// Tries the calls that wait at a stand-in again, oldest first.
    pub(crate) fn retry(&mut self, key: usize, turn: &mut Turn<'_>) {
        let Some(one) = self.stand_ins.get(key) else { return };
        if one.held.is_empty() {
            return;
        }
        for id in one.held.clone() {
            self.retry_one(id, turn);
        }
    }

    fn retry_one(&mut self, id: u64, turn: &mut Turn<'_>) {
        if self.forget_if_cancelled(id) {
            return;
        }
        let Some(held) = self.held.calls.get(&id) else { return };
        let call = held.call.clone();
        let outcome = (call.row.answer)(self, turn, &call);
        if !matches!(outcome, Ok(Outcome::Hold { .. })) {
            self.forget_held(id);
            self.finish(call, outcome, turn);
        }
    }

    /// A signal, or the thread's end, has cancelled the call.
    fn forget_if_cancelled(&mut self, id: u64) -> bool {
        let Some(held) = self.held.calls.get(&id) else { return true };
        if self.still_waits(&held.call) {
            return false;
        }
        if let Some(held) = self.forget_held(id) {
            self.calls.of(held.call.row.name).cancelled += 1;
        }
        true
    }

    /// Does the thread still wait for the answer of this very call?
    pub(super) fn still_waits(&self, call: &Call) -> bool {
        self.trees.get(call.tree).is_some_and(|listener| listener.is_valid(call.id))
    }

    /// Lets go of the files of calls that were cancelled. True: calls are still held.
    pub(super) fn forget_cancelled(&mut self) -> bool {
        let ids: Vec<u64> = self.held.calls.keys().copied().collect();
        for id in ids {
            self.forget_if_cancelled(id);
        }
        self.held.len() > 0
    }

    /// Refuses those that wait at a stand-in that is gone.
    pub(super) fn refuse_held(&mut self, ids: &[u64]) {
        for id in ids {
            if let Some(held) = self.held.remove(*id)
                && let Some(listener) = self.trees.get(held.call.tree)
            {
                let _ = listener.refuse(held.call.id, Errno(libc::EBADF));
            }
        }
    }

    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let now = Instant::now();
        for id in self.held.take_due(now) {
            self.retry_one(id, turn);
        }
        if self.errors_at.is_some_and(|at| at <= now) {
            self.look_at_errors(turn);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_for_closed(turn);
        }
    }

    /// Sets the timer to the next thing that time brings.
    pub(crate) fn arm(&mut self) {
        let next = self.held.next_deadline().into_iter().chain(self.look_at).chain(self.errors_at).min();
        if next != self.timer_at {
            self.timer_at = next;
            let _ = sys::set_timer(self.timer.as_fd(), next.map(|at| at.saturating_duration_since(Instant::now())));
        }
    }
}
