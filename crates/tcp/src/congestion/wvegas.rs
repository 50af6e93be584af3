//! wVegas, weighted Vegas (Cao, Xu, Fu, "Delay-based Congestion Control for Multipath TCP", ICNP 2012): each connection of a group keeps some bytes in the
//! queues of its path, and its share of what the group may keep there follows its share of the rate. Losses are Reno's.

use super::episode::Episode;
use super::{AckSample, CongestionControl, CongestionEvent, Window, initial_window_bytes};
use weft_core::state::{Damage, Reader, Writer};
use weft_core::{Duration, Instant, Sibling};

/// Segments that the group keeps in queues, and each connection at least.
const TOTAL_SEGMENTS: f64 = 10.0;
const OWN_SEGMENTS_MIN: f64 = 2.0;
/// Slow start ends with so many segments in queues.
const SLOW_START_SEGMENTS: f64 = 1.0;

/// The algorithm.
#[derive(Clone, Debug, Default)]
pub struct WVegas {
    episode: Episode,
    siblings: Vec<Sibling>,
    /// The shortest round trip so far.
    base_rtt: Duration,
    /// The shortest of this round trip, and how many were measured in it.
    round_rtt: Duration,
    measured: u32,
    /// The shortest time that queues took since the window was last cut for them.
    queue_delay: Duration,
    /// Bytes acknowledged that have not made the window grow.
    acked_bytes: u32,
}
weft_core::fields!(struct WVegas { episode, siblings, base_rtt, round_rtt, measured, queue_delay, acked_bytes });

impl WVegas {
    /// A fresh instance.
    pub fn new() -> WVegas {
        WVegas::default()
    }

    /// Segments that it keeps in queues: its share.
    fn share_segments(&self, rate: f64) -> f64 {
        let rate_of = |sibling: &Sibling| f64::from(sibling.cwnd_bytes) / sibling.rtt.as_secs_f64().max(1e-6);
        let others: f64 = self.siblings.iter().filter(|sibling| !sibling.rtt.is_zero()).map(rate_of).sum();
        (TOTAL_SEGMENTS * rate / (rate + others)).max(OWN_SEGMENTS_MIN)
    }

    /// A round trip is over, in which enough was measured.
    fn round(&mut self, w: &mut Window) {
        let (rtt, base, mss) = (self.round_rtt.as_secs_f64(), self.base_rtt.as_secs_f64(), f64::from(w.segment_bytes()));
        let cwnd = f64::from(w.cwnd_bytes);
        // "target": what the path holds without queues; the rest waits in them.
        let target = cwnd * base / rtt;
        let queued_segments = (cwnd - target) / mss;
        if w.in_slow_start() {
            if queued_segments > SLOW_START_SEGMENTS {
                w.set_cwnd((target + mss).min(cwnd) as u64);
                w.set_ssthresh((f64::from(w.cwnd_bytes) - mss) as u64);
            }
            return;
        }
        let wanted = self.share_segments(cwnd / rtt);
        let next = if queued_segments > wanted { cwnd - mss } else { cwnd + mss };
        w.set_cwnd(next.max(2.0 * mss) as u64);
        self.drain(w);
        let floor = (f64::from(w.cwnd_bytes) - mss).max(0.0) as u64;
        w.set_ssthresh(floor);
    }

    /// Queues that have doubled are let run empty once, so that the shortest round trip is seen again.
    fn drain(&mut self, w: &mut Window) {
        let delay = self.round_rtt.saturating_sub(self.base_rtt);
        if self.queue_delay.is_zero() || delay < self.queue_delay {
            self.queue_delay = delay;
        }
        if delay >= self.queue_delay * 2 && !delay.is_zero() {
            let part = 0.5 * self.base_rtt.as_secs_f64() / self.round_rtt.as_secs_f64();
            w.set_cwnd((f64::from(w.cwnd_bytes) * (1.0 - part)).max(2.0 * f64::from(w.segment_bytes())) as u64);
            self.queue_delay = Duration::ZERO;
        }
    }
}

impl CongestionControl for WVegas {
    fn name(&self) -> &'static str {
        "wvegas"
    }

    fn init(&mut self, w: &mut Window, _now: Instant) {
        *self = WVegas { siblings: std::mem::take(&mut self.siblings), ..WVegas::new() };
        w.ssthresh_bytes = u32::MAX;
        w.set_cwnd(u64::from(initial_window_bytes(w.mss, 0)));
    }

    fn on_ack(&mut self, ack: &AckSample, w: &mut Window) {
        self.episode.on_ack(ack);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            self.base_rtt = if self.base_rtt.is_zero() { rtt } else { self.base_rtt.min(rtt) };
            self.round_rtt = if self.measured == 0 { rtt } else { self.round_rtt.min(rtt) };
            self.measured = self.measured.saturating_add(1);
        }
        if ack.in_recovery || ack.newly_acked_bytes == 0 {
            return;
        }
        if ack.round_start {
            // As Vegas: a round trip of one or two acknowledgments may have had only delayed ones.
            if self.measured > 2 && ack.cwnd_limited {
                self.round(w);
            }
            self.measured = 0;
        }
        if !ack.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            w.slow_start(ack.newly_delivered_bytes());
        } else if self.base_rtt.is_zero() {
            self.acked_bytes = self.acked_bytes.saturating_add(ack.newly_delivered_bytes());
            if self.acked_bytes >= w.cwnd_bytes {
                self.acked_bytes = 0;
                w.set_cwnd(u64::from(w.cwnd_bytes) + u64::from(w.segment_bytes()));
            }
        }
    }

    fn on_event(&mut self, _now: Instant, event: CongestionEvent, _in_flight_bytes: u32, w: &mut Window) {
        if event.is_congestion() {
            self.acked_bytes = 0;
        }
        self.episode.on_event(event, u64::from(w.cwnd_bytes / 2), w);
    }

    fn pacing_rate_bytes_per_s(&self, _w: &Window, _srtt: Duration) -> Option<u64> {
        None
    }

    fn is_coupled(&self) -> bool {
        true
    }

    fn learn_siblings(&mut self, siblings: &[Sibling]) {
        self.siblings = siblings.to_vec();
    }

    fn info(&self) -> Vec<(&'static str, u64)> {
        vec![("siblings", self.siblings.len() as u64), ("base_rtt_us", self.base_rtt.as_micros() as u64)]
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
