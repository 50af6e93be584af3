//! RED (Floyd and Jacobson 1993) in bytes, with the gentle part above the upper threshold.

use weft_core::{Instant, Rng};

/// Weight of the newest length in the average.
const WEIGHT: f64 = 0.002;
/// While the queue is empty, the average sinks as if so many nanoseconds were a frame (a full one at 1 Gbit/s).
const IDLE_FRAME_NANOS: u64 = 12_000;
/// Frames of an idle time that count at most: the average is nothing then.
const IDLE_FRAMES_MAX: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Red {
    min: f64,
    max: f64,
    probability: f64,
    average: f64,
    /// Frames since the last drop.
    count: f64,
    seen: Instant,
}

impl Red {
    pub fn new(min: u64, max: u64, probability: f64) -> Red {
        let min = min as f64;
        Red { min, max: (max as f64).max(min + 1.0), probability, average: 0.0, count: 0.0, seen: Instant::ZERO }
    }

    /// Does the frame that comes now have to go?
    pub fn drops(&mut self, now: Instant, bytes: u64, rng: &mut Rng) -> bool {
        if bytes == 0 {
            let frames = (now.since(self.seen).as_nanos() as u64 / IDLE_FRAME_NANOS).min(IDLE_FRAMES_MAX);
            for _ in 0..frames {
                self.average *= 1.0 - WEIGHT;
            }
        }
        self.seen = now;
        self.average += WEIGHT * (bytes as f64 - self.average);
        let base = if self.average < self.min {
            self.count = 0.0;
            return false;
        } else if self.average < self.max {
            self.probability * (self.average - self.min) / (self.max - self.min)
        } else if self.average < 2.0 * self.max {
            self.probability + (1.0 - self.probability) * (self.average - self.max) / self.max
        } else {
            self.count = 0.0;
            return true;
        };
        self.count += 1.0;
        // Spreads drops evenly: pa = pb / (1 - count * pb).
        let spread = 1.0 - self.count * base;
        let drops = spread <= 0.0 || rng.chance(base / spread);
        if drops {
            self.count = 0.0;
        }
        drops
    }
}
