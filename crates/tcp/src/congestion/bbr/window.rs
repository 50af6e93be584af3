//! What may be in flight: the product of bandwidth and delay with a gain, room for frames that are cut and acknowledgments that come in
//! bursts, and what recovery makes of it.

use super::super::{AckSample, INITIAL_WINDOW_SEGMENTS, Phase, Window};
use super::aggregation::{AGGREGATION_TIME_MAX, bytes_in};
use super::gain::UNIT;
use super::{Bbr, CYCLE, Mode, SEGMENTS_MIN};
use crate::pacing::FRAME_RATE_SHIFT;

/// Frames that may be under way beside the product: in the sender's queue, in its device, in the receiver's.
const FRAMES: u64 = 3;
/// Largest frame, bytes, and segments.
const FRAME_BYTES_MAX: u64 = 65_535 - 320;
const FRAME_SEGMENTS_MAX: u64 = 0x7f;
impl Bbr {
    /// Segments of a frame at the present pace.
    fn frame_segments(&self, mss: u64) -> u64 {
        let bytes = (self.pacing_rate >> FRAME_RATE_SHIFT).min(FRAME_BYTES_MAX);
        let least = u64::from(super::CongestionControl::frame_segments_min(self, self.pacing_rate));
        (bytes / mss).max(least).min(FRAME_SEGMENTS_MAX)
    }

    /// The product of a rate and the minimum round trip with a gain, in whole segments, as bytes.
    fn product(&self, rate: u64, gain: u64, mss: u64) -> u64 {
        if self.min_rtt.is_zero() {
            return u64::from(INITIAL_WINDOW_SEGMENTS) * mss;
        }
        let bytes = u128::from(rate).saturating_mul(self.min_rtt.as_nanos()).saturating_mul(gain.into()) / u128::from(UNIT) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX / 4).min(u64::MAX / 4).div_ceil(mss) * mss
    }

    /// With room for frames and an even number of segments, for receivers that acknowledge every second one (bbr_quantization_budget).
    fn with_budget(&self, bytes: u64, mss: u64) -> u64 {
        let mut segments = bytes.div_ceil(mss) + FRAMES * self.frame_segments(mss);
        segments = (segments + 1) & !1;
        if self.mode == Mode::ProbeBw && self.cycle_index == 0 {
            segments += 2;
        }
        segments * mss
    }

    /// Bytes that are to be in flight at a rate (bbr_inflight).
    pub(super) fn inflight(&self, rate: u64, gain: u64, mss: u64) -> u64 {
        self.with_budget(self.product(rate, gain, mss), mss)
    }

    /// What will be in the network when the next frame may leave: a part of what is there now is delivered by then.
    pub(super) fn in_net_at_departure(&self, in_flight: u64, ack: &AckSample, mss: u64) -> u64 {
        let until = ack.next_departure.since(ack.now);
        let delivered = bytes_in(self.bandwidth(), until);
        let more = if self.pacing_gain > UNIT { self.frame_segments(mss) * mss } else { 0 };
        (in_flight + more).saturating_sub(delivered)
    }

    /// Remembers the window before something makes it small on purpose (bbr_save_cwnd).
    pub(super) fn save_cwnd(&mut self, w: &Window) {
        let cwnd = u64::from(w.cwnd_bytes);
        let afresh = self.phase < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if afresh { cwnd } else { self.prior_cwnd.max(cwnd) };
    }

    fn aggregation_budget(&self) -> u64 {
        if !self.full {
            return 0;
        }
        self.aggregation.extra_bytes().min(bytes_in(self.bandwidth(), AGGREGATION_TIME_MAX))
    }

    /// bbr_set_cwnd_to_recover_or_restore: the window, and whether packets are conserved.
    fn recover_or_restore(&mut self, ack: &AckSample, w: &Window) -> (u64, bool) {
        let mss = u64::from(w.segment_bytes());
        let acked = u64::from(ack.newly_delivered_bytes());
        let conserved = u64::from(ack.in_flight_after_bytes) + acked;
        let mut cwnd = u64::from(w.cwnd_bytes);
        if ack.newly_lost_bytes > 0 {
            cwnd = cwnd.saturating_sub(ack.newly_lost_bytes.into()).max(mss);
        }
        if ack.phase == Phase::Recovery && self.phase != Phase::Recovery {
            // One round trip of packet conservation: one out for each that arrived.
            self.packet_conservation = true;
            self.round_end = ack.delivered_bytes;
            cwnd = conserved;
        } else if self.phase >= Phase::Recovery && ack.phase < Phase::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.phase = ack.phase;
        if self.packet_conservation { (cwnd.max(conserved), true) } else { (cwnd, false) }
    }

    /// bbr_set_cwnd.
    pub(super) fn set_cwnd(&mut self, ack: &AckSample, w: &mut Window) {
        let mss = u64::from(w.segment_bytes());
        let acked = u64::from(ack.newly_delivered_bytes());
        let least = SEGMENTS_MIN * mss;
        if acked > 0 {
            let (mut cwnd, conserving) = self.recover_or_restore(ack, w);
            if !conserving {
                let target = self.product(self.bandwidth(), self.cwnd_gain, mss) + self.aggregation_budget();
                let target = self.with_budget(target, mss);
                let young = ack.delivered_bytes < u64::from(INITIAL_WINDOW_SEGMENTS) * mss;
                if self.full {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || young {
                    cwnd += acked;
                }
                cwnd = cwnd.max(least);
            }
            w.set_cwnd(cwnd);
        }
        if self.mode == Mode::ProbeRtt {
            w.set_cwnd(u64::from(w.cwnd_bytes).min(least));
        }
        debug_assert!(usize::from(self.cycle_index) < CYCLE.len());
    }
}
