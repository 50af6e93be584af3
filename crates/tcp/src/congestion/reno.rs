//! Reno: slow start, congestion avoidance and halving (RFC 5681), with NewReno's end of recovery (RFC 6582) and counting of bytes (RFC
//! 3465) as Linux does it. What is retransmitted in recovery is the connection's business.

use super::episode::Episode;
use super::{AckSample, CongestionControl, CongestionEvent, Window, initial_window_bytes};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant};

/// The algorithm of RFC 5681 and RFC 6582.
#[derive(Clone, Debug, Default)]
pub struct Reno {
    episode: Episode,
    /// Bytes acknowledged in congestion avoidance that have not yet made the window grow.
    acked_bytes: u32,
}
weft_core::fields!(struct Reno { episode, acked_bytes });

impl Reno {
    /// A fresh instance.
    pub fn new() -> Reno {
        Reno::default()
    }

    /// RFC 5681 §3.1: "During congestion avoidance, cwnd is incremented by roughly 1 full-sized segment per round-trip time (RTT)."
    ///
    /// RFC 3465 §2.1 counts bytes: one segment more for each `cwnd` bytes acknowledged.
    fn avoid_congestion(&mut self, acked_bytes: u32, w: &mut Window) {
        let cwnd_bytes = w.cwnd_bytes.max(1);
        // What was counted against a larger window is worth one segment at most (as Linux).
        self.acked_bytes = self.acked_bytes.min(cwnd_bytes).saturating_add(acked_bytes);
        let steps = self.acked_bytes / cwnd_bytes;
        self.acked_bytes %= cwnd_bytes;
        w.set_cwnd(u64::from(w.cwnd_bytes) + u64::from(steps) * u64::from(w.segment_bytes()));
    }

    /// RFC 5681 §3.1 eq. 4: "ssthresh = max (FlightSize / 2, 2*SMSS)".
    ///
    /// Linux halves `cwnd` instead of FlightSize; since `cwnd` does not grow while it is not used up, both stay close.
    fn halve(&mut self, w: &mut Window) {
        self.acked_bytes = 0;
        w.set_ssthresh(u64::from(w.cwnd_bytes / 2));
    }
}

impl CongestionControl for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn init(&mut self, w: &mut Window, _now: Instant) {
        *self = Reno::new();
        w.ssthresh_bytes = u32::MAX;
        w.set_cwnd(u64::from(initial_window_bytes(w.mss, 0)));
    }

    fn on_ack(&mut self, ack: &AckSample, w: &mut Window) {
        self.episode.on_ack(ack);
        // RFC 7661 and Linux agree: a window that was not used up says nothing about the path, so it does not grow.
        if ack.in_recovery || !ack.cwnd_limited || ack.newly_acked_bytes == 0 {
            return;
        }
        let mut acked_bytes = ack.newly_delivered_bytes();
        if w.in_slow_start() {
            acked_bytes = w.slow_start(acked_bytes);
        }
        if acked_bytes > 0 && !w.in_slow_start() {
            self.avoid_congestion(acked_bytes, w);
        }
    }

    fn on_event(&mut self, _now: Instant, event: CongestionEvent, _in_flight_bytes: u32, w: &mut Window) {
        match event {
            CongestionEvent::Loss => {
                self.episode.loss(w);
                self.halve(w);
                w.set_cwnd(u64::from(w.ssthresh_bytes));
            }
            // RFC 3168 §6.1.2: "the indication of congestion should be treated just as a congestion loss in non-ECN-Capable TCP."
            CongestionEvent::Ecn => {
                self.episode.ecn();
                self.halve(w);
                w.set_cwnd(u64::from(w.ssthresh_bytes));
            }
            CongestionEvent::Timeout => {
                if self.episode.timeout(w) {
                    self.halve(w);
                }
                self.acked_bytes = 0;
                // RFC 5681 §3.1: "upon a timeout (as specified in [RFC2988]) cwnd MUST be set to no more than the loss window, LW, which
                // equals 1 full-sized segment (regardless of the value of IW)."
                w.set_cwnd(u64::from(w.segment_bytes()));
            }
            CongestionEvent::Idle(idle) => self.episode.idle(idle, w),
            CongestionEvent::Undo => {
                self.episode.undo(w);
            }
            CongestionEvent::RecoveryDone => self.episode.done(w),
            CongestionEvent::Restart { .. } => {}
        }
    }

    fn pacing_rate_bytes_per_s(&self, _w: &Window, _srtt: Duration) -> Option<u64> {
        None
    }

    fn info(&self) -> Vec<(&'static str, u64)> {
        vec![("acked_bytes", self.acked_bytes.into())]
    }

    fn export(&self, out: &mut Writer) {
        out.put(self);
    }

    fn import(&mut self, from: &mut Reader<'_>) -> Result<(), Damage> {
        *self = from.take()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
