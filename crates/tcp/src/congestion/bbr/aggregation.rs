//! How acknowledgments are aggregated on the way.

use super::super::AckSample;
use weft_core::{Duration, Instant};

/// Each half of the window for aggregation lasts so many round trips.
const AGGREGATION_ROUNDS: u32 = 5;
/// No aggregation is larger than what this time delivers.
pub(super) const AGGREGATION_TIME_MAX: Duration = Duration::from_millis(100);
/// An epoch ends after so many segments, whatever the rate.
const EPOCH_SEGMENTS_MAX: u64 = 1 << 20;

/// How much more was acknowledged at once than the rate explains: Wi-Fi, GRO and delayed acknowledgments make bursts, between which the
/// window must not run dry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    since: Instant,
    acked: u64,
    /// Largest excess of this half and of the one before, bytes.
    extra: [u64; 2],
    half: u8,
    rounds: u32,
}
weft_core::fields!(struct Aggregation { since, acked, extra, half, rounds });

impl Aggregation {
    pub(super) fn restart(&mut self, now: Instant) {
        (self.since, self.acked) = (now, 0);
    }

    pub(super) fn extra_bytes(&self) -> u64 {
        self.extra[0].max(self.extra[1])
    }

    /// bbr_update_ack_aggregation.
    pub(super) fn on_ack(&mut self, ack: &AckSample, bandwidth: u64, round_start: bool, cwnd_bytes: u32) {
        let acked = u64::from(ack.newly_delivered_bytes());
        if acked == 0 || !ack.has_rate() {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= AGGREGATION_ROUNDS {
                self.rounds = 0;
                self.half ^= 1;
                self.extra[usize::from(self.half & 1)] = 0;
            }
        }
        let mut expected = bytes_in(bandwidth, ack.delivered_at.since(self.since));
        // The rate explains everything so far: a new epoch.
        if self.acked <= expected || self.acked + acked >= EPOCH_SEGMENTS_MAX * 1448 {
            self.restart(ack.delivered_at);
            expected = 0;
        }
        self.acked += acked;
        let extra = self.acked.saturating_sub(expected).min(cwnd_bytes.into());
        let kept = &mut self.extra[usize::from(self.half & 1)];
        *kept = (*kept).max(extra);
    }
}

/// Bytes that a rate carries in a time.
pub(super) fn bytes_in(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate).saturating_mul(time.as_nanos()) / 1_000_000_000).unwrap_or(u64::MAX)
}
