//! Schedulers: which subflow gets the next data, and how much of it.

mod default;
mod interface;

pub use interface::{Choice, Scheduler, View};

/// The schedulers, by name.
pub const SCHEDULERS: &[(&str, &(dyn Scheduler + Sync))] = &[("default", &default::Default)];
/// Their names.
pub const NAMES: &[&str] = &["default"];

/// The scheduler of this name.
pub fn by_name(name: &str) -> &'static dyn Scheduler {
    SCHEDULERS.iter().find(|(known, _)| *known == name).unwrap_or(&SCHEDULERS[0]).1
}
