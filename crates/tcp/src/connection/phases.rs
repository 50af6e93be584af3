//! The states of loss recovery (Linux's tcp_fastretrans_alert): Open, Disorder, CWR, Recovery, Loss; NewReno where there is no SACK.

use super::ack::Ack;
use super::deadlines::Timer;
use super::recovery::{Lent, Recovery};
use crate::congestion::{CongestionEvent, Phase};
use crate::counters::Counter;
use crate::outbox::Env;

impl Recovery {
    /// An acknowledgment that is not just progress. True: what was marked has to leave at once, in shorter segments.
    pub(super) fn on_dubious_ack(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &mut Ack) -> bool {
        if !lent.opening.agreed.sack {
            self.count_duplicates(lent, ack);
        }
        // An episode ends when everything that was out at its beginning is acknowledged.
        if self.phase == Phase::Open {
            self.retransmit_stamp = self.retransmit_stamp.filter(|_| lent.send.outstanding.retransmitted > 0);
        } else if lent.send.una >= self.high && self.leave_episode(lent, env) {
            return false;
        }
        match self.phase {
            Phase::Recovery => self.during_recovery(lent, env, ack),
            Phase::Loss => self.during_loss(lent, env, ack),
            _ => return self.before_recovery(lent, env, ack),
        }
        false
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Without SACK every duplicate stands for a segment that arrived (tcp_add_reno_sack): it leaves the pipe, and counts as delivered once.
    fn count_duplicates(&mut self, lent: &mut Lent<'_>, ack: &mut Ack) {
        let mss = u64::from(lent.send.mss);
        let before = lent.send.outstanding.duplicate_bytes;
        if ack.advanced {
            // tcp_remove_reno_sacks: "One ACK acked hole. The rest eat duplicate ACKs."
            lent.send.outstanding.duplicate_bytes = before.saturating_sub(u64::from(ack.acked).saturating_sub(mss));
            ack.acked = u64::from(ack.acked).saturating_sub(before).max(mss.min(u64::from(ack.acked))) as u32;
        } else if ack.is_duplicate() && !lent.send.outstanding.is_empty() {
            lent.send.outstanding.duplicate_bytes += mss;
        }
        // What is lost has not arrived: one segment at least is not covered by duplicates.
        let most = lent.send.outstanding.bytes.saturating_sub(mss);
        lent.send.outstanding.duplicate_bytes = lent.send.outstanding.duplicate_bytes.min(most);
        if !ack.advanced {
            ack.sacked = lent.send.outstanding.duplicate_bytes.saturating_sub(before) as u32;
        }
        self.duplicate_acks = lent.send.outstanding.duplicate_bytes.div_ceil(mss) as u32;
    }

    /// True: the acknowledgment has been dealt with.
    fn leave_episode(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> bool {
        match self.phase {
            Phase::Cwr => {
                // RFC 3168 §6.1.2: one reduction a window; the mark of the window itself does not count.
                if lent.send.una != self.high {
                    self.end_reduction(lent, env);
                    self.set_phase(Phase::Open);
                }
                false
            }
            Phase::Recovery => {
                if !lent.opening.agreed.sack {
                    self.duplicate_acks = 0;
                    lent.send.outstanding.duplicate_bytes = 0;
                }
                if self.undo_recovery(lent, env) {
                    return true;
                }
                self.end_reduction(lent, env);
                self.set_phase(Phase::Open);
                false
            }
            _ => false,
        }
    }

    /// RFC 6675 §5, RFC 6582 §3.2: an acknowledgment during fast recovery.
    fn during_recovery(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &mut Ack) {
        if ack.advanced {
            if lent.send.una < self.high && self.undo_partially(lent, env, ack) {
                return;
            }
            // RFC 6582 §3.2 step 3: "If this ACK does not acknowledge all of the data …, then this is a partial ACK. In this case, retransmit
            // the first unacknowledged segment."
            if !lent.opening.agreed.sack && lent.send.una < self.high {
                ack.lost += lent.send.outstanding.mark_front_lost();
            }
        }
        if self.undo_by_duplicate(lent, env) {
            self.set_phase(Phase::Open);
            return;
        }
        self.identify_loss(lent, env, ack);
    }

    /// After a timeout: tcp_process_loss with F-RTO (RFC 5682 §3.1).
    fn during_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &mut Ack) {
        let recovered = lent.send.una >= self.high;
        if (ack.advanced || ack.duplicate) && self.undo_loss(lent, env, false) {
            return;
        }
        if self.frto {
            // Step 3.b: "If … the acknowledgment … advances the window or SACKs data that was never retransmitted, the timeout was spurious".
            if ack.original_sacked && self.undo_loss(lent, env, true) {
                return;
            }
            if lent.send.next > self.high {
                if ack.sacked > 0 || ack.is_duplicate() {
                    self.frto = false;
                }
            } else if ack.advanced && !recovered {
                // Step 2.b: send new data and see.
                self.high = lent.send.next;
                if lent.send.queue.end() <= lent.send.next || !lent.send.next_fits() {
                    self.frto = false;
                }
                return;
            }
        }
        if recovered {
            // RFC 6582 §3.2 step 2: without SACK, duplicates of what this episode repeated must not begin another one: it lasts until more
            // than its end is acknowledged.
            let holds = !lent.opening.agreed.sack && lent.send.una == self.high && !lent.send.outstanding.is_empty();
            self.undo_recovery(lent, env);
            if self.phase == Phase::Loss && !holds {
                self.set_phase(Phase::Open);
            }
            return;
        }
        if !lent.opening.agreed.sack && ack.advanced {
            lent.send.outstanding.mark_front_lost();
        }
        self.identify_loss(lent, env, ack);
    }

    fn before_recovery(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &mut Ack) -> bool {
        if self.phase <= Phase::Disorder {
            self.undo_by_duplicate(lent, env);
        }
        self.identify_loss(lent, env, ack);
        let reno_loss = !lent.opening.agreed.sack && self.duplicate_acks >= self.reordering;
        if reno_loss && lent.send.outstanding.lost == 0 {
            ack.lost += lent.send.outstanding.mark_front_lost();
        }
        if lent.send.outstanding.lost > 0
            && let Some(leaves) = self.take_mtu_probe_loss(lent, env)
        {
            return leaves;
        }
        if lent.send.outstanding.lost > 0 {
            self.enter_recovery(lent, env, ack.prior_in_flight, ack.ece);
        } else if self.phase != Phase::Cwr {
            self.stay_open(lent, env, ack);
        }
        false
    }

    /// tcp_try_to_open.
    fn stay_open(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &Ack) {
        if lent.send.outstanding.retransmitted == 0 {
            self.retransmit_stamp = None;
        }
        let trouble =
            lent.send.outstanding.sacked > 0 || lent.send.outstanding.duplicate_bytes > 0 || lent.send.outstanding.retransmitted > 0;
        let phase = if trouble { Phase::Disorder } else { Phase::Open };
        if self.phase != phase {
            self.high = lent.send.next;
            self.set_phase(phase);
        }
        if ack.ece {
            self.enter_reduction(lent, env, ack.prior_in_flight);
        }
    }

    fn identify_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &mut Ack) {
        if !lent.opening.agreed.sack {
            return;
        }
        if self.rack.advanced {
            self.rack.advanced = false;
            ack.lost = ack.lost.saturating_add(self.detect_loss(lent, env));
        }
    }

