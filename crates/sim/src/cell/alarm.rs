//! A time at which somebody wants to be called.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_core::Instant;

/// Told the name of a node and its time.
pub type Ring = Arc<dyn Fn(&str, Instant) + Send + Sync>;

/// Called when a time is reached, once for the whole world.
#[derive(Clone)]
pub(crate) struct Alarm {
    pub at: Instant,
    pub rung: Arc<AtomicBool>,
    pub ring: Ring,
}

impl Alarm {
    /// The node that gets there first rings.
    pub fn ring(&self, node: &str, now: Instant) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            (self.ring)(node, now);
        }
    }
}
