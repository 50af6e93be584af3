//! PIE (RFC 8033): a probability of dropping, steered by the delay and its trend.

use std::time::Duration;
use weft_core::{Instant, Rng};

/// RFC 8033 §4.2: "alpha ... 0.125", "beta ... 1.25" (in 1/s).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// RFC 8033 §5.1: "MAX_BURST ... default 150ms".
const BURST_MAX: Duration = Duration::from_millis(150);
/// RFC 8033 §5.1: "MARK_ECNTH ... default 10%".
const MARK_BELOW: f64 = 0.1;
/// Two full frames are no queue (§4.1).
const SMALL_BYTES: u64 = 2 * 1514;

#[derive(Debug)]
pub(super) struct Pie {
    target: Duration,
    update: Duration,
    probability: f64,
    delay: Duration,
    delay_before: Duration,
    burst_left: Duration,
    next: Option<Instant>,
}

impl Pie {
    pub fn new(target: Duration, update: Duration) -> Pie {
        let (delay, delay_before) = (Duration::ZERO, Duration::ZERO);
        Pie {
            target,
            update: update.max(Duration::from_micros(1)),
            probability: 0.0,
            delay,
            delay_before,
            burst_left: BURST_MAX,
            next: None,
        }
    }

    pub fn may_mark(&self) -> bool {
        self.probability <= MARK_BELOW
    }

    /// Computes the probability for every update time that has passed.
    fn steer(&mut self, now: Instant) {
        let mut next = self.next.unwrap_or(now + self.update);
        let mut rounds = 0;
        while next <= now && rounds < 10_000 {
            rounds += 1;
            let seconds = |span: Duration| span.as_nanos() as f64 / 1e9;
            let mut step = ALPHA * (seconds(self.delay) - seconds(self.target)) + BETA * (seconds(self.delay) - seconds(self.delay_before));
            // §4.2: the step is scaled while the probability is small.
            let scale = [(0.000_001, 2048.0), (0.000_01, 512.0), (0.000_1, 128.0), (0.001, 32.0), (0.01, 8.0), (0.1, 2.0)];
            if let Some((_, divisor)) = scale.iter().find(|(below, _)| self.probability < *below) {
                step /= divisor;
            }
            if self.probability >= 0.1 && step > 0.02 {
                step = 0.02;
            }
            self.probability = (self.probability + step).clamp(0.0, 1.0);
            if self.delay.is_zero() && self.delay_before.is_zero() {
                self.probability *= 0.98;
            }
            self.burst_left = self.burst_left.saturating_sub(self.update);
            if self.probability == 0.0 && self.delay < self.target / 2 && self.delay_before < self.target / 2 {
                self.burst_left = BURST_MAX;
            }
            self.delay_before = self.delay;
            next += self.update;
        }
        self.next = Some(next.max(now));
    }

    /// Does the frame that comes now have to go?
    pub fn drops(&mut self, now: Instant, bytes: u64, frame_bytes: u32, rng: &mut Rng) -> bool {
        if bytes == 0 {
            self.delay = Duration::ZERO;
        }
        self.steer(now);
        let _ = frame_bytes;
        let safe = !self.burst_left.is_zero() || (self.delay_before < self.target / 2 && self.probability < 0.2) || bytes <= SMALL_BYTES;
        !safe && rng.chance(self.probability)
    }

    /// A frame left after it had waited so long.
    pub fn left(&mut self, now: Instant, waited: Duration, bytes: u64) {
        self.delay = if bytes == 0 { Duration::ZERO } else { waited };
        self.steer(now);
    }
}
