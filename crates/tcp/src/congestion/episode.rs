//! What a loss-based control remembers from a reduction until it is known to have been right: the values before it, and whether another
//! timeout may reduce again.

use super::{AckSample, CongestionEvent, Window, initial_window_bytes};
use crate::rtt::{RTO_INITIAL, RTO_MIN};
use weft_core::Duration;

/// How the present reduction began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// No reduction is under way.
    #[default]
    Open,
    /// Fast recovery or ECN: PRR is in charge.
    Reducing,
    /// After a timeout: slow start towards the threshold.
    Timeout,
}
weft_core::fields!(
    enum Phase {
        Open = 0,
        Reducing = 1,
        Timeout = 2,
    }
);

/// State shared by the loss-based controls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    phase: Phase,
    /// Timeouts since `snd_una` last moved.
    timeouts_in_a_row: u32,
    /// `cwnd` and `ssthresh` to go back to when the reduction turns out to be spurious.
    prior_bytes: Option<(u32, u32)>,
    /// Last smoothed round-trip time seen.
    srtt: Duration,
}
weft_core::fields!(struct Episode { phase, timeouts_in_a_row, prior_bytes, srtt });

impl Episode {
    /// Takes note of an ACK.
    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        if ack.newly_acked_bytes > 0 {
            self.timeouts_in_a_row = 0;
        }
        if !ack.srtt.is_zero() {
            self.srtt = ack.srtt;
        }
    }

    /// Takes note of an ACK, by which slow start grows. Returns the bytes that are left for congestion avoidance.
    pub(crate) fn grow(&mut self, ack: &AckSample, w: &mut Window) -> u32 {
        self.on_ack(ack);
        // RFC 7661 and Linux agree: a window that was not used up says nothing about the path, so it does not grow.
        if ack.in_recovery || !ack.cwnd_limited || ack.newly_acked_bytes == 0 {
            return 0;
        }
        let acked_bytes = ack.newly_delivered_bytes();
        let left_bytes = if w.in_slow_start() { w.slow_start(acked_bytes) } else { acked_bytes };
        if w.in_slow_start() { 0 } else { left_bytes }
    }

    /// What an event makes of the window, as Reno (RFC 5681, RFC 6582) but for the threshold: a reduction sets it to so many bytes. True where one has.
    pub(crate) fn on_event(&mut self, event: CongestionEvent, threshold_bytes: u64, w: &mut Window) -> bool {
        let reduces = match event {
            CongestionEvent::Loss => {
                self.loss(w);
                true
            }
            // RFC 3168 §6.1.2: "the indication of congestion should be treated just as a congestion loss in non-ECN-Capable TCP."
            CongestionEvent::Ecn => {
                self.ecn();
                true
            }
            CongestionEvent::Timeout => self.timeout(w),
            CongestionEvent::Idle(idle) => {
                self.idle(idle, w);
                return false;
            }
            CongestionEvent::Undo => {
                self.undo(w);
                return false;
            }
            CongestionEvent::RecoveryDone => {
                self.done(w);
                return false;
            }
            CongestionEvent::Restart { .. } => return false,
        };
        if reduces {
            w.set_ssthresh(threshold_bytes);
        }
        // RFC 5681 §3.1: "upon a timeout (as specified in [RFC2988]) cwnd MUST be set to no more than the loss window, LW, which equals 1 full-sized
        // segment (regardless of the value of IW)."
        w.set_cwnd(u64::from(if event == CongestionEvent::Timeout { w.segment_bytes() } else { w.ssthresh_bytes }));
        reduces
    }

    /// A loss begins fast recovery: what was before may be restored.
    pub(crate) fn loss(&mut self, w: &Window) {
        self.phase = Phase::Reducing;
        self.prior_bytes = Some((w.cwnd_bytes, w.ssthresh_bytes));
    }

    /// ECN begins a reduction, which is never spurious.
    pub(crate) fn ecn(&mut self) {
        self.phase = Phase::Reducing;
        self.prior_bytes = None;
    }

    /// A timeout. True when the threshold is to be reduced: not when the same segment timed out before, nor inside a fast recovery, which
    /// has reduced already (as Linux).
    ///
    /// RFC 5681 §3.1: "On the other hand, when a TCP sender detects segment loss using the retransmission timer and the given segment has
    /// already been retransmitted by way of the retransmission timer at least once, the value of ssthresh is held constant."
    pub(crate) fn timeout(&mut self, w: &Window) -> bool {
        let reduces = self.timeouts_in_a_row == 0 && self.phase != Phase::Reducing;
        self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
        self.phase = Phase::Timeout;
        if reduces {
            self.prior_bytes = Some((w.cwnd_bytes, w.ssthresh_bytes));
        }
        reduces
    }

    /// The end of recovery. RFC 6582 §3.2 step 3 (full acknowledgments): "Set cwnd to either (1) min (ssthresh, max(FlightSize,
    /// SMSS) + SMSS) or (2) ssthresh"; this is the second. After a timeout the
    /// window stays where slow start has brought it.
    pub(crate) fn done(&mut self, w: &mut Window) {
        if self.phase == Phase::Reducing && w.ssthresh_bytes != u32::MAX {
            w.set_cwnd(u64::from(w.ssthresh_bytes));
        }
        self.phase = Phase::Open;
        // What was before stays: a DSACK often comes just after the end of the recovery that it shows to have been spurious.
        self.timeouts_in_a_row = 0;
    }

    /// The reduction was spurious: back to the larger of now and before, for both values. True when the window was still below its old
    /// size, so that what goes with it is to be restored too.
    pub(crate) fn undo(&mut self, w: &mut Window) -> bool {
        self.phase = Phase::Open;
        self.timeouts_in_a_row = 0;
        let Some((cwnd_bytes, ssthresh_bytes)) = self.prior_bytes.take() else { return false };
        let smaller = w.cwnd_bytes < cwnd_bytes;
        w.set_cwnd(u64::from(w.cwnd_bytes.max(cwnd_bytes)));
        w.ssthresh_bytes = w.ssthresh_bytes.max(ssthresh_bytes);
        smaller
    }

    /// Restart after a pause of `idle`.
    ///
    /// RFC 5681 §4.1: "a TCP SHOULD set cwnd to no more than RW before beginning transmission if the TCP has not sent data in an interval
    /// exceeding the retransmission timeout." Linux approaches the restart window by halving once per RTO, and remembers three quarters of
    /// the old window as threshold, so that slow start leads back (RFC 2861 §3).
    ///
    /// The RTO is taken as `srtt + 200 ms`, its smallest value; a caller that reports pauses beyond its own RTO only is never contradicted.
    pub(crate) fn idle(&self, idle: Duration, w: &mut Window) {
        let rto = if self.srtt.is_zero() { RTO_INITIAL } else { self.srtt.saturating_add(RTO_MIN) };
        if idle <= rto {
            return;
        }
        // RFC 5681 §4.1: "RW = min(IW, cwnd)".
        let restart_bytes = initial_window_bytes(w.mss, 0).min(w.cwnd_bytes);
        if w.ssthresh_bytes != u32::MAX {
            w.ssthresh_bytes = w.ssthresh_bytes.max(w.three_quarters());
        }
        let mut cwnd_bytes = w.cwnd_bytes;
        let mut left = idle.saturating_sub(rto);
        while !left.is_zero() && cwnd_bytes > restart_bytes {
            cwnd_bytes = w.whole(u64::from(cwnd_bytes / 2));
            left = left.saturating_sub(rto);
        }
        w.set_cwnd(u64::from(cwnd_bytes.max(restart_bytes)));
    }
}
