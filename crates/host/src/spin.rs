//! Whether to look again for a while before sleeping.
//!
//! Going to sleep and being woken costs more than a small request's work. Where the next event is likely to come at once (the sleeps before
//! were short), the loop polls for a bounded time first. It stops when that fails: on a machine that has no core to spare, whoever would have
//! raised the event cannot run while we poll.

use std::time::Duration;

/// So many sleeps in a row must have been short.
const SHORT_SLEEPS_MIN: u32 = 8;
/// A sleep of up to so many times the limit is short: what is slept includes being woken.
const SHORT_FACTOR: u32 = 2;
/// After the nth failure in a row, 2^n sleeps are not put off; n is at most this.
const FAILURES_MAX: u32 = 12;

/// See the module. It is told what happened, and reads no clock.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    max: Duration,
    short_sleeps: u32,
    failures: u32,
    /// Sleeps until it is tried again.
    pause: u32,
}

impl Spin {
    /// Polls for at most `max` before a sleep; zero: never.
    pub fn new(max: Duration) -> Spin {
        Spin { max, short_sleeps: 0, failures: 0, pause: 0 }
    }

    /// For how long to poll before the next sleep.
    pub fn limit(&self) -> Duration {
        if self.pause == 0 && self.short_sleeps >= SHORT_SLEEPS_MIN { self.max } else { Duration::ZERO }
    }

    /// An event came while it polled.
    pub fn found(&mut self) {
        self.failures = 0;
    }

    /// It polled for the whole time in vain.
    pub fn failed(&mut self) {
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        self.pause = 1 << self.failures;
    }

    /// It slept.
    pub fn slept(&mut self, span: Duration) {
        self.pause = self.pause.saturating_sub(1);
        self.short_sleeps = if span <= self.max * SHORT_FACTOR { (self.short_sleeps + 1).min(SHORT_SLEEPS_MIN) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_micros(50);
    const SHORT: Duration = Duration::from_micros(90);
    const LONG: Duration = Duration::from_millis(3);

    #[test]
    fn it_polls_after_short_sleeps_only() {
        let mut spin = Spin::new(MAX);
        for _ in 0..SHORT_SLEEPS_MIN {
            assert_eq!(spin.limit(), Duration::ZERO);
            spin.slept(SHORT);
        }
        assert_eq!(spin.limit(), MAX);
        spin.found();
        assert_eq!(spin.limit(), MAX);
        spin.slept(LONG);
        assert_eq!(spin.limit(), Duration::ZERO);
    }

    #[test]
    fn failures_are_tried_again_ever_more_rarely_until_one_succeeds() {
        let mut spin = Spin::new(MAX);
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let mut sleeps = 0;
            while spin.limit().is_zero() {
                spin.slept(SHORT);
                sleeps += 1;
            }
            pauses.push(sleeps);
            spin.failed();
        }
        assert_eq!(pauses[..5], [SHORT_SLEEPS_MIN, 2, 4, 8, 16]);
        assert_eq!(pauses[19], 1 << FAILURES_MAX);
        (0..1 << FAILURES_MAX).for_each(|_| spin.slept(SHORT));
        spin.found();
        spin.failed();
        spin.slept(SHORT);
        spin.slept(SHORT);
        assert_eq!(spin.limit(), MAX);
    }

    #[test]
    fn zero_never_polls() {
        let mut spin = Spin::new(Duration::ZERO);
        (0..100).for_each(|_| spin.slept(Duration::ZERO));
        assert_eq!(spin.limit(), Duration::ZERO);
    }
}
