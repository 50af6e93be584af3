//! What is due at a time, and the timers of processes.

use super::cpu_timers::{CpuClock, CpuTimer};
use super::ids::{ProcessId, ThreadId};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_core::Instant;

/// Names an entry of [`Timers`].
pub(super) type Key = (Instant, u64);

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// A wait ends.
    Thread { thread: ThreadId, since: u64 },
    /// ITIMER_REAL.
    Interval(ProcessId),
    /// A POSIX timer.
    Posix(ProcessId, i32),
    /// A timerfd.
    File(u64),
}

/// Everything that is due, in order of time, then of setting.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<Key, Due>,
    sequence: u64,
}

impl Timers {
    pub fn add(&mut self, at: Instant, due: Due) -> Key {
        self.sequence += 1;
        self.due.insert((at, self.sequence), due);
        (at, self.sequence)
    }
    pub fn remove(&mut self, key: Key) {
        self.due.remove(&key);
    }
    pub fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }
    pub fn pop(&mut self, now: Instant) -> Option<Due> {
        let (&key, _) = self.due.first_key_value().filter(|((at, _), _)| *at <= now)?;
        self.due.remove(&key)
    }
}

/// A timer that repeats.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timer {
    pub key: Option<Key>,
    pub interval: Duration,
}

impl Timer {
    pub fn left(&self, now: Instant) -> Duration {
        self.key.map_or(Duration::ZERO, |(at, _)| at.since(now).max(Duration::from_nanos(1)))
    }
}

#[derive(Debug)]
pub(super) struct Posix {
    pub clock: i32,
    pub notify: i32,
    pub signal: i32,
    pub value: u64,
    pub tid: u32,
    pub timer: Timer,
    /// On a CPU clock: which, and in place of `timer`.
    pub cpu: Option<(CpuClock, CpuTimer)>,
    /// What timer_getoverrun(2) says: how often it expired until its last signal was delivered, less that once.
    pub overrun: i32,
}

/// Timers of a process.
#[derive(Debug, Default)]
pub(super) struct ProcessTimers {
    pub interval: Timer,
    /// ITIMER_VIRTUAL and ITIMER_PROF.
    pub cpu_intervals: [CpuTimer; 2],
    pub posix: BTreeMap<i32, Posix>,
    /// The number that the next POSIX timer gets, if it is free.
    next: i32,
}

impl ProcessTimers {
    /// posix_timer_add: "Write the next ID back. Clamp it to the positive space."
    pub fn take_number(&mut self) -> i32 {
        loop {
            let id = self.next;
            self.next = id.wrapping_add(1) & i32::MAX;
            // There are fewer timers than numbers.
            if !self.posix.contains_key(&id) {
                return id;
            }
        }
    }
    /// A clock is no more, see [`CpuClock::Gone`].
    pub fn forget_cpu_clock(&mut self, clock: CpuClock) {
        for (of, timer) in self.posix.values_mut().filter_map(|posix| posix.cpu.as_mut()).filter(|(of, _)| *of == clock) {
            *of = CpuClock::Gone;
            timer.key = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(clock: CpuClock) -> Posix {
        let cpu = Some((clock, CpuTimer::default()));
        Posix { clock: 0, notify: libc::SIGEV_NONE, signal: 0, value: 0, tid: 0, timer: Timer::default(), cpu, overrun: 0 }
    }

    #[test]
    fn numbers_of_timers_begin_again_and_pass_those_in_use() {
        let mut timers = ProcessTimers { next: i32::MAX - 1, ..ProcessTimers::default() };
        for taken in [0, 1, i32::MAX] {
            timers.posix.insert(taken, timer(CpuClock::Gone));
        }
        assert_eq!([timers.take_number(), timers.take_number(), timers.take_number()], [i32::MAX - 1, 2, 3]);
    }

    #[test]
    fn a_clock_that_is_gone_is_not_the_next_with_its_number() {
        let mut timers = ProcessTimers::default();
        timers.posix.insert(0, timer(CpuClock::Process(7)));
        timers.posix.insert(1, timer(CpuClock::Process(8)));
        timers.posix.insert(2, timer(CpuClock::Thread(7)));
        timers.forget_cpu_clock(CpuClock::Process(7));
        let clocks: Vec<_> = timers.posix.values().filter_map(|posix| posix.cpu).map(|(clock, _)| clock).collect();
        assert_eq!(clocks, [CpuClock::Gone, CpuClock::Process(8), CpuClock::Thread(7)]);
    }
}
