//! Round-trip time and retransmission timeout (RFC 6298), with Linux's refinements.
//!
//! The estimator takes *valid* samples only. Karn's rule is the caller's: no sample from a segment that was retransmitted, unless
//! timestamps tell the transmissions apart (RFC 7323 §4). With timestamps or SACK every ACK gives a sample; the gains of RFC 6298 are kept
//! (as Linux, against RFC 7323 appendix G), but the deviation is taken per round trip: inside one it only rises, and after one without a
//! large deviation it sinks by a quarter of the difference. One burst of equal samples can therefore not talk the timeout down.
//!
//! RFC 8961's requirements for a loss timer are met: conservative start (§4 (1)), continual samples (2), exponential backoff (3), and every
//! expiry is a congestion event (4, the connection's).
//!
//! Times are nanoseconds; Linux counts microseconds and rounds its timer to jiffies.

use serde::{Deserialize, Serialize};
use weft_core::{Duration, Instant};
use weft_wire::tcp::Seq;

/// Linux's default for `tcp_rto_min_us` and `RTAX_RTO_MIN`: the smallest distance of the timeout from the smoothed RTT.
///
/// RFC 6298 §2.4 wants a whole second; with a second, every tail loss costs five times as much (docs/rfc/6298.md).
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// RFC 6298 §2.5: "A maximum value MAY be placed on RTO provided it is at least 60 seconds." Linux's `TCP_RTO_MAX`.
pub const RTO_MAX: Duration = Duration::from_secs(120);
/// RFC 6298 §2.1: "the sender SHOULD set RTO <- 1 second".
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// RFC 6298 §5.7: "If the timer expires awaiting the ACK of a SYN segment and the TCP implementation is using an RTO less than 3 seconds,
/// the RTO MUST be re-initialized to 3 seconds when data transmission begins".
pub const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// Window of the minimum filter; Linux's `tcp_min_rtt_wlen`.
pub const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// Samples are clamped to this, so that no sum overflows: 18 minutes.
const SAMPLE_NS_MAX: u64 = 1 << 40;

/// Bounds of the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RtoBounds {
    /// Smallest distance of the timeout from the smoothed RTT (not of the timeout from zero).
    pub min: Duration,
    /// Largest timeout, backed off or not.
    pub max: Duration,
    /// Timeout before the first sample.
    pub initial: Duration,
}
weft_core::fields!(struct RtoBounds { min, max, initial });

impl Default for RtoBounds {
    fn default() -> RtoBounds {
        RtoBounds { min: RTO_MIN, max: RTO_MAX, initial: RTO_INITIAL }
    }
}

/// The estimator of one connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RttEstimator {
    bounds: RtoBounds,
    /// Eight times SRTT in ns; 0 before the first sample.
    srtt_x8_ns: u64,
    /// Four times the mean deviation in ns, smoothed per sample.
    deviation_x4_ns: u64,
    /// Largest `deviation_x4_ns` of this round trip, at least `bounds.min`.
    round_deviation_x4_ns: u64,
    /// Four times RTTVAR in ns: what is added to SRTT. Smoothed per round trip.
    rttvar_x4_ns: u64,
    /// The round trip ends when `snd_una` passes this.
    round_end: u32,
    /// Timeout before a sample exists.
    unmeasured_rto: Duration,
    /// Doublings since the last valid sample or progress.
    backoffs: u32,
    min_rtt: MinFilter,
    latest_ns: u64,
}
weft_core::fields!(struct RttEstimator {
    bounds, srtt_x8_ns, deviation_x4_ns, round_deviation_x4_ns, rttvar_x4_ns, round_end, unmeasured_rto, backoffs, min_rtt, latest_ns,
});

impl Default for RttEstimator {
    fn default() -> RttEstimator {
        RttEstimator::new(RtoBounds::default())
    }
}

impl RttEstimator {
    /// An estimator without a sample.
    pub fn new(bounds: RtoBounds) -> RttEstimator {
        RttEstimator {
            bounds,
            srtt_x8_ns: 0,
            deviation_x4_ns: 0,
            round_deviation_x4_ns: 0,
            rttvar_x4_ns: 0,
            round_end: 0,
            unmeasured_rto: bounds.initial,
            backoffs: 0,
            min_rtt: MinFilter::default(),
            latest_ns: 0,
        }
    }