    /// Fast recovery begins: RFC 5681 §3.2 step 2, RFC 6675 §5 step 4.
    pub(super) fn enter_recovery(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, in_flight: u32, ece: bool) {
        env.count(if lent.opening.agreed.sack { Counter::TCPSackRecovery } else { Counter::TCPRenoRecovery });
        if self.phase == Phase::Loss {
            return;
        }
        self.undo_marker = None;
        self.undo_retransmissions = None;
        let reducing = self.phase == Phase::Cwr;
        if !reducing || !self.prr.is_active() {
            if !ece {
                self.undo_marker = Some(lent.send.una);
            }
            lent.control.on_event(env.now, CongestionEvent::Loss, in_flight);
            lent.control.cwr_due |= lent.opening.agreed.ecn;
            self.begin_prr(lent, in_flight);
        }
        self.high = lent.send.next;
        self.retransmit_stamp = None;
        self.set_phase(Phase::Recovery);
    }

    /// RFC 3168 §6.1.2: "The sender … SHOULD … react to congestion at most once per window of data (i.e., at most once per round-trip time)."
    pub(super) fn enter_reduction(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, in_flight: u32) {
        if self.phase >= Phase::Cwr {
            return;
        }
        self.undo_marker = None;
        lent.control.on_event(env.now, CongestionEvent::Ecn, in_flight);
        self.phase = Phase::Cwr;
        self.high = lent.send.next;
        lent.control.cwr_due = true;
        self.begin_prr(lent, in_flight);
    }

