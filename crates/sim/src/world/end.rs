//! How a run ends.

use weft_core::Instant;

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Its time was over.
    Duration,
    /// Every program that was waited for has ended.
    Programs,
    /// Nothing was due any more.
    Idle,
    /// Somebody interrupted it.
    Interrupted,
    /// Time did not go on: something sends at one instant without end.
    Stuck,
    /// A machine cannot go on ([`RunEnd::broken`]).
    Broken,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunEnd {
    /// When.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
    /// Events that were refused.
    pub failures: Vec<String>,
    /// Events that changed nothing, and why.
    pub idle: Vec<String>,
    /// Which machine cannot go on, and why.
    pub broken: Option<String>,
}
