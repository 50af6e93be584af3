//! The wall clock of the real world: the only place where time is read.

use std::time::{SystemTime, UNIX_EPOCH};
use weft_core::Instant;

/// Turns CLOCK_MONOTONIC into the node's time line, which begins when the clock is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
    epoch_nanos: u64,
}

impl Default for Clock {
    fn default() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: std::time::Instant::now(), epoch_nanos: since_epoch.as_nanos() as u64 }
    }
}

impl Clock {
    /// The node's time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
    /// Nanoseconds from 1970 to the node's boot (for captures).
    pub fn epoch_nanos(&self) -> u64 {
        self.epoch_nanos
    }
}
