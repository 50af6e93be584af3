//! Time as the stack sees it: an argument, never a reading.
//!
//! [`Instant`] counts nanoseconds since an epoch that the world chooses (boot of the node). Nothing in the pure crates can make one
//! from a clock; it always comes in as a parameter. Durations are `std::time::Duration`, which is a plain number.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
pub use std::time::Duration;

/// A point on a node's monotonic time line, in nanoseconds since the node's boot. Wraps after 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Instant(u64);

impl Instant {
    /// The node's boot.
    pub const ZERO: Instant = Instant(0);
    /// Later than everything: "never".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }
    /// The instant `micros` microseconds after boot.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros.saturating_mul(1_000))
    }
    /// The instant `millis` milliseconds after boot.
    pub const fn from_millis(millis: u64) -> Instant {
        Instant(millis.saturating_mul(1_000_000))
    }
    /// Nanoseconds since boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Microseconds since boot, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Milliseconds since boot, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// For people and logs: seconds with nine digits after the point, and no unit.
    pub const fn seconds(self) -> Seconds {
        Seconds(self)
    }
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// An instant as `12.345678901`: see [`Instant::seconds`].
#[derive(Clone, Copy, Debug)]
pub struct Seconds(Instant);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.0;
        write!(f, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.seconds())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_nine_digits_after_the_point() {
        let at = Instant::from_nanos(12_000_000_001);
        assert_eq!((at.seconds().to_string().as_str(), at.to_string().as_str()), ("12.000000001", "12.000000001s"));
        assert_eq!(Instant::from_millis(250).seconds().to_string(), "0.250000000");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(Instant::from_millis(1).since(Instant::from_millis(3)), Duration::ZERO);
        assert_eq!(Instant::from_millis(3) - Instant::from_millis(1), Duration::from_millis(2));
    }
}
