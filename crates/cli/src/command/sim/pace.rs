//! Virtual time tied to the wall clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_sim::visit::{Pacer, Visits};

/// How long nobody notices that the run was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Ties virtual time to the wall clock.
pub(super) struct Wall {
    begun: Instant,
    /// Virtual seconds in one of the wall's.
    speed: f64,
    visits: Arc<Visits>,
    interrupted: Arc<AtomicBool>,
    /// Most that the world was late, in nanoseconds.
    late: AtomicU64,
}

impl Wall {
    /// Virtual time 0 is now.
    pub fn begin(speed: f64, visits: Arc<Visits>, interrupted: Arc<AtomicBool>) -> Wall {
        Wall { begun: Instant::now(), speed, visits, interrupted, late: AtomicU64::new(0) }
    }

    /// Most that the world was late: programs that compute much, or a machine that is too slow.
    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.late.load(Ordering::Relaxed))
    }
}

impl Pacer for Wall {
    fn wait(&self, until: weft_core::Instant) {
        let target = Duration::from_secs_f64(until.as_nanos() as f64 / 1e9 / self.speed);
        let late = self.begun.elapsed().saturating_sub(target);
        self.late.fetch_max(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        while !self.visits.pending() && !self.interrupted.load(Ordering::Relaxed) {
            let left = target.saturating_sub(self.begun.elapsed());
            if left.is_zero() {
                return;
            }
            self.visits.wait(left.min(LOOK_EVERY));
        }
    }

    fn now(&self) -> weft_core::Instant {
        weft_core::Instant::from_nanos((self.begun.elapsed().as_secs_f64() * self.speed * 1e9) as u64)
    }
}
