//! Pacing: spreading a window over a round-trip time, and sizing large frames by it.
//!
//! A [`Pacer`] keeps the earliest departure time of the next frame; it is not a token bucket that fills while the sender is silent, so a
//! pause earns half a frame of credit at most. It arms no timer: the connection asks [`Pacer::next_send_at`].
//!
//! Pacing is useful when the control asks for a rate (BBR), when the program sets `SO_MAX_PACING_RATE`, and after idle with a large window.
//! A window-based control on a path whose ACKs arrive smoothly is clocked by them; Linux does not pace it without the `fq` qdisc, and
//! neither does this stack. The default rate is computed all the same: it sizes frames and bounds what waits below TCP.

use serde::{Deserialize, Serialize};
use weft_core::{Duration, Instant};

use crate::congestion::Window;

/// Percent of cwnd/srtt in the first half of slow start; Linux's `tcp_pacing_ss_ratio`.
pub const SLOW_START_PERCENT: u64 = 200;
/// Percent of cwnd/srtt otherwise; Linux's `tcp_pacing_ca_ratio`.
pub const CONGESTION_AVOIDANCE_PERCENT: u64 = 120;
/// "No limit" for `SO_MAX_PACING_RATE`.
pub const RATE_UNLIMITED: u64 = u64::MAX;
/// A frame should carry `1/2^10` s, about a millisecond, of the rate; Linux's `sk_pacing_shift`.
pub const FRAME_RATE_SHIFT: u32 = 10;
/// Below a minimum RTT of 2^9 µs frames may be larger, in the proportion of the RTT; Linux's `tcp_tso_rtt_log`.
pub const FRAME_RTT_LOG2_US: u32 = 9;
/// A large frame has at least this many segments; Linux's `tcp_min_tso_segs`.
pub const FRAME_SEGMENTS_MIN: u32 = 2;
/// So many segments after the start of a connection leave unpaced (Linux: the initial window).
pub const UNPACED_SEGMENTS: u32 = crate::congestion::INITIAL_WINDOW_SEGMENTS;

/// The rate in bytes per second that suits a window-based control: cwnd/srtt × 2 while `cwnd < ssthresh/2`, so that slow start may double,
/// and × 1.2 after, so that pacing never is the bottleneck; at most `max_bytes_per_s`. `in_flight_bytes` counts when it exceeds the window.
/// Without an RTT ([`Duration::ZERO`]) the rate is the bound.
pub fn default_rate_bytes_per_s(w: &Window, in_flight_bytes: u32, srtt: Duration, max_bytes_per_s: u64) -> u64 {
    let srtt_ns = srtt.as_nanos();
    if srtt_ns == 0 {
        return max_bytes_per_s;
    }
    let percent = if w.cwnd_bytes < w.ssthresh_bytes / 2 { SLOW_START_PERCENT } else { CONGESTION_AVOIDANCE_PERCENT };
    let window_bytes = w.cwnd_bytes.max(in_flight_bytes);
    let rate = u128::from(window_bytes) * u128::from(percent) * 10_000_000 / srtt_ns;
    u64::try_from(rate).unwrap_or(u64::MAX).max(1).min(max_bytes_per_s)
}

/// Size of a large frame in bytes, a whole number of segments: about a millisecond of the rate, more on a very short path, at least
/// `segments_min` segments (mostly [`FRAME_SEGMENTS_MIN`]), at most `gso_bytes_max` (but one segment). `min_rtt` zero: unknown.
pub fn frame_bytes(rate_bytes_per_s: u64, mss: u32, segments_min: u32, gso_bytes_max: u32, min_rtt: Duration) -> u32 {
    let mss = mss.max(1);
    let by_rate = u32::try_from(rate_bytes_per_s >> FRAME_RATE_SHIFT).unwrap_or(u32::MAX);
    // Linux takes an unknown RTT as the longest one.
    let by_rtt = if min_rtt.is_zero() {
        0
    } else {
        let shift = u32::try_from(min_rtt.as_micros() >> FRAME_RTT_LOG2_US).unwrap_or(u32::MAX);
        gso_bytes_max.checked_shr(shift).unwrap_or(0)
    };
    let segments_max = (gso_bytes_max / mss).max(1);
    let segments = (by_rate.saturating_add(by_rtt).min(gso_bytes_max) / mss).max(segments_min).min(segments_max);
    segments.saturating_mul(mss)
}

/// Bytes of one connection that may wait below TCP (in the node's queue and the device): two frames, or a millisecond of the rate if that
/// is more, at most `bytes_max`. Linux's small queues.
pub fn queued_below_bytes(rate_bytes_per_s: u64, frame_bytes: u32, bytes_max: u32) -> u32 {
    let by_rate = u32::try_from(rate_bytes_per_s >> FRAME_RATE_SHIFT).unwrap_or(u32::MAX);
    by_rate.max(frame_bytes.saturating_mul(2)).min(bytes_max)
}

/// When the next frame may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pacer {
    next_send_at: Instant,
    sent_segments: u32,
}
weft_core::fields!(struct Pacer { next_send_at, sent_segments });

impl Pacer {
    /// A pacer that has sent nothing.
    pub fn new() -> Pacer {
        Pacer::default()
    }

    /// Whether a frame may leave at `now`. One frame of any size may: [`frame_bytes`] is the burst.
    pub fn ready(&self, now: Instant) -> bool {
        now >= self.next_send_at
    }

    /// When [`Pacer::ready`] becomes true: for the connection's timer.
    pub fn next_send_at(&self) -> Instant {
        self.next_send_at
    }

    /// A frame of `bytes` payload bytes in `segments` segments was sent at `now`, while the rate was `rate_bytes_per_s` (0 or
    /// [`RATE_UNLIMITED`]: not paced).
    ///
    /// The next one may leave a frame's serialisation time later. A sender that comes late (a timer is never exact) gets back as much time
    /// as it was late, up to half of the frame's own.
    pub fn sent(&mut self, now: Instant, bytes: u32, segments: u32, rate_bytes_per_s: u64) {
        let due = self.next_send_at;
        self.next_send_at = due.max(now);
        let started = self.sent_segments >= UNPACED_SEGMENTS;
        self.sent_segments = self.sent_segments.saturating_add(segments);
        if rate_bytes_per_s == 0 || rate_bytes_per_s == RATE_UNLIMITED || !started {
            return;
        }
        let frame_ns = u64::from(bytes).saturating_mul(1_000_000_000) / rate_bytes_per_s;
        let late_ns = u64::try_from(now.since(due).as_nanos()).unwrap_or(u64::MAX);
        self.next_send_at += Duration::from_nanos(frame_ns - late_ns.min(frame_ns / 2));
    }
}

#[cfg(test)]
mod tests;
