//! Schedulers: which subflow gets the next data, and how much of it.
//!
//! To add one to the crate: a file beside the others with an `impl Scheduler`, and a row in [`SCHEDULERS`]. It is a function of what it is asked and of four words
//! of memory for each connection; the block does the rest. docs/mptcp.md compares them.

mod backup;
mod blest;
mod chosen;
mod default;
mod ecf;
mod interface;
mod lowest_rtt;
mod redundant;
mod round_robin;
#[cfg(test)]
mod tests;

pub use chosen::Chosen;
pub use interface::{Asked, Choice, Memory, Scheduler, View};

/// The schedulers, by name; the first is the default.
pub const SCHEDULERS: &[(&str, &dyn Scheduler)] = &[
    ("default", &default::Default),
    ("lowest-rtt", &lowest_rtt::LowestRtt),
    ("round-robin", &round_robin::RoundRobin),
    ("redundant", &redundant::Redundant),
    ("backup", &backup::Backup),
    ("blest", &blest::Blest),
    ("ecf", &ecf::Ecf),
];

/// Their names.
pub const NAMES: &[&str] = &["default", "lowest-rtt", "round-robin", "redundant", "backup", "blest", "ecf"];

/// Which one has this name.
pub fn by_name(name: &str) -> usize {
    SCHEDULERS.iter().position(|(known, _)| *known == name).unwrap_or(0)
}