    pub(super) fn begin_prr(&mut self, lent: &mut Lent<'_>, in_flight: u32) {
        self.tlp_high = None;
        self.prr_allowed = 0;
        if !lent.control.algorithm.owns_recovery() {
            self.prr.enter(in_flight, lent.control.window.ssthresh_bytes, lent.send.mss);
        }
    }

    /// The window is where it shall be.
    fn end_reduction(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) {
        if self.prr.is_active() || lent.control.algorithm.owns_recovery() {
            self.prr.exit();
            lent.control.on_event(env.now, CongestionEvent::RecoveryDone, lent.send.in_flight());
            self.rack.recovery_ended();
        }
        self.prr_allowed = 0;
    }

    /// RFC 6298 §5: the retransmission timer has expired (tcp_enter_loss).
    pub(super) fn enter_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) {
        let in_flight = lent.send.in_flight();
        // RFC 2018 §8: "If the data receiver has discarded … the sender … MUST … turn off all of the SACKed bits".
        let reneging = lent.send.outstanding.front().is_some_and(|sent| sent.sacked);
        if reneging {
            env.count(Counter::TCPSACKReneging);
            lent.send.outstanding.renege();
        }
        let fresh = self.phase < Phase::Recovery;
        match self.phase {
            Phase::Recovery => env.count(Counter::TCPSackFailures),
            Phase::Loss => env.count(Counter::TCPLossFailures),
            _ => {}
        }
        self.duplicate_acks = 0;
        if !lent.opening.agreed.sack {
            lent.send.outstanding.duplicate_bytes = 0;
        }
        // tcp_timeout_mark_lost: "Don't mark recently sent ones lost yet", but the first.
        let (now, rtt) = (env.now, self.rack.rtt);
        lent.send.outstanding.mark_timed_out(|sent| !reneging && sent.sent_at + rtt > now);
        // RFC 5681 §3.1: "when a TCP sender detects segment loss using the retransmission timer and the given segment has not yet been resent
        // …, the value of ssthresh MUST be set"; again only when there was progress since.
        if fresh || lent.send.una > self.high || (self.phase == Phase::Loss && self.timeouts == 0) {
            self.undo_marker = Some(lent.send.una);
            self.undo_retransmissions = None;
            lent.totals.timeout_recoveries = lent.totals.timeout_recoveries.wrapping_add(1);
            lent.control.on_event(env.now, CongestionEvent::Timeout, in_flight);
        } else {
            lent.control.window.cwnd_bytes = lent.send.mss;
            if self.prr.is_active() || lent.control.algorithm.owns_recovery() {
                lent.control.on_event(env.now, CongestionEvent::Timeout, in_flight);
            }
        }
        // tcp_enter_loss: "tcp_packets_in_flight(tp) + 1".
        lent.control.window.set_cwnd(u64::from(lent.send.in_flight()) + u64::from(lent.send.mss));
        self.prr.exit();
        self.prr_allowed = 0;
        // RFC 5682: only when nothing was retransmitted before, or there was progress since.
        self.frto = env.config.frto && lent.opening.agreed.sack && (fresh || lent.send.una > self.high) && self.timeouts == 0;
        self.set_phase(Phase::Loss);
        self.high = lent.send.next;
        self.tlp_high = None;
        lent.control.cwr_due |= lent.opening.agreed.ecn;
        lent.timers.cancel(Timer::Reorder);
        lent.timers.cancel(Timer::Probe);
    }

    /// A router says that the packet was too long: what is longer goes again, in shorter segments, and this is no congestion
    /// (tcp_simple_retransmit; RFC 1191 §6.5). True: there is something to send.
    pub(super) fn retransmit_narrower(&mut self, lent: &mut Lent<'_>) -> bool {
        let longer = lent.send.outstanding.mark_longer_lost(lent.send.mss) > 0;
        if longer && self.phase < Phase::Recovery {
            self.high = lent.send.next;
            self.set_phase(Phase::Loss);
            self.undo_marker = None;
        }
        longer
    }

    /// Loss was found: of nothing but the probe? Then the path is narrow and not congested (tcp_mtup_probe_failed). Some: dealt with, and
    /// whether there is something to send.
    pub(super) fn take_mtu_probe_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> Option<bool> {
        let start = lent.path_mtu.probe_start()?;
        if self.phase >= Phase::Cwr || lent.send.una != start {
            return None;
        }
        lent.path_mtu.probe_lost();
        env.count(Counter::TCPMTUPFail);
        Some(self.retransmit_narrower(lent))
    }
}
