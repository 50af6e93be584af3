//! The states of loss recovery (Linux's tcp_fastretrans_alert): Open, Disorder, CWR, Recovery, Loss; NewReno where there is no SACK.

use super::ack::Ack;
use super::deadlines::Timer;
use super::{Connection, Phase};
use crate::congestion::CongestionEvent;
use crate::counters::Counter;
use crate::outbox::Env;

impl Connection {
    /// An acknowledgment that is not just progress.
    pub(super) fn on_dubious_ack(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        if !self.opening.agreed.sack {
            self.count_duplicates(ack);
        }
        // An episode ends when everything that was out at its beginning is acknowledged.
        if self.recovery.phase == Phase::Open {
            self.recovery.retransmit_stamp = self.recovery.retransmit_stamp.filter(|_| self.send.outstanding.retransmitted > 0);
        } else if self.send.una >= self.recovery.high && self.leave_episode(env) {
            return;
        }
        match self.recovery.phase {
            Phase::Recovery => self.during_recovery(env, ack),
            Phase::Loss => self.during_loss(env, ack),
            _ => self.before_recovery(env, ack),
        }
    }

    /// Without SACK every duplicate stands for a segment that arrived (tcp_add_reno_sack): it leaves the pipe, and counts as delivered once.
    fn count_duplicates(&mut self, ack: &mut Ack) {
        let mss = u64::from(self.send.mss);
        let before = self.send.outstanding.duplicate_bytes;
        if ack.advanced {
            // tcp_remove_reno_sacks: "One ACK acked hole. The rest eat duplicate ACKs."
            self.send.outstanding.duplicate_bytes = before.saturating_sub(u64::from(ack.acked).saturating_sub(mss));
            ack.acked = u64::from(ack.acked).saturating_sub(before).max(mss.min(u64::from(ack.acked))) as u32;
        } else if ack.is_duplicate() && !self.send.outstanding.is_empty() {
            self.send.outstanding.duplicate_bytes += mss;
        }
        // What is lost has not arrived: one segment at least is not covered by duplicates.
        let most = self.send.outstanding.bytes.saturating_sub(mss);
        self.send.outstanding.duplicate_bytes = self.send.outstanding.duplicate_bytes.min(most);
        if !ack.advanced {
            ack.sacked = self.send.outstanding.duplicate_bytes.saturating_sub(before) as u32;
        }
        self.recovery.duplicate_acks = self.send.outstanding.duplicate_bytes.div_ceil(mss) as u32;
    }