    /// A valid sample: `rtt` measured at `now` by an ACK after which the connection stands at `snd_una` and `snd_nxt`. Ends any backoff.
    ///
    /// `maybe_delayed`: the ACK may have waited for the peer's delayed-ACK timer (one segment acknowledged, no SACK); such a sample counts
    /// for the timeout, but must not raise the minimum when an older one leaves the window.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration, snd_una: Seq, snd_nxt: Seq, maybe_delayed: bool) {
        let sample_ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).clamp(1, SAMPLE_NS_MAX);
        self.latest_ns = sample_ns;
        self.on_delay(now, rtt, maybe_delayed);
        if self.srtt_x8_ns == 0 {
            self.first_sample(sample_ns, snd_nxt);
        } else {
            self.next_sample(sample_ns, snd_una, snd_nxt);
        }
        self.backoffs = 0;
    }

    /// A round trip that is for the minimum only: an ACK of many segments measures the first one for the timeout, and the last one for this
    /// (tcp_update_rtt_min).
    pub fn on_delay(&mut self, now: Instant, rtt: Duration, maybe_delayed: bool) {
        let sample_ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX).clamp(1, SAMPLE_NS_MAX);
        if !(maybe_delayed && self.min_rtt.get().is_some_and(|minimum_ns| sample_ns > minimum_ns)) {
            self.min_rtt.update(now, sample_ns);
        }
    }

    /// RFC 6298 §2.2: "SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max (G, K*RTTVAR)".
    fn first_sample(&mut self, sample_ns: u64, snd_nxt: Seq) {
        self.srtt_x8_ns = sample_ns * 8;
        self.deviation_x4_ns = sample_ns * 2;
        self.rttvar_x4_ns = self.deviation_x4_ns.max(self.min_ns());
        self.round_deviation_x4_ns = self.rttvar_x4_ns;
        self.round_end = snd_nxt.0;
    }

    /// RFC 6298 §2.3: "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|", "SRTT <- (1 - alpha) * SRTT + alpha * R'".
    ///
    /// "The above SHOULD be computed using alpha=1/8 and beta=1/4". Two departures, both Linux's: a sample far *below* the mean raises the
    /// deviation by an eighth of its share only (a queue that drains is no reason to wait longer), and RTTVAR follows the largest
    /// deviation of a round trip instead of every sample.
    fn next_sample(&mut self, sample_ns: u64, snd_una: Seq, snd_nxt: Seq) {
        let srtt_ns = self.srtt_x8_ns / 8;
        let faster = sample_ns < srtt_ns;
        let error_ns = sample_ns.abs_diff(srtt_ns);
        self.srtt_x8_ns = if faster { self.srtt_x8_ns.saturating_sub(error_ns) } else { self.srtt_x8_ns + error_ns }.max(1);

        let mean_ns = self.deviation_x4_ns / 4;
        if error_ns >= mean_ns {
            let rise_ns = error_ns - mean_ns;
            self.deviation_x4_ns += if faster { rise_ns / 8 } else { rise_ns };
        } else {
            self.deviation_x4_ns -= mean_ns - error_ns;
        }

        self.round_deviation_x4_ns = self.round_deviation_x4_ns.max(self.deviation_x4_ns);
        self.rttvar_x4_ns = self.rttvar_x4_ns.max(self.round_deviation_x4_ns);
        if snd_una.gt(Seq(self.round_end)) {
            let excess_ns = self.rttvar_x4_ns - self.round_deviation_x4_ns;
            self.rttvar_x4_ns -= excess_ns.div_ceil(4);
            self.round_end = snd_nxt.0;
            self.round_deviation_x4_ns = self.min_ns();
        }
    }

    /// The retransmission timeout, backed off.
    ///
    /// RFC 6298 §2.3: "RTO <- SRTT + max (G, K*RTTVAR)". The floor is on the second summand.
    pub fn rto(&self) -> Duration {
        let unbacked = self.base_rto();
        let factor = 1u32.checked_shl(self.backoffs.min(31)).unwrap_or(1 << 31);
        unbacked.saturating_mul(factor).min(self.bounds.max)
    }

    /// The retransmission timeout without backoff (Linux's `tcp_rto` of a fresh computation).
    pub fn base_rto(&self) -> Duration {
        if self.srtt_x8_ns == 0 {
            return self.unmeasured_rto.min(self.bounds.max);
        }
        let deviation_ns = self.rttvar_x4_ns.max(self.min_ns());
        Duration::from_nanos((self.srtt_x8_ns / 8).saturating_add(deviation_ns)).min(self.bounds.max)
    }

    /// The timer expired. RFC 6298 §5.5: "The host MUST set RTO <- RTO * 2 (\"back off the timer\")."
    pub fn back_off(&mut self) {
        self.backoffs = self.backoffs.saturating_add(1);
    }

    /// Ends the backoff without a sample: new data was acknowledged (Linux does so on any forward progress), or the backoff was undone.
    pub fn reset_backoff(&mut self) {
        self.backoffs = 0;
    }

    /// Doublings in force.
    pub fn backoffs(&self) -> u32 {
        self.backoffs
    }

    /// The handshake gave no valid sample because a SYN was sent again: three seconds until there is one ([`RTO_AFTER_LOST_SYN`]).
    pub fn handshake_without_sample(&mut self) {
        self.unmeasured_rto = self.unmeasured_rto.max(RTO_AFTER_LOST_SYN);
        self.backoffs = 0;
    }

    /// Changes the bounds, keeping what was measured (`TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS`).
    pub fn set_bounds(&mut self, bounds: RtoBounds) {
        self.bounds = bounds;
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt_x8_ns != 0).then(|| Duration::from_nanos(self.srtt_x8_ns / 8))
    }

    /// Mean deviation, smoothed per sample: what `tcp_info.tcpi_rttvar` shows. Zero before the first sample.
    pub fn mean_deviation(&self) -> Duration {
        Duration::from_nanos(self.deviation_x4_ns / 4)
    }

    /// RTTVAR as it enters the timeout: a quarter of what is added to SRTT.
    pub fn rttvar(&self) -> Duration {
        Duration::from_nanos(self.rttvar_x4_ns / 4)
    }

    /// Smallest sample of the last [`MIN_RTT_WINDOW`]; `None` before the first. The window moves with samples only: a silent connection
    /// keeps its minimum.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.get().map(Duration::from_nanos)
    }

    /// The last sample; `None` before the first.
    pub fn latest(&self) -> Option<Duration> {
        (self.latest_ns != 0).then(|| Duration::from_nanos(self.latest_ns))
    }

    fn min_ns(&self) -> u64 {
        u64::try_from(self.bounds.min.as_nanos()).unwrap_or(u64::MAX).min(SAMPLE_NS_MAX)
    }
}

