//! Calls that wait: held until their socket changes, their time is up, or a signal or the thread's end cancels them.
//!
//! A call that waits in Linux holds its file: a descriptor that another thread closes meanwhile goes on existing until the call returns (a
//! listener goes on listening for a blocked accept). So a held call keeps the program's end of its stand-in, borrowed, for as long.
//! Nobody reports that a held call was cancelled; so while there are any, they are looked at every [`crate::standin::liveness::PERIOD`].

use crate::call::Call;
use crate::caretaker::ledger::{Ledger, Noted};
use crate::listener::{Listener, Notification, Place};
use crate::sys::Errno;
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
    pub end: Option<OwnedFd>,
    /// What it fails with if weft ends.
    pub at_end: Errno,
    /// Its place in the ledger.
    _noted: Option<Noted>,
}

/// All of them, by number and by time.
#[derive(Debug, Default)]
pub(crate) struct HeldCalls {
    calls: BTreeMap<u64, Held>,
    deadlines: BTreeSet<(Instant, u64)>,
    next: u64,
    /// For weft's caretaker.
    pub ledger: Option<Arc<Ledger>>,
}

impl HeldCalls {
    pub fn len(&self) -> usize {
        self.calls.len()
    }
    pub fn get(&self, id: u64) -> Option<&Held> {
        self.calls.get(&id)
    }
    pub fn ids(&self) -> Vec<u64> {
        self.calls.keys().copied().collect()
    }
    /// Notes for the caretaker a call that came from this listener and has no answer yet.
    pub fn note(&self, call: &Call, at_end: Errno, from: Option<&Listener>) -> Option<Noted> {
        Some(self.ledger.as_ref()?.note(from?.as_fd().as_raw_fd(), call.id, at_end))
    }
    /// [`Listener::receive`], known to the caretaker.
    pub fn receive(&self, listener: &Listener) -> Result<Option<Notification>, Errno> {
        match &self.ledger {
            Some(ledger) => ledger.receive(listener),
            None => listener.receive(&Place::default()),
        }
    }
    /// Holds a call that came from this listener.
    pub fn add(
        &mut self,
        call: Call,
        stand_in: usize,
        limit: Option<Duration>,
        end: Option<OwnedFd>,
        at_end: Errno,
        from: Option<&Listener>,
    ) -> u64 {
        let noted = self.note(&call, at_end, from);
        let deadline = limit.map(|limit| Instant::now() + limit);
        let id = self.next;
        self.next += 1;
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, id));
        }
        self.calls.insert(id, Held { call, stand_in, deadline, end, at_end, _noted: noted });
        id
    }
    pub fn remove(&mut self, id: u64) -> Option<Held> {
        let held = self.calls.remove(&id)?;
        if let Some(deadline) = held.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(held)
    }
    /// Takes all of them.
    pub fn take_all(&mut self) -> Vec<Held> {
        self.ids().into_iter().filter_map(|id| self.remove(id)).collect()
    }
    pub fn of_tree(&self, tree: usize) -> Vec<u64> {
        self.calls.iter().filter(|(_, held)| held.call.tree == tree).map(|(id, _)| *id).collect()
    }
    pub fn calls_of_tree(&self, tree: usize) -> impl Iterator<Item = &Call> {
        self.calls.values().map(|held| &held.call).filter(move |call| call.tree == tree)
    }
    /// Takes those whose time is up, marked so.
    pub fn take_due(&mut self, now: Instant) -> Vec<u64> {
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
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}
