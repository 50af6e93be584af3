//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation, as Linux's tcp_rate.c): bytes delivered over the time they took.

use super::outstanding::Sent;
use weft_core::{Duration, Instant};

/// Running totals.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Bytes delivered, each once.
    pub bytes: u64,
    /// When that last changed.
    pub at: Instant,
    /// When the first segment of the present sample was sent.
    pub first_sent_at: Instant,
    /// The sender ran out of data when this much was delivered.
    pub app_limited: u64,
    /// Last measured rate, bytes per second, and whether the application limited it.
    pub rate: u64,
    pub rate_app_limited: bool,
    /// Delivered bytes at which the present round trip ends.
    pub round_end: u64,
    /// Segments delivered, for TCP_INFO.
    pub segments: u32,
}
weft_core::fields!(struct Delivery { bytes, at, first_sent_at, app_limited, rate, rate_app_limited, round_end, segments });

/// Of one acknowledgment: the segment sent last among those it delivered.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RateSample {
    newest: Option<(Instant, u64)>,
    pub prior_delivered: u64,
    prior_at: Instant,
    send_interval: Duration,
    first_sent_at: Instant,
    pub app_limited: bool,
}

impl RateSample {
    /// Notes a newly delivered segment.
    pub(super) fn note(&mut self, sent: &Sent) {
        let key = (sent.sent_at, sent.end());
        if self.newest.is_none_or(|newest| key > newest) {
            self.newest = Some(key);
            self.prior_delivered = sent.delivered;
            self.prior_at = sent.delivered_at;
            self.send_interval = sent.sent_at - sent.first_sent_at;
            self.first_sent_at = sent.sent_at;
            self.app_limited = sent.app_limited;
        }
    }
}

impl Delivery {
    pub(super) fn begin(&mut self, now: Instant) {
        self.at = now;
        self.first_sent_at = now;
    }

    /// `bytes` were delivered; gives the rate, if it can be told, and whether a new round trip began.
    pub(super) fn on_ack(&mut self, now: Instant, bytes: u64, min_rtt: Duration, sample: &RateSample) -> (u64, bool) {
        if bytes > 0 {
            self.bytes += bytes;
            self.at = now;
        }
        if self.app_limited > 0 && self.bytes > self.app_limited {
            self.app_limited = 0;
        }
        if sample.newest.is_none() {
            return (0, false);
        }
        self.first_sent_at = sample.first_sent_at;
        let round_start = sample.prior_delivered >= self.round_end;
        if round_start {
            self.round_end = self.bytes;
        }
        let interval = sample.send_interval.max(now - sample.prior_at);
        // Shorter than a round trip: acknowledgments were compressed, or the clock is too coarse.
        if interval.is_zero() || interval < min_rtt {
            return (0, round_start);
        }
        let delivered = self.bytes - sample.prior_delivered;
        let rate = (u128::from(delivered) * 1_000_000_000 / interval.as_nanos()).min(u128::from(u64::MAX)) as u64;
        if !sample.app_limited || rate >= self.rate {
            self.rate = rate;
            self.rate_app_limited = sample.app_limited;
        }
        (rate, round_start)
    }
}
