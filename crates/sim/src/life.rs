//! What comes of a program, from its starts to its ends.

use crate::report::Status;
use std::collections::BTreeMap;
use weft_core::Instant;
use weft_process::Usage;

/// Earlier lives of a program that are told.
const LIVES_MAX: usize = 1000;

/// A program's results.
#[derive(Clone, Debug, Default)]
pub struct ProgramState {
    /// What it wrote to standard output.
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub error: Vec<u8>,
    /// Numbers that it reported.
    pub figures: BTreeMap<&'static str, u64>,
    /// What an unmodified program and all that it has started have used, when the world ended, or the node's life.
    pub usage: Option<Usage>,
    /// Bytes beyond [`crate::OUTPUT_BYTES_MAX`] and [`crate::plan::ProcessPlan::output_max`].
    pub output_lost: u64,
    /// When it started, the last time.
    pub started: Option<Instant>,
    /// When and how it ended; none: it has not, since it started last.
    pub ended: Option<(Instant, Status)>,
    /// Its earlier lives: a program may be started again when it has ended, and a node that crashed when it boots. Output is that of all lives.
    pub before: Vec<Life>,
}

/// From a start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// When it started.
    pub started: Instant,
    /// When and how it ended.
    pub ended: Option<(Instant, Status)>,
}

impl ProgramState {
    /// A life begins. Figures and use are those of the last one.
    pub(crate) fn begin(&mut self, at: Instant) {
        if let Some(started) = self.started.replace(at)
            && self.before.len() < LIVES_MAX
        {
            self.before.push(Life { started, ended: self.ended });
        }
        (self.ended, self.usage) = (None, None);
        self.figures.clear();
    }
}

/// What a program does that has not ended, from what it waits for.
pub fn state(waits: &str) -> String {
    match waits.starts_with("for ") {
        true => format!("waits {waits}"),
        false => waits.to_owned(),
    }
}
