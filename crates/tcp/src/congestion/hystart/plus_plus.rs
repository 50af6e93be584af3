//! HyStart++ (RFC 9406): leaving the first slow start when the round-trip time rises, before the queue overflows.
//!
//! [`super::Classic`] ends slow start at once; this one goes over to *conservative slow start* first, and back to slow start when the rise was an accident.

use weft_core::Duration;
use weft_wire::tcp::Seq;

use crate::congestion::AckSample;

/// RFC 9406 §4.3: "MIN_RTT_THRESH = 4 msec".
pub const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// RFC 9406 §4.3: "MAX_RTT_THRESH = 16 msec".
pub const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// RFC 9406 §4.3: "MIN_RTT_DIVISOR = 8".
pub const MIN_RTT_DIVISOR: u32 = 8;
/// RFC 9406 §4.3: "N_RTT_SAMPLE = 8".
pub const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 §4.3: "CSS_GROWTH_DIVISOR = 4".
pub const CSS_GROWTH_DIVISOR: u32 = 4;
/// RFC 9406 §4.3: "CSS_ROUNDS = 5".
pub const CSS_ROUNDS: u32 = 5;

/// Where the algorithm is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Standard slow start.
    #[default]
    SlowStart,
    /// Conservative slow start: growth divided by [`CSS_GROWTH_DIVISOR`].
    Conservative,
    /// Slow start is over, for the rest of the connection.
    Done,
}
weft_core::fields!(
    enum Phase {
        SlowStart = 0,
        Conservative = 1,
        Done = 2,
    }
);

/// State of one connection.
#[derive(Clone, Debug, Default)]
pub struct HystartPlusPlus {
    phase: Phase,
    /// The round ends when this is acknowledged; `None` before the first ACK.
    window_end: Option<Seq>,
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    rtt_samples: u32,
    baseline_min: Option<Duration>,
    css_rounds: u32,
    /// Bytes acknowledged in CSS that the divisor has left over.
    css_rest_bytes: u32,
}
weft_core::fields!(struct HystartPlusPlus { phase, window_end, last_round_min, current_round_min, rtt_samples, baseline_min, css_rounds, css_rest_bytes });

impl HystartPlusPlus {
    /// Before the first round.
    pub fn new() -> HystartPlusPlus {
        HystartPlusPlus::default()
    }

    /// Where the algorithm is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// An ACK in the first slow start. Returns by how many bytes the window may grow; afterwards [`HystartPlusPlus::phase`] is `Done` when slow
    /// start should end with this ACK (the caller then sets `ssthresh` to `cwnd`).
    ///
    /// RFC 9406 §4.2 bounds growth per ACK by `L * SMSS`, with L = infinity for paced senders and 8 otherwise. L is infinite here, as in
    /// Linux: ACKs are stretched by the receiver's aggregation, and bursts are bounded where they arise
    /// (`crate::pacing::queued_below_bytes`).
    pub fn on_ack(&mut self, ack: &AckSample) -> u32 {
        let acked_bytes = ack.newly_delivered_bytes();
        if self.phase == Phase::Done {
            return acked_bytes;
        }
        let window_end = *self.window_end.get_or_insert(ack.snd_nxt);
        if let Some(rtt) = ack.rtt {
            self.current_round_min = Some(self.current_round_min.map_or(rtt, |minimum| minimum.min(rtt)));
            self.rtt_samples = self.rtt_samples.saturating_add(1);
        }
        let growth_bytes = match self.phase {
            Phase::Conservative => self.conservative_growth(acked_bytes),
            Phase::SlowStart | Phase::Done => acked_bytes,
        };
        if self.rtt_samples >= N_RTT_SAMPLE {
            self.judge();
        }
        if ack.snd_una.ge(window_end) {
            self.end_round(ack.snd_nxt);
        }
        growth_bytes
    }

    /// A loss, a timeout or ECN ends slow start. RFC 9406 §4.2: "If loss or ECN-marking is observed at any time during standard slow start
    /// or CSS, enter congestion avoidance by setting the ssthresh to the current cwnd." (What the window becomes is the control's
    /// reduction.)
    pub fn congestion(&mut self) {
        self.phase = Phase::Done;
    }

    /// RFC 9406 §4.2: "cwnd = cwnd + (min(N, L * SMSS) / CSS_GROWTH_DIVISOR)".
    fn conservative_growth(&mut self, acked_bytes: u32) -> u32 {
        let sum = u64::from(acked_bytes) + u64::from(self.css_rest_bytes);
        self.css_rest_bytes = (sum % u64::from(CSS_GROWTH_DIVISOR)) as u32;
        (sum / u64::from(CSS_GROWTH_DIVISOR)) as u32
    }

    fn judge(&mut self) {
        let Some(current) = self.current_round_min else { return };
        match self.phase {
            Phase::SlowStart => {
                let Some(last) = self.last_round_min else { return };
                // RFC 9406 §4.2: "RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))".
                let threshold = (last / MIN_RTT_DIVISOR).min(MAX_RTT_THRESH).max(MIN_RTT_THRESH);
                // "if (currentRoundMinRTT >= (lastRoundMinRTT + RttThresh)) cssBaselineMinRtt = currentRoundMinRTT; exit slow start and
                // enter CSS".
                if current >= last.saturating_add(threshold) {
                    self.baseline_min = Some(current);
                    self.phase = Phase::Conservative;
                    self.css_rounds = 0;
                    self.css_rest_bytes = 0;
                }
            }
            // RFC 9406 §4.2: "if (currentRoundMinRTT < cssBaselineMinRtt) cssBaselineMinRtt = infinity; resume slow start including
            // HyStart++".
            Phase::Conservative if self.baseline_min.is_some_and(|baseline| current < baseline) => {
                self.baseline_min = None;
                self.phase = Phase::SlowStart;
            }
            Phase::Conservative | Phase::Done => {}
        }
    }

    /// RFC 9406 §4.2: "lastRoundMinRTT = currentRoundMinRTT; currentRoundMinRTT = infinity; rttSampleCount = 0".
    ///
    /// "CSS lasts at most CSS_ROUNDS rounds. If the transition into CSS happens in the middle of a round, that partial round counts towards
    /// the limit."
    fn end_round(&mut self, snd_nxt: Seq) {
        self.window_end = Some(snd_nxt);
        self.last_round_min = self.current_round_min.take();
        self.rtt_samples = 0;
        if self.phase == Phase::Conservative {
            self.css_rounds += 1;
            // "If CSS_ROUNDS rounds are complete, enter congestion avoidance by setting the ssthresh to the current cwnd."
            if self.css_rounds >= CSS_ROUNDS {
                self.phase = Phase::Done;
            }
        }
    }
}

#[cfg(test)]
mod tests;
