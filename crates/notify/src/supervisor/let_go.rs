//! Letting go of calls that wait: of those that a signal, or their thread's end, has cancelled, and of those whose
//! stand-in or tree is gone.

use super::held::Held;
use super::parked::{Parked, Stage};
use super::state::Supervisor;
use super::turn::Turn;
use crate::call::{Call, Outcome};
use crate::sys::{self, Errno};
use std::os::fd::OwnedFd;

impl Supervisor {
    pub(super) fn forget_held(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(id)?;
        if let Some(one) = self.stand_ins.get_mut(held.stand_in) {
            one.held.retain(|other| *other != id);
        }
        Some(held)
    }

    /// The program's end of a stand-in, as a call that waits there holds it.
    pub(super) fn end_of_held(&self, key: usize) -> Option<OwnedFd> {
        let held = self.stand_ins.get(key)?.held.iter().find_map(|id| self.held.get(*id)?.end.as_ref())?;
        held.try_clone().ok()
    }

    /// A signal, or the thread's end, has cancelled the call.
    pub(super) fn forget_if_cancelled(&mut self, id: u64) -> bool {
        let Some(held) = self.held.get(id) else { return true };
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
        for id in self.held.ids() {
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

    /// Lets go of the files of parked calls that nobody waits for any more, and of those whose thread is gone. True: calls are parked.
    pub(super) fn forget_gone_parked(&mut self, turn: &mut Turn<'_>) -> bool {
        for number in self.numbers_of_parked(|s, parked| !s.still_waits(&parked.call)) {
            let Some(parked) = self.parked.calls.get_mut(&number) else { continue };
            parked.end = None;
            if parked.unwritten.is_some() && matches!(sys::pidfd_open(parked.call.tid), Err(Errno(libc::ESRCH))) {
                self.forget_parked(number, turn);
            }
        }
        self.look_after_waiting(turn);
        !self.parked.calls.is_empty()
    }

    /// weft ends: nobody waits for workers any more.
    pub(crate) fn refuse_all_parked(&mut self) {
        for parked in std::mem::take(&mut self.parked.calls).into_values() {
            if let Some(listener) = self.trees.get(parked.call.tree) {
                let _ = listener.refuse(parked.call.id, self.errno_of_parked(&parked.call));
            }
        }
    }

    /// A tree is gone.
    pub(super) fn forget_parked_of(&mut self, tree: usize, turn: &mut Turn<'_>) {
        for number in self.numbers_of_parked(|_, parked| parked.call.tree == tree) {
            self.forget_parked(number, turn);
        }
        self.parked.came_back.remove(&tree);
    }

    fn numbers_of_parked(&self, which: impl Fn(&Supervisor, &Parked) -> bool) -> Vec<u64> {
        self.parked.calls.iter().filter(|(_, parked)| which(self, parked)).map(|(number, _)| *number).collect()
    }

    fn forget_parked(&mut self, number: u64, turn: &mut Turn<'_>) {
        let Some(parked) = self.parked.calls.remove(&number) else { return };
        self.calls.of(parked.call.row.name).cancelled += 1;
        if let Stage::Answer(Ok(Outcome::HandOver { listener, child, .. })) = parked.stage {
            self.give_back(listener, child, turn);
        }
    }
}
