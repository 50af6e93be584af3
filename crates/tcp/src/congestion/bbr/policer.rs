//! Policers: a token bucket that drops what exceeds a rate lets a burst through first, so the maximum rate is too high for it, and the losses
//! never end. When two intervals of several round trips, each with a fifth of the data lost, delivered at about the same rate, that rate is
//! taken and kept for a while (Linux: "long-term bandwidth sampling").

use super::super::AckSample;
use super::gain::UNIT;
use weft_core::{Duration, Instant};

/// An interval has this many round trips at least …
const ROUNDS_MIN: u32 = 4;
/// … and, when it has not ended by loss after this many, was none.
const ROUNDS_MAX: u32 = 4 * ROUNDS_MIN;
/// Share of lost data that makes an interval count, in 1/256: 20 %.
const LOSS_THRESHOLD: u64 = 50;
/// Rates are the same when they differ by an eighth, …
const SAME_RATIO: u64 = UNIT / 8;
/// … or by 4 kbit/s.
const SAME_BYTES_PER_S: u64 = 4000 / 8;
/// The rate is kept for so many round trips of the cycle.
const KEPT_ROUNDS: u32 = 48;
/// Shorter intervals say nothing.
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// What an acknowledgment showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PolicerVerdict {
    Nothing,
    /// There is a policer.
    Found,
    /// Its rate was kept long enough: probe again.
    Expired,
}

/// The sampling of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    /// The rate is in use.
    in_use: bool,
    /// Rate of the last interval that counted, bytes per second; 0: none.
    rate: u64,
    sampling: bool,
    rounds: u32,
    /// Totals when the interval began.
    delivered: u64,
    lost: u64,
    at: Instant,
}
weft_core::fields!(struct Policer { in_use, rate, sampling, rounds, delivered, lost, at });

impl Policer {
    /// The policer's rate, when there is one.
    pub(super) fn rate(&self) -> Option<u64> {
        self.in_use.then_some(self.rate)
    }

    pub(super) fn reset(&mut self, ack: &AckSample) {
        self.forget(ack.delivered_bytes, ack.delivered_at, ack.lost_bytes);
    }

    /// Starts afresh from these totals.
    pub(super) fn forget(&mut self, delivered: u64, at: Instant, lost: u64) {
        *self = Policer { delivered, at, lost, ..Policer::default() };
    }

    fn begin_interval(&mut self, ack: &AckSample) {
        (self.delivered, self.lost, self.at, self.rounds) = (ack.delivered_bytes, ack.lost_bytes, ack.delivered_at, 0);
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample, round_start: bool, in_cycle: bool) -> PolicerVerdict {
        if self.in_use {
            self.rounds += u32::from(in_cycle && round_start);
            if in_cycle && round_start && self.rounds >= KEPT_ROUNDS {
                self.reset(ack);
                return PolicerVerdict::Expired;
            }
            return PolicerVerdict::Nothing;
        }
        let lossy = ack.newly_lost_bytes > 0;
        if !self.sampling {
            // It begins with a loss, so that the tokens of a policer are used up.
            if !lossy {
                return PolicerVerdict::Nothing;
            }
            self.begin_interval(ack);
            self.sampling = true;
        }
        if ack.sample_app_limited {
            self.reset(ack);
            return PolicerVerdict::Nothing;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < ROUNDS_MIN {
            return PolicerVerdict::Nothing;
        }
        if self.rounds > ROUNDS_MAX {
            self.reset(ack);
            return PolicerVerdict::Nothing;
        }
        // It ends with one, too.
        if lossy { self.end_interval(ack) } else { PolicerVerdict::Nothing }
    }

    fn end_interval(&mut self, ack: &AckSample) -> PolicerVerdict {
        let (lost, delivered) = (ack.lost_bytes.saturating_sub(self.lost), ack.delivered_bytes.saturating_sub(self.delivered));
        if delivered == 0 || lost.saturating_mul(UNIT) < LOSS_THRESHOLD.saturating_mul(delivered) {
            return PolicerVerdict::Nothing;
        }
        let time = ack.delivered_at.since(self.at);
        if time < INTERVAL_MIN {
            return PolicerVerdict::Nothing;
        }
        let rate = u64::try_from(u128::from(delivered) * 1_000_000_000 / time.as_nanos().max(1)).unwrap_or(u64::MAX);
        let difference = rate.abs_diff(self.rate);
        let same = difference.saturating_mul(UNIT) <= SAME_RATIO.saturating_mul(self.rate) || difference <= SAME_BYTES_PER_S;
        if self.rate > 0 && same {
            self.rate = rate / 2 + self.rate / 2;
            self.in_use = true;
            self.rounds = 0;
            return PolicerVerdict::Found;
        }
        self.rate = rate;
        self.begin_interval(ack);
        PolicerVerdict::Nothing
    }
}
