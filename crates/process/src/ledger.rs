//! What a node's programs have come to: who has ended, what they have used, and what makes the run not reproducible.

use super::outside::{Exit, Outside};
use super::usage::Usage;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    exits: Vec<Exit>,
    /// Of so many of them [`Outside::ended`] has been told.
    ends_told: usize,
    /// By the number of the program.
    usage: BTreeMap<u32, Usage>,
    /// `Header::calls` at the end of the last turn.
    counted: u64,
    /// Calls that came to the controller.
    pub round_trips: u64,
    /// The trace that was last told.
    pub told: u64,
    preempted: Vec<String>,
    doubts: Vec<String>,
}

impl Ledger {
    pub fn ended(&mut self, exit: Exit) {
        self.exits.push(exit);
    }
    /// Tells who has ended since the last time.
    pub fn tell_ends(&mut self, outside: &mut dyn Outside) {
        for exit in &self.exits[self.ends_told..] {
            outside.ended(exit.pid);
        }
        self.ends_told = self.exits.len();
    }
    /// Processes that have ended since the last call, in order.
    pub fn take_exits(&mut self) -> Vec<Exit> {
        self.ends_told = 0;
        std::mem::take(&mut self.exits)
    }

    /// What a program has used so far.
    pub fn usage(&self, program: u32) -> Usage {
        self.usage.get(&program).copied().unwrap_or_default()
    }
    pub fn usage_mut(&mut self, program: u32) -> &mut Usage {
        self.usage.entry(program).or_default()
    }
    /// A program's turn ends; `calls`: what `Header::calls` is now.
    pub fn count_calls(&mut self, program: u32, calls: u64) {
        self.usage.entry(program).or_default().calls += calls.wrapping_sub(self.counted);
        self.counted = calls;
    }

    /// Programs that had to be interrupted.
    pub fn preempted(&self) -> &[String] {
        &self.preempted
    }
    pub fn is_preempted(&self, name: &str) -> bool {
        self.preempted.iter().any(|one| one == name)
    }
    pub fn add_preempted(&mut self, name: String) {
        self.preempted.push(name);
    }
    /// What else makes the run not reproducible.
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }
    pub fn has_doubt(&self, what: &str) -> bool {
        self.doubts.iter().any(|one| one == what)
    }
    pub fn add_doubt(&mut self, what: String) {
        self.doubts.push(what);
    }
}
