//! Deadlines of a connection: what for, and when.

use weft_core::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Timer {
    /// RTO, and that of SYN and SYN|ACK.
    Retransmit,
    /// Tail loss probe.
    Probe,
    /// RACK's reordering window.
    Reorder,
    /// Zero window.
    Persist,
    DelayedAck,
    /// Acknowledgments of out-of-order data, several in one.
    CompressedAck,
    Keepalive,
    /// FIN-WAIT-2 without a program.
    FinWait2,
    Pacing,
    Cork,
}

const TIMERS: usize = 10;
pub(super) const ALL: [Timer; TIMERS] = [
    // Linux has one timer for both: where a probe is due, the timeout is not, yet.
    Timer::Probe,
    Timer::Retransmit,
    Timer::Reorder,
    Timer::Persist,
    Timer::DelayedAck,
    Timer::CompressedAck,
    Timer::Keepalive,
    Timer::FinWait2,
    Timer::Pacing,
    Timer::Cork,
];

/// When each is due.
#[derive(Debug)]
pub(super) struct Deadlines {
    at: [Instant; TIMERS],
    /// The cork timer has fired and what it held back is still there.
    cork_fired: bool,
}
weft_core::fields!(struct Deadlines { at, cork_fired });

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { at: [Instant::FAR_FUTURE; TIMERS], cork_fired: false }
    }
}

impl Deadlines {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = at;
    }
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = self.at[timer as usize].min(at);
    }
    pub(super) fn set_if_unset(&mut self, timer: Timer, at: Instant) {
        if !self.is_set(timer) {
            self.set(timer, at);
        }
    }
    pub(super) fn cancel(&mut self, timer: Timer) {
        self.at[timer as usize] = Instant::FAR_FUTURE;
        if timer == Timer::Cork {
            self.cork_fired = false;
        }
    }
    pub(super) fn cancel_all(&mut self) {
        *self = Deadlines::default();
    }
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.at[timer as usize] != Instant::FAR_FUTURE
    }
    pub(super) fn at(&self, timer: Timer) -> Instant {
        self.at[timer as usize]
    }
    /// What it held back is still there.
    pub(super) fn note_cork(&mut self) {
        self.cork_fired = true;
    }
    pub(super) fn cork_has_fired(&self) -> bool {
        self.cork_fired
    }
    pub(super) fn next(&self) -> Instant {
        self.at.iter().copied().min().unwrap_or(Instant::FAR_FUTURE)
    }
}
