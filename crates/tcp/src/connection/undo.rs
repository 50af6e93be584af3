//! Taking a reduction back when it turns out that nothing was lost: by timestamps (Eifel, RFC 3522), by DSACK (RFC 3708), by F-RTO.

use super::ack::Ack;
use super::recovery::{Lent, Recovery};
use crate::congestion::{CongestionEvent, Phase};
use crate::counters::Counter;
use crate::outbox::Env;

impl Recovery {
    /// tcp_packet_delayed: the acknowledgment echoes a timestamp from before the first retransmission, so the original arrived.
    fn original_arrived(&self, lent: &Lent<'_>) -> bool {
        match self.retransmit_stamp {
            // Nothing was retransmitted: the reduction was without cause.
            None => true,
            Some(at) => {
                let echo = lent.last_echo;
                lent.opening.agreed.timestamps && echo != 0 && (echo.wrapping_sub(lent.opening.timestamp(at)) as i32) < 0
            }
        }
    }

    /// tcp_may_undo.
    fn may_undo(&self, lent: &Lent<'_>) -> bool {
        self.undo_marker.is_some() && (self.undo_retransmissions == Some(0) || self.original_arrived(lent))
    }

    fn undo_reduction(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, unmark: bool) {
        if unmark {
            lent.send.outstanding.unmark_lost();
        }
        self.prr.exit();
        self.prr_allowed = 0;
        lent.control.on_event(env.now, CongestionEvent::Undo, lent.send.in_flight());
        lent.control.cwr_due = false;
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    /// At the end of an episode. True: stay for now.
    pub(super) fn undo_recovery(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> bool {
        if self.may_undo(lent) {
            env.count(if self.phase == Phase::Loss { Counter::TCPLossUndo } else { Counter::TCPFullUndo });
            self.undo_reduction(lent, env, false);
        }
        // RFC 6582 §6: without SACK the episode is kept until something above its end is acknowledged, against false retransmissions.
        if lent.send.una == self.high && !lent.opening.agreed.sack {
            if !self.prr.is_active() && self.phase == Phase::Recovery {
                self.set_phase(Phase::Open);
                return false;
            }
            return !lent.send.outstanding.is_empty() && self.phase == Phase::Recovery;
        }
        if self.phase == Phase::Loss || !self.prr.is_active() {
            self.set_phase(Phase::Open);
        }
        false
    }

    /// Every retransmission was reported as a duplicate.
    pub(super) fn undo_by_duplicate(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> bool {
        if self.undo_marker.is_some() && self.undo_retransmissions == Some(0) {
            env.count(Counter::TCPDSACKUndo);
            self.undo_reduction(lent, env, false);
            return true;
        }
        false
    }

    /// A partial acknowledgment that the original transmission caused. True: nothing to repair now.
    pub(super) fn undo_partially(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, ack: &Ack) -> bool {
        if self.undo_marker.is_none() || !self.original_arrived(lent) || self.retransmit_stamp.is_none() {
            return false;
        }
        // Reordering it was: remember how much.
        let segments = ((lent.send.next - ack.prior_una) as u32).div_ceil(lent.send.mss.max(1));
        self.reordering = self.reordering.max(segments.min(300));
        self.reordering_seen += 1;
        if lent.send.outstanding.retransmitted > 0 {
            return true;
        }
        env.count(Counter::TCPPartialUndo);
        self.undo_reduction(lent, env, true);
        self.set_phase(Phase::Open);
        true
    }

    /// tcp_try_undo_loss.
    pub(super) fn undo_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo(lent) {
            return false;
        }
        env.count(Counter::TCPLossUndo);
        if by_frto {
            env.count(Counter::TCPSpuriousRTOs);
        }
        self.undo_reduction(lent, env, true);
        self.timeouts = 0;
        self.frto = false;
        if by_frto || lent.opening.agreed.sack {
            self.set_phase(Phase::Open);
        }
        true
    }
}
