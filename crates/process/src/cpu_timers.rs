//! Who waits for values of CPU clocks.

use super::ids::{ProcessId, ThreadId};
use std::collections::BTreeMap;

/// The kernel looks at CPU clocks in its tick only, so that a timer comes no earlier than with the next one after it was set or came last, however short it is.
/// Returning from a handler is a call, too: without that the next signal would be there before the program has come any further. This is the finest tick that
/// kernels have (1000 Hz), so that no timer is later than it must be.
const TICK_FINEST: u64 = 1_000_000;

/// A clock, by the number of its thread or process in the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum CpuClock {
    /// CLOCK_THREAD_CPUTIME_ID of it.
    Thread(u32),
    /// CLOCK_PROCESS_CPUTIME_ID of it.
    Process(u32),
    /// Of one that is gone, and whose number may be another's. The kernel keeps the `struct pid`.
    Gone,
}

/// Names an entry of [`CpuTimers`]: at which clock, at which of its values in nanoseconds, and which of those.
pub(super) type Key = (CpuClock, u64, u64);

/// What happens when a clock comes to a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// ITIMER_VIRTUAL (0) or ITIMER_PROF (1).
    Interval(ProcessId, usize),
    /// A POSIX timer.
    Posix(ProcessId, i32),
    /// clock_nanosleep(2) ends.
    Sleeper(ThreadId),
}

/// Who waits for CPU clocks, by clock and value, then in order of setting. Bounded by threads, and by what a process may have of timers.
#[derive(Debug, Default)]
pub(super) struct CpuTimers {
    due: BTreeMap<Key, Due>,
    sequence: u64,
}

impl CpuTimers {
    pub fn add(&mut self, clock: CpuClock, at: u64, due: Due) -> Key {
        self.sequence += 1;
        self.due.insert((clock, at, self.sequence), due);
        (clock, at, self.sequence)
    }
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
    pub fn remove(&mut self, key: Key) {
        self.due.remove(&key);
    }
    /// The same for a timer that is set, or set again, at `now`, see [`TICK_FINEST`].
    pub fn add_timer(&mut self, clock: CpuClock, now: u64, at: u64, due: Due) -> Key {
        self.add(clock, at.max((now / TICK_FINEST + 1) * TICK_FINEST), due)
    }
    /// The first value of a clock for which somebody waits.
    pub fn first(&self, clock: CpuClock) -> Option<(Key, Due)> {
        self.due.range((clock, 0, 0)..=(clock, u64::MAX, u64::MAX)).next().map(|(key, due)| (*key, *due))
    }
    /// The clock is no more: whoever waits for it waits for ever.
    pub fn forget(&mut self, clock: CpuClock) {
        self.due.retain(|(of, ..), _| *of != clock);
    }
}

/// A timer on a CPU clock.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct CpuTimer {
    /// Where it stands; none: it is not set, has expired, or nobody is to be told of it (SIGEV_NONE).
    pub key: Option<Key>,
    /// The value of the clock at which it expires; 0: it is not set.
    pub expires: u64,
    /// In nanoseconds.
    pub interval: u64,
}

impl CpuTimer {
    /// bump_cpu_timer: to the next multiple of the interval after `now`. How many there were.
    pub fn bump(&mut self, now: u64) -> u64 {
        if self.interval == 0 || now < self.expires {
            return 0;
        }
        let times = (now - self.expires) / self.interval + 1;
        self.expires = self.expires.saturating_add(times.saturating_mul(self.interval));
        times
    }
}
