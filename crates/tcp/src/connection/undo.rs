//! Taking a reduction back when it turns out that nothing was lost: by timestamps (Eifel, RFC 3522), by DSACK (RFC 3708), by F-RTO.

use super::ack::Ack;
use super::{Connection, Phase};
use crate::congestion::CongestionEvent;
use crate::counters::Counter;
use crate::outbox::Env;

impl Connection {
    /// tcp_packet_delayed: the acknowledgment echoes a timestamp from before the first retransmission, so the original arrived.
    fn original_arrived(&self) -> bool {
        match self.recovery.retransmit_stamp {
            // Nothing was retransmitted: the reduction was without cause.
            None => true,
            Some(at) => {
                let echo = self.receive.last_echo_seen;
                self.opening.agreed.timestamps && echo != 0 && (echo.wrapping_sub(self.opening.timestamp(at)) as i32) < 0
            }
        }
    }
    /// tcp_may_undo.
    fn may_undo(&self) -> bool {
        self.recovery.undo_marker.is_some() && (self.recovery.undo_retransmissions == Some(0) || self.original_arrived())
    }

    fn undo_reduction(&mut self, env: &mut Env<'_>, unmark: bool) {
        if unmark {
            self.send.outstanding.unmark_lost();
        }
        self.recovery.prr.exit();
        self.recovery.prr_allowed = 0;
        self.control.on_event(env.now, CongestionEvent::Undo, self.send.in_flight());
        self.control.cwr_due = false;
        self.recovery.undo_marker = None;
        self.recovery.rack.advanced = true;
    }

    /// At the end of an episode. True: stay for now.
    pub(super) fn undo_recovery(&mut self, env: &mut Env<'_>) -> bool {
        if self.may_undo() {
            env.count(if self.recovery.phase == Phase::Loss { Counter::TCPLossUndo } else { Counter::TCPFullUndo });
            self.undo_reduction(env, false);
        }
        // RFC 6582 §6: without SACK the episode is kept until something above its end is acknowledged, against false retransmissions.
        if self.send.una == self.recovery.high && !self.opening.agreed.sack {
            if !self.recovery.prr.is_active() && self.recovery.phase == Phase::Recovery {
                self.set_phase(Phase::Open);
                return false;
            }
            return !self.send.outstanding.is_empty() && self.recovery.phase == Phase::Recovery;
        }
        if self.recovery.phase == Phase::Loss || !self.recovery.prr.is_active() {
            self.set_phase(Phase::Open);
        }
        false
    }

    /// Every retransmission was reported as a duplicate.
    pub(super) fn undo_by_duplicate(&mut self, env: &mut Env<'_>) -> bool {
        if self.recovery.undo_marker.is_some() && self.recovery.undo_retransmissions == Some(0) {
            env.count(Counter::TCPDSACKUndo);
            self.undo_reduction(env, false);
            return true;
        }
        false
    }

    /// A partial acknowledgment that the original transmission caused. True: nothing to repair now.
    pub(super) fn undo_partially(&mut self, env: &mut Env<'_>, ack: &Ack) -> bool {
        if self.recovery.undo_marker.is_none() || !self.original_arrived() || self.recovery.retransmit_stamp.is_none() {
            return false;
        }
        // Reordering it was: remember how much.
        let segments = ((self.send.next - ack.prior_una) as u32).div_ceil(self.send.mss.max(1));
        self.recovery.reordering = self.recovery.reordering.max(segments.min(300));
        self.recovery.reordering_seen += 1;
        if self.send.outstanding.retransmitted > 0 {
            return true;
        }
        env.count(Counter::TCPPartialUndo);
        self.undo_reduction(env, true);
        self.set_phase(Phase::Open);
        true
    }

    /// tcp_try_undo_loss.
    pub(super) fn undo_loss(&mut self, env: &mut Env<'_>, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        env.count(Counter::TCPLossUndo);
        if by_frto {
            env.count(Counter::TCPSpuriousRTOs);
        }
        self.undo_reduction(env, true);
        self.recovery.timeouts = 0;
        self.recovery.frto = false;
        if by_frto || self.opening.agreed.sack {
            self.set_phase(Phase::Open);
        }
        true
    }
}
