//! Parked calls on their way to a worker and back.

use super::parked::{Parked, Place, Stage, TREE_MAX};
use super::state::Supervisor;
use super::turn::Turn;
use crate::call::{Call, Outcome};
use crate::caretaker::ledger::Noted;
use crate::standin::liveness;
use crate::sys::Errno;
use crate::workers::{Brought, Done, Errand, Job};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use weft_intercept::memory::LATER;

impl Supervisor {
    /// Leaves a call to a worker: to fetch what its handler wants, or to store what it has written.
    pub(super) fn park(&mut self, call: Call, stage: Stage, turn: &mut Turn<'_>) {
        let job = match call.remote.take_wanted() {
            Some(range) => Job::Fetch(range),
            None => Job::Store(call.remote.take_stores()),
        };
        call.remote.forget_looks();
        let (out, waiting) = self.parked.count(call.tree);
        let place = Place::beside(out, waiting);
        if place == Place::None {
            return self.refuse_parked(call, &stage, turn);
        }
        let end = call.held.or(call.file.get().map(|(key, _)| key)).and_then(|key| self.borrow(key).ok());
        let number = self.parked.next;
        self.parked.next += 1;
        let noted = self.note(&call);
        let mut parked = Parked { call, stage, end, unwritten: None, waits: None, noted };
        if place == Place::Worker {
            return self.run_errand(number, parked, job, turn);
        }
        parked.waits = Some((job, Instant::now()));
        self.parked.calls.insert(number, parked);
        self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
    }

    /// Workers are free for calls of a tree that wait for one.
    fn run_waiting(&mut self, tree: usize, turn: &mut Turn<'_>) {
        let (out, _) = self.parked.count(tree);
        let next: Vec<u64> = self.parked.waiting(tree).take(TREE_MAX.saturating_sub(out)).collect();
        for number in next {
            let Some(mut parked) = self.parked.calls.remove(&number) else { continue };
            if let Some((job, _)) = parked.waits.take() {
                self.run_errand(number, parked, job, turn);
            }
        }
    }

    /// Calls that wait for a worker have one where a parked call is gone, and are refused where no worker comes back.
    pub(super) fn look_after_waiting(&mut self, turn: &mut Turn<'_>) {
        for tree in self.parked.trees_that_wait() {
            self.run_waiting(tree, turn);
        }
        for number in self.parked.stuck(Instant::now()) {
            if let Some(parked) = self.parked.calls.remove(&number) {
                self.refuse_parked(parked.call, &parked.stage, turn);
            }
        }
    }

    /// Notes a call for the caretaker: weft may end before it is answered.
    pub(crate) fn note(&self, call: &Call) -> Option<Noted> {
        let listener = self.trees.get(call.tree).map(|listener| &**listener);
        self.held.note(call, self.errno_of_parked(call), listener)
    }

    /// What a parked call fails with if weft ends.
    pub(super) fn errno_of_parked(&self, call: &Call) -> Errno {
        self.errno_at_end(call.held.or(call.file.get().map(|(key, _)| key)))
    }

    fn run_errand(&mut self, number: u64, parked: Parked, job: Job, turn: &mut Turn<'_>) {
        let Some(listener) = self.trees.get(parked.call.tree) else { return };
        let call = &parked.call;
        let whose = if matches!(parked.stage, Stage::Missed(_)) { None } else { Some((Arc::clone(listener), call.id)) };
        match self.workers.send(Errand { number, whose, tid: call.tid, job }) {
            Ok(()) => {
                self.parked.calls.insert(number, parked);
                self.look_at.get_or_insert_with(|| Instant::now() + liveness::PERIOD);
            }
            Err(_) => self.refuse_parked(parked.call, &parked.stage, turn),
        }
    }

    /// There is no worker for it.
    fn refuse_parked(&mut self, call: Call, stage: &Stage, turn: &mut Turn<'_>) {
        let errno = Errno(libc::ENOBUFS);
        self.calls.unsupported(format!("{} in memory whose pages nobody brings, more than {TREE_MAX} at a time", call.row.name), errno);
        if let Stage::Answer(outcome) = stage {
            let outcome = self.instead(*outcome, Err(errno), turn);
            self.settle_call(call, outcome, turn);
        }
    }

    /// A call comes. Where it is one that is parked, and that a signal has cancelled, it takes that up.
    pub(super) fn take_up_parked(&mut self, call: Call, turn: &mut Turn<'_>) -> Option<Call> {
        let same = |parked: &Parked| {
            (parked.call.tree, parked.call.tid, parked.call.number) == (call.tree, call.tid, call.number)
                && (parked.call.arguments, parked.call.instruction) == (call.arguments, call.instruction)
        };
        let found = self.parked.calls.iter().find(|(_, parked)| same(parked) && !self.still_waits(&parked.call));
        let Some(number) = found.map(|(number, _)| *number) else { return Some(call) };
        let mut parked = self.parked.calls.remove(&number)?;
        parked.call.id = call.id;
        parked.noted = self.note(&parked.call);
        match (parked.unwritten.take(), &parked.stage) {
            _ if parked.waits.is_some() => drop(self.parked.calls.insert(number, parked)),
            (Some(job), _) => self.run_errand(number, parked, job, turn),
            (None, Stage::Missed(answer)) => {
                let answer = answer.map(Outcome::DoneWithEffect);
                self.settle_call(parked.call, answer, turn);
            }
            (None, Stage::Answer(_)) => drop(self.parked.calls.insert(number, parked)),
        }
        None
    }

    /// Workers have come back.
    pub(super) fn workers_are_back(&mut self, turn: &mut Turn<'_>) {
        let mut trees = BTreeSet::new();
        for Done { number, result, was_slow } in self.workers.take_done() {
            // Its tree is gone.
            let Some(mut parked) = self.parked.calls.remove(&number) else { continue };
            trees.insert(parked.call.tree);
            self.parked.came_back.insert(parked.call.tree, Instant::now());
            if was_slow {
                self.leave_to_workers(parked.call.tree);
                parked.call.remote.leave_to_workers();
            }
            match result {
                Brought::Fetched(range, bytes) => {
                    parked.call.remote.keep_fetched(range, bytes);
                    self.go_on(parked, turn);
                }
                Brought::Stored(Ok(())) => self.go_on(parked, turn),
                Brought::Stored(Err(otherwise)) => {
                    if let Stage::Answer(outcome) = parked.stage {
                        parked.stage = Stage::Answer(self.instead(outcome, otherwise, turn));
                    }
                    self.go_on(parked, turn);
                }
                // It was taken up by another attempt before the worker came to it: again.
                Brought::Gone(job) if self.still_waits(&parked.call) => self.run_errand(number, parked, job, turn),
                Brought::Gone(Job::Fetch(_)) => self.calls.of(parked.call.row.name).cancelled += 1,
                Brought::Gone(job) => {
                    parked.unwritten = Some(job);
                    self.parked.calls.insert(number, parked);
                }
            }
        }
        for tree in trees {
            self.run_waiting(tree, turn);
        }
    }

    fn go_on(&mut self, parked: Parked, turn: &mut Turn<'_>) {
        let Parked { call, stage, end, .. } = parked;
        match stage {
            Stage::Answer(Err(LATER)) if !self.still_waits(&call) && call.messages.get() == 0 => {
                self.calls.of(call.row.name).cancelled += 1;
            }
            Stage::Answer(Err(LATER)) => self.begin(call, turn),
            Stage::Answer(outcome) => self.settle_call(call, outcome, turn),
            Stage::Missed(answer) => self.keep_missed(call, answer, turn),
        }
        drop(end);
    }
}
