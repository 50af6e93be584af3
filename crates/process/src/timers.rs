//! What is due at a time, and the timers of processes.

use super::cpu_timers::{CpuClock, CpuTimer};
use super::ids::{ProcessId, ThreadId};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_core::Instant;
use weft_loader::abi::Clock;

/// Names an entry of [`Timers`].
pub(super) type Key = (Instant, u64);

/// The clock of the node by which something is due, and what that shows then. None: it is due by the world's time.
pub(super) type By = Option<(Clock, u64)>;

/// When something is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Deadline {
    /// On the world's time line, as the node's clocks run now.
    pub at: Instant,
    /// What it goes by.
    pub by: By,
}

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
    /// A second of CLOCK_REALTIME begins, and its rate changes.
    Second,
}

/// Everything that is due, in order of time, then of setting.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<Key, (Due, By)>,
    sequence: u64,
}

impl Timers {
    pub fn add(&mut self, Deadline { at, by }: Deadline, due: Due) -> Key {
        self.sequence += 1;
        self.due.insert((at, self.sequence), (due, by));
        (at, self.sequence)
    }
    pub fn remove(&mut self, key: Key) {
        self.due.remove(&key);
    }
    pub fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|(at, _)| *at)
    }
    pub fn pop(&mut self, now: Instant) -> Option<(Due, Deadline)> {
        let (&key, _) = self.due.first_key_value().filter(|((at, _), _)| *at <= now)?;
        self.due.remove(&key).map(|(due, by)| (due, Deadline { at: key.0, by }))
    }
    /// The node's clocks run otherwise from now on; `when` says when they show something. What has another key for it, with the old one.
    pub fn retime(&mut self, when: impl Fn(Clock, u64) -> Instant) -> Vec<(Due, Key, Key)> {
        let mut moved = Vec::new();
        for (key, (due, by)) in &self.due {
            let at = by.map_or(key.0, |(clock, value)| when(clock, value));
            if at != key.0 {
                moved.push((*due, *key, (at, key.1)));
            }
        }
        // No two have one sequence number: none takes another's place.
        for (_, old, new) in &moved {
            if let Some(what) = self.due.remove(old) {
                self.due.insert(*new, what);
            }
        }
        moved
    }
}

/// A timer that repeats.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Timer {
    pub key: Option<Key>,
    /// Of [`Deadline`].
    pub by: By,
    pub interval: Duration,
}

impl Timer {
    /// It runs until then, or does not.
    pub fn set(&mut self, armed: Option<(Key, Deadline)>) {
        (self.key, self.by) = armed.map_or((None, None), |(key, deadline)| (Some(key), deadline.by));
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

    #[test]
    fn what_goes_by_a_clock_is_due_at_another_time_when_that_runs_otherwise_and_nothing_else_is() {
        let mut timers = Timers::default();
        let at = |ms| Instant::from_millis(ms);
        let deadline = |ms, by| Deadline { at: at(ms), by };
        let world = timers.add(deadline(5, None), Due::File(0));
        let stays = timers.add(deadline(5, Some((Clock::Monotonic, 5))), Due::File(1));
        let later = timers.add(deadline(5, Some((Clock::Realtime, 7))), Due::File(2));
        let first = timers.add(deadline(9, Some((Clock::Realtime, 1))), Due::File(3));
        let moved = timers.retime(|clock, value| if clock == Clock::Realtime { at(2 * value) } else { at(value) });
        assert_eq!(moved, [(Due::File(2), later, (at(14), later.1)), (Due::File(3), first, (at(2), first.1))]);
        timers.remove(world);
        let order: Vec<_> = std::iter::from_fn(|| timers.pop(at(20))).map(|(due, deadline)| (due, deadline.at)).collect();
        assert_eq!(order, [(Due::File(3), at(2)), (Due::File(1), at(5)), (Due::File(2), at(14))]);
        timers.remove(stays);
        assert_eq!(timers.next(), None);
    }
}
