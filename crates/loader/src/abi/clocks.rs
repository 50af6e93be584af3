//! The node's clocks. What they show, and when they will show something: whoever converts between a clock and the world's time does it here.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

#[path = "line.rs"]
mod line;
pub use line::{Line, RATE_ONE};

const NANOS: u64 = 1_000_000_000;

/// Words of the header. The vDSO knows their offsets.
#[repr(C)]
pub struct Clocks {
    /// What CLOCK_REALTIME shows beyond the world's time, in nanoseconds, before its line adds what it has gained. Setting the date changes it.
    pub epoch: AtomicU64,
    /// What CLOCK_MONOTONIC shows beyond it, in nanoseconds: for how long the machine had been up when that was 0. Of one that has booted since it is
    /// negative, in two's complement.
    pub boot: AtomicU64,
    /// [`Line::from`] of CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME.
    pub from: AtomicU64,
    /// [`Line::skew`], in two's complement.
    pub skew: AtomicU64,
    /// [`Line::fraction`].
    pub fraction: AtomicU64,
    /// [`Line::rate`], in two's complement.
    pub rate: AtomicU64,
    /// [`Line::from`] of CLOCK_MONOTONIC_RAW, which nobody sets.
    pub raw_from: AtomicU64,
    /// [`Line::rate`] of it: how wrong the crystal is.
    pub raw_rate: AtomicU64,
    /// What CLOCK_TAI shows beyond CLOCK_REALTIME, in seconds; may be negative, in two's complement.
    pub tai: AtomicU64,
    /// `struct timezone` of settimeofday(2): minutes west, and what is behind them in the upper half.
    pub zone: AtomicU64,
    /// CLOCK_REALTIME when the node's time was 0, in nanoseconds since 1970, whatever it was set to since: times of files that the kernel writes.
    pub began: AtomicU64,
}

/// A clock that ticks with the node, whatever runs there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME, as no node sleeps.
    Monotonic,
    /// CLOCK_MONOTONIC_RAW, and the time stamp counter.
    Raw,
    /// CLOCK_REALTIME.
    Realtime,
    /// CLOCK_TAI.
    Tai,
}

impl Clock {
    /// By its number (linux/time.h). None: it does not tick with the node.
    pub fn of(id: i32) -> Option<Clock> {
        match id {
            0 | 5 | 8 => Some(Clock::Realtime),
            1 | 6 | 7 | 9 => Some(Clock::Monotonic),
            4 => Some(Clock::Raw),
            11 => Some(Clock::Tai),
            _ => None,
        }
    }
}

/// No clock runs twice as fast as the world, or stands still.
fn bounded(rate: u64) -> i64 {
    (rate as i64).clamp(-RATE_ONE / 2, RATE_ONE / 2)
}

impl Clocks {
    /// The line of a clock. Whatever stands in the words, it is one that can be reckoned with.
    pub fn line(&self, clock: Clock) -> Line {
        if clock == Clock::Raw {
            let (from, rate) = (self.raw_from.load(Relaxed), self.raw_rate.load(Relaxed));
            return Line { from, rate: bounded(rate), ..Line::default() };
        }
        Line {
            from: self.from.load(Relaxed),
            skew: self.skew.load(Relaxed) as i64,
            fraction: self.fraction.load(Relaxed) & (RATE_ONE as u64 - 1),
            rate: bounded(self.rate.load(Relaxed)),
        }
    }
    /// Changes the line of all clocks but CLOCK_MONOTONIC_RAW.
    pub fn set_line(&self, line: Line) {
        self.from.store(line.from, Relaxed);
        self.skew.store(line.skew as u64, Relaxed);
        self.fraction.store(line.fraction, Relaxed);
        self.rate.store(line.rate as u64, Relaxed);
    }
    /// What a clock shows beyond its line, in nanoseconds, and in two's complement.
    fn base(&self, clock: Clock) -> u64 {
        match clock {
            Clock::Monotonic | Clock::Raw => self.boot.load(Relaxed),
            Clock::Realtime => self.epoch.load(Relaxed),
            Clock::Tai => self.epoch.load(Relaxed).wrapping_add(self.tai.load(Relaxed).wrapping_mul(NANOS)),
        }
    }
    /// What a clock shows at a time of the world. All nanoseconds.
    pub fn shows(&self, clock: Clock, now: u64) -> u64 {
        self.line(clock).value(self.base(clock), now)
    }
    /// The first time of the world at which a clock shows `value` or more, as it runs now.
    pub fn when(&self, clock: Clock, value: u64) -> u64 {
        self.line(clock).when(self.base(clock), value)
    }
}
