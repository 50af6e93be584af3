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
        let acked_bytes = self.episode.grow(ack, w);
        if acked_bytes > 0 {
            self.avoid_congestion(acked_bytes, w);
        }
    }

    /// RFC 5681 §3.1 eq. 4: "ssthresh = max (FlightSize / 2, 2*SMSS)".
    ///
    /// Linux halves `cwnd` instead of FlightSize; since `cwnd` does not grow while it is not used up, both stay close.
    fn on_event(&mut self, _now: Instant, event: CongestionEvent, _in_flight_bytes: u32, w: &mut Window) {
        if event.is_congestion() {
            self.acked_bytes = 0;
        }
        self.episode.on_event(event, u64::from(w.cwnd_bytes / 2), w);
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