/// The smallest value of the last [`MIN_RTT_WINDOW`] from three candidates (Nichols' estimator, as Linux): the best, the best after it, the
/// best after that. Constant memory; the answer is exact while the minimum is younger than a window, and close when it is forgotten.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct MinFilter {
    candidates: Option<[Candidate; 3]>,
}
weft_core::fields!(struct MinFilter { candidates });

/// A value and when it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Candidate {
    at: Instant,
    value_ns: u64,
}
weft_core::fields!(struct Candidate { at, value_ns });

impl MinFilter {
    fn get(&self) -> Option<u64> {
        self.candidates.map(|[best, _, _]| best.value_ns)
    }

    fn update(&mut self, now: Instant, value_ns: u64) {
        let sample = Candidate { at: now, value_ns };
        let Some([best, second, third]) = &mut self.candidates else {
            self.candidates = Some([sample; 3]);
            return;
        };
        if value_ns <= best.value_ns || now.since(third.at) > MIN_RTT_WINDOW {
            self.candidates = Some([sample; 3]);
            return;
        }
        if value_ns <= second.value_ns {
            (*second, *third) = (sample, sample);
        } else if value_ns <= third.value_ns {
            *third = sample;
        }
        let age = now.since(best.at);
        if age > MIN_RTT_WINDOW {
            (*best, *second, *third) = (*second, *third, sample);
            if now.since(best.at) > MIN_RTT_WINDOW {
                (*best, *second, *third) = (*second, *third, sample);
            }
        } else if second.at == best.at && age > MIN_RTT_WINDOW / 4 {
            // A quarter of the window without a second candidate: take one from now on.
            (*second, *third) = (sample, sample);
        } else if third.at == second.at && age > MIN_RTT_WINDOW / 2 {
            *third = sample;
        }
    }
}

#[cfg(test)]
mod tests;
