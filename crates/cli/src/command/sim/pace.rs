//! Virtual time tied to the wall clock.

use crate::output;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_sim::output_log;
use weft_sim::plan::{Listener, Plan, Said};
use weft_sim::visit::{Pacer, Visits};

/// How long nobody notices that the run was interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest line that is waited for.
const LINE_BYTES_MAX: usize = 64 << 10;

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

/// Shows what programs write, as it comes, by whole lines where they are whole.
pub(super) fn listener(plan: &Plan) -> Listener {
    let plan = plan.clone();
    let begun: Mutex<BTreeMap<(usize, bool), Vec<u8>>> = Mutex::default();
    Listener(Arc::new(move |said: &Said<'_>| {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        let line = begun.entry((said.program, said.error)).or_default();
        line.extend_from_slice(said.bytes);
        while let Some(end) =
            line.iter().position(|byte| *byte == b'\n').or_else(|| (line.len() > LINE_BYTES_MAX).then_some(LINE_BYTES_MAX))
        {
            let text: Vec<u8> = line.drain(..=end).collect();
            let text = String::from_utf8_lossy(&text);
            output::line(&format!("{}{}", output_log::heading(&plan, said), text.trim_end_matches('\n')));
        }
    }))
}