    /// True: the acknowledgment has been dealt with.
    fn leave_episode(&mut self, env: &mut Env<'_>) -> bool {
        match self.recovery.phase {
            Phase::Cwr => {
                // RFC 3168 §6.1.2: one reduction a window; the mark of the window itself does not count.
                if self.send.una != self.recovery.high {
                    self.end_reduction(env);
                    self.set_phase(Phase::Open);
                }
                false
            }
            Phase::Recovery => {
                if !self.opening.agreed.sack {
                    self.recovery.duplicate_acks = 0;
                    self.send.outstanding.duplicate_bytes = 0;
                }
                if self.undo_recovery(env) {
                    return true;
                }
                self.end_reduction(env);
                self.set_phase(Phase::Open);
                false
            }
            _ => false,
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.recovery.phase = phase;
    }

    /// RFC 6675 §5, RFC 6582 §3.2: an acknowledgment during fast recovery.
    fn during_recovery(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        if ack.advanced {
            if self.send.una < self.recovery.high && self.undo_partially(env, ack) {
                return;
            }
            // RFC 6582 §3.2 step 3: "If this ACK does not acknowledge all of the data …, then this is a partial ACK. In this case, retransmit
            // the first unacknowledged segment."
            if !self.opening.agreed.sack && self.send.una < self.recovery.high {
                ack.lost += self.send.outstanding.mark_front_lost();
            }
        }
        if self.undo_by_duplicate(env) {
            self.set_phase(Phase::Open);
            return;
        }
        self.identify_loss(env, ack);
    }

    /// After a timeout: tcp_process_loss with F-RTO (RFC 5682 §3.1).
    fn during_loss(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        let recovered = self.send.una >= self.recovery.high;
        if (ack.advanced || ack.duplicate) && self.undo_loss(env, false) {
            return;
        }
        if self.recovery.frto {
            // Step 3.b: "If … the acknowledgment … advances the window or SACKs data that was never retransmitted, the timeout was spurious".
            if ack.original_sacked && self.undo_loss(env, true) {
                return;
            }
            if self.send.next > self.recovery.high {
                if ack.sacked > 0 || ack.is_duplicate() {
                    self.recovery.frto = false;
                }
            } else if ack.advanced && !recovered {
                // Step 2.b: send new data and see.
                self.recovery.high = self.send.next;
                if self.send.queue.end() <= self.send.next || !self.send.next_fits() {
                    self.recovery.frto = false;
                }
                return;
            }
        }
        if recovered {
            // RFC 6582 §3.2 step 2: without SACK, duplicates of what this episode repeated must not begin another one: it lasts until more
            // than its end is acknowledged.
            let holds = !self.opening.agreed.sack && self.send.una == self.recovery.high && !self.send.outstanding.is_empty();
            self.undo_recovery(env);
            if self.recovery.phase == Phase::Loss && !holds {
                self.set_phase(Phase::Open);
            }
            return;
        }
        if !self.opening.agreed.sack && ack.advanced {
            self.send.outstanding.mark_front_lost();
        }
        self.identify_loss(env, ack);
    }

    fn before_recovery(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        if self.recovery.phase <= Phase::Disorder {
            self.undo_by_duplicate(env);
        }
        self.identify_loss(env, ack);
        let reno_loss = !self.opening.agreed.sack && self.recovery.duplicate_acks >= self.recovery.reordering;
        if reno_loss && self.send.outstanding.lost == 0 {
            ack.lost += self.send.outstanding.mark_front_lost();
        }
        if self.send.outstanding.lost > 0 && self.take_mtu_probe_loss(env) {
            return;
        }
        if self.send.outstanding.lost > 0 {
            self.enter_recovery(env, ack.prior_in_flight, ack.ece);
        } else if self.recovery.phase != Phase::Cwr {
            self.stay_open(env, ack);
        }
    }

    /// tcp_try_to_open.
    fn stay_open(&mut self, env: &mut Env<'_>, ack: &Ack) {
        if self.send.outstanding.retransmitted == 0 {
            self.recovery.retransmit_stamp = None;
        }
        let trouble =
            self.send.outstanding.sacked > 0 || self.send.outstanding.duplicate_bytes > 0 || self.send.outstanding.retransmitted > 0;
        let phase = if trouble { Phase::Disorder } else { Phase::Open };
        if self.recovery.phase != phase {
            self.recovery.high = self.send.next;
            self.set_phase(phase);
        }
        if ack.ece {
            self.enter_reduction(env, ack.prior_in_flight);
        }
    }

    fn identify_loss(&mut self, env: &mut Env<'_>, ack: &mut Ack) {
        if !self.opening.agreed.sack {
            return;
        }
        if self.recovery.rack.advanced {
            self.recovery.rack.advanced = false;
            ack.lost = ack.lost.saturating_add(self.detect_loss(env));
        }
    }

    /// Fast recovery begins: RFC 5681 §3.2 step 2, RFC 6675 §5 step 4.
    pub(super) fn enter_recovery(&mut self, env: &mut Env<'_>, in_flight: u32, ece: bool) {
        env.count(if self.opening.agreed.sack { Counter::TCPSackRecovery } else { Counter::TCPRenoRecovery });
        if self.recovery.phase == Phase::Loss {
            return;
        }
        self.recovery.undo_marker = None;
        self.recovery.undo_retransmissions = None;
        let reducing = self.recovery.phase == Phase::Cwr;
        if !reducing || !self.recovery.prr.is_active() {
            if !ece {
                self.recovery.undo_marker = Some(self.send.una);
            }
            self.control.on_event(env.now, CongestionEvent::Loss, in_flight);
            self.control.cwr_due |= self.opening.agreed.ecn;
            self.begin_prr(in_flight);
        }
        self.recovery.high = self.send.next;
        self.recovery.retransmit_stamp = None;
        self.set_phase(Phase::Recovery);
    }

    pub(super) fn begin_prr(&mut self, in_flight: u32) {
        self.recovery.tlp_high = None;
        self.recovery.prr_allowed = 0;
        if !self.control.algorithm.owns_recovery() {
            self.recovery.prr.enter(in_flight, self.control.window.ssthresh_bytes, self.send.mss);
        }
    }

    /// The window is where it shall be.
    fn end_reduction(&mut self, env: &mut Env<'_>) {
        if self.recovery.prr.is_active() || self.control.algorithm.owns_recovery() {
            self.recovery.prr.exit();
            self.control.on_event(env.now, CongestionEvent::RecoveryDone, self.send.in_flight());
            self.recovery.rack.recovery_ended();
        }
        self.recovery.prr_allowed = 0;
    }

    /// RFC 6298 §5: the retransmission timer has expired (tcp_enter_loss).
    pub(super) fn enter_loss(&mut self, env: &mut Env<'_>) {
        let in_flight = self.send.in_flight();
        // RFC 2018 §8: "If the data receiver has discarded … the sender … MUST … turn off all of the SACKed bits".
        let reneging = self.send.outstanding.front().is_some_and(|sent| sent.sacked);
        if reneging {
            env.count(Counter::TCPSACKReneging);
            self.send.outstanding.renege();
        }
        let fresh = self.recovery.phase < Phase::Recovery;
        match self.recovery.phase {
            Phase::Recovery => env.count(Counter::TCPSackFailures),
            Phase::Loss => env.count(Counter::TCPLossFailures),
            _ => {}
        }
        self.recovery.duplicate_acks = 0;
        if !self.opening.agreed.sack {
            self.send.outstanding.duplicate_bytes = 0;
        }
        // tcp_timeout_mark_lost: "Don't mark recently sent ones lost yet", but the first.
        let (now, rtt) = (env.now, self.recovery.rack.rtt);
        self.send.outstanding.mark_timed_out(|sent| !reneging && sent.sent_at + rtt > now);
        // RFC 5681 §3.1: "when a TCP sender detects segment loss using the retransmission timer and the given segment has not yet been resent
        // …, the value of ssthresh MUST be set"; again only when there was progress since.
        if fresh || self.send.una > self.recovery.high || (self.recovery.phase == Phase::Loss && self.recovery.timeouts == 0) {
            self.recovery.undo_marker = Some(self.send.una);
            self.recovery.undo_retransmissions = None;
            self.totals.timeout_recoveries = self.totals.timeout_recoveries.wrapping_add(1);
            self.control.on_event(env.now, CongestionEvent::Timeout, in_flight);
        } else {
            self.control.window.cwnd_bytes = self.send.mss;
            if self.recovery.prr.is_active() || self.control.algorithm.owns_recovery() {
                self.control.on_event(env.now, CongestionEvent::Timeout, in_flight);
            }
        }
        // tcp_enter_loss: "tcp_packets_in_flight(tp) + 1".
        self.control.window.set_cwnd(u64::from(self.send.in_flight()) + u64::from(self.send.mss));
        self.recovery.prr.exit();
        self.recovery.prr_allowed = 0;
        // RFC 5682: only when nothing was retransmitted before, or there was progress since.
        self.recovery.frto =
            env.config.frto && self.opening.agreed.sack && (fresh || self.send.una > self.recovery.high) && self.recovery.timeouts == 0;
        self.set_phase(Phase::Loss);
        self.recovery.high = self.send.next;
        self.recovery.tlp_high = None;
        self.control.cwr_due |= self.opening.agreed.ecn;
        self.timers.cancel(Timer::Reorder);
        self.timers.cancel(Timer::Probe);
    }

    /// A router says that the packet was too long: what is longer goes again, in shorter segments, and this is no congestion
    /// (tcp_simple_retransmit; RFC 1191 §6.5).
    pub(super) fn retransmit_narrower(&mut self, env: &mut Env<'_>) {
        if self.send.outstanding.mark_longer_lost(self.send.mss) > 0 {
            if self.recovery.phase < Phase::Recovery {
                self.recovery.high = self.send.next;
                self.set_phase(Phase::Loss);
                self.recovery.undo_marker = None;
            }
            self.transmit(env);
        }
    }
}
