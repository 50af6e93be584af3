//! Memory that a burst of traffic needed and a quiet stack does not, tables that grew with it included: given back to the system once the wires have been
//! quiet for a while, and the stack's timers with them.

use std::time::Duration;
use weft_core::Instant;

/// So long nothing moves before memory is given back.
const QUIET: Duration = Duration::from_secs(1);

/// So many times frames came in, or timers were due, at least: less leaves nothing behind that would be worth a search.
const TURNS_MIN: u32 = 1000;

/// When to give memory back.
#[derive(Debug, Default)]
pub struct Tidy {
    /// How often something moved since memory was given back.
    turns: u32,
    last: Instant,
}

impl Tidy {
    /// Frames came in, or timers were due.
    pub fn moved(&mut self, now: Instant) {
        self.turns = self.turns.saturating_add(1);
        self.last = now;
    }

    /// When it wants to be asked.
    pub fn next_timer(&self) -> Option<Instant> {
        (self.turns >= TURNS_MIN).then(|| self.last + QUIET)
    }

    /// Is it time to give memory back? Once after each burst.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next_timer().is_some_and(|at| at <= now);
        if due {
            self.turns = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_after_each_burst_when_it_is_quiet() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut tidy = Tidy::default();
        tidy.moved(at(1));
        assert_eq!(tidy.next_timer(), None, "a few frames are no burst");
        (0..TURNS_MIN).for_each(|_| tidy.moved(at(5)));
        assert_eq!(tidy.next_timer(), Some(at(1005)));
        assert!(!tidy.is_due(at(1004)));
        tidy.moved(at(500));
        assert!(!tidy.is_due(at(1400)) && tidy.is_due(at(1500)) && !tidy.is_due(at(1600)));
        assert_eq!(tidy.next_timer(), None);
    }
}
