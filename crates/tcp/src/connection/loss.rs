//! Finding losses by time (RFC 8985).

use super::deadlines::Timer;
use super::outstanding::Sent;
use super::recovery::{Lent, Recovery};
use crate::congestion::Phase;
use crate::counters::Counter;
use crate::outbox::Env;
use weft_core::Duration;

impl Recovery {
    /// RFC 8985 §6.2 step 4: RACK_update_reo_wnd().
    fn reorder_window(&self, lent: &Lent<'_>) -> Duration {
        if self.reordering_seen == 0 {
            // "If no reordering has been observed … RACK.reo_wnd is zero in loss recovery or when DupThresh segments were sacked": this is where
            // RFC 6675's rule lives on.
            if self.phase >= Phase::Recovery || lent.send.outstanding.sacked >= self.reordering {
                return Duration::ZERO;
            }
        }
        self.rack.window(self.rtt.min_rtt(), self.rtt.srtt())
    }

    /// RFC 8985 §6.2 step 5: RACK_detect_loss(). Returns the bytes that became lost.
    pub(super) fn detect_loss(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> u32 {
        let grace = self.rack.rtt + self.reorder_window(lent);
        let (now, newest) = (env.now, self.rack.newest);
        let counters = &mut env.out.counters;
        let overdue = |sent: &Sent| Some(sent.sent_at + grace).filter(|at| *at > now);
        let (lost, next) = lent.send.outstanding.detect_lost(newest, overdue, |sent| {
            if sent.retransmitted {
                counters.add(Counter::TCPLostRetransmit, 1);
            }
        });
        match next {
            Some(at) => lent.timers.set(Timer::Reorder, at),
            None => lent.timers.cancel(Timer::Reorder),
        }
        lost
    }

    /// The reordering timer: what did not come by now is lost. True: something is to be sent again.
    pub(super) fn on_reorder_timer(&mut self, lent: &mut Lent<'_>, env: &mut Env<'_>) -> bool {
        let in_flight = lent.send.in_flight();
        let lost = self.detect_loss(lent, env);
        if lent.send.in_flight() == in_flight {
            return false;
        }
        if self.phase != Phase::Recovery {
            self.enter_recovery(lent, env, in_flight, false);
            // tcp_rack_reo_timeout: "tcp_cwnd_reduction(sk, 1, 0)", as if one segment had been delivered.
            self.prr_allowed = self.prr.on_ack(lent.send.mss, lost, lent.send.in_flight(), false);
        } else {
            // In a recovery the window stays, and what is lost is not in flight any more.
            self.prr_allowed = self.prr_allowed.saturating_add(lost);
        }
        true
    }
}
