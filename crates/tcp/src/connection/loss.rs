//! Finding losses by time (RFC 8985).

use super::deadlines::Timer;
use super::outstanding::Sent;
use super::{Connection, Phase};
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Duration;

impl Connection {
    /// RFC 8985 §6.2 step 4: RACK_update_reo_wnd().
    fn reorder_window(&self) -> Duration {
        if self.recovery.reordering_seen == 0 {
            // "If no reordering has been observed … RACK.reo_wnd is zero in loss recovery or when DupThresh segments were sacked": this is where
            // RFC 6675's rule lives on.
            if self.recovery.phase >= Phase::Recovery || self.send.outstanding.sacked >= self.recovery.reordering {
                return Duration::ZERO;
            }
        }
        let quarter = self.recovery.rtt.min_rtt().unwrap_or_default() / 4 * self.recovery.rack.window_steps;
        quarter.min(self.recovery.rtt.srtt().unwrap_or(quarter))
    }

    /// RFC 8985 §6.2 step 5: RACK_detect_loss(). Returns the bytes that became lost.
    pub(super) fn detect_loss(&mut self, env: &mut Env<'_>) -> u32 {
        let grace = self.recovery.rack.rtt + self.reorder_window();
        let (now, newest) = (env.now, self.recovery.rack.newest);
        let counters = &mut env.out.counters;
        let overdue = |sent: &Sent| Some(sent.sent_at + grace).filter(|at| *at > now);
        let (lost, next) = self.send.outstanding.detect_lost(newest, overdue, |sent| {
            if sent.retransmitted {
                counters.add(Counter::TCPLostRetransmit, 1);
            }
        });
        match next {
            Some(at) => self.timers.set(Timer::Reorder, at),
            None => self.timers.cancel(Timer::Reorder),
        }
        lost
    }

    /// The reordering timer: what did not come by now is lost.
    pub(super) fn on_reorder_timer(&mut self, env: &mut Env<'_>) {
        let in_flight = self.send.in_flight();
        let lost = self.detect_loss(env);
        if self.send.in_flight() != in_flight {
            if self.recovery.phase != Phase::Recovery {
                self.enter_recovery(env, in_flight, false);
                // tcp_rack_reo_timeout: "tcp_cwnd_reduction(sk, 1, 0)", as if one segment had been delivered.
                self.recovery.prr_allowed = self.recovery.prr.on_ack(self.send.mss, lost, self.send.in_flight(), false);
            } else {
                // In a recovery the window stays, and what is lost is not in flight any more.
                self.recovery.prr_allowed = self.recovery.prr_allowed.saturating_add(lost);
            }
            self.transmit(env);
        }
        self.arm_retransmission(env, true);
    }
}
